//! The real binary, started as a user would start it.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Where `cargo xtask test` put `countersign` and the programs beside it. None after saying so: the test did not run.
pub fn bin_dir(test: &str) -> Option<PathBuf> {
    match std::env::var_os("COUNTERSIGN_TEST_BIN_DIR") {
        Some(dir) => Some(PathBuf::from(dir)),
        None => {
            eprintln!("SKIPPED: {test}: COUNTERSIGN_TEST_BIN_DIR is not set: run cargo xtask test");
            None
        }
    }
}

/// A home, a working directory and a command line.
pub struct Place {
    pub bin: PathBuf,
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new(test: &str) -> Option<Self> {
        Some(Self { bin: bin_dir(test)?, dir: tempfile::tempdir().unwrap() })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `countersign` with a home of its own, nothing of the user's, and nothing on standard input.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join("countersign"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("COUNTERSIGN_HOME", self.path("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap())
    }

    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Ended::of(child.wait_with_output().unwrap())
    }

    /// A script that says `text` without calling anything.
    pub fn says(&self, name: &str, text: &str) -> String {
        let script = serde_json::json!({ "version": 1, "turns": [{ "text": text }] });
        format!("scripted:{}", self.write(name, &script.to_string()).display())
    }
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The one JSON object on standard output, its code checked against the process's.
    pub fn json(&self) -> Value {
        let lines: Vec<_> = self.stdout.lines().collect();
        assert_eq!(lines.len(), 1, "not one object: {self:?}");
        let value: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(value["exit_code"].as_i64(), self.code.map(i64::from), "{self:?}");
        value
    }

    /// Asserts a result object with this outcome and reason.
    pub fn ended(&self, outcome: &str, reason: &str) -> Value {
        let value = self.json();
        assert_eq!(
            (value["outcome"].as_str(), value["reason"].as_str()),
            (Some(outcome), Some(reason)),
            "{self:#?}"
        );
        value
    }
}

// Every suite compiles this file, and none uses all of it.
const _: () = {
    let _ = (Place::run, Place::run_with_input, Place::says, Ended::json, Ended::ended);
    let _ = |ended: &Ended| ended.stderr.len();
};
