//! What can go wrong while a cell is made or served.

use std::io;

/// Every message says what was attempted and on what.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// This machine cannot give the cell; `fix` is what a person can do about it.
    #[error("{why}")]
    Unavailable { why: String, fix: String },
    /// The controller or the supervisor sent something that is not the protocol.
    #[error("protocol: {0}")]
    Protocol(String),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

pub type Result<T> = std::result::Result<T, JailError>;

/// Names what failed.
pub trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| JailError::Io { what: what(), source: source.into() })
    }
}
