//! Which model with which key, what else a run is set to, and what is said of it before anything is called.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use countersign_llm::Script;
use countersign_testkit::{ScriptedServer, ServerOptions};
use project::{CHECK, PROJECT, finish, place, repository, script};
use serde_json::{Value, json};

/// A server that answers once.
fn server(key: &str) -> ScriptedServer {
    let script = json!({ "version": 1, "turns": [{ "text": "It declares nothing." }] });
    let script = Script::parse("s.json", script.to_string().as_bytes()).unwrap();
    ScriptedServer::start(ServerOptions { key: Some(key.into()), ..ServerOptions::new(script) }).unwrap()
}

/// `ask` in the repository with these variables and further flags.
fn ask(place: &Place, env: &[(&str, &str)], extra: &[&str]) -> Ended {
    let repo = place.path("repo").display().to_string();
    let base =
        ["ask", "what does it declare?", "--trust", "trusted-local", "--repo", &repo, "--format", "json"];
    let mut command = place.command(&[&base, extra].concat());
    command.envs(env.iter().copied());
    Ended::of(command.output().unwrap())
}

fn said(result: &Value) -> String {
    result["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn one_key_is_enough_to_start_and_its_model_is_named_with_its_source() {
    let Some(place) = place("one_key_is_enough_to_start_and_its_model_is_named_with_its_source") else {
        return;
    };
    repository(&place, PROJECT);
    for (variable, model, path) in [
        ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5", "/v1/messages"),
        ("OPENAI_API_KEY", "openai:gpt-6.1-sol", "/v1/chat/completions"),
        ("XAI_API_KEY", "xai:grok-4.7", "/v1/chat/completions"),
    ] {
        let server = server("sk-only");
        let ended = ask(&place, &[(variable, "sk-only")], &["--base-url", &server.base_url()]);
        let result = ended.ended("answered", "no_claim");
        assert_eq!(result["model"], model);
        let source = format!("default for ${variable}");
        assert_eq!(result["model_source"], source);
        assert!(ended.stderr.contains(model) && ended.stderr.contains(&source), "{}", ended.stderr);
        assert_eq!(server.requests()[0].path, path);
        let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
        assert_eq!(
            format!("{}:{}", model.split(':').next().unwrap(), body["model"].as_str().unwrap()),
            model
        );
    }
}

#[test]
fn two_keys_are_named_and_a_name_chooses() {
    let Some(place) = place("two_keys_are_named_and_a_name_chooses") else { return };
    repository(&place, PROJECT);
    let both = [("ANTHROPIC_API_KEY", "sk-ant-secret"), ("OPENAI_API_KEY", "sk-own-secret")];
    let ended = ask(&place, &both, &[]);
    let result = ended.ended("setup_error", "usage");
    let text = said(&result);
    for part in [
        "ANTHROPIC_API_KEY for anthropic:claude-sonnet-5-5",
        "OPENAI_API_KEY for openai:gpt-6.1-sol",
        "--model",
        "COUNTERSIGN_MODEL",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!format!("{ended:?}").contains("secret"));
    let server = server("sk-own-secret");
    let chosen = ["--model", "openai:m", "--base-url", &server.base_url()];
    ask(&place, &both, &chosen).ended("answered", "no_claim");
    // The flag wins over the environment, and the result says so.
    let server = self::server("sk-own-secret");
    let env = [both[0], both[1], ("COUNTERSIGN_MODEL", "anthropic:m")];
    let result = ask(&place, &env, &["--model", "openai:m", "--base-url", &server.base_url()]).json();
    assert_eq!((&result["model"], &result["model_source"]), (&json!("openai:m"), &json!("--model")));
    let none = ask(&place, &[("ANTHROPIC_API_KEY", " ")], &[]).ended("setup_error", "usage");
    assert!(said(&none).contains("ANTHROPIC_API_KEY"), "{none}");
}

#[test]
fn the_users_own_env_file_is_read_and_one_in_the_project_is_not() {
    let Some(place) = place("the_users_own_env_file_is_read_and_one_in_the_project_is_not") else { return };
    repository(&place, PROJECT);
    let content = "# mine\nexport ANTHROPIC_API_KEY='sk-file-secret'\nUNRELATED=1\n";
    place.write("user/.config/countersign/env", content);
    let one = server("sk-file-secret");
    let ended = ask(&place, &[], &["--base-url", &one.base_url()]);
    let result = ended.ended("answered", "no_claim");
    assert_eq!(result["model_source"], "default for ANTHROPIC_API_KEY of your env file");
    assert!(ended.stderr.contains("chmod 600"), "others may read it: {}", ended.stderr);
    assert!(!format!("{ended:?}").contains("secret"));
    // The environment wins.
    let other = server("sk-env");
    ask(&place, &[("ANTHROPIC_API_KEY", "sk-env")], &["--base-url", &other.base_url()]).json();
    assert_eq!(other.requests().len(), 1);
    // The same file, where the configuration directory lies in the project.
    place.write("repo/config/countersign/env", content);
    let inside = place.path("repo/config").display().to_string();
    let three = server("sk-file-secret");
    let ended = ask(&place, &[("XDG_CONFIG_HOME", &inside)], &["--base-url", &three.base_url()]);
    ended.ended("setup_error", "usage");
    assert_eq!(three.requests().len(), 0);
    // One that makes no sense is named by its line and never quoted.
    place.write("user/.config/countersign/env", "ANTHROPIC_API_KEY=a\nsk-file-secret\n");
    let ended = ask(&place, &[], &[]);
    let text = said(&ended.ended("setup_error", "key"));
    assert!(text.contains("line 2") && !text.contains("secret"), "{text}");
}

/// The settings of `config explain` by name.
fn explained(place: &Place, env: &[(&str, &str)], args: &[&str]) -> Vec<Value> {
    let mut command = place.command(&[&["config", "explain", "--format", "json"], args].concat());
    command.envs(env.iter().copied());
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["schema"], "countersign.config/1");
    value["settings"].as_array().unwrap().clone()
}

