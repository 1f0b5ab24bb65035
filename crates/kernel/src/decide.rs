//! Commands in, events out. A command is judged against the state and the authority that sends it; what follows from
//! it without any further effect (a gate decided, a turn ended) is part of the same answer, and so of the same commit.

use countersign_types::{Digest, EffectId, GateKey, Millis, Outcome, Reason, Tier, TurnId};

use crate::apply::{apply, charged};
use crate::budget::Reservation;
use crate::contract::{Contract, Network};
use crate::detect::{self, Due};
use crate::effect::{
    BaseVerdict, Capability, Class, EffectFailure, EffectKind, EffectResult, JobSummary, ReproMark, ToolName,
    WorkPermit,
};
use crate::event::{EndPath, Event, RecoverDecision, StopHow};
use crate::gates::{self, Gate, GatePlanStep};
use crate::planted;
use crate::review;
use crate::state::{Ending, Phase, Session, Turn};
use crate::work::{call_index, next_steps};

/// Who sends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The driver that holds the session's lease.
    Driver,
    /// A person or another process: may submit, approve, cancel, drain, revoke, resume and close, never act.
    External,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Open {
        contract: Digest,
    },
    Queue {
        input: Digest,
        bytes: u64,
    },
    Approve,
    Intend(Vec<Intent>),
    Receipts(Vec<Receipt>),
    Tick,
    Cancel(StopHow),
    /// Rest until somebody resumes it.
    Drain(StopHow),
    /// Takes away what was granted; None: everything.
    Revoke(Option<Capability>),
    Resume,
    /// The first command of every driver: what was under way when the last one stopped?
    Recover,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    pub effect: EffectId,
    pub kind: EffectKind,
    pub request: Digest,
    pub reserve: Reservation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub effect: EffectId,
    pub body: ReceiptBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptBody {
    Done(EffectResult),
    Failed(EffectFailure),
    /// Stopped on purpose before its end (cancel, drain, deadline); its processes are dead.
    Interrupted,
    /// Nobody can say.
    Unknown,
}

/// Why a command was not taken. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the turn has ended")]
    Ended,
    #[error("the session is closed")]
    Closed,
    #[error("there is no turn")]
    NoTurn,
    #[error("this command needs the session's lease")]
    NotTheDriver,
    #[error("not now: {0}")]
    NotNow(&'static str),
    #[error("nothing is due")]
    NothingDue,
    #[error("effect {0} is not what the plan wants now")]
    NotPlanned(EffectId),
    #[error("effect {0} is not under way")]
    NotUnderWay(EffectId),
    #[error("the receipt of {0} does not fit its kind")]
    WrongReceipt(EffectId),
}

/// The longest chain of decisions that one command can cause. A plan has fewer gates than this; reaching it would be a
/// bug, and a bounded one.
const MAX_FOLLOW: usize = 64;

/// Judges a command. The events, applied in order, are the whole effect of it.
pub fn decide(
    session: &Session,
    authority: Authority,
    command: &Command,
    now: Millis,
) -> Result<Vec<Event>, Refusal> {
    let acts =
        matches!(command, Command::Intend(_) | Command::Receipts(_) | Command::Tick | Command::Recover);
    if acts && authority != Authority::Driver {
        return Err(Refusal::NotTheDriver);
    }
    if session.closed {
        return Err(Refusal::Closed);
    }
    let mut next = Draft { session: session.clone(), now, events: Vec::new() };
    answer(&mut next, command)?;
    for _ in 0..MAX_FOLLOW {
        match follow(&next.session, now) {
            Some(event) => next.push(event),
            None => break,
        }
    }
    if next.events.is_empty() { Err(Refusal::NothingDue) } else { Ok(next.events) }
}

struct Draft {
    session: Session,
    now: Millis,
    events: Vec<Event>,
}

impl Draft {
    fn push(&mut self, event: Event) {
        apply(&mut self.session, self.now, &event);
        self.events.push(event);
    }

