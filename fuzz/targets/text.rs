//! Small texts: times and the names of a bundle's files; each has one spelling.
#![no_main]

use countersign_proof::layout::{Part, max_size, part};
use countersign_proof::time::{parse_rfc3339, rfc3339};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(at) = parse_rfc3339(text) {
        assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at));
    }
    for signed in [false, true] {
        if let Some(found) = part(text, signed) {
            let _ = max_size(&found);
            assert!(!text.contains("..") && !text.starts_with('/'));
            if let Part::Statement(statement) = &found {
                assert_eq!(statement.path(signed), text);
            }
        }
    }
});
