//! `--record` and `--replay`: what a run said to its models and heard from them, in a file of the user's, and the same run
//! again without a network.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::{Ended, Place};
use countersign_llm::Script;
use countersign_testkit::{ScriptedServer, ServerOptions};
use project::{CHECK, PROJECT, edit, finish, place, repository, sh};
use serde_json::{Value, json};

const KEY: &str = "sk-recorded-secret-0123456789";

/// Refused once with a wait, then a repair that runs commands, prints the time and is done.
fn repair() -> Value {
    json!([
        { "error": { "status": 429, "retry_after_s": 0.02 } },
        { "text": "I look.", "usage": { "input": 10, "output": 2 }, "calls": [
            { "tool": "run", "args": { "command": "cat answer; echo took 0.0$(date +%N)s" } },
            { "tool": "read_file", "args": { "path": "README" } },
        ] },
        edit("answer", "41", "42"),
        sh("sh tests/check.sh"),
        finish("It is 42."),
    ])
}

fn server(turns: &Value) -> ScriptedServer {
    let script =
        Script::parse("s.json", json!({ "version": 1, "turns": turns }).to_string().as_bytes()).unwrap();
    ScriptedServer::start(ServerOptions { key: Some(KEY.into()), strict: true, ..ServerOptions::new(script) })
        .unwrap()
}

