//! Where everything is kept: `$COUNTERSIGN_HOME`, else the XDG data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::Event;
use countersign_store::{KnownKinds, Options, SqliteStore};
use countersign_tree::{Memo, ObjectStore};
use countersign_types::{Reason, SessionId};

use crate::refusal::Refusal;

/// How long a write waits behind other processes.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// An open home.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) objects: Arc<ObjectStore>,
    pub(crate) memo: Arc<Memo>,
    root: PathBuf,
}

impl Home {
    pub(crate) fn open() -> Result<Self, Refusal> {
        Self::open_at(&path()?)
    }

    pub(crate) fn open_at(path: &Path) -> Result<Self, Refusal> {
        let known = KnownKinds::new(|kind| Event::KINDS.contains(&kind));
        let store = SqliteStore::open(path, Options { known, queue_timeout: QUEUE_TIMEOUT })?;
        let root = store.home().root().to_owned();
        let objects = ObjectStore::open(store.home().blobs())
            .map_err(|error| unusable(&root, &error, error.is_disk_full()))?;
        let memo = memo(&root, &root.join("memo"))?;
        Ok(Self { store: Arc::new(store), objects: Arc::new(objects), memo, root })
    }

    /// What earlier runs remembered is not used: `dir`, which is empty, takes its place.
    pub(crate) fn forget(&mut self, dir: &Path) -> Result<(), Refusal> {
        self.memo = memo(&self.root, dir)?;
        Ok(())
    }

    /// Absolute, without symbolic links.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn session(&self, id: &SessionId) -> PathBuf {
        self.store.home().session(id)
    }

    pub(crate) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }
}

fn memo(root: &Path, dir: &Path) -> Result<Arc<Memo>, Refusal> {
    Memo::open(dir)
        .map(Arc::new)
        .map_err(|error| unusable(root, &error, error.kind() == std::io::ErrorKind::StorageFull))
}

fn unusable(root: &Path, error: &dyn std::fmt::Display, full: bool) -> Refusal {
    let reason = if full { Reason::DiskFull } else { Reason::Store };
    Refusal::new(reason, format!("the home {} cannot be used: {error}", root.display()))
}

/// The home's path, absolute.
pub(crate) fn path() -> Result<PathBuf, Refusal> {
    let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = env("COUNTERSIGN_HOME")
        // The XDG specification wants relative values ignored.
        .or_else(|| env("XDG_DATA_HOME").filter(|p| p.is_absolute()).map(|p| p.join("countersign")))
        .or_else(|| user_home().map(|home| home.join(".local/share/countersign")));
    match path {
        Some(path) if path.to_str().is_none() => Err(Refusal::new(
            Reason::Config,
            format!(
                "the home {} is not UTF-8, and cells cannot be told of it: choose another",
                path.display()
            ),
        )),
        Some(path) => std::path::absolute(&path)
            .map_err(|error| Refusal::new(Reason::Config, format!("the home {}: {error}", path.display()))),
        None => Err(Refusal::new(
            Reason::Config,
            "there is no place for the home: set COUNTERSIGN_HOME to a directory on a local disk",
        )),
    }
}

/// `$HOME`, when it says anything.
pub(crate) fn user_home() -> Option<PathBuf> {
    std::env::var_os("HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}
