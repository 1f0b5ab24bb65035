use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_types::{Digest, SessionId};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;

use crate::admit::Head;
use crate::kinds::KindSet;
use crate::line::{ChainReader, LINE_FORMAT, RawLine, check, commitment, genesis};
use crate::{
    Append, Appended, EventPage, Fence, KnownKinds, Lease, LeaseGuard, ListFilter, Loaded, NewPayload,
    NewSession, OutboxRow, Revealed, SessionRow, Store, StoreError, StoredEvent,
};

/// The same behaviour as [`crate::SqliteStore`] without a disk, for simulations: every future is ready at once, and
/// nothing depends on threads or time. A clone shares the content, like a second process on the same home.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
    known: KnownKinds,
    /// None: a lease lasts as long as its holder.
    term: Option<Duration>,
}

#[derive(Debug, Default)]
struct Content {
    /// Its own clock, which only [`MemoryStore::pass`] moves.
    now: Duration,
    sessions: BTreeMap<SessionId, Session>,
    blobs: BTreeMap<Digest, Vec<u8>>,
    outbox: BTreeMap<u64, OutboxRow>,
    last_outbox_id: u64,
}

#[derive(Debug)]
struct Session {
    row: SessionRow,
    fence: Fence,
    holder: String,
    held: Held,
    kinds: KindSet,
    /// Line and digest of event n at n - 1.
    lines: Vec<(String, Digest)>,
    /// None: dropped.
    payloads: BTreeMap<(u64, String), Option<NewPayload>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    /// None: until it is given back.
    Until(Option<Duration>),
}

impl Held {
    fn at(self, now: Duration) -> bool {
        match self {
            Self::No => false,
            Self::Until(end) => end.is_none_or(|end| now < end),
        }
    }
}

