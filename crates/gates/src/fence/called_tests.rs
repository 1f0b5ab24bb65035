//! What a check's own files call, with the guest's reading of them.

use std::collections::BTreeMap;

use countersign_types::{Digest, Reason};

use super::tests::{checks, entry, file, guarded};
use super::*;

/// The files of a base with what stands in them.
type Files<'a> = &'a [(&'a str, &'a str)];

fn fence(files: Files<'_>, argv: &[&str], scope: &[&str]) -> (Fence, Manifest) {
    let base: Manifest = Manifest::new(files.iter().map(|(path, text)| file(path, text)).collect());
    let contents: BTreeMap<Digest, Vec<u8>> =
        files.iter().map(|(_, text)| (Digest::of(text.as_bytes()), text.as_bytes().to_vec())).collect();
    let scope: Vec<String> = scope.iter().map(|glob| (*glob).to_owned()).collect();
    let mut fence = Fence::new(&[], &checks(argv), &base).unwrap().scoped(&scope);
    for _ in 0..4 {
        let unread = fence.unread();
        let open = |digest: &Digest| {
            contents.get(digest).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
        };
        let names = countersign_guest::fence::called(&unread, &fence.goals(), &open);
        fence.learn_called(&names);
    }
    (fence, base)
}

fn decide(files: Files<'_>, argv: &[&str], scope: &[&str], edit: &str) -> (Option<Reason>, String) {
    let (fence, base) = fence(files, argv, scope);
    let path = edit.trim_start_matches('+');
    let mut entries = base.entries().to_vec();
    entries.retain(|e| e.path.as_bytes() != path.as_bytes());
    entries.push(entry(path, "changed", EntryMode::File));
    let decision = fence.judge(&base.changes_to(&Manifest::new(entries))).conclude(Ok(Vec::new()));
    // The edit tools say the same at once.
    let guard = guarded(&fence.write_guard(&[]));
    assert_eq!(guard.matches(path.as_bytes()), decision.reason.is_some(), "{argv:?} {edit}: {decision:?}");
    (decision.reason, decision.findings.first().map_or_else(String::new, |finding| finding.rule.clone()))
}

const FILES: Files<'_> = &[
    (
        "check.sh",
        ". ./calc.sh\n. ./test-helpers.sh\nsh ./tool.sh | cmp - expected.txt\nmake -C sub test\nsh ci/run.sh\n",
    ),
    ("calc.sh", "add() { :; }\n"),
    ("test-helpers.sh", ". ./deeper-helpers.sh\n"),
    ("deeper-helpers.sh", "assert() { :; }\n"),
    ("tool.sh", "echo 1\n"),
    ("expected.txt", "3\n"),
    ("ci/run.sh", ". ci/common.bash\npython3 src/check.py\n"),
    ("ci/common.bash", "x=1\n"),
    ("src/check.py", "print(1)\n"),
    (
        "Makefile",
        "include config.mk\n-include local.mk\nall: build\nbuild:\n\tsh build.sh\ntest: prog\n\t./run-tests ${X}\n\tnode scripts/check.js\nrelease:\n\tsh scripts/release.sh\n",
    ),
    ("config.mk", "include more.def\n"),
    ("more.def", "X = 1\n"),
    ("build.sh", "cc x\n"),
    ("run-tests", "sh suite.sh\n"),
    ("suite.sh", "true\n"),
    ("scripts/check.js", "1\n"),
    ("scripts/release.sh", "true\n"),
    (
        "package.json",
        "{\"scripts\": {\"test\": \"vitest run\", \"audit\": \"node audit-check.js && sh index.sh\"}}",
    ),
    ("audit-check.js", "1\n"),
    ("index.sh", "1\n"),
    ("vite.config.ts", "1\n"),
];

#[test]
fn what_the_checks_own_files_call_is_a_part_of_it_and_the_product_is_not() {
    let (sh, make) = (&["sh", "check.sh"][..], &["make", "test"][..]);
    let (npm, audit) = (&["npm", "test"][..], &["npm", "run", "audit"][..]);
    let tampered = Some(Reason::ProtectedFiles);
    let planted = Some(Reason::PlantedRunnerConfig);
    for (argv, edit, reason, rule) in [
        (sh, "test-helpers.sh", tampered, "check.called"),
        (sh, "deeper-helpers.sh", tampered, "check.called"),
        (sh, "expected.txt", tampered, "check.called"),
        (sh, "ci/run.sh", tampered, "check.called"),
        (sh, "ci/common.bash", tampered, "check.called"),
        (make, "config.mk", tampered, "check.called"),
        (make, "more.def", tampered, "check.called"),
        (make, "run-tests", tampered, "check.called"),
        (make, "suite.sh", tampered, "check.called"),
        (make, "scripts/check.js", tampered, "check.called"),
        (make, "+local.mk", planted, "check.called"),
        (audit, "audit-check.js", tampered, "check.called"),
        // A runner that only a script starts.
        (npm, "vite.config.ts", tampered, "javascript.vite_config"),
        // The honest twins: the product that a script sources or runs, and what the check does not reach.
        (sh, "calc.sh", None, ""),
        (sh, "tool.sh", None, ""),
        (sh, "src/check.py", None, ""),
        (sh, "scripts/release.sh", None, ""),
        (make, "build.sh", None, ""),
        (make, "scripts/release.sh", None, ""),
        (make, "expected.txt", None, ""),
        (npm, "audit-check.js", None, ""),
        (npm, "index.sh", None, ""),
        (audit, "index.sh", None, ""),
        (sh, "+local.txt", None, ""),
    ] {
        assert_eq!(decide(FILES, argv, &[], edit), (reason, rule.to_owned()), "{argv:?} {edit}");
    }
    // The contract's scope names the product, whatever it is called.
    assert_eq!(decide(FILES, sh, &["ci/run.sh"], "ci/run.sh").0, None);
    assert_eq!(decide(FILES, sh, &["ci/*.sh"], "ci/run.sh").0, tampered);
    // A script that the command names is compared under the name that the command gives.
    let (fence, base) = fence(FILES, audit, &[]);
    let changed = Manifest::new(vec![file("package.json", "{}")]);
    let plan = fence.judge(&base.changes_to(&changed));
    let asked = plan.scan.iter().find(|file| file.kind == FenceKind::PackageJson).unwrap();
    assert!(asked.words.contains(&"audit".to_owned()), "{asked:?}");
}

