//! What our scripts for `cargo test` leave: for each test program a `begin`, a `log` by Rust's harness, and an `end`.

use std::collections::BTreeMap;

use super::Draft;
use crate::protocol::{Report, TestStatus};

/// The item of an example, its line and its result.
type Example = (String, u64, TestStatus);

/// None: a line that no harness writes. A program without an `end` leaves the report incomplete.
pub(super) fn read(files: &BTreeMap<String, Option<Vec<u8>>>) -> Option<Report> {
    let mut draft = Draft::default();
    draft.report.begun = !files.is_empty();
    let mut ended = true;
    let mut examples: Vec<(String, Vec<Example>)> = Vec::new();
    for (name, begin) in files {
        let Some(number) = name.strip_suffix(".begin") else { continue };
        let target = std::str::from_utf8(begin.as_deref()?).ok()?.trim_end();
        ended &= files.contains_key(&format!("{number}.end"));
        let Some(log) = files.get(&format!("{number}.log")) else { continue };
        let log = String::from_utf8_lossy(log.as_deref()?);
        let mut found = Vec::new();
        for (status, test) in entries(&log)? {
            match target.strip_prefix("doc/").and_then(|_| example(test)) {
                Some((item, line)) => found.push((item.to_owned(), line, status)),
                None => draft.case(format!("{target} {test}"), status)?,
            }
        }
        examples.push((target.to_owned(), found));
    }
    for (target, mut found) in examples {
        // Lines move with any change above them: an example is known by its item and its place among the item's.
        found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let mut number = 0_u32;
        let mut before: Option<&str> = None;
        for (item, _, status) in &found {
            number = if before == Some(item.as_str()) { number.saturating_add(1) } else { 1 };
            before = Some(item);
            draft.case(format!("{target} {item} #{number}"), *status)?;
        }
    }
    if ended { draft.complete() } else { Some(draft.report) }
}

/// `STATUS NAME` for each test; `STATUS: MESSAGE NAME` where the harness has something to say, which may be lines long.
/// A name is one word then. None: the text begins with something else.
fn entries(log: &str) -> Option<Vec<(TestStatus, &str)>> {
    const WORDS: &[(&str, TestStatus)] =
        &[("ok", TestStatus::Passed), ("failed", TestStatus::Failed), ("ignored", TestStatus::Skipped)];
    let mut found: Vec<(TestStatus, &str)> = Vec::new();
    for line in log.lines() {
        let begins = WORDS.iter().find_map(|(word, status)| Some((*status, line.strip_prefix(word)?)));
        let last_word = || line.rsplit(' ').next().unwrap_or(line);
        match (begins, found.last_mut()) {
            (Some((status, rest)), _) if rest.starts_with(' ') && !rest.starts_with(" (") => {
                found.push((status, rest.get(1..)?));
            }
            (Some((status, rest)), _) if rest.starts_with([':', ' ']) => found.push((status, last_word())),
            (_, Some((_, name))) => *name = last_word(),
            (_, None) => return None,
        }
    }
    Some(found)
}

/// `src/lib.rs - item (line 3)`, with what may stand behind it (` - compile`): the item and the line.
fn example(test: &str) -> Option<(&str, u64)> {
    let (item, rest) = test.rsplit_once(" (line ")?;
    let (line, _) = rest.split_once(')')?;
    Some((item, line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::read_files;
    use super::*;
    use crate::protocol::{ReportFormat, TestStatus};

    fn read_of(files: &[(&str, &str)]) -> Report {
        let files =
            files.iter().map(|(name, text)| ((*name).to_owned(), Some(text.as_bytes().to_vec()))).collect();
        read_files(&files, ReportFormat::CargoTest)
    }

    #[test]
    fn each_program_has_its_own_tests_and_examples_survive_moved_lines() {
        let report = read_of(&[
            ("7.begin", "rt/rt\n"),
            ("7.log", "ok tests::a\nfailed tests::b\nignored tests::c\n"),
            ("7.end", "101\n"),
            ("8.begin", "rt/it\n"),
            ("8.log", "ok tests::a\n"),
            ("8.end", "0\n"),
            ("9.begin", "doc/rt\n"),
            (
                "9.log",
                "failed src/lib.rs - answer (line 10)\nok src/lib.rs - answer (line 9)\nok src/lib.rs - (line 1) - compile\n",
            ),
            ("9.end", "101\n"),
        ]);
        assert!(report.complete);
        let shown: Vec<String> =
            report.cases.iter().map(|case| format!("{} {:?}", case.id, case.status)).collect();
        assert_eq!(
            shown,
            [
                "rt/rt tests::a Passed",
                "rt/rt tests::b Failed",
                "rt/rt tests::c Skipped",
                "rt/it tests::a Passed",
                "doc/rt src/lib.rs - #1 Passed",
                "doc/rt src/lib.rs - answer #1 Passed",
                "doc/rt src/lib.rs - answer #2 Failed"
            ]
        );
    }

    #[test]
    fn what_the_harness_says_beside_a_result_is_no_name() {
        let log = "failed: note: panic did not contain expected string\n      panic message: `\"ok b\"`,\n expected substring: `x` tests::a\n\
                   failed (time limit exceeded) tests::slow\nignored: not yet tests::c\nok tests::d\n";
        let shown: Vec<String> =
            entries(log).unwrap().iter().map(|(status, name)| format!("{name} {status:?}")).collect();
        assert_eq!(shown, ["tests::a Failed", "tests::slow Failed", "tests::c Skipped", "tests::d Passed"]);
    }

    #[test]
    fn a_program_that_was_killed_leaves_the_report_open() {
        let report = read_of(&[("7.begin", "rt/rt\n"), ("7.log", "ok a\n")]);
        assert!(report.begun && !report.complete);
        assert_eq!(report.cases.first().map(|case| case.status), Some(TestStatus::Passed));
        // It ended itself: what has no result shows in the comparison.
        assert!(read_of(&[("7.begin", "rt/rt\n"), ("7.log", "ok a\n"), ("7.end", "0\n")]).complete);
        assert!(read_of(&[]).complete, "no test program was started");
        assert!(!read_of(&[("7.begin", "rt/rt\n"), ("7.log", "test a ... ok\n"), ("7.end", "0\n")]).begun);
    }
}
