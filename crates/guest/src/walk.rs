//! Walks a directory tree raw: by directory handles, through no link, with bounded memory per directory.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use crate::confined::{Root, entries};

/// What a walk found.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A directory, before it is walked. The answer decides whether it is.
    Dir,
    /// A walked directory without anything in it.
    EmptyDir,
    /// Anything else.
    Leaf { kind: FileType, stat: &'a Stat },
    /// A directory on another mount than the root: a layer or a cache. Never walked.
    Mount,
    /// A directory or file that could not be read.
    Failed(io::Error),
}

/// The deepest path that the kernel takes in one call, in bytes.
const MAX_PATH: usize = 4095;

/// Walks everything below the root but the top's `.git`. `visit` gets each path, sorted within its directory, and
/// says whether to walk a directory.
pub(crate) fn walk(root: &Root, visit: impl FnMut(&[u8], Found<'_>) -> bool) -> io::Result<()> {
    walk_from(root, b"", visit)
}

/// As [`walk`], from a directory below the root.
pub(crate) fn walk_from(
    root: &Root,
    start: &[u8],
    mut visit: impl FnMut(&[u8], Found<'_>) -> bool,
) -> io::Result<()> {
    let mut waiting: Vec<Vec<u8>> = vec![start.to_vec()];
    while let Some(dir) = waiting.pop() {
        let listed = list(root, &dir);
        let (fd, names) = match listed {
            Ok(Some(listed)) => listed,
            Ok(None) => {
                visit(&dir, Found::Mount);
                continue;
            }
            Err(e) if dir == start => return Err(e),
            // Gone or replaced meanwhile, which only happens while jobs live.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(e) => {
                visit(&dir, Found::Failed(e));
                continue;
            }
        };
        if names.is_empty() && dir != start {
            visit(&dir, Found::EmptyDir);
        }
        let mut below = Vec::new();
        for (name, kind) in names {
            if dir.is_empty() && name == b".git" {
                continue;
            }
            let path = if dir.is_empty() { name.clone() } else { [&dir, &b"/"[..], &name].concat() };
            if path.len() > MAX_PATH {
                visit(&path, Found::Failed(io::Error::other("its path is longer than 4095 bytes")));
                continue;
            }
            if kind == FileType::Directory {
                if visit(&path, Found::Dir) {
                    below.push(path);
                }
                continue;
            }
            match rustix::fs::statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                Err(e) => {
                    visit(&path, Found::Failed(e.into()));
                }
                Ok(stat) => {
                    let kind = FileType::from_raw_mode(stat.st_mode);
                    visit(&path, Found::Leaf { kind, stat: &stat });
                }
            }
        }
        waiting.extend(below.into_iter().rev());
    }
    Ok(())
}

/// None: the directory is on another mount than the root.
fn list(root: &Root, dir: &[u8]) -> io::Result<Option<Listing>> {
    let fd = root.dir(dir)?;
    if root.is_other_mount(&fd)? {
        return Ok(None);
    }
    let names = entries(&fd)?;
    Ok(Some((fd, names)))
}

type Listing = (OwnedFd, Vec<(Vec<u8>, FileType)>);
