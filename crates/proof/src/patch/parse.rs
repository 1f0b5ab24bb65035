//! From bytes to [`Patch`]: what git writes with our options, and nothing else.

use countersign_tree::{EntryMode, TreePath};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;

use super::{Binary, Body, Encoded, FileChange, Hunk, Patch, PatchError};
use crate::layout::MAX_CHANGED;

/// A cursor over lines.
struct Lines<'a> {
    rest: &'a [u8],
    /// The number of the next line, from 1.
    next: usize,
}

/// git's name of a content.
type Oid = [u8; 20];

type Parsed<T> = Result<T, PatchError>;

impl<'a> Lines<'a> {
    fn err<T>(&self, why: &'static str) -> Parsed<T> {
        Err(PatchError { line: self.next, why })
    }

    /// The next line without its newline; None at the end. A last line without a newline is refused by the caller's
    /// match, because git writes none.
    fn peek(&self) -> Option<&'a [u8]> {
        memchr::memchr(b'\n', self.rest).map(|end| &self.rest[..end])
    }

    fn take(&mut self) -> Parsed<&'a [u8]> {
        let Some(line) = self.peek() else { return self.err("the patch is cut here") };
        self.rest = &self.rest[line.len() + 1..];
        self.next += 1;
        Ok(line)
    }

    /// Takes the next line if it begins so, and gives what follows.
    fn after(&mut self, start: &[u8]) -> Option<&'a [u8]> {
        let rest = self.peek()?.strip_prefix(start)?;
        self.take().ok()?;
        Some(rest)
    }
}

pub(super) fn patch(bytes: &[u8]) -> Parsed<Patch<'_>> {
    let mut lines = Lines { rest: bytes, next: 1 };
    let mut files: Vec<FileChange<'_>> = Vec::new();
    let mut inflated = 0_u64;
    while !lines.rest.is_empty() {
        let file = file(&mut lines)?;
        if let Some(last) = files.last() {
            // A path whose kind changes is deleted and made again.
            let again = last.path == file.path && last.after.is_none() && file.before.is_none();
            let order = last.path < file.path;
            if !(again || order) {
                return Err(PatchError {
                    line: file.line,
                    why: "its paths are not sorted, or one stands twice",
                });
            }
        }
        if let Body::Binary(binary) = &file.body {
            inflated = inflated.saturating_add(binary.forward.size as u64 + binary.reverse.size as u64);
            if inflated > MAX_CHANGED.as_u64() {
                return Err(PatchError {
                    line: file.line,
                    why: "its binary contents together are too large",
                });
            }
        }
        files.push(file);
    }
    Ok(Patch { files })
}

fn file<'a>(lines: &mut Lines<'a>) -> Parsed<FileChange<'a>> {
    let line = lines.next;
    let Some(names) = lines.after(b"diff --git ") else { return lines.err("expected `diff --git`") };
    let Some(raw) = both_names(names) else {
        return Err(PatchError {
            line,
            why: "its two names are not one path, or are not quoted as git does",
        });
    };
    let path = TreePath::new(raw).map_err(|_| PatchError { line, why: "its path may not be in a tree" })?;
    let (mut before, mut after) = (None, None);
    let mut moded = true;
    if let Some(text) = lines.after(b"old mode ") {
        before = Some(mode(lines, text)?);
        let Some(text) = lines.after(b"new mode ") else { return lines.err("expected `new mode`") };
        after = Some(mode(lines, text)?);
        let files = |mode: Option<EntryMode>| matches!(mode, Some(EntryMode::File | EntryMode::Executable));
        if before == after || !files(before) || !files(after) {
            return lines
                .err("only a file becomes executable, or no longer; all else is deleted and made again");
        }
    } else if let Some(text) = lines.after(b"new file mode ") {
        after = Some(mode(lines, text)?);
    } else if let Some(text) = lines.after(b"deleted file mode ") {
        before = Some(mode(lines, text)?);
    } else {
        moded = false;
    }
    let Some(index) = lines.after(b"index ") else {
        return if before.is_some() && after.is_some() {
            Ok(FileChange { path, before, after, line, body: Body::Same })
        } else {
            lines.err("expected `index`")
        };
    };
    let here = lines.next - 1;
    let bad_index =
        PatchError { line: here, why: "expected two full object names, and a mode if none stood above" };
    let (old, new, same_mode) = index_line(index).ok_or(bad_index.clone())?;
    match same_mode {
        Some(text) if !moded => {
            before = Some(mode(lines, text)?);
            after = before;
        }
        None if moded => {}
        _ => return Err(bad_index),
    }
    if (old == [0; 20]) != before.is_none() || (new == [0; 20]) != after.is_none() {
        return Err(PatchError { line: here, why: "an absent side has the name zero, and no other has" });
    }
    let body = body(lines, &path, (before.is_some(), after.is_some()), (old, new))?;
    Ok(FileChange { path, before, after, line, body })
}

