use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Whether a final symbolic link may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    Follow,
    Refuse,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("it cannot be opened: {0}")]
    Open(io::Error),
    #[error("it is a symbolic link; name the file itself")]
    Link,
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error("it cannot be read: {0}")]
    Read(io::Error),
}

/// Reads a regular file of at most `limit` bytes. Never waits: a FIFO, socket or device is refused at once, and what
/// was checked is what is read.
pub(crate) fn read_regular(path: &Path, limit: u64, links: Links) -> Result<Vec<u8>, ReadError> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        rustix::io::Errno::LOOP if links == Links::Refuse => ReadError::Link,
        // What a socket, or a FIFO opened elsewhere, answers.
        rustix::io::Errno::NXIO => ReadError::NotRegular,
        errno => ReadError::Open(errno.into()),
    })?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(ReadError::Read)?;
    if !metadata.is_file() {
        return Err(ReadError::NotRegular);
    }
    if metadata.len() > limit {
        return Err(ReadError::TooLarge(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // It may grow while it is read.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(ReadError::Read)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge(limit));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bounded_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), b"12345").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let read = |name: &str, limit, links| read_regular(&path(name), limit, links);
        assert_eq!(read("file", 5, Links::Refuse).unwrap(), b"12345");
        assert_eq!(read("link", 5, Links::Follow).unwrap(), b"12345");
        assert!(matches!(read("link", 5, Links::Refuse), Err(ReadError::Link)));
        assert!(matches!(read("file", 4, Links::Follow), Err(ReadError::TooLarge(4))));
        assert!(matches!(read("none", 4, Links::Follow), Err(ReadError::Open(_))));
        for special in ["fifo", "socket", "."] {
            assert!(matches!(read(special, 4, Links::Follow), Err(ReadError::NotRegular)), "{special}");
        }
        // Endless, and says that it is empty.
        assert!(matches!(read_regular(Path::new("/dev/zero"), 4, Links::Follow), Err(ReadError::NotRegular)));
    }
}
