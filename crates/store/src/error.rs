use std::path::PathBuf;

use countersign_types::{Digest, SessionId};

use crate::Fence;

/// Why a store did not do what it was asked. Nothing was changed unless a variant says so.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("session {session} is at event {actual}, not {expected}: load it again and decide anew")]
    Moved { session: SessionId, expected: u64, actual: u64 },
    #[error(
        "session {session} was taken over: lease {} is held now, this is lease {}; stop", current.0, presented.0
    )]
    Fenced { session: SessionId, presented: Fence, current: Fence },
    #[error("session {session} is being run by {holder}: wait for it to end, or cancel it there")]
    LeaseHeld { session: SessionId, holder: String },
    #[error("there is no session {0}: `countersign list` shows those that exist")]
    NoSuchSession(SessionId),
    #[error("session {0} exists already: choose another id")]
    SessionExists(SessionId),
    #[error(
        "session {session} holds events of a newer countersign ({}): it can be read but not continued; use the newer \
         version",
        unknown.join(", ")
    )]
    ReadOnlySession { session: SessionId, unknown: Vec<String> },
    #[error("the journal of session {session} is damaged at event {seq}: {what}; restore it from a copy")]
    BadChain { session: SessionId, seq: u64, what: String },
    #[error("session {session} has no payload `{name}` at event {seq}")]
    NoSuchPayload { session: SessionId, seq: u64, name: String },
    #[error("payload `{name}` at event {seq} of session {session} was dropped by retention or erasure")]
    PayloadDropped { session: SessionId, seq: u64, name: String },
    #[error("payload `{name}` at event {seq} of session {session} no longer matches its commitment: {what}")]
    PayloadDamaged { session: SessionId, seq: u64, name: String, what: String },
    #[error("there is no blob {0}")]
    NoSuchBlob(Digest),
    #[error("blob {digest} is damaged ({what}): put its bytes again to heal it")]
    BlobDamaged { digest: Digest, what: String },
    /// The caller broke a limit or a rule of the format.
    #[error("not a valid append: {0}")]
    Invalid(String),
    #[error(
        "the disk that holds {path} is full: free some space and run again; what was acknowledged is kept"
    )]
    DiskFull { path: PathBuf },
    #[error("{path} cannot be written (read-only file system or missing permission): choose another home")]
    ReadOnly { path: PathBuf },
    #[error("{path} is damaged: {detail}; restore it from a copy or move it away to start with an empty one")]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "{path} was written by a newer countersign (format {found}, this one reads up to {supported}): use the newer version"
    )]
    Newer { path: PathBuf, found: i64, supported: i64 },
    #[error(
        "{path} is on a network file system ({kind}), where locks and commits cannot be trusted: set COUNTERSIGN_HOME \
         to a directory on a local disk"
    )]
    NetworkFileSystem { path: PathBuf, kind: String },
    #[error(
        "another process has held {path} for {waited_s} s: see whether a countersign process hangs or is stopped"
    )]
    Busy { path: PathBuf, waited_s: u64 },
    #[error("{doing} {path}: {source}")]
    Io { doing: &'static str, path: PathBuf, source: std::io::Error },
    #[error("database {path}: {source}")]
    Database { path: PathBuf, source: rusqlite::Error },
    /// An append or a new session was not made; everything else may be done again.
    #[error(
        "database {database} cannot be reached: {what}; see that it runs and is not overloaded, then go on"
    )]
    Unreachable { database: String, what: String },
    /// The connection was lost between the commit and its answer, and looking again did not help: the append or the
    /// new session may be there.
    #[error(
        "the connection to database {database} was lost while a commit of session {session} was on its way, and \
         whether it stands is unknown ({what}): load the session before anything else"
    )]
    CommitUnknown { session: SessionId, database: String, what: String },
    /// What the server said, with its SQLSTATE.
    #[error("database {database} refused with {code}: {what}")]
    Server { database: String, code: String, what: String },
    /// The database or the way to it is not as this program needs it.
    #[error("database {database} cannot be used: {what}")]
    Unsuitable { database: String, what: String },
    #[error("the store was closed while it was asked: its thread has ended")]
    Closed,
}
