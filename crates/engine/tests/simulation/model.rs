//! The simulated model: it says what the story has it say, after as many of its answers as the request shows.

use std::sync::Arc;

use countersign_llm::{
    Call, Conversation, EncodeError, ErrorClass, Message, ModelRef, Price, Provider, RawJson, Reply,
    SendError, Stop, Usage,
};
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::world::{Process, World};

#[derive(Debug)]
pub struct SimModel {
    pub world: Arc<World>,
    pub process: Arc<Process>,
    pub name: ModelRef,
}

/// A message in the request: its role and all that it says.
fn encoded(message: &Message) -> Value {
    match message {
        Message::User { text } => json!(["user", text]),
        Message::Assistant { replay, .. } => json!(["assistant", replay.get()]),
        Message::ToolResult { call_id, text, is_error, .. } => json!(["tool", call_id, text, is_error]),
    }
}

impl SimModel {
    /// What the story says after `answered` answers, as the provider's bytes.
    fn body(&self, answered: usize) -> Vec<u8> {
        let story = &self.world.story;
        let body = match story.replies.get(answered) {
            Some(said) => {
                let calls: Vec<Value> = said.calls.iter().map(|(name, args)| json!([name, args])).collect();
                json!({ "n": answered, "text": said.text, "calls": calls })
            }
            // Sent back to work it says the same again, and goes on for as long as anybody listens.
            None => json!({ "n": answered, "text": format!("It is done ({answered})."), "calls": [] }),
        };
        body.to_string().into_bytes()
    }

    fn read(raw: &[u8]) -> Result<Reply, SendError> {
        let bad = |what: &str| SendError::new(ErrorClass::BadResponse, what);
        let body: Value = serde_json::from_slice(raw).map_err(|e| bad(&e.to_string()))?;
        let said = body["calls"].as_array().cloned().unwrap_or_default();
        let calls: Vec<Call> = said
            .iter()
            .enumerate()
            .map(|(slot, call)| Call {
                id: format!("call-{}-{slot}", body["n"]),
                name: call[0].as_str().unwrap_or_default().to_owned(),
                arguments: call[1].to_string(),
            })
            .collect();
        Ok(Reply {
            text: body["text"].as_str().map(str::to_owned),
            stop: if calls.is_empty() { Stop::End } else { Stop::ToolCalls },
            calls,
            usage: Usage { input: Some(100), output: Some(10), ..Usage::default() },
            cost: None,
            reasoning: None,
            raw: raw.to_vec(),
            assistant: RawJson::of(&body).map_err(|e| bad(&e.to_string()))?,
        })
    }
}

impl Provider for SimModel {
    fn model(&self) -> &ModelRef {
        &self.name
    }

    fn encode(&self, conversation: &Conversation) -> Result<Vec<u8>, EncodeError> {
        let messages: Vec<Value> = conversation.messages.iter().map(encoded).collect();
        Ok(json!({ "system": conversation.system, "messages": messages }).to_string().into_bytes())
    }

    fn send(&self, call: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<Reply, SendError>> {
        async move {
            let request: Value = serde_json::from_slice(&request)
                .map_err(|e| SendError::new(ErrorClass::BadResponse, &e.to_string()))?;
            let messages = request["messages"].as_array().cloned().unwrap_or_default();
            self.world.sent(&self.process, &messages);
            self.world.pause(60).await;
            if let Some(class) = self.world.story.model_errors.get(&call) {
                return Err(SendError::new(*class, "a simulated error"));
            }
            let answered = messages.iter().filter(|message| message[0] == "assistant").count();
            Self::read(&self.body(answered))
        }
        .boxed()
    }

    fn decode(&self, _call: u64, raw: &[u8]) -> Result<Reply, SendError> {
        Self::read(raw)
    }

    fn prices(&self) -> Option<Price> {
        None
    }
}
