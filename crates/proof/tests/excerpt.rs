//! An excerpt, a journal and the signed statement of its turn, is believed by the trust file and the signed head alone.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use countersign_proof::verify::{ExcerptReport, Finding, Options, Policy, SignatureState, excerpt};
use countersign_proof::{Role, TrustFile, dsse, layout};
use countersign_types::Digest;
use support::fixture::{self, Fixture, files_of, trusted};

const TURN: &str = "statements/turn.sigstore.json";

/// Journal and statement of the fixture's bundle.
fn parts(fixture: &Fixture) -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let mut files = files_of(&fixture.write(dir.path()).path);
    (files.remove(layout::JOURNAL).unwrap(), files.remove(TURN).unwrap())
}

fn look(journal: &[u8], turn: &[u8], trust: &TrustFile) -> ExcerptReport {
    let options = Options { trust, policy: &Policy::default(), now: fixture::now(), verdicts: &[] };
    excerpt("turn.sigstore.json", turn, journal, &options)
}

#[test]
fn an_excerpt_is_believed_by_its_signed_head_alone() {
    let trust = fixture::trust();
    let (journal, turn) = parts(&Fixture::default());
    let good = look(&journal, &turn, &trust);
    assert!(good.accepted(), "{good:#?}");
    assert_eq!(good.signer.as_ref().unwrap().name.as_deref(), Some("ci"));
    assert_eq!(good.events, Some(journal.split(|byte| *byte == b'\n').count() as u64 - 1));
    let text = String::from_utf8(journal.clone()).unwrap();
    let refused = |journal: &[u8], turn: &[u8]| {
        let report = look(journal, turn, &trust);
        assert!(!report.accepted(), "{report:#?}");
        report
    };

    // The journal: changed, cut in a line, cut at a line, grown, another session's, none.
    let changed = text.replacen("\"entries\":7", "\"entries\":8", 1);
    assert_ne!(changed, text);
    let report = refused(changed.as_bytes(), &turn);
    assert!(matches!(report.findings[..], [Finding::Journal { seq: 4, .. }]), "{report:#?}");
    let report = refused(&journal[..journal.len() - 9], &turn);
    assert!(matches!(report.findings[..], [Finding::Journal { .. }]), "{report:#?}");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let report = refused(lines[..lines.len() - 1].concat().as_bytes(), &turn);
    let signed = lines.len() as u64;
    assert_eq!(report.findings, [Finding::JournalHead { seq: signed - 1, signed }]);
    assert_eq!(report.events, None);
    refused(&[&journal, b"{}\n".as_slice()].concat(), &turn);
    let (foreign, _) = parts(&Fixture { session: "s-foreign".to_owned(), ..Fixture::default() });
    assert!(matches!(refused(&foreign, &turn).findings[..], [Finding::Journal { seq: 1, .. }]));
    assert!(matches!(refused(b"", &turn).findings[..], [Finding::JournalHead { seq: 0, .. }]));
    // The last line itself changed: only the signed head tells.
    let last = text.replacen("\"reset_at\":null", "\"reset_at\":7", 1);
    assert!(matches!(refused(last.as_bytes(), &turn).findings[..], [Finding::JournalHead { .. }]));

    // The statement: signed by a stranger, by the verifier, damaged, of another kind.
    let stranger = || fixture::key(fixture::STRANGER);
    let (journal_of, turn_of) =
        parts(&Fixture { runner: stranger(), verifier: stranger(), ..Fixture::default() });
    assert_eq!(journal_of, journal, "the same journal, vouched for by somebody else");
    let report = refused(&journal, &turn_of);
    assert_eq!((report.signature, &report.claims), (SignatureState::UnknownSigner, &None));
    let payload = dsse::open(&turn).unwrap().payload;
    let report = refused(&journal, &dsse::seal(&fixture::key(fixture::VERIFIER), &payload).unwrap());
    assert!(matches!(report.findings[..], [Finding::WrongRole { .. }]), "{report:#?}");
    let other = String::from_utf8(payload).unwrap().replacen("\"turn\":1", "\"turn\":2", 1);
    let forged = dsse::seal(&stranger(), other.as_bytes()).unwrap();
    let (mut envelope, real): (serde_json::Value, serde_json::Value) =
        (serde_json::from_slice(&forged).unwrap(), serde_json::from_slice(&turn).unwrap());
    envelope["verificationMaterial"] = real["verificationMaterial"].clone();
    envelope["dsseEnvelope"]["signatures"] = real["dsseEnvelope"]["signatures"].clone();
    let report = refused(&journal, format!("{envelope}\n").as_bytes());
    assert!(matches!(report.findings[..], [Finding::BadSignature { .. }]), "{report:#?}");
    assert!(matches!(refused(&journal, b"{}").findings[..], [Finding::SignatureFormat { .. }]));
    let dir = tempfile::tempdir().unwrap();
    let files = files_of(&Fixture::default().write(dir.path()).path);
    let report = refused(&journal, &files["statements/provenance.sigstore.json"]);
    assert!(matches!(report.findings[..], [Finding::Statement { .. }]), "{report:#?}");

    // The key: nobody's, expired.
    let report = look(&journal, &turn, &TrustFile::default());
    assert_eq!((report.accepted(), report.signature), (false, SignatureState::UnknownSigner));
    let mut expired = trusted("ci", fixture::RUNNER, &[Role::Runner]);
    expired.not_after = Some(fixture::at("2026-11-29T00:00:00Z"));
    let mut late = TrustFile::default();
    late.add(expired).unwrap();
    let report = look(&journal, &turn, &late);
    assert!(
        !report.accepted() && matches!(report.findings[..], [Finding::KeyNotValid { .. }]),
        "{report:#?}"
    );
}

/// What can be handed over names no file that holds a text, and the task only as the journal does.
#[test]
fn the_turns_statement_names_no_text_by_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let files = files_of(&Fixture::default().write(dir.path()).path);
    let turn = String::from_utf8(dsse::open(&files[TURN]).unwrap().payload).unwrap();
    let handed = format!("{turn}{}", String::from_utf8_lossy(&files[layout::JOURNAL]));
    for (path, bytes) in &files {
        let named = handed.contains(&Digest::of(bytes).hex());
        assert_eq!(named, layout::is_without_texts(path), "{path}");
    }
    let task = Digest::of(b"task");
    assert!(!handed.contains(&task.hex()));
    assert_eq!(
        handed.matches(&fixture::blind().hide(task).hex()).count(),
        2,
        "the statement and the journal"
    );
}
