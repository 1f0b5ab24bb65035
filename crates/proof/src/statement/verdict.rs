use std::collections::BTreeMap;

use countersign_types::{Digest, Outcome, Strength, StrengthLevel};
use serde::{Deserialize, Serialize};

use super::{Predicate, Resource};

/// Who says so: the program that ran the gate plan or repeated it.
pub const VERIFIER: &str = "urn:countersign:verifier:1";

/// By which rules: the contract of the turn, by its digest.
pub const POLICY: &str = "urn:countersign:contract:1";

/// SLSA's verification summary, version 1 (slsa.dev/spec/v1.0/verification_summary): the verdict, FAILED too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verdict {
    pub verifier: Verifier,
    pub time_verified: String,
    /// [`super::turn_urn`].
    pub resource_uri: String,
    pub policy: Resource,
    /// Every other statement of the bundle, by path and sha256 of its file. What is missing or not in it is noticed.
    pub input_attestations: Vec<Resource>,
    pub verification_result: VerdictResult,
    /// [`level`].
    pub verified_levels: Vec<String>,
}

impl Predicate for Verdict {
    const TYPE: &'static str = "https://slsa.dev/verification_summary/v1";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verifier {
    /// [`VERIFIER`].
    pub id: String,
    pub version: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum VerdictResult {
    Passed,
    Failed,
}

impl VerdictResult {
    /// Only `verified` is a pass. `answered` makes no claim, so there is nothing that could have passed.
    #[must_use]
    pub const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Verified => Self::Passed,
            _ => Self::Failed,
        }
    }
}

impl Verdict {
    #[must_use]
    pub fn policy(contract: Option<Digest>) -> Resource {
        let uri = Some(POLICY.to_owned());
        contract.map_or_else(Resource::default, |digest| Resource {
            name: None,
            uri,
            ..Resource::named("", digest)
        })
    }
}

/// The `verifiedLevels` of a verdict: one level of our own scale, or `FAILED`. SLSA leaves names without its own prefix
/// to others.
#[must_use]
pub fn level(result: VerdictResult, strength: Option<Strength>) -> Vec<String> {
    let level = strength.filter(|_| result == VerdictResult::Passed).map(|strength| {
        let in_process = if strength.in_process { "_IN_PROCESS" } else { "" };
        format!("COUNTERSIGN_{}{in_process}", strength.level.as_str().to_ascii_uppercase())
    });
    vec![level.unwrap_or_else(|| "FAILED".to_owned())]
}

/// The strength that `verifiedLevels` name; None: `FAILED`, or nothing that [`level`] writes.
#[must_use]
pub fn strength_of(levels: &[String]) -> Option<Strength> {
    let all = StrengthLevel::ALL
        .iter()
        .flat_map(|level| [false, true].map(|in_process| Strength { level: *level, in_process }));
    all.into_iter().find(|strength| level(VerdictResult::Passed, Some(*strength)) == levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_reads_back() {
        for strength in [(StrengthLevel::ExitCode, false), (StrengthLevel::HeldOut, true)] {
            let strength = Some(Strength { level: strength.0, in_process: strength.1 });
            assert_eq!(strength_of(&level(VerdictResult::Passed, strength)), strength);
            assert_eq!(strength_of(&level(VerdictResult::Failed, strength)), None);
        }
        let both = ["COUNTERSIGN_IDS", "COUNTERSIGN_CANARY"].map(str::to_owned);
        assert_eq!(strength_of(&both), None);
    }
}
