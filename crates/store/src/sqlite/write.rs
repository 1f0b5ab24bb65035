use std::fs::{File, TryLockError};
use std::path::PathBuf;

use countersign_types::{Digest, SessionId, TenantId};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::ahead::Ahead;
use super::home::Home;
use super::queue::{WriteQueue, open_lock};
use super::read::digest;
use super::{fault, from_db, to_db};
use crate::admit::Head;
use crate::blobs::Blobs;
use crate::files::{fault as io_fault, make_durable};
use crate::kinds::KindSet;
use crate::line::{LINE_FORMAT, Sealed, check, genesis};
use crate::payload::{DROPPED, IN_BLOB, IN_DATABASE, put_large};
use crate::{
    Append, Appended, Fence, KnownKinds, Lease, LeaseGuard, MAX_INLINE_PAYLOAD, NewEvent, NewSession,
    StoreError,
};

#[derive(Debug)]
pub(super) struct BlobWriter {
    pub(super) blobs: Blobs,
}

impl BlobWriter {
    pub(super) fn put_payloads(&self, append: &Append) -> Result<(), StoreError> {
        put_large(&self.blobs, append)
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    /// None only while it is being dropped.
    pub(super) conn: Option<Connection>,
    pub(super) path: PathBuf,
    pub(super) home: Home,
    pub(super) queue: WriteQueue,
    pub(super) ahead: Ahead,
    pub(super) blobs: Blobs,
    pub(super) known: KnownKinds,
}

/// What an append needs to know of a session.
struct Row {
    key: i64,
    tenant: TenantId,
    seq: u64,
    head: Digest,
    fence: Fence,
    kinds: KindSet,
}

impl Row {
    fn standing(&self) -> Head<'_> {
        Head { tenant: &self.tenant, seq: self.seq, head: self.head, fence: self.fence, kinds: &self.kinds }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closing the last connection moves the log into the database; nobody else should open or write meanwhile.
        let _turn = self.queue.enter();
        self.conn = None;
    }
}

