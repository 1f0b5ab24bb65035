//! The Anthropic Messages wire, without streaming: bytes to values and back, without any I/O. Checked against version
//! 2026-10-21 of the API as the vendor's own SDK 2.14.0 writes and reads it; what is sent is valid in 2023-06-01 too.
//!
//! Every block that the model wrote goes back in its place as the bytes that arrived: thinking is signed for exactly
//! the conversation that it was thought in, and blocks of kinds that we do not know may be too.

mod decode;
mod encode;

pub(crate) use decode::decode;
pub(crate) use encode::{Dialect, encode};

/// The `anthropic-version` header that this wire was written for.
pub(crate) const VERSION: &str = "2026-10-21";

/// Blocks of one message.
const MAX_BLOCKS: usize = 4096;

#[cfg(test)]
mod hostile_tests;
