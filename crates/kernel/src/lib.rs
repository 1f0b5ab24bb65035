//! The kernel: what may happen, decided from values alone.
//!
//! `decide(state, authority, command, now) -> events | refusal`, `apply(state, seq, at, event)`, `work(state, now)`.
//! Everything else in the project either feeds these three or carries out what they say.
//!
//! Architecture invariants: no I/O, no clock, no randomness, no threads (clippy's `disallowed-methods` holds this); a
//! state is a function of its events; an ended turn refuses every command; unknown is a value, never a pass; events
//! hold typed fields only, free text lies in payloads that this crate never sees.
#![forbid(unsafe_code)]

mod apply;
mod budget;
pub mod contract;
mod decide;
mod detect;
mod effect;
mod event;
mod gates;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(feature = "planted"))]
mod planted;
mod review;
mod state;
mod work;

pub use apply::apply;
pub use budget::{Budget, Reservation, Usage};
pub use decide::{Authority, Command, Intent, Receipt, ReceiptBody, Refusal, decide, granted};
pub use detect::{Finding, Watch};
pub use effect::{
    BaseVerdict, Capability, Class, EffectFailure, EffectKind, EffectResult, EffectState, JobSummary,
    ModelStop, PlannedCall, RedCause, ReproMark, ReviewAnswer, ReviewCall, ToolName, WorkPermit,
};
pub use event::{EndPath, Event, RecoverDecision, StopHow};
pub use gates::{Gate, GatePlanStep};
pub use review::{Recheck, ReviewPass, ReviewState};
pub use state::{
    Base, BaseRun, Ending, Inspected, OpenCell, Outstanding, PatchState, Phase, ReproRun, RoomRun, Sealed,
    Session, SessionStatus, Turn, TurnStatus,
};
pub use work::{Step, Work, work};
