//! Compares tests by their ids: what the base showed against what the final tree shows.

use std::collections::{BTreeMap, BTreeSet};

use countersign_guest::protocol::{Report, TestStatus};
use serde::{Deserialize, Serialize};

use crate::adapters::Canary;

/// What the tests of the base did, one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseIds {
    /// These must pass on the final tree.
    pub failed: BTreeSet<String>,
    /// These must still pass.
    pub passed: BTreeSet<String>,
    /// Files or groups that could not be read as tests; at least one test of each must pass.
    #[serde(default)]
    pub broken: BTreeSet<String>,
    /// Tests that did not always do the same: nothing is expected of them.
    #[serde(default)]
    pub flaky: BTreeSet<String>,
    pub canary: Canary,
    /// Those that failed, as they must: each must again on the final tree.
    #[serde(default)]
    pub canaries: BTreeSet<String>,
}

/// The final tree against the base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    pub expected: u64,
    pub passed: u64,
    /// Expected, and not in the report.
    pub missing: Vec<String>,
    /// Expected, and reported as something else than a pass.
    pub red: Vec<(String, TestStatus)>,
    /// Files that could not be read on the base and of which no test passed.
    pub unread: Vec<String>,
    /// Reported as failed and not expected.
    pub others: Vec<String>,
}

impl BaseIds {
    /// None: the report is not complete, so that nothing follows from what is not in it.
    #[must_use]
    pub fn of(report: &Report) -> Option<Self> {
        if !report.complete {
            return None;
        }
        let with = |wanted: fn(TestStatus) -> bool| {
            report.cases.iter().filter(|case| wanted(case.status)).map(|case| case.id.clone()).collect()
        };
        Some(Self {
            failed: with(is_red),
            passed: with(|status| status == TestStatus::Passed),
            broken: report.broken.iter().cloned().collect(),
            flaky: BTreeSet::new(),
            canary: Canary::of(report),
            canaries: Canary::seen(report),
        })
    }

    #[must_use]
    pub fn compare(&self, report: &Report) -> Compared {
        let seen: BTreeMap<&str, TestStatus> =
            report.cases.iter().map(|case| (case.id.as_str(), case.status)).collect();
        let mut compared = Compared::default();
        // What was broken is what the task is about: it is named first.
        for id in self.failed.iter().chain(&self.passed) {
            compared.expected += 1;
            match seen.get(id.as_str()) {
                Some(TestStatus::Passed) => compared.passed += 1,
                Some(status) => compared.red.push((id.clone(), *status)),
                None => compared.missing.push(id.clone()),
            }
        }
        let passes_below = |file: &str| {
            report.cases.iter().any(|case| case.status == TestStatus::Passed && is_below(&case.id, file))
        };
        compared.unread = self.broken.iter().filter(|file| !passes_below(file)).cloned().collect();
        let expected =
            |id: &str| self.failed.contains(id) || self.passed.contains(id) || self.flaky.contains(id);
        compared.others = report
            .cases
            .iter()
            .filter(|c| is_red(c.status) && !expected(&c.id))
            .map(|c| c.id.clone())
            .collect();
        compared
    }
}

impl Compared {
    /// Nothing is missed of these.
    #[must_use]
    pub fn without(mut self, gone: &BTreeSet<String>) -> Self {
        let before = self.missing.len() as u64;
        self.missing.retain(|id| !gone.contains(id));
        self.expected -= before - self.missing.len() as u64;
        self
    }

    /// Every expected test ran and passed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.passed == self.expected && self.unread.is_empty()
    }

    /// What is wrong, with the first name. None when everything holds. Names are hostile text, cut and on one line.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let first = |id: &str| format!("`{}`", crate::feedback::short(id));
        let mut parts = Vec::new();
        if let Some((id, status)) = self.red.first() {
            let way = match status {
                TestStatus::Skipped => "was skipped",
                TestStatus::Error => "could not be run",
                TestStatus::Failed | TestStatus::Passed => "failed",
            };
            parts.push(format!(
                "{} of {} expected tests did not pass, the first, {}, {way}",
                self.red.len(),
                self.expected,
                first(id)
            ));
        }
        if let Some(id) = self.missing.first() {
            parts.push(format!(
                "{} of {} expected tests have no result, the first is {}",
                self.missing.len(),
                self.expected,
                first(id)
            ));
        }
        if let Some(file) = self.unread.first() {
            parts.push(format!("no test of {} passed, which could not be read on the base", first(file)));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Did any test run to a result?
pub(crate) fn any_ran(report: &Report) -> bool {
    report.cases.iter().any(|case| case.status != TestStatus::Skipped)
}

pub(crate) const fn is_red(status: TestStatus) -> bool {
    matches!(status, TestStatus::Failed | TestStatus::Error)
}

/// Is the test one of a file's or a group's, as runners write it?
pub(crate) fn is_below(id: &str, file: &str) -> bool {
    id.strip_prefix(file).is_some_and(|rest| {
        rest.is_empty() || rest.starts_with("::") || rest.starts_with('.') || rest.starts_with(" > ")
    })
}
