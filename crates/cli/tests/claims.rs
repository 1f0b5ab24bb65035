//! What the agent says beside what the journal shows: told in the result and by `show`, and deciding nothing.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use common::Place;
use project::{PROJECT, edit, finish, repository, script, sh};
use serde_json::{Value, json};

fn play(place: &Place, turns: &Value, extra: &[&str]) -> (common::Ended, Value) {
    repository(place, PROJECT);
    let model = script(place, "m.json", turns);
    let ended = project::checked(place, &model, extra);
    let result = ended.json();
    (ended, result)
}

fn told(result: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let claims = result["claims"].as_array().unwrap();
    claims.iter().map(|claim| (text(&claim["claim"]), text(&claim["verdict"]))).collect()
}

fn pair(claim: &str, verdict: &str) -> (String, String) {
    (claim.to_owned(), verdict.to_owned())
}

#[test]
fn a_lie_a_truth_and_silence_stand_beside_their_evidence() {
    let Some(place) = project::place("a_lie_a_truth_and_silence_stand_beside_their_evidence") else { return };
    // A lie in every sentence, and the outcome is the check's.
    let lie = "I ran `pytest`. All tests pass. No files other than `answer` were changed.";
    let wrong = json!([call_write("answer"), call_write("other"), finish(lie)]);
    let (_, result) = play(&place, &wrong, &[]);
    assert_eq!((&result["outcome"], &result["reason"]), (&json!("unverified"), &json!("check_failed")));
    let lies =
        [pair("ran", "contradicted"), pair("tests_pass", "contradicted"), pair("untouched", "contradicted")];
    assert_eq!(told(&result), lies);
    assert_eq!(result["claims"][0]["quote"], "I ran `pytest`.");
    let session = result["session"].as_str().unwrap();
    let shown = place.run(&["show", session]).stdout;
    assert!(
        shown.contains("\"All tests pass.\", which the journal contradicts: the check failed"),
        "{shown}"
    );
    // The truth.
    let truth = "I ran `sh tests/check.sh` and the check passed. I only changed `answer`.";
    let right = json!([edit("answer", "41", "42"), sh("sh tests/check.sh"), finish(truth)]);
    let (_, result) = play(&place, &right, &[]);
    assert_eq!(result["outcome"], "verified");
    assert_eq!(
        told(&result),
        [pair("ran", "supported"), pair("tests_pass", "supported"), pair("untouched", "supported")]
    );
    // Silence.
    let quiet = json!([edit("answer", "41", "42"), finish("It is 42 now.")]);
    let (_, result) = play(&place, &quiet, &[]);
    assert_eq!(result["claims"], json!([]));
    // A lie does not spoil what was verified: it informs.
    let boast = json!([edit("answer", "41", "42"), finish("I ran `cargo test` twice.")]);
    let (ended, result) = play(&place, &boast, &[]);
    assert_eq!((ended.code, told(&result)), (Some(0), vec![pair("ran", "contradicted")]));
}

fn call_write(path: &str) -> Value {
    json!({ "calls": [{ "tool": "write_file", "args": { "path": path, "content": "40\n" } }] })
}
