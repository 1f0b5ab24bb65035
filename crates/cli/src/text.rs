//! Text of others on a person's terminal: escaped, bounded.

use std::fmt::Write as _;

/// Characters of a line of the trace, at most.
pub(crate) const LINE: usize = 110;

/// `text` on one line of at most `width` characters: the first line that is not blank, control, escape and bidi
/// characters escaped, and an ellipsis where something is missing.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut out = String::new();
    let mut count = 0;
    for c in line.chars() {
        let shown = escaped(c);
        count += shown.chars().count();
        if count >= width {
            out.push('…');
            return out;
        }
        out.push_str(&shown);
    }
    out
}

/// `text` with everything but newlines and tabs escaped that could move a cursor or hide something.
pub(crate) fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            c => out.push_str(&escaped(c)),
        }
    }
    out
}

fn escaped(c: char) -> String {
    let mut out = String::new();
    if c.is_control() || is_hidden(c) {
        // Writing to a String does not fail.
        let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
    } else {
        out.push(c);
    }
    out
}

/// Characters that change reading direction, take no room or break lines: they hide text from a reader.
const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// `a`, `b` or `c`, with the word that joins the last two.
pub(crate) fn list(items: &[&str], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} {word} {last}", most.join(", ")),
    }
}

/// An address that somebody gave, for a message: without a user's name and password, query and fragment.
pub(crate) fn address(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['@', '?', '#']) => (format!("{scheme}://"), rest),
        _ => (String::new(), url),
    };
    match (rest.rsplit_once('@'), rest.find(['?', '#'])) {
        (None, None) => url.to_owned(),
        // A password may hold anything unescaped: everything before the last `@` can be part of it.
        (Some((_, place)), None) => format!("{scheme}…@{place}"),
        (None, Some(at)) => format!("{scheme}{}…", &rest[..at]),
        // It cannot be told where which begins.
        (Some(_), Some(_)) => format!("{scheme}…"),
    }
}

/// A message with every address in it as [`address`] shows it.
pub(crate) fn without_secrets(message: &str) -> String {
    const ENDS: &[char] = &['`', '"', '\''];
    let mut out = String::new();
    for word in message.split_inclusive(|c: char| c.is_whitespace() || ENDS.contains(&c)) {
        let end = word.char_indices().last().filter(|(_, c)| c.is_whitespace() || ENDS.contains(c));
        let (body, end) = word.split_at(end.map_or(word.len(), |(at, _)| at));
        out.push_str(&if body.contains("://") { address(body) } else { body.to_owned() });
        out.push_str(end);
    }
    out
}

/// One word of a command as a person would type it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A command as a person would type it.
pub(crate) fn command(argv: &[String]) -> String {
    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_or_hides_text_is_sent() {
        assert_eq!(safe("a\u{1b}[2J\tb\nc\u{202e}d\r"), "a\\u{1b}[2J\tb\nc\\u{202e}d\\u{d}");
        assert_eq!(safe("é 漢字 🦀"), "é 漢字 🦀");
        assert_eq!(safe("\u{e0041}\u{200b}"), "\\u{e0041}\\u{200b}");
        assert_eq!(safe("\u{9b}31m"), "\\u{9b}31m", "C1 control sequence introducer");
    }

    #[test]
    fn addresses_are_shown_without_what_opens_them() {
        for (url, shown) in [
            ("https://host/v1", "https://host/v1"),
            ("http://u:pw@host/v1", "http://…@host/v1"),
            ("http://u:p@w/x@host/v1", "http://…@host/v1"),
            ("https://host/v1?key=pw", "https://host/v1…"),
            ("https://host/v1#pw", "https://host/v1…"),
            ("http://u:p?w@host/v1", "http://…"),
            ("http://host?mail=a@b", "http://…"),
            ("u:pw@host", "…@host"),
            ("u:p://w@host", "u:p://…@host"),
            ("u:p?://w@host", "…"),
            ("ftp://x", "ftp://x"),
            ("", ""),
        ] {
            assert_eq!(address(url), shown, "{url}");
        }
        assert_eq!(
            without_secrets("`http://u:pw@h/v1` and\n\"https://h?k=pw\", not me@home or a?b"),
            "`http://…@h/v1` and\n\"https://h…\", not me@home or a?b"
        );
    }

    #[test]
    fn a_line_is_one_line_and_bounded() {
        assert_eq!(one_line("\n  \n first\nsecond", 20), "first");
        assert_eq!(one_line("", 20), "");
        for width in [1, 2, 10, 50] {
            let line = one_line(&"x\u{1b}".repeat(100), width);
            assert!(line.chars().count() <= width, "{width}: {line}");
            assert!(line.ends_with('…'));
        }
    }

    #[test]
    fn commands_are_shown_as_they_would_be_typed() {
        let argv = ["sh", "-c", "it's | fine", ""].map(str::to_owned);
        assert_eq!(command(&argv), r"sh -c 'it'\''s | fine' ''");
    }
}