    fn active(&self) -> Result<&Turn, Refusal> {
        let turn = self.session.turn.as_ref().ok_or(Refusal::NoTurn)?;
        if turn.ending.is_some() { Err(Refusal::Ended) } else { Ok(turn) }
    }
}

fn answer(next: &mut Draft, command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Open { contract } => {
            if next.session.opened {
                return Err(Refusal::NotNow("the session is already open"));
            }
            next.push(Event::SessionOpened { contract: *contract });
        }
        Command::Queue { input, bytes } => {
            if !next.session.opened {
                return Err(Refusal::NotNow("the session has no contract"));
            }
            let turn = match &next.session.turn {
                None => TurnId(1),
                Some(turn) if turn.ending.is_some() => TurnId(turn.id.0.saturating_add(1)),
                Some(_) => return Err(Refusal::NotNow("a turn is active")),
            };
            next.push(Event::TurnQueued { turn, input: *input, bytes: *bytes });
        }
        Command::Approve => {
            let turn = next.active()?;
            if turn.approved_at.is_some() {
                return Err(Refusal::NothingDue);
            }
            let event = Event::TurnApproved { turn: turn.id, capabilities: granted(&next.session.contract) };
            next.push(event);
        }
        Command::Intend(intents) => intend(next, intents)?,
        Command::Receipts(receipts) => {
            for receipt in receipts {
                receive(next, receipt)?;
            }
        }
        Command::Tick => {
            next.active()?;
        }
        Command::Cancel(how) => {
            if next.active()?.cancel.is_some() {
                return Err(Refusal::NothingDue);
            }
            next.push(Event::CancelRequested { how: *how });
        }
        Command::Drain(how) => {
            let turn = next.active()?;
            if turn.approved_at.is_none() {
                return Err(Refusal::NotNow("the turn waits for its approval: nothing of it runs"));
            }
            if turn.drain.is_some() {
                return Err(Refusal::NothingDue);
            }
            next.push(Event::DrainRequested { how: *how });
        }
        Command::Revoke(one) => {
            let turn = next.active()?;
            if turn.approved_at.is_none() {
                return Err(Refusal::NotNow(
                    "nothing was granted yet: cancel the turn, or do not approve it",
                ));
            }
            let held = turn.capabilities.iter().copied();
            let capabilities: Vec<_> = held.filter(|held| one.is_none_or(|one| one == *held)).collect();
            if capabilities.is_empty() {
                return Err(Refusal::NothingDue);
            }
            next.push(Event::CapabilitiesRevoked { capabilities });
        }
        Command::Resume => {
            if next.active()?.drain.is_none() {
                return Err(Refusal::NotNow("the turn is not parked"));
            }
            next.push(Event::Resumed);
        }
        Command::Recover => {
            let turn = next.active()?;
            let in_order = turn.outstanding.is_empty() && (turn.fresh || turn.drain.is_some());
            if turn.approved_at.is_none() || in_order {
                return Err(Refusal::NothingDue);
            }
            recover(next);
        }
        Command::Close => {
            if next.session.turn.as_ref().is_some_and(|turn| turn.ending.is_none()) {
                return Err(Refusal::NotNow("a turn is active"));
            }
            next.push(Event::SessionClosed);
        }
    }
    Ok(())
}

/// What the contract grants. A question may look and ask, nothing else.
#[must_use]
pub fn granted(contract: &Contract) -> Vec<Capability> {
    // Setup and checks are the operator's own commands: the contract names them, whatever the agent may do.
    let mut all = vec![Capability::TreeRead, Capability::CheckRun, Capability::Export];
    // Where finished work is judged there is nobody to grant more to.
    if contract.candidate.is_none() {
        all.push(Capability::ModelCall);
        if contract.looks_only() {
            return all;
        }
        all.extend([Capability::TreeWrite, Capability::CommandRun]);
    }
    if contract.review.is_some() {
        all.push(Capability::ReviewCall);
    }
    if contract.network == Network::Host {
        all.push(Capability::NetworkUse);
    }
    all
}

