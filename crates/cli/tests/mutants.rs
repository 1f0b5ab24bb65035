//! Mutants of the changed lines: what the check does not notice is listed, and nothing else changes.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::process::Command;

use common::Place;
use project::{finish, repository, script};
use serde_json::{Value, json};

const FIXED: &str = "def grade(points):\n    if points >= 90:\n        return \"A\"\n    return \"B\"\n";

/// The base is red because `grade` is not there; what the test asks decides which mutants it notices.
fn judged(place: &Place, test: &str, extra: &[&str]) -> Value {
    let runner = format!("import sys\nsys.dont_write_bytecode = True\nfrom grade import grade\n{test}");
    repository(place, &[("grade.py", "\n"), ("tests/run.py", &runner), ("README", "Grades.\n")]);
    let write =
        json!({ "calls": [{ "tool": "write_file", "args": { "path": "grade.py", "content": FIXED } }] });
    let model = script(place, "m.json", &json!([write, finish("Done.")]));
    let check = ["--check", "env PYTHONPATH=. python3 tests/run.py", "--format", "json"];
    let args = project::args(place, &model, &[&check[..], extra].concat());
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).ended("verified", "checks_passed")
}

#[test]
fn faults_that_the_check_does_not_notice_are_listed_and_change_nothing() {
    let name = "faults_that_the_check_does_not_notice_are_listed_and_change_nothing";
    let Some(place) = project::place(name) else { return };
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {name}: python3 is not here");
        return;
    }
    let weak = "assert grade(95) == 'A' and grade(10) == 'B'\n";
    let result = judged(&place, weak, &["--mutants", "10"]);
    let mutants = &result["mutants"];
    let survived: Vec<_> = mutants["survived"].as_array().unwrap().iter().collect();
    let told = |line: u64, kind: &str| {
        survived.iter().any(|one| {
            (&one["path"], &one["line"], &one["kind"]) == (&json!("grade.py"), &json!(line), &json!(kind))
        })
    };
    assert!(told(2, "comparison") && told(2, "constant"), "nobody asks about 90 itself: {mutants}");
    assert!(!told(3, "early_return") && !told(4, "early_return"), "{mutants}");
    assert_eq!(mutants["tried"].as_u64().unwrap(), 4, "{mutants}");
    assert_eq!(mutants["killed"].as_u64().unwrap(), 2, "{mutants}");
    assert_eq!((&mutants["timed_out"], &mutants["not_tried"]), (&json!(0), &json!(0)));
    let shown = place.run(&["show", result["session"].as_str().unwrap()]).stdout;
    assert!(shown.contains("mutant survived: grade.py:2 (comparison)"), "{shown}");

    // A check that asks about the border notices all of them.
    let strong = Place::new(name).unwrap();
    let result =
        judged(&strong, "assert [grade(n) for n in (89, 90, 91)] == ['B', 'A', 'A']\n", &["--mutants", "10"]);
    assert_eq!(result["mutants"]["survived"], json!([]), "{result}");
    assert_eq!(result["mutants"]["killed"], result["mutants"]["tried"]);

    // Nobody asked: none.
    let quiet = Place::new(name).unwrap();
    assert_eq!(judged(&quiet, weak, &[])["mutants"], Value::Null);
}

#[test]
fn a_refused_change_is_tried_on_no_mutants() {
    let Some(place) = project::place("a_refused_change_is_tried_on_no_mutants") else { return };
    repository(&place, project::PROJECT);
    let model = script(&place, "m.json", &json!([project::edit("answer", "41", "40"), finish("Done.")]));
    let result = project::checked(&place, &model, &["--mutants", "3"]).ended("unverified", "check_failed");
    assert_eq!(result["mutants"], Value::Null);
    // Nothing in it is a source: asked, and none to try.
    let model = script(&place, "m.json", &json!([project::edit("answer", "41", "42"), finish("Done.")]));
    let result = project::checked(&place, &model, &["--mutants", "3"]).ended("verified", "checks_passed");
    assert_eq!(result["mutants"]["tried"], 0);
}

/// A product that is not there on the base, what it becomes, and the check.
struct Language {
    files: &'static [(&'static str, &'static str)],
    product: &'static str,
    fixed: &'static str,
    check: &'static str,
    config: String,
}

