//! What base runs, final runs and rooms mean, and what the agent is told about them.

use std::collections::BTreeMap;

use countersign_gates::{
    Base, BaseVerdict, CellPaths, CheckPlan, FEEDBACK_LIMIT, FeedbackItem, RedCause, Runner, Scope, Seen,
    feedback, job_env, judge_base, judge_final, scope_violations, too_weak, weakest,
};
use countersign_kernel::contract::{CheckTerms, EnvironmentTerms, Expect, LayerKind, LayerTerms};
use countersign_tree::{Change, TreePath};
use countersign_types::{
    Captured, GateStatus, JobEnd, JobId, JobReceipt, LimitHit, Millis, Reason, Strength, StrengthLevel,
};

const PYTEST: &[&str] = &["python3", "-B", "-m", "pytest", "-q"];
const CARGO: &[&str] = &["cargo", "test", "--offline"];
const SHELL: &[&str] = &["sh", "-c", "pytest"];

fn terms(argv: &[&str], expect: Expect) -> CheckTerms {
    CheckTerms::new(argv.iter().map(|w| (*w).to_owned()).collect(), expect, Millis(1000))
}

/// A base of which only the exit code was seen.
fn by(verdict: &BaseVerdict) -> Base<'_> {
    Base { verdict, ids: None, allowed: false }
}

#[expect(clippy::unwrap_used, reason = "the id is a literal that is known to be one")]
fn receipt(end: JobEnd) -> JobReceipt {
    let job = JobId::new("job").unwrap();
    JobReceipt {
        job,
        end,
        stdout: Captured::default(),
        stderr: Captured::default(),
        wall: Millis(5),
        killed: 0,
    }
}

fn exit(code: i32) -> JobEnd {
    JobEnd::Exited { code }
}

fn not_started() -> JobEnd {
    JobEnd::NotStarted { errno: 2, what: "exec \u{1b}[31mpytest".to_owned() }
}

#[test]
fn runners_are_recognised_by_argv_alone() {
    for (argv, runner) in [
        (&["pytest"][..], Runner::Pytest),
        (&["/opt/venv/bin/py.test", "-q"], Runner::Pytest),
        (PYTEST, Runner::Pytest),
        (&["python3.12", "-mpytest"], Runner::Pytest),
        (&["python", "-W", "error", "-m", "unittest"], Runner::Unittest),
        (&["python", "pytest.py", "-m", "pytest"], Runner::Other),
        (&["python", "-c", "x", "-m", "pytest"], Runner::Other),
        (&["pythonista", "-m", "pytest"], Runner::Other),
        (CARGO, Runner::CargoTest),
        (&["cargo", "+1.95", "nextest", "run"], Runner::Nextest),
        (&["cargo", "build"], Runner::Other),
        (SHELL, Runner::Other),
        (&[], Runner::Other),
    ] {
        let argv: Vec<String> = argv.iter().map(|w| (*w).to_owned()).collect();
        assert_eq!(Runner::of(&argv), runner, "{argv:?}");
    }
}