fn intend(next: &mut Draft, intents: &[Intent]) -> Result<(), Refusal> {
    let turn = next.active()?;
    if turn.approved_at.is_none() || turn.drain.is_some() || !turn.outstanding.is_empty() {
        return Err(Refusal::NotNow("the turn is not ready for an effect"));
    }
    let planned = next_steps(&next.session, turn);
    for (position, intent) in intents.iter().enumerate() {
        let fits = planned.get(position).is_some_and(|s| s.effect == intent.effect && s.kind == intent.kind);
        if !fits {
            return Err(Refusal::NotPlanned(intent.effect));
        }
    }
    if intents.is_empty() {
        return Err(Refusal::NothingDue);
    }
    for intent in intents {
        if let Some(reason) = over_budget(next.active()?, &next.session.contract, intent) {
            if review::is_call(intent.kind) {
                let turn = next.active()?;
                let said = review::without_a_call(turn);
                next.push(decided(turn.attempt, GateKey::Review, said));
                return Ok(());
            }
            // What fits is carried out first; the rest meets the same limit when it is wanted again.
            if !next.active()?.outstanding.is_empty() {
                return Ok(());
            }
            let attempt = next.active()?.attempt.saturating_add(1);
            next.push(Event::AttemptBegun { attempt, path: EndPath::Cap { reason } });
            return Ok(());
        }
        // Checked at intent and, with nothing between them, at dispatch: both are this one commit.
        if let Some(capability) = next.active()?.lacks(intent.kind, next.session.contract.network) {
            deny(next, intent, capability)?;
            // The model is told and may go on with what it has; a plan cannot.
            if matches!(intent.kind, EffectKind::Tool { .. }) {
                continue;
            }
            return Ok(());
        }
        let class = intent.kind.class(next.session.contract.network == Network::Host);
        next.push(Event::EffectIntended {
            effect: intent.effect,
            kind: intent.kind,
            permit: WorkPermit { request: intent.request, class },
            reserve: intent.reserve,
        });
        next.push(Event::EffectDispatched { effect: intent.effect });
    }
    Ok(())
}

/// The session does not hold what an effect needs. That is recorded whatever becomes of the turn.
fn deny(next: &mut Draft, intent: &Intent, capability: Capability) -> Result<(), Refusal> {
    next.push(Event::EffectDenied { effect: intent.effect, kind: intent.kind, capability });
    if review::is_call(intent.kind) {
        let turn = next.active()?;
        let said = review::without_a_call(turn);
        next.push(decided(turn.attempt, GateKey::Review, said));
    } else if !matches!(intent.kind, EffectKind::Tool { .. }) {
        // Whoever took it away asked for the end of what cannot go on without it.
        let ended = end(next.active()?, Reason::Request);
        next.push(ended);
    }
    Ok(())
}

/// The limit that this intent would break, if any.
fn over_budget(turn: &Turn, contract: &Contract, intent: &Intent) -> Option<Reason> {
    let limits = &contract.limits;
    if intent.kind == EffectKind::ModelCall || review::is_call(intent.kind) {
        // The reviewer draws on the same limit.
        let counted = turn.budget.counted_tokens().saturating_add(turn.review.budget.counted_tokens());
        let wanted = counted.saturating_add(intent.reserve.tokens);
        return limits.tokens.filter(|limit| wanted > *limit).map(|_| Reason::Tokens);
    }
    let under_way = turn.outstanding.values().filter(|outstanding| charged(outstanding.kind)).count();
    let under_way = u32::try_from(under_way).unwrap_or(u32::MAX);
    let actions = turn.budget.tool_actions.saturating_add(under_way);
    (charged(intent.kind) && actions >= limits.tool_actions).then_some(Reason::Actions)
}

