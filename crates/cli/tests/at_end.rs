//! `run --at-end`: what becomes of the patch when a run is over, and who is asked.

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/pty.rs"]
mod pty;

use std::process::Command;

use common::{Ended, Place};
use project::{CHECK, PROJECT, args, edit, finish, git, repository, script, until};
use pty::{Pty, without_terminal};
use serde_json::{Value, json};

/// A run in `repo/` whose agent writes `to`, with a git identity.
fn run(place: &Place, to: &str, at_end: &str) -> Command {
    let model = script(place, "m.json", &json!([edit("answer", "41", to), finish("Done.")]));
    let args = args(place, &model, &["--check", CHECK, "--format", "json", "--at-end", at_end]);
    let mut command = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Ada")
            .env(format!("GIT_{role}_EMAIL"), "ada@example.invalid");
    }
    command
}

fn commits(place: &Place) -> String {
    git(&place.path("repo"), &["rev-list", "--count", "HEAD"])
}

#[test]
fn without_a_terminal_a_run_that_would_ask_is_refused_before_the_agent_starts() {
    let test = "without_a_terminal_a_run_that_would_ask_is_refused_before_the_agent_starts";
    let Some(place) = Place::new(test) else { return };
    repository(&place, PROJECT);
    // Somebody who could be asked on standard input is not asked there.
    let mut command = without_terminal(&run(&place, "42", "ask"));
    command.stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"c\n").unwrap();
    let ended = project::ended(child);
    let result = ended.ended("setup_error", "usage");
    assert!(
        result["error"]["message"].as_str().unwrap().contains("--at-end ask needs a terminal"),
        "{result}"
    );
    // Nothing was begun: the whole journal is the refusal.
    let journal = project::journal(&place, result["session"].as_str().unwrap());
    assert_eq!(journal.len(), 1, "{journal:?}");
}

#[test]
fn a_person_at_the_terminal_decides_what_becomes_of_the_patch() {
    let Some(place) = project::place("a_person_at_the_terminal_decides_what_becomes_of_the_patch") else {
        return;
    };
    let repo = repository(&place, PROJECT);
    let cases = [
        // What is typed, what is said of it, and the commits that there are then.
        ("k\n", "", "1"),
        ("\n", "", "1"),
        ("what?\nd\n", "the patch is discarded", "1"),
        ("c\n", "committed the patch", "2"),
    ];
    for (answers, said, count) in cases {
        let (mut pty, child) = Pty::start(&run(&place, "42", "ask"));
        for (asked, answer) in answers.lines().enumerate() {
            until("the question", || pty.shown().matches("[c/K/d]").count() == asked + 1);
            pty.type_in(&format!("{answer}\n"));
        }
        let ended = project::ended(child);
        let result = ended.ended("verified", "checks_passed");
        assert!(pty.shown().contains("verified (checks_passed)") && pty.shown().contains("modified answer"));
        assert!(ended.stderr.contains(said), "{answers:?}: {ended:?}");
        assert_eq!(commits(&place), count, "{answers:?}");
        let diff = place.run(&["diff", result["session"].as_str().unwrap()]);
        if said.contains("discarded") {
            assert!(diff.code == Some(1) && diff.stderr.contains("it was discarded"), "{diff:?}");
        } else {
            assert!(diff.stdout.contains("+42"), "{diff:?}");
        }
    }
    assert_eq!(git(&repo, &["log", "-1", "--format=%an %s"]), "Ada make it 42");
}

#[test]
fn a_choice_by_flag_asks_nobody_and_changes_no_outcome() {
    let Some(place) = project::place("a_choice_by_flag_asks_nobody_and_changes_no_outcome") else { return };
    repository(&place, PROJECT);
    let ended =
        |to: &str, at_end: &str| Ended::of(without_terminal(&run(&place, to, at_end)).output().unwrap());
    let id = |result: &Value| result["session"].as_str().unwrap().to_owned();
    let wrong = ended("40", "commit");
    wrong.ended("unverified", "check_failed");
    assert!(wrong.stderr.contains("kept and not committed") && commits(&place) == "1", "{wrong:?}");
    let kept = ended("42", "keep").ended("verified", "checks_passed");
    assert!(place.run(&["diff", &id(&kept)]).stdout.contains("+42") && commits(&place) == "1");
    let gone = ended("42", "discard").ended("verified", "checks_passed");
    assert_eq!(place.run(&["diff", &id(&gone)]).code, Some(1));
    // A commit that cannot be made leaves patch and outcome as they are.
    std::fs::write(place.path("repo/answer"), "7\n").unwrap();
    let refused = ended("42", "commit");
    let result = refused.ended("verified", "checks_passed");
    assert!(refused.stderr.contains("the patch is kept") && commits(&place) == "1", "{refused:?}");
    assert!(place.run(&["diff", &id(&result)]).stdout.contains("+42"));
    git(&place.path("repo"), &["checkout", "--quiet", "answer"]);
    ended("42", "commit").ended("verified", "checks_passed");
    assert_eq!(commits(&place), "2");
}
