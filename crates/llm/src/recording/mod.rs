//! Recordings: every attempt of every model call in order, in one file of the user's, from which a run can be played
//! again without a network.
//!
//! # Format, version 1
//! One JSON object a line. The first line names the format and the models:
//! `{"format":"countersign.recording/1","models":[{"role":"agent","model":"openai:m","endpoint":"https://…"}]}`.
//! Then one line for each attempt, retries included: `role`, `call` (the number of the call, from 0), `request` with the
//! `sha256` of the bytes that were sent and the `body` as text, and either `answer` (`status`, `headers`, and `body` as
//! text or `body_base64`) or `error`, where no answer came. The last line is `{"end":{"attempts":N}}`: a file without it
//! was cut. Fields that a reader does not know are ignored.
//!
//! What a recording holds is the conversation: task, files that were read, output of commands. It holds no key: known
//! keys are taken out of requests, answers and errors before they are written, and of headers only the listed ones are
//! kept.

mod differ;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{ModelRef, SendError};

pub use record::Recorder;
pub(crate) use record::Recording;
pub use replay::Player;

/// The version that is written. Every version that was ever written is read.
pub const RECORDING_FORMAT: &str = "countersign.recording/1";

/// Bytes of a recording, at most. Requests repeat their conversation, so that a recording grows with its square.
pub const MAX_RECORDING: u64 = 256 * 1024 * 1024;

/// Response headers that are kept: what decides about a retry, and what a vendor's support asks for.
const KEPT_HEADERS: &[&str] = &[
    "content-encoding",
    "content-type",
    "date",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
];

/// Beginnings of further ones: counters of limits.
const KEPT_PREFIXES: &[&str] = &["anthropic-ratelimit-", "x-ratelimit-"];

/// Headers of one answer, and bytes of one, that are kept at most.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_VALUE: usize = 1024;

/// Whose call it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Agent,
    Reviewer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Reviewer => "reviewer",
        })
    }
}

/// A model of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedModel {
    pub role: Role,
    pub model: ModelRef,
    /// The base URL. None for a script.
    pub endpoint: Option<String>,
}

type Change = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// Takes keys, or something else, out of bytes.
#[derive(Clone)]
pub struct Redact(Arc<Change>);

impl Redact {
    pub fn new(redact: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self(Arc::new(redact))
    }

    fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        (self.0)(bytes)
    }

    fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redact")
    }
}

/// Why a recording cannot be written or played. The text names the file and the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording `{file}` {what}")]
pub struct RecordingError {
    file: String,
    what: String,
}

impl RecordingError {
    fn new(file: &Path, what: impl Into<String>) -> Self {
        Self { file: file.display().to_string(), what: what.into() }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    models: Vec<RecordedModel>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Attempt {
    role: Role,
    call: u64,
    request: Asked,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Answered>,
    /// No answer came, or it was not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<SendError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    /// Of the bytes that were sent, hexadecimal.
    sha256: String,
    /// Without keys.
    body: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// A body that is no UTF-8 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct End {
    end: Total,
}

#[derive(Debug, Serialize, Deserialize)]
struct Total {
    attempts: u64,
}
