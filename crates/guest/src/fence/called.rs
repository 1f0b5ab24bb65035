//! Which other files a check's own files name: shell scripts, makefiles and the scripts of a `package.json` of the base.
//!
//! Nothing is run and no variable is known. A wrong word finds no file of the base; the host decides what a name means.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use countersign_tree::TreePath;
use countersign_types::Digest;

use super::depends::depends;
use super::javascript;
use crate::protocol::{CallHow, CalledFile, CalledKind, CalledName};
use crate::shell::{Word, words};

/// Bytes of one file that are read; what stands behind them names nothing.
const MAX_FILE: usize = 1 << 20;
/// Names of one answer.
const MAX_NAMES: usize = 10_000;
/// Commands inside strings.
const MAX_DEPTH: usize = 3;

/// Programs behind which a script stands.
const INTERPRETERS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "ruby", "perl", "env"];

/// Words of the shell in front of a command.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "(", "exec", "eval", "time", "command",
    "sudo",
];

/// Reads files of the base. One that cannot be read names nothing, and its protection does not depend on it.
pub fn called(
    files: &[CalledFile],
    goals: &[String],
    open: &dyn Fn(&Digest) -> io::Result<Vec<u8>>,
) -> Vec<CalledName> {
    let mut out = Vec::new();
    let mut manifests = Vec::new();
    for file in files {
        let Ok(mut bytes) = open(&file.digest) else { continue };
        bytes.truncate(MAX_FILE);
        let text = String::from_utf8_lossy(&bytes);
        let mut names = Names { by: &file.path, out: &mut out };
        match file.kind {
            CalledKind::Script => text.lines().for_each(|line| names.line(line, 0)),
            CalledKind::Makefile => makefile(&text, goals, &mut names),
            CalledKind::PackageJson => {
                for command in javascript::check_commands(&text, goals) {
                    names.line(&command, 0);
                }
            }
            CalledKind::CargoToml
            | CalledKind::NodeDependencies
            | CalledKind::Requirements
            | CalledKind::GoMod => manifests.push((file, text.into_owned())),
        }
    }
    out.extend(depends(&manifests));
    out.truncate(MAX_NAMES);
    out
}

struct Names<'a> {
    by: &'a TreePath,
    out: &'a mut Vec<CalledName>,
}

impl Names<'_> {
    fn push(&mut self, word: &Word, how: CallHow) {
        if self.out.len() < MAX_NAMES && !word.text.is_empty() {
            self.out.push(CalledName { by: self.by.clone(), text: word.text.clone(), wild: word.wild, how });
        }
    }

    /// One line of a shell script: each command of it.
    fn line(&mut self, line: &str, depth: usize) {
        if line.trim_start().starts_with('#') {
            return;
        }
        for command in split_commands(line) {
            let all = words(command);
            let is_prefix =
                |word: &&Word| KEYWORDS.contains(&word.text.as_str()) || is_assignment(&word.text);
            let mut rest = all.iter().skip_while(is_prefix);
            let Some(program) = rest.next() else { continue };
            let name = program.text.rsplit('/').next().unwrap_or_default();
            let mut how = match name {
                "." | "source" => CallHow::Sourced,
                _ if INTERPRETERS.contains(&name) => CallHow::Run,
                _ => CallHow::Word,
            };
            self.push(program, if program.text.contains('/') { CallHow::Run } else { CallHow::Word });
            for word in rest {
                // Options stand in front of a script, and its arguments behind it.
                let is_option = word.text.starts_with('-');
                self.push(word, if is_option { CallHow::Word } else { how });
                // A word may be the tail of one: `. "$(dirname "$0")/lib.sh"`.
                if !is_option && how == CallHow::Run {
                    how = CallHow::Word;
                }
                if depth < MAX_DEPTH && word.text.contains(char::is_whitespace) {
                    self.line(&word.text, depth + 1);
                }
            }
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    })
}

/// Splits at operators outside of quotes.
fn split_commands(line: &str) -> Vec<&str> {
    let (mut out, mut from) = (Vec::new(), 0);
    let mut quote: Option<char> = None;
    let mut is_escaped = false;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') if quote != Some('\'') => is_escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ';' | '&' | '|' | '(' | ')' | '`') => {
                out.push(&line[from..at]);
                from = at + c.len_utf8();
            }
            _ => {}
        }
    }
    out.push(&line[from..]);
    out
}

// ---- make