impl Writer {
    /// Runs `write` in one transaction, in this process's turn. What it returns is durable.
    fn commit<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>, &Context<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { conn, path, queue, known, ahead, .. } = self;
        let conn = conn.as_mut().ok_or(StoreError::Closed)?;
        let context = Context { path, known };
        let _turn = queue.enter()?;
        let before = ahead.len();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|e| context.db(e))?;
        let result = write(&tx, &context)?;
        tx.commit().map_err(|e| context.db(e))?;
        ahead.keep(before);
        Ok(result)
    }

    pub(super) fn create(&mut self, new: &NewSession) -> Result<(), StoreError> {
        make_durable(&self.home.session(&new.id))?;
        self.commit(|tx, context| context.insert_session(tx, new))
    }

    /// With `new`, the session is made in the same commit.
    pub(super) fn append(
        &mut self,
        new: Option<&NewSession>,
        append: &Append,
    ) -> Result<Appended, StoreError> {
        check(append, &self.known)?;
        if let Some(new) = new {
            if append.session != new.id {
                return Err(StoreError::Invalid("its events are of another session".into()));
            }
            make_durable(&self.home.session(&new.id))?;
        }
        self.commit(|tx, context| {
            if let Some(new) = new {
                context.insert_session(tx, new)?;
            }
            let mut head = context.head(tx, &append.session)?;
            let (sealed, end) = head.standing().admit(append, context.known)?;
            for (event, sealed) in append.events.iter().zip(&sealed) {
                context.insert_event(tx, head.key, event, sealed)?;
                head.kinds.add(&event.kind, LINE_FORMAT);
            }
            context.insert_outbox(tx, head.key, end.seq, append)?;
            context.move_head(tx, &head, &end, append)?;
            Ok(end)
        })
    }

    pub(super) fn drop_payload(
        &mut self,
        session: &SessionId,
        seq: u64,
        name: &str,
    ) -> Result<(), StoreError> {
        let (place, commitment, shared) = self.commit(|tx, context| {
            let head = context.head(tx, session)?;
            let key = params![head.key, to_db(seq), name];
            let sql = "SELECT place, commitment FROM payload WHERE session = ?1 AND seq = ?2 AND name = ?3";
            let found = tx.query_row(sql, key, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
            let (place, commitment) = found.optional().map_err(|e| context.db(e))?.ok_or_else(|| {
                StoreError::NoSuchPayload { session: session.clone(), seq, name: name.to_owned() }
            })?;
            // Overwrite with zeros what is deleted here; it costs too much for every write.
            tx.execute_batch("PRAGMA secure_delete = ON").map_err(|e| context.db(e))?;
            let sql = "UPDATE payload SET place = 2, salt = NULL, bytes = NULL \
                       WHERE session = ?1 AND seq = ?2 AND name = ?3";
            tx.execute(sql, key).map_err(|e| context.db(e))?;
            let sql = "SELECT count(*) FROM payload WHERE commitment = ?1 AND place = 1";
            let shared: i64 =
                tx.query_row(sql, [&commitment], |row| row.get(0)).map_err(|e| context.db(e))?;
            let commitment = digest(&commitment).map_err(|what| context.damaged(&what))?;
            Ok((place, commitment, shared > 0))
        })?;
        let conn = self.conn.as_ref().ok_or(StoreError::Closed)?;
        let context = Context { path: &self.path, known: &self.known };
        conn.execute_batch("PRAGMA secure_delete = OFF").map_err(|e| context.db(e))?;
        if place != IN_DATABASE && !shared {
            // Also when it was dropped before: the process may have died between the commit and this.
            self.blobs.remove(&commitment)?;
        }
        if place != DROPPED {
            // Old copies of the page live in the log until it is emptied. Readers may prevent that now; then the next
            // checkpoint does it.
            let _turn = self.queue.enter()?;
            let empty = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            empty.map_err(|e| context.db(e))?;
        }
        Ok(())
    }

    pub(super) fn acquire(&mut self, session: &SessionId, holder: &str) -> Result<Lease, StoreError> {
        // Asked first, so that nobody makes directories for sessions that do not exist.
        let held_by = self.holder(session)?;
        let held_by = if held_by.is_empty() { "another process".to_owned() } else { held_by };
        make_durable(&self.home.session(session))?;
        let path = self.home.lease_lock(session);
        let file = open_lock(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::LeaseHeld { session: session.clone(), holder: held_by });
            }
            Err(TryLockError::Error(e)) => return Err(io_fault("lock", &path, e)),
        }
        let guard = LockedFile(file);
        let fence = self.commit(|tx, context| {
            let sql = "UPDATE session SET fence = fence + 1, holder = ?2 WHERE id = ?1 RETURNING fence";
            let fence = tx.query_row(sql, params![session.as_str(), holder], |row| row.get::<_, i64>(0));
            fence.map(|fence| Fence(from_db(fence))).map_err(|e| context.db(e))
        })?;
        Ok(Lease::new(session.clone(), fence, Box::new(guard)))
    }

    fn holder(&self, session: &SessionId) -> Result<String, StoreError> {
        let conn = self.conn.as_ref().ok_or(StoreError::Closed)?;
        let sql = "SELECT holder FROM session WHERE id = ?1";
        let holder: Option<String> = conn
            .query_row(sql, [session.as_str()], |row| row.get(0))
            .optional()
            .map_err(|e| fault::db(&self.path, e))?;
        holder.ok_or_else(|| StoreError::NoSuchSession(session.clone()))
    }

    pub(super) fn outbox_done(&mut self, id: u64) -> Result<(), StoreError> {
        self.commit(|tx, context| {
            tx.execute("DELETE FROM outbox WHERE id = ?1", [to_db(id)]).map(drop).map_err(|e| context.db(e))
        })
    }
}

/// A lease's lock; the kernel releases it when the process dies.
#[derive(Debug)]
struct LockedFile(File);

impl LeaseGuard for LockedFile {}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // By name: a child between fork and exec may share the open file.
        let _ = self.0.unlock();
    }
}

struct Context<'a> {
    path: &'a PathBuf,
    known: &'a KnownKinds,
}

