use std::sync::Arc;
use std::time::Duration;

use countersign_store::implement::{
    DROPPED, Head, IN_BLOB, IN_DATABASE, KindSet, LINE_FORMAT, Sealed, check, genesis, has_large, put_large,
};
use countersign_store::{Append, Appended, Fence, MAX_INLINE_PAYLOAD, NewSession, StoreError};
use countersign_types::{Digest, SessionId, TenantId};
use deadpool_postgres::Object;
use futures::future::join;
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;

use crate::connect::{BEGIN, COMMIT, Transaction, client};
use crate::fault;
use crate::read::digest;
use crate::store::{Inner, from_db, to_db};
use crate::thread::blocking;

/// Between two looks for a commit whose answer was lost.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Everything of one append: what the arrays hold stands in their order. The session's row is locked by [`LOCK_HEAD`].
const WRITE: &str = "
    WITH events AS (
        INSERT INTO countersign.event (session, seq, line, digest)
        SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::bytea[])
    ), payloads AS (
        INSERT INTO countersign.payload (session, seq, name, place, commitment, salt, bytes)
        SELECT $1, * FROM unnest($5::bigint[], $6::text[], $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[])
    ), items AS (
        INSERT INTO countersign.outbox (session, seq, topic, body)
        SELECT $1, $13, topic, body FROM unnest($11::text[], $12::text[]) WITH ORDINALITY AS item (topic, body, n)
        ORDER BY n
    )
    UPDATE countersign.session
    SET seq = $13, head = $14, updated_at = $15, kinds = $16, summary = coalesce($17, summary)
    WHERE key = $1";

/// Nobody else appends to the session or takes its lease until the transaction ends.
const LOCK_HEAD: &str =
    "SELECT key, tenant, seq, head, fence, kinds FROM countersign.session WHERE id = $1 FOR UPDATE";

/// What an append needs to know of a session, as it stands under the lock.
struct Standing {
    key: i64,
    tenant: TenantId,
    seq: u64,
    head: Digest,
    fence: Fence,
    kinds: KindSet,
}

impl Standing {
    fn read(row: &Row) -> Result<Self, String> {
        let number = |index| row.try_get::<_, i64>(index).map_err(|e| e.to_string());
        let text = |index| row.try_get::<_, String>(index).map_err(|e| e.to_string());
        Ok(Self {
            key: number(0)?,
            tenant: TenantId::new(text(1)?).map_err(|e| e.to_string())?,
            seq: from_db(number(2)?),
            head: digest(row, 3)?,
            fence: Fence(from_db(number(4)?)),
            kinds: KindSet::from_text(&text(5)?),
        })
    }

    fn head(&self) -> Head<'_> {
        Head { tenant: &self.tenant, seq: self.seq, head: self.head, fence: self.fence, kinds: &self.kinds }
    }
}

pub(crate) async fn create(inner: &Inner, new: &NewSession) -> Result<(), StoreError> {
    let client = client(&inner.pool, &inner.database).await?;
    match insert(&client, new).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::SessionExists(new.id.clone())),
        Err(e) if fault::is_lost(&e) => Err(unknown(inner, &new.id, &fault::server(&inner.database, &e))),
        Err(e) => Err(fault::server(&inner.database, &e)),
    }
}

/// False: the id is taken.
async fn insert(client: &Object, new: &NewSession) -> Result<bool, tokio_postgres::Error> {
    let sql = "INSERT INTO countersign.session (id, tenant, principal, created_at, updated_at, seq, head) \
               VALUES ($1, $2, $3, $4, $4, 0, $5) ON CONFLICT (id) DO NOTHING";
    let statement = client.prepare_cached(sql).await?;
    let head = genesis(&new.id);
    let made = client
        .execute(
            &statement,
            &[
                &new.id.as_str(),
                &new.tenant.as_str(),
                &new.principal.as_str(),
                &to_db(new.at.0),
                &head.as_bytes().as_slice(),
            ],
        )
        .await?;
    Ok(made == 1)
}

/// With `new`, the session is made in the same transaction.
pub(crate) async fn append(
    inner: &Arc<Inner>,
    new: Option<&NewSession>,
    append: Append,
) -> Result<Appended, StoreError> {
    check(&append, &inner.known)?;
    if new.is_some_and(|new| append.session != new.id) {
        return Err(StoreError::Invalid("its events are of another session".into()));
    }
    let append = Arc::new(append);
    if has_large(&append) {
        // Durable before the commit that speaks of them.
        let (inner, append) = (Arc::clone(inner), Arc::clone(&append));
        blocking(move || put_large(&inner.blobs, &append)).await?;
    }
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let (tx, standing) = match new {
        None => lock(inner, &append.session).await?,
        Some(new) => begin(inner, new).await?,
    };
    let admitted = admit(inner, &append, standing).await;
    let (standing, sealed, end) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => {
            tx.rollback().await;
            return Err(refusal);
        }
    };
    let statement = tx.client().prepare_cached(WRITE).await.map_err(|e| server(&e))?;
    let rows = Rows::of(&append, &standing, &sealed, &end);
    let (wrote, committed) = {
        let client = tx.client();
        join(rows.write(client, &statement), client.batch_execute(COMMIT)).await
    };
    match tx.ended(wrote, committed) {
        Ok(_) => {
            inner.hinter.changed(inner, &append.session);
            Ok(end)
        }
        Err(e) if fault::is_lost(&e) => look_again(inner, &append.session, &end, &server(&e)).await,
        Err(e) => Err(server(&e)),
    }
}

