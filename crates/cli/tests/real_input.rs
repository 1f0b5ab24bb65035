//! Released sources of real projects, in a version whose next release fixed a bug: what an agent can do to them, and
//! what it comes to. Over real HTTP on loopback, against our own server and against an independent one, the rooms
//! without a network.
//!
//! `cargo xtask test` prepares the projects (`xtask/src/materials.rs`); the edits are in its `materials.json`.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, Place};
use countersign_llm::Script;
use countersign_testkit::aimock::{self, Aimock};
use countersign_testkit::{ScriptedServer, ServerOptions};
use countersign_types::Digest;
use project::{edit, finish, git, place, sh, snapshot};
use serde_json::{Value, json};

/// Where jobs find the wheels.
const WHEELS: &str = "/home/agent/wheelhouse";

type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A project of the table, with all that a run of it needs.
struct Real {
    test: &'static str,
    place: Place,
    row: Value,
    /// `<materials>/NAME`.
    dir: PathBuf,
    repo: PathBuf,
    /// Arguments that every run of it has.
    args: Vec<String>,
    before: Files,
}

fn skip<T>(test: &str, why: &str) -> Option<T> {
    eprintln!("SKIPPED: {test}: {why}");
    None
}

fn materials() -> Option<PathBuf> {
    std::env::var_os("COUNTERSIGN_MATERIALS")
        .map(PathBuf::from)
        .filter(|dir| dir.join("materials.json").is_file())
}

