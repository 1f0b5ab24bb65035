//! Everything that can be done to a bundle is told, by name.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::fmt::Write as _;

use countersign_proof::verify::{Finding, Policy, PolicyFailure, Report, SignatureState};
use countersign_proof::{Role, TrustFile};
use support::fixture::{self, Fixture, files_of, trusted, verify_it, verify_with};
use support::tamper;

/// The codes of the findings, each once.
fn codes(report: &Report) -> Vec<String> {
    let mut codes: Vec<String> = report.findings.iter().map(Finding::code).collect();
    codes.dedup();
    codes
}

#[test]
fn every_tampering_is_told_by_name() {
    let mut table = String::new();
    let mut untold = Vec::new();
    for tamper in tamper::ALL {
        let dir = tempfile::tempdir().unwrap();
        let bundle = Fixture::default().write(dir.path()).path;
        (tamper.apply)(&bundle);
        let report = verify_it(&bundle);
        assert!(!report.intact() && !report.accepted(), "{}", tamper.name);
        for told in tamper.told {
            if !codes(&report).iter().any(|code| code == told) {
                untold.push((tamper.name, told));
            }
        }
        writeln!(table, "{} [{}]", tamper.name, report.signature).unwrap();
        for finding in &report.findings {
            writeln!(table, "    {}: {finding}", finding.code()).unwrap();
        }
    }
    assert!(untold.is_empty(), "{untold:#?}\n{table}");
    insta::assert_snapshot!(table);
}

#[test]
fn a_flipped_byte_in_any_file_is_told_and_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    for (path, bytes) in files_of(&bundle) {
        tamper::flip(&bundle, &path);
        let report = verify_it(&bundle);
        assert!(!report.accepted(), "{path}");
        match path.as_str() {
            "SHA256SUMS" => assert!(!report.findings.is_empty()),
            "SHA256SUMS.sig" => {
                assert_eq!(codes(&report).len(), 1, "{report:?}");
                assert_eq!(report.signature, SignatureState::Broken);
            }
            _ => assert!(report.findings.contains(&Finding::Digest { path: path.clone() }), "{report:?}"),
        }
        std::fs::write(bundle.join(&path), bytes).unwrap();
        assert!(verify_it(&bundle).accepted());
    }
}

#[test]
fn every_cut_of_every_small_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    for path in ["SHA256SUMS", "SHA256SUMS.sig", "bundle.json"] {
        let bytes = std::fs::read(bundle.join(path)).unwrap();
        for len in (0..bytes.len()).step_by(29) {
            std::fs::write(bundle.join(path), &bytes[..len]).unwrap();
            assert!(!verify_it(&bundle).intact(), "{path} {len}");
        }
        std::fs::write(bundle.join(path), bytes).unwrap();
    }
    assert!(verify_it(&bundle).accepted());
}

/// A small patch that names large contents again and again would keep a verifier busy for hours.
#[test]
fn work_is_bounded_before_it_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let manifest = |files: &str, size: u64| {
        let digest = countersign_types::Digest::of(b"x").hex();
        let entry = |n: u32| format!("100644 {size} {digest} {files}{n:02}\0");
        let text = format!("countersign.tree/1\n{}", (0..40).map(entry).collect::<String>());
        std::fs::write(bundle.join("tree/base.manifest"), &text).unwrap();
        std::fs::write(bundle.join("tree/final.manifest"), &text).unwrap();
    };
    let zero = "0".repeat(40);
    let patch = |diff: &dyn Fn(u32) -> String| {
        let text: String = (0..40).map(diff).collect();
        std::fs::write(bundle.join("patch.diff"), text).unwrap();
        tamper::insider(&bundle);
        verify_it(&bundle).findings
    };
    manifest("f", 500_000_000);
    let modes = |n: u32| format!("diff --git a/f{n:02} b/f{n:02}\nold mode 100644\nnew mode 100755\n");
    let findings = patch(&modes);
    assert!(
        findings.iter().any(|f| matches!(f, Finding::TooLarge { path, .. } if path == "what was changed"))
    );
    // Contents that are said to inflate to a lot.
    let bomb = |n: u32| {
        format!(
            "diff --git a/g{n:02} b/g{n:02}\nnew file mode 100644\nindex {zero}..{}\nGIT binary patch\n\
             literal 500000000\nHcmV?d00001\n\nliteral 0\nHcmV?d00001\n\n",
            "1".repeat(40)
        )
    };
    let findings = patch(&bomb);
    let told = "its binary contents together are too large";
    assert!(findings.iter().any(|f| matches!(f, Finding::Patch { why, .. } if why == told)), "{findings:#?}");
}

