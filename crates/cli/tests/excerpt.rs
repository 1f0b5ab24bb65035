//! One payload for somebody who has no bundle: what is handed over holds no other text and nothing to guess one by, and it is
//! checked by the journal that its runner signed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{Ended, Place};
use countersign_kernel::ToolName;
use countersign_proof::{SecretKey, dsse};
use countersign_store::{Append, NewEvent, NewPayload, NewSession, Options, SqliteStore, Store as _};
use countersign_types::{Blind, Digest, SessionId};
use project::{CHECK, PROJECT, place, repository, script};
use serde_json::{Value, json};

/// The task of `project::args`.
const TASK: &str = "make it 42";
/// Texts of the run, each said or written in one place of its own.
const COMMAND: &str = "echo canary-result-1; echo canary-result-2 >&2";
const SUMMARY: &str = "canary-summary";
const SPOKEN: &str = "canary-spoken words";
/// The check's own, on the red base.
const RED: &str = "FAILED: not 42";

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn json_of(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

/// A run whose every text is known; its session and its bundle.
fn ran(place: &Place) -> (String, PathBuf) {
    repository(place, PROJECT);
    let turns = json!([
        { "text": SPOKEN, "calls": [{ "tool": "run", "args": { "command": COMMAND } }] },
        { "calls": [{ "tool": "edit_file", "args": { "path": "answer", "old": "41", "new": "42" } }] },
        { "calls": [{ "tool": "finish", "args": { "summary": SUMMARY } }] },
    ]);
    let result =
        project::checked(place, &script(place, "m.json", &turns), &[]).ended("verified", "checks_passed");
    assert_eq!(result["degraded"], json!([]), "{result}");
    (result["session"].as_str().unwrap().to_owned(), PathBuf::from(result["bundle"].as_str().unwrap()))
}

/// What a line names of a call, before it is hidden.
fn called(tool: &str, args: &Value) -> Digest {
    countersign_tools::parse(tool, &args.to_string(), ToolName::OFFERED).planned.arguments
}

/// The event and the name of the payload that holds a text.
fn payload_with(place: &Place, id: &str, name: &str, text: &str) -> String {
    let events = project::journal(place, id);
    let holds = |event: &&Value| {
        let what = format!("{}:{name}", event["seq"]);
        event["payloads"].get(name).is_some()
            && json_of(&place.run(&["show", id, "--reveal", &what]))["text"].as_str().unwrap().contains(text)
    };
    format!("{}:{name}", events.iter().find(holds).unwrap()["seq"])
}

fn hand_over(place: &Place, id: &str, what: &str, out: &str) -> PathBuf {
    let ended = place.run(&["show", id, "--reveal", what, "--out", out]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    place.path(out)
}

fn verify(place: &Place, dir: &Path) -> Ended {
    place.run(&["verify", "--revealed", dir.to_str().unwrap(), "--format", "json"])
}

/// Everything that is handed over, the statement as it is read too.
fn handed(dir: &Path) -> String {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["journal.jsonl", "revealed.json", "turn.sigstore.json"]);
    let mut all: String = names.iter().map(|name| std::fs::read_to_string(dir.join(name)).unwrap()).collect();
    let sealed = dsse::open(&std::fs::read(dir.join("turn.sigstore.json")).unwrap()).unwrap();
    all.push_str(&String::from_utf8(sealed.payload).unwrap());
    all
}

/// A text as it could be found: itself, encoded, and by its plain digest.
fn forms(text: &[u8]) -> Vec<String> {
    let digest = Digest::of(text);
    let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let quoted = serde_json::to_string(&String::from_utf8_lossy(text)).unwrap();
    vec![
        String::from_utf8_lossy(text).into_owned(),
        quoted.trim_matches('"').to_owned(),
        STANDARD.encode(text).trim_end_matches('=').to_owned(),
        URL_SAFE_NO_PAD.encode(text),
        hex,
        digest.hex(),
        STANDARD.encode(digest.as_bytes()),
        URL_SAFE_NO_PAD.encode(digest.as_bytes()),
    ]
}

#[test]
fn one_payload_is_handed_over_and_no_other_text_can_be_guessed() {
    let Some(place) = place("one_payload_is_handed_over_and_no_other_text_can_be_guessed") else { return };
    let (id, bundle) = ran(&place);
    let what = payload_with(&place, &id, "text", SPOKEN);
    let shown = hand_over(&place, &id, &what, "shown");
    let all = handed(&shown);
    assert!(all.contains(SPOKEN), "the one that is shown");

    // Every other payload of the session, and what lines name of them.
    let mut texts: Vec<(String, Vec<u8>)> = Vec::new();
    for event in project::journal(&place, &id) {
        for (name, payload) in event["payloads"].as_object().unwrap() {
            let each = format!("{}:{name}", event["seq"]);
            // Terms and patch are named by their digests; the blind is shown to nobody.
            if each == what
                || ["contract", "patch", "blind"].contains(&name.as_str())
                || payload["len"].as_u64().unwrap() < 5
            {
                continue;
            }
            let revealed = json_of(&place.run(&["show", &id, "--reveal", &each]));
            texts.push((each, revealed["text"].as_str().unwrap().as_bytes().to_vec()));
        }
    }
    assert!(texts.len() > 12, "{}", texts.len());
    let result = texts.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned());
    let result =
        result.clone().find(|text| text.contains("canary-result-1") && text.contains("exit 0")).unwrap();
    for text in [TASK, COMMAND, SUMMARY, RED, "canary-result-1", "canary-result-2", "canary-result-1\n"] {
        texts.push((text.to_owned(), text.as_bytes().to_vec()));
    }
    texts.push(("said".to_owned(), countersign_tools::steady(&result).into_bytes()));
    let calls = [
        ("run", json!({ "command": COMMAND })),
        ("edit_file", json!({ "new": "42", "old": "41", "path": "answer" })),
        ("finish", json!({ "summary": SUMMARY })),
    ];
    for (tool, args) in &calls {
        texts.push((args.to_string(), args.to_string().into_bytes()));
        texts.push((format!("{tool} {args}"), format!("{tool}\0{args}").into_bytes()));
    }
    for (path, bytes) in project::snapshot(&bundle).into_iter().map(|(path, (_, bytes))| (path, bytes)) {
        let inside = path.strip_prefix(&bundle).unwrap().to_str().unwrap().to_owned();
        let of_texts =
            inside.starts_with("rooms/") || inside == "transcript.jsonl" || inside == "result.json";
        if of_texts && !bytes.is_empty() {
            texts.push((inside, bytes));
        }
    }
    for (which, text) in &texts {
        for form in forms(text) {
            assert!(!all.contains(&form), "{which}: {form} is in what was handed over");
        }
    }

    // The same digests under the session's blind are there: these were the right texts to look for. Who has the
    // transcript has the blind, and nobody else.
    let transcript = std::fs::read_to_string(bundle.join("transcript.jsonl")).unwrap();
    let first: Value = serde_json::from_str(transcript.lines().next().unwrap()).unwrap();
    assert_eq!(first["role"], "blind");
    let blind = Blind::from_hex(first["text"].as_str().unwrap()).unwrap();
    assert!(!all.contains(&blind.hex()));
    let mut named = vec![Digest::of(TASK.as_bytes()), countersign_tools::said(&result).unwrap()];
    named.extend(calls.iter().map(|(tool, args)| called(tool, args)));
    for plain in named {
        assert!(all.contains(&blind.hide(plain).hex()), "{plain}");
    }
    // Another session of the same task names it otherwise.
    let (other, _) = ran(&place);
    let lines = |id: &str| place.run(&["events", id, "--format", "ndjson"]).stdout;
    let hidden = blind.hide(Digest::of(TASK.as_bytes())).hex();
    assert!(lines(&id).contains(&hidden) && !lines(&other).contains(&hidden));
    let refused = place.run(&["show", &id, "--reveal", "1:blind"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("hides all other texts"), "{refused:?}");
}

/// A copy of what was handed over with one file changed.
fn changed(place: &Place, shown: &Path, name: &str, change: impl Fn(String) -> String) -> PathBuf {
    let dir = place.path(&format!("lie-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir).unwrap();
    for file in ["journal.jsonl", "revealed.json", "turn.sigstore.json"] {
        let text = std::fs::read_to_string(shown.join(file)).unwrap();
        let new = if file == name { change(text.clone()) } else { text.clone() };
        assert!(file != name || new != text, "{file} was not changed");
        std::fs::write(dir.join(file), new).unwrap();
    }
    dir
}

#[test]
fn what_was_handed_over_is_believed_whole_or_refused_with_its_reason() {
    let Some(place) = place("what_was_handed_over_is_believed_whole_or_refused_with_its_reason") else {
        return;
    };
    let (id, bundle) = ran(&place);
    let what = payload_with(&place, &id, "result", "canary-result-1");
    let shown = hand_over(&place, &id, &what, "shown");
    // Nobody is trusted yet.
    let ended = verify(&place, &shown);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(json_of(&ended)["excerpts"][0]["report"]["signature"], "unknown_signer");
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let ended = verify(&place, &shown);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = json_of(&ended);
    assert_eq!(
        (&report["accepted"], &report["excerpts"][0]["revealed"]["fits"]),
        (&json!(true), &json!(true))
    );
    // It is called a part, and takes no question that only a bundle answers.
    let said = place.run(&["verify", "--revealed", "shown"]).stdout;
    assert!(
        said.contains("this is no bundle") && said.contains("no tree, patch, room or verdict was looked at"),
        "{said}"
    );
    for more in
        [&["--require", "verified"][..], &["--min-strength", "ids"], &["--policy", "p"], &["--repo", "repo"]]
    {
        let ended = place.run(&[&["verify", "--revealed", "shown"], more].concat());
        assert_eq!(ended.code, Some(1), "{more:?}: {ended:?}");
    }
    // It is no bundle, and fits to the bundle.
    assert_eq!(place.run(&["verify", "shown"]).code, Some(1));
    let ended = place.run(&["verify", bundle.to_str().unwrap(), "--revealed", "shown", "--format", "json"]);
    assert_eq!((ended.code, &json_of(&ended)["revealed"][0]["fits"]), (Some(0), &json!(true)), "{ended:?}");
    assert_eq!(
        place.run(&["show", &id, "--reveal", &what, "--out", "shown"]).code,
        Some(1),
        "it is there already"
    );

    // Nothing lies beside the three files, and none of them is a link: with the bundle and without it.
    let stray = || {
        let alone = json_of(&verify(&place, &shown));
        let bundle = bundle.to_str().unwrap();
        let beside = place.run(&["verify", bundle, "--revealed", "shown", "--format", "json"]);
        assert_eq!((&alone["accepted"], beside.code), (&json!(false), Some(2)), "{alone} {beside:?}");
        alone["excerpts"][0]["report"]["findings"][0]["finding"].as_str().unwrap().to_owned()
    };
    place.write("shown/notes.txt", "believe me");
    assert_eq!(stray(), "unexpected_file");
    std::fs::remove_file(shown.join("notes.txt")).unwrap();
    std::fs::rename(shown.join("journal.jsonl"), place.path("elsewhere.jsonl")).unwrap();
    std::os::unix::fs::symlink(place.path("elsewhere.jsonl"), shown.join("journal.jsonl")).unwrap();
    assert_eq!(stray(), "not_a_file");
    std::fs::remove_file(shown.join("journal.jsonl")).unwrap();
    std::fs::rename(place.path("elsewhere.jsonl"), shown.join("journal.jsonl")).unwrap();
    assert_eq!(verify(&place, &shown).code, Some(0));

    let revealed: Value =
        serde_json::from_str(&std::fs::read_to_string(shown.join("revealed.json")).unwrap()).unwrap();
    let (seq, salt) = (revealed["seq"].as_u64().unwrap(), revealed["salt"].as_str().unwrap().to_owned());
    let stranger = SecretKey::from_seed(&[3; 32]);
    let resigned = |text: String| {
        let payload = dsse::open(text.as_bytes()).unwrap().payload;
        String::from_utf8(dsse::seal(&stranger, &payload).unwrap()).unwrap()
    };
    let last = |text: &str| text.trim_end().rfind('\n').unwrap() + 1;
    type Change<'a> = Box<dyn Fn(String) -> String + 'a>;
    let lies: Vec<(&str, &str, Change<'_>)> = vec![
        (
            "revealed.json",
            "not those that the event committed to",
            Box::new(|text| text.replace("canary-result-1", "canary-result-9")),
        ),
        (
            "revealed.json",
            "not those that the event committed to",
            Box::new(|text| text.replace(&salt, &"0".repeat(salt.len()))),
        ),
        (
            "revealed.json",
            "has another line",
            Box::new(|text| text.replacen(&format!("\"seq\":{seq}"), &format!("\"seq\":{}", seq - 1), 1)),
        ),
        (
            "revealed.json",
            "no payload `other`",
            Box::new(|text| text.replace("\"name\":\"result\"", "\"name\":\"other\"")),
        ),
        (
            "revealed.json",
            "shows another commitment",
            Box::new(|text| {
                let own = text.find("\"commitment\":\"").unwrap() + "\"commitment\":\"".len();
                format!("{}sha256:{}{}", &text[..own], "0".repeat(64), &text[own + "sha256:".len() + 64..])
            }),
        ),
        ("revealed.json", "of another session", Box::new(|text| text.replacen(&id, "s-other", 1))),
        (
            "journal.jsonl",
            "does not follow its predecessor",
            Box::new(|text| text.replacen("\"bytes\":", "\"bytes\":1", 1)),
        ),
        ("journal.jsonl", "the journal ends with event", Box::new(|text| text[..last(&text)].to_owned())),
        ("journal.jsonl", "its line is cut", Box::new(|text| text.trim_end().to_owned())),
        ("turn.sigstore.json", "unknown signer", Box::new(resigned)),
        (
            "turn.sigstore.json",
            "turn.sigstore.json",
            Box::new(|text| text.replacen("\"sig\":\"", "\"sig\":\"AAAA", 1)),
        ),
    ];
    for (file, reason, change) in &lies {
        let dir = changed(&place, &shown, file, change);
        let ended = verify(&place, &dir);
        assert_eq!(ended.code, Some(2), "{file} {reason}: {ended:?}");
        let said = place.run(&["verify", "--revealed", dir.to_str().unwrap()]);
        assert!(
            said.code == Some(2) && said.stdout.contains(reason),
            "{file}: not `{reason}` but {}",
            said.stdout
        );
        assert!(said.stdout.contains("accepted  no"), "{}", said.stdout);
    }
    std::fs::remove_file(shown.join("journal.jsonl")).unwrap();
    assert_eq!(verify(&place, &shown).code, Some(1), "nothing can be said without the journal");
}

/// Writes a session of this home anew as it was written before journals hid their texts: no blind, and plain digests.
fn as_before(place: &Place, id: &str, plain: &[Digest]) {
    let (id, home) = (SessionId::new(id).unwrap(), place.path("home"));
    let store = SqliteStore::open(&home, Options::default()).unwrap();
    let loaded = block_on(store.load(&id)).unwrap();
    let blind: [u8; 32] = block_on(store.payload(&id, 1, "blind")).unwrap().try_into().unwrap();
    let blind = Blind::from_bytes(blind);
    let shown: BTreeMap<String, String> =
        plain.iter().map(|plain| (blind.hide(*plain).hex(), plain.hex())).collect();
    let mut events = Vec::new();
    for event in &loaded.events {
        let mut data = event.data.to_string();
        for (hidden, plain) in &shown {
            data = data.replace(hidden, plain);
        }
        let payloads = event.payloads.keys().filter(|name| *name != "blind");
        let payloads = payloads
            .map(|name| {
                let revealed = block_on(store.reveal(&id, event.seq, name)).unwrap();
                NewPayload {
                    name: name.clone(),
                    salt: revealed.salt.try_into().unwrap(),
                    bytes: revealed.bytes,
                }
            })
            .collect();
        let data = serde_json::from_str(&data).unwrap();
        events.push((
            event.authority.clone().unwrap(),
            event.at,
            NewEvent { kind: event.kind.clone(), data, payloads },
        ));
    }
    drop(store);
    for name in ["countersign.db", "countersign.db-wal", "countersign.db-shm"] {
        let _ = std::fs::remove_file(home.join(name));
    }
    let store = SqliteStore::open(&home, Options::default()).unwrap();
    let row = loaded.session;
    let new = NewSession { id: id.clone(), tenant: row.tenant, principal: row.principal, at: row.created_at };
    block_on(store.create(new)).unwrap();
    let _lease = block_on(store.acquire(&id, "as before")).unwrap();
    for (expected_seq, (authority, at, event)) in (0_u64..).zip(events) {
        let (session, summary) = (id.clone(), Some(row.summary.clone()));
        let append =
            Append { session, expected_seq, authority, at, events: vec![event], summary, outbox: Vec::new() };
        block_on(store.append(append)).unwrap();
    }
}

#[test]
fn a_session_of_before_is_resumed_and_hands_nothing_over() {
    let Some(place) = place("a_session_of_before_is_resumed_and_hands_nothing_over") else { return };
    repository(&place, PROJECT);
    let seconds = project::odd_seconds();
    // It is begun twice, and ends by its own limit the second time.
    let waits = json!({ "command": format!("sleep {seconds}"), "timeout_s": 15 });
    let call = json!({ "calls": [{ "tool": "run", "args": waits }] });
    let turns = json!([call, project::edit("answer", "41", "42"), project::finish("Done.")]);
    let model = script(&place, "m.json", &turns);
    let args = project::args(&place, &model, &["--check", CHECK, "--format", "json"]);
    let child = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    project::until("the agent's command", || project::sleeps(&seconds));
    let listed = json_of(&place.run(&["list", "--format", "json"]));
    let id = listed[0]["session"].as_str().unwrap().to_owned();
    project::kill("TERM", child.id());
    project::ended(child).ended("parked", "drained");
    let asked = called("run", &waits);
    let task = Digest::of(TASK.as_bytes());
    as_before(&place, &id, &[task, asked]);
    let lines = place.run(&["events", &id, "--format", "ndjson"]).stdout;
    assert!(
        lines.contains(&task.hex()) && lines.contains(&asked.hex()) && !lines.contains("\"blind\""),
        "{lines}"
    );
    let result = place.run(&["resume", &id, "--format", "json"]).json();
    assert_eq!(result["outcome"], "verified", "{result}");
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let bundle = result["bundle"].as_str().unwrap();
    let ended = place.run(&["verify", bundle, "--require", "verified", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // One payload can be shown to who has the bundle; the journal is not handed out.
    let what = payload_with(&place, &id, "summary", "Done.");
    let revealed = place.run(&["show", &id, "--reveal", &what]);
    let file = place.write("revealed.json", &revealed.stdout).display().to_string();
    assert_eq!(place.run(&["verify", bundle, "--revealed", &file]).code, Some(0));
    let refused = place.run(&["show", &id, "--reveal", &what, "--out", "shown"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("plain digests"), "{refused:?}");
    assert!(!place.path("shown").exists());
}

#[test]
fn what_nobody_signed_is_not_handed_over() {
    let Some(place) = place("what_nobody_signed_is_not_handed_over") else { return };
    repository(&place, PROJECT);
    let model = script(&place, "m.json", &json!([project::finish("Done.")]));
    let args = project::args(&place, &model, &["--check", CHECK, "--format", "json"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // A signer that says nothing.
    let public = place.run(&["key", "show"]).stdout;
    let public = place.write("key.pub", &public);
    let mut command = place.command(&args);
    command.env("COUNTERSIGN_SIGNING_COMMAND", "false").env("COUNTERSIGN_SIGNING_PUBLIC_KEY_FILE", public);
    let result = Ended::of(command.output().unwrap()).json();
    let id = result["session"].as_str().unwrap();
    let refused = place.run(&["show", id, "--reveal", "2:input", "--out", "shown"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("is not signed"), "{refused:?}");
    let (child, _) = project::under_way(&place);
    let listed = json_of(&place.run(&["list", "--format", "json"]));
    let running = listed[0]["session"].as_str().unwrap();
    let refused = place.run(&["show", running, "--reveal", "2:input", "--out", "shown"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("has no bundle"), "{refused:?}");
    assert!(!place.path("shown").exists());
    project::kill("INT", child.id());
    project::ended(child);
}
