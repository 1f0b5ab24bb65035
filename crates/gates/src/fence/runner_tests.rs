//! Path rules of node, Go, make, Ruby, Perl, the JVM and C, each attack with its honest twin.

use countersign_tree::Entry;
use countersign_types::{GateStatus, Reason};

use super::tests::{checks, entry, file, guarded};
use super::*;

/// What the fence says about one edit of a base: `+` adds, `~` changes, `-` removes, `x` makes executable, `@` links.
/// The guest's part is not asked.
fn decide(base: &[&str], argv: &[&str], edit: &str) -> (GateDecision, FencePlan) {
    let base = Manifest::new(base.iter().map(|path| file(path, "base")).collect());
    let (what, path) = edit.split_at(1);
    let mut entries: Vec<Entry> = base.entries().to_vec();
    entries.retain(|e| e.path.as_bytes() != path.as_bytes());
    match what {
        "+" | "~" => entries.push(file(path, "changed")),
        "x" => entries.push(entry(path, "base", EntryMode::Executable)),
        "@" => {
            let below = format!("{path}/");
            entries.retain(|e| !e.path.as_bytes().starts_with(below.as_bytes()));
            entries.push(entry(path, "elsewhere", EntryMode::Symlink));
        }
        _ => {}
    }
    let fence = Fence::new(&[], &checks(argv), &base).unwrap();
    let plan = fence.judge(&base.changes_to(&Manifest::new(entries)));
    let decision = plan.clone().conclude(Ok(Vec::new()));
    // What the fence refuses by a path's name alone, the edit tools refuse at once.
    let guard = guarded(&fence.write_guard(&[]));
    if decision.reason == Some(Reason::ProtectedFiles) && what == "~" {
        assert!(guard.matches(path.as_bytes()), "{argv:?} {edit}");
    }
    // What a command may add to vendored modules, nobody writes by hand.
    if decision.reason.is_none() && matches!(what, "+" | "~") && !path.contains("vendor/") {
        assert!(
            !guard.matches(path.as_bytes()),
            "{argv:?} {edit}: the edit tools refuse what the fence allows"
        );
    }
    (decision, plan)
}

fn holds(base: &[&str], cases: &[(&[&str], &str, &str)]) {
    for (argv, edit, expected) in cases {
        let (decision, _) = decide(base, argv, edit);
        let found = decision.findings.first().map_or("", |finding| finding.rule.as_str());
        assert_eq!(found, *expected, "{argv:?} {edit}: {decision:?}");
        let stops =
            !(expected.is_empty() || expected.starts_with("note.") || expected.starts_with("go.noted"));
        assert_eq!(decision.status != GateStatus::Passed, stops, "{argv:?} {edit}: {decision:?}");
    }
}

const NODE: &[&str] = &["node", "--test"];
const NPM: &[&str] = &["npm", "test"];

