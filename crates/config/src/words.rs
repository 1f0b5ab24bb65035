//! Commands on the command line: words by the shell's quoting rules, without a shell.

/// The longest command that is split, in bytes.
const MAX_COMMAND: usize = 64 * 1024;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WordsError {
    #[error("it is empty")]
    Empty,
    #[error("it holds a NUL byte")]
    Nul,
    #[error("a {0} quote is not closed")]
    Open(&'static str),
    #[error("it ends in a lone backslash")]
    Backslash,
    #[error("it is longer than {MAX_COMMAND} bytes")]
    TooLong,
    /// No shell runs the command, so what only a shell understands is refused instead of passed on as a word.
    #[error("it holds an unquoted {0}, which only a shell understands, and no shell runs it")]
    Operator(&'static str),
}

/// Characters with a meaning in a shell, where they stand unquoted. `#` and `~` have it only at the start of a word.
const OPERATORS: &[(char, &str)] = &[
    ('|', "`|`"),
    ('&', "`&`"),
    (';', "`;`"),
    ('<', "`<`"),
    ('>', "`>`"),
    ('(', "`(`"),
    (')', "`)`"),
    ('$', "`$`"),
    ('`', "backquote"),
    ('*', "`*`"),
    ('?', "`?`"),
    ('\n', "newline"),
    ('\r', "carriage return"),
];

const OPERATORS_AT_START: &[(char, &str)] = &[('#', "`#`"), ('~', "`~`")];

/// Splits by the quoting rules of POSIX (XCU 2.2) into at least one word.
///
/// # Errors
/// When a quote is open, when the command is empty, or when it holds an unquoted shell operator.
pub fn split_words(text: &str) -> Result<Vec<String>, WordsError> {
    if text.len() > MAX_COMMAND {
        return Err(WordsError::TooLong);
    }
    if text.contains('\0') {
        return Err(WordsError::Nul);
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(WordsError::Open("single")),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => match chars.next() {
                None => return Err(WordsError::Backslash),
                // A backslash at the end of a line joins lines.
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
            },
            c => {
                let at_start = word.is_none();
                let find =
                    |table: &[(char, &'static str)]| table.iter().find(|(o, _)| *o == c).map(|(_, n)| *n);
                let operator =
                    find(OPERATORS).or_else(|| if at_start { find(OPERATORS_AT_START) } else { None });
                if let Some(name) = operator {
                    return Err(WordsError::Operator(name));
                }
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word);
    refuse_blank(words)
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    loop {
        match chars.next() {
            None => return Err(WordsError::Open("double")),
            Some('"') => return Ok(()),
            // Double quotes do not protect these from a shell.
            Some('$') => return Err(WordsError::Operator("`$`")),
            Some('`') => return Err(WordsError::Operator("backquote")),
            Some('\\') => match chars.next() {
                None => return Err(WordsError::Open("double")),
                Some('\n') => {}
                Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                Some(c) => word.extend(['\\', c]),
            },
            Some(c) => word.push(c),
        }
    }
}

/// Checks the words of `--check-argv`: at least one, the first not blank.
///
/// # Errors
/// When it is anything else.
pub fn check_words(words: Vec<String>) -> Result<Vec<String>, WordsError> {
    if words.iter().any(|w| w.contains('\0')) {
        return Err(WordsError::Nul);
    }
    refuse_blank(words)
}

fn refuse_blank(words: Vec<String>) -> Result<Vec<String>, WordsError> {
    if words.first().is_none_or(|program| program.trim().is_empty()) {
        Err(WordsError::Empty)
    } else {
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        let split = |text: &str| split_words(text).unwrap();
        assert_eq!(split("cargo test --offline"), ["cargo", "test", "--offline"]);
        assert_eq!(split("  a\t b "), ["a", "b"]);
        assert_eq!(split(r#"sh -c 'a | b && c > "d"'"#), ["sh", "-c", "a | b && c > \"d\""]);
        assert_eq!(split(r#"a "b c" d\ e '' """#), ["a", "b c", "d e", "", ""]);
        assert_eq!(split(r#"a"b"'c'd"#), ["abcd"]);
        assert_eq!(split(r#""\$x \a \\ \"""#), [r#"$x \a \ ""#]);
        assert_eq!(split(r"a \| \; \*"), ["a", "|", ";", "*"]);
        assert_eq!(split("a#b x~y a=b!"), ["a#b", "x~y", "a=b!"]);
        assert_eq!(split("pytest tests/test_é.py::test_ü"), ["pytest", "tests/test_é.py::test_ü"]);
    }

    #[test]
    fn what_only_a_shell_understands_is_refused_by_name() {
        for (text, name) in [
            ("a | b", "`|`"),
            ("a && b", "`&`"),
            ("a; b", "`;`"),
            ("a > b", "`>`"),
            ("a < b", "`<`"),
            ("echo $HOME", "`$`"),
            ("echo \"$HOME\"", "`$`"),
            ("echo `id`", "backquote"),
            ("echo \"`id`\"", "backquote"),
            ("ls *.py", "`*`"),
            ("ls ?", "`?`"),
            ("(a)", "`(`"),
            ("a\nb", "newline"),
            ("a # b", "`#`"),
            ("~/x", "`~`"),
        ] {
            assert!(matches!(split_words(text), Err(WordsError::Operator(n)) if n == name), "{text}");
        }
    }

    #[test]
    fn open_and_empty_commands_are_refused() {
        assert_eq!(split_words("a 'b"), Err(WordsError::Open("single")));
        assert_eq!(split_words("a \"b"), Err(WordsError::Open("double")));
        assert_eq!(split_words("a \"b\\"), Err(WordsError::Open("double")));
        assert_eq!(split_words("a\\"), Err(WordsError::Backslash));
        assert_eq!(split_words("a\0"), Err(WordsError::Nul));
        for blank in ["", "  ", "''", "' ' x", "\t"] {
            assert_eq!(split_words(blank), Err(WordsError::Empty), "{blank:?}");
        }
        assert_eq!(split_words(&"a".repeat(MAX_COMMAND + 1)), Err(WordsError::TooLong));
    }
}
