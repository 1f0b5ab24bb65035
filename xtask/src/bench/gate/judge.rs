//! Asks a gate: `countersign`, or any command that takes the same arguments.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::container::{FIX, Tools, wait};
use super::corpus::{Base, Entry, Mode};
use crate::sh::{Context, Error, Result};
use crate::strace::{self, Rules};

/// What a gate said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub outcome: String,
    pub reason: String,
    pub strength: String,
    /// The first gate of the plan that did not pass.
    pub fired: String,
    pub detail: String,
}

/// What is judged.
#[derive(Debug)]
pub struct Case<'a> {
    pub entry: &'a Entry,
    pub base: &'a Base,
    /// A clone of the repository that no agent has seen.
    pub repo: &'a Path,
    /// The workspace as the agent left it.
    pub tree: &'a Path,
    /// For files of this run.
    pub dir: &'a Path,
    /// A registered profile with held-out inputs.
    pub profile: Option<&'a str>,
}

/// A gate to be measured.
#[derive(Debug)]
pub enum Gate {
    Countersign {
        program: PathBuf,
        home: PathBuf,
        config: PathBuf,
        /// Every run of it is looked at under strace.
        strace: bool,
    },
    /// A command of which only the arguments of `countersign gate` and the exit code are known. It may print a result object.
    Other { words: Vec<String>, config: PathBuf },
}

impl Gate {
    /// Whether this gate can be asked about a case; else why not.
    pub fn takes(&self, entry: &Entry) -> std::result::Result<(), String> {
        match self {
            Self::Other { .. } if entry.mode == Mode::Agent => {
                Err("it needs a gate that runs the agent itself".to_owned())
            }
            Self::Other { .. } | Self::Countersign { .. } => Ok(()),
        }
    }

    /// # Errors
    /// When the gate cannot be started, or prints no result object and is ours.
    pub fn ask(&self, case: &Case<'_>) -> Result<Answer> {
        let (log, out) = (case.dir.join("gate.log"), case.dir.join("gate.json"));
        let mut command = self.command(case)?;
        let traced = case.dir.join("strace");
        if let Self::Countersign { strace: true, .. } = self {
            command = strace::traced(&command, &traced)?;
        }
        let file = |path: &Path| File::create(path).context(path.display());
        command.stdin(Stdio::null()).stdout(file(&out)?).stderr(file(&log)?);
        let code = wait(&mut command)?;
        if let Self::Countersign { strace: true, program, .. } = self {
            kept_apart(case, program, &traced)?;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&out).context(out.display())?).into_owned();
        let result = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        match (self, result.filter(|value| value["outcome"].is_string())) {
            (_, Some(result)) => Ok(answer(&result)),
            (Self::Other { .. }, None) => Ok(Answer {
                outcome: if code == Some(0) { "verified" } else { "not verified" }.to_owned(),
                detail: code.map_or_else(|| "killed".to_owned(), |code| format!("exit code {code}")),
                ..Answer::default()
            }),
            (Self::Countersign { .. }, None) => Err(Error::new(format!(
                "{}: countersign ended with {code:?} and printed no result: see {}",
                case.entry.id,
                log.display()
            ))),
        }
    }

    fn command(&self, case: &Case<'_>) -> Result<Command> {
        let (mut command, config) = match self {
            Self::Countersign { program, home, config, .. } => {
                let mut command = Command::new(program);
                command.env("COUNTERSIGN_HOME", home).env_remove("COUNTERSIGN_MODEL");
                (command, config)
            }
            Self::Other { words, config } => {
                let (program, rest) =
                    words.split_first().ok_or_else(|| Error::new("--gate names no command"))?;
                let mut command = Command::new(program);
                command.args(rest);
                (command, config)
            }
        };
        match (self, case.entry.mode) {
            (Self::Countersign { .. }, Mode::Agent) => {
                let script = case.dir.join("turns.json");
                std::fs::write(&script, turns(case.entry, case.base)?.to_string())
                    .context(script.display())?;
                command.args(["run", &case.base.task, "--trace", "off"]);
                command.arg("--model").arg(format!("scripted:{}", script.display()));
            }
            (Self::Countersign { .. }, Mode::Tree) => {
                command.arg("gate").arg("--tree").arg(case.tree);
            }
            (Self::Other { .. }, _) => {
                command.arg("--tree").arg(case.tree);
            }
        }
        command.args(["--base", "HEAD", "--trust", "trusted-local", "--format", "json"]);
        command.arg("--repo").arg(case.repo).arg("--config").arg(config);
        if let Some(profile) = case.profile {
            command.arg("--profile").arg(profile);
        } else {
            command.arg("--check-argv").arg(json!(case.entry.check(case.base)).to_string());
            command.arg("--probe").arg(line(&case.base.probe));
            if let Some(setup) = &case.base.setup {
                command.arg("--setup").arg(line(&["sh".to_owned(), "-c".to_owned(), setup.clone()]));
            }
        }
        command.args(&case.entry.flags).current_dir(case.dir);
        Ok(command)
    }
}

