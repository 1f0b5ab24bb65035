//! Room in front of the log's end. A commit that makes the log longer waits for the file system's own journal, and with it
//! for whatever else was written on that file system; one that overwrites what is there waits for the disk alone.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The least and the most that the log is made longer by at once.
const LEAST: u64 = 64 << 10;
const MOST: u64 = 1 << 20;

/// The log's file. Zeros behind the last frame are no frames to SQLite, which reads up to the first one whose salt is not
/// the log's (<https://www.sqlite.org/fileformat2.html#walformat>).
#[derive(Debug)]
pub(super) struct Ahead {
    log: PathBuf,
}

impl Ahead {
    pub(super) fn of(database: &Path) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Self { log: log.into() }
    }

    /// The log's length; 0 where there is none yet.
    pub(super) fn len(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |found| found.len())
    }

    /// After a commit, still in the writer's turn, so that nobody else writes to the log. `before` is how long it was
    /// before it. What fails here costs time later and nothing else.
    pub(super) fn keep(&self, before: u64) {
        let len = self.len();
        if len > before {
            let _ = self.extend(len.clamp(LEAST, MOST));
        }
    }

    fn extend(&self, by: u64) -> std::io::Result<()> {
        let mut log = OpenOptions::new().append(true).open(&self.log)?;
        let zeros = vec![0; usize::try_from(by).unwrap_or(0)];
        log.write_all(&zeros)
    }
}
