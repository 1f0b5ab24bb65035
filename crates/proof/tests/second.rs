//! The second verifier agrees with the first, on good bundles and on every tampering.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_proof::statement::VerdictResult;
use countersign_proof::verify::{Finding, Options, Policy, Report, countersign, verify};
use countersign_proof::{Role, TrustFile};
use countersign_types::{Millis, Reason};
use serde_json::{Value, json};
use support::fixture::{self, Fixture, trusted, verify_it};
use support::{program_is_here, python_with_securesystemslib, run, tamper};

/// Findings that are one word for the second verifier, because git does not tell them apart.
const TREE: &[&str] =
    &["manifest", "patch", "patch_base", "pre_image_missing", "pre_image_unused", "final_tree"];

/// The Python that runs it; says by name what is skipped where there is none.
#[expect(clippy::print_stderr, reason = "the line of a skipped test")]
fn python(test: &str) -> Option<String> {
    let python = python_with_securesystemslib();
    if python.is_none() {
        eprintln!("SKIPPED: {test}: no python3 with securesystemslib (COUNTERSIGN_PYTHON names another one)");
    }
    python.filter(|_| program_is_here("git", "--version", test))
}

fn codes(report: &Report) -> BTreeSet<String> {
    let word = |finding: &Finding| {
        let code = finding.code();
        if TREE.contains(&code.as_str()) { "tree".to_owned() } else { code }
    };
    report.findings.iter().map(word).collect()
}

/// The neutral element of the curve, whose signature anybody can make.
const WEAK: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// All that one question has besides the bundle, for both verifiers.
struct Asked<'a> {
    python: &'a str,
    trust: TrustFile,
    now: Millis,
    verdicts: Vec<Vec<u8>>,
}

impl<'a> Asked<'a> {
    fn by(python: &'a str) -> Self {
        Self { python, trust: fixture::trust(), now: fixture::now(), verdicts: Vec::new() }
    }
}

fn start(python: &str, bundle: &Path, trust: &str) -> Command {
    let trust_file = bundle.with_extension("toml");
    std::fs::write(&trust_file, trust).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("verifiers/verify.py");
    let mut command = Command::new(python);
    command.arg("-I").arg(script).arg(bundle).arg("--trust").arg(&trust_file);
    command
}

/// Exit code, and what is printed.
fn second(bundle: &Path, asked: &Asked<'_>) -> (Option<i32>, Value) {
    let mut command = start(asked.python, bundle, &asked.trust.to_toml());
    command.args(["--now", &countersign_proof::time::rfc3339(asked.now)]);
    for (number, verdict) in asked.verdicts.iter().enumerate() {
        let file = bundle.with_extension(format!("verdict{number}"));
        std::fs::write(&file, verdict).unwrap();
        command.arg("--verdict").arg(file);
    }
    let output = run(&mut command, b"");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.is_empty(), "{words}");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn agree(name: &str, bundle: &Path, asked: &Asked<'_>) -> Report {
    let policy = Policy::default();
    let options = Options { trust: &asked.trust, policy: &policy, now: asked.now, verdicts: &asked.verdicts };
    let ours = verify(bundle, &options).unwrap();
    let (code, theirs) = second(bundle, asked);
    let state = serde_json::to_value(ours.signature).unwrap();
    assert_eq!(theirs["intact"], ours.findings.is_empty(), "{name}: {theirs} {ours:#?}");
    assert_eq!(theirs["signature"], state, "{name}: {theirs} {ours:#?}");
    let words: BTreeSet<String> = serde_json::from_value(theirs["findings"].clone()).unwrap();
    assert_eq!(words, codes(&ours), "{name}: {ours:#?}");
    assert_eq!(theirs["passed_by"], json!(ours.passed_by), "{name}");
    assert_eq!(theirs["failed_by"], json!(ours.failed_by), "{name}");
    assert_eq!(theirs["unknown_verdicts"], json!(ours.unknown_verdicts), "{name}");
    assert_eq!(theirs["bad_verdicts"], json!(ours.bad_verdicts.len()), "{name}: {ours:#?}");
    assert_eq!(theirs["accepted"], json!(ours.accepted()), "{name}: {theirs} {ours:#?}");
    assert_eq!(code, Some(if ours.accepted() { 0 } else { 2 }), "{name}");
    ours
}

#[test]
fn both_verifiers_agree_on_every_tampering() {
    let Some(python) = python("both_verifiers_agree_on_every_tampering") else { return };
    // Most of the time goes to starting small programs.
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(tamper) = tamper::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let dir = tempfile::tempdir().unwrap();
            let bundle = Fixture::default().write(dir.path()).path;
            (tamper.apply)(&bundle);
            agree(tamper.name, &bundle, &Asked::by(&python));
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
    let Some(python) = python("both_verifiers_agree_on_good_bundles") else { return };
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
        agree(name, &fixture.write(dir.path()).path, &Asked::by(&python));
    }
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    for (now, accepted) in [("2026-11-30T12:00:00Z", true), ("2026-11-30T11:59:59Z", false)] {
        let asked = Asked { now: fixture::at(now), ..Asked::by(&python) };
        assert_eq!(agree(now, &bundle, &asked).accepted(), accepted, "{now}");
    }
}

