//! Eight processes append to one home at the same time, each to a session of its own, for as long as they are told:
//! `cargo run --release -p countersign-store --example bench_fairness -- [SECONDS] [DIR]`.
//!
//! Prints one JSON object; `ratio` is the slowest writer's appends over the fastest one's (the target is at least 0.6).
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program for developers")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use countersign_store::conformance::{append, event, new_session};
use countersign_store::{Options, SqliteStore, Store};
use futures::executor::block_on;
use serde_json::json;

const WRITERS: usize = 8;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, home, id, seconds] = args.as_slice()
        && role == "writer"
    {
        return write(Path::new(home), id, Duration::from_secs_f64(seconds.parse().unwrap()));
    }
    let seconds = args.first().map_or("5", String::as_str);
    let parent = args.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(parent).unwrap();
    let home = dir.path().join("home");
    drop(SqliteStore::open(&home, Options::default()).unwrap());
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let mut writer = Command::new(std::env::current_exe().unwrap());
            writer.arg("writer").arg(&home).args([&format!("w{n}"), seconds]);
            writer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut answers: Vec<_> =
        writers.iter_mut().map(|writer| BufReader::new(writer.stdout.take().unwrap())).collect();
    let mut line = String::new();
    // All are ready before any begins.
    answers.iter_mut().for_each(|ready| assert!(ready.read_line(&mut line).unwrap() > 0));
    writers.iter_mut().for_each(|writer| writer.stdin.take().unwrap().write_all(b"go\n").unwrap());
    let appends: Vec<u64> = answers
        .iter_mut()
        .map(|answer| {
            line.clear();
            answer.read_line(&mut line).unwrap();
            line.trim().parse().unwrap_or(0)
        })
        .collect();
    let failed = writers.into_iter().map(|mut w| w.wait().unwrap()).filter(|s| !s.success()).count();
    let (slowest, fastest) = (*appends.iter().min().unwrap(), *appends.iter().max().unwrap());
    let ratio = slowest as f64 / fastest as f64;
    println!("{}", json!({ "writers": WRITERS, "failed": failed, "appends": appends, "ratio": ratio }));
}

fn write(home: &Path, id: &str, time: Duration) {
    let store = SqliteStore::open(home, Options::default()).unwrap();
    block_on(store.create(new_session(id, 1))).unwrap();
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let start = Instant::now();
    let mut seq = 0;
    while start.elapsed() < time {
        seq = block_on(store.append(append(id, seq, vec![event("effect.completed", seq)]))).unwrap().seq;
    }
    println!("{seq}");
}
