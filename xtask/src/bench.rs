//! `cargo xtask bench`: the speed promises of `docs/specification.md`, measured on the released binary. What is
//! compared is measured in turns within one run, so that a busy machine slows both sides; medians are compared.

pub mod gate;
mod overhead;
mod repository;
mod room;
mod server;
mod start;
mod store;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::build;
use crate::sh::{self, Context, Error, Result};
use crate::suite::Size;
use crate::workspace::Workspace;

/// One group of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Start,
    Overhead,
    Room,
    Store,
    Postgres,
    Verify,
}

impl Name {
    const ALL: [Self; 6] =
        [Self::Start, Self::Overhead, Self::Room, Self::Store, Self::Postgres, Self::Verify];

    /// What the program does on one machine.
    pub const LOCAL: [Self; 5] = [Self::Start, Self::Overhead, Self::Room, Self::Store, Self::Verify];
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "start" => Ok(Self::Start),
            "overhead" => Ok(Self::Overhead),
            "room" => Ok(Self::Room),
            "store" => Ok(Self::Store),
            "postgres" => Ok(Self::Postgres),
            "verify" => Ok(Self::Verify),
            other => Err(Error::new(format!(
                "no bench `{other}`; there are `start`, `overhead`, `room`, `store`, `postgres` and `verify`"
            ))),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Which groups; none means all.
    pub names: Vec<Name>,
    /// Every target is multiplied by this.
    pub factor: f64,
    pub size: Size,
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { names: Vec::new(), factor: 1.0, size: Size::default(), json: false }
    }
}

/// One measured value beside its target. All of them are "at most".
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    pub name: &'static str,
    pub value: f64,
    pub target: f64,
    pub unit: &'static str,
    /// What it was made of, for a person.
    pub detail: String,
}

impl Measure {
    /// Not a number is a failure, never a pass.
    fn holds(&self, factor: f64) -> bool {
        self.value.is_finite() && self.value <= self.target * factor
    }

    fn line(&self, factor: f64) -> String {
        format!(
            "{:4} {:32} {:>9.2} {} (at most {} x {factor}; {})",
            if self.holds(factor) { "ok" } else { "OVER" },
            self.name,
            self.value,
            self.unit,
            self.target,
            self.detail
        )
    }

    fn to_json(&self, factor: f64) -> Value {
        json!({ "name": self.name, "value": self.value, "unit": self.unit, "target": self.target,
                "factor": factor, "holds": self.holds(factor), "detail": self.detail })
    }
}

/// # Errors
/// When something cannot be measured, or a value is beyond its target times the factor.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let bin_dir = build::build(workspace, true)?;
    let place =
        Place { bin: bin_dir.join("countersign"), dir: workspace.target.join("bench"), size: options.size };
    std::fs::create_dir_all(&place.dir).context(place.dir.display())?;
    let names = if options.names.is_empty() { Name::ALL.to_vec() } else { options.names.clone() };
    let mut measures = Vec::new();
    for name in names {
        measures.extend(match name {
            Name::Start => start::measure(&place)?,
            Name::Overhead => overhead::measure(&place)?,
            Name::Room => room::measure(&place, workspace)?,
            Name::Store => store::measure(&place, workspace)?,
            Name::Postgres => store::postgres(&place, workspace)?,
            Name::Verify => verify::measure(&place)?,
        });
    }
    for measure in &measures {
        if options.json {
            sh::print(&measure.to_json(options.factor).to_string())?;
        } else {
            sh::print(&measure.line(options.factor))?;
        }
    }
    let over: Vec<&str> = measures.iter().filter(|m| !m.holds(options.factor)).map(|m| m.name).collect();
    if over.is_empty() { Ok(()) } else { Err(Error::new(format!("beyond the target: {}", over.join(", ")))) }
}

/// Adds a line to what the test's summary will say.
fn append(log: &Path, line: &str) -> Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log).context(log.display())?;
    writeln!(file, "{line}").context(log.display())
}

/// Where the measurements work.
struct Place {
    bin: PathBuf,
    dir: PathBuf,
    size: Size,
}

impl Place {
    /// A fresh home below `parent`.
    fn fresh_home(&self, parent: &Path) -> Result<Home> {
        let home = parent.join(format!("countersign-bench-{}", std::process::id()));
        sh::remove_tree(&home)?;
        std::fs::create_dir_all(&home).context(home.display())?;
        Ok(Home(home))
    }

    /// `countersign run` of a task that the served model answers; the check is red on the base and stays so.
    fn run_command(&self, home: &Home, repo: &Path, port: u16) -> Result<Command> {
        let key = self.dir.join("key");
        std::fs::write(&key, "bench-key-without-value\n").context(key.display())?;
        let mut command = Command::new(&self.bin);
        command
            .env("COUNTERSIGN_HOME", &home.0)
            .env_remove("COUNTERSIGN_MODEL")
            .args(["run", "Say that it is done.", "--trust", "trusted-local", "--format", "json"])
            .args(["--trace", "off", "--model", "openai:bench", "--max-turns", "200"])
            .args(["--base-url", &format!("http://127.0.0.1:{port}/v1")])
            .args(["--check-argv", r#"["/usr/bin/test","-e","done"]"#])
            .arg("--api-key-file")
            .arg(&key)
            .arg("--repo")
            .arg(repo)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }
}

/// A home directory that goes away with its last use.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The result object of a run that had to end as "no change": the model claimed, nothing was edited.
fn claimed_without_change(output: &Output) -> Result<Value> {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let result: Value = serde_json::from_str(stdout.trim()).unwrap_or(Value::Null);
    if result["outcome"] == "unverified" && result["reason"] == "no_change" {
        return Ok(result);
    }
    Err(Error::new(format!(
        "the measured run ended with {} as {}/{} instead of unverified/no_change\n{}\n{}",
        output.status,
        result["outcome"],
        result["reason"],
        stdout.trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

/// The middle value; of an even number the mean of the two in the middle. `None` of none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values.get(middle).copied()
    } else {
        Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn beyond_the_target_or_unmeasurable_does_not_hold() {
        let mut measure = Measure { name: "m", value: 9.0, target: 5.0, unit: "ms", detail: String::new() };
        assert!(!measure.holds(1.0));
        assert!(measure.holds(2.0));
        measure.value = f64::NAN;
        assert!(!measure.holds(2.0));
    }

    #[test]
    fn a_run_that_ended_otherwise_is_not_measured() {
        let output = |stdout: &str| Output {
            status: std::process::ExitStatus::default(),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
        };
        claimed_without_change(&output(r#"{"outcome":"unverified","reason":"no_change"}"#)).unwrap();
        for other in [r#"{"outcome":"stuck","reason":"discovery"}"#, "", "{}"] {
            assert!(claimed_without_change(&output(other)).is_err());
        }
    }
}
