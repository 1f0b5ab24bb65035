//! The only place of this module that touches files. Nothing is followed, waited for, or read beyond its bound.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use countersign_types::{Digest, Hasher};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::Finding;
use crate::layout::{MAX_BUNDLE, MAX_DEPTH, MAX_FILES, max_size, part};
use crate::strict::shown;

/// A bundle's directory, held open: renaming or replacing it changes nothing any more.
#[derive(Debug)]
pub(super) struct Files {
    dir: OwnedFd,
    /// Regular files by path, with their sizes when they were listed.
    pub(super) sizes: BTreeMap<String, u64>,
}

fn open_dir(at: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

impl Files {
    /// Lists a bundle. What may not be in one is a finding; such files are never opened. None: it goes on beyond any
    /// bound and must not be looked at further. Fails when `dir` itself cannot be opened.
    pub(super) fn list(dir: &Path, findings: &mut Vec<Finding>) -> std::io::Result<Option<Self>> {
        // The directory that the user names may be a link; what lies in it may not.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(rustix::fs::CWD, dir, flags, Mode::empty())?;
        let mut out = Self { dir, sizes: BTreeMap::new() };
        let mut seen = 0;
        let mut todo = vec![(String::new(), 0)];
        while let Some((prefix, depth)) = todo.pop() {
            let here =
                if prefix.is_empty() { None } else { Some(out.open_dirs(prefix.trim_end_matches('/'))?) };
            let fd = here.as_ref().map_or(out.dir.as_fd(), |fd| fd.as_fd());
            let before = seen;
            for entry in Dir::read_from(fd)? {
                let entry = entry?;
                let raw = entry.file_name().to_bytes();
                if raw == b"." || raw == b".." {
                    continue;
                }
                seen += 1;
                if seen > MAX_FILES {
                    findings.push(Finding::TooManyFiles { limit: MAX_FILES as u64 });
                    return Ok(None);
                }
                let Ok(name) = std::str::from_utf8(raw) else {
                    let path = shown(&format!("{prefix}{}", String::from_utf8_lossy(raw)));
                    findings.push(Finding::UnexpectedFile { path });
                    continue;
                };
                let path = format!("{prefix}{name}");
                let stat = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => {
                        out.sizes.insert(path, u64::try_from(stat.st_size).unwrap_or_default());
                    }
                    FileType::Directory if depth + 1 < MAX_DEPTH => {
                        todo.push((format!("{path}/"), depth + 1))
                    }
                    FileType::Directory => findings.push(Finding::UnexpectedFile { path: shown(&path) }),
                    _ => findings.push(Finding::NotAFile { path: shown(&path) }),
                }
            }
            if before == seen && depth > 0 {
                findings.push(Finding::NotAFile { path: shown(&prefix) });
            }
        }
        Ok(Some(out))
    }

    /// Drops files without a role and those above their bound. None: together they are above the bound of a bundle.
    pub(super) fn keep_roles(mut self, signed: bool, findings: &mut Vec<Finding>) -> Option<Self> {
        self.sizes.retain(|path, size| {
            let Some(role) = part(path, signed) else {
                findings.push(Finding::UnexpectedFile { path: shown(path) });
                return false;
            };
            let limit = max_size(&role).as_u64();
            if *size > limit {
                findings.push(Finding::TooLarge { path: path.clone(), limit });
            }
            *size <= limit
        });
        let limit = MAX_BUNDLE.as_u64();
        if self.sizes.values().fold(0, |sum: u64, size| sum.saturating_add(*size)) > limit {
            findings.push(Finding::TooLarge { path: "the bundle".to_owned(), limit });
            return None;
        }
        Some(self)
    }

    fn open_dirs(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        let mut at: Option<OwnedFd> = None;
        for name in path.split('/') {
            let fd = at.as_ref().map_or(self.dir.as_fd(), |fd| fd.as_fd());
            at = Some(open_dir(fd, name)?);
        }
        at.ok_or(rustix::io::Errno::NOENT)
    }

    /// Reads a listed file in pieces. A file that has changed its kind or grown since it was listed is an error.
    pub(super) fn stream(
        &self,
        path: &str,
        buffer: &mut Vec<u8>,
        mut see: impl FnMut(&[u8]),
    ) -> Result<Digest, Finding> {
        const CHUNK: usize = 256 * 1024;
        let failed = |why: String| Finding::Unreadable { path: path.to_owned(), why };
        let limit = *self.sizes.get(path).ok_or_else(|| Finding::MissingFile { path: path.to_owned() })?;
        let mut file = self.open(path).map_err(|e| failed(e.to_string()))?;
        buffer.resize(CHUNK, 0);
        let (mut hasher, mut len) = (Hasher::new(), 0);
        loop {
            let got = match file.read(buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed(e.to_string())),
            };
            len += got as u64;
            if len > limit {
                return Err(failed("it grows while it is read".to_owned()));
            }
            hasher.update(&buffer[..got]);
            see(&buffer[..got]);
        }
        Ok(hasher.finish())
    }

    /// Reads a listed file as a whole.
    pub(super) fn read(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(Vec<u8>, Digest), Finding> {
        let size =
            self.sizes.get(path).copied().and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
        let mut out = Vec::with_capacity(size);
        let digest = self.stream(path, buffer, |piece| out.extend_from_slice(piece))?;
        Ok((out, digest))
    }

    fn open(&self, path: &str) -> std::io::Result<File> {
        let (parent, name) =
            path.rsplit_once('/').map_or((None, path), |(parent, name)| (Some(parent), name));
        let dir = parent.map(|parent| self.open_dirs(parent)).transpose()?;
        let at = dir.as_ref().map_or(self.dir.as_fd(), |fd| fd.as_fd());
        // A pipe that took the file's place would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(at, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            Ok(File::from(file))
        } else {
            Err(std::io::Error::other("it is no regular file any more"))
        }
    }
}
