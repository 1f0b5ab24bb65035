//! Reads the reports of test runners that worked inside a room.
//!
//! A report is written by a process that ran the code under test, so it is read as hostile: a size limit, no recursion,
//! no document types, no entities beyond the five of XML. A report that is not fully understood gives no cases at all:
//! half a report must not look like a small one. One that was cut keeps what it says and is not `complete`.

use std::collections::BTreeMap;

use crate::protocol::{Report, ReportFormat, TestCase, TestStatus};

mod cargo_test;
mod go_test;
mod junit;
mod lines;

/// A larger report gives no cases.
pub const MAX_REPORT: usize = 64 * 1024 * 1024;

/// More cases than this give none.
pub const MAX_CASES: usize = 200_000;

/// A test's id in bytes at most.
const MAX_ID: usize = 4096;

/// What a report says. Bytes that are not of `format`, or break a limit, say nothing.
#[must_use]
pub fn read(bytes: &[u8], format: ReportFormat) -> Report {
    if bytes.len() > MAX_REPORT {
        return Report::default();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return Report::default() };
    let report = match format {
        ReportFormat::Lines => lines::read(text),
        ReportFormat::JunitXml => junit::read(text),
        // Made of several files.
        ReportFormat::CargoTest | ReportFormat::GoTest => None,
    };
    report.unwrap_or_default()
}

/// What the files of one directory say together, each by its name. `None` for a file that could not be read whole.
#[must_use]
pub fn read_files(files: &BTreeMap<String, Option<Vec<u8>>>, format: ReportFormat) -> Report {
    let report = match format {
        ReportFormat::CargoTest => cargo_test::read(files),
        ReportFormat::GoTest => go_test::read(files),
        ReportFormat::Lines | ReportFormat::JunitXml => None,
    };
    report.unwrap_or_default()
}

/// A report as it is read. A test that is named more than once has the worst of its results.
#[derive(Debug, Default)]
struct Draft {
    report: Report,
    known: BTreeMap<String, usize>,
}

impl Draft {
    /// None: a limit is broken.
    fn case(&mut self, id: String, status: TestStatus) -> Option<()> {
        fits(&id)?;
        match self.known.get(&id).and_then(|at| self.report.cases.get_mut(*at)) {
            Some(case) => case.status = case.status.max(status),
            None => {
                self.known.insert(id.clone(), self.report.cases.len());
                self.report.cases.push(TestCase { id, status });
            }
        }
        (self.report.cases.len() <= MAX_CASES).then_some(())
    }

    /// What came of the canaries of test programs, by program. Where any program has one, each that has a result of a test
    /// must show its own: what one shows says nothing of another.
    fn canaries(&mut self, programs: Vec<Program>) {
        if !programs.iter().any(|program| program.canary.is_some()) {
            return;
        }
        // A program may be started several times, for one test each.
        let mut worst: BTreeMap<String, TestStatus> = BTreeMap::new();
        for program in programs.into_iter().filter(|program| program.has_results) {
            let status = program.shown.unwrap_or(TestStatus::Error);
            let known = worst.entry(program.name).or_insert(TestStatus::Failed);
            *known = match (*known, status) {
                (TestStatus::Passed | TestStatus::Skipped, _) => *known,
                (_, TestStatus::Failed) => *known,
                (_, status) => status,
            };
        }
        self.report.canaries = worst.into_iter().map(|(id, status)| TestCase { id, status }).collect();
    }

    fn len(&self) -> usize {
        self.report.cases.len()
    }

    /// The report was understood to its end.
    fn complete(mut self) -> Option<Report> {
        self.report.begun = true;
        self.report.complete = true;
        Some(self.report)
    }
}

/// A test program that was started, as far as its canary goes.
#[derive(Debug, Default)]
struct Program {
    name: String,
    /// The canary's name. None: none was compiled in.
    canary: Option<String>,
    /// A test that is not the canary has a result.
    has_results: bool,
    /// What the harness said of the canary. None: nothing.
    shown: Option<TestStatus>,
}

impl Program {
    /// From what a script of ours wrote when it started one: its name, and on a line of its own the canary's.
    fn begun(begin: &[u8]) -> Self {
        let text = String::from_utf8_lossy(begin);
        let mut lines = text.lines();
        let name = lines.next().unwrap_or_default().trim_end().to_owned();
        let canary = lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
        Self { name, canary, ..Self::default() }
    }

    fn shows(&mut self, status: TestStatus) {
        let kind = |status| matches!(status, TestStatus::Failed | TestStatus::Error);
        // One that did not fail is not made good by another that did.
        if self.shown.is_none_or(kind) {
            self.shown = Some(status);
        }
    }
}

