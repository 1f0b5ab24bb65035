//! The workspace as a directory that nothing can lead out of: every path is opened beneath it, and no symlink on the
//! way is followed. The agent's jobs may change the tree at any moment, so nothing is checked by name and used later.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_tree::EntryMode;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;

/// A directory deeper than this is moved up before it is removed, so that a deep tree needs no deep stack.
const MAX_REMOVE_DEPTH: usize = 100;
/// Bytes of one file that a tree may gain.
const MAX_FILE: u64 = 1 << 30;
/// Tries of a lookup that a concurrent rename disturbed (`EAGAIN` of openat2).
const MAX_RETRIES: usize = 100;

/// A directory and the user that owns what is made in it.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    mount: MountOf,
    owner: Option<u32>,
}

/// What tells one mount from another. The device alone does not: a bind mount of a directory on the same file system,
/// as every layer of an environment may be, has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MountOf {
    device: (u32, u32),
    /// None where the kernel does not say (before 5.8, gVisor).
    id: Option<u64>,
}

impl MountOf {
    fn of(fd: &OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::MNT_ID);
        Ok(Self { device: (stat.stx_dev_major, stat.stx_dev_minor), id: known.then_some(stat.stx_mnt_id) })
    }
}

/// What a mode bit set makes of a regular file.
pub(crate) fn file_mode(mode: EntryMode) -> Mode {
    match mode {
        EntryMode::Executable => Mode::from_raw_mode(0o755),
        EntryMode::File | EntryMode::Symlink | EntryMode::Gitlink => Mode::from_raw_mode(0o644),
    }
}

/// The directory of a path (`b""` for the root) and its last component.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

