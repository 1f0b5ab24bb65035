//! What the test files of this crate share.

use std::path::Path;

use countersign_store::{Options, SqliteStore};

pub fn open(home: &Path) -> SqliteStore {
    SqliteStore::open(home, Options::default()).unwrap()
}
