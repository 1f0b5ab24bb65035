//! Providers by name: the same work comes to the same tree through each of them, and whatever a provider says instead of an
//! answer ends in the outcome that it means.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::{Ended, Place};
use countersign_llm::Script;
use countersign_testkit::{Fault, ScriptedServer, ServerOptions, aimock};
use project::{CHECK, PROJECT, args, edit, finish, place, repository, sh};
use serde_json::{Value, json};

fn script(turns: &Value) -> Script {
    Script::parse("s.json", json!({ "version": 1, "turns": turns }).to_string().as_bytes()).unwrap()
}

/// Looks with two calls at once, fails to find a file, is overloaded once, mends, and is done.
fn fix() -> Value {
    json!([
        { "text": "I look.", "usage": { "input": 11, "output": 7 }, "calls": [
            { "tool": "read_file", "args": { "path": "answer" } },
            { "tool": "read_file", "args": { "path": "no/such/file" } },
        ] },
        { "error": { "status": 529, "retry_after_s": 0.01 } },
        edit("answer", "41", "42"),
        sh(CHECK),
        finish("It is 42."),
    ])
}

fn strict(turns: &Value, key: Option<&str>) -> ScriptedServer {
    let key = key.map(str::to_owned);
    ScriptedServer::start(ServerOptions { key, strict: true, ..ServerOptions::new(script(turns)) }).unwrap()
}

/// A checked run with a key in a variable.
fn run(place: &Place, model: &str, url: &str, key: Option<(&str, &str)>, extra: &[&str]) -> Ended {
    let extra = [&["--check", CHECK, "--format", "json", "--base-url", url], extra].concat();
    let args = args(place, model, &extra);
    let mut command = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    command.envs(key);
    Ended::of(command.output().unwrap())
}

#[test]
fn the_same_work_comes_to_the_same_tree_through_every_provider() {
    let Some(place) = place("the_same_work_comes_to_the_same_tree_through_every_provider") else { return };
    repository(&place, PROJECT);
    let mut trees = BTreeMap::new();
    for (vendor, variable) in [
        ("openai", Some("OPENAI_API_KEY")),
        ("anthropic", Some("ANTHROPIC_API_KEY")),
        ("openrouter", Some("OPENROUTER_API_KEY")),
        ("xai", Some("XAI_API_KEY")),
        ("ollama", None),
        ("local", None),
    ] {
        let secret = format!("sk-{vendor}-secret");
        let key = variable.map(|name| (name, secret.as_str()));
        let server = strict(&fix(), key.map(|(_, value)| value));
        let ended = run(&place, &format!("{vendor}:some/model"), &server.base_url(), key, &[]);
        let result = ended.ended("verified", "checks_passed");
        assert_eq!(server.violations(), Vec::<String>::new(), "{vendor}");
        assert_eq!((&result["usage"]["model_calls"], &result["usage"]["turns"]), (&json!(5), &json!(4)));
        assert_eq!(result["usage"]["input"], json!(null), "one call did not say: unknown is not zero");
        assert_eq!(
            (&result["model"], &result["model_source"]),
            (&json!(format!("{vendor}:some/model")), &json!("--model"))
        );
        let path = if vendor == "anthropic" { "/v1/messages" } else { "/v1/chat/completions" };
        assert!(server.requests().iter().all(|request| request.path == path), "{vendor}");
        let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
        assert_eq!(body["model"], "some/model");
        trees.insert(vendor, result["tree"].as_str().unwrap().to_owned());
        assert!(!format!("{ended:?}").contains(&secret), "{vendor}");
    }
    let first = &trees["openai"];
    assert!(trees.values().all(|tree| tree == first), "{trees:?}");
}

fn aimock_dir() -> Option<PathBuf> {
    let materials = || std::env::var_os("COUNTERSIGN_MATERIALS").map(|dir| PathBuf::from(dir).join("aimock"));
    let dir = std::env::var_os("COUNTERSIGN_AIMOCK_DIR").map(PathBuf::from).or_else(materials);
    dir.filter(|dir| dir.join("node_modules/@copilotkit/aimock").is_dir())
}

#[test]
fn an_independent_server_hears_both_wires_and_the_work_is_the_same() {
    let test = "an_independent_server_hears_both_wires_and_the_work_is_the_same";
    let Some(place) = place(test) else { return };
    let (Some(dir), Ok(_)) = (aimock_dir(), aimock::node()) else {
        eprintln!("SKIPPED: {test}: no aimock among the materials, or no node for it: run cargo xtask setup");
        return;
    };
    repository(&place, PROJECT);
    let mut turns = fix();
    // aimock's own words for a failure have no 529.
    turns[1] = json!({ "error": { "status": 503, "retry_after_s": 1 } });
    let mut trees = Vec::new();
    for model in ["openai:m", "anthropic:m"] {
        let scratch = tempfile::tempdir().unwrap();
        let server = aimock::start(&dir, &script(&turns), scratch.path()).unwrap();
        let result = run(&place, model, &server.base_url(), None, &[]).ended("verified", "checks_passed");
        assert_eq!(server.requests().unwrap(), 5, "{model}");
        trees.push(result["tree"].clone());
    }
    assert_eq!(trees[0], trees[1]);
}

/// A whole response in place of the script's.
fn said(status: u16, headers: &[(&str, &str)], body: &Value) -> Fault {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Fault::Response { status, headers, body: body.to_string().into_bytes() }
}

