//! Bundles as they are written: what is in them, byte for byte, and what is never done to anything else.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::path::{Path, PathBuf};

use countersign_proof::bundle::WriteError;
use countersign_proof::verify::{Finding, Policy, SignatureState};
use countersign_types::Reason;
use support::fixture::{self, Fixture, files_of, verify_it, verify_with};
use support::{Repo, git_is_here};

fn golden() -> PathBuf {
    stored("v2.bundle")
}

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn updates() -> bool {
    std::env::var_os("COUNTERSIGN_UPDATE_GOLDEN").is_some()
}

#[test]
fn the_fixtures_patch_is_what_git_makes() {
    if !git_is_here("the_fixtures_patch_is_what_git_makes") {
        return;
    }
    let patch = Repo::new().diff(&fixture::base(), &fixture::last());
    if updates() {
        std::fs::write(golden().with_file_name("fixture.diff"), &patch).unwrap();
    }
    assert_eq!(String::from_utf8_lossy(&patch), String::from_utf8_lossy(fixture::PATCH));
}

/// A bundle is written as ever and stays readable for ever. A change of format is a format of its own.
#[test]
fn the_golden_bundle_is_written_byte_for_byte_and_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let written = Fixture::default().write(dir.path());
    if updates() {
        let _ = std::fs::remove_dir_all(golden());
        for (path, bytes) in files_of(&written.path) {
            let at = golden().join(path);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, bytes).unwrap();
        }
    }
    let (ours, stored) = (files_of(&written.path), files_of(&golden()));
    assert_eq!(ours.keys().collect::<Vec<_>>(), stored.keys().collect::<Vec<_>>());
    for (path, bytes) in &ours {
        assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(&stored[path]), "{path}");
    }
    let report = verify_it(&golden());
    assert_eq!((report.findings.as_slice(), report.failures.as_slice()), (&[][..], &[][..]));
    assert_eq!(report.signature, SignatureState::Trusted);
    assert_eq!(report.digest, Some(written.digest));
    assert_eq!((report.files, report.bytes), (written.files as u64, written.bytes));
    assert_eq!(report.passed_by, ["desk"]);
    assert!(report.accepted());
    insta::assert_json_snapshot!(report);
}

/// `v1.bundle` is of before journals were held against their turn, `v1-told.bundle` of before texts were hidden: the turn's
/// statement is `turn:1`, names every file, and the task by its plain digest. Never make them anew.
#[test]
fn bundles_of_before_verify_for_ever() {
    for name in ["v1.bundle", "v1-told.bundle"] {
        let bundle = stored(name);
        let report = verify_it(&bundle);
        assert_eq!((report.findings.as_slice(), report.failures.as_slice()), (&[][..], &[][..]), "{name}");
        assert_eq!(report.passed_by, ["desk"], "{name}");
        let sealed = std::fs::read(bundle.join("statements/turn.sigstore.json")).unwrap();
        let turn = String::from_utf8(countersign_proof::dsse::open(&sealed).unwrap().payload).unwrap();
        let plain = countersign_types::Digest::of(b"task").to_string();
        assert!(turn.contains("predicate:turn:1") && turn.contains(&plain), "{turn}");
        // And it still falls apart when it is touched.
        let dir = tempfile::tempdir().unwrap();
        for (path, mut bytes) in files_of(&bundle) {
            let at = dir.path().join(&path);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            if path == "transcript.jsonl" {
                bytes[0] ^= 1;
            }
            std::fs::write(at, bytes).unwrap();
        }
        let path = "transcript.jsonl".to_owned();
        assert!(verify_it(dir.path()).findings.contains(&Finding::Digest { path }), "{name}");
    }
}

/// A session that began before texts were hidden, and was ended by this program: its journal is as it is.
#[test]
fn a_session_without_a_blind_has_a_bundle_that_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let report = verify_it(&Fixture { hides: false, ..Fixture::default() }.write(dir.path()).path);
    assert_eq!(report.findings, []);
    assert!(report.accepted());
}

