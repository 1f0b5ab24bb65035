//! The gate plan: which gates are armed, in what order they are asked, and what their answers make of the turn. The
//! same plan on every path that could end well.

use countersign_types::{CheckIndex, EffectId, GateKey, GateStatus, Reason, Strength, StrengthLevel};

use crate::contract::Contract;
use crate::effect::{EffectKind, ReproMark};
use crate::event::EndPath;
use crate::review::{self, ReviewNext};
use crate::state::{Ending, PatchState, Turn};

/// What one gate said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub status: GateStatus,
    pub reason: Option<Reason>,
    pub strength: Option<Strength>,
    /// The effect that holds the detail.
    pub by: Option<EffectId>,
}

/// The next thing that the plan wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlanStep {
    Seal,
    Inspect,
    Room(CheckIndex),
    Repro,
    /// The next effect of the review.
    Review(EffectKind),
    Mutants,
    Patch,
    Decide(GateKey, Gate),
    /// Red, and the agent may try again.
    Return(GateKey),
    End(Ending),
}

/// Is the gate part of this contract's plan?
#[must_use]
pub(crate) fn armed(key: GateKey, contract: &Contract) -> bool {
    let checked = !contract.checks.is_empty();
    match key {
        GateKey::Seal | GateKey::Check => checked,
        // Finished work comes without words.
        GateKey::Answer => checked && contract.candidate.is_none(),
        // Protection arms itself with the check.
        GateKey::Fence => contract.is_fenced(),
        GateKey::Scope => !contract.scope.is_empty(),
        GateKey::Change => contract.change_required,
        GateKey::Repro => checked && contract.repro_first && contract.candidate.is_none(),
        GateKey::Review => checked && contract.review.is_some(),
    }
}

pub(crate) const fn passed(by: Option<EffectId>) -> Gate {
    Gate { status: GateStatus::Passed, reason: None, strength: None, by }
}

pub(crate) const fn failed(reason: Reason, by: Option<EffectId>) -> Gate {
    Gate { status: GateStatus::Failed, reason: Some(reason), strength: None, by }
}

pub(crate) const fn unverifiable(by: Option<EffectId>) -> Gate {
    Gate { status: GateStatus::Unverifiable, reason: Some(Reason::GateUnverifiable), strength: None, by }
}

/// Does what a gate said end the plan? The review is the one gate that may be out: a reviewer who cannot be reached, or who
/// talks nonsense, takes nothing from a verdict that rests on the checks, unless the contract requires the review, or a
/// finding that was confirmed earlier would slip through with it.
fn stops(turn: &Turn, contract: &Contract, key: GateKey, gate: Gate) -> bool {
    match gate.status {
        GateStatus::Passed | GateStatus::Absent => false,
        GateStatus::Unverifiable if key == GateKey::Review => {
            turn.review.open > 0 || contract.review.as_ref().is_none_or(|terms| terms.required)
        }
        GateStatus::Failed | GateStatus::Unverifiable | GateStatus::NotReached => true,
    }
}

/// The next step of the plan for a turn whose attempt has begun.
#[must_use]
pub(crate) fn next(turn: &Turn, contract: &Contract, path: EndPath) -> GatePlanStep {
    for key in GateKey::ALL {
        if let Some(gate) = turn.gates.get(key) {
            if stops(turn, contract, *key, *gate) {
                return after_stop(turn, contract, path, *key, *gate);
            }
            continue;
        }
        if let Some(step) = ask(turn, contract, path, *key) {
            return step;
        }
    }
    conclude(turn, contract, path, None)
}

