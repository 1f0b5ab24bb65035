//! The project's own chores: `cargo xtask setup|build|test|demo|docs|bench`.
//!
//! Architecture invariants: standard library and `serde_json` only, so that it builds in seconds on a bare toolchain;
//! it never touches the user's files outside the target directory (`setup` as root installs packages, and says so);
//! every child it starts is awaited or stopped by its own id.
#![forbid(unsafe_code)]

pub mod bench;
pub mod book;
pub mod build;
pub mod cli;
pub mod demo;
pub mod docs;
pub mod fuzz;
pub mod materials;
pub mod node;
pub mod report;
pub mod setup;
pub mod sh;
mod stock;
pub mod strace;
pub mod suite;
pub mod workspace;
