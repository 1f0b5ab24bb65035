//! What a check's verdict rests on, for records and results: every room that was used for it and what was seen there.

use countersign_types::{Digest, JobEnd, Millis};
use serde::{Deserialize, Serialize};

use crate::adapters::{Canary, Channel};
use crate::check::CheckDecision;
use crate::ids::BaseIds;
use crate::profile::HeldOutEvidence;

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckEvidence {
    /// The position in the contract, from 0.
    pub check: u32,
    /// The runner whose tests were seen one by one. None: only exit codes were.
    pub runner: Option<String>,
    pub channel: Channel,
    /// Why it did not pass. None: it passed.
    pub cause: Option<Cause>,
    /// Tests that had to pass. None: the runner's tests are not known by name.
    pub expected: Option<u64>,
    pub passed: Option<u64>,
    /// Expected, and without a result.
    pub missing: Option<u64>,
    /// Tests that did not always do the same on the base, so that nothing was expected of them. At most 50 names.
    pub flaky: Vec<String>,
    pub canary: Canary,
    /// Runs on the final tree.
    pub repeats: Repeats,
    /// The base with what the change brought beside the product. None: there was nothing to try.
    pub control: Option<Control>,
    /// None: the check has no held-out inputs, or did not come to them.
    pub held_out: Option<HeldOutEvidence>,
    /// What `--deps fetch` made for the final tree's own lockfiles. None: it was judged in the base's environment.
    #[serde(default)]
    pub environment: Option<Digest>,
    /// In the order in which they were used.
    pub rooms: Vec<RoomEvidence>,
}

impl CheckEvidence {
    /// Names of flaky tests that are told.
    const MAX_FLAKY: usize = 50;

    /// Before the final tree was tried.
    #[must_use]
    pub fn of_base(check: u32, runner: Option<&str>, ids: Option<&BaseIds>, asked: u32) -> Self {
        let flaky = ids.iter().flat_map(|ids| &ids.flaky).take(Self::MAX_FLAKY);
        Self {
            check,
            runner: runner.map(str::to_owned),
            channel: Channel::ExitCode,
            cause: None,
            expected: None,
            passed: None,
            missing: None,
            flaky: flaky.map(|id| crate::feedback::short(id)).collect(),
            canary: Canary::Absent,
            repeats: Repeats { asked, green: 0 },
            control: None,
            held_out: None,
            environment: None,
            rooms: Vec::new(),
        }
    }

    /// What the run that decided showed.
    pub fn conclude(&mut self, decision: &CheckDecision, channel: Channel, canary: Canary) {
        self.channel = channel;
        self.canary = canary;
        self.cause = decision.cause;
        self.expected = decision.counts.map(|counts| counts.expected);
        self.passed = decision.counts.map(|counts| counts.passed);
        self.missing = decision.counts.map(|counts| counts.missing);
    }
}

/// What kept a check from passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The tests, or the runner because of what the tree holds.
    Test,
    /// This machine: time, memory, disk, a cell that died.
    Infra,
    /// The environment: its probe fails, a program is missing, the runner itself breaks.
    Environment,
    /// A lockfile differs from the one that the environment was made from.
    Dependencies,
    /// Not the same in every run on the same files.
    Flaky,
    /// It is green without the product's change too.
    Control,
    /// The runner's report is cut, absent or not understood.
    Report,
    /// What was judged is not what would be delivered.
    Tree,
    /// Inputs that the agent never saw are not answered right.
    HeldOut,
    /// The profile is not what the contract pinned.
    Profile,
}

/// How often the same was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    pub asked: u32,
    pub green: u32,
}

/// Whether the base without the product's change stays red.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// As it must be: it is the product's change that turns the check.
    Red,
    /// What turned the check is not in the product.
    Green,
    Unknown,
}

/// One run in a room of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomEvidence {
    pub role: RoomRole,
    /// From 1.
    pub repeat: u32,
    pub tree: Digest,
    #[serde(flatten)]
    pub end: JobEnd,
    pub wall_ms: Millis,
    /// The first try failed through a fault of this machine, and this is the second.
    pub retried: bool,
    pub channel: Channel,
    /// What the verifier brought into it.
    pub overlay: Option<Digest>,
    /// A report came and is whole. None: none was asked for.
    pub report: Option<bool>,
    /// Tests by result. None: no report that is whole.
    pub tests: Option<Tests>,
    pub canary: Canary,
}

impl RoomEvidence {
    /// Not one of the base runs before the agent started.
    #[must_use]
    pub const fn is_of_attempt(&self) -> bool {
        !matches!(self.role, RoomRole::Base)
    }
}

/// What a room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomRole {
    /// The base as it is.
    Base,
    /// The tree that would be delivered.
    Final,
    /// The base with what the change brought beside the product.
    Control,
    /// Inputs that the agent never saw.
    HeldOut,
}

/// Tests of one run by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tests {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Files or groups that could not be read.
    pub unread: u64,
}

impl Tests {
    /// None: the report is not whole.
    #[must_use]
    pub fn of(report: &countersign_guest::protocol::Report) -> Option<Self> {
        use countersign_guest::protocol::TestStatus;
        if !report.complete {
            return None;
        }
        let mut tests = Self { unread: report.broken.len() as u64, ..Self::default() };
        for case in &report.cases {
            match case.status {
                TestStatus::Passed => tests.passed += 1,
                TestStatus::Failed | TestStatus::Error => tests.failed += 1,
                TestStatus::Skipped => tests.skipped += 1,
            }
        }
        Some(tests)
    }
}
