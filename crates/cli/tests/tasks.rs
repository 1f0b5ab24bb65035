//! Durable tasks: a session that is submitted waits, is approved, paused, canceled or has its capabilities taken away by
//! other processes than the one that drives it, and `status` says where it stands.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::process::Child;

use common::{Ended, Place};
use project::{
    CHECK, PROJECT, edit, finish, journal, kill, odd_seconds, repository, script, sh, sleeps, until,
};
use serde_json::{Value, json};

/// The one object on standard output of a command that went well.
fn object(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn ask(place: &Place, args: &[&str]) -> Value {
    object(&place.run(&[args, &["--format", "json"]].concat()))
}

fn status(place: &Place, id: &str) -> Value {
    ask(place, &["status", id])
}

fn kinds(place: &Place, id: &str) -> Vec<String> {
    journal(place, id).iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

fn submit(place: &Place, model: &str, extra: &[&str]) -> Ended {
    repository(place, PROJECT);
    let repo = place.path("repo").display().to_string();
    let base =
        ["submit", "--task", "make it 42", "--trust", "trusted-local", "--repo", &repo, "--model", model];
    place.run(&[&base[..], &["--check", CHECK], extra].concat())
}

fn submitted(place: &Place, model: &str, extra: &[&str]) -> String {
    let ended = submit(place, model, extra);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let id = ended.stdout.trim().to_owned();
    assert_eq!(ended.stdout, format!("{id}\n"), "the id and nothing else");
    id
}

fn good(place: &Place) -> String {
    script(place, "good.json", &json!([edit("answer", "41", "42"), finish("It is 42.")]))
}

fn resume(place: &Place, id: &str) -> Child {
    place.command(&["resume", id, "--format", "json"]).spawn().unwrap()
}

/// An approved session that is in the middle of a `sleep`, with the process that drives it.
fn under_way(place: &Place, extra: &[&str]) -> (String, Child, String) {
    let seconds = odd_seconds();
    let turns = json!([sh(&format!("sleep {seconds}")), edit("answer", "41", "42"), finish("Done.")]);
    let model = script(place, "m.json", &turns);
    let id = submitted(place, &model, &[&["--yes"], extra].concat());
    let child = resume(place, &id);
    until("the agent's command", || sleeps(&seconds));
    (id, child, seconds)
}

#[test]
fn a_submitted_session_waits_and_nothing_of_it_runs() {
    let Some(place) = project::place("a_submitted_session_waits_and_nothing_of_it_runs") else { return };
    let model = good(&place);
    let ended = submit(&place, &model, &[]);
    let id = ended.stdout.trim().to_owned();
    for granted in [
        CHECK,
        "may         tree.read",
        "contract    ",
        "tools       list_files",
        "next: countersign approve",
    ] {
        assert!(ended.stderr.contains(granted), "{granted}: {ended:?}");
    }
    assert_eq!(kinds(&place, &id), ["session_opened", "turn_queued"]);
    let ready = status(&place, &id);
    assert_eq!((&ready["state"], &ready["waits_for"]), (&json!("ready"), &json!("approval")), "{ready:#}");
    assert_eq!((&ready["driver"], &ready["capabilities"]), (&Value::Null, &json!([])));
    assert_eq!(ready["next"], format!("countersign approve {id}"));
    // Driving it is not for whoever only submitted it.
    let early = project::ended(resume(&place, &id)).ended("parked", "approval");
    assert!(early["error"]["message"].as_str().unwrap().contains(&format!("countersign approve {id}")));
    assert_eq!(kinds(&place, &id), ["session_opened", "turn_queued"], "nothing was done");
    assert_eq!(ask(&place, &["list"])[0]["status"], "ready");
    let followed = place.run(&["events", &id, "--follow"]);
    assert!(followed.code == Some(0) && followed.stderr.contains("countersign approve"), "{followed:?}");
    let watched = place.run(&["watch", &id]);
    assert!(watched.code == Some(0) && watched.stdout.contains("countersign approve"), "{watched:?}");

    let approved = place.run(&["approve", &id, "--reason", "I read it"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.stderr.contains(CHECK) && approved.stdout.contains(&format!("countersign resume {id}")));
    let events = journal(&place, &id);
    assert_eq!(events.len(), 3, "{events:#?}");
    assert_eq!(events[2]["kind"], "turn_approved");
    assert_eq!(events[2]["authority"], json!({ "external": "cli" }), "{:#}", events[2]);
    assert!(events[2]["payloads"]["reason"].is_object(), "{:#}", events[2]);
    // Approving twice changes nothing.
    assert_eq!(ask(&place, &["approve", &id])["state"], "approved");
    assert_eq!(kinds(&place, &id).len(), 3);
    assert_eq!(ask(&place, &["list"])[0]["status"], "approved");

    let result = project::ended(resume(&place, &id)).ended("verified", "checks_passed");
    assert!(result["bundle"].is_string(), "{result:#}");
    let over = status(&place, &id);
    assert_eq!(
        (&over["state"], &over["outcome"], &over["exit_code"]),
        (&json!("ended"), &json!("verified"), &json!(0))
    );
    for command in ["approve", "pause", "cancel", "revoke"] {
        let refused = place.run(&[command, &id, "--format", "json"]).ended("setup_error", "usage");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("has ended as verified"),
            "{refused:#}"
        );
    }
}

#[test]
fn a_submitted_session_and_a_run_come_to_the_same_end() {
    let Some(place) = project::place("a_submitted_session_and_a_run_come_to_the_same_end") else { return };
    let model = good(&place);
    repository(&place, PROJECT);
    let run = project::checked(&place, &model, &[]).ended("verified", "checks_passed");
    let id = submitted(&place, &model, &["--yes"]);
    let resumed = project::ended(resume(&place, &id)).ended("verified", "checks_passed");
    assert_eq!(run["tree"], resumed["tree"]);
    let of = |session: &Value| kinds(&place, session.as_str().unwrap());
    assert_eq!(of(&run["session"]), of(&resumed["session"]), "one code path");
}

#[test]
fn what_was_submitted_is_what_runs() {
    let Some(place) = project::place("what_was_submitted_is_what_runs") else { return };
    let model = good(&place);
    let repo = repository(&place, PROJECT);
    let id = submitted(&place, &model, &["--yes"]);
    // The branch moves on; the session begins from the commit that was submitted.
    let base = project::git(&repo, &["rev-parse", "HEAD"]);
    place.write("repo/README", "Another one.\n");
    project::git(&repo, &["commit", "--quiet", "--all", "--message", "moved"]);
    let result = project::ended(resume(&place, &id)).ended("verified", "checks_passed");
    assert_eq!(result["base"]["commit"], base.as_str());
    // Files that no commit holds cannot be had again: another tree than the one that was submitted is refused.
    let dirty = submitted(&place, &model, &["--yes", "--include-dirty"]);
    place.write("repo/README", "Changed since.\n");
    let refused = project::ended(resume(&place, &dirty)).ended("setup_error", "repository");
    assert!(refused["error"]["message"].as_str().unwrap().contains("submit it again"), "{refused:#}");
    assert!(!kinds(&place, &dirty).contains(&"base_run".to_owned()));
}

#[test]
fn the_process_that_submitted_may_die_at_once() {
    let Some(place) = project::place("the_process_that_submitted_may_die_at_once") else { return };
    let model = good(&place);
    let killed = submit(&place, &model, &["--crash-at", "after-submit"]);
    assert_eq!(killed.code, Some(75), "{killed:?}");
    let row = ask(&place, &["list"])[0].clone();
    let id = row["session"].as_str().unwrap();
    assert_eq!(row["status"], "ready", "accepted is accepted");
    assert_eq!(ask(&place, &["status"])[0]["session"], id);
    ask(&place, &["approve", id]);
    project::ended(resume(&place, id)).ended("verified", "checks_passed");
    assert_eq!(ask(&place, &["status"]), json!([]), "nothing is open any more");
}

#[test]
fn an_approval_may_name_the_contract_that_was_read() {
    let Some(place) = project::place("an_approval_may_name_the_contract_that_was_read") else { return };
    let id = submitted(&place, &good(&place), &[]);
    let digest = status(&place, &id)["contract"].as_str().unwrap().to_owned();
    let mut other = digest.clone();
    let last = if other.pop() == Some('0') { '1' } else { '0' };
    other.push(last);
    let refused = place.run(&["approve", &id, "--contract", &other, "--format", "json"]);
    let refused = refused.ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains(&digest), "{refused:#}");
    assert_eq!(ask(&place, &["approve", &id, "--contract", &digest])["state"], "approved");
}

#[test]
fn a_cancel_from_another_process_stops_a_command_that_runs() {
    let Some(place) = project::place("a_cancel_from_another_process_stops_a_command_that_runs") else {
        return;
    };
    let (id, child, seconds) = under_way(&place, &[]);
    let running = status(&place, &id);
    assert_eq!((&running["state"], &running["waits_for"]), (&json!("running"), &Value::Null), "{running:#}");
    let pid = format!("process {}", child.id());
    assert_eq!(running["driver"].as_str(), Some(pid.as_str()));
    assert_eq!(running["under_way"][0]["kind"], "run");
    let second = project::ended(resume(&place, &id)).ended("parked", "lease_lost");
    assert!(second["error"]["message"].as_str().unwrap().contains(&pid), "{second:#}");
    let canceled = ask(&place, &["cancel", &id, "--reason", "not now"]);
    assert_eq!(canceled["cancel_requested"], true);
    project::ended(child).ended("canceled", "request");
    until("the end of the agent's command", || !sleeps(&seconds));
    let events = journal(&place, &id);
    let asked = events.iter().find(|event| event["kind"] == "cancel_requested").unwrap();
    assert_eq!(
        (&asked["authority"], &asked["data"]["how"]),
        (&json!({ "external": "cli" }), &json!("request"))
    );
    let refused = place.run(&["cancel", &id, "--format", "json"]).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("canceled (request)"), "{refused:#}");
}

