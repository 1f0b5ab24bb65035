//! Cells: where everything runs that an agent or a repository can influence. A small trait, and behind it the tiers.
//!
//! Architecture invariants: this crate knows nothing of sessions, gates or models; a missing property is a typed
//! error with a fix, never a weaker cell; when the controller goes away the cell goes away.
#![forbid(unsafe_code)]

mod binaries;
mod guest;
mod report;
mod supervised;
mod tiers;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_types::{CellId, JobId, JobReceipt, JobSpec, Mount, Observation, Tier, TierProperties};
use futures::future::BoxFuture;

pub use binaries::Binaries;
pub use report::{TierReport, report};
pub use tiers::{Host, Native};

/// What a caller asks of a tier.
#[derive(Clone, Debug)]
pub struct CellSpec {
    pub id: CellId,
    /// Private to this cell. `workspace/` and `home/` in it belong to the cell's users while it lives.
    pub state_dir: PathBuf,
    pub mounts: Vec<Mount>,
    pub host_network: bool,
}

/// One tier on this machine.
pub trait Cells: Send + Sync + fmt::Debug {
    fn tier(&self) -> Tier;

    /// Makes a cell, has the canary look at it, and returns it only if it shows every property that the tier demands.
    fn open(&self, spec: CellSpec) -> BoxFuture<'_, Result<Arc<dyn Cell>, CellError>>;
}

/// A living cell. Dropping the last handle kills everything in it.
pub trait Cell: Send + Sync + fmt::Debug {
    /// What the canary saw, the limits of jobs included: waits until it has looked at those too. Of a cell that ended
    /// before, what was seen until then.
    fn observation(&self) -> BoxFuture<'_, Observation>;

    /// Where the workspace lies as a job of this cell sees it: `/workspace`, or a path of the host in the `host` tier.
    fn workspace(&self) -> PathBuf;

    /// Where `HOME` lies as a job of this cell sees it.
    fn home(&self) -> PathBuf;

    /// Runs one command to its end. The receipt comes after the last process of the job is dead. Dropping the future
    /// cancels the job.
    fn run(&self, job: JobSpec) -> BoxFuture<'_, Result<JobReceipt, CellError>>;

    /// Asks a running job to end now. Its `run` then returns a receipt that says `canceled`.
    fn cancel(&self, job: &JobId);

    /// One request to the resident guest and its reply; `fds` are passed along. Requests are served one at a time.
    fn guest(&self, request: Vec<u8>, fds: Vec<OwnedFd>) -> BoxFuture<'_, Result<Vec<u8>, CellError>>;

    /// Kills every process and returns when none is left. With `delete` the cell's files are removed too.
    fn end(&self, delete: bool) -> BoxFuture<'_, Result<(), CellError>>;
}

#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The tier cannot be had on this machine, or lacks a property that is demanded.
    #[error("the {tier} sandbox is not available: {why}")]
    Unavailable { tier: Tier, why: String, fix: String, missing: TierProperties },
    /// The cell ended by itself, or its supervisor or guest did.
    #[error("the cell died: {0}")]
    Died(String),
    /// The disk of the host is full.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The other side broke the protocol: a bug, or a guest that was taken over.
    #[error("the cell answered nonsense: {0}")]
    Protocol(String),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}
