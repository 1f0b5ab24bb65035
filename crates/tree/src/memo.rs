//! Answers that are remembered between runs: small files named by the digest of everything the answer depends on.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_types::Digest;

/// The longest remembered value, in bytes: a base run with the names of all its tests.
const MAX_VALUE: usize = 16 << 20;

/// A directory of remembered values. Losing one costs time, never truth: each value carries its own digest and a
/// damaged one is forgotten.
#[derive(Debug)]
pub struct Memo {
    dir: PathBuf,
    next: AtomicU64,
}

impl Memo {
    /// # Errors
    /// The directory cannot be made.
    pub fn open(dir: impl Into<PathBuf>) -> std::io::Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, next: AtomicU64::new(0) })
    }

    fn file(&self, key: &Digest) -> PathBuf {
        self.dir.join(key.hex())
    }

    /// The remembered value, or None.
    #[must_use]
    pub fn recall(&self, key: &Digest) -> Option<Vec<u8>> {
        let bytes = fs::read(self.file(key)).ok()?;
        let (head, value) = bytes.split_at_checked(64)?;
        let digest = Digest::from_hex(std::str::from_utf8(head).ok()?).ok()?;
        (digest == bound(key, value)).then(|| value.to_vec())
    }

    /// # Errors
    /// The value is too long or the disk's.
    pub fn remember(&self, key: &Digest, value: &[u8]) -> std::io::Result<()> {
        if value.len() > MAX_VALUE {
            return Err(std::io::Error::other("the value is too long to be remembered"));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let temporary = self.dir.join(format!(".{}.{number}", std::process::id()));
        let written = write(&temporary, bound(key, value), value);
        let placed = written.and_then(|()| fs::rename(&temporary, self.file(key)));
        if placed.is_err() {
            // Nothing depends on it; a leftover is a few bytes.
            drop(fs::remove_file(&temporary));
        }
        placed
    }
}

/// The digest binds the value to its key: a file copied to another name says nothing.
fn bound(key: &Digest, value: &[u8]) -> Digest {
    let mut bytes = key.as_bytes().to_vec();
    bytes.extend_from_slice(value);
    Digest::of(&bytes)
}

fn write(path: &Path, digest: Digest, value: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(digest.hex().as_bytes())?;
    file.write_all(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_under_its_own_key_and_a_damaged_one_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let memo = Memo::open(dir.path().join("memo")).unwrap();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        memo.remember(&a, b"value").unwrap();
        assert_eq!(memo.recall(&a).unwrap(), b"value");
        assert_eq!(memo.recall(&b), None);
        fs::copy(memo.file(&a), memo.file(&b)).unwrap();
        assert_eq!(memo.recall(&b), None);
        let mut bytes = fs::read(memo.file(&a)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(memo.file(&a), bytes).unwrap();
        assert_eq!(memo.recall(&a), None);
    }
}