/// `OLD..NEW` or `OLD..NEW MODE`.
fn index_line(text: &[u8]) -> Option<(Oid, Oid, Option<&[u8]>)> {
    let (old, rest) = text.split_at_checked(40)?;
    let (new, rest) = rest.strip_prefix(b"..")?.split_at_checked(40)?;
    let mode = if rest.is_empty() { None } else { Some(rest.strip_prefix(b" ")?) };
    Some((hex20(old)?, hex20(new)?, mode))
}

fn hex20(text: &[u8]) -> Option<Oid> {
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; 20];
    for (slot, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *slot = (nibble(pair[0])? << 4) | nibble(pair[1])?;
    }
    Some(out)
}

/// The modes are those that a tree may have, in git's spelling.
fn mode(lines: &Lines<'_>, text: &[u8]) -> Parsed<EntryMode> {
    let unknown = PatchError { line: lines.next - 1, why: "a mode that no entry has" };
    let text = std::str::from_utf8(text).map_err(|_| unknown.clone())?;
    let reader: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    EntryMode::deserialize(reader).map_err(|_| unknown)
}

fn body<'a>(
    lines: &mut Lines<'a>,
    path: &TreePath,
    (had, has): (bool, bool),
    (old, new): (Oid, Oid),
) -> Parsed<Body<'a>> {
    if lines.after(b"GIT binary patch").is_some_and(<[u8]>::is_empty) {
        let line = lines.next - 1;
        let (forward, reverse) = (encoded(lines)?, encoded(lines)?);
        return Ok(Body::Binary(Box::new(Binary { line, old, new, forward, reverse })));
    }
    let Some(name) = lines.after(b"--- ") else {
        // An empty file has no lines to show.
        return if had != has { Ok(Body::Same) } else { lines.err("expected `---` or `GIT binary patch`") };
    };
    let wanted =
        |side: &[u8], there: bool| if there { shown_name(side, path) } else { b"/dev/null".to_vec() };
    if name != wanted(b"a/", had) {
        return Err(PatchError { line: lines.next - 1, why: "`---` names another path" });
    }
    match lines.after(b"+++ ") {
        Some(name) if name == wanted(b"b/", has) => {}
        _ => return lines.err("expected `+++` with the same path"),
    }
    let mut hunks = Vec::new();
    while lines.peek().is_some_and(|line| line.starts_with(b"@@ ")) {
        hunks.push(hunk(lines)?);
    }
    if hunks.is_empty() { lines.err("expected `@@`") } else { Ok(Body::Text(hunks)) }
}

fn hunk<'a>(lines: &mut Lines<'a>) -> Parsed<Hunk<'a>> {
    let line = lines.next;
    let header = lines.take()?;
    let Some(((old_start, old_count), (new_start, new_count))) = hunk_header(header) else {
        return Err(PatchError { line, why: "the hunk's header cannot be read" });
    };
    let start = lines.rest;
    let (mut old, mut new) = (0, 0);
    while old < old_count || new < new_count || lines.peek().is_some_and(|line| line.starts_with(b"\\")) {
        match lines.take()?.first() {
            Some(b' ') => (old, new) = (old + 1, new + 1),
            Some(b'-') => old += 1,
            Some(b'+') => new += 1,
            Some(b'\\') if old + new > 0 => {}
            _ => return Err(PatchError { line: lines.next - 1, why: "a hunk's line has no sign" }),
        }
    }
    if old != old_count || new != new_count {
        return Err(PatchError { line, why: "the hunk has more lines of one side than it says" });
    }
    let body = &start[..start.len() - lines.rest.len()];
    Ok(Hunk { line, old_start, old_count, new_start, new_count, body })
}

type Range = (usize, usize);

