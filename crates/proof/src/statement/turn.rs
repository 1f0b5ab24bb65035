use std::collections::BTreeMap;

use countersign_types::{
    Digest, GateKey, GateStatus, Outcome, Reason, SessionId, Strength, Tier, TierProperty, Trust,
};
use serde::{Deserialize, Serialize};

use super::{ModelUsed, Predicate};

/// How the turn ended and what it was: the facts for which no standard predicate has a place. `docs/format.md` describes it.
///
/// Every key is always there; null is unknown or not there, never zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    pub session: SessionId,
    pub turn: u32,
    pub created_at: String,
    pub ended_at: String,
    pub outcome: Outcome,
    pub reason: Reason,
    pub exit_code: u8,
    pub rescued_from: Option<Reason>,
    pub strength: Option<Strength>,
    /// Each gate of the plan, each with one of five words; only `passed` is a pass.
    pub gates: BTreeMap<GateKey, GateFacts>,
    pub contract: Option<Digest>,
    /// As the journal names it: hidden by the session's blind. In the first form of this predicate it is the sha256 of
    /// the task.
    pub task: Option<Digest>,
    pub base_commit: Option<String>,
    pub base_tree: Option<Digest>,
    /// What was judged and is delivered; null where nothing was sealed.
    pub final_tree: Option<Digest>,
    pub patch: Option<Digest>,
    pub journal: JournalHead,
    pub trust: Option<Trust>,
    /// `none` or `host`, as the contract says.
    pub network: Option<String>,
    pub tier: Option<Tier>,
    /// What the working cell was seen to have.
    pub observed: Vec<TierProperty>,
    pub models: Vec<ModelUsed>,
    pub usage: Vec<RoleUsage>,
    /// How much could not be kept or written, and where that is told; empty when nothing is missing.
    pub degraded: Vec<String>,
    /// The files of the bundle that hold none of the run's texts, so that this statement can be handed to somebody who is
    /// not to guess them: header, journal, manifests and patch. The provenance names the others; statements, pre-images
    /// (the base manifest names those) and `SHA256SUMS` are in neither.
    pub parts: BTreeMap<String, Digest>,
}

impl Predicate for Turn {
    const TYPE: &'static str = "urn:countersign:predicate:turn:2";
    /// It named every file in `parts`.
    const EARLIER: &'static [&'static str] = &["urn:countersign:predicate:turn:1"];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateFacts {
    pub status: GateStatus,
    pub reason: Option<Reason>,
}

/// Where the journal stood. Only against this can a cut tail be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalHead {
    /// The number of the last event.
    pub seq: u64,
    /// sha256 of its line.
    pub head: Digest,
}

/// Tokens and cost of one role; null is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleUsage {
    pub role: String,
    pub calls: u64,
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// Millionths of a US dollar.
    pub micro_usd: Option<u64>,
}