fn receive(next: &mut Draft, receipt: &Receipt) -> Result<(), Refusal> {
    let effect = receipt.effect;
    let turn = next.active()?;
    let outstanding = *turn.outstanding.get(&effect).ok_or(Refusal::NotUnderWay(effect))?;
    let event = match &receipt.body {
        ReceiptBody::Done(result) => {
            if !fits(outstanding.kind, result) {
                return Err(Refusal::WrongReceipt(effect));
            }
            Event::EffectCompleted { effect, result: result.clone() }
        }
        ReceiptBody::Failed(failure) => Event::EffectFailed { effect, failure: *failure },
        ReceiptBody::Interrupted => match outstanding.permit.class {
            Class::Replay | Class::Rewind => Event::EffectAbandoned { effect },
            Class::Forfeit => Event::EffectForfeited { effect },
            Class::Ask => Event::EffectUnknown { effect },
        },
        ReceiptBody::Unknown => match outstanding.permit.class {
            Class::Replay => Event::EffectAbandoned { effect },
            Class::Forfeit => Event::EffectForfeited { effect },
            Class::Rewind | Class::Ask => Event::EffectUnknown { effect },
        },
    };
    next.push(event);
    Ok(())
}

const fn fits(kind: EffectKind, result: &EffectResult) -> bool {
    if let (EffectKind::Tool { tool }, EffectResult::Tool { repro, .. }) = (kind, result) {
        return matches!(
            (tool, repro),
            (_, None)
                | (ToolName::DeclareRepro, Some(ReproMark::Declared { .. }))
                | (ToolName::SkipRepro, Some(ReproMark::Skipped))
        );
    }
    matches!(
        (kind, result),
        (EffectKind::Import, EffectResult::Import { .. })
            | (EffectKind::Setup, EffectResult::Setup { .. })
            | (EffectKind::Probe, EffectResult::Probe { .. })
            | (EffectKind::BaseRun { .. }, EffectResult::BaseRun { .. })
            | (EffectKind::Candidate, EffectResult::Candidate { .. })
            | (EffectKind::Open, EffectResult::Open { .. })
            | (EffectKind::ModelCall, EffectResult::ModelCall { .. })
            | (EffectKind::Seal, EffectResult::Seal { .. })
            | (EffectKind::Inspect, EffectResult::Inspect { .. })
            | (EffectKind::Room { .. }, EffectResult::Room { .. })
            | (EffectKind::Mutants, EffectResult::Mutants { .. })
            | (EffectKind::Patch, EffectResult::Patch { .. })
            | (EffectKind::Repro, EffectResult::Repro { .. })
            | (EffectKind::ReviewBrief, EffectResult::ReviewBrief { .. })
            | (EffectKind::ReviewCall { .. }, EffectResult::ReviewCall { .. })
            | (EffectKind::ReviewJudge { .. }, EffectResult::ReviewJudge { .. })
            | (EffectKind::ReviewRecheck, EffectResult::ReviewRecheck { .. })
    )
}

/// The last driver died, and every cell of its with it. What was under way is decided by its class: what reads or judges is
/// done again; what writes is done again from the last checkpoint, because its cell is gone and nothing outside saw it; a
/// model call keeps counting and is asked anew; of anything else nobody can say whether it happened.
fn recover(next: &mut Draft) {
    let Some(turn) = &next.session.turn else { return };
    let under_way: Vec<(EffectId, Class)> = turn
        .outstanding
        .iter()
        .map(|(id, o)| (*id, planted::class(when_lost(&next.session.contract, o.kind, o.permit.class))))
        .collect();
    let lost = under_way.iter().any(|(_, class)| *class == Class::Ask);
    let decision = if lost { RecoverDecision::Interrupt } else { RecoverDecision::Continue };
    // First, because the time until now was nobody's.
    next.push(Event::Recovered { decision });
    for (effect, class) in under_way {
        next.push(match class {
            Class::Replay | Class::Rewind => Event::EffectAbandoned { effect },
            Class::Forfeit => Event::EffectForfeited { effect },
            Class::Ask => Event::EffectUnknown { effect },
        });
    }
}

