//! How tools write a value down.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Encodings that keep the value in one piece.
pub(crate) fn exact(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![value.to_vec()];
    for upper in [true, false] {
        // RFC 3986; `encodeURIComponent`; HTML forms; everything, as some libraries do.
        all.push(percent(value, upper, false, |b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b)));
        all.push(percent(value, upper, false, |b| b.is_ascii_alphanumeric() || b"-_.~!*'()".contains(&b)));
        all.push(percent(value, upper, true, |b| b.is_ascii_alphanumeric() || b"-_.*".contains(&b)));
        all.push(percent(value, upper, false, |_| false));
    }
    if let Ok(text) = std::str::from_utf8(value) {
        let plain = json(text, JsonStyle::Plain);
        // A JSON text within a JSON string: arguments of tool calls travel like this.
        all.push(json(&plain, JsonStyle::Plain).into_bytes());
        all.push(plain.into_bytes());
        all.extend(
            [JsonStyle::Slashes, JsonStyle::Html, JsonStyle::Ascii].map(|s| json(text, s).into_bytes()),
        );
    }
    distinct(all)
}

/// Encodings that tools break into lines.
pub(crate) fn wrapped(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![hex(value, b"0123456789abcdef"), hex(value, b"0123456789ABCDEF")];
    for alignment in 0..3 {
        all.push(base64_core(&STANDARD_NO_PAD, value, alignment));
        all.push(base64_core(&URL_SAFE_NO_PAD, value, alignment));
    }
    distinct(all)
}

fn distinct(mut all: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    all.sort_unstable();
    all.dedup();
    all
}

fn hex(value: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    value.iter().flat_map(|b| [digits[usize::from(b >> 4)], digits[usize::from(b & 15)]]).collect()
}

/// The letters that depend on the value alone when `alignment` other bytes stand before it. The letters at both ends
/// that mix in a neighbour's bits stay visible; they hold at most four bits each of the value.
fn base64_core(engine: &impl base64::Engine, value: &[u8], alignment: usize) -> Vec<u8> {
    let mut padded = vec![0; alignment];
    padded.extend_from_slice(value);
    let letters = engine.encode(&padded).into_bytes();
    let first = (alignment * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    letters[first..end].to_vec()
}

fn percent(value: &[u8], upper: bool, plus: bool, kept: impl Fn(u8) -> bool) -> Vec<u8> {
    let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut out = Vec::with_capacity(value.len() * 3);
    for &byte in value {
        if kept(byte) {
            out.push(byte);
        } else if plus && byte == b' ' {
            out.push(b'+');
        } else {
            out.push(b'%');
            out.extend(hex(&[byte], digits));
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonStyle {
    /// What must be escaped, short where there is a short form.
    Plain,
    /// Also `\/`, as PHP writes it.
    Slashes,
    /// Also `<`, `>` and `&`, as Go writes it.
    Html,
    /// All that is not ASCII too, as Python writes it.
    Ascii,
}

/// The inside of a JSON string.
fn json(text: &str, style: JsonStyle) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '/' if style == JsonStyle::Slashes => out.push_str("\\/"),
            '<' | '>' | '&' if style == JsonStyle::Html => unicode_escape(letter, &mut out),
            c if c < ' ' => unicode_escape(c, &mut out),
            c if style == JsonStyle::Ascii && !c.is_ascii() => unicode_escape(c, &mut out),
            c => out.push(c),
        }
    }
    out
}

fn unicode_escape(letter: char, out: &mut String) {
    for unit in letter.encode_utf16(&mut [0; 2]) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn base64_cores_are_found_wherever_the_value_stands() {
        let value = b"s3cr3t/token+value";
        for before in 0..7 {
            for after in 0..4 {
                let text = [vec![b'x'; before], value.to_vec(), vec![b'y'; after]].concat();
                let encoded = base64::engine::general_purpose::STANDARD.encode(&text);
                let found = wrapped(value).iter().any(|core| {
                    encoded.as_bytes().windows(core.len()).any(|window| window == core.as_slice())
                });
                assert!(found, "{before} before, {after} after");
            }
        }
    }

    #[test]
    fn escaped_forms_are_what_common_tools_write() {
        let all = exact("a/b\"<é".as_bytes());
        for form in [
            "a%2Fb%22%3C%C3%A9",
            "a%2fb%22%3c%c3%a9",
            "a/b\\\"<é",
            "a\\/b\\\"<é",
            "a/b\\\"\\u003cé",
            "a/b\\\"<\\u00e9",
        ] {
            assert!(all.iter().any(|p| p == form.as_bytes()), "{form}");
        }
    }
}
