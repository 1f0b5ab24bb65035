//! What effects come to: typed results, without texts.

use countersign_types::{Digest, GateStatus, Millis, Money, Reason, Strength, Tier, TierProperties};
use serde::{Deserialize, Serialize};

use crate::Usage;
use crate::effect::ToolName;

/// What kind of answer the reviewer gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewAnswer {
    /// A list of findings, which may be empty.
    Findings,
    /// It declined.
    Declined,
    /// Nothing that can be read as a list of findings.
    Junk,
}

/// What the agent said of a failing test of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "repro")]
pub enum ReproMark {
    /// It was seen to fail on the base. The digest is of its files and its command.
    Declared { lock: Digest },
    /// There is none, for a reason that the agent gave.
    Skipped,
}

/// How a job ended, without what it printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum JobSummary {
    Exited { code: i32 },
    Signaled { signal: i32 },
    Limited,
    Canceled,
    NotStarted,
}

/// One call that a model asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    pub tool: ToolName,
    /// The digest of its canonical arguments.
    pub arguments: Digest,
    /// For `finish`: the summary holds nothing but white space.
    pub blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelStop {
    /// It spoke or called.
    Ordinary,
    /// The vendor's or the model's refusal.
    Declined,
    /// Cut off by the output clamp.
    Length,
    /// The vendor broke its turn off and goes on with it when it is asked again.
    Paused,
}

/// Why a check was red on the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedCause {
    Test,
    Unknown,
}

/// What a base run showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum BaseVerdict {
    /// As the check's `expect` wants it.
    Red {
        cause: RedCause,
    },
    Green,
    /// `fix` was asked for and the base is green.
    AlreadyGreen,
    /// The check could not run, or a `guard` is red: the base is no ground to judge on.
    Environment,
}

/// The typed part of a completed effect's result. Texts and bytes are payloads beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum EffectResult {
    Import {
        tree: Digest,
        commit: Option<String>,
        entries: u64,
        dirty: u64,
    },
    Setup {
        environment: Digest,
        job: JobSummary,
        /// An earlier run on the same base made it.
        #[serde(default)]
        cached: bool,
    },
    Probe {
        job: JobSummary,
    },
    BaseRun {
        verdict: BaseVerdict,
        job: JobSummary,
        cached: bool,
        /// The digest of what the check itself changed in the tree, if it did.
        drift: Option<Digest>,
    },
    Candidate {
        tree: Digest,
        commit: Option<String>,
        entries: u64,
        /// Entries that no patch can carry. Not zero: nothing was sealed.
        unsealable: u64,
        /// The tier of the cell that read it, and what was observed in that cell.
        tier: Tier,
        observed: TierProperties,
    },
    Open {
        tier: Tier,
        observed: TierProperties,
    },
    ModelCall {
        usage: Usage,
        /// None: unknown, never zero.
        cost: Option<Money>,
        stop: ModelStop,
        calls: Vec<PlannedCall>,
        /// Bytes of text beside the calls; a claim when there are no calls.
        text_bytes: u64,
        /// Digest of the reasoning that came with it, readable or not. None: none came.
        #[serde(default)]
        reasoning: Option<Digest>,
    },
    Tool {
        ok: bool,
        /// Refused by scope, fence or schema: charged nothing.
        refused: bool,
        /// The checkpoint after it, where it may have written.
        tree: Option<Digest>,
        output_bytes: u64,
        job: Option<JobSummary>,
        /// Digest of what it said, durations left out. None: it said nothing.
        #[serde(default)]
        said: Option<Digest>,
        /// What it settled about a failing test of the agent's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repro: Option<ReproMark>,
    },
    Seal {
        tree: Digest,
        /// Entries that no patch can carry. Not zero: nothing was sealed and the cell lives on.
        unsealable: u64,
    },
    Inspect {
        fence: GateStatus,
        fence_reason: Option<Reason>,
        scope: GateStatus,
        findings: u64,
        /// Changes that a rule would have stopped, had the contract not allowed them.
        #[serde(default)]
        allowed: u64,
        out_of_scope: u64,
        changed: u64,
    },
    Room {
        status: GateStatus,
        reason: Option<Reason>,
        strength: Option<Strength>,
        job: JobSummary,
        observed: TierProperties,
    },
    /// Payload `mutants`.
    Mutants {
        tried: u64,
        killed: u64,
        survived: u64,
    },
    Patch {
        patch: Digest,
        bytes: u64,
    },
    /// Payload `detail`.
    Repro {
        /// `absent`: the agent gave a reason for having none.
        status: GateStatus,
        reason: Option<Reason>,
    },
    /// Payload `brief`.
    ReviewBrief {
        bytes: u64,
        /// Something was left out of it.
        cut: bool,
    },
    /// Payloads `reply` and `detail`.
    ReviewCall {
        usage: Usage,
        /// None: unknown, never zero.
        cost: Option<Money>,
        answer: ReviewAnswer,
        findings: u32,
    },
    /// Payloads `findings` and `detail`.
    ReviewJudge {
        /// Blockers whose reproduction was seen to fail here and not on the base.
        confirmed: u32,
        /// Blockers that nothing shows.
        advised: u32,
        refuted: u32,
        dropped: u32,
        noted: u32,
        /// Of the advised ones, those that the reviewer is to be asked a reproduction for.
        solicit: u32,
    },
    /// Payloads `findings` and `detail`.
    ReviewRecheck {
        repaired: u32,
        /// Still failing.
        red: u32,
        /// It could not be told.
        unknown: u32,
    },
}

/// A definite failure: nothing else will come of this try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectFailure {
    /// How the turn ends if nothing can be tried again.
    pub reason: Reason,
    /// Some: it may be tried again after this wait.
    pub retry_after: Option<Millis>,
    /// An absolute time from which the provider says it will serve again.
    pub reset_at: Option<Millis>,
    /// A model call that may have been billed: its reservation keeps counting.
    pub billed: bool,
}