/// A list of a million files that are not there makes no report of a million lines.
#[test]
fn a_report_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let digest = countersign_types::Digest::of(b"x").hex();
    let mut text: Vec<String> = (0..5000).map(|n| format!("{digest}  rooms/r{n:05}/stdout\n")).collect();
    let own = std::fs::read_to_string(bundle.join("SHA256SUMS")).unwrap();
    text.extend(own.split_inclusive('\n').map(str::to_owned));
    text.sort_by(|a, b| a[66..].cmp(&b[66..]));
    std::fs::write(bundle.join("SHA256SUMS"), text.concat()).unwrap();
    let report = verify_it(&bundle);
    assert_eq!(report.findings.len(), countersign_proof::verify::MAX_FINDINGS);
    assert!(report.untold >= 4000 && !report.intact(), "{}", report.untold);
}

#[test]
fn a_bundle_signed_anew_by_a_stranger_is_of_an_unknown_signer() {
    let dir = tempfile::tempdir().unwrap();
    let stranger = Fixture {
        runner: fixture::key(fixture::STRANGER),
        verifier: fixture::key(fixture::STRANGER),
        ..Fixture::default()
    };
    let report = verify_it(&stranger.write(dir.path()).path);
    assert_eq!(report.findings, []);
    assert_eq!(report.signature, SignatureState::UnknownSigner);
    assert_eq!(report.failures, [PolicyFailure::Signature { is: SignatureState::UnknownSigner }]);
    assert!(report.intact() && !report.accepted() && report.passed_by.is_empty());

    // A trusted runner does not make an unknown verifier trusted.
    let half = Fixture { verifier: fixture::key(fixture::STRANGER), ..Fixture::default() };
    let other = tempfile::tempdir().unwrap();
    assert_eq!(verify_it(&half.write(other.path()).path).signature, SignatureState::UnknownSigner);
}

#[test]
fn a_key_counts_in_its_role_and_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let policy = |text: &str| Policy::read(&format!("version = 1\n{text}")).unwrap();
    let trust = |change: fn(&mut countersign_proof::TrustedKey)| {
        let mut trust = TrustFile::default();
        let mut runner = trusted("ci", fixture::RUNNER, &[Role::Runner]);
        change(&mut runner);
        trust.add(runner).unwrap();
        trust.add(trusted("desk", fixture::VERIFIER, &[Role::Verifier])).unwrap();
        trust
    };
    let told = |trust: &TrustFile, policy: &Policy| {
        let report = verify_with(&bundle, trust, policy);
        (report.findings, report.signature)
    };
    let path = "SHA256SUMS.sig".to_owned();
    let late = Finding::KeyNotValid { path: path.clone(), key: "ci".into() };
    let role = Finding::WrongRole { path, key: "ci".into(), needs: Role::Runner };
    // Expired before the turn ended.
    let expired = trust(|key| key.not_after = Some(fixture::at("2026-11-30T12:04:59Z")));
    for keys_at in ["keys_at = \"now\"", "keys_at = \"claimed\""] {
        let told = told(&expired, &policy(keys_at));
        assert_eq!(told, (vec![late.clone()], SignatureState::Broken), "{keys_at}");
    }
    // Expired since: the bundle's own time is only its signer's word.
    let since = trust(|key| key.not_after = Some(fixture::at("2026-11-30T23:00:00Z")));
    assert_eq!(told(&since, &Policy::default()), (vec![late.clone()], SignatureState::Broken));
    assert_eq!(told(&since, &policy("keys_at = \"claimed\"")), (vec![], SignatureState::Trusted));
    // Not valid yet when it signed.
    let early = trust(|key| key.not_before = Some(fixture::at("2026-11-30T12:05:01Z")));
    assert_eq!(told(&early, &Policy::default()).0, [late]);
    // Trusted for verdicts only.
    let other = trust(|key| key.roles = [Role::Verifier].into());
    assert_eq!(told(&other, &Policy::default()), (vec![role], SignatureState::Broken));
    let nobody = TrustFile::default();
    assert_eq!(told(&nobody, &Policy::default()), (vec![], SignatureState::UnknownSigner));
}
