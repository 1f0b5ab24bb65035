//! Which bytes of a source are code: neither comment nor string. Good enough to choose what to change; a mistake costs a mutant
//! that changes nothing, never a verdict.

use crate::protocol::MutantLanguage as Language;

/// For each byte, whether it is code.
pub(super) fn code(text: &[u8], language: Language) -> Vec<bool> {
    let mut code = vec![true; text.len()];
    let mut at = 0;
    while at < text.len() {
        let end = match other(text, at, language) {
            Some(end) => end.min(text.len()),
            None => {
                at += 1;
                continue;
            }
        };
        code[at..end].fill(false);
        at = end.max(at + 1);
    }
    code
}

/// Where the comment or the string ends that begins here, if one does.
fn other(text: &[u8], at: usize, language: Language) -> Option<usize> {
    let rest = &text[at..];
    let inside_word = at > 0 && word(text[at - 1]);
    match (language, rest) {
        (Language::Python, [b'#', ..]) => Some(line_end(text, at)),
        (Language::Python, _) => {
            let quote = *rest.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
            if rest.get(..3) == Some(&[quote; 3]) {
                return Some(until(text, at + 3, &[quote; 3], true));
            }
            Some(quoted(text, at + 1, quote, false))
        }
        (_, [b'/', b'/', ..]) => Some(line_end(text, at)),
        (Language::Rust, [b'/', b'*', ..]) => Some(nested(text, at)),
        (_, [b'/', b'*', ..]) => Some(until(text, at + 2, b"*/", false)),
        (Language::Rust, [b'r', ..]) if !inside_word => raw(text, at + 1),
        (Language::Rust, [b'b', b'r', ..]) if !inside_word => raw(text, at + 2),
        (Language::Rust, [b'\'', b'\\', ..]) => Some(quoted(text, at + 1, b'\'', false)),
        (Language::Rust, [b'\'', ..]) => {
            // `'x'` is a character of one to four bytes, `'x` a lifetime.
            (2..=5)
                .find(|length| rest.get(*length) == Some(&b'\''))
                .filter(|_| rest.get(1) != Some(&b'\''))
                .map(|length| at + length + 1)
        }
        (Language::Rust, [b'"', ..]) => Some(quoted(text, at + 1, b'"', true)),
        (Language::Go, [b'`', ..]) => Some(until(text, at + 1, b"`", false)),
        (Language::JavaScript, [b'`', ..]) => Some(quoted(text, at + 1, b'`', true)),
        (_, [quote @ (b'"' | b'\''), ..]) => Some(quoted(text, at + 1, *quote, false)),
        _ => None,
    }
}

pub(super) const fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn line_end(text: &[u8], from: usize) -> usize {
    text[from..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |length| from + length)
}

/// Behind the closing mark. `escapes`: a backslash takes the next byte with it.
fn until(text: &[u8], from: usize, mark: &[u8], escapes: bool) -> usize {
    let mut at = from;
    while at < text.len() {
        if escapes && text[at] == b'\\' {
            at += 2;
        } else if text[at..].starts_with(mark) {
            return at + mark.len();
        } else {
            at += 1;
        }
    }
    text.len()
}

/// A string with escapes; one that may not hold a line break ends there.
fn quoted(text: &[u8], from: usize, quote: u8, lines: bool) -> usize {
    let mut at = from;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' if !lines => return at,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn nested(text: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => {
                (at, depth) = (at + 2, depth.saturating_sub(1));
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#`; None for a name that begins with r.
fn raw(text: &[u8], from: usize) -> Option<usize> {
    let marks = text[from..].iter().take_while(|byte| **byte == b'#').count();
    if text.get(from + marks) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + marks, b'#');
    Some(until(text, from + marks + 1, &end, false))
}