fn run(place: &Place, task: &str, key: bool, extra: &[&str]) -> Ended {
    let repo = place.path("repo").display().to_string();
    let base =
        ["run", task, "--trust", "trusted-local", "--repo", &repo, "--check", CHECK, "--format", "json"];
    let mut command = place.command(&[&base[..], extra].concat());
    if key {
        command.env("ANTHROPIC_API_KEY", KEY).env("OPENAI_API_KEY", KEY);
    }
    Ended::of(command.output().unwrap())
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A result without what is different in every run.
fn comparable(mut result: Value) -> Value {
    for key in ["session", "created_at", "active_ms", "bundle", "contract", "model_source", "replay"] {
        result.as_object_mut().unwrap().remove(key);
    }
    result["patch"].as_object_mut().unwrap().remove("path");
    result["attempts"] = Value::Null;
    for gate in result["gates"].as_object_mut().unwrap().values_mut() {
        gate.as_object_mut().unwrap().remove("evidence");
    }
    result
}

#[test]
fn a_recorded_run_is_played_again_without_a_network_or_a_key() {
    let Some(place) = place("a_recorded_run_is_played_again_without_a_network_or_a_key") else { return };
    repository(&place, PROJECT);
    for vendor in ["openai", "anthropic"] {
        let file = place.path(&format!("{vendor}.jsonl"));
        let path = file.display().to_string();
        let server = server(&repair());
        let url = server.base_url();
        let model = format!("{vendor}:m");
        let extra = ["--model", &model, "--base-url", &url, "--record", &path];
        let ended = run(&place, "make it 42", true, &extra);
        let recorded = ended.ended("verified", "checks_passed");
        assert_eq!(server.violations(), Vec::<String>::new());
        assert!(ended.stderr.contains("5 model call(s) are recorded in"), "{}", ended.stderr);
        let sent: Vec<Vec<u8>> = server.requests().into_iter().map(|request| request.body).collect();
        drop(server);

        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let all = lines(&file);
        assert_eq!(all[0]["models"], json!([{ "role": "agent", "model": model, "endpoint": url }]));
        assert_eq!(all.last().unwrap(), &json!({ "end": { "attempts": 5 } }));
        assert_eq!(all[1]["answer"]["status"], 429);
        for (attempt, body) in all[1..6].iter().zip(&sent) {
            assert_eq!(attempt["request"]["body"].as_str().unwrap().as_bytes(), body, "in order, as sent");
        }
        assert!(!std::fs::read_to_string(&file).unwrap().contains(KEY));

        let again = run(&place, "make it 42", false, &["--replay", &path]);
        let played = again.ended("verified", "checks_passed");
        assert!(played["replay"].as_str().unwrap().starts_with("sha256:"), "{played}");
        assert_eq!(played["model_source"], "--replay");
        assert_eq!(played["tree"], recorded["tree"]);
        assert_eq!(played["usage"], recorded["usage"], "retries included");
        assert_eq!(comparable(played), comparable(recorded), "{vendor}");
    }
}

#[test]
fn a_run_that_does_something_else_stops_at_the_field_that_differs() {
    let Some(place) = place("a_run_that_does_something_else_stops_at_the_field_that_differs") else { return };
    repository(&place, PROJECT);
    let path = place.path("r.jsonl").display().to_string();
    let server = server(&repair());
    let url = server.base_url();
    run(&place, "make it 42", true, &["--model", "openai:m", "--base-url", &url, "--record", &path])
        .ended("verified", "checks_passed");

    let ended = run(&place, "make it 43", false, &["--replay", &path]);
    let result = ended.ended("provider_error", "bad_response");
    let text = result["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("model call 1 of the agent differs") && text.contains("`/messages/1/content`"),
        "{text}"
    );
    assert_eq!((ended.code, &result["usage"]["model_calls"]), (Some(5), &json!(1)));

    // The project changed: the first two requests are the same, and the third holds another result.
    std::fs::write(place.path("repo/answer"), "41 \n").unwrap();
    project::git(&place.path("repo"), &["commit", "--quiet", "--all", "--message", "other"]);
    let result =
        run(&place, "make it 42", false, &["--replay", &path]).ended("provider_error", "bad_response");
    let text = result["error"]["message"].as_str().unwrap();
    assert!(text.contains("model call 3 of the agent differs") && text.contains("/content`"), "{text}");
}

#[test]
fn a_recording_that_runs_out_says_so() {
    let Some(place) = place("a_recording_that_runs_out_says_so") else { return };
    repository(&place, PROJECT);
    let path = place.path("r.jsonl").display().to_string();
    let server = server(&json!([sh("true"), { "text": "I give up." }]));
    let url = server.base_url();
    let common = ["--attempts", "2"];
    let record = ["--model", "openai:m", "--base-url", &url, "--record", &path, "--max-turns", "1"];
    run(&place, "make it 42", true, &[&record[..], &common].concat()).ended("capped", "turns");
    let ended = run(&place, "make it 42", false, &[&["--replay", &path][..], &common].concat());
    let result = ended.ended("provider_error", "bad_response");
    let text = result["error"]["message"].as_str().unwrap();
    assert!(text.contains("the recording holds 1 model call(s) of the agent and this is one more"), "{text}");
}

#[test]
fn recordings_are_new_files_and_replays_are_whole_ones() {
    let Some(place) = place("recordings_are_new_files_and_replays_are_whole_ones") else { return };
    repository(&place, PROJECT);
    let model = project::script(&place, "m.json", &json!([{ "text": "x" }]));
    let mine = place.write("mine", "mine").display().to_string();
    let inside = place.path("repo/r.jsonl").display().to_string();
    let path = place.path("r.jsonl").display().to_string();
    for (extra, part) in [
        (&["--model", &model, "--record", &mine][..], "exists already"),
        (&["--model", &model, "--record", "/no/such/dir/r"], "cannot be made"),
        (&["--model", &model, "--record", &inside, "--include-dirty"], "lies in the project"),
        (&["--replay", &mine], "is no recording"),
        (&["--replay", "/no/such/file"], "cannot be opened"),
        (&["--replay", &mine, "--record", &path], "cannot be used with"),
    ] {
        let ended = run(&place, "make it 42", false, extra);
        let result = ended.ended("setup_error", "usage");
        assert!(result["error"]["message"].as_str().unwrap().contains(part), "{part}: {result}");
    }
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    // A script can be recorded too, and a question; the model is named by the recording alone.
    let asked = |extra: &[&str]| {
        let repo = place.path("repo").display().to_string();
        let base = ["ask", "what is it?", "--trust", "trusted-local", "--repo", &repo, "--format", "json"];
        place.run(&[&base[..], extra].concat())
    };
    let first = asked(&["--model", &model, "--record", &path]).json();
    std::fs::remove_file(place.path("m.json")).unwrap();
    let again = asked(&["--replay", &path]).json();
    assert_eq!((&again["answer"], &again["model"]), (&first["answer"], &first["model"]));
    let other = asked(&["--replay", &path, "--model", "openai:m"]).ended("setup_error", "usage");
    assert!(other["error"]["message"].as_str().unwrap().contains("--replay plays scripted:"), "{other}");
    let told = place.run(&["run", "--help"]).stdout;
    assert!(told.contains("--record <FILE>") && told.contains("whole conversation"), "{told}");
}
