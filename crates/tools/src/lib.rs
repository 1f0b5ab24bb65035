//! The agent's tools: their schemas as a model sees them, calls parsed into typed values, results as text.
//!
//! Architecture invariants: nothing here acts; what a model sends is data and may be anything; schemas are stable and
//! pinned by a snapshot.
#![forbid(unsafe_code)]

mod nudge;
mod parse;
mod render;
mod said;
mod schema;

pub use nudge::nudge;
pub use parse::{MAX_ARGUMENT_BYTES, Parsed, ToolCallSpec, parse};
pub use render::{check_refused, denied, job_result, not_stored, one_line, operator_result};
pub use said::{said, steady};
pub use schema::{Schema, offered};