fn hunk_header(text: &[u8]) -> Option<(Range, Range)> {
    let rest = text.strip_prefix(b"@@ -")?;
    let (old, rest) = range(rest)?;
    let (new, rest) = range(rest.strip_prefix(b" +")?)?;
    let rest = rest.strip_prefix(b" @@")?;
    // What follows is a line of the file, for people.
    (rest.is_empty() || rest.starts_with(b" ")).then_some((old, new))
}

/// `START` (one line) or `START,COUNT`.
fn range(text: &[u8]) -> Option<(Range, &[u8])> {
    let (start, rest) = number(text)?;
    let Some(rest) = rest.strip_prefix(b",") else { return Some(((start, 1), rest)) };
    let (count, rest) = number(rest)?;
    // git leaves out a count of 1.
    (count != 1).then_some(((start, count), rest))
}

fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..len]).ok()?;
    let plain = len <= 10 && (len == 1 || !digits.starts_with('0'));
    plain.then(|| digits.parse().ok().map(|number| (number, &text[len..])))?
}

/// One side of a binary patch: its header, lines of base85, and an empty line.
fn encoded<'a>(lines: &mut Lines<'a>) -> Parsed<Encoded<'a>> {
    let line = lines.next;
    let (delta, size) = if let Some(size) = lines.after(b"literal ") {
        (false, size)
    } else if let Some(size) = lines.after(b"delta ") {
        (true, size)
    } else {
        return lines.err("expected `literal` or `delta`");
    };
    let size = match number(size) {
        Some((size, b"")) => size,
        _ => return Err(PatchError { line, why: "its size cannot be read" }),
    };
    let start = lines.rest;
    while !lines.take()?.is_empty() {}
    let text = &start[..start.len() - lines.rest.len() - 1];
    Ok(Encoded { line, delta, size, text })
}

/// The path of `a/PATH b/PATH` or its quoted form.
fn both_names(text: &[u8]) -> Option<Vec<u8>> {
    let path = if text.starts_with(b"\"") {
        let (first, rest) = unquote(text)?;
        let path = first.strip_prefix(b"a/")?.to_vec();
        let (second, rest) = unquote(rest.strip_prefix(b" ")?)?;
        (rest.is_empty() && second.strip_prefix(b"b/")? == path).then_some(path)?
    } else {
        // `a/` + PATH + ` b/` + PATH
        let len = text.len().checked_sub(5).filter(|rest| rest % 2 == 0)? / 2;
        let path = text.strip_prefix(b"a/")?.get(..len)?.to_vec();
        (text[2 + len..].strip_prefix(b" b/")? == path).then_some(path)?
    };
    // One spelling for each path.
    let spelled = [quoted(b"a/", &path), b" ".to_vec(), quoted(b"b/", &path)].concat();
    (spelled == text).then_some(path)
}

/// As git writes a name behind `---`: a tab follows when it holds a space, also behind its quotes.
fn shown_name(side: &[u8], path: &TreePath) -> Vec<u8> {
    let mut out = quoted(side, path.as_bytes());
    if path.as_bytes().contains(&b' ') {
        out.push(b'\t');
    }
    out
}

/// git's C style (`core.quotePath` on).
fn quoted(side: &[u8], path: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if path.iter().all(plain) {
        return [side, path].concat();
    }
    let mut out = [b"\"", side].concat();
    for byte in path {
        match byte {
            byte if plain(byte) => out.push(*byte),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b'\t' => out.extend(b"\\t"),
            b'\n' => out.extend(b"\\n"),
            0x0b => out.extend(b"\\v"),
            0x0c => out.extend(b"\\f"),
            b'\r' => out.extend(b"\\r"),
            b'"' => out.extend(b"\\\""),
            b'\\' => out.extend(b"\\\\"),
            other => out.extend(format!("\\{other:03o}").bytes()),
        }
    }
    out.push(b'"');
    out
}

/// Reads one quoted name and gives what follows it.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut out = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => return Some((out, rest)),
            b'\\' => {
                let (kind, after) = rest.split_first()?;
                rest = after;
                out.push(match kind {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'"' | b'\\' => *kind,
                    b'0'..=b'3' => {
                        let (more, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let octal = |sum: u8, digit: &u8| {
                            (b'0'..=b'7').contains(digit).then(|| sum * 8 + (digit - b'0'))
                        };
                        more.iter().try_fold(kind - b'0', octal)?
                    }
                    _ => return None,
                });
            }
            other => out.push(*other),
        }
    }
}
