//! A session as its journal tells it, for results, lists and reports. Built from the store alone, so that a running
//! turn, an ended one and one that another process ran look the same.

use std::collections::BTreeMap;

use countersign_kernel::{Session, Usage};
use countersign_types::{
    Digest, GateKey, GateStatus, Millis, Money, Outcome, Reason, SessionId, Strength, Tier, TierProperties, TurnId,
};

/// Everything that the result object of a turn says.
#[derive(Clone, Debug)]
pub struct View {
    pub id: SessionId,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub session: Session,
    pub turn: TurnId,
    /// The task text. Redacted.
    pub input: String,
    /// None while the turn is not over; a parked turn shows `parked`.
    pub outcome: Option<(Outcome, Reason)>,
    /// The agent's last text or the summary of its `finish`. Redacted; hostile.
    pub answer: Option<String>,
    pub strength: Option<Strength>,
    pub gates: BTreeMap<GateKey, GateView>,
    pub base_tree: Option<Digest>,
    pub base_commit: Option<String>,
    /// The sealed tree, else the latest checkpoint.
    pub tree: Option<Digest>,
    pub patch: Option<PatchView>,
    pub usage: Usage,
    pub model_calls: u64,
    pub steps: u32,
    pub cost: Option<Money>,
    pub tier: Option<Tier>,
    pub observed: TierProperties,
    /// What did not work without changing the outcome, in our words.
    pub degraded: Vec<String>,
    pub error: Option<ErrorView>,
    pub rescued_from: Option<Reason>,
    pub reset_at: Option<Millis>,
    pub active_ms: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    pub status: GateStatus,
    pub reason: Option<Reason>,
    /// In our words, with paths and names escaped.
    pub detail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchView {
    /// Below the session's directory.
    pub file: &'static str,
    pub digest: Digest,
    pub bytes: u64,
}

/// Why a turn ended without a verdict, for people: what happened, where, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorView {
    pub kind: Reason,
    pub message: String,
}
