use countersign_store::StoreError;
use deadpool_postgres::Object;
use tokio_postgres::error::SqlState;

use crate::connect::{BEGIN, COMMIT, Transaction, client};
use crate::fault;
use crate::store::Inner;

/// Those who migrate at once stand in line here: "csgn" and the number of the line.
const MIGRATION_LOCK: i64 = 0x6373_676E_0000_0001;

/// Forward only: the n-th entry takes a database from version n to n + 1. Released entries never change.
pub(crate) const MIGRATIONS: &[&str] = &["
    -- Names compare by their bytes whatever the database's language is.
    CREATE TABLE countersign.session (
        key         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id          TEXT COLLATE \"C\" NOT NULL UNIQUE,
        tenant      TEXT COLLATE \"C\" NOT NULL,
        principal   TEXT COLLATE \"C\" NOT NULL,
        created_at  BIGINT NOT NULL,
        updated_at  BIGINT NOT NULL,
        seq         BIGINT NOT NULL,
        head        BYTEA  NOT NULL,
        fence       BIGINT NOT NULL DEFAULT 0,
        holder      TEXT   NOT NULL DEFAULT '',
        -- By the server's clock; null: nobody holds it.
        lease_until TIMESTAMPTZ,
        kinds       TEXT   NOT NULL DEFAULT '',
        summary     TEXT   NOT NULL DEFAULT 'null'
    -- Each append changes the row: the room lets it stay on its page, away from the indexes.
    ) WITH (fillfactor = 50);
    CREATE INDEX session_newest ON countersign.session (created_at, id);
    CREATE INDEX session_newest_of_tenant ON countersign.session (tenant, created_at, id);

    CREATE TABLE countersign.event (
        session BIGINT NOT NULL,
        seq     BIGINT NOT NULL,
        line    TEXT   NOT NULL,
        digest  BYTEA  NOT NULL,
        PRIMARY KEY (session, seq)
    );

    -- place: 0 in `bytes`; 1 in the blob named by the commitment, whose bytes are salt || payload; 2 dropped.
    CREATE TABLE countersign.payload (
        session    BIGINT NOT NULL,
        seq        BIGINT NOT NULL,
        name       TEXT COLLATE \"C\" NOT NULL,
        place      BIGINT NOT NULL CHECK (place IN (0, 1, 2)),
        commitment BYTEA  NOT NULL,
        salt       BYTEA,
        bytes      BYTEA,
        PRIMARY KEY (session, seq, name)
    );
    CREATE INDEX payload_in_blob ON countersign.payload (commitment) WHERE place = 1;

    CREATE TABLE countersign.outbox (
        id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session BIGINT NOT NULL,
        seq     BIGINT NOT NULL,
        topic   TEXT   NOT NULL,
        body    TEXT   NOT NULL
    );
"];

/// Brings the database up to the last of `steps`, or refuses it: [`StoreError::Newer`], [`StoreError::Corrupt`] for
/// another program's, [`StoreError::Unsuitable`] where acknowledged events could be lost or not be written.
pub(crate) async fn migrate(inner: &Inner, steps: &[&str]) -> Result<(), StoreError> {
    let supported = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let connection = client(&inner.pool, &inner.database).await?;
    check_server(inner, &connection).await?;
    // Most starts end here, also for a user who may not make tables.
    if version(inner, &connection).await? == Some(supported) {
        return Ok(());
    }
    let tx = Transaction::on(connection);
    tx.client().batch_execute(BEGIN).await.map_err(|e| server(&e))?;
    let lock = tx.client().execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await;
    lock.map_err(|e| server(&e))?;
    let result = async {
        let found = version(inner, tx.client()).await?;
        if found.is_some_and(|found| found > supported) {
            let path = inner.database.clone().into();
            return Err(StoreError::Newer { path, found: found.unwrap_or_default(), supported });
        }
        if found.is_none() {
            begin_schema(inner, tx.client()).await?;
        }
        let done = usize::try_from(found.unwrap_or(0)).unwrap_or(0);
        for (index, step) in steps.iter().enumerate().skip(done) {
            tx.client().batch_execute(step).await.map_err(|e| server(&e))?;
            let number = i64::try_from(index + 1).unwrap_or(i64::MAX);
            let sql = "INSERT INTO countersign.migration (version) VALUES ($1)";
            tx.client().execute(sql, &[&number]).await.map_err(|e| server(&e))?;
        }
        Ok(())
    }
    .await;
    match result {
        // Lost in the commit: the next start finds it done or does it again.
        Ok(()) => {
            let committed = tx.client().batch_execute(COMMIT).await;
            tx.ended(Ok(()), committed).map_err(|e| server(&e))
        }
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// None: this database has no table of ours.
async fn version(inner: &Inner, connection: &Object) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT coalesce(max(version), 0) FROM countersign.migration";
    // Not `to_regclass`: it may remember what was before the lock was waited for.
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = 'countersign' AND c.relname = 'migration')";
    let there = connection.query_one(there, &[]).await;
    let there: bool = there.and_then(|row| row.try_get(0)).map_err(|e| fault::server(&inner.database, &e))?;
    if !there {
        return Ok(None);
    }
    let row = connection.query_one(sql, &[]).await;
    row.and_then(|row| row.try_get(0)).map(Some).map_err(|e| fault::server(&inner.database, &e))
}

async fn begin_schema(inner: &Inner, connection: &Object) -> Result<(), StoreError> {
    let sql = "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = 'countersign'";
    let others = connection.query_one(sql, &[]).await.and_then(|row| row.try_get::<_, i64>(0));
    if others.map_err(|e| fault::server(&inner.database, &e))? > 0 {
        return Err(fault::damaged(
            &inner.database,
            "its schema `countersign` holds another program's tables",
        ));
    }
    // Made beforehand by somebody who may, for a user who may not.
    let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'countersign')";
    let there = connection.query_one(there, &[]).await.and_then(|row| row.try_get::<_, bool>(0));
    if !there.map_err(|e| fault::server(&inner.database, &e))? {
        connection.batch_execute("CREATE SCHEMA countersign").await.map_err(|e| match e.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::Unsuitable {
                database: inner.database.clone(),
                what: "its user may not make the schema: `CREATE SCHEMA countersign AUTHORIZATION <user>` by its owner"
                    .into(),
            },
            _ => fault::server(&inner.database, &e),
        })?;
    }
    let table = "CREATE TABLE countersign.migration (
        version    BIGINT PRIMARY KEY,
        applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
    )";
    connection.batch_execute(table).await.map_err(|e| fault::server(&inner.database, &e))
}

