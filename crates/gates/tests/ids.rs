//! What reports of single tests mean, beside exit codes.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

use countersign_gates::adapters::Canary;
use countersign_gates::{
    Base, BaseIds, BaseVerdict, Cause, CheckDecision, Control, RedCause, Seen, judge_base, judge_control,
    judge_final, merge_base, merge_final,
};
use countersign_guest::protocol::{Report, TestCase, TestStatus};
use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_types::{
    Captured, GateStatus, JobEnd, JobId, JobReceipt, Millis, Reason, Strength, StrengthLevel,
};

const RED: BaseVerdict = BaseVerdict::Red { cause: RedCause::Test };

fn terms(expect: Expect) -> CheckTerms {
    let argv = ["python3", "-m", "pytest"].map(str::to_owned).to_vec();
    CheckTerms::new(argv, expect, Millis(1000))
}

fn exit(code: i32) -> JobReceipt {
    JobReceipt {
        job: JobId::new("j").unwrap(),
        end: JobEnd::Exited { code },
        stdout: Captured::default(),
        stderr: Captured::default(),
        wall: Millis(1),
        killed: 0,
    }
}

/// `a+ b- c! d~`: passed, failed, not run to its end, skipped. `*` in front is a canary, `?` a collector.
fn report(text: &str) -> Report {
    let mut report = Report { begun: true, complete: true, ..Report::default() };
    for word in text.split_whitespace() {
        if let Some(broken) = word.strip_prefix('?') {
            report.broken.push(broken.to_owned());
            continue;
        }
        let (id, mark) = word.split_at(word.len() - 1);
        let status = match mark {
            "+" => TestStatus::Passed,
            "-" => TestStatus::Failed,
            "!" => TestStatus::Error,
            _ => TestStatus::Skipped,
        };
        match id.strip_prefix('*') {
            Some(id) => report.canaries.push(TestCase { id: id.to_owned(), status }),
            None => report.cases.push(TestCase { id: id.to_owned(), status }),
        }
    }
    report
}

fn judged(expect: Expect, verdict: &BaseVerdict, base: &str, code: i32, report: &Report) -> CheckDecision {
    let ids = BaseIds::of(&self::report(base)).unwrap();
    let receipt = exit(code);
    let seen = Seen { receipt: &receipt, report: Some(report) };
    judge_final(&terms(expect), Base { verdict, ids: Some(&ids), allowed: false }, seen, None, false)
}

#[test]
fn every_expected_test_must_run_and_pass() {
    const FAILED: (GateStatus, Option<Reason>) = (GateStatus::Failed, Some(Reason::CheckFailed));
    const PASSED: (GateStatus, Option<Reason>) = (GateStatus::Passed, None);
    let inconclusive = (GateStatus::Unverifiable, Some(Reason::CheckInconclusive));
    let nothing_ran = (GateStatus::Unverifiable, Some(Reason::NoTestsRan));
    let base = "bug- ok+ skip~ *c-";
    for (after, code, expected, word) in [
        ("bug+ ok+ skip~ *c-", 0, PASSED, "2 of 2 expected"),
        ("bug+ ok+ skip+ new+ *c-", 0, PASSED, "1 that failed on the base"),
        (
            "bug- ok+ *c-",
            1,
            FAILED,
            "exit code 1: 1 of 2 expected tests did not pass, the first, `bug`, failed",
        ),
        // The exit code was changed behind the runner's back.
        ("bug- ok+ *c-", 0, FAILED, "exit code 0, but 1 of 2"),
        // Skipped and expected failures are no passes; nor is a test that is gone.
        ("bug~ ok+ *c-", 0, FAILED, "`bug`, was skipped"),
        ("bug+ ok! *c-", 0, FAILED, "`ok`, could not be run"),
        ("bug+ *c-", 0, FAILED, "1 of 2 expected tests have no result, the first is `ok`"),
        ("new+ *c-", 0, FAILED, "2 of 2 expected tests have no result, the first is `bug`"),
        ("bug+ ok+ new- *c-", 0, FAILED, "among them `new`"),
        ("", 0, nothing_ran, "no test ran"),
        ("bug~ ok~", 0, nothing_ran, "no test ran"),
        ("bug+ ok+ *c!", 0, inconclusive, "canary"),
        ("bug+ ok+", 0, inconclusive, "canary"),
        ("bug+ ok+ *c+", 0, FAILED, "must fail"),
        ("bug+ ok+ *c~", 0, FAILED, "must fail"),
    ] {
        let decision = judged(Expect::Fix, &RED, base, code, &report(after));
        assert_eq!((decision.status, decision.reason), expected, "{after}: {decision:?}");
        assert!(decision.detail.contains(word), "{after}: {}", decision.detail);
        let canary = decision.detail.contains("canary") || decision.detail.contains("must fail");
        assert_eq!(decision.withheld, canary, "what the agent must not learn is marked: {after}");
        assert!(!decision.told().contains("canary") && !decision.told().contains("must fail"));
    }
    let counts = judged(Expect::Fix, &RED, base, 0, &report("bug+ *c-")).counts.unwrap();
    assert_eq!((counts.expected, counts.passed, counts.missing), (2, 1, 1));
}

