//! Servers that play a language model over HTTP on loopback, for end-to-end tests and `xtask`. Development only: no
//! released binary depends on this crate.
//!
//! - [`ScriptedServer`] plays a `scripted:FILE` as an OpenAI Chat Completions or an Anthropic Messages endpoint, records
//!   every request, can refuse whatever a strict provider would refuse, and can fail in every way a network fails.
//! - [`aimock`] starts the independent npm package `@copilotkit/aimock` with the same script.
//! - [`postgres`] starts a PostgreSQL server of a test's own.
//!
//! Architecture invariant: the servers share the script's reader with the product and nothing else, so that a fault in the
//! product's wire cannot hide itself here.
#![forbid(unsafe_code)]

pub mod aimock;
mod chat_rules;
mod fault;
mod http1;
mod messages;
mod messages_rules;
pub mod postgres;
mod server;

pub use fault::Fault;
pub use server::{Recorded, ScriptedServer, ServerOptions};
