//! Named allowances of the contract: a rule that may be broken, everywhere or where a glob says.

use countersign_guest::protocol::{AllowedRule, FenceFinding, FenceVerdict};
use countersign_kernel::contract::Allowance;
use countersign_tree::{Glob, GlobError, TreePath};
use serde::{Deserialize, Serialize};

/// Uses that a decision carries at most.
const MAX_USES: usize = 200;

/// An allowance that was used: the rule would have stopped the change of this path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    pub rule: String,
    /// Of the contract; None: everywhere.
    pub glob: Option<String>,
    pub path: TreePath,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowances(Vec<(String, Option<Glob>)>);

impl Allowances {
    pub(super) fn new(allow: &[Allowance]) -> Result<Self, GlobError> {
        let compile =
            |one: &Allowance| Ok((one.rule.clone(), one.glob.as_deref().map(Glob::new).transpose()?));
        allow.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// For the edit tools, which ask the same.
    pub(super) fn for_guard(&self) -> Vec<AllowedRule> {
        let rules = self.0.iter();
        rules
            .map(|(rule, glob)| AllowedRule {
                rule: rule.clone(),
                glob: glob.as_ref().map(|g| g.as_str().to_owned()),
            })
            .collect()
    }

    /// For the agent.
    pub(super) fn shown(&self) -> String {
        let one = |(rule, glob): &(String, Option<Glob>)| match glob {
            Some(glob) => format!("{rule} for `{glob}`"),
            None => rule.clone(),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Takes out what the contract allows. A note stops nothing, so it needs no allowance.
    pub(super) fn part(&self, findings: Vec<FenceFinding>) -> (Vec<FenceFinding>, Vec<Allowed>) {
        let mut allowed = Vec::new();
        let mut stay = Vec::new();
        for finding in findings {
            let by = self.0.iter().find(|(rule, glob)| {
                *rule == finding.rule
                    && glob.as_ref().is_none_or(|glob| glob.matches(finding.path.as_bytes()))
            });
            match by {
                Some((rule, glob)) if finding.verdict != FenceVerdict::Note => {
                    if allowed.len() < MAX_USES {
                        let glob = glob.as_ref().map(|glob| glob.as_str().to_owned());
                        allowed.push(Allowed { rule: rule.clone(), glob, path: finding.path });
                    }
                }
                _ => stay.push(finding),
            }
        }
        (stay, allowed)
    }
}

/// What a pass on top of used allowances means.
pub(super) fn sentence(allowed: &[Allowed]) -> String {
    const SHOWN: usize = 5;
    let mut parts: Vec<String> =
        allowed.iter().take(SHOWN).map(|one| format!("{} ({})", one.path, one.rule)).collect();
    if allowed.len() > SHOWN {
        parts.push(format!("and {} more", allowed.len() - SHOWN));
    }
    format!(
        "the contract allows what changed in {}; the agent had a hand in what judges it, so a pass is at most red_before",
        parts.join(", ")
    )
}
