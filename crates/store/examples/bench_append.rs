//! Measures a durable append against the raw floor, interleaved in one run so that the disk's mood hits both:
//! `cargo run --release -p countersign-store --example bench_append -- [ROUNDS] [DIR]`.
//!
//! Prints one JSON object; `ratio` is raw time / store time (1.0 means no overhead; the target is at least 0.60).
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program for developers")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use countersign_store::conformance::{append, event, new_session, session_id};
use countersign_store::{Append, Options, OutboxItem, SqliteStore, Store};
use futures::executor::block_on;
use serde_json::json;

const LOADED_EVENTS: u64 = 10_000;
const GROUP: u64 = 16;

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: u64 = args.next().map_or(2_000, |rounds| rounds.parse().unwrap());
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(parent).unwrap();
    let store = SqliteStore::open(&dir.path().join("home"), Options::default()).unwrap();
    for id in ["one", "group"] {
        block_on(store.create(new_session(id, 1))).unwrap();
    }
    let mut file = OpenOptions::new().append(true).create(true).open(dir.path().join("raw")).unwrap();
    let (mut raw, mut raw_group) = (Vec::new(), Vec::new());
    let (mut one, mut group) = (Vec::new(), Vec::new());
    let line = vec![b'x'; 500];
    for n in 0..rounds {
        raw.push(time(|| write_synced(&mut file, &line)));
        let single = Append {
            summary: Some(json!({ "turn": 1, "state": "running", "seq": n })),
            outbox: vec![OutboxItem { topic: "watch".into(), body: json!({ "seq": n }) }],
            ..append("one", n, vec![event("effect.completed", n)])
        };
        one.push(time(|| _ = block_on(store.append(single)).unwrap()));
        raw_group.push(time(|| write_synced(&mut file, &line.repeat(GROUP as usize))));
        let many = append("group", n * GROUP, (0..GROUP).map(|k| event("effect.completed", k)).collect());
        group.push(time(|| _ = block_on(store.append(many)).unwrap()));
    }

    // Alone: each side after itself, as a disk that is busy with one of them only.
    let alone = rounds / 4;
    let (mut raw_alone, mut group_alone) = (Vec::new(), Vec::new());
    for _ in 0..alone {
        raw_alone.push(time(|| write_synced(&mut file, &line.repeat(GROUP as usize))));
    }
    for n in rounds..rounds + alone {
        let many = append("group", n * GROUP, (0..GROUP).map(|k| event("effect.completed", k)).collect());
        group_alone.push(time(|| _ = block_on(store.append(many)).unwrap()));
    }

    block_on(store.create(new_session("long", 1))).unwrap();
    for at in (0..LOADED_EVENTS).step_by(1_000) {
        let events = (0..1_000).map(|n| event("effect.completed", at + n)).collect();
        block_on(store.append(append("long", at, events))).unwrap();
    }
    let load = time(|| assert_eq!(block_on(store.load(&session_id("long"))).unwrap().seq, LOADED_EVENTS));

    drop(store);
    let home = dir.path().join("home");
    let open: Vec<_> =
        (0..20).map(|_| time(|| drop(SqliteStore::open(&home, Options::default()).unwrap()))).collect();

    let micros = |times: &[Duration]| mean(times).as_micros() as u64;
    println!(
        "{}",
        json!({
            "rounds": rounds,
            "raw_us": micros(&raw),
            "append_us": micros(&one),
            "ratio": mean(&raw).as_secs_f64() / mean(&one).as_secs_f64(),
            "raw_16_us": micros(&raw_group),
            "append_16_us": micros(&group),
            "ratio_16": mean(&raw_group).as_secs_f64() / mean(&group).as_secs_f64(),
            "ratio_16_alone": mean(&raw_alone).as_secs_f64() / mean(&group_alone).as_secs_f64(),
            "open_and_close_us": micros(&open),
            "load_10000_ms": load.as_millis() as u64,
        })
    );
}

fn write_synced(file: &mut std::fs::File, bytes: &[u8]) {
    file.write_all(bytes).unwrap();
    file.sync_data().unwrap();
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Without the slowest and fastest twentieth.
fn mean(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let cut = sorted.len() / 20;
    let middle = &sorted[cut..sorted.len() - cut];
    middle.iter().sum::<Duration>() / u32::try_from(middle.len()).unwrap()
}