/// What an undecided gate needs, or its decision; None when the plan goes past it.
fn ask(turn: &Turn, contract: &Contract, path: EndPath, key: GateKey) -> Option<GatePlanStep> {
    let is_armed = armed(key, contract);
    let cut_short = path.cut_short().is_some();
    let decide = |gate| Some(GatePlanStep::Decide(key, gate));
    match key {
        // A tree is sealed on every path, also without a check: it is what the patch delivers.
        GateKey::Seal => match (turn.unsealable, turn.sealed) {
            (Some(by), _) => decide(failed(Reason::Unsealable, Some(by))),
            (None, None) => Some(GatePlanStep::Seal),
            (None, Some(sealed)) => is_armed.then_some(GatePlanStep::Decide(key, passed(Some(sealed.by)))),
        },
        GateKey::Answer => match path {
            EndPath::Claim { empty: true } | EndPath::Finish { empty: true } => {
                decide(failed(Reason::EmptyAnswer, None))
            }
            _ if is_armed && !cut_short => decide(passed(None)),
            _ => None,
        },
        GateKey::Fence | GateKey::Scope | GateKey::Change => {
            let Some(seen) = turn.inspected else {
                return Some(GatePlanStep::Inspect);
            };
            if !is_armed {
                return None;
            }
            let by = Some(seen.by);
            decide(match key {
                GateKey::Fence => Gate { status: seen.fence, reason: seen.fence_reason, strength: None, by },
                GateKey::Scope if seen.scope == GateStatus::Failed => failed(Reason::Paths, by),
                GateKey::Change if seen.changed == 0 => failed(Reason::NoChange, by),
                _ => passed(by),
            })
        }
        GateKey::Check => {
            if !is_armed || (cut_short && turn.inspected.is_some_and(|i| i.changed == 0)) {
                return None;
            }
            if let Some(run) = turn.rooms.iter().find(|run| run.status != GateStatus::Passed) {
                return decide(Gate {
                    status: run.status,
                    reason: run.reason,
                    strength: None,
                    by: Some(run.by),
                });
            }
            if let Some(check) = turn.next_room(contract) {
                return Some(GatePlanStep::Room(check));
            }
            decide(check_passed(turn, contract))
        }
        GateKey::Repro | GateKey::Review if !is_armed || !check_has_passed(turn) => None,
        GateKey::Repro => match turn.repro_run {
            None => Some(GatePlanStep::Repro),
            Some(run) => decide(match (turn.repro, run.status) {
                (Some(ReproMark::Declared { .. }), status) if status != GateStatus::Absent => {
                    Gate { status, reason: run.reason, strength: None, by: Some(run.by) }
                }
                // To have none, for a reason that was given, is no pass; it is nothing that anybody could fail either.
                (Some(ReproMark::Skipped), GateStatus::Absent) => {
                    Gate { status: GateStatus::Absent, reason: None, strength: None, by: Some(run.by) }
                }
                (None, GateStatus::Failed) => failed(Reason::CheckFailed, Some(run.by)),
                _ => unverifiable(Some(run.by)),
            }),
        },
        GateKey::Review => contract.review.as_ref().map(|terms| match review::next(turn, terms) {
            ReviewNext::Do(kind) => GatePlanStep::Review(kind),
            ReviewNext::Say(gate) => GatePlanStep::Decide(key, gate),
        }),
    }
}

/// A tree that no check passed needs no second look.
fn check_has_passed(turn: &Turn) -> bool {
    turn.gates.get(&GateKey::Check).is_some_and(|gate| gate.status == GateStatus::Passed)
}

/// All checks passed: the verdict is as strong as the weakest of them.
fn check_passed(turn: &Turn, contract: &Contract) -> Gate {
    let by = turn.rooms.last().map(|run| run.by);
    let mut strengths = turn.rooms.iter().map(|run| run.strength);
    let first = strengths.next().flatten();
    let weakest = strengths.fold(first, |a, b| match (a, b) {
        (Some(a), Some(b)) => {
            Some(Strength { level: a.level.min(b.level), in_process: a.in_process || b.in_process })
        }
        // A check that cannot say how strong it is makes the whole as weak as that.
        _ => None,
    });
    // Where the agent had a hand in the tests, their ids and their runner say no more than that something was red.
    let has_allowed = contract.unfenced || turn.inspected.is_some_and(|seen| seen.allowed > 0);
    let weakest = weakest.map(|strength| {
        // Held-out inputs do not depend on them.
        let capped = has_allowed && strength.level < StrengthLevel::HeldOut;
        let level = if capped { strength.level.min(StrengthLevel::RedBefore) } else { strength.level };
        Strength { level, ..strength }
    });
    let enough = match (contract.min_strength, weakest) {
        (None, _) => true,
        (Some(floor), Some(strength)) => strength.level >= floor,
        (Some(_), None) => false,
    };
    // What code under test can reach it can also forge.
    let apart = !contract.out_of_process || weakest.is_some_and(|strength| !strength.in_process);
    if enough && apart {
        Gate { status: GateStatus::Passed, reason: None, strength: weakest, by }
    } else {
        Gate { strength: weakest, ..failed(Reason::TooWeak, by) }
    }
}

