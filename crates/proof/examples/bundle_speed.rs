//! How fast a large bundle is verified, beside `sha256sum` over the same bytes, in one run:
//!
//! `cargo run --release -p countersign-proof --example bundle_speed -- 200 [binary]` (MB; needs git and sha256sum)
//!
//! By default nearly all of it are contents before the change; with `binary` it is a patch of new binary files, which
//! has to be decoded and inflated besides.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement for people, which ends where it fails"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use countersign_tree::EntryMode;
use support::fixture::{Fixture, files_of, verify_it};
use support::{Files, Repo};

const ROUNDS: u32 = 7;

/// Source-like text of a given length.
fn text(seed: u32, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 64);
    let mut state = seed;
    while out.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        out.extend_from_slice(format!("    let value_{} = compute({state});\n", state >> 20).as_bytes());
    }
    out
}

/// Nothing that could be deflated.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|at| if at == 0 { 0 } else { next() }).collect()
}

fn best(mut round: impl FnMut()) -> Duration {
    let timed = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed()
    });
    timed.min().unwrap()
}

fn main() {
    let megabytes: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let binary = std::env::args().nth(2).is_some_and(|kind| kind == "binary");
    let (mut base, mut last) = (Files::new(), Files::new());
    // Nine tenths are large files; the rest is a result with a long answer.
    for n in 0..megabytes * 9 / 10 * 1_000_000 / 500_000 {
        let path = format!("src/file_{n}").into_bytes();
        if binary {
            last.insert(path, (EntryMode::File, noise(n as u32, 400_000)));
            continue;
        }
        let before = text(n as u32, 500_000);
        let mut after = before.clone();
        let middle = 250_000 + before[250_000..].iter().position(|b| *b == b'\n').unwrap() + 1;
        after.splice(middle..middle, *b"    // changed\n");
        base.insert(path.clone(), (EntryMode::File, before));
        last.insert(path, (EntryMode::File, after));
    }
    let patch = Repo::new().diff(&base, &last);
    let dir = tempfile::tempdir().unwrap();
    let result_more = (megabytes * 100_000).min(30_000_000);
    let bundle = Fixture { base, last, patch, result_more, ..Fixture::default() }.write(dir.path());
    let paths: Vec<String> = files_of(&bundle.path).into_keys().collect();
    println!("{} files, {} bytes", bundle.files, bundle.bytes);

    let ours = best(|| assert!(verify_it(&bundle.path).accepted()));
    let theirs = best(|| {
        let output = Command::new("sha256sum").current_dir(&bundle.path).args(&paths).output().unwrap();
        assert!(output.status.success());
    });
    let rate = |time: Duration| bundle.bytes as f64 / 1e6 / time.as_secs_f64();
    println!("verify     {:>8.0} MB/s", rate(ours));
    println!("sha256sum  {:>8.0} MB/s", rate(theirs));
    println!("ratio      {:>8.2} (the design asks for 0.7)", theirs.as_secs_f64() / ours.as_secs_f64());
}
