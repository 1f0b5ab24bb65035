//! The record: an append-only, hash-chained journal for each session, the payloads that its events commit to, and
//! content-addressed blobs. [`Store`] is the seam; [`SqliteStore`] keeps a home directory, [`MemoryStore`] is the same
//! behaviour without a disk for simulations, and `conformance` is the suite that both pass.
//!
//! Architecture invariants: a write is durable before it is acknowledged; nothing here reads a clock or makes
//! randomness (times and salts come with the call); no call blocks an async executor; the store knows nothing of what
//! events mean.
#![forbid(unsafe_code)]

mod admit;
mod blobs;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod files;
pub mod implement;
mod kinds;
mod line;
mod memory;
mod payload;
mod sqlite;
mod store;
mod worker;

pub use error::StoreError;
pub use kinds::KnownKinds;
pub use memory::MemoryStore;
pub use sqlite::{Home, Options, SqliteStore};
pub use store::{
    Append, Appended, Authority, EventPage, Fence, Lease, LeaseGuard, ListFilter, Loaded, NewEvent,
    NewPayload, NewSession, OutboxItem, OutboxRow, PayloadRef, Revealed, SessionRow, Store, StoredEvent,
};

/// The largest number of events that one append may hold.
pub const MAX_EVENTS_PER_APPEND: usize = 1024;

/// The longest event line in bytes. Longer things are payloads.
pub const MAX_LINE: usize = 1024 * 1024;

/// The largest payload in bytes.
pub const MAX_PAYLOAD: usize = 256 * 1024 * 1024;

/// Payloads up to this many bytes are committed in the database, longer ones are files of their own.
pub const MAX_INLINE_PAYLOAD: usize = 32 * 1024;
