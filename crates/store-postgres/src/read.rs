use std::sync::Arc;

use countersign_store::implement::{ChainReader, KindSet, Named, RawLine, Stored, reveal as reveal_stored};
use countersign_store::{
    EventPage, ListFilter, Loaded, OutboxRow, PayloadRef, Revealed, SessionRow, StoreError, StoredEvent,
};
use countersign_types::{Digest, Millis, PrincipalId, SessionId, TenantId};
use deadpool_postgres::Object;
use futures::future::join;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use crate::connect::{BEGIN_SNAPSHOT, COMMIT, Transaction, client};
use crate::fault;
use crate::store::{Inner, from_db, to_db};
use crate::thread::blocking;

const SESSION_COLUMNS: &str = "key, id, tenant, principal, created_at, updated_at, seq, head, summary";

const LINES: &str =
    "SELECT seq, line, digest FROM countersign.event WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// A session's row with its key in the database.
struct Keyed {
    key: i64,
    row: SessionRow,
}

/// What one question asks: prepared once for each connection.
async fn rows(
    inner: &Inner,
    client: &Object,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    let statement = client.prepare_cached(sql).await.map_err(|e| fault::server(&inner.database, &e))?;
    client.query(&statement, params).await.map_err(|e| fault::server(&inner.database, &e))
}

async fn find(inner: &Inner, client: &Object, session: &SessionId) -> Result<Keyed, StoreError> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM countersign.session WHERE id = $1");
    let found = rows(inner, client, &sql, &[&session.as_str()]).await?;
    let row = found.first().ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
    read_session(row).map_err(|what| fault::damaged(&inner.database, what))
}

/// A session's row and some of its lines, of one moment.
async fn lines(
    inner: &Inner,
    session: &SessionId,
    after: u64,
    limit: i64,
) -> Result<(Keyed, Vec<Row>), StoreError> {
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let client = client(&inner.pool, &inner.database).await?;
    let lines = client.prepare_cached(LINES).await.map_err(|e| server(&e))?;
    let tx = Transaction::on(client);
    let (begun, found) = {
        let client = tx.client();
        join(client.batch_execute(BEGIN_SNAPSHOT), find(inner, client, session)).await
    };
    begun.map_err(|e| server(&e))?;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            tx.rollback().await;
            return Err(error);
        }
    };
    let (rows, committed) = {
        let client = tx.client();
        let after = to_db(after);
        let params: [&(dyn ToSql + Sync); 3] = [&found.key, &after, &limit];
        join(client.query(&lines, &params), client.batch_execute(COMMIT)).await
    };
    let rows = tx.ended(rows, committed).map_err(|e| server(&e))?;
    Ok((found, rows))
}

pub(crate) async fn session(inner: &Inner, session: &SessionId) -> Result<SessionRow, StoreError> {
    let client = client(&inner.pool, &inner.database).await?;
    Ok(find(inner, &client, session).await?.row)
}

pub(crate) async fn load(inner: Arc<Inner>, session: SessionId) -> Result<Loaded, StoreError> {
    let (Keyed { row, .. }, rows) = lines(&inner, &session, 0, i64::MAX).await?;
    blocking(move || {
        let mut chain = ChainReader::from_start(&session);
        let events = read_lines(&inner, &rows, &mut chain)?;
        chain.finish(row.seq, &row.head)?;
        let unknown = KindSet::of(&events).unknown(&inner.known);
        let (seq, head) = (row.seq, row.head);
        Ok(Loaded { session: row, events, seq, head, read_only: !unknown.is_empty(), unknown })
    })
    .await
}

pub(crate) async fn events(
    inner: Arc<Inner>,
    session: SessionId,
    after: u64,
    limit: u32,
) -> Result<EventPage, StoreError> {
    let (Keyed { row, .. }, rows) = lines(&inner, &session, after, i64::from(limit)).await?;
    blocking(move || {
        let events = read_lines(&inner, &rows, &mut ChainReader::from_page(&session, after))?;
        Ok(EventPage { events, seq: row.seq })
    })
    .await
}

fn read_lines(
    inner: &Inner,
    rows: &[Row],
    chain: &mut ChainReader<'_>,
) -> Result<Vec<StoredEvent>, StoreError> {
    let read = |row: &Row| {
        let damaged = |what: String| fault::damaged(&inner.database, what);
        let seq = from_db(column(row, 0).map_err(damaged)?);
        let line: &str = column(row, 1).map_err(damaged)?;
        let digest: &[u8] = column(row, 2).map_err(damaged)?;
        chain.read(&RawLine { seq, line: line.as_bytes(), digest })
    };
    rows.iter().map(read).collect()
}

