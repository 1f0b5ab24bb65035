//! The behaviour that every [`Store`] must have, as checks that panic with what they saw. An implementation runs
//! [`run_all`] in its tests.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed check is a panic")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use countersign_types::{Digest, Millis, PrincipalId, SessionId, TenantId};
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::{
    Append, Appended, Authority, Fence, KnownKinds, Lease, ListFilter, MAX_EVENTS_PER_APPEND,
    MAX_INLINE_PAYLOAD, NewEvent, NewPayload, NewSession, OutboxItem, Store, StoreError,
};

/// One content that several handles look at, as several processes look at one home.
pub trait Fixture {
    /// A further handle that knows these kinds of events.
    fn open(&self, known: KnownKinds) -> Arc<dyn Store>;

    /// A further handle whose leases last so long by the store's clock. None: a lease here lasts as long as its holder.
    fn leasing_for(&self, term: Duration) -> Option<Arc<dyn Store>>;

    /// Lets the store's clock go on by so much. Called only where leases end by it.
    fn pass(&self, time: Duration);

    /// A further handle that knows all kinds.
    fn store(&self) -> Arc<dyn Store> {
        self.open(KnownKinds::all())
    }
}

/// How long a lease lasts where it ends by the store's clock: no test's own slowness comes near it.
const TERM: Duration = Duration::from_secs(3_600);

/// Within this a lease that was dropped can be taken by others.
const SOON: Duration = Duration::from_secs(20);

type Check = fn(&dyn Fixture);

/// Every check with its name. Each gets an empty fixture of its own.
pub const ALL: &[(&str, Check)] = &[
    ("sequence_numbers_are_dense_and_chained", sequence_numbers_are_dense_and_chained),
    ("a_session_begins_with_its_events_or_not_at_all", a_session_begins_with_its_events_or_not_at_all),
    ("a_moved_session_refuses_the_append", a_moved_session_refuses_the_append),
    ("a_zombie_changes_nothing", a_zombie_changes_nothing),
    ("outsiders_append_without_a_lease", outsiders_append_without_a_lease),
    ("a_lease_is_exclusive_and_ends_with_its_holder", a_lease_is_exclusive_and_ends_with_its_holder),
    (
        "of_two_drivers_one_drives_and_the_other_is_told_who",
        of_two_drivers_one_drives_and_the_other_is_told_who,
    ),
    ("a_lease_ends_by_the_stores_clock", a_lease_ends_by_the_stores_clock),
    (
        "a_lease_that_ended_gives_nothing_to_its_late_holder",
        a_lease_that_ended_gives_nothing_to_its_late_holder,
    ),
    ("a_zombie_among_outsiders_and_its_successor", a_zombie_among_outsiders_and_its_successor),
    ("payloads_come_back_and_are_committed_to", payloads_come_back_and_are_committed_to),
    ("a_dropped_payload_leaves_the_chain_whole", a_dropped_payload_leaves_the_chain_whole),
    (
        "dropping_one_of_two_equal_payloads_keeps_the_other",
        dropping_one_of_two_equal_payloads_keeps_the_other,
    ),
    ("unknown_kinds_make_a_session_read_only", unknown_kinds_make_a_session_read_only),
    ("lists_are_newest_first", lists_are_newest_first),
    ("pages_join_without_gap", pages_join_without_gap),
    ("outbox_items_stand_and_fall_with_their_commit", outbox_items_stand_and_fall_with_their_commit),
    ("broken_appends_are_refused_whole", broken_appends_are_refused_whole),
    ("what_is_not_there_is_named", what_is_not_there_is_named),
    ("blobs_come_back", blobs_come_back),
    ("concurrent_appenders_lose_nothing", concurrent_appenders_lose_nothing),
];

/// Runs every check on a fresh fixture; panics in the first that fails.
pub fn run_all<F: Fixture>(make: impl Fn() -> F) {
    for (name, check) in ALL {
        let fixture = make();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&fixture)));
        if let Err(cause) = result {
            let what = cause.downcast_ref::<String>().cloned();
            let what = what.or_else(|| cause.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            panic!("conformance check `{name}`: {}", what.unwrap_or_default());
        }
    }
}

/// A session id from a literal.
#[must_use]
pub fn session_id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

