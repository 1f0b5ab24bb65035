//! What is remembered of the steps so far: digests and counters, bounded.

use std::collections::{BTreeSet, VecDeque};

use countersign_types::{Digest, Millis, Reason};

use crate::detect::Finding;
use crate::detect::step::{Mark, Open, Seen};
use crate::effect::{PlannedCall, ToolName};

/// What an ordinary step weighs. Patience divides it.
const STEP: u32 = 36;

/// The longest round of steps that is recognised.
const LONGEST_ROUND: usize = 4;

/// Failing results that are kept in mind.
const FAILURES: usize = 8;

/// Results of reads that are kept in mind.
const READS: usize = 128;

/// The weight at which the agent is told, and the one at which the turn ends.
#[derive(Clone, Copy)]
struct Limits {
    told: u32,
    ends: u32,
}

const FORMAT: Limits = Limits { told: 3 * STEP, ends: 6 * STEP };
/// The first of equal steps repeats nothing and weighs nothing.
const REPEAT: Limits = Limits { told: 2 * STEP, ends: 5 * STEP };
/// In rounds that repeat the first.
const ROUNDS: Limits = Limits { told: 2 * STEP, ends: 4 * STEP };
const STAGNANT: Limits = Limits { told: 4 * STEP, ends: 4 * STEP + 4 * FAILED_ELSEWHERE };
const WANDERING: Limits = Limits { told: 6 * STEP, ends: 10 * STEP };
const LOOKING: Limits = Limits { told: 32 * STEP, ends: 64 * STEP };

/// A failing result that came from another tree than the last time: work goes on, and may be on its way.
const FAILED_ELSEWHERE: u32 = 24;

/// How many times the patience: reasoning moves. A model that thinks repeats calls more than it lists directories.
const MOVED: u32 = 2;
const MOVED_IN_CIRCLES: u32 = 3;
/// A command took its time.
const WAITED: u32 = 3;
/// The same calls gave another result: they poll something that moves.
const NEWS: u32 = 12;

/// Steps that a detector counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Streak {
    weight: u32,
    first: u32,
    last: u32,
}

impl Streak {
    fn add(&mut self, first: u32, step: u32, weight: u32) {
        if self.weight == 0 {
            self.first = first;
        }
        self.last = step;
        self.weight = self.weight.saturating_add(weight.max(1));
    }

    /// Adds a step that counts, and forgets everything at one that does not.
    fn go(&mut self, counts: bool, step: u32, weight: u32) {
        if counts { self.add(step, step, weight) } else { *self = Self::default() }
    }
}

/// One failing result that may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    said: Digest,
    /// The arguments of the call that failed last in this way.
    by: Digest,
    /// What the tree was then.
    tree: Option<Digest>,
    streak: Streak,
}

/// The steps of a turn as its detectors remember them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    open: Option<Open>,
    reasoning: Option<Digest>,
    recent: VecDeque<Mark>,
    format: Streak,
    repeat: Streak,
    /// By the length of the round, from 2.
    rounds: [Streak; LONGEST_ROUND - 1],
    failures: Vec<Failure>,
    wandering: Streak,
    looking: Streak,
    read: BTreeSet<Digest>,
    nudged: Option<Finding>,
}

impl Watch {
    /// What the agent was told about, if it was.
    #[must_use]
    pub const fn nudged(&self) -> Option<Finding> {
        self.nudged
    }

    /// A message with calls arrived.
    pub(crate) fn asked(&mut self, calls: &[PlannedCall], reasoning: Option<Digest>) {
        let moved = reasoning.is_some() && reasoning != self.reasoning;
        self.reasoning = reasoning;
        self.open = (!calls.is_empty()).then(|| Open::new(calls, moved));
    }

    /// A call of the message was sent off.
    pub(crate) fn begun(&mut self, at: Millis) {
        if let Some(open) = &mut self.open {
            open.begin(at);
        }
    }

    /// A call of the message was answered.
    pub(crate) fn saw(&mut self, seen: Seen) {
        if let Some(open) = &mut self.open {
            open.seen.push(seen);
        }
    }

    /// All calls of the message were answered; `tree` is what they left.
    pub(crate) fn closed(&mut self, step: u32, tree: Option<Digest>, at: Millis) {
        let Some(open) = self.open.take() else { return };
        let mark = open.close(tree, at);
        let again = self.recent.back().is_some_and(|last| last.asked == mark.asked);
        self.count_circles(step, &mark, again);
        // The same step again is told by `repeat`, which knows whether it waits.
        if !again {
            self.count_failures(step, &mark, &open.seen, tree);
        }
        self.count_looks(step, &mark, &open.seen);
        let invalid = open.seen.iter().all(|seen| seen.call.tool == ToolName::Invalid);
        self.format.go(invalid, step, STEP / if mark.moved { MOVED } else { 1 });
        self.recent.push_back(mark);
        if self.recent.len() > LONGEST_ROUND {
            self.recent.pop_front();
        }
    }

