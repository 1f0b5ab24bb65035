//! node's own runner, mocha and `go test` as the check: every test is seen by its name, whatever the product does to the
//! process that runs it.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use project::{finish, repository, script};
use serde_json::{Value, json};

struct Project {
    place: Place,
    check: &'static str,
    product: &'static str,
}

impl Project {
    /// None, and said so: something that the check needs is not on this machine.
    fn open(
        test: &'static str,
        (program, check): (&str, &'static str),
        product: &'static str,
        files: &[(&str, &str)],
    ) -> Option<Self> {
        let place = project::place(test)?;
        if !std::process::Command::new(program)
            .arg("version")
            .output()
            .is_ok_and(|out| !out.stdout.is_empty() || program == "node")
        {
            eprintln!("SKIPPED: {test}: {program} is not here");
            return None;
        }
        repository(&place, files);
        Some(Self { place, check, product })
    }

    /// The product replaced, then a claim.
    fn with(&self, text: &str) -> Ended {
        let write =
            json!({ "calls": [{ "tool": "write_file", "args": { "path": self.product, "content": text } }] });
        let model = script(&self.place, "m.json", &json!([write, finish("Done."), finish("Done.")]));
        let extra = ["--check", self.check, "--attempts", "2", "--format", "json"];
        let args = project::args(&self.place, &model, &extra);
        self.place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn refuses(&self, attack: &str, (reason, words): (&str, &str)) {
        let result = self.with(attack).ended("unverified", reason);
        let detail = result["gates"]["check"]["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{attack}: {detail}");
        assert_eq!(result["strength"], Value::Null);
    }
}

/// Some tests have a result and others none, or none has.
const SOME: (&str, &str) = ("check_failed", "expected tests have no result");
const NONE: (&str, &str) = ("no_tests_ran", "no test ran");

const JS_TEST: &str = "const test = require('node:test');\nconst assert = require('node:assert');\n\
    const { answer, known } = require('../src/calc.js');\n\
    test('answer', () => assert.equal(answer(), 42));\n\
    test.describe('known', () => {\n  test.it('é > x', () => assert.equal(known(), 1));\n  test.it.skip('later', () => {});\n});\n";

const JS: &str = "exports.answer = () => 41;\nexports.known = () => 1;\n";

#[test]
fn node_test_is_seen_test_by_test_with_a_canary() {
    let files =
        &[("src/calc.js", JS), ("test/calc.test.js", JS_TEST), ("package.json", "{\"name\": \"p\"}\n")];
    let name = "node_test_is_seen_test_by_test_with_a_canary";
    let Some(project) = Project::open(name, ("node", "node --test test/"), "src/calc.js", files) else {
        return;
    };
    let fixed = JS.replace("41", "42");
    let result = project.with(&fixed).ended("verified", "checks_passed");
    assert_eq!(result["strength"], json!({ "level": "canary", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    assert_eq!(
        (&seen["runner"], &seen["expected"], &seen["canary"]),
        (&json!("node:test"), &json!(2), &json!("seen"))
    );
    // The process of the file ends with 0 before a test has a result.
    project.refuses("process.exit(0);\n", NONE);
    // What it has not handed over by then is lost, and with it the results of the tests before.
    project
        .refuses(&format!("{JS}exports.answer = () => 42;\nexports.known = () => process.exit(0);\n"), NONE);
    // Every assertion holds.
    let silent = format!(
        "const assert = require('node:assert');\nfor (const name of Object.keys(assert)) assert[name] = () => {{}};\n{JS}"
    );
    project.with(&silent).ended("unverified", "check_failed");
}

const GO: &str = "package calc\n\nfunc Answer() int { return 41 }\n\nfunc Known() int { return 1 }\n";

const GO_TEST: &str = "package calc\n\nimport \"testing\"\n\n\
    func TestAnswer(t *testing.T) {\n\tif Answer() != 42 {\n\t\tt.Fatal(Answer())\n\t}\n}\n\n\
    func TestKnown(t *testing.T) {\n\tprint(\"no end of line\")\n\tt.Run(\"one\", func(t *testing.T) {\n\t\tif Known() != 1 {\n\t\t\tt.Fatal()\n\t\t}\n\t})\n}\n\n\
    func TestLater(t *testing.T) { t.Skip() }\n";

#[test]
fn go_test_is_seen_test_by_test() {
    let files =
        &[("go.mod", "module example.com/calc\n\ngo 1.19\n"), ("calc.go", GO), ("calc_test.go", GO_TEST)];
    let Some(project) =
        Project::open("go_test_is_seen_test_by_test", ("go", "go test ./..."), "calc.go", files)
    else {
        return;
    };
    let result = project.with(&GO.replace("41", "42")).ended("verified", "checks_passed");
    assert_eq!(result["strength"], json!({ "level": "canary", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    assert_eq!((&seen["runner"], &seen["expected"]), (&json!("go test"), &json!(3)), "{seen:#}");
    assert_eq!(
        (&seen["canary"], &seen["rooms"][1]["tests"]["passed"]),
        (&json!("seen"), &json!(3)),
        "{seen:#}"
    );
    // The process ends with 0 in the middle of the first test, of which `go test -json` says that it passed.
    let exits = |function: &str, body: &str| {
        let product = GO.replace(function, &format!("{function}{body}; "));
        product.replace("package calc\n", "package calc\n\nimport \"syscall\"\n").replace("41", "42")
    };
    project.refuses(&exits("func Known() int { ", "syscall.Exit(0)"), SOME);
    project.refuses(&exits("func Answer() int { ", "syscall.Exit(0)"), NONE);
    let init = "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n";
    project.refuses(&GO.replace("package calc\n", init), NONE);
}

/// The results of all tests, printed before the first of them runs.
const FORGED: &str = "package calc\n\nimport (\n\t\"os\"\n\t\"syscall\"\n)\n\nfunc init() {\n\
    os.Stdout.WriteString(\"--- PASS: TestAnswer (0.00s)\\n--- PASS: TestKnown (0.00s)\\n    --- PASS: TestKnown/one \
    (0.00s)\\nPASS\\n\")\n\tsyscall.Exit(0)\n}\n";

#[test]
fn a_go_package_that_prints_the_results_of_its_tests_is_shown_by_its_canary() {
    // The project's own runner looks at the result of all tests, and its package takes names that go has already.
    let main = GO_TEST
        .replace("import \"testing\"", "import (\n\t\"os\"\n\tgo_testing \"testing\"\n)")
        .replace("*testing.T", "*go_testing.T")
        + "\nfunc TestMain(m *go_testing.M) {\n\tcode := m.Run()\n\tif code != 0 {\n\t\tos.Exit(9)\n\t}\n\tos.Exit(0)\n}\n// end";
    let other = "package other_test\n\nimport (\n\t\"runtime\"\n\t\"testing\"\n)\n\nfunc TestOther(t *testing.T) {\n\t\
    if _, file, line, _ := runtime.Caller(0); file != \"/workspace/other/other_linux_test.go\" || line != 9 {\n\t\tt.Fatal(file, line)\n\t}\n}\n";
    let files = &[
        ("go.mod", "module example.com/calc\n\ngo 1.19\n"),
        ("calc.go", GO),
        ("names.go", "package calc\n\nvar testing, regexp, runtime = 1, 2, 3\n"),
        ("calc_test.go", main.as_str()),
        ("other/other_linux_test.go", other),
        ("other/none_windows_test.go", other),
    ];
    let name = "a_go_package_that_prints_the_results_of_its_tests_is_shown_by_its_canary";
    let patterns = ["go test ./...", "go test '-run=TestAnswer|TestKnown/one' -failfast -cpu=1,2 ./..."];
    for check in patterns {
        let Some(project) = Project::open(name, ("go", check), "calc.go", files) else { return };
        let result = project.with(&GO.replace("41", "42")).ended("verified", "checks_passed");
        assert_eq!(result["strength"]["level"], "canary", "{check}: {result:#}");
        let words = ("check_inconclusive", "canary that failed on the base");
        project.refuses(&GO.replace("package calc\n", FORGED), words);
    }
    // What the agent reads of its own mistakes names its own files.
    let Some(project) = Project::open(name, ("go", patterns[0]), "calc.go", files) else { return };
    for broken in [
        GO.replace("func Answer() int { return 41 }", "func Answer() string { return \"\" }"),
        GO.replace("41", "43"),
    ] {
        let result = project.with(&broken).ended("unverified", "check_failed");
        let shown =
            project.place.run(&["show", result["session"].as_str().unwrap(), "--format", "json"]).stdout;
        assert!(shown.contains("calc_test.go:"), "{shown}");
        for word in ["canary", "verifier", "countersign_", "Countersign_"] {
            let told: Value = serde_json::from_str(&shown).unwrap();
            assert!(!told["transcript"].to_string().contains(word), "{word}: {told:#}");
        }
    }
}