#[test]
fn a_report_that_is_cut_or_absent_is_no_green() {
    for (begun, word) in [(true, "was cut"), (false, "no report")] {
        let cut = Report { begun, complete: false, ..report("bug+ ok+ *c-") };
        let decision = judged(Expect::Fix, &RED, "bug- ok+ *c-", 0, &cut);
        assert_eq!(decision.reason, Some(Reason::CheckInconclusive));
        assert!(decision.detail.contains(word), "{decision:?}");
        assert_eq!(judged(Expect::Fix, &RED, "bug-", 1, &cut).reason, Some(Reason::CheckFailed));
    }
}

#[test]
fn strength_is_as_much_as_was_seen_by_name() {
    let strength = |expect, verdict, base, after| judged(expect, verdict, base, 0, &report(after)).strength;
    let level = |level| Some(Strength { level, in_process: true });
    assert_eq!(strength(Expect::Fix, &RED, "bug- *c-", "bug+ *c-"), level(StrengthLevel::Canary));
    assert_eq!(strength(Expect::Fix, &RED, "bug-", "bug+"), level(StrengthLevel::Ids));
    assert_eq!(
        strength(Expect::Guard, &BaseVerdict::Green, "ok+ *c-", "ok+ *c-"),
        level(StrengthLevel::Canary)
    );
    // The file could not be read on the base: no test was seen to fail.
    assert_eq!(strength(Expect::Fix, &RED, "?t.py", "t.py::a+ *c-"), level(StrengthLevel::RedBefore));
    let gone = judged(Expect::Fix, &RED, "?t.py", 0, &report("u.py::a+"));
    assert!(gone.detail.contains("no test of `t.py` passed"), "{gone:?}");
}

#[test]
fn a_base_is_judged_by_what_its_tests_did() {
    let base = |expect, code, text: &str| {
        let (receipt, report) = (exit(code), report(text));
        judge_base(&terms(expect), Seen { receipt: &receipt, report: Some(&report) }, None)
    };
    let environment = |verdict: &BaseVerdict| matches!(verdict, BaseVerdict::Environment { .. });
    // Without a report `python -m pytest` could have ended with 1 because there is no pytest.
    assert_eq!(base(Expect::Fix, 1, "bug- ok+ *c-"), RED);
    assert_eq!(base(Expect::Fix, 0, "bug- *c-"), RED, "a runner whose exit code is forced");
    assert!(matches!(base(Expect::Fix, 0, "ok+ *c-"), BaseVerdict::AlreadyGreen { .. }));
    assert_eq!(base(Expect::Fix, 1, "ok+ *c-"), BaseVerdict::Red { cause: RedCause::Unknown });
    assert!(environment(&base(Expect::Fix, 2, "?t.py")), "nothing was collected");
    assert!(environment(&base(Expect::Fix, 1, "bug- *c+")), "a base that swallows failures judges nothing");
    assert!(environment(&base(Expect::Guard, 0, "a~ b~")), "no test ran");
    assert_eq!(base(Expect::Guard, 0, "ok+ *c-"), BaseVerdict::Green);
    assert!(environment(&base(Expect::Guard, 0, "ok+ bad-")));
    let cut = Report { complete: false, ..report("ok+") };
    let receipt = exit(0);
    let seen = Seen { receipt: &receipt, report: Some(&cut) };
    assert!(environment(&judge_base(&terms(Expect::Guard), seen, None)));
    assert_eq!(BaseIds::of(&cut), None);
    assert_eq!(BaseIds::of(&report("a+ *c-")).unwrap().canary, Canary::Seen);
}

