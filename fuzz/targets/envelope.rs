//! A signed statement's file: a Sigstore bundle with a DSSE envelope.
#![no_main]

use countersign_proof::{SecretKey, dsse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sealed) = dsse::open(bytes) {
        let key = SecretKey::from_seed(&[1; 32]).public();
        let _ = (sealed.names(&key), sealed.is_by(&key));
    }
});
