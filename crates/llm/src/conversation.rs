use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Call, RawJson, Reply};

/// Everything that one request says. A caller only ever appends to `messages`; changing `system` or `tools` starts a
/// new conversation, because providers bind reasoning to the exact prefix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    pub system: String,
    pub tools: Vec<ToolSchema>,
    pub messages: Vec<Message>,
    /// None: the provider's own default.
    pub max_output_tokens: Option<u32>,
    /// None: the model's own default.
    pub effort: Option<Effort>,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    pub name: String,
    pub description: String,
    /// A JSON schema of type `object`.
    pub parameters: Value,
}

/// One entry of the transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    User {
        text: String,
    },
    /// What a model said, see [`Message::assistant`].
    Assistant {
        /// The message in the provider's own form ([`Reply::assistant`]), sent back exactly so.
        replay: RawJson,
        text: Option<String>,
        calls: Vec<Call>,
    },
    /// The answer to one call. Every call of an assistant message has exactly one, in the order of the calls.
    ToolResult {
        call_id: String,
        name: String,
        /// Says by itself when the call failed: Chat Completions has no field for it.
        text: String,
        /// For wires that have a field for it.
        is_error: bool,
    },
}

impl Message {
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// The transcript entry for a reply.
    #[must_use]
    pub fn assistant(reply: &Reply) -> Self {
        Self::Assistant {
            replay: reply.assistant.clone(),
            text: reply.text.clone(),
            calls: reply.calls.clone(),
        }
    }
}

/// How much a reasoning model should think, in the vendors' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}