async fn check_server(inner: &Inner, connection: &Object) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('fsync'), current_setting('server_encoding')";
    let row = connection.query_one(sql, &[]).await;
    let settings = row.and_then(|row| Ok((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?)));
    let (fsync, encoding) = settings.map_err(|e| fault::server(&inner.database, &e))?;
    let unsuitable = |what: String| Err(StoreError::Unsuitable { database: inner.database.clone(), what });
    if fsync != "on" {
        return unsuitable(
            "its server runs with `fsync = off` and loses what it acknowledged: turn it on".into(),
        );
    }
    if encoding != "UTF8" {
        return unsuitable(format!(
            "its encoding is {encoding}: make one with `ENCODING 'UTF8' TEMPLATE template0`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use countersign_testkit::postgres::Server;

    use super::*;
    use crate::Options;
    use crate::store::PostgresStore;

    /// Migrates as a program would that knows these steps.
    fn start(url: &str, blobs: &std::path::Path, steps: &'static [&'static str]) -> Result<(), StoreError> {
        PostgresStore::open_with(url, blobs, Options::default(), steps).map(drop)
    }

    const ONE: &[&str] = &["CREATE TABLE countersign.a (n INT)"];
    const TWO: &[&str] =
        &[ONE[0], "INSERT INTO countersign.a VALUES (2); CREATE TABLE countersign.b (n INT)"];
    const BROKEN: &[&str] = &[TWO[0], TWO[1], "CREATE TABLE countersign.c (n INT); SELECT nothing"];

    #[test]
    fn older_schemas_are_migrated_newer_ones_refused_and_starters_stand_in_line() {
        let server = match Server::start(&[]) {
            Ok(server) => server,
            Err(why) => {
                eprintln!(
                    "SKIPPED: older_schemas_are_migrated_newer_ones_refused_and_starters_stand_in_line: {why}"
                );
                return;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let url = server.database("one").unwrap();
        let versions = || server.sql("one", "SELECT version FROM countersign.migration ORDER BY 1").unwrap();
        start(&url, dir.path(), ONE).unwrap();
        assert_eq!(versions(), "1");
        // An older database is brought up, once, by however many start at a time.
        std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| start(&url, dir.path(), TWO))).collect();
            starts.into_iter().for_each(|start| start.join().unwrap().unwrap());
        });
        assert_eq!(versions(), "1\n2");
        assert_eq!(server.sql("one", "SELECT count(*) FROM countersign.a").unwrap(), "1");
        // A step that fails leaves nothing.
        let result = start(&url, dir.path(), BROKEN);
        assert!(matches!(result, Err(StoreError::Server { .. })), "{result:?}");
        assert_eq!(versions(), "1\n2");
        assert_eq!(server.sql("one", "SELECT to_regclass('countersign.c') IS NULL").unwrap(), "t");
        // A program that knows less keeps away.
        let result = start(&url, dir.path(), ONE);
        let Err(StoreError::Newer { found: 2, supported: 1, .. }) = result else { panic!("{result:?}") };

        // Fresh, by several at once, with the steps that are released.
        let url = server.database("fresh").unwrap();
        std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..8).map(|_| scope.spawn(|| start(&url, dir.path(), MIGRATIONS))).collect();
            starts.into_iter().for_each(|start| start.join().unwrap().unwrap());
        });
        // Another program's tables are left alone.
        let url = server.database("theirs").unwrap();
        server.sql("theirs", "CREATE SCHEMA countersign; CREATE TABLE countersign.t (n int)").unwrap();
        let result = start(&url, dir.path(), MIGRATIONS);
        assert!(matches!(result, Err(StoreError::Corrupt { .. })), "{result:?}");
        assert_eq!(server.sql("theirs", "SELECT to_regclass('countersign.migration') IS NULL").unwrap(), "t");
        // No such database, and one whose text is another's.
        let result = start(&server.url("none"), dir.path(), MIGRATIONS);
        assert!(matches!(result, Err(StoreError::Unsuitable { .. })), "{result:?}");
        let latin = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
        server.sql("postgres", latin).unwrap();
        let result = start(&server.url("latin"), dir.path(), MIGRATIONS);
        assert!(matches!(&result, Err(StoreError::Unsuitable { what, .. }) if what.contains("LATIN1")));
    }

    #[test]
    fn a_server_that_may_lose_commits_is_refused() {
        let server = match Server::start(&["fsync = off"]) {
            Ok(server) => server,
            Err(why) => {
                eprintln!("SKIPPED: a_server_that_may_lose_commits_is_refused: {why}");
                return;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let result = start(&server.database("one").unwrap(), dir.path(), MIGRATIONS);
        assert!(matches!(&result, Err(StoreError::Unsuitable { what, .. }) if what.contains("fsync")));
    }
}
