//! Keys as text: an OpenSSH line or PEM; what is taken is written and read as the same key.
#![no_main]

use countersign_proof::{PublicKey, SecretKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(key) = PublicKey::read(text) {
        assert_eq!(PublicKey::read(&key.to_openssh()), Ok(key.clone()));
        assert_eq!(PublicKey::read(&key.to_pem()), Ok(key));
    }
    let _ = SecretKey::read(text);
});