#[test]
fn a_session_that_nobody_drives_is_canceled_at_once_with_its_evidence() {
    let Some(place) = project::place("a_session_that_nobody_drives_is_canceled_at_once_with_its_evidence")
    else {
        return;
    };
    let id = submitted(&place, &good(&place), &[]);
    let over = ask(&place, &["cancel", &id]);
    assert_eq!((&over["state"], &over["reason"]), (&json!("ended"), &json!("request")), "{over:#}");
    // One whose process was killed in the middle of a command.
    let (id, child, seconds) = under_way(&place, &[]);
    kill("KILL", child.id());
    assert_eq!(project::ended(child).code, None);
    until("the end of the agent's command", || !sleeps(&seconds));
    assert_eq!(status(&place, &id)["state"], "lost");
    let over = ask(&place, &["cancel", &id]);
    assert_eq!((&over["state"], &over["reason"]), (&json!("ended"), &json!("request")), "{over:#}");
    let shown = place.run(&["show", &id, "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let bundle = shown["result"]["bundle"].as_str().unwrap().to_owned();
    let verified = place.run(&["verify", &bundle, "--format", "json"]);
    assert!(verified.stdout.contains("canceled"), "{verified:?}");
    assert_eq!(std::fs::read_dir(place.path("home/sessions").join(&id).join("cells")).unwrap().count(), 0);
}

#[test]
fn a_pause_lets_what_is_under_way_end_and_keeps_it() {
    let Some(place) = project::place("a_pause_lets_what_is_under_way_end_and_keeps_it") else { return };
    let turns = json!([
        // Ends when the test says so.
        sh("echo begun > begun; while [ ! -e go ]; do sleep 0.01; done; echo kept > kept"),
        edit("answer", "41", "42"),
        finish("Done."),
    ]);
    let model = script(&place, "m.json", &turns);
    let id = submitted(&place, &model, &["--yes", "--sandbox", "host"]);
    let child = resume(&place, &id);
    let cells = place.path("home/sessions").join(&id).join("cells");
    let mut workspace = None;
    until("the agent's command", || {
        let mut all = std::fs::read_dir(&cells).into_iter().flatten().flatten();
        workspace =
            all.find_map(|cell| Some(cell.path().join("workspace")).filter(|w| w.join("begun").exists()));
        workspace.is_some()
    });
    let paused = ask(&place, &["pause", &id]);
    assert_eq!(
        (&paused["state"], &paused["pause_requested"]),
        (&json!("pausing"), &json!(true)),
        "{paused:#}"
    );
    assert_eq!(ask(&place, &["pause", &id])["state"], "pausing", "asking twice changes nothing");
    std::fs::write(workspace.unwrap().join("go"), "").unwrap();
    project::ended(child).ended("parked", "drained");
    let parked = status(&place, &id);
    assert_eq!((&parked["state"], &parked["waits_for"]), (&json!("parked"), &json!("resume")));
    let result = project::ended(resume(&place, &id)).ended("verified", "checks_passed");
    assert_eq!(result["usage"]["model_calls"], 3, "nothing was done twice");
    let began = |kind: &str| {
        let events = journal(&place, &id);
        events.iter().filter(|e| e["kind"] == "effect_intended" && e["data"]["tool"] == kind).count()
    };
    assert_eq!(began("run"), 1);
    assert!(place.run(&["diff", &id]).stdout.contains("kept"), "{result:#}");
    let early = submitted(&place, &good(&place), &[]);
    let refused = place.run(&["pause", &early, "--format", "json"]).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("approval"), "{refused:#}");
}

#[test]
fn a_revoked_capability_stops_what_runs_by_it_and_stays_denied() {
    let Some(place) = project::place("a_revoked_capability_stops_what_runs_by_it_and_stays_denied") else {
        return;
    };
    let (id, child, seconds) = under_way(&place, &[]);
    let revoked = ask(&place, &["revoke", &id, "--capability", "command.run"]);
    assert_eq!(revoked["revoked"], json!(["command.run"]), "{revoked:#}");
    assert!(!revoked["capabilities"].as_array().unwrap().contains(&json!("command.run")));
    // The model is told, goes on with what it has, and its work is judged.
    let result = project::ended(child).ended("verified", "checks_passed");
    until("the end of the agent's command", || !sleeps(&seconds));
    assert_eq!(result["usage"]["model_calls"], 3);
    let events = journal(&place, &id);
    let denied = events.iter().find(|event| event["kind"] == "effect_denied").unwrap();
    assert_eq!(
        (&denied["data"]["capability"], &denied["data"]["tool"]),
        (&json!("command.run"), &json!("run"))
    );
    let abandoned = events.iter().filter(|event| event["kind"] == "effect_abandoned").count();
    assert_eq!(abandoned, 1, "what ran was stopped: {events:#?}");
}

#[test]
fn without_what_its_plan_needs_a_session_ends() {
    let Some(place) = project::place("without_what_its_plan_needs_a_session_ends") else { return };
    let id = submitted(&place, &good(&place), &["--yes"]);
    ask(&place, &["revoke", &id, "--reason", "no longer trusted"]);
    let again = ask(&place, &["revoke", &id]);
    assert_eq!(again["capabilities"], json!([]));
    let ended = project::ended(resume(&place, &id)).ended("canceled", "request");
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("tree.read was revoked") && message.contains("import"), "{message}");
    assert!(kinds(&place, &id).contains(&"effect_denied".to_owned()), "the denial is durable");
    let unknown = place.run(&["revoke", &id, "--capability", "everything", "--format", "json"]);
    let unknown = unknown.ended("setup_error", "usage");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("tree.write"), "{unknown:#}");
    let early = submitted(&place, &good(&place), &[]);
    let refused = place.run(&["revoke", &early, "--format", "json"]).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("nothing was granted"), "{refused:#}");
}

