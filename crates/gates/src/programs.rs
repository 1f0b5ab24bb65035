//! The files of the base that a check's command names: every word of it, read as a path, a pattern or a module.
//!
//! A word is never asked what it is for. The script of an interpreter, the program behind a wrapper (`env`, `timeout`,
//! `xargs`), a list that a tool is given and the expected output of `cmp` are all files that the verdict rests on; a
//! product's file on the command line is the exception, and the contract's scope names it.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tree::{EntryMode, Glob, Manifest, TreePath};
use countersign_types::Digest;

use crate::runner::{base_name, is_python};
use countersign_guest::shell::{Word, plain_words, words};

/// Where the tree stands in every cell.
const WORKSPACE: &str = "/workspace";
/// Directories below which each word is tried.
const MAX_DIRS: usize = 64;
/// Words that are read.
const MAX_WORDS: usize = 4096;
/// Symbolic links that one path may lead through.
const MAX_LINKS: usize = 16;
/// Commands inside strings inside commands.
const MAX_DEPTH: usize = 4;

/// Behind these words stands a directory from which the check, or Python in it, starts.
const START_OPTIONS: &[&str] = &[
    "cd",
    "pushd",
    "-C",
    "--directory",
    "--chdir",
    "--cwd",
    "--prefix",
    "-s",
    "--start-directory",
    "-t",
    "--top-level-directory",
];

/// Programs whose `-e` is source text of their own language and no shell command.
const CODE_PROGRAMS: &[&str] = &["node", "deno", "bun", "perl", "ruby", "lua"];

/// Programs that find `name.js` when they are told `name`.
const JS_PROGRAMS: &[&str] = &["node", "deno", "bun", "tsx", "ts-node"];

/// Endings of shell scripts.
const SHELL_ENDINGS: &[&[u8]] = &[b".sh", b".bash", b".zsh", b".ksh", b".bats"];

/// What the checks' commands name.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Files and links of the base, each with the words that name it.
    pub(crate) files: BTreeMap<TreePath, BTreeSet<String>>,
    /// Directories of the tree where a Python that the check starts may look for modules first.
    pub(crate) import_dirs: BTreeSet<Vec<u8>>,
    /// Directories of the base that a command names.
    pub(crate) dirs: BTreeSet<Vec<u8>>,
    /// Top-level modules of `-m`.
    pub(crate) modules: BTreeSet<String>,
    /// A shell script or an executable of the base runs, and may call anything.
    pub(crate) runs_script: bool,
}

impl Named {
    pub(crate) fn by<'a>(commands: impl Iterator<Item = &'a [String]>, base: &Manifest) -> Self {
        let mut named = Self::default();
        for argv in commands {
            named.add_command(argv, &Links { base });
        }
        named
    }

    fn add_command(&mut self, argv: &[String], links: &Links<'_>) {
        let mut command = Command::default();
        let top: Vec<Word> = argv.iter().map(|arg| Word::literal(arg)).collect();
        command.read(&top, 0);
        command.words.truncate(MAX_WORDS);
        let dirs = command.dirs(links, self);
        self.dirs.extend(dirs.iter().cloned());
        for dir in &dirs {
            for word in &command.words {
                self.add_word(links, dir, word);
            }
            for module in &command.modules {
                let path = module.replace('.', "/");
                for end in [".py", "/__init__.py", "/__main__.py"] {
                    self.add_path(links, dir, &format!("{path}{end}"), module);
                }
            }
            if command.runs(is_python) {
                self.add_path(links, dir, "__main__.py", &String::from_utf8_lossy(dir));
            }
            if command.runs(|name| JS_PROGRAMS.contains(&name)) {
                for word in command.words.iter().filter(|word| !word.wild) {
                    for end in [".js", ".mjs", ".cjs", ".ts", "/index.js"] {
                        self.add_path(links, dir, &format!("{}{end}", word.text), &word.text);
                    }
                }
            }
        }
        self.modules.extend(
            command.modules.iter().map(|module| module.split('.').next().unwrap_or(module).to_owned()),
        );
        for start in &command.starts {
            for dir in &dirs {
                self.import_dirs.extend(links.find(dir, start).dir);
            }
        }
    }

    fn add_word(&mut self, links: &Links<'_>, dir: &[u8], word: &Word) {
        if word.wild {
            for path in links.matches(dir, &word.text) {
                self.add_path(links, b"", &path, &word.text);
            }
        } else {
            self.add_path(links, dir, &word.text, &word.text);
        }
    }

    fn add_path(&mut self, links: &Links<'_>, dir: &[u8], path: &str, word: &str) {
        let found = links.find(dir, path);
        // A directory alone is no program, and the links on the way to it are no part of one.
        let Some(last) = found.file else { return };
        self.runs_script |= last.1 == EntryMode::Executable
            || SHELL_ENDINGS.iter().any(|end| last.0.as_bytes().ends_with(end))
            || !last.0.file_name().contains(&b'.');
        for path in found.links.into_iter().chain([last.0]) {
            self.import_dirs.insert(parent(path.as_bytes()).to_vec());
            self.files.entry(path).or_default().insert(word.to_owned());
        }
    }
}

