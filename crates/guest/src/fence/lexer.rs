//! A tolerant lexer for Rust source: enough to tell code from comments, strings and lifetimes, and to know which
//! delimiters belong together. It keeps no spans and never copies; its time is linear in the bytes.

/// Groups inside groups at most. rustc itself gives up at 128 nested macros and far fewer hand-written groups.
const MAX_NESTING: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An identifier or keyword; `r#name` as written.
    Ident(&'a str),
    /// A string, character, byte or number literal with prefix and suffix.
    Literal(&'a str),
    Lifetime(&'a str),
    /// One character of an operator.
    Punct(char),
    /// The index of the matching `Close`.
    Open(char, usize),
    Close(char),
    /// The text behind `///`, `//!`, `/**` or `/*!`.
    Doc(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LexError {
    #[error("the file is not UTF-8")]
    NotUtf8,
    #[error("a comment or literal has no end")]
    Unterminated,
    #[error("the brackets do not match")]
    Unbalanced,
    #[error("the brackets are nested too deeply")]
    TooDeep,
}

/// The tokens of a file. A byte-order mark and a `#!` line in front are skipped.
pub(super) fn lex(bytes: &[u8]) -> Result<Vec<Token<'_>>, LexError> {
    let text = std::str::from_utf8(bytes).map_err(|_| LexError::NotUtf8)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), open: Vec::new() };
    lexer.skip_shebang();
    while lexer.at < text.len() {
        lexer.step()?;
    }
    if lexer.open.is_empty() { Ok(lexer.tokens) } else { Err(LexError::Unbalanced) }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token<'a>>,
    /// Indices of `Open` tokens that wait for their end.
    open: Vec<usize>,
}

fn starts_ident(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn continues_ident(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// `#!/usr/bin/env …` is skipped; `#![…]` is an attribute.
    fn skip_shebang(&mut self) {
        if let Some(line) = self.text.strip_prefix("#!")
            && !line.trim_start().starts_with('[')
        {
            self.at = self.text.find('\n').unwrap_or(self.text.len());
        }
    }

    fn step(&mut self) -> Result<(), LexError> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return Ok(()) };
        if c.is_whitespace() {
            self.at += c.len_utf8();
            return Ok(());
        }
        if rest.starts_with("//") {
            self.line_comment(rest);
            return Ok(());
        }
        if rest.starts_with("/*") {
            return self.block_comment(rest);
        }
        if starts_ident(c) {
            return self.word(rest);
        }
        match c {
            '0'..='9' => self.number(rest),
            '"' => return self.quoted(self.at, '"'),
            '\'' => return self.quote_mark(rest),
            '(' | '[' | '{' => {
                if self.open.len() >= MAX_NESTING {
                    return Err(LexError::TooDeep);
                }
                self.open.push(self.tokens.len());
                self.push(Token::Open(c, 0), 1);
            }
            ')' | ']' | '}' => {
                let opened = self.open.pop().ok_or(LexError::Unbalanced)?;
                let here = self.tokens.len();
                match &mut self.tokens[opened] {
                    Token::Open(kind, end) if closes(*kind, c) => *end = here,
                    _ => return Err(LexError::Unbalanced),
                }
                self.push(Token::Close(c), 1);
            }
            c => self.push(Token::Punct(c), c.len_utf8()),
        }
        Ok(())
    }

    fn push(&mut self, token: Token<'a>, len: usize) {
        self.tokens.push(token);
        self.at += len;
    }

    fn line_comment(&mut self, rest: &'a str) {
        let line = rest.split('\n').next().unwrap_or(rest);
        let is_doc = line.starts_with("//!") || (line.starts_with("///") && !line.starts_with("////"));
        if is_doc {
            self.tokens.push(Token::Doc(&line[3..]));
        }
        self.at += line.len();
    }

    fn block_comment(&mut self, rest: &'a str) -> Result<(), LexError> {
        let bytes = rest.as_bytes();
        let mut depth = 0_usize;
        let mut i = 0;
        while i < bytes.len() {
            match (bytes[i], bytes.get(i + 1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    i += 2;
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    i += 2;
                    if depth == 0 {
                        let comment = &rest[..i];
                        let is_doc = comment.len() > 5
                            && (comment.starts_with("/*!")
                                || (comment.starts_with("/**") && !comment.starts_with("/***")));
                        if is_doc {
                            self.tokens.push(Token::Doc(&comment[3..i - 2]));
                        }
                        self.at += i;
                        return Ok(());
                    }
                }
                _ => i += 1,
            }
        }
        Err(LexError::Unterminated)
    }

    /// An identifier, or the prefix of a literal.
    fn word(&mut self, rest: &'a str) -> Result<(), LexError> {
        let len = rest.find(|c| !continues_ident(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(len);
        let start = self.at;
        match (word, after.as_bytes().first()) {
            ("r" | "br" | "cr", Some(b'"' | b'#')) => {
                let hashes = after.bytes().take_while(|b| *b == b'#').count();
                if after.as_bytes().get(hashes) == Some(&b'"') {
                    return self.raw_string(start, len, hashes);
                }
                if word == "r" && hashes == 1 && after[1..].starts_with(starts_ident) {
                    let name = after[1..].find(|c| !continues_ident(c)).unwrap_or(after.len() - 1);
                    let total = len + 1 + name;
                    self.push(Token::Ident(&rest[..total]), total);
                    return Ok(());
                }
            }
            ("b" | "c", Some(b'"')) => {
                self.at += len;
                return self.quoted(start, '"');
            }
            ("b", Some(b'\'')) => {
                self.at += len;
                return self.quoted(start, '\'');
            }
            _ => {}
        }
        self.push(Token::Ident(word), len);
        Ok(())
    }

    fn raw_string(&mut self, start: usize, prefix: usize, hashes: usize) -> Result<(), LexError> {
        let body = start + prefix + hashes + 1;
        let mut from = body;
        loop {
            let quote = self.text[from..].find('"').ok_or(LexError::Unterminated)? + from;
            let found = self.text[quote + 1..].bytes().take(hashes).take_while(|b| *b == b'#').count();
            if found == hashes {
                return self.literal_end(start, quote + 1 + hashes);
            }
            from = quote + 1 + found;
        }
    }

    /// A literal between `mark`s with backslash escapes; `self.at` stands on the first mark.
    fn quoted(&mut self, start: usize, mark: char) -> Result<(), LexError> {
        let bytes = self.text.as_bytes();
        let mut i = self.at + 1;
        while i < bytes.len() {
            match bytes[i] {
                b'\\' => i += 2,
                b if char::from(b) == mark => return self.literal_end(start, i + 1),
                _ => i += 1,
            }
        }
        Err(LexError::Unterminated)
    }

    /// Takes a suffix (`"x"suffix`) along.
    fn literal_end(&mut self, start: usize, end: usize) -> Result<(), LexError> {
        let suffix =
            self.text[end..].chars().take_while(|c| continues_ident(*c)).map(char::len_utf8).sum::<usize>();
        self.tokens.push(Token::Literal(&self.text[start..end + suffix]));
        self.at = end + suffix;
        Ok(())
    }

    /// `'a'` is a character, `'a` a lifetime or label.
    fn quote_mark(&mut self, rest: &'a str) -> Result<(), LexError> {
        let mut chars = rest[1..].chars();
        let (first, second) = (chars.next(), chars.next());
        match (first, second) {
            (Some('\\'), _) => self.quoted(self.at, '\''),
            (Some(c), Some('\'')) => self.literal_end(self.at, self.at + 2 + c.len_utf8()),
            (Some(c), _) if starts_ident(c) => {
                let len = 1 + rest[1..].find(|c| !continues_ident(c)).unwrap_or(rest.len() - 1);
                self.push(Token::Lifetime(&rest[..len]), len);
                Ok(())
            }
            _ => Err(LexError::Unterminated),
        }
    }

    fn number(&mut self, rest: &'a str) {
        let bytes = rest.as_bytes();
        let run = |from: usize| {
            from + bytes[from..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
        };
        let radix = rest.starts_with("0x") || rest.starts_with("0o") || rest.starts_with("0b");
        let mut end = run(0);
        if !radix && bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end = run(end + 1);
        }
        let exponent =
            !radix && matches!(bytes[end - 1], b'e' | b'E') && matches!(bytes.get(end), Some(b'+' | b'-'));
        if exponent && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end = run(end + 1);
        }
        self.push(Token::Literal(&rest[..end]), end);
    }
}

fn closes(open: char, close: char) -> bool {
    matches!((open, close), ('(', ')') | ('[', ']') | ('{', '}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let tokens = lex(text.as_bytes()).unwrap();
        let words: Vec<String> = tokens
            .iter()
            .map(|token| match token {
                Token::Ident(t) | Token::Lifetime(t) => (*t).to_owned(),
                Token::Literal(t) => format!("<{t}>"),
                Token::Punct(c) | Token::Open(c, _) | Token::Close(c) => c.to_string(),
                Token::Doc(t) => format!("doc:{t}"),
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn code_is_told_from_comments_strings_and_lifetimes() {
        for (text, expected) in [
            ("fn a<'a>(x: &'a str) {}", "fn a < 'a > ( x : & 'a str ) { }"),
            ("'a' '\\'' '\"' '\\u{1F}' b'x' b'\\''", "<'a'> <'\\''> <'\"'> <'\\u{1F}'> <b'x'> <b'\\''>"),
            ("/* a /* b */ } */ x // } \n y", "x y"),
            ("/// d\n//// no\n//! i", "doc: d doc: i"),
            (
                "r#\"a\"}\"# r\"}\" br##\"\"#\"## c\"x\" r#fn",
                "<r#\"a\"}\"#> <r\"}\"> <br##\"\"#\"##> <c\"x\"> r#fn",
            ),
            ("\"a\\\"}\" 1.0e-5 1..2 x.0.1 0xe+1", "<\"a\\\"}\"> <1.0e-5> <1> . . <2> x . <0.1> <0xe> + <1>"),
            ("#!/usr/bin/env rust\n#![x]", "# ! [ x ]"),
            ("'outer: loop { break 'outer }", "'outer : loop { break 'outer }"),
            ("\"é\" 'é' é", "<\"é\"> <'é'> é"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        for (bytes, error) in [
            (&b"\"abc"[..], LexError::Unterminated),
            (b"/* a", LexError::Unterminated),
            (b"r#\"a\"", LexError::Unterminated),
            (b"'", LexError::Unterminated),
            (b"(]", LexError::Unbalanced),
            (b"}", LexError::Unbalanced),
            (b"{", LexError::Unbalanced),
            (b"\xff", LexError::NotUtf8),
            (b"\"\\", LexError::Unterminated),
        ] {
            assert_eq!(lex(bytes).unwrap_err(), error, "{bytes:?}");
        }
        assert_eq!(lex("(".repeat(100_000).as_bytes()).unwrap_err(), LexError::TooDeep);
    }

    proptest! {
        #[test]
        fn any_bytes_give_tokens_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = lex(&bytes);
        }

        #[test]
        fn any_soup_of_marks_gives_tokens_or_an_error(text in "[a-z'\"#r/*!\\\\{}()\\[\\]0-9.eé \n]{0,200}") {
            if let Ok(tokens) = lex(text.as_bytes()) {
                for (i, token) in tokens.iter().enumerate() {
                    if let Token::Open(_, end) = token {
                        prop_assert!(*end > i && matches!(tokens[*end], Token::Close(_)));
                    }
                }
            }
        }
    }
}
