//! Reads receipts: what a base run, and what a final run in a room, show.

use countersign_guest::protocol::Report;
use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_types::{GateStatus, JobEnd, JobReceipt, Reason, Strength, StrengthLevel};
use serde::{Deserialize, Serialize};

use crate::adapters::{Canary, adapter_of};
use crate::evidence::Cause;
use crate::ids::{BaseIds, Compared, any_ran, is_red};
use crate::runner::{Meaning, Runner, base_name, is_python, python_module};

/// What the run of a check on the base showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "base")]
pub enum BaseVerdict {
    /// For `fix`: the check is red, as it must be.
    Red { cause: RedCause },
    /// For `guard`: the check is green, as it must be.
    Green,
    /// For `fix`: there is nothing to fix. The turn ends as `setup_error/already_green`.
    AlreadyGreen { detail: String },
    /// The check cannot tell anything here. The turn ends as `setup_error/environment`.
    Environment { detail: String },
}

/// Why a base was red.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedCause {
    /// The environment's probe passed there, or the runner's documented exit code says that tests ran and failed. An
    /// interpreter in front of the runner (`python -m pytest`) may itself end with that code, so it says nothing.
    Test,
    /// A broken environment could look the same: the strength of a pass stays `exit_code`.
    Unknown,
}

impl BaseVerdict {
    /// The ending that this verdict forces before the agent starts, with its text.
    #[must_use]
    pub fn setup_error(&self) -> Option<(Reason, &str)> {
        match self {
            Self::AlreadyGreen { detail } => Some((Reason::AlreadyGreen, detail)),
            Self::Environment { detail } => Some((Reason::Environment, detail)),
            Self::Red { .. } | Self::Green => None,
        }
    }
}

/// What one run in a room showed.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub receipt: &'a JobReceipt,
    /// What the runner reported. None: it was not asked for a report.
    pub report: Option<&'a Report>,
}

impl<'a> Seen<'a> {
    /// A run of which only the end is known.
    #[must_use]
    pub const fn end_of(receipt: &'a JobReceipt) -> Self {
        Self { receipt, report: None }
    }

    pub(crate) fn whole(&self) -> Option<&'a Report> {
        self.report.filter(|report| report.complete)
    }
}

/// What the base showed.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    pub verdict: &'a BaseVerdict,
    /// None: its tests are not known by name.
    pub ids: Option<&'a BaseIds>,
    /// The contract allowed a change of protected files, and it was made: a test that passed on the base and is gone is
    /// not missed. One that failed there still is.
    pub allowed: bool,
}

/// What one check showed on the final tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDecision {
    /// `passed`, `failed` or `unverifiable`.
    pub status: GateStatus,
    /// `check_failed`, `check_inconclusive`, `no_tests_ran` or `evidence_stale`; None when it passed.
    pub reason: Option<Reason>,
    /// One sentence of ours; no output of the check.
    pub detail: String,
    /// Only with a pass.
    pub strength: Option<Strength>,
    /// The detail says what the agent must not learn: how it was watched.
    #[serde(default)]
    pub withheld: bool,
    /// Expected tests by result. None: they are not known by name.
    #[serde(default)]
    pub counts: Option<Counts>,
    /// Why it did not pass.
    #[serde(default)]
    pub cause: Option<Cause>,
}

/// Expected tests on the final tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub expected: u64,
    pub passed: u64,
    pub missing: u64,
}

impl CheckDecision {
    pub(crate) fn not_passed(status: GateStatus, reason: Reason, detail: String) -> Self {
        let (reason, strength) = (Some(reason), None);
        Self { status, reason, detail, strength, withheld: false, counts: None, cause: None }
    }

    /// It says nothing about the tree.
    #[must_use]
    pub fn inconclusive(detail: impl Into<String>) -> Self {
        Self::not_passed(GateStatus::Unverifiable, Reason::CheckInconclusive, detail.into())
            .because(Cause::Environment)
    }

    #[must_use]
    pub fn failed(detail: impl Into<String>) -> Self {
        Self::not_passed(GateStatus::Failed, Reason::CheckFailed, detail.into()).because(Cause::Test)
    }