#[test]
fn node() {
    let base = &[
        "package.json",
        "index.js",
        "lib/add.js",
        "lib/add.test.js",
        "lib/__tests__/sub.js",
        "lib/__snapshots__/add.test.js.snap",
        "src/test/kit.py",
        "test.mjs",
        "test/add.js",
        "test/data.json",
        "test/fixtures/golden.bin",
        "test/add.js.snapshot",
        "vitest.setup.ts",
        "jest.config.js",
        ".mocharc.yml",
        "babel.config.js",
        "tsconfig.json",
        "vite.config.ts",
        "packages/a/package.json",
        "packages/a/index.ts",
        "packages/a/test/data/input.sql",
        "packages/a/e2e/flow.ts",
        "docs/test/page.md",
    ];
    holds(
        base,
        &[
            (NODE, "~lib/add.test.js", "javascript.tests"),
            (NODE, "-lib/__tests__/sub.js", "javascript.tests"),
            (NODE, "-lib/__snapshots__/add.test.js.snap", "tests.existing"),
            (NODE, "~test/add.js.snapshot", "tests.existing"),
            (NODE, "~test.mjs", "javascript.tests"),
            (NODE, "@test", "tests.existing"),
            (NODE, "@lib/add.test.js", "javascript.tests"),
            (NODE, "~test/fixtures/golden.bin", "tests.existing"),
            (NODE, "~packages/a/test/data/input.sql", "tests.existing"),
            (NODE, "~packages/a/e2e/flow.ts", "tests.existing"),
            (NPM, "~vitest.setup.ts", "javascript.test_setup"),
            (NPM, "~jest.config.js", "javascript.runner_config"),
            (NPM, "-.mocharc.yml", "javascript.runner_config"),
            (NPM, "+packages/a/jest.config.json", "javascript.runner_config"),
            (NPM, "+vitest.config.mts", "javascript.runner_config"),
            (NPM, "+.npmrc", "javascript.runner_config"),
            (NPM, "+.nycrc.json", "javascript.runner_config"),
            (NPM, "+lib/.babelrc", "javascript.transform_config"),
            (NPM, "~babel.config.js", "javascript.transform_config"),
            (NPM, "+lib/__mocks__/add.js", "javascript.mocks"),
            (NPM, "+node_modules/chai/index.js", "javascript.installed"),
            (NPM, "+lib/node_modules/assert/index.js", "javascript.installed"),
            (NPM, "@node_modules", "runner.shadow"),
            (NPM, "+chai.js", "runner.shadow"),
            (NPM, "+packages/a/vitest/index.ts", "runner.shadow"),
            (&["npx", "vitest", "run"], "~vite.config.ts", "javascript.vite_config"),
            (&["npx", "tsc", "--noEmit"], "~tsconfig.json", "javascript.type_check_config"),
            (&["npx", "eslint", "."], "+.eslintrc.json", "javascript.lint_config"),
            // The honest twins.
            (NODE, "~index.js", ""),
            (NODE, "~lib/add.js", ""),
            (NODE, "-lib/add.js", ""),
            (NODE, "+lib/sub.test.js", ""),
            (NODE, "+test/sub.js", ""),
            (NODE, "+lib/__tests__/more.js", ""),
            (NODE, "+lib/__snapshots__/more.test.js.snap", ""),
            (NODE, "xindex.js", ""),
            (NODE, "~src/test/kit.py", ""),
            (NODE, "~docs/test/page.md", ""),
            (NODE, "~babel.config.js", ""),
            (NODE, "+chai.md", ""),
            (NODE, "+lib/expect.js", ""),
            (NODE, "+lib/tap.js", ""),
            (NPM, "~package.json", ""),
            (NPM, "~vite.config.ts", "note.build_script"),
            (NPM, "+package-lock.json", "note.lockfile"),
            (NPM, "+new/package.json", ""),
            (NPM, "+new/tsconfig.json", ""),
            (NPM, "+tsconfig.build.json", ""),
        ],
    );
    let asked = |edit| decide(base, NPM, edit).1.scan.len();
    // A package of its own says of itself what it likes; one above existing files does not.
    for (edit, files) in [
        ("~package.json", 1),
        ("+lib/package.json", 1),
        ("+new/package.json", 0),
        ("+lib/tsconfig.json", 1),
        ("+tsconfig.build.json", 0),
        ("xpackage.json", 0),
    ] {
        assert_eq!(asked(edit), files, "{edit}");
    }
}

const GO: &[&str] = &["go", "test", "./..."];

