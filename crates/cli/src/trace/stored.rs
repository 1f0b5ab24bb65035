//! The trace of a session as its journal tells it: the same lines as of one that is watched from within.

use std::collections::BTreeMap;

use countersign_engine::Trace;
use countersign_kernel::{EffectKind, EffectResult, Event, Session, ToolName};
use countersign_store::{Store, StoreError, StoredEvent};
use countersign_types::{EffectId, Millis, SessionId};

use super::compact::{Begun, Line, line};

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    begun: Begun,
    /// What the last message of the model asks for, in the order of its calls.
    asked: Vec<String>,
    tools: BTreeMap<EffectId, (ToolName, Millis)>,
    /// What is under way, with when it began.
    now: BTreeMap<EffectId, (EffectKind, Millis)>,
}

impl Story {
    /// The lines of the next event, in the order of the journal. `session` is the session's contract at any moment.
    pub(crate) async fn lines(
        &mut self,
        store: &dyn Store,
        id: &SessionId,
        session: &Session,
        stored: &StoredEvent,
    ) -> Result<Vec<Line>, StoreError> {
        // A kind of a later version is nothing that this one could tell.
        let Ok(event) = serde_json::from_value::<Event>(stored.data.clone()) else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        match &event {
            Event::EffectIntended { effect, kind, .. } => {
                self.now.insert(*effect, (*kind, stored.at));
                if let EffectKind::Tool { tool } = kind {
                    self.tools.insert(*effect, (*tool, stored.at));
                }
            }
            Event::EffectCompleted { effect, result } => {
                self.now.remove(effect);
                match result {
                    EffectResult::ModelCall { .. } => {
                        let calls = text(store, id, stored, "calls").await?;
                        self.asked = calls.lines().map(str::to_owned).collect();
                        let said = text(store, id, stored, "text").await?;
                        out.extend(line(
                            session,
                            &Trace::Said { step: effect.step, text: &said },
                            &mut self.begun,
                        ));
                    }
                    EffectResult::Tool { ok, .. } => {
                        out.extend(self.answered(store, id, session, stored, *effect, *ok).await?);
                    }
                    _ => {}
                }
            }
            Event::EffectFailed { effect, .. } => {
                self.now.remove(effect);
            }
            _ => {}
        }
        let trace = Trace::Committed { seq: stored.seq, at: stored.at, event: &event };
        out.extend(line(session, &trace, &mut self.begun));
        Ok(out)
    }

    async fn answered(
        &mut self,
        store: &dyn Store,
        id: &SessionId,
        session: &Session,
        stored: &StoredEvent,
        effect: EffectId,
        ok: bool,
    ) -> Result<Option<Line>, StoreError> {
        let Some((tool, from)) = self.tools.remove(&effect) else { return Ok(None) };
        let call = usize::try_from(effect.slot).ok().and_then(|slot| self.asked.get(slot.checked_sub(1)?));
        let asked = call.and_then(|call| call.split_once(' ')).map_or("", |(_, asked)| asked);
        line(session, &Trace::Call { effect, tool, summary: asked, arguments: "" }, &mut self.begun);
        let text = text(store, id, stored, "result").await?;
        let wall = stored.at.saturating_sub(from);
        Ok(line(session, &Trace::Result { effect, tool, ok, text: &text, wall }, &mut self.begun))
    }

    /// What has been under way for the longest, with when it began.
    pub(crate) fn now(&self) -> Option<(EffectKind, Millis)> {
        self.now.values().min_by_key(|(_, from)| *from).copied()
    }
}

/// A payload as text; empty where there is none, or none any more.
async fn text(
    store: &dyn Store,
    id: &SessionId,
    stored: &StoredEvent,
    name: &str,
) -> Result<String, StoreError> {
    if !stored.payloads.contains_key(name) {
        return Ok(String::new());
    }
    match store.payload(id, stored.seq, name).await {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(StoreError::PayloadDropped { .. }) => Ok(String::new()),
        Err(error) => Err(error),
    }
}
