use std::fmt;

use serde::{Deserialize, Serialize};

/// How a turn ended. The exit code of the process is a function of this and of nothing else.
///
/// `docs/outcomes.md` is the table for people; a test holds it against [`Outcome::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Verified,
    Answered,
    SetupError,
    Unverified,
    Capped,
    Stuck,
    ProviderError,
    Refused,
    Canceled,
    ScopeViolation,
    Tampered,
    Blocked,
    Interrupted,
    Parked,
    HostFailure,
}

macro_rules! reasons {
    ($($variant:ident = $text:literal in $outcome:ident),+ $(,)?) => {
        /// Why a turn ended as it did. Each reason belongs to exactly one outcome.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $(#[serde(rename = $text)] $variant),+
        }

        impl Reason {
            /// Every reason in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The spelling in JSON, journal and documents.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The outcome that this reason belongs to.
            #[must_use]
            pub const fn outcome(self) -> Outcome {
                match self { $(Self::$variant => Outcome::$outcome),+ }
            }
        }
    };
}

reasons! {
    ChecksPassed = "checks_passed" in Verified,
    NoClaim = "no_claim" in Answered,
    Usage = "usage" in SetupError,
    Config = "config" in SetupError,
    Trust = "trust" in SetupError,
    Key = "key" in SetupError,
    NoCheck = "no_check" in SetupError,
    AlreadyGreen = "already_green" in SetupError,
    Environment = "environment" in SetupError,
    SandboxUnavailable = "sandbox_unavailable" in SetupError,
    Repository = "repository" in SetupError,
    CheckFailed = "check_failed" in Unverified,
    CheckInconclusive = "check_inconclusive" in Unverified,
    NoTestsRan = "no_tests_ran" in Unverified,
    TooWeak = "too_weak" in Unverified,
    GateUnverifiable = "gate_unverifiable" in Unverified,
    NoChange = "no_change" in Unverified,
    EmptyAnswer = "empty_answer" in Unverified,
    EvidenceStale = "evidence_stale" in Unverified,
    Unsealable = "unsealable" in Unverified,
    Turns = "turns" in Capped,
    Deadline = "deadline" in Capped,
    Context = "context" in Capped,
    Tokens = "tokens" in Capped,
    Budget = "budget" in Capped,
    Actions = "actions" in Capped,
    Output = "output" in Capped,
    Repeat = "repeat" in Stuck,
    Alternate = "alternate" in Stuck,
    Discovery = "discovery" in Stuck,
    Stagnant = "stagnant" in Stuck,
    ToolFormat = "tool_format" in Stuck,
    Auth = "auth" in ProviderError,
    RateLimit = "rate_limited" in ProviderError,
    QuotaExhausted = "quota_exhausted" in ProviderError,
    Overloaded = "overloaded" in ProviderError,
    Transport = "transport" in ProviderError,
    BadResponse = "bad_response" in ProviderError,
    Declined = "declined" in Refused,
    Signal = "signal" in Canceled,
    Request = "request" in Canceled,
    Paths = "paths" in ScopeViolation,
    ProtectedFiles = "protected_files" in Tampered,
    PlantedRunnerConfig = "planted_runner_config" in Tampered,
    ProfileChanged = "profile_changed" in Tampered,
    ApprovalImpossible = "approval_impossible" in Blocked,
    EffectUnknown = "effect_unknown" in Interrupted,
    CheckpointLost = "checkpoint_lost" in Interrupted,
    Approval = "approval" in Parked,
    Timer = "timer" in Parked,
    Drained = "drained" in Parked,
    LeaseLost = "lease_lost" in Parked,
    DiskFull = "disk_full" in HostFailure,
    Store = "store" in HostFailure,
    CellDied = "cell_died" in HostFailure,
}

impl Outcome {
    /// Every outcome in the order of the table.
    pub const ALL: &[Self] = &[
        Self::Verified,
        Self::Answered,
        Self::SetupError,
        Self::Unverified,
        Self::Capped,
        Self::Stuck,
        Self::ProviderError,
        Self::Refused,
        Self::Canceled,
        Self::ScopeViolation,
        Self::Tampered,
        Self::Blocked,
        Self::Interrupted,
        Self::Parked,
        Self::HostFailure,
    ];

    /// The exit code of a process that ends with a bug of ours. No outcome has it.
    pub const BUG_EXIT_CODE: u8 = 70;

    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Verified | Self::Answered => 0,
            Self::SetupError => 1,
            Self::Unverified => 2,
            Self::Capped => 3,
            Self::Stuck => 4,
            Self::ProviderError => 5,
            Self::Refused => 6,
            Self::Canceled => 7,
            Self::ScopeViolation => 8,
            Self::Tampered => 9,
            Self::Blocked => 10,
            Self::Interrupted => 11,
            Self::Parked => 12,
            Self::HostFailure => 13,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Answered => "answered",
            Self::SetupError => "setup_error",
            Self::Unverified => "unverified",
            Self::Capped => "capped",
            Self::Stuck => "stuck",
            Self::ProviderError => "provider_error",
            Self::Refused => "refused",
            Self::Canceled => "canceled",
            Self::ScopeViolation => "scope_violation",
            Self::Tampered => "tampered",
            Self::Blocked => "blocked",
            Self::Interrupted => "interrupted",
            Self::Parked => "parked",
            Self::HostFailure => "host_failure",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_reason_and_a_spelling_that_reads_back() {
        for outcome in Outcome::ALL {
            assert!(Reason::ALL.iter().any(|r| r.outcome() == *outcome), "{outcome}");
            let text = serde_json::to_string(outcome).unwrap();
            assert_eq!(text, format!("\"{outcome}\""));
            assert_ne!(outcome.exit_code(), Outcome::BUG_EXIT_CODE);
        }
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{reason}\""));
        }
    }

    #[test]
    fn only_two_outcomes_exit_zero() {
        let zero: Vec<_> = Outcome::ALL.iter().filter(|o| o.exit_code() == 0).collect();
        assert_eq!(zero, [&Outcome::Verified, &Outcome::Answered]);
    }
}