#[test]
fn a_session_that_is_not_there_is_said() {
    let Some(place) = Place::new("a_session_that_is_not_there_is_said") else { return };
    for command in ["approve", "pause", "cancel", "revoke", "status", "resume"] {
        let refused = place.run(&[command, "s-20260101-000000-abcdef", "--format", "json"]);
        let refused = refused.ended("setup_error", "usage");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("s-20260101-000000-abcdef"),
            "{refused:#}"
        );
    }
    assert_eq!(ask(&place, &["status"]), json!([]));
    let refused = place.run(&["cancel", "no/id", "--format", "json"]).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("no/id"), "{refused:#}");
    // A run that was refused has nothing to approve.
    place.run(&["run", "t", "--trust", "trusted-local", "--model", "nobody:x", "--no-check"]);
    let id = ask(&place, &["list"])[0]["session"].as_str().unwrap().to_owned();
    assert_eq!(status(&place, &id)["state"], "ended");
    let refused = place.run(&["approve", &id, "--format", "json"]).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("refused before it began"), "{refused:#}");
}

/// A contract file in a directory of its own, and the arguments that submit it.
fn file(place: &Place, change: impl FnOnce(&mut Value)) -> Vec<String> {
    repository(place, PROJECT);
    let mut terms = json!({
        "schema": "countersign.submission/1",
        "task": "make it 42",
        "trust": "trusted-local",
        "source": { "repo": "../repo" },
        "agent": { "model": good(place) },
        "checks": { "commands": [["sh", "tests/check.sh"]] },
        "limits": { "max_turns": 5 },
    });
    change(&mut terms);
    place.write("terms/contract.json", &terms.to_string());
    ["submit", "terms/contract.json", "--format", "json"].map(str::to_owned).to_vec()
}

