//! Removes trees that an agent made: directories without permissions, any depth, any names, links to anywhere. Nothing
//! is followed, and no path is longer than one name.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

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
            // Its entries go away; without write permission they could not. Fails where privileges make it needless.
            let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
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
                        // A directory's own `..` changes with the move, which needs write permission for it.
                        Err(Errno::ACCESS) if unlock(directory.as_fd(), &child).is_ok() => {
                            rustix::fs::renameat_with(&directory, &child, top, &to, flags)?;
                            break;
                        }
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
    match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            unlock(at, name)?;
            rustix::fs::openat(at, name, flags, Mode::empty())
        }
        other => other,
    }
}

/// Gives the owner, who we are, every permission on a directory, without following a link that took its place.
fn unlock(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(at, name, flags, Mode::empty())?;
    // fchmod refuses path descriptors, and fchmodat2 is too new; /proc leads to exactly this directory.
    rustix::fs::chmod(format!("/proc/self/fd/{}", directory.as_raw_fd()), Mode::RWXU)
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn removes_deep_locked_and_oddly_named_trees_and_follows_nothing() {
        let base = std::env::temp_dir().join(format!("countersign-delete-{}", std::process::id()));
        let (top, outside) = (base.join("top"), base.join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        symlink(&outside, top.join("a/link")).unwrap();
        fs::write(top.join("a/b/odd\nname"), "x").unwrap();
        fs::create_dir_all(top.join(".countersign-removed-0/x/y")).unwrap();
        // Deeper than PATH_MAX can say.
        let mut here = open(rustix::fs::CWD, &CString::new(top.to_str().unwrap()).unwrap()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, "deeper", Mode::RWXU).unwrap();
            here = open(here.as_fd(), c"deeper").unwrap();
        }
        for path in ["a/b/c", "a/b"] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o000)).unwrap();
        }
        let directory = open(rustix::fs::CWD, &CString::new(top.to_str().unwrap()).unwrap()).unwrap();
        empty(directory.as_fd()).unwrap();
        assert_eq!(fs::read_dir(&top).unwrap().count(), 0);
        assert!(outside.join("kept").exists());
        fs::remove_dir_all(&base).unwrap();
    }
}
