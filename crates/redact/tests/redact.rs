//! What goes in as a secret does not come out, whatever the encoding and wherever chunks end.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use countersign_redact::{REPLACEMENT, Redactor};
use proptest::prelude::*;
use serde_json::json;

const KEY: &str = "sk-test/4f+9aZ\"q\\é<7";

fn redactor() -> Redactor {
    Redactor::new([KEY.as_bytes().to_vec()])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Every way in which tools write the key, with something before and after it.
fn encoded(before: &str, after: &str) -> Vec<String> {
    let text = format!("{before}{KEY}{after}");
    let json = serde_json::to_string(&text).unwrap();
    let percent: String = text.bytes().map(|b| format!("%{b:02X}")).collect();
    vec![
        hex(text.as_bytes()),
        hex(text.as_bytes()).to_uppercase(),
        STANDARD.encode(&text),
        URL_SAFE_NO_PAD.encode(&text),
        STANDARD.encode(STANDARD.encode("x")) + &STANDARD.encode(&text),
        percent,
        serde_json::to_string(&json).unwrap(),
        json,
        text,
    ]
}

/// Says whether some decoding of the text shows the key or a large part of it.
fn leaks(text: &str) -> bool {
    let part = &KEY[4..12];
    let in_hex = hex(part.as_bytes());
    let in_base64 = (0..3).map(|n| {
        let encoded = STANDARD.encode([vec![b'x'; n], part.as_bytes().to_vec()].concat());
        encoded[4..encoded.len() - 4].to_owned()
    });
    let one_line: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let lower = one_line.to_lowercase();
    one_line.contains(part)
        || lower.contains(&in_hex)
        || in_base64.into_iter().any(|core| {
            one_line.contains(&core) || one_line.contains(&core.replace('+', "-").replace('/', "_"))
        })
        || lower.contains("%34%66%2b%39")
}

#[test]
fn the_leak_test_itself_can_see_every_encoding() {
    for text in encoded("ab", "cd") {
        assert!(leaks(&text), "{text}");
    }
}

#[test]
fn every_encoding_is_removed_at_every_alignment() {
    for before in ["", "a", "ab", "abc", "user:"] {
        for after in ["", "z", "zz", "\n"] {
            for text in encoded(before, after) {
                let clean = redactor().redact_str(&text).into_owned();
                assert!(clean.contains(REPLACEMENT), "{text} -> {clean}");
                assert!(!leaks(&clean), "{text} -> {clean}");
            }
        }
    }
}

#[test]
fn encodings_that_are_broken_into_lines_are_removed() {
    for (width, end) in [(1, "\n"), (4, "\r\n"), (7, "\n    "), (76, "\n")] {
        for text in
            [hex(KEY.as_bytes()), STANDARD.encode(format!("ab{KEY}cd")), STANDARD.encode(KEY.repeat(9))]
        {
            let lines: Vec<_> =
                text.as_bytes().chunks(width).map(|l| std::str::from_utf8(l).unwrap()).collect();
            let clean = redactor().redact_str(&lines.join(end)).into_owned();
            assert!(clean.contains(REPLACEMENT) && !leaks(&clean), "{width}: {clean}");
        }
    }
}

#[test]
fn many_and_long_gaps_are_passed_over() {
    let encoded = STANDARD.encode(KEY.repeat(20));
    let core = &encoded[..encoded.len() - 4];
    for gap in ["\n", "\r\n", "\n                               "] {
        let spread: Vec<_> = core.split("").filter(|letter| !letter.is_empty()).collect();
        let text = format!("before\n{}\nafter", spread.join(gap));
        let clean = redactor().redact_str(&text).into_owned();
        assert!(clean.starts_with("before\n[redacted]") && clean.ends_with("after"), "{clean}");
        assert!(clean.len() < text.len() / 3, "{clean}");
    }
    let too_long = core.split("").collect::<Vec<_>>().join(&"\n".repeat(40));
    assert!(matches!(redactor().redact_str(&too_long), Cow::Borrowed(_)));
}

#[test]
fn what_is_not_secret_is_untouched_and_borrowed() {
    let text = "sk-test/4f+9aZ and nothing more\n[redacted]";
    assert!(matches!(redactor().redact(text.as_bytes()), Cow::Borrowed(b) if b == text.as_bytes()));
    assert!(matches!(Redactor::default().redact_str(KEY), Cow::Borrowed(KEY)));
}

#[test]
fn short_values_are_ignored_and_the_ends_of_values_are_trimmed() {
    let redactor =
        Redactor::new([b"".to_vec(), b"12345".to_vec(), b" abcd \n".to_vec(), b"123456\n".to_vec()]);
    assert_eq!(redactor.len(), 1);
    assert_eq!(redactor.redact_str("12345 abcd x123456y 123456\n"), "12345 abcd x[redacted]y [redacted]");
}

#[test]
fn overlapping_values_leave_no_end_behind() {
    let redactor = Redactor::new([b"abcdefgh".to_vec(), b"efghijkl".to_vec(), b"abcdef".to_vec()]);
    assert_eq!(redactor.redact_str("-abcdefghijkl-abcdef-"), "-[redacted]-[redacted]-");
    let periodic = Redactor::new([b"aaaaaa".to_vec()]);
    assert_eq!(periodic.redact_str(&"a".repeat(10_001)), REPLACEMENT);
}

#[test]
fn long_values_are_removed_whole() {
    let value: Vec<u8> =
        (0..20_000_u32).map(|i| b'!' + (i.wrapping_mul(2_654_435_761) >> 24) as u8 % 90).collect();
    let redactor = Redactor::new([value.clone()]);
    let text = [b"<<".to_vec(), value.clone(), b">>".to_vec()].concat();
    let clean = redactor.redact(&text).into_owned();
    assert!(clean.starts_with(b"<<[redacted]") && clean.ends_with(b"[redacted]>>"));
    assert!(clean.len() < 100, "{}", clean.len());
    let encoded = STANDARD.encode(&value);
    assert!(redactor.redact_str(&encoded).len() < 200);
}

#[test]
fn json_values_are_redacted_in_texts_names_and_numbers() {
    let redactor = Redactor::new([b"987654321".to_vec(), b"secret-name".to_vec()]);
    let mut value = json!({
        "a": ["x987654321y", 987654321, 98765432, null, true],
        "secret-name": 1,
        "[redacted]": 2,
    });
    redactor.redact_value(&mut value);
    let expected = json!({
        "a": ["x[redacted]y", "[redacted]", 98765432, null, true],
        "[redacted]": 2,
        "[redacted]#2": 1,
    });
    assert_eq!(value, expected);
}

#[test]
fn debug_shows_no_value() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    stream.push(KEY.as_bytes(), &mut Vec::new());
    stream.push(b"sk-test", &mut Vec::new());
    let shown = format!("{redactor:?} {stream:?} {redactor:#?}");
    assert!(!shown.contains("sk-test") && !shown.contains("115"), "{shown}");
}

