//! What a policy asks for, each demand met and not met; and verdicts of further verifiers.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use countersign_proof::statement::VerdictResult;
use countersign_proof::verify::{
    BadVerdict, CountersignError, Options, Policy, PolicyFailure, Report, SignatureState, countersign, verify,
};
use countersign_proof::{Role, SecretKey, TrustFile};
use countersign_types::{Reason, Strength, StrengthLevel, TierProperty};
use support::fixture::{self, Fixture, trusted, verify_it, verify_with};

fn policy(text: &str) -> Policy {
    Policy::read(&format!("version = 1\n{text}\n")).unwrap()
}

fn few(passed: &[&str], wanted: u32, at_least: Option<StrengthLevel>) -> PolicyFailure {
    let passed = passed.iter().map(|name| (*name).to_owned()).collect();
    PolicyFailure::Verifiers { passed, wanted, at_least }
}

fn failures(fixture: &Fixture, text: &str) -> Vec<PolicyFailure> {
    let dir = tempfile::tempdir().unwrap();
    let report = verify_with(&fixture.write(dir.path()).path, &fixture::trust(), &policy(text));
    assert_eq!(report.findings, []);
    assert_eq!(report.accepted(), report.failures.is_empty());
    report.failures
}

#[test]
fn each_demand_is_met_or_named() {
    let good = Fixture::default();
    for met in [
        "",
        "require = \"verified\"",
        "min_strength = \"ids\"",
        "min_strength = \"exit_code\"",
        "tier = [\"netns\", \"seccomp\"]",
        "network = [\"none\"]",
        "models = [\"anthropic:*\", \"scripted:*\"]",
        "signers = [\"ci\", \"desk\"]",
        "max_age = \"12h\"",
        "verifiers = 1",
        "verifier_names = [\"desk\"]",
    ] {
        assert_eq!(failures(&good, met), [], "{met}");
    }
    let strength = Some(Strength { level: StrengthLevel::Ids, in_process: true });
    for (demand, failure) in [
        ("min_strength = \"canary\"", PolicyFailure::TooWeak { strength, wanted: StrengthLevel::Canary }),
        ("out_of_process = true", PolicyFailure::InProcess),
        (
            "tier = [\"netns\", \"separate_kernel\"]",
            PolicyFailure::Tier { missing: vec![TierProperty::SeparateKernel] },
        ),
        ("network = [\"host\"]", PolicyFailure::Network { is: Some("none".into()) }),
        (
            "models = [\"anthropic:*\"]",
            PolicyFailure::Model { role: "agent".into(), reference: "scripted:fix.json".into() },
        ),
        ("signers = [\"ci\"]", PolicyFailure::Signer { name: Some("desk".into()) }),
        ("max_age = \"11h\"", PolicyFailure::TooOld { ended_at: fixture::ENDED.into() }),
        ("verifiers = 2", few(&["desk"], 2, None)),
        ("verifier_names = [\"other\"]", few(&[], 1, None)),
    ] {
        assert_eq!(failures(&good, demand), vec![failure], "{demand}");
    }
}

#[test]
fn a_refusal_is_evidence_and_meets_no_demand_for_success() {
    let failed = Fixture { reason: Reason::CheckFailed, ..Fixture::default() };
    assert_eq!(failures(&failed, ""), []);
    let outcome = Reason::CheckFailed.outcome();
    assert_eq!(failures(&failed, "require = \"verified\""), [PolicyFailure::NotVerified { outcome }]);
    // No strength is no strength of any level.
    let told = failures(&failed, "min_strength = \"exit_code\"\nout_of_process = true\nverifiers = 1");
    assert_eq!(
        told,
        [
            few(&[], 1, Some(StrengthLevel::ExitCode)),
            PolicyFailure::TooWeak { strength: None, wanted: StrengthLevel::ExitCode },
            PolicyFailure::InProcess,
        ]
    );
    // `answered` ends with 0 and is no success either.
    let answered = Fixture { reason: Reason::NoClaim, ..Fixture::default() };
    assert_eq!(failures(&answered, "require = \"verified\"").len(), 1);
}

#[test]
fn a_bundle_from_the_future_is_refused_whatever_is_asked_of_its_age() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let asked = |now: &str, asked: &str| {
        let (trust, policy) = (fixture::trust(), policy(asked));
        verify(&bundle, &Options { trust: &trust, policy: &policy, now: fixture::at(now), verdicts: &[] })
            .unwrap()
            .failures
    };
    // Within five minutes clocks may differ.
    for age in ["max_age = \"1d\"", "", "keys_at = \"claimed\"", "signature = \"any\""] {
        assert_eq!(asked("2026-11-30T12:00:00Z", age), []);
        let early = asked("2026-11-30T11:59:59Z", age);
        assert!(matches!(early.as_slice(), [PolicyFailure::FromTheFuture { .. }]), "{age}: {early:?}");
    }
}