impl Root {
    /// Opens a directory. `owner`: the uid and gid of what is made below it; None leaves them.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(path: &Path, owner: Option<u32>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let mount = MountOf::of(&fd)?;
        Ok(Self { fd, mount, owner })
    }

    /// The uid and gid of what is made below it.
    pub(crate) const fn owner(&self) -> Option<u32> {
        self.owner
    }

    /// Whether what was opened is on another mount than the root: a layer, a cache, another file system.
    pub(crate) fn is_other_mount(&self, fd: &OwnedFd) -> io::Result<bool> {
        Ok(MountOf::of(fd)? != self.mount)
    }

    /// Opens what `path` names, beneath the root and through no symlink.
    pub(crate) fn open_at(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        open_beneath(&self.fd, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC)
    }

    /// A directory, for reading its entries and as a base of further calls.
    pub(crate) fn dir(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    pub(crate) fn stat(&self, path: &[u8]) -> io::Result<Stat> {
        let fd = self.open_at(path, OFlags::PATH)?;
        Ok(rustix::fs::fstat(&fd)?)
    }

    /// Opens a regular file for reading; anything else is `InvalidInput`. Never waits for a FIFO's other end.
    pub(crate) fn file(&self, path: &[u8]) -> io::Result<(File, Stat)> {
        let (dir, name) = split(path);
        let dir = self.open_at(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        open_regular(&dir, name)
    }

    pub(crate) fn read_link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = split(path);
        let dir = self.open_at(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(rustix::fs::readlinkat(&dir, name, Vec::new())?.into_bytes())
    }

    /// The directory at `path`, made with its parents where it is missing. What stands in the way and is no directory
    /// is an error, or is removed with `clear`.
    pub(crate) fn make_dir(&self, path: &[u8], clear: bool) -> io::Result<OwnedFd> {
        match self.dir(path) {
            Ok(dir) => return Ok(dir),
            Err(e) if path.is_empty() => return Err(e),
            Err(_) => {}
        }
        let (parent, name) = split(path);
        let parent = self.make_dir(parent, clear)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                let is_dir = is_dir_at(&parent, name)?;
                if !is_dir && clear {
                    rustix::fs::unlinkat(&parent, name, AtFlags::empty())?;
                    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
                } else if !is_dir {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            Err(e) => return Err(e.into()),
        }
        let dir = open_beneath(
            &parent,
            name,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        )?;
        self.own(&dir)?;
        Ok(dir)
    }

    fn own(&self, fd: impl AsFd) -> io::Result<()> {
        match self.owner {
            Some(id) => std::os::unix::fs::fchown(fd, Some(id), Some(id)),
            None => Ok(()),
        }
    }

    /// Makes a file, a symlink or the empty directory of a submodule in `dir`, which was opened beneath this root. What stands there is removed first.
    pub(crate) fn put(
        &self,
        dir: &OwnedFd,
        name: &[u8],
        mode: EntryMode,
        content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Stat> {
        if mode == EntryMode::Gitlink {
            let made = Mode::from_raw_mode(0o755);
            self.vacate(dir, name, || Ok(rustix::fs::mkdirat(dir, name, made)?))?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = open_beneath(dir, name, flags)?;
            self.own(&made)?;
            return Ok(rustix::fs::fstat(&made)?);
        }
        if mode == EntryMode::Symlink {
            let mut target = Vec::new();
            content(&mut target)?;
            self.vacate(dir, name, || Ok(rustix::fs::symlinkat(target.as_slice(), dir, name)?))?;
            if let Some(id) = self.owner {
                let (uid, gid) = (rustix::fs::Uid::from_raw(id), rustix::fs::Gid::from_raw(id));
                rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            return Ok(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(
            self.vacate(dir, name, || Ok(rustix::fs::openat(dir, name, flags, file_mode(mode))?))?,
        );
        content(&mut file)?;
        self.own(&file)?;
        Ok(rustix::fs::fstat(&file)?)
    }

    /// Runs `make`; when the name is taken, removes what has it and tries again.
    fn vacate<T>(
        &self,
        dir: &OwnedFd,
        name: &[u8],
        mut make: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        for _ in 0..MAX_RETRIES {
            match make() {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    self.remove_at(dir, name)?;
                }
                other => return other,
            }
        }
        Err(io::Error::other("another process keeps making the same name"))
    }

    /// Writes a file whole or not at all: a temporary name beside it, then a rename.
    pub(crate) fn replace(&self, path: &[u8], mode: Mode, bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (dir, name) = split(path);
        let dir = self.make_dir(dir, false)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MAX_RETRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let temporary = format!(".countersign-{}-{number}.tmp", std::process::id());
            let fd = match rustix::fs::openat(&dir, temporary.as_str(), flags, Mode::from_raw_mode(0o600)) {
                Err(Errno::EXIST) => continue,
                other => other?,
            };
            let mut file = File::from(fd);
            let written = file
                .write_all(bytes)
                .and_then(|()| self.own(&file))
                // After the owner: a change of owner clears mode bits.
                .and_then(|()| Ok(rustix::fs::fchmod(&file, mode)?))
                .and_then(|()| Ok(rustix::fs::renameat(&dir, temporary.as_str(), &dir, name)?));
            if written.is_err() {
                // The first error is the one to tell.
                let _ = rustix::fs::unlinkat(&dir, temporary.as_str(), AtFlags::empty());
            }
            return written;
        }
        Err(io::Error::other("another process keeps making our temporary names"))
    }

    /// Gives everything below a directory, and the directory, to the owner.
    pub(crate) fn own_tree(&self, path: &[u8]) -> io::Result<()> {
        let Some(id) = self.owner else { return Ok(()) };
        let (uid, gid) = (rustix::fs::Uid::from_raw(id), rustix::fs::Gid::from_raw(id));
        let mut waiting = vec![path.to_vec()];
        while let Some(path) = waiting.pop() {
            let dir = self.dir(&path)?;
            std::os::unix::fs::fchown(&dir, Some(id), Some(id))?;
            for (name, kind) in entries(&dir)? {
                if kind == FileType::Directory {
                    waiting.push([&path, &b"/"[..], &name].concat());
                } else {
                    rustix::fs::chownat(&dir, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what `path` names, whatever it is. Mounts below it stay. False: something stayed.
    pub(crate) fn remove(&self, path: &[u8]) -> io::Result<bool> {
        let (dir, name) = split(path);
        let dir = self.dir(dir)?;
        self.remove_at(&dir, name)
    }

    pub(crate) fn remove_at(&self, dir: &OwnedFd, name: &[u8]) -> io::Result<bool> {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            Err(Errno::ISDIR | Errno::PERM) => {}
            // A mounted file, or something on a mount that is read-only.
            Err(Errno::BUSY | Errno::ROFS) if !is_dir_at(dir, name)? => return Ok(false),
            Err(Errno::BUSY | Errno::ROFS) => {}
            Err(e) => return Err(e.into()),
        }
        let top =
            open_beneath(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC)?;
        if !self.empty(&top)? {
            return Ok(false);
        }
        match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::BUSY | Errno::ROFS) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Empties a directory. False: a mount stayed.
    pub(crate) fn empty(&self, top: &OwnedFd) -> io::Result<bool> {
        if self.is_other_mount(top)? {
            return Ok(false);
        }
        let mut hoisted = 0_u64;
        loop {
            let before = hoisted;
            let clean = self.empty_level(top, top, 0, &mut hoisted)?;
            if hoisted == before {
                return Ok(clean);
            }
        }
    }

    fn empty_level(&self, dir: &OwnedFd, top: &OwnedFd, depth: usize, hoisted: &mut u64) -> io::Result<bool> {
        let mut clean = true;
        for (name, kind) in entries(dir)? {
            if kind != FileType::Directory {
                match rustix::fs::unlinkat(dir, &name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => continue,
                    Err(Errno::BUSY | Errno::ROFS) => {
                        clean = false;
                        continue;
                    }
                    // It became a directory meanwhile.
                    Err(Errno::ISDIR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = open_beneath(dir, &name, flags)?;
            if self.is_other_mount(&below)? {
                clean = false;
                continue;
            }
            if depth >= MAX_REMOVE_DEPTH {
                *hoisted += 1;
                let name_above = format!(".countersign-remove-{}", *hoisted);
                rustix::fs::renameat(dir, &name, top, name_above)?;
                continue;
            }
            clean &= self.empty_level(&below, top, depth + 1, hoisted)?;
            match rustix::fs::unlinkat(dir, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::BUSY) => clean = false,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(clean)
    }
}

/// Opens a regular file in a directory for reading; anything else is `InvalidInput`.
pub(crate) fn open_regular(dir: &OwnedFd, name: &[u8]) -> io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // A device's open may act: look before. A swap in between can at worst open what the agent may open itself.
    let before = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let what = FileType::from_raw_mode(before.st_mode);
    if what != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}", type_name(what))));
    }
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?);
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, stat)),
        other => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}", type_name(other)))),
    }
}

/// Reads the `size` bytes that a file had when it was opened: one that a job keeps growing ends too.
pub(crate) fn read_all(file: &mut File, size: u64) -> io::Result<Vec<u8>> {
    not_too_large(size)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file's size is whatever the agent says: one that holds nothing can be as large as a file system allows.
pub(crate) fn not_too_large(size: u64) -> io::Result<()> {
    if size <= MAX_FILE {
        return Ok(());
    }
    let text = format!("it is {size} bytes large, and a file of the tree has at most {MAX_FILE}");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

pub(crate) const fn type_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symlink",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown type",
    }
}

fn is_dir_at(dir: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// The names in a directory with their types (asked for where the file system does not say), sorted by bytes.
pub(crate) fn entries(dir: &OwnedFd) -> io::Result<Vec<(Vec<u8>, FileType)>> {
    let mut out = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        let name = name.to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(e.into()),
            },
            kind => kind,
        };
        out.push((name.to_vec(), kind));
    }
    out.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}

/// openat2 with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`; where the kernel has none (gVisor), one component at a time
/// with `O_NOFOLLOW`, which means the same for paths without `..`.
pub(crate) fn open_beneath(base: &OwnedFd, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    static MISSING: AtomicBool = AtomicBool::new(false);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_RETRIES {
        if MISSING.load(Ordering::Relaxed) {
            return open_stepwise(base, path, flags);
        }
        match rustix::fs::openat2(base, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) => MISSING.store(true, Ordering::Relaxed),
            other => return Ok(other?),
        }
    }
    Err(io::Error::other("other processes keep renaming the path"))
}

