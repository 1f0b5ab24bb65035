//! A failing test first: what the agent declared, and whether it fails on the base as a test.

use std::collections::BTreeSet;

use countersign_guest::protocol::Report;
use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_tree::{Entry, Manifest};
use countersign_types::{Digest, GateStatus, JobEnd, Millis, Reason, canonical_json};
use serde::{Deserialize, Serialize};

use crate::adapters::Canary;
use crate::check::{
    Base, BaseVerdict, CheckDecision, RedCause, Seen, how_it_ended, judge_final, runs_module,
};
use crate::feedback::short;
use crate::ids::{BaseIds, any_ran, is_red};
use crate::runner::{Meaning, Runner};

/// A reproduction that was seen to fail on the base, from then on fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReproLock {
    /// New files, with their contents by digest.
    pub files: Vec<Entry>,
    pub argv: Vec<String>,
    /// The tests that failed. None: they are not known by name.
    pub ids: Option<BaseIds>,
    /// What the command itself changed in the tree, if it did.
    pub drift: Option<Digest>,
}

impl ReproLock {
    /// Names files and command.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(&canonical_json(&(&self.files, &self.argv))?))
    }

    /// Files that are not in a tree as they were locked. Hostile names, cut and on one line.
    #[must_use]
    pub fn changed_in(&self, tree: &Manifest) -> Vec<String> {
        let same = |file: &&Entry| tree.get(&file.path) != Some(*file);
        self.files.iter().filter(same).map(|file| short(&file.path.to_string())).collect()
    }

    /// How the command is run.
    #[must_use]
    pub fn terms(argv: &[String], timeout: Millis) -> CheckTerms {
        CheckTerms::new(argv.to_vec(), Expect::Fix, timeout)
    }

    /// What the command shows on the final tree. `probe`: as for [`judge_final`].
    #[must_use]
    pub fn judge(
        &self,
        terms: &CheckTerms,
        seen: Seen<'_>,
        probe: Option<&JobEnd>,
        changed: bool,
    ) -> CheckDecision {
        let verdict = BaseVerdict::Red { cause: RedCause::Test };
        let base = Base { verdict: &verdict, ids: self.ids.as_ref(), allowed: false };
        judge_final(terms, base, seen, probe, changed)
    }
}

/// Does the reproduction fail on the base with its new files, as a test? `before`: what the runner reported on the base alone,
/// where that is known. `probed`: the environment's probe passed there. Gives the tests that fail because of the new files, or
/// says why it is refused.
pub fn judge_declared(
    argv: &[String],
    seen: Seen<'_>,
    before: Option<&Report>,
    probed: bool,
) -> Result<Option<BaseIds>, String> {
    let end = &seen.receipt.end;
    let meaning = Runner::of(argv).meaning(end);
    let passes = "it passes there, so it shows nothing that is to be mended";
    match &meaning {
        Meaning::NoAnswer(what) => return Err(format!("it says nothing there: {what}")),
        Meaning::NoTests => return Err("the runner found no tests".to_owned()),
        Meaning::NotCollected(what) | Meaning::RunnerBroke(what) => {
            return Err(format!("it did not fail as a test: {what}"));
        }
        Meaning::Green | Meaning::TestsFailed | Meaning::Red => {}
    }
    let Some(report) = seen.report else {
        return match meaning {
            Meaning::Green => Err(passes.to_owned()),
            Meaning::TestsFailed if probed || !runs_module(argv) => Ok(None),
            _ if probed => Ok(None),
            _ => Err(format!(
                "it ended with {}, and nobody can tell a test that fails from a broken command; call a runner that is \
                 known, such as pytest, unittest, cargo test, node --test or go test, without a shell in front",
                how_it_ended(end)
            )),
        };
    };
    if !report.complete || Canary::of(report) == Canary::Denied {
        return Err("what the test runner reported cannot be relied on".to_owned());
    }
    let red: BTreeSet<String> =
        report.cases.iter().filter(|case| is_red(case.status)).map(|case| case.id.clone()).collect();
    let known: BTreeSet<&str> =
        before.iter().flat_map(|report| &report.cases).map(|case| case.id.as_str()).collect();
    let new: BTreeSet<String> = red.iter().filter(|id| !known.contains(id.as_str())).cloned().collect();
    if meaning == Meaning::Green {
        return Err(if any_ran(report) { passes } else { "no test ran" }.to_owned());
    }
    if new.is_empty() {
        let first = report.broken.first().map(|file| short(file));
        return Err(match (first, red.is_empty()) {
            (_, false) => "only tests fail that the base has already; a new one must".to_owned(),
            (Some(file), true) => format!("it did not fail as a test: `{file}` could not be built or read"),
            (None, true) => {
                "it did not fail as a test: no test failed, as where nothing could be built".to_owned()
            }
        });
    }
    Ok(Some(BaseIds {
        failed: new,
        passed: BTreeSet::new(),
        broken: BTreeSet::new(),
        flaky: BTreeSet::new(),
        canary: Canary::of(report),
        canaries: BTreeSet::new(),
    }))
}

