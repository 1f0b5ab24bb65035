use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use countersign_types::{Digest, Millis, PrincipalId, SessionId, TenantId};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::StoreError;

/// The record of sessions: an append-only journal per session, the payloads that its events commit to, and blobs.
///
/// Every method that writes returns only after its effect would survive a loss of power. Every method may be called
/// from any thread and never blocks the caller's executor. Dropping a returned future does not undo a write that was
/// already handed over: the caller that stopped waiting must load again to learn what happened.
pub trait Store: Send + Sync + Debug {
    /// Makes a session without events: sequence number 0, its head the genesis value.
    ///
    /// Fails with [`StoreError::SessionExists`] when the id is taken.
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes a session with its first events, in one commit: nobody ever sees the one without the other.
    ///
    /// Fails as [`Store::create`] and [`Store::append`] do; then there is no session.
    fn begin(&self, session: NewSession, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>>;

    /// Appends one or more events, their payloads, the summary and the outbox items in one commit, or nothing at all.
    ///
    /// Fails with [`StoreError::Fenced`] when the lease was taken over, [`StoreError::Moved`] when the session is not
    /// at `expected_seq`, [`StoreError::ReadOnlySession`] when the session holds events that this program does not
    /// know, [`StoreError::Invalid`] when a limit or a rule for names is broken.
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>>;

    /// Reads a whole session and checks its chain. [`StoreError::BadChain`] names the first bad sequence number.
    fn load(&self, session: &SessionId) -> BoxFuture<'_, Result<Loaded, StoreError>>;

    /// Reads at most `limit` events with a sequence number above `after`, each checked against its own digest and its
    /// predecessor in the page. Use [`Store::load`] to check a whole chain.
    fn events(
        &self,
        session: &SessionId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<EventPage, StoreError>>;

    /// The bytes of one payload, checked against the commitment in the event line.
    ///
    /// [`StoreError::PayloadDropped`] when retention or erasure removed it, [`StoreError::PayloadDamaged`] when the
    /// bytes no longer match.
    fn payload(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        let revealed = self.reveal(session, seq, name);
        Box::pin(async move { Ok(revealed.await?.bytes) })
    }

    /// The same with its salt, which shows that these are the bytes that the event committed to and says nothing about
    /// any other payload. Fails as [`Store::payload`] does.
    fn reveal(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<Revealed, StoreError>>;

    /// Removes the bytes and the salt of one payload for good; the chain stays whole. Doing it twice is fine.
    fn drop_payload(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// One session's row. [`StoreError::NoSuchSession`] when there is none.
    fn session(&self, session: &SessionId) -> BoxFuture<'_, Result<SessionRow, StoreError>>;

    /// Sessions, newest first (by creation, then by id).
    fn sessions(&self, filter: ListFilter) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>>;

    /// Stores bytes under their sha256. A damaged blob of the same name is healed. Putting twice is fine.
    fn put_blob(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>>;

    /// Reads a blob and checks it. [`StoreError::NoSuchBlob`] or [`StoreError::BlobDamaged`].
    fn get_blob(&self, digest: &Digest) -> BoxFuture<'_, Result<Vec<u8>, StoreError>>;

    /// Takes the only lease of a session; its fencing number is one above every earlier one. It never waits:
    /// [`StoreError::LeaseHeld`] when somebody has it. On one machine it ends when it is dropped or its process dies;
    /// across machines also when its term is over by the store's clock (see [`Lease::term`]).
    ///
    /// `holder` says to people who has it, for example `pid 4711 on box`.
    fn acquire(&self, session: &SessionId, holder: &str) -> BoxFuture<'_, Result<Lease, StoreError>>;

    /// Outbox items that nobody has confirmed, oldest first, at most `limit`.
    fn outbox(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboxRow>, StoreError>>;

    /// Confirms one outbox item, so that it is not offered again. Confirming twice is fine.
    fn outbox_done(&self, id: u64) -> BoxFuture<'_, Result<(), StoreError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    pub id: SessionId,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    /// Milliseconds since the Unix epoch, by the caller's clock: the store has none.
    pub at: Millis,
}

/// The number of a lease. A later lease of the same session has a higher one; 0 is held by nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

/// In whose name events are appended. Recorded in every event line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The controller that holds the lease. Refused when another lease was taken since.
    Lease(Fence),
    /// A person or service from outside (approve, cancel, submit), without a lease.
    External(PrincipalId),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    pub session: SessionId,
    /// The sequence number of the last event that the caller has seen; 0 for none.
    pub expected_seq: u64,
    pub authority: Authority,
    /// Milliseconds since the Unix epoch.
    pub at: Millis,
    /// At least one, at most [`crate::MAX_EVENTS_PER_APPEND`].
    pub events: Vec<NewEvent>,
    /// What a list shows of this session. None keeps the one that is there.
    pub summary: Option<Value>,
    pub outbox: Vec<OutboxItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// 1 to 64 of a-z, 0-9, `_`, `.` and `-`.
    pub kind: String,
    /// Typed fields only: no text that a person or a model wrote (that is a payload), no floating numbers.
    pub data: Value,
    pub payloads: Vec<NewPayload>,
}

/// A payload and what its commitment hides it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revealed {
    pub salt: Vec<u8>,
    pub bytes: Vec<u8>,
}

/// Bytes that an event commits to by `sha256(salt || bytes)`, and that can be dropped without breaking the chain.
#[derive(Clone, PartialEq, Eq)]
pub struct NewPayload {
    /// Unique in its event. 1 to 64 of a-z, 0-9, `_`, `.` and `-`.
    pub name: String,
    /// Fresh random bytes for each payload: without them a dropped short payload could be guessed from its commitment.
    pub salt: [u8; 16],
    pub bytes: Vec<u8>,
}

/// A message that must leave this store once the commit stands. Delivered at least once.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxItem {
    /// 1 to 64 of a-z, 0-9, `_`, `.` and `-`.
    pub topic: String,
    pub body: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    pub id: u64,
    pub session: SessionId,
    /// The last sequence number of the commit that wrote it.
    pub seq: u64,
    pub topic: String,
    pub body: Value,
}

/// Where a session stands after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The sequence number of the last event.
    pub seq: u64,
    /// The digest of its line.
    pub head: Digest,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// From 1, without gaps.
    pub seq: u64,
    /// Milliseconds since the Unix epoch.
    pub at: Millis,
    /// The format of the line; a reader that knows less treats the session as read-only.
    pub v: u32,
    pub kind: String,
    /// None only in a line of a later format that this program cannot read.
    pub authority: Option<Authority>,
    pub data: Value,
    pub payloads: BTreeMap<String, PayloadRef>,
    /// The canonical bytes, as they are hashed and exported, without a newline.
    pub line: String,
    /// sha256 of `line`.
    pub digest: Digest,
}

/// What an event line says about a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadRef {
    /// `sha256(salt || bytes)`.
    pub commitment: Digest,
    /// Length of the bytes, without the salt.
    pub len: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub session: SessionRow,
    /// All events, chain checked.
    pub events: Vec<StoredEvent>,
    pub seq: u64,
    pub head: Digest,
    /// True when the session holds an event format or kind that this program does not know: it can be shown, and
    /// every append is refused.
    pub read_only: bool,
    /// What made it read-only, as `kind@format`.
    pub unknown: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    /// The session's last sequence number when the page was read: the page is the last one when it reaches it.
    pub seq: u64,
}

/// What a list needs, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFilter {
    /// None: all tenants.
    pub tenant: Option<TenantId>,
    /// Only sessions that stand after this one in the list's order: the next page.
    pub after: Option<SessionId>,
    pub limit: u32,
}

