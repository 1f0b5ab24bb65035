//! Effects: the kinds of things that act, how a lost one is treated, and what may ask for one.

mod result;

use std::fmt;

use countersign_types::{CheckIndex, Digest};
use serde::{Deserialize, Serialize};

pub use result::{
    BaseVerdict, EffectFailure, EffectResult, JobSummary, ModelStop, PlannedCall, RedCause, ReproMark,
    ReviewAnswer,
};

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

    /// A short name; a tool call has its tool's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Setup => "setup",
            Self::Probe => "probe",
            Self::BaseRun { .. } => "base_run",
            Self::Candidate => "candidate",
            Self::Open => "open",
            Self::ModelCall => "model_call",
            Self::Tool { tool } => tool.as_str(),
            Self::Seal => "seal",
            Self::Inspect => "inspect",
            Self::Room { .. } => "room",
            Self::Mutants => "mutants",
            Self::Patch => "patch",
            Self::Repro => "repro",
            Self::ReviewBrief => "review_brief",
            Self::ReviewCall { .. } => "review_call",
            Self::ReviewJudge { .. } => "review_judge",
            Self::ReviewRecheck => "review_recheck",
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
    pub const ALL: &[Self] = &[
        Self::TreeRead,
        Self::TreeWrite,
        Self::CommandRun,
        Self::CheckRun,
        Self::ModelCall,
        Self::ReviewCall,
        Self::NetworkUse,
        Self::Export,
    ];

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
