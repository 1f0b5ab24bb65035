//! The judging side of a turn: the verdict seal, fence and scope, rooms, and the patch.

use std::os::fd::OwnedFd;

use countersign_gates::{CheckDecision, FeedbackItem};
use countersign_guest::protocol::{MAX_FDS, PatchChange, Reply, Request};
use countersign_kernel::{EffectResult, JobSummary, Turn};
use countersign_tree::{Change, Durability, Manifest};
use countersign_types::{CheckIndex, Digest, GateStatus, JobReceipt, Reason};
use serde_json::json;

use crate::cells::{self, Fail};
use crate::changed::Changes;
use crate::checks::{Judged, bytes_of};
use crate::hygiene;
use crate::perform::{Outcome, PATCH_FILE, summary_of};
use crate::stop::Stop;
use crate::workshop::Workshop;

impl Workshop<'_> {
    /// The `check` tool: every check on the latest checkpoint. It grants nothing.
    pub(crate) async fn check_call(
        &mut self,
        turn: &Turn,
        stop: &Stop,
    ) -> Result<(String, bool, bool, Option<JobSummary>, bool), Fail> {
        if self.contract.checks.is_empty() {
            return Ok((countersign_tools::check_refused(), false, true, None, false));
        }
        self.ready().await?;
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let mut items = Vec::new();
        for index in 0..self.contract.checks.len() {
            let check = CheckIndex(u32::try_from(index).unwrap_or(u32::MAX));
            let judged = self.judge(turn, head, check, stop).await?;
            let red = judged.decision.status != GateStatus::Passed;
            items.push((check, judged.decision, judged.receipt));
            if red {
                break;
            }
        }
        let ok = items.iter().all(|(_, decision, _)| decision.status == GateStatus::Passed);
        Ok((self.feedback_of(&items), ok, false, None, false))
    }

    pub(crate) fn feedback_of(&self, items: &[(CheckIndex, CheckDecision, JobReceipt)]) -> String {
        let items: Vec<FeedbackItem<'_>> = items
            .iter()
            .filter_map(|(check, decision, receipt)| {
                let terms = self.contract.checks.get(usize::try_from(check.0).ok()?)?;
                Some(FeedbackItem { terms, decision, receipt })
            })
            .collect();
        countersign_gates::feedback(&items)
    }

    /// The verdict seal. No job is alive: a job ends with its command, and this driver runs one at a time.
    pub(crate) async fn seal(&mut self, turn: &Turn) -> Outcome {
        let cell = self.ready().await?;
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let before = self.tree(head)?;
        let scratch = self.scratch()?;
        let (sealed, tree) = cells::seal(cell.as_ref(), &self.ports.objects, &before, &scratch, true).await?;
        let detail = json!({
            "unsealable": sealed.unsealable,
            "normalised": sealed.normalised,
            "not_delivered": sealed.scratch,
        });
        let mut named = vec![("seal", detail.to_string().into_bytes())];
        if sealed.unsealable.is_empty() {
            self.keep(sealed.tree, tree);
            if let Some(cell) = self.working.take() {
                cell.end(true).await?;
            }
        } else {
            let text = format!(
                "These paths cannot be part of the result (a nested .git, a pipe, a socket, a device, or a name that a \
                 patch cannot carry): {}. Remove them or replace them by ordinary files, then finish again.",
                sealed.unsealable.join(", ")
            );
            named.push(("detail", text.clone().into_bytes()));
            self.feedback = Some(text);
        }
        let unsealable = sealed.unsealable.len() as u64;
        Ok((EffectResult::Seal { tree: sealed.tree, unsealable }, named))
    }

    /// Fence and scope over everything that differs from the base.
    pub(crate) async fn inspect(&mut self, turn: &Turn) -> Outcome {
        let base = self.facts()?.tree;
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changes = base.changes_to(&tree);
        let decision =
            if self.contract.is_fenced() { Some(self.judge_fence(&base, &changes).await?) } else { None };
        let outside = countersign_gates::scope_violations(&changes, &self.contract.scope)
            .map_err(|e| Fail::because(Reason::Config, e.to_string()))?;
        let outside: Vec<String> = outside.iter().map(ToString::to_string).collect();
        let scope = match (self.contract.scope.is_empty(), outside.is_empty()) {
            (true, _) => GateStatus::Absent,
            (false, true) => GateStatus::Passed,
            (false, false) => GateStatus::Failed,
        };
        let listed = serde_json::to_vec(&Changes::of(&changes)).unwrap_or_default();
        let mut named = vec![("changes", listed)];
        if let Some(decision) = &decision {
            named.push(("detail", decision.detail.clone().into_bytes()));
            let findings = serde_json::to_vec(&decision.findings).unwrap_or_default();
            named.push(("findings", findings));
            if !decision.allowed.is_empty() {
                named.push(("allowed", serde_json::to_vec(&decision.allowed).unwrap_or_default()));
            }
        }
        if !outside.is_empty() {
            named.push(("scope", outside.join("\n").into_bytes()));
        }
        if changes.is_empty() {
            let text = "Nothing was changed, and this task asks for a change.";
            self.feedback = Some(text.to_owned());
        }
        let result = EffectResult::Inspect {
            fence: decision.as_ref().map_or(GateStatus::Absent, |d| d.status),
            fence_reason: decision.as_ref().and_then(|d| d.reason),
            scope,
            findings: decision.as_ref().map_or(0, |d| d.findings.len() as u64),
            allowed: decision.as_ref().map_or(0, |d| d.allowed.len() as u64),
            out_of_scope: outside.len() as u64,
            changed: changes.len() as u64,
        };
        Ok((result, named))
    }

    pub(crate) async fn judge_fence(
        &mut self,
        base: &Manifest,
        changes: &[Change],
    ) -> Result<countersign_gates::GateDecision, Fail> {
        let plan = self.fence(base)?.judge(changes);
        if plan.scan.is_empty() {
            return Ok(plan.conclude(Ok(Vec::new())));
        }
        let digests: Vec<Digest> =
            plan.scan.iter().flat_map(|file| [file.before, file.after]).flatten().collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS)?;
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let request = Request::ScanFence { files: plan.scan.clone(), located: batch.located };
        let fds = batch.files.into_iter().map(Into::into).collect();
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        // A parser that failed or was taken over says nothing: the gate is unverifiable, never passed.
        let scanned = match reply {
            Ok(Reply::Fence { findings }) => Ok(findings),
            Ok(_) => Err("the scanner gave another kind of answer".to_owned()),
            Err(Fail::Failed { failure, message }) if failure.reason == Reason::DiskFull => {
                return Err(Fail::because(Reason::DiskFull, message));
            }
            Err(Fail::Failed { message, .. }) => Err(message),
            Err(Fail::Interrupted) => return Err(Fail::Interrupted),
        };
        Ok(plan.conclude(scanned))
    }

    pub(crate) async fn room(&mut self, turn: &Turn, check: CheckIndex, stop: &Stop) -> Outcome {
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let look = self.look_at_environment(check);
        let (judged, seen) = futures::join!(self.judge(turn, sealed.tree, check, stop), look);
        let Judged { mut decision, receipt, observed, mut evidence, tests } = judged?;
        let (holds, again) = if decision.status == GateStatus::Passed {
            self.base_still_holds(turn, check, seen.as_ref(), stop).await?
        } else {
            (true, Vec::new())
        };
        evidence.rooms.extend(again);
        if !holds {
            decision = CheckDecision::stale(
                "the base shows something else now than in the earlier run that was remembered: the environment has \
                 changed; run again",
            );
            evidence.cause = decision.cause;
        }
        if self.contract.profile.is_some() {
            let tree = sealed.tree;
            decision = self.judge_by_profile(turn, tree, check, decision, &mut evidence, stop).await?;
            evidence.cause = decision.cause;
        }
        let mut named = vec![
            ("detail", decision.detail.clone().into_bytes()),
            ("stdout", cells::kept(&receipt.stdout)),
            ("stderr", cells::kept(&receipt.stderr)),
            ("evidence", bytes_of(&evidence)?),
        ];
        if let Some(tests) = &tests {
            named.push(("tests", bytes_of(tests)?));
        }
        let result = EffectResult::Room {
            status: decision.status,
            reason: decision.reason,
            strength: decision.strength,
            job: summary_of(&receipt.end),
            observed,
        };
        let red = decision.status != GateStatus::Passed;
        self.judged.push((check, decision, receipt));
        if red {
            self.feedback = Some(self.feedback_of(&self.judged));
        }
        Ok((result, named))
    }

    /// The patch with its proof, and what a reviewer wants to be told of it: both look at exactly the changed files.
    pub(crate) async fn patch(&mut self, turn: &Turn) -> Outcome {
        let base = self.facts()?.tree;
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changes: Vec<PatchChange> = base
            .changes_to(&tree)
            .into_iter()
            .map(|change| PatchChange { path: change.path, before: change.before, after: change.after })
            .collect();
        let digests: Vec<Digest> =
            changes.iter().flat_map(|c| [&c.before, &c.after]).flatten().map(|entry| entry.digest).collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS - 1)?;
        let segment = self.ports.objects.new_segment()?;
        let mut fds = vec![cells::lend(&segment)?];
        let contents: Vec<OwnedFd> = batch.files.into_iter().map(Into::into).collect();
        fds.extend(duplicates(&contents)?);
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let request = Request::MakePatch { changes: changes.clone(), located: batch.located.clone() };
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        let looked = match &reply {
            Ok(Reply::Patch { .. }) => hygiene::look(cell.as_ref(), changes, batch.located, contents).await,
            _ => Ok(None),
        };
        self.see_off(cell);
        let Reply::Patch { bytes, digest } = reply? else { return Err(cells::unexpected("a patch")) };
        let located = [countersign_tree::Located { digest, segment: 0, offset: 0, len: bytes }];
        self.ports.objects.adopt(segment, &located, Durability::Sync)?;
        let patch = self.ports.objects.read(&digest)?;
        let (mut named, mut degraded) = (Vec::new(), Vec::new());
        if let Err(why) = self.ports.artifacts.write(PATCH_FILE, patch.clone()).await {
            degraded.push(format!("the patch could not be written to {PATCH_FILE}: {why}"));
        }
        match looked {
            Ok(found) => named.extend(found.map(|found| ("hygiene", found))),
            // Unknown is a value: nothing is said to be clean that nobody looked at.
            Err(why) => degraded.push(format!("the change could not be looked over: {why}")),
        }
        if !degraded.is_empty() {
            named.push(("degraded", degraded.join("; ").into_bytes()));
        }
        named.push(("patch", patch));
        Ok((EffectResult::Patch { patch: digest, bytes }, named))
    }
}

fn duplicates(fds: &[OwnedFd]) -> Result<Vec<OwnedFd>, Fail> {
    let copies: std::io::Result<_> = fds.iter().map(OwnedFd::try_clone).collect();
    copies.map_err(|e| Fail::because(Reason::Store, format!("a segment: {e}")))
}