fn after_stop(turn: &Turn, contract: &Contract, path: EndPath, key: GateKey, gate: Gate) -> GatePlanStep {
    let cut_short = path.cut_short().is_some();
    let steps_left = turn.step < contract.limits.turns;
    let offer_unsealable = key == GateKey::Seal && !turn.unsealable_offered;
    let mendable = match key {
        GateKey::Check | GateKey::Change | GateKey::Answer => {
            !matches!(gate.reason, Some(Reason::TooWeak | Reason::ProfileChanged))
        }
        GateKey::Repro => gate.reason != Some(Reason::ProtectedFiles),
        GateKey::Review => {
            gate.status == GateStatus::Failed
                && contract.review.as_ref().is_some_and(|terms| review::goes_on(turn, terms))
        }
        GateKey::Seal | GateKey::Fence | GateKey::Scope => false,
    };
    let work_again = mendable && turn.attempt < contract.attempts;
    let somebody_works = !cut_short && path != EndPath::Candidate;
    if somebody_works && steps_left && (offer_unsealable || work_again) {
        return GatePlanStep::Return(key);
    }
    conclude(turn, contract, path, Some((key, gate)))
}

fn conclude(turn: &Turn, contract: &Contract, path: EndPath, stop: Option<(GateKey, Gate)>) -> GatePlanStep {
    // The patch is made on every end that sealed a changed tree, so that a person can look at what was refused.
    let changed = match (turn.sealed, &turn.base) {
        (Some(sealed), Some(base)) => sealed.tree != base.tree,
        _ => false,
    };
    if changed && stop.is_none() && check_has_passed(turn) && contract.mutants > 0 && !turn.mutants_done {
        return GatePlanStep::Mutants;
    }
    if changed && turn.patch == PatchState::Due {
        return GatePlanStep::Patch;
    }
    GatePlanStep::End(ending(turn, contract, path, stop, changed))
}

fn ending(
    turn: &Turn,
    contract: &Contract,
    path: EndPath,
    stop: Option<(GateKey, Gate)>,
    changed: bool,
) -> Ending {
    let end = |reason: Reason| Ending {
        outcome: reason.outcome(),
        reason,
        strength: None,
        rescued_from: None,
        reset_at: None,
    };
    let named = stop.map(|(_, gate)| {
        // A gate that could not tell never ends as what it would have found.
        let fallback = Reason::GateUnverifiable;
        end(gate.reason.unwrap_or(fallback))
    });
    let checked = !contract.checks.is_empty();
    let check = turn.gates.get(&GateKey::Check).filter(|gate| gate.status == GateStatus::Passed);
    match (path.cut_short(), named) {
        (Some(reason), Some(named)) => match named.reason {
            // What the agent did to the rules outweighs how far it came.
            Reason::ProtectedFiles | Reason::PlantedRunnerConfig | Reason::ProfileChanged | Reason::Paths => {
                named
            }
            _ => end(reason),
        },
        (Some(reason), None) => match check {
            Some(gate) if changed => {
                Ending { strength: gate.strength, rescued_from: Some(reason), ..end(Reason::ChecksPassed) }
            }
            _ => end(reason),
        },
        (_, Some(named)) => named,
        (_, None) if checked => match check {
            Some(gate) => Ending { strength: gate.strength, ..end(Reason::ChecksPassed) },
            // Unreachable by the plan; an absent check is never a pass.
            None => end(Reason::GateUnverifiable),
        },
        (_, None) => end(Reason::NoClaim),
    }
}
