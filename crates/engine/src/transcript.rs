//! The transcript: what the model has been told and has said. Built from the journal, or as the journal grows; both
//! ways give the same messages.

use std::collections::BTreeMap;

use countersign_kernel::{EffectKind, EffectResult, Event};
use countersign_llm::{Call, Message, Provider, Reply};
use countersign_store::Store;
use countersign_types::{EffectId, Millis, SessionId};

use crate::error::EngineError;
use crate::journal::read_event;

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    messages: Vec<Message>,
    /// Calls of the last assistant message that still lack results.
    calls: Vec<Call>,
    results: BTreeMap<u32, (String, bool)>,
}

impl Transcript {
    pub(crate) fn open_with(&mut self, text: String) {
        self.messages.push(Message::user(text));
    }

    pub(crate) fn reply(&mut self, reply: &Reply) {
        self.messages.push(Message::assistant(reply));
        self.calls.clone_from(&reply.calls);
        self.results.clear();
    }

    /// The result of the `index`-th call of the last message. Messages keep the order of the calls.
    pub(crate) fn result(&mut self, index: u32, text: String, ok: bool) {
        self.results.insert(index, (text, !ok));
        if self.results.len() < self.calls.len() {
            return;
        }
        for (index, call) in (0_u32..).zip(std::mem::take(&mut self.calls)) {
            let (text, is_error) = self.results.remove(&index).unwrap_or_default();
            self.messages.push(Message::ToolResult { call_id: call.id, name: call.name, text, is_error });
        }
    }

    pub(crate) fn feedback(&mut self, text: String) {
        self.messages.push(Message::user(text));
    }

    pub(crate) fn call(&self, index: u32) -> Option<&Call> {
        self.calls.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }
}

pub(crate) const fn call_index(effect: EffectId) -> u32 {
    effect.slot.saturating_sub(1)
}

/// Rebuilds the transcript after its opening from a session's events.
pub(crate) async fn rebuild(
    store: &dyn Store,
    provider: &dyn Provider,
    id: &SessionId,
    events: &[(u64, Event)],
    opening: String,
) -> Result<Transcript, EngineError> {
    let mut transcript = Transcript::default();
    transcript.open_with(opening);
    // Each call's position; one whose answer was lost leaves its own to the next.
    let mut positions: BTreeMap<EffectId, u64> = BTreeMap::new();
    let mut next = 0;
    for (seq, event) in events {
        match event {
            Event::EffectIntended { effect, kind: EffectKind::ModelCall, .. } => {
                positions.insert(*effect, next);
                next += 1;
            }
            Event::EffectForfeited { effect } if positions.contains_key(effect) => next -= 1,
            Event::EffectCompleted { effect, result: EffectResult::ModelCall { .. } } => {
                let raw = store.payload(id, *seq, "reply").await?;
                let position = positions.get(effect).copied().unwrap_or_default();
                let reply = provider.decode(position, &raw).map_err(|e| {
                    EngineError::Bug(format!("the stored reply of {effect} cannot be read: {e}"))
                })?;
                transcript.reply(&reply);
            }
            Event::EffectCompleted { effect, result: EffectResult::Tool { ok, .. } } => {
                let text = match store.payload(id, *seq, "result").await {
                    Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Err(countersign_store::StoreError::PayloadDropped { .. }) => {
                        countersign_tools::not_stored()
                    }
                    Err(error) => return Err(error.into()),
                };
                transcript.result(call_index(*effect), text, *ok);
            }
            Event::EffectDenied { effect, capability, kind: EffectKind::Tool { .. } } => {
                transcript.result(call_index(*effect), countersign_tools::denied(*capability), false);
            }
            Event::AttemptReturned { .. } => {
                let text = store.payload(id, *seq, "feedback").await?;
                transcript.feedback(String::from_utf8_lossy(&text).into_owned());
            }
            Event::Nudged { .. } => {
                let text = store.payload(id, *seq, "nudge").await?;
                transcript.feedback(String::from_utf8_lossy(&text).into_owned());
            }
            _ => {}
        }
    }
    Ok(transcript)
}

/// One line of a session's story for people. Texts are redacted and hostile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptEntry {
    pub seq: u64,
    pub at: Millis,
    /// `task`, `model`, `call`, `result`, `feedback`, `nudge`, `check`, `stdout`, `stderr`, `message`.
    pub role: &'static str,
    pub effect: Option<EffectId>,
    pub text: String,
}

/// What was said and done, in order. A payload that retention removed shows as such.
pub async fn transcript(store: &dyn Store, id: &SessionId) -> Result<Vec<TranscriptEntry>, EngineError> {
    let loaded = store.load(id).await?;
    let mut entries = Vec::new();
    for line in &loaded.events {
        let event = read_event(line)?;
        for (payload, role) in [
            ("input", "task"),
            ("text", "model"),
            ("calls", "call"),
            ("result", "result"),
            ("feedback", "feedback"),
            ("nudge", "nudge"),
            ("detail", "check"),
            // What a setup, a probe or a check wrote: why it was red is what people look for first.
            ("stdout", "stdout"),
            ("stderr", "stderr"),
            ("message", "message"),
        ] {
            if !line.payloads.contains_key(payload) {
                continue;
            }
            let text = match store.payload(id, line.seq, payload).await {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(countersign_store::StoreError::PayloadDropped { .. }) => {
                    "[removed by retention]".to_owned()
                }
                Err(error) => return Err(error.into()),
            };
            if text.is_empty() {
                continue;
            }
            entries.push(TranscriptEntry { seq: line.seq, at: line.at, role, effect: event.effect(), text });
        }
    }
    Ok(entries)
}
