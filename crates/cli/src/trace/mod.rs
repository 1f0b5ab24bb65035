//! What a person watches while a turn runs: one line for each thing done, or all that is said and done, on standard error. Where events were asked
//! for, each committed one as a line on standard output.

mod compact;
mod full;
mod stored;

pub(crate) use self::compact::{Line, dressed, name};
pub(crate) use self::stored::Story;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use countersign_engine::{Clock as _, Observer, Trace};
use countersign_kernel::Session;
use countersign_types::{Millis, SessionId};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Format, TraceMode};
use crate::ports::MachineClock;
use crate::terminal;

/// How long a trace stays silent while something is under way.
const SILENCE: Duration = Duration::from_secs(5);

/// Watches one session.
#[derive(Debug)]
pub(crate) struct Watcher {
    id: SessionId,
    events: bool,
    mode: TraceMode,
    colour: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: compact::Begun,
    /// When something was last told.
    told: Millis,
}

/// One committed event.
#[derive(Serialize)]
struct EventLine<'a> {
    r#type: &'static str,
    session: &'a SessionId,
    seq: u64,
    /// Milliseconds since the Unix epoch.
    at: Millis,
    /// The kind.
    event: &'a str,
    /// The typed fields of the kind.
    data: Value,
}

impl Watcher {
    /// Watches, and says from time to time that something is still under way. Needs a runtime.
    pub(crate) fn start(id: SessionId, format: Format, mode: TraceMode) -> Arc<Self> {
        let watcher = Arc::new(Self {
            id,
            events: format == Format::Ndjson,
            mode,
            colour: terminal::colour(),
            state: Mutex::default(),
        });
        if mode != TraceMode::Off {
            tokio::spawn(breaking_silence(Arc::downgrade(&watcher)));
        }
        watcher
    }

    fn event(&self, trace: &Trace<'_>) {
        let Trace::Committed { seq, at, event } = trace else { return };
        let mut data = serde_json::to_value(event).unwrap_or(Value::Null);
        if let Value::Object(fields) = &mut data {
            fields.remove("event");
        }
        let line =
            EventLine { r#type: "event", session: &self.id, seq: *seq, at: *at, event: event.kind(), data };
        if let Ok(line) = serde_json::to_string(&line) {
            terminal::out_line(&line);
        }
    }
}

impl Observer for Watcher {
    fn see(&self, session: &Session, trace: Trace<'_>) {
        if self.events {
            self.event(&trace);
        }
        if self.mode == TraceMode::Off {
            return;
        }
        let now = MachineClock.now();
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = match self.mode {
            TraceMode::Full => full::lines(session, &trace, &mut state.begun, now),
            TraceMode::Compact | TraceMode::Off => {
                compact::line(session, &trace, &mut state.begun).into_iter().collect()
            }
        };
        if !lines.is_empty() {
            state.told = now;
        }
        for line in lines {
            terminal::err_line(&dressed(&line, self.colour));
        }
    }
}

/// Says what is under way while nothing else is said, until nobody watches any more.
async fn breaking_silence(watcher: Weak<Watcher>) {
    loop {
        tokio::time::sleep(SILENCE / 5).await;
        let Some(watcher) = watcher.upgrade() else { return };
        let now = MachineClock.now();
        let state = &mut *watcher.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = still(state, now) {
            terminal::err_line(&dressed(&line, watcher.colour));
            state.told = now;
        }
    }
}

/// What is under way, where nothing was said for too long.
fn still(state: &State, now: Millis) -> Option<Line> {
    let (kind, from) = state.begun.longest()?;
    let silent = now.saturating_sub(state.told.max(from));
    let enough = u128::from(silent.0) >= SILENCE.as_millis();
    enough.then(|| compact::note(&format!("… {}: {} so far", name(kind), now.saturating_sub(from))))
}

/// Our own words before the engine has begun.
pub(crate) fn note(mode: TraceMode, text: &str) {
    if mode != TraceMode::Off {
        terminal::err_line(&dressed(&compact::note(text), terminal::colour()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_kernel::{Class, EffectKind, Event, Reservation, WorkPermit};
    use countersign_types::{Digest, EffectId, TurnId};

    #[test]
    fn what_is_under_way_is_said_when_nothing_else_was_for_a_while() {
        let effect = EffectId { turn: TurnId(1), step: 0, slot: 0, attempt: 0 };
        let permit = WorkPermit { request: Digest::of(b""), class: Class::Replay };
        let event = Event::EffectIntended {
            effect,
            kind: EffectKind::Setup,
            permit,
            reserve: Reservation::default(),
        };
        let mut state = State::default();
        assert_eq!(still(&state, Millis(99_999)), None, "nothing is under way");
        let session = compact::tests::session();
        compact::line(
            &session,
            &Trace::Committed { seq: 1, at: Millis(1000), event: &event },
            &mut state.begun,
        );
        state.told = Millis(1000);
        assert_eq!(still(&state, Millis(5999)), None, "not for long");
        assert_eq!(still(&state, Millis(6000)).unwrap().text, "… setup: 5.0s so far");
        state.told = Millis(9000);
        assert_eq!(still(&state, Millis(13_000)), None, "something else was said");
        assert_eq!(still(&state, Millis(14_000)).unwrap().text, "… setup: 13.0s so far");
    }
}
