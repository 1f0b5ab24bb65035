//! git's index file, version 2, written by us: git itself would read and hash every file once more.

use countersign_tree::{EntryMode, TreePath};
use rustix::fs::Stat;

use super::Oid;

/// One staged path. Without a stat git looks at the file itself the first time.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    pub(super) path: &'a TreePath,
    pub(super) mode: EntryMode,
    pub(super) oid: Oid,
    pub(super) stat: Option<Stat>,
}

/// The longest name length that the flags hold; longer ones end at their NUL.
const MAX_NAME: usize = 0xfff;

/// `entries` in the order of their paths.
pub(super) fn encode(entries: &[Staged<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 120 + 32);
    out.extend_from_slice(b"DIRC");
    put(&mut out, 2);
    put(&mut out, entries.len() as u64);
    for entry in entries {
        let start = out.len();
        let name = entry.path.as_bytes();
        // The format keeps the low 32 bits of each value.
        let numbers = match &entry.stat {
            Some(s) => [
                s.st_ctime as u64,
                s.st_ctime_nsec,
                s.st_mtime as u64,
                s.st_mtime_nsec,
                s.st_dev,
                s.st_ino,
                mode_bits(entry.mode),
                u64::from(s.st_uid),
                u64::from(s.st_gid),
                s.st_size as u64,
            ],
            None => [0, 0, 0, 0, 0, 0, mode_bits(entry.mode), 0, 0, 0],
        };
        for number in numbers {
            put(&mut out, number);
        }
        out.extend_from_slice(&entry.oid.0);
        let flags = u16::try_from(name.len().min(MAX_NAME)).unwrap_or(0);
        out.extend_from_slice(&flags.to_be_bytes());
        out.extend_from_slice(name);
        let length = out.len() - start;
        out.resize(start + (length / 8 + 1) * 8, 0);
    }
    let trailer: [u8; 20] = <sha1::Sha1 as sha1::Digest>::digest(&out).into();
    out.extend_from_slice(&trailer);
    out
}

const fn mode_bits(mode: EntryMode) -> u64 {
    match mode {
        EntryMode::File => 0o100_644,
        EntryMode::Executable => 0o100_755,
        EntryMode::Symlink => 0o120_000,
        EntryMode::Gitlink => 0o160_000,
    }
}

fn put(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&((value & 0xffff_ffff) as u32).to_be_bytes());
}
