//! Tests of a run that decided, by name and result, as they stand in evidence.

use countersign_guest::protocol::{Report, TestStatus};
use countersign_redact::Redactor;
use serde::{Deserialize, Serialize};

/// Names that are kept of one run. The rest is counted.
const MAX_NAMES: usize = 5000;

/// Characters of one name.
const MAX_NAME: usize = 300;

/// What a runner reported, test by test. The names are the code's under test, so they are redacted and cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestNames {
    pub passed: Vec<String>,
    pub failed: Vec<String>,
    pub skipped: Vec<String>,
    /// Tests that ran and are not named.
    pub more: u64,
}

impl TestNames {
    /// None: no report that is whole.
    pub(crate) fn of(report: &Report, redactor: &Redactor) -> Option<Self> {
        if !report.complete {
            return None;
        }
        let mut names = Self { more: report.cases.len().saturating_sub(MAX_NAMES) as u64, ..Self::default() };
        for case in report.cases.iter().take(MAX_NAMES) {
            let name = countersign_tools::one_line(&redactor.redact_str(&case.id), MAX_NAME);
            match case.status {
                TestStatus::Passed => names.passed.push(name),
                TestStatus::Failed | TestStatus::Error => names.failed.push(name),
                TestStatus::Skipped => names.skipped.push(name),
            }
        }
        for list in [&mut names.passed, &mut names.failed, &mut names.skipped] {
            list.sort();
            list.dedup();
        }
        Some(names)
    }
}