#[test]
fn go() {
    let base = &[
        "go.mod",
        "add.go",
        "add_test.go",
        "testdata/in.txt",
        "sub/sub.go",
        "sub/deep/deep_test.go",
        "docs/guide.md",
        "plain/plain.go",
        "tool/go.mod",
        "tool/main.go",
        "tool/vendor/modules.txt",
        "tool/vendor/example.com/assert/assert.go",
    ];
    holds(
        base,
        &[
            (GO, "~add_test.go", "go.tests"),
            (GO, "-add_test.go", "go.tests"),
            (GO, "~testdata/in.txt", "tests.existing"),
            (GO, "+sub/go.mod", "runner.shadow"),
            (GO, "+sub/deep/go.mod", "runner.shadow"),
            (GO, "+vendor/modules.txt", "go.vendor"),
            (GO, "~tool/vendor/example.com/assert/assert.go", "go.vendor"),
            (GO, "+tool/vendor/example.com/assert/zz.go", "go.vendor"),
            (GO, "-tool/vendor/modules.txt", "go.vendor"),
            (GO, "@go.mod", "go.module"),
            // The honest twins.
            (GO, "~add.go", ""),
            (GO, "+mul.go", ""),
            (GO, "+mul_test.go", ""),
            (GO, "+new/go.mod", ""),
            (GO, "+docs/go.mod", ""),
            (GO, "+tool/go.mod", ""),
            (GO, "+go.sum", "note.lockfile"),
            (GO, "+tool/vendor/example.com/other/other.go", ""),
            (GO, "~tool/vendor/modules.txt", "note.vendored"),
            (GO, "+vendor/notes.md", ""),
        ],
    );
    let asked = |edit| decide(base, GO, edit).1.scan.iter().map(|f| f.kind).collect::<Vec<_>>();
    assert_eq!(asked("~go.mod"), [FenceKind::GoMod]);
    assert_eq!(asked("+go.work"), [FenceKind::GoWork]);
    assert_eq!(asked("~add.go"), [FenceKind::GoItems]);
    // A `TestMain` decides for the tests beside it, and there are none here.
    assert_eq!(asked("+zz_test.go"), [FenceKind::GoItems]);
    assert_eq!(asked("+plain/zz_test.go"), []);
    // A rename out of the pattern, or behind a build constraint, takes the test away (10).
    let renamed = [("add_test.go", "add_windows_test.go"), ("add_test.go", "_add_test.go")];
    for (from, to) in renamed {
        let before = Manifest::new(vec![file("go.mod", "m"), file(from, "t")]);
        let after = Manifest::new(vec![file("go.mod", "m"), file(to, "t")]);
        let decision = Fence::new(&[], &checks(GO), &before).unwrap().judge(&before.changes_to(&after));
        assert_eq!(decision.conclude(Ok(Vec::new())).reason, Some(Reason::ProtectedFiles), "{to}");
    }
}

#[test]
fn ruby_perl_php_the_jvm_and_c() {
    let base = &[
        ".rspec",
        "lib/add.rb",
        "spec/add_spec.rb",
        "t/add.t",
        "lib/Add.pm",
        "pom.xml",
        "gradlew",
        "src/main/java/Add.java",
        "src/test/java/AddTest.java",
        "src/test/resources/in.csv",
        "CMakeLists.txt",
        "add.c",
        "test_add.c",
        "lib/CMakeLists.txt",
        "lib/test/in.txt",
        "src/AddTest.php",
        "Rakefile",
    ];
    let (rspec, prove, mvn, ctest) =
        (&["rspec"][..], &["prove", "-l"][..], &["mvn", "-o", "test"][..], &["ctest"][..]);
    holds(
        base,
        &[
            (rspec, "~spec/add_spec.rb", "tests.existing"),
            (rspec, "~.rspec", "ruby.runner_config"),
            (rspec, "+.rspec-local", "ruby.runner_config"),
            (rspec, "+lib/rspec/core.rb", "runner.shadow"),
            (rspec, "+lib/minitest/force_plugin.rb", "ruby.runner_config"),
            (&["bundle", "exec", "rake"], "~Rakefile", "ruby.rake"),
            (prove, "~t/add.t", "perl.tests"),
            (prove, "+.proverc", "perl.runner_config"),
            (prove, "+lib/Test/More.pm", "perl.runner_config"),
            (mvn, "~src/test/java/AddTest.java", "jvm.tests"),
            (mvn, "-src/test/resources/in.csv", "jvm.tests"),
            (mvn, "+.mvn/jvm.config", "jvm.runner_config"),
            (
                mvn,
                "+src/main/resources/META-INF/services/org.junit.platform.launcher.TestExecutionListener",
                "jvm.runner_config",
            ),
            (mvn, "~gradlew", "jvm.wrapper"),
            (ctest, "~test_add.c", "c.tests"),
            (ctest, "~lib/test/in.txt", "tests.existing"),
            (ctest, "+CTestCustom.cmake", "c.runner_config"),
            (&["phpunit"], "~src/AddTest.php", "php.tests"),
            (&["phpunit"], "+phpunit.xml", "php.runner_config"),
            // The honest twins.
            (rspec, "~lib/add.rb", ""),
            (rspec, "+spec/sub_spec.rb", ""),
            (rspec, "~Rakefile", ""),
            (rspec, "+lib/rspec/mine.rb", ""),
            (prove, "~lib/Add.pm", ""),
            (prove, "+t/sub.t", ""),
            (mvn, "~src/main/java/Add.java", ""),
            (mvn, "+src/test/java/SubTest.java", ""),
            (mvn, "~pom.xml", "note.build_script"),
            (ctest, "~add.c", ""),
            (ctest, "~CMakeLists.txt", "note.build_script"),
        ],
    );
}
