use std::fmt::Write as _;

use countersign_types::Millis;
use serde::{Deserialize, Serialize};

/// Bytes of an error's text, at most.
pub const MAX_ERROR_MESSAGE: usize = 2048;

/// Why a conversation could not be written as a request.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error("message {index} of the conversation: {what}")]
    Message { index: usize, what: String },
    #[error("tool `{name}`: {what}")]
    Tool { name: String, what: String },
    #[error("the request could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What kind of failure a send ended in. The same table for every wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The key is missing, wrong, or not allowed to do this.
    Auth,
    /// Too many requests now; a short wait helps.
    RateLimit,
    /// The plan or the money is used up; only a far reset or a payment helps.
    QuotaExhausted,
    /// The provider failed or has no capacity.
    Overloaded,
    /// No whole answer arrived: name, connection, TLS, a cut, a stall.
    Transport,
    /// An answer that is no answer, or a request that the provider does not accept.
    BadResponse,
    /// The conversation is longer than the model takes.
    ContextOverflow,
    /// The provider declined the request by policy.
    Refused,
}

impl ErrorClass {
    pub const ALL: &[Self] = &[
        Self::Auth,
        Self::RateLimit,
        Self::QuotaExhausted,
        Self::Overloaded,
        Self::Transport,
        Self::BadResponse,
        Self::ContextOverflow,
        Self::Refused,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Overloaded => "overloaded",
            Self::Transport => "transport",
            Self::BadResponse => "bad_response",
            Self::ContextOverflow => "context_overflow",
            Self::Refused => "refused",
        }
    }

    /// Whether the same request may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded | Self::Transport)
    }
}

/// A send that gave no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct SendError {
    pub class: ErrorClass,
    /// The HTTP status, when there was one.
    pub status: Option<u16>,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Millis>,
    /// When the limit ends, in milliseconds since the Unix epoch, when the provider said so.
    pub reset_at: Option<Millis>,
    /// At most [`MAX_ERROR_MESSAGE`] bytes, without control, escape or bidi characters.
    pub message: String,
    /// The provider may have done the work and may count it.
    pub maybe_billed: bool,
    /// False also where the class would allow a retry but the provider said that it is no use.
    pub retryable: bool,
}

impl SendError {
    /// An error of `class` with its usual answers: retryable by class, not billed.
    #[must_use]
    pub fn new(class: ErrorClass, message: &str) -> Self {
        Self {
            class,
            status: None,
            retry_after: None,
            reset_at: None,
            message: printable(message, MAX_ERROR_MESSAGE),
            maybe_billed: false,
            retryable: class.is_retryable(),
        }
    }

    #[must_use]
    pub const fn maybe_billed(mut self) -> Self {
        self.maybe_billed = true;
        self
    }
}

/// `text` with control, escape and bidi characters shown as `\u{…}` and cut to `limit` bytes.
pub(crate) fn printable(text: &str, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    let mut out = String::with_capacity(text.len().min(limit));
    for ch in text.chars() {
        let kept = out.len();
        match ch {
            '\n' | '\t' => out.push(' '),
            ch if ch.is_control() || is_bidi_or_invisible(ch) => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(ch));
            }
            ch => out.push(ch),
        }
        if out.len() > limit.saturating_sub(ELLIPSIS.len()) {
            out.truncate(kept);
            out.push_str(ELLIPSIS);
            break;
        }
    }
    out
}

const fn is_bidi_or_invisible(ch: char) -> bool {
    matches!(ch, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped_and_bounded() {
        let shown = printable("a\u{1b}[31mb\u{202e}c\nd\0", 100);
        assert_eq!(shown, "a\\u{1b}[31mb\\u{202e}c d\\u{0}");
        for limit in [4, 10, 11, 12, 2048] {
            let cut = printable(&"é\u{1b}".repeat(5000), limit);
            assert!(cut.len() <= limit, "{} > {limit}", cut.len());
            assert!(cut.ends_with('…'));
        }
    }
}
