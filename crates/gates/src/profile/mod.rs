//! Profiles: a registered, digest-pinned directory that says how a project is judged. It holds the commands of each phase,
//! the runner, protected rules, tests by name and held-out inputs, and nothing else.
//!
//! A profile is the operator's word. It is read from a directory that no cell ever mounts, and what is read is the copy that
//! was digested: terms and inputs come from the same bytes.

mod detect;
mod expected;
mod file;
mod held_out;

pub use detect::{Candidate, candidates, project_files};
pub use expected::{expected_on_base, expected_passed};
pub use file::{Profile, ProfileCheck, ProfileError, ProfileFiles, ProfileTerms};
pub use held_out::{
    CaseEnd, HeldOutCase, HeldOutEvidence, HeldOutSeen, guards_on_base, judge_case, judge_held_out,
    profile_changed,
};
