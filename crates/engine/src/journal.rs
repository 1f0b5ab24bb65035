//! The only writer: a command is decided by the kernel, its events are appended with their payloads in one commit, and
//! only then applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_kernel::contract::{Contract, Source};
use countersign_kernel::{Authority, Command, Event, Refusal, Session, apply, decide};
use countersign_store::{Append, Lease, NewEvent, NewPayload, Store, StoreError, StoredEvent};
use countersign_types::{
    Blind, Digest, EffectId, Millis, PrincipalId, Reason, SessionId, TenantId, canonical_json,
};
use serde_json::{Value, json};

use crate::error::EngineError;
use crate::ports::{Ids, Ports};
use crate::{CrashPoint, Trace, crash};

/// How often a command is decided again because somebody else appended in between.
pub(crate) const MAX_MOVED: u32 = 8;

/// Texts and bytes that go beside an event.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    pub(crate) by_effect: BTreeMap<EffectId, Vec<(&'static str, Vec<u8>)>>,
    /// For the event that gives the work back to the agent.
    pub(crate) feedback: Option<String>,
}

impl Payloads {
    pub(crate) fn add(&mut self, effect: EffectId, named: Vec<(&'static str, Vec<u8>)>) {
        self.by_effect.insert(effect, named);
    }
}

/// The payload of a session's first event with its settings.
const SETTINGS: &str = "settings";

/// The settings that a session was submitted with; None where it has none.
pub async fn settings(store: &dyn Store, id: &SessionId) -> Result<Option<Value>, EngineError> {
    match store.payload(id, 1, SETTINGS).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| EngineError::Bug(e.to_string())),
        Err(StoreError::NoSuchPayload { .. } | StoreError::PayloadDropped { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A new session and its first turn.
#[derive(Debug)]
pub struct NewSession<'a> {
    pub id: SessionId,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub contract: &'a Contract,
    /// The task. Redact it first if it can hold a secret of the operator's.
    pub input: &'a [u8],
    /// Each setting with its source, as the evidence shows it. JSON without secrets.
    pub settings: Option<&'a Value>,
    /// In the same commit; otherwise the session waits for somebody's approval.
    pub approved: bool,
}

/// The payload of a session's first event that hides its texts. A session of before has none, and plain digests.
const BLIND: &str = "blind";

/// Makes the session and records contract, task and, where it is given at once, the approval. Executes nothing.
pub async fn submit(ports: &Ports, new: NewSession<'_>) -> Result<(), EngineError> {
    let now = ports.clock.now();
    let row = countersign_store::NewSession {
        id: new.id.clone(),
        tenant: new.tenant,
        principal: new.principal.clone(),
        at: now,
    };
    let contract = canonical_json(new.contract).map_err(|e| EngineError::Bug(e.to_string()))?;
    let bytes = new.input.len() as u64;
    let blind = fresh(ports.ids.as_ref());
    let commands = [
        Command::Open { contract: Digest::of(&contract) },
        Command::Queue { input: blind.hide(Digest::of(new.input)), bytes },
    ]
    .into_iter()
    .chain(new.approved.then_some(Command::Approve));
    let mut session = Session::new(new.contract.clone());
    let mut events = Vec::new();
    for command in commands {
        let decided = decide(&session, Authority::External, &command, now).map_err(EngineError::Refused)?;
        for event in &decided {
            apply(&mut session, now, event);
        }
        events.extend(decided);
    }
    let mut stored = Vec::new();
    for event in &events {
        let payloads = match event {
            Event::SessionOpened { .. } => {
                let settings = new.settings.map(|settings| (SETTINGS, settings.to_string().into_bytes()));
                let own = [("contract", contract.clone()), (BLIND, blind.as_bytes().to_vec())];
                own.into_iter().chain(settings).collect()
            }
            Event::TurnQueued { .. } => vec![("input", new.input.to_vec())],
            _ => Vec::new(),
        };
        stored.push(new_event(event, payloads, ports.ids.as_ref())?);
    }
    let append = Append {
        session: new.id.clone(),
        expected_seq: 0,
        authority: countersign_store::Authority::External(new.principal),
        at: now,
        events: stored,
        summary: Some(summary(&session, new.input)),
        outbox: Vec::new(),
    };
    ports.store.begin(row, append).await?;
    ports.crashes.reach(CrashPoint::AfterSubmit, None);
    for (seq, event) in (1_u64..).zip(&events) {
        ports.observer.see(&session, Trace::Committed { seq, at: now, event });
    }
    Ok(())
}

fn fresh(ids: &dyn Ids) -> Blind {
    let mut bytes = [0; 32];
    for half in bytes.chunks_exact_mut(16) {
        half.copy_from_slice(&ids.bytes());
    }
    Blind::from_bytes(bytes)
}

/// What hides the texts of a session, of its first event. None: it is of before, or was refused before it had a contract.
pub(crate) async fn blind(
    store: &dyn Store,
    id: &SessionId,
    first: Option<&StoredEvent>,
) -> Result<Option<Blind>, EngineError> {
    let Some(first) = first.filter(|first| first.payloads.contains_key(BLIND)) else { return Ok(None) };
    let bytes = store.payload(id, first.seq, BLIND).await?;
    let bytes = bytes
        .try_into()
        .map_err(|_| EngineError::Bug(format!("the payload `{BLIND}` of session {id} has another length")))?;
    Ok(Some(Blind::from_bytes(bytes)))
}

/// Records a run that was refused before it could have a contract, so that a list shows it. `repository` is the place
/// that was meant, as somebody named it: nobody looked whether it is there.
pub async fn refuse(
    store: &dyn Store,
    ids: &dyn Ids,
    row: countersign_store::NewSession,
    task: &str,
    repository: Option<&str>,
    reason: Reason,
    message: &str,
) -> Result<(), EngineError> {
    let (id, principal, at) = (row.id.clone(), row.principal.clone(), row.at);
    let event = Event::TurnEnded {
        turn: countersign_types::TurnId(1),
        outcome: reason.outcome(),
        reason,
        strength: None,
        rescued_from: None,
        reset_at: None,
    };
    let payloads = vec![("message", message.as_bytes().to_vec()), ("input", task.as_bytes().to_vec())];
    let append = Append {
        session: id,
        expected_seq: 0,
        authority: countersign_store::Authority::External(principal),
        at,
        events: vec![new_event(&event, payloads, ids)?],
        summary: Some(json!({
            "outcome": reason.outcome().as_str(),
            "reason": reason.as_str(),
            "exit_code": reason.outcome().exit_code(),
            "task": first_line(task),
            "repository": repository,
        })),
        outbox: Vec::new(),
    };
    store.begin(row, append).await?;
    Ok(())
}

pub(crate) fn new_event(
    event: &Event,
    payloads: Vec<(&'static str, Vec<u8>)>,
    ids: &dyn Ids,
) -> Result<NewEvent, EngineError> {
    let data = serde_json::to_value(event).map_err(|e| EngineError::Bug(e.to_string()))?;
    let payloads = payloads
        .into_iter()
        .map(|(name, bytes)| NewPayload { name: name.to_owned(), salt: ids.bytes(), bytes })
        .collect();
    Ok(NewEvent { kind: event.kind().to_owned(), data, payloads })
}

/// Reads an event back from its line's data.
pub(crate) fn read_event(stored: &StoredEvent) -> Result<Event, EngineError> {
    serde_json::from_value(stored.data.clone()).map_err(|e| {
        EngineError::Bug(format!("event {} of kind {} cannot be read: {e}", stored.seq, stored.kind))
    })
}

/// What a list shows of a session.
pub(crate) fn summary(session: &Session, input: &[u8]) -> Value {
    let (Source::Git { repository, .. } | Source::Directory { path: repository }) = &session.contract.source;
    let mut row = json!({ "task": first_line(&String::from_utf8_lossy(input)), "repository": repository });
    let Some(turn) = &session.turn else { return row };
    row["status"] = json!(turn.status().as_str());
    if let Some(ending) = turn.ending {
        row["outcome"] = json!(ending.outcome.as_str());
        row["reason"] = json!(ending.reason.as_str());
        row["exit_code"] = json!(ending.outcome.exit_code());
    }
    row
}

fn first_line(text: &str) -> String {
    const WIDTH: usize = 120;
    text.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or_default().chars().take(WIDTH).collect()
}

/// A session's state with the right to change it.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) id: SessionId,
    pub(crate) session: Session,
    pub(crate) input: Vec<u8>,
    /// What its digests of texts are hidden with.
    pub(crate) blind: Option<Blind>,
    /// What others appended since it was looked at.
    pub(crate) news: Vec<(u64, Event)>,
    lease: Arc<Lease>,
    seq: u64,
}

impl Journal {
    /// Takes the lease, then reads the state: nobody else changes it as driver from here on.
    pub(crate) async fn open(
        ports: &Ports,
        id: &SessionId,
        holder: &str,
    ) -> Result<(Self, Vec<(u64, Event)>), EngineError> {
        let lease = Arc::new(ports.store.acquire(id, holder).await?);
        let loaded = ports.store.load(id).await?;
        let (session, input, events) = replay(ports.store.as_ref(), id, &loaded.events).await?;
        let blind = blind(ports.store.as_ref(), id, loaded.events.first()).await?;
        let journal =
            Self { id: id.clone(), session, input, blind, news: Vec::new(), lease, seq: loaded.seq };
        Ok((journal, events))
    }

    pub(crate) fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease)
    }