    /// The agent got something new to work on. What it was told before still counts as told.
    pub(crate) fn restart(&mut self) {
        *self = Self { nudged: self.nudged, reasoning: self.reasoning, ..Self::default() };
    }

    pub(crate) const fn tell(&mut self, finding: Finding) {
        self.nudged = Some(finding);
    }

    fn count_circles(&mut self, step: u32, mark: &Mark, again: bool) {
        let mut patience = if mark.moved { MOVED_IN_CIRCLES } else { 1 };
        if mark.waited {
            patience *= WAITED;
        }
        if again {
            let news = self.recent.back().is_some_and(|last| last.whole != mark.whole);
            let weight = STEP / patience / if news { NEWS } else { 1 };
            self.repeat.add(step.saturating_sub(1), step, weight);
        } else {
            self.repeat = Streak::default();
        }
        for (length, round) in (2_u32..).zip(&mut self.rounds) {
            let back = usize::try_from(length).unwrap_or(usize::MAX);
            let before = self.recent.len().checked_sub(back).and_then(|at| self.recent.get(at));
            let same = before.is_some_and(|before| before.whole == mark.whole);
            // One step again and again is no round of several.
            let several = self.recent.iter().rev().take(back).any(|other| other.whole != mark.whole);
            if same && several {
                round.add(step.saturating_sub(length), step, STEP / length / patience);
            } else {
                *round = Streak::default();
            }
        }
    }

    fn count_failures(&mut self, step: u32, mark: &Mark, seen: &[Seen], tree: Option<Digest>) {
        let mut counted = BTreeSet::new();
        for one in seen {
            let by = one.call.arguments;
            let failure = one.failure();
            // A call that comes to something else now has got on.
            self.failures.retain(|known| known.by != by || failure == Some(known.said));
            let Some(said) = failure.filter(|said| counted.insert(*said)) else { continue };
            let known = self.failures.iter().position(|known| known.said == said);
            let mut entry = match known {
                Some(at) => self.failures.remove(at),
                None => Failure { said, by, tree, streak: Streak::default() },
            };
            let weight = if entry.tree == tree || known.is_none() { STEP } else { FAILED_ELSEWHERE };
            entry.streak.add(step, step, weight / if mark.moved { MOVED } else { 1 });
            (entry.by, entry.tree) = (by, tree);
            self.failures.push(entry);
            if self.failures.len() > FAILURES {
                self.failures.remove(0);
            }
        }
    }

    fn count_looks(&mut self, step: u32, mark: &Mark, seen: &[Seen]) {
        let looks =
            |one: &Seen| matches!(one.call.tool, ToolName::ListFiles | ToolName::ReadFile | ToolName::Search);
        let mut learnt = false;
        for read in seen.iter().filter_map(Seen::read) {
            if self.read.len() >= READS {
                self.read.clear();
            }
            learnt |= self.read.insert(read);
        }
        let only_looks = seen.iter().all(looks);
        let weight = STEP / if mark.moved { MOVED } else { 1 };
        self.looking.go(only_looks, step, weight);
        self.wandering.go(only_looks && !learnt, step, weight);
    }

    /// The first detector that strikes. `told`: the agent was told before, so that the higher limits hold. `looking`:
    /// how many times the patience with looking.
    pub(crate) fn find(&self, told: bool, looking: u32) -> Option<Finding> {
        let limit = |limits: Limits| if told { limits.ends } else { limits.told };
        let rounds = self.rounds.iter().map(|round| (Reason::Alternate, *round, limit(ROUNDS)));
        let failures = self.failures.iter().map(|known| (Reason::Stagnant, known.streak, limit(STAGNANT)));
        [(Reason::ToolFormat, self.format, limit(FORMAT)), (Reason::Repeat, self.repeat, limit(REPEAT))]
            .into_iter()
            .chain(rounds)
            .chain(failures)
            .chain([
                (Reason::Discovery, self.wandering, limit(WANDERING).saturating_mul(looking)),
                (Reason::Discovery, self.looking, limit(LOOKING).saturating_mul(looking)),
            ])
            .find(|(_, streak, limit)| streak.weight >= *limit)
            .map(|(reason, Streak { first, last, .. }, _)| Finding { reason, first, last })
    }
}
