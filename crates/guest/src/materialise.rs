//! The workspace from contents that the host passes.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use countersign_tree::{Delta, Entry, Manifest};

use crate::fault::Outcome;
use crate::protocol::{Fault, Located, Reply};
use crate::segment::Segments;
use crate::state::{Guest, Placer};

/// Threads that write entries.
const THREADS: usize = 2;
/// Fewer entries than this are not worth a thread.
const MIN_PER_THREAD: usize = 64;

/// Creates entries; with `clear` after emptying everything but the private `.git` and mounts.
pub(crate) fn materialise(
    guest: &mut Guest,
    entries: Vec<Entry>,
    located: &[Located],
    clear: bool,
    files: &[File],
) -> Outcome<Reply> {
    if clear {
        self::clear(guest).map_err(|e| Fault::io("emptying the workspace", &e))?;
    }
    let mut entries = Manifest::new(entries).entries().to_vec();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let segments = Segments::new(files, located);
    let root = &guest.root;
    let size = entries.len().div_ceil(THREADS).max(MIN_PER_THREAD);
    let written: Vec<io::Result<Vec<_>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = entries
            .chunks(size)
            .map(|chunk| {
                let segments = &segments;
                scope.spawn(move || {
                    let mut placer = Placer::new(root);
                    let mut stats = Vec::with_capacity(chunk.len());
                    for entry in chunk {
                        let stat = placer
                            .place(&entry.path, entry.mode, &mut |out| {
                                segments.each(&entry.digest, |bytes| out.write_all(bytes))
                            })
                            .map_err(|e| io::Error::new(e.kind(), format!("`{}`: {e}", entry.path)))?;
                        stats.push((entry.path.clone(), stat));
                    }
                    Ok(stats)
                })
            })
            .collect();
        let bug = || io::Error::other("a writer ended with a bug");
        workers.into_iter().map(|w| w.join().unwrap_or_else(|_| Err(bug()))).collect()
    });
    let mut stats = Vec::with_capacity(entries.len());
    for part in written {
        stats.extend(part.map_err(|e| Fault::io("writing the workspace", &e))?);
    }
    let before = std::mem::take(&mut guest.known);
    // A file where the tree had a directory replaced what was below it.
    let files: HashSet<&[u8]> = entries.iter().map(|e| e.path.as_bytes()).collect();
    let covered =
        |path: &[u8]| path.iter().enumerate().any(|(at, b)| *b == b'/' && files.contains(&path[..at]));
    let remove =
        before.entries().iter().filter(|e| covered(e.path.as_bytes())).map(|e| e.path.clone()).collect();
    let manifest = before.with(&Delta { put: entries, remove });
    guest.now_at(manifest, stats);
    Ok(Reply::Done)
}

fn clear(guest: &mut Guest) -> io::Result<()> {
    let top = guest.root.dir(b"")?;
    for (name, _) in crate::confined::entries(&top)? {
        if name != b".git" {
            guest.root.remove_at(&top, &name)?;
        }
    }
    guest.known = Manifest::default();
    guest.stats = crate::state::StatCache::default();
    Ok(())
}
