//! The base-source control: does the check stay red when everything of the change is there but the product?
//!
//! A green that comes from a new fixture, a new test or a configuration that the contract allows is not the product's. For
//! `new` the same run is the proof itself: the change's tests, red against the base's product.

use countersign_guest::protocol::{Report, TestStatus};
use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_types::{GateStatus, Strength, StrengthLevel};

use crate::adapters::{Canary, adapter_of};
use crate::check::{Base, CheckDecision, Seen, how_it_ended};
use crate::evidence::{Cause, Control};
use crate::ids::is_red;
use crate::runner::{Meaning, Runner};

/// Whether a control run is asked for behind a green of this check.
#[must_use]
pub const fn wants_control(expect: Expect) -> bool {
    matches!(expect, Expect::Fix | Expect::New)
}

/// What a green decision is worth beside its control. `after`: the run on the final tree. `control`: the run on the base
/// with the change's other files; None: the change has none. `probed`: the environment's probe passed on the base.
#[must_use]
pub fn judge_control(
    terms: &CheckTerms,
    base: Base<'_>,
    decision: CheckDecision,
    after: Seen<'_>,
    control: Option<Seen<'_>>,
    probed: bool,
) -> (CheckDecision, Option<Control>) {
    if decision.status != GateStatus::Passed || !wants_control(terms.expect) {
        return (decision, None);
    }
    let Some(control) = control else {
        if terms.expect == Expect::Fix {
            return (decision, None);
        }
        let detail = "the change brings no test file, so nothing could be shown to fail against the base's product; \
                      tests inside the product's own files cannot be told apart from it";
        return (CheckDecision::failed(detail).because(Cause::Control).with_counts_of(&decision), None);
    };
    let meaning = Runner::of(&terms.argv).meaning(&control.receipt.end);
    if let Meaning::NoAnswer(what) = &meaning {
        let detail = format!("the base's product with the change's other files could not be judged: {what}");
        return (CheckDecision::inconclusive(detail).with_counts_of(&decision), Some(Control::Unknown));
    }
    let by_name = after.whole().zip(control.whole()).map(|(after, control)| turned(base, after, control));
    let red = match (&by_name, terms.expect) {
        (Some(turned), Expect::Fix) => !turned.tests.is_empty() || !turned.files.is_empty(),
        (Some(turned), _) => !turned.new_tests.is_empty() || !turned.files.is_empty(),
        (None, _) => !matches!(meaning, Meaning::Green | Meaning::NoTests),
    };
    if !red {
        let detail = match terms.expect {
            Expect::New => {
                "no test of the change fails against the base's product, so they show nothing of it"
            }
            _ => "the check is green without the product's change too: what turned it is not in the product",
        };
        return (
            CheckDecision::failed(detail).because(Cause::Control).with_counts_of(&decision),
            Some(Control::Green),
        );
    }
    if terms.expect == Expect::Fix {
        return (decision, Some(Control::Red));
    }
    let adapter = adapter_of(&terms.argv);
    let in_process = adapter.is_none_or(|adapter| adapter.in_process());
    let canary = after.whole().map_or(Canary::Absent, Canary::of);
    let (level, detail) = match by_name {
        Some(turned) if !turned.new_tests.is_empty() => {
            let beside = |id: &String| adapter.is_none_or(|adapter| adapter.has_canary_beside(id));
            let covered = canary == Canary::Seen && turned.new_tests.iter().all(beside);
            let level = if covered { StrengthLevel::Canary } else { StrengthLevel::Ids };
            let count = turned.new_tests.len();
            (level, format!("{count} new tests fail against the base's product and pass on the final tree"))
        }
        // The tests could not even be read there, as where they import what the change adds. That the environment is
        // whole shows where the base's own tests ran in it.
        by_name => {
            let whole = probed || base.ids.is_some_and(|ids| !ids.passed.is_empty()) && by_name.is_some();
            let certain = whole || meaning == Meaning::TestsFailed;
            let level = if certain { StrengthLevel::RedBefore } else { StrengthLevel::ExitCode };
            let end = how_it_ended(&control.receipt.end);
            (level, format!("red against the base's product ({end}), green on the final tree"))
        }
    };
    let strength = Some(Strength { level, in_process });
    (CheckDecision { strength, detail, ..decision }, Some(Control::Red))
}

/// What passes on the final tree and did not with the base's product.
struct Turned {
    /// Tests that failed on the base.
    tests: Vec<String>,
    /// Tests that the base did not have.
    new_tests: Vec<String>,
    /// Files that could not be read, and of which tests pass now.
    files: Vec<String>,
}

fn turned(base: Base<'_>, after: &Report, control: &Report) -> Turned {
    let passes = |report: &Report, id: &str| {
        report.cases.iter().any(|case| case.id == id && case.status == TestStatus::Passed)
    };
    let red_there: std::collections::BTreeSet<&str> =
        control.cases.iter().filter(|case| is_red(case.status)).map(|case| case.id.as_str()).collect();
    let passed = after.cases.iter().filter(|case| case.status == TestStatus::Passed).map(|case| &case.id);
    let known = |id: &str| base.ids.is_some_and(|ids| ids.passed.contains(id) || ids.failed.contains(id));
    let new_tests =
        passed.clone().filter(|id| red_there.contains(id.as_str()) && !known(id)).cloned().collect();
    let tests =
        base.ids.iter().flat_map(|ids| &ids.failed).filter(|id| !passes(control, id)).cloned().collect();
    let files = control.broken.iter().filter(|file| passed.clone().any(|id| crate::ids::is_below(id, file)));
    Turned { tests, new_tests, files: files.cloned().collect() }
}
