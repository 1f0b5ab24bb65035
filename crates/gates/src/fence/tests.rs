//! Each path rule with an attack and its honest twin.

use countersign_kernel::contract::Expect;
use countersign_tree::Entry;
use countersign_types::{Digest, GateStatus, Millis, Reason};

use super::guard::TEST_WORDS;
use super::*;

pub(super) fn entry(path: &str, content: &str, mode: EntryMode) -> Entry {
    Entry {
        path: TreePath::new(path.as_bytes()).unwrap(),
        mode,
        size: content.len() as u64,
        digest: Digest::of(content.as_bytes()),
    }
}

pub(super) fn file(path: &str, content: &str) -> Entry {
    entry(path, content, EntryMode::File)
}

const BASE: &[&str] = &[
    "Cargo.toml",
    "Makefile",
    "check.sh",
    "crates/a/Cargo.toml",
    "crates/a/src/lib.rs",
    "crates/a/src/unit.rs",
    "crates/a/tests/it.rs",
    "crates/a/tests/ui/bad.stderr",
    "calc.py",
    "conftest.py",
    "pyproject.toml",
    "pytest.ini",
    "rust-toolchain.toml",
    "src/pkg/__init__.py",
    "src/pkg/core.py",
    "src/pkg/test/client.py",
    "src/snapshots/x.snap",
    "test_calc.py",
    "tests/__init__.py",
    "tests/data/golden.json",
    "tests/test_core.py",
    "other/tests/test_x.py",
    "tool.py",
];

fn base() -> Manifest {
    Manifest::new(BASE.iter().map(|path| file(path, "base")).collect())
}

pub(super) fn checks(argv: &[&str]) -> Vec<CheckTerms> {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    vec![CheckTerms::new(argv, Expect::Fix, Millis(1000))]
}

/// `+path` adds, `~path` changes, `-path` removes, `xpath` makes executable, `@path` becomes a link.
fn changes(edits: &[&str]) -> Vec<Change> {
    let mut entries: Vec<Entry> = base().entries().to_vec();
    for edit in edits {
        let (what, path) = edit.split_at(1);
        let (path, content) = path.split_once('=').unwrap_or((path, "changed"));
        let tree_path = TreePath::new(path.as_bytes()).unwrap();
        entries.retain(|e| e.path != tree_path);
        match what {
            "+" | "~" => entries.push(file(path, content)),
            "x" => entries.push(entry(path, "base", EntryMode::Executable)),
            "@" => {
                let below = format!("{path}/");
                entries.retain(|e| !e.path.as_bytes().starts_with(below.as_bytes()));
                entries.push(entry(path, "elsewhere", EntryMode::Symlink));
            }
            _ => {}
        }
    }
    base().changes_to(&Manifest::new(entries))
}

/// What the edit tools refuse by a path's name.
pub(super) fn guarded(guard: &countersign_guest::protocol::WriteGuard) -> GlobSet {
    GlobSet::new(guard.protect.iter().flat_map(|rule| &rule.globs)).unwrap()
}

fn plan(argv: &[&str], edits: &[&str]) -> FencePlan {
    Fence::new(&[], &checks(argv), &base()).unwrap().judge(&changes(edits))
}

fn decide(argv: &[&str], edits: &[&str]) -> GateDecision {
    plan(argv, edits).conclude(Ok(Vec::new()))
}

const PYTEST: &[&str] = &["python", "-m", "pytest", "-q"];