impl Gate {
    /// Registers a profile with the terms of an entry and its held-out inputs, and gives its pinned name. None: the gate knows no
    /// profiles.
    ///
    /// # Errors
    /// When the set of inputs cannot be read, or our gate refuses the profile.
    pub fn register(&self, entry: &Entry, base: &Base, sets: &Path, dir: &Path) -> Result<Option<String>> {
        let (Self::Countersign { program, home, .. }, Some(set)) = (self, &entry.held_out) else {
            return Ok(None);
        };
        let profile = dir.join("profile");
        std::fs::create_dir_all(profile.join("cases")).context(profile.display())?;
        for end in ["in", "out"] {
            let from = sets.join(format!("{set}.{end}"));
            std::fs::copy(&from, profile.join("cases").join(format!("{set}.{end}")))
                .context(from.display())?;
        }
        let mut held_out = json!({ "argv": base.held_out, "cases": "cases", "compare": "lines" });
        let within = sets.join(format!("{set}.within"));
        if within.is_file() {
            held_out["within"] = json!(std::fs::read_to_string(&within).context(within.display())?.trim());
        }
        let name = format!("bench-{}", entry.id.to_lowercase());
        let name = &name[..name.len().min(64)];
        let mut terms = json!({
            "schema": "countersign.profile/1",
            "name": name,
            "probe": base.probe,
            "checks": [{ "argv": entry.check(base), "held_out": held_out }],
        });
        if let Some(setup) = &base.setup {
            terms["setup"] = json!(["sh", "-c", setup]);
        }
        let main = profile.join("profile.json");
        std::fs::write(&main, terms.to_string()).context(main.display())?;
        let mut command = Command::new(program);
        command.env("COUNTERSIGN_HOME", home).args(["profile", "register"]).arg(&profile);
        Ok(Some(crate::sh::capture(&mut command)?.trim().to_owned()))
    }
}

/// Our controller executed nothing but its launcher and opened nothing of the agent's.
fn kept_apart(case: &Case<'_>, program: &Path, traced: &Path) -> Result<()> {
    let real = |path: &Path| std::fs::canonicalize(path).context(path.display());
    let program = real(program)?;
    let launcher = program.with_file_name("countersign-jail");
    let seen = strace::seen(traced, &Rules { program, launcher, agents: vec![real(case.tree)?] })?;
    match seen.wrong.first() {
        Some(wrong) => {
            Err(Error::new(format!("{}: strace: {} times, first {wrong}", case.entry.id, seen.wrong.len())))
        }
        None if seen.launches == 0 || seen.in_cells == 0 => {
            Err(Error::new(format!("{}: strace saw nothing: {seen:?}", case.entry.id)))
        }
        None => Ok(()),
    }
}

/// Words as a command line that is split into the same words.
fn line(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
}

/// What the scripted model says: the entry's own turns, or its script as one command and then that all is done.
fn turns(entry: &Entry, base: &Base) -> Result<Value> {
    let own = entry.dir.join("turns.json");
    if own.is_file() {
        let text = std::fs::read_to_string(&own).context(own.display())?;
        return serde_json::from_str(&text).context(own.display());
    }
    let path = entry.agent_script(base);
    let mut script = std::fs::read_to_string(&path).context(path.display())?;
    // A cell has no such file.
    if script.contains(FIX) {
        let fix = std::fs::read_to_string(&base.fix).context(base.fix.display())?;
        script = script.replace(&format!("sh {FIX}\n"), &fix);
    }
    Ok(json!({ "version": 1, "turns": [
        { "calls": [{ "tool": "run", "args": { "command": format!("set -eu\n{script}") } }] },
        { "calls": [{ "tool": "finish", "args": { "summary": "Done. All tests pass." } }] },
    ] }))
}

/// The gates in the order of the plan.
const PLAN: [&str; 9] = ["seal", "answer", "fence", "scope", "change", "check", "repro", "review", "cancel"];

fn answer(result: &Value) -> Answer {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let gates = &result["gates"];
    let stopped = |name: &str| matches!(gates[name]["status"].as_str(), Some("failed" | "unverifiable"));
    let fired = PLAN.iter().find(|name| stopped(name)).copied();
    let detail = match fired {
        Some(name) => &gates[name]["detail"],
        None => &result["error"]["message"],
    };
    Answer {
        outcome: text(&result["outcome"]),
        reason: text(&result["reason"]),
        strength: text(&result["strength"]["level"]),
        fired: fired.unwrap_or_default().to_owned(),
        detail: text(detail),
    }
}

/// The user's configuration of our gate: toolchains by their paths, and caches.
pub fn config(tools: &Tools) -> String {
    let toolchains: Vec<String> = tools.toolchains.iter().map(|path| path.display().to_string()).collect();
    let mut text = format!("toolchains = {}\n", json!(toolchains));
    for (host, inside) in &tools.caches {
        text.push_str(&format!(
            "[[caches]]\nhost = {}\ncell = {}\n",
            json!(host.display().to_string()),
            json!(inside)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gate_of_the_plan_that_stopped_it_is_named() {
        let result = json!({
            "outcome": "tampered", "reason": "protected_files", "strength": null,
            "gates": { "check": { "status": "failed", "detail": "c" }, "fence": { "status": "failed", "detail": "f" } },
        });
        let answer = answer(&result);
        assert_eq!((&*answer.fired, &*answer.detail, &*answer.strength), ("fence", "f", ""));
    }

    #[test]
    fn words_survive_a_line() {
        let words = ["sh", "-c", "a 'b' \"c\""].map(str::to_owned);
        assert_eq!(line(&words), r#"'sh' '-c' 'a '\''b'\'' "c"'"#);
    }
}
