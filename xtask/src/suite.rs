//! `cargo xtask test`: every stage in order, with its seconds, and one summary in the end.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::report::{Report, SKIP_PREFIX};
use crate::setup::{self, For};
use crate::sh::{self, Context, Env, Error, Result};
use crate::workspace::Workspace;
use crate::{bench, book, build, fuzz, materials, node, stock};

/// How much is done: `small` is for every change, `full` for a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    #[default]
    Small,
    Full,
}

impl Size {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Full => "full",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub size: Size,
    pub skip_setup: bool,
    /// Names of tests as nextest takes them. With any, only set-up, build and those tests run.
    pub filters: Vec<String>,
}

/// Tests that run whole tasks with the real binary (`crates/cli/tests`); heavy, so they come last and one by one
const END_TO_END: &str = "(package(=countersign) & kind(test))";

/// The speed targets hold on a quiet machine; a shared one is asked for twice as much.
const CI_FACTOR: f64 = 2.0;

/// Plays the seeds of the simulation, built as the released program is: unoptimised it is ten times slower.
fn simulation(run: &Run<'_>, size: Size) -> Result<()> {
    let seeds = match size {
        Size::Small => "10000",
        Size::Full => "100000",
    };
    let mut test = run.cargo();
    let test = test.args(["test", "--release", "--quiet", "--package", "countersign-engine"]);
    sh::run(test.args(["--test", "simulation", "--", "--nocapture"]).env("COUNTERSIGN_SEEDS", seeds))
}

struct Run<'a> {
    workspace: &'a Workspace,
    env: Env,
    report: Report,
    seconds: Vec<(&'static str, Duration, bool)>,
}

/// # Errors
/// When any stage failed; all stages that can still say something run first.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut run = Run { workspace, env: Env::new(), report: Report::default(), seconds: Vec::new() };
    let skip_log = workspace.target.join("countersign").join("skips.log");
    let whole = options.filters.is_empty();

    if !options.skip_setup {
        run.required("setup", |run| {
            setup::setup(run.workspace, For::Test)?;
            materials::prepare(run.workspace)?;
            fuzz::fetch(run.workspace)?;
            book::install(run.workspace)?;
            sh::run(run.workspace.cargo().args(["fetch", "--locked", "--quiet"]))
        })?;
    }
    run.env = environment(workspace, options.size, &skip_log);
    let bin_dir = run.required("build", |run| build::build(run.workspace, false))?;
    if run.required("doctor", |_| native_cells(&bin_dir))? {
        run.env.push(("COUNTERSIGN_TEST_REQUIRE_NATIVE", PathBuf::from("1")));
    }
    run.env.push(("COUNTERSIGN_TEST_BIN_DIR", bin_dir));
    std::fs::write(&skip_log, "").context(skip_log.display())?;
    match node::choose(&workspace.materials()) {
        Ok(program) => run.env.push(("COUNTERSIGN_NODE", program)),
        Err(why) => run.report.add_skips(&format!("{SKIP_PREFIX}all tests against aimock: {why}")),
    }

    let python = workspace.materials().join(stock::PYTHON);
    if python.is_file() {
        run.env.push(("COUNTERSIGN_PYTHON", python));
    }

    if whole {
        run.stage("fmt", |run| sh::run(run.workspace.cargo().args(["fmt", "--all", "--check"])));
        run.stage("clippy", |run| {
            let mut clippy = run.cargo();
            sh::run(clippy.args([
                "clippy",
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ]))
        });
        run.stage("tests", |run| run.nextest(&["-E", &format!("not {END_TO_END}")], &[]));
        run.stage("doc tests", Run::doc_tests);
        run.stage("docs", |run| {
            let mut doc = run.cargo();
            sh::run(
                doc.args(["doc", "--workspace", "--no-deps", "--quiet", "--document-private-items"])
                    .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
            )
        });
        run.stage("book", |run| book::build(run.workspace).map(|_| ()));
        run.stage("fuzz", |run| {
            let seconds = match options.size {
                Size::Small => 3,
                Size::Full => 120,
            };
            fuzz::run(run.workspace, &fuzz::Options { seconds: Some(seconds), ..fuzz::Options::default() })
        });
        run.stage("end to end", |run| run.nextest(&["-E", END_TO_END, "--no-tests", "warn"], &[]));
        run.stage("simulation", |run| simulation(run, options.size));
        run.stage("bench gate", |run| {
            bench::gate::run(
                run.workspace,
                &bench::gate::Options {
                    size: options.size,
                    skip_log: Some(skip_log.clone()),
                    ..bench::gate::Options::default()
                },
            )
        });
        run.stage("bench", |run| {
            // The program does not open the store of several machines yet: it is measured where time does not matter.
            let names = match options.size {
                Size::Small => bench::Name::LOCAL.to_vec(),
                Size::Full => Vec::new(),
            };
            bench::run(
                run.workspace,
                &bench::Options { names, factor: CI_FACTOR, size: options.size, json: false },
            )
        });
    } else {
        run.stage("tests", |run| run.nextest(&[], &options.filters));
    }
    run.report.add_skips(&std::fs::read_to_string(&skip_log).unwrap_or_default());
    run.finish()
}