impl MemoryStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same content as a program sees it that knows only these kinds of events.
    #[must_use]
    pub fn knowing(&self, known: KnownKinds) -> Self {
        Self { known, ..self.clone() }
    }

    /// The same content as a program sees it whose leases last so long by the store's clock.
    #[must_use]
    pub fn leasing_for(&self, term: Duration) -> Self {
        Self { term: Some(term), ..self.clone() }
    }

    /// Lets the store's clock go on.
    pub fn pass(&self, time: Duration) {
        let mut content = self.content();
        content.now = content.now.saturating_add(time);
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // Every change below is made after all that can fail, so a panicking holder leaves nothing half done.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create_now(&self, new: NewSession) -> Result<(), StoreError> {
        let mut content = self.content();
        if content.sessions.contains_key(&new.id) {
            return Err(StoreError::SessionExists(new.id));
        }
        let row = SessionRow {
            id: new.id.clone(),
            tenant: new.tenant,
            principal: new.principal,
            created_at: new.at,
            updated_at: new.at,
            seq: 0,
            head: genesis(&new.id),
            summary: Value::Null,
        };
        let session = Session {
            row,
            fence: Fence::default(),
            holder: String::new(),
            held: Held::No,
            kinds: KindSet::default(),
            lines: Vec::new(),
            payloads: BTreeMap::new(),
        };
        content.sessions.insert(new.id, session);
        Ok(())
    }

    fn begin_now(&self, new: NewSession, append: Append) -> Result<Appended, StoreError> {
        let id = new.id.clone();
        if append.session != id {
            return Err(StoreError::Invalid("its events are of another session".into()));
        }
        self.create_now(new)?;
        self.append_now(append).inspect_err(|_| {
            self.content().sessions.remove(&id);
        })
    }

    fn append_now(&self, append: Append) -> Result<Appended, StoreError> {
        check(&append, &self.known)?;
        let mut content = self.content();
        let session = content.session_mut(&append.session)?;
        let (sealed, end) = session.head().admit(&append, &self.known)?;
        for (event, sealed) in append.events.into_iter().zip(sealed) {
            session.kinds.add(&event.kind, LINE_FORMAT);
            session.lines.push((sealed.line, sealed.digest));
            for payload in event.payloads {
                session.payloads.insert((sealed.seq, payload.name.clone()), Some(payload));
            }
        }
        session.row.seq = end.seq;
        session.row.head = end.head;
        session.row.updated_at = append.at;
        if let Some(summary) = append.summary {
            session.row.summary = summary;
        }
        for item in append.outbox {
            content.last_outbox_id += 1;
            let id = content.last_outbox_id;
            let (session, seq) = (append.session.clone(), end.seq);
            content.outbox.insert(id, OutboxRow { id, session, seq, topic: item.topic, body: item.body });
        }
        Ok(end)
    }

    fn load_now(&self, id: &SessionId) -> Result<Loaded, StoreError> {
        let content = self.content();
        let session = content.session(id)?;
        let mut chain = ChainReader::from_start(id);
        let events = session.read(0, usize::MAX, &mut chain)?;
        chain.finish(session.row.seq, &session.row.head)?;
        let unknown = KindSet::of(&events).unknown(&self.known);
        let row = session.row.clone();
        Ok(Loaded {
            seq: row.seq,
            head: row.head,
            session: row,
            events,
            read_only: !unknown.is_empty(),
            unknown,
        })
    }

    fn events_now(&self, id: &SessionId, after: u64, limit: u32) -> Result<EventPage, StoreError> {
        let content = self.content();
        let session = content.session(id)?;
        let events = session.read(after, limit as usize, &mut ChainReader::from_page(id, after))?;
        Ok(EventPage { events, seq: session.row.seq })
    }

    fn reveal_now(&self, id: &SessionId, seq: u64, name: &str) -> Result<Revealed, StoreError> {
        let content = self.content();
        let session = content.session(id)?;
        let named = || (id.clone(), seq, name.to_owned());
        match session.payloads.get(&(seq, name.to_owned())) {
            None => {
                let (session, seq, name) = named();
                Err(StoreError::NoSuchPayload { session, seq, name })
            }
            Some(None) => {
                let (session, seq, name) = named();
                Err(StoreError::PayloadDropped { session, seq, name })
            }
            Some(Some(payload)) => {
                let mut chain = ChainReader::from_page(id, seq - 1);
                let event = session.read(seq - 1, 1, &mut chain)?.pop();
                let promised = event.and_then(|e| e.payloads.get(name).copied());
                if promised.is_some_and(|p| p.commitment == commitment(&payload.salt, &payload.bytes)) {
                    return Ok(Revealed { salt: payload.salt.to_vec(), bytes: payload.bytes.clone() });
                }
                let (session, seq, name) = named();
                Err(StoreError::PayloadDamaged { session, seq, name, what: "its bytes changed".into() })
            }
        }
    }

    fn drop_payload_now(&self, id: &SessionId, seq: u64, name: &str) -> Result<(), StoreError> {
        let mut content = self.content();
        let session = content.session_mut(id)?;
        match session.payloads.get_mut(&(seq, name.to_owned())) {
            Some(payload) => {
                *payload = None;
                Ok(())
            }
            None => Err(StoreError::NoSuchPayload { session: id.clone(), seq, name: name.to_owned() }),
        }
    }

    fn sessions_now(&self, filter: &ListFilter) -> Result<Vec<SessionRow>, StoreError> {
        let content = self.content();
        let key = |row: &SessionRow| (row.created_at, row.id.clone());
        let after = filter.after.as_ref().map(|id| content.session(id).map(|s| key(&s.row))).transpose()?;
        let mut rows: Vec<_> = content
            .sessions
            .values()
            .map(|session| &session.row)
            .filter(|row| filter.tenant.as_ref().is_none_or(|tenant| *tenant == row.tenant))
            .filter(|row| after.as_ref().is_none_or(|after| key(row) < *after))
            .cloned()
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
        rows.truncate(filter.limit as usize);
        Ok(rows)
    }

    fn acquire_now(&self, id: &SessionId, holder: &str) -> Result<Lease, StoreError> {
        let mut content = self.content();
        let now = content.now;
        let session = content.session_mut(id)?;
        if session.held.at(now) {
            return Err(StoreError::LeaseHeld { session: id.clone(), holder: session.holder.clone() });
        }
        session.held = Held::Until(self.term.map(|term| now.saturating_add(term)));
        session.fence.0 += 1;
        holder.clone_into(&mut session.holder);
        let guard = Guard { store: self.clone(), session: id.clone(), fence: session.fence };
        Ok(Lease::new(id.clone(), session.fence, Box::new(guard)))
    }
}

