//! Rooms: what a check shows on a tree, on the base as on what would be delivered. It is the same room before and after.

use std::sync::Arc;

use countersign_cell::Cell;
use countersign_gates::adapters::{Adapter, Canary, ReportPlan, ReportSource, report_path};
use countersign_gates::{
    Base, BaseIds, BaseVerdict as GateBase, CheckDecision, CheckEvidence, CheckPlan, RedCause as GateCause,
    RoomEvidence, RoomJob, RoomRole, Seen, Tests,
};
use countersign_guest::protocol::{Reply, Report, Request};
use countersign_kernel::contract::CheckTerms;
use countersign_kernel::{BaseVerdict, EffectResult, JobSummary, RedCause, Turn};
use countersign_tree::{Delta, Manifest};
use countersign_types::{
    Captured, CheckIndex, Digest, GateStatus, JobEnd, JobId, JobReceipt, Millis, Reason, TierProperties,
};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};
use crate::perform::{Outcome, summary_of};
use crate::setup::{SETUP_WALL, base_tree};
use crate::stop::Stop;
use crate::workshop::Workshop;

/// What a check showed on the base, beside the kernel's verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BaseSeen {
    /// The runner's tests were seen one by one.
    by_name: bool,
    /// None: they are not known by name.
    ids: Option<BaseIds>,
    rooms: Vec<RoomEvidence>,
}

/// A base run that was seen before on the same tree in the same environment.
#[derive(Serialize, Deserialize)]
struct CachedBase {
    verdict: BaseVerdict,
    job: JobSummary,
    drift: Option<Digest>,
    detail: String,
    seen: BaseSeen,
}

/// One run of a check in a room.
struct Ran {
    receipt: JobReceipt,
    /// None: the runner was not asked.
    report: Option<Report>,
    drift: Option<Digest>,
    evidence: RoomEvidence,
    observed: TierProperties,
}

impl Ran {
    const fn seen(&self) -> Seen<'_> {
        Seen { receipt: &self.receipt, report: self.report.as_ref() }
    }

    /// The runner should have reported and did not begin to: the command could not take the reporter in.
    fn took_no_reporter(&self) -> bool {
        self.report.as_ref().is_some_and(|report| !report.begun)
            && matches!(self.receipt.end, JobEnd::Exited { code } if code != 0)
    }
}

/// What came of a check on a tree.
pub(crate) struct Judged {
    pub(crate) decision: CheckDecision,
    pub(crate) receipt: JobReceipt,
    pub(crate) observed: TierProperties,
    pub(crate) evidence: CheckEvidence,
}

