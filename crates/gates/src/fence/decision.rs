//! What the fence says in the end, from what the paths said and what the guest found.

use std::collections::BTreeSet;

use countersign_guest::protocol::{FenceFile, FenceFinding, FenceVerdict};
use countersign_tree::TreePath;
use countersign_types::{GateStatus, Reason};
use serde::{Deserialize, Serialize};

use super::allow::{self, Allowances, Allowed};

/// Findings that a decision carries at most; the rest is counted in its detail.
const MAX_FINDINGS: usize = 200;

/// What the paths alone say, and what the guest must parse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FencePlan {
    pub findings: Vec<FenceFinding>,
    pub scan: Vec<FenceFile>,
    pub(super) allow: Allowances,
}

/// What a gate says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateDecision {
    pub status: GateStatus,
    /// `protected_files`, `planted_runner_config` or `gate_unverifiable`; None when it passed.
    pub reason: Option<Reason>,
    /// One sentence for people; paths escaped.
    pub detail: String,
    /// What stops it first, then notes; bounded.
    pub findings: Vec<FenceFinding>,
    /// What would have stopped it, had the contract not named the rule.
    #[serde(default)]
    pub allowed: Vec<Allowed>,
}

impl FencePlan {
    /// Joins what the guest found. An error, or a finding about a file that was not asked for, means that the fence
    /// could not look: unverifiable, unless the paths alone already show more. Tampered beats planted beats
    /// unverifiable.
    #[must_use]
    pub fn conclude(self, scanned: Result<Vec<FenceFinding>, String>) -> GateDecision {
        let asked: BTreeSet<&TreePath> = self.scan.iter().map(|file| &file.path).collect();
        let mut findings = self.findings;
        let mut broken = None;
        match scanned {
            Ok(found) => {
                if found.iter().any(|finding| !asked.contains(&finding.path)) {
                    broken = Some("the scanner answered about a file that it was not asked about".to_owned());
                }
                findings.extend(found);
            }
            Err(why) => broken = Some(format!("the changed files could not be scanned: {why}")),
        }
        let (findings, allowed) = self.allow.part(findings);
        let mut findings = findings;
        // Stable: what stops first, each in the order in which it was found.
        findings.sort_by_key(|finding| weight(finding.verdict));
        let worst = findings.first().map(|finding| finding.verdict);
        let (status, reason) = match worst {
            Some(FenceVerdict::Tampered) => (GateStatus::Failed, Some(Reason::ProtectedFiles)),
            Some(FenceVerdict::Planted) => (GateStatus::Failed, Some(Reason::PlantedRunnerConfig)),
            Some(FenceVerdict::Unverifiable) => (GateStatus::Unverifiable, Some(Reason::GateUnverifiable)),
            Some(FenceVerdict::Note) | None if broken.is_some() => {
                (GateStatus::Unverifiable, Some(Reason::GateUnverifiable))
            }
            Some(FenceVerdict::Note) | None => (GateStatus::Passed, None),
        };
        let detail = match (broken, reason) {
            (Some(why), Some(Reason::GateUnverifiable)) => why,
            (_, Some(_)) => summary(&findings, worst),
            (_, None) if allowed.is_empty() => {
                "no protected file, runner key or test item was changed".to_owned()
            }
            (_, None) => allow::sentence(&allowed),
        };
        findings.truncate(MAX_FINDINGS);
        GateDecision { status, reason, detail, findings, allowed }
    }
}

fn weight(verdict: FenceVerdict) -> u8 {
    match verdict {
        FenceVerdict::Tampered => 0,
        FenceVerdict::Planted => 1,
        FenceVerdict::Unverifiable => 2,
        FenceVerdict::Note => 3,
    }
}

/// The first few of the findings that decide.
fn summary(findings: &[FenceFinding], worst: Option<FenceVerdict>) -> String {
    const SHOWN: usize = 5;
    let deciding: Vec<&FenceFinding> = findings.iter().filter(|f| Some(f.verdict) == worst).collect();
    let mut parts: Vec<String> =
        deciding.iter().take(SHOWN).map(|f| format!("{} ({}: {})", f.path, f.rule, f.detail)).collect();
    if deciding.len() > SHOWN {
        parts.push(format!("and {} more", deciding.len() - SHOWN));
    }
    parts.join("; ")
}
