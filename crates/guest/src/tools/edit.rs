//! `edit_file`: one exact replacement. What is not replaced keeps every byte: endings, marks, invalid UTF-8, and the
//! lines that `old` and `new` share.

use super::{Answer, Done, Rules, error, resolve, write};
use crate::protocol::ToolBounds;
use crate::state::Guest;

/// Larger files are not edited in memory.
const MAX_FILE: usize = 64 << 20;
/// Line numbers that an error names.
const MAX_NAMED_LINES: usize = 10;

pub(super) fn edit(
    guest: &Guest,
    path: &str,
    (old, new): (&str, &str),
    count: u32,
    bounds: &ToolBounds,
    rules: &Rules<'_>,
) -> Answer {
    let found = resolve::existing_file(guest, path)?;
    let name = found.shown();
    if old.is_empty() {
        return error("old is empty: give the text to replace, or use `write_file` to make a file");
    }
    if old == new {
        return error(
            "old and new are the same: nothing would change. Give the text as it should become in new",
        );
    }
    if count == 0 {
        return error("count must be at least 1: how many places are replaced");
    }
    if new.len() as u64 > bounds.write_bytes {
        return error(format!("new has {} bytes; one call may write {}", new.len(), bounds.write_bytes));
    }
    rules.check_place(&found.path)?;
    let (before, mode) = write::read(guest, &found.path, &name)?;
    if before.len() > MAX_FILE {
        return error(format!("`{name}` has {} bytes, too many for `edit_file`. Use `run`", before.len()));
    }
    let places = find(&before, old.as_bytes());
    if places.is_empty() {
        return error(not_found(&before, old, &name));
    }
    if places.len() as u64 != u64::from(count) {
        let lines = lines_of(&before, &places);
        let times = if places.len() == 1 { "once".to_owned() } else { format!("{} times", places.len()) };
        return error(format!(
            "old occurs {times} in `{name}` ({lines}), and count is {count}: nothing was changed. Give more of the \
             lines around the right place, or count: {}",
            places.len()
        ));
    }
    let after = replace(&before, &places, old.as_bytes(), new.as_bytes());
    if after == before {
        return error(format!(
            "the edit would leave `{name}` exactly as it is. Give the changed text in new"
        ));
    }
    rules.check_change(&found, Some(&before), &after)?;
    write::save(guest, &found.path, mode, &after)?;
    let lines = lines_of(&before, &places);
    Ok(Done { text: format!("edited `{name}` ({lines})"), wrote: true })
}

/// A match in the file's bytes.
type Place = std::ops::Range<usize>;

/// Where `old` ends when it stands at `at`. Its `\n` also matches `\r\n`.
fn match_at(bytes: &[u8], at: usize, old: &[u8]) -> Option<usize> {
    let mut position = at;
    let mut previous = 0;
    for byte in old {
        let here = *bytes.get(position)?;
        if here == *byte {
            position += 1;
        } else if *byte == b'\n' && previous != b'\r' && bytes[position..].starts_with(b"\r\n") {
            position += 2;
        } else {
            return None;
        }
        previous = *byte;
    }
    Some(position)
}

fn find(bytes: &[u8], old: &[u8]) -> Vec<Place> {
    let mut places = Vec::new();
    let Some(first) = old.first() else { return places };
    let mut from = 0;
    while let Some(at) = memchr::memchr(*first, &bytes[from..]).map(|at| from + at) {
        // A leading `\n` takes the `\r` before it along, unless an earlier match has it.
        let start = if *first == b'\n' && at > from && bytes[at - 1] == b'\r' { at - 1 } else { at };
        match match_at(bytes, start, old) {
            Some(end) => {
                places.push(start..end);
                from = end;
            }
            None => from = at + 1,
        }
    }
    places
}

fn replace(bytes: &[u8], places: &[Place], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (head, tail) = shared_lines(old, new);
    let changed_old = &old[head..old.len() - tail];
    let changed_new = &new[head..new.len() - tail];
    let mut out = Vec::with_capacity(bytes.len() + new.len());
    let mut done = 0;
    for place in places {
        // Both match: they are parts of what matched as a whole.
        let start = match_at(bytes, place.start, &old[..head]).unwrap_or(place.start);
        let end = match_at(bytes, start, changed_old).unwrap_or(place.end);
        out.extend_from_slice(&bytes[done..start]);
        if ends_with_crlf(bytes, start) {
            let mut previous = 0;
            for byte in changed_new {
                if *byte == b'\n' && previous != b'\r' {
                    out.push(b'\r');
                }
                out.push(*byte);
                previous = *byte;
            }
        } else {
            out.extend_from_slice(changed_new);
        }
        done = end;
    }
    out.extend_from_slice(&bytes[done..]);
    out
}

