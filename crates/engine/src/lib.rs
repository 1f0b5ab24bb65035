//! The engine: the one loop that drives a turn, and the one boundary that acts.
//!
//! Read the module `drive` first: it is the story of a task from top to bottom. `perform` carries out what the kernel planned;
//! everything below it is one effect each.
//!
//! Architecture invariants: the clock, ids, sleep, store, cells and models are ports ([`Ports`]); nothing here opens a
//! file, starts a process, reads a clock or the environment (clippy's `disallowed-methods` holds this); no other
//! module acts.
#![forbid(unsafe_code)]

mod agent;
mod attempts;
mod base_view;
mod candidate;
mod cells;
mod changed;
mod checks;
mod claims;
mod crash;
mod desk;
mod drift;
mod drive;
mod edited;
mod error;
mod fetched;
mod findings;
mod held_out;
mod hygiene;
mod identity;
mod journal;
mod judge;
mod keeper;
mod memory;
mod mutants;
mod observe;
mod perform;
mod ports;
mod prompt;
mod records;
mod repro;
mod requests;
mod review;
mod rooms;
mod scout;
mod second;
mod setup;
mod stop;
mod test_names;
mod transcript;
mod view;
mod workshop;

pub use attempts::AttemptView;
pub use base_view::{BaseRunView, base_runs};
pub use changed::{ChangeKind, ChangedPath, Changes};
pub use countersign_gates::profile::Candidate as StartingCheck;
pub use countersign_gates::review::{Fate, ReviewFinding, Severity};
pub use countersign_gates::{CheckEvidence, Claim, ClaimKind, ClaimVerdict};
pub use countersign_guest::protocol::{HygieneFinding, HygieneKind, MutantKind};
pub use crash::{CrashPoint, Crashes, NoCrash};
pub use desk::{Asked, Desk, reason_of};
pub use drive::{Ended, drive, resume};
pub use error::EngineError;
pub use journal::{NewSession, refuse, settings, submit};
pub use mutants::{Mutants, Survivor};
pub use observe::{Observer, Trace};
pub use perform::PATCH_FILE;
pub use ports::{Artifacts, CellChoice, Clock, Home, Ids, Interrupt, Interrupts, Ports, Profiles, Sources};
pub use records::{Records, RoomRecord, records};
pub use scout::{base_tree, scout};
pub use second::{ReproView, ReviewView};
pub use test_names::TestNames;
pub use transcript::{TranscriptEntry, transcript};
pub use view::{ErrorView, GateView, PatchView, View, view};
pub use workshop::tools;
