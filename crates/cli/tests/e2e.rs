//! Whole runs with the real engine and native cells: the table of outcomes as far as a scripted model reaches it.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, Place};
use serde_json::{Value, json};

const CHECK: &str = "sh tests/check.sh";

/// A project whose check is red until `answer` holds 42.
const PROJECT: &[(&str, &str)] = &[
    ("answer", "41\n"),
    ("tests/check.sh", "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || { echo 'FAILED: not 42'; exit 1; }\n"),
    ("README", "An answer.\n"),
];

/// A place with native cells, or a line that says why the test did not run.
fn place(test: &str) -> Option<Place> {
    let place = Place::new(test)?;
    let report: Value = serde_json::from_str(&place.run(&["doctor", "--format", "json"]).stdout).unwrap();
    let native = report["tiers"].as_array().unwrap().iter().find(|tier| tier["name"] == "native").unwrap();
    if native["available"] != true {
        let required = std::env::var_os("COUNTERSIGN_TEST_REQUIRE_NATIVE").is_some();
        assert!(!required, "{test}: the native sandbox is not available: {}", native["why_not"]);
        eprintln!("SKIPPED: {test}: the native sandbox is not available: {}", native["why_not"]);
        return None;
    }
    Some(place)
}

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(args).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "T").env(format!("GIT_{role}_EMAIL"), "t@example.invalid");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn repository(place: &Place, files: &[(&str, &str)]) -> PathBuf {
    for (name, content) in files {
        place.write(&format!("repo/{name}"), content);
    }
    let dir = place.path("repo");
    git(&dir, &["init", "--quiet"]);
    git(&dir, &["add", "--all"]);
    git(&dir, &["commit", "--quiet", "--message", "base"]);
    dir
}

fn script(place: &Place, name: &str, turns: &Value) -> String {
    let text = json!({ "version": 1, "turns": turns }).to_string();
    format!("scripted:{}", place.write(name, &text).display())
}

fn finish(summary: &str) -> Value {
    json!({ "calls": [{ "tool": "finish", "args": { "summary": summary } }] })
}

fn sh(command: &str) -> Value {
    json!({ "calls": [{ "tool": "run", "args": { "command": command } }] })
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "calls": [{ "tool": "edit_file", "args": { "path": path, "old": old, "new": new } }] })
}

/// Runs in `repo/` with a check.
fn checked(place: &Place, model: &str, extra: &[&str]) -> Ended {
    let repo = place.path("repo").display().to_string();
    let base = [
        "run",
        "make it 42",
        "--trust",
        "trusted-local",
        "--repo",
        &repo,
        "--model",
        model,
        "--check",
        CHECK,
        "--format",
        "json",
    ];
    place.run(&[&base[..], extra].concat())
}

/// Every file below `dir` with mode and content, `.git` included.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_file() {
                all.insert(path.clone(), (metadata.mode(), std::fs::read(&path).unwrap()));
            } else {
                all.insert(path, (metadata.mode(), Vec::new()));
            }
        }
    }
    all
}

