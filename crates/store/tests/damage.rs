//! What a disk, another program or an intruder can do to a home is found and named.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a panic")]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use common::open;
use countersign_store::conformance::{append, event, new_session, session_id};
use countersign_store::{MAX_INLINE_PAYLOAD, NewEvent, NewPayload, Options, SqliteStore, Store, StoreError};
use countersign_types::Digest;
use futures::executor::block_on;
use rusqlite::Connection;
use serde_json::json;

/// A home with session `a` of five events, closed again.
fn home_with_five_events() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    block_on(store.create(new_session("a", 1))).unwrap();
    for n in 1..=5 {
        block_on(store.append(append("a", n - 1, vec![event("k", n)]))).unwrap();
    }
    home
}

fn database(home: &Path) -> std::path::PathBuf {
    home.join("countersign.db")
}

fn sql(home: &Path, statements: &str) {
    Connection::open(database(home)).unwrap().execute_batch(statements).unwrap();
}

/// The event that loading names as the first bad one.
#[track_caller]
fn first_bad(home: &Path) -> u64 {
    match block_on(open(home).load(&session_id("a"))) {
        Err(StoreError::BadChain { seq, .. }) => seq,
        other => panic!("{other:?}"),
    }
}

fn rewritten_line(home: &Path, seq: i64) -> (String, Digest) {
    let conn = Connection::open(database(home)).unwrap();
    let line: String =
        conn.query_row("SELECT line FROM event WHERE seq = ?1", [seq], |row| row.get(0)).unwrap();
    let line = line.replace("\"n\":", "\"n\":9");
    let digest = Digest::of(line.as_bytes());
    (line, digest)
}

#[test]
fn a_byte_flipped_in_the_file_is_named() {
    let home = home_with_five_events();
    let mut bytes = fs::read(database(home.path())).unwrap();
    let needle = b"\"n\":3";
    let at = bytes.windows(needle.len()).position(|w| w == needle).unwrap();
    bytes[at + 4] ^= 1;
    fs::write(database(home.path()), bytes).unwrap();
    assert_eq!(first_bad(home.path()), 3);
    let page = block_on(open(home.path()).events(&session_id("a"), 2, 1));
    assert!(matches!(page, Err(StoreError::BadChain { seq: 3, .. })), "{page:?}");
    assert_eq!(block_on(open(home.path()).events(&session_id("a"), 3, 9)).unwrap().events.len(), 2);
}

#[test]
fn every_way_of_changing_a_journal_names_the_event() {
    let cases: [(&str, u64); 8] = [
        ("UPDATE event SET line = line || ' ' WHERE seq = 1", 1),
        ("UPDATE event SET line = CAST(x'ff00' AS TEXT) WHERE seq = 2", 2),
        ("UPDATE event SET digest = zeroblob(32) WHERE seq = 4", 4),
        ("UPDATE event SET digest = x'00' WHERE seq = 5", 5),
        ("DELETE FROM event WHERE seq = 1", 1),
        ("DELETE FROM event WHERE seq = 3", 3),
        ("DELETE FROM event WHERE seq = 5", 5),
        ("UPDATE session SET head = zeroblob(32)", 5),
    ];
    for (statement, seq) in cases {
        let home = home_with_five_events();
        sql(home.path(), statement);
        assert_eq!(first_bad(home.path()), seq, "{statement}");
    }
}

#[test]
fn a_line_forged_with_its_digest_breaks_at_its_successor() {
    for (forged, named) in [(1, 2), (4, 5), (5, 5)] {
        let home = home_with_five_events();
        let (line, digest) = rewritten_line(home.path(), forged);
        let conn = Connection::open(database(home.path())).unwrap();
        let values = rusqlite::params![line, digest.as_bytes(), forged];
        conn.execute("UPDATE event SET line = ?1, digest = ?2 WHERE seq = ?3", values).unwrap();
        drop(conn);
        assert_eq!(first_bad(home.path()), named, "event {forged}");
    }
}

#[test]
fn a_line_of_another_session_does_not_fit() {
    let home = home_with_five_events();
    let store = open(home.path());
    block_on(store.create(new_session("b", 1))).unwrap();
    block_on(store.append(append("b", 0, vec![event("k", 1)]))).unwrap();
    drop(store);
    sql(
        home.path(),
        "UPDATE event SET (line, digest) = (SELECT line, digest FROM event WHERE session = 2) \
         WHERE session = 1 AND seq = 1",
    );
    assert_eq!(first_bad(home.path()), 1);
}

