//! What can go wrong with the engine itself, as opposed to with the turn that it drives.

use countersign_kernel::Refusal;
use countersign_store::StoreError;
use countersign_types::Reason;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The contract's bytes in the journal cannot be read by this version.
    #[error("the contract of this session cannot be read: {0}")]
    Contract(String),
    /// Another process took the session over.
    #[error("another process took this session over; it goes on there")]
    LeaseLost,
    /// What the turn needs to go on is damaged or gone. Nothing of it was carried out.
    #[error("the session cannot go on: {message}")]
    NotRestored { reason: Reason, message: String },
    /// The project could not be looked at before there was a contract.
    #[error("the project could not be looked at: {message}")]
    Scout { reason: Reason, message: String },
    /// The command cannot be taken in the session's present state.
    #[error("{0}")]
    Refused(Refusal),
    /// Ours: an invariant of the engine does not hold.
    #[error("a bug in countersign: {0}; please report it with the output of `countersign events`")]
    Bug(String),
}

impl EngineError {
    /// The reason that a result names for it; None for a bug, which ends with exit code 70.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Store(StoreError::DiskFull { .. }) => Some(Reason::DiskFull),
            Self::Store(_) => Some(Reason::Store),
            Self::Contract(_) => Some(Reason::Config),
            Self::LeaseLost => Some(Reason::LeaseLost),
            Self::NotRestored { reason, .. } | Self::Scout { reason, .. } => Some(*reason),
            Self::Refused(_) => Some(Reason::Usage),
            Self::Bug(_) => None,
        }
    }
}
