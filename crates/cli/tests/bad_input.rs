//! What people and programs put in by mistake or on purpose: projects with odd files, repositories that cannot be used,
//! homes without space, streams that are closed. Every run ends typed and in bounded time, says what to do, and writes
//! one JSON object when JSON was asked for.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ended, Place};
use project::{CHECK, PROJECT, edit, ended, finish, git, repository, script, sh, snapshot};
use serde_json::{Value, json};

/// The promise: no input, however bad, holds a run up for longer.
const BOUND: Duration = Duration::from_secs(10);

/// A run that fixes the project at `dir`.
fn command(place: &Place, dir: &Path, extra: &[&str]) -> Command {
    let model = script(place, "m.json", &json!([edit("answer", "41", "42"), finish("It is 42.")]));
    let mut command = place.command(&["run", "make it 42", "--trust", "trusted-local", "--format", "json"]);
    command.args(["--model", &model, "--check", CHECK]).args(extra).arg("--repo").arg(dir);
    command
}

/// Plays it and holds what is true of every end.
fn play(mut command: Command) -> (Ended, Value) {
    let begun = Instant::now();
    let ended = ended(command.spawn().unwrap());
    assert!(begun.elapsed() < BOUND, "it took {:?}: {ended:#?}", begun.elapsed());
    let result = ended.json();
    assert_ne!(ended.code, Some(70), "a bug: {ended:#?}");
    let outcome = result["outcome"].as_str().unwrap();
    if matches!(outcome, "setup_error" | "host_failure") {
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.split_whitespace().count() > 3, "a message that says what to do: {message}");
    }
    assert!(!ended.stdout.contains('\u{1b}') && !ended.stderr.contains('\u{1b}'), "no escape: {ended:?}");
    (ended, result)
}

fn run(place: &Place, dir: &Path, extra: &[&str]) -> Value {
    play(command(place, dir, extra)).1
}

#[track_caller]
fn is(result: &Value, outcome: &str, reason: &str) {
    assert_eq!((&result["outcome"], &result["reason"]), (&json!(outcome), &json!(reason)), "{result:#}");
}

