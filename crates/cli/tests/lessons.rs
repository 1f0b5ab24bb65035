//! What earlier systems of this kind got wrong (docs/lessons.md), where no other suite holds it.

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use project::{CHECK, PROJECT, edit, finish, journal, repository, script, sh};
use serde_json::{Value, json};

fn play(place: &Place, files: &[(&str, &str)], turns: &Value, extra: &[&str]) -> Ended {
    repository(place, files);
    let model = script(place, "m.json", turns);
    let args = project::args(place, &model, &[extra, &["--format", "json"]].concat());
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn every_guard_holds_without_the_others() {
    let Some(place) = project::place("every_guard_holds_without_the_others") else { return };
    let outside = json!([sh("echo 42 > answer; echo x > README"), finish("Done.")]);
    let result = play(&place, PROJECT, &outside, &["--no-check", "--scope", "answer"])
        .ended("scope_violation", "paths");
    assert_eq!(result["gates"]["check"]["status"], "absent");
    let tampering = json!([sh("echo > README"), finish("Done.")]);
    let result = play(&place, PROJECT, &tampering, &["--no-check", "--protect", "README"])
        .ended("tampered", "protected_files");
    assert_eq!(result["gates"]["scope"]["status"], "absent");
}

#[test]
fn a_check_without_an_answer_uses_up_attempts_like_a_red_one() {
    let Some(place) = project::place("a_check_without_an_answer_uses_up_attempts_like_a_red_one") else {
        return;
    };
    let slow = "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || exit 1\nsleep 600\n";
    let files = [PROJECT[0], ("tests/check.sh", slow)];
    let turns = json!([edit("answer", "41", "42"), finish("Done."), finish("Done."), finish("Never said.")]);
    let extra = ["--check", CHECK, "--check-timeout", "1s", "--attempts", "2"];
    let result = play(&place, &files, &turns, &extra).ended("unverified", "check_inconclusive");
    let events = journal(&place, result["session"].as_str().unwrap());
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((count("attempt_begun"), count("attempt_returned")), (2, 1), "no attempt more");
    // It is told as what it is: no failure to go on working at.
    let shown = place.run(&["show", result["session"].as_str().unwrap(), "--format", "json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let told =
        shown["transcript"].as_array().unwrap().iter().find(|entry| entry["role"] == "feedback").unwrap();
    assert!(told["text"].as_str().unwrap().contains("time limit"), "{told}");
}

#[test]
fn a_final_check_has_its_own_time_after_the_deadline_of_the_agent() {
    let Some(place) = project::place("a_final_check_has_its_own_time_after_the_deadline_of_the_agent") else {
        return;
    };
    let slow = "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || exit 1\nsleep 3\n";
    let files = [PROJECT[0], ("tests/check.sh", slow)];
    let turns = json!([edit("answer", "41", "42"), { "text": "Never said.", "delay_ms": 600_000 }]);
    let extra = ["--check", CHECK, "--deadline", "2s"];
    let result = play(&place, &files, &turns, &extra).ended("verified", "checks_passed");
    assert_eq!(result["rescued_reason"], "deadline");
}
