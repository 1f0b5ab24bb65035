//! Whatever lies in a directory: verification ends, says so, and never panics.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::path::Path;

use countersign_proof::verify::Policy;
use countersign_proof::{PublicKey, SecretKey, TrustFile, dsse, journal, sshsig, statement};
use countersign_types::SessionId;
use proptest::prelude::*;
use support::fixture::{Fixture, files_of, verify_it};
use support::tamper;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A change of one file: bytes replaced, removed, inserted, cut, or taken from another file.
#[derive(Clone, Debug)]
struct Change {
    file: prop::sample::Index,
    other: prop::sample::Index,
    at: prop::sample::Index,
    kind: u8,
    bytes: Vec<u8>,
    insider: bool,
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    let bytes = prop::collection::vec(any::<u8>(), 1..40);
    (index(), index(), index(), 0..6_u8, bytes, any::<bool>())
        .prop_map(|(file, other, at, kind, bytes, insider)| Change { file, other, at, kind, bytes, insider })
}

/// Whether anything is another than before.
fn apply(bundle: &Path, change: &Change) -> bool {
    let files = files_of(bundle);
    let names: Vec<&String> = files.keys().collect();
    let name = names[change.file.index(names.len())];
    let mut bytes = files[name].clone();
    let at = change.at.index(bytes.len() + 1);
    let end = (at + change.bytes.len()).min(bytes.len());
    match change.kind {
        0 => bytes[at..end].copy_from_slice(&change.bytes[..end - at]),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..at, change.bytes.iter().copied())),
        3 => bytes.truncate(at),
        4 => bytes = files[names[change.other.index(names.len())]].clone(),
        _ => {
            std::fs::remove_file(bundle.join(name)).unwrap();
            return true;
        }
    }
    std::fs::write(bundle.join(name), &bytes).unwrap();
    bytes != files[name]
}

#[test]
fn no_change_of_a_bundle_is_accepted_and_none_is_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let good = Fixture::default().write(dir.path()).path;
    let kept = files_of(&good);
    proptest!(config(400), |(changes in prop::collection::vec(change(), 1..4))| {
        let mut changed = false;
        let mut by_insider = false;
        for change in &changes {
            changed |= apply(&good, change);
            by_insider |= change.insider;
        }
        if by_insider {
            tamper::insider(&good);
        }
        let report = verify_it(&good);
        let same = files_of(&good) == kept;
        prop_assert!(same || !report.accepted(), "{changes:?} {report:#?}");
        prop_assert!(!same || report.accepted(), "{changed}");
        for (path, bytes) in &kept {
            std::fs::write(good.join(path), bytes).unwrap();
        }
    });
    assert!(verify_it(&good).accepted());
}

#[test]
fn every_parser_ends_on_garbage() {
    let pieces = prop::sample::select(
        &[
            "{",
            "}",
            "[",
            "]",
            "\"",
            ":",
            ",",
            "null",
            "1",
            "-0",
            "1e9",
            "\\u0000",
            "\n",
            "  ",
            "=",
            "\"_type\":",
            "\"https://in-toto.io/Statement/v1\"",
            "\"subject\":",
            "\"predicateType\":",
            "\"mediaType\":\"application/vnd.dev.sigstore.bundle.v0.3+json\"",
            "\"dsseEnvelope\":",
            "\"payload\":",
            "-----BEGIN SSH SIGNATURE-----\n",
            "-----END SSH SIGNATURE-----\n",
            "-----BEGIN PUBLIC KEY-----\n",
            "-----BEGIN OPENSSH PRIVATE KEY-----\n",
            "-----END OPENSSH PRIVATE KEY-----\n",
            "ssh-ed25519 ",
            "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB",
            "U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg",
            "version = 1\n",
            "[[key]]\n",
            "name = \"a\"\n",
            "max_age = \"9999999999d\"\n",
            "roles = [\"runner\"]\n",
        ][..],
    );
    let text = prop::collection::vec(pieces, 0..20).prop_map(|parts| parts.concat().into_bytes());
    let bytes = prop_oneof![3 => text, 1 => prop::collection::vec(any::<u8>(), 0..300)];
    let session = SessionId::new("s").unwrap();
    proptest!(config(6000), |(bytes in bytes)| {
        let text = String::from_utf8_lossy(&bytes);
        let _ = dsse::open(&bytes);
        let _ = sshsig::verify(&bytes, b"");
        let _ = statement::Statement::<statement::Turn>::read(&bytes);
        let _ = statement::Statement::<statement::Verdict>::read(&bytes);
        let _ = PublicKey::read(&text);
        let _ = SecretKey::read(&text);
        let _ = TrustFile::read(&text);
        let _ = Policy::read(&text);
        let _ = journal::check_reveal(&bytes, "x", b"", b"");
        let mut chain = journal::Chain::new(&session);
        let _ = chain.feed(&bytes);
    });
}
