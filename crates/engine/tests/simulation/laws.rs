//! What holds of every story, however it was struck.

use std::collections::BTreeMap;

use countersign_kernel::{EffectKind, Event, Session, ToolName, apply};
use countersign_types::{EffectId, GateStatus, Outcome, Reason};

use super::play::Played;

/// The first law that a story broke.
pub fn broken(played: &Played) -> Option<String> {
    let Played { world, session, events, .. } = played;
    if let Some(wrong) = world.wrong().into_iter().next() {
        return Some(wrong);
    }
    let Some(turn) = &session.turn else { return Some("there is no turn".to_owned()) };
    let Some(ending) = turn.ending else { return Some("the turn has no end".to_owned()) };
    if let Some(wrong) = effects(events).or_else(|| ends_once(events)) {
        return Some(wrong);
    }
    if let Some(wrong) = waits(played) {
        return Some(wrong);
    }
    if let Some(how) = turn.cancel
        && ending.outcome != Outcome::Canceled
    {
        return Some(format!("it was canceled ({how:?}) and ended as {}/{}", ending.outcome, ending.reason));
    }
    for (command, began) in world.commands() {
        if began.network && began.times > 1 {
            return Some(format!("`{command}` could reach the network and ran {} times", began.times));
        }
    }
    // Every request that left is counted, for ever.
    let counted = turn.budget.model_calls;
    if world.requests_sent() > counted {
        return Some(format!("{} model requests were sent and {counted} counted", world.requests_sent()));
    }
    if world.cells_left_open() != 0 {
        return Some(format!("{} cells were left open", world.cells_left_open()));
    }
    if ending.outcome == Outcome::Verified && !turn.rooms.iter().any(|room| room.status == GateStatus::Passed)
    {
        return Some("verified, and no room passed".to_owned());
    }
    None
}

/// Each effect is intended once, dispatched once, and comes to one end.
fn effects(events: &[Event]) -> Option<String> {
    let mut states: BTreeMap<EffectId, &'static str> = BTreeMap::new();
    for event in events {
        let (effect, from, to) = match event {
            Event::EffectIntended { effect, .. } => (effect, None, "intended"),
            Event::EffectDispatched { effect } => (effect, Some("intended"), "dispatched"),
            Event::EffectCompleted { effect, .. } => (effect, Some("dispatched"), "completed"),
            Event::EffectFailed { effect, .. } => (effect, Some("dispatched"), "failed"),
            Event::EffectAbandoned { effect } => (effect, Some("dispatched"), "abandoned"),
            Event::EffectForfeited { effect } => (effect, Some("dispatched"), "forfeited"),
            Event::EffectUnknown { effect } => (effect, Some("dispatched"), "unknown"),
            Event::EffectDenied { effect, .. } => (effect, None, "denied"),
            _ => continue,
        };
        let before = states.insert(*effect, to);
        if before != from {
            return Some(format!("effect {effect} went from {before:?} to {to}"));
        }
    }
    let open = states.iter().find(|(_, state)| matches!(**state, "intended" | "dispatched"));
    open.map(|(effect, state)| format!("effect {effect} stayed {state}"))
}

/// A retry's moment is on record, and no restart or pause makes it earlier.
fn waits(played: &Played) -> Option<String> {
    let mut not_before = None;
    for (line, event) in played.stored.iter().zip(&played.events) {
        match event {
            Event::RetryScheduled { not_before: until, .. } => not_before = Some(*until),
            Event::EffectIntended { kind: EffectKind::ModelCall, .. } => {
                if let Some(until) = not_before.take()
                    && line.at < until
                {
                    return Some(format!("event {} asks again at {}, not at {until}", line.seq, line.at));
                }
            }
            _ => {}
        }
    }
    None
}

fn ends_once(events: &[Event]) -> Option<String> {
    let ends = events.iter().filter(|event| matches!(event, Event::TurnEnded { .. })).count();
    let last = events.last().is_some_and(|event| matches!(event, Event::TurnEnded { .. }));
    (ends != 1 || !last).then(|| format!("{ends} ends, and the last event is {:?}", events.last()))
}

