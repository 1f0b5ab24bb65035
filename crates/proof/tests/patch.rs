//! The applier against git itself: what git writes is applied with git's result, and what we take git takes too.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::collections::BTreeMap;

use countersign_proof::patch::{Patch, Sink};
use countersign_tree::EntryMode;
use countersign_types::Digest;
use proptest::prelude::*;
use support::{Files, Repo, git_is_here, mode};

/// Applies a patch to files held in memory.
fn apply(before: &Files, bytes: &[u8]) -> Result<Files, String> {
    let patch = Patch::parse(bytes).map_err(|e| e.to_string())?;
    let mut files = before.clone();
    for change in &patch.files {
        let path = change.path.as_bytes().to_vec();
        let had = files.remove(&path);
        if had.as_ref().map(|(mode, _)| *mode) != change.before {
            return Err(format!("{}: another mode", change.path));
        }
        let content = had.map(|(_, bytes)| bytes).unwrap_or_default();
        let mut sink = Sink::keeping(1 << 20);
        change.apply(&content, &mut sink).map_err(|e| e.to_string())?;
        let (_, _, after) = sink.finish();
        if let Some(mode) = change.after {
            files.insert(path, (mode, after.unwrap()));
        }
    }
    Ok(files)
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "[ab]{0,2}",
        1 => Just("\\ No newline at end of file".to_owned()),
        1 => Just("--- a/x".to_owned()),
        1 => Just("@@ -1 +1 @@".to_owned()),
        1 => Just("caf\u{e9}\r".to_owned()),
    ];
    let text = (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lines, newline)| {
        let mut text = lines.join("\n").into_bytes();
        if newline && !text.is_empty() {
            text.push(b'\n');
        }
        text
    });
    let binary = prop::collection::vec(any::<u8>(), 0..400).prop_map(|mut bytes| {
        bytes.insert(0, 0);
        bytes
    });
    // Long and repetitive: git writes a delta for it.
    let long = (any::<u8>(), 0..4000_usize).prop_map(|(seed, at)| {
        let mut bytes: Vec<u8> = (0..6000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        bytes[at] ^= seed;
        bytes.truncate(6000 - at / 10);
        bytes
    });
    prop_oneof![5 => text, 1 => binary, 1 => long]
}

fn files() -> impl Strategy<Value = Files> {
    const NAMES: &[&str] = &[
        "a",
        "b c",
        "d/e",
        "d/f g",
        "q\"uote",
        "back\\slash",
        "new\nline",
        "\u{e9}t\u{e9}",
        "tab\there",
        "z b/z",
        "sp ace\u{e9}",
    ];
    let name = prop::sample::select(NAMES).prop_map(|name| name.as_bytes().to_vec());
    let odd = Just(b"raw\xff".to_vec());
    let some_mode = prop_oneof![
        4 => Just(EntryMode::File),
        1 => Just(EntryMode::Executable),
        1 => Just(EntryMode::Symlink),
        1 => Just(mode("160000").unwrap_or(EntryMode::Symlink)),
    ];
    let link = |mode: EntryMode, bytes: Vec<u8>| {
        let target: Vec<u8> = bytes.into_iter().filter(|b| *b != 0).take(50).collect();
        (mode, if target.is_empty() { b"t".to_vec() } else { target })
    };
    let file = (some_mode, content()).prop_map(move |(mode, bytes)| match mode.as_str() {
        "120000" => link(mode, bytes),
        "160000" => (mode, Digest::of(&bytes).hex().as_bytes()[..40].to_vec()),
        _ => (mode, bytes),
    });
    prop::collection::btree_map(prop_oneof![9 => name, 1 => odd], file, 0..8)
}

fn is_file(mode: EntryMode) -> bool {
    matches!(mode, EntryMode::File | EntryMode::Executable)
}