impl Workshop<'_> {
    /// What a check shows on the base. The same tree, environment and command give the same answer, so it is kept.
    pub(crate) async fn base_run(&mut self, turn: &Turn, check: CheckIndex, stop: &Stop) -> Outcome {
        let terms = self.terms(check)?;
        let base = base_tree(turn)?;
        let key = self.cache_key("base", base, Some(&terms))?;
        if let Some(cached) = self.cached::<CachedBase>(&key).await {
            let result = EffectResult::BaseRun {
                verdict: cached.verdict,
                job: cached.job,
                cached: true,
                drift: cached.drift,
            };
            let named = vec![("detail", cached.detail.into_bytes()), ("seen", bytes_of(&cached.seen)?)];
            self.base_seen.insert(check, Arc::new(cached.seen));
            return Ok((result, named));
        }
        let mut plan = CheckPlan::new(&terms, &self.contract.environment);
        let mut first = self.run_check(RoomRole::Base, 1, base, &plan, stop).await?;
        if first.took_no_reporter() && plan.adapter().is_some_and(Adapter::may_lack_reporter) {
            plan = plan.without_adapter();
            first = self.run_check(RoomRole::Base, 1, base, &plan, stop).await?;
        }
        let probe = turn.probe.map(end_of);
        let mut rooms = vec![first.evidence.clone()];
        let mut runs = vec![shown_on_base(&terms, &first, probe.as_ref())];
        for repeat in 2..=terms.repeats {
            let again = self.run_check(RoomRole::Base, repeat, base, &plan, stop).await?;
            rooms.push(again.evidence.clone());
            runs.push(shown_on_base(&terms, &again, probe.as_ref()));
        }
        let ran = first;
        let (judged, ids) = countersign_gates::merge_base(&terms, runs);
        let (verdict, detail) = kernel_verdict(&judged);
        let detail = if matches!(verdict, BaseVerdict::Environment) {
            format!("{detail}\n{}", countersign_tools::operator_result(&ran.receipt))
        } else {
            detail
        };
        let job = summary_of(&ran.receipt.end);
        let seen = BaseSeen { by_name: plan.adapter().is_some(), ids, rooms };
        let named = vec![
            ("detail", detail.clone().into_bytes()),
            ("stdout", cells::kept(&ran.receipt.stdout)),
            ("stderr", cells::kept(&ran.receipt.stderr)),
            ("seen", bytes_of(&seen)?),
        ];
        // A broken environment is not remembered: it may be mended without any of the key's parts changing.
        if !matches!(verdict, BaseVerdict::Environment) {
            let kept = CachedBase { verdict, job, drift: ran.drift, detail, seen: seen.clone() };
            self.remember(&key, &kept).await;
        }
        self.base_seen.insert(check, Arc::new(seen));
        Ok((EffectResult::BaseRun { verdict, job, cached: false, drift: ran.drift }, named))
    }

    /// A check on a tree, in a fresh room.
    pub(crate) async fn judge(
        &mut self,
        turn: &Turn,
        tree: Digest,
        check: CheckIndex,
        stop: &Stop,
    ) -> Result<Judged, Fail> {
        let terms = self.terms(check)?;
        let base = usize::try_from(check.0).ok().and_then(|index| turn.base_runs.get(index));
        let Some(base) = base else {
            return Err(Fail::because(Reason::CheckpointLost, "the check has no base run"));
        };
        let seen = self.base_seen.get(&check).cloned();
        let plan = self.plan_like_base(check, &terms);
        let manifest = self.tree(tree)?;
        let base_manifest = self.facts()?.tree;
        let mut evidence = CheckEvidence::of_base(
            check.0,
            plan.adapter().map(Adapter::name),
            seen.as_ref().and_then(|seen| seen.ids.as_ref()),
            terms.repeats,
        );
        evidence.rooms = seen.iter().flat_map(|seen| seen.rooms.clone()).collect();
        let lockfiles = countersign_gates::changed_lockfiles(&base_manifest, &manifest);
        if let Some(decision) = countersign_gates::judge_deps(self.contract.deps, &lockfiles) {
            evidence.cause = decision.cause;
            let receipt = not_run()?;
            return Ok(Judged { decision, receipt, observed: TierProperties::new(), evidence });
        }
        let verdict = gate_verdict(base.verdict);
        let against = Base { verdict: &verdict, ids: seen.as_ref().and_then(|seen| seen.ids.as_ref()) };
        let mut runs: Vec<(CheckDecision, Ran)> = Vec::new();
        for repeat in 1..=terms.repeats.max(1) {
            let ran = self.run_check(RoomRole::Final, repeat, tree, &plan, stop).await?;
            // Asked only when the check did not pass: is it the tree or the machine?
            let probe = if ran.receipt.end == (JobEnd::Exited { code: 0 }) {
                None
            } else {
                self.probe_in_room(stop).await?
            };
            let changed = self.drifted(ran.drift, base.drift);
            let decision =
                countersign_gates::judge_final(&terms, against, ran.seen(), probe.as_ref(), changed);
            evidence.rooms.push(ran.evidence.clone());
            runs.push((decision, ran));
        }
        let passed = |decision: &CheckDecision| decision.status == GateStatus::Passed;
        let green = runs.iter().filter(|(decision, _)| passed(decision)).count();
        evidence.repeats.green = u32::try_from(green).unwrap_or(u32::MAX);
        let mut decision =
            countersign_gates::merge_final(runs.iter().map(|(decision, _)| decision.clone()).collect());
        // What people and the agent read is the run that decided.
        let shown = runs.iter().position(|(run, _)| !passed(run)).unwrap_or_default();
        let (_, ran) = runs.swap_remove(shown);
        if passed(&decision) && countersign_gates::wants_control(terms.expect) {
            let control = match self.control_tree(&base_manifest, &manifest)? {
                Some(control) => Some(self.run_check(RoomRole::Control, 1, control, &plan, stop).await?),
                None => None,
            };
            evidence.rooms.extend(control.as_ref().map(|control| control.evidence.clone()));
            let seen = control.as_ref().map(Ran::seen);
            let probed = turn.probe == Some(JobSummary::Exited { code: 0 });
            (decision, evidence.control) =
                countersign_gates::judge_control(&terms, against, decision, ran.seen(), seen, probed);
        }
        evidence.conclude(&decision, ran.evidence.channel, ran.evidence.canary);
        Ok(Judged { decision, receipt: ran.receipt, observed: ran.observed, evidence })
    }

    /// The base with everything of the change that is not the product. None: the change has nothing else.
    fn control_tree(&mut self, base: &Manifest, tree: &Manifest) -> Result<Option<Digest>, Fail> {
        let fence = self.fence(base)?;
        let mut delta = Delta::default();
        for change in base.changes_to(tree) {
            if fence.is_beside_product(&change.path) {
                match change.after {
                    Some(entry) => delta.put.push(entry),
                    None => delta.remove.push(change.path),
                }
            }
        }
        if delta.is_empty() {
            return Ok(None);
        }
        let control = base.with(&delta);
        let digest = control.digest();
        self.keep(digest, control);
        Ok(Some(digest))
    }

    /// A base result that an earlier run left is good enough to begin with, because a wrong one only costs work. A pass
    /// does not rest on it: toolchains, caches and the system can have changed since. Does the base still show the same?
    pub(crate) async fn base_still_holds(
        &mut self,
        turn: &Turn,
        check: CheckIndex,
        stop: &Stop,
    ) -> Result<bool, Fail> {
        let terms = self.terms(check)?;
        let run = usize::try_from(check.0).ok().and_then(|index| turn.base_runs.get(index));
        let Some(run) = run.filter(|run| run.cached) else { return Ok(true) };
        let base = base_tree(turn)?;
        let plan = self.plan_like_base(check, &terms);
        let ran = self.run_check(RoomRole::Base, 1, base, &plan, stop).await?;
        let probe = turn.probe.map(end_of);
        let (verdict, _) = kernel_verdict(&countersign_gates::judge_base(&terms, ran.seen(), probe.as_ref()));
        if verdict != run.verdict {
            let key = self.cache_key("base", base, Some(&terms))?;
            // Nothing that reads as a result: the next run asks the base itself.
            let _ = self.ports.memo.remember(&key, b"");
        }
        Ok(verdict == run.verdict)
    }

    /// The probe on the base, in a room of its own: nothing of the judged tree can make it fail.
    async fn probe_in_room(&mut self, stop: &Stop) -> Result<Option<JobEnd>, Fail> {
        let wall = self.contract.checks.first().map_or(SETUP_WALL, |check| check.timeout);
        let Some(plan) = CheckPlan::probe(&self.contract.environment, wall) else { return Ok(None) };
        let base = self.base_digest()?;
        let (cell, _) = self.room_with(base).await?;
        let ran = self.run_in_room(cell.as_ref(), plan.job(&cells::paths(cell.as_ref())), stop).await;
        cell.end(true).await?;
        Ok(Some(ran?.end))
    }

    /// As the base was run: where it could not take the reporter in, nothing is compared by name.
    fn plan_like_base(&self, check: CheckIndex, terms: &CheckTerms) -> CheckPlan {
        let plan = CheckPlan::new(terms, &self.contract.environment);
        match self.base_seen.get(&check) {
            Some(seen) if seen.by_name => plan,
            _ => plan.without_adapter(),
        }
    }

    // ---- the room itself ---------------------------------------------------------------------------------------

    /// One run on a tree in a room of its own, with what the verifier brings and what the runner reports.
    async fn run_check(
        &mut self,
        role: RoomRole,
        repeat: u32,
        tree: Digest,
        plan: &CheckPlan,
        stop: &Stop,
    ) -> Result<Ran, Fail> {
        match self.try_check(role, repeat, tree, plan, stop).await {
            // A cell that died or could not be made says nothing about the tree: once more, and that is said.
            Err(Fail::Failed { failure, .. }) if failure.reason == Reason::CellDied && !stop.is_set() => {
                let mut ran = self.try_check(role, repeat, tree, plan, stop).await?;
                ran.evidence.retried = true;
                Ok(ran)
            }
            other => other,
        }
    }

    async fn try_check(
        &mut self,
        role: RoomRole,
        repeat: u32,
        tree: Digest,
        plan: &CheckPlan,
        stop: &Stop,
    ) -> Result<Ran, Fail> {
        let (cell, manifest) = self.room_with(tree).await?;
        let ran = self.run_check_in(cell.as_ref(), role, repeat, &manifest, plan, stop).await;
        let ended = cell.end(true).await;
        let ran = ran?;
        ended?;
        Ok(ran)
    }

    async fn run_check_in(
        &self,
        cell: &dyn Cell,
        role: RoomRole,
        repeat: u32,
        tree: &Manifest,
        plan: &CheckPlan,
        stop: &Stop,
    ) -> Result<Ran, Fail> {
        let nonce = cells::hex(&self.ports.ids.bytes());
        let (run, job) = plan.run(&cells::paths(cell), &nonce);
        if run.report.is_some() {
            let request = Request::PlaceOverlay { files: run.overlay.clone(), report: nonce.clone() };
            cells::ask(cell, &request, Vec::new()).await?;
        }
        let mut spec = cells::job(self.ports, job.argv, job.cwd, job.env, job.wall)?;
        if matches!(&run.report, Some(ReportPlan { source: ReportSource::Stdout, .. })) {
            spec.limits.output_head = cells::REPORT_HEAD;
        }
        let receipt = cells::run_job(cell, spec, stop).await?;
        let report = match &run.report {
            Some(plan) => Some(self.read_report(cell, plan, &nonce, &receipt).await?),
            None => None,
        };
        // A check's job may print more than a journal keeps.
        let receipt = cells::redacted(&self.ports.redactor, cells::shortened(receipt));
        let drift = self.drift_of(cell, tree).await?;
        let evidence = RoomEvidence {
            role,
            repeat,
            tree: tree.digest(),
            end: receipt.end.clone(),
            wall_ms: receipt.wall,
            retried: false,
            channel: run.channel(),
            overlay: run.overlay_digest(&nonce),
            report: report.as_ref().map(|report| report.complete),
            tests: report.as_ref().and_then(Tests::of),
            canary: report.as_ref().map_or(Canary::Absent, Canary::of),
        };
        let observed = cell.observation().await.properties;
        Ok(Ran { receipt, report, drift, evidence, observed })
    }

    /// What the runner reported. A report that the guest cannot read, or that is too much for it, says nothing.
    async fn read_report(
        &self,
        cell: &dyn Cell,
        plan: &ReportPlan,
        nonce: &str,
        receipt: &JobReceipt,
    ) -> Result<Report, Fail> {
        let reply = match &plan.source {
            ReportSource::File(name) => {
                let request = Request::ReadReport { path: report_path(nonce, name), format: plan.format };
                cells::ask(cell, &request, Vec::new()).await
            }
            ReportSource::Stdout if receipt.stdout.omitted > 0 => return Ok(Report::default()),
            ReportSource::Stdout => {
                let segment = self.ports.objects.new_segment()?;
                let written = (|| {
                    use std::io::Write as _;
                    (&segment.file).write_all(&receipt.stdout.head)?;
                    (&segment.file).write_all(&receipt.stdout.tail)
                })();
                written.map_err(|error| Fail::because(Reason::Store, format!("a segment: {error}")))?;
                let request = Request::ReadOutput { format: plan.format };
                cells::ask(cell, &request, vec![cells::lend(&segment)?]).await
            }
        };
        match reply {
            Ok(Reply::Report(report)) => Ok(report),
            Ok(_) => Err(cells::unexpected("a report")),
            Err(Fail::Failed { failure, message }) if failure.reason == Reason::DiskFull => {
                Err(Fail::because(Reason::DiskFull, message))
            }
            Err(Fail::Failed { .. }) => Ok(Report::default()),
            Err(Fail::Interrupted) => Err(Fail::Interrupted),
        }
    }

    /// A fresh cell that holds exactly a tree and the pristine environment.
    pub(crate) async fn room_with(&mut self, tree: Digest) -> Result<(Arc<dyn Cell>, Arc<Manifest>), Fail> {
        let Some(rooms) = &self.ports.cells.rooms else {
            return Err(Fail::because(Reason::SandboxUnavailable, "no room can be made on this machine"));
        };
        let manifest = self.tree(tree)?;
        let cell = cells::open(self.ports, rooms, &self.contract, self.layers.clone(), None).await?;
        cells::materialise(cell.as_ref(), &self.ports.objects, &manifest).await?;
        cells::ask(cell.as_ref(), &Request::Watch, Vec::new()).await?;
        Ok((cell, manifest))
    }

    pub(crate) async fn run_in_room(
        &self,
        cell: &dyn Cell,
        job: RoomJob,
        stop: &Stop,
    ) -> Result<JobReceipt, Fail> {
        let job = cells::job(self.ports, job.argv, job.cwd, job.env, job.wall)?;
        let receipt = cells::run_job(cell, job, stop).await?;
        Ok(cells::redacted(&self.ports.redactor, receipt))
    }

    fn terms(&self, check: CheckIndex) -> Result<CheckTerms, Fail> {
        usize::try_from(check.0)
            .ok()
            .and_then(|index| self.contract.checks.get(index))
            .cloned()
            .ok_or_else(|| Fail::because(Reason::Config, "the contract has no such check"))
    }
}

