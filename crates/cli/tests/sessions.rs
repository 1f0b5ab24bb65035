//! What is said of a session without an end: one that a process runs, and one whose process died. And what is said where
//! a run had less of a sandbox than it could have had.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use project::{CHECK, PROJECT, edit, finish, kill, repository, script, sleeps, under_way, until};
use serde_json::{Value, json};

fn json(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn only_row(place: &Place) -> Value {
    json(&place.run(&["list", "--format", "json"]))[0].clone()
}

#[test]
fn a_session_without_an_end_is_running_or_lost() {
    let Some(place) = project::place("a_session_without_an_end_is_running_or_lost") else { return };
    let (child, seconds) = under_way(&place);
    let row = only_row(&place);
    assert_eq!((&row["status"], &row["outcome"]), (&json!("running"), &json!(null)));
    let id = row["session"].as_str().unwrap().to_owned();
    let shown = json(&place.run(&["show", &id, "--format", "json"]));
    let nothing = |result: &Value| {
        for key in ["outcome", "reason", "exit_code"] {
            assert!(result[key].is_null(), "{key}: {result:#}");
        }
    };
    nothing(&shown["result"]);
    assert!(shown["result"]["error"].is_null(), "{shown:#}");
    let text = place.run(&["show", &id]);
    assert!(text.stdout.lines().last().unwrap().starts_with("running · "), "{text:?}");
    for command in [&["apply", &id, "--unverified"][..], &["diff", &id]] {
        let refused = place.run(command);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("running"), "{refused:?}");
    }
    kill("KILL", child.id());
    assert_eq!(project::ended(child).code, None);
    until("the end of the agent's command", || !sleeps(&seconds));
    assert_eq!(only_row(&place)["status"], "lost");
    let shown = json(&place.run(&["show", &id, "--format", "json"]));
    nothing(&shown["result"]);
    let message = shown["result"]["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("countersign resume {id}")), "{message}");
    let text = place.run(&["show", &id]);
    assert!(text.stdout.lines().last().unwrap().starts_with("lost · "), "{text:?}");
    assert!(text.stdout.contains(&message), "{text:?}");
    let refused = place.run(&["apply", &id]);
    assert!(refused.code == Some(1) && refused.stderr.contains("its process died"), "{refused:?}");
    // It goes on where it was: the command that was cut off runs again, from the tree before it.
    let resumed = place.command(&["resume", &id, "--format", "json"]).spawn().unwrap();
    until("the agent's command again", || sleeps(&seconds));
    assert_eq!(only_row(&place)["status"], "running");
    kill("INT", resumed.id());
    project::ended(resumed).ended("canceled", "signal");
    assert_eq!(only_row(&place)["outcome"], "canceled");
}

#[test]
fn looking_at_a_run_does_not_disturb_it() {
    let Some(place) = project::place("looking_at_a_run_does_not_disturb_it") else { return };
    repository(&place, PROJECT);
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("Done.")]));
    let args = project::args(&place, &model, &["--check", CHECK, "--format", "json"]);
    let mut child = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    // Looked at from before it is recorded until after its end.
    while child.try_wait().unwrap().is_none() {
        assert_eq!(place.run(&["list"]).code, Some(0));
    }
    project::ended(child).ended("verified", "checks_passed");
}

#[test]
fn a_fallback_to_the_host_is_in_the_result() {
    let test = "a_fallback_to_the_host_is_in_the_result";
    let Some(place) = Place::new(test) else { return };
    let model = place.says("m.json", "done");
    place.write("plain/file", "x\n");
    let run = |format: &str, tail: &[&str]| {
        // A user namespace with one id has none to give to cells.
        let inner = place.command(&["run", "t", "--trust", "trusted-local", "--no-check", "--trace", "off"]);
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(inner.get_program()).args(inner.get_args());
        command.args(["--repo", "plain", "--model", &model, "--format", format]).args(tail);
        command.current_dir(place.dir.path()).env("COUNTERSIGN_HOME", place.path("home"));
        command.env("HOME", place.path("user"));
        Ended::of(command.output().unwrap())
    };
    let ended = run("json", &[]);
    if ended.stdout.is_empty() && ended.stderr.contains("unshare") {
        eprintln!("SKIPPED: {test}: no user namespace can be made here: {}", ended.stderr.trim());
        return;
    }
    let result = ended.ended("answered", "no_claim");
    assert_eq!((&result["tier"], &result["isolated"]), (&json!("host"), &json!(false)));
    let degraded = result["degraded"].to_string();
    assert!(degraded.contains("native sandbox does not work here"), "{degraded}");
    let asked = run("json", &["--sandbox", "host"]).ended("answered", "no_claim");
    assert_eq!(asked["degraded"], json!([]), "what was asked for is no degradation");
    let text = run("text", &[]);
    assert!(text.stdout.contains("host tier: not isolated"), "{text:?}");
}
