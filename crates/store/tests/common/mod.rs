//! What the test files of this crate share.

use std::path::Path;

use countersign_store::{Options, SqliteStore, Store};
use futures::executor::block_on;

pub fn open(home: &Path) -> SqliteStore {
    SqliteStore::open(home, Options::default()).unwrap()
}

/// A home with session `a` of five events, closed again.
pub fn home_with_five_events() -> tempfile::TempDir {
    use countersign_store::conformance::{append, event, new_session};
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    block_on(store.create(new_session("a", 1))).unwrap();
    for n in 1..=5 {
        block_on(store.append(append("a", n - 1, vec![event("k", n)]))).unwrap();
    }
    home
}