/// A session of the command line's tenant and principal, made at `at` milliseconds.
#[must_use]
pub fn new_session(id: &str, at: u64) -> NewSession {
    NewSession {
        id: session_id(id),
        tenant: TenantId::new("local").unwrap(),
        principal: PrincipalId::new("cli").unwrap(),
        at: Millis(at),
    }
}

/// An event with one number as its data.
#[must_use]
pub fn event(kind: &str, n: u64) -> NewEvent {
    NewEvent { kind: kind.into(), data: json!({ "n": n }), payloads: Vec::new() }
}

/// An append by an outsider.
#[must_use]
pub fn append(id: &str, expected_seq: u64, events: Vec<NewEvent>) -> Append {
    Append {
        session: session_id(id),
        expected_seq,
        authority: outsider(),
        at: Millis(1_000).saturating_add(Millis(expected_seq)),
        events,
        summary: None,
        outbox: Vec::new(),
    }
}

fn outsider() -> Authority {
    Authority::External(PrincipalId::new("cli").unwrap())
}

fn with_lease(fence: Fence, append: Append) -> Append {
    Append { authority: Authority::Lease(fence), ..append }
}

fn payload(name: &str, salt: u8, bytes: Vec<u8>) -> NewPayload {
    NewPayload { name: name.into(), salt: [salt; 16], bytes }
}

fn create(store: &dyn Store, id: &str) {
    block_on(store.create(new_session(id, 1))).unwrap();
}

fn must_append(store: &dyn Store, append: Append) -> Appended {
    block_on(store.append(append)).unwrap()
}

#[track_caller]
fn state(store: &dyn Store, id: &str) -> (u64, Digest) {
    let loaded = block_on(store.load(&session_id(id))).unwrap();
    assert_eq!(loaded.events.len() as u64, loaded.seq);
    (loaded.seq, loaded.head)
}

fn a_session_begins_with_its_events_or_not_at_all(fixture: &dyn Fixture) {
    let store = fixture.store();
    let begin = |id: &str, append: Append| block_on(store.begin(new_session(id, 1), append));
    let begun = begin("a", append("a", 0, vec![event("k.one", 1), event("k.two", 2)])).unwrap();
    assert_eq!(state(&*store, "a"), (begun.seq, begun.head));
    assert_eq!(begun.seq, 2);
    let taken = begin("a", append("a", 0, vec![event("k.one", 1)]));
    assert!(matches!(taken, Err(StoreError::SessionExists(_))), "{taken:?}");
    assert_eq!(state(&*store, "a"), (begun.seq, begun.head), "the one that is there is as it was");
    for (what, wrong) in [
        ("no events", append("b", 0, Vec::new())),
        ("another session's events", append("a", 2, vec![event("k.one", 1)])),
        ("events of later", append("b", 1, vec![event("k.one", 1)])),
    ] {
        assert!(begin("b", wrong).is_err(), "{what}");
        let missing = block_on(store.session(&session_id("b")));
        assert!(matches!(missing, Err(StoreError::NoSuchSession(_))), "{what}: {missing:?}");
    }
}

fn sequence_numbers_are_dense_and_chained(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let (zero, genesis) = state(&*store, "a");
    assert_eq!(zero, 0);
    let mut ends = vec![must_append(&*store, append("a", 0, vec![event("k.one", 1)]))];
    ends.push(must_append(&*store, append("a", 1, vec![event("k.two", 2), event("k.one", 3)])));
    ends.push(must_append(&*store, append("a", 3, vec![event("k.one", 4)])));
    let loaded = block_on(fixture.store().load(&session_id("a"))).unwrap();
    let mut prev = genesis;
    for (index, event) in loaded.events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1);
        assert_eq!(event.data, json!({ "n": event.seq }));
        assert_eq!(event.authority, Some(outsider()));
        assert_eq!(event.digest, Digest::of(event.line.as_bytes()));
        let line: Value = serde_json::from_str(&event.line).unwrap();
        assert_eq!(line["prev"], json!(prev));
        assert_eq!(countersign_types::canonical_json(&line).unwrap(), event.line.as_bytes());
        prev = event.digest;
    }
    assert_eq!((loaded.seq, loaded.head), (4, prev));
    assert_eq!(ends.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!(ends[2].head, prev);
    assert!(!loaded.read_only);
    // The same events in another session have another chain.
    create(&*store, "b");
    assert_ne!(must_append(&*store, append("b", 0, vec![event("k.one", 1)])).head, loaded.events[0].digest);
}

