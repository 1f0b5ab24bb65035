//! What the engine needs from outside.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_cell::Cells;
use countersign_gates::profile::ProfileFiles;
use countersign_kernel::contract::ProfileRef;
use countersign_llm::Provider;
use countersign_redact::Redactor;
use countersign_store::Store;
use countersign_tree::{Memo, ObjectStore};
use countersign_types::Millis;
use futures::future::BoxFuture;

use crate::{Crashes, Observer};

/// Time, injected.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Millis;
    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()>;
}

/// Randomness, injected: salts, session ids, jitter.
pub trait Ids: Send + Sync + fmt::Debug {
    fn bytes(&self) -> [u8; 16];
}

/// A request from outside that interrupts what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// SIGINT, or a request to cancel.
    Cancel(countersign_kernel::StopHow),
    /// SIGTERM: park.
    Drain,
}

/// Where interrupts come from. `next` never resolves when none comes.
pub trait Interrupts: Send + Sync + fmt::Debug {
    fn next(&self) -> BoxFuture<'_, Interrupt>;
}

/// The tiers that a session may use: one for the working cell, one for everything that judges or reads the repository.
#[derive(Clone, Debug)]
pub struct CellChoice {
    pub working: Arc<dyn Cells>,
    /// Native or stronger. None where no room can be made: then a contract with a check was refused at admission.
    pub rooms: Option<Arc<dyn Cells>>,
}

/// Host paths that cells mount to read the base from. Resolved by the caller, opened by nobody but a cell.
#[derive(Clone, Debug)]
pub enum Sources {
    Git {
        /// The directory that `git rev-parse --git-common-dir` would name, found without running git.
        git_dir: PathBuf,
        /// Mounted as well with `--include-dirty`.
        work_tree: Option<PathBuf>,
    },
    Directory(PathBuf),
}

/// Directories of the home that belong to this session.
#[derive(Clone, Debug)]
pub struct Home {
    /// `sessions/<id>/`: cells' states live below it while they run; the patch stays there.
    pub session: PathBuf,
    /// `layers/`: what setups made, by digest.
    pub layers: PathBuf,
}

/// Files that a person is given. Failing to write one never changes an outcome and is always said.
pub trait Artifacts: Send + Sync + fmt::Debug {
    /// Writes `name` into the session's directory, atomically and durably.
    fn write(&self, name: &'static str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), String>>;
}

/// Registered profiles. They lie where no cell can see them.
pub trait Profiles: Send + Sync + fmt::Debug {
    /// Every file of the registered copy, as it is now. `Err` says why it cannot be read.
    fn read(&self, profile: &ProfileRef) -> Result<ProfileFiles, String>;
}

/// Everything that one session is driven with.
#[derive(Clone, Debug)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub store: Arc<dyn Store>,
    pub objects: Arc<ObjectStore>,
    /// Base results and setups of earlier runs.
    pub memo: Arc<Memo>,
    pub cells: CellChoice,
    pub provider: Arc<dyn Provider>,
    /// The model of [`countersign_kernel::contract::Contract::review`].
    pub reviewer: Option<Arc<dyn Provider>>,
    pub redactor: Arc<Redactor>,
    pub interrupts: Arc<dyn Interrupts>,
    pub observer: Arc<dyn Observer>,
    pub artifacts: Arc<dyn Artifacts>,
    pub profiles: Arc<dyn Profiles>,
    pub sources: Sources,
    /// The directory of a [`countersign_kernel::contract::Candidate::Tree`], mounted by the cell that reads it.
    pub candidate: Option<PathBuf>,
    pub home: Home,
    /// [`crate::NoCrash`] outside of tests and demonstrations.
    pub crashes: Arc<dyn Crashes>,
}
