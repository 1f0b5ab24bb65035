//! Measures the redactor on text that looks like a build log:
//! `cargo run --release -p countersign-redact --example bench_redact -- [KEYS] [MIB]`. Prints one JSON object.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program for developers")]

use std::time::Instant;

use countersign_redact::Redactor;
use serde_json::json;

const KEY_BYTES: u32 = 48;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().unwrap());
    let (keys, mib) = (args.next().unwrap_or(3), args.next().unwrap_or(100));
    let letter = |n: u32| b'0' + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 74;
    let values: Vec<Vec<u8>> =
        (0..keys).map(|k| (0..KEY_BYTES).map(|i| letter(k * 1_000 + i)).collect()).collect();
    let start = Instant::now();
    let redactor = Redactor::new(values.clone());
    let build = start.elapsed();

    let mut chunk = Vec::new();
    while chunk.len() < 64 * 1024 {
        chunk.extend_from_slice(
            b"   Compiling serde_json v1.0.154 (/home/agent/.cache/a1b2c3d4e5f60718)\nwarning: 0x7f\n",
        );
    }
    if let Some(value) = values.first() {
        chunk.extend_from_slice(value);
    }
    let start = Instant::now();
    let mut stream = redactor.stream();
    let (mut out, mut read, mut written) = (Vec::new(), 0, 0);
    while read < mib as usize * 1024 * 1024 {
        stream.push(&chunk, &mut out);
        read += chunk.len();
        written += out.len();
        out.clear();
    }
    stream.finish(&mut out);
    let seconds = start.elapsed().as_secs_f64();
    let speed = read as f64 / seconds / 1e6;
    println!(
        "{}",
        json!({ "keys": keys, "build_us": build.as_micros() as u64, "mb_per_s": speed, "written": written })
    );
}
