//! Runs that go round in circles, and honest ones that only look like it, with the real binary.

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use project::{PROJECT, edit, finish, journal, repository, script, sh};
use serde_json::{Value, json};

fn call(tool: &str, args: &Value) -> Value {
    json!({ "calls": [{ "tool": tool, "args": args }] })
}

fn read(path: &str) -> Value {
    call("read_file", &json!({ "path": path }))
}

fn search(pattern: &str) -> Value {
    call("search", &json!({ "pattern": pattern }))
}

fn play(place: &Place, turns: &[Value], extra: &[&str]) -> Ended {
    repository(place, PROJECT);
    let model = script(place, "m.json", &Value::from(turns.to_vec()));
    project::checked(place, &model, extra)
}

/// One step after another, for as long as anybody asks.
fn endless(step: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..40).map(step).collect()
}

/// The circle of each reason, as a model would walk it.
fn circles() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("repeat", endless(|_| read("answer"))),
        ("alternate", endless(|n| if n % 2 == 0 { read("answer") } else { sh("cat README") })),
        ("discovery", endless(|n| search(&format!("word{n}")))),
        ("stagnant", endless(|n| sh(&format!(": {n}; echo 'cannot find libanswer' >&2; exit 1")))),
        ("tool_format", endless(|n| call("think", &json!({ "thought": n })))),
    ]
}