/// Includes, and the recipes of what the goals need.
fn makefile(text: &str, goals: &[String], names: &mut Names<'_>) {
    let joined = text.replace("\\\n", " ");
    let mut rules: BTreeMap<&str, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
    let mut first: Option<&str> = None;
    let mut open: Vec<&str> = Vec::new();
    for line in joined.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            for target in &open {
                rules.entry(target).or_default().1.push(recipe);
            }
            continue;
        }
        let line = line.split('#').next().unwrap_or_default();
        let mut parts = line.split_whitespace();
        match parts.next() {
            Some(word @ ("include" | "-include" | "sinclude")) => {
                let how = if word == "include" { CallHow::Included } else { CallHow::IncludedIfThere };
                let listed: Vec<Word> =
                    parts.flat_map(|part| words(&part.replace("$(", "${").replace(')', "}"))).collect();
                for word in &listed {
                    names.push(word, how);
                }
                continue;
            }
            None => continue,
            Some(_) => {}
        }
        let Some((targets, rest)) =
            line.split_once(':').filter(|(front, rest)| !rest.starts_with('=') && !front.contains('='))
        else {
            open.clear();
            continue;
        };
        let (needs, recipe) =
            rest.trim_start_matches(':').split_once(';').map_or((rest, None), |(n, r)| (n, Some(r)));
        open = targets.split_whitespace().collect();
        first = first.or_else(|| open.first().copied().filter(|target| !target.starts_with('.')));
        for target in &open {
            let rule = rules.entry(target).or_default();
            rule.0.extend(needs.split_whitespace());
            rule.1.extend(recipe);
        }
    }
    let mut waiting: VecDeque<&str> =
        goals.iter().map(String::as_str).filter(|goal| rules.contains_key(goal)).collect();
    if waiting.is_empty() {
        waiting.extend(first);
    }
    // What a pattern or a variable stands for nobody here can tell.
    waiting.extend(rules.keys().filter(|target| target.contains(['%', '$'])));
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(target) = waiting.pop_front() {
        if !seen.insert(target) {
            continue;
        }
        let Some((needs, recipes)) = rules.get(target) else { continue };
        waiting.extend(needs);
        for need in needs {
            names.push(&Word::literal(need), CallHow::Word);
        }
        for recipe in recipes {
            names.line(&recipe.trim_start_matches(['@', '-', '+', ' ']).replace("$$", "$"), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: CalledKind, text: &str, goals: &[&str]) -> Vec<String> {
        let digest = Digest::of(text.as_bytes());
        let file = CalledFile { path: TreePath::new(&b"f"[..]).unwrap(), kind, digest };
        let goals: Vec<String> = goals.iter().map(|goal| (*goal).to_owned()).collect();
        let found = called(&[file], &goals, &|_| Ok(text.as_bytes().to_vec()));
        found.iter().map(|n| format!("{:?} {}{}", n.how, if n.wild { "~" } else { "" }, n.text)).collect()
    }

    #[test]
    fn a_script_sources_runs_and_names() {
        let text = "#!/bin/sh\nset -eu\n. ./lib.sh\nif source \"$(dirname \"$0\")/more.sh\"; then\n  FOO=1 bash -e scripts/x.sh a.txt | cmp - expected.txt\nfi\n# . ./comment.sh\n./tool.sh && sh -c 'python3 tests/t.py'\n";
        let found = names(CalledKind::Script, text, &[]);
        for expected in [
            "Sourced ./lib.sh",
            "Sourced ~**/more.sh",
            "Run scripts/x.sh",
            "Word a.txt",
            "Word expected.txt",
            "Run ./tool.sh",
            "Run tests/t.py",
        ] {
            assert!(found.iter().any(|name| name == expected), "{expected}: {found:?}");
        }
        assert!(!found.iter().any(|name| name.contains("comment")), "{found:?}");
    }

    #[test]
    fn a_makefile_includes_and_runs_what_its_goals_need() {
        let text = "include rules.mk $(TOP)/more.mk\n-include local.mk\nX := a\nall: build\nbuild: main.c\n\tcc main.c\ntest: build \\\n  prepare\n\t@./run-tests.sh\n\t-sh scripts/lint.sh $$HOME\nprepare: ; cp a b\nrelease:\n\tsh scripts/release.sh\n";
        let found = names(CalledKind::Makefile, text, &["test"]);
        for expected in [
            "Included rules.mk",
            "Included ~**/more.mk",
            "IncludedIfThere local.mk",
            "Run ./run-tests.sh",
            "Run scripts/lint.sh",
            "Word main.c",
            "Word a",
        ] {
            assert!(found.iter().any(|name| name == expected), "{expected}: {found:?}");
        }
        assert!(!found.iter().any(|name| name.contains("release.sh")), "{found:?}");
        let first = names(CalledKind::Makefile, text, &[]);
        assert!(!first.iter().any(|name| name.contains("run-tests")), "{first:?}");
    }

    #[test]
    fn a_packages_scripts_are_followed_from_the_check() {
        let text = r#"{"scripts": {"test": "npm run lint && node scripts/check.js", "lint": "sh ./lint.sh", "build": "sh ./build.sh"}}"#;
        let found = names(CalledKind::PackageJson, text, &["test"]);
        assert!(
            found.contains(&"Run scripts/check.js".to_owned()) && found.contains(&"Run ./lint.sh".to_owned()),
            "{found:?}"
        );
        assert!(!found.iter().any(|name| name.contains("build.sh")), "{found:?}");
        // A script of another name is a part of the check where the check names it.
        let named = names(CalledKind::PackageJson, text, &["build"]);
        assert!(named.contains(&"Run ./build.sh".to_owned()), "{named:?}");
        assert_eq!(names(CalledKind::PackageJson, "{", &[]), Vec::<String>::new());
    }
}