    /// It passed, and not on what would be delivered.
    #[must_use]
    pub fn stale(detail: impl Into<String>) -> Self {
        Self::not_passed(GateStatus::Unverifiable, Reason::EvidenceStale, detail.into()).because(Cause::Tree)
    }

    /// Only a person can say whether it may go on, and there is none to ask.
    #[must_use]
    pub fn blocked(detail: impl Into<String>) -> Self {
        Self::not_passed(GateStatus::Unverifiable, Reason::ApprovalImpossible, detail.into())
    }

    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause: Some(cause), ..self }
    }

    pub(crate) fn with_counts_of(self, other: &Self) -> Self {
        Self { counts: other.counts, ..self }
    }

    pub(crate) fn withheld(self) -> Self {
        Self { withheld: true, ..self }
    }

    /// What the agent may be told.
    #[must_use]
    pub fn told(&self) -> &str {
        match (self.withheld, self.cause) {
            (false, _) => &self.detail,
            (true, Some(Cause::HeldOut)) => "the result is not right for inputs that are not shown",
            (true, _) => "what the test runner reported cannot be relied on",
        }
    }
}

/// Reads a base run. `probe` is the end of the environment's probe on the same base; None when none is declared.
#[must_use]
pub fn judge_base(terms: &CheckTerms, seen: Seen<'_>, probe: Option<&JobEnd>) -> BaseVerdict {
    if let Some(detail) = environment_failure(probe) {
        return BaseVerdict::Environment { detail };
    }
    let receipt = seen.receipt;
    let probed = probe.is_some();
    let named =
        seen.report.is_some_and(|report| report.begun) || matches!(receipt.end, JobEnd::Exited { .. });
    if let Some(what) = crate::profile::expected_on_base(terms, seen.report).filter(|_| named) {
        let detail = format!("the base cannot be judged as the profile says: {what}");
        return BaseVerdict::Environment { detail };
    }
    let environment = |what: &str, advice: &str| BaseVerdict::Environment {
        detail: format!("the check could not be judged on the base: {what}; {advice}"),
    };
    // A crash is a red on the final tree, but on a base nobody can say whose fault it is.
    if let JobEnd::Signaled { signal } = receipt.end {
        return environment(&format!("it was killed by signal {signal}"), INSTALL);
    }
    let mut meaning = Runner::of(&terms.argv).meaning(&receipt.end);
    // The runner says of each test what it did. That is more than an exit code, in both directions.
    let mut by_name = false;
    match seen.report {
        Some(report) if report.complete => {
            if Canary::of(report) == Canary::Denied {
                return environment(
                    "a test that must fail did not: what the project loads changes assertions or the runner",
                    "name a check of which each test can fail",
                );
            }
            let failed = report.cases.iter().any(|case| is_red(case.status));
            if failed && matches!(meaning, Meaning::Green | Meaning::TestsFailed | Meaning::Red) {
                (meaning, by_name) = (Meaning::TestsFailed, true);
            } else if !any_ran(report) && report.broken.is_empty() && meaning == Meaning::Green {
                meaning = Meaning::NoTests;
            }
        }
        Some(_) if meaning == Meaning::Green => {
            return environment("exit code 0, and the runner's report has no end", INSTALL);
        }
        _ => {}
    }
    match (terms.expect, meaning) {
        (_, Meaning::NoAnswer(what)) => environment(&what, INSTALL),
        (_, Meaning::RunnerBroke(what)) => environment(what, INSTALL),
        // The tests are not there yet: green, nothing at all, or a command that names what the change will bring.
        (Expect::New, Meaning::Green | Meaning::NoTests) => BaseVerdict::Green,
        (Expect::New, Meaning::TestsFailed | Meaning::NotCollected(_) | Meaning::Red) => {
            BaseVerdict::Red { cause: if by_name || probed { RedCause::Test } else { RedCause::Unknown } }
        }
        (_, Meaning::NoTests) => environment("the runner found no tests", "name the tests in the check's command"),
        (Expect::Fix, Meaning::Green) => BaseVerdict::AlreadyGreen {
            detail: "the check already passes on the base, so a pass would prove nothing; if it must only stay green, \
                     say `--expect guard`"
                .to_owned(),
        },
        (Expect::Fix, Meaning::TestsFailed) => {
            // `python -m pytest` ends with 1 where there is no pytest, too.
            let certain = by_name || probed || !runs_module(&terms.argv);
            BaseVerdict::Red { cause: if certain { RedCause::Test } else { RedCause::Unknown } }
        }
        (Expect::Fix, Meaning::NotCollected(what)) if !probed => environment(
            what,
            "install what the tests import with `--setup`; if they import what the fix will add, declare a `--probe` \
             that shows that the environment works",
        ),
        (Expect::Fix, Meaning::NotCollected(_) | Meaning::Red) => {
            BaseVerdict::Red { cause: if probed { RedCause::Test } else { RedCause::Unknown } }
        }
        (Expect::Guard, Meaning::Green) => BaseVerdict::Green,
        (Expect::Guard, Meaning::TestsFailed | Meaning::NotCollected(_) | Meaning::Red) => environment(
            &format!("{}, and a guard must be green there", how_it_ended(&receipt.end)),
            "say `--expect fix` if turning it green is the task, or repair the environment",
        ),
    }
}