    /// Decides, appends, applies. Returns what was committed.
    pub(crate) async fn commit(
        &mut self,
        ports: &Ports,
        external: Option<&PrincipalId>,
        command: &Command,
        payloads: Payloads,
    ) -> Result<Vec<(u64, Event)>, CommitError> {
        self.commit_then(ports, external, command, payloads, |_, _, _| Ok(None)).await
    }

    /// As [`Self::commit`], and in the same append what `next` wants to follow: it is asked once, with the state that
    /// the command leads to and the events of it. Where somebody else was faster, only the command is committed.
    pub(crate) async fn commit_then(
        &mut self,
        ports: &Ports,
        external: Option<&PrincipalId>,
        command: &Command,
        payloads: Payloads,
        next: impl FnOnce(&Session, Millis, &[Event]) -> Result<Option<Command>, EngineError>,
    ) -> Result<Vec<(u64, Event)>, CommitError> {
        let mut next = Some(next);
        for _ in 0..MAX_MOVED {
            let now = ports.clock.now();
            let authority = if external.is_some() { Authority::External } else { Authority::Driver };
            let mut events = decide(&self.session, authority, command, now).map_err(CommitError::Refused)?;
            let mut after = self.session.clone();
            for event in &events {
                apply(&mut after, now, event);
            }
            if let Some(next) = next.take()
                && let Some(following) = next(&after, now, &events).map_err(CommitError::Engine)?
                // A refusal is met again, and told, when the driver asks for the same by itself.
                && let Ok(more) = decide(&after, authority, &following, now)
            {
                for event in &more {
                    apply(&mut after, now, event);
                }
                events.extend(more);
            }
            let mut stored = Vec::with_capacity(events.len());
            for event in &events {
                let named = match event {
                    Event::AttemptReturned { .. } => {
                        payloads.feedback.iter().map(|text| ("feedback", text.clone().into_bytes())).collect()
                    }
                    Event::Nudged { finding } => {
                        vec![("nudge", countersign_tools::nudge(finding).into_bytes())]
                    }
                    Event::EffectCompleted { effect, .. } | Event::EffectFailed { effect, .. } => {
                        payloads.by_effect.get(effect).cloned().unwrap_or_default()
                    }
                    _ => Vec::new(),
                };
                stored.push(new_event(event, named, ports.ids.as_ref()).map_err(CommitError::Engine)?);
            }
            let authority = match external {
                Some(principal) => countersign_store::Authority::External(principal.clone()),
                None => self.lease.authority(),
            };
            let append = Append {
                session: self.id.clone(),
                expected_seq: self.seq,
                authority,
                at: now,
                events: stored,
                summary: Some(summary(&after, &self.input)),
                outbox: Vec::new(),
            };
            crash::before(ports.crashes.as_ref(), &self.session, &events);
            match ports.store.append(append).await {
                Ok(appended) => {
                    crash::after(ports.crashes.as_ref(), &self.session, &events);
                    let first = self.seq + 1;
                    self.seq = appended.seq;
                    self.session = after;
                    let committed: Vec<(u64, Event)> = (first..).zip(events).collect();
                    for (seq, event) in &committed {
                        ports.observer.see(&self.session, Trace::Committed { seq: *seq, at: now, event });
                    }
                    return Ok(committed);
                }
                Err(StoreError::Moved { .. }) => self.reload(ports).await.map_err(CommitError::Engine)?,
                Err(StoreError::Fenced { .. }) => return Err(CommitError::Engine(EngineError::LeaseLost)),
                Err(error) => return Err(CommitError::Engine(error.into())),
            }
        }
        Err(CommitError::Engine(EngineError::Bug(format!(
            "the session moved {MAX_MOVED} times under one command"
        ))))
    }

