//! How failures inside the guest become typed replies.

use std::fmt::{self, Display};
use std::io;

use crate::protocol::{Fault, FaultKind};

pub(crate) type Outcome<T> = Result<T, Fault>;

/// Bytes of a message that leave the cell. Longer ones are cut: parts of them may come from a repository.
const MAX_MESSAGE: usize = 2000;

impl Fault {
    /// A failed system call. A full disk or quota has a kind of its own.
    pub fn io(what: impl Display, source: &io::Error) -> Self {
        let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let kind = if full { FaultKind::DiskFull } else { FaultKind::Io };
        Self::new(kind, format!("{what}: {source}"))
    }

    pub fn repository(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Repository, message.into())
    }

    pub(crate) fn environment(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Environment, message.into())
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(FaultKind::BadRequest, message.into())
    }

    fn new(kind: FaultKind, message: String) -> Self {
        Self { kind, message: shown(&message, MAX_MESSAGE) }
    }

    pub(crate) fn candidate(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Candidate, message.into())
    }

    pub(crate) fn patch_mismatch(message: impl Into<String>) -> Self {
        Self::new(FaultKind::PatchMismatch, message.into())
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// Text of unknown origin, control characters escaped, at most `limit` bytes.
pub(crate) fn shown(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        let before = out.len();
        if c.is_control() && c != '\n' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        if out.len() > limit {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

/// Bytes of unknown origin as one line of text.
pub(crate) fn shown_bytes(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(&shown(chunk.valid(), MAX_MESSAGE).replace('\n', "\\n"));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown(&out, MAX_MESSAGE)
}
