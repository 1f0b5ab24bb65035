//! Both implementations pass the suite.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

use std::sync::Arc;
use std::time::Duration;

use countersign_store::conformance::{Fixture, run_all};
use countersign_store::{KnownKinds, MemoryStore, Options, SqliteStore, Store};

struct Memory(MemoryStore);

impl Fixture for Memory {
    fn open(&self, known: KnownKinds) -> Arc<dyn Store> {
        Arc::new(self.0.knowing(known))
    }

    fn leasing_for(&self, term: Duration) -> Option<Arc<dyn Store>> {
        Some(Arc::new(self.0.leasing_for(term)))
    }

    fn pass(&self, time: Duration) {
        self.0.pass(time);
    }
}

struct Sqlite(tempfile::TempDir);

impl Fixture for Sqlite {
    fn open(&self, known: KnownKinds) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path(), Options { known, ..Options::default() }).unwrap())
    }

    /// A file's lock lasts as long as its holder.
    fn leasing_for(&self, _term: Duration) -> Option<Arc<dyn Store>> {
        None
    }

    fn pass(&self, _time: Duration) {}
}

#[test]
fn memory_conforms() {
    run_all(|| Memory(MemoryStore::new()));
}

#[test]
fn sqlite_conforms() {
    run_all(|| Sqlite(tempfile::tempdir().unwrap()));
}