    async fn reload(&mut self, ports: &Ports) -> Result<(), EngineError> {
        let loaded = ports.store.load(&self.id).await?;
        // Another driver's events are not for this one to go on from: it has lost the lease and does not know it yet.
        let own = self.lease.authority();
        let new = loaded.events.iter().filter(|line| line.seq > self.seq);
        if new
            .filter_map(|line| line.authority.as_ref())
            .any(|by| matches!(by, countersign_store::Authority::Lease(_)) && *by != own)
        {
            return Err(EngineError::LeaseLost);
        }
        let (session, _, events) = replay(ports.store.as_ref(), &self.id, &loaded.events).await?;
        self.session = session;
        for ((seq, event), line) in events.into_iter().zip(&loaded.events) {
            if seq > self.seq {
                ports.observer.see(&self.session, Trace::Committed { seq, at: line.at, event: &event });
                self.news.push((seq, event));
            }
        }
        self.seq = loaded.seq;
        Ok(())
    }

    /// Looks whether somebody outside appended. A store that cannot be read now says so at the next commit, which is what
    /// may end the turn.
    pub(crate) async fn catch_up(&mut self, ports: &Ports) -> bool {
        match ports.store.session(&self.id).await {
            Ok(row) if row.seq > self.seq => self.reload(ports).await.is_ok(),
            Ok(_) | Err(_) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) enum CommitError {
    Refused(Refusal),
    Engine(EngineError),
}

impl From<CommitError> for EngineError {
    fn from(error: CommitError) -> Self {
        match error {
            // The driver sends only what the plan wants; a refusal means that plan and decision disagree.
            CommitError::Refused(refusal) => Self::Bug(format!("the kernel refused its own plan: {refusal}")),
            CommitError::Engine(error) => error,
        }
    }
}

/// Builds the state from stored events. The contract and the input are payloads of the first ones.
pub(crate) async fn replay(
    store: &dyn Store,
    id: &SessionId,
    stored: &[StoredEvent],
) -> Result<(Session, Vec<u8>, Vec<(u64, Event)>), EngineError> {
    let Some(first) = stored.first() else {
        return Err(EngineError::Contract("the session has no events".to_owned()));
    };
    let contract = store.payload(id, first.seq, "contract").await?;
    let contract: Contract =
        serde_json::from_slice(&contract).map_err(|e| EngineError::Contract(e.to_string()))?;
    let mut session = Session::new(contract);
    let mut input = Vec::new();
    let mut events = Vec::with_capacity(stored.len());
    for line in stored {
        let event = read_event(line)?;
        if matches!(event, Event::TurnQueued { .. }) {
            input = store.payload(id, line.seq, "input").await?;
        }
        apply(&mut session, line.at, &event);
        events.push((line.seq, event));
    }
    Ok((session, input, events))
}
