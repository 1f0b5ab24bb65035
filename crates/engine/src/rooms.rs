//! Rooms: a fresh cell that holds a tree bit for bit, what the verifier brings, one run, and what the runner reported. It is
//! the same room before and after.

use std::sync::Arc;

use countersign_cell::Cell;
use countersign_gates::adapters::{Canary, ReportPlan, ReportSource, report_path};
use countersign_gates::{CheckPlan, RoomEvidence, RoomJob, RoomRole, Seen, Tests};
use countersign_guest::protocol::{Reply, Report, Request};
use countersign_tree::Manifest;
use countersign_types::{Digest, JobEnd, JobReceipt, Reason, TierProperties};

use crate::cells::{self, Fail};
use crate::stop::Stop;
use crate::workshop::Workshop;

/// One run of a check in a room.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) receipt: JobReceipt,
    /// None: the runner was not asked.
    pub(crate) report: Option<Report>,
    pub(crate) drift: Option<Digest>,
    pub(crate) evidence: RoomEvidence,
    pub(crate) observed: TierProperties,
}

impl Ran {
    pub(crate) const fn seen(&self) -> Seen<'_> {
        Seen { receipt: &self.receipt, report: self.report.as_ref() }
    }

    /// The runner should have reported and did not begin to: the command could not take the reporter in.
    pub(crate) fn took_no_reporter(&self) -> bool {
        self.report.as_ref().is_some_and(|report| !report.begun)
            && matches!(self.receipt.end, JobEnd::Exited { code } if code != 0)
    }
}

impl Workshop<'_> {
    /// One run on a tree in a room of its own, with what the verifier brings and what the runner reports.
    pub(crate) async fn run_check(
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
            let (files, go_canary) = (run.overlay.clone(), run.go_canary.clone());
            let request = Request::PlaceOverlay { files, report: nonce.clone(), go_canary };
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
        let layers = self.seconds.get(&tree).map_or(&self.layers, |second| &second.layers).clone();
        let cell = cells::open(self.ports, rooms, &self.contract, layers, None).await?;
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
}