/// Whether an interpreter looks for the runner, and fails with 1 when it finds none.
pub(crate) fn runs_module(argv: &[String]) -> bool {
    argv.split_first()
        .is_some_and(|(program, rest)| is_python(base_name(program)) && python_module(rest).is_some())
}

const INSTALL: &str = "install what the check needs with `--setup`, and show with `--probe` that it works";

/// Why a probe's end means that the environment is broken; None when the probe passed or none is declared.
#[must_use]
pub fn environment_failure(probe: Option<&JobEnd>) -> Option<String> {
    match probe {
        None | Some(JobEnd::Exited { code: 0 }) => None,
        Some(end) => Some(format!("the environment's probe failed: {}", how_it_ended(end))),
    }
}

/// Reads the run in a room on the final tree. `probe` is the end of the environment's probe in that room (it need run
/// only when the check did not pass; None: not declared, or not run). `tree_changed_by_check`: judged entries were not
/// the same after the check, and the base run had not made the same change.
#[must_use]
pub fn judge_final(
    terms: &CheckTerms,
    base: Base<'_>,
    seen: Seen<'_>,
    probe: Option<&JobEnd>,
    tree_changed_by_check: bool,
) -> CheckDecision {
    let compared = base.ids.zip(seen.whole()).map(|(ids, report)| {
        let compared = ids.compare(report);
        if base.allowed { compared.without(&ids.passed) } else { compared }
    });
    let mut decision = decide(terms, base, seen, probe, compared.as_ref());
    if decision.status == GateStatus::Passed && tree_changed_by_check {
        decision = CheckDecision::stale(
            "the check passed and changed files of the tree while it ran, so it did not judge what would be delivered",
        );
    }
    if decision.status == GateStatus::Passed
        && let Some(sentence) = crate::profile::expected_passed(terms, seen.whole())
    {
        decision = CheckDecision::failed(format!("exit code 0, but {sentence}"));
    }
    decision.counts = compared.map(|compared| Counts {
        expected: compared.expected,
        passed: compared.passed,
        missing: compared.missing.len() as u64,
    });
    decision
}

