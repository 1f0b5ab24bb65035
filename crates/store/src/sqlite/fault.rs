//! From what SQLite says to what a caller can act on.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::StoreError;

pub(super) fn db(path: &Path, source: rusqlite::Error) -> StoreError {
    let path_buf = path.to_owned();
    let Some(code) = source.sqlite_error_code() else {
        return StoreError::Database { path: path_buf, source };
    };
    match code {
        ErrorCode::DiskFull => StoreError::DiskFull { path: path_buf },
        // Growing the shared memory file or the log fails as a plain I/O error when no block is left.
        ErrorCode::SystemIoFailure if no_space_left(path) => StoreError::DiskFull { path: path_buf },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path: path_buf },
        ErrorCode::CannotOpen if !writable(path) => StoreError::ReadOnly { path: path_buf },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Corrupt { path: path_buf, detail: source.to_string() }
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Busy { path: path_buf, waited_s: super::BUSY_TIMEOUT.as_secs() }
        }
        _ => StoreError::Database { path: path_buf, source },
    }
}

fn no_space_left(path: &Path) -> bool {
    let dir = path.parent().unwrap_or(path);
    rustix::fs::statvfs(dir).is_ok_and(|s| s.f_bavail == 0 || (s.f_files > 0 && s.f_favail == 0))
}

fn writable(path: &Path) -> bool {
    let dir = path.parent().unwrap_or(path);
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}