fn a_moved_session_refuses_the_append(fixture: &dyn Fixture) {
    let (one, two) = (fixture.store(), fixture.store());
    create(&*one, "a");
    must_append(&*one, append("a", 0, vec![event("k", 1)]));
    let before = state(&*one, "a");
    for expected in [0, 2, u64::MAX] {
        let result = block_on(two.append(append("a", expected, vec![event("k", 2)])));
        let Err(StoreError::Moved { actual: 1, .. }) = result else { panic!("{result:?}") };
    }
    assert_eq!(state(&*one, "a"), before);
}

fn a_zombie_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let id = session_id("a");
    let old = block_on(store.acquire(&id, "one")).unwrap();
    must_append(&*store, with_lease(old.fence, append("a", 0, vec![event("k", 1)])));
    let zombie = old.fence;
    block_on(old.release()).unwrap();
    let new = block_on(store.acquire(&id, "two")).unwrap();
    assert!(new.fence > zombie);
    let before = (state(&*store, "a"), block_on(store.session(&id)).unwrap());
    let late = Append {
        summary: Some(json!("late")),
        outbox: vec![OutboxItem { topic: "t".into(), body: Value::Null }],
        ..with_lease(zombie, append("a", 1, vec![event("k", 2)]))
    };
    let result = block_on(store.append(late));
    let Err(StoreError::Fenced { current, presented, .. }) = result else { panic!("{result:?}") };
    assert_eq!((current, presented), (new.fence, zombie));
    // It must learn that it is fenced also when the session moved on: a zombie that reloads would go on for ever.
    must_append(&*store, with_lease(new.fence, append("a", 1, vec![event("k", 2)])));
    let result = block_on(store.append(with_lease(zombie, append("a", 1, vec![event("k", 3)]))));
    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
    assert_eq!(state(&*store, "a").0, before.0.0 + 1);
    assert_eq!(block_on(store.session(&id)).unwrap().summary, before.1.summary);
    assert!(block_on(store.outbox(10)).unwrap().is_empty());
    // Nobody's fence and one from the future are no leases.
    for fence in [Fence(0), Fence(new.fence.0 + 1)] {
        let result = block_on(store.append(with_lease(fence, append("a", 2, vec![event("k", 3)]))));
        assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
    }
}

fn outsiders_append_without_a_lease(fixture: &dyn Fixture) {
    let (store, other) = (fixture.store(), fixture.store());
    create(&*store, "a");
    let lease = block_on(store.acquire(&session_id("a"), "runner")).unwrap();
    must_append(&*other, append("a", 0, vec![event("cancel", 1)]));
    // The holder goes on after it caught up.
    must_append(&*store, with_lease(lease.fence, append("a", 1, vec![event("k", 2)])));
    let events = block_on(store.load(&session_id("a"))).unwrap().events;
    assert_eq!(events[0].authority, Some(outsider()));
    assert_eq!(events[1].authority, Some(lease.authority()));
}

fn a_lease_is_exclusive_and_ends_with_its_holder(fixture: &dyn Fixture) {
    let (one, two) = (fixture.store(), fixture.store());
    create(&*one, "a");
    create(&*one, "b");
    let (a, b) = (session_id("a"), session_id("b"));
    let lease = block_on(one.acquire(&a, "pid 1 on box")).unwrap();
    for store in [&one, &two] {
        let result = block_on(store.acquire(&a, "me"));
        let Err(StoreError::LeaseHeld { holder, .. }) = result else { panic!("{result:?}") };
        assert_eq!(holder, "pid 1 on box");
    }
    block_on(two.acquire(&b, "me")).unwrap();
    let first = lease.fence;
    block_on(lease.release()).unwrap();
    let next = block_on(two.acquire(&a, "me")).unwrap();
    assert_eq!(next.fence, Fence(first.0 + 1));
    block_on(next.renew()).unwrap();
    // Dropped without waiting it ends too, soon.
    drop(next);
    assert_eq!(acquire_soon(&*one, "a", "her").fence, Fence(first.0 + 2));
}

