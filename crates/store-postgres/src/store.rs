use std::future::Future;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use countersign_store::implement::Blobs;
use countersign_store::{
    Append, Appended, EventPage, KnownKinds, Lease, ListFilter, Loaded, NewSession, OutboxRow, Revealed,
    SessionRow, Store, StoreError,
};
use countersign_types::{Digest, SessionId};
use deadpool_postgres::Pool;
use futures::future::BoxFuture;
use tokio_postgres::Config;

use crate::hints::{Hinter, Hints};
use crate::thread::{Thread, blocking};
use crate::{connect, lease, read, schema, write};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sessions that hold other kinds of events are read-only.
    pub known: KnownKinds,
    /// How long a lease lasts by the server's clock when it is not renewed.
    pub lease_term: Duration,
    /// The largest number of connections.
    pub connections: usize,
    /// How long a commit whose answer was lost is looked for.
    pub look_again: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            known: KnownKinds::all(),
            lease_term: Duration::from_secs(30),
            connections: 16,
            look_again: Duration::from_secs(30),
        }
    }
}

/// The store of several machines: one PostgreSQL database and one directory of blobs that all of them share.
///
/// It owns one thread with the connections. Dropping it, and the last of its leases, waits for what was handed over.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

/// What a lease keeps alive to be given back with.
#[derive(Debug)]
pub(crate) struct Shared {
    thread: Thread,
    pub(crate) inner: Arc<Inner>,
}

/// What the work on the thread needs.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) pool: Pool,
    /// Where the database is, for people.
    pub(crate) database: String,
    pub(crate) blobs: Blobs,
    pub(crate) known: KnownKinds,
    pub(crate) lease_term: Duration,
    pub(crate) look_again: Duration,
    pub(crate) hinter: Hinter,
    pub(crate) config: Config,
}

impl PostgresStore {
    /// Opens a database by its connection string (`postgresql://…` or `host=… user=… dbname=…`) and a directory of blobs,
    /// making what is missing in both. It blocks; call it before an executor runs or from a thread of its own.
    ///
    /// Fails with [`StoreError::Unreachable`], [`StoreError::Unsuitable`], [`StoreError::Newer`] or what the directory
    /// says, each of which says what to do.
    pub fn open(connection: &str, blobs: &Path, options: Options) -> Result<Self, StoreError> {
        Self::open_with(connection, blobs, options, schema::MIGRATIONS)
    }

    pub(crate) fn open_with(
        connection: &str,
        blobs: &Path,
        options: Options,
        migrations: &'static [&'static str],
    ) -> Result<Self, StoreError> {
        let config = connect::config(connection)?;
        let database = connect::label(&config);
        let inner = Arc::new(Inner {
            pool: connect::pool(config.clone(), options.connections)?,
            blobs: Blobs::open(blobs.to_owned())?,
            known: options.known,
            lease_term: options.lease_term,
            look_again: options.look_again,
            hinter: Hinter::default(),
            database,
            config,
        });
        let thread = Thread::spawn("store-postgres").map_err(|source| StoreError::Io {
            doing: "start a thread for",
            path: inner.database.clone().into(),
            source,
        })?;
        let (answer, opened) = mpsc::channel();
        let migrating = Arc::clone(&inner);
        thread.start(async move {
            let _ = answer.send(schema::migrate(&migrating, migrations).await);
        });
        opened.recv().unwrap_or(Err(StoreError::Closed))?;
        Ok(Self { shared: Arc::new(Shared { thread, inner }) })
    }

    /// Sessions that other stores of this database say to have changed, from now on. Nothing rests on it: a hint may be
    /// lost, doubled or late, and a watcher looks at the journal now and then without one.
    #[must_use]
    pub fn hints(&self) -> Hints {
        Hints::listen(&self.shared)
    }

    fn call<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> BoxFuture<'static, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.shared.call(work)
    }
}

impl Shared {
    pub(crate) fn call<T, F>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> F,
    ) -> BoxFuture<'static, Result<T, StoreError>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.thread.call(work(Arc::clone(&self.inner)))
    }

    /// Work that nobody waits for.
    pub(crate) fn start<F>(&self, work: impl FnOnce(Arc<Inner>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.thread.start(work(Arc::clone(&self.inner)));
    }
}

impl Store for PostgresStore {
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(|inner| async move { write::create(&inner, &session).await })
    }

    fn begin(&self, session: NewSession, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        self.call(|inner| async move { write::append(&inner, Some(&session), append).await })
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        self.call(|inner| async move { write::append(&inner, None, append).await })
    }

    fn load(&self, session: &SessionId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        let session = session.clone();
        self.call(|inner| async move { read::load(inner, session).await })
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<EventPage, StoreError>> {
        let session = session.clone();
        self.call(move |inner| async move { read::events(inner, session, after, limit).await })
    }

    fn reveal(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<Revealed, StoreError>> {
        let (session, name) = (session.clone(), name.to_owned());
        self.call(move |inner| async move { read::reveal(inner, session, seq, name).await })
    }

    fn drop_payload(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (session, name) = (session.clone(), name.to_owned());
        self.call(move |inner| async move { write::drop_payload(inner, session, seq, name).await })
    }

    fn session(&self, session: &SessionId) -> BoxFuture<'_, Result<SessionRow, StoreError>> {
        let session = session.clone();
        self.call(|inner| async move { read::session(&inner, &session).await })
    }

    fn sessions(&self, filter: ListFilter) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        self.call(|inner| async move { read::sessions(&inner, &filter).await })
    }

    fn put_blob(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        self.call(|inner| async move { blocking(move || inner.blobs.put(&[&bytes])).await })
    }

    fn get_blob(&self, digest: &Digest) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        let digest = *digest;
        self.call(move |inner| async move { blocking(move || inner.blobs.get(&digest)).await })
    }

    fn acquire(&self, session: &SessionId, holder: &str) -> BoxFuture<'_, Result<Lease, StoreError>> {
        lease::acquire(&self.shared, session.clone(), holder)
    }

    fn outbox(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboxRow>, StoreError>> {
        self.call(move |inner| async move { read::outbox(&inner, limit).await })
    }

    fn outbox_done(&self, id: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(move |inner| async move { write::outbox_done(&inner, id).await })
    }
}

/// Sequence numbers and milliseconds fit into PostgreSQL's signed integers for longer than the universe lasts.
pub(crate) fn to_db(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn from_db(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
