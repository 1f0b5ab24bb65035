//! The admission policy.
#![no_main]

use countersign_proof::verify::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Policy::read(text);
    }
});
