//! Reads the reports that test runners write inside a room.
//!
//! A report is written by a process that ran the code under test, so it is read as hostile: a size limit, no recursion,
//! no document types, no entities beyond the five of XML. A report that is not fully understood gives no cases at all:
//! half a report must not look like a small one.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::protocol::{ReportFormat, TestCase, TestStatus};

/// A larger report gives no cases.
pub const MAX_REPORT: usize = 64 * 1024 * 1024;

/// More cases than this give none.
pub const MAX_CASES: usize = 200_000;

/// A test's id in bytes at most.
const MAX_ID: usize = 4096;

/// Elements inside elements at most; JUnit needs five.
const MAX_DEPTH: usize = 32;

/// The test cases of one report, in its order. Bytes that are not of `format`, or break a limit, give none.
#[must_use]
pub fn read(bytes: &[u8], format: ReportFormat) -> Vec<TestCase> {
    if bytes.len() > MAX_REPORT {
        return Vec::new();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    let cases = match format {
        ReportFormat::PytestLines => pytest_lines(text),
        ReportFormat::JunitXml => junit(text),
    };
    cases.filter(|cases| cases.len() <= MAX_CASES).unwrap_or_default()
}

/// One line of our pytest plug-in: the outcome of one phase of one test.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PytestLine {
    id: String,
    status: TestStatus,
}

/// Several lines of one test (set-up, call, tear-down) are joined: the worst stands.
fn pytest_lines(text: &str) -> Option<Vec<TestCase>> {
    let mut cases: Vec<TestCase> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.split('\n').filter(|line| !line.trim().is_empty()) {
        let line: PytestLine = serde_json::from_str(line).ok()?;
        if line.id.is_empty() || line.id.len() > MAX_ID {
            return None;
        }
        match known.get(&line.id) {
            Some(at) => {
                let case = &mut cases[*at];
                if badness(line.status) > badness(case.status) {
                    case.status = line.status;
                }
            }
            None => {
                known.insert(line.id.clone(), cases.len());
                cases.push(TestCase { id: line.id, status: line.status });
            }
        }
    }
    Some(cases)
}

/// A skip hides a pass, a failure hides both.
fn badness(status: TestStatus) -> u8 {
    match status {
        TestStatus::Passed => 0,
        TestStatus::Skipped => 1,
        TestStatus::Failed => 2,
        TestStatus::Error => 3,
    }
}

// ---- JUnit XML

#[derive(Debug, PartialEq, Eq)]
enum Event<'a> {
    Start { name: &'a str, attributes: Vec<(&'a str, String)>, is_empty: bool },
    End { name: &'a str },
    Finished,
}

/// A pull parser for the part of XML that JUnit reports need.
struct Xml<'a> {
    rest: &'a str,
}

impl<'a> Xml<'a> {
    /// The next tag. Text, comments, CDATA and processing instructions are stepped over; a document type is refused.
    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            let Some(at) = self.rest.find('<') else {
                return Some(Event::Finished);
            };
            self.rest = &self.rest[at..];
            if let Some(body) = self.rest.strip_prefix("<!--") {
                self.rest = &body[body.find("-->")? + 3..];
            } else if let Some(body) = self.rest.strip_prefix("<![CDATA[") {
                self.rest = &body[body.find("]]>")? + 3..];
            } else if let Some(body) = self.rest.strip_prefix("<?") {
                self.rest = &body[body.find("?>")? + 2..];
            } else if self.rest.starts_with("<!") {
                return None;
            } else if let Some(body) = self.rest.strip_prefix("</") {
                let end = body.find('>')?;
                let name = body[..end].trim_end();
                self.rest = &body[end + 1..];
                return is_name(name).then_some(Event::End { name });
            } else {
                return self.start();
            }
        }
    }

    fn start(&mut self) -> Option<Event<'a>> {
        let body = &self.rest[1..];
        let name_end = body.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/')?;
        let name = &body[..name_end];
        if !is_name(name) {
            return None;
        }
        let mut attributes = Vec::new();
        let mut rest = &body[name_end..];
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("/>") {
                self.rest = after;
                return Some(Event::Start { name, attributes, is_empty: true });
            }
            if let Some(after) = rest.strip_prefix('>') {
                self.rest = after;
                return Some(Event::Start { name, attributes, is_empty: false });
            }
            let equals = rest.find('=')?;
            let key = rest[..equals].trim_end();
            if !is_name(key) || attributes.iter().any(|(known, _)| *known == key) || attributes.len() >= 64 {
                return None;
            }
            rest = rest[equals + 1..].trim_start();
            let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let value_end = rest[1..].find(quote)? + 1;
            attributes.push((key, unescape(&rest[1..value_end])?));
            rest = &rest[value_end + 1..];
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
}

