//! What a check shows: on the base, on what would be delivered, and on the base with what the change brought beside the
//! product.

use std::sync::Arc;

use countersign_gates::adapters::Adapter;
use countersign_gates::profile::guards_on_base;
use countersign_gates::{
    Base, BaseIds, BaseVerdict as GateBase, CheckDecision, CheckEvidence, CheckPlan, RedCause as GateCause,
    RoomEvidence, RoomRole,
};
use countersign_guest::protocol::EnvironmentSeen;
use countersign_kernel::contract::CheckTerms;
use countersign_kernel::{BaseVerdict, EffectResult, JobSummary, RedCause, Turn};
use countersign_tree::{Delta, Manifest};
use countersign_types::{
    Captured, CheckIndex, Digest, GateStatus, JobEnd, JobId, JobReceipt, Millis, Reason, TierProperties,
};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};
use crate::held_out::HeldOutRan;
use crate::identity::RanIn;
use crate::perform::{Outcome, summary_of};
use crate::rooms::Ran;
use crate::setup::{SETUP_WALL, base_tree};
use crate::stop::Stop;
use crate::test_names::TestNames;
use crate::workshop::Workshop;

/// What a check showed on the base, beside the kernel's verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BaseSeen {
    /// The runner's tests were seen one by one.
    by_name: bool,
    /// None: they are not known by name.
    pub(crate) ids: Option<BaseIds>,
    rooms: Vec<RoomEvidence>,
    /// None: the check has no held-out inputs.
    #[serde(default)]
    pub(crate) held_out: Option<HeldOutRan>,
}

impl BaseSeen {
    /// Every room that the base was run in.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = &RoomEvidence> {
        self.rooms.iter().chain(self.held_out.as_ref().map(|ran| &ran.room))
    }

    /// How long its runs took.
    pub(crate) fn wall(&self) -> Millis {
        Millis(self.rooms.iter().fold(0, |sum, room| sum.saturating_add(room.wall_ms.0)))
    }
}

/// A base run that was seen before on the same tree in the same environment.
#[derive(Serialize, Deserialize)]
struct CachedBase {
    verdict: BaseVerdict,
    job: JobSummary,
    drift: Option<Digest>,
    detail: String,
    seen: BaseSeen,
    ran: RanIn,
}

/// What came of a check on a tree.
pub(crate) struct Judged {
    pub(crate) decision: CheckDecision,
    pub(crate) receipt: JobReceipt,
    pub(crate) observed: TierProperties,
    pub(crate) evidence: CheckEvidence,
    /// Of the run that decided. None: the runner's tests are not known by name.
    pub(crate) tests: Option<TestNames>,
}

