//! The guest: our own small program inside every cell. It walks and seals the tree, serves the agent's file tools,
//! imports the base with git, makes patches, and parses what hostile code wrote.
//!
//! Architecture invariants: safe code only; no network, no clock in results; one request at a time; every reply is
//! bounded; it runs as the cell's mapped root and never follows a link that the agent made.
#![forbid(unsafe_code)]

mod channel;
mod confined;
mod fault;
pub mod fence;
mod git;
mod go_canary;
pub mod hygiene;
mod identity;
mod layers;
mod materialise;
mod module;
mod mutate;
mod overlay;
mod plain;
mod project;
pub mod protocol;
pub mod report;
mod review;
mod seal;
mod segment;
mod serve;
pub mod shell;
mod state;
mod tools;
mod touch;
mod walk;

pub use channel::{Channel, Frame};
pub use state::Guest;
