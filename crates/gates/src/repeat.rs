//! The same check several times: what always is the same counts, what is not is flaky and never a pass.

use std::collections::BTreeSet;

use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_types::{GateStatus, Strength};

use crate::check::{BaseVerdict, CheckDecision, RedCause};
use crate::evidence::Cause;
use crate::ids::BaseIds;

/// What several runs on the base show together. Tests that did not do the same in all of them are quarantined: nothing is
/// expected of them, and their failure on the final tree is no failure of the check.
#[must_use]
pub fn merge_base(
    terms: &CheckTerms,
    runs: Vec<(BaseVerdict, Option<BaseIds>)>,
) -> (BaseVerdict, Option<BaseIds>) {
    let count = runs.len();
    let (verdicts, ids): (Vec<BaseVerdict>, Vec<Option<BaseIds>>) = runs.into_iter().unzip();
    let ids = ids.into_iter().collect::<Option<Vec<BaseIds>>>().and_then(merge_ids);
    if let Some(broken) = verdicts.iter().find(|v| matches!(v, BaseVerdict::Environment { .. }))
        && !(terms.expect == Expect::Guard && only_flaky(&verdicts, ids.as_ref()))
    {
        return (broken.clone(), ids);
    }
    let flaky = |what: &str| BaseVerdict::Environment {
        detail: format!(
            "the check could not be judged on the base: it is flaky there, {what} of {count} runs; name a check that \
             always does the same, or raise `--repeats` with a runner whose tests are known by name"
        ),
    };
    let red = verdicts.iter().filter(|verdict| matches!(verdict, BaseVerdict::Red { .. })).count();
    let verdict = match terms.expect {
        Expect::Fix
            if ids.as_ref().is_some_and(|ids| red > 0 && ids.failed.is_empty() && ids.broken.is_empty()) =>
        {
            flaky(&format!("and nothing failed in all; red in {red}"))
        }
        Expect::Fix if red > 0 && red < count => flaky(&format!("red in {red}")),
        // A red that nobody can explain in one run is not explained by the others.
        Expect::Fix | Expect::New if red > 0 => verdicts
            .iter()
            .find(|verdict| matches!(verdict, BaseVerdict::Red { cause: RedCause::Unknown }))
            .or(verdicts.iter().find(|verdict| matches!(verdict, BaseVerdict::Red { .. })))
            .cloned()
            .unwrap_or(BaseVerdict::Green),
        Expect::Guard if verdicts.contains(&BaseVerdict::Green) => BaseVerdict::Green,
        _ => verdicts.into_iter().next().unwrap_or(BaseVerdict::Green),
    };
    (verdict, ids)
}

/// A guard whose red runs failed in nothing but tests that are quarantined.
fn only_flaky(verdicts: &[BaseVerdict], ids: Option<&BaseIds>) -> bool {
    verdicts.contains(&BaseVerdict::Green)
        && ids.is_some_and(|ids| ids.failed.is_empty() && ids.broken.is_empty() && !ids.flaky.is_empty())
}

/// None: there was no run.
fn merge_ids(all: Vec<BaseIds>) -> Option<BaseIds> {
    let mut all = all.into_iter();
    let mut merged = all.next()?;
    for next in all {
        let seen = |ids: &BaseIds| -> BTreeSet<String> {
            ids.failed.iter().chain(&ids.passed).chain(&ids.flaky).cloned().collect()
        };
        let either: BTreeSet<String> = seen(&merged).union(&seen(&next)).cloned().collect();
        merged.failed = merged.failed.intersection(&next.failed).cloned().collect();
        merged.passed = merged.passed.intersection(&next.passed).cloned().collect();
        let steady = |id: &String| merged.failed.contains(id) || merged.passed.contains(id);
        merged.flaky = either.into_iter().filter(|id| !steady(id)).collect();
        merged.broken = merged.broken.union(&next.broken).cloned().collect();
        merged.canaries = merged.canaries.intersection(&next.canaries).cloned().collect();
        if merged.canary != next.canary {
            merged.canary = crate::adapters::Canary::Broken;
        }
    }
    Some(merged)
}

/// What several runs on the final tree show together: green is all of them.
#[must_use]
pub fn merge_final(runs: Vec<CheckDecision>) -> CheckDecision {
    let count = runs.len();
    let green = runs.iter().filter(|run| run.status == GateStatus::Passed).count();
    let failed = runs.iter().filter(|run| run.status == GateStatus::Failed).count();
    if green > 0 && failed > 0 {
        let first = runs.iter().find(|run| run.status == GateStatus::Failed);
        let (counts, withheld) = first.map_or((None, false), |run| (run.counts, run.withheld));
        let what = first.map_or("", |run| run.detail.as_str());
        let detail = format!("green in {green} of {count} runs on the same files, red in {failed}: {what}");
        return CheckDecision {
            counts,
            withheld,
            ..CheckDecision::inconclusive(detail).because(Cause::Flaky)
        };
    }
    let weakest: Option<Strength> = crate::check::weakest(runs.iter().filter_map(|run| run.strength));
    let mut runs = runs.into_iter();
    let first = runs.next();
    let worse = |run: &CheckDecision| run.status != GateStatus::Passed;
    let chosen = first.map(|first| if worse(&first) { first } else { runs.find(worse).unwrap_or(first) });
    match chosen {
        Some(run) if run.status == GateStatus::Passed => CheckDecision { strength: weakest, ..run },
        Some(run) => run,
        None => CheckDecision::inconclusive("the check was not run"),
    }
}