#[test]
fn a_later_line_format_is_shown_and_read_only() {
    let home = home_with_five_events();
    let conn = Connection::open(database(home.path())).unwrap();
    let head: Vec<u8> = conn.query_row("SELECT head FROM session", [], |row| row.get(0)).unwrap();
    let prev = Digest::from_bytes(head.try_into().unwrap());
    let line = json!({ "v": 2, "session": "a", "seq": 6, "at": 9, "kind": "k", "prev": prev, "authority": [1], "new": 1 });
    let line = line.to_string();
    let digest = Digest::of(line.as_bytes());
    conn.execute("INSERT INTO event VALUES (1, 6, ?1, ?2)", rusqlite::params![line, digest.as_bytes()])
        .unwrap();
    let kinds = "k@1\nk@2";
    conn.execute(
        "UPDATE session SET seq = 6, head = ?1, kinds = ?2",
        rusqlite::params![digest.as_bytes(), kinds],
    )
    .unwrap();
    drop(conn);
    let store = open(home.path());
    let loaded = block_on(store.load(&session_id("a"))).unwrap();
    assert!(loaded.read_only);
    assert_eq!(loaded.unknown, ["k@2"]);
    assert_eq!((loaded.events[5].v, &loaded.events[5].authority), (2, &None));
    let refused = block_on(store.append(append("a", 6, vec![event("k", 1)])));
    assert!(matches!(refused, Err(StoreError::ReadOnlySession { .. })), "{refused:?}");
}

#[test]
fn payloads_that_changed_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = session_id("a");
    block_on(store.create(new_session("a", 1))).unwrap();
    let payload = |name: &str, len| NewPayload { name: name.into(), salt: [1; 16], bytes: vec![7; len] };
    let payloads = vec![payload("small", 5), payload("large", MAX_INLINE_PAYLOAD + 1)];
    let new = NewEvent { kind: "k".into(), data: json!({}), payloads };
    block_on(store.append(append("a", 0, vec![new]))).unwrap();
    let promised = block_on(store.load(&id)).unwrap().events[0].payloads["large"].commitment;
    let file = home.path().join("blobs").join(promised.hex());
    let damaged = |name: &str| {
        let result = block_on(store.payload(&id, 1, name));
        assert!(matches!(result, Err(StoreError::PayloadDamaged { .. })), "{result:?}");
    };
    fs::write(&file, b"torn").unwrap();
    damaged("large");
    fs::remove_file(&file).unwrap();
    damaged("large");
    sql(home.path(), "UPDATE payload SET bytes = x'00' WHERE name = 'small'");
    damaged("small");
    sql(home.path(), "UPDATE payload SET salt = zeroblob(16) WHERE name = 'small'");
    damaged("small");
    sql(home.path(), "DELETE FROM payload WHERE name = 'small'");
    damaged("small");
    block_on(store.load(&id)).unwrap();
}

#[test]
fn a_dropped_payload_is_on_no_page_and_in_no_file() {
    const TEXT: &[u8] = b"the name of a person who asked to be forgotten";
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = session_id("a");
    block_on(store.create(new_session("a", 1))).unwrap();
    let payload = |name: &str, bytes: Vec<u8>| NewPayload { name: name.into(), salt: [1; 16], bytes };
    let payloads = vec![payload("small", TEXT.to_vec()), payload("large", TEXT.repeat(1000))];
    let new = NewEvent { kind: "k".into(), data: json!({}), payloads };
    block_on(store.append(append("a", 0, vec![new]))).unwrap();
    let holds = || {
        let files =
            fs::read_dir(home.path()).unwrap().chain(fs::read_dir(home.path().join("blobs")).unwrap());
        let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        files.filter(|file| fs::read(file).unwrap().windows(TEXT.len()).any(|w| w == TEXT)).count()
    };
    assert_eq!(holds(), 2);
    block_on(store.drop_payload(&id, 1, "small")).unwrap();
    block_on(store.drop_payload(&id, 1, "large")).unwrap();
    assert_eq!(holds(), 0);
}