fn row<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["name"] == name).unwrap()
}

/// The contract of a recorded run, from its journal.
fn contract(place: &Place, result: &Value) -> Value {
    let id = result["session"].as_str().unwrap();
    let shown = place.run(&["show", id, "--reveal", "1:contract"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    serde_json::from_str(shown["text"].as_str().unwrap()).unwrap()
}

/// What a contract holds besides settings, and what one that is said elsewhere leads to.
const NO_SETTINGS: &[&str] = &[
    "/schema",
    "/source",
    "/change_required",
    "/detectors",
    "/environment/env",
    "/model/source",
    "/model/replayed",
    "/review/model/source",
    "/review/model/max_output_tokens",
];

/// The pointers of all that has no object below it.
fn leaves(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{at}/{name}"), out));
        }
        _ => out.push(at.to_owned()),
    }
}

#[test]
fn what_is_explained_is_what_the_contract_of_a_run_holds() {
    let Some(place) = place("what_is_explained_is_what_the_contract_of_a_run_holds") else { return };
    repository(&place, PROJECT);
    script(&place, "m.json", &json!([finish("x"), finish("x")]));
    script(&place, "r.json", &json!([{ "text": "{\"findings\": []}" }]));
    let (tools, cache) = (place.path("tools"), place.path("cache"));
    std::fs::create_dir_all(tools.join("bin")).unwrap();
    std::fs::create_dir_all(&cache).unwrap();
    place.write(
        "c.toml",
        &format!(
            "# mine\nmax_tokens = 70000\ndeadline = \"9m\"\nnetwork = \"host\"\ntoolchains = [{}]\n[[caches]]\nhost = {}\ncell = \"/var/cache/mine\"\n",
            json!(tools),
            json!(cache)
        ),
    );
    place.write(
        "mine/profile.json",
        r#"{"schema": "countersign.profile/1", "name": "mine", "probe": ["true"], "scope": ["answer"],
            "protect": ["README"], "allow": [{"rule": "shell.tests", "glob": "x.sh"}], "deps": "ask",
            "checks": [{"argv": ["sh", "tests/check.sh"], "repeats": 2}]}"#,
    );
    assert_eq!(place.run(&["profile", "register", "mine"]).code, Some(0));
    let tape = ["--record", "tape.jsonl"];
    let cases: &[&str] = &[
        "--trust trusted-local --check true",
        "--trust reviewed --check true --config c.toml --max-turns 5 --attempts 2 --out-of-process --repro-first",
        "--trust trusted-local --check true --config c.toml --preset coding@1 --scope answer --protect README \
         --mutants 1 --min-strength exit_code --deps ask --probe true --check-timeout 30s --network none --sandbox native \
         --allow shell.tests",
        "--trust reviewed --profile mine --require verified",
        "--trust trusted-local --no-fence --check true --review-model scripted:r.json --review-rounds 3 --review-required",
    ];
    for flags in cases {
        let flags =
            ["--repo", "repo", "--model", "scripted:m.json"].into_iter().chain(flags.split_whitespace());
        let flags: Vec<&str> = flags.collect();
        let rows = explained(&place, &[], &flags);
        let ended = place.run(&[&["run", "make it 42", "--format", "json"], &flags[..]].concat());
        told_the_same(&rows, &contract(&place, &ended.json()), &flags);
    }
    // A recording says who the model was.
    let flags = ["--repo", "repo", "--trust", "trusted-local", "--check", "true"];
    let base = [&["run", "make it 42", "--format", "json"], &flags[..]].concat();
    place.run(&[&base[..], &["--model", "scripted:m.json"], &tape].concat());
    let replay = [&flags[..], &["--replay", "tape.jsonl"]].concat();
    let rows = explained(&place, &[], &replay);
    let ended = place.run(&[&base[..], &["--replay", "tape.jsonl"]].concat());
    told_the_same(&rows, &contract(&place, &ended.json()), &replay);
}

