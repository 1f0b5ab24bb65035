//! What Go reads beside product code: `go.mod`, `go.work`, and what a source file declares for its whole package.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tree::TreePath;

use super::keys::Keys;
use super::{finding, shown_list};
use crate::protocol::{FenceFinding, FenceVerdict};

/// Names that every Go file may use without declaring them, and that a verdict is made of. A package that declares one
/// changes what its tests say. Others (`min`, `max`, `clear`, `copy`, `any`, …) are declared by honest packages.
const PREDECLARED: &[&str] = &[
    "bool", "byte", "error", "false", "float32", "float64", "int", "int8", "int16", "int32", "int64", "iota",
    "len", "nil", "panic", "recover", "rune", "string", "true", "uint", "uint8", "uint16", "uint32",
    "uint64",
];

/// The function of a test file that runs in place of all tests of its directory, and decides the exit code (43). An
/// `init` runs before them too, but product code can have one as well.
const AROUND_TESTS: &str = "TestMain";

// ---- go.mod and go.work

pub(super) fn go_mod(text: &str) -> Keys {
    let lines = directives(text);
    let mut keys = Keys::default();
    let required: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line[0] == "require")
        .filter_map(|line| line.get(1))
        .map(String::as_str)
        .collect();
    for module in &required {
        keys.groups.insert(format!("replace {module}"), BTreeMap::new());
    }
    for line in &lines {
        let rest = line[1..].join(" ");
        match line[0].as_str() {
            // Which versions are used is ordinary, and so is what may be run as a tool.
            "require" | "retract" | "tool" => {}
            "go" => {
                keys.noted.insert("go".to_owned(), rest);
            }
            "replace" => replace(&mut keys, &line[1..], |module| required.contains(module)),
            // `toolchain`, `exclude`, `godebug`, `ignore`, `module`, and what a later Go may add.
            verb => add(&mut keys, verb, &rest),
        }
    }
    keys
}

pub(super) fn go_work(text: &str) -> Keys {
    let mut keys = Keys::default();
    // A workspace that is new changes what every module in it is built from.
    keys.exact.insert("go.work".to_owned(), "is there".to_owned());
    for line in directives(text) {
        let rest = line[1..].join(" ");
        match line[0].as_str() {
            "use" => {
                keys.keep.insert(format!("use {rest}"));
            }
            "go" => {
                keys.noted.insert("go".to_owned(), rest);
            }
            "replace" => replace(&mut keys, &line[1..], |_| false),
            verb => add(&mut keys, verb, &rest),
        }
    }
    keys
}

/// Where a module that the base requires comes from may not change (70); a module that is new may come from anywhere.
fn replace(keys: &mut Keys, words: &[String], is_required: impl Fn(&str) -> bool) {
    let Some(module) = words.first() else { return };
    let target = words.iter().skip_while(|word| *word != "=>").skip(1).cloned().collect::<Vec<_>>().join(" ");
    let version = words.get(1).filter(|word| *word != "=>").cloned().unwrap_or_default();
    let name = format!("replace {module}");
    if is_required(module) {
        keys.groups.entry(name).or_default().insert(format!("to {version}"), target);
    } else {
        add(keys, &format!("{name} {version}"), &target);
    }
}

fn add(keys: &mut Keys, name: &str, value: &str) {
    let values = keys.exact.entry(name.to_owned()).or_default();
    values.push_str(value);
    values.push('\n');
}

/// Each line with its verb in front; the lines of a block carry the block's verb.
fn directives(text: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut words: Vec<String> =
            line.split_whitespace().map(|word| word.trim_matches(['"', '`']).to_owned()).collect();
        match (&block, words.as_slice()) {
            (_, []) => {}
            (Some(_), [end]) if end == ")" => block = None,
            (Some(verb), _) => {
                words.insert(0, verb.clone());
                out.push(words);
            }
            (None, [verb, open]) if open == "(" => block = Some(verb.clone()),
            (None, [verb]) if verb.ends_with('(') => block = Some(verb.trim_end_matches('(').to_owned()),
            (None, _) => out.push(words),
        }
    }
    out
}

