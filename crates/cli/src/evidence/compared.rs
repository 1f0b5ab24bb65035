//! What a bundle says of its checks, beside what the same work showed here. Pure.

use countersign_proof::verify::Claims;
use countersign_types::{GateKey, GateStatus, Outcome, Reason, Strength};
use serde::Serialize;
use serde_json::Value;

use crate::result::RunResult;

/// Gates that are judged again, in the plan's order. A review asks a model and a reproduction belongs to the agent: neither
/// can be repeated.
const AGAIN: &[GateKey] = &[GateKey::Seal, GateKey::Fence, GateKey::Scope, GateKey::Change, GateKey::Check];

/// Gates that are not.
const ONCE: &[GateKey] = &[GateKey::Repro, GateKey::Review];

/// What came of judging the work again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub(super) enum Compared {
    Same,
    Differs {
        /// The first thing that is not the same: `tree`, `gates.check`, `strength`, `checks.0.passed`.
        what: String,
        recorded: String,
        here: String,
    },
    /// Nothing could be concluded here; that says nothing about the bundle.
    Inconclusive {
        why: String,
    },
}

impl Compared {
    pub(super) fn differs(what: impl Into<String>, recorded: impl ToString, here: impl ToString) -> Self {
        Self::Differs { what: what.into(), recorded: recorded.to_string(), here: here.to_string() }
    }
}

/// Gates of the bundle that had something to say and were not asked again.
pub(super) fn not_again(claims: &Claims) -> Vec<&'static str> {
    ONCE.iter()
        .filter(|key| {
            claims
                .gates
                .get(key)
                .is_some_and(|gate| !matches!(gate.status, GateStatus::Absent | GateStatus::NotReached))
        })
        .map(|key| key.as_str())
        .collect()
}

/// The first difference. `recorded`: the bundle's result object.
pub(super) fn compare(claims: &Claims, recorded: &Value, here: &RunResult) -> Compared {
    if let Some(why) = unconcluded(claims, here) {
        return Compared::Inconclusive { why };
    }
    if here.reason == Some(Reason::AlreadyGreen.as_str()) {
        return Compared::differs("base", "red, as a fix or a new test needs", "green: already_green");
    }
    if here.tree != claims.final_tree {
        let shown = |tree: Option<countersign_types::Digest>| {
            tree.map_or_else(|| "none".to_owned(), |tree| tree.to_string())
        };
        return Compared::differs("tree", shown(claims.final_tree), shown(here.tree));
    }
    for key in AGAIN {
        let (Some(was), Some(is)) = (claims.gates.get(key), here.gates.get(key)) else { continue };
        let asked = |status| !matches!(status, GateStatus::Absent | GateStatus::NotReached);
        if !asked(was.status) || is.status == GateStatus::NotReached {
            continue;
        }
        let shown = |status: GateStatus, reason: Option<Reason>| match reason {
            Some(reason) => format!("{} ({reason})", status.as_str()),
            None => status.as_str().to_owned(),
        };
        let (was, is) = (shown(was.status, was.reason), shown(is.status, is.reason));
        if was != is {
            return Compared::differs(format!("gates.{}", key.as_str()), was, is);
        }
    }
    if claims.outcome == Outcome::Verified {
        if here.outcome != Some(Outcome::Verified) {
            let is = here.outcome.map_or("none", Outcome::as_str);
            return Compared::differs("outcome", Outcome::Verified.as_str(), is);
        }
        if let Some(differs) = weaker(claims.strength, here.strength) {
            return differs;
        }
    }
    tests(recorded, here).unwrap_or(Compared::Same)
}

/// Why nothing can be said about the bundle: the run ended by what this machine lacks, or was stopped.
fn unconcluded(claims: &Claims, here: &RunResult) -> Option<String> {
    let said = || {
        let reason = here.reason.unwrap_or("bug");
        let detail = here.gates.get(&GateKey::Check).and_then(|gate| gate.detail.clone());
        match here.error.as_ref().map(|error| error.message.clone()).or(detail) {
            Some(message) => format!("{reason}: {message}"),
            None => reason.to_owned(),
        }
    };
    let checked = here.gates.get(&GateKey::Check).map(|gate| gate.status);
    let recorded = claims.gates.get(&GateKey::Check).map(|gate| gate.status);
    match here.outcome {
        Some(Outcome::SetupError) if here.reason != Some(Reason::AlreadyGreen.as_str()) => Some(said()),
        None | Some(Outcome::HostFailure | Outcome::Canceled | Outcome::Parked | Outcome::Interrupted) => {
            Some(said())
        }
        // It could not be told here; where it could not be told there either, that is the same.
        Some(_) if checked == Some(GateStatus::Unverifiable) && recorded != checked => Some(said()),
        Some(_) => None,
    }
}

/// A pass that means less here. One that means more is no contradiction.
fn weaker(was: Option<Strength>, is: Option<Strength>) -> Option<Compared> {
    let (was, is) = (was?, is?);
    let shown = |strength: Strength| {
        format!("{}{}", strength.level, if strength.in_process { ", in process" } else { "" })
    };
    let less = is.level < was.level || (is.in_process && !was.in_process);
    less.then(|| Compared::differs("strength", shown(was), shown(is)))
}

/// The tests of each check, by count.
fn tests(recorded: &Value, here: &RunResult) -> Option<Compared> {
    let here = here
        .gates
        .get(&GateKey::Check)?
        .evidence
        .iter()
        .map(|one| serde_json::to_value(one).unwrap_or_default());
    let was = recorded["gates"]["check"]["evidence"].as_array()?;
    for (number, (was, is)) in was.iter().zip(here).enumerate() {
        for field in ["check", "runner", "cause", "expected", "passed", "missing"] {
            if was[field] != is[field] {
                return Some(Compared::differs(format!("checks.{number}.{field}"), &was[field], &is[field]));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_types::StrengthLevel;

    fn strength(level: StrengthLevel, in_process: bool) -> Option<Strength> {
        Some(Strength { level, in_process })
    }

    #[test]
    fn a_pass_that_means_less_here_differs_and_one_that_means_more_does_not() {
        let (ids, canary) = (StrengthLevel::Ids, StrengthLevel::Canary);
        assert_eq!(weaker(strength(ids, true), strength(ids, true)), None);
        assert_eq!(weaker(strength(ids, true), strength(canary, false)), None);
        let told = weaker(strength(canary, false), strength(ids, false)).unwrap();
        assert_eq!(told, Compared::differs("strength", "canary", "ids"));
        assert!(weaker(strength(ids, false), strength(ids, true)).is_some());
    }

    #[test]
    fn the_first_count_that_differs_is_named() {
        let recorded = serde_json::json!({ "gates": { "check": { "evidence": [
            { "check": 0, "runner": "pytest", "cause": null, "expected": 3, "passed": 3, "missing": 0 }
        ] } } });
        let mut here = RunResult::bug("x");
        let mut gate = here.gates.remove(&GateKey::Check).unwrap();
        let mut evidence = countersign_engine::CheckEvidence::of_base(0, Some("pytest"), None, 1);
        (evidence.expected, evidence.passed, evidence.missing) = (Some(3), Some(3), Some(0));
        gate.evidence = vec![evidence.clone()];
        here.gates.insert(GateKey::Check, gate);
        assert_eq!(tests(&recorded, &here), None);
        here.gates.get_mut(&GateKey::Check).unwrap().evidence[0].passed = Some(2);
        assert_eq!(tests(&recorded, &here), Some(Compared::differs("checks.0.passed", 3, 2)));
    }
}