#[test]
fn a_stream_holds_back_only_a_possible_beginning() {
    let mut out = Vec::new();
    let mut stream = redactor().stream();
    stream.push(b"hello world\n", &mut out);
    assert_eq!(out, b"hello world\n");
    stream.push(b"key: sk-te", &mut out);
    assert_eq!(out, b"hello world\nkey: ");
    stream.push(b"st/5", &mut out);
    assert_eq!(out, b"hello world\nkey: sk-test/5");
    stream.finish(&mut out);
    assert_eq!(out, b"hello world\nkey: sk-test/5");
}

/// Texts over few letters, so that values, their parts and their encodings collide often.
fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(
        proptest::collection::vec(proptest::sample::select(b"ab/\n".to_vec()), 6..12),
        1..4,
    )
}

fn text(values: &[Vec<u8>], picks: &[(u8, u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (which, how) in picks {
        let value = &values[usize::from(*which) % values.len()];
        match how % 9 {
            0 => out.extend_from_slice(value),
            1 => out.extend_from_slice(STANDARD.encode(value).as_bytes()),
            2 => out.extend_from_slice(hex(value).as_bytes()),
            3 => out.extend_from_slice(&value[..value.len() / 2]),
            4 => out.push(b'\n'),
            5 => out.extend_from_slice(&value[value.len() / 2..]),
            6 => out.extend_from_slice(
                serde_json::to_string(&String::from_utf8_lossy(value)).unwrap().as_bytes(),
            ),
            7 => {
                let encoded = STANDARD.encode(value);
                let lines: Vec<_> = encoded.as_bytes().chunks(1 + usize::from(*which) % 5).collect();
                out.extend_from_slice(&lines.join(&b"\r\n  "[..1 + usize::from(*which) % 4]));
            }
            _ => out.push(b"ab/Y"[usize::from(*which) % 4]),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn chunks_change_nothing_and_no_value_survives(
        values in values(),
        picks in proptest::collection::vec(any::<(u8, u8)>(), 0..40),
        cuts in proptest::collection::vec(0..9_usize, 1..20),
    ) {
        let redactor = Redactor::new(values.clone());
        let text = text(&values, &picks);
        let whole = redactor.redact(&text).into_owned();

        let mut streamed = Vec::new();
        let mut stream = redactor.stream();
        let mut rest = text.as_slice();
        for cut in cuts.iter().cycle().take(text.len() + 20) {
            // At most: a chunk may be empty.
            let (chunk, tail) = rest.split_at((*cut).min(rest.len()));
            stream.push(chunk, &mut streamed);
            rest = tail;
        }
        stream.push(rest, &mut streamed);
        stream.finish(&mut streamed);
        prop_assert_eq!(&streamed, &whole);

        let one_line: Vec<u8> = whole.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
        let holds = |needle: &[u8]| whole.windows(needle.len()).any(|window| window == needle);
        for value in &values {
            if value.trim_ascii().len() < 6 { continue; }
            prop_assert!(!holds(value));
            prop_assert!(!holds(hex(value).as_bytes()));
            let encoded = STANDARD_NO_PAD.encode(value);
            let core = &encoded.as_bytes()[..value.len() * 8 / 6];
            prop_assert!(!holds(core));
            prop_assert!(!one_line.windows(core.len()).any(|window| window == core));
        }
        if whole == text {
            prop_assert!(matches!(redactor.redact(&text), Cow::Borrowed(_)));
        }
    }
}