#[test]
fn a_circle_is_told_once_and_then_ends_the_turn_with_its_steps() {
    let Some(place) = project::place("a_circle_is_told_once_and_then_ends_the_turn_with_its_steps") else {
        return;
    };
    for (reason, turns) in circles() {
        let ended = play(&place, &turns, &[]);
        let result = ended.ended("stuck", reason);
        assert_eq!(ended.code, Some(4), "{reason}");
        let session = result["session"].as_str().unwrap();
        let events = journal(&place, session);
        let nudges: Vec<_> = events.iter().filter(|event| event["kind"] == "nudged").collect();
        assert_eq!(nudges.len(), 1, "{reason}: told once");
        let detectors = &result["detectors"];
        assert_eq!(detectors["version"], "detectors@1");
        for what in ["nudged", "stuck"] {
            assert_eq!(detectors[what]["reason"], reason, "{result}");
        }
        let [first, last] = [0, 1].map(|at| detectors["stuck"]["steps"][at].as_u64().unwrap());
        assert!(first < last && last == result["usage"]["turns"].as_u64().unwrap(), "{result}");
        let told = detectors["nudged"]["steps"][1].as_u64().unwrap();
        assert!(told < last && last <= 15, "{reason}: there was time to listen, and not for ever: {result}");
        // The words are in the transcript as a message of their own, in the place where they were said.
        let shown = place.run(&["show", session, "--format", "json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let roles: Vec<_> = shown["transcript"].as_array().unwrap().iter().collect();
        let nudge = roles.iter().position(|entry| entry["role"] == "nudge").unwrap();
        assert!(roles[nudge]["text"].as_str().unwrap().contains(&format!("to {told} ")), "{}", roles[nudge]);
        assert_eq!(roles[nudge - 1]["role"], "result", "{reason}: after the results of the step");
    }
}

#[test]
fn what_a_stuck_agent_left_is_judged_by_the_whole_plan() {
    let Some(place) = project::place("what_a_stuck_agent_left_is_judged_by_the_whole_plan") else { return };
    let then_circles =
        |first: Value| -> Vec<Value> { std::iter::once(first).chain(endless(|_| read("README"))).collect() };
    let result =
        play(&place, &then_circles(edit("answer", "41", "42")), &[]).ended("verified", "checks_passed");
    assert_eq!((&result["rescued_from"], &result["rescued_reason"]), (&json!("stuck"), &json!("repeat")));
    assert_eq!(result["detectors"]["stuck"]["reason"], "repeat");
    let result = play(&place, &then_circles(edit("answer", "41", "40")), &[]).ended("stuck", "repeat");
    assert_eq!(result["gates"]["check"]["status"], "failed", "judged, and not good enough");
    assert_eq!(result["rescued_from"], Value::Null);
    let tampering = then_circles(sh("echo 42 > answer; echo exit 0 > tests/check.sh"));
    play(&place, &tampering, &[]).ended("tampered", "protected_files");
    let outside = then_circles(sh("echo 42 > answer; echo x > README"));
    play(&place, &outside, &["--scope", "answer"]).ended("scope_violation", "paths");
    // More attempts do not give a stuck agent more time.
    let wrong = then_circles(edit("answer", "41", "40"));
    play(&place, &wrong, &["--attempts", "3"]).ended("stuck", "repeat");
}

#[test]
fn honest_work_that_looks_like_a_circle_is_left_alone() {
    let Some(place) = project::place("honest_work_that_looks_like_a_circle_is_left_alone") else { return };
    let fix = || vec![edit("answer", "41", "42"), finish("It is 42.")];
    let with_fix = |turns: Vec<Value>| turns.into_iter().chain(fix()).collect::<Vec<_>>();
    let many = |count: usize, step: &dyn Fn(usize) -> Value| (0..count).map(step).collect::<Vec<_>>();
    let fan = |n: usize| {
        let reads: Vec<Value> = (0..12)
            .map(|i| json!({ "tool": "search", "args": { "pattern": format!("p{n}x{i}") } }))
            .collect();
        json!({ "calls": reads })
    };
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("polls a job whose output grows", with_fix(many(20, &|_| sh("date +%s%N")))),
        ("polls and waits", with_fix(many(5, &|_| sh("sleep 1.1; echo still building")))),
        (
            "reads many different files at first",
            with_fix(many(20, &|n| {
                if n == 0 {
                    sh("for n in $(seq 40); do echo file $n > f$n; done")
                } else {
                    read(&format!("f{n}"))
                }
            })),
        ),
        (
            "forty edits in a row",
            many(40, &|n| edit("answer", &(41 + n).to_string(), &(42 + n).to_string()))
                .into_iter()
                .chain([edit("answer", "81", "42"), finish("Done.")])
                .collect(),
        ),
        (
            "the same test after different edits",
            many(16, &|n| {
                if n % 2 == 0 {
                    call("write_file", &json!({ "path": "answer", "content": format!("{n}\n") }))
                } else {
                    sh("sh tests/check.sh")
                }
            })
            .into_iter()
            .chain([
                call("write_file", &json!({ "path": "answer", "content": "42\n" })),
                sh("sh tests/check.sh"),
                finish("Done."),
            ])
            .collect(),
        ),
        ("fans out", with_fix(many(5, &fan))),
    ];
    for (what, turns) in cases {
        let result = play(&place, &turns, &["--max-turns", "60"]).ended("verified", "checks_passed");
        assert_eq!(result["rescued_from"], Value::Null, "{what}");
        assert_eq!(result["detectors"]["stuck"], Value::Null, "{what}");
    }
}

#[test]
fn a_resumed_turn_sends_what_was_said_byte_for_byte() {
    let Some(place) = project::place("a_resumed_turn_sends_what_was_said_byte_for_byte") else { return };
    repository(&place, PROJECT);
    let look = read("answer");
    let hangs = json!({ "text": "Never said.", "delay_ms": 600_000 });
    let turns = json!([look, look, look, hangs, edit("answer", "41", "42"), finish("Done.")]);
    let model = script(&place, "m.json", &turns);
    let args = project::args(&place, &model, &["--check", project::CHECK, "--format", "json"]);
    let child = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    let session = || {
        let listed: Value = serde_json::from_str(&place.run(&["list", "--format", "json"]).stdout).ok()?;
        listed[0]["session"].as_str().map(str::to_owned)
    };
    let asked = |session: &str| {
        let events = journal(&place, session).into_iter();
        let fourth = |event: &Value| {
            event["kind"] == "effect_intended"
                && event["data"]["kind"] == "model_call"
                && event["data"]["effect"].as_str().unwrap().contains(".s4.")
        };
        events.filter(fourth).map(|event| event["data"]["permit"]["request"].clone()).collect::<Vec<_>>()
    };
    project::until("the fourth model call", || session().is_some_and(|id| asked(&id).len() == 1));
    project::kill("TERM", child.id());
    let parked = project::ended(child);
    assert_eq!(parked.code, Some(12), "{parked:?}");
    let session = session().unwrap();
    // The call was lost and takes no place: this time its entry is answered at once.
    script(&place, "m.json", &json!([look, look, look, edit("answer", "41", "42"), finish("Done.")]));
    place.run(&["resume", &session, "--format", "json"]).ended("verified", "checks_passed");
    let requests = asked(&session);
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_eq!(requests[0], requests[1], "the request with the nudge in it, made from the journal");
    let nudges = journal(&place, &session).iter().filter(|event| event["kind"] == "nudged").count();
    assert_eq!(nudges, 1);
}
