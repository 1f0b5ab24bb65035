//! `cargo test` as the check: every test of every program and every example is seen by its name.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use project::{finish, repository, script};
use serde_json::{Value, json};

const PRODUCT: &str = "//! ```\n//! assert_eq!(rt::known(), 1);\n//! ```\n\npub fn answer() -> u32 {\n    41\n}\n\n\
    pub fn known() -> u32 {\n    1\n}\n\n\
    #[cfg(test)]\nmod tests {\n    #[test]\n    fn known() {\n        assert_eq!(super::known(), 1);\n    }\n\n\
    #[test]\n    #[ignore]\n    fn later() {}\n}\n";

const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"rt\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("src/lib.rs", PRODUCT),
    (
        "tests/answer.rs",
        "#[test]\nfn is_42() {\n    assert_eq!(rt::answer(), 42);\n}\n\n\
         #[test]\nfn is_not_43() {\n    assert_ne!(rt::answer(), 43);\n}\n",
    ),
];

/// A place with the project, and the configuration that names the machine's Rust.
fn project(test: &'static str) -> Option<(Place, String)> {
    let place = project::place(test)?;
    let found = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok();
    let Some(sysroot) = found.filter(|output| output.status.success()) else {
        eprintln!("SKIPPED: {test}: rustc is not here");
        return None;
    };
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    let text = if sysroot.starts_with("/usr") {
        String::new()
    } else {
        format!("toolchains = [{}]\n", json!(sysroot.trim()))
    };
    let config = place.write("config.toml", &text).display().to_string();
    repository(&place, FILES);
    Some((place, config))
}

/// The answer replaced, then a claim.
fn answers(project: &(Place, String), body: &str) -> Ended {
    answers_to(project, "cargo test --offline", body)
}

fn answers_to((place, config): &(Place, String), check: &str, body: &str) -> Ended {
    let product = PRODUCT.replace("    41", body);
    let write =
        json!({ "calls": [{ "tool": "write_file", "args": { "path": "src/lib.rs", "content": product } }] });
    let model = script(place, "m.json", &json!([write, finish("Done.")]));
    let extra = ["--config", config, "--check", check, "--format", "json"];
    let args = project::args(place, &model, &extra);
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn cargo_test_is_seen_test_by_test_whatever_the_product_does_to_its_process() {
    let test = "cargo_test_is_seen_test_by_test_whatever_the_product_does_to_its_process";
    let Some(place) = project(test) else { return };
    let result = answers(&place, "42").ended("verified", "checks_passed");
    assert_eq!(result["strength"], json!({ "level": "ids", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    assert_eq!((&seen["runner"], &seen["channel"]), (&json!("cargo test"), &json!("report")));
    // One unit test, two of `tests/`, one example.
    assert_eq!(
        seen["rooms"][1]["tests"],
        json!({ "passed": 4, "failed": 0, "skipped": 1, "unread": 0 }),
        "{seen:#}"
    );
    assert_eq!(seen["expected"], 4, "the base did not stop at the first program that failed");
    assert_eq!(seen["canary"], "absent");
    for attack in [
        // The process ends with 0 before a result is known, with or without words that look like one.
        "std::process::exit(0)",
        "use std::io::Write;\n    std::io::stdout()\n        .write_all(b\"test is_42 ... ok\\n\\ntest result: ok. 2 passed; 0 \
         failed\\n\")\n        .unwrap();\n    std::process::exit(0)",
        // A panic hook that makes every failure an exit code of 0.
        "std::panic::set_hook(Box::new(|_| std::process::exit(0)));\n    41",
    ] {
        let result = answers(&place, attack).ended("unverified", "check_failed");
        let detail = result["gates"]["check"]["detail"].as_str().unwrap();
        assert!(detail.contains("expected tests have no result"), "{attack}: {detail}");
        assert_eq!(result["strength"], Value::Null);
    }
}

#[test]
fn nextest_is_seen_test_by_test() {
    let test = "nextest_is_seen_test_by_test";
    let Some(place) = project(test) else { return };
    if !["/usr/local/bin/cargo-nextest", "/usr/bin/cargo-nextest"]
        .iter()
        .any(|path| std::path::Path::new(path).exists())
    {
        eprintln!("SKIPPED: {test}: cargo-nextest is not where cells see it");
        return;
    }
    let check = "cargo nextest run --offline";
    let result = answers_to(&place, check, "42").ended("verified", "checks_passed");
    assert_eq!(result["strength"], json!({ "level": "ids", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    // One unit test and two of `tests/`: nextest runs no examples of the documentation.
    assert_eq!((&seen["runner"], &seen["expected"]), (&json!("nextest"), &json!(3)), "{seen:#}");
    // Each test is a process of its own; this one ends with 0 and no result.
    let result = answers_to(&place, check, "std::process::exit(0)").ended("unverified", "check_failed");
    let detail = result["gates"]["check"]["detail"].as_str().unwrap();
    assert!(detail.contains("expected tests have no result"), "{detail}");
}
