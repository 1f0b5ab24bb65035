//! The story of a turn, read top to bottom in the order in which it happens. This is the only loop.

use std::pin::pin;
use std::sync::Arc;

use countersign_kernel::{Command, Ending, Event, Receipt, Refusal, Session, Step, StopHow, Work, work};
use countersign_types::{EffectId, Millis, PrincipalId, Reason, SessionId};
use futures::future::{Either, select};

use crate::error::EngineError;
use crate::journal::{CommitError, Journal, Payloads};
use crate::keeper::keep;
use crate::perform::Done;
use crate::ports::{Interrupt, Ports};
use crate::stop::stop;
use crate::workshop::Workshop;

/// How driving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Over(Ending),
    /// The turn is not over; `resume` goes on.
    Parked(Reason),
    /// There is nothing to drive: no turn, or one that nobody approved.
    Idle,
}

/// How often a driver looks whether somebody outside asked for something while it performs or waits.
const LOOK: Millis = Millis(200);

/// Drives a session's turn until it is over or must wait.
pub async fn drive(ports: &Ports, id: &SessionId, holder: &str) -> Result<Ended, EngineError> {
    let (mut journal, events) = Journal::open(ports, id, holder).await?;
    let mut shop = Workshop::new(ports, &journal, &events).await?;
    recover(ports, &mut journal).await?;
    let lease = journal.lease();
    let result = {
        let keeping = pin!(keep(Arc::clone(&ports.clock), lease));
        let running = pin!(run(ports, &mut journal, &mut shop));
        match select(running, keeping).await {
            Either::Left((ended, _)) => ended,
            // What was under way is dropped with `running`; whoever has the lease now decides about it.
            Either::Right(((), _)) => Err(EngineError::LeaseLost),
        }
    };
    // However it ended, no cell outlives its controller.
    shop.close().await;
    result
}

