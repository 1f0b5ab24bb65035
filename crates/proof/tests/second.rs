//! The second verifier agrees with the first, on good bundles and on every tampering.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_proof::verify::{Finding, Report, SignatureState};
use countersign_types::Reason;
use serde_json::Value;
use support::fixture::{self, Fixture, verify_it};
use support::{program_is_here, run, tamper};

/// Findings that are one word for the second verifier, because git does not tell them apart.
const TREE: &[&str] =
    &["manifest", "patch", "patch_base", "pre_image_missing", "pre_image_unused", "final_tree"];

fn here(test: &str) -> bool {
    let tools =
        [("python3", "--version"), ("git", "--version"), ("openssl", "version"), ("ssh-keygen", "-?")];
    tools.iter().all(|(tool, arg)| program_is_here(tool, arg, test))
}

fn codes(report: &Report) -> BTreeSet<String> {
    let word = |finding: &Finding| {
        let code = finding.code();
        if TREE.contains(&code.as_str()) { "tree".to_owned() } else { code }
    };
    report.findings.iter().map(word).collect()
}

/// Exit code, signature and findings.
fn second(bundle: &Path, trust: &str) -> (Option<i32>, Value) {
    let trust_file = bundle.with_extension("toml");
    std::fs::write(&trust_file, trust).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("verifiers/verify.py");
    let mut command = Command::new("python3");
    command.arg("-I").arg(script).arg(bundle).arg("--trust").arg(&trust_file);
    command.args(["--now", &countersign_proof::time::rfc3339(fixture::now())]);
    let output = run(&mut command, b"");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.is_empty(), "{words}");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn agree(name: &str, bundle: &Path) {
    let ours = verify_it(bundle);
    let (code, theirs) = second(bundle, &fixture::trust().to_toml());
    let state = serde_json::to_value(ours.signature).unwrap();
    assert_eq!(theirs["intact"], ours.findings.is_empty(), "{name}: {theirs} {ours:#?}");
    assert_eq!(theirs["signature"], state, "{name}: {theirs} {ours:#?}");
    let words: BTreeSet<String> = serde_json::from_value(theirs["findings"].clone()).unwrap();
    assert_eq!(words, codes(&ours), "{name}: {ours:#?}");
    let good = ours.intact() && ours.signature == SignatureState::Trusted;
    assert_eq!(code, Some(if good { 0 } else { 2 }), "{name}");
}

#[test]
fn both_verifiers_agree_on_every_tampering() {
    if !here("both_verifiers_agree_on_every_tampering") {
        return;
    }
    // Most of the time goes to starting small programs.
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(tamper) = tamper::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let dir = tempfile::tempdir().unwrap();
            let bundle = Fixture::default().write(dir.path()).path;
            (tamper.apply)(&bundle);
            agree(tamper.name, &bundle);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

#[test]
fn both_verifiers_agree_on_good_bundles() {
    if !here("both_verifiers_agree_on_good_bundles") {
        return;
    }
    let stranger = || fixture::key(fixture::STRANGER);
    let fixtures = [
        ("verified", Fixture::default()),
        ("failed", Fixture { reason: Reason::CheckFailed, ..Fixture::default() }),
        ("nothing sealed", Fixture { reason: Reason::Usage, sealed: false, ..Fixture::default() }),
        ("unsigned", Fixture { signed: false, ..Fixture::default() }),
        ("stranger", Fixture { runner: stranger(), verifier: stranger(), ..Fixture::default() }),
        ("no change", Fixture { last: fixture::base(), patch: Vec::new(), ..Fixture::default() }),
    ];
    for (name, fixture) in fixtures {
        let dir = tempfile::tempdir().unwrap();
        agree(name, &fixture.write(dir.path()).path);
    }
}
