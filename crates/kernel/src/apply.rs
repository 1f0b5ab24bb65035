//! A state is a function of its events.

use countersign_types::{EffectId, GateKey, Millis};

use crate::detect::Seen;
use crate::effect::{EffectKind, EffectResult, EffectState, ReproMark};
use crate::event::{Event, RecoverDecision};
use crate::gates::Gate;
use crate::review::{self, Recheck, ReviewPass};
use crate::state::{
    Base, BaseRun, Ending, Inspected, OpenCell, Outstanding, PatchState, ReproRun, RoomRun, Sealed, Session,
    Turn,
};
use crate::work::call_index;

/// Applies one event. Total: an event that does not fit the state (a journal from elsewhere) changes only counters.
pub fn apply(session: &mut Session, at: Millis, event: &Event) {
    session.seq = session.seq.saturating_add(1);
    match event {
        Event::SessionOpened { .. } => session.opened = true,
        Event::TurnQueued { turn, input, .. } => session.turn = Some(Turn::new(*turn, *input)),
        Event::SessionClosed => session.closed = true,
        _ => {
            if let Some(turn) = &mut session.turn {
                apply_to_turn(turn, at, event);
            }
        }
    }
}

fn apply_to_turn(turn: &mut Turn, at: Millis, event: &Event) {
    take_in(turn, at, event);
    turn.last_at = at;
}

fn take_in(turn: &mut Turn, at: Millis, event: &Event) {
    match event {
        Event::TurnApproved { capabilities, .. } => {
            turn.approved_at = Some(at);
            turn.capabilities = capabilities.iter().copied().collect();
        }
        Event::EffectIntended { effect, kind, permit, reserve } => {
            let tries = turn.tries.entry((effect.step, effect.slot)).or_default();
            *tries = tries.saturating_add(1);
            if *kind == EffectKind::ModelCall {
                begin_model_call(turn, *effect);
                turn.budget.reserve(*reserve);
            } else if review::is_call(*kind) {
                turn.not_before = None;
                turn.review.budget.reserve(*reserve);
            }
            turn.fresh = false;
            let outstanding =
                Outstanding { kind: *kind, permit: *permit, reserve: *reserve, state: EffectState::Intended };
            turn.outstanding.insert(*effect, outstanding);
        }
        Event::EffectDispatched { effect } => {
            if let Some(outstanding) = turn.outstanding.get_mut(effect) {
                outstanding.state = EffectState::Dispatched;
                if matches!(outstanding.kind, EffectKind::Tool { .. }) {
                    turn.watch.begun(at);
                }
            }
        }
        Event::EffectCompleted { effect, result } => {
            if let Some(outstanding) = turn.outstanding.remove(effect) {
                complete(turn, at, *effect, outstanding, result);
            }
        }
        Event::EffectFailed { effect, failure } => {
            if let Some(outstanding) = turn.outstanding.remove(effect) {
                if let Some(budget) = budget_of(turn, outstanding.kind) {
                    if failure.billed {
                        budget.forfeit();
                    } else {
                        budget.release(outstanding.reserve);
                    }
                }
                if outstanding.kind == EffectKind::Mutants {
                    // It informs: without it there is less to say, and nothing else changes.
                    turn.mutants_done = true;
                } else if outstanding.kind.reviews() && !review::is_call(outstanding.kind) {
                    turn.review.now.failed = Some(*effect);
                } else if outstanding.kind == EffectKind::Patch {
                    turn.patch = PatchState::Failed { by: *effect };
                } else {
                    turn.failure = Some((*effect, outstanding.kind, *failure));
                }
            }
        }
        Event::EffectAbandoned { effect } => {
            turn.outstanding.remove(effect);
        }
        Event::EffectForfeited { effect } => {
            let kind = turn.outstanding.remove(effect).map_or(EffectKind::ModelCall, |lost| lost.kind);
            if let Some(budget) = budget_of(turn, kind) {
                budget.lose();
            }
        }
        Event::EffectUnknown { effect } => {
            turn.outstanding.remove(effect);
            turn.lost = true;
        }
        Event::EffectDenied { effect, kind, .. } => {
            if matches!(kind, EffectKind::Tool { .. }) {
                see_call(turn, at, *effect, None);
            }
        }
        Event::RetryScheduled { not_before, .. } => {
            turn.failure = None;
            turn.retries = turn.retries.saturating_add(1);
            turn.not_before = Some(*not_before);
        }
        Event::AttemptBegun { attempt, path } => {
            turn.attempt = *attempt;
            turn.path = Some(*path);
            turn.failure = None;
            turn.not_before = None;
            turn.gates.clear();
        }
        Event::GateDecided { gate, status, reason, strength, by, .. } => {
            if *gate == GateKey::Review {
                // Whatever the reviewer could not be asked is part of what the gate says.
                turn.failure = None;
            }
            turn.gates.insert(*gate, Gate { status: *status, reason: *reason, strength: *strength, by: *by });
        }
        Event::AttemptReturned { gate, .. } => return_to_work(turn, *gate),
        Event::Nudged { finding } => turn.watch.tell(*finding),
        Event::CancelRequested { how } => turn.cancel = Some(*how),
        Event::CapabilitiesRevoked { capabilities } => {
            for capability in capabilities {
                if turn.capabilities.remove(capability) {
                    turn.revoked.insert(*capability);
                }
            }
            // What it wrote so far is no checkpoint: the next one begins from the last.
            if !turn.outstanding.is_empty() {
                turn.cell = None;
            }
        }
        Event::DrainRequested { how } => {
            turn.drain = Some(*how);
            turn.parked_at = Some(at);
        }
        Event::Resumed => {
            turn.drain = None;
            turn.fresh = true;
            if let Some(parked_at) = turn.parked_at.take() {
                turn.idle = turn.idle.saturating_add(at.saturating_sub(parked_at));
            }
            turn.cell = None;
        }
        Event::Recovered { decision } => {
            turn.cell = None;
            turn.failure = None;
            turn.lost |= *decision == RecoverDecision::Interrupt;
            turn.fresh = true;
            // Nobody worked since the last thing that is known to have happened.
            turn.idle = turn.idle.saturating_add(at.saturating_sub(turn.last_at));
        }
        Event::TurnEnded { outcome, reason, strength, rescued_from, reset_at, .. } => {
            turn.outstanding.clear();
            turn.ending = Some(Ending {
                outcome: *outcome,
                reason: *reason,
                strength: *strength,
                rescued_from: *rescued_from,
                reset_at: *reset_at,
            });
        }
        Event::SessionOpened { .. } | Event::TurnQueued { .. } | Event::SessionClosed => {}
    }
}