impl Language {
    /// The survivors, as `KIND:LINE`, of a check that has to be verified.
    fn survivors(&self, name: &str, test: (&str, &str)) -> Vec<String> {
        let place = Place::new(name).unwrap();
        let config = place.write("config.toml", &self.config).display().to_string();
        repository(&place, &[self.files, &[test]].concat());
        let args = json!({ "path": self.product, "content": self.fixed });
        let write = json!({ "calls": [{ "tool": "write_file", "args": args }] });
        let model = script(&place, "m.json", &json!([write, finish("Done.")]));
        let extra = ["--config", &config, "--check", self.check, "--mutants", "10", "--format", "json"];
        let args = project::args(&place, &model, &extra);
        let result = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let result = result.ended("verified", "checks_passed");
        let mutants = &result["mutants"];
        let survived = mutants["survived"].as_array().unwrap();
        assert_eq!(
            mutants["tried"].as_u64().unwrap(),
            mutants["killed"].as_u64().unwrap() + survived.len() as u64,
            "{mutants}"
        );
        assert!(mutants["tried"].as_u64().unwrap() > 0, "{mutants}");
        survived.iter().map(|one| format!("{}:{}", one["kind"].as_str().unwrap(), one["line"])).collect()
    }
}

#[test]
fn a_weak_javascript_test_lets_faults_live_and_a_strong_one_none() {
    let name = "a_weak_javascript_test_lets_faults_live_and_a_strong_one_none";
    if project::place(name).is_none() {
        return;
    }
    if !Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {name}: node is not here");
        return;
    }
    let language = Language {
        files: &[("grade.js", "\n"), ("README", "Grades.\n")],
        product: "grade.js",
        fixed: "exports.grade = (points) => {\n  if (points >= 90) return 'A';\n  return 'B';\n};\n",
        check: "node --test",
        config: String::new(),
    };
    let head = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { grade } = require('../grade.js');\n";
    let ask = |numbers: &str, marks: &str| {
        format!("{head}test('grades', () => assert.deepStrictEqual([{numbers}].map(grade), [{marks}]));\n")
    };
    let weak = language.survivors(name, ("test/grade.test.js", &ask("95, 10", "'A', 'B'")));
    assert!(weak.contains(&"comparison:2".to_owned()), "{weak:?}");
    let strong = language.survivors(name, ("test/grade.test.js", &ask("89, 90, 91", "'B', 'A', 'A'")));
    assert_eq!(strong, Vec::<String>::new());
}

#[test]
fn a_weak_rust_test_lets_faults_live_and_a_strong_one_none() {
    let name = "a_weak_rust_test_lets_faults_live_and_a_strong_one_none";
    if project::place(name).is_none() {
        return;
    }
    let found = Command::new("rustc").args(["--print", "sysroot"]).output().ok();
    let Some(sysroot) = found.filter(|output| output.status.success()) else {
        eprintln!("SKIPPED: {name}: rustc is not here");
        return;
    };
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    let config = if sysroot.starts_with("/usr") {
        String::new()
    } else {
        format!("toolchains = [{}]\n", json!(sysroot.trim()))
    };
    let language = Language {
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"grades\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
            ),
            ("src/lib.rs", "pub fn grade(_points: u32) -> char {\n    '?'\n}\n"),
            ("README", "Grades.\n"),
        ],
        product: "src/lib.rs",
        fixed: "pub fn grade(points: u32) -> char {\n    if points >= 90 {\n        return 'A';\n    }\n    'B'\n}\n",
        check: "cargo test --offline --test grades",
        config,
    };
    let ask = |numbers: &str, marks: &str| {
        format!("#[test]\nfn grades() {{\n    assert_eq!([{numbers}].map(grades::grade), [{marks}]);\n}}\n")
    };
    let weak = language.survivors(name, ("tests/grades.rs", &ask("95, 10", "'A', 'B'")));
    assert!(weak.contains(&"comparison:2".to_owned()), "{weak:?}");
    let strong = language.survivors(name, ("tests/grades.rs", &ask("89, 90, 91", "'B', 'A', 'A'")));
    assert_eq!(strong, Vec::<String>::new());
}