fn another(bundle: &Path, seed: u8, result: VerdictResult) -> Vec<u8> {
    let claims = verify_it(bundle).claims;
    another_at(bundle, seed, result, claims.and_then(|claims| claims.strength))
}

fn another_at(bundle: &Path, seed: u8, result: VerdictResult, strength: Option<Strength>) -> Vec<u8> {
    let report = verify_it(bundle);
    let versions = BTreeMap::from([("countersign".to_owned(), "0.1.0".to_owned())]);
    let at = fixture::at("2026-11-30T18:00:00Z");
    countersign(&report, result, strength, at, versions, &fixture::key(seed)).unwrap()
}

#[test]
fn nobody_countersigns_what_is_broken_or_unsigned() {
    let dir = tempfile::tempdir().unwrap();
    let (key, at) = (fixture::key(20), fixture::now());
    let refused = |bundle: &Path| {
        let report = verify_it(bundle);
        countersign(&report, VerdictResult::Passed, None, at, BTreeMap::new(), &key).unwrap_err()
    };
    let unsigned = Fixture { signed: false, ..Fixture::default() };
    assert_eq!(refused(&unsigned.write(dir.path()).path), CountersignError::NotIntact);
    let other = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(other.path()).path;
    std::fs::write(bundle.join("notes.txt"), "x").unwrap();
    assert_eq!(refused(&bundle), CountersignError::NotIntact);
}

fn with_verdicts(bundle: &Path, trust: &TrustFile, policy: &Policy, verdicts: &[Vec<u8>]) -> Report {
    verify(bundle, &Options { trust, policy, now: fixture::now(), verdicts }).unwrap()
}

#[test]
fn k_of_n_verifiers_must_say_passed() {
    const SECOND: u8 = 20;
    const THIRD: u8 = 21;
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let mut trust = fixture::trust();
    trust.add(trusted("lab", SECOND, &[Role::Verifier])).unwrap();
    trust.add(trusted("audit", THIRD, &[Role::Verifier])).unwrap();
    let two = policy("verifiers = 2\nverifier_names = [\"desk\", \"lab\", \"audit\"]");
    let passed = another(&bundle, SECOND, VerdictResult::Passed);

    let report = with_verdicts(&bundle, &trust, &two, std::slice::from_ref(&passed));
    assert_eq!((report.findings.len(), report.accepted()), (0, true), "{report:#?}");
    assert_eq!(report.passed_by, ["desk", "lab"]);
    // One verifier twice is one, a stranger is nobody, and FAILED is no PASSED.
    let failed = another(&bundle, THIRD, VerdictResult::Failed);
    let stranger = another(&bundle, fixture::STRANGER, VerdictResult::Passed);
    let same = another(&bundle, fixture::VERIFIER, VerdictResult::Passed);
    let report = with_verdicts(&bundle, &trust, &two, &[failed, stranger, same.clone(), same]);
    assert_eq!((report.findings.len(), report.accepted(), report.unknown_verdicts), (0, false, 1));
    let refused = PolicyFailure::Refused { name: "audit".into() };
    assert_eq!(report.failures, [few(&["desk"], 2, None), refused]);
    // A trusted runner is no verifier.
    let runner = another(&bundle, fixture::RUNNER, VerdictResult::Passed);
    assert!(told(&with_verdicts(&bundle, &trust, &two, &[runner])).contains("as verifier"));
}

#[test]
fn a_weaker_verdict_does_not_count_where_a_strength_is_asked_for() {
    const SECOND: u8 = 20;
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let mut trust = fixture::trust();
    trust.add(trusted("lab", SECOND, &[Role::Verifier])).unwrap();
    let at = |level| Some(Strength { level, in_process: true });
    let weak = another_at(&bundle, SECOND, VerdictResult::Passed, at(StrengthLevel::ExitCode));
    let strong = another_at(&bundle, SECOND, VerdictResult::Passed, at(StrengthLevel::Ids));
    let two = policy("verifiers = 2\nmin_strength = \"ids\"");

    let report = with_verdicts(&bundle, &trust, &two, std::slice::from_ref(&weak));
    assert_eq!(report.passed_strength.get("lab"), at(StrengthLevel::ExitCode).as_ref());
    assert_eq!(report.failures, [few(&["desk"], 2, Some(StrengthLevel::Ids))]);
    let said = "2 verifiers must have said PASSED at `ids` or above; 1 did: desk";
    assert_eq!(report.failures[0].to_string(), said);
    // The strongest of one verifier's counts, and without a demand each does.
    assert!(with_verdicts(&bundle, &trust, &two, &[weak.clone(), strong]).accepted());
    assert!(with_verdicts(&bundle, &trust, &policy("verifiers = 2"), &[weak]).accepted());
}

