//! `crash-demo`: the demo's true fix twice, once undisturbed and once by a process that dies at a moment of your choice and
//! another that goes on. Both have to come to the same end.

use std::path::Path;
use std::process::{Command as Process, Stdio};

use countersign_engine::CrashPoint;
use serde::Serialize;
use serde_json::Value;

use super::{CHECK, Stage, TASK, place, stage};
use crate::args::{CrashDemoArgs, Format, TextOrJson};
use crate::crash::CrashAt;
use crate::refusal::Refusal;
use crate::{exit, render, terminal};

const SCHEMA: &str = "countersign.crash-demo/1";

/// Where the two results may differ, as JSON pointers in which `*` stands for one part. Everything else is equal.
const MAY_DIFFER: &str = include_str!("may-differ.txt");

/// The run that has a true fix in it.
const FIX: usize = 2;

#[derive(Debug, Serialize)]
struct Shown {
    schema: &'static str,
    at: String,
    session: String,
    /// Processes that it took, the one that died included.
    processes: usize,
    /// Where the ends differ although they must not.
    differences: Vec<String>,
    undisturbed: Value,
    crashed: Value,
}

pub(crate) fn crash_demo(args: &CrashDemoArgs) -> u8 {
    if args.list {
        for point in CrashPoint::ALL {
            terminal::out_line(point.as_str());
        }
        return exit::DONE;
    }
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    let Some(at) = &args.at else {
        let what = "name a moment with --at POINT[:KIND][:N], or see them with --list";
        return render::refused(format, &Refusal::usage(what));
    };
    let (dir, _kept) = match place(args.keep.as_deref()) {
        Ok(place) => place,
        Err(refusal) => return render::refused(format, &refusal),
    };
    match stage(&dir).and_then(|stage| perform(&stage, &dir, at, format)) {
        Ok(code) => code,
        Err(refusal) => render::refused(format, &refusal),
    }
}

fn perform(stage: &Stage, dir: &Path, at: &CrashAt, format: Format) -> Result<u8, Refusal> {
    let tells = format == Format::Text;
    let say = |line: &str| {
        if tells {
            terminal::out_line(line);
        }
    };
    say("The run that nobody disturbs:");
    let (quiet, crashed) = (dir.join("undisturbed"), dir.join("crashed"));
    let (code, undisturbed) = process(stage, &quiet, &run_line(stage, None))?;
    let ended = result(code, undisturbed)?;
    say(&format!("  {}", told(&ended)));
    say(&format!("The run whose process dies {at}:"));
    let mut deaths: Vec<Option<String>> = vec![Some(at.to_string())];
    if at.point == CrashPoint::AfterRecovery {
        // There is something to recover only after another death.
        deaths.insert(0, Some("after-intent:run".to_owned()));
    }
    deaths.push(None);
    let mut session: Option<String> = None;
    let mut last = None;
    for death in &deaths {
        let line = match &session {
            None => run_line(stage, death.as_deref()),
            Some(id) => resume_line(id, death.as_deref()),
        };
        let (code, written) = process(stage, &crashed, &line)?;
        let died = code == Some(i32::from(exit::CRASHED));
        if died != death.is_some() {
            let refused = Refusal::usage(match death {
                Some(death) => {
                    format!("the moment {death} did not come in this run, which ended with {code:?}")
                }
                None => format!("it died once more, with {code:?}"),
            });
            return Ok(render::refused(format, &refused));
        }
        session = session.or_else(|| only_session(&crashed));
        match death {
            Some(_) => {
                say(&format!("  a process died ({}), and `countersign resume` goes on", exit::CRASHED))
            }
            None => last = Some(result(code, written)?),
        }
    }
    let (Some(session), Some(end)) = (session, last) else {
        return Err(Refusal::bug("a run that died left no session and no result"));
    };
    say(&format!("  {}", told(&end)));
    let differences = differences(&ended, &end);
    let code = if differences.is_empty() { exit::DONE } else { exit::NEGATIVE };
    if tells && differences.is_empty() {
        terminal::out_line("Both came to the same end: outcome, gates, tree, patch and evidence are equal.");
    } else if tells {
        terminal::out_line("The ends differ; this is a defect, please report it:");
        for difference in &differences {
            terminal::out_line(&format!("  {difference}"));
        }
    } else {
        let processes = deaths.len();
        let shown = Shown {
            schema: SCHEMA,
            at: at.to_string(),
            session,
            processes,
            differences,
            undisturbed: ended,
            crashed: end,
        };
        let line = serde_json::to_string(&shown).map_err(|error| Refusal::bug(error.to_string()))?;
        terminal::out_line(&line);
    }
    Ok(code)
}

