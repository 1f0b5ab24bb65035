//! What the tests said: counts from the runner's JUnit file, and every skip by name.

use std::collections::BTreeSet;

/// The line that a test prints when it cannot run here: `SKIPPED: <test name>: <why>`.
pub const SKIP_PREFIX: &str = "SKIPPED: ";

/// The counts of a whole test run. A skip is neither a pass nor a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub run: usize,
    pub failed: usize,
    /// `name: why`, each once.
    pub skips: BTreeSet<String>,
}

impl Report {
    /// Tests that ran, did not fail and did not say that they were skipped.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.run.saturating_sub(self.failed).saturating_sub(self.skipped())
    }

    /// Distinct names that said they were skipped.
    #[must_use]
    pub fn skipped(&self) -> usize {
        let names: BTreeSet<&str> = self
            .skips
            .iter()
            .map(|skip| skip.split_once(": ").map_or(skip.as_str(), |(name, _)| name))
            .collect();
        names.len()
    }

    /// Adds the skip lines of any text.
    pub fn add_skips(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((_, skip)) = line.split_once(SKIP_PREFIX)
                && !skip.trim().is_empty()
            {
                self.skips.insert(skip.trim().to_owned());
            }
        }
    }

    /// Adds a JUnit file of nextest, which holds the output of passing tests too.
    pub fn add_junit(&mut self, xml: &str) {
        for case in xml.split("<testcase ").skip(1) {
            self.run += 1;
            if case.contains("<failure") || case.contains("<error") {
                self.failed += 1;
            }
        }
        self.add_skips(&unescape(xml));
    }

    /// Adds the `test result:` lines of libtest, as doc tests print them.
    pub fn add_libtest(&mut self, text: &str) {
        for line in text.lines().filter(|line| line.starts_with("test result: ")) {
            let count = |word: &str| -> usize {
                line.split([';', '.'])
                    .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
                    .unwrap_or(0)
            };
            self.failed += count("failed");
            self.run += count("passed") + count("failed");
        }
    }

    /// The last line of a test run.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed(), self.failed, self.skipped())
    }
}

fn unescape(xml: &str) -> String {
    xml.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNIT: &str = r#"<?xml version="1.0"?><testsuites tests="3"><testsuite name="a">
        <testcase name="good" classname="a" time="0.1"><system-err>noise</system-err></testcase>
        <testcase name="bad" classname="a"><failure type="test failure">boom</failure></testcase>
        <testcase name="away" classname="a"><system-err>
SKIPPED: away: no user namespaces &amp; no root
        </system-err></testcase></testsuite></testsuites>"#;

    #[test]
    fn a_skip_is_no_pass() {
        let mut report = Report::default();
        report.add_junit(JUNIT);
        report.add_skips("SKIPPED: away: no user namespaces & no root\nSKIPPED: away: again\nnothing\n");
        assert_eq!(report.summary(), "1 passed, 1 failed, 1 skipped");
        assert!(report.skips.contains("away: no user namespaces & no root"));
    }

    #[test]
    fn doc_tests_count() {
        let mut report = Report::default();
        report.add_libtest(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        assert_eq!(report.summary(), "4 passed, 2 failed, 0 skipped");
    }
}