fn run_file(place: &Place, args: &[String]) -> Ended {
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_contract_file_means_what_the_same_flags_mean() {
    let Some(place) = project::place("a_contract_file_means_what_the_same_flags_mean") else { return };
    let args = file(&place, |_| {});
    let by_file = object(&run_file(&place, &args));
    let by_flags = submitted(&place, &good(&place), &["--max-turns", "5"]);
    assert_eq!(by_file["contract"], status(&place, &by_flags)["contract"], "one digest for the same terms");
    let again = object(&run_file(&place, &args));
    assert_eq!(by_file["contract"], again["contract"]);
    let other = file(&place, |terms| terms["limits"]["max_turns"] = json!(6));
    assert_ne!(by_file["contract"], object(&run_file(&place, &other))["contract"]);
    let id = by_file["session"].as_str().unwrap();
    ask(&place, &["approve", id]);
    project::ended(resume(&place, id)).ended("verified", "checks_passed");
    // The task may stand on the command line instead.
    let mut args = file(&place, |terms| drop(terms.as_object_mut().unwrap().remove("task")));
    args.extend(["--task", "make it 42", "--yes"].map(str::to_owned));
    assert_eq!(object(&run_file(&place, &args))["state"], "approved");
}

#[test]
fn a_wrong_contract_file_is_refused_with_the_name_of_its_field_and_leaves_nothing() {
    let test = "a_wrong_contract_file_is_refused_with_the_name_of_its_field_and_leaves_nothing";
    let Some(place) = project::place(test) else { return };
    let refused = |args: &[String], names: &str| {
        let refused = run_file(&place, args);
        assert_eq!(refused.code, Some(1), "{names}: {refused:?}");
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(names), "{names}: {message}");
    };
    let set = |pointer: &str, value: Value| {
        file(&place, |terms| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            terms.pointer_mut(parent).unwrap()[name] = value;
        })
    };
    for (pointer, value) in [
        ("/goal", json!("x")),
        ("/limits/max_turns", json!(0)),
        ("/limits/max_turns", json!(1.5)),
        ("/limits/deadline", json!("soon")),
        ("/trust", json!("blind")),
        ("/scope", json!(["[a"])),
        ("/scope", json!("src")),
        ("/allow", json!(["no-such-rule"])),
        ("/agent/model", json!("nobody:x")),
        ("/sandbox", json!("moon")),
        ("/network", json!("some")),
        ("/checks/commands", json!([["sh", 1]])),
        ("/schema", json!("countersign.submission/9")),
    ] {
        refused(&set(pointer, value), &format!("terms/contract.json: {pointer}"));
    }
    for pointer in ["/trust", "/schema"] {
        let missing = file(&place, |terms| drop(terms.as_object_mut().unwrap().remove(&pointer[1..])));
        refused(&missing, &format!("{pointer}: the field is missing"));
    }
    let args = file(&place, |_| {});
    let text = std::fs::read_to_string(place.path("terms/contract.json")).unwrap();
    let write = |text: &str| drop(place.write("terms/contract.json", text));
    write(&text.replacen('{', "{\"trust\":\"untrusted\",", 1));
    refused(&args, "/trust: the field is given twice");
    write(&text[..text.len() / 2]);
    refused(&args, "EOF");
    write("");
    refused(&args, "EOF");
    std::fs::write(place.path("terms/contract.json"), [0xff, b'{', b'}']).unwrap();
    refused(&args, "not UTF-8");
    std::fs::remove_file(place.path("terms/contract.json")).unwrap();
    refused(&args, "cannot be opened");
    let args = file(&place, |_| {});
    refused(&[&args[..], &["--max-turns".to_owned(), "3".to_owned()]].concat(), "--max-turns");
    refused(&[&args[..], &["--task".to_owned(), "x".to_owned()]].concat(), "/task");
    assert_eq!(ask(&place, &["list"]), json!([]), "nothing was recorded");
}