fn run_line(stage: &Stage, death: Option<&str>) -> Vec<std::ffi::OsString> {
    let mut model = std::ffi::OsString::from("scripted:");
    model.push(&stage.scripts[FIX]);
    let mut line: Vec<std::ffi::OsString> = ["run", TASK, "--trust", "trusted-local", "--sandbox", "native"]
        .into_iter()
        .chain(["--check", CHECK, "--probe", "sh -n total.sh", "--protect", "tests/**"])
        .map(Into::into)
        .collect();
    line.extend(["--repo".into(), stage.project.clone().into(), "--model".into(), model]);
    line.extend(["--config".into(), stage.config.clone().into()]);
    ending(line, death)
}

fn resume_line(session: &str, death: Option<&str>) -> Vec<std::ffi::OsString> {
    ending(vec!["resume".into(), session.into()], death)
}

fn ending(mut line: Vec<std::ffi::OsString>, death: Option<&str>) -> Vec<std::ffi::OsString> {
    line.extend(["--format", "json", "--trace", "off"].map(Into::into));
    if let Some(death) = death {
        line.extend(["--crash-at".into(), death.into()]);
    }
    line
}

/// This program again, as a process that may die. Its exit code, and what it wrote.
fn process(
    stage: &Stage,
    home: &Path,
    line: &[std::ffi::OsString],
) -> Result<(Option<i32>, Vec<u8>), Refusal> {
    let program = std::env::current_exe()
        .map_err(|error| Refusal::usage(format!("this program's own file cannot be found: {error}")))?;
    let output = Process::new(&program)
        .args(line)
        .current_dir(&stage.project)
        .env("COUNTERSIGN_HOME", home)
        .env_remove("COUNTERSIGN_MODEL")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Refusal::usage(format!("{} cannot be started: {error}", program.display())))?;
    Ok((output.status.code(), output.stdout))
}

/// The one result object of a process that came to its end.
fn result(code: Option<i32>, written: Vec<u8>) -> Result<Value, Refusal> {
    let result: Value = serde_json::from_slice(&written)
        .map_err(|error| Refusal::bug(format!("a process ended with {code:?} and no result: {error}")))?;
    if result["outcome"] == "setup_error" {
        let message = result["error"]["message"].as_str().unwrap_or("the run could not be set up").to_owned();
        return Err(Refusal::usage(message));
    }
    Ok(result)
}

fn told(result: &Value) -> String {
    let text = |key: &str| result[key].as_str().unwrap_or("none").to_owned();
    format!("{} ({}), tree {}", text("outcome"), text("reason"), text("tree"))
}

/// The session that the dead process left: the home is new and has one.
fn only_session(home: &Path) -> Option<String> {
    let mut names = std::fs::read_dir(home.join("sessions"))
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let first = names.next()?;
    names.next().is_none().then_some(first)
}

/// The pointers at which two results differ although they must not.
fn differences(one: &Value, other: &Value) -> Vec<String> {
    let allowed: Vec<Vec<&str>> = MAY_DIFFER
        .lines()
        .filter(|line| line.starts_with('/'))
        .map(|line| line[1..].split('/').collect())
        .collect();
    let mut found = Vec::new();
    compare(one, other, &mut Vec::new(), &allowed, &mut found);
    found
}

fn compare(one: &Value, other: &Value, at: &mut Vec<String>, allowed: &[Vec<&str>], found: &mut Vec<String>) {
    let may = allowed.iter().any(|pattern| {
        pattern.len() == at.len()
            && pattern.iter().zip(at.iter()).all(|(part, key)| *part == "*" || part == key)
    });
    if may {
        return;
    }
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                at.push(key.clone());
                let null = Value::Null;
                compare(one.get(key).unwrap_or(&null), other.get(key).unwrap_or(&null), at, allowed, found);
                at.pop();
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                at.push(index.to_string());
                compare(one, other, at, allowed, found);
                at.pop();
            }
        }
        _ if one == other => {}
        _ => found.push(format!("/{}: {one} and {other}", at.join("/"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_listed_may_differ() {
        let one = json!({ "session": "a", "tree": "1", "usage": { "model_calls": 5, "turns": 5 }, "gates": [{ "status": "passed" }] });
        let mut other = one.clone();
        other["session"] = json!("b");
        other["usage"]["model_calls"] = json!(6);
        assert_eq!(differences(&one, &other), Vec::<String>::new());
        other["gates"][0]["status"] = json!("failed");
        other["tree"] = Value::Null;
        assert_eq!(
            differences(&one, &other),
            ["/gates/0/status: \"passed\" and \"failed\"", "/tree: \"1\" and null"]
        );
        assert_eq!(differences(&json!([1]), &json!([1, 2])).len(), 1);
    }
}