/// What each statement says, for people who read a change of format.
#[test]
fn the_statements_have_one_form() {
    for (path, bytes) in files_of(&golden()) {
        let Some(name) =
            path.strip_prefix("statements/").and_then(|name| name.strip_suffix(".sigstore.json"))
        else {
            continue;
        };
        let sealed = countersign_proof::dsse::open(&bytes).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&sealed.payload).unwrap();
        assert_eq!(value.to_string().as_bytes(), sealed.payload, "canonical");
        insta::assert_json_snapshot!(name, value);
    }
}

#[test]
fn a_turn_of_the_host_tier_is_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    let host = Fixture { tier: countersign_types::Tier::Host, ..Fixture::default() };
    let refused = host.try_write(dir.path(), "run.bundle").unwrap_err().to_string();
    assert!(refused.contains("host tier"), "{refused}");
    let report = verify_it(&Fixture { signed: false, ..host }.write(dir.path()).path);
    assert_eq!((report.findings.len(), report.signature), (0, SignatureState::Absent));
}

#[test]
fn contents_come_from_the_object_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = countersign_tree::ObjectStore::open(dir.path().join("objects")).unwrap();
    let digest = store.put(b"content", countersign_tree::Durability::Sync).unwrap();
    let blobs: &dyn countersign_proof::bundle::Blobs = &store;
    let mut read = String::new();
    std::io::Read::read_to_string(&mut blobs.open(&digest).unwrap(), &mut read).unwrap();
    assert_eq!(read, "content");
    assert!(blobs.open(&countersign_types::Digest::of(b"other")).is_err());
}

#[test]
fn every_outcome_has_a_bundle_that_verifies() {
    for reason in Reason::ALL {
        let dir = tempfile::tempdir().unwrap();
        let sealed = *reason != Reason::Usage;
        let fixture = Fixture { reason: *reason, sealed, ..Fixture::default() };
        let report = verify_it(&fixture.write(dir.path()).path);
        assert_eq!(report.findings, [], "{}", reason.as_str());
        let claims = report.claims.unwrap();
        assert_eq!((claims.reason, claims.final_tree.is_some()), (*reason, sealed));
        assert_eq!(report.passed_by.len(), usize::from(*reason == Reason::ChecksPassed));
    }
}

#[test]
fn an_unsigned_bundle_says_why_and_is_intact_and_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let written = Fixture { signed: false, ..Fixture::default() }.write(dir.path());
    let report = verify_it(&written.path);
    assert_eq!(report.findings, []);
    assert!(report.intact() && !report.accepted() && !written.signed);
    assert_eq!(report.signature, SignatureState::Absent);
    assert_eq!(report.unsigned.unwrap().as_str(), "host_tier");
    let any = Policy::read("version = 1\nsignature = \"any\"\n").unwrap();
    assert!(verify_with(&written.path, &fixture::trust(), &any).accepted());
    assert!(files_of(&written.path).keys().all(|path| !path.contains("sig")));
}

#[test]
fn nothing_is_written_over_and_nothing_is_left_of_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::default();
    let first = fixture.write(dir.path());
    let before = files_of(&first.path);
    assert!(matches!(fixture.try_write(dir.path(), "run.bundle"), Err(WriteError::Exists(_))));
    assert_eq!(files_of(&first.path), before);

    // A dangling link is something too.
    std::os::unix::fs::symlink("nowhere", dir.path().join("link.bundle")).unwrap();
    assert!(matches!(fixture.try_write(dir.path(), "link.bundle"), Err(WriteError::Exists(_))));
    for name in ["", ".", "..", ".x", "a/b", "a\0b"] {
        assert!(matches!(fixture.try_write(dir.path(), name), Err(WriteError::Facts(_))), "{name:?}");
    }

    let cut =
        Fixture { journal: Some(fixture::journal(fixture::SESSION, 1)[..50].to_vec()), ..Fixture::default() };
    assert!(matches!(cut.try_write(dir.path(), "cut.bundle"), Err(WriteError::Journal(e)) if e.seq == 1));
    let missing = dir.path().join("missing");
    assert!(
        matches!(fixture.try_write(&missing, "x.bundle"), Err(WriteError::Io { .. })) && !missing.exists()
    );
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["link.bundle", "run.bundle"]);
}

