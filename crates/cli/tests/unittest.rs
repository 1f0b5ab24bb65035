//! `python -m unittest` as the check: the same program, and every test is seen by its name.

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/python.rs"]
mod python;

use project::{finish, repository, script};
use serde_json::{Value, json};

const PRODUCT: &str = "def answer():\n    return 41\n\n\ndef known():\n    return 1\n";

const TESTS: &str = "import unittest\n\nimport calc\n\n\nclass Case(unittest.TestCase):\n    \
    def test_answer(self):\n        self.assertEqual(calc.answer(), 42)\n\n    \
    def test_known(self):\n        for n in range(3):\n            with self.subTest(n=n):\n                self.assertEqual(calc.known(), 1)\n\n    \
    @unittest.skip('later')\n    def test_later(self):\n        pass\n";

#[test]
fn unittest_is_seen_test_by_test_and_cannot_be_silenced() {
    let test = "unittest_is_seen_test_by_test_and_cannot_be_silenced";
    let Some(place) = project::place(test) else { return };
    let Some(prefix) = python::python_prefix() else {
        eprintln!("SKIPPED: {test}: python3 with venv is not here");
        return;
    };
    let text = if prefix.starts_with("/usr") {
        String::new()
    } else {
        format!("toolchains = [{}]\n", json!(prefix))
    };
    let config = place.write("config.toml", &text).display().to_string();
    repository(&place, &[("calc.py", PRODUCT), ("test_calc.py", TESTS)]);
    let run = |product: &str| {
        let write =
            json!({ "calls": [{ "tool": "write_file", "args": { "path": "calc.py", "content": product } }] });
        let model = script(&place, "m.json", &json!([write, finish("Done.")]));
        let extra = ["--config", &config, "--check", "python3 -m unittest", "--format", "json"];
        let args = project::args(&place, &model, &extra);
        place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let result = run(&PRODUCT.replace("41", "42")).ended("verified", "checks_passed");
    assert_eq!(result["strength"], json!({ "level": "canary", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    assert_eq!(
        (&seen["runner"], &seen["expected"], &seen["canary"]),
        (&json!("unittest"), &json!(2), &json!("seen"))
    );
    assert_eq!(seen["rooms"][1]["tests"], json!({ "passed": 2, "failed": 0, "skipped": 1, "unread": 0 }));
    for (attack, reason, word) in [
        ("import os; os._exit(0)\n", "check_inconclusive", "was cut"),
        ("import sys; sys.exit(0)\n", "check_failed", "2 of 2 expected tests have no result"),
        (
            "import atexit, os; atexit.register(lambda: os._exit(0))\n",
            "check_failed",
            "exit code 0, but 1 of 2",
        ),
        (
            "import unittest; unittest.TestResult.wasSuccessful = lambda self: True\n",
            "check_failed",
            "exit code 0, but 1 of 2",
        ),
        ("import unittest; unittest.TestCase.assertEqual = lambda *a: None\n", "check_failed", "must fail"),
        (
            "import unittest; unittest.TestCase.run = lambda self, result=None: None\n",
            "no_tests_ran",
            "no test ran",
        ),
        ("import unittest\nraise unittest.SkipTest('no')\n", "no_tests_ran", "no test"),
    ] {
        let result = run(&format!("{attack}{PRODUCT}")).ended("unverified", reason);
        let detail = result["gates"]["check"]["detail"].as_str().unwrap();
        assert!(detail.contains(word), "{attack}: {detail}");
        assert_eq!(result["strength"], Value::Null);
    }
}