fn fits(id: &str) -> Option<()> {
    (!id.is_empty() && id.len() <= MAX_ID).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(report: &Report) -> Vec<String> {
        report.cases.iter().map(|case| format!("{} {:?}", case.id, case.status)).collect()
    }

    fn nothing(bytes: &[u8], format: ReportFormat) -> bool {
        let report = read(bytes, format);
        !report.complete && report.cases.is_empty()
    }

    #[test]
    fn a_junit_report_gives_every_case_with_its_status() {
        let report = br#"<?xml version="1.0" encoding="utf-8"?>
<!-- <testcase name="in a comment"/> -->
<testsuites><testsuite name="pytest" tests="4">
  <testcase classname="tests.test_a" name="test_ok[a&lt;b&#10;c]" time="0.1" />
  <testcase classname="tests.test_a" name='bad'><failure message="&quot;x&quot;">text &lt; <![CDATA[</testcase>]]></failure></testcase>
  <testcase classname="tests.test_a" name="skip"><skipped/><system-out>2 passed</system-out></testcase>
  <testcase file="t.py" classname="t" name="teardown"><failure/><error/></testcase>
</testsuite></testsuites>"#;
        let expected = [
            "tests.test_a::test_ok[a<b\nc] Passed",
            "tests.test_a::bad Failed",
            "tests.test_a::skip Skipped",
            "t.py::t::teardown Error",
        ];
        assert_eq!(shown(&read(report, ReportFormat::JunitXml)), expected);
    }

    #[test]
    fn a_report_that_is_not_fully_understood_gives_nothing() {
        let ok = "<testsuite><testcase name=\"a\"/></testsuite>";
        assert_eq!(read(ok.as_bytes(), ReportFormat::JunitXml).cases.len(), 1);
        for bad in [
            "",
            "<testsuite>",
            "<testcase name=\"a\"/>",
            "<testsuite><testcase name=\"a\"></testsuite></testcase>",
            "<testsuite><testcase/></testsuite>",
            "<!DOCTYPE x [<!ENTITY a \"b\">]><testsuite><testcase name=\"a\"/></testsuite>",
            "<testsuite><testcase name=\"&a;\"/></testsuite>",
            "<testsuite><testcase name=\"a\" name=\"b\"/></testsuite>",
            "<testsuite><testcase name=a/></testsuite>",
            "<testsuite><testcase name=\"a\"/></testsuite><testsuite/>",
            "<testsuite><testcase name=\"a\"/></testsuite",
        ] {
            assert!(nothing(bad.as_bytes(), ReportFormat::JunitXml), "{bad}");
        }
        let deep = format!("<testsuite>{}", "<a>".repeat(100_000));
        assert!(nothing(deep.as_bytes(), ReportFormat::JunitXml));
        assert!(nothing(b"\xff", ReportFormat::JunitXml));
    }

    #[test]
    fn the_worst_result_of_a_test_stands_and_a_strange_line_voids_the_report() {
        let lines = "{\"begin\":\"pytest\",\"version\":\"8\"}\n{\"id\":\"a\",\"status\":\"passed\"}\n\
                     {\"id\":\"a\",\"status\":\"error\"}\n{\"id\":\"b\",\"status\":\"skipped\"}\n\
                     {\"id\":\"b\",\"status\":\"passed\"}\n{\"collector\":\"c.py\"}\n\
                     {\"canary\":\"function\",\"status\":\"failed\"}\n";
        let whole = format!("{lines}{{\"end\":1}}\n");
        let report = read(whole.as_bytes(), ReportFormat::Lines);
        assert_eq!(shown(&report), ["a Error", "b Skipped"]);
        assert!(report.begun && report.complete);
        assert_eq!(report.broken, ["c.py"]);
        assert_eq!(report.canaries.first().map(|canary| canary.status), Some(TestStatus::Failed));
        for bad in [
            "2 passed",
            "{\"id\":\"\",\"status\":\"passed\"}",
            "{\"id\":\"a\",\"status\":\"ok\"}",
            "{\"id\":\"a\"}",
            "{\"status\":\"passed\"}",
            "{\"id\":\"a\",\"canary\":\"b\",\"status\":\"passed\"}",
            "{\"id\":\"a\",\"status\":\"passed\",\"more\":1}",
        ] {
            assert!(
                nothing(format!("{lines}{bad}\n{{\"end\":0}}\n").as_bytes(), ReportFormat::Lines),
                "{bad}"
            );
        }
        assert!(nothing(
            format!("{whole}{{\"id\":\"d\",\"status\":\"passed\"}}\n").as_bytes(),
            ReportFormat::Lines
        ));
        assert!(
            nothing(b"{\"id\":\"a\",\"status\":\"passed\"}\n{\"end\":0}\n", ReportFormat::Lines),
            "no beginning"
        );
    }

    #[test]
    fn a_report_that_was_cut_keeps_what_it_says_and_is_not_complete() {
        let whole =
            "{\"begin\":\"pytest\",\"version\":\"8\"}\n{\"id\":\"a\",\"status\":\"passed\"}\n{\"end\":0}\n";
        for cut in 0..whole.len() {
            let report = read(&whole.as_bytes()[..cut], ReportFormat::Lines);
            assert!(!report.complete, "{cut}");
            assert_eq!(report.cases.len(), usize::from(cut >= whole.find("{\"end").unwrap()), "{cut}");
        }
        assert!(read(whole.as_bytes(), ReportFormat::Lines).complete);
    }

    fn escaped(text: &str) -> String {
        text.chars().map(|c| format!("&#{};", u32::from(c))).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, ReportFormat::JunitXml);
            let _ = read(&bytes, ReportFormat::Lines);
        }

        #[test]
        fn any_soup_of_tags_is_read_without_a_panic(
            parts in proptest::collection::vec(
                prop_oneof!["</?(testsuite|testcase|failure)", " name=\"[a&;#x<é]{0,6}\"", "/?>", "<!--", "-->", "<!\\[CDATA\\[", "é"],
                0..40,
            )
        ) {
            let _ = read(parts.concat().as_bytes(), ReportFormat::JunitXml);
        }

        #[test]
        fn every_name_reads_back(name in "[^\0]{1,30}") {
            let report = format!("<testsuite><testcase name=\"{}\"/></testsuite>", escaped(&name));
            let report = read(report.as_bytes(), ReportFormat::JunitXml);
            prop_assert_eq!(report.cases.first().map(|case| case.id.clone()), Some(name));
        }
    }
}
