//! What the guest remembers between requests, and the writing of entries into the workspace.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use countersign_tree::{Entry, EntryMode, Manifest, TreePath};
use countersign_types::Digest;
use rustix::fs::Stat;

use crate::confined::{Root, split};
use crate::git::{GitBase, Oid};

/// The resident guest of one cell.
#[derive(Debug)]
pub struct Guest {
    pub(crate) root: Root,
    pub(crate) workspace: PathBuf,
    pub(crate) home: PathBuf,
    /// The tree that the host knows: what was imported, materialised or sealed last.
    pub(crate) known: Manifest,
    /// Contents that the host has.
    pub(crate) stored: HashSet<Digest>,
    pub(crate) stats: StatCache,
    /// The git names of contents, where they were computed anyway.
    pub(crate) oids: HashMap<Digest, Oid>,
    pub(crate) base: Option<GitBase>,
    /// In a room: what the judged entries looked like before the check.
    pub(crate) watch: Option<crate::touch::Watch>,
    /// What is scratch, as the last seal said.
    pub(crate) scratch: Option<countersign_tree::Scratch>,
}

impl Guest {
    /// # Errors
    /// The workspace cannot be opened.
    pub fn new(workspace: &Path, home: &Path, owner: Option<u32>) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(workspace, owner)?,
            workspace: workspace.to_owned(),
            home: home.to_owned(),
            known: Manifest::default(),
            stored: HashSet::new(),
            stats: StatCache::default(),
            oids: HashMap::new(),
            base: None,
            watch: None,
            scratch: None,
        })
    }

    /// The host and the workspace are at `entries` now.
    pub(crate) fn now_at(&mut self, manifest: Manifest, stats: Vec<(TreePath, Stat)>) {
        self.stored.extend(manifest.entries().iter().map(|e| e.digest));
        let seen = now();
        for (path, stat) in stats {
            if let Some(entry) = manifest.get(&path) {
                self.stats.learn(&path, &stat, entry.digest, seen);
            }
        }
        self.known = manifest;
    }
}

/// A point in time of the kernel's coarse clock, in nanoseconds: the one that files are stamped with.
pub(crate) fn now() -> i128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Contents of files whose stat is unchanged. Only step checkpoints may believe it.
#[derive(Debug, Default)]
pub(crate) struct StatCache {
    entries: HashMap<TreePath, Seen>,
}

/// What tells that a file was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    inode: u64,
    size: i64,
    mode: u32,
    mtime: (i64, u64),
    ctime: (i64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    key: Key,
    digest: Digest,
}

/// A file that changed this short a time before it was seen may change again within one tick of the clock.
const RACY_NANOS: i128 = 50_000_000;

impl Key {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size,
            mode: stat.st_mode,
            mtime: (stat.st_mtime, stat.st_mtime_nsec),
            ctime: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl StatCache {
    /// `seen`: a time after which nothing may have written the content that was read.
    pub(crate) fn learn(&mut self, path: &TreePath, stat: &Stat, digest: Digest, seen: i128) {
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        if changed < seen - RACY_NANOS {
            self.entries.insert(path.clone(), Seen { key: Key::of(stat), digest });
        } else {
            self.entries.remove(path);
        }
    }

    pub(crate) fn forget(&mut self, path: &TreePath) {
        self.entries.remove(path);
    }

    pub(crate) fn get(&self, path: &TreePath, stat: &Stat) -> Option<Digest> {
        self.entries.get(path).filter(|seen| seen.key == Key::of(stat)).map(|seen| seen.digest)
    }
}

/// Writes entries into the workspace, keeping the last directory open.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    root: &'a Root,
    dir: Option<(Vec<u8>, OwnedFd)>,
}

impl<'a> Placer<'a> {
    pub(crate) const fn new(root: &'a Root) -> Self {
        Self { root, dir: None }
    }

    pub(crate) fn place(
        &mut self,
        path: &TreePath,
        mode: EntryMode,
        content: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
    ) -> io::Result<Stat> {
        let (parent, name) = split(path.as_bytes());
        let dir = match self.dir.take() {
            Some((known, dir)) if known == parent => dir,
            _ => self.root.make_dir(parent, true)?,
        };
        let stat = self.root.put(&dir, name, mode, content);
        self.dir = Some((parent.to_vec(), dir));
        stat
    }
}

/// The one file that a request must bring.
pub(crate) fn first_file(files: &[File]) -> Result<&File, crate::protocol::Fault> {
    files.first().ok_or_else(|| {
        crate::protocol::Fault::bad_request("the request needs a file descriptor to write contents to")
    })
}

/// The entry of a content.
pub(crate) fn entry(path: TreePath, mode: EntryMode, size: u64, digest: Digest) -> Entry {
    Entry { path, mode, size, digest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_quiet_before_it_was_seen_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "1").unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let stat = root.stat(b"f").unwrap();
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        let path = TreePath::new(b"f".as_slice()).unwrap();
        let digest = Digest::of(b"1");
        let mut cache = StatCache::default();
        for (seen, believed) in
            [(changed, false), (changed + RACY_NANOS, false), (changed + RACY_NANOS + 1, true)]
        {
            cache.learn(&path, &stat, digest, seen);
            assert_eq!(cache.get(&path, &stat), believed.then_some(digest), "{}", seen - changed);
        }
        let mut other = stat;
        other.st_ctime_nsec ^= 1;
        assert_eq!(cache.get(&path, &other), None);
        cache.forget(&path);
        assert_eq!(cache.get(&path, &stat), None);
    }
}
