//! What a check has to show before and after, and what keeps a green from counting: the control without the product, the
//! number of runs, changed lockfiles. Checks are POSIX shell where nothing else is asked of them.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/python.rs"]
mod python;

use common::{Ended, Place};
use project::{PROJECT, checked, edit, finish, repository, script, sh};
use python::PYTEST;
use serde_json::{Value, json};

/// Plays a script in a repository of `files`.
fn play(place: &Place, files: &[(&str, &str)], turns: &Value, extra: &[&str]) -> Ended {
    repository(place, files);
    let model = script(place, "m.json", turns);
    checked(place, &model, extra)
}

fn evidence(result: &Value) -> &Value {
    &result["gates"]["check"]["evidence"][0]
}

fn detail(result: &Value) -> &str {
    result["gates"]["check"]["detail"].as_str().unwrap()
}

#[test]
fn a_green_that_does_not_come_from_the_product_is_none() {
    let Some(place) = project::place("a_green_that_does_not_come_from_the_product_is_none") else { return };
    // The check takes what the tests bring before what the product says.
    let test = "#!/bin/sh\nanswer=$(cat tests/data/answer 2>/dev/null || cat answer)\n[ \"$answer\" = 42 ]\n";
    let files = [PROJECT[0], ("tests/check.sh", test), PROJECT[2]];
    let honest =
        json!([sh("echo 42 > answer; mkdir -p tests/data; echo x > tests/data/other"), finish("Done.")]);
    let result = play(&place, &files, &honest, &[]).ended("verified", "checks_passed");
    assert_eq!(evidence(&result)["control"], "red");
    let roles: Vec<_> =
        evidence(&result)["rooms"].as_array().unwrap().iter().map(|room| &room["role"]).collect();
    assert_eq!(roles, ["base", "final", "control"]);
    let plain = json!([edit("answer", "41", "42"), finish("Done.")]);
    let result = play(&place, &files, &plain, &[]).ended("verified", "checks_passed");
    assert_eq!(evidence(&result)["control"], Value::Null, "nothing beside the product was changed");
    let cheat =
        json!([sh("mkdir -p tests/data; echo 42 > tests/data/answer; echo 43 > answer"), finish("Done.")]);
    let result = play(&place, &files, &cheat, &[]).ended("unverified", "check_failed");
    assert_eq!(
        (&evidence(&result)["control"], &evidence(&result)["cause"]),
        (&json!("green"), &json!("control"))
    );
    assert!(detail(&result).contains("not in the product"), "{result:#}");
}

#[test]
fn a_check_is_run_as_often_as_the_contract_says() {
    let Some(place) = project::place("a_check_is_run_as_often_as_the_contract_says") else { return };
    let fixed = json!([edit("answer", "41", "42"), finish("Done.")]);
    let result = play(&place, PROJECT, &fixed, &["--repeats", "3"]).ended("verified", "checks_passed");
    assert_eq!(evidence(&result)["repeats"], json!({ "asked": 3, "green": 3 }));
    let rooms = evidence(&result)["rooms"].as_array().unwrap();
    let seen: Vec<_> =
        rooms.iter().map(|room| (room["role"].as_str().unwrap(), room["repeat"].as_u64().unwrap())).collect();
    assert_eq!(seen, [("base", 1), ("base", 2), ("base", 3), ("final", 1), ("final", 2), ("final", 3)]);
    let wrong = json!([edit("answer", "41", "40"), finish("Done.")]);
    let result = play(&place, PROJECT, &wrong, &["--repeats", "2"]).ended("unverified", "check_failed");
    assert_eq!(
        (&evidence(&result)["repeats"]["green"], &evidence(&result)["cause"]),
        (&json!(0), &json!("test"))
    );
}

#[test]
fn a_changed_lockfile_asks_for_another_environment() {
    let Some(place) = project::place("a_changed_lockfile_asks_for_another_environment") else { return };
    let files = [PROJECT[0], PROJECT[1], PROJECT[2], ("Cargo.lock", "version = 3\n")];
    let locked = json!([sh("echo 42 > answer; echo '# more' >> Cargo.lock"), finish("Done.")]);
    let result = play(&place, &files, &locked, &[]).ended("unverified", "check_inconclusive");
    assert_eq!(evidence(&result)["cause"], "dependencies");
    assert!(detail(&result).contains("`Cargo.lock`"), "{result:#}");
    let result = play(&place, &files, &locked, &["--deps", "ask"]).ended("blocked", "approval_impossible");
    assert_eq!(evidence(&result)["cause"], "dependencies");
    play(&place, &files, &locked, &["--deps", "fetch"]).ended("verified", "checks_passed");
    let same = json!([edit("answer", "41", "42"), finish("Done.")]);
    play(&place, &files, &same, &[]).ended("verified", "checks_passed");
}

