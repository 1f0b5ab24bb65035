//! What an ending means, in a sentence for people who read a report and nothing else.

use countersign_types::{GateKey, GateStatus, Outcome, StrengthLevel};

use crate::result::RunResult;

/// Whether it has no end yet, and nothing was wrong so far.
pub(super) fn runs(result: &RunResult) -> bool {
    result.outcome.is_none() && result.error.is_none()
}

pub(super) fn of(result: &RunResult) -> String {
    let Some(outcome) = result.outcome else {
        let why = if runs(result) {
            "It is still running: there is no verdict yet."
        } else {
            "There is no verdict."
        };
        return why.to_owned();
    };
    match outcome {
        Outcome::Verified => {
            "Every check passed in a clean room on exactly the tree below, and nothing that judges it was \
                              changed by it."
                .to_owned()
        }
        Outcome::Unverified => {
            let failed = |key| result.gates.get(&key).is_some_and(|gate| gate.status == GateStatus::Failed);
            let why = if failed(GateKey::Review) {
                "a command shows a defect that a second model found"
            } else if failed(GateKey::Repro) {
                "the failing test that had to come first is missing or still fails"
            } else {
                unverified(result.reason.unwrap_or_default())
            };
            format!("The work was not confirmed: {why}.")
        }
        Outcome::Tampered => {
            "The work changes what judges it, so a passing check would say nothing.".to_owned()
        }
        Outcome::ScopeViolation => "The work changes paths outside of what may be changed.".to_owned(),
        Outcome::Answered => {
            "There is an answer and no check was asked for: nothing says that it is right.".to_owned()
        }
        Outcome::SetupError => "Nothing was judged: it could not begin.".to_owned(),
        Outcome::Capped => "A limit was reached before anything was confirmed.".to_owned(),
        Outcome::Stuck => {
            "The agent went round in circles, and what it had done was not confirmed.".to_owned()
        }
        Outcome::ProviderError => {
            "The model's endpoint could not be used to the end: there is no verdict.".to_owned()
        }
        Outcome::Refused => "The model declined: there is no verdict.".to_owned(),
        Outcome::Canceled => "Somebody stopped it: there is no verdict.".to_owned(),
        Outcome::Parked => {
            "It was interrupted and can go on with `countersign resume`: there is no verdict yet.".to_owned()
        }
        Outcome::Blocked => "An approval was needed that nobody could give: there is no verdict.".to_owned(),
        Outcome::Interrupted => {
            "It is not known whether a side effect happened: there is no verdict.".to_owned()
        }
        Outcome::HostFailure => "This machine failed, not the work: there is no verdict.".to_owned(),
    }
}

fn unverified(reason: &str) -> &'static str {
    match reason {
        "check_failed" => "a check failed on it",
        "check_inconclusive" => "a check could not say anything about it",
        "no_tests_ran" => "the check ran no test",
        "too_weak" => "the checks passed, but show less than was asked for",
        "no_change" => "it is the same as its base",
        "evidence_stale" => "what the check judged is not what would be delivered",
        "unsealable" => "it holds something that no patch can carry",
        _ => "a gate could not tell",
    }
}

pub(super) const fn strength(level: StrengthLevel) -> &'static str {
    match level {
        StrengthLevel::ExitCode => "the check's exit code, and nothing that shows it could have failed",
        StrengthLevel::RedBefore => "the check failed on the base for a reason of its tests, and passes now",
        StrengthLevel::Ids => "every expected test ran and passed by name",
        StrengthLevel::Canary => "as by name, and a planted failure was reported as one by the same channel",
        StrengthLevel::HeldOut => "inputs that nobody who worked on it has seen gave the right results",
    }
}
