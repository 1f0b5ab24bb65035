use std::fmt;

use serde::{Deserialize, Serialize};

/// The gates of the plan, in plan order. The `gates` object of a result has exactly these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKey {
    /// The tree could be sealed: every entry is something that a patch can carry.
    Seal,
    /// The agent ended with an answer that is not empty.
    Answer,
    /// No protected file, runner key or test item was changed.
    Fence,
    /// Every changed path lies inside the scope.
    Scope,
    /// The tree differs from its base where a change was asked for.
    Change,
    /// Every check showed in a room what it must show.
    Check,
    /// A reproduction written first fails on the base and passes on the final tree.
    Repro,
    /// A second model's review.
    Review,
}

impl GateKey {
    pub const ALL: &[Self] = &[
        Self::Seal,
        Self::Answer,
        Self::Fence,
        Self::Scope,
        Self::Change,
        Self::Check,
        Self::Repro,
        Self::Review,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Answer => "answer",
            Self::Fence => "fence",
            Self::Scope => "scope",
            Self::Change => "change",
            Self::Check => "check",
            Self::Repro => "repro",
            Self::Review => "review",
        }
    }
}

impl fmt::Display for GateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a gate says. `absent` (nobody armed it), `unverifiable` (it could not tell) and `not_reached` (an earlier gate
/// or ending came first) are values of their own; none of them is a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    Absent,
    Passed,
    Failed,
    Unverifiable,
    NotReached,
}

impl GateStatus {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unverifiable => "unverifiable",
            Self::NotReached => "not_reached",
        }
    }
}

/// How much a pass means: a closed, ordered scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrengthLevel {
    /// The check exited 0 on the final tree.
    ExitCode,
    /// It was red on the base for a test reason and is green on the final tree.
    RedBefore,
    /// Named tests were seen to fail on the base and to pass on the final tree.
    Ids,
    /// A test that must fail was seen to fail in the same runner.
    Canary,
    /// Inputs that the agent never saw, compared outside the process.
    HeldOut,
}

impl StrengthLevel {
    pub const ALL: &[Self] = &[Self::ExitCode, Self::RedBefore, Self::Ids, Self::Canary, Self::HeldOut];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExitCode => "exit_code",
            Self::RedBefore => "red_before",
            Self::Ids => "ids",
            Self::Canary => "canary",
            Self::HeldOut => "held_out",
        }
    }
}

impl fmt::Display for StrengthLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The strength of a verdict. `in_process` is true where the code under test shares the process that reports on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strength {
    pub level: StrengthLevel,
    pub in_process: bool,
}
