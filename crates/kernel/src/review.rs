//! The review's part of the gate plan. What a reviewer says is data: nothing blocks but a reproduction that was seen to fail
//! on the sealed tree and not on the base, and only a later run of the same reproduction closes such a finding.

use std::collections::BTreeMap;

use countersign_types::{EffectId, Reason};

use crate::budget::Budget;
use crate::contract::ReviewTerms;
use crate::effect::{EffectKind, ReviewAnswer, ReviewCall};
use crate::gates::{self, Gate};
use crate::state::Turn;

/// The review of a turn, over its attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewState {
    /// Reviews begun.
    pub rounds: u32,
    /// Findings that were ever confirmed, the repaired ones included.
    pub confirmed: u32,
    /// Of those, the ones that no later run has shown to be repaired.
    pub open: u32,
    /// The reviewer's own counters. They draw on the limits of the turn.
    pub budget: Budget,
    /// Of the attempt that is judged.
    pub now: ReviewPass,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewPass {
    pub rechecked: Option<Recheck>,
    pub brief: Option<EffectId>,
    pub answers: BTreeMap<ReviewCall, (EffectId, ReviewAnswer)>,
    pub judged: BTreeMap<ReviewCall, EffectId>,
    pub confirmed: u32,
    pub solicit: u32,
    /// An effect of the review that failed and is not tried again.
    pub failed: Option<EffectId>,
}

/// What the reproductions of earlier findings showed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recheck {
    pub red: u32,
    pub by: EffectId,
}

/// What the review wants now.
pub(crate) enum ReviewNext {
    Do(EffectKind),
    Say(Gate),
}

/// Is it a question to the reviewer?
pub(crate) const fn is_call(kind: EffectKind) -> bool {
    matches!(kind, EffectKind::ReviewCall { .. })
}

/// The next step of the review, or what it says.
pub(crate) fn next(turn: &Turn, terms: &ReviewTerms) -> ReviewNext {
    let review = &turn.review;
    let now = &review.now;
    let given_up = turn.failure.filter(|(_, kind, _)| is_call(*kind)).map(|(effect, ..)| effect);
    let failed = now.failed.or(given_up);
    let act = |kind| match failed {
        Some(by) => ReviewNext::Say(gates::unverifiable(Some(by))),
        None => ReviewNext::Do(kind),
    };
    if now.brief.is_none() {
        // What an earlier attempt left is tried again before anybody is asked.
        if review.confirmed > 0 {
            match now.rechecked {
                None => return act(EffectKind::ReviewRecheck),
                Some(again) if again.red > 0 => {
                    return ReviewNext::Say(gates::failed(Reason::CheckFailed, Some(again.by)));
                }
                Some(again) if review.open > 0 => {
                    return ReviewNext::Say(gates::unverifiable(Some(again.by)));
                }
                Some(_) => {}
            }
        }
        // The plan never asks for more; a contract from elsewhere could.
        if review.rounds >= terms.rounds {
            return ReviewNext::Say(gates::unverifiable(now.rechecked.map(|again| again.by)));
        }
        return act(EffectKind::ReviewBrief);
    }
    let first = ReviewCall::Findings;
    match now.answers.get(&first) {
        None => return act(EffectKind::ReviewCall { call: first }),
        Some((_, ReviewAnswer::Findings)) => {}
        Some((by, ReviewAnswer::Declined | ReviewAnswer::Junk)) => {
            return ReviewNext::Say(gates::unverifiable(Some(*by)));
        }
    }
    if !now.judged.contains_key(&first) {
        return act(EffectKind::ReviewJudge { call: first });
    }
    let second = ReviewCall::Repros;
    if now.solicit > 0 {
        match now.answers.get(&second) {
            // A second answer that never comes takes nothing from the first.
            None if failed.is_none() => return ReviewNext::Do(EffectKind::ReviewCall { call: second }),
            Some((_, ReviewAnswer::Findings)) if !now.judged.contains_key(&second) => {
                return act(EffectKind::ReviewJudge { call: second });
            }
            _ => {}
        }
    }
    ReviewNext::Say(verdict(now))
}

fn verdict(now: &ReviewPass) -> Gate {
    let by = now.judged.values().next_back().copied();
    if now.confirmed > 0 { gates::failed(Reason::CheckFailed, by) } else { gates::passed(by) }
}

/// What the review says when the budget has nothing left for the reviewer.
pub(crate) fn without_a_call(turn: &Turn) -> Gate {
    let now = &turn.review.now;
    if now.judged.is_empty() { gates::unverifiable(None) } else { verdict(now) }
}

/// May the agent mend what was confirmed? Not in the last round, and not what it has failed to mend before.
pub(crate) fn goes_on(turn: &Turn, terms: &ReviewTerms) -> bool {
    turn.review.rounds < terms.rounds && turn.review.now.rechecked.is_none_or(|again| again.red == 0)
}