#[test]
fn a_base_run_is_red_for_a_reason_or_the_agent_does_not_start() {
    let red = |cause| BaseVerdict::Red { cause };
    let (test, unknown) = (red(RedCause::Test), red(RedCause::Unknown));
    let ok = Some(exit(0));
    // argv, end, probe, verdict (None: a setup error `environment`).
    type Case = (&'static [&'static str], JobEnd, Option<JobEnd>, Option<BaseVerdict>);
    let cases: Vec<Case> = vec![
        (&["pytest", "-q"], exit(1), None, Some(test.clone())),
        // Without pytest this is Python's own exit code.
        (PYTEST, exit(1), None, Some(unknown.clone())),
        (PYTEST, exit(1), ok.clone(), Some(test.clone())),
        (&["python3", "-m", "unittest"], exit(1), None, Some(unknown.clone())),
        (&["python3", "-m", "unittest"], exit(1), ok.clone(), Some(test.clone())),
        (SHELL, exit(1), None, Some(unknown.clone())),
        (SHELL, exit(1), ok.clone(), Some(test.clone())),
        (CARGO, exit(101), None, Some(unknown)),
        (CARGO, exit(101), ok.clone(), Some(test.clone())),
        (&["cargo", "nextest", "run"], exit(100), None, Some(test.clone())),
        (PYTEST, exit(2), None, None),
        (PYTEST, exit(2), ok.clone(), Some(test)),
        (PYTEST, exit(3), ok.clone(), None),
        (PYTEST, exit(4), None, None),
        (PYTEST, exit(5), ok.clone(), None),
        (PYTEST, exit(1), Some(exit(1)), None),
        (SHELL, exit(126), ok.clone(), None),
        (SHELL, exit(127), ok.clone(), None),
        (SHELL, exit(137), ok.clone(), None),
        (CARGO, JobEnd::Signaled { signal: 11 }, ok.clone(), None),
        (CARGO, JobEnd::Limit { which: LimitHit::Timeout }, ok.clone(), None),
        (CARGO, JobEnd::Limit { which: LimitHit::Oom }, ok.clone(), None),
        (CARGO, not_started(), ok.clone(), None),
        (CARGO, JobEnd::Canceled, ok, None),
    ];
    for (argv, end, probe, expected) in cases {
        let verdict =
            judge_base(&terms(argv, Expect::Fix), Seen::end_of(&receipt(end.clone())), probe.as_ref());
        match expected {
            Some(expected) => assert_eq!(verdict, expected, "{argv:?} {end:?} {probe:?}"),
            None => {
                let (reason, detail) = verdict.setup_error().unwrap();
                assert_eq!(reason, Reason::Environment, "{argv:?} {end:?} {probe:?}");
                assert!(!detail.contains('\u{1b}'), "{detail:?}");
            }
        }
    }
    let green = judge_base(&terms(PYTEST, Expect::Fix), Seen::end_of(&receipt(exit(0))), None);
    let (reason, detail) = green.setup_error().unwrap();
    assert_eq!(reason, Reason::AlreadyGreen);
    assert!(detail.contains("--expect guard"), "{detail}");
    assert_eq!(
        judge_base(&terms(PYTEST, Expect::Guard), Seen::end_of(&receipt(exit(0))), None),
        BaseVerdict::Green
    );
    let red_guard = judge_base(&terms(PYTEST, Expect::Guard), Seen::end_of(&receipt(exit(1))), None);
    assert!(red_guard.setup_error().unwrap().1.contains("--expect fix"));
}

