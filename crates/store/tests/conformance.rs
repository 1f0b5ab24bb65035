//! Both implementations pass the suite.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

use std::sync::Arc;

use countersign_store::conformance::{Fixture, run_all};
use countersign_store::{KnownKinds, MemoryStore, Options, SqliteStore, Store};

struct Memory(MemoryStore);

impl Fixture for Memory {
    fn open(&self, known: KnownKinds) -> Arc<dyn Store> {
        Arc::new(self.0.knowing(known))
    }
}

struct Sqlite(tempfile::TempDir);

impl Fixture for Sqlite {
    fn open(&self, known: KnownKinds) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path(), Options { known, ..Options::default() }).unwrap())
    }
}

#[test]
fn memory_conforms() {
    run_all(|| Memory(MemoryStore::new()));
}

#[test]
fn sqlite_conforms() {
    run_all(|| Sqlite(tempfile::tempdir().unwrap()));
}