// ---- sources

/// What a Go file declares for its package.
#[derive(Debug, Default)]
struct Declared<'a> {
    functions: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
    imports_testing: bool,
}

/// Compares a Go source. A file that is no Go says nothing: it would not be built.
pub(super) fn compare(path: &TreePath, before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<FenceFinding> {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let (before, after) = (text(before), text(after));
    let (old, new) = (declared(&before), declared(&after));
    let mut out = Vec::new();
    let is_test = path.as_bytes().ends_with(b"_test.go");
    if is_test {
        if new.functions.contains(AROUND_TESTS) {
            out.push(finding(path, FenceVerdict::Planted, "go.test_main", "func TestMain"));
        }
    } else if new.imports_testing && !old.imports_testing {
        out.push(finding(path, FenceVerdict::Note, "go.noted_import", "it imports the package testing"));
    }
    let shadowed: Vec<&str> =
        new.names.difference(&old.names).copied().filter(|n| PREDECLARED.contains(n)).collect();
    if !shadowed.is_empty() {
        out.push(finding(path, FenceVerdict::Tampered, "go.predeclared", &shown_list(&shadowed)));
    }
    out
}

/// One pass over the text: the head of each declaration is read, the rest of it skipped.
fn declared(text: &str) -> Declared<'_> {
    let mut out = Declared::default();
    let mut tokens = Tokens { text, at: 0 }.peekable();
    while let Some(token) = tokens.next() {
        match token {
            "func" => {
                // A receiver in front makes a method, which is no name of the package.
                if let Some(name) = tokens.next_if(|token| is_name(token)) {
                    out.functions.insert(name);
                    out.names.insert(name);
                }
            }
            "var" | "const" | "type" | "import" => {
                let is_group = tokens.next_if_eq(&"(").is_some();
                loop {
                    if token == "import" {
                        while let Some(word) = tokens.next_if(|word| !matches!(*word, "\n" | ";" | ")")) {
                            out.imports_testing |= word.trim_matches(['"', '`']) == "testing";
                        }
                    }
                    while let Some(name) = tokens.next_if(|token| is_name(token)) {
                        out.names.insert(name);
                        if tokens.next_if_eq(&",").is_none() {
                            break;
                        }
                    }
                    let end = skip_statement(&mut tokens);
                    if !is_group || end != Some("\n") {
                        break;
                    }
                }
                // What stands behind a group's `)` on its line declares nothing.
            }
            "\n" | ";" => continue,
            _ => {}
        }
        if tokens.peek().is_some() {
            skip_statement(&mut tokens);
        }
    }
    out
}

/// Goes to the end of a statement, over everything in brackets. The answer is a line's end, or the bracket that closed
/// what the statement stands in.
fn skip_statement<'a>(tokens: &mut std::iter::Peekable<Tokens<'a>>) -> Option<&'a str> {
    let mut depth = 0_usize;
    for token in tokens.by_ref() {
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return Some(token),
            ")" | "]" | "}" => depth -= 1,
            "\n" | ";" if depth == 0 => return Some("\n"),
            _ => {}
        }
    }
    None
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

/// Words, single characters, string literals and line ends; comments are left out.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let rest = self.text.get(self.at..)?;
            let first = rest.chars().next()?;
            let len = match first {
                '\n' => 1,
                c if c.is_whitespace() => {
                    self.at += c.len_utf8();
                    continue;
                }
                '/' if rest.starts_with("//") => {
                    self.at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                '/' if rest.starts_with("/*") => {
                    self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
                    continue;
                }
                '`' => rest[1..].find('`').map_or(rest.len(), |end| end + 2),
                '"' | '\'' => quoted_len(rest, first),
                c if c == '_' || c.is_alphabetic() => {
                    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
                }
                c => c.len_utf8(),
            };
            let token = &rest[..len];
            self.at += len;
            return Some(token);
        }
    }
}

/// The length of a literal that one line holds.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return at,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}
