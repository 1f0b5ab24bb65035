//! What is given to people as one new directory: it is there whole or not at all, and never written over anything.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use countersign_types::{Digest, Reason};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::refusal::Refusal;

/// A directory beside the one that will be, gone again unless it is published.
#[derive(Debug)]
pub(crate) struct Package {
    dir: tempfile::TempDir,
    /// Names with the sha256 of their bytes.
    pub(crate) files: BTreeMap<String, String>,
}

impl Package {
    pub(crate) fn new(target: &Path) -> Result<Self, Refusal> {
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = tempfile::Builder::new().prefix(".countersign-export-").tempdir_in(parent);
        let dir = dir.map_err(|error| unwritable(target, &error))?;
        Ok(Self { dir, files: BTreeMap::new() })
    }

    pub(crate) fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let path = self.dir.path().join(name);
        put(&path, bytes).map_err(|error| unwritable(&path, &error))?;
        self.files.insert(name.to_owned(), Digest::of(bytes).hex());
        Ok(())
    }

    /// Where it is until it is published.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Puts the package where it belongs. False: something is there by now.
    pub(crate) fn publish(self, target: &Path) -> Result<bool, Refusal> {
        let from = self.dir.path();
        sync(from).map_err(|error| unwritable(from, &error))?;
        match renameat_with(CWD, from, CWD, target, RenameFlags::NOREPLACE) {
            Ok(()) => {
                // It has another name now, which nobody removes.
                let _moved = self.dir.keep();
                if let Some(parent) = target.parent() {
                    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    sync(parent).map_err(|error| unwritable(target, &error))?;
                }
                Ok(true)
            }
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(why) => Err(unwritable(target, &why.into())),
        }
    }
}

fn put(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(crate) fn sync(dir: &Path) -> std::io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::StorageFull {
        return Refusal::new(Reason::DiskFull, format!("{} cannot be written: {error}", path.display()));
    }
    Refusal::usage(format!("{} cannot be written: {error}; name a new directory elsewhere", path.display()))
}