#[test]
fn what_is_not_always_the_same_is_flaky_and_never_a_pass() {
    let ids = |text: &str| BaseIds::of(&report(text));
    let fix = terms(Expect::Fix);
    let merged = |expect, runs: &[(&BaseVerdict, &str)]| {
        let runs = runs.iter().map(|(verdict, text)| ((*verdict).clone(), ids(text))).collect();
        merge_base(&terms(expect), runs)
    };
    let green = BaseVerdict::AlreadyGreen { detail: String::new() };
    // A test that flaps is quarantined: nothing is expected of it.
    let (verdict, quarantined) = merged(Expect::Fix, &[(&RED, "bug- ok+ flap+"), (&RED, "bug- ok+ flap-")]);
    let quarantined = quarantined.unwrap();
    assert_eq!(verdict, RED);
    assert!(quarantined.flaky.contains("flap") && quarantined.failed.contains("bug"));
    assert_eq!((quarantined.failed.len(), quarantined.passed.len()), (1, 1));
    // One that is there only sometimes flaps too.
    let (_, gone) = merged(Expect::Fix, &[(&RED, "bug- here+"), (&RED, "bug-")]);
    assert!(gone.unwrap().flaky.contains("here"));
    // A base whose only red is flaky, or that is red only sometimes, shows nothing.
    for runs in [[(&RED, "flap- ok+"), (&green, "flap+ ok+")], [(&green, "ok+"), (&RED, "ok+")]] {
        let (verdict, _) = merged(Expect::Fix, &runs);
        assert!(
            matches!(&verdict, BaseVerdict::Environment { detail } if detail.contains("flaky")),
            "{verdict:?}"
        );
    }
    let environment = BaseVerdict::Environment { detail: "red".to_owned() };
    let (verdict, _) = merged(Expect::Guard, &[(&BaseVerdict::Green, "ok+ f+"), (&environment, "ok+ f-")]);
    assert_eq!(verdict, BaseVerdict::Green, "only what flaps was red");
    let (verdict, _) = merged(Expect::Guard, &[(&environment, "ok+ bug-"), (&environment, "ok+ bug-")]);
    assert_eq!(verdict, environment);

    // On the final tree a quarantined test may fail, another may not.
    let final_run = |code, text: &str| {
        let (receipt, report) = (exit(code), report(text));
        let seen = Seen { receipt: &receipt, report: Some(&report) };
        judge_final(&fix, Base { verdict: &RED, ids: Some(&quarantined), allowed: false }, seen, None, false)
    };
    assert_eq!(final_run(1, "bug+ ok+ flap-").status, GateStatus::Passed);
    assert_eq!(final_run(0, "bug+ ok+ flap+").status, GateStatus::Passed);
    assert_eq!(final_run(1, "bug+ ok+ flap- other-").reason, Some(Reason::CheckFailed));
    assert_eq!(final_run(1, "bug- ok+ flap-").reason, Some(Reason::CheckFailed));
    // All of K, or nothing.
    let (pass, fail) = (final_run(0, "bug+ ok+"), final_run(1, "bug- ok+"));
    assert_eq!(merge_final(vec![pass.clone(), pass.clone()]).status, GateStatus::Passed);
    assert_eq!(merge_final(vec![fail.clone(), fail.clone()]).cause, Some(Cause::Test));
    for mixed in [vec![pass.clone(), fail.clone()], vec![fail, pass.clone(), pass]] {
        let count = mixed.len();
        let decision = merge_final(mixed);
        assert_eq!(
            (decision.status, decision.reason, decision.cause),
            (GateStatus::Unverifiable, Some(Reason::CheckInconclusive), Some(Cause::Flaky))
        );
        assert!(decision.detail.contains(&format!("of {count} runs")), "{}", decision.detail);
    }
}

