//! What is to be done next, read off the state. The story of a turn in one function.

use std::collections::BTreeSet;

use countersign_types::{EffectId, Millis};

use crate::decide::follow;
use crate::effect::{EffectKind, ReviewCall, ToolName};
use crate::gates::{self, GatePlanStep};
use crate::state::{Ending, Session, Turn};

/// One effect that is to be intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub effect: EffectId,
    pub kind: EffectKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The turn is over.
    Done(Ending),
    /// Nothing was approved, or there is no turn.
    Idle,
    /// The process is to stop; the turn goes on with `resume`.
    Park,
    /// A decision is due that needs no effect: commit a tick.
    Tick,
    /// A retry may begin at this time.
    Wait { until: Millis },
    /// Make the requests' bytes durable and commit the intents.
    Intend(Vec<Step>),
    /// Carry these out. `deadline`: interrupt them then.
    Perform { effects: Vec<EffectId>, deadline: Option<Millis> },
}

/// What to do now.
#[must_use]
pub fn work(session: &Session, now: Millis) -> Work {
    let Some(turn) = &session.turn else { return Work::Idle };
    if let Some(ending) = turn.ending {
        return Work::Done(ending);
    }
    if turn.approved_at.is_none() {
        return Work::Idle;
    }
    if !turn.outstanding.is_empty() {
        let limited = turn.path.is_none() && turn.last_cell.is_some();
        return Work::Perform {
            effects: turn.outstanding.keys().copied().collect(),
            deadline: if limited { turn.deadline_at(&session.contract) } else { None },
        };
    }
    if follow(session, now).is_some() {
        return Work::Tick;
    }
    if turn.drain.is_some() {
        return Work::Park;
    }
    if let Some(until) = turn.not_before
        && now < until
    {
        // The deadline is the agent's; who judges has waits of its own.
        let deadline = turn.deadline_at(&session.contract).filter(|_| turn.path.is_none());
        let until = deadline.map_or(until, |deadline| until.min(deadline));
        return Work::Wait { until };
    }
    Work::Intend(next_steps(session, turn))
}

/// The next effects, in slot order. Never empty for a turn that is approved, not ended, and has nothing to decide.
pub(crate) fn next_steps(session: &Session, turn: &Turn) -> Vec<Step> {
    let contract = &session.contract;
    let one = |kind: EffectKind| vec![step_for(turn, kind, None)];
    if turn.base.is_none() {
        return one(EffectKind::Import);
    }
    if turn.environment.is_none() && contract.environment.setup.is_some() {
        return one(EffectKind::Setup);
    }
    // The probe says whether a red base means the tests or the machine; without a check there is nothing to tell.
    if turn.probe.is_none() && contract.environment.probe.is_some() && !contract.checks.is_empty() {
        return one(EffectKind::Probe);
    }
    if let Some(check) = turn.next_base(contract) {
        return one(EffectKind::BaseRun { check });
    }
    let Some(path) = turn.path else {
        if contract.candidate.is_some() {
            return one(EffectKind::Candidate);
        }
        if turn.cell.is_none() {
            return one(EffectKind::Open);
        }
        return next_in_step(turn);
    };
    match gates::next(turn, contract, path) {
        GatePlanStep::Seal if turn.cell.is_none() => one(EffectKind::Open),
        GatePlanStep::Seal => one(EffectKind::Seal),
        GatePlanStep::Inspect => one(EffectKind::Inspect),
        GatePlanStep::Room(check) => one(EffectKind::Room { check }),
        GatePlanStep::Repro => one(EffectKind::Repro),
        GatePlanStep::Review(kind) => one(kind),
        GatePlanStep::Mutants => one(EffectKind::Mutants),
        GatePlanStep::Patch => one(EffectKind::Patch),
        // `follow` takes these first.
        GatePlanStep::Decide(..) | GatePlanStep::Return(_) | GatePlanStep::End(_) => Vec::new(),
    }
}

fn next_in_step(turn: &Turn) -> Vec<Step> {
    if !turn.model_done {
        return vec![step_for(turn, EffectKind::ModelCall, None)];
    }
    let pending: Vec<(u32, ToolName)> = (0_u32..)
        .zip(&turn.calls)
        .filter(|(index, _)| !turn.calls_done.contains(index))
        .map(|(index, call)| (index, call.tool))
        .collect();
    let Some((_, first)) = pending.first() else {
        return vec![step_for(turn, EffectKind::ModelCall, None)];
    };
    // Calls run in slot order; only a run of reads stands side by side.
    let batch =
        if first.only_reads() { pending.iter().take_while(|(_, tool)| tool.only_reads()).count() } else { 1 };
    let batch = pending.iter().take(batch);
    batch.map(|(index, tool)| step_for(turn, EffectKind::Tool { tool: *tool }, Some(*index))).collect()
}

/// Effects that are not calls of a message have fixed slots above any message's.
const FIXED_SLOTS: u32 = 10_000;

fn step_for(turn: &Turn, kind: EffectKind, call: Option<u32>) -> Step {
    let step = match kind {
        EffectKind::ModelCall if turn.model_done => turn.step.saturating_add(1),
        _ => turn.step,
    };
    let slot = match kind {
        EffectKind::ModelCall => 0,
        EffectKind::Tool { .. } => 1 + call.unwrap_or(0),
        EffectKind::Import => FIXED_SLOTS,
        EffectKind::Setup => FIXED_SLOTS + 1,
        EffectKind::Probe => FIXED_SLOTS + 2,
        EffectKind::Open => FIXED_SLOTS + 3,
        EffectKind::Seal => FIXED_SLOTS + 4,
        EffectKind::Inspect => FIXED_SLOTS + 5,
        EffectKind::Patch => FIXED_SLOTS + 6,
        EffectKind::Candidate => FIXED_SLOTS + 7,
        EffectKind::Mutants => FIXED_SLOTS + 8,
        EffectKind::Repro => FIXED_SLOTS + 9,
        EffectKind::ReviewRecheck => FIXED_SLOTS + 10,
        EffectKind::ReviewBrief => FIXED_SLOTS + 11,
        EffectKind::ReviewCall { call: ReviewCall::Findings } => FIXED_SLOTS + 12,
        EffectKind::ReviewJudge { call: ReviewCall::Findings } => FIXED_SLOTS + 13,
        EffectKind::ReviewCall { call: ReviewCall::Repros } => FIXED_SLOTS + 14,
        EffectKind::ReviewJudge { call: ReviewCall::Repros } => FIXED_SLOTS + 15,
        EffectKind::BaseRun { check } => FIXED_SLOTS + 1000 + check.0,
        EffectKind::Room { check } => FIXED_SLOTS + 2000 + check.0,
    };
    let attempt = turn.tries.get(&(step, slot)).copied().unwrap_or(0);
    Step { effect: EffectId { turn: turn.id, step, slot, attempt }, kind }
}

/// The position of a tool effect within its message.
#[must_use]
pub(crate) const fn call_index(effect: EffectId) -> u32 {
    effect.slot.saturating_sub(1)
}

impl Turn {
    /// Which calls of the current message a set of effects stands for.
    #[must_use]
    pub fn call_of(&self, effect: EffectId) -> Option<&crate::PlannedCall> {
        self.calls.get(usize::try_from(call_index(effect)).ok()?)
    }

    pub(crate) fn all_calls_done(&self) -> bool {
        let all: BTreeSet<u32> = (0_u32..).zip(&self.calls).map(|(index, _)| index).collect();
        all.is_subset(&self.calls_done)
    }
}
