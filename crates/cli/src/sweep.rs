//! What cells left on disk whose process died, or was told to stop at once, before it could remove them.
//!
//! Such files belong to ids that only a cell of the same kind maps, so a cell is opened over them and ended with
//! `delete`: nothing here walks a tree that an agent made.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_cell::{CellSpec, Cells, Host, Native};
use countersign_types::CellId;

use crate::home::Home;
use crate::tiers;

/// How long a command may be held up by what others left. The rest is taken up by the next command.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often what is left is tried again, and how long is waited in between.
const ROUNDS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Removes the cells of sessions that nobody drives. Best effort: what stays costs disk and nothing else.
pub(crate) async fn leftovers(home: &Home) {
    let sessions = home.root().join("sessions");
    if find(&sessions).is_empty() {
        return;
    }
    // Without the launcher nothing can be removed; whoever runs a cell next is told what is missing.
    let Ok(binaries) = tiers::binaries() else { return };
    let native: Arc<dyn Cells> = Arc::new(Native::new(binaries.clone()));
    let host: Arc<dyn Cells> = Arc::new(Host::new(binaries));
    let remove = async {
        // A cell that was dropped while it was made may still be dying, and holds its files until then.
        for _ in 0..ROUNDS {
            let mut left = false;
            for session in find(&sessions) {
                // Held while a process drives the session; then its cells are alive.
                let Ok(lock) = std::fs::File::open(session.join("lock")) else { continue };
                if lock.try_lock().is_err() {
                    continue;
                }
                for state_dir in cells(&session) {
                    remove(&state_dir, &native, &host).await;
                    left |= crate::files::exists(&state_dir);
                }
            }
            if !left {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Running out of patience drops the cell under way, which ends it.
    let _ = tokio::time::timeout(PATIENCE, remove).await;
}

/// Sessions with cells on disk.
fn find(sessions: &Path) -> Vec<PathBuf> {
    directories(sessions).into_iter().filter(|session| !cells(session).is_empty()).collect()
}

/// The cells that lie in a session's directory.
pub(crate) fn cells(session: &Path) -> Vec<PathBuf> {
    directories(&session.join("cells"))
}

/// Removes the cells of a directory that no session is recorded for.
pub(crate) async fn forget(dir: &Path) {
    let Ok(binaries) = tiers::binaries() else { return };
    let native: Arc<dyn Cells> = Arc::new(Native::new(binaries.clone()));
    let host: Arc<dyn Cells> = Arc::new(Host::new(binaries));
    for cell in cells(dir) {
        // As in [`leftovers`]: what takes longer is taken up by the next command.
        let _ = tokio::time::timeout(PATIENCE, remove(&cell, &native, &host)).await;
    }
}

pub(crate) fn directories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

async fn remove(state_dir: &Path, native: &Arc<dyn Cells>, host: &Arc<dyn Cells>) {
    // A cell that was never filled is a directory of ours.
    if std::fs::remove_dir(state_dir).is_ok() {
        return;
    }
    let owner = |path: &Path| std::fs::symlink_metadata(path).map(|metadata| metadata.uid()).ok();
    let ours = owner(state_dir);
    let cells = if owner(&state_dir.join("workspace")) == ours { host } else { native };
    #[expect(clippy::expect_used, reason = "a constant that ids allow")]
    let id = CellId::new("sweep").expect("an id");
    let spec = CellSpec { id, state_dir: state_dir.to_owned(), mounts: Vec::new(), host_network: false };
    if let Ok(cell) = cells.open(spec).await {
        let _ = cell.end(true).await;
    }
}
