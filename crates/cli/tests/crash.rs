//! Processes that die: at every named moment of every kind of effect, and the cell's supervisor under a living driver.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::Place;
use project::{kill, sleeps, under_way, until};
use serde_json::Value;

/// Kinds of effects that the demonstration's run has.
const KINDS: &[&str] = &[
    "import",
    "probe",
    "base_run",
    "open",
    "model_call",
    "read_file",
    "run",
    "edit_file",
    "finish",
    "seal",
    "inspect",
    "room",
    "patch",
];

/// Moments around every effect.
const POINTS: &[&str] = &["before-intent", "after-intent", "during-effect", "after-effect", "after-receipt"];

#[test]
fn the_points_are_listed_one_a_line() {
    let Some(place) = Place::new("the_points_are_listed_one_a_line") else { return };
    let listed = place.run(&["crash-demo", "--list"]);
    let points: Vec<&str> = listed.stdout.lines().collect();
    assert!(listed.code == Some(0) && points.len() >= 8, "{listed:?}");
    for wrong in
        [&["crash-demo"][..], &["crash-demo", "--at", "lunch"], &["crash-demo", "--at", "after-end:0"]]
    {
        let refused = place.run(wrong);
        assert!(refused.code == Some(1) && !refused.stderr.is_empty(), "{refused:?}");
    }
    let missed = place.run(&["crash-demo", "--at", "after-intent:mutants"]);
    assert!(missed.code == Some(1) && missed.stderr.contains("did not come"), "{missed:?}");
}

/// Outcome, gates, tree, patch and the rest of the result equal those of the run that nobody disturbed; each effect is
/// completed once; a further resume changes nothing; the evidence is whole; nothing runs on.
#[test]
fn a_process_that_dies_at_any_point_of_any_effect_changes_nothing() {
    let test = "a_process_that_dies_at_any_point_of_any_effect_changes_nothing";
    if Place::new(test).is_none() {
        return;
    }
    let mut moments: Vec<String> =
        ["after-submit", "after-recovery", "after-end", "after-checkpoint:run", "after-checkpoint:edit_file"]
            .map(str::to_owned)
            .to_vec();
    for point in POINTS {
        moments.extend(KINDS.iter().map(|kind| format!("{point}:{kind}")));
    }
    // The second command and the second call as well: what went before them is not lost.
    moments.extend(["during-effect:run:2", "after-effect:model_call:3"].map(str::to_owned));
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(moment) = moments.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if let Err(what) = survives(test, moment) {
                        wrong.lock().unwrap().push(format!("{moment}: {what}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} moments: {wrong:#?}", wrong.len(), moments.len());
}

fn survives(test: &str, moment: &str) -> Result<(), String> {
    let place = Place::new(test).unwrap();
    let kept = place.path("kept");
    let shown =
        place.run(&["crash-demo", "--at", moment, "--keep", kept.to_str().unwrap(), "--format", "json"]);
    if shown.code != Some(0) {
        return Err(format!("{:.2000}", format!("{shown:?}")));
    }
    let shown: Value = serde_json::from_str(&shown.stdout).map_err(|error| error.to_string())?;
    let session = shown["session"].as_str().unwrap();
    let home = kept.join("crashed");
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("COUNTERSIGN_HOME", &home);
        project::ended(command.spawn().unwrap())
    };
    let journal = run(&["events", session, "--format", "ndjson"]).stdout;
    let mut done: Vec<String> = Vec::new();
    for line in journal.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if event["kind"] == "effect_completed" {
            done.push(event["data"]["effect"].to_string());
        }
    }
    let all = done.len();
    done.sort_unstable();
    done.dedup();
    if done.len() != all || all == 0 {
        return Err(format!("{} effects were completed {all} times", done.len()));
    }
    let again = run(&["resume", session, "--format", "json"]);
    if again.code != Some(0) || run(&["events", session, "--format", "ndjson"]).stdout != journal {
        return Err(format!("a further resume changed something: {again:?}"));
    }
    let bundle = shown["crashed"]["bundle"].as_str().ok_or("there is no bundle")?;
    // Signed by this machine's key, which nobody trusts by itself.
    let verified = run(&["verify", bundle]);
    if !verified.stdout.contains("intact    yes") || !verified.stdout.contains("verified (checks_passed)") {
        return Err(format!("its bundle does not stand: {verified:?}"));
    }
    Ok(())
}

#[test]
fn a_cell_whose_supervisor_is_killed_is_replaced() {
    let Some(place) = project::place("a_cell_whose_supervisor_is_killed_is_replaced") else { return };
    let (child, seconds) = under_way(&place);
    let launchers = project::processes(|_, program| program.ends_with("countersign-jail"));
    let launcher = launchers.iter().find(|(_, parent)| *parent == child.id()).expect("the driver's launcher");
    let listed: Value = serde_json::from_str(&place.run(&["list", "--format", "json"]).stdout).unwrap();
    let session = listed[0]["session"].as_str().unwrap();
    kill("KILL", launcher.0);
    until("a decision on the dead cell", || {
        project::journal(&place, session).iter().any(|event| event["kind"] == "recovered")
    });
    until("the agent's command again", || sleeps(&seconds));
    kill("INT", child.id());
    project::ended(child).ended("canceled", "signal");
    until("the end of every command", || !sleeps(&seconds));
}
