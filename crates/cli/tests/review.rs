//! The review by a second model, whole runs of the real binary: it advises, and blocks only with a command that was seen to
//! fail on the work and to pass on the base.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use serde_json::{Value, json};

use crate::common::{Ended, Place};
use crate::project::{args, checked, finish, git, journal, place, repository, script, sh};

/// Red until `answer` holds 42; what `double.sh` does is nobody's check.
const FILES: &[(&str, &str)] = &[
    ("answer", "41\n"),
    ("double.sh", "#!/bin/sh\necho $(( $1 * 2 ))\n"),
    ("tests/check.sh", "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || { echo 'FAILED: not 42'; exit 1; }\n"),
];

/// The work that passes the check and breaks something else.
const BREAKS: &str = "echo 42 > answer; sed -i 's/ 2 / 3 /' double.sh";

/// Fails where doubling is broken.
const DOUBLES: [&str; 3] =
    ["sh", "-c", "[ \"$(sh double.sh 2)\" = 4 ] || { echo 'two times two is not four'; exit 1; }"];

/// A finding about the broken line, with more or other fields.
fn finding(more: Value) -> Value {
    let mut finding = json!({
        "file": "double.sh", "quote": "$1 * 3", "severity": "blocker", "confidence": 9,
        "failure_scenario": "two times two is six",
    });
    for (key, value) in more.as_object().unwrap() {
        finding[key] = value.clone();
    }
    finding
}

fn says(findings: &[Value]) -> Value {
    json!({ "text": json!({ "findings": findings }).to_string() })
}

/// A run with the agent's and the reviewer's script.
fn reviewed(place: &Place, agent: &Value, reviewer: &Value, extra: &[&str]) -> Ended {
    repository(place, FILES);
    let agent = script(place, "agent.json", agent);
    let reviewer = script(place, "reviewer.json", reviewer);
    checked(place, &agent, &[&["--review-model", &reviewer], extra].concat())
}

/// Work that breaks something, and one review of it.
fn once(place: &Place, reviewer: &Value, extra: &[&str]) -> Ended {
    reviewed(place, &json!([sh(BREAKS), finish("done")]), reviewer, extra)
}

