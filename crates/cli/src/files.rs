//! Files that a person names on the command line: bounded, and never waited for.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Reads a regular file of at most `limit` bytes. A FIFO, socket, device or directory is refused at once; what was
/// checked is what is read. `Err` says why, without the path.
pub(crate) fn read_regular(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        rustix::io::Errno::NXIO => "it is not a regular file".to_owned(),
        errno => format!("it cannot be opened: {}", std::io::Error::from(errno)),
    })?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|error| format!("it cannot be read: {error}"))?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is larger than {limit} bytes"));
    }
    Ok(bytes)
}

/// Does the path exist? A final symbolic link counts as what it is.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
