use countersign_cell::CellError;
use countersign_config::SettingError;
use countersign_engine::EngineError;
use countersign_store::StoreError;
use countersign_types::Reason;

use crate::text;

/// Why a command stops before it begins: a reason of the table of outcomes, and a text that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    /// None: a bug of ours.
    pub(crate) reason: Option<Reason>,
    pub(crate) message: String,
}

impl Refusal {
    /// What it quotes of a command line or a file may be an address with a password, which is cut out.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason: Some(reason), message: text::without_secrets(&message.into()) }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Reason::Usage, message)
    }

    pub(crate) fn bug(message: impl Into<String>) -> Self {
        Self { reason: None, message: message.into() }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.reason.map_or(countersign_types::Outcome::BUG_EXIT_CODE, |reason| reason.outcome().exit_code())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = match &error {
            StoreError::DiskFull { .. } => Reason::DiskFull,
            // The user's choice of a home: the agent never started.
            StoreError::ReadOnly { .. } | StoreError::NetworkFileSystem { .. } | StoreError::Newer { .. } => {
                Reason::Config
            }
            StoreError::NoSuchSession(_) | StoreError::ReadOnlySession { .. } => Reason::Usage,
            // It goes on, elsewhere.
            StoreError::LeaseHeld { .. } | StoreError::Fenced { .. } => Reason::LeaseLost,
            _ => Reason::Store,
        };
        Self::new(reason, error.to_string())
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            other => Self { reason: other.reason(), message: other.to_string() },
        }
    }
}

impl From<SettingError> for Refusal {
    fn from(error: SettingError) -> Self {
        Self::new(Reason::Trust, error.to_string())
    }
}

impl From<CellError> for Refusal {
    fn from(error: CellError) -> Self {
        match error {
            CellError::Unavailable { ref fix, .. } => {
                Self::new(Reason::SandboxUnavailable, format!("{error}. To fix it: {fix}"))
            }
            CellError::DiskFull(_) => Self::new(Reason::DiskFull, error.to_string()),
            other => Self::new(Reason::CellDied, other.to_string()),
        }
    }
}
