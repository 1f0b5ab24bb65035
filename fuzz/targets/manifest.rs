//! A tree's manifest: what is taken is what the writer would write.
#![no_main]

use countersign_tree::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(tree) = Manifest::decode(bytes) {
        assert_eq!(tree.encode(), bytes);
        assert!(tree.changes_to(&tree).is_empty());
    }
});
