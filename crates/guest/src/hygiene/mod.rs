//! What a reviewer wants to be told of a change besides whether it works: secrets, lockfiles, files that start by
//! themselves, large binaries, characters that hide something. Told, never judged: nothing here stops a success.
//!
//! Only what the change brings is told. A line or a value that the base has already is the base's own affair.

mod hidden;
mod paths;
mod scripts;
mod secrets;
#[cfg(test)]
mod tests;

pub use paths::started_by;

use std::collections::HashSet;
use std::io;

use countersign_tree::{EntryMode, Located, TreePath};
use countersign_types::Digest;

use crate::fault::Outcome;
use crate::protocol::{Fault, HygieneFinding, HygieneKind, PatchChange, Reply};
use crate::segment::Segments;

/// Findings of one reply; the rest is counted.
const MAX_FINDINGS: usize = 200;
/// A text that is larger, in bytes, is not looked into, which is told.
const MAX_TEXT: u64 = 8 << 20;
/// A binary of at least this many bytes is told.
const LARGE_BINARY: u64 = 1 << 20;
/// Bytes at the start of a file that tell a binary from a text, as git looks at it.
const SNIFFED: usize = 8000;

/// Looks over every change.
pub(crate) fn scan(changes: &[PatchChange], located: &[Located], files: &[std::fs::File]) -> Outcome<Reply> {
    let segments = Segments::new(files, located);
    scan_with(changes, &segments).map_err(|e| Fault::io("reading the changed files", &e))
}

fn scan_with(changes: &[PatchChange], segments: &Segments<'_>) -> io::Result<Reply> {
    // A file that was only moved brings nothing.
    let known: HashSet<Digest> = changes.iter().filter_map(|c| c.before.as_ref()).map(|e| e.digest).collect();
    let mut findings = Vec::new();
    for change in changes {
        findings.extend(paths::findings(change));
        let sides = [&change.before, &change.after];
        if sides.into_iter().flatten().any(|entry| entry.mode == EntryMode::Gitlink) {
            let text = match &change.after {
                Some(after) if after.mode == EntryMode::Gitlink => {
                    let id = segments.read(&after.digest)?;
                    format!("a submodule, now at commit {}", crate::fault::shown_bytes(&id))
                }
                _ => "a submodule that is gone".to_owned(),
            };
            findings.push(finding(HygieneKind::Submodule, &change.path, None, text));
            continue;
        }
        let Some(after) = &change.after else { continue };
        if known.contains(&after.digest) {
            continue;
        }
        if after.mode == EntryMode::Symlink {
            findings.extend(paths::link(&change.path, &segments.read(&after.digest)?));
            continue;
        }
        let binary = is_binary(segments, &after.digest)?;
        if binary && after.size >= LARGE_BINARY {
            findings.push(finding(
                HygieneKind::LargeBinary,
                &change.path,
                None,
                format!("a binary of {} bytes", after.size),
            ));
        }
        if binary {
            continue;
        }
        if after.size > MAX_TEXT {
            let text = format!("a text of {} bytes, which was not looked into", after.size);
            findings.push(finding(HygieneKind::NotScanned, &change.path, None, text));
            continue;
        }
        let before = match &change.before {
            Some(before) if before.mode.is_file() && before.size <= MAX_TEXT => {
                segments.read(&before.digest)?
            }
            _ => Vec::new(),
        };
        let after = segments.read(&after.digest)?;
        findings.extend(text(&change.path, &before, &after));
    }
    findings.sort_by(|a, b| (&a.path, a.line, a.kind).cmp(&(&b.path, b.line, b.kind)));
    findings.dedup();
    let more = findings.len().saturating_sub(MAX_FINDINGS) as u64;
    findings.truncate(MAX_FINDINGS);
    Ok(Reply::Hygiene { findings, more })
}

/// What the lines that the base does not have say.
fn text(path: &TreePath, before: &[u8], after: &[u8]) -> Vec<HygieneFinding> {
    let old: HashSet<&[u8]> = before.split(|b| *b == b'\n').collect();
    let mut findings: Vec<HygieneFinding> = scripts::findings(path, before, after).into_iter().collect();
    // The digests in a lockfile look like secrets.
    let lockfile = paths::is_lockfile(path);
    for (number, line) in (1_u64..).zip(after.split(|b| *b == b'\n')) {
        if old.contains(line) {
            continue;
        }
        if !lockfile {
            let found = secrets::of(line, before);
            findings.extend(found.map(|what| finding(HygieneKind::Secret, path, Some(number), what)));
        }
        let first = number == 1;
        findings.extend(
            hidden::of(path, line, first)
                .into_iter()
                .map(|(kind, what)| finding(kind, path, Some(number), what)),
        );
    }
    findings
}

fn is_binary(segments: &Segments<'_>, digest: &Digest) -> io::Result<bool> {
    let mut head = Vec::new();
    let read = segments.each(digest, |bytes| {
        head.extend_from_slice(&bytes[..bytes.len().min(SNIFFED - head.len())]);
        // Enough was seen: the rest of a large file is not read for this.
        if head.len() >= SNIFFED { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    });
    match read {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(head.contains(&0)),
    }
}

fn finding(
    kind: HygieneKind,
    path: &TreePath,
    line: Option<u64>,
    detail: impl Into<String>,
) -> HygieneFinding {
    HygieneFinding { kind, path: path.clone(), line, detail: detail.into() }
}
