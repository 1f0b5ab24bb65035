//! [`countersign_store::Store`] on PostgreSQL, for several machines that drive the same sessions: the same lines, the same
//! refusals and the same suite as the store of a home directory. Payloads above 32 KiB and blobs are files in a directory
//! that all machines share.
//!
//! Architecture invariants: an append decides under the lock of its session's row, by what stands in that row, and is one
//! transaction; a commit whose answer was lost is looked for before anybody is told; a lease ends by the server's clock, and
//! only its fencing number decides what its holder may write; a hint may be lost, and nothing rests on one.
#![forbid(unsafe_code)]

mod connect;
mod fault;
mod hints;
mod lease;
mod read;
mod schema;
mod store;
mod thread;
mod write;

pub use hints::Hints;
pub use store::{Options, PostgresStore};