#[test]
fn two_writers_of_one_name_leave_one_whole_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let won = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| Fixture::default().try_write(dir.path(), "run.bundle").is_ok()))
            .collect();
        writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum::<usize>()
    });
    assert_eq!(won, 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(verify_it(&dir.path().join("run.bundle")).findings, []);
}

#[test]
fn a_store_that_gives_other_bytes_is_noticed_when_writing() {
    let dir = tempfile::tempdir().unwrap();
    // A result above the bound of what is parsed.
    let large = Fixture { result_more: 33 << 20, ..Fixture::default() };
    assert!(matches!(
        large.try_write(dir.path(), "large.bundle"),
        Err(WriteError::TooLarge { path, .. }) if path == "result.json"
    ));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_directory_is_no_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let report = verify_it(dir.path());
    assert!(!report.intact() && !report.accepted());
    assert!(
        report.findings.contains(&Finding::MissingFile { path: "SHA256SUMS".into() }),
        "{:?}",
        report.findings
    );
    let nowhere = countersign_proof::verify::verify(
        &dir.path().join("nowhere"),
        &countersign_proof::verify::Options {
            trust: &fixture::trust(),
            policy: &Policy::default(),
            now: fixture::now(),
            verdicts: &[],
        },
    );
    assert!(nowhere.is_err());
}

#[test]
fn contents_that_several_paths_share_and_paths_that_become_directories() {
    let test = "contents_that_several_paths_share_and_paths_that_become_directories";
    if !git_is_here(test) {
        return;
    }
    use countersign_tree::EntryMode::{Executable, File, Symlink};
    let files = |all: &[(&str, countersign_tree::EntryMode, &str)]| -> support::Files {
        all.iter()
            .map(|(path, mode, text)| (path.as_bytes().to_vec(), (*mode, text.as_bytes().to_vec())))
            .collect()
    };
    let base = files(&[
        ("a", File, "same\n"),
        ("b", File, "same\n"),
        ("c", Executable, "same\n"),
        ("kept", File, "same\n"),
        ("dir/file", File, "x\n"),
        ("file", File, "y\n"),
        ("gone", Symlink, "same\n"),
        ("empty", File, ""),
    ]);
    let last = files(&[
        ("a", File, "changed\n"),
        ("c", File, "same\n"),
        ("copy", File, "same\n"),
        ("kept", File, "same\n"),
        ("dir", File, "now a file"),
        ("file/below", File, "y\n"),
    ]);
    let patch = Repo::new().diff(&base, &last);
    let dir = tempfile::tempdir().unwrap();
    let written = Fixture { base, last, patch, ..Fixture::default() }.write(dir.path());
    let report = verify_it(&written.path);
    assert_eq!(report.findings, []);
    // "same\n", "x\n", "y\n" and nothing: each once.
    assert_eq!(files_of(&written.path).keys().filter(|path| path.starts_with("tree/pre/")).count(), 4);
}

#[test]
fn no_part_of_a_private_key_is_in_a_bundle() {
    use base64::Engine as _;
    let dir = tempfile::tempdir().unwrap();
    let seed = [0xa7; 32];
    let key = || countersign_proof::SecretKey::from_seed(&seed);
    let written = Fixture { runner: key(), verifier: key(), ..Fixture::default() }.write(dir.path());
    let hex: String = seed[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(&seed[..24]);
    for (path, bytes) in files_of(&written.path) {
        let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!holds(&seed[..8]) && !holds(hex.as_bytes()) && !holds(&base64.as_bytes()[..12]), "{path}");
        assert!(!holds(b"PRIVATE KEY"), "{path}");
    }
}
