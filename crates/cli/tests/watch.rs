//! `watch`: another process's session, followed through the journal, read only.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/pty.rs"]
mod pty;

use common::Place;
use project::{
    CHECK, PROJECT, checked, edit, finish, kill, repository, script, sh, sleeps, snapshot, under_way, until,
};
use pty::Pty;
use serde_json::{Value, json};

fn newest(place: &Place) -> String {
    let rows: Value = serde_json::from_str(&place.run(&["list", "--format", "json"]).stdout).unwrap();
    rows[0]["session"].as_str().unwrap().to_owned()
}

/// The pid of the only `sleep` of these seconds.
fn sleeper(seconds: &str) -> u32 {
    let wanted = format!("sleep\0{seconds}\0");
    project::processes(|line, _| line == wanted.as_bytes())[0].0
}

#[test]
fn a_running_session_is_followed_to_its_end_in_the_lines_of_its_own_trace() {
    let test = "a_running_session_is_followed_to_its_end_in_the_lines_of_its_own_trace";
    let Some(place) = project::place(test) else { return };
    let (run, seconds) = under_way(&place);
    let id = newest(&place);
    let watcher = place.command(&["watch", &id]).spawn().unwrap();
    let (pty, screen) = Pty::whole(place.command(&["watch", &id]).env("TERM", "xterm"));
    until("the screen", || pty.shown().contains("now: the tool"));
    // The agent's command ends, and the agent goes on.
    kill("KILL", sleeper(&seconds));
    let run = project::ended(run);
    run.ended("verified", "checks_passed");
    let told = project::ended(watcher);
    assert_eq!(told.code, Some(0), "{told:?}");
    // Without times, which are measured at two places, the lines are the run's own.
    let timeless = |line: &str| -> String { line.split("  ").take(2).collect::<Vec<_>>().join("  ") };
    let own: Vec<String> =
        run.stderr.lines().filter(|line| !line.starts_with("note: ")).map(timeless).collect();
    let lines: Vec<String> = told.stdout.lines().map(timeless).collect();
    let (last, followed) = lines.split_last().unwrap();
    assert!(last.starts_with("verified (checks_passed) · "), "{told:?}");
    for line in followed {
        assert!(own.contains(line), "{line}: {own:#?}");
    }
    for part in
        ["base: red", "run: sleep", "edit_file: answer", "room: sh tests/check.sh", "gate check passed"]
    {
        assert!(followed.iter().any(|line| line.contains(part)), "{part}: {followed:#?}");
    }
    let ended = project::ended(screen);
    assert_eq!(ended.code, Some(0), "{}", pty.shown());
    until("the summary", || pty.shown().contains("verified (checks_passed) · "));
    for part in ["step 1 of ", " elapsed", "gates: "] {
        assert!(pty.shown().contains(part), "{part}: {}", pty.shown());
    }
}

#[test]
fn leaving_touches_nothing_and_the_keyboard_is_as_it_was() {
    let Some(place) = project::place("leaving_touches_nothing_and_the_keyboard_is_as_it_was") else { return };
    let (run, seconds) = under_way(&place);
    let id = newest(&place);
    let before = snapshot(&place.path("home/sessions"));
    for key in ["q", "\u{3}"] {
        let (mut pty, child) = Pty::whole(place.command(&["watch", &id]).env("TERM", "xterm"));
        until("the screen", || pty.shown().contains("q leaves"));
        assert!(!pty.echoes(), "keys are not shown while the view is drawn");
        pty.type_in(key);
        assert_eq!(project::ended(child).code, Some(0), "{key:?}");
        assert!(pty.echoes(), "{key:?}: the terminal is as it was");
    }
    assert_eq!(snapshot(&place.path("home/sessions")), before, "nothing was touched");
    let row = place.run(&["list"]).stdout;
    assert!(row.contains("running"), "{row}");
    kill("KILL", sleeper(&seconds));
    project::ended(run).ended("verified", "checks_passed");
}

#[test]
fn what_is_over_or_lost_or_parked_is_said_and_never_waited_for() {
    let Some(place) = project::place("what_is_over_or_lost_or_parked_is_said_and_never_waited_for") else {
        return;
    };
    let (run, seconds) = under_way(&place);
    let id = newest(&place);
    kill("KILL", run.id());
    project::ended(run);
    until("the end of the agent's command", || !sleeps(&seconds));
    let lost = place.run(&["watch", &id]);
    assert!(lost.code == Some(2) && lost.stdout.contains("countersign resume"), "{lost:?}");
    let resumed = place.command(&["resume", &id, "--format", "json"]).spawn().unwrap();
    until("the agent's command again", || sleeps(&seconds));
    kill("INT", resumed.id());
    project::ended(resumed).ended("canceled", "signal");
    let over = place.run(&["watch", &id]);
    assert!(over.code == Some(0) && over.stdout.contains("canceled (signal)"), "{over:?}");
    let refused = checked(&place, "scripted:/nowhere.json", &[]).ended("setup_error", "usage");
    let over = place.run(&["watch", refused["session"].as_str().unwrap()]);
    assert!(over.code == Some(0) && over.stdout.starts_with("setup_error (usage)"), "{over:?}");
    assert_eq!(place.run(&["watch", "s-1"]).code, Some(1));
}

#[test]
fn nothing_that_an_agent_writes_moves_the_cursor_of_a_watcher() {
    let Some(place) = project::place("nothing_that_an_agent_writes_moves_the_cursor_of_a_watcher") else {
        return;
    };
    repository(&place, PROJECT);
    let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}\u{9b}31m\r";
    let said = json!({ "text": hostile, "calls": [
        { "tool": "run", "args": { "command": format!("printf '{hostile}'; true {hostile}") } }] });
    let turns = json!([said, sh("true"), edit("answer", "41", "42"), finish(hostile)]);
    let result = checked(&place, &script(&place, "m.json", &turns), &[]).ended("verified", "checks_passed");
    let id = result["session"].as_str().unwrap();
    let told = place.run(&["watch", id, "--plain"]);
    assert_eq!(told.code, Some(0));
    let odd = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!told.stdout.contains(odd), "{:?}", told.stdout);
    assert!(told.stdout.contains("\\u{1b}[2J"), "it is shown as what it is: {:?}", told.stdout);
    assert!(told.stdout.contains(CHECK.split(' ').next_back().unwrap()));
}
