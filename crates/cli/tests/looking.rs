//! What looks at sessions: `list` and its filters, `show`, and the report of a run.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use common::Place;
use project::{PROJECT, checked, edit, finish, repository, script};
use serde_json::{Value, json};

fn listed(place: &Place, args: &[&str]) -> Vec<String> {
    let ended = place.run(&[&["list", "--format", "json"], args].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let rows: Value = serde_json::from_str(&ended.stdout).unwrap();
    rows.as_array().unwrap().iter().map(|row| row["session"].as_str().unwrap().to_owned()).collect()
}

/// Verified, unverified, and one that was refused before it began, all in `repo/`.
fn three(place: &Place) -> [String; 3] {
    repository(place, PROJECT);
    let run = |to: &str| {
        let model = script(place, "m.json", &json!([edit("answer", "41", to), finish("It is done.")]));
        checked(place, &model, &[]).json()["session"].as_str().unwrap().to_owned()
    };
    let (good, bad) = (run("42"), run("40"));
    let refused = checked(place, "scripted:/nowhere.json", &[]).ended("setup_error", "usage");
    [good, bad, refused["session"].as_str().unwrap().to_owned()]
}

#[test]
fn every_run_is_listed_and_shown_also_one_that_was_refused() {
    let Some(place) = project::place("every_run_is_listed_and_shown_also_one_that_was_refused") else {
        return;
    };
    let all = three(&place);
    let mut ids = listed(&place, &[]);
    ids.sort();
    let mut expected = all.to_vec();
    expected.sort();
    assert_eq!(ids, expected);
    for (id, outcome) in all.iter().zip(["verified", "unverified", "setup_error"]) {
        let shown = place.run(&["show", id]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(shown.stdout.contains("make it 42"), "{shown:?}");
        assert!(shown.stdout.lines().last().unwrap().starts_with(outcome), "{shown:?}");
    }
}

#[test]
fn a_list_is_narrowed_by_outcome_reason_place_and_time() {
    let Some(place) = project::place("a_list_is_narrowed_by_outcome_reason_place_and_time") else { return };
    let [good, bad, refused] = three(&place);
    place.write("plain/file", "x\n");
    let model = place.says("s.json", "Nothing.");
    let asked = place
        .run(&[
            "ask",
            "what?",
            "--trust",
            "trusted-local",
            "--repo",
            "plain",
            "--model",
            &model,
            "--format",
            "json",
        ])
        .ended("answered", "no_claim");
    let asked = asked["session"].as_str().unwrap().to_owned();
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    let cases: [(&[&str], Vec<&String>); 12] = [
        (&["--outcome", "verified"], vec![&good]),
        (&["--outcome", "verified", "--outcome", "setup_error"], vec![&good, &refused]),
        (&["--reason", "check_failed"], vec![&bad]),
        (&["--outcome", "verified", "--reason", "check_failed"], vec![]),
        (&["--outcome", "parked"], vec![]),
        (&["--repo", "repo"], vec![&good, &bad, &refused]),
        (&["--repo", "repo/tests"], vec![&good, &bad, &refused]),
        (&["--repo", "plain"], vec![&asked]),
        (&["--since", "1h"], vec![&good, &bad, &refused, &asked]),
        (&["--since", "2000-01-01", "--repo", "plain"], vec![&asked]),
        (&["--since", "2999-01-01"], vec![]),
        (&["--repo", "repo", "--since", "2h", "--outcome", "setup_error"], vec![&refused]),
    ];
    for (args, expected) in cases {
        assert_eq!(listed(&place, args).len(), expected.len(), "{args:?}");
        let expected = sorted(expected.into_iter().cloned().collect());
        assert_eq!(sorted(listed(&place, args)), expected, "{args:?}");
    }
    // The limit counts what is shown, not what was looked at.
    assert_eq!(listed(&place, &["--outcome", "verified", "--limit", "1"]), [good]);
    let none = place.run(&["list", "--outcome", "stuck"]);
    assert!(none.stdout.contains("no session is like that"), "{none:?}");
    for (args, part) in [
        (["--outcome", "passed"], "scope_violation"),
        (["--reason", "none"], "no_check"),
        (["--since", "7"], "2026-11-30"),
        (["--repo", "nowhere"], "--repo nowhere"),
    ] {
        let refused = place.run(&[&["list"], &args[..]].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(part), "{args:?}: {refused:?}");
    }
}

#[test]
fn a_report_has_outcome_gates_diff_cost_and_next_step() {
    let Some(place) = project::place("a_report_has_outcome_gates_diff_cost_and_next_step") else { return };
    repository(&place, PROJECT);
    let hostile = "Done.\n```\n<script>alert(1)</script>\n\u{202e}\u{1b}[2J![x](https://h/x.png)";
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish(hostile)]));
    let file = place.write("report.md", "an old one");
    let result = checked(&place, &model, &["--report", "report.md"]).ended("verified", "checks_passed");
    let report = std::fs::read_to_string(&file).unwrap();
    let id = result["session"].as_str().unwrap();
    for part in [
        "## Countersign: `verified`",
        "- **check** passed",
        "-41\n+42\n",
        "- **Cost:** unknown",
        "### Next step",
        &format!("countersign apply {id} --commit"),
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!report.contains(['\u{202e}', '\u{1b}']), "{report}");
    // What is hostile stands in a block that is opened with more marks than it holds.
    assert!(report.contains("````text\nDone.\n```\n<script>"), "{report}");
    for args in [&["report", id][..], &["show", id, "--format", "markdown"], &["show", id, "--format", "md"]]
    {
        assert_eq!(place.run(args).stdout, report, "{args:?}");
    }
    // `gate` and `ask` write one too, also when nothing could begin.
    let ended = place.run(&[
        "gate",
        "--trust",
        "trusted-local",
        "--repo",
        "repo",
        "--base",
        "HEAD",
        "--head",
        "HEAD",
        "--check",
        "true",
        "--report",
        "gate.md",
        "--format",
        "json",
    ]);
    assert_eq!(ended.json()["outcome"], "setup_error");
    let gate = std::fs::read_to_string(place.path("gate.md")).unwrap();
    assert!(gate.contains("## Countersign: `setup_error`") && gate.contains("### Next step"), "{gate}");
    for (at, part) in
        [("no/such/r.md", "make it first"), ("repo", "no regular file"), ("link", "no regular file")]
    {
        if at == "link" {
            std::os::unix::fs::symlink("report.md", place.path(at)).unwrap();
        }
        let refused = checked(&place, &model, &["--report", at]).ended("setup_error", "usage");
        assert!(refused["error"]["message"].as_str().unwrap().contains(part), "{at}: {refused}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), report, "a link is not followed");
    // A patch that is not the recorded one is not shown.
    std::fs::write(place.path("home/sessions").join(id).join("patch.diff"), "forged").unwrap();
    let report = place.run(&["report", id]).stdout;
    assert!(
        !report.contains("forged") && report.contains("which is not shown: its file was changed"),
        "{report}"
    );
}

#[test]
fn every_refusal_says_what_where_and_what_to_do() {
    let Some(place) = project::place("every_refusal_says_what_where_and_what_to_do") else { return };
    place.write("repo/file", "x\n");
    let unknown = ["show", "diff", "apply", "report", "watch", "events", "resume"]
        .map(|command| (vec![command, "s-1"], "there is no session s-1", "`countersign list`"));
    let run = |extra: &[&'static str]| [&["run", "t", "--repo", "repo"], extra].concat();
    let gate = |extra: &[&'static str]| [&["gate", "--trust", "reviewed", "--tree", "repo"], extra].concat();
    let trusted = |extra: &[&'static str]| run(&[&["--trust", "trusted-local"], extra].concat());
    let others = [
        (vec!["export", "s-1", "out"], "there is no session s-1", "`countersign list`"),
        (vec!["show", "../x"], "'../x'", "1 to 64 of a-z"),
        (vec!["nonsense"], "'nonsense'", "--help"),
        (vec!["run", "--bogus"], "'--bogus'", "--help"),
        (run(&[]), "no trust level", "--trust LEVEL"),
        (trusted(&["--no-check"]), "no model", "--model provider:model"),
        (trusted(&["--check", "a | b"]), "--check", "--check-argv"),
        (trusted(&["--config", "/nowhere"]), "/nowhere", "hint: "),
        (gate(&["--repo", "repo", "--profile", "nope"]), "nope", "countersign profile"),
        (gate(&["--repo", "/nowhere", "--check", "x"]), "/nowhere", "hint: "),
        (vec!["verify", "repo"], "repo is no bundle", "`countersign show SESSION`"),
        (vec!["key", "show", "/nowhere"], "/nowhere", "hint: "),
        (vec!["profile", "show", "nope"], "`nope`", "`countersign profile register DIR`"),
        (vec!["profile", "register", "repo"], "repo", "hint: "),
        (vec!["init", "--trust", "reviewed", "--repo", "/nowhere"], "/nowhere", "--repo takes"),
    ];
    for (args, what, advice) in unknown.into_iter().chain(others) {
        let ended = place.run(&args);
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(what) && ended.stderr.contains(advice), "{args:?}: {ended:?}");
    }
}
