use countersign_types::Digest;

/// Units of time that runners and compilers print behind a number.
const UNITS: &[&str] = &[
    "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute",
    "minutes", "h",
];

/// Words that stand before a number of milliseconds or seconds without a unit.
const CLOCKS: &[&str] = &["duration_ms", "duration", "time", "elapsed"];

/// What two results are compared by: the digest of the text without durations and times of day, and without addresses of
/// memory. Other numbers stay: one failing test fewer is another result. None: nothing but white space.
#[must_use]
pub fn said(text: &str) -> Option<Digest> {
    let steady = steady(text);
    (!steady.trim().is_empty()).then(|| Digest::of(steady.as_bytes()))
}

/// The text with every duration, time of day and address as `#`.
#[must_use]
pub fn steady(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // Only where a word begins: the 5 of `sha5s` measures nothing.
        let begins = !out.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        if begins && c.is_ascii_digit() {
            let length = number(rest);
            let (digits, after) = rest.split_at(length);
            let measured =
                address(rest).or_else(|| clock_time(rest)).or_else(|| unit(after).map(|unit| length + unit));
            match measured {
                Some(_) => out.push('#'),
                None if follows_a_clock(&out) => out.push('#'),
                None => out.push_str(digits),
            }
            rest = rest.get(measured.unwrap_or(length)..).unwrap_or_default();
        } else {
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    out
}

/// Bytes of the number that the text begins with.
fn number(text: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let part = text.get(whole..).and_then(|rest| rest.strip_prefix('.')).map_or(0, digits);
    if part > 0 { whole + 1 + part } else { whole }
}

/// Bytes of the unit of time that stands behind a number: ` ms`, `s`, `m05s`.
fn unit(after: &str) -> Option<usize> {
    let spaced = usize::from(after.starts_with(' '));
    let word = after.get(spaced..)?;
    let length = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
    let (word, rest) = word.split_at(length);
    if !UNITS.contains(&word) {
        return None;
    }
    match rest.chars().next() {
        Some(c) if c.is_ascii_digit() => {
            let next = number(rest);
            Some(spaced + length + next + unit(rest.get(next..)?)?)
        }
        Some('_') => None,
        _ => Some(spaced + length),
    }
}

/// Bytes of a time of day: `10:41:07`, with or without a fraction.
fn clock_time(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let shape = b"00:00:00";
    let fits = bytes.len() >= shape.len()
        && bytes.iter().zip(shape).all(|(c, s)| if *s == b'0' { c.is_ascii_digit() } else { c == s });
    if !fits {
        return None;
    }
    let seconds = text.get(6..)?;
    Some(6 + number(seconds))
}

/// Bytes of an address of memory, `0x7f…`.
fn address(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("0x")?.bytes().take_while(u8::is_ascii_hexdigit).count();
    (digits >= 6).then_some(2 + digits)
}

fn follows_a_clock(out: &str) -> bool {
    let before = out.trim_end_matches([' ', ':', '=', '"']);
    let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    before.len() < out.len() && CLOCKS.iter().any(|clock| word.eq_ignore_ascii_case(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_the_same_however_long_it_took() {
        for (one, other) in [
            ("exit 1 (632ms)\n", "exit 1 (1.2s)\n"),
            ("exit 1 (1m05s)\n", "exit 1 (12ms)\n"),
            ("1 failed in 0.03s", "1 failed in 12.30s"),
            ("Ran 3 tests in 0.001s", "Ran 3 tests in 2s"),
            ("FAIL\tpkg\t0.004s", "FAIL\tpkg\t1.9s"),
            ("  # duration_ms 12.5", "  # duration_ms 3"),
            ("\"duration_ms\": 12.5,", "\"duration_ms\": 7,"),
            ("Time:        0.5 s, estimated 1 s", "Time:        1.25 s, estimated 2 s"),
            ("at 10:41:07.123 it broke", "at 23:00:00 it broke"),
            ("<Foo at 0x7f01aa22bb>", "<Foo at 0x7f99ffee00>"),
            ("took 4 minutes", "took 5 minutes"),
        ] {
            assert_eq!(steady(one), steady(other));
            assert_eq!(said(one), said(other));
        }
    }

    #[test]
    fn another_failure_is_another() {
        for (one, other) in [
            ("3 failed, 5 passed in 0.1s", "2 failed, 6 passed in 0.1s"),
            ("line 12 of 40", "line 13 of 40"),
            ("expected 1.5, got 2", "expected 1.5, got 3"),
            ("test_5s_limit failed", "test_6s_limit failed"),
            ("error 0x12", "error 0x13"),
            ("got 3 samples", "got 4 samples"),
            ("exit 1", "exit 2"),
        ] {
            assert_ne!(said(one), said(other), "{}", steady(one));
        }
    }

    #[test]
    fn nothing_said_is_nothing() {
        assert_eq!(said(" \n\t"), None);
        assert_eq!(steady("é5µs 1 µs 7"), "é5µs # 7");
    }
}
