use std::fmt;
use std::io::Write as _;

use countersign_types::{Digest, Hasher};
use serde::{Deserialize, Serialize};

use crate::TreePath;

/// What an entry is. Other mode bits are normalised to these before anything is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EntryMode {
    #[serde(rename = "100644")]
    File,
    #[serde(rename = "100755")]
    Executable,
    /// The content is the link's target.
    #[serde(rename = "120000")]
    Symlink,
    /// A commit of another repository, a submodule. The content is the commit's id in hexadecimal digits; in a workspace
    /// there is an empty directory.
    #[serde(rename = "160000")]
    Gitlink,
}

impl EntryMode {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Gitlink => "160000",
        }
    }

    /// Whether the content is that of a file, and not where something else lies.
    #[must_use]
    pub const fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entry {
    pub path: TreePath,
    pub mode: EntryMode,
    pub size: u64,
    pub digest: Digest,
}

/// A whole tree: its entries in the order of their path bytes.
///
/// The digest is sha256 over `countersign.tree/1\n` and, for each entry, `MODE SP SIZE SP SHA256HEX SP PATH NUL`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<Entry>,
}

/// The difference from one manifest to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    pub put: Vec<Entry>,
    pub remove: Vec<TreePath>,
}

impl Delta {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.remove.is_empty()
    }
}

/// One path that differs between two manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: TreePath,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

impl Manifest {
    pub const HEADER: &[u8] = b"countersign.tree/1\n";

    /// Sorts the entries. Of two with one path the last stays.
    #[must_use]
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|later, earlier| {
            let same = later.path == earlier.path;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        Self { entries }
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[must_use]
    pub fn get(&self, path: &TreePath) -> Option<&Entry> {
        self.entries.binary_search_by(|e| e.path.cmp(path)).ok().map(|i| &self.entries[i])
    }

    /// The primary name of the tree.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(Self::HEADER);
        let mut line = Vec::with_capacity(160);
        for entry in &self.entries {
            line.clear();
            write_line(&mut line, entry);
            hasher.update(&line);
        }
        hasher.finish()
    }

    /// The bytes whose sha256 is [`Self::digest`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Self::HEADER.to_vec();
        for entry in &self.entries {
            write_line(&mut out, entry);
        }
        out
    }

    /// Reads [`Self::encode`]'s bytes back. None when they are anything else, an unsorted list included.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(Self::HEADER)?;
        let mut entries: Vec<Entry> = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|b| *b == 0)?;
            let mut parts = rest[..end].splitn(4, |b| *b == b' ');
            let mode = match parts.next()? {
                b"100644" => EntryMode::File,
                b"100755" => EntryMode::Executable,
                b"120000" => EntryMode::Symlink,
                b"160000" => EntryMode::Gitlink,
                _ => return None,
            };
            let size_text = std::str::from_utf8(parts.next()?).ok()?;
            let size: u64 = size_text.parse().ok()?;
            if size.to_string() != size_text {
                return None;
            }
            let digest = Digest::from_hex(std::str::from_utf8(parts.next()?).ok()?).ok()?;
            let path = TreePath::new(parts.next()?).ok()?;
            if entries.last().is_some_and(|last| last.path >= path) {
                return None;
            }
            entries.push(Entry { path, mode, size, digest });
            rest = &rest[end + 1..];
        }
        Some(Self { entries })
    }

    /// This manifest with a difference applied.
    #[must_use]
    pub fn with(&self, delta: &Delta) -> Self {
        let removed: std::collections::BTreeSet<&TreePath> = delta.remove.iter().collect();
        let kept = self.entries.iter().filter(|e| !removed.contains(&e.path)).cloned();
        Self::new(kept.chain(delta.put.iter().cloned()).collect())
    }

    /// Every path whose mode or content differs, in path order.
    #[must_use]
    pub fn changes_to(&self, after: &Self) -> Vec<Change> {
        let (mut a, mut b) = (self.entries.iter().peekable(), after.entries.iter().peekable());
        let mut out = Vec::new();
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => return out,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(x), Some(y)) => x.path.cmp(&y.path),
            };
            let before = if order.is_le() { a.next() } else { None };
            let after = if order.is_ge() { b.next() } else { None };
            if before == after {
                continue;
            }
            if let Some(path) = before.or(after).map(|e| e.path.clone()) {
                out.push(Change { path, before: before.cloned(), after: after.cloned() });
            }
        }
    }
}

/// Called for every entry of every tree: nothing is allocated but the line itself.
fn write_line(out: &mut Vec<u8>, entry: &Entry) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(entry.mode.as_str().as_bytes());
    // Writing to a Vec cannot fail.
    let _ = write!(out, " {} ", entry.size);
    for byte in entry.digest.as_bytes() {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b' ');
    out.extend_from_slice(entry.path.as_bytes());
    out.push(0);
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({} entries, {})", self.entries.len(), self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, content: &str) -> Entry {
        Entry {
            path: TreePath::new(path.as_bytes()).unwrap(),
            mode: EntryMode::File,
            size: content.len() as u64,
            digest: Digest::of(content.as_bytes()),
        }
    }

    #[test]
    fn a_manifest_reads_back_and_orders_by_bytes() {
        let manifest = Manifest::new(vec![entry("b", "2"), entry("a/x", "1"), entry("a-b", "3")]);
        let order: Vec<_> = manifest.entries().iter().map(|e| e.path.to_string()).collect();
        assert_eq!(order, ["a-b", "a/x", "b"]);
        assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
        assert_eq!(Digest::of(&manifest.encode()), manifest.digest());
        let mut unsorted = Manifest::HEADER.to_vec();
        for e in [entry("b", "2"), entry("a", "1")] {
            write_line(&mut unsorted, &e);
        }
        assert!(Manifest::decode(&unsorted).is_none());
    }

    #[test]
    fn a_difference_leads_from_one_to_the_other() {
        let before = Manifest::new(vec![entry("a", "1"), entry("b", "2"), entry("c", "3")]);
        let after = Manifest::new(vec![entry("a", "1"), entry("b", "changed"), entry("d", "4")]);
        let changes = before.changes_to(&after);
        assert_eq!(changes.iter().map(|c| c.path.to_string()).collect::<Vec<_>>(), ["b", "c", "d"]);
        let delta = Delta {
            put: changes.iter().filter_map(|c| c.after.clone()).collect(),
            remove: changes.iter().filter(|c| c.after.is_none()).map(|c| c.path.clone()).collect(),
        };
        assert_eq!(before.with(&delta), after);
        assert!(before.changes_to(&before).is_empty());
    }
}