#[test]
fn a_changed_lockfile_gets_an_environment_of_its_own_from_the_setup() {
    let Some(place) = project::place("a_changed_lockfile_gets_an_environment_of_its_own_from_the_setup")
    else {
        return;
    };
    // Green only where the answer is right and what the setup made is what the tree's own lockfile says.
    let test =
        "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] && cmp Cargo.lock .venv/lock && ! [ -e .venv/readme ]\n";
    let files = [PROJECT[0], ("tests/check.sh", test), PROJECT[2], ("Cargo.lock", "version = 3\n")];
    let setup = "sh -c 'mkdir .venv && cp Cargo.lock .venv/lock && ! grep broken Cargo.lock && if grep new README; then \
                 cp README .venv/readme; fi'";
    let work = |lock: &str| {
        json!([
            sh(&format!("echo 42 > answer; echo new > README; echo '{lock}' >> Cargo.lock")),
            finish("Done.")
        ])
    };
    let extra = ["--deps", "fetch", "--setup", setup];
    let result = play(&place, &files, &work("# more"), &extra).ended("verified", "checks_passed");
    let second = &evidence(&result)["environment"];
    assert!(second.as_str().unwrap().starts_with("sha256:"), "{result:#}");
    let again = play(&place, &files, &work("# more"), &extra).ended("verified", "checks_passed");
    assert_eq!(&evidence(&again)["environment"], second);
    let broken = play(&place, &files, &work("broken"), &extra).ended("unverified", "check_inconclusive");
    assert_eq!(evidence(&broken)["cause"], "dependencies");
    assert!(detail(&broken).contains("the setup failed on the changed lockfile `Cargo.lock`"), "{broken:#}");
    let same = json!([edit("answer", "41", "42"), finish("Done.")]);
    let result = play(&place, &files, &same, &extra).ended("verified", "checks_passed");
    assert_eq!(evidence(&result)["environment"], Value::Null, "the lockfile is the base's");
}

#[test]
fn every_attempt_is_kept_with_what_its_rooms_showed() {
    let Some(place) = project::place("every_attempt_is_kept_with_what_its_rooms_showed") else { return };
    let turns = json!([
        edit("answer", "41", "40"),
        finish("Done."),
        edit("answer", "40", "42"),
        finish("Really done.")
    ]);
    let result = play(&place, PROJECT, &turns, &["--attempts", "2"]).ended("verified", "checks_passed");
    let attempts = result["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    let first = &attempts[0];
    assert_eq!(
        (&first["attempt"], &first["gate"], &first["status"], &first["reason"], &first["returned"]),
        (&json!(1), &json!("check"), &json!("failed"), &json!("check_failed"), &json!(true))
    );
    assert_eq!(first["evidence"][0]["cause"], "test");
    assert_eq!(first["evidence"][0]["rooms"][1]["tree"], first["tree"]);
    assert_ne!(first["tree"], result["tree"]);
    assert_eq!((&attempts[1]["gate"], &attempts[1]["tree"]), (&Value::Null, &result["tree"]));
    let shown = place.run(&["show", result["session"].as_str().unwrap()]).stdout;
    assert!(
        shown.contains("attempt 1 went back to work: check (check_failed)\n     exit code 1\n"),
        "{shown}"
    );
    // A run that was cut off is judged by the same plan, and its attempt is one like any other.
    let cut = json!([edit("answer", "41", "42"), sh("true")]);
    let result = play(&place, PROJECT, &cut, &["--max-turns", "2"]).ended("verified", "checks_passed");
    assert_eq!((&result["rescued_from"], &result["exit_code"]), (&json!("capped"), &json!(0)));
    assert_eq!(result["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(result["attempts"][0]["evidence"][0]["repeats"], json!({ "asked": 1, "green": 1 }));
}

#[test]
fn new_tests_must_fail_against_the_old_product() {
    let test = "new_tests_must_fail_against_the_old_product";
    let Some(place) = project::place(test) else { return };
    let Some(flags) = python::pytest(test, &place) else { return };
    let files = [
        ("calc.py", "def known():\n    return 1\n"),
        ("test_calc.py", "import calc\n\n\ndef test_known():\n    assert calc.known() == 1\n"),
    ];
    repository(&place, &files);
    let run = |files: &[(&str, &str)]| {
        let mut turns: Vec<Value> = files
            .iter()
            .map(|(path, content)| {
                json!({ "calls": [{ "tool": "write_file", "args": { "path": path, "content": content } }] })
            })
            .collect();
        turns.push(finish("Done."));
        let model = script(&place, "m.json", &json!(turns));
        let extra = ["--check", PYTEST, "--expect", "new", "--format", "json"];
        let flags: Vec<&str> = extra.iter().copied().chain(flags.iter().map(String::as_str)).collect();
        let args = project::args(&place, &model, &flags);
        place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let product = ("calc.py", "def known():\n    return 1\n\n\ndef double(n):\n    return 2 * n\n");
    let result = run(&[
        product,
        ("test_double.py", "import calc\n\n\ndef test_double():\n    assert calc.double(2) == 4\n"),
    ])
    .ended("verified", "checks_passed");
    assert_eq!(result["strength"]["level"], "canary", "{result:#}");
    assert_eq!(evidence(&result)["control"], "red");
    assert!(detail(&result).starts_with("1 new tests fail"), "{result:#}");
    // It cannot be read without the product: that is red, and not a test that was seen to fail.
    let result = run(&[
        product,
        ("test_double.py", "from calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"),
    ])
    .ended("verified", "checks_passed");
    assert_eq!(result["strength"]["level"], "red_before", "{result:#}");
    let result = run(&[product]).ended("unverified", "check_failed");
    assert!(detail(&result).contains("brings no test file"), "{result:#}");
    let result = run(&[product, ("test_double.py", "def test_nothing():\n    pass\n")])
        .ended("unverified", "check_failed");
    assert!(detail(&result).contains("no test of the change fails"), "{result:#}");
    assert_eq!(evidence(&result)["cause"], "control");
    run(&[
        ("calc.py", "def known():\n    return 2\n\n\ndef double(n):\n    return 2 * n\n"),
        ("test_double.py", "import calc\n\n\ndef test_double():\n    assert calc.double(2) == 4\n"),
    ])
    .ended("unverified", "check_failed");
}