/// Begins a transaction that made the session.
async fn begin(inner: &Inner, new: &NewSession) -> Result<(Transaction, Standing), StoreError> {
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let client = client(&inner.pool, &inner.database).await?;
    let statement = client.prepare_cached(LOCK_HEAD).await.map_err(|e| server(&e))?;
    let tx = Transaction::on(client);
    let made = async {
        tx.client().batch_execute(BEGIN).await.map_err(|e| server(&e))?;
        if !insert(tx.client(), new).await.map_err(|e| server(&e))? {
            return Err(StoreError::SessionExists(new.id.clone()));
        }
        let row = tx.client().query_one(&statement, &[&new.id.as_str()]).await.map_err(|e| server(&e))?;
        Standing::read(&row).map_err(|what| fault::damaged(&inner.database, what))
    };
    match made.await {
        Ok(standing) => Ok((tx, standing)),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Begins a transaction that holds the session. An error leaves nothing behind.
async fn lock(inner: &Inner, session: &SessionId) -> Result<(Transaction, Standing), StoreError> {
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let client = client(&inner.pool, &inner.database).await?;
    let statement = client.prepare_cached(LOCK_HEAD).await.map_err(|e| server(&e))?;
    let tx = Transaction::on(client);
    let (begun, row) = {
        let client = tx.client();
        join(client.batch_execute(BEGIN), client.query_opt(&statement, &[&session.as_str()])).await
    };
    let row = begun.and(row);
    match row {
        Ok(Some(row)) => match Standing::read(&row) {
            Ok(standing) => Ok((tx, standing)),
            Err(what) => {
                tx.rollback().await;
                Err(fault::damaged(&inner.database, what))
            }
        },
        Ok(None) => {
            tx.rollback().await;
            Err(StoreError::NoSuchSession(session.clone()))
        }
        Err(e) => {
            tx.rollback().await;
            Err(server(&e))
        }
    }
}

async fn admit(
    inner: &Arc<Inner>,
    append: &Arc<Append>,
    mut standing: Standing,
) -> Result<(Standing, Vec<Sealed>, Appended), StoreError> {
    let known = inner.known.clone();
    let large = has_large(append);
    let append = Arc::clone(append);
    let admit = move || {
        let (sealed, end) = standing.head().admit(&append, &known)?;
        for event in &append.events {
            standing.kinds.add(&event.kind, LINE_FORMAT);
        }
        Ok((standing, sealed, end))
    };
    // Hashing a large payload takes a while.
    if large { blocking(admit).await } else { admit() }
}

/// The rows of an append, column by column.
struct Rows<'a> {
    key: i64,
    seqs: Vec<i64>,
    lines: Vec<&'a str>,
    digests: Vec<&'a [u8]>,
    payload_seqs: Vec<i64>,
    names: Vec<&'a str>,
    places: Vec<i64>,
    commitments: Vec<&'a [u8]>,
    salts: Vec<&'a [u8]>,
    bytes: Vec<Option<&'a [u8]>>,
    topics: Vec<&'a str>,
    bodies: Vec<String>,
    seq: i64,
    head: &'a [u8],
    at: i64,
    kinds: String,
    summary: Option<String>,
}

impl<'a> Rows<'a> {
    fn of(append: &'a Append, standing: &Standing, sealed: &'a [Sealed], end: &'a Appended) -> Self {
        let mut rows = Self {
            key: standing.key,
            seqs: sealed.iter().map(|s| to_db(s.seq)).collect(),
            lines: sealed.iter().map(|s| s.line.as_str()).collect(),
            digests: sealed.iter().map(|s| s.digest.as_bytes().as_slice()).collect(),
            payload_seqs: Vec::new(),
            names: Vec::new(),
            places: Vec::new(),
            commitments: Vec::new(),
            salts: Vec::new(),
            bytes: Vec::new(),
            topics: append.outbox.iter().map(|item| item.topic.as_str()).collect(),
            bodies: append.outbox.iter().map(|item| item.body.to_string()).collect(),
            seq: to_db(end.seq),
            head: end.head.as_bytes().as_slice(),
            at: to_db(append.at.0),
            kinds: standing.kinds.to_text(),
            summary: append.summary.as_ref().map(ToString::to_string),
        };
        for (event, sealed) in append.events.iter().zip(sealed) {
            for (payload, commitment) in event.payloads.iter().zip(&sealed.commitments) {
                let inline = payload.bytes.len() <= MAX_INLINE_PAYLOAD;
                rows.payload_seqs.push(to_db(sealed.seq));
                rows.names.push(&payload.name);
                rows.places.push(if inline { IN_DATABASE } else { IN_BLOB });
                rows.commitments.push(commitment.as_bytes());
                rows.salts.push(&payload.salt);
                rows.bytes.push(inline.then_some(payload.bytes.as_slice()));
            }
        }
        rows
    }

    async fn write(
        &self,
        client: &Object,
        statement: &tokio_postgres::Statement,
    ) -> Result<u64, tokio_postgres::Error> {
        client
            .execute(
                statement,
                &[
                    &self.key,
                    &self.seqs,
                    &self.lines,
                    &self.digests,
                    &self.payload_seqs,
                    &self.names,
                    &self.places,
                    &self.commitments,
                    &self.salts,
                    &self.bytes,
                    &self.topics,
                    &self.bodies,
                    &self.seq,
                    &self.head,
                    &self.at,
                    &self.kinds,
                    &self.summary,
                ],
            )
            .await
    }
}

/// The connection was lost with the commit on its way. The lost transaction holds the session's row until the server
/// ended it in one way or the other, so whoever gets the row's lock sees what became of it.
async fn look_again(
    inner: &Inner,
    session: &SessionId,
    end: &Appended,
    lost: &StoreError,
) -> Result<Appended, StoreError> {
    let start = Instant::now();
    loop {
        match find(inner, session, end.seq).await {
            Ok(Some(found)) if found == end.head => return Ok(*end),
            Ok(_) => {
                let (database, what) = (inner.database.clone(), said(lost));
                return Err(StoreError::Unreachable { database, what });
            }
            Err(error) if start.elapsed() >= inner.look_again => return Err(unknown(inner, session, &error)),
            Err(_) => sleep(LOOK_PAUSE).await,
        }
    }
}

/// The digest of an event, read while nobody can append to the session.
async fn find(inner: &Inner, session: &SessionId, seq: u64) -> Result<Option<Digest>, StoreError> {
    let (tx, standing) = lock(inner, session).await?;
    // A statement of its own: the one that waited for the lock still sees what stood before.
    let sql = "SELECT digest FROM countersign.event WHERE session = $1 AND seq = $2";
    let row = tx.client().query_opt(sql, &[&standing.key, &to_db(seq)]).await;
    tx.rollback().await;
    let row = row.map_err(|e| fault::server(&inner.database, &e))?;
    row.map(|row| digest(&row, 0)).transpose().map_err(|what| fault::damaged(&inner.database, what))
}

fn unknown(inner: &Inner, session: &SessionId, why: &StoreError) -> StoreError {
    StoreError::CommitUnknown { session: session.clone(), database: inner.database.clone(), what: said(why) }
}

/// What happened, without what it means for a caller who asked for something else.
fn said(error: &StoreError) -> String {
    match error {
        StoreError::Unreachable { what, .. } => what.clone(),
        other => other.to_string(),
    }
}

/// The bytes are gone from the table at once. The server's free space and its log hold them until it writes over both.
pub(crate) async fn drop_payload(
    inner: Arc<Inner>,
    session: SessionId,
    seq: u64,
    name: String,
) -> Result<(), StoreError> {
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let (tx, standing) = lock(&inner, &session).await?;
    let sql = "UPDATE countersign.payload p SET place = $4, salt = NULL, bytes = NULL FROM countersign.payload old \
               WHERE p.session = $1 AND p.seq = $2 AND p.name = $3 \
                   AND old.session = p.session AND old.seq = p.seq AND old.name = p.name \
               RETURNING old.place, p.commitment";
    let row = tx.client().query_opt(sql, &[&standing.key, &to_db(seq), &name, &DROPPED]).await;
    let row = match row {
        Ok(Some(row)) => row,
        Ok(None) => {
            tx.rollback().await;
            return Err(StoreError::NoSuchPayload { session, seq, name });
        }
        Err(e) => {
            tx.rollback().await;
            return Err(server(&e));
        }
    };
    let place: i64 = row.try_get(0).map_err(|e| server(&e))?;
    let commitment = digest(&row, 1).map_err(|what| fault::damaged(&inner.database, what))?;
    let sql = "SELECT count(*) FROM countersign.payload WHERE commitment = $1 AND place = $2";
    let (shared, committed) = {
        let client = tx.client();
        let bytes = commitment.as_bytes().as_slice();
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&bytes, &IN_BLOB];
        let statement = client.prepare_cached(sql).await.map_err(|e| server(&e))?;
        join(client.query_one(&statement, &params), client.batch_execute(COMMIT)).await
    };
    let shared: i64 = tx.ended(shared, committed).and_then(|row| row.try_get(0)).map_err(|e| server(&e))?;
    if place != IN_DATABASE && shared == 0 {
        // Also when it was dropped before: the process may have died between the commit and this.
        blocking(move || inner.blobs.remove(&commitment)).await?;
    }
    Ok(())
}

pub(crate) async fn outbox_done(inner: &Inner, id: u64) -> Result<(), StoreError> {
    let client = client(&inner.pool, &inner.database).await?;
    let done = client.execute("DELETE FROM countersign.outbox WHERE id = $1", &[&to_db(id)]).await;
    done.map(drop).map_err(|e| fault::server(&inner.database, &e))
}