impl Context<'_> {
    fn db(&self, error: rusqlite::Error) -> StoreError {
        fault::db(self.path, error)
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Corrupt { path: self.path.clone(), detail: what.to_owned() }
    }

    fn head(&self, tx: &Transaction<'_>, session: &SessionId) -> Result<Row, StoreError> {
        let sql = "SELECT row, tenant, seq, head, fence, kinds FROM session WHERE id = ?1";
        let mut statement = tx.prepare_cached(sql).map_err(|e| self.db(e))?;
        let row = statement
            .query_row([session.as_str()], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, Vec<u8>>(3)?,
                    row.get::<_, i64>(4)?,
                    row.get::<_, String>(5)?,
                ))
            })
            .optional()
            .map_err(|e| self.db(e))?;
        let (key, tenant, seq, head, fence, kinds) =
            row.ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
        Ok(Row {
            key,
            tenant: TenantId::new(tenant).map_err(|e| self.damaged(&e.to_string()))?,
            seq: from_db(seq),
            head: digest(&head).map_err(|what| self.damaged(&what))?,
            fence: Fence(from_db(fence)),
            kinds: KindSet::from_text(&kinds),
        })
    }

    fn insert_session(&self, tx: &Transaction<'_>, new: &NewSession) -> Result<(), StoreError> {
        let sql = "INSERT INTO session (id, tenant, principal, created_at, updated_at, seq, head) \
                   VALUES (?1, ?2, ?3, ?4, ?4, 0, ?5) ON CONFLICT (id) DO NOTHING";
        let head = genesis(&new.id);
        let values = params![
            new.id.as_str(),
            new.tenant.as_str(),
            new.principal.as_str(),
            to_db(new.at.0),
            head.as_bytes()
        ];
        let made = tx.prepare_cached(sql).and_then(|mut s| s.execute(values)).map_err(|e| self.db(e))?;
        if made == 1 { Ok(()) } else { Err(StoreError::SessionExists(new.id.clone())) }
    }

    fn insert_event(
        &self,
        tx: &Transaction<'_>,
        key: i64,
        event: &NewEvent,
        sealed: &Sealed,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO event (session, seq, line, digest) VALUES (?1, ?2, ?3, ?4)";
        let seq = to_db(sealed.seq);
        tx.prepare_cached(sql)
            .and_then(|mut s| s.execute(params![key, seq, sealed.line, sealed.digest.as_bytes()]))
            .map_err(|e| self.db(e))?;
        for (payload, commitment) in event.payloads.iter().zip(&sealed.commitments) {
            let inline = payload.bytes.len() <= MAX_INLINE_PAYLOAD;
            let (place, bytes) = if inline { (IN_DATABASE, Some(&payload.bytes)) } else { (IN_BLOB, None) };
            let sql = "INSERT INTO payload (session, seq, name, place, commitment, salt, bytes) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            tx.prepare_cached(sql)
                .and_then(|mut s| {
                    s.execute(params![
                        key,
                        seq,
                        payload.name,
                        place,
                        commitment.as_bytes(),
                        payload.salt,
                        bytes
                    ])
                })
                .map_err(|e| self.db(e))?;
        }
        Ok(())
    }

    fn insert_outbox(
        &self,
        tx: &Transaction<'_>,
        key: i64,
        seq: u64,
        append: &Append,
    ) -> Result<(), StoreError> {
        for item in &append.outbox {
            let sql = "INSERT INTO outbox (session, seq, topic, body) VALUES (?1, ?2, ?3, ?4)";
            let body = item.body.to_string();
            tx.prepare_cached(sql)
                .and_then(|mut s| s.execute(params![key, to_db(seq), item.topic, body]))
                .map_err(|e| self.db(e))?;
        }
        Ok(())
    }

    fn move_head(
        &self,
        tx: &Transaction<'_>,
        head: &Row,
        end: &Appended,
        append: &Append,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE session SET seq = ?2, head = ?3, updated_at = ?4, kinds = ?5, summary = coalesce(?6, summary) \
                   WHERE row = ?1";
        let summary = append.summary.as_ref().map(ToString::to_string);
        let (seq, at, kinds) = (to_db(end.seq), to_db(append.at.0), head.kinds.to_text());
        tx.prepare_cached(sql)
            .and_then(|mut s| s.execute(params![head.key, seq, end.head.as_bytes(), at, kinds, summary]))
            .map(drop)
            .map_err(|e| self.db(e))
    }
}
