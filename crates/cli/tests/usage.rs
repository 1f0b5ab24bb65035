//! What the command line refuses, and how: typed, in bounded time, one JSON object where one was asked for, a line in
//! the list. None of these needs a sandbox.
#![expect(clippy::print_stderr, reason = "what did not run is said")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use common::{Ended, Place};

/// Flags that make an otherwise whole command line; each case spoils one thing.
const WHOLE: &[&str] = &["run", "do it", "--trust", "trusted-local", "--no-check", "--format", "json"];

fn with<'a>(extra: &[&'a str]) -> Vec<&'a str> {
    WHOLE.iter().copied().chain(extra.iter().copied()).collect()
}

#[test]
fn every_wrong_value_is_a_usage_error_that_names_it() {
    let Some(place) = Place::new("every_wrong_value_is_a_usage_error_that_names_it") else { return };
    let cases: &[&[&str]] = &[
        &["--bogus"],
        &["--trust", "full"],
        &["--model", "gpt"],
        &["--model", "nobody:x"],
        &["--model", "openai:"],
        &["--model", "scripted:/nowhere.json"],
        &["--model", "openai:x", "--base-url", "ftp://x"],
        &["--sandbox", "chroot"],
        &["--network", "lan"],
        &["--max-turns", "0"],
        &["--max-turns", "-1"],
        &["--max-tokens", "many"],
        &["--max-cost", "1e3"],
        &["--deadline", "0"],
        &["--deadline", "soon"],
        &["--check-timeout", "0s"],
        &["--attempts", "0"],
        &["--expect", "new"],
        &["--require", "green"],
        &["--min-strength", "strong"],
        &["--trace", "full!"],
        &["--setup", "a && b"],
        &["--setup", ""],
        &["--probe", "'open"],
        &["--scope", "["],
        &["--protect", "/absolute"],
        &["--task", "another"],
        &["--task-file", "/nowhere"],
        &["--check", "true"],
        &["--require", "verified"],
        &["--min-strength", "ids"],
        &["--expect", "guard"],
        &["--repo"],
    ];
    for case in cases {
        let mut args = with(case);
        // A repeated flag would be the error instead of the value.
        if case[0] == "--trust" {
            args.drain(2..4);
        }
        let ended = place.run(&args);
        let result = ended.ended("setup_error", "usage");
        assert_eq!(ended.code, Some(1), "{case:?}");
        assert!(result["session"].is_string(), "{case:?}");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(
            message.len() > 10 && message.contains(case[0].trim_start_matches('-'))
                || message.contains(case[case.len() - 1]),
            "{case:?}: {message}"
        );
    }
    let listed: serde_json::Value =
        serde_json::from_str(&place.run(&["list", "--format", "json", "--limit", "1000"]).stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), cases.len(), "every refused run has a line");
}

#[test]
fn a_check_is_words_and_says_how_to_have_a_shell() {
    let Some(place) = Place::new("a_check_is_words_and_says_how_to_have_a_shell") else { return };
    for check in ["a | b", "a; b", "a > b", "a $X", "ls *.py", "", "  ", "'a"] {
        let args = ["run", "t", "--trust", "trusted-local", "--check", check, "--format", "json"];
        let result = place.run(&args).ended("setup_error", "usage");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains("--check"), "{check}: {message}");
        if check.len() > 2 && !check.starts_with('\'') {
            assert!(message.contains("--check-argv"), "{check}: {message}");
        }
        assert_eq!(result["gates"]["check"]["status"], "not_reached", "armed and never asked");
    }
    for argv in ["make test", "[]", "[1]", "[\"\"]", "{\"a\":1}", "[\"a\", \"b\\u0000\"]"] {
        let args = ["run", "t", "--trust", "trusted-local", "--check-argv", argv, "--format", "json"];
        place.run(&args).ended("setup_error", "usage");
    }
}

