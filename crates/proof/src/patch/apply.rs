use countersign_types::{Digest, Hasher};
use sha1::Digest as _;

use super::binary::{Step, delta, inflate};
use super::{Binary, Encoded, Hunk, PatchError};
use crate::layout::MAX_FILE;

/// Takes the content after a change: its digest and length, and the bytes where somebody wants them.
#[derive(Debug)]
pub struct Sink {
    hasher: Hasher,
    len: usize,
    limit: u64,
    bytes: Option<Vec<u8>>,
}

impl Sink {
    /// Counts and hashes. More than `limit` bytes are an error.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { hasher: Hasher::new(), len: 0, limit: limit.min(MAX_FILE.as_u64()), bytes: None }
    }

    /// Keeps the bytes as well.
    #[must_use]
    pub fn keeping(limit: u64) -> Self {
        Self { bytes: Some(Vec::new()), ..Self::new(limit) }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Digest, length, and the bytes if they were kept.
    #[must_use]
    pub fn finish(self) -> (Digest, u64, Option<Vec<u8>>) {
        (self.hasher.finish(), self.len as u64, self.bytes)
    }

    pub(super) fn put(&mut self, bytes: &[u8], line: usize) -> Result<(), PatchError> {
        self.len += bytes.len();
        if self.len as u64 > self.limit {
            return Err(PatchError { line, why: "it makes a larger file than it should" });
        }
        self.hasher.update(bytes);
        if let Some(kept) = &mut self.bytes {
            kept.extend_from_slice(bytes);
        }
        Ok(())
    }
}

const NO_NEWLINE: &[u8] = b"\\ No newline at end of file\n";

/// The lines of a hunk: sign and bytes, the newline included unless the patch says that there is none.
fn lines<'a>(hunk: &Hunk<'a>) -> impl Iterator<Item = Result<(u8, &'a [u8], usize), PatchError>> {
    let (mut rest, mut next) = (hunk.body, hunk.line + 1);
    std::iter::from_fn(move || {
        let len = memchr::memchr(b'\n', rest)? + 1;
        let (whole, after) = rest.split_at(len);
        let line = next;
        (rest, next) = (after, next + 1);
        let mut bytes = &whole[1..];
        if rest.starts_with(b"\\") {
            let Some(after) = rest.strip_prefix(NO_NEWLINE) else {
                return Some(Err(PatchError { line: next, why: "an unknown line with `\\`" }));
            };
            (rest, next) = (after, next + 1);
            bytes = &bytes[..bytes.len() - 1];
        }
        Some(Ok((whole[0], bytes, line)))
    })
}

