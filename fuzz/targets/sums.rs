//! `SHA256SUMS`: what is taken is what the writer would write.
#![no_main]

use countersign_proof::verify::read_sums;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sums) = read_sums(bytes) {
        let again: String = sums.iter().map(|(path, digest)| format!("{}  {path}\n", digest.hex())).collect();
        assert_eq!(again.as_bytes(), bytes);
    }
});