fn told_the_same(rows: &[Value], contract: &Value, flags: &[&str]) {
    let pointers: Vec<&str> = rows.iter().filter_map(|row| row["contract"].as_str()).collect();
    assert!(pointers.len() > 25, "{rows:?}");
    for row in rows {
        if let Some(pointer) = row["contract"].as_str() {
            assert_eq!(Some(&row["value"]), contract.pointer(pointer), "{pointer} with {flags:?}");
        }
    }
    assert_eq!(row(rows, "check_timeout")["value"], contract["checks"][0]["timeout"]);
    let mut held = Vec::new();
    leaves(contract, "", &mut held);
    let known = pointers.iter().chain(NO_SETTINGS);
    held.retain(|leaf| !known.clone().any(|known| leaf == known || leaf.starts_with(&format!("{known}/"))));
    assert!(held.is_empty(), "not explained with {flags:?}: {held:?}");
}

#[test]
fn each_setting_says_where_it_came_from_and_what_a_floor_moved() {
    let Some(place) = Place::new("each_setting_says_where_it_came_from_and_what_a_floor_moved") else {
        return;
    };
    place.write(
        "user/.config/countersign/config.toml",
        "trust = \"reviewed\"\nmodel = \"openai:file\"\nsandbox = \"host\"\n\nnetwork = \"host\"\nmax_turns = 9\n",
    );
    let env = [("COUNTERSIGN_MODEL", "anthropic:env"), ("ANTHROPIC_API_KEY", "sk-ant-secret")];
    let rows = explained(&place, &env, &["--max-turns", "3"]);
    let of = |name: &str| {
        let row = row(&rows, name);
        (
            row["value"].clone(),
            row["source"].as_str().unwrap().to_owned(),
            row["line"].clone(),
            row["moved_by"].clone(),
        )
    };
    let plain = |value: Value, source: &str| (value, source.to_owned(), Value::Null, Value::Null);
    assert_eq!(of("model"), plain(json!("anthropic:env"), "$COUNTERSIGN_MODEL"));
    assert_eq!(of("base_url"), plain(json!("https://api.anthropic.com"), "default"));
    assert_eq!(of("api_key"), plain(Value::Null, "ANTHROPIC_API_KEY"));
    assert_eq!(of("max_turns"), plain(json!(3), "--max-turns"));
    assert_eq!(of("attempts"), plain(json!(1), "preset"));
    assert_eq!(of("trust"), (json!("reviewed"), "configuration file".to_owned(), json!(1), Value::Null));
    for (name, value, line) in [("sandbox", "native", 3), ("network", "none", 5)] {
        let source = "floor of trust reviewed".to_owned();
        assert_eq!(of(name), (json!(value), source, json!(line), json!("reviewed")), "{name}");
        assert_eq!(row(&rows, name)["moved_from"], "host");
    }
    assert!(!format!("{rows:?}").contains("secret"));
    assert_eq!(row(&rows, "canonical")["value"], false);
    // For people, and with a flag that a floor forbids.
    let mut command = place.command(&["config", "explain", "--max-turns", "3"]);
    let told = Ended::of(command.envs(env).output().unwrap());
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.lines().any(|line| line.starts_with("model ") && line.contains("$COUNTERSIGN_MODEL"))
    );
    assert!(told.stdout.contains("floor of trust reviewed, line 3 (said host)"), "{}", told.stdout);
    let loose = place.run(&["config", "explain", "--format", "json", "--network", "host"]);
    let result = loose.ended("setup_error", "trust");
    assert!(said(&result).contains("--network"), "{result}");
}

#[test]
fn a_preset_is_recorded_with_its_digest_and_an_unknown_one_calls_nobody() {
    let Some(place) = place("a_preset_is_recorded_with_its_digest_and_an_unknown_one_calls_nobody") else {
        return;
    };
    let repo = repository(&place, PROJECT).display().to_string();
    let model = script(&place, "m.json", &json!([finish("x")]));
    let run = |command: &str, extra: &[&str]| {
        let base = [command, "make it 42", "--trust", "trusted-local", "--repo", &repo, "--model", &model];
        place.run(&[&base[..], &["--format", "json"], extra].concat())
    };
    let plain = run("run", &["--check", CHECK]).json()["preset"].clone();
    assert_eq!((&plain["name"], &plain["canonical"]), (&json!("coding@1"), &json!(true)));
    let named = run("run", &["--check", CHECK, "--preset", "coding@1", "--max-turns", "5"]).json();
    assert_eq!(named["preset"], json!({ "name": "coding@1", "digest": plain["digest"], "canonical": false }));
    for (command, preset, part) in [
        ("run", "coding@9", "coding@1, question@1"),
        ("run", "gate@1", "coding@1, question@1"),
        ("run", "question@1", "countersign ask"),
        ("ask", "coding@1", "countersign run"),
    ] {
        let refused = run(command, &["--preset", preset]);
        let result = refused.ended("setup_error", "usage");
        assert!(said(&result).contains(part), "{preset}: {result}");
        assert_eq!(result["usage"]["model_calls"], 0);
    }
    script(&place, "m.json", &json!([{ "text": "It does." }]));
    run("ask", &["--preset", "question@1"]).ended("answered", "no_claim");
}