pub(super) fn text(hunks: &[Hunk<'_>], before: &[u8], out: &mut Sink) -> Result<(), PatchError> {
    let mut rest = before;
    // Lines taken from before, and written, so far.
    let (mut taken, mut written) = (0, 0);
    for hunk in hunks {
        let err = |why| Err(PatchError { line: hunk.line, why });
        // A side without lines names the line in front of it.
        let first = |start: usize, count: usize| if count == 0 { Some(start) } else { start.checked_sub(1) };
        let (Some(old), Some(new)) =
            (first(hunk.old_start, hunk.old_count), first(hunk.new_start, hunk.new_count))
        else {
            return err("the hunk begins at line 0");
        };
        let Some(skip) = old.checked_sub(taken) else {
            return err("the hunk begins inside of the one above");
        };
        let kept = line_end(rest, skip)
            .ok_or(PatchError { line: hunk.line, why: "the file ends above the hunk" })?;
        out.put(&rest[..kept], hunk.line)?;
        rest = &rest[kept..];
        (taken, written) = (taken + skip, written + skip);
        if written != new {
            return err("the hunk's new place does not follow from its old one");
        }
        let (mut trailing, mut changes) = (0, 0);
        let mut ended = false;
        for line in lines(hunk) {
            let (sign, bytes, at) = line?;
            if sign != b'-' {
                if ended {
                    return Err(PatchError { line: at, why: "it follows a line without newline" });
                }
                out.put(bytes, at)?;
                written += 1;
                ended = !bytes.ends_with(b"\n");
            }
            if sign == b' ' {
                trailing += 1;
            } else {
                (trailing, changes) = (0, changes + 1);
            }
            if sign != b'+' {
                let mismatch = PatchError { line: at, why: "the file has another line here" };
                rest = rest.strip_prefix(bytes).ok_or(mismatch.clone())?;
                if !bytes.ends_with(b"\n") && !rest.is_empty() {
                    return Err(mismatch);
                }
                taken += 1;
            }
        }
        if changes == 0 {
            return err("the hunk changes nothing");
        }
        // As git: a hunk without context behind it is the last.
        if (trailing == 0 || ended) && !rest.is_empty() {
            return err("the file goes on behind the hunk");
        }
    }
    out.put(rest, hunks.last().map_or(0, |hunk| hunk.line))
}

/// What git shows in a gitlink's place, before and behind the commit's id.
const SUBPROJECT: &[u8] = b"Subproject commit ";

/// The content of a gitlink is a commit's id; the patch is one of the line that git shows for it.
pub(super) fn gitlink(
    hunks: &[Hunk<'_>],
    before: &[u8],
    out: &mut Sink,
    line: usize,
) -> Result<(), PatchError> {
    let shown = if before.is_empty() { Vec::new() } else { [SUBPROJECT, before, b"\n"].concat() };
    let mut sink = Sink::keeping(MAX_SUBPROJECT);
    text(hunks, &shown, &mut sink)?;
    let after = sink.bytes.unwrap_or_default();
    if after.is_empty() {
        return Ok(());
    }
    let id = after.strip_prefix(SUBPROJECT).and_then(|rest| rest.strip_suffix(b"\n"));
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    match id.filter(|id| id.len() == 40 && id.iter().all(hex)) {
        Some(id) => out.put(id, line),
        None => Err(PatchError { line, why: "it does not name a commit" }),
    }
}

/// The line of a gitlink has 59 bytes.
const MAX_SUBPROJECT: u64 = 100;

/// Where the first `count` whole lines end.
fn line_end(bytes: &[u8], count: usize) -> Option<usize> {
    match count.checked_sub(1) {
        None => Some(0),
        Some(last) => memchr::memchr_iter(b'\n', bytes).nth(last).map(|at| at + 1),
    }
}

pub(super) fn binary(binary: &Binary<'_>, before: &[u8], out: &mut Sink) -> Result<(), PatchError> {
    let limit = usize::try_from(MAX_FILE.as_u64()).unwrap_or(usize::MAX);
    let err = |why| Err(PatchError { line: binary.line, why });
    if binary.old != [0; 20] && blob_name(before) != binary.old {
        return err("the file is not the one that the patch names");
    }
    // git reads both sides, so a damaged one is refused there too.
    inflate(&binary.reverse, limit)?;
    let data = inflate(&binary.forward, limit)?;
    let after = one_side(&binary.forward, before, data)?;
    if binary.new != [0; 20] && blob_name(&after) != binary.new {
        return err("the result is not the content that the patch names");
    }
    out.put(&after, binary.line)
}

fn one_side(encoded: &Encoded<'_>, before: &[u8], data: Vec<u8>) -> Result<Vec<u8>, PatchError> {
    if !encoded.delta {
        return Ok(data);
    }
    let bad = PatchError { line: encoded.line, why: "its delta does not fit" };
    let (old, new, steps) = delta(&data).ok_or(bad.clone())?;
    if old != before.len() || new as u64 > MAX_FILE.as_u64() {
        return Err(bad);
    }
    let mut out = Vec::with_capacity(new.min(1 << 20));
    for step in steps {
        let piece = match step {
            Step::Insert(bytes) => Some(bytes),
            Step::Copy { at, len } => before.get(at..at.saturating_add(len)),
        };
        out.extend_from_slice(piece.ok_or(bad.clone())?);
        // Copies could name the same bytes again and again.
        if out.len() > new {
            return Err(bad);
        }
    }
    if out.len() == new { Ok(out) } else { Err(bad) }
}

/// git's name of a content.
fn blob_name(bytes: &[u8]) -> [u8; 20] {
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    hasher.finalize().into()
}
