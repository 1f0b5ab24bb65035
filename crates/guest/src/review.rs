//! What a reviewer is shown of a change, and whether what it quotes stands where it says. Bytes are compared as bytes; nothing
//! here decides anything.

mod signals;

use std::fs::File;
use std::io;

use countersign_tree::{EntryMode, Located};
use countersign_types::Digest;

use crate::fault::Outcome;
use crate::git;
use crate::protocol::{Fault, Material, MaterialFile, PatchChange, Quote, Reply};
use crate::segment::Segments;

/// Bytes of the diff.
const MAX_DIFF: usize = 96 * 1024;
/// Bytes of one file, and of all.
const MAX_FILE: usize = 32 * 1024;
const MAX_ALL: usize = 160 * 1024;
/// Changed files that are shown.
const MAX_FILES: usize = 40;
/// Bytes at the start of a file that tell a binary from a text, as git looks at it.
const SNIFFED: usize = 8000;

/// The diff, each changed file as it is after the change, and facts about the change. All of it within bounds, and where
/// something was left out that is said.
pub(crate) fn material(changes: &[PatchChange], located: &[Located], files: &[File]) -> Outcome<Reply> {
    let segments = Segments::new(files, located);
    gather(changes, &segments).map(Reply::Material).map_err(|e| Fault::io("reading the changed files", &e))
}

fn gather(changes: &[PatchChange], segments: &Segments<'_>) -> io::Result<Material> {
    let (diff, diff_cut) = git::text_diff(changes, segments, MAX_DIFF)?;
    let mut material = Material {
        diff: text_of(&diff),
        diff_cut,
        signals: signals::of(changes, segments)?,
        ..Material::default()
    };
    let mut left = MAX_ALL;
    for change in changes {
        let Some(after) = &change.after else { continue };
        if material.files.len() >= MAX_FILES || left == 0 {
            material.left_out += 1;
            continue;
        }
        let most = MAX_FILE.min(left);
        let head = head_of(segments, &after.digest, most.max(SNIFFED))?;
        let binary = head.iter().take(SNIFFED).any(|byte| *byte == 0);
        let shown = &head[..head.len().min(if binary { 0 } else { most })];
        left -= shown.len();
        let mut text = text_of(shown);
        if after.mode == EntryMode::Symlink {
            text = format!("[a link to] {text}");
        }
        material.files.push(MaterialFile {
            path: change.path.clone(),
            text,
            cut: !binary && (shown.len() as u64) < after.size,
            binary,
            bytes: after.size,
        });
    }
    Ok(material)
}

/// At most so many bytes from the start of a content.
fn head_of(segments: &Segments<'_>, digest: &Digest, most: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = segments.each(digest, |bytes| {
        head.extend_from_slice(&bytes[..bytes.len().min(most - head.len())]);
        // Enough was seen: the rest of a large file is not read for this.
        if head.len() >= most { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    });
    match read {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(head),
    }
}

/// A cut may fall into a character; what is no UTF-8 is replaced.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether each quote stands in its content, byte for byte.
pub(crate) fn find_quotes(quotes: &[Quote], located: &[Located], files: &[File]) -> Outcome<Reply> {
    let segments = Segments::new(files, located);
    let found: io::Result<Vec<bool>> = quotes
        .iter()
        .map(|quote| {
            let wanted = quote.text.as_bytes();
            let content = segments.read(&quote.content)?;
            Ok(!wanted.is_empty() && content.windows(wanted.len()).any(|window| window == wanted))
        })
        .collect();
    found.map(|found| Reply::Quotes { found }).map_err(|e| Fault::io("reading a quoted file", &e))
}

#[cfg(test)]
mod tests;