#[test]
fn gc_removes_what_the_dead_left_and_nothing_of_the_living() {
    let Some(place) = project::place("gc_removes_what_the_dead_left_and_nothing_of_the_living") else {
        return;
    };
    let cells = |id: &str| {
        std::fs::read_dir(place.path("home/sessions").join(id).join("cells")).into_iter().flatten().count()
    };
    let (dead, child, seconds) = under_way(&place, &[]);
    kill("KILL", child.id());
    assert_eq!(project::ended(child).code, None);
    until("the end of the agent's command", || !sleeps(&seconds));
    let (living, child, seconds) = under_way(&place, &[]);
    assert!(cells(&dead) > 0 && cells(&living) > 0);
    let mine = |report: &Value, session: &str| {
        report["found"].as_array().unwrap().iter().filter(|found| found["session"] == session).count()
    };
    let dry = ask(&place, &["gc", "--dry-run"]);
    assert_eq!((mine(&dry, &dead), mine(&dry, &living)), (1, 0), "{dry:#}");
    assert!(dry["bytes"].as_u64().unwrap() > 0 && dry["found"][0]["removed"] == false, "{dry:#}");
    assert!(cells(&dead) > 0, "nothing was removed");
    let done = ask(&place, &["gc"]);
    assert_eq!((mine(&done, &dead), mine(&done, &living)), (1, 0), "{done:#}");
    assert_eq!(done["found"][0]["removed"], true);
    assert_eq!(cells(&dead), 0);
    assert!(cells(&living) > 0 && sleeps(&seconds), "the living one goes on");
    assert_eq!(ask(&place, &["gc"])["found"], json!([]), "a second time there is nothing");
    ask(&place, &["cancel", &living]);
    project::ended(child).ended("canceled", "request");
    // What was cleared away is not needed: the session goes on from its last checkpoint.
    let again = resume(&place, &dead);
    until("a new cell", || cells(&dead) > 0);
    ask(&place, &["cancel", &dead]);
    project::ended(again).ended("canceled", "request");
}