fn begin_model_call(turn: &mut Turn, effect: EffectId) {
    turn.not_before = None;
    if effect.step > turn.step {
        turn.step = effect.step;
        turn.retries = 0;
    }
    turn.model_done = false;
    turn.reply_open = false;
    turn.calls.clear();
    turn.calls_done.clear();
}

fn complete(turn: &mut Turn, at: Millis, effect: EffectId, outstanding: Outstanding, result: &EffectResult) {
    match result {
        EffectResult::Import { tree, commit, entries, dirty } => {
            turn.base = Some(Base { tree: *tree, commit: commit.clone(), entries: *entries, dirty: *dirty });
            turn.head = Some(*tree);
        }
        EffectResult::Setup { environment, job, .. } => {
            turn.environment = Some(*environment);
            turn.setup = Some(*job);
        }
        EffectResult::Probe { job } => turn.probe = Some(*job),
        EffectResult::BaseRun { verdict, job, cached, drift } => {
            let run = BaseRun { verdict: *verdict, job: *job, cached: *cached, drift: *drift, by: effect };
            turn.base_runs.push(run);
        }
        EffectResult::Candidate { tree, unsealable, tier, observed, .. } => {
            turn.last_cell = Some(OpenCell { tier: *tier, observed: observed.clone() });
            if *unsealable == 0 {
                turn.sealed = Some(Sealed { tree: *tree, by: effect });
                turn.head = Some(*tree);
            } else {
                turn.unsealable = Some(effect);
            }
        }
        EffectResult::Open { tier, observed } => {
            let cell = OpenCell { tier: *tier, observed: observed.clone() };
            turn.last_cell = Some(cell.clone());
            turn.cell = Some(cell);
        }
        EffectResult::ModelCall { usage, cost, stop, calls, text_bytes, reasoning } => {
            turn.budget.settle(outstanding.reserve, *usage, *cost);
            turn.model_done = true;
            turn.reply_open = true;
            turn.retries = 0;
            turn.declined = *stop == crate::ModelStop::Declined;
            turn.cut_off = *stop == crate::ModelStop::Length;
            turn.paused = *stop == crate::ModelStop::Paused;
            turn.calls.clone_from(calls);
            turn.calls_done.clear();
            turn.text_bytes = *text_bytes;
            turn.watch.asked(calls, *reasoning);
        }
        EffectResult::Tool { refused, tree, output_bytes, repro, .. } => {
            // What was declared stays: a test that is locked cannot be traded for an easier one.
            if !matches!(turn.repro, Some(ReproMark::Declared { .. })) {
                turn.repro = repro.or(turn.repro);
            }
            if let Some(tree) = tree {
                turn.head = Some(*tree);
            }
            turn.budget.output_bytes = turn.budget.output_bytes.saturating_add(*output_bytes);
            if !refused && charged(outstanding.kind) {
                turn.budget.tool_actions = turn.budget.tool_actions.saturating_add(1);
            }
            see_call(turn, at, effect, Some(result));
        }
        EffectResult::Seal { tree, unsealable } => {
            if *unsealable == 0 {
                turn.sealed = Some(Sealed { tree: *tree, by: effect });
                turn.head = Some(*tree);
                // A verdict seal ends the cell.
                turn.cell = None;
            } else {
                turn.unsealable = Some(effect);
            }
        }
        EffectResult::Inspect { fence, fence_reason, scope, allowed, changed, .. } => {
            turn.inspected = Some(Inspected {
                fence: *fence,
                fence_reason: *fence_reason,
                scope: *scope,
                allowed: *allowed,
                changed: *changed,
                by: effect,
            });
        }
        EffectResult::Room { status, reason, strength, job, observed } => turn.rooms.push(RoomRun {
            status: *status,
            reason: *reason,
            strength: *strength,
            job: *job,
            observed: observed.clone(),
            by: effect,
        }),
        EffectResult::Mutants { .. } => turn.mutants_done = true,
        EffectResult::Repro { status, reason } => {
            turn.repro_run = Some(ReproRun { status: *status, reason: *reason, by: effect });
        }
        EffectResult::ReviewBrief { .. } => {
            turn.review.now.brief = Some(effect);
            turn.review.rounds = turn.review.rounds.saturating_add(1);
        }
        EffectResult::ReviewCall { usage, cost, answer, .. } => {
            turn.review.budget.settle(outstanding.reserve, *usage, *cost);
            turn.retries = 0;
            if let EffectKind::ReviewCall { call } = outstanding.kind {
                turn.review.now.answers.insert(call, (effect, *answer));
            }
        }
        EffectResult::ReviewJudge { confirmed, solicit, .. } => {
            let review = &mut turn.review;
            review.confirmed = review.confirmed.saturating_add(*confirmed);
            review.open = review.open.saturating_add(*confirmed);
            review.now.confirmed = review.now.confirmed.saturating_add(*confirmed);
            review.now.solicit = *solicit;
            if let EffectKind::ReviewJudge { call } = outstanding.kind {
                review.now.judged.insert(call, effect);
            }
        }
        EffectResult::ReviewRecheck { red, unknown, .. } => {
            turn.review.open = red.saturating_add(*unknown);
            turn.review.now.rechecked = Some(Recheck { red: *red, by: effect });
        }
        EffectResult::Patch { patch, bytes } => {
            turn.patch = PatchState::Made { digest: *patch, bytes: *bytes, by: effect };
        }
    }
}

