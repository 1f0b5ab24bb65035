//! A failing test first: the agent's own reproduction, seen to fail on the base, locked, and run again at the end.

use countersign_gates::adapters::Adapter;
use countersign_gates::{CheckDecision, CheckPlan, ReproLock, RoomEvidence, RoomRole};
use countersign_kernel::{EffectResult, Event, ReproMark, Turn};
use countersign_tree::{Delta, Entry, EntryMode, TreePath};
use countersign_types::{Digest, GateStatus, JobEnd, Millis, Reason, SessionId};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};
use crate::checks::bytes_of;
use crate::error::EngineError;
use crate::perform::Outcome;
use crate::rooms::Ran;
use crate::setup::SETUP_WALL;
use crate::stop::Stop;
use crate::workshop::Workshop;

/// Characters of a reason for having no reproduction.
const MAX_REASON: usize = 500;

const MISSING: &str = "this task wants a failing test first, and none was declared: call `declare_repro` with a new test that \
                       fails on the files as they were at the start, or `skip_repro` with the reason why no test can show it";

/// What the agent settled, as a payload keeps it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReproMemory {
    pub(crate) lock: Option<ReproLock>,
    /// Why there is none. Redacted, one line, hostile.
    pub(crate) skipped: Option<String>,
}

/// What a call came to.
pub(crate) struct Settled {
    pub(crate) text: String,
    pub(crate) refused: bool,
    pub(crate) mark: Option<ReproMark>,
    pub(crate) kept: Option<Vec<u8>>,
}

impl Settled {
    /// Refused before anything was run.
    fn refused(why: &str) -> Self {
        let text = format!("refused: {why}. Nothing was declared.");
        Self { text, refused: true, mark: None, kept: None }
    }
}