#[test]
fn gc_removes_old_patches_only_where_the_evidence_holds_them() {
    let Some(place) = project::place("gc_removes_old_patches_only_where_the_evidence_holds_them") else {
        return;
    };
    let id = submitted(&place, &good(&place), &["--yes"]);
    let result = project::ended(resume(&place, &id)).ended("verified", "checks_passed");
    let patch = std::path::PathBuf::from(result["patch"]["path"].as_str().unwrap());
    assert_eq!(ask(&place, &["gc", "--older-than", "1h"])["found"], json!([]), "it ended just now");
    let bundle = std::path::PathBuf::from(result["bundle"].as_str().unwrap());
    std::fs::rename(&bundle, place.path("away")).unwrap();
    assert_eq!(
        ask(&place, &["gc", "--older-than", "2999-01-01"])["found"],
        json!([]),
        "nothing else holds it"
    );
    std::fs::rename(place.path("away"), &bundle).unwrap();
    let done = ask(&place, &["gc", "--older-than", "2999-01-01"]);
    assert_eq!((&done["found"][0]["kind"], &done["found"][0]["session"]), (&json!("patch"), &json!(id)));
    assert!(!patch.exists());
    assert!(place.run(&["diff", &id]).stderr.contains("the evidence still holds it"));
    let kept = std::fs::metadata(bundle.join("patch.diff")).unwrap().len();
    assert_eq!(result["patch"]["bytes"], kept, "the bundle still holds it");
    // A directory without a session is of a command that may still be at work, for a day.
    let orphan = place.path("home/sessions/s-20260101-000000-abcdef");
    std::fs::create_dir_all(orphan.join("cells")).unwrap();
    std::fs::create_dir_all(place.path("home/sessions/not a session")).unwrap();
    assert_eq!(ask(&place, &["gc"])["found"], json!([]));
    for dir in [orphan.join("cells"), orphan.clone()] {
        let touched = std::process::Command::new("touch").args(["-d", "2 days ago"]).arg(&dir).status();
        assert!(touched.unwrap().success());
    }
    assert_eq!(ask(&place, &["gc"])["found"][0]["kind"], "unrecorded");
    assert!(!orphan.exists() && place.path("home/sessions/not a session").exists());
    let refused = place.run(&["gc", "--older-than", "7", "--format", "json"]).ended("setup_error", "usage");
    assert!(refused["error"]["message"].as_str().unwrap().contains("--older-than"), "{refused:#}");
}