/// The five entities and character references; anything else is refused.
fn unescape(text: &str) -> Option<String> {
    if text.contains('<') {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        // The longest reference that can be meant is `&#x10FFFF;`.
        let window = rest[at..].char_indices().nth(12).map_or(&rest[at..], |(end, _)| &rest[at..at + end]);
        let end = window.find(';')?;
        let name = &window[1..end];
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

fn junit(text: &str) -> Option<Vec<TestCase>> {
    let mut xml = Xml { rest: text.strip_prefix('\u{feff}').unwrap_or(text) };
    let mut open: Vec<&str> = Vec::new();
    let mut cases: Vec<TestCase> = Vec::new();
    // The case whose element is open.
    let mut current: Option<TestCase> = None;
    let mut seen_root = false;
    loop {
        match xml.next()? {
            Event::Finished if open.is_empty() && seen_root => return Some(cases),
            Event::Finished => return None,
            Event::Start { name, attributes, is_empty } => {
                if open.is_empty() {
                    if seen_root || !matches!(name, "testsuites" | "testsuite") {
                        return None;
                    }
                    seen_root = true;
                }
                if open.len() >= MAX_DEPTH || cases.len() > MAX_CASES {
                    return None;
                }
                if name == "testcase" {
                    if current.is_some() {
                        return None;
                    }
                    let case = TestCase { id: case_id(&attributes)?, status: TestStatus::Passed };
                    if is_empty { cases.push(case) } else { current = Some(case) }
                } else if let Some(case) = &mut current
                    && open.last() == Some(&"testcase")
                {
                    let status = match name {
                        "failure" => TestStatus::Failed,
                        "error" => TestStatus::Error,
                        "skipped" => TestStatus::Skipped,
                        _ => TestStatus::Passed,
                    };
                    if badness(status) > badness(case.status) {
                        case.status = status;
                    }
                }
                if !is_empty {
                    open.push(name);
                }
            }
            Event::End { name } => {
                if open.pop() != Some(name) {
                    return None;
                }
                if name == "testcase" {
                    cases.extend(current.take());
                }
            }
        }
    }
}

/// `file::classname::name`, of which a report may lack the first two.
fn case_id(attributes: &[(&str, String)]) -> Option<String> {
    let get = |key: &str| attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str());
    let name = get("name")?;
    let parts = [get("file"), get("classname"), Some(name)];
    let id = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::");
    (!id.is_empty() && id.len() <= MAX_ID).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(cases: &[TestCase]) -> Vec<String> {
        cases.iter().map(|case| format!("{} {:?}", case.id, case.status)).collect()
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
        assert_eq!(read(ok.as_bytes(), ReportFormat::JunitXml).len(), 1);
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
            assert!(read(bad.as_bytes(), ReportFormat::JunitXml).is_empty(), "{bad}");
        }
        let deep = format!("<testsuite>{}", "<a>".repeat(100_000));
        assert!(read(deep.as_bytes(), ReportFormat::JunitXml).is_empty());
        assert!(read(b"\xff", ReportFormat::JunitXml).is_empty());
    }

    #[test]
    fn the_worst_phase_of_a_test_stands_and_a_strange_line_voids_the_report() {
        let lines = "{\"id\":\"a\",\"status\":\"passed\"}\n{\"id\":\"a\",\"status\":\"error\"}\n{\"id\":\"b\",\"status\":\"skipped\"}\n{\"id\":\"b\",\"status\":\"passed\"}\n";
        assert_eq!(shown(&read(lines.as_bytes(), ReportFormat::PytestLines)), ["a Error", "b Skipped"]);
        for bad in ["2 passed", "{\"id\":\"\",\"status\":\"passed\"}", "{\"id\":\"a\",\"status\":\"ok\"}"] {
            assert!(
                read(format!("{lines}{bad}\n").as_bytes(), ReportFormat::PytestLines).is_empty(),
                "{bad}"
            );
        }
    }

    fn escaped(text: &str) -> String {
        text.chars().map(|c| format!("&#{};", u32::from(c))).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, ReportFormat::JunitXml);
            let _ = read(&bytes, ReportFormat::PytestLines);
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
            let cases = read(report.as_bytes(), ReportFormat::JunitXml);
            prop_assert_eq!(cases.first().map(|case| case.id.clone()), Some(name));
        }
    }
}
