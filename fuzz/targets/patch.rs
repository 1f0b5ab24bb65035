//! `patch.diff`, read and applied to contents that may be anything. A sink's bound holds.
#![no_main]

use countersign_proof::patch::{Patch, Sink};
use libfuzzer_sys::fuzz_target;

/// Bytes of one result.
const LIMIT: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    // What stands before the first header serves as the contents.
    let at = bytes.windows(11).position(|part| part == b"diff --git ").unwrap_or(0);
    let (before, patch) = bytes.split_at(at);
    let Ok(patch) = Patch::parse(patch) else { return };
    for change in &patch.files {
        for before in [before, b"".as_slice()] {
            let mut sink = Sink::keeping(LIMIT);
            if change.apply(before, &mut sink).is_ok() {
                let (_, size, _) = sink.finish();
                assert!(size <= LIMIT);
            }
        }
    }
});
