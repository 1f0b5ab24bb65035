//! Reads and applies the patches that Countersign writes (`git diff-tree -p --binary --full-index --no-renames`), in
//! Rust and without a file system, so that base + patch = final can be shown where no git may run.
//!
//! It is strict where git is lenient: one diff for one path, hunks exactly where they say, full object names. What this
//! takes, `git apply` takes too, with the same result; the reverse does not hold.

mod apply;
mod binary;
mod parse;

pub use apply::Sink;

use countersign_tree::{EntryMode, TreePath};

/// Why a patch cannot be read or does not fit. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {why}")]
pub struct PatchError {
    pub line: usize,
    pub why: &'static str,
}

/// A whole patch, as it stands. Nothing of its contents is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch<'a> {
    pub files: Vec<FileChange<'a>>,
}

/// A commit of another repository: its content in a tree is the commit's id, and in a patch a line that names it.
fn is_gitlink(mode: EntryMode) -> bool {
    mode.as_str() == "160000"
}

/// One path's diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange<'a> {
    pub path: TreePath,
    /// None: the path is new.
    pub before: Option<EntryMode>,
    /// None: the path is deleted.
    pub after: Option<EntryMode>,
    /// Where its diff begins.
    pub line: usize,
    body: Body<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body<'a> {
    /// The content stays: another mode, or an empty file made or deleted.
    Same,
    Text(Vec<Hunk<'a>>),
    Binary(Box<Binary<'a>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hunk<'a> {
    line: usize,
    old_start: usize,
    old_count: usize,
    new_start: usize,
    new_count: usize,
    /// Its lines, each with the sign in front.
    body: &'a [u8],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Binary<'a> {
    line: usize,
    /// git's names of the two contents.
    old: [u8; 20],
    new: [u8; 20],
    forward: Encoded<'a>,
    reverse: Encoded<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Encoded<'a> {
    line: usize,
    delta: bool,
    /// Of the inflated bytes.
    size: usize,
    /// Lines of base85.
    text: &'a [u8],
}

impl<'a> Patch<'a> {
    /// Reads a patch. Bounds the work by the patch's own length; nothing is inflated yet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PatchError> {
        parse::patch(bytes)
    }
}

impl FileChange<'_> {
    /// Whether the content stays byte for byte. True also where an empty file appears or goes.
    #[must_use]
    pub fn keeps_content(&self) -> bool {
        self.body == Body::Same
    }

    /// Bytes of the patch that this change takes, for sharing work out.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let bytes = match &self.body {
            Body::Same => 0,
            Body::Text(hunks) => hunks.iter().map(|hunk| hunk.body.len()).sum(),
            Body::Binary(binary) => binary.forward.text.len() + binary.reverse.text.len(),
        };
        bytes as u64
    }

    /// Writes the content after the change into `out`. `before` is the content before it, empty for a new path. A change
    /// that keeps the content writes `before`.
    pub fn apply(&self, before: &[u8], out: &mut Sink) -> Result<(), PatchError> {
        match &self.body {
            Body::Same => {
                let empty = self.before.is_some() && self.after.is_some() || before.is_empty();
                if !empty {
                    return Err(PatchError {
                        line: self.line,
                        why: "it deletes a content that it does not name",
                    });
                }
                out.put(before, self.line)
            }
            Body::Text(hunks) if self.before.or(self.after).is_some_and(is_gitlink) => {
                apply::gitlink(hunks, before, out, self.line)
            }
            Body::Text(hunks) => apply::text(hunks, before, out),
            Body::Binary(binary) => apply::binary(binary, before, out),
        }?;
        if self.after.is_none() && !out.is_empty() {
            return Err(PatchError { line: self.line, why: "it deletes the file and leaves content" });
        }
        Ok(())
    }
}
