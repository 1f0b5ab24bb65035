//! Whole runs under strace: the controller executes only the launcher and opens nothing of the agent's. The same is asked of every
//! entry of the benchmark by `cargo xtask bench gate --strace`.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::strace::{self, Rules, Seen};

const NAME: &str = "the_controller_executes_only_the_launcher_and_opens_nothing_of_the_agents";

fn skipped(why: &str) {
    eprintln!("SKIPPED: {NAME}: {why}");
}

fn git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(dir).args(args).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "T").env(format!("GIT_{role}_EMAIL"), "t@example.invalid");
    }
    assert!(git.status().unwrap().success(), "git {args:?}");
}

/// A directory that is gone in the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl Place {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("countersign-strace-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("repo/tests")).unwrap();
        // Where it really is: strace tells real paths.
        Self(dir.canonicalize().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn seen(&self, bin: &Path, name: &str, args: &[&str], agents: Vec<PathBuf>, exit: i32) -> Seen {
        let program = bin.join("countersign");
        let mut command = Command::new(&program);
        command.args(args).current_dir(&self.0);
        command.env("COUNTERSIGN_HOME", self.0.join("home")).env("HOME", self.0.join("user"));
        let dir = self.0.join(name);
        let output = strace::traced(&command, &dir).unwrap().output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let seen =
            strace::seen(&dir, &Rules { program, launcher: bin.join("countersign-jail"), agents }).unwrap();
        assert_eq!(seen.wrong, Vec::<String>::new(), "{name}");
        // It proves nothing unless all of this was there to be seen.
        assert!(
            seen.launches >= 2 && seen.threads > 2 && seen.opened > 10 && seen.in_cells > 2,
            "{name}: {seen:?}"
        );
        seen
    }
}

#[test]
fn the_controller_executes_only_the_launcher_and_opens_nothing_of_the_agents() {
    let Some(bin) = std::env::var_os("COUNTERSIGN_TEST_BIN_DIR").map(PathBuf::from) else {
        return skipped("COUNTERSIGN_TEST_BIN_DIR is not set; `cargo xtask test` sets it");
    };
    if let Some(why) = strace::why_not() {
        return skipped(&why);
    }
    let bin = bin.canonicalize().unwrap();
    let program = bin.join("countersign");
    let doctor = Command::new(&program).args(["doctor", "--format", "json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let native = report["tiers"].as_array().unwrap().iter().find(|tier| tier["name"] == "native").unwrap();
    if native["available"] != true {
        return skipped(&format!("the native sandbox is not available: {}", native["why_not"]));
    }
    let place = Place::new();
    place.write("repo/answer", "41\n");
    place.write("repo/tests/check.sh", "[ \"$(cat answer)\" = 42 ]\n");
    git(&place.0.join("repo"), &["init", "--quiet"]);
    git(&place.0.join("repo"), &["add", "--all"]);
    git(&place.0.join("repo"), &["commit", "--quiet", "--message", "base"]);
    let repo = place.0.join("repo").display().to_string();
    let terms = ["--trust", "trusted-local", "--repo", repo.as_str(), "--check", "sh tests/check.sh"];

    // An agent that plants what a careless controller would run or read: a git directory, hooks, links out of the tree.
    let plants = "echo 42 > answer; git init -q nested 2>/dev/null; rm -rf nested; ln -s /etc/passwd out; \
                  printf '[core]\\n fsmonitor = /workspace/answer\\n' >> .git/config; cat answer";
    let turns = |last: &str| {
        serde_json::json!({ "version": 1, "turns": [
            { "calls": [{ "tool": "run", "args": { "command": plants } }] },
            { "calls": [{ "tool": "edit_file", "args": { "path": "answer", "old": "42", "new": last } }] },
            { "calls": [{ "tool": "check", "args": {} }] },
            { "calls": [{ "tool": "finish", "args": { "summary": "Done." } }] },
        ] })
    };
    for (name, last, exit) in [("run-honest", "42", 0), ("run-lie", "40", 2)] {
        place.write("m.json", &turns(last).to_string());
        let args = [&["run", "make it 42", "--model", "scripted:m.json"], &terms[..]].concat();
        place.seen(&bin, name, &args, vec![place.0.join("repo/answer"), place.0.join("repo/tests")], exit);
    }

    let has_gate = Command::new(&program).args(["gate", "--help"]).output().unwrap().status.success();
    if !has_gate {
        return skipped("this build has no command `gate`");
    }
    for (name, text, exit) in [("gate-honest", "42\n", 0), ("gate-lie", "40\n", 2)] {
        let tree = place.0.join(format!("tree-{name}"));
        git(&place.0, &["clone", "--quiet", &repo, &tree.display().to_string()]);
        std::fs::write(tree.join("answer"), text).unwrap();
        let tree_text = tree.display().to_string();
        let args = [&["gate", "--base", "HEAD", "--tree", &tree_text], &terms[..]].concat();
        place.seen(&bin, name, &args, vec![tree, place.0.join("repo/answer")], exit);
    }
}

/// Verification is offline and starts nothing, neither a program of the machine nor one that the bundle names.
#[test]
fn verify_starts_no_program_and_asks_no_network() {
    let test = "verify_starts_no_program_and_asks_no_network";
    let Some(bin) = std::env::var_os("COUNTERSIGN_TEST_BIN_DIR").map(PathBuf::from) else {
        eprintln!("SKIPPED: {test}: COUNTERSIGN_TEST_BIN_DIR is not set; `cargo xtask test` sets it");
        return;
    };
    if let Some(why) = strace::why_not() {
        eprintln!("SKIPPED: {test}: {why}");
        return;
    }
    let dir = std::env::temp_dir().join(format!("countersign-strace-verify-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let place = Place(dir.canonicalize().unwrap());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/proof/tests/golden/v1.bundle");
    let trace = place.0.join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=execve,execveat,socket,connect,openat", "-o"])
        .arg(&trace)
        .arg(bin.join("countersign"))
        .args(["verify", "--format", "json"])
        .arg(golden.canonicalize().unwrap())
        .env("COUNTERSIGN_HOME", place.0.join("home"))
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["intact"], true, "{report}");
    let trace = std::fs::read_to_string(&trace).unwrap();
    let calls = |name: &str| trace.lines().filter(|line| line.contains(&format!(" {name}("))).count();
    assert_eq!((calls("execve"), calls("execveat")), (1, 0), "{trace}");
    assert_eq!((calls("socket"), calls("connect")), (0, 0), "{trace}");
    // It proves nothing unless the bundle was read under these eyes.
    assert!(trace.contains("journal.jsonl") && trace.contains("turn.sigstore.json"), "{trace}");
}
