use std::path::Path;

use rusqlite::Connection;

use super::fault;
use crate::StoreError;

/// `PRAGMA application_id` of a database of ours: "csgn".
const APPLICATION_ID: i64 = 0x6373_676E;

/// Forward only: the n-th entry takes a database from `user_version` n to n + 1. Released entries never change.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE session (
        row        INTEGER PRIMARY KEY,
        id         TEXT    NOT NULL UNIQUE,
        tenant     TEXT    NOT NULL,
        principal  TEXT    NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        seq        INTEGER NOT NULL,
        head       BLOB    NOT NULL,
        fence      INTEGER NOT NULL DEFAULT 0,
        holder     TEXT    NOT NULL DEFAULT '',
        kinds      TEXT    NOT NULL DEFAULT '',
        summary    TEXT    NOT NULL DEFAULT 'null'
    ) STRICT;
    CREATE INDEX session_newest ON session (created_at, id);
    CREATE INDEX session_newest_of_tenant ON session (tenant, created_at, id);

    CREATE TABLE event (
        session INTEGER NOT NULL REFERENCES session (row),
        seq     INTEGER NOT NULL,
        line    TEXT    NOT NULL,
        digest  BLOB    NOT NULL,
        PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID;

    -- place: 0 in `bytes`; 1 in the blob named by the commitment, whose bytes are salt || payload; 2 dropped.
    CREATE TABLE payload (
        session    INTEGER NOT NULL,
        seq        INTEGER NOT NULL,
        name       TEXT    NOT NULL,
        place      INTEGER NOT NULL CHECK (place IN (0, 1, 2)),
        commitment BLOB    NOT NULL,
        salt       BLOB,
        bytes      BLOB,
        PRIMARY KEY (session, seq, name),
        FOREIGN KEY (session, seq) REFERENCES event (session, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX payload_in_blob ON payload (commitment) WHERE place = 1;

    -- AUTOINCREMENT: a confirmed id must never name a later item.
    CREATE TABLE outbox (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES session (row),
        seq     INTEGER NOT NULL,
        topic   TEXT    NOT NULL,
        body    TEXT    NOT NULL
    ) STRICT;
"];

/// The `user_version` that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// What every connection needs, before anything else.
pub(super) fn configure(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let db = |e| fault::db(path, e);
    conn.busy_timeout(super::BUSY_TIMEOUT).map_err(db)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(db)?;
    if mode != "wal" {
        let detail = format!("its journal mode is `{mode}` and cannot be made `wal`");
        return Err(StoreError::Corrupt { path: path.to_owned(), detail });
    }
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;")
        .map_err(db)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Brings a database up to [`VERSION`]. The caller has its turn in the write queue.
pub(super) fn migrate(conn: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let db = |e| fault::db(path, e);
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(db)?;
    let found: i64 = tx.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(db)?;
    let application: i64 = tx.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(db)?;
    let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(db)?;
    let fresh = found == 0 && application == 0 && tables == 0;
    if !fresh && application != APPLICATION_ID {
        let detail = "it is a database of another program".to_owned();
        return Err(StoreError::Corrupt { path: path.to_owned(), detail });
    }
    if found > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found, supported: VERSION });
    }
    if found == VERSION {
        return Ok(());
    }
    let done = usize::try_from(found).unwrap_or(0);
    for step in &MIGRATIONS[done..] {
        tx.execute_batch(step).map_err(db)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(db)?;
    tx.pragma_update(None, "user_version", VERSION).map_err(db)?;
    tx.commit().map_err(db)
}
