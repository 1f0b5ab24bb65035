//! The budget: reserved before use, settled after, uncertain keeps counting.

use countersign_types::Money;
use serde::{Deserialize, Serialize};

/// Token counts as a provider reported them. None: unknown, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached: Option<u64>,
    /// The part of `input` that was written into a cache. Journals of before it was counted do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    pub reasoning: Option<u64>,
}

/// What a model call may use at most: its measured input and its clamped output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    pub tokens: u64,
}

/// Counters of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Model calls that were sent, retries included.
    pub model_calls: u64,
    /// Those of them whose answer was lost.
    pub lost_calls: u64,
    pub tool_actions: u32,
    pub output_bytes: u64,
    /// Tokens of settled calls; for a call whose usage is unknown, its reservation.
    pub settled_tokens: u64,
    /// Tokens of calls that are under way or lost.
    pub held_tokens: u64,
    pub input: Tally,
    pub output: Tally,
    pub cached: Tally,
    pub cache_write: Tally,
    pub reasoning: Tally,
    pub cost: CostTally,
}

/// A sum that says when a part of it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub known: u64,
    pub parts: u32,
    pub unknown_parts: u32,
}

impl Tally {
    pub(crate) fn add(&mut self, part: Option<u64>) {
        self.parts = self.parts.saturating_add(1);
        match part {
            Some(n) => self.known = self.known.saturating_add(n),
            None => self.unknown_parts = self.unknown_parts.saturating_add(1),
        }
    }

    /// The whole sum, or None when any part is unknown. A sum of no parts is 0.
    #[must_use]
    pub const fn total(self) -> Option<u64> {
        if self.unknown_parts == 0 { Some(self.known) } else { None }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostTally {
    pub known: Money,
    pub parts: u32,
    pub unknown_parts: u32,
}

impl CostTally {
    pub(crate) fn add(&mut self, part: Option<Money>) {
        self.parts = self.parts.saturating_add(1);
        match part {
            Some(m) => self.known = self.known.saturating_add(m),
            None => self.unknown_parts = self.unknown_parts.saturating_add(1),
        }
    }

    /// None when any call's cost is unknown. No call at all costs nothing.
    #[must_use]
    pub const fn total(self) -> Option<Money> {
        if self.unknown_parts == 0 { Some(self.known) } else { None }
    }
}

impl Budget {
    /// Tokens that count against the limit: settled, under way and lost.
    #[must_use]
    pub const fn counted_tokens(&self) -> u64 {
        self.settled_tokens.saturating_add(self.held_tokens)
    }

    /// The place of the call under way in a scripted or recorded model, counted from 0: a call whose answer was lost had
    /// none, so that the next one takes it.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.model_calls.saturating_sub(self.lost_calls).saturating_sub(1)
    }

    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        self.model_calls = self.model_calls.saturating_add(1);
        self.held_tokens = self.held_tokens.saturating_add(reservation.tokens);
    }

    /// A call answered: its reservation becomes what it used, or stays at the clamp where usage is unknown.
    pub(crate) fn settle(&mut self, reservation: Reservation, usage: Usage, cost: Option<Money>) {
        self.held_tokens = self.held_tokens.saturating_sub(reservation.tokens);
        let used = match (usage.input, usage.output) {
            (Some(i), Some(o)) => i.saturating_add(o),
            _ => reservation.tokens,
        };
        self.settled_tokens = self.settled_tokens.saturating_add(used);
        self.input.add(usage.input);
        self.output.add(usage.output);
        self.cached.add(usage.cached);
        self.cache_write.add(usage.cache_write);
        self.reasoning.add(usage.reasoning);
        self.cost.add(cost);
    }

    /// A call that was refused before any work: nothing was used.
    pub(crate) fn release(&mut self, reservation: Reservation) {
        self.held_tokens = self.held_tokens.saturating_sub(reservation.tokens);
    }

    /// A call without an answer. It may have been billed.
    pub(crate) fn lose(&mut self) {
        self.lost_calls = self.lost_calls.saturating_add(1);
        self.forfeit();
    }

    /// A call that may have been billed: its reservation counts for ever and its cost is unknown.
    pub(crate) fn forfeit(&mut self) {
        for tally in [&mut self.input, &mut self.output] {
            tally.add(None);
        }
        self.cost.add(None);
    }
}