#[test]
fn the_control_says_whose_green_it_is() {
    let control = |expect, base: &str, after: &str, control: Option<(i32, &str)>| {
        let ids = ids_of(base);
        let verdict = if expect == Expect::Fix { RED } else { BaseVerdict::Green };
        let base = Base { verdict: &verdict, ids: Some(&ids), allowed: false };
        let (receipt, report) = (exit(0), report(after));
        let seen = Seen { receipt: &receipt, report: Some(&report) };
        let decision = judge_final(&terms(expect), base, seen, None, false);
        assert_eq!(decision.status, GateStatus::Passed, "{decision:?}");
        let tried = control.map(|(code, text)| (exit(code), self::report(text)));
        let tried = tried.as_ref().map(|(receipt, report)| Seen { receipt, report: Some(report) });
        judge_control(&terms(expect), base, decision, seen, tried, false)
    };
    let level = |decision: &CheckDecision| decision.strength.map(|strength| strength.level);
    let (decision, seen) = control(Expect::Fix, "bug-", "bug+ new+", Some((1, "bug- new-")));
    assert_eq!((decision.status, seen), (GateStatus::Passed, Some(Control::Red)));
    let (decision, seen) = control(Expect::Fix, "bug-", "bug+ new+", Some((0, "bug+ new+")));
    assert_eq!((decision.cause, seen), (Some(Cause::Control), Some(Control::Green)));
    // The new test is red without the product, and the bug's test is not: the product did not turn it.
    let (decision, _) = control(Expect::Fix, "bug-", "bug+ new+", Some((1, "bug+ new-")));
    assert_eq!(decision.reason, Some(Reason::CheckFailed));
    let (decision, seen) = control(Expect::Fix, "bug-", "bug+", None);
    assert_eq!((decision.status, seen), (GateStatus::Passed, None));

    let (decision, _) = control(Expect::New, "ok+ *c-", "ok+ new+ *c-", Some((1, "ok+ new- *c-")));
    assert_eq!(level(&decision), Some(StrengthLevel::Canary));
    let (decision, _) = control(Expect::New, "ok+", "ok+ new+", Some((1, "ok+ new-")));
    assert_eq!(level(&decision), Some(StrengthLevel::Ids));
    let (decision, _) = control(Expect::New, "ok+", "ok+ n.py::a+", Some((2, "?n.py")));
    assert_eq!(level(&decision), Some(StrengthLevel::RedBefore));
    for (tried, word) in [(None, "brings no test"), (Some((0, "ok+ new+")), "no test of the change fails")] {
        let (decision, _) = control(Expect::New, "ok+", "ok+ new+", tried);
        assert_eq!((decision.reason, decision.cause), (Some(Reason::CheckFailed), Some(Cause::Control)));
        assert!(decision.detail.contains(word), "{decision:?}");
    }
    // A base test that breaks without the product is none of the change's.
    let (decision, _) = control(Expect::New, "ok+", "ok+ new+", Some((1, "ok- new+")));
    assert_eq!(decision.reason, Some(Reason::CheckFailed));
}

fn ids_of(text: &str) -> BaseIds {
    BaseIds::of(&report(text)).unwrap()
}

