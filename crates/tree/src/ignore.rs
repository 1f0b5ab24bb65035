//! The rules of `.gitignore` files, read from text: what git would ignore, without touching a disk.

use std::collections::BTreeMap;

use crate::glob::{Component, Step, steps_match};

/// One line of an ignore file.
#[derive(Clone, Debug)]
struct Rule {
    negated: bool,
    dirs_only: bool,
    pattern: Pattern,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// No `/` but at the end: the base name at any depth.
    Name(Component),
    /// Relative to the file's directory.
    Anchored(Vec<Step>),
}

/// Ignore files by their directory (`""` is the root).
#[derive(Clone, Debug, Default)]
pub(crate) struct Ignore {
    files: BTreeMap<Vec<u8>, Vec<Rule>>,
}

impl Ignore {
    pub(crate) fn add(&mut self, dir: &[u8], text: &[u8]) {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let rules: Vec<Rule> = text.split(|b| *b == b'\n').filter_map(parse_line).collect();
        if !rules.is_empty() {
            self.files.insert(dir.to_vec(), rules);
        }
    }

    /// What the rules say about this path alone, without its parents: the deepest file's last matching line decides.
    pub(crate) fn ignores(&self, path: &[u8], is_dir: bool) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let cuts = path.iter().enumerate().rev().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        for cut in cuts.map(Some).chain([None]) {
            let (dir, rest) = match cut {
                Some(at) => (&path[..at], &path[at + 1..]),
                None => (&path[..0], path),
            };
            let Some(rules) = self.files.get(dir) else { continue };
            if let Some(rule) = rules.iter().rev().find(|rule| rule.matches(rest, is_dir)) {
                return !rule.negated;
            }
        }
        false
    }
}

impl Rule {
    fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.dirs_only && !is_dir {
            return false;
        }
        match &self.pattern {
            Pattern::Name(component) => component.matches(path.rsplit(|b| *b == b'/').next().unwrap_or(path)),
            Pattern::Anchored(steps) => steps_match(steps, path),
        }
    }
}

/// None for a blank line, a comment, or a pattern that can match nothing.
fn parse_line(line: &[u8]) -> Option<Rule> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.starts_with(b"#") {
        return None;
    }
    let line = trim_trailing_spaces(line);
    let (negated, line) = match line.strip_prefix(b"!") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (dirs_only, line) = match line.strip_suffix(b"/") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let anchored = line.contains(&b'/');
    let line = line.strip_prefix(b"/").unwrap_or(line);
    if line.is_empty() {
        return None;
    }
    if !anchored {
        return Some(Rule { negated, dirs_only, pattern: Pattern::Name(Component::parse(line).ok()?) });
    }
    let parts: Vec<&[u8]> = line.split(|b| *b == b'/').collect();
    let mut steps = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        // Any run of two or more stars is `**` to git.
        if part.len() >= 2 && part.iter().all(|b| *b == b'*') {
            if steps.last() != Some(&Step::Deep) {
                steps.push(Step::Deep);
            }
            // `a/**` is what lies below `a`: at least one component.
            if at + 1 == parts.len() && at > 0 {
                steps.push(Step::One(Component::parse(b"*").ok()?));
            }
        } else {
            steps.push(Step::One(Component::parse(part).ok()?));
        }
    }
    Some(Rule { negated, dirs_only, pattern: Pattern::Anchored(steps) })
}

/// A space at the end counts only behind a backslash.
fn trim_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => at += 1,
            b'\\' if at + 1 < line.len() => {
                at += 2;
                end = at;
            }
            _ => {
                at += 1;
                end = at;
            }
        }
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores(text: &str, path: &str, is_dir: bool) -> bool {
        let mut ignore = Ignore::default();
        ignore.add(b"", text.as_bytes());
        ignore.ignores(path.as_bytes(), is_dir)
    }

    #[test]
    fn lines_mean_what_git_says_they_mean() {
        for (text, path, is_dir, expected) in [
            ("*.log", "a/b.log", false, true),
            ("/x", "x", false, true),
            ("/x", "a/x", false, false),
            ("a/x", "b/a/x", false, false),
            ("build/", "build", true, true),
            ("build/", "build", false, false),
            ("build/", "a/build", true, true),
            ("**/foo", "a/b/foo", false, true),
            ("foo/**", "foo/a", false, true),
            ("foo/**", "foo", true, false),
            ("a/**/b", "a/b", false, true),
            ("*.log\n!keep.log", "keep.log", false, false),
            ("!keep.log\n*.log", "keep.log", false, true),
            ("# no\n\\#yes", "#yes", false, true),
            ("\\!bang", "!bang", false, true),
            ("trail   ", "trail", false, true),
            ("trail\\ ", "trail ", false, true),
            ("crlf\r\n", "crlf", false, true),
            ("[broken", "[broken", false, false),
            ("a**b", "axxb", false, true),
            ("*", "x/y", false, true),
            ("/*", "x/y", false, false),
        ] {
            assert_eq!(ignores(text, path, is_dir), expected, "{text:?} {path}");
        }
    }

    #[test]
    fn the_deepest_file_decides() {
        let mut ignore = Ignore::default();
        ignore.add(b"", b"*.txt");
        ignore.add(b"docs", b"!*.txt\n/local");
        assert!(ignore.ignores(b"a.txt", false));
        assert!(!ignore.ignores(b"docs/a.txt", false));
        assert!(ignore.ignores(b"docs/local", false));
        assert!(!ignore.ignores(b"local", false));
    }
}
