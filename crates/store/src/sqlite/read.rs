use std::path::PathBuf;

use countersign_types::{Digest, Millis, PrincipalId, SessionId, TenantId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{fault, from_db, to_db};
use crate::blobs::Blobs;
use crate::kinds::KindSet;
use crate::line::{ChainReader, RawLine};
use crate::payload::{Named, Stored, reveal};
use crate::{
    EventPage, KnownKinds, ListFilter, Loaded, OutboxRow, PayloadRef, Revealed, SessionRow, StoreError,
    StoredEvent,
};

const SESSION_COLUMNS: &str = "row, id, tenant, principal, created_at, updated_at, seq, head, summary";

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    pub(super) blobs: Blobs,
    pub(super) known: KnownKinds,
}

/// A session's row with its key in the database.
struct Keyed {
    key: i64,
    row: SessionRow,
}

impl Reader {
    fn db(&self, error: rusqlite::Error) -> StoreError {
        fault::db(&self.path, error)
    }

    /// Statements within see one state of the database.
    fn snapshot<T>(&self, read: impl FnOnce(&Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let tx = self.conn.unchecked_transaction().map_err(|e| self.db(e))?;
        let result = read(self)?;
        tx.commit().map_err(|e| self.db(e))?;
        Ok(result)
    }

    fn find(&self, session: &SessionId) -> Result<Keyed, StoreError> {
        let sql = select_sessions("WHERE id = ?1");
        let mut statement = self.conn.prepare_cached(&sql).map_err(|e| self.db(e))?;
        let found = statement.query_row([session.as_str()], |row| Ok(read_session(row))).optional();
        match found.map_err(|e| self.db(e))? {
            Some(row) => row.map_err(|what| self.damaged(&what)),
            None => Err(StoreError::NoSuchSession(session.clone())),
        }
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Corrupt { path: self.path.clone(), detail: what.to_owned() }
    }

    pub(super) fn session(&self, session: &SessionId) -> Result<SessionRow, StoreError> {
        Ok(self.find(session)?.row)
    }

    pub(super) fn load(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        self.snapshot(|this| {
            let Keyed { key, row } = this.find(session)?;
            let mut chain = ChainReader::from_start(session);
            let events = this.read_lines(key, 0, i64::MAX, &mut chain)?;
            chain.finish(row.seq, &row.head)?;
            let unknown = KindSet::of(&events).unknown(&this.known);
            let (seq, head) = (row.seq, row.head);
            Ok(Loaded { session: row, events, seq, head, read_only: !unknown.is_empty(), unknown })
        })
    }

    pub(super) fn events(
        &self,
        session: &SessionId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        self.snapshot(|this| {
            let Keyed { key, row } = this.find(session)?;
            let mut chain = ChainReader::from_page(session, after);
            let events = this.read_lines(key, after, i64::from(limit), &mut chain)?;
            Ok(EventPage { events, seq: row.seq })
        })
    }

    fn read_lines(
        &self,
        key: i64,
        after: u64,
        limit: i64,
        chain: &mut ChainReader<'_>,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = "SELECT seq, line, digest FROM event WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        let mut statement = self.conn.prepare_cached(sql).map_err(|e| self.db(e))?;
        let mut rows = statement.query(params![key, to_db(after), limit]).map_err(|e| self.db(e))?;
        let mut events = Vec::new();
        while let Some(row) = rows.next().map_err(|e| self.db(e))? {
            let seq = from_db(row.get(0).map_err(|e| self.db(e))?);
            // As bytes: a damaged line may not even be text, and must still be named.
            let line = column_bytes(row, 1).map_err(|e| self.db(e))?;
            let digest = column_bytes(row, 2).map_err(|e| self.db(e))?;
            events.push(chain.read(&RawLine { seq, line, digest })?);
        }
        Ok(events)
    }

    pub(super) fn reveal(&self, session: &SessionId, seq: u64, name: &str) -> Result<Revealed, StoreError> {
        self.snapshot(|this| this.reveal_now(session, seq, name))
    }

    fn reveal_now(&self, session: &SessionId, seq: u64, name: &str) -> Result<Revealed, StoreError> {
        let Keyed { key, .. } = self.find(session)?;
        let named = Named { session, seq, name };
        let mut chain = ChainReader::from_page(session, seq.checked_sub(1).ok_or_else(|| named.missing())?);
        let lines = self.read_lines(key, seq - 1, 1, &mut chain)?;
        let promised: PayloadRef = lines
            .first()
            .and_then(|event| event.payloads.get(name))
            .copied()
            .ok_or_else(|| named.missing())?;

        let sql = "SELECT place, salt, bytes FROM payload WHERE session = ?1 AND seq = ?2 AND name = ?3";
        let mut statement = self.conn.prepare_cached(sql).map_err(|e| self.db(e))?;
        let stored = statement
            .query_row(params![key, to_db(seq), name], |row| {
                Ok(Stored { place: row.get(0)?, salt: row.get(1)?, bytes: row.get(2)? })
            })
            .optional()
            .map_err(|e| self.db(e))?;
        reveal(named, promised, stored, &self.blobs)
    }

    pub(super) fn sessions(&self, filter: &ListFilter) -> Result<Vec<SessionRow>, StoreError> {
        self.snapshot(|this| {
            let after = filter.after.as_ref().map(|id| this.find(id)).transpose()?;
            let (at, id) = match &after {
                Some(Keyed { row, .. }) => (to_db(row.created_at.0), row.id.as_str()),
                // Above every id: they are ASCII.
                None => (i64::MAX, "\u{10FFFF}"),
            };
            let limit = i64::from(filter.limit);
            let (sql, tenant) = match &filter.tenant {
                Some(tenant) => ("WHERE (created_at, id) < (?1, ?2) AND tenant = ?4", Some(tenant.as_str())),
                None => ("WHERE (created_at, id) < (?1, ?2) AND ?4 IS NULL", None),
            };
            let sql = select_sessions(&format!("{sql} ORDER BY created_at DESC, id DESC LIMIT ?3"));
            let mut statement = this.conn.prepare_cached(&sql).map_err(|e| this.db(e))?;
            let rows = statement
                .query_map(params![at, id, limit, tenant], |row| Ok(read_session(row)))
                .map_err(|e| this.db(e))?;
            rows.map(|row| row.map_err(|e| this.db(e))?.map(|k| k.row).map_err(|what| this.damaged(&what)))
                .collect()
        })
    }

    pub(super) fn outbox(&self, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
        let sql = "SELECT o.id, s.id, o.seq, o.topic, o.body FROM outbox o JOIN session s ON s.row = o.session \
                   ORDER BY o.id LIMIT ?1";
        let mut statement = self.conn.prepare_cached(sql).map_err(|e| self.db(e))?;
        let mut rows = statement.query([i64::from(limit)]).map_err(|e| self.db(e))?;
        let mut items = Vec::new();
        while let Some(row) = rows.next().map_err(|e| self.db(e))? {
            items.push(read_outbox(row).map_err(|what| self.damaged(&what))?);
        }
        Ok(items)
    }
}

fn select_sessions(rest: &str) -> String {
    format!("SELECT {SESSION_COLUMNS} FROM session {rest}")
}

fn read_outbox(row: &Row<'_>) -> Result<OutboxRow, String> {
    let text = |index| row.get::<_, String>(index).map_err(|e| e.to_string());
    let number = |index| row.get::<_, i64>(index).map(from_db).map_err(|e| e.to_string());
    Ok(OutboxRow {
        id: number(0)?,
        session: SessionId::new(text(1)?).map_err(|e| e.to_string())?,
        seq: number(2)?,
        topic: text(3)?,
        body: serde_json::from_str(&text(4)?).map_err(|e| e.to_string())?,
    })
}

fn read_session(row: &Row<'_>) -> Result<Keyed, String> {
    let text = |index| row.get::<_, String>(index).map_err(|e| e.to_string());
    let number = |index| row.get::<_, i64>(index).map(from_db).map_err(|e| e.to_string());
    let head = row.get::<_, Vec<u8>>(7).map_err(|e| e.to_string())?;
    Ok(Keyed {
        key: row.get(0).map_err(|e| e.to_string())?,
        row: SessionRow {
            id: SessionId::new(text(1)?).map_err(|e| e.to_string())?,
            tenant: TenantId::new(text(2)?).map_err(|e| e.to_string())?,
            principal: PrincipalId::new(text(3)?).map_err(|e| e.to_string())?,
            created_at: Millis(number(4)?),
            updated_at: Millis(number(5)?),
            seq: number(6)?,
            head: digest(&head)?,
            summary: serde_json::from_str(&text(8)?).map_err(|e| e.to_string())?,
        },
    })
}

pub(super) fn digest(bytes: &[u8]) -> Result<Digest, String> {
    let bytes = bytes.try_into().map_err(|_| format!("a digest has 32 bytes, not {}", bytes.len()))?;
    Ok(Digest::from_bytes(bytes))
}

fn column_bytes<'a>(row: &'a Row<'_>, index: usize) -> Result<&'a [u8], rusqlite::Error> {
    use rusqlite::types::ValueRef;
    match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
        other => Err(rusqlite::Error::InvalidColumnType(index, "bytes".into(), other.data_type())),
    }
}