#[test]
fn the_canary_of_one_program_says_nothing_of_another() {
    let seen = (GateStatus::Passed, Some(StrengthLevel::Canary));
    let lost = (GateStatus::Unverifiable, None);
    let base = "bug- ok+ *a- *b-";
    for (base, after, expected) in [
        (base, "bug+ ok+ *a- *b-", seen),
        (base, "bug+ ok+ *a-", lost),
        (base, "bug+ ok+ *b-", lost),
        (base, "bug+ ok+ *a- *b!", lost),
        (base, "bug+ ok+", lost),
        (base, "bug+ ok+ *a- *b+", (GateStatus::Failed, None)),
        // A program of the change's own.
        (base, "bug+ ok+ new+ *a- *b- *c-", seen),
        // One that could not show it on the base: what the others showed there still counts.
        ("bug- ok+ *a- *b!", "bug+ ok+ *b-", lost),
        ("bug- ok+ *a- *b!", "bug+ ok+ *a- *b!", (GateStatus::Passed, Some(StrengthLevel::Ids))),
    ] {
        let [base, after] = [base, after].map(report);
        let (ids, receipt) = (BaseIds::of(&base).unwrap(), exit(0));
        let run = Seen { receipt: &receipt, report: Some(&after) };
        let base = Base { verdict: &RED, ids: Some(&ids), allowed: false };
        let decision = judge_final(&terms(Expect::Fix), base, run, None, false);
        assert_eq!((decision.status, decision.strength.map(|s| s.level)), expected, "{after:?}");
        if expected != seen {
            assert!(!decision.told().contains("canary"), "{}", decision.told());
        }
        // Where the contract lets tests go, a program without them has nothing to show.
        let base = Base { allowed: true, ..base };
        let allowed = judge_final(&terms(Expect::Fix), base, run, None, false);
        let shown = Canary::of(&after) == Canary::Seen;
        assert_eq!(allowed.status == GateStatus::Passed, shown || expected.0 == GateStatus::Passed);
    }
}

#[test]
fn an_example_of_the_documentation_has_no_canary_beside_it() {
    let level = |argv: &[&str], expect: Expect, base: &str, after: &str| {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let terms = CheckTerms::new(argv, expect, Millis(1000));
        let with_targets = |text: &str| {
            let mut report = report(text);
            for case in &mut report.cases {
                case.id = case.id.replace('_', " ");
            }
            report
        };
        let (ids, receipt, after) = (BaseIds::of(&with_targets(base)).unwrap(), exit(0), with_targets(after));
        let verdict = if expect == Expect::Fix { RED } else { BaseVerdict::Green };
        let base = Base { verdict: &verdict, ids: Some(&ids), allowed: false };
        let seen = Seen { receipt: &receipt, report: Some(&after) };
        judge_final(&terms, base, seen, None, false).strength.unwrap().level
    };
    let cargo = &["cargo", "test"];
    let fixed = "rt/rt_bug+ doc/rt_a+ *rt/rt-";
    assert_eq!(level(cargo, Expect::Fix, "rt/rt_bug- doc/rt_a+ *rt/rt-", fixed), StrengthLevel::Canary);
    assert_eq!(level(cargo, Expect::Fix, "rt/rt_bug+ doc/rt_a- *rt/rt-", fixed), StrengthLevel::Ids);
    assert_eq!(level(cargo, Expect::Guard, fixed, fixed), StrengthLevel::Ids);
    assert_eq!(
        level(&["go", "test"], Expect::Fix, "./doc_a- *./doc-", "./doc_a+ *./doc-"),
        StrengthLevel::Canary
    );
}

#[test]
fn a_test_that_the_contract_let_go_is_not_missed_and_the_bugs_own_is() {
    let decide = |allowed: bool, after: &str| {
        let (ids, receipt, report) = (ids_of("bug- old+ kept+"), exit(0), report(after));
        let seen = Seen { receipt: &receipt, report: Some(&report) };
        let decision = judge_final(
            &terms(Expect::Fix),
            Base { verdict: &RED, ids: Some(&ids), allowed },
            seen,
            None,
            false,
        );
        (decision.status, decision.reason)
    };
    let (passed, failed) = ((GateStatus::Passed, None), (GateStatus::Failed, Some(Reason::CheckFailed)));
    assert_eq!(decide(false, "bug+ kept+"), failed);
    assert_eq!(decide(true, "bug+ kept+"), passed);
    assert_eq!(decide(true, "old+ kept+"), failed);
    assert_eq!(decide(true, "bug+ old~ kept+"), failed);
}