impl Workshop<'_> {
    /// What a check shows on the base. The same tree, environment and command give the same answer, so it is kept.
    pub(crate) async fn base_run(&mut self, turn: &Turn, check: CheckIndex, stop: &Stop) -> Outcome {
        let terms = self.terms(check)?;
        let base = base_tree(turn)?;
        self.profile().map_err(|why| Fail::because(Reason::ProfileChanged, why))?;
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
        let at = self.ports.clock.now();
        let mut plan = CheckPlan::new(&terms, &self.contract.environment);
        let mut first = self.run_check(RoomRole::Base, 1, base, &plan, stop).await?;
        if first.took_no_reporter() && plan.adapter().is_some_and(Adapter::may_lack_reporter) {
            plan = plan.without_adapter();
            first = self.run_check(RoomRole::Base, 1, base, &plan, stop).await?;
        }
        let (judged, ids, rooms) = self.repeat_base(turn, &terms, &plan, &first, stop).await?;
        let ran = first;
        let (mut judged, mut held_out) = (judged, None);
        if judged.setup_error().is_none() {
            held_out = self.held_out_on_base(base, check, stop).await?;
            if let Some(why) = held_out.as_ref().and_then(|ran| guards_on_base(&terms, &ran.seen)) {
                judged = GateBase::Environment {
                    detail: format!("the check could not be judged on the base: {why}"),
                };
            }
        }
        let (verdict, detail) = kernel_verdict(&judged);
        let detail = if matches!(verdict, BaseVerdict::Environment) {
            format!("{detail}\n{}", countersign_tools::operator_result(&ran.receipt))
        } else {
            detail
        };
        let job = summary_of(&ran.receipt.end);
        let seen = BaseSeen { by_name: plan.adapter().is_some(), ids, rooms, held_out };
        let named = vec![
            ("detail", detail.clone().into_bytes()),
            ("stdout", cells::kept(&ran.receipt.stdout)),
            ("stderr", cells::kept(&ran.receipt.stderr)),
            ("seen", bytes_of(&seen)?),
        ];
        // A broken environment is not remembered: it may be mended without any of the key's parts changing.
        if !matches!(verdict, BaseVerdict::Environment) {
            let (drift, seen) = (ran.drift, seen.clone());
            let kept = CachedBase { verdict, job, drift, detail, seen, ran: RanIn { at, environment: None } };
            self.remember(&key, &kept).await;
            self.base_ran.insert(check, at);
        }
        self.base_seen.insert(check, Arc::new(seen));
        Ok((EffectResult::BaseRun { verdict, job, cached: false, drift: ran.drift }, named))
    }

    /// As many runs as the contract asks for, of which the first is there.
    async fn repeat_base(
        &mut self,
        turn: &Turn,
        terms: &CheckTerms,
        plan: &CheckPlan,
        first: &Ran,
        stop: &Stop,
    ) -> Result<(GateBase, Option<BaseIds>, Vec<RoomEvidence>), Fail> {
        let base = base_tree(turn)?;
        let probe = turn.probe.map(end_of);
        let mut rooms = vec![first.evidence.clone()];
        let mut runs = vec![shown_on_base(terms, first, probe.as_ref())];
        for repeat in 2..=terms.repeats {
            let again = self.run_check(RoomRole::Base, repeat, base, plan, stop).await?;
            rooms.push(again.evidence.clone());
            runs.push(shown_on_base(terms, &again, probe.as_ref()));
        }
        let (verdict, ids) = countersign_gates::merge_base(terms, runs);
        Ok((verdict, ids, rooms))
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
        let lockfiles = countersign_gates::changed_sources(
            &base_manifest,
            &manifest,
            self.contract.environment.setup.as_deref(),
        );
        let mut refused = countersign_gates::judge_deps(self.contract.deps, &lockfiles);
        if refused.is_none() {
            match self.environment_for(tree, stop).await? {
                Ok(environment) => evidence.environment = environment,
                Err(decision) => refused = Some(decision),
            }
        }
        if let Some(decision) = refused {
            evidence.cause = decision.cause;
            let receipt = not_run()?;
            return Ok(Judged { decision, receipt, observed: TierProperties::new(), evidence, tests: None });
        }
        let verdict = gate_verdict(base.verdict);
        let against = Base {
            verdict: &verdict,
            ids: seen.as_ref().and_then(|seen| seen.ids.as_ref()),
            allowed: turn.inspected.is_some_and(|seen| seen.allowed > 0),
        };
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
                Some(control) => Some(self.control_run(check, control, &plan, stop).await?),
                None => None,
            };
            evidence.rooms.extend(control.as_ref().map(|control| control.evidence.clone()));
            let seen = control.as_deref().map(Ran::seen);
            let probed = turn.probe == Some(JobSummary::Exited { code: 0 });
            (decision, evidence.control) =
                countersign_gates::judge_control(&terms, against, decision, ran.seen(), seen, probed);
        }
        evidence.conclude(&decision, ran.evidence.channel, ran.evidence.canary);
        let tests = ran.report.as_ref().and_then(|report| TestNames::of(report, &self.ports.redactor));
        Ok(Judged { decision, receipt: ran.receipt, observed: ran.observed, evidence, tests })
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

    /// The control of an earlier attempt with the same files is as good as another.
    async fn control_run(
        &mut self,
        check: CheckIndex,
        tree: Digest,
        plan: &CheckPlan,
        stop: &Stop,
    ) -> Result<Arc<Ran>, Fail> {
        if let Some(ran) = self.controls.get(&(check, tree)) {
            return Ok(Arc::clone(ran));
        }
        let ran = Arc::new(self.run_check(RoomRole::Control, 1, tree, plan, stop).await?);
        self.controls.insert((check, tree), Arc::clone(&ran));
        Ok(ran)
    }

    /// A base result that an earlier run left is good enough to begin with, because a wrong one only costs work. A pass
    /// does not rest on it: toolchains, caches and the system can have changed since. Does the base still show the same? What
    /// was `seen` of them beside the final room may say so; otherwise it is run again, and those rooms are told.
    pub(crate) async fn base_still_holds(
        &mut self,
        turn: &Turn,
        check: CheckIndex,
        seen: Option<&EnvironmentSeen>,
        stop: &Stop,
    ) -> Result<(bool, Vec<RoomEvidence>), Fail> {
        let terms = self.terms(check)?;
        let run = usize::try_from(check.0).ok().and_then(|index| turn.base_runs.get(index));
        let Some(run) = run else { return Ok((true, Vec::new())) };
        let base = base_tree(turn)?;
        let key = self.cache_key("base", base, Some(&terms))?;
        let cached = self.cached::<CachedBase>(&key).await;
        if !run.cached {
            // Run by us, so what is seen now is what it was in, unless something was changed since.
            if let (Some(cached), Some(at)) = (cached, self.base_ran.get(&check)) {
                self.remember(&key, &CachedBase { ran: RanIn::seen_later(*at, seen), ..cached }).await;
            }
            return Ok((true, Vec::new()));
        }
        let at = self.ports.clock.now();
        if cached.as_ref().is_some_and(|cached| cached.verdict == run.verdict && cached.ran.still(seen, at)) {
            return Ok((true, Vec::new()));
        }
        let plan = self.plan_like_base(check, &terms);
        let first = self.run_check(RoomRole::Base, 1, base, &plan, stop).await?;
        let (judged, _, rooms) = self.repeat_base(turn, &terms, &plan, &first, stop).await?;
        let (verdict, _) = kernel_verdict(&judged);
        let holds = verdict == run.verdict;
        match cached.filter(|_| holds) {
            Some(cached) => {
                self.remember(&key, &CachedBase { ran: RanIn::seen_later(at, seen), ..cached }).await;
            }
            // Nothing that reads as a result: the next run asks the base itself.
            None => drop(self.ports.memo.remember(&key, b"")),
        }
        Ok((holds, rooms))
    }

    /// The probe on the base, in a room of its own: nothing of the judged tree can make it fail.
    pub(crate) async fn probe_in_room(&mut self, stop: &Stop) -> Result<Option<JobEnd>, Fail> {
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

    pub(crate) fn terms(&self, check: CheckIndex) -> Result<CheckTerms, Fail> {
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