fn decide(
    terms: &CheckTerms,
    base: Base<'_>,
    seen: Seen<'_>,
    probe: Option<&JobEnd>,
    compared: Option<&Compared>,
) -> CheckDecision {
    let end = &seen.receipt.end;
    let meaning = Runner::of(&terms.argv).meaning(end);
    if meaning != Meaning::Green
        && let Some(detail) = environment_failure(probe)
    {
        return CheckDecision::inconclusive(detail);
    }
    match meaning {
        Meaning::NoAnswer(what) => {
            let machine = !matches!(end, JobEnd::Exited { .. } | JobEnd::NotStarted { .. });
            let cause = if machine { Cause::Infra } else { Cause::Environment };
            CheckDecision::inconclusive(what).because(cause)
        }
        Meaning::RunnerBroke(what) => CheckDecision::inconclusive(what),
        Meaning::NoTests => no_tests("the runner found no tests"),
        Meaning::TestsFailed if only_flaky_failed(base, seen, compared) => match seen.report {
            Some(report) => green_by_ids(terms, base, report, compared),
            None => CheckDecision::failed(how_it_ended(end)),
        },
        // The same environment collected on the base or was probed there, so the tree made this: red.
        Meaning::TestsFailed | Meaning::NotCollected(_) | Meaning::Red => {
            CheckDecision::failed(match compared.and_then(Compared::sentence) {
                Some(sentence) => format!("{}: {sentence}", how_it_ended(end)),
                None => how_it_ended(end),
            })
        }
        Meaning::Green => match seen.report {
            None => green_by_code(terms.expect, base.verdict),
            Some(report) => green_by_ids(terms, base, report, compared),
        },
    }
}

/// Exit code 0, and nothing else is known.
fn green_by_code(expect: Expect, base: &BaseVerdict) -> CheckDecision {
    match green_strength(expect, base) {
        Some(level) => {
            let detail = match level {
                StrengthLevel::RedBefore => "red on the base for a test reason, green on the final tree",
                _ => "exit code 0 on the final tree",
            };
            // An exit code is always the word of the process that ran the code under test.
            passed(detail.to_owned(), level, true)
        }
        None => CheckDecision::inconclusive("the base run does not carry a judgement of the final tree"),
    }
}

/// Exit code 0, and the runner was asked for the result of each test.
fn green_by_ids(
    terms: &CheckTerms,
    base: Base<'_>,
    report: &Report,
    compared: Option<&Compared>,
) -> CheckDecision {
    if !report.complete {
        return CheckDecision::inconclusive(if report.begun {
            "exit code 0, and the runner's report was cut: something ended the process before the runner's own end"
        } else {
            "exit code 0, and the runner left no report that can be read"
        })
        .because(Cause::Report);
    }
    let canary = Canary::of(report);
    if canary == Canary::Denied {
        return CheckDecision::failed(
            "a test that must fail was not reported as failed: code that ran with the tests changed assertions, the \
             runner or its reports",
        )
        .withheld();
    }
    if !any_ran(report) {
        return no_tests("exit code 0, and no test ran");
    }
    if let Some(sentence) = compared.and_then(Compared::sentence) {
        return CheckDecision::failed(format!("exit code 0, but {sentence}"));
    }
    if let Some(case) = report.cases.iter().find(|case| is_red(case.status))
        && base.ids.is_none_or(|ids| !ids.flaky.contains(&case.id))
    {
        let id = crate::feedback::short(&case.id);
        return CheckDecision::failed(format!("exit code 0, although tests failed, among them `{id}`"));
    }
    let lost = |ids: &BaseIds| {
        // With an allowance a program of tests may be gone. Those that have results must show theirs all the same.
        (ids.canary == Canary::Seen && canary != Canary::Seen)
            || (!base.allowed && !ids.canaries.is_subset(&Canary::seen(report)))
    };
    if base.ids.is_some_and(lost) {
        return CheckDecision::inconclusive("the canary that failed on the base did not come to its end")
            .because(Cause::Report)
            .withheld();
    }
    let by_code = green_by_code(terms.expect, base.verdict);
    let (Some(strength), Some(ids)) =
        (by_code.strength, base.ids.filter(|ids| names_enough(terms.expect, ids)))
    else {
        return by_code;
    };
    let expected = ids.failed.len() + ids.passed.len();
    let turned = match terms.expect {
        Expect::Fix => format!("{} that failed on the base among them", ids.failed.len()),
        Expect::Guard | Expect::New => "all of which passed on the base".to_owned(),
    };
    let adapter = adapter_of(&terms.argv);
    let beside = |id: &String| adapter.is_none_or(|adapter| adapter.has_canary_beside(id));
    let covered = match terms.expect {
        Expect::Fix => ids.failed.iter().all(beside),
        Expect::Guard | Expect::New => ids.passed.iter().all(beside),
    };
    let level = if canary == Canary::Seen && covered { StrengthLevel::Canary } else { StrengthLevel::Ids };
    let in_process = adapter.map_or(strength.in_process, |adapter| adapter.in_process());
    passed(format!("{expected} of {expected} expected tests ran and passed, {turned}"), level, in_process)
}

