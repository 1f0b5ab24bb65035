//! Effects: the kinds of things that act, how a lost one is treated, and what may ask for one.

use std::fmt;

use countersign_types::{
    CheckIndex, Digest, GateStatus, Millis, Money, Reason, Strength, Tier, TierProperties,
};
use serde::{Deserialize, Serialize};

use crate::Usage;

/// One side effect. Nothing acts outside one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EffectKind {
    /// Resolves the base and brings its tree into the store.
    Import,
    /// The operator's setup command, in a cell of its own.
    Setup,
    /// The operator's probe on the base: is the environment whole?
    Probe,
    /// A check on the base.
    BaseRun {
        check: CheckIndex,
    },
    /// Brings somebody's finished work into the store, where it is the sealed tree: every byte is read, nothing runs.
    Candidate,
    /// Makes the working cell with the latest checkpoint in it.
    Open,
    ModelCall,
    Tool {
        tool: ToolName,
    },
    /// The verdict seal: all jobs dead, every byte read.
    Seal,
    /// Fence and scope over the difference from base to sealed tree.
    Inspect,
    /// A check on the sealed tree, in a room.
    Room {
        check: CheckIndex,
    },
    /// The checks again, on the sealed tree with a small fault more each time: would they have noticed? It informs.
    Mutants,
    /// The patch, with the proof that it leads from base to sealed tree.
    Patch,
    /// The agent's own reproduction on the sealed tree, in a room.
    Repro,
    /// Gathers what the reviewer is shown: the change and the files that it touches.
    ReviewBrief,
    /// One question to the reviewer.
    ReviewCall {
        call: ReviewCall,
    },
    /// Holds an answer of the reviewer against the sealed tree: quotes in a cell, reproductions in rooms.
    ReviewJudge {
        call: ReviewCall,
    },
    /// The reproductions of earlier confirmed findings again, on the sealed tree of this attempt.
    ReviewRecheck,
}

/// What the reviewer is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewCall {
    /// What is wrong with the change?
    Findings,
    /// How can the grave ones be shown? Asked once.
    Repros,
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolName {
    ListFiles,
    ReadFile,
    Search,
    EditFile,
    WriteFile,
    Run,
    Check,
    DeclareRepro,
    SkipRepro,
    Finish,
    /// A call that names no tool or whose arguments do not fit: answered with an error, charged nothing.
    Invalid,
}

impl ToolName {
    pub const OFFERED: &[Self] = &[
        Self::ListFiles,
        Self::ReadFile,
        Self::Search,
        Self::EditFile,
        Self::WriteFile,
        Self::Run,
        Self::Check,
        Self::DeclareRepro,
        Self::SkipRepro,
        Self::Finish,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ListFiles => "list_files",
            Self::ReadFile => "read_file",
            Self::Search => "search",
            Self::EditFile => "edit_file",
            Self::WriteFile => "write_file",
            Self::Run => "run",
            Self::Check => "check",
            Self::DeclareRepro => "declare_repro",
            Self::SkipRepro => "skip_repro",
            Self::Finish => "finish",
            Self::Invalid => "invalid",
        }
    }

    /// Calls that only look may stand side by side in one batch.
    #[must_use]
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::ListFiles | Self::ReadFile | Self::Search | Self::Invalid)
    }

    /// The tree may differ after it: a checkpoint is due before its completion.
    #[must_use]
    pub const fn may_write(self) -> bool {
        matches!(self, Self::EditFile | Self::WriteFile | Self::Run)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens to an effect whose result was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Done again: it only reads, or its result is a function of sealed inputs.
    Replay,
    /// Done again from the last checkpoint with empty scratch: its writes were confined to the tree.
    Rewind,
    /// Never done again under this id; its reservation counts for ever. The retry is a new try.
    Forfeit,
    /// Never repeated silently.
    Ask,
}

impl EffectKind {
    /// The class, given whether jobs of this session can reach a network.
    #[must_use]
    pub const fn class(self, network: bool) -> Class {
        match self {
            Self::ModelCall | Self::ReviewCall { .. } => Class::Forfeit,
            Self::Tool { tool } if tool.may_write() => {
                if network && matches!(tool, ToolName::Run) {
                    Class::Ask
                } else {
                    Class::Rewind
                }
            }
            Self::Setup if network => Class::Ask,
            _ => Class::Replay,
        }
    }

    /// Is it an effect of the review? Its failure ends the review, not the turn.
    #[must_use]
    pub const fn reviews(self) -> bool {
        matches!(
            self,
            Self::ReviewBrief | Self::ReviewCall { .. } | Self::ReviewJudge { .. } | Self::ReviewRecheck
        )
    }

    /// The capability that it needs, checked at intent and again at dispatch.
    #[must_use]
    pub const fn capability(self) -> Capability {
        match self {
            Self::Import | Self::Candidate | Self::Open | Self::Seal | Self::Inspect | Self::ReviewBrief => {
                Capability::TreeRead
            }
            Self::Setup
            | Self::Probe
            | Self::BaseRun { .. }
            | Self::Room { .. }
            | Self::Mutants
            | Self::Repro
            | Self::ReviewJudge { .. }
            | Self::ReviewRecheck => Capability::CheckRun,
            Self::ModelCall => Capability::ModelCall,
            Self::ReviewCall { .. } => Capability::ReviewCall,
            Self::Patch => Capability::Export,
            Self::Tool { tool } => match tool {
                ToolName::EditFile | ToolName::WriteFile => Capability::TreeWrite,
                ToolName::Run => Capability::CommandRun,
                ToolName::Check | ToolName::DeclareRepro => Capability::CheckRun,
                ToolName::ListFiles
                | ToolName::ReadFile
                | ToolName::Search
                | ToolName::SkipRepro
                | ToolName::Finish
                | ToolName::Invalid => Capability::TreeRead,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Capability {
    #[serde(rename = "tree.read")]
    TreeRead,
    #[serde(rename = "tree.write")]
    TreeWrite,
    #[serde(rename = "command.run")]
    CommandRun,
    #[serde(rename = "check.run")]
    CheckRun,
    #[serde(rename = "model.call")]
    ModelCall,
    /// To ask the reviewer, who is no agent: a session that judges finished work may hold this and never `model.call`.
    #[serde(rename = "review.call")]
    ReviewCall,
    #[serde(rename = "network.use")]
    NetworkUse,
    #[serde(rename = "export")]
    Export,
}

impl Capability {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TreeRead => "tree.read",
            Self::TreeWrite => "tree.write",
            Self::CommandRun => "command.run",
            Self::CheckRun => "check.run",
            Self::ModelCall => "model.call",
            Self::ReviewCall => "review.call",
            Self::NetworkUse => "network.use",
            Self::Export => "export",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    Intended,
    Dispatched,
}

/// What an effect is bound to: the bytes of its request and, where it judges, the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkPermit {
    pub request: Digest,
    pub class: Class,
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
