//! `result.json` and `config.json`: any JSON without a key twice.
#![no_main]

use countersign_proof::read_unique;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_unique::<serde_json::Value>(bytes);
});
