//! Files of the store: private, atomic, swept.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{StoreError, at};

const TEMPORARY: &str = "new-";

pub(super) fn make_private_dir(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at(path))
}

/// Makes `new-<pid>-<number>`, readable by its owner only.
pub(super) fn create_temporary(
    dir: &Path,
    mut number: impl FnMut() -> u64,
) -> Result<(PathBuf, File), StoreError> {
    loop {
        let path = dir.join(format!("{TEMPORARY}{}-{}", std::process::id(), number()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            // Another store of this process, or a dead process whose id we have.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(StoreError::Io { path, source }),
        }
    }
}

/// Temp file, data on the disk if asked, rename. The caller syncs the directory.
pub(super) fn write_atomic(
    path: &Path,
    bytes: &[u8],
    sync: bool,
    number: impl FnMut() -> u64,
) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let (temporary, mut file) = create_temporary(dir, number)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| if sync { file.sync_data() } else { Ok(()) })
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // The error that matters is the first one; a leftover is swept at the next open.
        drop(fs::remove_file(&temporary));
        StoreError::Io { path: path.to_owned(), source }
    })
}

pub(super) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(at(path))
}

/// Whether the file has exactly these bytes.
pub(super) fn holds(path: &Path, bytes: &[u8]) -> bool {
    let same_length = fs::metadata(path).is_ok_and(|m| m.len() == bytes.len() as u64);
    same_length && fs::read(path).is_ok_and(|found| found == bytes)
}

/// Removes what dead processes left unfinished.
pub(super) fn sweep(root: &Path) -> Result<(), StoreError> {
    for part in ["segments", "trees"] {
        let dir = root.join(part);
        for entry in fs::read_dir(&dir).map_err(at(&dir))? {
            let entry = entry.map_err(at(&dir))?;
            let name = entry.file_name();
            let owner = name
                .to_str()
                .and_then(|n| n.strip_prefix(TEMPORARY))
                .and_then(|n| n.split('-').next())
                .and_then(|pid| pid.parse::<u32>().ok());
            let Some(pid) = owner else { continue };
            if !Path::new("/proc").join(pid.to_string()).exists() {
                // Another process may sweep at the same time.
                drop(fs::remove_file(entry.path()));
            }
        }
    }
    Ok(())
}