/// Whether a changed file of the base is a part of the check.
fn stops(files: Files<'_>, argv: &[&str], scope: &[&str], edit: &str) -> bool {
    let (reason, rule) = decide(files, argv, scope, edit);
    assert_eq!(reason.is_some(), rule == "check.called", "{argv:?} {edit}: {rule}");
    reason.is_some()
}

#[test]
fn a_package_of_the_tree_that_only_tests_need_is_a_part_of_the_check() {
    const RUST: Files<'_> = &[
        (
            "Cargo.toml",
            "[package]\nname = \"a\"\n[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nshared = { path = \"shared\" }\n\
             [dependencies]\nboth = { path = \"vendor/both\" }\nengine = \"1\"\n\
             [dev-dependencies]\nchecks = { path = \"vendor/checks\" }\nboth = { path = \"vendor/both\" }\nshared = { workspace = true }\n\
             patched = \"1\"\nengine = \"1\"\nserver = { path = \"crates/server\" }\ntest-kit = { path = \"crates/test-kit\" }\n\
             me = { path = \".\", package = \"a\" }\n\
             [target.'cfg(unix)'.dev-dependencies]\nunix-checks = { path = \"./vendor/unix-checks/\" }\n\
             [build-dependencies]\ncodegen = { path = \"codegen\" }\n\
             [patch.crates-io]\npatched = { path = \"vendor/patched\" }\nengine = { path = \"vendor/engine\" }\n",
        ),
        ("crates/server/Cargo.toml", "[package]\nname = \"server\"\n"),
        ("crates/server/src/lib.rs", ""),
        ("crates/test-kit/Cargo.toml", "[package]\nname = \"test-kit\"\n"),
        ("crates/test-kit/src/lib.rs", ""),
        ("vendor/checks/src/lib.rs", ""),
        ("vendor/unix-checks/src/lib.rs", ""),
        ("vendor/both/src/lib.rs", ""),
        ("vendor/patched/src/lib.rs", ""),
        ("vendor/engine/src/lib.rs", ""),
        ("shared/src/lib.rs", ""),
        ("codegen/src/lib.rs", ""),
        ("src/lib.rs", ""),
    ];
    let cargo = &["cargo", "test", "--offline"];
    for path in [
        "vendor/checks/src/lib.rs",
        "+vendor/checks/build.rs",
        "vendor/unix-checks/src/lib.rs",
        "vendor/patched/src/lib.rs",
        "shared/src/lib.rs",
        "crates/test-kit/src/lib.rs",
    ] {
        assert!(stops(RUST, cargo, &[], path), "{path}");
    }
    for path in [
        "src/lib.rs",
        "vendor/both/src/lib.rs",
        "vendor/engine/src/lib.rs",
        "codegen/src/lib.rs",
        "crates/server/src/lib.rs",
    ] {
        assert!(!stops(RUST, cargo, &[], path), "{path}");
    }
    // Who asks for a fix there says so.
    assert!(!stops(RUST, cargo, &["vendor/checks/**"], "vendor/checks/src/lib.rs"));
    assert!(stops(RUST, cargo, &["vendor/**"], "vendor/checks/src/lib.rs"));

    const NODE: Files<'_> = &[
        (
            "package.json",
            r#"{"dependencies": {"b": "file:./packages/b"}, "devDependencies": {"a": "file:vendor/a", "b": "link:packages/b", "jest": "30"}}"#,
        ),
        ("vendor/a/index.js", ""),
        ("packages/b/index.js", ""),
    ];
    let jest = &["node_modules/.bin/jest"];
    assert!(stops(NODE, jest, &[], "vendor/a/index.js"));
    assert!(!stops(NODE, jest, &[], "packages/b/index.js"));

    const PYTHON: Files<'_> = &[
        ("requirements.txt", "-e ./lib/core\n"),
        (
            "requirements-dev.txt",
            "# tools\npytest==8\n-e ./lib/util[all]\n--editable=lib/core\nfile:lib/more\n",
        ),
        ("lib/util/util.py", ""),
        ("lib/more/more.py", ""),
        ("lib/core/core.py", ""),
    ];
    let pytest = &["python3", "-m", "pytest"];
    assert!(stops(PYTHON, pytest, &[], "lib/util/util.py") && stops(PYTHON, pytest, &[], "lib/more/more.py"));
    assert!(!stops(PYTHON, pytest, &[], "lib/core/core.py"));

    const GO: Files<'_> = &[
        (
            "go.mod",
            "module m\nreplace example.org/testutil => ./internal/testutil\nreplace (\n\texample.org/b => ./b // tests\n)\n",
        ),
        ("internal/testutil/go.mod", "module example.org/testutil\n"),
        ("internal/testutil/util.go", "package testutil\n"),
        ("b/b.go", "package b\n"),
    ];
    let go = &["go", "test", "./..."];
    assert!(stops(GO, go, &[], "internal/testutil/util.go"));
    assert!(!stops(GO, go, &[], "b/b.go"));
}
