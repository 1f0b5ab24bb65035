//! The trust file; what is taken is written and read as the same.
#![no_main]

use countersign_proof::TrustFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(trust) = TrustFile::read(text) {
        let again = TrustFile::read(&trust.to_toml()).map(|again| again.to_toml());
        assert_eq!(again.ok(), Some(trust.to_toml()));
        let _ = trust.to_allowed_signers();
    }
});
