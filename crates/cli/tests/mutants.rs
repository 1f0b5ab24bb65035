//! Mutants of the changed lines: what the check does not notice is listed, and nothing else changes.

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