fn shown_on_base(terms: &CheckTerms, ran: &Ran, probe: Option<&JobEnd>) -> (GateBase, Option<BaseIds>) {
    let verdict = countersign_gates::judge_base(terms, ran.seen(), probe);
    (verdict, ran.report.as_ref().and_then(BaseIds::of))
}

/// The receipt of a check that was not started.
fn not_run() -> Result<JobReceipt, Fail> {
    let job = JobId::new("none").map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
    let nothing = Captured::default();
    let (stdout, stderr) = (nothing.clone(), nothing);
    Ok(JobReceipt { job, end: JobEnd::Canceled, stdout, stderr, wall: Millis(0), killed: 0 })
}

pub(crate) fn bytes_of(value: &impl Serialize) -> Result<Vec<u8>, Fail> {
    serde_json::to_vec(value).map_err(|error| Fail::because(Reason::CellDied, error.to_string()))
}

/// The kernel keeps no more of an end than what decides.
pub(crate) const fn end_of(job: JobSummary) -> JobEnd {
    match job {
        JobSummary::Exited { code } => JobEnd::Exited { code },
        JobSummary::Signaled { signal } => JobEnd::Signaled { signal },
        JobSummary::Limited => JobEnd::Limit { which: countersign_types::LimitHit::Timeout },
        JobSummary::Canceled | JobSummary::NotStarted => JobEnd::Canceled,
    }
}

fn kernel_verdict(verdict: &GateBase) -> (BaseVerdict, String) {
    match verdict {
        GateBase::Red { cause } => {
            let cause = match cause {
                GateCause::Test => RedCause::Test,
                GateCause::Unknown => RedCause::Unknown,
            };
            (BaseVerdict::Red { cause }, "red on the base, as it must be".to_owned())
        }
        GateBase::Green => (BaseVerdict::Green, "green on the base, as a guard must be".to_owned()),
        GateBase::AlreadyGreen { detail } => (BaseVerdict::AlreadyGreen, detail.clone()),
        GateBase::Environment { detail } => (BaseVerdict::Environment, detail.clone()),
    }
}

fn gate_verdict(verdict: BaseVerdict) -> GateBase {
    match verdict {
        BaseVerdict::Red { cause: RedCause::Test } => GateBase::Red { cause: GateCause::Test },
        BaseVerdict::Red { cause: RedCause::Unknown } => GateBase::Red { cause: GateCause::Unknown },
        BaseVerdict::Green => GateBase::Green,
        BaseVerdict::AlreadyGreen => GateBase::AlreadyGreen { detail: String::new() },
        BaseVerdict::Environment => GateBase::Environment { detail: String::new() },
    }
}
