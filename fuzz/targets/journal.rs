//! `journal.jsonl`: where the chain ends does not depend on how its bytes come; and one payload against its line.
#![no_main]

use countersign_proof::journal::{Chain, check_reveal};
use countersign_types::SessionId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(session) = SessionId::new("s-20261130-fixture") else { return };
    let walk = |piece: usize| {
        let mut chain = Chain::new(&session);
        bytes.chunks(piece).try_for_each(|piece| chain.feed(piece)).and_then(|()| chain.finish())
    };
    assert_eq!(walk(bytes.len().max(1)).ok(), walk(7).ok());
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let _ = check_reveal(line, "input", &[7; 16], bytes);
});
