//! What our script for `go test` leaves: for each package's test program a `begin` with its directory, a `log` of all that
//! it printed, and an `end`.

use std::collections::BTreeMap;

use super::{Draft, Program};
use crate::protocol::{Report, TestStatus};

/// None: a file that cannot be read. A program without an `end` leaves the report incomplete.
pub(super) fn read(files: &BTreeMap<String, Option<Vec<u8>>>) -> Option<Report> {
    let mut draft = Draft::default();
    draft.report.begun = !files.is_empty();
    let mut ended = true;
    let mut programs = Vec::new();
    for (name, begin) in files {
        let Some(number) = name.strip_suffix(".begin") else { continue };
        let mut program = Program::begun(begin.as_deref()?);
        ended &= files.contains_key(&format!("{number}.end"));
        let Some(log) = files.get(&format!("{number}.log")) else { continue };
        for line in String::from_utf8_lossy(log.as_deref()?).lines() {
            let Some((status, test)) = result(line) else { continue };
            match program.canary.as_deref().and_then(|canary| test.strip_prefix(canary)) {
                // The test that runs it passes, so that nothing but us takes the program for a failed one.
                Some(rest) if rest.contains('/') => program.shows(status),
                Some(_) => {}
                None => {
                    program.has_results = true;
                    draft.case(format!("{} {test}", program.name), status)?;
                }
            }
        }
        programs.push(program);
    }
    draft.canaries(programs);
    if ended { draft.complete() } else { Some(draft.report) }
}

/// `--- PASS: NAME (0.00s)`. What a test prints without an end of line stands in front of it.
fn result(line: &str) -> Option<(TestStatus, &str)> {
    const WORDS: &[(&str, TestStatus)] = &[
        ("--- PASS: ", TestStatus::Passed),
        ("--- FAIL: ", TestStatus::Failed),
        ("--- SKIP: ", TestStatus::Skipped),
    ];
    let (status, rest) = WORDS.iter().find_map(|(word, status)| Some((*status, line.split_once(word)?.1)))?;
    let (test, time) = rest.rsplit_once(" (")?;
    let seconds = time.strip_suffix("s)")?;
    (seconds.parse::<f64>().is_ok() && !test.contains(' ')).then_some((status, test))
}

#[cfg(test)]
mod tests {
    use super::super::read_files;
    use super::*;
    use crate::protocol::ReportFormat;

    fn read_of(files: &[(&str, &str)]) -> Report {
        let files =
            files.iter().map(|(name, text)| ((*name).to_owned(), Some(text.as_bytes().to_vec()))).collect();
        read_files(&files, ReportFormat::GoTest)
    }

    #[test]
    fn tests_and_their_parts_are_read_whatever_is_printed_between() {
        let log = "=== RUN   TestA\n=== RUN   TestA/b#01\nno end of line--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b#01 (1.25s)\n\
                   === RUN   TestS\n--- SKIP: TestS (0.00s)\n--- PASS: TestP (0.00s)\n--- PASS: forged\nFAIL\n";
        let report = read_of(&[("7.begin", "./pkg\n"), ("7.log", log), ("7.end", "1\n")]);
        let shown: Vec<String> = report.cases.iter().map(|c| format!("{} {:?}", c.id, c.status)).collect();
        let expected =
            ["./pkg TestA Failed", "./pkg TestA/b#01 Failed", "./pkg TestS Skipped", "./pkg TestP Passed"];
        assert_eq!(shown, expected);
        assert!(report.complete);
    }

    #[test]
    fn the_canary_is_no_test_and_must_fail_in_each_package() {
        let canaries = |logs: &[&str]| -> Vec<String> {
            let files: Vec<(String, String)> = logs
                .iter()
                .enumerate()
                .flat_map(|(number, log)| {
                    [
                        (format!("{number}.begin"), format!("./{number}\nTestC_0f\n")),
                        (format!("{number}.log"), log.replace(';', " (0.00s)\n")),
                        (format!("{number}.end"), "0\n".to_owned()),
                    ]
                })
                .collect();
            let files: Vec<(&str, &str)> =
                files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            let report = read_of(&files);
            assert!(report.complete && report.cases.iter().all(|case| !case.id.contains("TestC_0f")));
            report.canaries.iter().map(|case| format!("{} {:?}", case.id, case.status)).collect()
        };
        let seen =
            "--- PASS: TestA;--- FAIL: TestC_0f_0/error;--- FAIL: TestC_0f_0/fatal;--- PASS: TestC_0f_0;";
        assert_eq!(canaries(&[seen]), ["./0 Failed"]);
        // Results without it: something else than the runner printed them.
        assert_eq!(canaries(&[seen, "--- PASS: TestA;"]), ["./0 Failed", "./1 Error"]);
        assert_eq!(canaries(&["--- PASS: TestA;--- PASS: TestC_0f_0;"]), ["./0 Error"]);
        // One of the ways to fail does not.
        let silent = "--- PASS: TestA;--- PASS: TestC_0f_0/error;--- FAIL: TestC_0f_0/fatal;";
        assert_eq!(canaries(&[silent]), ["./0 Passed"]);
        assert_eq!(canaries(&[seen, "--- FAIL: TestC_0f_1/error;"]), ["./0 Failed"], "no test of its own");
    }

    #[test]
    fn a_program_that_was_cut_leaves_the_report_incomplete() {
        let report = read_of(&[("7.begin", ".\n"), ("7.log", "--- PASS: TestP (0.00s)\n")]);
        assert!(report.begun && !report.complete && report.cases.len() == 1);
        // Packages without tests: nothing was started, and that is all there is to say.
        assert!(read_of(&[]).complete && read_of(&[]).cases.is_empty());
    }
}
