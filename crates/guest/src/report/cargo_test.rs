//! What our scripts for `cargo test` leave: for each test program a `begin`, a `log` by Rust's harness, and an `end`.

use std::collections::BTreeMap;

use super::{Draft, Program};
use crate::protocol::{Report, TestStatus};

/// The item of an example, its line and its result.
type Example = (String, u64, TestStatus);

/// None: a line that no harness writes. A program without an `end` leaves the report incomplete.
pub(super) fn read(files: &BTreeMap<String, Option<Vec<u8>>>) -> Option<Report> {
    let mut draft = Draft::default();
    draft.report.begun = !files.is_empty();
    let mut ended = true;
    let mut examples: Vec<(String, Vec<Example>)> = Vec::new();
    let mut programs = Vec::new();
    for (name, begin) in files {
        let Some(number) = name.strip_suffix(".begin") else { continue };
        let mut program = Program::begun(begin.as_deref()?);
        ended &= files.contains_key(&format!("{number}.end"));
        let Some(log) = files.get(&format!("{number}.log")) else { continue };
        let log = String::from_utf8_lossy(log.as_deref()?);
        let target = program.name.clone();
        // An example is a program of its own, into which nothing is put.
        let documentation = target.starts_with("doc/");
        let mut found = Vec::new();
        for (status, test) in entries(&log)? {
            if program.canary.as_deref() == Some(test) {
                program.shows(status);
                continue;
            }
            program.has_results |= !documentation;
            match Some(test).filter(|_| documentation).and_then(example) {
                Some((item, line)) => found.push((item.to_owned(), line, status)),
                None => draft.case(format!("{target} {test}"), status)?,
            }
        }
        // The harness ends with 101 where a test failed. Whatever ended it with something else had no part in that.
        let end = files.get(&format!("{number}.end")).and_then(Option::as_deref).unwrap_or_default();
        if program.shown == Some(TestStatus::Failed) && end.trim_ascii() != b"101" {
            program.shown = Some(TestStatus::Error);
        }
        programs.push(program);
        examples.push((target, found));
    }
    draft.canaries(programs);
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

    const CANARY: &str = "zz_countersign_0f::canary";

    /// Programs by what they log; `!` in front: none was compiled in.
    fn canaries(programs: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let mut files = Vec::new();
        for (number, (target, log)) in programs.iter().enumerate() {
            let begin = match target.strip_prefix('!') {
                Some(target) => format!("{target}\n"),
                None => format!("{target}\n{CANARY}\n"),
            };
            files.push((format!("{number}.begin"), begin));
            files.push((format!("{number}.log"), log.replace("CANARY", CANARY).replace("EXIT", "")));
            let end = if log.contains("EXIT") { "0\n" } else { "101\n" };
            files.push((format!("{number}.end"), end.to_owned()));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let report = read_of(&files);
        assert!(report.complete);
        let shown = |cases: &[crate::protocol::TestCase]| -> Vec<String> {
            cases.iter().map(|case| format!("{} {:?}", case.id, case.status)).collect()
        };
        (shown(&report.canaries), shown(&report.cases))
    }

    #[test]
    fn the_canary_is_no_test_and_each_program_with_results_must_show_its_own() {
        let both = [("rt/rt", "ok a\nfailed CANARY\n"), ("rt/it", "failed CANARY\nok b\n")];
        let (seen, cases) = canaries(&both);
        assert_eq!(seen, ["rt/it Failed", "rt/rt Failed"]);
        assert_eq!(cases, ["rt/rt a Passed", "rt/it b Passed"], "it is never an id");
        // The results of a program were written by something that did not run its tests to the end.
        assert_eq!(canaries(&[both[0], ("rt/it", "ok b\n")]).0, ["rt/it Error", "rt/rt Failed"]);
        assert_eq!(canaries(&[both[0], ("!rt/it", "ok b\n")]).0, ["rt/it Error", "rt/rt Failed"]);
        // The canary had its turn, and then something ended the program as if nothing had failed.
        let ended = ("rt/it", "failed CANARY\nok b\nEXIT");
        assert_eq!(canaries(&[both[0], ended]).0, ["rt/it Error", "rt/rt Failed"]);
        // Assertions that hold whatever they say.
        assert_eq!(canaries(&[both[0], ("rt/it", "ok CANARY\nok b\n")]).0, ["rt/it Passed", "rt/rt Failed"]);
    }

    #[test]
    fn a_program_without_a_test_has_nothing_to_show_and_one_that_is_started_twice_must_show_it_twice() {
        assert_eq!(canaries(&[("rt/rt", "failed CANARY\n")]).0, [""; 0]);
        assert_eq!(canaries(&[("rt/rt", "")]).0, [""; 0]);
        let doc = ("!doc/rt", "ok src/lib.rs - answer (line 9)\n");
        assert_eq!(canaries(&[("rt/rt", "ok a\nfailed CANARY\n"), doc]).0, ["rt/rt Failed"]);
        assert_eq!(canaries(&[doc, ("!rt/rt", "ok a\n")]).0, [""; 0], "no program has one");
        // nextest: each test in a process of its own.
        let processes = [("rt/rt", "ok a\nfailed CANARY\n"), ("rt/rt", "failed CANARY\nok b\n")];
        assert_eq!(canaries(&processes).0, ["rt/rt Failed"]);
        assert_eq!(canaries(&[processes[0], ("rt/rt", "ok b\n")]).0, ["rt/rt Error"]);
        assert_eq!(canaries(&[("rt/rt", "ok b\n"), processes[0]]).0, ["rt/rt Error"]);
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
