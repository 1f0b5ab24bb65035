//! A failing test first, whole runs of the real binary: seen to fail on the base, locked, green at the end.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/python.rs"]
mod python;

use serde_json::{Value, json};

use crate::common::{Ended, Place};
use crate::project::{args, finish, place, repository, script, sh};

/// `double` is wrong, which the check sees, and wrong for negative numbers, which only a reproduction would see.
const FILES: &[(&str, &str)] = &[
    ("product.py", "def double(x):\n    return x + 1\n"),
    (
        "test_product.py",
        "import unittest\nfrom product import double\n\nclass T(unittest.TestCase):\n    def test_three(self):\n        self.assertEqual(double(3), 6)\n    def test_one(self):\n        self.assertEqual(double(1), 2)\n",
    ),
];

const CHECK: &str = "python3 -m unittest test_product";

fn new_test(body: &str) -> String {
    format!(
        "import unittest\nfrom product import double\n\nclass N(unittest.TestCase):\n    def test_new(self):\n        {body}\n"
    )
}

fn write(path: &str, content: &str) -> Value {
    json!({ "calls": [{ "tool": "write_file", "args": { "path": path, "content": content } }] })
}

fn declare(path: &str, command: &str) -> Value {
    let argv: Vec<&str> = command.split(' ').collect();
    json!({ "calls": [{ "tool": "declare_repro", "args": { "paths": [path], "argv": argv } }] })
}

fn skip(reason: &str) -> Value {
    json!({ "calls": [{ "tool": "skip_repro", "args": { "reason": reason } }] })
}

const NEW: &str = "python3 -m unittest test_new";

fn fails() -> Value {
    write("test_new.py", &new_test("self.assertEqual(double(-2), -4)"))
}

fn fix(how: &str) -> Value {
    sh(&format!("sed -i 's/return .*/return {how}/' product.py"))
}