impl Workshop<'_> {
    /// Runs a reproduction on the base with its new files. It is taken when it fails there as a test.
    pub(crate) async fn declare_repro(
        &mut self,
        turn: &Turn,
        paths: &[String],
        argv: &[String],
        stop: &Stop,
    ) -> Result<Settled, Fail> {
        if matches!(turn.repro, Some(ReproMark::Declared { .. })) {
            return Ok(Settled::refused("a reproduction is declared already, and it is locked"));
        }
        self.ready().await?;
        let files = match self.new_files(turn, paths)? {
            Ok(files) => files,
            Err(why) => return Ok(Settled::refused(&why)),
        };
        let base = self.facts()?.tree;
        let with = base.with(&Delta { put: files.clone(), remove: Vec::new() });
        let tree = with.digest();
        self.keep(tree, with);
        let terms = ReproLock::terms(argv, self.repro_wall());
        let mut plan = CheckPlan::new(&terms, &self.contract.environment);
        let mut ran = self.run_check(RoomRole::Control, 1, tree, &plan, stop).await?;
        if ran.took_no_reporter() && plan.adapter().is_some_and(Adapter::may_lack_reporter) {
            plan = plan.without_adapter();
            ran = self.run_check(RoomRole::Control, 1, tree, &plan, stop).await?;
        }
        // A test that the base has already is no new one; where none failed there is nothing to compare.
        let compares = ran.report.is_some() && ran.receipt.end != (JobEnd::Exited { code: 0 });
        let before: Option<Ran> = if compares {
            Some(self.run_check(RoomRole::Base, 1, base.digest(), &plan, stop).await?)
        } else {
            None
        };
        let before = before.as_ref().and_then(|ran| ran.report.as_ref());
        let probed = turn.probe == Some(countersign_kernel::JobSummary::Exited { code: 0 });
        let judged = countersign_gates::judge_declared(argv, ran.seen(), before, probed);
        let printed = countersign_tools::job_result(&ran.receipt);
        let ids = match judged {
            Ok(ids) => ids,
            Err(why) => {
                let text = format!(
                    "refused: on the files as they were at the start, with your new ones, {why}. Nothing was \
                     declared.\n{printed}"
                );
                return Ok(Settled { text, refused: false, mark: None, kept: None });
            }
        };
        let lock = ReproLock { files, argv: argv.to_vec(), ids, drift: ran.drift };
        let digest = lock.digest().map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
        let digest = self.hide(digest);
        let memory = ReproMemory { lock: Some(lock), skipped: None };
        let kept = Some(bytes_of(&memory)?);
        self.repro = memory;
        let text = format!(
            "accepted: it fails on the files as they were at the start. Its files are locked now: leave them as they are, \
             and make the command pass.\n{printed}"
        );
        Ok(Settled { text, refused: false, mark: Some(ReproMark::Declared { lock: digest }), kept })
    }

    pub(crate) fn skip_repro(&mut self, turn: &Turn, reason: &str) -> Result<Settled, Fail> {
        if matches!(turn.repro, Some(ReproMark::Declared { .. })) {
            return Ok(Settled::refused("a reproduction is declared already, and it is locked"));
        }
        let reason = countersign_tools::one_line(&self.ports.redactor.redact_str(reason), MAX_REASON);
        self.repro = ReproMemory { lock: None, skipped: Some(reason) };
        let kept = Some(bytes_of(&self.repro)?);
        let text = "Noted. The reason stands in the report.".to_owned();
        Ok(Settled { text, refused: false, mark: Some(ReproMark::Skipped), kept })
    }

    /// The named files as the agent left them. `Err` says why they cannot be a new test.
    fn new_files(&mut self, turn: &Turn, paths: &[String]) -> Result<Result<Vec<Entry>, String>, Fail> {
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let (base, head) = (self.facts()?.tree, self.tree(head)?);
        let mut files = Vec::new();
        for named in paths {
            let shown = countersign_tools::one_line(named, 200);
            let inside = named.strip_prefix("/workspace/").unwrap_or(named);
            let inside = inside.strip_prefix("./").unwrap_or(inside);
            let Ok(path) = TreePath::new(inside) else {
                return Ok(Err(format!("`{shown}` is no path of the project")));
            };
            if base.get(&path).is_some() {
                return Ok(Err(format!(
                    "`{shown}` existed at the start; a reproduction is made of new files"
                )));
            }
            match head.get(&path) {
                Some(entry) if entry.mode != EntryMode::Symlink => files.push(entry.clone()),
                Some(_) => return Ok(Err(format!("`{shown}` is a link"))),
                None => return Ok(Err(format!("there is no file `{shown}`; write it first"))),
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup();
        Ok(Ok(files))
    }

    fn repro_wall(&self) -> Millis {
        self.contract.checks.first().map_or(SETUP_WALL, |check| check.timeout)
    }

    /// The repro gate: the locked files are as they were, and their command passes on the sealed tree.
    pub(crate) async fn repro(&mut self, turn: &Turn, stop: &Stop) -> Outcome {
        let ReproMemory { lock, skipped } = self.repro.clone();
        let (status, reason, detail) = match (turn.repro, lock) {
            (Some(ReproMark::Declared { lock: digest }), Some(lock)) => {
                return self.run_repro(turn, digest, &lock, stop).await;
            }
            (Some(ReproMark::Declared { .. }), None) => {
                return Err(Fail::because(Reason::CheckpointLost, "what the agent declared is gone"));
            }
            (Some(ReproMark::Skipped), _) => {
                let why = skipped.unwrap_or_default();
                (GateStatus::Absent, None, format!("the agent says that no test can show it: {why}"))
            }
            (None, _) => {
                self.feedback = Some(format!("The checks pass, but {MISSING}. Then finish again."));
                (GateStatus::Failed, Some(Reason::CheckFailed), MISSING.to_owned())
            }
        };
        Ok((EffectResult::Repro { status, reason }, vec![("detail", detail.into_bytes())]))
    }

    async fn run_repro(&mut self, turn: &Turn, digest: Digest, lock: &ReproLock, stop: &Stop) -> Outcome {
        if lock.digest().ok().map(|plain| self.hide(plain)) != Some(digest) {
            return Err(Fail::because(Reason::CheckpointLost, "what is kept is not what the agent declared"));
        }
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changed = lock.changed_in(&tree);
        if !changed.is_empty() {
            let decision = countersign_gates::tampered_repro(&changed);
            return Ok((result_of(&decision), vec![("detail", decision.detail.into_bytes())]));
        }
        let terms = ReproLock::terms(&lock.argv, self.repro_wall());
        let plan = CheckPlan::new(&terms, &self.contract.environment);
        let plan = if lock.ids.is_some() { plan } else { plan.without_adapter() };
        let ran = self.run_check(RoomRole::Final, 1, sealed.tree, &plan, stop).await?;
        let probe = if ran.receipt.end == (JobEnd::Exited { code: 0 }) {
            None
        } else {
            self.probe_in_room(stop).await?
        };
        let drifted = self.drifted(ran.drift, lock.drift);
        let decision = lock.judge(&terms, ran.seen(), probe.as_ref(), drifted);
        if decision.status != GateStatus::Passed {
            self.feedback = Some(format!(
                "The checks pass, and the reproduction that you declared does not: {}\n{}",
                decision.told(),
                countersign_tools::job_result(&ran.receipt)
            ));
        }
        let named = vec![
            ("detail", decision.detail.clone().into_bytes()),
            ("stdout", cells::kept(&ran.receipt.stdout)),
            ("stderr", cells::kept(&ran.receipt.stderr)),
            ("room", bytes_of(&ReproRoom { argv: lock.argv.clone(), room: ran.evidence.clone() })?),
        ];
        Ok((result_of(&decision), named))
    }

    /// After a resume: what the agent settled, as the journal has it.
    pub(crate) async fn restore_repro(
        &mut self,
        id: &SessionId,
        events: &[(u64, Event)],
    ) -> Result<(), EngineError> {
        for (seq, event) in events {
            let Event::EffectCompleted { result: EffectResult::Tool { repro: Some(_), .. }, .. } = event
            else {
                continue;
            };
            let kept = self.ports.store.payload(id, *seq, "repro").await?;
            self.repro =
                serde_json::from_slice(&kept).map_err(|error| EngineError::Bug(error.to_string()))?;
        }
        Ok(())
    }
}

/// The room in which the reproduction ran, as it stands in evidence.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReproRoom {
    pub(crate) argv: Vec<String>,
    pub(crate) room: RoomEvidence,
}

const fn result_of(decision: &CheckDecision) -> EffectResult {
    EffectResult::Repro { status: decision.status, reason: decision.reason }
}