/// The project as a plain directory.
fn plain(place: &Place) -> PathBuf {
    for (name, content) in PROJECT {
        place.write(&format!("plain/{name}"), content);
    }
    place.path("plain")
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_plain_directory_with_odd_files_is_read_without_them_and_says_so() {
    let test = "a_plain_directory_with_odd_files_is_read_without_them_and_says_so";
    let Some(place) = project::place(test) else { return };
    let dir = plain(&place);
    fifo(&dir.join("a fifo"));
    let _socket = UnixListener::bind(dir.join("socket")).unwrap();
    git(&dir, &["init", "--quiet", "inner"]);
    symlink("nowhere", dir.join("dangling")).unwrap();
    symlink("/etc/passwd", dir.join("leaves")).unwrap();
    symlink(".", dir.join("loop")).unwrap();
    std::fs::create_dir(dir.join("empty")).unwrap();
    let huge = std::fs::File::create(dir.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let mut left_out = vec!["a fifo", "socket", "inner", "huge"];
    // What its owner may not read; root may.
    std::fs::write(dir.join("secret"), "x").unwrap();
    std::fs::create_dir(dir.join("locked")).unwrap();
    for name in ["secret", "locked"] {
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    if !is_root() {
        left_out.extend(["secret", "locked"]);
    }
    let before = std::fs::read_dir(&dir).unwrap().count();
    let result = run(&place, &dir, &[]);
    is(&result, "verified", "checks_passed");
    let degraded = result["degraded"].to_string();
    for name in left_out {
        assert!(degraded.contains(name), "{name} was left out: {degraded}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), before);
    let diff = place.run(&["diff", result["session"].as_str().unwrap()]).stdout;
    assert_eq!(
        diff.matches("diff --git").count(),
        1,
        "what was left out is not deleted by the patch: {diff}"
    );
    std::fs::set_permissions(dir.join("locked"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_work_tree_with_odd_files_is_never_waited_for() {
    let Some(place) = project::place("a_work_tree_with_odd_files_is_never_waited_for") else { return };
    let repo = repository(&place, PROJECT);
    fifo(&repo.join("pipe"));
    let _socket = UnixListener::bind(repo.join("socket")).unwrap();
    std::fs::File::create(repo.join("huge")).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(repo.join("new"), "x").unwrap();
    for extra in [&[][..], &["--include-dirty"]] {
        is(&run(&place, &repo, extra), "verified", "checks_passed");
    }
    // A tracked file that became a pipe: what the commit has is gone, and nobody opens what is there.
    std::fs::remove_file(repo.join("huge")).unwrap();
    std::fs::remove_file(repo.join("README")).unwrap();
    fifo(&repo.join("README"));
    let result = run(&place, &repo, &["--include-dirty"]);
    assert!(result["exit_code"] == 0 || result["reason"] == "repository", "{result:#}");
}

#[test]
fn a_file_that_an_agent_blows_up_is_no_entry_and_harms_nobody() {
    let Some(place) = project::place("a_file_that_an_agent_blows_up_is_no_entry_and_harms_nobody") else {
        return;
    };
    let repo = repository(&place, PROJECT);
    let model = script(
        &place,
        "big.json",
        &json!([
            sh("echo 42 > answer; truncate -s 1T huge"),
            edit("huge", "a", "b"),
            { "calls": [{ "tool": "search", "args": { "pattern": "42" } }] },
            { "calls": [{ "tool": "read_file", "args": { "path": "huge" } }] },
            finish("Done."),
            finish("Done again."),
        ]),
    );
    let mut command = command(&place, &repo, &[]);
    command.args(["--max-turns", "20"]);
    let args: Vec<OsString> = command
        .get_args()
        .map(|arg| if arg.as_bytes().starts_with(b"scripted:") { OsStr::new(&model) } else { arg }.to_owned())
        .collect();
    let mut command = place.command(&[]);
    command.args(args);
    let (_, result) = play(command);
    is(&result, "unverified", "unsealable");
    assert!(result["gates"]["seal"]["detail"].as_str().unwrap().contains("huge"), "{result:#}");
}

#[test]
fn odd_names_go_through_and_are_shown_escaped() {
    let Some(place) = project::place("odd_names_go_through_and_are_shown_escaped") else { return };
    let names: [&[u8]; 6] =
        [b"new\nline", b"\x1b[31mred", b"\xff\xfe", "b\u{202e}idi".as_bytes(), b"-rf", b"a\"quote\\"];
    let repo = repository(&place, PROJECT);
    let dir = plain(&place);
    for name in names {
        for root in [&repo, &dir] {
            std::fs::write(root.join(OsStr::from_bytes(name)), "x\n").unwrap();
        }
    }
    is(&run(&place, &repo, &["--include-dirty"]), "verified", "checks_passed");
    is(&run(&place, &dir, &[]), "verified", "checks_passed");
    git(&repo, &["add", "--all"]);
    git(&repo, &["commit", "--quiet", "--message", "odd"]);
    let before = snapshot(&repo);
    is(&run(&place, &repo, &[]), "verified", "checks_passed");
    assert_eq!(snapshot(&repo), before);
    // The agent makes them too: a line for each path, whatever its name holds.
    let model = script(
        &place,
        "m.json",
        &json!([
            sh("echo 42 > answer; printf x > 'two\nlines'; printf x > \"$(printf '\\033[2J')\""),
            finish("x")
        ]),
    );
    let args = project::args(&place, &model, &["--check", CHECK, "--scope", "answer", "--format", "json"]);
    let (_, result) = play(place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    is(&result, "scope_violation", "paths");
    let detail = result["gates"]["scope"]["detail"].as_str().unwrap();
    assert_eq!(detail.lines().count(), 2, "{detail}");
    assert!(!detail.contains('\u{1b}'), "{detail}");
    // The project's own path is as odd; one that is no text is refused in words.
    let odd = place.dir.path().join("odd \n\u{1b}[1mé");
    std::fs::rename(&dir, &odd).unwrap();
    is(&run(&place, &odd, &[]), "verified", "checks_passed");
    let bytes = place.dir.path().join(OsStr::from_bytes(b"\xff\xfe"));
    std::fs::rename(&odd, &bytes).unwrap();
    let result = run(&place, &bytes, &[]);
    is(&result, "setup_error", "repository");
    assert!(result["error"]["message"].as_str().unwrap().contains("UTF-8"), "{result:#}");
    let mut home = command(&place, &repo, &[]);
    home.env("COUNTERSIGN_HOME", place.dir.path().join(OsStr::from_bytes(b"home\xff")));
    is(&play(home).1, "setup_error", "config");
}

#[test]
fn repositories_of_every_kind_work_or_say_what_to_do() {
    let Some(place) = project::place("repositories_of_every_kind_work_or_say_what_to_do") else { return };
    let repo = repository(&place, PROJECT);
    let top = place.dir.path();
    let url = format!("file://{}", repo.display());
    let clone = |name: &str, flags: &[&str]| {
        git(top, &[&["clone", "--quiet"], flags, &[&url, name]].concat());
        place.path(name)
    };
    is(&run(&place, &clone("shallow", &["--depth", "1"]), &[]), "verified", "checks_passed");
    is(&run(&place, &clone("bare", &["--bare"]), &[]), "verified", "checks_passed");
    let modules = clone("modules", &[]);
    git(&modules, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"]);
    git(&modules, &["commit", "--quiet", "--message", "sub"]);
    is(&run(&place, &modules, &[]), "verified", "checks_passed");
    git(&repo, &["config", "uploadpack.allowFilter", "true"]);
    let without = |name: &str, spoil: &dyn Fn(&Path)| {
        let dir = clone(name, &[]);
        spoil(&dir);
        dir
    };
    let remove = |what: &'static str| move |dir: &Path| std::fs::remove_dir_all(dir.join(what)).unwrap();
    let write = |what: &'static str, text: &'static str| {
        move |dir: &Path| {
            let path = dir.join(what);
            drop(std::fs::remove_file(&path));
            std::fs::write(path, text).unwrap();
        }
    };
    let refused: Vec<(PathBuf, &str)> = vec![
        (clone("partial", &["--filter=blob:none", "--no-checkout"]), "partial"),
        (
            {
                let dir = place.path("sha256");
                git(top, &["init", "--quiet", "--object-format=sha256", "sha256"]);
                std::fs::write(dir.join("answer"), "41\n").unwrap();
                git(&dir, &["add", "--all"]);
                git(&dir, &["commit", "--quiet", "--message", "base"]);
                dir
            },
            "sha256",
        ),
        (
            {
                git(top, &["init", "--quiet", "nothing"]);
                place.path("nothing")
            },
            "no commits",
        ),
        (
            without("no-objects", &|dir| {
                remove(".git/objects")(dir);
                std::fs::create_dir(dir.join(".git/objects")).unwrap();
            }),
            "HEAD",
        ),
        (without("no-head", &write(".git/HEAD", "")), "git"),
        (without("odd-head", &write(".git/HEAD", "ref: ../../../etc/passwd\n")), "git"),
        (without("bad-config", &write(".git/config", "[core\n")), "config"),
        (without("future", &write(".git/config", "[core]\nrepositoryformatversion = 9\n")), "git"),
        (
            without("fifo-head", &|dir| {
                std::fs::remove_file(dir.join(".git/HEAD")).unwrap();
                fifo(&dir.join(".git/HEAD"));
            }),
            "HEAD",
        ),
    ];
    for (dir, says) in refused {
        let before = snapshot(&dir);
        let result = run(&place, &dir, &[]);
        is(&result, "setup_error", "repository");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{}: {message}", dir.display());
        assert_eq!(result["usage"]["model_calls"], 0);
        assert_eq!(snapshot(&dir), before, "{}", dir.display());
    }
    // The same in a work tree: git opens such a file, wherever it lies.
    for name in [".gitignore", "tests/.gitattributes"] {
        let dir = clone("work-tree", &[]);
        fifo(&dir.join(name));
        let result = run(&place, &dir, &["--include-dirty"]);
        is(&result, "setup_error", "repository");
        assert!(result["error"]["message"].as_str().unwrap().contains(name), "{result:#}");
        std::fs::remove_dir_all(dir).unwrap();
    }
    for base in
        ["HEAD:answer", "HEAD^{tree}", "no-such-branch", "0123456789012345678901234567890123456789", "@{-9}"]
    {
        let result = run(&place, &repo, &["--base", base]);
        is(&result, "setup_error", "repository");
        assert!(result["error"]["message"].as_str().unwrap().contains(base), "{result:#}");
    }
}

#[test]
fn a_repository_that_asks_for_programs_gets_none() {
    let Some(place) = project::place("a_repository_that_asks_for_programs_gets_none") else { return };
    let repo = repository(&place, PROJECT);
    let mark = place.path("mark");
    let touch = format!("touch {}", mark.display());
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "diff.external",
        "filter.evil.smudge",
        "filter.evil.clean",
        "core.hooksPath",
        "alias.rev-parse",
        "uploadpack.packObjectsHook",
    ] {
        let value = if key == "alias.rev-parse" { format!("!{touch}") } else { touch.clone() };
        git(&repo, &["config", key, &value]);
    }
    std::fs::write(repo.join(".git/info/attributes"), "* filter=evil diff=evil\n").unwrap();
    let hook = repo.join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\n{touch}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(repo.join("README"), "dirty\n").unwrap();
    for extra in [&[][..], &["--include-dirty"]] {
        is(&run(&place, &repo, extra), "verified", "checks_passed");
        assert!(!mark.exists(), "a program of the repository ran {extra:?}");
    }
}

#[test]
fn a_home_that_fills_up_at_any_moment_is_typed() {
    let test = "a_home_that_fills_up_at_any_moment_is_typed";
    let Some(place) = project::place(test) else { return };
    let repo = repository(&place, PROJECT);
    let home = place.path("small");
    std::fs::create_dir(&home).unwrap();
    let (mut full, mut fine) = (0, 0);
    for kib in [16, 64, 160, 256, 320, 384, 448, 512, 576, 640, 768, 1024, 4096] {
        let inner = command(&place, &repo, &[]);
        let mount = format!("mount -t tmpfs -o size={kib}k none \"$0\" || exit 99; exec \"$@\"");
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "--propagation", "private", "sh", "-c", &mount]).arg(&home);
        outer.arg(inner.get_program()).args(inner.get_args()).env("COUNTERSIGN_HOME", &home);
        outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let ended = ended(outer.spawn().unwrap());
        if ended.code == Some(99) || ended.stderr.starts_with("unshare") {
            eprintln!("SKIPPED: {test}: no file system can be mounted here: {}", ended.stderr.trim());
            return;
        }
        assert!(begun.elapsed() < BOUND, "{kib} KiB: {ended:#?}");
        let result = ended.json();
        match result["reason"].as_str().unwrap() {
            "disk_full" => full += 1,
            "checks_passed" => fine += 1,
            _ => panic!("{kib} KiB: {ended:#?}"),
        }
        if result["exit_code"] == 13 {
            let message = result["error"]["message"].as_str().unwrap();
            assert!(message.contains("full"), "{kib} KiB: {message}");
        }
    }
    assert!(full >= 3 && fine >= 1, "{full} full, {fine} fine");
}

#[test]
fn closed_and_broken_streams_do_not_change_how_a_run_ends() {
    let Some(place) = project::place("closed_and_broken_streams_do_not_change_how_a_run_ends") else {
        return;
    };
    let repo = repository(&place, PROJECT);
    let shell = |line: &str| {
        let inner = command(&place, &repo, &[]);
        let mut outer = Command::new("sh");
        outer.args(["-c", line]).arg(inner.get_program()).args(inner.get_args());
        outer.env("COUNTERSIGN_HOME", place.path("home")).env("HOME", place.path("user"));
        outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ended(outer.spawn().unwrap())
    };
    for redirect in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "< /dev/full > /dev/null 2>&1", "2> /dev/full"] {
        let ended = shell(&format!("exec \"$0\" \"$@\" {redirect}"));
        assert_eq!(ended.code, Some(0), "{redirect}: {ended:#?}");
    }
    let full = shell("exec \"$0\" \"$@\" > /dev/full");
    assert_eq!(full.code, Some(0));
    assert!(full.stderr.contains("standard output cannot be written"), "{full:#?}");
    // A reader that goes away at once, of a stream that is written all along.
    let mut command = command(&place, &repo, &["--format", "ndjson"]);
    let args: Vec<OsString> = command.get_args().map(OsStr::to_owned).collect();
    let first = args.iter().position(|arg| arg == "json").unwrap();
    let args: Vec<_> =
        args.iter().enumerate().filter(|(i, _)| *i != first && *i + 1 != first).map(|(_, a)| a).collect();
    command = place.command(&[]);
    let mut child = command.args(args).spawn().unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_environment_without_anything_is_enough_or_refused_in_words() {
    let Some(place) = project::place("an_environment_without_anything_is_enough_or_refused_in_words") else {
        return;
    };
    let repo = repository(&place, PROJECT);
    // No HOME, no PATH.
    let mut bare = command(&place, &repo, &[]);
    bare.env_clear().env("COUNTERSIGN_HOME", place.path("home"));
    is(&play(bare).1, "verified", "checks_passed");
    // No place for the home.
    let mut nowhere = command(&place, &repo, &[]);
    nowhere.env_clear();
    let (_, result) = play(nowhere);
    is(&result, "setup_error", "config");
    assert!(result["error"]["message"].as_str().unwrap().contains("COUNTERSIGN_HOME"), "{result:#}");
    // Values that are no text, no directory, or empty.
    for (name, value) in [
        ("COUNTERSIGN_MODEL", &b"\xff"[..]),
        ("TMPDIR", b"/nowhere"),
        ("HOME", b""),
        ("HOME", b"\xff"),
        ("LANG", b"\xff"),
        ("RUSTUP_HOME", b"/dev/null"),
        ("CARGO_HOME", b"\xff\xfe"),
        ("OPENAI_API_KEY", b"\xff"),
    ] {
        let mut odd = command(&place, &repo, &[]);
        odd.env(name, OsStr::from_bytes(value));
        let (_, result) = play(odd);
        assert!(result["exit_code"] == 0 || result["outcome"] == "setup_error", "{name}: {result:#}");
    }
    // A working directory that is gone.
    let gone = place.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let inner = command(&place, &repo, &[]);
    let mut outer = Command::new("sh");
    outer.args(["-c", "rmdir ../gone; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    outer.current_dir(&gone).env("COUNTERSIGN_HOME", place.path("home"));
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (_, result) = play(outer);
    assert!(result["exit_code"] == 0 || result["outcome"] == "setup_error", "{result:#}");
}
