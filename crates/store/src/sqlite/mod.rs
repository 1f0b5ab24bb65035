//! [`Store`] on a home directory: one SQLite database, blobs as files, one directory per session.

mod ahead;
mod fault;
mod home;
mod queue;
mod read;
mod schema;
mod write;

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use countersign_types::{Digest, SessionId};
use futures::future::{BoxFuture, FutureExt as _};
use rusqlite::Connection;

use self::queue::WriteQueue;
use self::read::Reader;
use self::write::{BlobWriter, Writer};
use crate::blobs::Blobs;
use crate::files::{fault as io_fault, sync_dir};
use crate::payload::has_large;
use crate::worker::Worker;
use crate::{
    Append, Appended, EventPage, KnownKinds, Lease, ListFilter, Loaded, NewSession, OutboxRow, Revealed,
    SessionRow, Store, StoreError,
};
pub use home::Home;

/// How long SQLite polls for a lock that is not in our queue: another program looking into the database.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sessions that hold other kinds of events are read-only.
    pub known: KnownKinds,
    /// How long a write waits for its turn behind other processes before [`StoreError::Busy`].
    pub queue_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { known: KnownKinds::all(), queue_timeout: Duration::from_secs(30) }
    }
}

/// The store of a home directory. Any number of processes may have one open.
///
/// It owns three threads: one writes, one reads, one writes blobs. Dropping it waits for what was handed over.
#[derive(Debug)]
pub struct SqliteStore {
    home: Home,
    // Dropped in this order: the connection that is closed last tidies the log away, and the writer does so in turn.
    reader: Worker<Reader>,
    blobs: Worker<BlobWriter>,
    writer: Worker<Writer>,
}

impl SqliteStore {
    /// Opens a home, making what is missing. It blocks; call it before an executor runs or from a thread of its own.
    ///
    /// Fails with [`StoreError::NetworkFileSystem`], [`StoreError::ReadOnly`], [`StoreError::DiskFull`],
    /// [`StoreError::Corrupt`] or [`StoreError::Newer`], each of which says what to do.
    pub fn open(home: &Path, options: Options) -> Result<Self, StoreError> {
        let home = Home::prepare(home)?;
        let database = home.database();
        let queue = WriteQueue::open(&home.writer_lock(), options.queue_timeout)?;
        let blobs = Blobs::open(home.blobs())?;
        let (write_conn, read_conn) = {
            // Two processes that make a database at once would meet half-made ones.
            let _turn = queue.enter()?;
            make_private(&database)?;
            let mut write_conn = connect(&database)?;
            schema::migrate(&mut write_conn, &database)?;
            let read_conn = connect(&database)?;
            sync_dir(home.root())?;
            (write_conn, read_conn)
        };
        let thread = |e| io_fault("start a thread for", home.root(), e);
        let reader = Reader {
            conn: read_conn,
            path: database.clone(),
            blobs: blobs.clone(),
            known: options.known.clone(),
        };
        let writer = Writer {
            conn: Some(write_conn),
            ahead: ahead::Ahead::of(&database),
            path: database,
            home: home.clone(),
            queue,
            blobs: blobs.clone(),
            known: options.known,
        };
        Ok(Self {
            reader: Worker::spawn("store-read", reader).map_err(thread)?,
            blobs: Worker::spawn("store-blob", BlobWriter { blobs }).map_err(thread)?,
            writer: Worker::spawn("store-write", writer).map_err(thread)?,
            home,
        })
    }

    /// Where everything is.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }
}

/// SQLite would make it with the umask's mode, which other users may read. A database that exists is not opened here:
/// closing any descriptor of it would drop every lock that another store of this process holds on it (fcntl(2)).
fn make_private(database: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(database) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(io_fault("make", database, e)),
    }
}

fn connect(database: &Path) -> Result<Connection, StoreError> {
    let conn = Connection::open(database).map_err(|e| fault::db(database, e))?;
    schema::configure(&conn, database)?;
    Ok(conn)
}

impl SqliteStore {
    fn put(&self, new: Option<NewSession>, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        if !has_large(&append) {
            return self.writer.call(move |w| w.append(new.as_ref(), &append));
        }
        async move {
            // Large payloads are durable before the commit that speaks of them, and do not hold up other writers.
            let append = self.blobs.call(move |b| b.put_payloads(&append).map(|()| append)).await?;
            self.writer.call(move |w| w.append(new.as_ref(), &append)).await
        }
        .boxed()
    }
}

impl Store for SqliteStore {
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.call(move |w| w.create(&session))
    }

    fn begin(&self, session: NewSession, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        self.put(Some(session), append)
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        self.put(None, append)
    }

    fn load(&self, session: &SessionId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        let session = session.clone();
        self.reader.call(move |r| r.load(&session))
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<EventPage, StoreError>> {
        let session = session.clone();
        self.reader.call(move |r| r.events(&session, after, limit))
    }

    fn reveal(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<Revealed, StoreError>> {
        let (session, name) = (session.clone(), name.to_owned());
        self.reader.call(move |r| r.reveal(&session, seq, &name))
    }

    fn drop_payload(
        &self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (session, name) = (session.clone(), name.to_owned());
        self.writer.call(move |w| w.drop_payload(&session, seq, &name))
    }

    fn session(&self, session: &SessionId) -> BoxFuture<'_, Result<SessionRow, StoreError>> {
        let session = session.clone();
        self.reader.call(move |r| r.session(&session))
    }

    fn sessions(&self, filter: ListFilter) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        self.reader.call(move |r| r.sessions(&filter))
    }

    fn put_blob(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        self.blobs.call(move |b| b.blobs.put(&[&bytes]))
    }

    fn get_blob(&self, digest: &Digest) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        let digest = *digest;
        self.reader.call(move |r| r.blobs.get(&digest))
    }

    fn acquire(&self, session: &SessionId, holder: &str) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let (session, holder) = (session.clone(), holder.to_owned());
        self.writer.call(move |w| w.acquire(&session, &holder))
    }

    fn outbox(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboxRow>, StoreError>> {
        self.reader.call(move |r| r.outbox(limit))
    }

    fn outbox_done(&self, id: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.call(move |w| w.outbox_done(id))
    }
}

/// Sequence numbers and milliseconds fit into SQLite's signed integers for longer than the universe lasts.
fn to_db(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_db(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
