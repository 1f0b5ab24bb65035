//! Journals of released formats: what was written once is read with the same head for ever, and format 1 is written
//! byte for byte as it was. `fixtures/home-1` is a home that `write` made when format 1 was new; never make it anew.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a panic")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::open;
use countersign_store::conformance::session_id;
use countersign_store::{
    Append, Authority, MAX_INLINE_PAYLOAD, MemoryStore, NewEvent, NewPayload, NewSession, OutboxItem, Store,
    StoreError,
};
use countersign_types::{Digest, Millis, PrincipalId, TenantId};
use futures::executor::block_on;
use serde_json::json;

const HEAD_1: &str = "sha256:eb64bf0909e34431589653ebed930445b53c41643d0cc6574239344fb2715941";

const BLOB_1: &str = "09e84cd9734f1075f9107f80c3af837b0ad22784132236263fe11a75f20077cd";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// One session with everything that format 1 has: both authorities, payloads in the database, in a file and dropped.
fn write(store: &dyn Store) -> Digest {
    let id = session_id("s-20261130-golden");
    let principal = PrincipalId::new("cli").unwrap();
    let session = NewSession {
        id: id.clone(),
        tenant: TenantId::new("local").unwrap(),
        principal: principal.clone(),
        at: Millis(1),
    };
    block_on(store.create(session)).unwrap();
    let payload =
        |name: &str, salt, bytes: Vec<u8>| NewPayload { name: name.into(), salt: [salt; 16], bytes };
    let submitted = NewEvent {
        kind: "session.submitted".into(),
        data: json!({ "limits": { "turns": 7, "usd": null }, "trust": "reviewed", "list": [true, -1, "\u{e9}\n"] }),
        payloads: vec![
            payload("task", 1, "Fix the clock.\n".into()),
            payload("mail", 2, "gone@example.org".into()),
        ],
    };
    let first = Append {
        session: id.clone(),
        expected_seq: 0,
        authority: Authority::External(principal),
        at: Millis(1_764_460_800_000),
        events: vec![submitted],
        summary: Some(json!({ "state": "queued", "usd": 0.25 })),
        outbox: vec![OutboxItem { topic: "watch".into(), body: json!({ "seq": 1 }) }],
    };
    block_on(store.append(first)).unwrap();
    let lease = block_on(store.acquire(&id, "pid 1")).unwrap();
    let intended =
        NewEvent { kind: "effect.intended".into(), data: json!({ "id": "t1.s1.c0.r0" }), payloads: vec![] };
    let large = payload("response", 3, vec![b'.'; MAX_INLINE_PAYLOAD + 1]);
    let completed = NewEvent { kind: "effect.completed".into(), data: json!({}), payloads: vec![large] };
    let second = Append {
        session: id.clone(),
        expected_seq: 1,
        authority: lease.authority(),
        at: Millis(1_764_460_801_000),
        events: vec![intended, completed],
        summary: None,
        outbox: Vec::new(),
    };
    let end = block_on(store.append(second)).unwrap();
    block_on(store.drop_payload(&id, 1, "mail")).unwrap();
    end.head
}

fn lines(store: &dyn Store) -> String {
    let events = block_on(store.load(&session_id("s-20261130-golden"))).unwrap().events;
    events.iter().map(|event| format!("{}\n", event.line)).collect()
}

fn check(store: &dyn Store) {
    let id = session_id("s-20261130-golden");
    let loaded = block_on(store.load(&id)).unwrap();
    assert_eq!((loaded.seq, loaded.head.to_string().as_str()), (3, HEAD_1));
    assert!(!loaded.read_only);
    assert_eq!(lines(store), fs::read_to_string(fixture("journal-1.ndjson")).unwrap());
    assert_eq!(block_on(store.payload(&id, 1, "task")).unwrap(), b"Fix the clock.\n");
    assert_eq!(block_on(store.payload(&id, 3, "response")).unwrap().len(), MAX_INLINE_PAYLOAD + 1);
    let gone = block_on(store.payload(&id, 1, "mail"));
    assert!(matches!(gone, Err(StoreError::PayloadDropped { .. })), "{gone:?}");
    assert_eq!(loaded.session.summary, json!({ "state": "queued", "usd": 0.25 }));
    assert_eq!(block_on(store.outbox(9)).unwrap().len(), 1);
}

#[test]
fn format_1_is_written_as_it_always_was() {
    let memory = MemoryStore::new();
    write(&memory);
    check(&memory);
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    write(&store);
    check(&store);
}

#[test]
fn a_home_of_format_1_is_read_and_continued() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("blobs")).unwrap();
    for name in ["countersign.db", &format!("blobs/{BLOB_1}")] {
        fs::copy(fixture("home-1").join(name), home.path().join(name)).unwrap();
    }
    let store = open(home.path());
    check(&store);
    let id = session_id("s-20261130-golden");
    let lease = block_on(store.acquire(&id, "me")).unwrap();
    assert_eq!(lease.fence.0, 2);
    let next = Append {
        session: id,
        expected_seq: 3,
        authority: lease.authority(),
        at: Millis(2),
        events: vec![NewEvent { kind: "k".into(), data: json!({}), payloads: Vec::new() }],
        summary: None,
        outbox: Vec::new(),
    };
    assert_eq!(block_on(store.append(next)).unwrap().seq, 4);
}