/// Bytes of the whole lines that both texts begin and end with. They stay as the file has them.
fn shared_lines(old: &[u8], new: &[u8]) -> (usize, usize) {
    let lines = |text| <[u8]>::split_inclusive(text, |b: &u8| *b == b'\n').collect::<Vec<&[u8]>>();
    let (a, b) = (lines(old), lines(new));
    let whole = |line: &&[u8]| line.ends_with(b"\n");
    let ahead = a.iter().zip(&b).take_while(|(x, y)| x == y && whole(x)).count();
    let room = a.len().min(b.len()) - ahead;
    let behind = a.iter().rev().zip(b.iter().rev()).take(room).take_while(|(x, y)| x == y).count();
    let length = |lines: &[&[u8]]| lines.iter().map(|l| l.len()).sum::<usize>();
    (length(&a[..ahead]), length(&a[a.len() - behind..]))
}

/// The ending of the lines around a place: in it, else the next one, else the one before.
fn ends_with_crlf(bytes: &[u8], start: usize) -> bool {
    let crlf = |at: usize| at > 0 && bytes[at - 1] == b'\r';
    // The first ending at or behind the start is in the place, or that of the line it ends in.
    if let Some(at) = memchr::memchr(b'\n', &bytes[start..]) {
        return crlf(start + at);
    }
    memchr::memrchr(b'\n', &bytes[..start]).is_some_and(crlf)
}

fn line_number(bytes: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1
}

fn lines_of(bytes: &[u8], places: &[Place]) -> String {
    let numbers: Vec<String> =
        places.iter().take(MAX_NAMED_LINES).map(|p| line_number(bytes, p.start).to_string()).collect();
    let more = if places.len() > MAX_NAMED_LINES { ", …" } else { "" };
    let word = if places.len() == 1 { "line" } else { "lines" };
    format!("{word} {}{more}", numbers.join(", "))
}

/// Says what is near, so that the next try can be right.
fn not_found(bytes: &[u8], old: &str, name: &str) -> String {
    let first = old.lines().find(|l| !l.trim().is_empty()).unwrap_or("").trim();
    let near = if first.is_empty() { Vec::new() } else { find(bytes, first.as_bytes()) };
    let hint = match near.as_slice() {
        [] => "Its first line is nowhere in the file.".to_owned(),
        places => format!(
            "Its first line is there ({}), but what is around it differs: white space counts.",
            lines_of(bytes, places)
        ),
    };
    format!("old does not occur in `{name}`: nothing was changed. {hint} `read_file` shows the exact text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(before: &[u8], old: &str, new: &str) -> Vec<u8> {
        let places = find(before, old.as_bytes());
        assert_eq!(places.len(), 1, "{old:?} in {}", before.escape_ascii());
        replace(before, &places, old.as_bytes(), new.as_bytes())
    }

    #[test]
    fn new_lines_take_the_endings_of_their_neighbours() {
        for (before, old, new, after) in [
            (&b"a\r\nb\r\nc\r\n"[..], "b\n", "b\nx\n", &b"a\r\nb\r\nx\r\nc\r\n"[..]),
            (b"a\r\nb\r\nc", "b", "b1\nb2", b"a\r\nb1\r\nb2\r\nc"),
            (b"a\nb\nc", "b", "b1\nb2", b"a\nb1\nb2\nc"),
            (b"a\r\nb", "b", "b1\nb2", b"a\r\nb1\r\nb2"),
            (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nb\nd", b"a\r\nb\nd\r\n"),
            (b"x\r\n", "\n", "\ny\n", b"x\r\ny\r\n"),
            (b"\xef\xbb\xbfa\r\n", "a", "b", b"\xef\xbb\xbfb\r\n"),
            (b"\xff\xfea\xc3(", "a", "", b"\xff\xfe\xc3("),
            (b"a\r\nb\r\n", "a\r\nb\r\n", "c\r\n", b"c\r\n"),
            (b"one", "one", "one\n", b"one\n"),
        ] {
            let got = edited(before, old, new);
            assert_eq!(got, after, "{old:?} -> {new:?}: {}", got.escape_ascii());
        }
    }

    #[test]
    fn places_do_not_overlap() {
        assert_eq!(find(b"aaaa", b"aa"), [0..2, 2..4]);
        assert_eq!(find(b"a\r\n\r\nb", b"\n\n").first(), Some(&(1..5)));
        assert!(find(b"", b"a").is_empty());
    }
}
