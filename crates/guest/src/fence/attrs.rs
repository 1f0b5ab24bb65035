//! What attributes and `cfg` conditions of Rust source say about tests.

use super::canon;
use super::items::Walker;
use super::lexer::Token;

/// Attribute names (last path segment) that make a function a test, beside `test`, `test_…` and `…_test`.
const TEST_ATTRIBUTES: &[&str] =
    &["test", "rstest", "quickcheck", "proptest", "bench", "gtest", "parameterized", "case"];

/// What a `cfg_attr` may add without being remembered.
const HARMLESS_PAYLOAD: &[&str] = &[
    "derive",
    "allow",
    "warn",
    "deny",
    "forbid",
    "expect",
    "doc",
    "feature",
    "no_std",
    "must_use",
    "inline",
    "serde",
    "automock",
    "rustfmt",
    "non_exhaustive",
];

/// Macros whose meaning decides tests. One of this name in product code changes what every test below it says (11).
const VERDICT_MACROS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "assert_matches",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
    "todo",
    "unimplemented",
    "matches",
    "vec",
    "format",
];

/// What an attribute says about tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    TestFn,
    CfgTest,
    /// `cfg`, `cfg_attr` or `path` that is not about tests.
    Condition,
}

impl<'a> Walker<'_, 'a> {
    pub(super) fn attr_name(&self, from: usize, to: usize) -> &'a str {
        // `unsafe(no_mangle)` and paths: the last segment before the arguments.
        let mut name = "";
        for token in &self.tokens[from..to] {
            match token {
                Token::Ident(part) => name = part,
                Token::Punct(':') => {}
                _ => break,
            }
        }
        name
    }

    pub(super) fn says(&self, (from, to): (usize, usize)) -> Says {
        let name = self.attr_name(from, to);
        match name {
            "cfg" if self.test_polarity(from, to) == Some(true) => Says::CfgTest,
            "cfg" | "cfg_attr" | "path" => Says::Condition,
            _ if TEST_ATTRIBUTES.contains(&name) || name.starts_with("test_") || name.ends_with("_test") => {
                Says::TestFn
            }
            _ => Says::Nothing,
        }
    }

    /// Whether the word `test` stands in the range: Some(true) when only plainly, Some(false) when under a `not`.
    pub(super) fn test_polarity(&self, from: usize, to: usize) -> Option<bool> {
        let mut found = None;
        let mut at = from;
        let mut not_until = 0;
        while at < to {
            match self.tokens[at] {
                Token::Ident("not") => {
                    if let Some(Token::Open('(', end)) = self.tokens.get(at + 1) {
                        not_until = not_until.max(*end);
                    }
                }
                Token::Ident("test") => {
                    if at < not_until {
                        return Some(false);
                    }
                    found = Some(true);
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    /// `cfg_attr(test, derive(Debug))` and the like cannot change what a test says.
    pub(super) fn harmless_cfg_attr(&self, from: usize, to: usize) -> bool {
        let Some(Token::Open('(', end)) = self.tokens.get(from + 1).filter(|_| from + 1 < to) else {
            return false;
        };
        let mut at = from + 2;
        let mut part = 0;
        let mut part_start = true;
        while at < *end {
            if part_start && part > 0 {
                match self.tokens[at] {
                    Token::Ident(name) if HARMLESS_PAYLOAD.contains(&name) => {}
                    _ => return false,
                }
            }
            part_start = false;
            match self.tokens[at] {
                Token::Open(_, group) => at = group,
                Token::Punct(',') => {
                    part += 1;
                    part_start = true;
                }
                _ => {}
            }
            at += 1;
        }
        part > 0
    }

    /// Remembers every place of product code that asks whether it is under test.
    pub(super) fn mark_range(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let name = match self.tokens[at] {
                Token::Ident(name @ ("cfg" | "cfg_attr" | "cfg_select")) => name,
                // Also inside a macro's braces or a function: what it expands to nobody here can tell.
                Token::Ident("macro_rules") => {
                    if let Some(Token::Ident(name)) = self.tokens.get(at + 2).filter(|_| at + 2 < to)
                        && VERDICT_MACROS.contains(name)
                    {
                        self.source.macros.push((*name).to_owned());
                    }
                    at += 1;
                    continue;
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
            let bang = usize::from(self.tokens.get(at + 1) == Some(&Token::Punct('!')));
            let Some(Token::Open(_, end)) = self.tokens.get(at + 1 + bang).copied() else {
                at += 1;
                continue;
            };
            let end = end.min(to);
            let harmless = name == "cfg_attr" && self.harmless_cfg_attr(at, to);
            if self.test_polarity(at, end).is_some() && !harmless {
                self.source.marks.push(canon::text(self.tokens, at, end));
            }
            at = end + 1;
        }
    }

    /// `#[test]` inside a macro's braces: `proptest! { #[test] fn … }`.
    pub(super) fn holds_tests(&self, from: usize, to: usize) -> bool {
        self.tokens[from..to].iter().enumerate().any(|(i, token)| match token {
            Token::Open('[', end) if i > 0 && self.tokens[from + i - 1] == Token::Punct('#') => {
                self.says((from + i + 1, *end)) == Says::TestFn
            }
            _ => false,
        })
    }
}
