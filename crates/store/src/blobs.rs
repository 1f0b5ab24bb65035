use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_types::Digest;

use crate::StoreError;
use crate::files::{fault, make_durable, sync_dir};

/// How often a write begins anew when a sweep of another process took its file before it was locked.
const MAX_TRIES: u32 = 8;

/// Content-addressed files: `blobs/<64 hex digits>`, so that `sha256sum` can check them.
#[derive(Clone, Debug)]
pub struct Blobs {
    dir: PathBuf,
    /// Unfinished files; each is locked for as long as its writer lives.
    unfinished: PathBuf,
    counter: Arc<AtomicU64>,
}

impl Blobs {
    /// Opens a directory, making what is missing, and removes what killed writers left there.
    pub fn open(dir: PathBuf) -> Result<Self, StoreError> {
        let unfinished = dir.join("unfinished");
        make_durable(&unfinished)?;
        let blobs = Self { dir, unfinished, counter: Arc::new(AtomicU64::new(0)) };
        blobs.sweep()?;
        Ok(blobs)
    }

    /// Removes what writers left that were killed.
    fn sweep(&self) -> Result<(), StoreError> {
        let listing = fs::read_dir(&self.unfinished).map_err(|e| fault("list", &self.unfinished, e))?;
        for path in listing.filter_map(Result::ok).map(|entry| entry.path()) {
            // What can be locked has no living writer. What cannot be removed costs space and no more.
            if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(digest.hex())
    }

    /// Stores the pieces as one blob. Durable when it returns; a file of that name with other bytes is replaced.
    pub fn put(&self, pieces: &[&[u8]]) -> Result<Digest, StoreError> {
        let mut hasher = countersign_types::Hasher::new();
        pieces.iter().for_each(|piece| hasher.update(piece));
        let digest = hasher.finish();
        match self.get(&digest) {
            // Another process may have renamed it and not yet synced the name.
            Ok(_) => return sync_dir(&self.dir).map(|()| digest),
            Err(StoreError::NoSuchBlob(_) | StoreError::BlobDamaged { .. }) => {}
            Err(other) => return Err(other),
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.write(pieces, &digest) {
                Ok(()) => break,
                // The name is taken by a process of another pid namespace, or a sweep took the file.
                Err(e) if is_race(&e) && tries < MAX_TRIES => {}
                Err(e) => return Err(fault("write", &self.path(&digest), e)),
            }
        }
        sync_dir(&self.dir)?;
        Ok(digest)
    }

    fn write(&self, pieces: &[&[u8]], digest: &Digest) -> io::Result<()> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let temp = self.unfinished.join(format!("{}-{number}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
        let mut fill = || -> io::Result<()> {
            file.lock()?;
            for piece in pieces {
                file.write_all(piece)?;
            }
            file.sync_all()?;
            fs::rename(&temp, self.path(digest))
        };
        fill().inspect_err(|_| {
            let _ = fs::remove_file(&temp);
        })
    }

    /// The bytes of that name, checked: [`StoreError::NoSuchBlob`] or [`StoreError::BlobDamaged`].
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(StoreError::NoSuchBlob(*digest)),
            Err(e) => return Err(fault("read", &path, e)),
        };
        if Digest::of(&bytes) == *digest {
            return Ok(bytes);
        }
        let what = format!("its {} bytes have another sha256", bytes.len());
        Err(StoreError::BlobDamaged { digest: *digest, what })
    }

    /// Removing what is not there is fine.
    pub fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        let path = self.path(digest);
        match fs::remove_file(&path) {
            Ok(()) => sync_dir(&self.dir),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(fault("remove", &path, e)),
        }
    }
}

fn is_race(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}