fn open_stepwise(base: &OwnedFd, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let mut parts = path.split(|b| *b == b'/').filter(|p| !p.is_empty() && *p != b".").peekable();
    let mut current = rustix::io::fcntl_dupfd_cloexec(base, 0)?;
    if parts.peek().is_none() {
        return Ok(rustix::fs::openat(&current, ".", flags, Mode::empty())?);
    }
    while let Some(part) = parts.next() {
        if part == b".." {
            return Err(Errno::XDEV.into());
        }
        let last = parts.peek().is_none();
        let step = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
        current = rustix::fs::openat(&current, part, step | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn no_link_is_followed_by_either_way_of_opening() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/a")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(dir.path().join("root/a/f"), "f").unwrap();
        std::os::unix::fs::symlink("..", dir.path().join("root/up")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("root/in")).unwrap();
        let root = Root::open(&dir.path().join("root"), None).unwrap();
        for open in [open_beneath, open_stepwise] {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            assert!(open(&root.fd, b"a/f", flags).is_ok());
            assert!(open(&root.fd, b".", flags).is_ok());
            for bad in [&b"up/secret"[..], b"in/f", b"../secret", b"a/../../secret"] {
                assert!(open(&root.fd, bad, flags).is_err(), "{}", bad.escape_ascii());
            }
        }
    }

    #[test]
    fn a_very_deep_tree_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), None).unwrap();
        let mut current = root.dir(b"").unwrap();
        for _ in 0..1500 {
            rustix::fs::mkdirat(&current, "d", Mode::from_raw_mode(0o755)).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            current = rustix::fs::openat(&current, "d", flags, Mode::empty()).unwrap();
        }
        assert!(root.remove(b"d").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