#[test]
fn a_final_run_is_green_red_or_inconclusive() {
    let base = BaseVerdict::Red { cause: RedCause::Test };
    let cases: &[(&[&str], JobEnd, GateStatus, Option<Reason>)] = &[
        (PYTEST, exit(0), GateStatus::Passed, None),
        (PYTEST, exit(1), GateStatus::Failed, Some(Reason::CheckFailed)),
        (PYTEST, exit(2), GateStatus::Failed, Some(Reason::CheckFailed)),
        (PYTEST, exit(3), GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
        (PYTEST, exit(4), GateStatus::Failed, Some(Reason::CheckFailed)),
        (PYTEST, exit(5), GateStatus::Unverifiable, Some(Reason::NoTestsRan)),
        (CARGO, exit(101), GateStatus::Failed, Some(Reason::CheckFailed)),
        (SHELL, exit(5), GateStatus::Failed, Some(Reason::CheckFailed)),
        (SHELL, exit(126), GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
        (SHELL, exit(127), GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
        (CARGO, JobEnd::Signaled { signal: 11 }, GateStatus::Failed, Some(Reason::CheckFailed)),
        (CARGO, JobEnd::Signaled { signal: 9 }, GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
        (
            CARGO,
            JobEnd::Limit { which: LimitHit::Timeout },
            GateStatus::Unverifiable,
            Some(Reason::CheckInconclusive),
        ),
        (
            CARGO,
            JobEnd::Limit { which: LimitHit::Oom },
            GateStatus::Unverifiable,
            Some(Reason::CheckInconclusive),
        ),
        (
            CARGO,
            JobEnd::Limit { which: LimitHit::Disk },
            GateStatus::Unverifiable,
            Some(Reason::CheckInconclusive),
        ),
        (
            CARGO,
            JobEnd::Limit { which: LimitHit::Output },
            GateStatus::Unverifiable,
            Some(Reason::CheckInconclusive),
        ),
        (CARGO, JobEnd::Canceled, GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
        (CARGO, not_started(), GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
    ];
    for (argv, end, status, reason) in cases {
        let decision = judge_final(
            &terms(argv, Expect::Fix),
            by(&base),
            Seen::end_of(&receipt(end.clone())),
            None,
            false,
        );
        assert_eq!((decision.status, decision.reason), (*status, *reason), "{argv:?} {end:?}");
        assert_eq!(decision.strength.is_some(), *status == GateStatus::Passed);
    }
    // A broken environment is never red; a check that changed the tree judged something else.
    let broken = judge_final(
        &terms(PYTEST, Expect::Fix),
        by(&base),
        Seen::end_of(&receipt(exit(1))),
        Some(&exit(1)),
        false,
    );
    assert_eq!(broken.reason, Some(Reason::CheckInconclusive));
    let stale =
        judge_final(&terms(PYTEST, Expect::Fix), by(&base), Seen::end_of(&receipt(exit(0))), None, true);
    assert_eq!((stale.status, stale.reason), (GateStatus::Unverifiable, Some(Reason::EvidenceStale)));
}

#[test]
fn strength_comes_from_what_the_base_showed() {
    let level = |expect, base: BaseVerdict| {
        judge_final(&terms(CARGO, expect), by(&base), Seen::end_of(&receipt(exit(0))), None, false)
            .strength
            .map(|s| s.level)
    };
    assert_eq!(
        level(Expect::Fix, BaseVerdict::Red { cause: RedCause::Test }),
        Some(StrengthLevel::RedBefore)
    );
    assert_eq!(
        level(Expect::Fix, BaseVerdict::Red { cause: RedCause::Unknown }),
        Some(StrengthLevel::ExitCode)
    );
    assert_eq!(level(Expect::Guard, BaseVerdict::Green), Some(StrengthLevel::ExitCode));
    // A base that was never fit to start from carries no pass.
    assert_eq!(level(Expect::Fix, BaseVerdict::AlreadyGreen { detail: String::new() }), None);
    assert_eq!(level(Expect::Guard, BaseVerdict::Red { cause: RedCause::Test }), None);

    let strong = Strength { level: StrengthLevel::RedBefore, in_process: false };
    let weak = Strength { level: StrengthLevel::ExitCode, in_process: true };
    assert_eq!(weakest([strong, weak, strong]), Some(weak));
    assert_eq!(weakest([]), None);
    assert_eq!(too_weak(Some(strong), Some(StrengthLevel::RedBefore)), None);
    assert_eq!(too_weak(None, None), None);
    assert!(too_weak(Some(weak), Some(StrengthLevel::RedBefore)).unwrap().contains("exit_code"));
    assert!(too_weak(None, Some(StrengthLevel::ExitCode)).is_some());
}

#[test]
fn a_room_has_exactly_the_environment_that_is_named() {
    let paths = CellPaths { workspace: "/workspace".to_owned(), home: "/home/agent".to_owned() };
    let environment = EnvironmentTerms {
        probe: Some(vec!["true".to_owned()]),
        layers: vec![LayerTerms {
            source: "/home/x/.rustup".to_owned(),
            target: "/opt/rustup".to_owned(),
            kind: LayerKind::Toolchain,
        }],
        path: vec!["/opt/rust/bin".to_owned(), "relative/bin".to_owned(), String::new()],
        env: BTreeMap::from([("HOME".to_owned(), "/evil".to_owned()), ("MINE".to_owned(), "1".to_owned())]),
        ..EnvironmentTerms::default()
    };
    let env = job_env(&environment, &paths);
    assert_eq!(env["HOME"], "/home/agent");
    assert_eq!(env["MINE"], "1");
    assert_eq!(env["RUSTUP_HOME"], "/opt/rustup");
    assert_eq!(env["CARGO_HOME"], "/home/agent/.cargo");
    assert_eq!(env["CARGO_NET_OFFLINE"], "true");
    // Nothing relative: the working directory is written by the agent (72).
    assert!(env["PATH"].starts_with("/opt/rust/bin:/usr/"), "{}", env["PATH"]);
    assert!(env["PATH"].split(':').all(|entry| entry.starts_with('/')), "{}", env["PATH"]);
    for name in [
        "PYTEST_ADDOPTS",
        "RUSTFLAGS",
        "NODE_OPTIONS",
        "GOFLAGS",
        "MAKEFLAGS",
        "BASH_ENV",
        "LD_PRELOAD",
        "PYTHONPATH",
        "CI",
    ] {
        assert!(!env.contains_key(name), "{name}");
    }
    let job = CheckPlan::new(&terms(PYTEST, Expect::Fix), &environment).job(&paths);
    assert_eq!(
        (job.argv.as_slice(), job.cwd.as_str(), job.wall),
        (terms(PYTEST, Expect::Fix).argv.as_slice(), "/workspace", Millis(1000))
    );
    assert_eq!(CheckPlan::probe(&environment, Millis(7)).unwrap().job(&paths).argv, ["true"]);
    assert!(CheckPlan::probe(&EnvironmentTerms::default(), Millis(7)).is_none());
}

#[test]
fn feedback_is_bounded_and_cannot_pose_as_ours() {
    let terms = terms(&["sh", "-c", "echo 'hi'"], Expect::Fix);
    let long = vec![b'x'; 100_000];
    let mut seen = receipt(exit(1));
    seen.stdout = Captured { head: long.clone(), tail: long, omitted: 1_000_000, total: 1_200_000 };
    seen.stderr = Captured {
        head: b"a\x1b[2J\xe2\x80\xaeb\r\n\xffassert 1 == 2".to_vec(),
        tail: Vec::new(),
        omitted: 0,
        total: 30,
    };
    let decision = judge_final(
        &terms,
        by(&BaseVerdict::Red { cause: RedCause::Unknown }),
        Seen::end_of(&seen),
        None,
        false,
    );
    let item = FeedbackItem { terms: &terms, decision: &decision, receipt: &seen };
    for count in [1, 3, 100] {
        let text = feedback(&vec![item; count]);
        assert!(text.len() <= FEEDBACK_LIMIT, "{}", text.len());
        assert!(text.starts_with(&format!("The checks ran on exactly the files as they are now, in a clean room without your scratch files: 0 of {count} passed.")), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
    }
    let text = feedback(&[item]);
    for part in [
        "$ sh -c 'echo '\\''hi'\\'''",
        "exit code 1\n",
        "--- stdout (1200000 bytes)",
        "bytes left out",
        "assert 1 == 2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_change_outside_the_scope_is_a_violation_whatever_it_is() {
    let change =
        |path: &str| Change { path: TreePath::new(path.as_bytes()).unwrap(), before: None, after: None };
    let changes = [change("src/a.rs"), change("src/deep/b.rs"), change("srcs/a.rs"), change("README.md")];
    let outside = |scope: &[&str]| -> Vec<String> {
        let scope: Vec<String> = scope.iter().map(|g| (*g).to_owned()).collect();
        scope_violations(&changes, &scope).unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(outside(&["src/**"]), ["srcs/a.rs", "README.md"]);
    assert_eq!(outside(&["src/*", "*.md"]), ["src/deep/b.rs", "srcs/a.rs"]);
    assert!(outside(&[]).is_empty());
    assert!(Scope::new(&["../x".to_owned()]).is_err());
}
