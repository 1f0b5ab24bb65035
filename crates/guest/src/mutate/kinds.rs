//! Small changes of one line that tests should notice.

use crate::mutate::code::word;
use crate::protocol::{MutantKind, MutantLanguage as Language};

/// One change of a text: these bytes become others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) new: Vec<u8>,
    pub(super) kind: MutantKind,
}

/// A source with what is known of it.
pub(super) struct Source<'a> {
    pub(super) text: &'a [u8],
    /// For each byte: is it code?
    pub(super) code: &'a [bool],
    pub(super) language: Language,
}

/// Longest first, so that `===` is not read as `==`.
const COMPARISONS: &[(&[u8], &[u8])] = &[
    (b"===", b"!=="),
    (b"!==", b"==="),
    (b"==", b"!="),
    (b"!=", b"=="),
    (b"<=", b"<"),
    (b">=", b">"),
    (b"<", b"<="),
    (b">", b">="),
];

/// Statements that only declare, or whose absence would not compile: taking them away says nothing.
const STAYS: &[&str] = &[
    "let",
    "const",
    "var",
    "return",
    "import",
    "export",
    "from",
    "use",
    "pub",
    "fn",
    "func",
    "function",
    "type",
    "struct",
    "enum",
    "static",
    "package",
    "class",
    "interface",
    "def",
    "if",
    "elif",
    "else",
    "for",
    "while",
    "try",
    "except",
    "catch",
    "finally",
    "with",
    "switch",
    "match",
    "case",
    "default",
    "pass",
    "global",
    "nonlocal",
    "async",
    "mod",
    "impl",
    "trait",
    "throw",
    "do",
];

