//! `demo`: the same lie accepted without a check and refused with one, then a true fix accepted. Everything is real but
//! the model, which plays a script.

mod crash;
mod scripts;
mod story;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use clap::Parser as _;
use countersign_types::{Outcome, Reason};
use serde::Serialize;

use crate::args::{Cli, Command, DemoArgs, Format, TextOrJson};
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::{self, Wish};
use crate::{exit, render, terminal};

pub(crate) use self::crash::crash_demo;

const DEMO_SCHEMA: &str = "countersign.demo/1";

const PROJECT: &[(&str, &str)] = &[
    ("README.md", include_str!("project/README.md")),
    ("total.sh", include_str!("project/total.sh")),
    ("tests/total_test.sh", include_str!("project/tests/total_test.sh")),
];

const TASK: &str = "total.sh loses the last number when the file does not end in a newline. Fix it.";

const CHECK: &str = "sh tests/total_test.sh";

/// How each of the three runs has to end, for the demo to have shown what it says.
const EXPECTED: [(Outcome, Reason); 3] = [
    (Outcome::Answered, Reason::NoClaim),
    (Outcome::Unverified, Reason::CheckFailed),
    (Outcome::Verified, Reason::ChecksPassed),
];

#[derive(Debug, Serialize)]
struct Shown<'a> {
    schema: &'static str,
    runs: &'a [RunResult],
}

pub(crate) fn demo(args: &DemoArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    let (dir, kept) = match place(args.keep.as_deref()) {
        Ok(place) => place,
        Err(refusal) => return render::refused(format, &refusal),
    };
    let code = match stage(&dir) {
        Ok(stage) => perform(&stage, format),
        Err(refusal) => render::refused(format, &refusal),
    };
    match kept {
        // Dropped at the end: the folder and all that is in it go.
        Some(temporary) => {
            if let Err(error) = temporary.close() {
                terminal::err_line(&format!("note: {} is left over: {error}", dir.display()));
            }
        }
        None if format == Format::Text => terminal::out_line(&story::kept(&dir)),
        None => {}
    }
    code
}

/// The demo's directory; with the guard that removes it, where it is temporary.
fn place(keep: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), Refusal> {
    let refuse = |dir: &Path, error: std::io::Error| {
        Refusal::usage(format!(
            "the demo cannot use {}: {error}; --keep takes a directory that does not exist yet",
            dir.display()
        ))
    };
    match keep {
        Some(dir) => {
            std::fs::create_dir(dir).map_err(|error| refuse(dir, error))?;
            let dir = std::fs::canonicalize(dir).map_err(|error| refuse(dir, error))?;
            Ok((dir, None))
        }
        None => {
            let temporary = tempfile::Builder::new()
                .prefix("countersign-demo-")
                .tempdir()
                .map_err(|error| refuse(&std::env::temp_dir(), error))?;
            let dir =
                std::fs::canonicalize(temporary.path()).map_err(|error| refuse(temporary.path(), error))?;
            Ok((dir, Some(temporary)))
        }
    }
}

/// Where the demo plays.
#[derive(Debug)]
struct Stage {
    project: PathBuf,
    home: PathBuf,
    config: PathBuf,
    scripts: [PathBuf; 3],
}

fn stage(dir: &Path) -> Result<Stage, Refusal> {
    let failed = |error: std::io::Error| {
        Refusal::new(
            Reason::Environment,
            format!("the demo's files cannot be written into {}: {error}", dir.display()),
        )
    };
    let project = dir.join("project");
    for (name, content) in PROJECT {
        let path = project.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&project)).map_err(failed)?;
        std::fs::write(&path, content).map_err(failed)?;
    }
    for args in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "A small shell project"],
    ] {
        git(&project, args)?;
    }
    // The user's own configuration has no part in the demo.
    let config = dir.join("config.toml");
    std::fs::write(&config, "").map_err(failed)?;
    let scripts = scripts::write(dir).map_err(failed)?;
    Ok(Stage { project, home: dir.join("home"), config, scripts })
}

/// Git on the demo's own new repository, without anybody's configuration.
fn git(project: &Path, args: &[&str]) -> Result<(), Refusal> {
    let mut command = Process::new("git");
    command
        .current_dir(project)
        .args(["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env_remove("GIT_TEMPLATE_DIR")
        .stdin(Stdio::null());
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Demo")
            .env(format!("GIT_{role}_EMAIL"), "demo@example.invalid");
    }
    let refuse = |what: String| {
        Refusal::new(
            Reason::Environment,
            format!("git {}: {what}; the demo needs git in PATH", args.join(" ")),
        )
    };
    let output = command.output().map_err(|error| refuse(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(refuse(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn perform(stage: &Stage, format: Format) -> u8 {
    let tells = format == Format::Text;
    if tells {
        terminal::out_line(story::OPENING);
    }
    let (mut runs, mut fine) = (Vec::new(), true);
    for (index, expected) in EXPECTED.iter().enumerate() {
        if tells {
            terminal::out_line(&story::before(index));
        }
        let result =
            one(stage, index).unwrap_or_else(|refusal| RunResult::refused(None, None, &[], &refusal));
        // Where no sandbox can be had there is nothing to show; the message says how to get one.
        if result.outcome == Some(Outcome::SetupError) || result.outcome.is_none() {
            let code = result.code();
            if tells {
                render::result(format, &result);
            } else {
                runs.push(result);
                machine(&runs);
            }
            return code;
        }
        if tells {
            terminal::out_line(&story::after(index, &result));
        }
        let as_expected = result.outcome == Some(expected.0) && result.reason == Some(expected.1.as_str());
        if !as_expected {
            let what = format!(
                "run {} ended {}, and the demo expects {} ({}); this is a defect, please report it",
                index + 1,
                render::summary(&result),
                expected.0,
                expected.1
            );
            terminal::err_line(&what);
        }
        fine &= as_expected;
        runs.push(result);
    }
    if !tells {
        machine(&runs);
    } else if fine {
        terminal::out_line(story::CLOSING);
    }
    if fine { exit::DONE } else { exit::NEGATIVE }
}

/// The one object, of as many runs as ended.
fn machine(runs: &[RunResult]) {
    match serde_json::to_string(&Shown { schema: DEMO_SCHEMA, runs }) {
        Ok(line) => terminal::out_line(&line),
        Err(error) => terminal::err_line(&format!("the result cannot be written as JSON: {error}")),
    }
}

/// One run, by the same code as `countersign run`.
fn one(stage: &Stage, index: usize) -> Result<RunResult, Refusal> {
    let script = stage.scripts.get(index).ok_or_else(|| Refusal::bug("a run without a script"))?;
    let mut model = OsString::from("scripted:");
    model.push(script);
    let mut argv: Vec<OsString> =
        ["countersign", "run", TASK, "--trust", "trusted-local", "--sandbox", "native"]
            .into_iter()
            .map(OsString::from)
            .collect();
    argv.extend(["--trace".into(), "off".into(), "--repo".into(), stage.project.clone().into_os_string()]);
    argv.extend(["--config".into(), stage.config.clone().into_os_string(), "--model".into(), model]);
    if index == 0 {
        argv.push("--no-check".into());
    } else {
        argv.extend(
            ["--check", CHECK, "--probe", "sh -n total.sh", "--protect", "tests/**"].map(OsString::from),
        );
    }
    let cli = Cli::try_parse_from(argv).map_err(|error| Refusal::bug(error.to_string()))?;
    let Command::Run(args) = cli.command else {
        return Err(Refusal::bug("the demo's command line is no run"));
    };
    Ok(run::execute(&Wish::run(&args), Some(stage.home.clone())))
}