/// The words of one command, strings inside it included.
#[derive(Default)]
struct Command {
    words: Vec<Word>,
    modules: BTreeSet<String>,
    starts: BTreeSet<String>,
}

impl Command {
    fn runs(&self, program: impl Fn(&str) -> bool) -> bool {
        self.words.iter().any(|word| program(base_name(&word.text)))
    }

    fn read(&mut self, sequence: &[Word], depth: usize) {
        // The option behind which source text stands, while only options follow the program.
        let mut code_options: &[&str] = &[];
        let mut before: &str = "";
        for word in sequence {
            let text = word.text.as_str();
            let name = base_name(text);
            if code_options.contains(&before) {
                before = text;
                continue;
            }
            if is_python(name) {
                code_options = &["-c"];
            } else if CODE_PROGRAMS.contains(&name) {
                code_options = &["-e", "--eval"];
            } else if !text.starts_with('-') {
                code_options = &[];
            }
            if START_OPTIONS.contains(&before) {
                self.starts.insert(text.to_owned());
            }
            if let Some(list) = text.strip_prefix("PYTHONPATH=") {
                self.starts.extend(list.split(':').map(str::to_owned));
            }
            let module = if before == "-m" { Some(text) } else { text.strip_prefix("-m") };
            self.modules.extend(module.filter(|m| is_module(m)).map(str::to_owned));
            self.add(word);
            if depth < MAX_DEPTH && !word.wild {
                let inner = words(text);
                if inner.len() != 1 || inner[0] != *word {
                    self.read(&inner, depth + 1);
                    for plain in plain_words(text) {
                        self.add(&Word::literal(plain));
                    }
                }
            }
            before = text;
        }
    }

    /// A word and the paths that options and lists carry inside one: `--file=x`, `-fx`, `@x`, `a:b`, `x::test`.
    fn add(&mut self, word: &Word) {
        let mut push = |text: &str| {
            if !text.is_empty() && self.words.len() < MAX_WORDS {
                self.words.push(Word { text: text.to_owned(), wild: word.wild });
            }
        };
        push(&word.text);
        for part in word.text.split(['=', ':', ',']) {
            push(part);
            push(part.strip_prefix('@').unwrap_or_default());
        }
        if word.text.starts_with('-') && !word.text.starts_with("--") {
            push(word.text.get(2..).unwrap_or_default());
        }
    }

    /// The root and every directory of the base that a word names, below each other too (`cd a && cd b`).
    fn dirs(&self, links: &Links<'_>, named: &mut Named) -> BTreeSet<Vec<u8>> {
        let mut dirs = BTreeSet::from([Vec::new()]);
        let mut fresh = vec![Vec::new()];
        while let Some(dir) = fresh.pop() {
            for word in self.words.iter().filter(|word| !word.wild) {
                let found = links.find(&dir, &word.text);
                if let Some(below) = found.dir
                    && dirs.len() < MAX_DIRS
                    && dirs.insert(below.clone())
                {
                    // What a link on the command line leads to is decided by the link.
                    for link in found.links {
                        named.files.entry(link).or_default().insert(word.text.clone());
                    }
                    fresh.push(below);
                }
            }
        }
        dirs
    }
}

fn is_module(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with(|c: char| c.is_ascii_digit())
                && part.chars().all(|c| c == '_' || c.is_alphanumeric())
        })
}

/// A path of the base, followed through the base's symbolic links.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Links on the way.
    pub(crate) links: Vec<TreePath>,
    pub(crate) file: Option<(TreePath, EntryMode)>,
    pub(crate) dir: Option<Vec<u8>>,
}

/// Follows the base's links. A manifest holds a link's digest and no target, so a target is found by trying which path
/// of the base, written as a link would write it, has that digest.
pub(crate) struct Links<'a> {
    pub(crate) base: &'a Manifest,
}

