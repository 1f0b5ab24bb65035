//! The OpenAI Chat Completions wire and its dialects: bytes to values and back, without any I/O. `openai:` sends these
//! bytes over HTTP and `scripted:` plays them in process, so that both go through one decoder.

mod decode;
mod encode;

pub(crate) use decode::decode;
pub(crate) use encode::{Dialect, OutputLimit, encode};

#[cfg(test)]
mod hostile_tests;
