use std::collections::BTreeMap;
use std::path::Path;

use countersign_types::{CellId, Tier, TierProperties, TierProperty};
use serde::Serialize;

use crate::supervised::{self, scratch_dir};
use crate::{Binaries, CellError, CellSpec};

/// What one tier is worth on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierReport {
    #[serde(rename = "name")]
    pub tier: Tier,
    pub available: bool,
    /// Observed by a canary in a cell that was opened for this report, never assumed.
    pub properties: TierProperties,
    /// What the tier demands and this machine does not show.
    pub missing: TierProperties,
    /// For each property: what the canary saw, or why it does not hold.
    pub notes: BTreeMap<TierProperty, String>,
    pub why_not: Option<String>,
    /// What a person can do, copyable where that is possible.
    pub fix: Option<String>,
}

/// Opens a cell of each tier that this build has and tells what was seen. `scratch` is a directory for the cells'
/// files, which are removed again.
pub async fn report(binaries: &Binaries, scratch: &Path) -> Vec<TierReport> {
    let mut reports = vec![];
    for tier in [Tier::Host, Tier::Native] {
        reports.push(probe(tier, binaries, scratch).await);
    }
    let working = reports.iter().rfind(|r| r.available).map_or("none", |r| r.tier.as_str());
    for tier in [Tier::Container, Tier::Gvisor, Tier::Vm] {
        reports.push(TierReport {
            tier,
            available: false,
            properties: TierProperties::new(),
            missing: tier.demands(),
            notes: BTreeMap::new(),
            why_not: Some("not part of this build yet".to_owned()),
            fix: Some(format!("the strongest tier that works here is: {working}")),
        });
    }
    reports
}

async fn probe(tier: Tier, binaries: &Binaries, scratch: &Path) -> TierReport {
    let none = TierReport {
        tier,
        available: false,
        properties: TierProperties::new(),
        missing: tier.demands(),
        notes: BTreeMap::new(),
        why_not: None,
        fix: None,
    };
    let opened = match binaries.check().await {
        Ok(()) => open_and_end(tier, binaries, scratch).await,
        Err(error) => Err(error),
    };
    match opened {
        Ok(observation) => {
            let missing = tier.demands().difference(&observation.properties).copied().collect();
            TierReport {
                available: true,
                properties: observation.properties,
                missing,
                notes: observation.notes,
                ..none
            }
        }
        Err(CellError::Unavailable { why, fix, missing, .. }) => {
            let fix = about_null(&why).unwrap_or(fix);
            TierReport { missing, why_not: Some(why), fix: Some(fix), ..none }
        }
        Err(other) => {
            let why = other.to_string();
            TierReport { fix: about_null(&why), why_not: Some(why), ..none }
        }
    }
}

/// The fix for a null device that not everybody may open: namespaces have nothing to do with it.
fn about_null(why: &str) -> Option<String> {
    (why.contains("/dev/null") && why.contains("denied")).then(|| "chmod 666 /dev/null".to_owned())
}

async fn open_and_end(
    tier: Tier,
    binaries: &Binaries,
    scratch: &Path,
) -> Result<countersign_types::Observation, CellError> {
    let state_dir = scratch_dir(scratch);
    let id = CellId::new("doctor").map_err(|error| CellError::Protocol(error.to_string()))?;
    let spec = CellSpec { id, state_dir: state_dir.clone(), mounts: vec![], host_network: false };
    let seen = match supervised::open(tier, binaries, spec).await {
        Ok(cell) => {
            let observation = cell.observation().await;
            cell.end(true).await.map(|()| observation)
        }
        Err(error) => Err(error),
    };
    // Empty after `end`; what a failed launch left in it is two empty directories.
    for name in ["workspace", "home", ""] {
        drop(tokio::fs::remove_dir(state_dir.join(name)).await);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::about_null;

    #[test]
    fn a_null_device_that_is_closed_has_its_own_fix() {
        let fix = Some("chmod 666 /dev/null");
        for why in ["opening /dev/null: Permission denied (os error 13)", "/dev/null: Permission denied; x"] {
            assert_eq!(about_null(why).as_deref(), fix, "{why}");
        }
        assert_eq!(about_null("no user namespaces: Operation not permitted"), None);
    }
}
