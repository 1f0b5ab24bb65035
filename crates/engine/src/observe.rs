//! What a person may watch while a turn runs. Nothing here changes what happens.

use std::fmt;

use countersign_kernel::{Event, Session, ToolName};
use countersign_types::{EffectId, Millis};

#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// An event was committed.
    Committed { seq: u64, at: Millis, event: &'a Event },
    /// What the model said beside its calls. Redacted; hostile.
    Said { step: u32, text: &'a str },
    /// A call is about to be carried out. `summary` is one line of its arguments, `arguments` all of them as the model
    /// wrote them. Redacted; hostile.
    Call { effect: EffectId, tool: ToolName, summary: &'a str, arguments: &'a str },
    /// A call was answered with `text`. Redacted; hostile.
    Result { effect: EffectId, tool: ToolName, ok: bool, text: &'a str, wall: Millis },
    /// Our own words: which tier runs, what was left out of the base, a wait.
    Note { text: &'a str },
}

pub trait Observer: Send + Sync + fmt::Debug {
    fn see(&self, session: &Session, trace: Trace<'_>);
}