impl Links<'_> {
    pub(crate) fn is_dir(&self, path: &[u8]) -> bool {
        let inside = [path, b"/"].concat();
        let entries = self.base.entries();
        let at = entries.partition_point(|entry| entry.path.as_bytes() < inside.as_slice());
        path.is_empty() || entries.get(at).is_some_and(|e| e.path.as_bytes().starts_with(&inside))
    }

    /// Looks a path up below a directory: as the kernel walks it, and, where that ends nowhere, as it reads.
    pub(crate) fn find(&self, dir: &[u8], path: &str) -> Found {
        let (dir, path) = match path.strip_prefix(WORKSPACE) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => (&b""[..], rest),
            _ if path.starts_with('/') => return Found::default(),
            _ => (dir, path),
        };
        if path.len() > 4096 {
            return Found::default();
        }
        let full = [dir, b"/", path.as_bytes()].concat();
        let walked = self.walk(&full);
        if walked.file.is_some() || walked.dir.is_some() {
            return walked;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in full.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        self.walk(&parts.join(&b'/'))
    }

    fn walk(&self, path: &[u8]) -> Found {
        let mut found = Found::default();
        let mut left: Vec<Vec<u8>> = path.split(|b| *b == b'/').rev().map(<[u8]>::to_vec).collect();
        let mut at: Vec<u8> = Vec::new();
        while let Some(part) = left.pop() {
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    at = parent(&at).to_vec();
                    continue;
                }
                _ => {}
            }
            let here = if at.is_empty() { part } else { [at.as_slice(), b"/", &part].concat() };
            let Ok(tree_path) = TreePath::new(here.clone()) else { return found };
            match self.base.get(&tree_path).map(|entry| entry.mode) {
                Some(EntryMode::Symlink) if found.links.len() < MAX_LINKS => {
                    let target = self.target(&tree_path);
                    found.links.push(tree_path.clone());
                    let Some(target) = target else {
                        // It leads out of the tree, or is written in a way of its own: the link is what is known.
                        found.file = Some((tree_path, EntryMode::Symlink));
                        return found;
                    };
                    left.extend(target.split(|b| *b == b'/').rev().map(<[u8]>::to_vec));
                    at = Vec::new();
                }
                Some(mode) => {
                    found.file = Some((tree_path, mode));
                    return found;
                }
                None if self.is_dir(&here) => at = here,
                None => return found,
            }
        }
        found.dir = Some(at);
        found
    }

    /// The path in the tree that a link of the base leads to.
    pub(crate) fn target(&self, link: &TreePath) -> Option<Vec<u8>> {
        let entry = self.base.get(link)?;
        let from: Vec<&[u8]> =
            parent(link.as_bytes()).split(|b| *b == b'/').filter(|p| !p.is_empty()).collect();
        let is_it = |to: &[u8]| {
            spellings(&from, to).any(|s| s.len() as u64 == entry.size && Digest::of(&s) == entry.digest)
        };
        let mut seen: BTreeSet<&[u8]> = BTreeSet::from([&b""[..]]);
        if is_it(b"") {
            return Some(Vec::new());
        }
        for path in self.base.entries().iter().map(|entry| entry.path.as_bytes()) {
            let mut at = path;
            while !at.is_empty() && seen.insert(at) {
                if is_it(at) {
                    return Some(at.to_vec());
                }
                at = parent(at);
            }
        }
        None
    }

    /// The paths of the base that a shell's pattern means below a directory; links in front of its first wild part are
    /// followed.
    pub(crate) fn matches(&self, dir: &[u8], pattern: &str) -> Vec<String> {
        let pattern = pattern.strip_prefix(WORKSPACE).and_then(|p| p.strip_prefix('/')).unwrap_or(pattern);
        let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let first = parts.iter().position(|part| part.contains(['*', '?', '['])).unwrap_or(parts.len());
        let Some(start) = self.find(dir, &parts[..first].join("/")).dir else { return Vec::new() };
        let Ok(start) = std::str::from_utf8(&start) else { return Vec::new() };
        let front = escaped(start);
        let text = front.split('/').filter(|p| !p.is_empty()).chain(parts[first..].iter().copied());
        let Ok(glob) = Glob::new(&text.collect::<Vec<_>>().join("/")) else { return Vec::new() };
        let paths = self.base.entries().iter().map(|entry| entry.path.as_bytes());
        let found = paths.filter(|path| glob.matches(path)).filter_map(|path| std::str::from_utf8(path).ok());
        found.map(str::to_owned).collect()
    }
}

/// How a link in the directory `from` may write the path `to`.
fn spellings(from: &[&[u8]], to: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let parts: Vec<&[u8]> = to.split(|b| *b == b'/').filter(|part| !part.is_empty()).collect();
    let common = from.iter().zip(&parts).take_while(|(a, b)| a == b).count();
    let relative = |shared: usize| {
        let ups = std::iter::repeat_n(&b".."[..], from.len() - shared);
        ups.chain(parts[shared..].iter().copied()).collect::<Vec<_>>().join(&b'/')
    };
    let mut plain = vec![relative(common), relative(0)];
    if plain[0].is_empty() {
        plain[0] = b".".to_vec();
    }
    plain.dedup();
    let dotted: Vec<Vec<u8>> = plain.iter().map(|text| [b"./", text.as_slice()].concat()).collect();
    plain.extend(dotted);
    plain.push([WORKSPACE.as_bytes(), b"/", to].concat());
    plain.into_iter().flat_map(|text| {
        let slashed = [text.as_slice(), b"/"].concat();
        [text, slashed]
    })
}

/// Text as a glob that means exactly it.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}
