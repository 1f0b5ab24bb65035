//! The record: an append-only, hash-chained journal for each session, the payloads that its events commit to, and
//! content-addressed blobs. [`Store`] is the seam; [`SqliteStore`] keeps a home directory, [`MemoryStore`] is the same
//! behaviour without a disk for simulations, and `conformance` is the suite that both pass.
//!
//! Architecture invariants: a write is durable before it is acknowledged; nothing here reads a clock or makes
//! randomness (times and salts come with the call); no call blocks an async executor; the store knows nothing of what
//! events mean.
#![forbid(unsafe_code)]

mod error;
mod store;

pub use error::StoreError;
pub use store::{
    Append, Appended, Authority, EventPage, Fence, Lease, LeaseGuard, ListFilter, Loaded, NewEvent,
    NewPayload, NewSession, OutboxItem, OutboxRow, PayloadRef, SessionRow, Store, StoredEvent,
};

/// The largest number of events that one append may hold.
pub const MAX_EVENTS_PER_APPEND: usize = 1024;
