//! Reads receipts: what a base run, and what a final run in a room, show.

use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_types::{GateStatus, JobEnd, JobReceipt, Reason, Strength, StrengthLevel};
use serde::{Deserialize, Serialize};

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
}

/// Reads a base run. `probe` is the end of the environment's probe on the same base; None when none is declared.
#[must_use]
pub fn judge_base(terms: &CheckTerms, receipt: &JobReceipt, probe: Option<&JobEnd>) -> BaseVerdict {
    if let Some(detail) = environment_failure(probe) {
        return BaseVerdict::Environment { detail };
    }
    let probed = probe.is_some();
    let environment = |what: &str, advice: &str| BaseVerdict::Environment {
        detail: format!("the check could not be judged on the base: {what}; {advice}"),
    };
    // A crash is a red on the final tree, but on a base nobody can say whose fault it is.
    if let JobEnd::Signaled { signal } = receipt.end {
        return environment(&format!("it was killed by signal {signal}"), INSTALL);
    }
    let meaning = Runner::of(&terms.argv).meaning(&receipt.end);
    match (terms.expect, meaning) {
        (_, Meaning::NoAnswer(what)) => environment(&what, INSTALL),
        (_, Meaning::RunnerBroke(what)) => environment(what, INSTALL),
        (_, Meaning::NoTests) => environment("the runner found no tests", "name the tests in the check's command"),
        (Expect::Fix, Meaning::Green) => BaseVerdict::AlreadyGreen {
            detail: "the check already passes on the base, so a pass would prove nothing; if it must only stay green, \
                     say `--expect guard`"
                .to_owned(),
        },
        (Expect::Fix, Meaning::TestsFailed) => {
            // `python -m pytest` ends with 1 where there is no pytest, too.
            let certain = probed || !runs_module(&terms.argv);
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
fn runs_module(argv: &[String]) -> bool {
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
    base: &BaseVerdict,
    receipt: &JobReceipt,
    probe: Option<&JobEnd>,
    tree_changed_by_check: bool,
) -> CheckDecision {
    let runner = Runner::of(&terms.argv);
    let meaning = runner.meaning(&receipt.end);
    let inconclusive =
        |detail: String| not_passed(GateStatus::Unverifiable, Reason::CheckInconclusive, detail);
    let failed = || not_passed(GateStatus::Failed, Reason::CheckFailed, how_it_ended(&receipt.end));
    if !matches!(meaning, Meaning::Green)
        && let Some(detail) = environment_failure(probe)
    {
        return inconclusive(detail);
    }
    match meaning {
        Meaning::NoAnswer(what) => inconclusive(what),
        Meaning::RunnerBroke(what) => inconclusive(what.to_owned()),
        Meaning::NoTests => {
            not_passed(GateStatus::Unverifiable, Reason::NoTestsRan, "the runner found no tests".to_owned())
        }
        // The same environment collected on the base or was probed there, so the tree made this: red.
        Meaning::TestsFailed | Meaning::NotCollected(_) | Meaning::Red => failed(),
        Meaning::Green if tree_changed_by_check => not_passed(
            GateStatus::Unverifiable,
            Reason::EvidenceStale,
            "the check passed and changed files of the tree while it ran, so it did not judge what would be delivered"
                .to_owned(),
        ),
        Meaning::Green => match green_strength(terms.expect, base) {
            Some(level) => CheckDecision {
                status: GateStatus::Passed,
                reason: None,
                detail: match level {
                    StrengthLevel::RedBefore => "red on the base for a test reason, green on the final tree",
                    _ => "exit code 0 on the final tree",
                }
                .to_owned(),
                // An exit code is always the word of the process that ran the code under test.
                strength: Some(Strength { level, in_process: true }),
            },
            None => inconclusive("the base run does not carry a judgement of the final tree".to_owned()),
        },
    }
}

/// None where the base was never fit to start from: a pass on top of it is no pass.
fn green_strength(expect: Expect, base: &BaseVerdict) -> Option<StrengthLevel> {
    match (expect, base) {
        (Expect::Fix, BaseVerdict::Red { cause: RedCause::Test }) => Some(StrengthLevel::RedBefore),
        (Expect::Fix, BaseVerdict::Red { cause: RedCause::Unknown })
        | (Expect::Guard, BaseVerdict::Green) => Some(StrengthLevel::ExitCode),
        _ => None,
    }
}

fn not_passed(status: GateStatus, reason: Reason, detail: String) -> CheckDecision {
    CheckDecision { status, reason: Some(reason), detail, strength: None }
}

/// `exit code 1`, `killed by signal 9`, …: what a receipt says, for people.
pub(crate) fn how_it_ended(end: &JobEnd) -> String {
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
