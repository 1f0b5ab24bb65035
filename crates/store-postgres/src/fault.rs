//! From what the server and the client say to what a caller can act on.

use std::error::Error as _;
use std::path::PathBuf;

use countersign_store::StoreError;
use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::connect::{LOCK_TIMEOUT, POOL_TIMEOUT};

pub(crate) fn server(database: &str, error: &Error) -> StoreError {
    let Some(said) = error.as_db_error() else {
        return StoreError::Unreachable { database: database.to_owned(), what: chain(error) };
    };
    let database = database.to_owned();
    // Neither detail nor hint: they quote values.
    let what = said.message().to_owned();
    match said.code() {
        &SqlState::DISK_FULL => StoreError::DiskFull { path: PathBuf::from(database) },
        &SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED => {
            StoreError::Busy { path: PathBuf::from(database), waited_s: LOCK_TIMEOUT.as_secs() }
        }
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => {
            StoreError::Corrupt { path: PathBuf::from(database), detail: what }
        }
        &SqlState::INVALID_PASSWORD
        | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | &SqlState::INVALID_CATALOG_NAME => StoreError::Unsuitable { database, what },
        _ if is_fatal(said) => StoreError::Unreachable { database, what },
        code => StoreError::Server { database, code: code.code().to_owned(), what },
    }
}

/// Whether the connection ended, so that what was asked last may have been done or not.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.as_db_error().is_none_or(is_fatal)
}

/// The server ends the connection with such a message.
fn is_fatal(said: &DbError) -> bool {
    // A server that does not send the untranslated word still sends its translation.
    match said.parsed_severity() {
        Some(Severity::Fatal | Severity::Panic) => true,
        Some(_) => false,
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    }
}

pub(crate) fn pool(database: &str, error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => server(database, &error),
        PoolError::Timeout(TimeoutType::Wait) => {
            StoreError::Busy { path: PathBuf::from(database), waited_s: POOL_TIMEOUT.as_secs() }
        }
        PoolError::PostCreateHook(hook) => {
            let what = hook.source().map_or_else(|| hook.to_string(), ToString::to_string);
            StoreError::Unreachable { database: database.to_owned(), what }
        }
        other => StoreError::Unreachable { database: database.to_owned(), what: other.to_string() },
    }
}

/// What stands in a row is not what this program writes.
pub(crate) fn damaged(database: &str, what: impl Into<String>) -> StoreError {
    StoreError::Corrupt { path: PathBuf::from(database), detail: what.into() }
}

/// With its causes: the client's own text is only "error connecting to server".
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