/// What a story that was struck must have in common with the same one that was not.
pub fn differs(struck: &Played, whole: &Played) -> Option<String> {
    let (Some(a), Some(b)) = (&struck.session.turn, &whole.session.turn) else {
        return Some("no turn".to_owned());
    };
    let (Some(end), Some(other)) = (a.ending, b.ending) else { return Some("no end".to_owned()) };
    let revoked = struck.events.iter().any(|event| matches!(event, Event::CapabilitiesRevoked { .. }));
    let excused = a.cancel.is_some()
        || revoked
        // Nobody can say what a command did that could reach the network.
        || end.reason == Reason::EffectUnknown && lost_what_asks(&struck.events)
        // A machine on which cells die again and again is said to be the cause.
        || end.reason == Reason::CellDied && !struck.world.story.cell_deaths.is_empty()
        // Lost calls count against the limit.
        || end.reason == Reason::Tokens && a.budget.lost_calls > 0
        // Time goes on differently where work is done again; the deadline counts it.
        || [end.reason, other.reason].contains(&Reason::Deadline)
        || struck.world.story.contract.limits.deadline.0 < 60_000;
    if excused {
        return None;
    }
    let said = |ending: countersign_kernel::Ending| format!("{}/{}", ending.outcome, ending.reason);
    if said(end) != said(other) {
        return Some(format!("it ended as {} and undisturbed as {}", said(end), said(other)));
    }
    let (tree, wanted) = (a.sealed.map(|s| s.tree), b.sealed.map(|s| s.tree));
    if tree != wanted {
        return Some(format!("the final tree is {tree:?} and undisturbed {wanted:?}"));
    }
    let calls = |turn: &countersign_kernel::Turn| turn.budget.model_calls - turn.budget.lost_calls;
    (calls(a) != calls(b)).then(|| format!("{} answers, undisturbed {}", calls(a), calls(b)))
}

fn lost_what_asks(events: &[Event]) -> bool {
    let unknown =
        |id: &EffectId| events.iter().any(|e| matches!(e, Event::EffectUnknown { effect } if effect == id));
    events.iter().any(|event| match event {
        Event::EffectIntended { effect, kind, .. } => {
            matches!(kind, EffectKind::Tool { tool: ToolName::Run } | EffectKind::Setup) && unknown(effect)
        }
        _ => false,
    })
}

/// How often each transition was taken.
pub type Transitions = BTreeMap<String, u64>;

/// Every transition of turns and effects that a driver alone can take. Each is taken by one seed of a hundred at least.
pub const REQUIRED: &[&str] = &[
    "turn: none -> queued",
    "turn: queued -> approved",
    "turn: approved -> preparing",
    "turn: preparing -> running",
    "turn: preparing -> ended",
    "turn: preparing -> parked",
    "turn: parked -> preparing",
    "turn: running -> checking",
    "turn: running -> waitingretry",
    "turn: running -> ended",
    "turn: running -> parked",
    "turn: parked -> running",
    "turn: waitingretry -> running",
    "turn: checking -> running",
    "turn: checking -> ended",
    "turn: checking -> parked",
    "turn: parked -> checking",
    "effect: none -> intended",
    "effect: none -> denied",
    "effect: intended -> dispatched",
    "effect: dispatched -> completed",
    "effect: dispatched -> failed",
    "effect: dispatched -> abandoned",
    "effect: dispatched -> forfeited",
    "effect: dispatched -> unknown",
    "outcome: verified",
    "outcome: answered",
    "outcome: unverified",
    "outcome: capped",
    "outcome: provider_error",
    "outcome: refused",
    "outcome: canceled",
    "outcome: scope_violation",
    "outcome: tampered",
    "outcome: interrupted",
];

pub fn count(played: &Played, into: &mut Transitions) {
    let mut session = Session::new(played.world.story.contract.clone());
    let mut add = |what: String| *into.entry(what).or_default() += 1;
    let mut effects: BTreeMap<EffectId, &'static str> = BTreeMap::new();
    for (line, event) in played.stored.iter().zip(&played.events) {
        let before = session.turn.as_ref().map(countersign_kernel::Turn::status);
        apply(&mut session, line.at, event);
        let after = session.turn.as_ref().map(countersign_kernel::Turn::status);
        if before != after {
            let name = |status| match status {
                Some(status) => format!("{status:?}").to_lowercase(),
                None => "none".to_owned(),
            };
            add(format!("turn: {} -> {}", name(before), name(after)));
        }
        let (effect, to) = match event {
            Event::EffectIntended { effect, .. } => (effect, "intended"),
            Event::EffectDispatched { effect } => (effect, "dispatched"),
            Event::EffectCompleted { effect, .. } => (effect, "completed"),
            Event::EffectFailed { effect, .. } => (effect, "failed"),
            Event::EffectAbandoned { effect } => (effect, "abandoned"),
            Event::EffectForfeited { effect } => (effect, "forfeited"),
            Event::EffectUnknown { effect } => (effect, "unknown"),
            Event::EffectDenied { effect, .. } => (effect, "denied"),
            Event::TurnEnded { outcome, .. } => {
                add(format!("outcome: {outcome}"));
                continue;
            }
            _ => continue,
        };
        let from = effects.insert(*effect, to).unwrap_or("none");
        add(format!("effect: {from} -> {to}"));
    }
}