#[test]
fn other_refusals_have_their_own_reasons() {
    let Some(place) = Place::new("other_refusals_have_their_own_reasons") else { return };
    place.run(&["run", "t", "--format", "json"]).ended("setup_error", "trust");
    let empty = place.write("empty/README", "").parent().unwrap().display().to_string();
    place
        .run(&["run", "t", "--trust", "trusted-local", "--repo", &empty, "--format", "json"])
        .ended("setup_error", "no_check");
    place
        .run(&["ask", "t", "--trust", "trusted-local", "--require", "verified", "--format", "json"])
        .ended("setup_error", "usage");
    place.run(&with(&["--model", "openai:m"])).ended("setup_error", "key");
    place.run(&with(&["--model", "openai:m", "--api-key-file", "/nowhere"])).ended("setup_error", "key");
    place.run(&with(&["--config", "/nowhere"])).ended("setup_error", "config");
    let wrong = place.write("wrong.toml", "trsut = \"reviewed\"\n").display().to_string();
    let result = place.run(&with(&["--config", &wrong])).ended("setup_error", "config");
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains("line 1") && message.contains("trsut"), "{message}");
    let model = place.says("m.json", "done");
    place.run(&with(&["--model", &model, "--max-cost", "1"])).ended("setup_error", "usage");
    for dir in ["/nowhere", "/dev/null"] {
        place.run(&with(&["--model", &model, "--repo", dir])).ended("setup_error", "repository");
    }
    place.run(&with(&["--model", &model, "--base", "HEAD"])).ended("setup_error", "usage");
}

#[test]
fn trust_is_asked_for_before_anything_is_opened() {
    let Some(place) = Place::new("trust_is_asked_for_before_anything_is_opened") else { return };
    let fifo = place.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.display().to_string();
    // Opening any of these would wait for ever: a writer never comes.
    let args = [
        "run",
        "--task-file",
        &fifo,
        "--repo",
        &fifo,
        "--api-key-file",
        &fifo,
        "--model",
        "openai:m",
        "--check",
        "true",
        "--format",
        "json",
    ];
    let result = place.run(&args).ended("setup_error", "trust");
    let message = result["error"]["message"].as_str().unwrap();
    for level in ["trusted-local", "reviewed", "untrusted"] {
        assert!(message.contains(level), "{message}");
    }
    for (flag, value) in [("--sandbox", "host"), ("--network", "host")] {
        let args = [
            "run",
            "--task-file",
            &fifo,
            "--repo",
            &fifo,
            "--trust",
            "reviewed",
            flag,
            value,
            "--check",
            "true",
            "--format",
            "json",
        ];
        let result = place.run(&args).ended("setup_error", "trust");
        assert!(result["error"]["message"].as_str().unwrap().contains(flag));
    }
    // The user's own file may say it.
    place.write("user/.config/countersign/config.toml", "trust = \"reviewed\"\n");
    let empty = place.write("empty/README", "").parent().unwrap().display().to_string();
    place.run(&["run", "t", "--repo", &empty, "--format", "json"]).ended("setup_error", "no_check");
}

#[test]
fn special_files_are_refused_and_never_waited_for() {
    let Some(place) = Place::new("special_files_are_refused_and_never_waited_for") else { return };
    let fifo = place.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = place.path("socket");
    let _held = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [fifo.display().to_string(), socket.display().to_string(), "/dev/zero".into(), "/".into()] {
        let base =
            ["run", "--trust", "trusted-local", "--no-check", "--format", "json", "--task-file", &path];
        place.run(&base).ended("setup_error", "usage");
        place.run(&with(&["--config", &path])).ended("setup_error", "config");
        place.run(&with(&["--model", "openai:m", "--api-key-file", &path])).ended("setup_error", "key");
        place.run(&with(&["--model", &format!("scripted:{path}")])).ended("setup_error", "usage");
        if path != "/" {
            let model = place.says("m.json", "done");
            place.run(&with(&["--model", &model, "--repo", &path])).ended("setup_error", "repository");
        }
    }
}