impl Default for ListFilter {
    fn default() -> Self {
        Self { tenant: None, after: None, limit: 100 }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    pub id: SessionId,
    pub tenant: TenantId,
    pub principal: PrincipalId,
    pub created_at: Millis,
    /// The time of the last append.
    pub updated_at: Millis,
    pub seq: u64,
    pub head: Digest,
    /// What the last append with a summary said; `null` before.
    pub summary: Value,
}

/// The right to drive a session. Dropping it releases it; its fencing number never comes back.
///
/// Whether an append stands is decided by the fencing number alone: a holder whose term is over may still append for as
/// long as nobody else took the lease.
#[derive(Debug)]
pub struct Lease {
    pub session: SessionId,
    pub fence: Fence,
    guard: Box<dyn LeaseGuard>,
}

/// What an implementation holds for as long as a lease lives; it releases when dropped, at the latest after its term.
pub trait LeaseGuard: Send + Sync + Debug {
    /// See [`Lease::term`].
    fn term(&self) -> Option<Duration> {
        None
    }

    /// See [`Lease::renew`].
    fn renew(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }

    /// See [`Lease::release`].
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), StoreError>> {
        drop(self);
        ready(Ok(())).boxed()
    }
}

impl Lease {
    #[must_use]
    pub fn new(session: SessionId, fence: Fence, guard: Box<dyn LeaseGuard>) -> Self {
        Self { session, fence, guard }
    }

    /// How long it lasts, by the store's clock, from when it was taken or last renewed; then others may take it. None
    /// where nothing but its holder's end ends it. Renew at a third of it, so that two failures are survived.
    #[must_use]
    pub fn term(&self) -> Option<Duration> {
        self.guard.term()
    }

    /// Begins its term anew. [`StoreError::Fenced`] when somebody took it over: its holder has to stop.
    pub fn renew(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.guard.renew()
    }

    /// Gives it back and waits until others can take it. Dropping it does the same without waiting, and where that fails
    /// others wait out its term.
    pub fn release(self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.guard.release()
    }

    /// The authority that this lease gives.
    #[must_use]
    pub fn authority(&self) -> Authority {
        Authority::Lease(self.fence)
    }
}

impl Debug for NewPayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Payloads are what people and models wrote; a debug line is no place for them.
        f.debug_struct("NewPayload")
            .field("name", &self.name)
            .field("len", &self.bytes.len())
            .finish_non_exhaustive()
    }
}