/// However many say PASSED and whatever the policy asks for. Who is not trusted refuses nothing, and is told.
#[test]
fn a_trusted_verifier_that_says_failed_refuses_the_bundle() {
    const SECOND: u8 = 20;
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let mut trust = fixture::trust();
    trust.add(trusted("lab", SECOND, &[Role::Verifier])).unwrap();
    let failed = another(&bundle, SECOND, VerdictResult::Failed);
    let passed = another(&bundle, SECOND, VerdictResult::Passed);
    let stranger = another(&bundle, fixture::STRANGER, VerdictResult::Failed);
    for asked in ["", "keys_at = \"claimed\"", "verifiers = 1"] {
        let report = with_verdicts(&bundle, &trust, &policy(asked), &[passed.clone(), failed.clone()]);
        assert!(report.intact() && !report.accepted(), "{asked}");
        assert_eq!(report.failed_by, ["lab"]);
        assert_eq!(report.failures, [PolicyFailure::Refused { name: "lab".into() }]);
        assert_eq!(report.failures[0].to_string(), "refused by a verifier that is trusted: lab");
    }
    let report = with_verdicts(&bundle, &trust, &Policy::default(), &[stranger.clone(), stranger]);
    assert_eq!((report.accepted(), report.unknown_verdicts, report.failed_by.len()), (true, 2, 0));

    // Of a refusal, FAILED is what it says itself.
    let elsewhere = tempfile::tempdir().unwrap();
    let refusal = Fixture { reason: Reason::CheckFailed, ..Fixture::default() }.write(elsewhere.path()).path;
    let same = another(&refusal, SECOND, VerdictResult::Failed);
    let report = with_verdicts(&refusal, &trust, &Policy::default(), &[same]);
    assert_eq!((report.accepted(), report.failed_by), (true, vec!["lab".to_owned()]));
}

/// Why the one verdict does not count. The bundle is what it was.
fn told(report: &Report) -> String {
    assert!(report.intact() && !report.accepted(), "{report:#?}");
    let [BadVerdict { number: 1, why }] = report.bad_verdicts.as_slice() else {
        return format!("told otherwise: {report:#?}");
    };
    why.clone()
}

#[test]
fn a_verdict_beside_the_bundle_is_about_this_bundle_or_told() {
    const SECOND: u8 = 20;
    let dir = tempfile::tempdir().unwrap();
    let bundle = Fixture::default().write(dir.path()).path;
    let mut trust = fixture::trust();
    trust.add(trusted("lab", SECOND, &[Role::Verifier])).unwrap();
    let any = Policy::default();
    let good = another(&bundle, SECOND, VerdictResult::Passed);
    assert!(with_verdicts(&bundle, &trust, &any, std::slice::from_ref(&good)).accepted());

    let elsewhere = tempfile::tempdir().unwrap();
    let other = Fixture { turn: 2, ..Fixture::default() }.write(elsewhere.path()).path;
    let foreign = another(&other, SECOND, VerdictResult::Passed);
    assert!(told(&with_verdicts(&bundle, &trust, &any, &[foreign])).contains("another bundle"));
    // The bundle's own verdict names no bundle, so it counts for none beside it.
    let replayed = std::fs::read(bundle.join("statements/verdict.sigstore.json")).unwrap();
    assert!(told(&with_verdicts(&bundle, &trust, &any, &[replayed])).contains("another bundle"));
    let text = String::from_utf8(good).unwrap();
    assert!(told(&with_verdicts(&bundle, &trust, &any, &[b"{".to_vec()])).contains("not"));
    let at = text.find("\"sig\":\"").unwrap() + 7;
    let mut flipped = text.into_bytes();
    flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
    assert!(told(&with_verdicts(&bundle, &trust, &any, &[flipped])).contains("signature"));
}

#[test]
fn three_answers_about_the_signer() {
    let signed = |runner: SecretKey, verifier: SecretKey, signed| {
        let dir = tempfile::tempdir().unwrap();
        let fixture = Fixture { runner, verifier, signed, ..Fixture::default() };
        let report =
            verify_with(&fixture.write(dir.path()).path, &fixture::trust(), &policy("signature = \"any\""));
        assert!(report.accepted(), "integrity is all that `any` asks for");
        (report.signature, report.signature.to_string())
    };
    let key = fixture::key;
    let stranger = || key(fixture::STRANGER);
    let ours = || (key(fixture::RUNNER), key(fixture::VERIFIER));
    assert_eq!(signed(ours().0, ours().1, false), (SignatureState::Absent, "unsigned".into()));
    assert_eq!(
        signed(stranger(), stranger(), true),
        (SignatureState::UnknownSigner, "unknown signer".into())
    );
    assert_eq!(signed(ours().0, ours().1, true), (SignatureState::Trusted, "trusted signer".into()));
}
