//! The suite of every store, on a real PostgreSQL of the test's own.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::server;
use countersign_store::conformance::{Fixture, run_all};
use countersign_store::{KnownKinds, Store};
use countersign_store_postgres::{Options, PostgresStore};
use countersign_testkit::postgres::Server;

/// A database of the server and a directory of blobs.
struct Postgres<'a> {
    server: &'a Server,
    database: String,
    url: String,
    blobs: tempfile::TempDir,
}

impl Postgres<'_> {
    fn with(&self, options: Options) -> Arc<dyn Store> {
        let options = Options { connections: 4, ..options };
        Arc::new(PostgresStore::open(&self.url, self.blobs.path(), options).unwrap())
    }
}

impl Fixture for Postgres<'_> {
    fn open(&self, known: KnownKinds) -> Arc<dyn Store> {
        self.with(Options { known, ..Options::default() })
    }

    fn leasing_for(&self, term: Duration) -> Option<Arc<dyn Store>> {
        Some(self.with(Options { lease_term: term, ..Options::default() }))
    }

    /// The server's clock is the machine's, so what it is compared with is moved back instead.
    fn pass(&self, time: Duration) {
        let sql = format!(
            "UPDATE countersign.session SET lease_until = lease_until - interval '{} microseconds'",
            time.as_micros()
        );
        self.server.sql(&self.database, &sql).unwrap();
    }
}

#[test]
fn postgresql_conforms() {
    let Some(server) = server("postgresql_conforms") else { return };
    let count = AtomicU64::new(0);
    run_all(|| {
        let database = format!("fixture_{}", count.fetch_add(1, Ordering::Relaxed));
        let url = server.database(&database).unwrap();
        Postgres { server: &server, database, url, blobs: tempfile::tempdir().unwrap() }
    });
}
