use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::StoreError;
use crate::files::fault;

/// Writers of all processes stand in line at a `flock`: SQLite's own busy handler polls, and under load some writers
/// never get their turn.
#[derive(Debug)]
pub(super) struct WriteQueue {
    path: PathBuf,
    file: File,
    timeout: Duration,
}

/// The right to write; gives up its place when dropped.
pub(super) enum Turn<'a> {
    Direct(&'a File),
    Waited(File),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unlocked by name, because a child between fork and exec shares the open file and would keep it locked.
        let file = match self {
            Self::Direct(file) => file,
            Self::Waited(file) => &*file,
        };
        let _ = file.unlock();
    }
}

impl WriteQueue {
    pub(super) fn open(path: &Path, timeout: Duration) -> Result<Self, StoreError> {
        Ok(Self { path: path.to_owned(), file: open_lock(path)?, timeout })
    }

    /// Waits for its turn, at most the timeout.
    pub(super) fn enter(&self) -> Result<Turn<'_>, StoreError> {
        match self.file.try_lock() {
            Ok(()) => return Ok(Turn::Direct(&self.file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(fault("lock", &self.path, e)),
        }
        // flock has no time limit, so a thread of its own waits in the kernel's fair line. When nobody wants the lock
        // any more, the thread drops it as soon as it gets it.
        let file = open_lock(&self.path)?;
        let (got, wait) = mpsc::channel();
        let waiter = std::thread::Builder::new().name("store-lock".into()).spawn(move || {
            let result = file.lock().map(|()| file);
            if let Err(mpsc::SendError(Ok(unwanted))) = got.send(result) {
                let _ = unwanted.unlock();
            }
        });
        waiter.map_err(|e| fault("start a thread for", &self.path, e))?;
        match wait.recv_timeout(self.timeout) {
            Ok(Ok(file)) => Ok(Turn::Waited(file)),
            Ok(Err(e)) => Err(fault("lock", &self.path, e)),
            Err(_) => Err(StoreError::Busy { path: self.path.clone(), waited_s: self.timeout.as_secs() }),
        }
    }
}

pub(super) fn open_lock(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| fault("open", path, e))
}