fn run(place: &Place, turns: &[Value], extra: &[&str]) -> Ended {
    repository(place, FILES);
    let model = script(place, "agent.json", &json!(turns));
    let config = config(place);
    let own = ["--check", CHECK, "--repro-first", "--format", "json", "--config", &config];
    let args = args(place, &model, &[&own[..], extra].concat());
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The machine's Python, where it is no part of the system.
fn config(place: &Place) -> String {
    let prefix = python::python_prefix().unwrap_or_default();
    let system = prefix.is_empty() || prefix.starts_with("/usr");
    let text = if system { String::new() } else { format!("toolchains = [{}]\n", json!(prefix)) };
    place.write("config.toml", &text).display().to_string()
}

/// What the agent was told by its tools and gates.
fn told(place: &Place, result: &Value) -> String {
    place.run(&["show", result["session"].as_str().unwrap()]).stdout
}

#[test]
fn a_reproduction_is_seen_to_fail_locked_and_green_at_the_end() {
    let Some(place) = place("a_reproduction_is_seen_to_fail_locked_and_green_at_the_end") else { return };
    let turns = [fails(), declare("test_new.py", NEW), fix("x * 2"), finish("done")];
    let result = run(&place, &turns, &[]).ended("verified", "checks_passed");
    let repro = &result["gates"]["repro"];
    assert_eq!(repro["status"], "passed", "{repro:#}");
    assert_eq!(repro["declared"]["paths"], json!(["test_new.py"]));
    assert_eq!(repro["declared"]["argv"], json!(["python3", "-m", "unittest", "test_new"]));
    assert!(
        repro["declared"]["lock"].as_str().unwrap().contains("sha256") && repro["skipped"].is_null(),
        "{repro:#}"
    );
    assert!(told(&place, &result).contains("accepted: it fails on the files as they were at the start"));
}

/// Every room has a statement: the check's with its tests by name, and the reproduction's with its command.
#[test]
fn a_bundle_names_the_tests_and_has_a_statement_of_the_reproduction() {
    use base64::Engine as _;
    let Some(place) = place("a_bundle_names_the_tests_and_has_a_statement_of_the_reproduction") else {
        return;
    };
    let turns = [fails(), declare("test_new.py", NEW), fix("x * 2"), finish("done")];
    let result = run(&place, &turns, &[]).ended("verified", "checks_passed");
    let bundle = std::path::PathBuf::from(result["bundle"].as_str().unwrap());
    let statement = |name: &str| -> Value {
        let file = bundle.join(format!("statements/test-result.{name}.sigstore.json"));
        let file: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let payload = file["dsseEnvelope"]["payload"].as_str().unwrap();
        let payload = base64::engine::general_purpose::STANDARD.decode(payload).unwrap();
        serde_json::from_slice::<Value>(&payload).unwrap()["predicate"].take()
    };
    let check = statement("try1-check0-final");
    assert_eq!(check["result"], "PASSED", "{check:#}");
    assert_eq!(
        check["passedTests"],
        json!(["test_product.T.test_one", "test_product.T.test_three"]),
        "{check:#}"
    );
    let repro = statement("try1-check0-repro");
    let room = repro["configuration"].as_array().unwrap().iter().find(|one| one["name"] == "room").unwrap();
    assert_eq!(room["annotations"]["argv"], json!(["python3", "-m", "unittest", "test_new"]), "{repro:#}");
    assert_eq!((&repro["result"], &room["annotations"]["decides"]), (&json!("PASSED"), &json!(true)));
    let verified = place.run(&["verify", bundle.to_str().unwrap(), "--format", "json"]);
    let verified: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(verified["intact"], true, "{verified}");
}

#[test]
fn a_reproduction_that_passes_on_the_base_is_refused() {
    let Some(place) = place("a_reproduction_that_passes_on_the_base_is_refused") else { return };
    let passes = write("test_new.py", &new_test("self.assertEqual(double(1), 2)"));
    let turns = [passes, declare("test_new.py", NEW), fix("x * 2"), finish("done")];
    let result = run(&place, &turns, &[]).ended("unverified", "check_failed");
    assert_eq!(result["gates"]["repro"]["status"], "failed");
    assert!(result["gates"]["repro"]["declared"].is_null());
    assert_eq!(result["gates"]["check"]["status"], "passed", "a green check does not stand in for it");
    assert!(
        told(&place, &result).contains("it passes there, so it shows nothing"),
        "{}",
        told(&place, &result)
    );
}

#[test]
fn what_does_not_fail_as_a_new_test_is_refused_with_the_reason() {
    let Some(place) = place("what_does_not_fail_as_a_new_test_is_refused_with_the_reason") else { return };
    let broken = write("test_new.py", "import unittest\nimport nothing_of_this_name\n");
    let hangs = write("test_new.py", "import time\ntime.sleep(60)\n");
    let link = sh("ln -s product.py test_new.py");
    for (name, first, call, why) in [
        ("it exists", fails(), declare("test_product.py", CHECK), "existed at the start"),
        ("not written", fails(), declare("test_other.py", NEW), "write it first"),
        ("outside", fails(), declare("../test_new.py", NEW), "no path of the project"),
        ("a link", link, declare("test_new.py", NEW), "is a link"),
        ("no module", broken, declare("test_new.py", NEW), "did not fail as a test"),
        ("old tests", fails(), declare("test_new.py", CHECK), "a new one must"),
        ("no program", fails(), declare("test_new.py", "no-such-program"), "says nothing there"),
        ("any command", fails(), declare("test_new.py", "false"), "nobody can tell"),
        ("a timeout", hangs, declare("test_new.py", NEW), "time limit"),
    ] {
        let place = Place { bin: place.bin.clone(), dir: tempfile::tempdir().unwrap() };
        let turns = [first, call, sh("rm -f test_new.py"), fix("x * 2"), finish("done")];
        let result = run(&place, &turns, &["--check-timeout", "5s"]).ended("unverified", "check_failed");
        let told = told(&place, &result);
        assert!(told.contains(why) && told.contains("Nothing was declared"), "{name}: {told}");
        assert!(result["gates"]["repro"]["declared"].is_null(), "{name}");
    }
}

#[test]
fn a_locked_reproduction_that_is_edited_or_deleted_is_tampered_with() {
    let Some(place) = place("a_locked_reproduction_that_is_edited_or_deleted_is_tampered_with") else {
        return;
    };
    for after in ["sed -i 's/-4/-1/' test_new.py", "rm test_new.py", "chmod +x test_new.py"] {
        let place = Place { bin: place.bin.clone(), dir: tempfile::tempdir().unwrap() };
        let turns =
            [fails(), declare("test_new.py", NEW), fix("x * 2"), sh(after), finish("done"), finish("no")];
        let result = run(&place, &turns, &["--attempts", "3"]).ended("tampered", "protected_files");
        let repro = &result["gates"]["repro"];
        assert!(
            repro["status"] == "failed" && repro["detail"].as_str().unwrap().contains("test_new.py"),
            "{repro:#}"
        );
        assert_eq!(result["attempts"].as_array().unwrap().len(), 1, "{after}: nothing to mend");
    }
    // A second declaration cannot take the place of the first.
    let easier = write("test_easy.py", &new_test("self.assertEqual(double(3), 6)"));
    let turns = [
        fails(),
        declare("test_new.py", NEW),
        easier,
        declare("test_easy.py", "python3 -m unittest test_easy"),
        skip("I changed my mind"),
        sh("rm test_new.py"),
        fix("x * 2"),
        finish("done"),
    ];
    let result = run(&place, &turns, &[]).ended("tampered", "protected_files");
    assert_eq!(result["gates"]["repro"]["declared"]["paths"], json!(["test_new.py"]));
}

#[test]
fn a_reproduction_that_still_fails_goes_back_as_work() {
    let Some(place) = place("a_reproduction_that_still_fails_goes_back_as_work") else { return };
    // Right for the check, wrong for the reproduction.
    let half = [fails(), declare("test_new.py", NEW), fix("abs(x) * 2"), finish("done")];
    let result = run(&place, &half, &[]).ended("unverified", "check_failed");
    assert_eq!(
        (&result["gates"]["check"]["status"], &result["gates"]["repro"]["status"]),
        (&json!("passed"), &json!("failed"))
    );
    let place = Place { bin: place.bin.clone(), dir: tempfile::tempdir().unwrap() };
    let whole: Vec<Value> = half.into_iter().chain([fix("x * 2"), finish("now")]).collect();
    let result = run(&place, &whole, &["--attempts", "2"]).ended("verified", "checks_passed");
    assert_eq!(result["attempts"][0]["gate"], "repro");
    assert!(told(&place, &result).contains("the reproduction that you declared does not"));
}

#[test]
fn to_have_none_is_mended_or_explained_and_never_a_pass() {
    let Some(place) = place("to_have_none_is_mended_or_explained_and_never_a_pass") else { return };
    let silent = [fix("x * 2"), finish("done")];
    let result = run(&place, &silent, &[]).ended("unverified", "check_failed");
    assert!(result["gates"]["repro"]["detail"].as_str().unwrap().contains("declare_repro"));
    let place = Place { bin: place.bin.clone(), dir: tempfile::tempdir().unwrap() };
    let turns: Vec<Value> =
        silent.into_iter().chain([skip("it is a matter of\ntaste \u{1b}[2J"), finish("so")]).collect();
    let result = run(&place, &turns, &["--attempts", "2"]).ended("verified", "checks_passed");
    let repro = &result["gates"]["repro"];
    assert_eq!(
        (&repro["status"], &repro["declared"]),
        (&json!("absent"), &Value::Null),
        "skipped is no pass"
    );
    assert_eq!(repro["skipped"], "it is a matter of\\ntaste \\x1b[2J");
    let session = result["session"].as_str().unwrap();
    let report = place.run(&["show", session, "--format", "markdown"]).stdout;
    assert!(report.contains("### No failing test first") && report.contains("a matter of"), "{report}");
}

#[test]
fn without_a_known_runner_only_a_probe_makes_an_exit_code_count() {
    let Some(place) = place("without_a_known_runner_only_a_probe_makes_an_exit_code_count") else { return };
    let new = write("new.sh", "[ \"$(python3 -c 'import product; print(product.double(-2))')\" = -4 ]\n");
    let turns = [new, declare("new.sh", "sh new.sh"), fix("x * 2"), finish("done")];
    let result = run(&place, &turns, &["--probe", "python3 --version"]).ended("verified", "checks_passed");
    assert_eq!(result["gates"]["repro"]["status"], "passed");
}

#[test]
fn without_the_flag_nobody_is_asked_for_a_reproduction() {
    let Some(place) = place("without_the_flag_nobody_is_asked_for_a_reproduction") else { return };
    repository(&place, FILES);
    let model =
        script(&place, "agent.json", &json!([declare("test_new.py", NEW), fix("x * 2"), finish("done")]));
    let config = config(&place);
    let line = args(&place, &model, &["--check", CHECK, "--format", "json", "--config", &config]);
    let result =
        place.run(&line.iter().map(String::as_str).collect::<Vec<_>>()).ended("verified", "checks_passed");
    assert_eq!(result["gates"]["repro"]["status"], "absent");
    assert!(told(&place, &result).contains("there is no tool `declare_repro`"));
    let line = args(&place, &model, &["--no-check", "--repro-first", "--format", "json"]);
    let refused =
        place.run(&line.iter().map(String::as_str).collect::<Vec<_>>()).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("--repro-first"));
}
