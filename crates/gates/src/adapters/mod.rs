//! What is known of test runners: how a room has to run them so that each test's result is seen, and not only the exit
//! code of a process that ran the code under test.
//!
//! An adapter is recognised from argv alone. It says what the room needs ([`Run`]); the guest writes the files, reads the
//! report and parses it; `check` compares ids. A new runner is a new file here, a row in [`ADAPTERS`], and where its
//! report is of a new kind a parser in the guest.

mod cargo_test;
mod go;
mod javascript;
mod node;
mod pytest;
mod unittest;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use countersign_guest::protocol::{
    GoCanary, OverlayFile, REPORT_DIR, Report, ReportFormat, TestStatus, VERIFIER_DIR,
};
use countersign_types::{Digest, canonical_json};
use serde::{Deserialize, Serialize};

/// A test runner whose results are seen one by one.
pub trait Adapter: Sync + fmt::Debug {
    /// Stands in evidence: `pytest`.
    fn name(&self) -> &'static str;

    /// Whether the command is this runner, called in a way that the adapter can take part in. Called with the program and
    /// its arguments; a shell in front is no runner.
    fn recognises(&self, argv: &[String]) -> bool;

    /// What a room needs for one run. `nonce` is new in every run: 32 hexadecimal digits.
    fn run(&self, argv: &[String], nonce: &str) -> Run;

    /// Whether code under test shares the process that reports on it.
    fn in_process(&self) -> bool;

    /// Whether a canary of the runner shares its process, so that what it shows holds for this test too.
    fn has_canary_beside(&self, _id: &str) -> bool {
        true
    }

    /// Whether a base run that ends with an error before any report may mean that the command cannot take the reporter in
    /// (an interpreter or a version that does not know how). Then it is run again, as the contract has it, and only its
    /// exit code is seen.
    fn may_lack_reporter(&self) -> bool {
        true
    }
}

/// Every runner that is known, the first that recognises a command is its adapter.
static ADAPTERS: &[&dyn Adapter] = &[
    &pytest::Pytest,
    &unittest::Unittest,
    &cargo_test::CargoTest,
    &cargo_test::Nextest,
    &go::GoTest,
    &node::NodeTest,
    &javascript::Mocha,
    &javascript::Jest,
    &javascript::Vitest,
];

/// The adapter of a command. None: only its exit code is seen.
#[must_use]
pub fn adapter_of(argv: &[String]) -> Option<&'static dyn Adapter> {
    ADAPTERS.iter().copied().find(|adapter| adapter.recognises(argv))
}

/// One run of a check as a room has to do it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub argv: Vec<String>,
    /// Set over the job's environment.
    pub env: BTreeMap<String, String>,
    /// Put in front of a variable that is a list of paths.
    pub front: BTreeMap<String, String>,
    /// Written below the guest's `VERIFIER_DIR` before the run.
    pub overlay: Vec<OverlayFile>,
    /// What is put into test files of Go packages. None: nothing.
    pub go_canary: Option<GoCanary>,
    /// None: nothing but the exit code is seen.
    pub report: Option<ReportPlan>,
}

/// Where a run's report comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPlan {
    pub source: ReportSource,
    pub format: ReportFormat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportSource {
    /// A path below the run's own report directory. With an empty name, the directory itself.
    File(String),
    /// All of standard output.
    Stdout,
}

/// How results came out of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Nothing but the process's end.
    ExitCode,
    /// What the runner printed.
    Stdout,
    /// A file in a directory that did not exist before the run, by a reporter that the verifier brought.
    Report,
}

/// What came of the canary: a test of ours that must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Canary {
    /// None came: the runner has none, or did not come that far.
    Absent,
    /// Reported as the failure that it is.
    Seen,
    /// It could not be run.
    Broken,
    /// Reported as something better than a failure: the runner, its assertions or its reports were tampered with.
    Denied,
}

impl Canary {
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let worst = |status: TestStatus| match status {
            TestStatus::Passed | TestStatus::Skipped => Self::Denied,
            TestStatus::Failed => Self::Seen,
            TestStatus::Error => Self::Broken,
        };
        let all: Vec<Self> = report.canaries.iter().map(|canary| worst(canary.status)).collect();
        [Self::Denied, Self::Broken, Self::Seen]
            .into_iter()
            .find(|way| all.contains(way))
            .unwrap_or(Self::Absent)
    }

    /// The canaries of a report that failed, as they must: for runners that start several programs, one of each.
    #[must_use]
    pub fn seen(report: &Report) -> BTreeSet<String> {
        let seen = report.canaries.iter().filter(|canary| canary.status == TestStatus::Failed);
        seen.map(|canary| canary.id.clone()).collect()
    }
}

impl Run {
    /// The command as the contract has it.
    #[must_use]
    pub fn plain(argv: &[String]) -> Self {
        Self { argv: argv.to_vec(), ..Self::default() }
    }

    /// The environment of the run's job.
    pub(crate) fn env_over(&self, mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
        env.extend(self.env.clone());
        for (name, entry) in &self.front {
            let list = match env.get(name).filter(|rest| !rest.is_empty()) {
                Some(rest) => format!("{entry}:{rest}"),
                None => entry.clone(),
            };
            env.insert(name.clone(), list);
        }
        env
    }

    #[must_use]
    pub fn channel(&self) -> Channel {
        match self.report.as_ref().map(|report| &report.source) {
            None => Channel::ExitCode,
            Some(ReportSource::Stdout) => Channel::Stdout,
            // Our script keeps what the test programs print.
            Some(ReportSource::File(_))
                if self.report.as_ref().is_some_and(|report| report.format == ReportFormat::GoTest) =>
            {
                Channel::Stdout
            }
            Some(ReportSource::File(_)) => Channel::Report,
        }
    }

    /// The digest of everything that the verifier brings, the nonce left out. None: nothing is brought.
    #[must_use]
    pub fn overlay_digest(&self, nonce: &str) -> Option<Digest> {
        if self.overlay.is_empty() {
            return None;
        }
        let brought =
            self.overlay.iter().map(|file| (file.path.replace(nonce, "NONCE"), file.content.clone()));
        let go = self.go_canary.iter().flat_map(|go| [("go imports", &go.imports), ("go tests", &go.tests)]);
        let go = go.map(|(name, text)| (name.to_owned(), text.replace(nonce, "NONCE")));
        let files: BTreeMap<String, String> = brought.chain(go).collect();
        canonical_json(&files).ok().map(|bytes| Digest::of(&bytes))
    }
}

/// A path of the verifier in a room.
pub(crate) fn verifier(path: &str) -> String {
    format!("{VERIFIER_DIR}/{path}")
}

/// Where a report lies.
#[must_use]
pub fn report_path(nonce: &str, name: &str) -> String {
    if name.is_empty() { format!("{REPORT_DIR}/{nonce}") } else { format!("{REPORT_DIR}/{nonce}/{name}") }
}

/// An argument list with more behind a position.
pub(crate) fn with_after(argv: &[String], position: usize, more: &[&str]) -> Vec<String> {
    let at = argv.len().min(position + 1);
    let mut out = argv[..at].to_vec();
    out.extend(more.iter().map(|word| (*word).to_owned()));
    out.extend_from_slice(&argv[at..]);
    out
}