/// Takes a parked turn up again.
pub async fn resume(ports: &Ports, id: &SessionId, holder: &str) -> Result<Ended, EngineError> {
    {
        let (mut journal, _) = Journal::open(ports, id, holder).await?;
        match journal.commit(ports, Some(&person()?), &Command::Resume, Payloads::default()).await {
            Ok(_) => {}
            Err(CommitError::Refused(Refusal::Ended | Refusal::NotNow(_) | Refusal::NoTurn)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    drive(ports, id, holder).await
}

async fn run(ports: &Ports, journal: &mut Journal, shop: &mut Workshop<'_>) -> Result<Ended, EngineError> {
    loop {
        learn_news(journal, shop);
        match work(&journal.session, ports.clock.now()) {
            Work::Done(ending) => return Ok(Ended::Over(ending)),
            Work::Idle => return Ok(Ended::Idle),
            Work::Park => return Ok(Ended::Parked(Reason::Drained)),
            Work::Tick => {
                let payloads = Payloads { feedback: shop.standing_feedback(), ..Payloads::default() };
                commit(ports, journal, shop, &Command::Tick, payloads).await?;
            }
            Work::Wait { until } => rest(ports, journal, until).await?,
            Work::Intend(steps) => intend(ports, journal, shop, &steps).await?,
            Work::Perform { effects, deadline } => perform(ports, journal, shop, effects, deadline).await?,
        }
    }
}

/// The first commit of every driver: what was under way when the last one stopped?
async fn recover(ports: &Ports, journal: &mut Journal) -> Result<(), EngineError> {
    match journal.commit(ports, None, &Command::Recover, Payloads::default()).await {
        Ok(_) | Err(CommitError::Refused(_)) => Ok(()),
        Err(CommitError::Engine(error)) => Err(error),
    }
}

async fn commit(
    ports: &Ports,
    journal: &mut Journal,
    shop: &mut Workshop<'_>,
    command: &Command,
    payloads: Payloads,
) -> Result<(), EngineError> {
    let feedback = payloads.feedback.clone();
    match journal.commit(ports, None, command, payloads).await {
        Ok(committed) => {
            learn_news(journal, shop);
            for (_, event) in &committed {
                shop.learn(event, feedback.as_deref());
            }
            Ok(())
        }
        // Somebody outside was faster (a cancel, for example): look again at what there is to do.
        Err(CommitError::Refused(Refusal::NothingDue | Refusal::Ended | Refusal::NotNow(_))) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the requests ready, then records that they will be made.
async fn intend(
    ports: &Ports,
    journal: &mut Journal,
    shop: &mut Workshop<'_>,
    steps: &[Step],
) -> Result<(), EngineError> {
    if steps.is_empty() {
        return Err(EngineError::Bug("the plan wants nothing and nothing is due".to_owned()));
    }
    let intents = shop.prepare(&journal.session, steps)?;
    // A budget that has nothing left for the reviewer may give work back to the agent.
    let payloads = Payloads { feedback: shop.standing_feedback(), ..Payloads::default() };
    commit(ports, journal, shop, &Command::Intend(intents), payloads).await
}

/// Carries effects out and records what came of them, in slot order and in one commit.
async fn perform(
    ports: &Ports,
    journal: &mut Journal,
    shop: &mut Workshop<'_>,
    effects: Vec<EffectId>,
    deadline: Option<Millis>,
) -> Result<(), EngineError> {
    let (mut stopper, stop) = stop();
    let snapshot = journal.session.clone();
    let done = {
        let mut acting = pin!(shop.perform(&snapshot, &effects, &stop));
        let now = ports.clock.now();
        let mut late = match deadline {
            Some(at) => ports.clock.sleep(at.saturating_sub(now)),
            None => Box::pin(std::future::pending()),
        };
        let mut look = ports.clock.sleep(LOOK);
        loop {
            let mut interrupt = ports.interrupts.next();
            match select(&mut acting, select(select(&mut interrupt, &mut look), &mut late)).await {
                Either::Left((done, _)) => break done,
                Either::Right((Either::Left((Either::Right(((), _)), _)), _)) => {
                    look = ports.clock.sleep(LOOK);
                    if journal.catch_up(ports).await && stopped(journal) {
                        stopper.halt();
                    }
                }
                Either::Right((Either::Left((Either::Left((interrupt, _)), _)), _)) => {
                    // Durable before anything is stopped: a process that dies now is still canceled.
                    external(ports, journal, interrupt).await?;
                    stopper.halt();
                }
                Either::Right((Either::Right(((), _)), _)) => {
                    stopper.stop();
                    late = Box::pin(std::future::pending());
                }
            }
        }
    };
    let mut payloads = Payloads { feedback: done.feedback, ..Payloads::default() };
    let mut receipts = Vec::with_capacity(done.receipts.len());
    for Done { effect, body, named } in done.receipts {
        payloads.add(effect, named);
        receipts.push(Receipt { effect, body });
    }
    if receipts.is_empty() {
        return Err(EngineError::Bug("an effect gave no receipt".to_owned()));
    }
    receive(ports, journal, shop, receipts, payloads).await
}

/// Records results, and in the same commit the intent of what follows from them. The next act needs both on the disk, and
/// one write brings both there.
async fn receive(
    ports: &Ports,
    journal: &mut Journal,
    shop: &mut Workshop<'_>,
    receipts: Vec<Receipt>,
    payloads: Payloads,
) -> Result<(), EngineError> {
    let feedback = payloads.feedback.clone();
    let mut learnt = Vec::new();
    let next = |after: &Session, now: Millis, events: &[Event]| {
        // What went back to the agent is told to the model only when that is certain.
        if events.iter().any(|event| matches!(event, Event::AttemptReturned { .. })) {
            return Ok(None);
        }
        let Work::Intend(steps) = work(after, now) else { return Ok(None) };
        // The request that follows holds these results. They stand in the journal before it is sent, or the driver stops.
        for event in events {
            shop.learn(event, None);
        }
        learnt = events.to_vec();
        Ok(Some(Command::Intend(shop.prepare(after, &steps)?)))
    };
    match journal.commit_then(ports, None, &Command::Receipts(receipts), payloads, next).await {
        Ok(committed) => {
            learn_news(journal, shop);
            for (_, event) in &committed {
                if !learnt.contains(event) {
                    shop.learn(event, feedback.as_deref());
                }
            }
            Ok(())
        }
        Err(CommitError::Refused(Refusal::NothingDue | Refusal::Ended | Refusal::NotNow(_))) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn rest(ports: &Ports, journal: &mut Journal, until: Millis) -> Result<(), EngineError> {
    let wait = until.saturating_sub(ports.clock.now()).min(LOOK);
    let interrupt = ports.interrupts.next();
    match select(interrupt, ports.clock.sleep(wait)).await {
        Either::Left((interrupt, _)) => external(ports, journal, interrupt).await,
        Either::Right(((), _)) => {
            journal.catch_up(ports).await;
            Ok(())
        }
    }
}

/// Does what somebody outside asked for end what is under way?
fn stopped(journal: &Journal) -> bool {
    journal.session.turn.as_ref().is_some_and(|turn| turn.must_stop(&journal.session.contract))
}

/// Takes in what others appended.
fn learn_news(journal: &mut Journal, shop: &mut Workshop<'_>) {
    for (_, event) in std::mem::take(&mut journal.news) {
        shop.learn(&event, None);
    }
}

/// Records what a person or the system asked for, in their name.
async fn external(ports: &Ports, journal: &mut Journal, interrupt: Interrupt) -> Result<(), EngineError> {
    let command = match interrupt {
        Interrupt::Cancel(how) => Command::Cancel(how),
        Interrupt::Drain => Command::Drain(StopHow::Signal),
    };
    match journal.commit(ports, Some(&person()?), &command, Payloads::default()).await {
        Ok(_) | Err(CommitError::Refused(_)) => Ok(()),
        Err(CommitError::Engine(error)) => Err(error),
    }
}

fn person() -> Result<PrincipalId, EngineError> {
    PrincipalId::new("cli").map_err(|e| EngineError::Bug(e.to_string()))
}
