//! The contract's profile, and its held-out inputs.
//!
//! The profile lies in the home, where no cell can see it. It is read again before and after each use, and what is used is
//! the copy whose digest the contract pinned. A room for held-out inputs is fresh: what a check's run left behind in build
//! folders is nothing that would be delivered, and must not answer for it.

use countersign_cell::Cell;
use countersign_gates::adapters::{Canary, Channel};
use countersign_gates::profile::{
    HeldOutCase, HeldOutSeen, Profile, judge_case, judge_held_out, profile_changed,
};
use countersign_gates::{CellPaths, CheckDecision, CheckEvidence, RoomEvidence, RoomRole, job_env};
use countersign_kernel::Turn;
use countersign_kernel::contract::{CheckTerms, HeldOutTerms};
use countersign_types::{CheckIndex, Digest, GateStatus, JobEnd, JobReceipt, JobSpec, Millis, Reason};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};
use crate::stop::Stop;
use crate::workshop::Workshop;

/// Bytes of a case's standard output that are looked at; a right answer has at most as many.
const ANSWER: u64 = (1 << 20) + 1;
/// Bytes that a case may write before it is stopped.
const FLOOD: u64 = 8 << 20;

/// What the held-out inputs of a check showed on a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HeldOutRan {
    pub(crate) seen: HeldOutSeen,
    pub(crate) drift: Option<Digest>,
    pub(crate) room: RoomEvidence,
}

