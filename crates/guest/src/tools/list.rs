use std::fmt::Write as _;

use countersign_tree::{Judgement, Scratch, TreePath};
use countersign_types::ByteSize;
use rustix::fs::FileType;

use super::{Answer, error, resolve, said};
use crate::confined::{entries, type_name};
use crate::fault::shown_bytes;
use crate::protocol::ToolBounds;
use crate::state::Guest;

/// Levels that are shown when the call does not say.
const DEFAULT_DEPTH: u32 = 2;
const MAX_DEPTH: u32 = 20;

/// Directories first, each level in the order of its bytes.
pub(super) fn list(guest: &Guest, path: Option<&str>, depth: Option<u32>, bounds: &ToolBounds) -> Answer {
    let top = resolve::existing(guest, path.unwrap_or("."))?;
    if top.kind() != Some(FileType::Directory) {
        return error(format!("`{}` is a file. `read_file` shows it", top.shown()));
    }
    let depth = depth.unwrap_or(DEFAULT_DEPTH);
    if depth == 0 || depth > MAX_DEPTH {
        return error(format!("depth must be between 1 and {MAX_DEPTH}"));
    }
    let scratch = guest.scratch.clone().unwrap_or_default();
    let mut listing = Listing { guest, scratch: &scratch, left: bounds.list_entries, text: String::new() };
    let cut = !listing.level(&top.path, 0, depth);
    let mut text = listing.text;
    if text.is_empty() {
        return said(format!("`{}` is empty", top.shown()));
    }
    if cut {
        let _ = write!(
            text,
            "[more was left out after {} entries: list a directory below, or less depth]",
            bounds.list_entries
        );
    }
    said(text)
}

struct Listing<'a> {
    guest: &'a Guest,
    scratch: &'a Scratch,
    left: u64,
    text: String,
}

impl Listing<'_> {
    /// False: the bound was reached.
    fn level(&mut self, dir: &[u8], indent: usize, depth: u32) -> bool {
        let names = match self.guest.root.dir(dir).and_then(|d| entries(&d)) {
            Ok(names) => names,
            Err(e) => {
                self.line(indent, &format!("[cannot be read: {e}]"));
                return true;
            }
        };
        let (dirs, files): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|(_, kind)| *kind == FileType::Directory);
        for (name, kind) in dirs.into_iter().chain(files) {
            if TreePath::is_dot_git(&name) {
                continue;
            }
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let path = if dir.is_empty() { name.clone() } else { [dir, b"/", &name].concat() };
            let is_dir = kind == FileType::Directory;
            let scratch = self.scratch.judge(&path, is_dir, false) == Judgement::Scratch;
            let shown = shown_bytes(&name);
            match kind {
                FileType::Directory if scratch => {
                    self.line(indent, &format!("{shown}/ (scratch, not listed)"))
                }
                FileType::Directory => {
                    self.line(indent, &format!("{shown}/"));
                    if depth > 1 && !self.level(&path, indent + 1, depth - 1) {
                        return false;
                    }
                }
                FileType::Symlink => {
                    let target = self.guest.root.read_link(&path).unwrap_or_default();
                    self.line(indent, &format!("{shown} -> {}", shown_bytes(&target)));
                }
                FileType::RegularFile => {
                    let size =
                        self.guest.root.stat(&path).map_or(0, |s| u64::try_from(s.st_size).unwrap_or(0));
                    let note = if scratch { ", scratch" } else { "" };
                    self.line(indent, &format!("{shown} ({}{note})", ByteSize::bytes(size)));
                }
                other => self.line(indent, &format!("{shown} ({})", type_name(other))),
            }
        }
        true
    }

    fn line(&mut self, indent: usize, text: &str) {
        self.text.extend(std::iter::repeat_n("  ", indent));
        self.text.push_str(text);
        self.text.push('\n');
    }
}