/// Takes a lease that is just being given back.
fn acquire_soon(store: &dyn Store, id: &str, holder: &str) -> Lease {
    let start = std::time::Instant::now();
    loop {
        match block_on(store.acquire(&session_id(id), holder)) {
            Ok(lease) => return lease,
            Err(StoreError::LeaseHeld { .. }) if start.elapsed() < SOON => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Drivers that start at the same moment, each with a handle of its own as another machine has.
fn of_two_drivers_one_drives_and_the_other_is_told_who(fixture: &dyn Fixture) {
    const ROUNDS: u64 = 10;
    create(&*fixture.store(), "a");
    let id = session_id("a");
    let drivers = [("driver 0", fixture.store()), ("driver 1", fixture.store())];
    let mut seq = 0;
    for round in 1..=ROUNDS {
        let barrier = Barrier::new(drivers.len());
        let results: Vec<_> = std::thread::scope(|scope| {
            let tries: Vec<_> = drivers
                .iter()
                .map(|(name, store)| {
                    let (barrier, id) = (&barrier, &id);
                    scope.spawn(move || {
                        barrier.wait();
                        block_on(store.acquire(id, name))
                    })
                })
                .collect();
            tries.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let winner = results.iter().position(Result::is_ok).unwrap_or_else(|| panic!("{results:?}"));
        let mut results = results.into_iter();
        let (zero, one) = (results.next().unwrap(), results.next().unwrap());
        let (lease, refusal) = if winner == 0 { (zero, one) } else { (one, zero) };
        let Err(StoreError::LeaseHeld { holder, session }) = refusal else {
            panic!("round {round}: {refusal:?}")
        };
        // Where the other had it a moment ago, its name may stand there for as long as the winner's is written.
        assert!(drivers.iter().any(|(name, _)| holder == *name) || holder == "another process", "{holder}");
        assert_eq!(session, id);
        // Asked once more when the winner has it for certain, the loser is told its name.
        let again = block_on(drivers[1 - winner].1.acquire(&id, "late"));
        let Err(StoreError::LeaseHeld { holder, .. }) = again else { panic!("{again:?}") };
        assert_eq!(holder, drivers[winner].0);
        let lease = lease.unwrap();
        assert_eq!(lease.fence, Fence(round));
        let mine = with_lease(lease.fence, append("a", seq, vec![event("k", round)]));
        seq = must_append(&*drivers[winner].1, mine).seq;
        block_on(lease.release()).unwrap();
    }
    assert_eq!(state(&*fixture.store(), "a").0, ROUNDS);
}

fn a_lease_ends_by_the_stores_clock(fixture: &dyn Fixture) {
    let other = fixture.store();
    create(&*other, "a");
    let id = session_id("a");
    let Some(store) = fixture.leasing_for(TERM) else {
        let lease = block_on(other.acquire(&id, "one")).unwrap();
        assert_eq!(lease.term(), None);
        block_on(lease.renew()).unwrap();
        return;
    };
    let lease = block_on(store.acquire(&id, "one")).unwrap();
    assert_eq!(lease.term(), Some(TERM));
    let held = || {
        let result = block_on(other.acquire(&id, "two"));
        let Err(StoreError::LeaseHeld { holder, .. }) = result else { panic!("{result:?}") };
        assert_eq!(holder, "one");
    };
    // Most of its term, then most of the next: only a renewal carries it so far.
    fixture.pass(TERM * 3 / 4);
    held();
    block_on(lease.renew()).unwrap();
    fixture.pass(TERM * 3 / 4);
    held();
    fixture.pass(TERM / 2);
    let next = block_on(other.acquire(&id, "two")).unwrap();
    assert_eq!(next.fence, Fence(lease.fence.0 + 1));
    drop(lease);
}

fn a_lease_that_ended_gives_nothing_to_its_late_holder(fixture: &dyn Fixture) {
    let Some(store) = fixture.leasing_for(TERM) else { return };
    let other = fixture.leasing_for(TERM * 100).unwrap();
    create(&*store, "a");
    let id = session_id("a");
    let late = block_on(store.acquire(&id, "one")).unwrap();
    must_append(&*store, with_lease(late.fence, append("a", 0, vec![event("k", 1)])));
    // Nobody took it: what it appends and renews still stands.
    fixture.pass(TERM * 2);
    must_append(&*store, with_lease(late.fence, append("a", 1, vec![event("k", 2)])));
    block_on(late.renew()).unwrap();
    assert!(matches!(block_on(other.acquire(&id, "two")), Err(StoreError::LeaseHeld { .. })));
    fixture.pass(TERM * 2);
    let next = block_on(other.acquire(&id, "two")).unwrap();
    let zombie = late.fence;
    let result = block_on(late.renew());
    let Err(StoreError::Fenced { presented, current, .. }) = result else { panic!("{result:?}") };
    assert_eq!((presented, current), (zombie, next.fence));
    let result = block_on(store.append(with_lease(zombie, append("a", 2, vec![event("k", 3)]))));
    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
    // Giving back what one no longer has takes nothing from who has it.
    block_on(late.release()).unwrap();
    assert!(matches!(block_on(store.acquire(&id, "one")), Err(StoreError::LeaseHeld { .. })));
    must_append(&*other, with_lease(next.fence, append("a", 2, vec![event("k", 3)])));
    assert_eq!(state(&*store, "a").0, 3);
}

/// A zombie that never stops trying, outsiders, and the driver that took over, all at once on one session.
fn a_zombie_among_outsiders_and_its_successor(fixture: &dyn Fixture) {
    const APPENDS: u64 = 20;
    let store = fixture.store();
    create(&*store, "a");
    let id = session_id("a");
    let old = block_on(store.acquire(&id, "one")).unwrap();
    let zombie = old.authority();
    block_on(old.release()).unwrap();
    let new = block_on(store.acquire(&id, "two")).unwrap();
    let done = AtomicBool::new(false);
    let stood = std::thread::scope(|scope| {
        let zombie = scope.spawn({
            let (store, zombie, done) = (fixture.store(), &zombie, &done);
            move || {
                let mut tries = 0;
                while tries == 0 || !done.load(Ordering::Relaxed) {
                    tries += 1;
                    let seq = block_on(store.session(&session_id("a"))).unwrap().seq;
                    let late =
                        Append { authority: zombie.clone(), ..append("a", seq, vec![event("zombie", 1)]) };
                    let result = block_on(store.append(late));
                    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
                }
                tries
            }
        });
        let writers: Vec<_> = [new.authority(), outsider(), outsider()]
            .into_iter()
            .map(|authority| {
                let store = fixture.store();
                scope.spawn(move || append_with_retries(&*store, &authority, 0, APPENDS))
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Before a writer's failure is passed on: the zombie would go on for ever.
        done.store(true, Ordering::Relaxed);
        let stood: Vec<u64> = ended.into_iter().flat_map(|writer| writer.unwrap()).collect();
        assert!(zombie.join().unwrap() > 0);
        stood
    });
    let mut sorted = stood;
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=3 * APPENDS).collect::<Vec<_>>());
    let loaded = block_on(store.load(&id)).unwrap();
    assert_eq!(loaded.seq, 3 * APPENDS);
    assert!(loaded.events.iter().all(|e| e.kind == "k" && e.authority != Some(zombie.clone())));
    let by_driver = loaded.events.iter().filter(|e| e.authority == Some(new.authority())).count();
    assert_eq!(by_driver as u64, APPENDS);
}

fn payloads_come_back_and_are_committed_to(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let sizes = [0, 1, MAX_INLINE_PAYLOAD, MAX_INLINE_PAYLOAD + 1, 300_000];
    let bytes = |len: usize| (0..len).map(|i| (i % 251) as u8).collect::<Vec<u8>>();
    let payloads = sizes.iter().map(|len| payload(&format!("p{len}"), 7, bytes(*len))).collect();
    let both = vec![event("k", 1), NewEvent { kind: "k".into(), data: json!({}), payloads }];
    must_append(&*store, append("a", 0, both));
    let reader = fixture.store();
    let id = session_id("a");
    let stored = block_on(reader.load(&id)).unwrap().events.remove(1);
    assert_eq!(stored.payloads.len(), sizes.len());
    for len in sizes {
        let name = format!("p{len}");
        assert_eq!(block_on(reader.payload(&id, 2, &name)).unwrap(), bytes(len), "{name}");
        let revealed = block_on(reader.reveal(&id, 2, &name)).unwrap();
        assert_eq!((revealed.salt, revealed.bytes), (vec![7; 16], bytes(len)), "{name}");
        let promised = stored.payloads[&name];
        assert_eq!(promised.len, len as u64);
        assert_eq!(promised.commitment, Digest::of(&[&[7_u8; 16][..], &bytes(len)].concat()), "{name}");
    }
}

fn a_dropped_payload_leaves_the_chain_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let payloads =
        vec![payload("small", 1, b"text".to_vec()), payload("large", 2, vec![5; MAX_INLINE_PAYLOAD + 1])];
    must_append(&*store, append("a", 0, vec![NewEvent { kind: "k".into(), data: json!({}), payloads }]));
    let before = state(&*store, "a");
    let id = session_id("a");
    for name in ["small", "large"] {
        // Twice: a drop that was cut short is done again.
        for _ in 0..2 {
            block_on(store.drop_payload(&id, 1, name)).unwrap();
            let result = block_on(fixture.store().payload(&id, 1, name));
            assert!(matches!(result, Err(StoreError::PayloadDropped { .. })), "{result:?}");
        }
    }
    assert_eq!(state(&*fixture.store(), "a"), before);
    must_append(&*store, append("a", 1, vec![event("k", 2)]));
    assert_eq!(state(&*fixture.store(), "a").0, 2);
}

fn dropping_one_of_two_equal_payloads_keeps_the_other(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let bytes = vec![9; MAX_INLINE_PAYLOAD * 2];
    let payloads = vec![payload("x", 3, bytes.clone()), payload("y", 3, bytes.clone())];
    must_append(&*store, append("a", 0, vec![NewEvent { kind: "k".into(), data: json!({}), payloads }]));
    let id = session_id("a");
    block_on(store.drop_payload(&id, 1, "x")).unwrap();
    assert_eq!(block_on(store.payload(&id, 1, "y")).unwrap(), bytes);
    block_on(store.drop_payload(&id, 1, "x")).unwrap();
    assert_eq!(block_on(store.payload(&id, 1, "y")).unwrap(), bytes);
}

fn unknown_kinds_make_a_session_read_only(fixture: &dyn Fixture) {
    let newer = fixture.store();
    create(&*newer, "a");
    create(&*newer, "b");
    must_append(&*newer, append("a", 0, vec![event("old", 1), event("brand-new", 2)]));
    let older = fixture.open(KnownKinds::new(|kind| kind == "old"));
    let loaded = block_on(older.load(&session_id("a"))).unwrap();
    assert!(loaded.read_only);
    assert_eq!(loaded.unknown, ["brand-new@1"]);
    assert_eq!(loaded.events.len(), 2);
    let result = block_on(older.append(append("a", 2, vec![event("old", 3)])));
    let Err(StoreError::ReadOnlySession { unknown, .. }) = result else { panic!("{result:?}") };
    assert_eq!(unknown, ["brand-new@1"]);
    // Other sessions go on, and it cannot make itself read-only.
    must_append(&*older, append("b", 0, vec![event("old", 1)]));
    let result = block_on(older.append(append("b", 1, vec![event("brand-new", 2)])));
    assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
    assert_eq!(state(&*newer, "a").0, 2);
}

fn lists_are_newest_first(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert!(block_on(store.sessions(ListFilter::default())).unwrap().is_empty());
    for (id, at) in [("b", 20), ("a", 10), ("d", 20), ("c", 30)] {
        block_on(store.create(new_session(id, at))).unwrap();
    }
    let other = NewSession { tenant: TenantId::new("other").unwrap(), ..new_session("e", 5) };
    block_on(store.create(other)).unwrap();
    // An append changes the row and not the order.
    must_append(
        &*store,
        Append { summary: Some(json!({ "s": 1.5 })), ..append("a", 0, vec![event("k", 1)]) },
    );
    let list = |filter: ListFilter| -> Vec<String> {
        block_on(store.sessions(filter)).unwrap().iter().map(|row| row.id.to_string()).collect()
    };
    assert_eq!(list(ListFilter::default()), ["c", "d", "b", "a", "e"]);
    let page = ListFilter { limit: 2, ..ListFilter::default() };
    assert_eq!(list(page.clone()), ["c", "d"]);
    assert_eq!(list(ListFilter { after: Some(session_id("d")), ..page }), ["b", "a"]);
    assert_eq!(list(ListFilter { after: Some(session_id("e")), ..ListFilter::default() }), [""; 0]);
    let tenant = TenantId::new("other").unwrap();
    assert_eq!(list(ListFilter { tenant: Some(tenant), ..ListFilter::default() }), ["e"]);
    let row = block_on(store.session(&session_id("a"))).unwrap();
    assert_eq!((row.created_at, row.updated_at, row.seq), (Millis(10), Millis(1_000), 1));
    assert_eq!(row.summary, json!({ "s": 1.5 }));
    assert_eq!(block_on(store.session(&session_id("b"))).unwrap().summary, Value::Null);
    // None keeps what is there.
    must_append(&*store, append("a", 1, vec![event("k", 2)]));
    assert_eq!(block_on(store.session(&session_id("a"))).unwrap().summary, json!({ "s": 1.5 }));
}

fn pages_join_without_gap(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    must_append(&*store, append("a", 0, (1..=10).map(|n| event("k", n)).collect()));
    let all = block_on(store.load(&session_id("a"))).unwrap().events;
    let mut joined = Vec::new();
    loop {
        let page = block_on(store.events(&session_id("a"), joined.len() as u64, 3)).unwrap();
        assert_eq!(page.seq, 10);
        if page.events.is_empty() {
            break;
        }
        joined.extend(page.events);
    }
    assert_eq!(joined, all);
    for after in [10, 11, u64::MAX] {
        assert!(block_on(store.events(&session_id("a"), after, 3)).unwrap().events.is_empty());
    }
}

fn outbox_items_stand_and_fall_with_their_commit(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let item = |topic: &str| OutboxItem { topic: topic.into(), body: json!({ "to": topic }) };
    let first = Append { outbox: vec![item("one"), item("two")], ..append("a", 0, vec![event("k", 1)]) };
    must_append(&*store, first.clone());
    assert!(block_on(store.append(first)).is_err());
    let rows = block_on(fixture.store().outbox(10)).unwrap();
    let topics: Vec<_> = rows.iter().map(|row| (row.topic.as_str(), row.seq)).collect();
    assert_eq!(topics, [("one", 1), ("two", 1)]);
    assert_eq!(block_on(store.outbox(1)).unwrap(), rows[..1]);
    for row in &rows {
        block_on(store.outbox_done(row.id)).unwrap();
        block_on(store.outbox_done(row.id)).unwrap();
    }
    assert!(block_on(store.outbox(10)).unwrap().is_empty());
    // A confirmed number is never given to a later item.
    must_append(&*store, Append { outbox: vec![item("three")], ..append("a", 1, vec![event("k", 2)]) });
    let next = block_on(store.outbox(10)).unwrap();
    assert!(next[0].id > rows[1].id);
}

fn broken_appends_are_refused_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    create(&*store, "a");
    let with = |kind: &str, data: Value, names: &[&str]| NewEvent {
        kind: kind.into(),
        data,
        payloads: names.iter().map(|name| payload(name, 1, vec![1])).collect(),
    };
    let bad_events = [
        with("", json!({}), &[]),
        with("K", json!({}), &[]),
        with("a b", json!({}), &[]),
        with("a\n", json!({}), &[]),
        with(&"k".repeat(65), json!({}), &[]),
        with("k", json!({ "cost": 0.5 }), &[]),
        with("k", json!("x".repeat(crate::MAX_LINE)), &[]),
        with("k", json!({}), &["../p"]),
        with("k", json!({}), &["p", "p"]),
    ];
    let mut bad: Vec<Append> =
        bad_events.into_iter().map(|e| append("a", 0, vec![event("k", 1), e])).collect();
    bad.push(append("a", 0, Vec::new()));
    bad.push(append("a", 0, vec![event("k", 1); MAX_EVENTS_PER_APPEND + 1]));
    let topic = OutboxItem { topic: "No".into(), body: Value::Null };
    bad.push(Append { outbox: vec![topic], ..append("a", 0, vec![event("k", 1)]) });
    for append in bad {
        let result = block_on(store.append(append));
        assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
    }
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let deep = |depth| with("k", nested(depth), &[]);
    let topic = |depth| OutboxItem { topic: "t".into(), body: nested(depth) };
    for append in [
        append("a", 0, vec![deep(65)]),
        Append { summary: Some(nested(65)), ..append("a", 0, vec![event("k", 1)]) },
        Append { summary: Some(json!("x".repeat(crate::MAX_LINE))), ..append("a", 0, vec![event("k", 1)]) },
        Append { outbox: vec![topic(65)], ..append("a", 0, vec![event("k", 1)]) },
    ] {
        let result = block_on(store.append(append));
        assert!(matches!(result, Err(StoreError::Invalid(_))), "{result:?}");
    }
    assert_eq!(state(&*store, "a").0, 0);
    // What is taken can be read again.
    create(&*store, "deep");
    let append_deep = append("deep", 0, vec![deep(64)]);
    must_append(&*store, Append { summary: Some(nested(64)), outbox: vec![topic(64)], ..append_deep });
    assert_eq!(state(&*store, "deep").0, 1);
    assert_eq!(block_on(store.session(&session_id("deep"))).unwrap().summary, nested(64));
    assert_eq!(block_on(store.outbox(1)).unwrap()[0].body, nested(64));
    let most = must_append(&*store, append("a", 0, vec![event("k", 1); MAX_EVENTS_PER_APPEND]));
    assert_eq!(most.seq, MAX_EVENTS_PER_APPEND as u64);
}

fn what_is_not_there_is_named(fixture: &dyn Fixture) {
    let store = fixture.store();
    let none = session_id("none");
    let results = [
        block_on(store.append(append("none", 0, vec![event("k", 1)]))).map(drop),
        block_on(store.load(&none)).map(drop),
        block_on(store.events(&none, 0, 1)).map(drop),
        block_on(store.payload(&none, 1, "p")).map(drop),
        block_on(store.drop_payload(&none, 1, "p")),
        block_on(store.session(&none)).map(drop),
        block_on(store.acquire(&none, "me")).map(drop),
        block_on(store.sessions(ListFilter { after: Some(none.clone()), ..ListFilter::default() })).map(drop),
    ];
    for result in results {
        assert!(matches!(&result, Err(StoreError::NoSuchSession(id)) if *id == none), "{result:?}");
    }
    create(&*store, "a");
    let again = block_on(store.create(new_session("a", 99)));
    assert!(matches!(again, Err(StoreError::SessionExists(_))), "{again:?}");
    must_append(&*store, append("a", 0, vec![event("k", 1)]));
    for seq in [0, 1, 2, u64::MAX] {
        let id = session_id("a");
        for result in
            [block_on(store.payload(&id, seq, "p")).map(drop), block_on(store.drop_payload(&id, seq, "p"))]
        {
            assert!(matches!(result, Err(StoreError::NoSuchPayload { .. })), "{seq}: {result:?}");
        }
    }
    let result = block_on(store.get_blob(&Digest::of(b"nothing")));
    assert!(matches!(result, Err(StoreError::NoSuchBlob(_))), "{result:?}");
    block_on(store.outbox_done(4711)).unwrap();
}

fn blobs_come_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    for bytes in [Vec::new(), b"x".to_vec(), vec![7; 1_000_000]] {
        let digest = block_on(store.put_blob(bytes.clone())).unwrap();
        assert_eq!(digest, Digest::of(&bytes));
        assert_eq!(block_on(store.put_blob(bytes.clone())).unwrap(), digest);
        assert_eq!(block_on(fixture.store().get_blob(&digest)).unwrap(), bytes);
    }
}

/// Threads with a handle each, all on one session, each retrying when it moved.
fn concurrent_appenders_lose_nothing(fixture: &dyn Fixture) {
    const THREADS: u64 = 4;
    const APPENDS: u64 = 25;
    create(&*fixture.store(), "a");
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|worker| {
                let store = fixture.store();
                scope.spawn(move || append_with_retries(&*store, &outsider(), worker, APPENDS))
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let mut sorted = acknowledged.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=THREADS * APPENDS).collect::<Vec<_>>());
    assert_eq!(state(&*fixture.store(), "a").0, THREADS * APPENDS);
}

fn append_with_retries(store: &dyn Store, authority: &Authority, worker: u64, appends: u64) -> Vec<u64> {
    let mut seq = 0;
    let mut acknowledged = Vec::new();
    while (acknowledged.len() as u64) < appends {
        let new = Append { authority: authority.clone(), ..append("a", seq, vec![event("k", worker)]) };
        match block_on(store.append(new)) {
            Ok(end) => {
                acknowledged.push(end.seq);
                seq = end.seq;
            }
            Err(StoreError::Moved { actual, .. }) => seq = actual,
            Err(other) => panic!("{other}"),
        }
    }
    acknowledged
}
