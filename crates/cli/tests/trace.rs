//! What a person reads on standard error while a run goes on, and the journal followed by a program.

mod common;
#[path = "common/project.rs"]
mod project;

use std::io::{BufRead as _, BufReader};

use project::{CHECK, PROJECT, args, edit, finish, kill, odd_seconds, repository, script, sleeps, until};
use serde_json::{Value, json};

/// Times, durations and commits are other ones in every run, and limits of a sandbox on other machines.
fn timeless(text: &str) -> String {
    let word = |word: &str| -> String {
        let bare = word.trim_matches(['(', ')', ',']);
        let clock = bare.len() == 12 && bare.chars().filter(|c| *c == ':').count() == 2;
        let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || c == '.');
        let duration = bare.strip_suffix("ms").or_else(|| bare.strip_suffix('s')).is_some_and(digits);
        let commit = bare.len() == 12 && bare.chars().all(|c| c.is_ascii_hexdigit());
        if clock || duration || commit { word.replace(bare, "…") } else { word.to_owned() }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let sandbox = |line: String| match line.split_once("sandbox native: ") {
        Some((before, _)) => format!("{before}sandbox native: …"),
        None => line,
    };
    text.lines().map(line).map(sandbox).map(|line| line + "\n").collect()
}

#[test]
fn each_density_of_the_trace_is_what_it_was() {
    let Some(place) = project::place("each_density_of_the_trace_is_what_it_was") else { return };
    repository(&place, PROJECT);
    let long = format!("I look.\n{}", "and look \u{1b}[31m\n".repeat(60));
    let turns = json!([
        { "text": long, "calls": [{ "tool": "run", "args": { "command": "seq 1 60; exit 3" } }] },
        edit("answer", "40", "42"),
        edit("answer", "41", "42"),
        finish("It is 42 now.")
    ]);
    let model = script(&place, "m.json", &turns);
    for mode in ["full", "compact", "off"] {
        let args = args(&place, &model, &["--check", CHECK, "--format", "json", "--trace", mode]);
        let ended = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        ended.ended("verified", "checks_passed");
        insta::assert_snapshot!(mode, timeless(&ended.stderr).replace(", known from an earlier run", ""));
    }
}

#[test]
fn a_long_silence_is_broken_by_what_is_under_way() {
    let Some(place) = project::place("a_long_silence_is_broken_by_what_is_under_way") else { return };
    repository(&place, PROJECT);
    let seconds = odd_seconds();
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("Done.")]));
    let setup = format!("sleep {seconds}");
    let args = args(&place, &model, &["--check", CHECK, "--setup", &setup, "--format", "json"]);
    let mut child = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("… setup: ") && line.ends_with("so far")));
    kill("INT", child.id());
    let rest = std::thread::spawn(move || lines.count());
    project::ended(child).ended("canceled", "signal");
    rest.join().unwrap();
    until("the end of the setup", || !sleeps(&seconds));
}

#[test]
fn the_journal_is_followed_line_by_line_to_the_end_of_the_session() {
    let test = "the_journal_is_followed_line_by_line_to_the_end_of_the_session";
    let Some(place) = project::place(test) else { return };
    let (run, seconds) = project::under_way(&place);
    let rows: Value = serde_json::from_str(&place.run(&["list", "--format", "json"]).stdout).unwrap();
    let id = rows[0]["session"].as_str().unwrap().to_owned();
    let mut child = place.command(&["events", &id, "--follow", "--format", "ndjson"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let first: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!(first["seq"], 1, "what was before is told too");
    let sleeper = format!("sleep\0{seconds}\0");
    kill("KILL", project::processes(|line, _| line == sleeper.as_bytes())[0].0);
    project::ended(run).ended("verified", "checks_passed");
    let followed: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(project::ended(child).code, Some(0));
    let whole = project::journal(&place, &id);
    assert_eq!(followed, whole[1..], "every event once, in order, up to the end");
    assert_eq!(place.run(&["events", &id, "--follow", "--format", "ndjson"]).code, Some(0));
}