#[test]
fn the_demo_refuses_the_lie_and_accepts_the_fix() {
    let Some(place) = place("the_demo_refuses_the_lie_and_accepts_the_fix") else { return };
    let temporary = place.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let told = Ended::of(place.command(&["demo"]).env("TMPDIR", &temporary).output().unwrap());
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!((15..50).contains(&told.stdout.lines().count()), "{}", told.stdout);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "the folder is gone");
    let ended =
        Ended::of(place.command(&["demo", "--format", "json"]).env("TMPDIR", &temporary).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs: Vec<_> = value["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["exit_code"].as_u64().unwrap(), run["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(runs, [(0, "answered"), (2, "unverified"), (0, "verified")]);
    let kept = place.path("kept").display().to_string();
    assert_eq!(place.run(&["demo", "--keep", &kept]).code, Some(0));
    assert!(place.path("kept/project/total.sh").is_file());
    assert_eq!(
        place.run(&["demo", "--keep", &kept]).code,
        Some(1),
        "an existing directory is not overwritten"
    );
}

#[test]
fn a_true_fix_is_verified_and_its_patch_applies() {
    let Some(place) = place("a_true_fix_is_verified_and_its_patch_applies") else { return };
    let repo = repository(&place, PROJECT);
    let before = snapshot(&repo);
    let model = script(
        &place,
        "m.json",
        &json!([sh("cat answer"), edit("answer", "41", "42"), finish("It is 42 now.")]),
    );
    let ended = checked(&place, &model, &[]);
    let result = ended.ended("verified", "checks_passed");
    assert_eq!(ended.code, Some(0));
    assert_eq!(snapshot(&repo), before, "the repository is byte-identical");
    assert_eq!(result["answer"], "It is 42 now.");
    assert_eq!(result["gates"]["check"]["status"], "passed");
    assert_eq!(result["tier"], "native");
    assert_eq!(result["isolated"], true);
    assert_eq!(result["base"]["commit"].as_str().unwrap(), git(&repo, &["rev-parse", "HEAD"]));
    let id = result["session"].as_str().unwrap();
    let diff = place.run(&["diff", id]);
    assert!(diff.stdout.contains("-41\n+42\n"), "{diff:?}");
    assert_eq!(place.run(&["apply", id, "--check"]).code, Some(0));
    assert_eq!(snapshot(&repo), before, "--check changes nothing");
    let applied = place.run(&["apply", id]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(std::fs::read_to_string(repo.join("answer")).unwrap(), "42\n");
    git(&repo, &["commit", "--quiet", "--all", "--message", "moved on"]);
    let again = place.run(&["apply", id]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("the patch was made from"), "{again:?}");
    std::fs::write(place.path("home/sessions").join(id).join("patch.diff"), "forged").unwrap();
    assert_eq!(
        place.run(&["diff", id]).code,
        Some(13),
        "a patch that the journal does not know is not shown"
    );
    let events = place.run(&["events", id, "--format", "ndjson"]);
    assert!(events.stdout.lines().count() > 10);
    let shown = place.run(&["show", id]);
    assert!(
        shown.stdout.contains("make it 42") && shown.stdout.contains("It is 42 now."),
        "{}",
        shown.stdout
    );
}

#[test]
fn lies_have_outcomes_of_their_own() {
    let Some(place) = place("lies_have_outcomes_of_their_own") else { return };
    let repo = repository(&place, PROJECT);
    let before = snapshot(&repo);
    let cases = [
        (json!([{ "text": "Fixed, all tests pass." }]), "unverified", "no_change", 2),
        (json!([edit("answer", "41", "40"), finish("Fixed.")]), "unverified", "check_failed", 2),
        (
            json!([sh("echo 42 > answer; echo exit 0 > tests/check.sh"), finish("Fixed.")]),
            "tampered",
            "protected_files",
            9,
        ),
        (json!([sh("echo 42 > answer; echo x > README"), finish("Fixed.")]), "scope_violation", "paths", 8),
        (json!([edit("answer", "41", "42"), finish("  ")]), "unverified", "empty_answer", 2),
    ];
    for (turns, outcome, reason, code) in cases {
        let model = script(&place, "m.json", &turns);
        let extra = if outcome == "scope_violation" {
            &["--scope", "answer"][..]
        } else {
            &["--protect", "tests/**"]
        };
        let ended = checked(&place, &model, extra);
        let result = ended.ended(outcome, reason);
        assert_eq!(ended.code, Some(code), "{turns}");
        if result["patch"].is_object() {
            let id = result["session"].as_str().unwrap();
            assert_eq!(place.run(&["apply", id]).code, Some(1), "{outcome} is not applied unasked");
        }
        assert_eq!(snapshot(&repo), before, "{outcome}");
    }
}

#[test]
fn without_a_check_an_answer_claims_nothing() {
    let Some(place) = place("without_a_check_an_answer_claims_nothing") else { return };
    let repo = repository(&place, PROJECT).display().to_string();
    let model = place.says("m.json", "All is well.");
    for command in [&["run", "t", "--no-check"][..], &["ask", "which answer?"]] {
        let result = place
            .run(
                &[
                    command,
                    &["--trust", "trusted-local", "--repo", &repo, "--model", &model, "--format", "json"],
                ]
                .concat(),
            )
            .ended("answered", "no_claim");
        for (gate, value) in result["gates"].as_object().unwrap() {
            assert_eq!(value["status"], "absent", "{gate}");
        }
        assert_eq!(result["strength"], Value::Null);
        assert_eq!(result["cost"], Value::Null, "unknown is not zero");
    }
    let listed: Value = serde_json::from_str(&place.run(&["list", "--format", "json"]).stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

#[test]
fn a_base_that_is_green_already_costs_no_model_call() {
    let Some(place) = place("a_base_that_is_green_already_costs_no_model_call") else { return };
    repository(&place, &[("answer", "42\n"), PROJECT[1]]);
    let model = place.says("m.json", "Fixed.");
    let ended = checked(&place, &model, &[]);
    let result = ended.ended("setup_error", "already_green");
    assert_eq!(result["usage"]["model_calls"], 0);
    assert!(result["error"]["message"].as_str().unwrap().contains("--expect"), "{result}");
    let repo = place.path("repo").display().to_string();
    let base =
        ["run", "t", "--trust", "trusted-local", "--repo", &repo, "--model", &model, "--format", "json"];
    let missing = place.run(&[&base[..], &["--check", "no-such-program"]].concat());
    missing.ended("setup_error", "environment");
    // The task from standard input is the same task.
    let args = [&base[..1], &base[2..], &["--task", "-", "--check", CHECK]].concat();
    let piped = place.run_with_input(&args, b"t").ended("setup_error", "already_green");
    assert_eq!(piped["task_digest"], missing.json()["task_digest"]);
}

#[test]
fn events_stream_to_standard_output_and_the_trace_to_standard_error() {
    let Some(place) = place("events_stream_to_standard_output_and_the_trace_to_standard_error") else {
        return;
    };
    let repo = repository(&place, PROJECT).display().to_string();
    let hostile = "echo noise; echo noise >&2; printf '\\033[2J\\342\\200\\256'";
    let model = script(
        &place,
        "m.json",
        &json!([sh(hostile), edit("answer", "41", "42"), { "text": "\u{1b}[31mdone\u{202e}" }]),
    );
    let base = ["run", "t", "--trust", "trusted-local", "--repo", &repo, "--model", &model, "--check", CHECK];
    let ended = place.run(&[&base[..], &["--format", "ndjson"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, events) = lines.split_last().unwrap();
    assert_eq!((last["type"].as_str(), last["outcome"].as_str()), (Some("result"), Some("verified")));
    for (index, event) in events.iter().enumerate() {
        assert_eq!(
            (event["type"].as_str(), event["seq"].as_u64()),
            (Some("event"), Some(index as u64 + 1)),
            "{event}"
        );
    }
    assert!(!ended.stderr.contains('\u{1b}') && !ended.stderr.contains('\u{202e}'), "{}", ended.stderr);
    let steps = ended.stderr.lines().filter(|line| line.starts_with("step ")).count();
    assert!(steps >= 3 && ended.stderr.contains("gate check passed"), "{}", ended.stderr);
    let text = place.run(&[&base[..], &["--trace", "off"]].concat());
    assert!(text.stderr.is_empty() && text.stdout.contains("\\u{1b}[31mdone"), "{text:?}");
}

#[test]
fn a_signal_ends_a_run_as_typed_and_leaves_nothing_behind() {
    let Some(place) = place("a_signal_ends_a_run_as_typed_and_leaves_nothing_behind") else { return };
    let repo = repository(&place, PROJECT);
    let before = snapshot(&repo);
    let marker = format!("36{:05}", std::process::id() % 100_000);
    let model = script(
        &place,
        "m.json",
        &json!([sh(&format!("sleep {marker}")), edit("answer", "41", "42"), finish("It is 42.")]),
    );
    for (signal, outcome, reason, code) in
        [("INT", "canceled", "signal", 7), ("TERM", "parked", "drained", 12)]
    {
        let repo = repo.display().to_string();
        let args = [
            "run",
            "t",
            "--trust",
            "trusted-local",
            "--repo",
            &repo,
            "--model",
            &model,
            "--check",
            CHECK,
            "--format",
            "json",
            "--deadline",
            "5m",
        ];
        let child = place.command(&args).spawn().unwrap();
        while !running(&marker) {
            std::thread::yield_now();
        }
        assert!(
            Command::new("kill")
                .args([&format!("-{signal}"), &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let ended = Ended::of(child.wait_with_output().unwrap());
        let result = ended.ended(outcome, reason);
        assert_eq!(ended.code, Some(code));
        assert!(!running(&marker), "no process is left after {signal}");
        assert_eq!(snapshot(Path::new(&repo)), before);
        let id = result["session"].as_str().unwrap().to_owned();
        if outcome == "canceled" {
            // An ended session shows its end again, with the same code.
            assert_eq!(
                place.run(&["resume", &id, "--format", "json"]).ended("canceled", "signal")["session"],
                id.as_str()
            );
        }
    }
}

/// Does a process with this word on its command line live?
fn running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\0") && line.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

#[test]
fn odd_repositories_and_names_are_delivered_or_refused() {
    let Some(place) = place("odd_repositories_and_names_are_delivered_or_refused") else { return };
    let repo = repository(&place, &[("answer", "41\n"), PROJECT[1], ("odd\nname é", "x\n")]);
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("Done.")]));
    checked(&place, &model, &[]).ended("verified", "checks_passed");
    checked(&place, &model, &["--base", "no-such-branch"]).ended("setup_error", "repository");
    let bare = place.path("bare.git").display().to_string();
    git(place.dir.path(), &["clone", "--quiet", "--bare", &repo.display().to_string(), &bare]);
    let run = |dir: &str| {
        let args = [
            "run",
            "t",
            "--trust",
            "trusted-local",
            "--repo",
            dir,
            "--model",
            &model,
            "--check",
            CHECK,
            "--format",
            "json",
        ];
        place.run(&args)
    };
    run(&bare).ended("verified", "checks_passed");
    let work_tree = place.path("side").display().to_string();
    git(&repo, &["worktree", "add", "--quiet", "-b", "side", &work_tree]);
    run(&work_tree).ended("verified", "checks_passed");
    let plain = place.path("plain");
    for (name, content) in PROJECT {
        place.write(&format!("plain/{name}"), content);
    }
    run(&plain.display().to_string()).ended("verified", "checks_passed");
}

/// An inline test of the base, and a check that wants a correct new one beside it.
const LIBRARY: &[(&str, &str)] = &[
    ("answer", "41\n"),
    (
        "src/lib.rs",
        "pub fn answer() -> u32 {\n    41\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn old() {\n        \
         assert!(super::answer() > 1);\n    }\n}\n",
    ),
    (
        "tests/check.sh",
        "#!/bin/sh\ngrep -q 'assert_eq!(super::answer(), 42)' src/lib.rs && grep -q '^    42' src/lib.rs\n",
    ),
];

#[test]
fn an_agent_corrects_the_inline_test_that_it_added() {
    let Some(place) = place("an_agent_corrects_the_inline_test_that_it_added") else { return };
    let repo = repository(&place, LIBRARY).display().to_string();
    let own = "#[cfg(test)]\nmod fresh {\n    #[test]\n    fn is_42() {\n        assert_eq!(super::answer(), 43);\n    }\n}\n\n#[cfg(test)]\nmod tests {";
    let model = script(
        &place,
        "model.json",
        &json!([
            edit("src/lib.rs", "    41\n", "    42\n"),
            edit("src/lib.rs", "#[cfg(test)]\nmod tests {", own),
            edit("/workspace/./src/lib.rs", "answer(), 43", "answer(), 42"),
            edit("src/lib.rs", "answer() > 1", "answer() > 0"),
            finish("42, with a test of its own"),
        ]),
    );
    let ended = place.run(&[
        "run",
        "make it 42",
        "--trust",
        "trusted-local",
        "--repo",
        &repo,
        "--model",
        &model,
        "--check",
        CHECK,
        "--format",
        "json",
    ]);
    ended.ended("verified", "checks_passed");
    // The base's own test is still refused, in so many words.
    assert_eq!(ended.stderr.matches("rust.test_item_changed").count(), 1, "{}", ended.stderr);
}