fn fates(result: &Value) -> Vec<&str> {
    let findings = result["gates"]["review"]["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["fate"].as_str().unwrap()).collect()
}

#[test]
fn a_finding_blocks_only_with_a_command_that_was_seen_to_fail() {
    let Some(place) = place("a_finding_blocks_only_with_a_command_that_was_seen_to_fail") else { return };
    let findings = [
        // Nobody wrote this, whatever its command shows.
        finding(json!({ "quote": "$1 * 4", "repro": DOUBLES })),
        finding(json!({ "file": "../double.sh", "repro": DOUBLES })),
        finding(json!({ "repro": DOUBLES })),
        finding(json!({ "quote": "echo", "confidence": 7, "repro": ["true"] })),
        finding(json!({ "quote": "#!/bin/sh", "confidence": 8, "repro": ["true"] })),
        // As red on the base: it shows nothing of this change.
        finding(json!({ "file": "answer", "quote": "42", "confidence": 6, "repro": ["sh", "-c", "exit 1"] })),
        // It would make its own truth.
        finding(json!({ "file": "tests/check.sh", "quote": "exit 1", "confidence": 10,
            "repro": ["sh", "-c", "echo 41 > answer; exit 1"] })),
        finding(json!({ "quote": "* 3", "severity": "note" })),
        finding(json!({ "quote": "3 ))", "confidence": 4 })),
        finding(json!({ "quote": "bin/sh", "confidence": 7 })),
    ];
    let reviewer = json!([says(&findings), { "text": "{\"repros\": []}" }]);
    let result = once(&place, &reviewer, &[]).ended("unverified", "check_failed");
    let review = &result["gates"]["review"];
    let expected = [
        "dropped", "dropped", "blocked", "refuted", "advised", "advised", "dropped", "note", "note",
        "advised",
    ];
    assert_eq!(fates(&result), expected, "{review:#}");
    assert_eq!(review["status"], "failed", "{review:#}");
    let ends = |at: usize| {
        (
            review["findings"][at]["on_final"]["code"].clone(),
            review["findings"][at]["on_base"]["code"].clone(),
        )
    };
    assert_eq!(ends(2), (json!(1), json!(0)));
    assert_eq!(ends(5), (json!(1), json!(1)));
    assert_eq!(result["gates"]["check"]["status"], "passed", "the check has its own say");
    assert!(review["model"].as_str().unwrap().starts_with("scripted:"));
    assert_eq!((&review["rounds"], &review["same_model"]), (&json!(1), &json!(false)));
    // The grave one without a command was asked for one, once.
    let asked: Vec<bool> =
        review["findings"].as_array().unwrap().iter().map(|f| f["asked"].as_bool().unwrap()).collect();
    assert_eq!(asked.iter().filter(|asked| **asked).count(), 1);
    assert!(asked[9]);
    assert_eq!(review["usage"]["model_calls"], 2);
    assert_eq!(result["usage"]["model_calls"], 2, "the agent's own");
    assert!(result["cost"].is_null(), "unknown in a part is unknown in all");
    // What is delivered is what was judged, whatever the commands of the review did.
    let session = result["session"].as_str().unwrap();
    let shown = place.run(&["diff", session]).stdout;
    assert!(shown.contains("+42") && !shown.contains("repro"), "{shown}");
}

/// A check may have the host's network where the contract says so. What a stranger's command reaches would be the stranger's.
#[test]
fn commands_of_a_review_have_no_network_whatever_the_contract_says() {
    let name = "commands_of_a_review_have_no_network_whatever_the_contract_says";
    let Some(place) = place(name) else { return };
    if !std::path::Path::new("/usr/bin/bash").exists() {
        eprintln!("SKIPPED: {name}: bash is not here");
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reach = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let reviewer = json!([says(&[finding(json!({ "confidence": 7, "repro": ["bash", "-c", reach] }))])]);
    let result = once(&place, &reviewer, &["--network", "host"]).ended("verified", "checks_passed");
    let found = &result["gates"]["review"]["findings"][0];
    // Where the command got through it would pass, and refute.
    assert_eq!((&found["fate"], &found["on_final"]["code"]), (&json!("advised"), &json!(1)), "{found:#}");
}

#[test]
fn a_grave_finding_is_asked_once_for_a_command_that_then_decides() {
    let Some(place) = place("a_grave_finding_is_asked_once_for_a_command_that_then_decides") else { return };
    let findings = [finding(json!({})), finding(json!({ "quote": "echo", "confidence": 7 }))];
    let commands = json!({ "repros": [{ "finding": 1, "argv": DOUBLES }] }).to_string();
    // A third entry would be used by a second question.
    let reviewer = json!([says(&findings), { "text": commands }, { "text": commands }]);
    let result = once(&place, &reviewer, &[]).ended("unverified", "check_failed");
    assert_eq!(fates(&result), ["blocked", "advised"]);
    assert_eq!(result["gates"]["review"]["usage"]["model_calls"], 2);
    // An answer that never comes takes nothing from the first, and blocks nothing.
    let reviewer = json!([says(&findings), { "error": { "status": 401 } }]);
    let result = once(&place, &reviewer, &["--review-required"]).ended("verified", "checks_passed");
    assert_eq!(
        (fates(&result), &result["gates"]["review"]["status"]),
        (vec!["advised", "advised"], &json!("passed"))
    );
}

#[test]
fn advice_is_shown_and_stops_nothing() {
    let Some(place) = place("advice_is_shown_and_stops_nothing") else { return };
    let hostile = "@somebody ![x](http://h/i.png) <img src=x>\u{1b}[2J\n# heading";
    let findings = [finding(json!({ "confidence": 6, "failure_scenario": hostile }))];
    let ended = once(&place, &json!([says(&findings)]), &["--review-required"]);
    let result = ended.ended("verified", "checks_passed");
    assert_eq!((fates(&result), &result["gates"]["review"]["status"]), (vec!["advised"], &json!("passed")));
    assert!(ended.stderr.contains("1 advised"), "{}", ended.stderr);
    let session = result["session"].as_str().unwrap();
    let report = place.run(&["show", session, "--format", "markdown"]).stdout;
    assert!(report.contains("### Review by a second model") && report.contains("**advised**"), "{report}");
    assert!(report.contains("`@somebody ![x](http://h/i.png) <img src=x>"), "in a code span: {report}");
    assert!(!report.contains('\u{1b}') && !report.contains("\n# heading"), "{report}");
    let text = place.run(&["show", session]);
    assert!(text.stdout.contains("review   advised (confidence 6) in double.sh"), "{}", text.stdout);
    assert!(!text.stdout.contains('\u{1b}'));
}

#[test]
fn a_reviewer_that_is_out_is_unverifiable_and_never_a_pass() {
    let Some(place) = place("a_reviewer_that_is_out_is_unverifiable_and_never_a_pass") else { return };
    let mut malformed = finding(json!({ "repro": DOUBLES }));
    malformed["confidence"] = json!("very");
    for (name, reviewer, why) in [
        ("outage", json!([{ "error": { "status": 401 } }]), "could not be made"),
        ("silence", json!([]), "could not be made"),
        ("praise", json!([{ "text": "Looks good to me, approved!" }]), "of no use"),
        ("a verdict", json!([{ "text": "{\"findings\": [], \"status\": \"passed\"}" }]), "of no use"),
        ("calls", json!([{ "calls": [{ "tool": "finish", "args": { "summary": "passed" } }] }]), "of no use"),
        ("bad form", json!([says(&[malformed])]), "of no use"),
    ] {
        let result = once(&place, &reviewer, &[]).ended("verified", "checks_passed");
        let review = &result["gates"]["review"];
        assert_eq!(review["status"], "unverifiable", "{name}: {review:#}");
        assert!(review["detail"].as_str().unwrap().contains(why), "{name}: {review:#}");
        assert!(result["error"].is_null(), "{name}: the outcome is the check's");
        let result = once(&place, &reviewer, &["--review-required"]).ended("unverified", "gate_unverifiable");
        assert_eq!(result["gates"]["review"]["status"], "unverifiable", "{name}");
    }
}

#[test]
fn a_reviewer_that_is_busy_is_asked_again_and_one_beyond_the_budget_is_not() {
    let name = "a_reviewer_that_is_busy_is_asked_again_and_one_beyond_the_budget_is_not";
    let Some(place) = place(name) else { return };
    let busy = json!({ "error": { "status": 503, "retry_after_s": 0.01 } });
    let result = once(&place, &json!([busy, busy, says(&[])]), &[]).ended("verified", "checks_passed");
    let review = &result["gates"]["review"];
    assert_eq!((&review["status"], &review["usage"]["model_calls"]), (&json!("passed"), &json!(3)));
    assert_eq!(review["detail"], "no findings");
    // The agent's one call counts at its clamp, and leaves too little for another.
    let step = json!([{ "calls": [
        { "tool": "run", "args": { "command": BREAKS } },
        { "tool": "finish", "args": { "summary": "done" } },
    ] }]);
    let limited = reviewed(&place, &step, &json!([says(&[])]), &["--max-tokens", "14000"]);
    let result = limited.ended("verified", "checks_passed");
    let review = &result["gates"]["review"];
    assert_eq!((&review["status"], &review["usage"]["model_calls"]), (&json!("unverifiable"), &json!(0)));
    assert!(review["detail"].as_str().unwrap().contains("limits"), "{review:#}");
}

#[test]
fn a_confirmed_blocker_is_work_and_only_its_command_closes_it() {
    let Some(place) = place("a_confirmed_blocker_is_work_and_only_its_command_closes_it") else { return };
    let agent = json!([sh(BREAKS), finish("done"), sh("sed -i 's/ 3 / 2 /' double.sh"), finish("mended")]);
    let reviewer = json!([says(&[finding(json!({ "repro": DOUBLES }))]), says(&[])]);
    let result = reviewed(&place, &agent, &reviewer, &["--attempts", "2"]).ended("verified", "checks_passed");
    let review = &result["gates"]["review"];
    assert_eq!(
        (fates(&result), &review["status"], &review["rounds"]),
        (vec!["repaired"], &json!("passed"), &json!(2))
    );
    let attempts = result["attempts"].as_array().unwrap();
    assert_eq!((&attempts[0]["gate"], &attempts[0]["returned"]), (&json!("review"), &json!(true)));
    let shown = place.run(&["show", result["session"].as_str().unwrap()]).stdout;
    assert!(shown.contains("two times two is not four") && shown.contains("two times two is six"), "{shown}");
}

/// The author says that it is mended, the reviewer has nothing to say any more, and neither of them is asked.
#[test]
fn a_confirmed_blocker_that_comes_back_ends_the_rounds() {
    let Some(place) = place("a_confirmed_blocker_that_comes_back_ends_the_rounds") else { return };
    let agent = json!([
        sh(BREAKS),
        finish("done"),
        sh("echo '# mended' >> double.sh"),
        finish("I fixed it: the finding is closed"),
        finish("never reached"),
    ]);
    let reviewer = json!([says(&[finding(json!({ "repro": DOUBLES }))]), says(&[])]);
    let result = reviewed(&place, &agent, &reviewer, &["--attempts", "5", "--review-rounds", "5"]);
    let result = result.ended("unverified", "check_failed");
    let review = &result["gates"]["review"];
    assert_eq!(
        (fates(&result), &review["status"], &review["rounds"]),
        (vec!["blocked"], &json!("failed"), &json!(1))
    );
    assert_eq!(result["attempts"].as_array().unwrap().len(), 2, "it is not given back again");
    assert_eq!(review["usage"]["model_calls"], 1);
    // A finding that was repaired and is broken again loses that label.
    let agent = json!([
        sh(BREAKS),
        finish("done"),
        sh("sed -i 's/ 3 / 2 /' double.sh"),
        finish("mended"),
        sh("sed -i 's/ 2 / 3 /' double.sh"),
        finish("and broken again"),
    ]);
    let reviewer = json!([
        says(&[finding(json!({ "repro": DOUBLES }))]),
        says(&[finding(
            json!({ "file": "answer", "quote": "42", "repro": ["sh", "-c", "[ $(cat answer) = 41 ]"] })
        )]),
        says(&[]),
    ]);
    let result = reviewed(&place, &agent, &reviewer, &["--attempts", "5", "--review-rounds", "5"]);
    let result = result.ended("unverified", "check_failed");
    assert_eq!(fates(&result)[0], "blocked", "{:#}", result["gates"]["review"]);
    assert_eq!(result["gates"]["review"]["rounds"], 2);
}

#[test]
fn what_the_last_round_confirms_is_final() {
    let Some(place) = place("what_the_last_round_confirms_is_final") else { return };
    let agent = json!([sh(BREAKS), finish("done"), finish("never reached")]);
    let reviewer = json!([says(&[finding(json!({ "repro": DOUBLES }))])]);
    let result = reviewed(&place, &agent, &reviewer, &["--attempts", "5", "--review-rounds", "1"]);
    let result = result.ended("unverified", "check_failed");
    assert_eq!(result["attempts"].as_array().unwrap().len(), 1);
}

#[test]
fn what_no_check_has_passed_is_not_reviewed() {
    let Some(place) = place("what_no_check_has_passed_is_not_reviewed") else { return };
    let agent = json!([sh("echo 43 > answer"), finish("done")]);
    let result = reviewed(&place, &agent, &json!([says(&[])]), &[]).ended("unverified", "check_failed");
    let review = &result["gates"]["review"];
    assert_eq!((&review["status"], &review["usage"]["model_calls"]), (&json!("not_reached"), &json!(0)));
}

#[test]
fn the_agents_own_model_is_no_second_opinion_and_that_is_said() {
    let Some(place) = place("the_agents_own_model_is_no_second_opinion_and_that_is_said") else { return };
    repository(&place, FILES);
    let same = script(&place, "same.json", &json!([sh(BREAKS), finish("done")]));
    let ended = checked(&place, &same, &["--review-model", &same]);
    let result = ended.ended("verified", "checks_passed");
    assert_eq!(result["gates"]["review"]["same_model"], true);
    assert!(ended.stderr.contains("no second opinion"), "{}", ended.stderr);
    assert!(result["degraded"].to_string().contains("no second opinion"), "{}", result["degraded"]);
    // It is never a default: without the flag nobody reviews.
    let result = checked(&place, &same, &[]).ended("verified", "checks_passed");
    assert_eq!(
        (&result["gates"]["review"]["status"], &result["gates"]["review"]["model"]),
        (&json!("absent"), &Value::Null)
    );
}

#[test]
fn work_of_anyone_is_reviewed_without_an_agent() {
    let Some(place) = place("work_of_anyone_is_reviewed_without_an_agent") else { return };
    let repo = repository(&place, FILES);
    let base = git(&repo, &["rev-parse", "HEAD"]);
    std::fs::write(repo.join("answer"), "42\n").unwrap();
    std::fs::write(repo.join("double.sh"), "#!/bin/sh\necho $(( $1 * 3 ))\n").unwrap();
    git(&repo, &["commit", "--quiet", "--all", "--message", "work"]);
    let gate = |reviewer: &Value, extra: &[&str]| {
        let reviewer = script(&place, "reviewer.json", reviewer);
        let repo = repo.display().to_string();
        let base = [
            "gate",
            "--repo",
            &repo,
            "--base",
            &base,
            "--head",
            "HEAD",
            "--trust",
            "reviewed",
            "--check",
            "sh tests/check.sh",
            "--review-model",
            &reviewer,
        ];
        place.run(&[&base, extra].concat())
    };
    let blocks = json!([says(&[finding(json!({ "repro": DOUBLES }))])]);
    let result = gate(&blocks, &["--format", "json"]).ended("unverified", "check_failed");
    assert_eq!((fates(&result), &result["model"]), (vec!["blocked"], &Value::Null));
    let kinds = journal(&place, result["session"].as_str().unwrap());
    let approved = kinds.iter().find(|line| line["kind"] == "turn_approved").unwrap().to_string();
    assert!(approved.contains("review.call") && !approved.contains("model.call"), "{approved}");
    let report = gate(&blocks, &["--format", "markdown"]).stdout;
    assert!(report.contains("a command shows a defect that a second model found"), "{report}");
    let result = gate(&json!([says(&[])]), &["--format", "json"]).ended("verified", "checks_passed");
    assert_eq!(result["gates"]["review"]["status"], "passed");
}

#[test]
fn what_cannot_review_is_refused_before_anything_starts() {
    let Some(place) = place("what_cannot_review_is_refused_before_anything_starts") else { return };
    repository(&place, FILES);
    let agent = script(&place, "agent.json", &json!([sh(BREAKS), finish("done")]));
    for (extra, reason, words) in [
        (&["--review-model", "nonsense"][..], "usage", "--review-model"),
        (&["--review-model", "scripted:/nowhere.json"], "usage", "--review-model"),
        (&["--review-model", "openai:gpt-5"], "key", "--review-api-key-file"),
        (&["--review-model", "openai:m", "--review-base-url", "ftp://h"], "usage", "--review-base-url"),
        (&["--review-rounds", "2"], "usage", "--review-model"),
        (&["--review-required"], "usage", "--review-model"),
        (&["--review-model", &agent, "--review-rounds", "0"], "usage", "--review-rounds"),
    ] {
        let ended = checked(&place, &agent, extra);
        let result = ended.ended("setup_error", reason);
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{extra:?}: {message}");
        assert!(result["tree"].is_null() && result["usage"]["model_calls"] == 0, "{extra:?}");
    }
    let args = args(&place, &agent, &["--no-check", "--review-model", &agent, "--format", "json"]);
    let ended = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let result = ended.ended("setup_error", "usage");
    assert!(result["error"]["message"].as_str().unwrap().contains("--review-model"));
}

/// A review that was interrupted goes on where it was: the question is asked again, under a number of its own.
#[test]
fn a_review_that_was_parked_goes_on() {
    let Some(place) = place("a_review_that_was_parked_goes_on") else { return };
    repository(&place, FILES);
    let agent = script(&place, "agent.json", &json!([sh(BREAKS), finish("done")]));
    let mut slow = says(&[]);
    slow["delay_ms"] = json!(600_000);
    let again = says(&[finding(json!({ "repro": DOUBLES }))]);
    let reviewer = script(&place, "reviewer.json", &json!([slow, again]));
    let args = args(
        &place,
        &agent,
        &["--check", project::CHECK, "--review-model", &reviewer, "--format", "ndjson", "--trace", "off"],
    );
    let mut child = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let asked = lines.by_ref().map(Result::unwrap).find(|line| line.contains("\"review_call\""));
    assert!(asked.is_some(), "the reviewer was never asked");
    project::kill("TERM", child.id());
    let last: Value = serde_json::from_str(&lines.map(Result::unwrap).last().unwrap()).unwrap();
    assert_eq!((&last["outcome"], child.wait().unwrap().code()), (&json!("parked"), Some(12)));
    let session = last["session"].as_str().unwrap();
    // The question was lost and takes no place: this time it is answered at once.
    script(&place, "reviewer.json", &json!([again]));
    let result = place.run(&["resume", session, "--format", "json"]).ended("unverified", "check_failed");
    assert_eq!(fates(&result), ["blocked"]);
    assert_eq!(result["gates"]["review"]["usage"]["model_calls"], 2);
}
