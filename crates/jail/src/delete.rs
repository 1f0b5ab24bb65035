//! Removes trees that an agent made: directories without permissions, any depth, any names, links to anywhere. Nothing
//! is followed, and no path is longer than one name.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Removes everything in `top` but not `top` itself. At most three descriptors are open however deep the tree is:
/// directories that are not empty are first moved up into `top`.
pub fn empty(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let names = entries(top)?;
        if names.is_empty() {
            return Ok(());
        }
        for (name, kind) in names {
            if remove(top, &name, kind)? {
                continue;
            }
            let directory = open(top, &name)?;
            for (child, kind) in entries(directory.as_fd())? {
                if remove(directory.as_fd(), &child, kind)? {
                    continue;
                }
                // A free name: `top` may hold anything.
                loop {
                    let to =
                        CString::new(format!(".countersign-removed-{moved}")).map_err(|_| Errno::INVAL)?;
                    moved += 1;
                    let flags = rustix::fs::RenameFlags::NOREPLACE;
                    match rustix::fs::renameat_with(&directory, &child, top, &to, flags) {
                        Err(Errno::EXIST) => {}
                        other => break other?,
                    }
                }
            }
            rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// False: a directory that is not empty.
fn remove(at: BorrowedFd<'_>, name: &CStr, kind: FileType) -> rustix::io::Result<bool> {
    if kind != FileType::Directory {
        match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
            // The file system did not say what it was.
            Err(Errno::ISDIR) => {}
            other => return other.map(|()| true),
        }
    }
    match rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

fn open(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn entries(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let mut found = vec![];
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            found.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(found)
}
