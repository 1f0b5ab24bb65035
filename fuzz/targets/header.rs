//! `bundle.json`, in one spelling only.
#![no_main]

use countersign_proof::bundle::Header;
use countersign_proof::read_exact;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_exact::<Header>(bytes);
});