pub(crate) async fn reveal(
    inner: Arc<Inner>,
    session: SessionId,
    seq: u64,
    name: String,
) -> Result<Revealed, StoreError> {
    let named = Named { session: &session, seq, name: &name };
    let before = seq.checked_sub(1).ok_or_else(|| named.missing())?;
    let (Keyed { key, .. }, lines) = lines(&inner, &session, before, 1).await?;
    let events = read_lines(&inner, &lines, &mut ChainReader::from_page(&session, before))?;
    let promised: PayloadRef =
        events.first().and_then(|event| event.payloads.get(&name)).copied().ok_or_else(|| named.missing())?;
    // Later than the line: it may have been dropped since, which is then what is told.
    let client = client(&inner.pool, &inner.database).await?;
    let sql =
        "SELECT place, salt, bytes FROM countersign.payload WHERE session = $1 AND seq = $2 AND name = $3";
    let rows = rows(&inner, &client, sql, &[&key, &to_db(seq), &name]).await?;
    drop(client);
    let stored = rows.first().map(read_payload).transpose();
    let stored = stored.map_err(|what| fault::damaged(&inner.database, what))?;
    blocking(move || {
        let named = Named { session: &session, seq, name: &name };
        reveal_stored(named, promised, stored, &inner.blobs)
    })
    .await
}

pub(crate) async fn sessions(inner: &Inner, filter: &ListFilter) -> Result<Vec<SessionRow>, StoreError> {
    let client = client(&inner.pool, &inner.database).await?;
    let after = match &filter.after {
        Some(id) => Some(find(inner, &client, id).await?.row),
        None => None,
    };
    let (at, id) = match &after {
        Some(row) => (to_db(row.created_at.0), row.id.as_str()),
        // Above every id: they are ASCII.
        None => (i64::MAX, "\u{10FFFF}"),
    };
    let limit = i64::from(filter.limit);
    let order = "ORDER BY created_at DESC, id DESC LIMIT $3";
    let select =
        format!("SELECT {SESSION_COLUMNS} FROM countersign.session WHERE (created_at, id) < ($1, $2)");
    let found = match &filter.tenant {
        Some(tenant) => {
            let sql = format!("{select} AND tenant = $4 {order}");
            rows(inner, &client, &sql, &[&at, &id, &limit, &tenant.as_str()]).await?
        }
        None => rows(inner, &client, &format!("{select} {order}"), &[&at, &id, &limit]).await?,
    };
    let read = |row| read_session(row).map(|k| k.row).map_err(|what| fault::damaged(&inner.database, what));
    found.iter().map(read).collect()
}

pub(crate) async fn outbox(inner: &Inner, limit: u32) -> Result<Vec<OutboxRow>, StoreError> {
    let client = client(&inner.pool, &inner.database).await?;
    let sql = "SELECT o.id, s.id, o.seq, o.topic, o.body FROM countersign.outbox o \
               JOIN countersign.session s ON s.key = o.session ORDER BY o.id LIMIT $1";
    let found = rows(inner, &client, sql, &[&i64::from(limit)]).await?;
    let read = |row| read_outbox(row).map_err(|what| fault::damaged(&inner.database, what));
    found.iter().map(read).collect()
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, String> {
    row.try_get(index).map_err(|e| e.to_string())
}

fn read_payload(row: &Row) -> Result<Stored, String> {
    Ok(Stored { place: column(row, 0)?, salt: column(row, 1)?, bytes: column(row, 2)? })
}

fn read_outbox(row: &Row) -> Result<OutboxRow, String> {
    Ok(OutboxRow {
        id: from_db(column(row, 0)?),
        session: SessionId::new(column::<String>(row, 1)?).map_err(|e| e.to_string())?,
        seq: from_db(column(row, 2)?),
        topic: column(row, 3)?,
        body: serde_json::from_str(column(row, 4)?).map_err(|e| e.to_string())?,
    })
}

fn read_session(row: &Row) -> Result<Keyed, String> {
    let text = |index| column::<String>(row, index);
    let number = |index| column(row, index).map(from_db);
    Ok(Keyed {
        key: column(row, 0)?,
        row: SessionRow {
            id: SessionId::new(text(1)?).map_err(|e| e.to_string())?,
            tenant: TenantId::new(text(2)?).map_err(|e| e.to_string())?,
            principal: PrincipalId::new(text(3)?).map_err(|e| e.to_string())?,
            created_at: Millis(number(4)?),
            updated_at: Millis(number(5)?),
            seq: number(6)?,
            head: digest(row, 7)?,
            summary: serde_json::from_str(column(row, 8)?).map_err(|e| e.to_string())?,
        },
    })
}

pub(crate) fn digest(row: &Row, index: usize) -> Result<Digest, String> {
    let bytes: &[u8] = column(row, index)?;
    let bytes = bytes.try_into().map_err(|_| format!("a digest has 32 bytes, not {}", bytes.len()))?;
    Ok(Digest::from_bytes(bytes))
}