#[test]
fn every_path_rule_stops_its_attack_and_lets_its_honest_twin_pass() {
    let cases: &[(&[&str], &str, Option<Reason>, &str)] = &[
        // Tests that exist; new ones are fine (2).
        (PYTEST, "~tests/test_core.py", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "-tests/test_core.py", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "xtests/test_core.py", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "@tests/test_core.py", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "@tests", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "~tests/data/golden.json", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "~crates/a/tests/ui/bad.stderr", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "~src/snapshots/x.snap", Some(Reason::ProtectedFiles), "tests.existing"),
        (PYTEST, "~test_calc.py", Some(Reason::ProtectedFiles), "python.tests"),
        (PYTEST, "+tests/test_new.py", None, ""),
        (PYTEST, "+src/snapshots/y.snap", None, ""),
        (PYTEST, "~src/pkg/test/client.py", None, ""),
        (PYTEST, "~src/pkg/core.py", None, ""),
        (PYTEST, "-src/pkg/core.py", None, ""),
        (PYTEST, "xtool.py", None, ""),
        (PYTEST, "@link", None, ""),
        // What a runner loads by itself (17 to 26).
        (PYTEST, "~conftest.py", Some(Reason::ProtectedFiles), "python.runner_config"),
        (PYTEST, "+src/conftest.py", Some(Reason::PlantedRunnerConfig), "python.runner_config"),
        (PYTEST, "+tests/pytest.ini", Some(Reason::PlantedRunnerConfig), "python.runner_config"),
        (
            PYTEST,
            "+evil-1.0.dist-info/entry_points.txt",
            Some(Reason::PlantedRunnerConfig),
            "python.runner_config",
        ),
        (PYTEST, "+.pytest.ini", Some(Reason::PlantedRunnerConfig), "python.runner_config"),
        (PYTEST, "+sitecustomize.py", Some(Reason::PlantedRunnerConfig), "python.runner_config"),
        (
            PYTEST,
            "+lib/python3/site-packages/x.pth",
            Some(Reason::PlantedRunnerConfig),
            "python.runner_config",
        ),
        (PYTEST, "+models/weights.pth", None, "note.weights_or_path_file"),
        (PYTEST, "+Conftest.py", Some(Reason::PlantedRunnerConfig), "alias.protected"),
        (PYTEST, "+src/pkg/conf.py", None, ""),
        // Modules that would be imported in place of others (14, 25, 51).
        (PYTEST, "+pytest.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+_pytest/__init__.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+pytest_evil.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+math.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+other/tests/calc.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+other/tests/pkg/__init__.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (&["python", "-m", "checker"], "+checker.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (
            PYTEST,
            "+pytest.cpython-312-x86_64-linux-gnu.so",
            Some(Reason::PlantedRunnerConfig),
            "runner.shadow",
        ),
        (PYTEST, "+src/unittest/__init__.pyc", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+coverage/lcov.info", None, ""),
        (PYTEST, "+src/logging.py", None, ""),
        (PYTEST, "+checker.py", None, ""),
        (PYTEST, "+tests/new/__init__.py", None, "note.tests_package"),
        // Before existing tests, only an empty one (the decoy rule would stop another).
        (PYTEST, "+other/tests/__init__.py=", None, "note.tests_package"),
        (PYTEST, "+other/tests/__init__.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+other/__init__.py", None, ""),
        // Links (52): whatever they lead to, the name decides.
        (PYTEST, "@unittest", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "@signal", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "@other/tests/calc", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "@node_modules", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "@web/.venv", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "@docs", None, ""),
        (PYTEST, "+contextlib.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+runpy.py", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (PYTEST, "+src/pkg/contextlib.py", None, ""),
        (PYTEST, "+src/pkg/math.py", None, ""),
        (PYTEST, "+other/tests/helpers.py", None, ""),
        // Rust (33, 34, 68).
        (&["cargo", "test"], "+.cargo/config.toml", Some(Reason::PlantedRunnerConfig), "rust.runner_config"),
        (
            &["cargo", "test"],
            "+crates/a/.cargo/config",
            Some(Reason::PlantedRunnerConfig),
            "rust.runner_config",
        ),
        (&["cargo", "test"], "@.cargo", Some(Reason::PlantedRunnerConfig), "rust.runner_config_link"),
        (&["cargo", "test"], "~rust-toolchain.toml", Some(Reason::ProtectedFiles), "rust.runner_config"),
        (&["cargo", "test"], "-rust-toolchain.toml", Some(Reason::ProtectedFiles), "rust.runner_config"),
        (
            &["cargo", "test"],
            "+.config/nextest.toml",
            Some(Reason::PlantedRunnerConfig),
            "rust.runner_config",
        ),
        (&["cargo", "clippy"], "+clippy.toml", Some(Reason::PlantedRunnerConfig), "rust.lint_config"),
        (&["cargo", "test"], "+clippy.toml", None, ""),
        (&["cargo", "test"], "+build.rs", None, "note.build_script"),
        (&["cargo", "test"], "+Cargo.lock", None, "note.lockfile"),
        (&["cargo", "test"], "+.gitignore", None, "note.ignore_file"),
        (&["cargo", "test"], "~crates/a/tests/it.rs", Some(Reason::ProtectedFiles), "tests.existing"),
        (&["cargo", "test"], "+crates/a/tests/new.rs", None, ""),
        (&["cargo", "test"], "@crates/a/src/lib.rs", Some(Reason::GateUnverifiable), "rust.source"),
        (&["cargo", "test"], "@Cargo.toml", Some(Reason::GateUnverifiable), "rust.manifest"),
        // make (76, 77) and the check's own program (83).
        (&["make", "test"], "~Makefile", Some(Reason::ProtectedFiles), "make.rules"),
        (&["sh", "-c", "make test"], "~Makefile", Some(Reason::ProtectedFiles), "make.rules"),
        (PYTEST, "~Makefile", None, ""),
        (PYTEST, "+GNUmakefile", Some(Reason::PlantedRunnerConfig), "runner.shadow"),
        (&["./check.sh"], "~check.sh", Some(Reason::ProtectedFiles), "check.program"),
        (&["sh", "check.sh"], "xcheck.sh", Some(Reason::ProtectedFiles), "check.program"),
        (
            &["sh", "-c", "cd . && ./check.sh --all"],
            "~check.sh",
            Some(Reason::ProtectedFiles),
            "check.program",
        ),
        (&["/workspace/check.sh"], "-check.sh", Some(Reason::ProtectedFiles), "check.program"),
        (&["python3", "tool.py"], "~tool.py", Some(Reason::ProtectedFiles), "check.program"),
        (PYTEST, "~check.sh", None, ""),
        (&["python3", "-m", "doctest", "tool.py"], "~tool.py", Some(Reason::ProtectedFiles), "check.program"),
    ];
    for (argv, edit, reason, rule) in cases {
        let decision = decide(argv, &[edit]);
        assert_eq!(decision.reason, *reason, "{argv:?} {edit}: {decision:?}");
        let found = decision.findings.first().map_or("", |finding| finding.rule.as_str());
        assert_eq!(found, *rule, "{argv:?} {edit}: {decision:?}");
        let status = match reason {
            None => GateStatus::Passed,
            Some(Reason::GateUnverifiable) => GateStatus::Unverifiable,
            Some(_) => GateStatus::Failed,
        };
        assert_eq!(decision.status, status, "{edit}");
    }
}

#[test]
fn a_rename_of_a_protected_file_is_its_deletion() {
    let decision = decide(PYTEST, &["-tests/test_core.py", "+tests/test_core_2.py"]);
    assert_eq!(decision.reason, Some(Reason::ProtectedFiles));
    assert!(decision.detail.contains("tests/test_core.py (tests.existing: removed"), "{}", decision.detail);
}

#[test]
fn the_contracts_globs_protect_everything_below_them() {
    let fence = Fence::new(&["docs/**".to_owned()], &checks(PYTEST), &base()).unwrap();
    let decision = fence.judge(&changes(&["+docs/new.md"])).conclude(Ok(Vec::new()));
    assert_eq!(decision.findings[0].rule, "contract.protect");
    assert!(Fence::new(&["/abs".to_owned()], &[], &base()).is_err());
}

#[test]
fn the_guest_is_asked_about_mixed_files_and_the_files_that_declare_them() {
    let plan = plan(
        &["cargo", "test"],
        &["~crates/a/src/unit.rs", "~pyproject.toml", "+new/Cargo.toml", "+setup.cfg", "xcalc.py"],
    );
    let asked: Vec<String> = plan.scan.iter().map(|f| format!("{} {:?}", f.path, f.kind)).collect();
    let expected = [
        "crates/a/src/unit.rs RustItems",
        "pyproject.toml PyprojectToml",
        "setup.cfg SetupCfg",
        "crates/a/src/lib.rs RustItems",
    ];
    assert_eq!(asked, expected);
    assert_eq!(plan.scan[3].before, plan.scan[3].after);
    assert!(plan.scan[2].before.is_none());
    // A manifest above existing crates decides how they are built; one beside them does not.
    let mut entries = base().entries().to_vec();
    entries.retain(|e| e.path.as_bytes() != b"Cargo.toml");
    let rootless = Manifest::new(entries);
    let fence = Fence::new(&[], &[], &rootless).unwrap();
    assert_eq!(fence.judge(&rootless.changes_to(&base())).scan.len(), 1);
    // A mode alone changes no key.
    assert!(super::tests::plan(PYTEST, &["xpyproject.toml"]).scan.is_empty());
}

#[test]
fn tampered_beats_planted_beats_unverifiable_and_a_blind_fence_never_passes() {
    let scanned = |verdict| FenceFinding {
        path: TreePath::new(b"pyproject.toml".as_slice()).unwrap(),
        verdict,
        rule: "r".to_owned(),
        detail: "d".to_owned(),
    };
    let edits = &["~pyproject.toml", "+src/conftest.py"];
    let with = |edits: &[&str], findings| plan(PYTEST, edits).conclude(findings).reason;
    assert_eq!(with(edits, Ok(vec![scanned(FenceVerdict::Tampered)])), Some(Reason::ProtectedFiles));
    assert_eq!(with(edits, Ok(vec![scanned(FenceVerdict::Unverifiable)])), Some(Reason::PlantedRunnerConfig));
    assert_eq!(with(edits, Err("the guest died".to_owned())), Some(Reason::PlantedRunnerConfig));
    let one = &["~pyproject.toml"];
    assert_eq!(with(one, Ok(vec![scanned(FenceVerdict::Unverifiable)])), Some(Reason::GateUnverifiable));
    assert_eq!(with(one, Ok(vec![scanned(FenceVerdict::Note)])), None);
    assert_eq!(with(one, Err("the guest died".to_owned())), Some(Reason::GateUnverifiable));
    // The scanner spoke about a file that nobody asked about.
    assert_eq!(with(&["~calc.py"], Ok(vec![scanned(FenceVerdict::Note)])), Some(Reason::GateUnverifiable));
}

#[test]
fn the_guard_refuses_existing_tests_and_lets_new_ones_be_written_again() {
    let manifest = Manifest::new(vec![
        file("tests/test_[x].py", "base"),
        file("a.py", "base"),
        file("check.sh", "base"),
    ]);
    let fence = Fence::new(&["docs/**".to_owned()], &checks(&["./check.sh"]), &manifest).unwrap();
    let guard = fence.write_guard(&["src/**".to_owned()]);
    let protect = guarded(&guard);
    for (path, refused) in [
        ("tests/test_[x].py", true),
        ("tests/test_x.py", false),
        ("tests/test_new.py", false),
        ("docs/a.md", true),
        ("check.sh", true),
        ("sub/conftest.py", true),
        (".cargo/config.toml", true),
        ("pytest.py", true),
        ("a.py", false),
        (".config/app.toml", false),
    ] {
        assert_eq!(protect.matches(path.as_bytes()), refused, "{path}");
    }
    assert_eq!(guard.scope, ["src/**"]);
    assert!(guard.fence.iter().any(|f| f.glob == "**/*.rs" && f.kind == FenceKind::RustItems));
    let sentence = fence.sentence(&["src/**".to_owned()]);
    for part in ["`docs/**`", "`check.sh`", "`src/**`"] {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn every_pattern_of_an_existing_test_holds_a_word_that_is_looked_for_first() {
    let is_listed = |rule: &&Rule| rule.means == Means::ProtectedExisting && rule.when == When::Always;
    for rule in rules().filter(is_listed) {
        for glob in rule.globs {
            assert!(TEST_WORDS.iter().any(|word| glob.contains(word)), "{glob}");
        }
    }
}

/// A base with the layouts in which a check's program hides.
fn hidden() -> Manifest {
    let links = [
        ("bin", "scripts"),
        ("run", "scripts/real.sh"),
        ("tests", "suite"),
        ("s/up", "../v"),
        ("out", "/usr/x"),
    ];
    let files = [
        "calc.py",
        "check.js",
        "check.sh",
        "check.py",
        "fix/deep/run.sh",
        "lists/all.txt",
        "Makefile",
        "noxfile.py",
        "package.json",
        "p-test.js",
        "s/check.sh",
        "scripts/check.py",
        "scripts/real.sh",
        "suite/t.sh",
        "tools/__init__.py",
        "tools/check.py",
        "tools/sub/__main__.py",
        "v",
        "x/y",
    ];
    let links = links.iter().map(|(path, target)| entry(path, target, EntryMode::Symlink));
    Manifest::new(files.iter().map(|path| file(path, "base")).chain(links).collect())
}

/// What the fence says to one changed or (`+`) new path of [`hidden`].
fn decide_hidden(argv: &[&str], scope: &[&str], edit: &str) -> Option<Reason> {
    let path = edit.trim_start_matches('+');
    let mut entries = hidden().entries().to_vec();
    entries.retain(|e| e.path.as_bytes() != path.as_bytes());
    entries.push(file(path, "changed"));
    let scope: Vec<String> = scope.iter().map(|glob| (*glob).to_owned()).collect();
    let fence = Fence::new(&[], &checks(argv), &hidden()).unwrap().scoped(&scope);
    let decision = fence.judge(&hidden().changes_to(&Manifest::new(entries))).conclude(Ok(Vec::new()));
    let guard = guarded(&fence.write_guard(&[]));
    // The edit tools refuse what the fence would call tampered.
    if decision.reason == Some(Reason::ProtectedFiles) {
        assert!(guard.matches(path.as_bytes()), "{argv:?} {edit}");
    }
    decision.reason
}

#[test]
fn every_file_that_a_checks_command_names_is_a_part_of_the_check() {
    const NAMED: &[(&[&str], &str)] = &[
        (&["sh", "check.sh"], "check.sh"),
        (&["env", "FOO=1", "sh", "check.sh"], "check.sh"),
        (&["timeout", "5", "sh", "./check.sh"], "check.sh"),
        (&["bash", "-o", "pipefail", "check.sh"], "check.sh"),
        (&["bash", "--norc", "check.sh"], "check.sh"),
        (&["nice", "-n", "5", "xargs", "-a", "lists/all.txt", "sh", "check.sh"], "lists/all.txt"),
        (&["sh", "/workspace//x/../check.sh"], "check.sh"),
        (&["sh", "-c", "sh ./nowhere/../check.sh"], "check.sh"),
        (&["sh", "-c", "sh chec*.sh"], "check.sh"),
        (&["sh", "-c", ". ./check.sh"], "check.sh"),
        (&["sh", "-c", "sh $PWD/check.sh"], "check.sh"),
        (&["sh", "-c", "sh \"$(pwd)\"/'check'.sh"], "check.sh"),
        (&["sh", "-c", "sh -c 'sh {check,nope}.sh'"], "check.sh"),
        (&["sh", "-c", "D=fix/deep; sh $D/run.sh"], "fix/deep/run.sh"),
        (&["sh", "-c", "cd s && sh check.sh"], "s/check.sh"),
        (&["sh", "-c", "cd fix; cd deep && ./run.sh"], "fix/deep/run.sh"),
        (&["make", "-C", "s", "-f", "check.sh"], "s/check.sh"),
        (&["sh", "-c", "cd s; cat up"], "v"),
        (&["python3", "-W", "ignore", "check.py"], "check.py"),
        (&["python3", "-E", "check.py"], "check.py"),
        (&["python3", "calc.py", "-c", "check.py"], "check.py"),
        (&["sh", "-c", "python3 check.py"], "check.py"),
        (&["python3", "-m", "tools.check"], "tools/check.py"),
        (&["sh", "-c", "python3 -B -m tools.sub"], "tools/sub/__main__.py"),
        (&["node", "--stack-size", "900", "check.js"], "check.js"),
        (&["node", "./check"], "check.js"),
        // Links of the base: the link and what it leads to.
        (&["sh", "run"], "run"),
        (&["sh", "run"], "scripts/real.sh"),
        (&["sh", "bin/real.sh"], "bin"),
        (&["sh", "bin/real.sh"], "scripts/real.sh"),
        (&["sh", "-c", "sh bin/re*.sh"], "scripts/real.sh"),
        (&["sh", "-c", "for t in tests/*.sh; do sh $t; done"], "suite/t.sh"),
        (&["true"], "suite/t.sh"),
        (&["sh", "out"], "out"),
        // What a script may call, and tests by their name.
        (&["sh", "check.sh"], "Makefile"),
        (&["sh", "-c", "./bin/real.sh"], "noxfile.py"),
        (&["node", "--test"], "p-test.js"),
    ];
    for (argv, path) in NAMED {
        assert_eq!(decide_hidden(argv, &[], path), Some(Reason::ProtectedFiles), "{argv:?} {path}");
    }
    for (argv, path) in [
        (&["sh", "check.sh"][..], "calc.py"),
        (&["sh", "check.sh"], "s/check.sh"),
        (&["sh", "-c", "for f in *; do test -e $f; done"], "v"),
        (&["python3", "-c", "open('v')"], "v"),
        (&["python3", "calc.py"], "Makefile"),
        (&["python3", "-m", "tools.check"], "tools/sub/__main__.py"),
        (&["make", "test"], "scripts/real.sh"),
        (&["sh", "check.sh"], "+suite/new.sh"),
        (&["sh", "../../etc/check.sh", "/check.sh"], "v"),
    ] {
        assert_eq!(decide_hidden(argv, &[], path), None, "{argv:?} {path}");
    }
}

#[test]
fn a_product_on_the_command_line_is_named_by_the_scope_itself() {
    let run = &["python3", "calc.py"];
    assert_eq!(decide_hidden(run, &[], "calc.py"), Some(Reason::ProtectedFiles));
    assert_eq!(decide_hidden(run, &["**", "*.py"], "calc.py"), Some(Reason::ProtectedFiles));
    assert_eq!(decide_hidden(run, &["calc.py"], "calc.py"), None);
    let lint = &["sh", "-c", "lint tools/*.py"];
    assert_eq!(decide_hidden(lint, &["tools/**"], "tools/check.py"), Some(Reason::ProtectedFiles));
    assert_eq!(decide_hidden(lint, &["tools/*.py"], "tools/check.py"), None);
    // The scope gives the product free, and nothing else that the command names.
    assert_eq!(decide_hidden(&["sh", "check.sh", "v"], &["v"], "check.sh"), Some(Reason::ProtectedFiles));
    // A manifest on the command line is compared by its keys.
    assert_eq!(decide_hidden(&["npm", "--userconfig", "package.json"], &[], "package.json"), None);
}

#[test]
fn where_the_check_starts_python_no_module_may_stand_in_front() {
    for (argv, path, planted) in [
        (&["python3", "scripts/check.py"][..], "+scripts/unittest.py", true),
        (&["python3", "scripts/check.py"], "+scripts/signal.py", true),
        (&["python3", "scripts/check.py"], "+scripts/calc.py", true),
        (&["python3", "scripts/check.py"], "+scripts/helper.py", false),
        (&["python3", "scripts/check.py"], "+lib/signal.py", false),
        (&["sh", "-c", "cd fix && python3 ../check.py"], "+fix/json/__init__.py", true),
        (&["sh", "-c", "PYTHONPATH=s python3 check.py"], "+s/argparse.py", true),
        (&["python3", "-m", "unittest", "discover", "-s", "s"], "+s/csv.py", true),
    ] {
        let expected = planted.then_some(Reason::PlantedRunnerConfig);
        assert_eq!(decide_hidden(argv, &[], path), expected, "{argv:?} {path}");
    }
}
