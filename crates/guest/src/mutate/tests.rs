use super::*;
use crate::protocol::MutantKind;

/// What a new file of one line can become, with its kinds.
fn of(language: Language, text: &str) -> Vec<(MutantKind, String)> {
    edits(b"", text.as_bytes(), language)
        .into_iter()
        .map(|edit| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.splice(edit.from..edit.to, edit.new);
            (edit.kind, String::from_utf8(bytes).unwrap())
        })
        .collect()
}

#[track_caller]
fn become_(language: Language, text: &str, wanted: &[(MutantKind, &str)]) {
    let wanted: Vec<_> = wanted.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
    assert_eq!(of(language, text), wanted, "{text}");
}

use Language::{Go, JavaScript, Python, Rust};
use MutantKind::{Comparison, Constant, EarlyReturn, RemovedLine};

#[test]
fn comparisons_and_constants_are_changed_where_they_are_code() {
    become_(Python, "if a <= 10:", &[(Comparison, "if a < 10:"), (Constant, "if a <= 11:")]);
    become_(Rust, "if a != b {", &[(Comparison, "if a == b {")]);
    become_(JavaScript, "if (a === 0) {", &[(Comparison, "if (a !== 0) {"), (Constant, "if (a === 1) {")]);
    become_(
        Go,
        "for i := 0; i < n; i++ {",
        &[(Constant, "for i := 1; i < n; i++ {"), (Comparison, "for i := 0; i <= n; i++ {")],
    );
    become_(Python, "if x is True:", &[(Constant, "if x is False:")]);
    // Neither comparisons nor constants.
    for (language, text) in [
        (Rust, "fn f(v: Vec<u8>) -> Option<u8> {"),
        (Rust, "x => y,"),
        (Rust, "let t = pair.0;"),
        (Rust, "let x = \"a == 1\"; // b == 2"),
        (Rust, "let x = 'a'; /* 1 == 1 */"),
        (Rust, "let x = r#\"1 == \"1\"\"#;"),
        (Rust, "fn f<'a>(x: &'a str) {"),
        (Python, "# a == 1"),
        (Python, "x = 'a == 1' if y else \"\"\"2\"\"\" +\\"),
        (JavaScript, "const f = (x) => `${x} == 1`;"),
        (Go, "var x = `1 == 1`"),
        (Go, "x <- ch,"),
        (Go, "var f = 1.5"),
        (JavaScript, "const v2 = 0x10;"),
    ] {
        become_(language, text, &[]);
    }
}

#[test]
fn statements_are_taken_away_and_returns_emptied_where_a_line_is_one() {
    become_(Python, "    total += x", &[(RemovedLine, "    pass")]);
    become_(Python, "  return x", &[(EarlyReturn, "  return None")]);
    become_(JavaScript, "  return x;", &[(EarlyReturn, "  return undefined;")]);
    become_(Rust, "    v.push(x); // why", &[(RemovedLine, "    ")]);
    become_(Go, "\tcount++", &[(RemovedLine, "\t")]);
    become_(Go, "\ts.total = x", &[(RemovedLine, "\t")]);
    for (language, text) in [
        (Python, "return None"),
        (Python, "def f(x):"),
        (Python, "import os"),
        (Python, "\"\"\"Words.\"\"\""),
        (Python, "@wraps(f)"),
        (Python, "x = f(a,\n  b)"),
        (Rust, "let x = y;"),
        (Rust, "return x;"),
        (Rust, "    .map(f)"),
        (Rust, "}"),
        (Go, "x := y"),
        (Go, "return x"),
        (JavaScript, "const x = y;"),
        (JavaScript, "f(a,\n  b);"),
        (JavaScript, "});"),
    ] {
        become_(language, text, &[]);
    }
}

#[test]
fn only_changed_lines_outside_of_tests_are_touched() {
    let before = b"if a == b:\n    f()\n";
    let after = b"if a == b:\n    f()\nif c == d:\n    g()\n";
    let lines: Vec<usize> = edits(before, after, Python)
        .iter()
        .map(|edit| after[..edit.from].iter().filter(|byte| **byte == b'\n').count())
        .collect();
    assert_eq!(lines, [2, 3]);
    let rust = "fn f(a: u8) -> bool {\n    a == 1\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() { assert!(2 == 2) }\n}\n";
    assert_eq!(edits(b"", rust.as_bytes(), Rust).len(), 2);
    assert_eq!(edits(b"", b"\xff == 1", Python), [], "what is no text is left alone");
}

#[test]
fn a_choice_is_spread_and_in_order() {
    assert_eq!(spread((0..10).collect(), 3), [0, 3, 6]);
    assert_eq!(spread(vec![1, 2], 3), [1, 2]);
    assert_eq!(spread(vec![1, 2], 0), Vec::<i32>::new());
}

proptest::proptest! {
    /// Whatever bytes and whatever marks: no panic, and each mutant is another text.
    #[test]
    fn any_source_is_read_without_a_panic(text in "[ -~\n\"'`#/*rb=<>!()0-9é]{0,200}") {
        for language in [Python, Rust, JavaScript, Go] {
            for edit in edits(b"", text.as_bytes(), language) {
                let mut bytes = text.as_bytes().to_vec();
                bytes.splice(edit.from..edit.to, edit.new);
                proptest::prop_assert!(bytes != text.as_bytes());
            }
        }
    }
}
