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

fn answers_to(project: &(Place, String), check: &str, body: &str) -> Ended {
    with_product(project, &["--check", check], &PRODUCT.replace("    41", body))
}

fn with_product((place, config): &(Place, String), terms: &[&str], product: &str) -> Ended {
    let write =
        json!({ "calls": [{ "tool": "write_file", "args": { "path": "src/lib.rs", "content": product } }] });
    let model = script(place, "m.json", &json!([write, finish("Done."), finish("Done.")]));
    let extra = [&["--config", config, "--format", "json"], terms].concat();
    let args = project::args(place, &model, &extra);
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn cargo_test_is_seen_test_by_test_whatever_the_product_does_to_its_process() {
    let test = "cargo_test_is_seen_test_by_test_whatever_the_product_does_to_its_process";
    let Some(place) = project(test) else { return };
    let result = answers(&place, "42").ended("verified", "checks_passed");
    assert_eq!(result["strength"], json!({ "level": "canary", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    assert_eq!((&seen["runner"], &seen["channel"]), (&json!("cargo test"), &json!("report")));
    // One unit test, two of `tests/`, one example.
    assert_eq!(
        seen["rooms"][1]["tests"],
        json!({ "passed": 4, "failed": 0, "skipped": 1, "unread": 0 }),
        "{seen:#}"
    );
    assert_eq!(seen["expected"], 4, "the base did not stop at the first program that failed");
    assert_eq!(seen["canary"], "seen", "and it is no test of the project's");
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

/// Answers for all tests before the first of them runs, in the words of the harness. Examples of the documentation have no
/// file of results and are left alone.
const FORGED: &str = "\n#[used]\n#[link_section = \".init_array\"]\nstatic FIRST: extern \"C\" fn() = first;\n\n\
    extern \"C\" fn first() {\n    use std::io::Write;\n    let args: Vec<String> = std::env::args().collect();\n\
    let Some(at) = args.iter().position(|arg| arg == \"--logfile\") else { return };\n\
    let mut log = std::fs::File::create(&args[at + 1]).unwrap();\n\
    let lines = match args[0].contains(\"answer-\") {\n        true => \"ok is_42\\nok is_not_43\\n\",\n\
    false => \"ok tests::known\\nignored tests::later\\n\",\n    };\n\
    log.write_all(lines.as_bytes()).unwrap();\n    std::process::exit(0);\n}\n";

#[test]
fn what_forges_the_harness_or_takes_the_sting_out_of_its_macros_is_shown_by_a_canary() {
    let test = "what_forges_the_harness_or_takes_the_sting_out_of_its_macros_is_shown_by_a_canary";
    let Some(place) = project(test) else { return };
    let check = ["--check", "cargo test --offline"];
    let result = with_product(&place, &check, &format!("{PRODUCT}{FORGED}"));
    let result = result.ended("unverified", "check_inconclusive");
    let detail = result["gates"]["check"]["detail"].as_str().unwrap();
    assert!(detail.contains("canary that failed on the base"), "{result:#}");
    let rooms = result["gates"]["check"]["evidence"][0]["rooms"].as_array().unwrap();
    let seen = &rooms.last().unwrap();
    assert_eq!((&seen["canary"], &seen["tests"]["failed"]), (&json!("broken"), &json!(0)), "{seen:#}");

    // The fence knows such macros by their names, and here there is none.
    let silent =
        "macro_rules! assert_eq {\n    ($a:expr, $b:expr) => {\n        let _ = ($a, $b);\n    };\n}\n\n";
    let product =
        PRODUCT.replace("    41", "    42").replace("pub fn answer", &format!("{silent}pub fn answer"));
    let result = with_product(&place, &[&check[..], &["--no-fence"]].concat(), &product);
    let result = result.ended("unverified", "check_failed");
    let detail = result["gates"]["check"]["detail"].as_str().unwrap();
    assert!(detail.contains("a test that must fail was not reported as failed"), "{result:#}");
}

#[test]
fn the_canary_of_cargo_runs_whatever_tests_are_asked_for_and_whatever_the_crate_allows() {
    let test = "the_canary_of_cargo_runs_whatever_tests_are_asked_for_and_whatever_the_crate_allows";
    let Some((place, config)) = project(test) else { return };
    // Lints that nothing may switch off, no library of its own, and an end without an end of line.
    let product = format!(
        "#![no_std]\n#![deny(warnings, missing_docs, unused_qualifications)]\n#![forbid(unsafe_code, dead_code)]\n\
         //! A crate.\n{}// end",
        PRODUCT
            .replace("pub fn", "/// It is known.\npub fn")
            .replace("//! ```\n//! assert", "//!\n//! ```\n//! assert")
    );
    place.write("repo/src/lib.rs", &product);
    place.write(
        "repo/tests/answer.rs",
        "#[test]\nfn is_42() {\n    assert_eq!(rt::answer(), 42);\n    assert_eq!((file!(), line!()), (\"tests/answer.rs\", 4));\n}\n",
    );
    project::git(&place.path("repo"), &["commit", "-qam", "strict"]);
    let project = (place, config);
    let fixed = product.replace("    41", "    42");
    for check in ["cargo test --offline", "cargo test --offline is_", "cargo test --offline -- --exact is_42"]
    {
        let result = with_product(&project, &["--check", check], &fixed).ended("verified", "checks_passed");
        assert_eq!(result["strength"]["level"], "canary", "{check}: {result:#}");
        assert!(result["tree"].is_string() && result["gates"]["check"]["evidence"][0]["canary"] == "seen");
    }
    // What the agent is told of a red check knows nothing of it.
    let wrong = product.replace("    41", "    43");
    let ended = with_product(&project, &["--check", "cargo test --offline", "--attempts", "2"], &wrong);
    let result = ended.ended("unverified", "check_failed");
    let shown = project.0.run(&["show", result["session"].as_str().unwrap(), "--format", "json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let told = shown["transcript"].to_string();
    assert!(told.contains("is_42 ... FAILED") && told.contains("0 passed; 1 failed"), "{shown:#}");
    for word in ["canary", "countersign_"] {
        assert!(!told.contains(word), "{word}: {told}");
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
    assert_eq!(result["strength"], json!({ "level": "canary", "in_process": true }), "{result:#}");
    let seen = &result["gates"]["check"]["evidence"][0];
    // One unit test and two of `tests/`: nextest runs no examples of the documentation.
    assert_eq!((&seen["runner"], &seen["expected"]), (&json!("nextest"), &json!(3)), "{seen:#}");
    let stdout = &result["gates"]["check"]["evidence"][0]["rooms"][1]["tests"];
    assert_eq!(stdout["failed"], 0, "{seen:#}");
    // Each test is a process of its own, and each has to show the canary.
    let result = with_product(&place, &["--check", check], &format!("{PRODUCT}{FORGED}"));
    let result = result.ended("unverified", "check_inconclusive");
    assert!(result["gates"]["check"]["detail"].as_str().unwrap().contains("canary"), "{result:#}");
    // This one ends with 0 and no result.
    let result = answers_to(&place, check, "std::process::exit(0)").ended("unverified", "check_failed");
    let detail = result["gates"]["check"]["detail"].as_str().unwrap();
    assert!(detail.contains("expected tests have no result"), "{detail}");
}