/// What every stage after set-up sees: no network through cargo, and where everything lies.
fn environment(workspace: &Workspace, size: Size, skip_log: &std::path::Path) -> Env {
    let materials = workspace.materials();
    vec![
        ("CARGO_NET_OFFLINE", PathBuf::from("true")),
        ("COUNTERSIGN_TEST_SIZE", PathBuf::from(size.as_str())),
        ("COUNTERSIGN_SKIP_LOG", skip_log.to_path_buf()),
        ("COUNTERSIGN_AIMOCK_DIR", materials.join("aimock")),
        ("COUNTERSIGN_MATERIALS", materials),
    ]
}

/// Whether native cells can be made here, by `countersign doctor`. Where they can, a native test that cannot open one
/// fails; elsewhere it is skipped by name.
fn native_cells(bin_dir: &Path) -> Result<bool> {
    let mut doctor = Command::new(bin_dir.join("countersign"));
    doctor.args(["doctor", "--format", "json"]).stdin(Stdio::null());
    // Its exit code says more than this tier.
    let output = doctor.output().context("countersign doctor")?;
    let available = native_of(&String::from_utf8_lossy(&output.stdout))?;
    if let Err(why) = &available {
        sh::say(&format!("native cells are not available here, their tests are skipped by name: {why}"));
    }
    Ok(available.is_ok())
}

/// The tier in the doctor's report: Ok when it is available, else why not.
fn native_of(report: &str) -> Result<std::result::Result<(), String>> {
    let report: Value = serde_json::from_str(report).context("the report of countersign doctor")?;
    let tiers = report["tiers"].as_array().into_iter().flatten();
    let native = tiers.clone().find(|tier| tier["name"] == "native");
    match native.map(|tier| (&tier["available"], &tier["why_not"])) {
        Some((Value::Bool(true), _)) => Ok(Ok(())),
        Some((Value::Bool(false), why)) => Ok(Err(why.as_str().unwrap_or("no reason was given").to_owned())),
        _ => Err(Error::new("countersign doctor says nothing about native cells")),
    }
}

impl Run<'_> {
    fn cargo(&self) -> Command {
        let mut cargo = self.workspace.cargo();
        cargo.envs(self.env.iter().map(|(key, value)| (*key, value)));
        cargo
    }

    /// A stage without which nothing else makes sense.
    fn required<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        sh::say(&format!("== {name}"));
        let start = Instant::now();
        let result = work(self);
        self.seconds.push((name, start.elapsed(), result.is_ok()));
        sh::say(&format!("== {name}: {:.1} s", start.elapsed().as_secs_f64()));
        result
    }

    /// A stage whose failure is remembered while the others still run.
    fn stage(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = self.required(name, work) {
            sh::say(&format!("FAILED: {name}: {error}"));
        }
    }

    fn nextest(&mut self, selection: &[&str], filters: &[String]) -> Result<()> {
        let junit = self.workspace.target.join("nextest").join("ci").join("junit.xml");
        // A file of an earlier run would be counted as this one's.
        let _ = std::fs::remove_file(&junit);
        let mut nextest = self.cargo();
        nextest.args(["nextest", "run", "--workspace", "--profile", "ci"]).args(selection).args(filters);
        let result = sh::run(&mut nextest);
        self.report.add_junit(&std::fs::read_to_string(&junit).unwrap_or_default());
        result
    }

    fn doc_tests(&mut self) -> Result<()> {
        let mut cargo = self.cargo();
        cargo.args(["test", "--workspace", "--doc", "--quiet"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = sh::Owned(cargo.spawn().context("cargo test --doc")?);
        let mut text = String::new();
        if let Some(stdout) = child.0.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                let line = line.context("reading the output of doc tests")?;
                if !line.trim().is_empty()
                    && !line.ends_with("running 0 tests")
                    && !line.contains(" 0 passed; 0 failed")
                {
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
                text.push_str(&line);
                text.push('\n');
            }
        }
        self.report.add_libtest(&text);
        let status = child.0.wait().context("cargo test --doc")?;
        if status.success() { Ok(()) } else { Err(Error::new(format!("doc tests ended with {status}"))) }
    }

    fn finish(self) -> Result<()> {
        sh::say("== summary");
        for (name, time, ok) in &self.seconds {
            sh::say(&format!("{:>8.1} s  {name}{}", time.as_secs_f64(), if *ok { "" } else { "  FAILED" }));
        }
        for skip in &self.report.skips {
            sh::say(&format!("{}{skip}", crate::report::SKIP_PREFIX));
        }
        let failed: Vec<&str> =
            self.seconds.iter().filter(|(_, _, ok)| !ok).map(|(name, _, _)| *name).collect();
        if !failed.is_empty() {
            sh::say(&format!("failed stages: {}", failed.join(", ")));
        }
        sh::print(&self.report.summary())?;
        if failed.is_empty() && self.report.failed == 0 {
            Ok(())
        } else {
            Err(Error::new("not everything passed; see above"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_tests_may_be_skipped_only_where_the_doctor_says_so() {
        let tiers = |native: &str| format!(r#"{{"tiers":[{{"name":"host","available":true}},{native}]}}"#);
        let native = |rest: &str| native_of(&tiers(&format!(r#"{{"name":"native",{rest}}}"#)));
        assert_eq!(native(r#""available":true,"why_not":null"#).unwrap(), Ok(()));
        let why = "user namespaces are off";
        assert_eq!(native(&format!(r#""available":false,"why_not":"{why}""#)).unwrap(), Err(why.to_owned()));
        // Nothing that cannot be read means "skip".
        assert!(native(r#""available":"yes""#).is_err());
        assert!(native_of(r#"{"tiers":[{"name":"host","available":true}]}"#).is_err());
        assert!(native_of("").is_err());
    }
}
