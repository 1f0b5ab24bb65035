//! Talks to language models. A [`Provider`] turns a [`Conversation`] into request bytes and request bytes into a
//! [`Reply`]; everything that a provider says is kept as the exact bytes that arrived, so that a resumed process
//! rebuilds the same transcript from what is stored.
//!
//! Architecture invariants
//! - Request k+1 extends request k: assistant messages are replayed in place, byte for byte.
//! - Nothing here reads the environment, retries, follows a redirect or uses a proxy. A retry is the caller's new model
//!   call, decided by the pure [`RetryPolicy`].
//! - What a provider sends is bounded before it is read and is data only. Text of errors is escaped and cut.
//! - Unknown is `None`: usage, cost and prices are never guessed and never zero for lack of a number.
//! - The trait knows no async runtime. Only the HTTP transport uses one.
#![forbid(unsafe_code)]

mod base_url;
mod bounded;
mod chat;
mod conversation;
mod error;
mod failure;
mod file;
mod hints;
mod http;
mod json;
mod messages;
mod model_ref;
mod price;
mod provider;
mod recording;
mod reply;
mod retry;
mod scripted;
mod secret;
mod timer;
mod transport;
mod vendor;
mod wire;
mod wired;

pub use base_url::{BaseUrl, BaseUrlError};
pub use conversation::{Conversation, Effort, Message, ToolSchema};
pub use error::{EncodeError, ErrorClass, MAX_ERROR_MESSAGE, SendError};
pub use http::HttpLimits;
pub use json::RawJson;
pub use model_ref::{ModelRef, ModelRefError};
pub use price::Price;
pub use provider::Provider;
pub use recording::{
    MAX_RECORDING, Player, RECORDING_FORMAT, RecordedModel, Recorder, RecordingError, Redact, Role,
};
pub(crate) use reply::MAX_STOP_WORD;
pub use reply::{Call, Reply, Stop, Usage};
pub use retry::RetryPolicy;
pub use scripted::{Answer, Entry, MAX_SCRIPT, Script, ScriptError, ScriptedCall, ScriptedUsage};
pub use secret::{ApiKey, KeyError, MAX_KEY_FILE, Secret};
pub use timer::{SystemTimer, Timer};
pub use vendor::{DEFAULT_MODELS_AS_OF, VENDORS, Vendor, WireKind};
pub use wired::{HttpConfig, Wired};