#[test]
fn a_task_from_anywhere_must_say_something() {
    let Some(place) = Place::new("a_task_from_anywhere_must_say_something") else { return };
    let base = ["run", "--trust", "trusted-local", "--no-check", "--format", "json"];
    let args = |extra: &[&'static str]| base.iter().copied().chain(extra.iter().copied()).collect::<Vec<_>>();
    for input in [&b""[..], b" \n\t\n", b"a\0b", b"\xff\xfe", &vec![b'x'; 1024 * 1024 + 1]] {
        place.run_with_input(&args(&["--task", "-"]), input).ended("setup_error", "usage");
        place.run_with_input(&args(&["-"]), input).ended("setup_error", "usage");
    }
    place.run(&args(&[])).ended("setup_error", "usage");
    place.run(&args(&["  "])).ended("setup_error", "usage");
    // The same text has one digest, wherever it comes from. No model: refused after the task was read.
    let argument = place.run(&args(&["fix it"])).json();
    let input = place.run_with_input(&args(&["--task", "-"]), b"fix it").json();
    let file = place.write("task.md", "fix it").display().to_string();
    let from_file = place.run(&[&base[..], &["--task-file", &file]].concat()).json();
    assert!(argument["task_digest"].is_string());
    assert_eq!(argument["task_digest"], input["task_digest"]);
    assert_eq!(argument["task_digest"], from_file["task_digest"]);
}

#[test]
fn machines_get_one_object_or_a_stream_that_ends_in_a_result() {
    let Some(place) = Place::new("machines_get_one_object_or_a_stream_that_ends_in_a_result") else { return };
    for line in [
        "run --format json --bogus",
        "--bogus run --format=json",
        "run --format json --format json",
        "nothing --format json",
        "--format json",
        "show s-none --format json",
        "show ../x --format json",
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let ended = place.run(&args);
        assert_eq!(ended.code, Some(1), "{line}: {ended:?}");
        ended.ended("setup_error", "usage");
    }
    let ended = place.run(&["run", "--format", "ndjson", "--bogus"]);
    let last: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((last["type"].as_str(), last["reason"].as_str()), (Some("result"), Some("usage")));
    // A shape that programs may rely on: every key in every ending.
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let other = place.run(&["run", "t", "--format", "json"]).json();
    let first = place.run(&["nothing", "--format", "json"]).json();
    assert_eq!(keys(&first), keys(&other));
    for key in [
        "schema",
        "session",
        "turn",
        "outcome",
        "reason",
        "exit_code",
        "answer",
        "strength",
        "gates",
        "tree",
        "patch",
        "usage",
        "cost",
        "model",
        "tier",
        "degraded",
        "error",
        "rescued_from",
        "rescued_reason",
        "attempts",
        "detectors",
        "claims",
        "mutants",
        "bundle",
    ] {
        assert!(keys(&first).iter().any(|k| k == key), "{key}");
    }
}

#[test]
fn people_read_errors_on_standard_error_and_no_colour_reaches_a_pipe() {
    let Some(place) = Place::new("people_read_errors_on_standard_error_and_no_colour_reaches_a_pipe") else {
        return;
    };
    let ended = place.run(&["run", "t"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("error: no trust level"), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    assert!(!ended.stdout.contains('\u{1b}') && !ended.stderr.contains('\u{1b}'));
    let hostile = place.run(&["run", "t", "--trust", "\u{1b}[2J\u{202e}"]);
    assert!(!hostile.stderr.contains('\u{1b}') && !hostile.stderr.contains('\u{202e}'), "{hostile:?}");
}

#[test]
fn help_and_version_are_data() {
    let Some(place) = Place::new("help_and_version_are_data") else { return };
    for args in [&["--help"][..], &["run", "--help"], &["--version"], &["version"]] {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(0), "{args:?}");
        assert!(ended.stderr.is_empty() && ended.stdout.contains("ountersign"), "{args:?}: {ended:?}");
    }
    let help = place.run(&["run", "--help"]).stdout;
    for flag in [
        "--model",
        "--base-url",
        "--api-key-file",
        "--check",
        "--check-argv",
        "--expect",
        "--attempts",
        "--no-check",
        "--trust",
        "--repo",
        "--base",
        "--include-dirty",
        "--scope",
        "--protect",
        "--sandbox",
        "--network",
        "--setup",
        "--probe",
        "--max-turns",
        "--max-tokens",
        "--max-cost",
        "--deadline",
        "--check-timeout",
        "--format",
        "--trace",
        "--require",
        "--min-strength",
        "--task-file",
        "--task",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    assert!(!place.path("home").exists(), "help makes no home");
}

#[test]
fn closed_streams_change_nothing() {
    let Some(place) = Place::new("closed_streams_change_nothing") else { return };
    let program = place.bin.join("countersign").display().to_string();
    for redirect in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let line =
            format!("'{program}' run --task - --trust trusted-local --no-check --format json {redirect}");
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &line])
            .env("COUNTERSIGN_HOME", place.path("home"))
            .env("HOME", place.path("user"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{redirect}: {output:?}");
    }
    // A reader that goes away after one byte.
    let line = format!("'{program}' run --help | head -c 1 >/dev/null; exit ${{PIPESTATUS:-0}}");
    let status = std::process::Command::new("sh").args(["-c", &line]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_home_that_cannot_be_used_is_said() {
    let Some(place) = Place::new("a_home_that_cannot_be_used_is_said") else { return };
    let model = place.says("m.json", "done");
    let args = with(&["--model", &model]);
    let at = |home: &std::path::Path| {
        Ended::of(place.command(&args).env("COUNTERSIGN_HOME", home).output().unwrap())
    };
    let file = place.write("file", "");
    let result = at(&file);
    assert!(matches!(result.code, Some(1 | 13)), "{result:?}");
    assert!(result.json()["error"]["message"].as_str().unwrap().contains("file"));
    assert_eq!(
        at(std::path::Path::new("/proc/nowhere")).json()["error"]["message"].as_str().map(str::is_empty),
        Some(false)
    );
    let closed = place.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    let probe = std::fs::write(closed.join("probe"), "");
    if probe.is_ok() {
        eprintln!(
            "SKIPPED: a_home_that_cannot_be_used_is_said: permissions do not bind this user (root); the read-only part"
        );
        return;
    }
    at(&closed).ended("setup_error", "config");
}

/// Mounts `options` at a new directory, as root in a namespace of the shell's own, and runs `line` there.
fn in_mount(place: &Place, test: &str, mount: &str, line: &str) -> Option<Ended> {
    let script = format!("set -e; mkdir -p '{0}/m'; {mount}; {line}", place.dir.path().display());
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .env("HOME", place.path("user"));
    let output = command.stdin(Stdio::null()).output().ok()?;
    let ended = Ended::of(output);
    if ended.stderr.contains("unshare") || ended.stderr.contains("mount:") {
        eprintln!("SKIPPED: {test}: no mount can be made here: {}", ended.stderr.trim());
        return None;
    }
    Some(ended)
}

#[test]
fn a_full_disk_and_a_read_only_one_are_typed() {
    let test = "a_full_disk_and_a_read_only_one_are_typed";
    let Some(place) = Place::new(test) else { return };
    let model = place.says("m.json", "done");
    let home = place.path("m").display().to_string();
    let program = place.bin.join("countersign").display().to_string();
    let line = format!(
        "exec env COUNTERSIGN_HOME='{home}' '{program}' run t --trust trusted-local --no-check --format json --model '{model}'"
    );
    let full = format!(
        "mount -t tmpfs -o size=64k none '{home}'; dd if=/dev/zero of='{home}/filler' 2>/dev/null || true"
    );
    let Some(ended) = in_mount(&place, test, &full, &line) else { return };
    assert_eq!(ended.code, Some(13), "{ended:?}");
    ended.ended("host_failure", "disk_full");
    let read_only = format!("mount -t tmpfs -o ro none '{home}'");
    let Some(ended) = in_mount(&place, test, &read_only, &line) else { return };
    assert_eq!(ended.code, Some(1), "{ended:?}");
    ended.ended("setup_error", "config");
}

#[test]
fn commands_about_unknown_sessions_say_where_to_look() {
    let Some(place) = Place::new("commands_about_unknown_sessions_say_where_to_look") else { return };
    for args in
        [&["show", "s-1"][..], &["events", "s-1"], &["diff", "s-1"], &["apply", "s-1"], &["resume", "s-1"]]
    {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(1), "{args:?}");
        assert!(ended.stderr.contains("countersign list"), "{args:?}: {ended:?}");
    }
    assert_eq!(place.run(&["list"]).code, Some(0));
    // A refused run can be shown, and neither resumed nor applied.
    let id = place.run(&["run", "the task text", "--format", "json"]).json()["session"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = place.run(&["show", &id]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("the task text") && shown.stdout.contains("no trust level"), "{shown:?}");
    let shown: serde_json::Value =
        serde_json::from_str(&place.run(&["show", &id, "--format", "json"]).stdout).unwrap();
    assert_eq!(shown["result"]["reason"], "trust");
    assert_eq!(
        place.run(&["resume", &id, "--format", "json"]).ended("setup_error", "trust")["session"],
        id.as_str()
    );
    assert_eq!(place.run(&["apply", &id]).code, Some(1));
    assert_eq!(place.run(&["diff", &id]).code, Some(1));
    assert_eq!(place.run(&["events", &id, "--format", "ndjson"]).stdout.lines().count(), 1);
}

#[test]
fn a_secret_in_an_address_is_told_to_nobody() {
    let Some(place) = Place::new("a_secret_in_an_address_is_told_to_nobody") else { return };
    let file = place.write("c.toml", "base_url = \"https://user:sesame@host/v1\"\n").display().to_string();
    let cases: &[&[&str]] = &[
        &["--base-url", "http://user:sesame@host/v1"],
        &["--base-url", "https://user:ses/ame?sesame@host/v1"],
        &["--base-url", "user:sesame@host/v1"],
        &["--base-url", "https://host/v1?key=sesame"],
        &["--base-url", "https://host/v1#sesame"],
        &["--base-url", "https://host/v1?a@b=sesame"],
        &["--config", &file],
    ];
    for case in cases {
        let result = place.run(&with(&[&["--model", "openai:m"], *case].concat())).json();
        assert_eq!(result["outcome"], "setup_error", "{case:?}");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.to_lowercase().contains("base"), "{case:?}: {message}");
        let told = |text: &str| text.contains("sesame") || text.contains("ses/");
        assert!(!told(&result.to_string()), "{case:?}: {result}");
        let id = result["session"].as_str().unwrap();
        let shown = place.run(&["show", id, "--format", "json"]).stdout;
        assert!(shown.contains(id) && !told(&shown), "{case:?}: {shown}");
    }
    // Where an address stands in the wrong place.
    for case in [&["--model", "http://user:sesame@host/v1"][..], &["http://user:sesame@host/v1?sesame"]] {
        let ended = place.run(&with(case));
        ended.ended("setup_error", "usage");
        assert!(!ended.stdout.contains("sesame"), "{ended:?}");
    }
    let text = place.run(&[
        "run",
        "t",
        "--trust",
        "trusted-local",
        "--no-check",
        "--model",
        "openai:m",
        "--base-url",
        "http://user:sesame@host/v1",
    ]);
    assert!(text.stderr.contains("--base-url") && !text.stderr.contains("sesame"), "{text:?}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure_of_commands_that_only_write() {
    let test = "output_that_cannot_be_written_is_a_failure_of_commands_that_only_write";
    let Some(place) = Place::new(test) else { return };
    let id = place.run(&["run", "the task text", "--format", "json"]).json()["session"]
        .as_str()
        .unwrap()
        .to_owned();
    let commands: &[&[&str]] = &[
        &["show", &id],
        &["show", &id, "--format", "json"],
        &["events", &id, "--format", "ndjson"],
        &["list"],
        &["list", "--format", "json"],
        &["doctor"],
        &["version"],
        &["--help"],
    ];
    for command in commands {
        assert_eq!(place.run(command).code, Some(0), "{command:?}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(command).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        assert_eq!(said.matches("standard output cannot be written").count(), 1, "{command:?}: {said}");
    }
    // A reader that goes away is none, whatever was left to write.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(place.command(&["list"]).stdout(writer).status().unwrap().code(), Some(0));
    // The end of a turn is never another one for that.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = place.command(&["resume", &id]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(1), "of the refused run");
}

#[test]
fn a_sandbox_that_is_not_built_is_answered_for_what_was_asked() {
    let Some(place) = Place::new("a_sandbox_that_is_not_built_is_answered_for_what_was_asked") else {
        return;
    };
    let model = place.says("m.json", "done");
    let message = |trust: &str, sandbox: &str| {
        let args = ["run", "t", "--no-check", "--format", "json", "--model", &model, "--trust", trust];
        let ended = place.run(&[&args[..], &["--sandbox", sandbox]].concat());
        let result = ended.ended("setup_error", "sandbox_unavailable");
        result["error"]["message"].as_str().unwrap().to_owned()
    };
    let local = message("trusted-local", "vm");
    assert!(!local.contains("--trust reviewed") && local.contains("leave --sandbox out"), "{local}");
    let untrusted = message("untrusted", "vm");
    assert!(untrusted.contains("--trust reviewed"), "{untrusted}");
}

#[test]
fn a_home_in_the_project_is_refused() {
    let Some(place) = Place::new("a_home_in_the_project_is_refused") else { return };
    let model = place.says("m.json", "done");
    for dir in ["objects", "refs"] {
        std::fs::create_dir_all(place.path("repo/.git").join(dir)).unwrap();
    }
    place.write("repo/.git/HEAD", "ref: refs/heads/main\n");
    let args = with(&["--model", &model, "--repo", "repo"]);
    let ended = Ended::of(place.command(&args).env("COUNTERSIGN_HOME", "repo/.home").output().unwrap());
    let result = ended.ended("setup_error", "config");
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains("COUNTERSIGN_HOME"), "{message}");
}

#[test]
fn a_demo_without_sandboxes_is_one_object_with_the_run_that_ended() {
    let test = "a_demo_without_sandboxes_is_one_object_with_the_run_that_ended";
    let Some(mut place) = Place::new(test) else { return };
    // Alone: without the programs that it needs beside it.
    let alone = place.path("alone");
    std::fs::create_dir(&alone).unwrap();
    std::fs::copy(place.bin.join("countersign"), alone.join("countersign")).unwrap();
    place.bin = alone;
    let ended = place.run(&["demo", "--format", "json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["schema"], "countersign.demo/1", "{value}");
    let runs = value["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{value}");
    assert_eq!((&runs[0]["outcome"], &runs[0]["exit_code"]), (&"setup_error".into(), &1.into()));
    assert!(
        runs[0]["error"]["message"].as_str().is_some_and(|message| message.contains("missing")),
        "{value}"
    );
}