#[test]
fn a_torn_blob_is_found_and_healed() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let bytes = vec![3; 100_000];
    let digest = block_on(store.put_blob(bytes.clone())).unwrap();
    let file = home.path().join("blobs").join(digest.hex());
    for torn in [Vec::new(), bytes[..4096].to_vec(), vec![4; 100_000]] {
        fs::write(&file, torn).unwrap();
        let result = block_on(store.get_blob(&digest));
        assert!(matches!(result, Err(StoreError::BlobDamaged { .. })), "{result:?}");
        block_on(store.put_blob(bytes.clone())).unwrap();
        assert_eq!(block_on(store.get_blob(&digest)).unwrap(), bytes);
    }
}

#[test]
fn what_killed_writers_left_is_swept_and_what_living_ones_write_is_kept() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    let unfinished = home.path().join("blobs/unfinished");
    fs::write(unfinished.join("1-0"), b"half").unwrap();
    let living = File::create(unfinished.join("2-0")).unwrap();
    living.lock().unwrap();
    drop(open(home.path()));
    let left: Vec<_> = fs::read_dir(&unfinished).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["2-0"]);
}

#[test]
fn a_home_is_private() {
    let parent = tempfile::tempdir().unwrap();
    let home = parent.path().join("deep/home");
    let store = open(&home);
    block_on(store.create(new_session("a", 1))).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for dir in
        [home.clone(), home.join("blobs"), home.join("sessions"), store.home().session(&session_id("a"))]
    {
        assert_eq!(mode(&dir), 0o700, "{}", dir.display());
    }
    for file in fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

fn open_error(home: &Path) -> StoreError {
    SqliteStore::open(home, Options::default()).map(drop).unwrap_err()
}

#[test]
fn a_database_that_is_not_ours_or_not_whole_is_refused_and_left_alone() {
    let home = home_with_five_events();
    sql(home.path(), "PRAGMA user_version = 99");
    let before = fs::read(database(home.path())).unwrap();
    let error = open_error(home.path());
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("use the newer version"), "{error}");
    assert_eq!(fs::read(database(home.path())).unwrap(), before);

    let home = tempfile::tempdir().unwrap();
    sql(home.path(), "CREATE TABLE other (x); INSERT INTO other VALUES (1)");
    let error = open_error(home.path());
    assert!(
        matches!(&error, StoreError::Corrupt { detail, .. } if detail.contains("another program")),
        "{error:?}"
    );
    let rows: i64 = Connection::open(database(home.path()))
        .unwrap()
        .query_row("SELECT count(*) FROM other", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);

    let home = home_with_five_events();
    fs::write(database(home.path()), vec![b'x'; 8192]).unwrap();
    let error = open_error(home.path());
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");

    let home = home_with_five_events();
    let mut bytes = fs::read(database(home.path())).unwrap();
    bytes[4096..].fill(0xAA);
    fs::write(database(home.path()), bytes).unwrap();
    // The damage lies behind the header: opening may pass, reading may not.
    let error = match SqliteStore::open(home.path(), Options::default()) {
        Ok(store) => block_on(store.load(&session_id("a"))).map(drop).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");

    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), b"").unwrap();
    let error = open_error(&home.path().join("file"));
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
}

#[test]
fn a_writer_that_never_ends_is_reported_and_not_waited_for() {
    let home = home_with_five_events();
    let options = Options { queue_timeout: Duration::from_millis(20), ..Options::default() };
    let store = SqliteStore::open(home.path(), options).unwrap();
    let lock = File::open(home.path().join("writer.lock")).unwrap();
    lock.lock().unwrap();
    let result = block_on(store.append(append("a", 5, vec![event("k", 6)])));
    assert!(matches!(result, Err(StoreError::Busy { .. })), "{result:?}");
    // Readers do not queue.
    assert_eq!(block_on(store.load(&session_id("a"))).unwrap().seq, 5);
    lock.unlock().unwrap();
    drop(store);
    block_on(open(home.path()).append(append("a", 5, vec![event("k", 6)]))).unwrap();
}

#[test]
fn a_home_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let parent = tempfile::tempdir().unwrap();
    for name in [&b"a b"[..], b"file:x?mode=ro#y%20", b"line\nend", b"\xff\xfe", b"'quoted\""] {
        let home = parent.path().join(std::ffi::OsStr::from_bytes(name));
        let store = open(&home);
        block_on(store.create(new_session("a", 1))).unwrap();
        drop(store);
        assert!(database(&home).is_file());
        assert_eq!(block_on(open(&home).session(&session_id("a"))).unwrap().seq, 0);
    }
}