/// Are there tests by name that show what the contract wants to see?
fn names_enough(expect: Expect, ids: &BaseIds) -> bool {
    match expect {
        Expect::Fix => !ids.failed.is_empty(),
        Expect::Guard => !ids.passed.is_empty(),
        // What is new has no name on the base: the control says how strong it is.
        Expect::New => false,
    }
}

fn passed(detail: String, level: StrengthLevel, in_process: bool) -> CheckDecision {
    let strength = Some(Strength { level, in_process });
    CheckDecision {
        status: GateStatus::Passed,
        reason: None,
        detail,
        strength,
        withheld: false,
        counts: None,
        cause: None,
    }
}

fn no_tests(detail: &str) -> CheckDecision {
    CheckDecision::not_passed(GateStatus::Unverifiable, Reason::NoTestsRan, detail.to_owned())
        .because(Cause::Test)
}

/// The runner says that tests failed, and all that did are quarantined.
fn only_flaky_failed(base: Base<'_>, seen: Seen<'_>, compared: Option<&Compared>) -> bool {
    let (Some(ids), Some(report), Some(compared)) = (base.ids, seen.whole(), compared) else { return false };
    let failed = report.cases.iter().any(|case| is_red(case.status));
    failed
        && report.broken.is_empty()
        && compared.holds()
        && compared.others.is_empty()
        && !ids.flaky.is_empty()
}

/// None where the base was never fit to start from: a pass on top of it is no pass.
fn green_strength(expect: Expect, base: &BaseVerdict) -> Option<StrengthLevel> {
    match (expect, base) {
        (Expect::Fix, BaseVerdict::Red { cause: RedCause::Test }) => Some(StrengthLevel::RedBefore),
        (Expect::Fix, BaseVerdict::Red { cause: RedCause::Unknown })
        | (Expect::Guard, BaseVerdict::Green)
        | (Expect::New, BaseVerdict::Green | BaseVerdict::Red { .. }) => Some(StrengthLevel::ExitCode),
        _ => None,
    }
}

/// `exit code 1`, `killed by signal 9`, …: what a receipt says, for people.
#[must_use]
pub fn how_it_ended(end: &JobEnd) -> String {
    match end {
        JobEnd::Exited { code } => format!("exit code {code}"),
        JobEnd::Signaled { signal } => format!("killed by signal {signal}"),
        JobEnd::Limit { .. } | JobEnd::Canceled | JobEnd::NotStarted { .. } => {
            match Runner::Other.meaning(end) {
                Meaning::NoAnswer(what) => what,
                _ => "no exit code".to_owned(),
            }
        }
    }
}

/// The strength of several checks that all passed: the weakest level, `in_process` if any is. None for no check.
#[must_use]
pub fn weakest(strengths: impl IntoIterator<Item = Strength>) -> Option<Strength> {
    strengths
        .into_iter()
        .reduce(|a, b| Strength { level: a.level.min(b.level), in_process: a.in_process || b.in_process })
}

/// `--min-strength`: the refusal's text when a pass is weaker than the contract asks; the reason is `too_weak`.
#[must_use]
pub fn too_weak(strength: Option<Strength>, least: Option<StrengthLevel>) -> Option<String> {
    let least = least?;
    let has = strength.map(|s| s.level);
    if has.is_some_and(|level| level >= least) {
        return None;
    }
    let has = has.map_or("none", StrengthLevel::as_str);
    let advice = match least {
        StrengthLevel::ExitCode | StrengthLevel::RedBefore => {
            "; declare a `--probe`, or let the check call a test runner without a shell or interpreter in front, to show \
             why the base is red"
        }
        _ => "",
    };
    Some(format!("the strength of this pass is {has} and the contract asks for at least {least}{advice}"))
}