/// A call of the current message is decided. None: it was denied.
fn see_call(turn: &mut Turn, at: Millis, effect: EffectId, result: Option<&EffectResult>) {
    let (ok, job, said) = match result {
        Some(EffectResult::Tool { ok, job, said, .. }) => (*ok, *job, *said),
        _ => (false, None, None),
    };
    if let Some(call) = turn.call_of(effect).copied() {
        turn.watch.saw(Seen { call, ok, job, said });
    }
    turn.calls_done.insert(call_index(effect));
    if turn.all_calls_done() {
        turn.watch.closed(turn.step, turn.head, at);
    }
}

/// Does the kind cost a tool action?
pub(crate) const fn charged(kind: EffectKind) -> bool {
    match kind {
        EffectKind::Tool { tool } => !matches!(tool, crate::ToolName::Finish | crate::ToolName::Invalid),
        _ => false,
    }
}

/// Who pays for a call of this kind.
const fn budget_of(turn: &mut Turn, kind: EffectKind) -> Option<&mut crate::Budget> {
    match kind {
        EffectKind::ModelCall => Some(&mut turn.budget),
        EffectKind::ReviewCall { .. } => Some(&mut turn.review.budget),
        _ => None,
    }
}

fn return_to_work(turn: &mut Turn, gate: GateKey) {
    turn.path = None;
    turn.repro_run = None;
    turn.review.now = ReviewPass::default();
    turn.retries = 0;
    turn.sealed = None;
    turn.unsealable = None;
    turn.inspected = None;
    turn.rooms.clear();
    turn.mutants_done = false;
    turn.patch = PatchState::Due;
    turn.gates.clear();
    // The step is over: the next thing is a model call that sees the feedback.
    turn.calls.clear();
    turn.calls_done.clear();
    turn.model_done = true;
    turn.reply_open = false;
    turn.text_bytes = 0;
    turn.watch.restart();
    turn.unsealable_offered |= gate == GateKey::Seal;
}