/// What follows from the state alone, one event at a time. None: the next thing needs an effect, a time or a person.
pub(crate) fn follow(session: &Session, now: Millis) -> Option<Event> {
    let contract = &session.contract;
    let turn = session.turn.as_ref()?;
    if turn.ending.is_some() || turn.approved_at.is_none() && turn.cancel.is_none() {
        return None;
    }
    if !turn.outstanding.is_empty() {
        return None;
    }
    // Looked at before everything else: a cancel wins over a pass.
    if let Some(how) = planted::cancel(turn.cancel) {
        return Some(end(
            turn,
            match how {
                StopHow::Signal => Reason::Signal,
                StopHow::Request => Reason::Request,
            },
        ));
    }
    if turn.lost {
        return Some(end(turn, Reason::EffectUnknown));
    }
    if let Some(event) = after_failure(turn, contract, now) {
        return Some(event);
    }
    // Decided also while it rests: what goes back to the agent goes with the words of the result that it follows from.
    if let Some(path) = turn.path {
        return judge(turn, contract, path);
    }
    if turn.drain.is_some() {
        return None;
    }
    if let Some(reason) = unfit_base(turn, contract) {
        return Some(end(turn, reason));
    }
    if turn.phase() == Phase::Work { working(turn, contract, now) } else { None }
}

fn end(turn: &Turn, reason: Reason) -> Event {
    end_with(
        turn,
        Ending { outcome: reason.outcome(), reason, strength: None, rescued_from: None, reset_at: None },
    )
}

fn end_with(turn: &Turn, ending: Ending) -> Event {
    Event::TurnEnded {
        turn: turn.id,
        outcome: ending.outcome,
        reason: ending.reason,
        strength: ending.strength,
        rescued_from: ending.rescued_from,
        reset_at: ending.reset_at,
    }
}

fn begin(turn: &Turn, path: EndPath) -> Event {
    Event::AttemptBegun { attempt: turn.attempt.saturating_add(1), path }
}

fn after_failure(turn: &Turn, contract: &Contract, now: Millis) -> Option<Event> {
    let (effect, kind, failure) = turn.failure?;
    if kind == EffectKind::ModelCall {
        if failure.reason.outcome() == Outcome::Capped {
            return Some(begin(turn, EndPath::Cap { reason: failure.reason }));
        }
        if let Some(wait) = failure.retry_after
            && turn.retries < contract.limits.model_retries
        {
            return Some(Event::RetryScheduled { effect, not_before: now.saturating_add(wait) });
        }
    }
    if review::is_call(kind) {
        if let Some(wait) = failure.retry_after
            && turn.retries < contract.limits.model_retries
        {
            return Some(Event::RetryScheduled { effect, not_before: now.saturating_add(wait) });
        }
        // The plan says what it is worth without the reviewer.
        return None;
    }
    if failure.reason == Reason::CellDied && begun_anew(turn, contract, effect, kind) {
        return Some(Event::Recovered { decision: RecoverDecision::Continue });
    }
    let reason = failure.reason;
    Some(end_with(
        turn,
        Ending {
            outcome: reason.outcome(),
            reason,
            strength: None,
            rescued_from: None,
            reset_at: failure.reset_at,
        },
    ))
}

/// What a lost effect is. On the host tier nothing confined a command: nobody knows what else it wrote or told.
fn when_lost(contract: &Contract, kind: EffectKind, class: Class) -> Class {
    let ran = matches!(kind, EffectKind::Tool { tool: ToolName::Run });
    if ran && contract.sandbox == Tier::Host { Class::Ask } else { class }
}

/// How often an effect is begun whose cell dies under it.
const CELLS_PER_EFFECT: u32 = 3;

/// A cell that died took with it all that was confined to it: the effect is done again in another one.
fn begun_anew(turn: &Turn, contract: &Contract, effect: EffectId, kind: EffectKind) -> bool {
    let begun = turn.tries.get(&(effect.step, effect.slot)).copied().unwrap_or_default();
    let class = when_lost(contract, kind, kind.class(contract.network == Network::Host));
    class != Class::Ask && begun < CELLS_PER_EFFECT
}

