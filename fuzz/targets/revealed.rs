//! `revealed.json`: what is taken is written and read as the same, and fits only the line that it shows.
#![no_main]

use countersign_proof::Revealed;
use countersign_types::SessionId;
use libfuzzer_sys::fuzz_target;

/// Lines that stand before the event of a seed; a journal with more of them would only be slow.
const MOST: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Ok(shown) = Revealed::read(bytes) else { return };
    let Ok(text) = shown.to_json() else { return };
    let again = Revealed::read(text.as_bytes()).and_then(|again| again.to_json().map_err(|_| unreachable!()));
    assert_eq!(again.as_deref(), Ok(text.as_str()));
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { return };
    let Some(session) = value["session"].as_str().and_then(|id| SessionId::new(id).ok()) else { return };
    // The journal that would bear it out: its own line where it says that it stands.
    let Some(line) = text.split_once("\"event\":").and_then(|(_, rest)| rest.strip_suffix('}')) else {
        return;
    };
    let before = value["seq"].as_u64().map_or(0, |seq| (seq.saturating_sub(1) as usize).min(MOST));
    let journal = format!("{}{line}\n", "{}\n".repeat(before));
    let fits = shown.check(journal.as_bytes(), &session).is_ok();
    assert!(!(fits && shown.check(b"{}\n{}\n", &session).is_ok()));
});