impl Source<'_> {
    /// Everything that can be changed in the line from `from` to `to` (without its end). `open`: brackets that are open where
    /// it begins.
    pub(super) fn edits(&self, from: usize, to: usize, open: i64) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut at = from;
        while at < to {
            match self.code[at].then(|| self.comparison(at, to).or_else(|| self.constant(at, to))).flatten() {
                Some(edit) => {
                    at = edit.to;
                    edits.push(edit);
                }
                None => at += 1,
            }
        }
        edits.extend(self.early_return(from, to, open));
        edits.extend(self.removed(from, to, open));
        edits
    }

    fn comparison(&self, at: usize, to: usize) -> Option<Edit> {
        let rest = &self.text[at..to];
        let (old, new) = COMPARISONS.iter().find(|(old, _)| rest.starts_with(old))?;
        let before = at.checked_sub(1).map(|before| self.text[before]);
        let after = rest.get(old.len()).copied();
        // Alone between spaces, `<` and `>` compare; elsewhere they may be generics, arrows or shifts.
        let alone = before == Some(b' ') && after == Some(b' ');
        let joined = |byte: Option<u8>| byte.is_some_and(|byte| b"=<>!+-*/%&|^~:".contains(&byte));
        let fits = if old.len() == 1 { alone } else { !joined(before) && !joined(after) };
        fits.then(|| Edit { from: at, to: at + old.len(), new: new.to_vec(), kind: MutantKind::Comparison })
    }

    fn constant(&self, at: usize, to: usize) -> Option<Edit> {
        let before = at.checked_sub(1).map(|before| self.text[before]);
        if before.is_some_and(|byte| word(byte) || byte == b'.') {
            return None;
        }
        let rest = &self.text[at..to];
        let length = rest.iter().take_while(|byte| word(**byte)).count();
        let (token, after) = (&rest[..length], rest.get(length).copied());
        let new = match token {
            b"True" => b"False".to_vec(),
            b"False" => b"True".to_vec(),
            b"true" => b"false".to_vec(),
            b"false" => b"true".to_vec(),
            digits if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && after != Some(b'.') => {
                let text = std::str::from_utf8(digits).ok()?;
                // A leading zero is another base somewhere.
                let number: u32 = text.parse().ok().filter(|_| text == "0" || !text.starts_with('0'))?;
                number.checked_add(1)?.to_string().into_bytes()
            }
            _ => return None,
        };
        Some(Edit { from: at, to: at + length, new, kind: MutantKind::Constant })
    }

    /// The line's code with strings as one letter, without the blanks around it.
    fn plain(&self, from: usize, to: usize) -> String {
        let mut plain = String::new();
        let mut inside = false;
        for at in from..to {
            if self.code[at] {
                plain.push(char::from(self.text[at]));
            } else if !inside && !self.text[at].is_ascii_whitespace() {
                plain.push('s');
            }
            inside = !self.code[at];
        }
        let text = plain.trim();
        // A comment behind the code is no part of it.
        let tail = self.comment_at(from, to).and_then(|_| text.strip_suffix('s'));
        tail.unwrap_or(text).trim().to_owned()
    }

    /// Where a comment begins that reaches to the end of the line.
    fn comment_at(&self, from: usize, to: usize) -> Option<usize> {
        let mark: &[u8] = if self.language == Language::Python { b"#" } else { b"//" };
        (from..to).find(|at| {
            let begins = !self.code[*at] && (*at == from || self.code[*at - 1]);
            begins && self.text[*at..to].starts_with(mark)
        })
    }

    fn indent(&self, from: usize, to: usize) -> usize {
        from + self.text[from..to].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// A whole statement in one line.
    fn whole(&self, plain: &str, open: i64) -> bool {
        let balance = brackets(plain.bytes());
        let goes_on = plain.ends_with([
            ',', '(', '[', '{', '\\', '+', '-', '*', '/', '=', '&', '|', '.', ':', '?', '<', '>',
        ]);
        open == 0
            && balance == 0
            && (!goes_on || plain.ends_with("++") || plain.ends_with("--"))
            && !plain.starts_with(['.', ')', ']', '}', '+', '*', '/', '=', '&', '|', '?', ':', ',', '@', '#'])
    }

    fn early_return(&self, from: usize, to: usize, open: i64) -> Option<Edit> {
        let plain = self.plain(from, to);
        let value = plain.strip_prefix("return ")?;
        let nothing = match self.language {
            Language::Python if value != "None" => "return None",
            Language::JavaScript if !matches!(value, "undefined;" | "null;") && value.ends_with(';') => {
                "return undefined;"
            }
            _ => return None,
        };
        let begin = self.indent(from, to);
        self.whole(&plain, open).then(|| Edit {
            from: begin,
            to,
            new: nothing.as_bytes().to_vec(),
            kind: MutantKind::EarlyReturn,
        })
    }

    fn removed(&self, from: usize, to: usize, open: i64) -> Option<Edit> {
        let plain = self.plain(from, to);
        let first: String = plain.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if plain.len() < 3 || STAYS.contains(&first.as_str()) || !self.whole(&plain, open) {
            return None;
        }
        let begin = self.indent(from, to);
        if !self.code[begin] {
            // A text that stands alone is a comment of its own kind.
            return None;
        }
        let statement = match self.language {
            Language::Python => true,
            Language::Rust | Language::JavaScript => plain.ends_with(';') && plain.len() > 3,
            // A declaration may leave a name unused, which does not compile.
            Language::Go => {
                !plain.contains(":=")
                    && (plain.ends_with(')')
                        || plain.ends_with("++")
                        || plain.ends_with("--")
                        || plain.contains(" = ")
                        || plain.contains("= "))
            }
        };
        let new = if self.language == Language::Python { b"pass".to_vec() } else { Vec::new() };
        statement.then_some(Edit { from: begin, to, new, kind: MutantKind::RemovedLine })
    }
}

/// How many brackets a piece of code opens more than it closes.
pub(super) fn brackets(code: impl Iterator<Item = u8>) -> i64 {
    code.map(|byte| match byte {
        b'(' | b'[' => 1,
        b')' | b']' => -1,
        _ => 0,
    })
    .sum()
}
