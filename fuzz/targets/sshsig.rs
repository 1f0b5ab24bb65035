//! `SHA256SUMS.sig`: an armored SSH signature.
#![no_main]

use countersign_proof::sshsig;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = sshsig::verify(bytes, b"sums\n");
});
