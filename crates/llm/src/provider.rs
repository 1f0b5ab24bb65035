use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Conversation, EncodeError, ModelRef, Price, Reply, SendError};

/// A language model behind some wire.
pub trait Provider: Send + Sync + Debug {
    fn model(&self) -> &ModelRef;

    /// The request for `conversation`. Deterministic: the same conversation gives the same bytes in every process, with
    /// no clock and no ids of our own, and a conversation with more messages extends the message array byte for byte.
    /// The caller makes these bytes durable before it sends them. They hold no key.
    fn encode(&self, conversation: &Conversation) -> Result<Vec<u8>, EncodeError>;

    /// Sends a request of [`Provider::encode`] once: no retry, no redirect. Dropping the future gives the call up; the
    /// provider may have billed it all the same.
    ///
    /// `call` is the number of this model call in the session's journal, retries included, from 0.
    fn send(&self, call: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<Reply, SendError>>;

    /// Reads a reply again from its stored bytes ([`Reply::raw`]) with the same `call` number as its send. The result
    /// equals what `send` returned.
    fn decode(&self, call: u64, raw: &[u8]) -> Result<Reply, SendError>;

    /// None: unknown.
    fn prices(&self) -> Option<Price>;
}
