//! A tiny project, a scripted model, and the run that brings them together.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    reason = "helpers of tests, outside of test functions"
)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Ended, Place};

/// The check of [`PROJECT`].
pub const CHECK: &str = "sh tests/check.sh";

/// A project whose check is red until `answer` holds 42.
pub const PROJECT: &[(&str, &str)] = &[
    ("answer", "41\n"),
    ("tests/check.sh", "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || { echo 'FAILED: not 42'; exit 1; }\n"),
    ("README", "An answer.\n"),
];

/// A place with native cells, or a line that says why the test did not run.
pub fn place(test: &str) -> Option<Place> {
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

/// git without anything of the user's configuration.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(dir).args(args).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "T").env(format!("GIT_{role}_EMAIL"), "t@example.invalid");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// One commit with `files` at `repo/`, made once.
pub fn repository(place: &Place, files: &[(&str, &str)]) -> PathBuf {
    let dir = place.path("repo");
    if dir.exists() {
        return dir;
    }
    for (name, content) in files {
        let path = place.write(&format!("repo/{name}"), content);
        if content.starts_with("#!") {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    git(&dir, &["init", "--quiet"]);
    git(&dir, &["add", "--all"]);
    git(&dir, &["commit", "--quiet", "--message", "base"]);
    dir
}

pub fn script(place: &Place, name: &str, turns: &Value) -> String {
    let text = json!({ "version": 1, "turns": turns }).to_string();
    format!("scripted:{}", place.write(name, &text).display())
}

pub fn finish(summary: &str) -> Value {
    json!({ "calls": [{ "tool": "finish", "args": { "summary": summary } }] })
}

pub fn sh(command: &str) -> Value {
    json!({ "calls": [{ "tool": "run", "args": { "command": command } }] })
}

pub fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "calls": [{ "tool": "edit_file", "args": { "path": path, "old": old, "new": new } }] })
}

/// The arguments of a run in `repo/`; neither a check nor a format is among them.
pub fn args(place: &Place, model: &str, extra: &[&str]) -> Vec<String> {
    let repo = place.path("repo").display().to_string();
    let base = ["run", "make it 42", "--trust", "trusted-local", "--repo", &repo, "--model", model];
    base.iter().chain(extra).map(|word| (*word).to_owned()).collect()
}

/// A run in `repo/` with [`CHECK`] and one JSON object.
pub fn checked(place: &Place, model: &str, extra: &[&str]) -> Ended {
    let args = args(place, model, &[&["--check", CHECK, "--format", "json"], extra].concat());
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Everything below `dir` with mode and content, `.git` included.
pub fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_file() {
                std::fs::read(&path).unwrap()
            } else if metadata.is_symlink() {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                open.push(path.clone());
            }
            all.insert(path, (metadata.mode(), content));
        }
    }
    all
}

/// The journal of a session, one event a line.
pub fn journal(place: &Place, session: &str) -> Vec<Value> {
    let ended = place.run(&["events", session, "--format", "ndjson"]);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Bounds every wait for something that must happen. Far above what it takes: a watchdog, no promise of speed.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Waits for a condition that something else brings about.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WATCHDOG, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Pid and parent of every process whose command line or program passes.
pub fn processes(passes: impl Fn(&[u8], &Path) -> bool) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let program = std::fs::read_link(entry.path().join("exe")).unwrap_or_default();
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which may hold anything: state and parent. A zombie is dead.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
        if let (Some(state), Some(parent)) = (state, parent)
            && !matches!(state, "Z" | "X")
            && passes(&line, &program)
        {
            found.push((pid, parent));
        }
    }
    found
}

/// Does a `sleep` of this many seconds live?
pub fn sleeps(seconds: &str) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    !processes(|line, _| line == wanted.as_bytes()).is_empty()
}

/// A number of seconds that no other `sleep` of this machine has.
pub fn odd_seconds() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    format!("600.{:07}{next:03}", std::process::id())
}

/// A run in `repo/` whose agent is in the middle of a `sleep` of the seconds that are given.
pub fn under_way(place: &Place) -> (Child, String) {
    let seconds = odd_seconds();
    repository(place, PROJECT);
    let turns = json!([sh(&format!("sleep {seconds}")), edit("answer", "41", "42"), finish("Done.")]);
    let model = script(place, "m.json", &turns);
    let args = args(place, &model, &["--check", CHECK, "--format", "json"]);
    let child = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    until("the agent's command", || sleeps(&seconds));
    (child, seconds)
}

pub fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args([&format!("-{signal}"), &pid.to_string()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    // A process that is gone already is fine: the moment was late.
    let _ = status;
}

/// Waits for a process to end, and kills it when it does not.
pub fn ended(mut child: Child) -> Ended {
    // The pipes are read on threads of their own: a full pipe must not look like a process that hangs.
    fn drained(pipe: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).unwrap();
            }
            bytes
        })
    }
    let (out, err) = (drained(child.stdout.take()), drained(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > WATCHDOG {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the process did not end: {}", String::from_utf8_lossy(&err.join().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
    Ended::of(std::process::Output { status, stdout, stderr })
}

// Every suite compiles this file, and none uses all of it.
const _: () = {
    let _ = (place, git, repository, script, finish, sh, edit, args, checked, snapshot, journal);
    let _ = (CHECK, PROJECT, WATCHDOG, sleeps, odd_seconds, under_way, kill, ended);
    let _ = || until("", || processes(|_, _| true).is_empty());
};