#[test]
fn both_verifiers_agree_on_verdicts_beside_a_bundle() {
    const LAB: u8 = 20;
    const AUDIT: u8 = 21;
    let Some(python) = python("both_verifiers_agree_on_verdicts_beside_a_bundle") else { return };
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bundle = Fixture::default().write(dir.path()).path;
    let other = Fixture { turn: 2, ..Fixture::default() }.write(elsewhere.path()).path;
    let mut trust = fixture::trust();
    trust.add(trusted("lab", LAB, &[Role::Verifier])).unwrap();
    let mut audit = trusted("audit", AUDIT, &[Role::Verifier]);
    audit.not_after = Some(fixture::at("2026-11-30T12:00:00Z"));
    trust.add(audit).unwrap();
    let by = |seed: u8, result: VerdictResult, of: &Path| {
        let (at, versions) = (fixture::at("2026-11-30T18:00:00Z"), BTreeMap::new());
        countersign(&verify_it(of), result, None, at, versions, &fixture::key(seed)).unwrap()
    };
    let good = by(LAB, VerdictResult::Passed, &bundle);
    let mut flipped = good.clone();
    let at = flipped.windows(7).position(|word| word == b"\"sig\":\"").unwrap() + 8;
    flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
    let own = std::fs::read(bundle.join("statements/verdict.sigstore.json")).unwrap();
    for (name, verdicts, bad) in [
        ("none", vec![], 0),
        ("a further verifier", vec![good.clone()], 0),
        ("one that says FAILED", vec![good.clone(), by(LAB, VerdictResult::Failed, &bundle)], 0),
        ("a stranger", vec![by(fixture::STRANGER, VerdictResult::Failed, &bundle)], 0),
        ("another bundle's", vec![by(LAB, VerdictResult::Passed, &other)], 1),
        ("its own", vec![own], 1),
        ("a runner's", vec![by(fixture::RUNNER, VerdictResult::Passed, &bundle)], 1),
        ("an expired key's", vec![by(AUDIT, VerdictResult::Passed, &bundle)], 1),
        ("a flipped signature", vec![flipped], 1),
        ("no verdict", vec![b"{".to_vec(), good], 1),
    ] {
        let asked = Asked { trust: trust.clone(), verdicts, ..Asked::by(&python) };
        let ours = agree(name, &bundle, &asked);
        assert_eq!((ours.intact(), ours.bad_verdicts.len()), (true, bad), "{name}");
    }
}

#[test]
fn both_verifiers_read_a_trust_file_alike() {
    let Some(python) = python("both_verifiers_read_a_trust_file_alike") else { return };
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let good = fixture::trust().to_toml();
    let key = fixture::key(fixture::RUNNER).public();
    let line = key.to_openssh();
    let bounded = |first: &str, last: &str| format!("{good}not_before = {first}\nnot_after = {last}\n");
    let (early, late) = ("\"2026-01-01T00:00:00Z\"", "\"2027-01-01T00:00:00Z\"");
    for (name, text, reads) in [
        ("as it is", good.clone(), true),
        ("a mark of byte order", format!("\u{feff}{good}"), true),
        ("a key as PEM", good.replace(&format!("\"{line}\""), &format!("'''{}'''", key.to_pem())), true),
        ("a comment behind a key", good.replace(&line, &format!("{line} me@box")), true),
        ("a window", bounded(early, late), true),
        ("a window that ends first", bounded(late, early), false),
        ("a time of TOML", bounded("2026-01-01T00:00:00Z", late), false),
        ("no time", bounded("\"2026\"", late), false),
        ("no version", good.replace("version = 1", ""), false),
        ("another version", good.replace("version = 1", "version = 2"), false),
        ("a version that is no number", good.replace("version = 1", "version = true"), false),
        ("another table", format!("{good}[keys]\n"), false),
        ("another field", format!("{good}owner = \"x\"\n"), false),
        (
            "a key twice",
            format!("{good}[[key]]\nname = \"x\"\nroles = [\"runner\"]\npublic = \"{line}\"\n"),
            false,
        ),
        ("a name twice", good.replace("desk", "ci"), false),
        ("a bad name", good.replace("desk", "-desk"), false),
        ("no role", good.replace("[\"runner\"]", "[]"), false),
        ("another role", good.replace("\"runner\"", "\"owner\""), false),
        ("another algorithm", good.replace("ssh-ed25519", "ssh-rsa"), false),
        ("a cut key", good.replace(&line, &line[..line.len() - 4]), false),
        ("a weak key", good.replace(&line, WEAK), false),
    ] {
        assert_eq!(TrustFile::read(&text).is_ok(), reads, "{name}: {text}");
        let output = run(&mut start(&python, &bundle, &text), b"");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code() != Some(1), reads, "{name}: {said}");
        assert!(reads || said.starts_with("verify.py: "), "{name}: {said}");
    }
    // What was never meant to be a bundle is a wrong argument, as it is to `countersign verify`.
    let none = bundle.with_extension("none");
    std::fs::create_dir_all(&none).unwrap();
    for none in [none.clone(), none.join("nowhere"), bundle.join("bundle.json")] {
        let output = run(&mut start(&python, &none, &good), b"");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("is no bundle"), "{said}");
    }
}
