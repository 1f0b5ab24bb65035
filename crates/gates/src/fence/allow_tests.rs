//! Named allowances, and names that another file system would hold as one.

use countersign_guest::protocol::FenceKind;
use countersign_types::{GateStatus, Reason};

use super::tests::{checks, file};
use super::*;

const PYTEST: &[&str] = &["pytest", "-q"];

fn allowance(text: &str) -> Allowance {
    let (rule, glob) =
        text.split_once(':').map_or((text, None), |(rule, glob)| (rule, Some(glob.to_owned())));
    Allowance { rule: rule.to_owned(), glob }
}

/// What the fence says where the paths of `after` replace the base's and those behind a `-` are gone.
fn decide(base: &[&str], allow: &[&str], edits: &[&str], scanned: Vec<FenceFinding>) -> GateDecision {
    let base = Manifest::new(base.iter().map(|path| file(path, "base")).collect());
    let mut entries = base.entries().to_vec();
    for edit in edits {
        let path = edit.trim_start_matches('-');
        entries.retain(|entry| entry.path.as_bytes() != path.as_bytes());
        if !edit.starts_with('-') {
            entries.push(file(path, "changed"));
        }
    }
    let allow: Vec<Allowance> = allow.iter().map(|text| allowance(text)).collect();
    let fence =
        Fence::new(&["kept/**".to_owned()], &checks(PYTEST), &base).unwrap().allowing(&allow).unwrap();
    fence.judge(&base.changes_to(&Manifest::new(entries))).conclude(Ok(scanned))
}

#[test]
fn an_allowance_lifts_its_rule_where_it_says_and_is_recorded() {
    let base = &["tests/test_a.py", "tests/conftest.py", "test_b.py", "kept/x", "calc.py"];
    type Case<'a> = (&'a [&'a str], &'a [&'a str], Option<Reason>, usize);
    let cases: &[Case<'_>] = &[
        // 11 to 14: a fixture, a changed test, one taken away, a snapshot.
        (&["python.runner_config:tests/conftest.py"], &["tests/conftest.py"], None, 1),
        (&["tests.existing:tests/test_a.py"], &["tests/test_a.py"], None, 1),
        (&["python.tests"], &["-test_b.py"], None, 1),
        (&["python.runner_config"], &["src/conftest.py"], None, 1),
        // One that is not used is fine, and is not recorded.
        (&["tests.existing"], &["calc.py"], None, 0),
        // It opens nothing else.
        (
            &["tests.existing:tests/test_a.py"],
            &["tests/test_a.py", "test_b.py"],
            Some(Reason::ProtectedFiles),
            1,
        ),
        (&["tests.existing"], &["tests/conftest.py"], Some(Reason::ProtectedFiles), 0),
        (&["tests.existing:docs/**"], &["tests/test_a.py"], Some(Reason::ProtectedFiles), 0),
        (&["contract.protect"], &["calc.py"], None, 0),
    ];
    for (allow, edits, reason, used) in cases {
        let decision = decide(base, allow, edits, Vec::new());
        assert_eq!(
            (decision.reason, decision.allowed.len()),
            (*reason, *used),
            "{allow:?} {edits:?}: {decision:?}"
        );
        if reason.is_none() && *used > 0 {
            assert_eq!(decision.status, GateStatus::Passed);
            assert!(decision.detail.contains("red_before"), "{}", decision.detail);
        }
    }
    // What the guest found is asked for by the guest's name of it.
    let manifest = Manifest::new(vec![file("pyproject.toml", "base")]);
    let changed = Manifest::new(vec![file("pyproject.toml", "changed")]);
    let fence = Fence::new(&[], &checks(PYTEST), &manifest).unwrap();
    let plan =
        fence.allowing(&[allowance("pyproject.runner_key")]).unwrap().judge(&manifest.changes_to(&changed));
    assert_eq!(plan.scan.iter().map(|file| file.kind).collect::<Vec<_>>(), [FenceKind::PyprojectToml]);
    let found = FenceFinding {
        path: plan.scan[0].path.clone(),
        verdict: FenceVerdict::Tampered,
        rule: "pyproject.runner_key".to_owned(),
        detail: "d".to_owned(),
    };
    let decision = plan.conclude(Ok(vec![found]));
    assert_eq!((decision.reason, decision.allowed.len()), (None, 1));
}

#[test]
fn a_broken_glob_of_an_allowance_is_an_error() {
    let fence = Fence::new(&[], &checks(PYTEST), &Manifest::default()).unwrap();
    assert!(fence.allowing(&[allowance("tests.existing:/x")]).is_err());
}

#[test]
fn names_that_another_file_system_folds_are_no_way_round() {
    let base = &["tests/test_a.py", "README.md", "docs/caf\u{e9}.md", "conftest.py"];
    let cases: &[(&[&str], Option<Reason>, &str)] = &[
        (&["Tests/test_a.py"], Some(Reason::PlantedRunnerConfig), "alias.protected"),
        (&["tests/test_a.py."], Some(Reason::PlantedRunnerConfig), "alias.protected"),
        (&["tests/TEST_A.py"], Some(Reason::PlantedRunnerConfig), "alias.protected"),
        (&["tests /test_a.py"], Some(Reason::PlantedRunnerConfig), "alias.protected"),
        (&["conftest.py::$DATA"], Some(Reason::PlantedRunnerConfig), "alias.protected"),
        (&["src/Conftest.py"], Some(Reason::PlantedRunnerConfig), "alias.auto_loaded"),
        (&["src/\u{ff43}onftest.py"], Some(Reason::PlantedRunnerConfig), "alias.auto_loaded"),
        (&["src/.NPMRC"], Some(Reason::PlantedRunnerConfig), "alias.auto_loaded"),
        (&["readme.md"], Some(Reason::GateUnverifiable), "alias.collision"),
        (&["docs/cafe\u{301}.md"], Some(Reason::GateUnverifiable), "alias.collision"),
        (&["new/a", "new/A"], Some(Reason::GateUnverifiable), "alias.collision"),
        // The honest twins: a rename of case, new names, names in other scripts.
        (&["-README.md", "Readme.md"], None, ""),
        (&["-docs/caf\u{e9}.md", "docs/cafe\u{301}.md"], None, ""),
        (&["Docs.md", "src/Config.py", "docs/\u{6f22}\u{5b57} a.md"], None, ""),
        (&["src/conftest_helpers.py"], None, ""),
    ];
    for (edits, reason, rule) in cases {
        let decision = decide(base, &[], edits, Vec::new());
        let found = decision.findings.first().map_or("", |finding| finding.rule.as_str());
        assert_eq!((decision.reason, found), (*reason, *rule), "{edits:?}: {decision:?}");
    }
    // Outside of the scope it is the scope's to say.
    let before = Manifest::new(vec![file("src/a.py", "base")]);
    let after = Manifest::new(vec![file("src/a.py", "base"), file("Src/a.py", "changed")]);
    for (scope, reason) in [("src/**", None), ("**", Some(Reason::GateUnverifiable))] {
        let fence = Fence::new(&[], &checks(PYTEST), &before).unwrap().scoped(&[scope.to_owned()]);
        let decision = fence.judge(&before.changes_to(&after)).conclude(Ok(Vec::new()));
        assert_eq!(decision.reason, reason, "{scope}");
    }
    // What the base holds twice already is no doing of the agent.
    assert_eq!(decide(&["a/X", "a/x", "b"], &[], &["b"], Vec::new()).reason, None);
}
