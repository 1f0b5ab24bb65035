use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Seek};

use super::{Answer, error, is_binary, readable, resolve, said};
use crate::protocol::ToolBounds;
use crate::state::Guest;

/// Bytes of one line that are shown.
const MAX_LINE: usize = 2000;
/// Bytes of a result that notes may take.
const NOTES: usize = 400;

/// Lines `from` to `to`, both counted from 1 and shown, each behind its number.
pub(super) fn read(
    guest: &Guest,
    path: &str,
    from: Option<u64>,
    to: Option<u64>,
    bounds: &ToolBounds,
) -> Answer {
    let found = resolve::existing_file(guest, path)?;
    let name = found.shown();
    let first = from.unwrap_or(1);
    if first == 0 {
        return error("lines are counted from 1: give from: 1 or leave it out");
    }
    if to.is_some_and(|to| to < first) {
        return error(format!("to is before from: give a range such as from: {first}, to: {}", first + 99));
    }
    let wanted_last = to.unwrap_or(u64::MAX).min(first.saturating_add(bounds.read_lines - 1));

    let (mut file, stat) = match guest.root.file(&found.path) {
        Ok(opened) => opened,
        Err(e) => return error(format!("`{name}` cannot be read: {e}")),
    };
    let mut head = Vec::new();
    let looked = (&mut file).take(8192).read_to_end(&mut head).and_then(|_| file.rewind());
    if let Err(e) = looked {
        return error(format!("`{name}` cannot be read: {e}"));
    }
    if head.is_empty() {
        return said(format!("`{name}` is empty (0 bytes)"));
    }
    if is_binary(&head) {
        return said(format!(
            "`{name}` is binary ({} bytes) and is not shown. Use `run` with a tool that reads it",
            stat.st_size
        ));
    }

    let mut reader = BufReader::with_capacity(1 << 16, file);
    let limit = usize::try_from(bounds.result_bytes).unwrap_or(usize::MAX).saturating_sub(NOTES);
    let mut view = View { text: String::new(), last: 0, escaped: false, crlf: 0, cut: false };
    let mut number = 0_u64;
    let mut ends_with_newline = true;
    let mut line = Vec::new();
    loop {
        line.clear();
        let whole = match next_line(&mut reader, &mut line) {
            Ok(None) => break,
            Ok(Some(whole)) => whole,
            Err(e) => return error(format!("`{name}` cannot be read: {e}")),
        };
        number += 1;
        ends_with_newline = whole.newline;
        if number >= first && number <= wanted_last && !view.full(limit) {
            view.show(number, &line, whole.length);
        }
    }
    if first > number {
        return error(format!("`{name}` has only {number} lines. Give from: 1 to {number}"));
    }
    let mut text = view.text;
    let notes = [
        (head.starts_with(b"\xef\xbb\xbf"), "the file starts with a UTF-8 byte order mark"),
        (view.crlf > 0, "lines end with CRLF"),
        (view.escaped, "bytes that are not UTF-8 are shown as \\xNN"),
        (view.cut, "long lines are cut"),
        (view.last == number && !ends_with_newline, "no newline at the end of the file"),
    ];
    for (holds, note) in notes {
        if holds {
            let _ = writeln!(text, "[{note}]");
        }
    }
    if view.last < number {
        let (next, end) = (view.last + 1, number.min(view.last + bounds.read_lines));
        let _ = writeln!(
            text,
            "[lines {first}-{} of {number} are shown; go on with from: {next}, to: {end}]",
            view.last
        );
    }
    said(text)
}

struct View {
    text: String,
    last: u64,
    escaped: bool,
    crlf: u64,
    cut: bool,
}

impl View {
    fn full(&self, limit: usize) -> bool {
        self.text.len() >= limit
    }

    fn show(&mut self, number: u64, line: &[u8], length: u64) {
        let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        let (line, crlf) = match line.strip_suffix(b"\r") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        self.crlf += u64::from(crlf);
        let (shown, escaped) = readable(line);
        self.escaped |= escaped;
        let _ = write!(self.text, "{number:>5}| {shown}");
        if length > line.len() as u64 + 4 {
            self.cut = true;
            let _ = write!(self.text, " […{length} bytes]");
        }
        self.text.push('\n');
        self.last = number;
    }
}

struct Whole {
    length: u64,
    newline: bool,
}

/// Reads one line, of which at most [`MAX_LINE`] bytes are kept. None: the file ended.
fn next_line(reader: &mut impl BufRead, kept: &mut Vec<u8>) -> std::io::Result<Option<Whole>> {
    let mut length = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((length > 0).then_some(Whole { length, newline: false }));
        }
        let (part, used, newline) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (&buffer[..at], at + 1, true),
            None => (buffer, buffer.len(), false),
        };
        let room = MAX_LINE.saturating_sub(kept.len());
        kept.extend_from_slice(&part[..part.len().min(room)]);
        length += part.len() as u64;
        reader.consume(used);
        if newline {
            return Ok(Some(Whole { length, newline }));
        }
    }
}