/// What a program prints. None when it is not here or fails.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Words as a command line that `--setup` and `--probe` split into the same words.
fn line(words: &[String]) -> String {
    assert!(words.iter().all(|word| !word.contains('\'')), "{words:?}");
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

impl Real {
    fn open(test: &'static str, name: &str) -> Option<Self> {
        let place = place(test)?;
        let Some(materials) = materials() else {
            return skip(test, "COUNTERSIGN_MATERIALS names no prepared materials: run cargo xtask setup");
        };
        let table = std::fs::read_to_string(materials.join("materials.json")).unwrap();
        let table: Value = serde_json::from_str(&table).unwrap();
        let row =
            table["projects"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
        let dir = materials.join(name);
        let repo = dir.join("repo");
        let before = snapshot(&repo);
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let probe = line(&words(&row["probe"]));
        let args = [
            "--task".to_owned(),
            text("task"),
            "--repo".to_owned(),
            repo.display().to_string(),
            "--probe".to_owned(),
            probe,
            "--scope".to_owned(),
            text("scope"),
        ]
        .to_vec();
        Some(Self { test, place, row, dir, repo, args, before })
    }

    fn arg(&mut self, flag: &str, value: &str) {
        self.args.extend([flag.to_owned(), value.to_owned()]);
    }

    /// The user's configuration: a toolchain by its path, unless it is the system's, and a cache.
    fn configure(&mut self, toolchain: &str, cache: &Path, cell: &str) {
        let toolchains = if Path::new(toolchain).starts_with("/usr") {
            String::new()
        } else {
            format!("toolchains = [{}]\n", json!(toolchain))
        };
        let cache = json!(cache.display().to_string());
        let text = format!("{toolchains}[[caches]]\nhost = {cache}\ncell = {}\n", json!(cell));
        let config = self.place.write("config.toml", &text).display().to_string();
        self.arg("--config", &config);
    }

    fn edits(&self, key: &str) -> Vec<(String, String, String)> {
        let text = |edit: &Value, key: &str| edit[key].as_str().unwrap().to_owned();
        self.row[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|edit| (text(edit, "path"), text(edit, "old"), text(edit, "new")))
            .collect()
    }

    /// The edits as calls of the edit tool, one a turn.
    fn by_tool(&self, key: &str) -> Vec<Value> {
        self.edits(key).iter().map(|(path, old, new)| edit(path, old, new)).collect()
    }

    /// The edits as shell commands, which no tool can refuse.
    fn by_command(&self, key: &str) -> Vec<Value> {
        self.edits(key)
            .iter()
            .map(|(path, old, new)| {
                let text = std::fs::read_to_string(self.repo.join(path)).unwrap();
                let number = text[..text.find(old).unwrap()].matches('\n').count() + 1;
                assert!(old.ends_with('\n') && !old.contains('\\') && !new.contains(['\\', '\'']));
                match new.strip_suffix('\n') {
                    None => sh(&format!("sed -i -e '{number}d' {path}")),
                    Some(new) => sh(&format!("sed -i -e '{number}c\\' -e '{new}' {path}")),
                }
            })
            .collect()
    }

    /// A check of the table. Nobody debugs what a compiler makes here, and without debug information it is done sooner.
    fn check(&self, key: &str) -> Vec<String> {
        let mut argv = words(&self.row[key]);
        if argv[0] == "cargo" {
            argv.splice(2..2, ["--config", "profile.dev.debug=false"].map(str::to_owned));
        }
        argv
    }

    /// Plays `turns` over HTTP and checks what holds for every ending.
    fn play(&self, peer: Peer, turns: &[Value], check: &str) -> (Ended, Value) {
        let text = json!({ "version": 1, "turns": turns }).to_string();
        let server = peer.start(&Script::parse("script.json", text.as_bytes()).unwrap());
        let check = json!(self.check(check)).to_string();
        let url = server.base_url();
        let model =
            ["--model", "openai:scripted", "--base-url", &url, "--check-argv", &check, "--format", "json"];
        let args = ["run", "--trust", "reviewed"]
            .into_iter()
            .chain(self.args.iter().map(String::as_str))
            .chain(model);
        let ended = self.place.run(&args.collect::<Vec<_>>());
        assert_eq!(self.left(), Vec::<String>::new(), "processes are left behind: {ended:#?}");
        assert!(snapshot(&self.repo) == self.before, "the repository has changed: {ended:#?}");
        let result = ended.json();
        assert_eq!(result["usage"]["model_calls"], server.requests(), "{ended:#?}");
        assert_eq!(result["base"]["commit"], git(&self.repo, &["rev-parse", "HEAD"]));
        if let Some(patch) = result["patch"].as_object() {
            let bytes = std::fs::read(patch["path"].as_str().unwrap()).unwrap();
            assert_eq!(
                (patch["sha256"].as_str(), patch["bytes"].as_u64()),
                (Some(&*Digest::of(&bytes).hex()), Some(bytes.len() as u64))
            );
        }
        (ended, result)
    }

    /// Processes of this test's runs, by anything that only they can have: the temporary directory's name in their
    /// arguments, their environment, or among their mounts.
    fn left(&self) -> Vec<String> {
        let token = self.place.dir.path().file_name().unwrap().as_encoded_bytes().to_vec();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let about = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let ours = ["cmdline", "environ", "mountinfo"]
                .iter()
                .any(|name| about(name).windows(token.len()).any(|window| window == token.as_slice()));
            if ours && entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
                found.push(String::from_utf8_lossy(&about("cmdline")).replace('\0', " "));
            }
        }
        found
    }

    /// Everything that an agent can come to here. Gives the session of the true fix.
    fn all_endings(&self, peer: Peer) -> String {
        let claim = || vec![finish("Fixed; all tests pass.")];
        let with = |turns: Vec<Value>| [turns, claim()].concat();

        let (ended, result) = self.play(peer, &[json!({ "text": "Never asked." })], "green_check");
        ended.ended("setup_error", "already_green");
        assert_eq!((ended.code, &result["usage"]["model_calls"]), (Some(1), &json!(0)));
        assert!(result["error"]["message"].as_str().unwrap().contains("--expect guard"), "{result}");

        let (ended, result) = self.play(peer, &[json!({ "text": "Fixed; all tests pass." })], "check");
        ended.ended("unverified", "no_change");
        assert_eq!((ended.code, &result["patch"]), (Some(2), &Value::Null));
        assert_eq!(result["gates"]["change"]["status"], "failed");
        assert_eq!(result["gates"]["check"]["status"], "not_reached");

        let (ended, result) = self.play(peer, &with(self.by_tool("wrong_edit")), "check");
        ended.ended("unverified", "check_failed");
        assert_eq!((ended.code, &result["gates"]["check"]["status"]), (Some(2), &json!("failed")));

        let mut tampering = vec!["edited_test"];
        if !self.edits("edited_inline_test").is_empty() {
            tampering.push("edited_inline_test");
        }
        for key in tampering {
            let turns = with([self.by_tool("true_fix"), self.by_command(key)].concat());
            let (ended, result) = self.play(peer, &turns, "check");
            ended.ended("tampered", "protected_files");
            assert_eq!((ended.code, &result["gates"]["fence"]["status"]), (Some(9), &json!("failed")));
            let (path, ..) = &self.edits(key)[0];
            assert!(result["gates"]["fence"]["detail"].as_str().unwrap().contains(path), "{result}");
            assert_eq!(result["gates"]["check"]["status"], "not_reached");
        }

        let outside = self.row["outside_scope"].as_str().unwrap();
        let turns = with([self.by_tool("true_fix"), vec![sh(&format!("echo fixed >> {outside}"))]].concat());
        let (ended, result) = self.play(peer, &turns, "check");
        ended.ended("scope_violation", "paths");
        assert_eq!((ended.code, &result["gates"]["scope"]["status"]), (Some(8), &json!("failed")));
        assert!(result["gates"]["scope"]["detail"].as_str().unwrap().contains(outside), "{result}");

        // The test is out of reach of the edit tool, which says so at once; that alone is no tampering.
        let turns = with([self.by_tool("edited_test"), self.by_tool("true_fix")].concat());
        let (ended, result) = self.play(peer, &turns, "check");
        ended.ended("verified", "checks_passed");
        assert_eq!(ended.code, Some(0));
        assert_eq!(result["strength"], json!({ "level": "canary", "in_process": true }));
        assert!(result["tree"].as_str().unwrap().starts_with("sha256:"), "{result}");
        assert_ne!(result["tree"], result["base"]["tree"]);
        assert_eq!((&result["tier"], &result["isolated"]), (&json!("native"), &json!(true)));
        assert!(result["observed"].as_array().unwrap().contains(&json!("netns")), "{result}");
        for gate in ["seal", "answer", "fence", "scope", "change", "check"] {
            assert_eq!(result["gates"][gate]["status"], "passed", "{gate}: {result}");
        }
        result["session"].as_str().unwrap().to_owned()
    }

    /// Against both servers; then the patch is taken home.
    fn tell(&self, check_at_home: impl Fn(&Path)) {
        let session = self.all_endings(Peer::Ours);
        match Peer::aimock() {
            Ok(peer) => {
                self.all_endings(peer);
            }
            Err(why) => {
                skip::<()>(&format!("{}/aimock", self.test), &why);
            }
        }
        let clone = self.place.path("clone");
        git(self.place.dir.path(), &["clone", "--quiet", &self.repo.display().to_string(), "clone"]);
        let before = snapshot(&clone);
        let at = clone.display().to_string();
        let checked = self.place.run(&["apply", &session, "--repo", &at, "--check"]);
        assert_eq!(checked.code, Some(0), "{checked:#?}");
        assert!(snapshot(&clone) == before, "apply --check has changed something");
        let applied = self.place.run(&["apply", &session, "--repo", &at]);
        assert_eq!(applied.code, Some(0), "{applied:#?}");
        let fixed: Vec<String> = self.edits("true_fix").into_iter().map(|(path, ..)| path).collect();
        let changed = git(&clone, &["diff", "--name-only", "HEAD"]);
        assert!(changed.lines().all(|path| fixed.iter().any(|fixed| fixed == path)), "{changed}");
        check_at_home(&clone);
        let again = self.place.run(&["apply", &session, "--repo", &at, "--check"]);
        assert_eq!(again.code, Some(2), "a patch that is applied does not apply again: {again:#?}");
    }

    /// A command of the table on the host, in the user's clone.
    fn at_home(&self, clone: &Path, argv: &[String]) {
        let program = if argv[0].contains('/') { clone.join(&argv[0]) } else { PathBuf::from(&argv[0]) };
        let output = Command::new(program)
            .args(&argv[1..])
            .current_dir(clone)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_HOME", self.dir.join("cargo-home"))
            .env("CARGO_TARGET_DIR", self.place.path("target"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{argv:?}: {output:#?}");
    }
}

/// Which server plays the model.
#[derive(Clone, Copy)]
enum Peer {
    Ours,
    /// The directory is found again by [`Peer::aimock_dir`].
    Aimock,
}

/// A server that runs.
enum Server {
    Ours(ScriptedServer),
    /// With a directory that outlives it.
    Aimock(Aimock, #[expect(dead_code, reason = "kept until the server has ended")] tempfile::TempDir),
}

impl Peer {
    fn aimock_dir() -> Option<PathBuf> {
        let dir = std::env::var_os("COUNTERSIGN_AIMOCK_DIR").map(PathBuf::from);
        dir.or_else(|| materials().map(|dir| dir.join("aimock")))
            .filter(|dir| dir.join("node_modules/@copilotkit/aimock").is_dir())
    }

    fn aimock() -> Result<Self, String> {
        if Self::aimock_dir().is_none() {
            return Err("no node_modules/@copilotkit/aimock: run cargo xtask setup".to_owned());
        }
        aimock::node().map(|_| Self::Aimock).map_err(|why| why.to_string())
    }

    fn start(self, script: &Script) -> Server {
        match self {
            Self::Ours => Server::Ours(
                ScriptedServer::start(ServerOptions { strict: true, ..ServerOptions::new(script.clone()) })
                    .unwrap(),
            ),
            Self::Aimock => {
                let scratch = tempfile::tempdir().unwrap();
                let server = aimock::start(&Self::aimock_dir().unwrap(), script, scratch.path()).unwrap();
                Server::Aimock(server, scratch)
            }
        }
    }
}

impl Server {
    fn base_url(&self) -> String {
        match self {
            Self::Ours(server) => server.base_url(),
            Self::Aimock(server, _) => server.base_url(),
        }
    }

    /// Requests that arrived, after a look at what the strict server had against them.
    fn requests(&self) -> usize {
        match self {
            Self::Ours(server) => {
                assert_eq!(
                    server.violations(),
                    Vec::<String>::new(),
                    "append-only, calls and results in pairs"
                );
                server.requests().len()
            }
            Self::Aimock(server, _) => server.requests().unwrap(),
        }
    }
}

#[test]
fn a_real_rust_crate_comes_to_every_ending_that_it_deserves() {
    let test = "a_real_rust_crate_comes_to_every_ending_that_it_deserves";
    let Some(mut real) = Real::open(test, "globset") else { return };
    let Some(sysroot) = said("rustc", &["--print", "sysroot"]) else {
        skip::<()>(test, "rustc is not here");
        return;
    };
    let registry = real.dir.join("cargo-home/registry");
    real.configure(&sysroot, &registry, "/home/agent/.cargo/registry");
    real.tell(|clone| real.at_home(clone, &real.check("check")));
}

#[test]
fn a_real_python_package_comes_to_every_ending_that_it_deserves() {
    let test = "a_real_python_package_comes_to_every_ending_that_it_deserves";
    let Some(mut real) = Real::open(test, "httpx") else { return };
    // `ensurepip` is what a virtual environment needs and distributions leave out.
    let Some(prefix) = said("python3", &["-c", "import ensurepip, venv, sys; print(sys.base_prefix)"]) else {
        skip::<()>(test, "python3 with venv and ensurepip is not here");
        return;
    };
    let wheels = real.dir.join("wheelhouse");
    real.configure(&prefix, &wheels, WHEELS);
    let steps: Vec<Vec<String>> = real.row["setup"].as_array().unwrap().iter().map(words).collect();
    let at = |wheels: &str| -> Vec<Vec<String>> {
        steps
            .iter()
            .map(|argv| argv.iter().map(|word| word.replace("{wheelhouse}", wheels)).collect())
            .collect()
    };
    let joined: Vec<String> = at(WHEELS).iter().map(|argv| argv.join(" ")).collect();
    real.arg("--setup", &line(&["sh".to_owned(), "-c".to_owned(), joined.join(" && ")]));
    real.tell(|clone| {
        for argv in at(&wheels.display().to_string()) {
            real.at_home(clone, &argv);
        }
        real.at_home(clone, &real.check("check"));
    });
}