impl Content {
    fn session(&self, id: &SessionId) -> Result<&Session, StoreError> {
        self.sessions.get(id).ok_or_else(|| StoreError::NoSuchSession(id.clone()))
    }

    fn session_mut(&mut self, id: &SessionId) -> Result<&mut Session, StoreError> {
        self.sessions.get_mut(id).ok_or_else(|| StoreError::NoSuchSession(id.clone()))
    }
}

impl Session {
    fn head(&self) -> Head<'_> {
        Head {
            tenant: &self.row.tenant,
            seq: self.row.seq,
            head: self.row.head,
            fence: self.fence,
            kinds: &self.kinds,
        }
    }

    fn read(
        &self,
        after: u64,
        limit: usize,
        chain: &mut ChainReader<'_>,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let skip = usize::try_from(after).unwrap_or(usize::MAX);
        let rows = self.lines.iter().enumerate().skip(skip).take(limit);
        rows.map(|(index, (line, digest))| {
            chain.read(&RawLine { seq: index as u64 + 1, line: line.as_bytes(), digest: digest.as_bytes() })
        })
        .collect()
    }
}

#[derive(Debug)]
struct Guard {
    store: MemoryStore,
    session: SessionId,
    fence: Fence,
}

impl LeaseGuard for Guard {
    fn term(&self) -> Option<Duration> {
        self.store.term
    }

    fn renew(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let renew = || {
            let mut content = self.store.content();
            let now = content.now;
            let session = content.session_mut(&self.session)?;
            if session.fence != self.fence {
                let (id, presented) = (self.session.clone(), self.fence);
                return Err(StoreError::Fenced { session: id, presented, current: session.fence });
            }
            session.held = Held::Until(self.store.term.map(|term| now.saturating_add(term)));
            Ok(())
        };
        ready(renew()).boxed()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Not when somebody took it over after its term.
        if let Some(session) = self.store.content().sessions.get_mut(&self.session)
            && session.fence == self.fence
        {
            session.held = Held::No;
        }
    }
}

impl Store for MemoryStore {
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.create_now(session)).boxed()
    }

    fn begin(&self, session: NewSession, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        ready(self.begin_now(session, append)).boxed()
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        ready(self.append_now(append)).boxed()
    }

    fn load(&self, session: &SessionId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        ready(self.load_now(session)).boxed()
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<EventPage, StoreError>> {
        ready(self.events_now(session, after, limit)).boxed()
    }

    fn reveal(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<Revealed, StoreError>> {
        ready(self.reveal_now(session, seq, name)).boxed()
    }

    fn drop_payload(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.drop_payload_now(session, seq, name)).boxed()
    }

    fn session(&self, session: &SessionId) -> BoxFuture<'_, Result<SessionRow, StoreError>> {
        ready(self.content().session(session).map(|s| s.row.clone())).boxed()
    }

    fn sessions(&self, filter: ListFilter) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        ready(self.sessions_now(&filter)).boxed()
    }

    fn put_blob(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        let digest = Digest::of(&bytes);
        self.content().blobs.insert(digest, bytes);
        ready(Ok(digest)).boxed()
    }

    fn get_blob(&self, digest: &Digest) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        ready(self.content().blobs.get(digest).cloned().ok_or(StoreError::NoSuchBlob(*digest))).boxed()
    }

    fn acquire(&self, session: &SessionId, holder: &str) -> BoxFuture<'_, Result<Lease, StoreError>> {
        ready(self.acquire_now(session, holder)).boxed()
    }

    fn outbox(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboxRow>, StoreError>> {
        ready(Ok(self.content().outbox.values().take(limit as usize).cloned().collect())).boxed()
    }

    fn outbox_done(&self, id: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.content().outbox.remove(&id);
        ready(Ok(())).boxed()
    }
}