/// Files of the lock that were changed or deleted.
#[must_use]
pub fn tampered_repro(changed: &[String]) -> CheckDecision {
    let detail = format!(
        "the reproduction was locked when it was declared, and is not the same any more: {}",
        changed.join(", ")
    );
    CheckDecision {
        status: GateStatus::Failed,
        reason: Some(Reason::ProtectedFiles),
        ..CheckDecision::failed(detail)
    }
}

#[cfg(test)]
mod tests {
    use countersign_guest::protocol::{TestCase, TestStatus};
    use countersign_tree::{EntryMode, TreePath};
    use countersign_types::{Captured, JobId, JobReceipt, LimitHit};

    use super::*;

    fn receipt(end: JobEnd) -> JobReceipt {
        JobReceipt {
            job: JobId::new("j1").unwrap(),
            end,
            stdout: Captured::default(),
            stderr: Captured::default(),
            wall: Millis(1),
            killed: 0,
        }
    }

    fn report(cases: &[(&str, TestStatus)], broken: &[&str]) -> Report {
        Report {
            begun: true,
            complete: true,
            cases: cases
                .iter()
                .map(|(id, status)| TestCase { id: (*id).to_owned(), status: *status })
                .collect(),
            canaries: Vec::new(),
            broken: broken.iter().map(|file| (*file).to_owned()).collect(),
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_reproduction_fails_on_the_base_as_a_new_test_or_is_refused() {
        let pytest = words("pytest tests/test_new.py");
        let judge = |code: i32, report: &Report, before: Option<&Report>| {
            let receipt = receipt(JobEnd::Exited { code });
            judge_declared(&pytest, Seen { receipt: &receipt, report: Some(report) }, before, false)
        };
        let failing = report(&[("new", TestStatus::Failed), ("fine", TestStatus::Passed)], &[]);
        let ids = judge(1, &failing, None).unwrap().unwrap();
        assert_eq!(ids.failed.into_iter().collect::<Vec<_>>(), ["new"]);
        assert!(ids.passed.is_empty(), "only the reproduction is locked");
        let refused = |why: Result<Option<BaseIds>, String>| why.unwrap_err();
        let green = report(&[("new", TestStatus::Passed)], &[]);
        assert!(refused(judge(0, &green, None)).contains("passes there"));
        assert!(refused(judge(0, &report(&[], &[]), None)).contains("no test ran"));
        assert!(
            refused(judge(1, &report(&[], &["tests/test_new.py"]), None))
                .contains("could not be built or read")
        );
        assert!(refused(judge(1, &report(&[], &[]), None)).contains("nothing could be built"));
        assert!(refused(judge(1, &failing, Some(&failing))).contains("a new one must"));
        assert!(refused(judge(5, &report(&[], &[]), None)).contains("no tests"));
        let cut = Report { complete: false, ..failing };
        assert!(refused(judge(1, &cut, None)).contains("cannot be relied on"));
        let denied = Report {
            canaries: vec![TestCase { id: "c".to_owned(), status: TestStatus::Passed }],
            complete: true,
            ..cut
        };
        assert!(refused(judge(1, &denied, None)).contains("cannot be relied on"));
    }

    #[test]
    fn an_exit_code_alone_counts_only_behind_a_probe() {
        let judge = |line: &str, end: JobEnd, probed: bool| {
            let receipt = receipt(end);
            judge_declared(&words(line), Seen::end_of(&receipt), None, probed)
        };
        let exit = |code| JobEnd::Exited { code };
        assert_eq!(judge("sh tests/new.sh", exit(1), true), Ok(None));
        assert!(judge("sh tests/new.sh", exit(1), false).unwrap_err().contains("nobody can tell"));
        assert_eq!(judge("pytest tests/t.py", exit(1), false), Ok(None), "its own code for tests that fail");
        assert!(judge("python3 -m pytest", exit(1), false).is_err(), "there may be no pytest");
        for end in
            [exit(0), exit(127), JobEnd::Limit { which: LimitHit::Timeout }, JobEnd::Signaled { signal: 9 }]
        {
            assert!(judge("sh tests/new.sh", end.clone(), true).is_err(), "{end:?}");
        }
        assert!(judge("pytest tests/t.py", exit(2), true).unwrap_err().contains("not fail as a test"));
    }

    #[test]
    fn a_locked_file_is_the_same_or_named() {
        let entry = |path: &str, content: &[u8]| Entry {
            path: TreePath::new(path).unwrap(),
            mode: EntryMode::File,
            size: content.len() as u64,
            digest: Digest::of(content),
        };
        let files = vec![entry("a", b"1"), entry("b", b"2")];
        let lock = ReproLock { files: files.clone(), argv: words("x"), ids: None, drift: None };
        assert!(lock.changed_in(&Manifest::new(files.clone())).is_empty());
        assert_eq!(lock.changed_in(&Manifest::new(vec![entry("a", b"1"), entry("b", b"3")])), ["b"]);
        assert_eq!(lock.changed_in(&Manifest::new(vec![entry("b", b"2")])), ["a"]);
        let other = ReproLock { argv: words("y"), ..lock.clone() };
        assert_ne!(lock.digest().unwrap(), other.digest().unwrap());
        assert_eq!(tampered_repro(&["b".to_owned()]).reason, Some(Reason::ProtectedFiles));
    }
}
