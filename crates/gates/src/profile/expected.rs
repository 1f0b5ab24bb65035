//! Tests and runners that a profile names: they have to be seen.

use countersign_guest::protocol::{Report, TestStatus};
use countersign_kernel::contract::{CheckTerms, Expect};

/// Why the base cannot be judged as the profile says; None when it can.
#[must_use]
pub fn expected_on_base(terms: &CheckTerms, report: Option<&Report>) -> Option<String> {
    if terms.runner.is_none() && terms.ids.is_empty() {
        return None;
    }
    let Some(report) = report.filter(|report| report.complete) else {
        return Some(match &terms.runner {
            Some(runner) => {
                format!("{runner} has to say what each test did, and there is no whole report of it")
            }
            None => "tests are expected by name, and there is no whole report of them".to_owned(),
        });
    };
    // What the change brings has no name on the base.
    if terms.expect == Expect::New {
        return None;
    }
    let missing: Vec<&String> =
        terms.ids.iter().filter(|id| !report.cases.iter().any(|case| case.id == **id)).collect();
    let first = missing.first()?;
    Some(format!(
        "{} of {} tests that are expected by name are not there, the first is `{}`",
        missing.len(),
        terms.ids.len(),
        crate::feedback::short(first)
    ))
}

/// Which of the tests that are named did not pass; None when all did.
#[must_use]
pub fn expected_passed(terms: &CheckTerms, report: Option<&Report>) -> Option<String> {
    let passed = |id: &str| {
        report.is_some_and(|report| {
            report.cases.iter().any(|case| case.id == id && case.status == TestStatus::Passed)
        })
    };
    let missing: Vec<&String> = terms.ids.iter().filter(|id| !passed(id)).collect();
    let first = missing.first()?;
    Some(format!(
        "{} of {} tests that are expected by name did not pass, the first is `{}`",
        missing.len(),
        terms.ids.len(),
        crate::feedback::short(first)
    ))
}
