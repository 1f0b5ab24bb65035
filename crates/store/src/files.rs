//! What everything that keeps files needs: names that survive a loss of power, and errors that say what to do.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::StoreError;

/// Only the owner may look into a directory of ours.
const PRIVATE: u32 = 0o700;

/// From what the kernel says to what a caller can act on.
pub(crate) fn fault(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => StoreError::ReadOnly { path },
        _ => StoreError::Io { doing, path, source },
    }
}

/// Makes a directory and its missing parents, and the names of all of them durable.
pub(crate) fn make_durable(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(parent) = parent {
        make_durable(parent)?;
    }
    match DirBuilder::new().mode(PRIVATE).create(dir) {
        Ok(()) => sync_dir(parent.unwrap_or(Path::new("."))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(e) => Err(fault("make the directory", dir, e)),
    }
}

pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| fault("sync", dir, e))
}