fn error(status: u16, kind: &str, message: &str) -> Fault {
    said(status, &[], &json!({ "type": "error", "error": { "type": kind, "message": message } }))
}

fn message(content: &Value, reason: &str) -> Fault {
    let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 3 });
    let body = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": usage });
    said(200, &[], &body)
}

/// An `anthropic:` run whose calls meet `faults`.
fn against(place: &Place, faults: Vec<Fault>, turns: &Value) -> (Ended, usize) {
    let faults = (0..).zip(faults).collect();
    let server =
        ScriptedServer::start(ServerOptions { faults, ..ServerOptions::new(script(turns)) }).unwrap();
    let ended = run(place, "anthropic:m", &server.base_url(), Some(("ANTHROPIC_API_KEY", "sk-ant")), &[]);
    (ended, server.requests().len())
}

#[test]
fn each_way_in_which_anthropic_says_no_ends_in_its_outcome() {
    let Some(place) = place("each_way_in_which_anthropic_says_no_ends_in_its_outcome") else { return };
    repository(&place, PROJECT);
    let text = json!([{ "type": "text", "text": "I will not." }]);
    let far = [
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2035-01-01T00:00:00Z"),
    ];
    let limited = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "m" } });
    for (fault, outcome, reason, code) in [
        (error(401, "authentication_error", "invalid x-api-key"), "provider_error", "auth", 5),
        (error(403, "permission_error", "not yours"), "provider_error", "auth", 5),
        (error(400, "invalid_request_error", "messages.3: bad"), "provider_error", "bad_response", 5),
        (error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8"), "capped", "context", 3),
        (error(413, "request_too_large", "too large"), "capped", "context", 3),
        (error(402, "billing_error", "no money"), "provider_error", "quota_exhausted", 5),
        (said(429, &far, &limited), "provider_error", "quota_exhausted", 5),
        (message(&text, "refusal"), "refused", "declined", 6),
        (message(&json!([]), "model_context_window_exceeded"), "capped", "context", 3),
        (message(&text, "max_tokens"), "capped", "output", 3),
    ] {
        let told = format!("{fault:?}");
        let (ended, calls) = against(&place, vec![fault], &json!([{ "text": "x" }]));
        let result = ended.ended(outcome, reason);
        assert_eq!((ended.code, calls), (Some(code), 1), "one attempt: {told}");
        if reason == "quota_exhausted" && told.contains("2035") {
            assert_eq!(result["reset_at"], json!(2_051_222_400_000_u64));
        }
    }
    // What passes by itself is tried again and then named.
    let overloaded = vec![error(529, "overloaded_error", "Overloaded"); 4];
    let (ended, calls) = against(&place, overloaded, &json!([{ "text": "x" }]));
    ended.ended("provider_error", "overloaded");
    assert_eq!(calls, 4, "three retries");
}

#[test]
fn a_paused_turn_goes_on_and_usage_counts_what_the_cache_held() {
    let Some(place) = place("a_paused_turn_goes_on_and_usage_counts_what_the_cache_held") else { return };
    repository(&place, PROJECT);
    let paused =
        json!([{ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} }]);
    let call = json!([{ "type": "tool_use", "id": "toolu_1", "name": "edit_file",
        "input": { "path": "answer", "old": "41", "new": "42" } }]);
    let end =
        json!([{ "type": "tool_use", "id": "toolu_2", "name": "finish", "input": { "summary": "42" } }]);
    let faults = vec![message(&paused, "pause_turn"), message(&call, "tool_use"), message(&end, "tool_use")];
    let turns = json!([{ "text": "x" }, { "text": "x" }, { "text": "x" }]);
    let faults = (0..).zip(faults).collect();
    let server =
        ScriptedServer::start(ServerOptions { faults, ..ServerOptions::new(script(&turns)) }).unwrap();
    let ended = run(&place, "anthropic:m", &server.base_url(), None, &[]);
    let result = ended.ended("verified", "checks_passed");
    let usage = &result["usage"];
    assert_eq!(
        (&usage["input"], &usage["cached"], &usage["cache_write"], &usage["output"]),
        (&json!(3 * 112), &json!(300), &json!(21), &json!(9))
    );
    let second: Value = serde_json::from_slice(&server.requests()[1].body).unwrap();
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1], json!({ "role": "assistant", "content": paused }), "it goes back as it is");
    let third: Value = serde_json::from_slice(&server.requests()[2].body).unwrap();
    assert_eq!(third["messages"][1]["content"].as_array().unwrap().len(), 2, "one turn of two parts");
}

#[test]
fn an_unknown_provider_is_refused_with_the_list_of_those_that_are() {
    let Some(place) = Place::new("an_unknown_provider_is_refused_with_the_list_of_those_that_are") else {
        return;
    };
    let ended =
        place.run(&["ask", "q", "--trust", "trusted-local", "--model", "antrhopic:m", "--format", "json"]);
    let result = ended.ended("setup_error", "usage");
    let said = result["error"]["message"].as_str().unwrap();
    for name in ["openai:", "anthropic:", "openrouter:", "xai:", "ollama:", "local:", "scripted:FILE"] {
        assert!(said.contains(name), "{said}");
    }
    let ended =
        place.run(&["ask", "q", "--trust", "trusted-local", "--model", "anthropic:m", "--format", "json"]);
    let result = ended.ended("setup_error", "key");
    assert!(result["error"]["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"), "{result}");
}