/// The base or the environment is no ground to judge on: the agent never starts.
fn unfit_base(turn: &Turn, contract: &Contract) -> Option<Reason> {
    let fine = |job: &JobSummary| matches!(job, JobSummary::Exited { code: 0 });
    if contract.environment.setup.is_some() && turn.setup.as_ref().is_some_and(|job| !fine(job)) {
        return Some(Reason::Environment);
    }
    if turn.probe.as_ref().is_some_and(|job| !fine(job)) {
        return Some(Reason::Environment);
    }
    turn.base_runs.iter().find_map(|run| match run.verdict {
        BaseVerdict::AlreadyGreen => Some(Reason::AlreadyGreen),
        BaseVerdict::Environment => Some(Reason::Environment),
        BaseVerdict::Red { .. } | BaseVerdict::Green => None,
    })
}

fn working(turn: &Turn, contract: &Contract, now: Millis) -> Option<Event> {
    if contract.candidate.is_some() {
        let read = turn.sealed.is_some() || turn.unsealable.is_some();
        return read.then(|| begin(turn, EndPath::Candidate));
    }
    let limits = &contract.limits;
    if turn.declined && turn.reply_open {
        return Some(end(turn, Reason::Declined));
    }
    let finish = turn.calls.iter().find(|call| call.tool == ToolName::Finish);
    if turn.reply_open && turn.model_done && turn.all_calls_done() {
        if let Some(call) = finish {
            return Some(begin(turn, EndPath::Finish { empty: call.blank && turn.text_bytes == 0 }));
        }
        // A turn that was paused is no claim: the next step goes on with it.
        if turn.calls.is_empty() && !turn.paused {
            let cut_off = turn.cut_off;
            let path = EndPath::Claim { empty: turn.text_bytes == 0 };
            // A text that the output clamp cut off is no claim.
            return Some(begin(turn, if cut_off { EndPath::Cap { reason: Reason::Output } } else { path }));
        }
    }
    if turn.deadline_at(contract).is_some_and(|deadline| now >= deadline) {
        return Some(begin(turn, EndPath::Cap { reason: Reason::Deadline }));
    }
    if turn.budget.output_bytes >= limits.output_bytes {
        return Some(begin(turn, EndPath::Cap { reason: Reason::Output }));
    }
    let needs_step = turn.model_done && turn.all_calls_done();
    if needs_step && turn.step >= limits.turns {
        return Some(begin(turn, EndPath::Cap { reason: Reason::Turns }));
    }
    if !needs_step {
        return None;
    }
    detect::due(turn, contract).map(|due| match due {
        Due::Nudge(finding) => Event::Nudged { finding },
        Due::Stop(finding) => begin(turn, EndPath::Stuck { finding }),
    })
}

fn judge(turn: &Turn, contract: &Contract, path: EndPath) -> Option<Event> {
    let attempt = turn.attempt;
    match gates::next(turn, contract, path) {
        GatePlanStep::Seal
        | GatePlanStep::Inspect
        | GatePlanStep::Room(_)
        | GatePlanStep::Repro
        | GatePlanStep::Review(_)
        | GatePlanStep::Mutants
        | GatePlanStep::Patch => None,
        GatePlanStep::Decide(gate, said) => Some(decided(attempt, gate, said)),
        GatePlanStep::Return(gate) => Some(Event::AttemptReturned { attempt, gate }),
        GatePlanStep::End(ending) => Some(end_with(turn, ending)),
    }
}

fn decided(attempt: u32, gate: GateKey, said: Gate) -> Event {
    let Gate { status, reason, strength, by } = said;
    Event::GateDecided { attempt, gate, status, reason, strength, by }
}

impl Event {
    /// For a denied call: its position within the message.
    #[must_use]
    pub const fn denied_call(&self) -> Option<u32> {
        match self {
            Self::EffectDenied { effect, .. } => Some(call_index(*effect)),
            _ => None,
        }
    }

    /// Is this the end of a turn?
    #[must_use]
    pub const fn ends_turn(&self) -> bool {
        matches!(self, Self::TurnEnded { .. })
    }

    /// The gate that was decided, if this says so.
    #[must_use]
    pub const fn gate(&self) -> Option<GateKey> {
        match self {
            Self::GateDecided { gate, .. } => Some(*gate),
            _ => None,
        }
    }
}
