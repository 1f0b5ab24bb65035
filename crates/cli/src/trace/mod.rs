//! What a person watches while a turn runs: one line for each thing done, on standard error. Where events were asked
//! for, each committed one as a line on standard output.

mod compact;
mod stored;

pub(crate) use self::compact::{Line, dressed, name};
pub(crate) use self::stored::Story;

use std::sync::{Mutex, PoisonError};

use countersign_engine::{Observer, Trace};
use countersign_kernel::Session;
use countersign_types::{Millis, SessionId};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Format, TraceMode};
use crate::terminal;

/// Watches one session.
#[derive(Debug)]
pub(crate) struct Watcher {
    id: SessionId,
    events: bool,
    compact: bool,
    colour: bool,
    begun: Mutex<compact::Begun>,
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
    pub(crate) fn new(id: SessionId, format: Format, trace: TraceMode) -> Self {
        Self {
            id,
            events: format == Format::Ndjson,
            compact: trace == TraceMode::Compact,
            colour: terminal::colour(),
            begun: Mutex::default(),
        }
    }
}

impl Observer for Watcher {
    fn see(&self, session: &Session, trace: Trace<'_>) {
        if let Trace::Committed { seq, at, event } = &trace
            && self.events
        {
            let mut data = serde_json::to_value(event).unwrap_or(Value::Null);
            if let Value::Object(fields) = &mut data {
                fields.remove("event");
            }
            let line = EventLine {
                r#type: "event",
                session: &self.id,
                seq: *seq,
                at: *at,
                event: event.kind(),
                data,
            };
            if let Ok(line) = serde_json::to_string(&line) {
                terminal::out_line(&line);
            }
        }
        if self.compact
            && let Some(line) =
                compact::line(session, &trace, &mut self.begun.lock().unwrap_or_else(PoisonError::into_inner))
        {
            terminal::err_line(&compact::dressed(&line, self.colour));
        }
    }
}

/// Our own words before the engine has begun.
pub(crate) fn note(mode: TraceMode, text: &str) {
    if mode == TraceMode::Compact {
        terminal::err_line(&compact::dressed(&compact::note(text), terminal::colour()));
    }
}
