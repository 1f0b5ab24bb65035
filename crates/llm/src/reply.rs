use countersign_types::{Digest, Money};
use serde::{Deserialize, Serialize};

use crate::RawJson;

/// What a model answered to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// None when the model wrote no text, or only an empty one.
    pub text: Option<String>,
    /// In the order in which the model asked for them. Ids are unique within the reply and never empty.
    pub calls: Vec<Call>,
    pub stop: Stop,
    pub usage: Usage,
    /// Only what the provider itself reported. None: unknown, see [`crate::Price`].
    pub cost: Option<Money>,
    /// Digest of the reasoning in the message, readable or not. None: there is none.
    pub reasoning: Option<Digest>,
    /// The response body exactly as it arrived. [`crate::Provider::decode`] reads the same reply from it again.
    pub raw: Vec<u8>,
    /// The assistant message in the provider's own form, to be replayed in place.
    pub assistant: RawJson,
}

/// A tool call that the model asks for. Hostile data: the name may be of no tool and the arguments may not parse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub id: String,
    pub name: String,
    /// The arguments as text. Usually a JSON object; `{}` when the model sent none.
    pub arguments: String,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It is done: with text and no calls this is a claim.
    End,
    ToolCalls,
    /// The output limit cut it. The last call may be incomplete.
    Length,
    /// The model declined.
    Refusal,
    /// The provider cut or withheld the answer.
    ContentFilter,
    /// The provider broke off a long turn and goes on with it when the conversation comes back with this reply at its
    /// end. It is no claim.
    Paused,
    /// A reason that we do not know, in the provider's word.
    Other(String),
}

/// Tokens of one call as the provider reported them. None: unknown, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: Option<u64>,
    /// All output tokens, reasoning included.
    pub output: Option<u64>,
    /// The part of `input` that came from a cache.
    pub cached: Option<u64>,
    /// The part of `input` that was written into a cache, which some vendors charge for.
    pub cache_write: Option<u64>,
    /// The part of `output` that was reasoning.
    pub reasoning: Option<u64>,
}

/// Bytes of an unknown stop reason that are kept.
pub(crate) const MAX_STOP_WORD: usize = 64;
