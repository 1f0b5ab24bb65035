//! Connections and servers that go away at any moment: what was acknowledged stands, and nobody is told what is not so.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a panic")]

mod common;
#[path = "common/proxy.rs"]
mod proxy;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::server;
use countersign_store::conformance::{append, event, new_session, session_id};
use countersign_store::{Fence, NewEvent, NewPayload, Store, StoreError};
use countersign_store_postgres::{Options, PostgresStore};
use countersign_testkit::postgres::Server;
use countersign_types::Digest;
use futures::StreamExt as _;
use futures::executor::block_on;
use proxy::{Fault, Proxy};
use serde_json::json;

/// Everything that is waited for here comes within this.
const SOON: Duration = Duration::from_secs(30);

struct Home {
    url: String,
    blobs: tempfile::TempDir,
}

impl Home {
    fn new(server: &Server) -> Self {
        Self { url: server.database("one").unwrap(), blobs: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> PostgresStore {
        self.with(&self.url, Options::default())
    }

    fn with(&self, url: &str, options: Options) -> PostgresStore {
        PostgresStore::open(url, self.blobs.path(), options).unwrap()
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_looked_for() {
    let Some(server) = server("a_commit_whose_answer_is_lost_is_looked_for") else { return };
    let home = Home::new(&server);
    let direct = home.open();
    block_on(direct.create(new_session("a", 1))).unwrap();
    // A commit that takes a while: the server works on when its client is gone.
    server
        .sql(
            "one",
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN IF NEW.line LIKE '%\"slow\"%' THEN PERFORM pg_sleep(1); END IF; RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON countersign.event
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
        )
        .unwrap();
    let proxy = Proxy::start(&server.socket_dir());
    let url = Server::url_at(&proxy.socket_dir(), "one");
    let patience = Duration::from_millis(500);
    let store = home.with(&url, Options { look_again: SOON, ..Options::default() });
    let impatient = home.with(&url, Options { look_again: patience, ..Options::default() });
    let seq = || block_on(direct.load(&session_id("a"))).unwrap().seq;

    let end = block_on(store.append(append("a", 0, vec![event("k", 1)]))).unwrap();
    assert_eq!((end.seq, seq()), (1, 1));
    proxy.set(Fault::AfterCommit);
    let end = block_on(store.append(append("a", 1, vec![event("k", 2)]))).unwrap();
    assert_eq!((end.seq, seq()), (2, 2));
    proxy.set(Fault::WhileCommitting);
    let end = block_on(store.append(append("a", 2, vec![event("slow", 3)]))).unwrap();
    assert_eq!((end.seq, seq()), (3, 3));
    // Not made is never "moved", and may be done again.
    proxy.set(Fault::BeforeCommit);
    let result = block_on(store.append(append("a", 3, vec![event("k", 4)])));
    assert!(matches!(result, Err(StoreError::Unreachable { .. })), "{result:?}");
    assert_eq!(seq(), 3);
    block_on(store.append(append("a", 3, vec![event("k", 4)]))).unwrap();
    // Nobody there to ask: said to be unknown, and found by loading once somebody is.
    proxy.set(Fault::AfterCommitForGood);
    let result = block_on(impatient.append(append("a", 4, vec![event("k", 5)])));
    let Err(StoreError::CommitUnknown { session, .. }) = result else { panic!("{result:?}") };
    assert_eq!(session, session_id("a"));
    let result = block_on(impatient.load(&session_id("a")));
    assert!(matches!(result, Err(StoreError::Unreachable { .. })), "{result:?}");
    proxy.set(Fault::None);
    assert_eq!(block_on(impatient.load(&session_id("a"))).unwrap().seq, 5);
    let loaded = block_on(direct.load(&session_id("a"))).unwrap();
    assert_eq!(loaded.events.last().map(|e| e.data.clone()), Some(json!({ "n": 5 })));
}

/// Appends to one session until the server is gone; gives what was acknowledged. Another writer may have had its five
/// before this one began, so that the server is gone before the first append.
fn append_until_lost(store: &PostgresStore, started: &mpsc::Sender<()>) -> Vec<(u64, Digest)> {
    let mut acknowledged = Vec::new();
    let mut seq = match block_on(store.load(&session_id("a"))) {
        Ok(loaded) => loaded.seq,
        Err(StoreError::Unreachable { .. }) => return acknowledged,
        Err(other) => panic!("{other}"),
    };
    loop {
        let payload = NewPayload { name: "p".into(), salt: [7; 16], bytes: vec![seq as u8; 500] };
        let new = NewEvent { kind: "k".into(), data: json!({}), payloads: vec![payload] };
        match block_on(store.append(append("a", seq, vec![new]))) {
            Ok(end) => {
                acknowledged.push((end.seq, end.head));
                seq = end.seq;
                if acknowledged.len() == 5 {
                    let _ = started.send(());
                }
            }
            Err(StoreError::Moved { actual, .. }) => seq = actual,
            Err(StoreError::Unreachable { .. } | StoreError::CommitUnknown { .. }) => return acknowledged,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_server_that_dies_and_the_store_goes_on() {
    const NAME: &str = "what_was_acknowledged_survives_a_server_that_dies_and_the_store_goes_on";
    const ROUNDS: usize = 3;
    const WRITERS: usize = 4;
    let Some(mut server) = server(NAME) else { return };
    let home = Home::new(&server);
    let patience = Duration::from_millis(100);
    let stores: Vec<PostgresStore> = (0..WRITERS)
        .map(|_| home.with(&home.url, Options { look_again: patience, connections: 4, ..Options::default() }))
        .collect();
    block_on(stores[0].create(new_session("a", 1))).unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            let (started, wait) = mpsc::channel();
            let writers: Vec<_> = stores
                .iter()
                .map(|store| {
                    let started = started.clone();
                    scope.spawn(move || append_until_lost(store, &started))
                })
                .collect();
            drop(started);
            wait.recv().unwrap();
            server.crash();
            acknowledged.extend(writers.into_iter().flat_map(|writer| writer.join().unwrap()));
        });
        server.launch().unwrap();
        let loaded = block_on(stores[round].load(&session_id("a"))).unwrap();
        for (seq, head) in &acknowledged {
            let index = usize::try_from(*seq).unwrap() - 1;
            assert_eq!(loaded.events.get(index).map(|e| e.digest), Some(*head), "round {round}, event {seq}");
        }
        block_on(stores[round].payload(&session_id("a"), loaded.seq, "p")).unwrap();
    }
    assert!(acknowledged.len() >= ROUNDS * 5);
}

#[test]
fn a_lease_ends_by_the_servers_clock_and_not_by_its_holders() {
    const NAME: &str = "a_lease_ends_by_the_servers_clock_and_not_by_its_holders";
    let Some(server) = server(NAME) else { return };
    let home = Home::new(&server);
    let short = Options { lease_term: Duration::from_millis(300), ..Options::default() };
    let (store, other) = (home.with(&home.url, short), home.open());
    block_on(store.create(new_session("a", 1))).unwrap();
    let id = session_id("a");
    let lease = block_on(store.acquire(&id, "one")).unwrap();
    let start = Instant::now();
    let next = loop {
        match block_on(other.acquire(&id, "two")) {
            Ok(next) => break next,
            Err(StoreError::LeaseHeld { holder, .. }) => assert_eq!(holder, "one"),
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < SOON);
    };
    assert_eq!(next.fence, Fence(lease.fence.0 + 1));
    // A store that is dropped gives its leases back with it.
    drop((other, next));
    drop(lease);
    assert_eq!(block_on(store.acquire(&id, "three")).unwrap().fence, Fence(3));
}

#[test]
fn a_watcher_elsewhere_is_told_which_session_changed() {
    let Some(server) = server("a_watcher_elsewhere_is_told_which_session_changed") else { return };
    let home = Home::new(&server);
    let (store, watcher) = (home.open(), home.open());
    block_on(store.create(new_session("a", 1))).unwrap();
    let (told, tell) = mpsc::channel();
    let mut hints = watcher.hints();
    std::thread::spawn(move || told.send(block_on(hints.next())));
    let start = Instant::now();
    // From when on it listens is up to it.
    for seq in 0.. {
        block_on(store.append(append("a", seq, vec![event("k", seq)]))).unwrap();
        match tell.recv_timeout(Duration::from_millis(50)) {
            Ok(hint) => {
                assert_eq!(hint, Some(session_id("a")));
                break;
            }
            Err(_) => assert!(start.elapsed() < SOON, "no hint came"),
        }
    }
}

#[test]
fn what_was_changed_in_the_database_is_named() {
    let Some(server) = server("what_was_changed_in_the_database_is_named") else { return };
    let home = Home::new(&server);
    let store = home.open();
    let id = session_id("a");
    block_on(store.create(new_session("a", 1))).unwrap();
    let payload = NewPayload { name: "p".into(), salt: [7; 16], bytes: b"text".to_vec() };
    let with = NewEvent { kind: "k".into(), data: json!({}), payloads: vec![payload] };
    block_on(store.append(append("a", 0, vec![event("k", 1), with, event("k", 3)]))).unwrap();
    server.sql("one", "UPDATE countersign.payload SET bytes = 'next'").unwrap();
    let result = block_on(store.payload(&id, 2, "p"));
    assert!(matches!(result, Err(StoreError::PayloadDamaged { .. })), "{result:?}");
    let bad = |sql: &str, expected: u64| {
        server.sql("one", &format!("CREATE TABLE copy AS SELECT * FROM countersign.event; {sql}")).unwrap();
        let result = block_on(store.load(&id));
        let Err(StoreError::BadChain { seq, .. }) = result else { panic!("{sql}: {result:?}") };
        assert_eq!(seq, expected, "{sql}");
        let back = "DELETE FROM countersign.event; INSERT INTO countersign.event SELECT * FROM copy; DROP TABLE copy";
        server.sql("one", back).unwrap();
    };
    bad("UPDATE countersign.event SET line = replace(line, '\"n\":1', '\"n\":2') WHERE seq = 1", 1);
    bad("DELETE FROM countersign.event WHERE seq = 2", 2);
    bad("DELETE FROM countersign.event WHERE seq = 3", 3);
    bad(
        "UPDATE countersign.event SET line = replace(line, '\"n\":1', '\"n\":2') WHERE seq = 1; \
         UPDATE countersign.event SET digest = sha256(line::bytea) WHERE seq = 1",
        2,
    );
    assert_eq!(block_on(store.load(&id)).unwrap().seq, 3);
}
