//! The review by a second model: what it is asked, how its answer is read, and what becomes of a finding.
//!
//! A finding is data of a stranger. Its quote must stand verbatim in the final tree, and nothing blocks but a command that was
//! seen to fail there and to pass on the base. Everything else is advice, or nothing.

mod answer;
mod ask;
mod fate;

use countersign_types::JobEnd;
use serde::{Deserialize, Serialize};

pub use answer::{Answer, Draft, MAX_FINDINGS, findings, repros};
pub use ask::{brief, shown_findings, solicitation, system};
pub use fate::{
    FeedbackFinding, Quoted, again, first_look, merged, needs_base, review_feedback, sentence, settled,
    unshown, wants_repro,
};

/// Confidence, from 0 to 10, from which a blocker without a reproduction is asked for one.
pub const ASKS_FROM: u8 = 7;

/// Confidence from which a reproduction that passes does not refute: the failure may depend on timing.
pub const STANDS_FROM: u8 = 8;

/// Confidence from which a blocker that nothing shows is advice; below it is a note.
pub const ADVISES_FROM: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Note,
    Blocker,
}

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Its reproduction fails on the final tree and not on the base.
    Blocked,
    /// It was blocked, and its reproduction passes on a later tree.
    Repaired,
    /// Nothing shows it. A person may want to look.
    Advised,
    /// Its reproduction passes.
    Refuted,
    /// It asks for nothing.
    Note,
    /// Its quote is not in the file, or its reproduction changes what is judged.
    Dropped,
}

impl Fate {
    pub const ALL: &[Self] =
        &[Self::Blocked, Self::Repaired, Self::Advised, Self::Refuted, Self::Note, Self::Dropped];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Repaired => "repaired",
            Self::Advised => "advised",
            Self::Refuted => "refuted",
            Self::Note => "note",
            Self::Dropped => "dropped",
        }
    }
}

/// A finding with its fate. All texts but `why` are the reviewer's: bounded, redacted, hostile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewFinding {
    /// The review that brought it, from 1.
    pub round: u32,
    pub file: String,
    pub quote: String,
    pub severity: Severity,
    /// From 0 to 10.
    pub confidence: u8,
    pub failure_scenario: String,
    pub repro: Option<Vec<String>>,
    pub fate: Fate,
    /// In our words.
    pub why: String,
    /// The reviewer was asked for a reproduction.
    pub asked: bool,
    /// How its reproduction last ended on the final tree. None: it was not run.
    pub on_final: Option<JobEnd>,
    pub on_base: Option<JobEnd>,
}

#[cfg(test)]
mod tests;
