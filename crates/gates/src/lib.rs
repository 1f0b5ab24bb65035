//! Gates: the rules that can stop a success. Specs go out, results come in; the engine acts in between.
//!
//! The order in which a turn uses this crate: [`Fence::write_guard`] while the agent works; then, on a sealed tree,
//! [`Fence::judge`] says what is wrong by path alone and which changed files need a parser, the guest parses those,
//! [`FencePlan::conclude`] decides; [`Scope::violations`]; [`CheckPlan::run`] for each room, and [`judge_base`] and
//! [`judge_final`] read the receipts; [`feedback()`] tells the agent about a red attempt.
//!
//! Architecture invariants: no I/O, no clock, no process; nothing here parses what a file holds (the guest does that,
//! inside a cell); a rule is a row of one table in [`rules`]; what cannot be told is `unverifiable`, never a pass;
//! nothing that the agent writes can turn a rule off.
#![forbid(unsafe_code)]

pub mod adapters;
mod check;
mod claims;
mod control;
mod deps;
mod evidence;
mod feedback;
mod fence;
mod ids;
pub mod profile;
mod programs;
mod repeat;
mod repro;
pub mod review;
mod room;
pub mod rules;
mod runner;
mod scope;
mod stdlib;

pub use check::{
    Base, BaseVerdict, CheckDecision, RedCause, Seen, environment_failure, how_it_ended, judge_base,
    judge_final, too_weak, weakest,
};
pub use claims::{Claim, ClaimFacts, ClaimKind, ClaimVerdict, Ran, claims, is_named_as_a_test};
pub use control::{judge_control, wants_control};
pub use deps::{changed_lockfiles, changed_sources, judge_deps};
pub use evidence::{Cause, CheckEvidence, Control, Repeats, RoomEvidence, RoomRole, Tests};
pub use feedback::{FEEDBACK_LIMIT, FeedbackItem, feedback};
pub use fence::{Allowed, Fence, FencePlan, GateDecision};
pub use ids::{BaseIds, Compared};
pub use repeat::{merge_base, merge_final};
pub use repro::{ReproLock, judge_declared, tampered_repro};
pub use room::{CellPaths, CheckPlan, RoomJob, job_env};
pub use runner::Runner;
pub use scope::{Scope, scope_violations};