impl Workshop<'_> {
    /// The pinned profile as it lies in the home now. None: the contract names none. `Err` says what is wrong with it.
    pub(crate) fn profile(&self) -> Result<Option<Profile>, String> {
        let Some(pinned) = &self.contract.profile else { return Ok(None) };
        let name = format!("the profile {}@{}", pinned.name, pinned.digest);
        let files =
            self.ports.profiles.read(pinned).map_err(|why| format!("{name} cannot be read: {why}"))?;
        if files.digest() != pinned.digest {
            return Err(format!(
                "{name} is not what the contract pinned: its files are now {}; somebody changed the registered copy",
                files.digest()
            ));
        }
        let profile = Profile::read(&files).map_err(|why| format!("{name} cannot be used: {why}"))?;
        let digests = |checks: &[CheckTerms]| -> Vec<Option<Digest>> {
            checks.iter().map(|check| check.held_out.as_ref().map(|held_out| held_out.digest)).collect()
        };
        if digests(&profile.checks) != digests(&self.contract.checks) {
            return Err(format!("{name} has other held-out inputs than the contract"));
        }
        Ok(Some(profile))
    }

    /// Held-out inputs of a check on the base. None: it has none.
    pub(crate) async fn held_out_on_base(
        &mut self,
        base: Digest,
        check: CheckIndex,
        stop: &Stop,
    ) -> Result<Option<HeldOutRan>, Fail> {
        let profile = self.profile().map_err(|why| Fail::because(Reason::ProfileChanged, why))?;
        let ran = match profile {
            Some(profile) => self.try_cases(&profile, base, check, stop).await?,
            None => None,
        };
        self.profile().map_err(|why| Fail::because(Reason::ProfileChanged, why))?;
        Ok(ran)
    }

    /// What a pass is worth beside the profile: it is the one that was pinned, and its held-out inputs are answered right.
    pub(crate) async fn judge_by_profile(
        &mut self,
        turn: &Turn,
        tree: Digest,
        check: CheckIndex,
        decision: CheckDecision,
        evidence: &mut CheckEvidence,
        stop: &Stop,
    ) -> Result<CheckDecision, Fail> {
        let mut decision = decision;
        let profile = match self.profile() {
            Ok(profile) => profile,
            Err(why) => return Ok(profile_changed(&why)),
        };
        let Some(profile) = profile else { return Ok(decision) };
        if decision.status == GateStatus::Passed
            && let Some(after) = self.try_cases(&profile, tree, check, stop).await?
        {
            let base = self.base_held_out(turn, check, stop).await?;
            evidence.rooms.push(base.room.clone());
            evidence.rooms.push(after.room);
            let terms = self.terms(check)?;
            (decision, evidence.held_out) = judge_held_out(&terms, decision, &base.seen, &after.seen);
            if decision.status == GateStatus::Passed && self.drifted(after.drift, base.drift) {
                decision = CheckDecision::stale(
                    "the program changed files of the tree while it answered held-out inputs, so it did not answer for \
                     what would be delivered",
                );
            }
        }
        // Used means whole before and after.
        if let Err(why) = self.profile() {
            decision = profile_changed(&why);
        }
        Ok(decision)
    }

    /// What the base showed when the check was run on it.
    async fn base_held_out(
        &mut self,
        turn: &Turn,
        check: CheckIndex,
        stop: &Stop,
    ) -> Result<HeldOutRan, Fail> {
        if let Some(ran) = self.base_seen.get(&check).and_then(|seen| seen.held_out.clone()) {
            return Ok(ran);
        }
        let base = crate::setup::base_tree(turn)?;
        let ran = self.held_out_on_base(base, check, stop).await?;
        ran.ok_or_else(|| {
            Fail::because(Reason::CheckpointLost, "the check has no held-out inputs on its base")
        })
    }

    async fn try_cases(
        &mut self,
        profile: &Profile,
        tree: Digest,
        check: CheckIndex,
        stop: &Stop,
    ) -> Result<Option<HeldOutRan>, Fail> {
        let terms = self.terms(check)?;
        let Some(held_out) = &terms.held_out else { return Ok(None) };
        let cases = usize::try_from(check.0).map_or(&[][..], |index| profile.cases(index));
        let (cell, manifest) = self.room_with(tree).await?;
        let ran = self.run_cases(cell.as_ref(), &terms, held_out, cases, stop).await;
        let drift = match &ran {
            Ok(_) => self.drift_of(cell.as_ref(), &manifest).await,
            Err(_) => Ok(None),
        };
        cell.end(true).await?;
        let (seen, end, wall_ms) = ran?;
        let room = RoomEvidence {
            role: RoomRole::HeldOut,
            repeat: 1,
            tree,
            end,
            wall_ms,
            retried: false,
            channel: Channel::Stdout,
            overlay: None,
            report: None,
            tests: None,
            canary: Canary::Absent,
        };
        Ok(Some(HeldOutRan { seen, drift: drift?, room }))
    }

    /// Every case, each in a process of its own, within the check's time for all of them.
    async fn run_cases(
        &self,
        cell: &dyn Cell,
        terms: &CheckTerms,
        held_out: &HeldOutTerms,
        cases: &[HeldOutCase],
        stop: &Stop,
    ) -> Result<(HeldOutSeen, JobEnd, Millis), Fail> {
        let paths = cells::paths(cell);
        let (mut seen, mut wall) = (HeldOutSeen::default(), Millis(0));
        let mut end = JobEnd::Exited { code: 0 };
        if let Some(build) = &held_out.build {
            let job = self.quiet_job(build.clone(), &paths, terms.timeout)?;
            let receipt = cells::run_job(cell, job, stop).await?;
            wall = receipt.wall;
            match &receipt.end {
                JobEnd::Exited { code: 0 } => {}
                JobEnd::Exited { .. } => seen.not_built = Some(countersign_gates::how_it_ended(&receipt.end)),
                end => seen.no_answer = Some(countersign_gates::how_it_ended(end)),
            }
            if receipt.end != (JobEnd::Exited { code: 0 }) {
                return Ok((seen, receipt.end, wall));
            }
        }
        for case in cases {
            let left = terms.timeout.saturating_sub(wall);
            if left == Millis(0) {
                seen.no_answer = Some("they took longer than the check may take in all".to_owned());
                break;
            }
            let receipt = self.run_case(cell, held_out, case, &paths, left, stop).await?;
            wall = wall.saturating_add(receipt.wall);
            seen.add(case, judge_case(case, held_out, &receipt));
            end = receipt.end;
        }
        Ok((seen, end, wall))
    }

    async fn run_case(
        &self,
        cell: &dyn Cell,
        held_out: &HeldOutTerms,
        case: &HeldOutCase,
        paths: &CellPaths,
        left: Millis,
        stop: &Stop,
    ) -> Result<JobReceipt, Fail> {
        let argv = held_out.argv.iter().chain(&case.args).cloned().collect();
        let most = held_out.within.unwrap_or(held_out.timeout).min(left);
        let mut job = self.quiet_job(argv, paths, most)?;
        job.stdin.clone_from(&case.stdin);
        (job.limits.output_head, job.limits.output_tail) = (ANSWER, 0);
        job.limits.output_total = Some(FLOOD);
        cells::run_job(cell, job, stop).await
    }

    /// A job whose output nobody is shown.
    fn quiet_job(&self, argv: Vec<String>, paths: &CellPaths, wall: Millis) -> Result<JobSpec, Fail> {
        let env = job_env(&self.contract.environment, paths);
        cells::job(self.ports, argv, paths.workspace.clone(), env, wall)
    }
}