/// A second state near the first: most files stay or are edited a little.
fn pair() -> impl Strategy<Value = (Files, Files)> {
    (files(), files(), any::<u64>()).prop_map(|(before, other, seed)| {
        let mut after = BTreeMap::new();
        for (at, (path, (mode, bytes))) in before.iter().enumerate() {
            let mut bytes = bytes.clone();
            match (seed >> (3 * at)) & 7 {
                0 => continue,
                1 | 2 if is_file(*mode) => {
                    let half = bytes.len() / 2;
                    bytes.insert(half, b'x');
                    after.insert(path.clone(), (*mode, bytes));
                }
                3 if is_file(*mode) => {
                    let mode = if *mode == EntryMode::File { EntryMode::Executable } else { EntryMode::File };
                    after.insert(path.clone(), (mode, bytes));
                }
                _ => {
                    after.insert(path.clone(), (*mode, bytes));
                }
            }
        }
        after.extend(other.into_iter().filter(|(path, _)| !before.contains_key(path) || seed & 1 == 1));
        (before, after)
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn what_git_writes_is_applied_with_gits_result() {
    if !git_is_here("what_git_writes_is_applied_with_gits_result") {
        return;
    }
    let repo = Repo::new();
    proptest!(config(150), |((before, after) in pair())| {
        let patch = repo.diff(&before, &after);
        let ours = apply(&before, &patch);
        prop_assert_eq!(ours.as_ref(), Ok(&after), "{}", String::from_utf8_lossy(&patch));
    });
}

#[test]
fn what_is_taken_of_a_damaged_patch_git_takes_with_the_same_result() {
    if !git_is_here("what_is_taken_of_a_damaged_patch_git_takes_with_the_same_result") {
        return;
    }
    let repo = Repo::new();
    let damage = (0..4_u8, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>());
    let taken = std::cell::Cell::new(0);
    proptest!(config(250), |((before, after) in pair(), (kind, at, to, byte) in damage)| {
        let mut patch = repo.diff(&before, &after);
        if patch.is_empty() {
            return Ok(());
        }
        let at = at.index(patch.len());
        match kind {
            0 => patch[at] = byte,
            1 => { patch.remove(at); }
            2 => patch.truncate(at),
            _ => {
                // A line moves.
                let mut lines: Vec<&[u8]> = patch.split_inclusive(|b| *b == b'\n').collect();
                let from = at % lines.len();
                let line = lines.remove(from);
                lines.insert(to.index(lines.len() + 1), line);
                patch = lines.concat();
            }
        }
        if let Ok(ours) = apply(&before, &patch) {
            if !patch.is_empty() {
                let gits = repo.apply(&before, &patch);
                prop_assert_eq!(gits, Ok(ours), "{}", String::from_utf8_lossy(&patch));
            }
            taken.set(taken.get() + 1);
        }
    });
    // Otherwise nothing was compared.
    assert!(taken.get() > 0);
}

#[test]
fn garbage_is_refused_and_never_a_panic() {
    let pieces = prop::sample::select(
        &[
            "diff --git a/a b/a\n",
            "old mode 100644\n",
            "new mode 100755\n",
            "new file mode 100644\n",
            "deleted file mode 100644\n",
            "--- a/a\n",
            "+++ b/a\n",
            "--- /dev/null\n",
            "+++ /dev/null\n",
            "@@ -1 +1 @@\n",
            "@@ -0,0 +1,2 @@\n",
            "@@ -99999999999 +1 @@\n",
            "-x\n",
            "+x\n",
            " x\n",
            "\\ No newline at end of file\n",
            "\\\n",
            "GIT binary patch\n",
            "literal 5\n",
            "delta 9999999999\n",
            "\n",
            "LcmZQzWMT#Y01f~L\n",
            "z~~~~~\n",
            "index 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\n",
            "index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644\n",
        ][..],
    );
    proptest!(config(3000), |(parts in prop::collection::vec(pieces, 0..14), cut in any::<prop::sample::Index>(), before in content())| {
        let mut text = parts.concat();
        let at = cut.index(text.len() + 1);
        if text.is_char_boundary(at) {
            text.truncate(at);
        }
        if let Ok(patch) = Patch::parse(text.as_bytes()) {
            for file in &patch.files {
                let _ = file.apply(&before, &mut Sink::new(1 << 20));
            }
        }
    });
    proptest!(config(2000), |(bytes in prop::collection::vec(any::<u8>(), 0..200))| {
        let _ = Patch::parse(&bytes);
    });
}

#[test]
fn a_patch_that_would_grow_without_end_is_refused() {
    // A delta of 8 bytes that copies the same 16 MiB again and again.
    let header = "diff --git a/a b/a\nindex 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644\nGIT binary patch\n";
    let big = format!("{header}literal 999999999\nzcmZQz\n\nliteral 0\nHcmV?d00001\n\n");
    let patch = Patch::parse(big.as_bytes()).unwrap();
    let error = patch.files[0].apply(b"", &mut Sink::new(1 << 20)).unwrap_err();
    assert!(error.to_string().contains("not the one that the patch names"), "{error}");
}
