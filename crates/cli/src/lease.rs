//! Whether somebody drives a session: a session's lease is a lock on a file, which the kernel releases when its holder
//! dies.

use std::path::Path;
use std::time::Duration;

use countersign_engine::{Ended, EngineError};
use countersign_store::{SessionRow, StoreError};
use countersign_types::SessionId;

use crate::home::Home;

/// Times that a driver asks for a lease before it believes that another driver has it.
const ASKS: u32 = 25;

/// Between two of them. Others that only look hold a lock for microseconds.
const PAUSE: Duration = Duration::from_millis(20);

/// Does a process drive this session? Only looks: neither the lease's number nor its holder is changed, and others may
/// look at the same time.
pub(crate) fn held(home: &Home, id: &SessionId) -> bool {
    locked(&home.session(id).join("lock"))
}

/// Only a lock that is not there, or that can be had, says that nobody has it.
fn locked(path: &Path) -> bool {
    match std::fs::File::open(path) {
        Ok(lock) => lock.try_lock_shared().is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Between two looks at a journal that somebody else writes.
const LOOK: Duration = Duration::from_millis(200);

/// Looks in a row that find neither an end nor a driver before a session counts as lost: a driver that was just started
/// takes its lease in that time.
const PATIENCE: u32 = 15;

/// Waits for what another process adds to a session.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    alone: u32,
}

impl Waiting {
    /// Waits a little. False: nobody drives the session, and it counts as lost. `driven` has to be asked for before the
    /// journal is read, because a driver commits the end before it lets go.
    pub(crate) async fn goes_on(&mut self, driven: bool) -> bool {
        self.alone = if driven { 0 } else { self.alone + 1 };
        tokio::time::sleep(LOOK).await;
        self.alone <= PATIENCE
    }
}

/// What to say of a turn that has no end and that nobody drives.
fn lost(id: &SessionId) -> String {
    format!(
        "session {id} is lost: its process died; `countersign resume {id}` goes on from the last thing that it recorded"
    )
}

/// A word and a sentence for a turn without an end that nobody drives.
pub(crate) fn idle(id: &SessionId, status: Option<&str>) -> (&'static str, String) {
    let rests =
        |word, next: &str| (word, format!("session {id} is {word}: `countersign {next} {id}` goes on"));
    match status {
        Some("ready") => rests("ready", "approve"),
        Some("approved") => rests("approved", "resume"),
        Some("parked") => rests("parked", "resume"),
        _ => (LOST, lost(id)),
    }
}

/// The status in a session's row.
pub(crate) fn status(row: &SessionRow) -> Option<&str> {
    row.summary.get("status").and_then(serde_json::Value::as_str)
}

/// The word of [`idle`] for a session whose process died.
pub(crate) const LOST: &str = "lost";

/// Drives, although somebody may be looking whether it is driven just when the lease is asked for.
pub(crate) async fn taken<F>(mut drive: impl FnMut() -> F) -> Result<Ended, EngineError>
where
    F: Future<Output = Result<Ended, EngineError>>,
{
    for _ in 1..ASKS {
        match drive().await {
            Err(EngineError::Store(StoreError::LeaseHeld { .. })) => tokio::time::sleep(PAUSE).await,
            ended => return ended,
        }
    }
    drive().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_cannot_be_looked_at_counts_as_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(!locked(&path), "there is none");
        let held = std::fs::File::create(&path).unwrap();
        assert!(!locked(&path));
        held.lock().unwrap();
        assert!(locked(&path));
        drop(held);
        assert!(!locked(&path));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(locked(&path), "a link to itself cannot be opened");
    }
}
