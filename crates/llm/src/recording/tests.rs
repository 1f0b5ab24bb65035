use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use serde_json::{Value, json};

use super::*;
use crate::{Conversation, ErrorClass, Message, Provider, Reply, SystemTimer, Wired};

const KEY: &str = "sk-very-secret-0123456789";

fn redact() -> Redact {
    Redact::new(|bytes| String::from_utf8_lossy(bytes).replace(KEY, "[redacted]").into_bytes())
}

fn script(dir: &Path, turns: Value) -> ModelRef {
    let file = dir.join("s.json");
    std::fs::write(&file, json!({ "version": 1, "turns": turns }).to_string()).unwrap();
    format!("scripted:{}", file.display()).parse().unwrap()
}

fn talk(text: &str) -> Conversation {
    Conversation { messages: vec![Message::user(text)], ..Conversation::default() }
}

fn send(provider: &Wired, call: u64, text: &str) -> Result<Reply, SendError> {
    block_on(provider.send(call, provider.encode(&talk(text)).unwrap().into()))
}

/// Records three attempts: an error with a wait, an answer, and one beyond the script.
fn recorded(dir: &Path) -> (PathBuf, Vec<Result<Reply, SendError>>) {
    let model = script(
        dir,
        json!([
            { "error": { "status": 429, "retry_after_s": 1.5 } },
            { "text": format!("I saw {KEY}"), "calls": [{ "tool": "run", "args": { "command": "ls" } }] },
        ]),
    );
    let path = dir.join("calls.jsonl");
    let models = vec![RecordedModel { role: Role::Agent, model: model.clone(), endpoint: None }];
    let recorder = Recorder::create(&path, models, redact()).unwrap();
    let provider = Wired::scripted(model, Arc::new(SystemTimer)).unwrap().recorded(&recorder, Role::Agent);
    assert!(!path.exists(), "it appears whole or not at all");
    let replies = (0..3).map(|call| send(&provider, call, &format!("my key is {KEY}"))).collect();
    assert_eq!(recorder.finish(), Ok(3));
    (path, replies)
}

fn play(path: &Path) -> Wired {
    let player = Arc::new(Player::open(path, redact()).unwrap());
    let model = player.model(Role::Agent).unwrap().model.clone();
    Wired::replayed(&player, Role::Agent, model, None, Arc::new(SystemTimer))
}

#[test]
fn what_was_recorded_is_played_again_in_order_refusals_included() {
    let dir = tempfile::tempdir().unwrap();
    let (path, replies) = recorded(dir.path());
    std::fs::remove_file(dir.path().join("s.json")).unwrap();
    let provider = play(&path);
    let again: Vec<_> = (0..3).map(|call| send(&provider, call, &format!("my key is {KEY}"))).collect();
    let limited = again[0].as_ref().unwrap_err();
    assert_eq!(
        (limited.class, limited.retry_after),
        (ErrorClass::RateLimit, Some(countersign_types::Millis(1500)))
    );
    let (first, reply) = (replies[1].as_ref().unwrap(), again[1].as_ref().unwrap());
    assert_eq!(reply.calls, first.calls);
    assert_eq!(reply.text.as_deref(), Some("I saw [redacted]"));
    assert_eq!(again[2], replies[2], "an error without an answer is one again");
    let ended = send(&provider, 3, "x").unwrap_err();
    assert_eq!((ended.class, ended.retryable), (ErrorClass::BadResponse, false));
    assert!(ended.message.contains("holds 3 model call(s) of the agent"), "{ended}");
}

#[test]
fn a_recording_is_its_owners_alone_and_holds_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = recorded(dir.path());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(KEY), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["format"], RECORDING_FORMAT);
    assert_eq!(lines[1]["answer"]["status"], 429);
    assert_eq!(lines[1]["answer"]["headers"], json!([["retry-after-ms", "1500"]]));
    assert_eq!((&lines[2]["role"], &lines[2]["call"]), (&json!("agent"), &json!(1)));
    assert_eq!(lines[3]["error"]["class"], "bad_response");
    assert_eq!(lines[4], json!({ "end": { "attempts": 3 } }));
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing else is left: {left:?}");
}

#[test]
fn a_request_that_differs_stops_with_the_first_field() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = recorded(dir.path());
    let error = send(&play(&path), 0, "another task").unwrap_err();
    assert_eq!((error.class, error.retryable, error.maybe_billed), (ErrorClass::BadResponse, false, false));
    let part = "model call 1 of the agent differs from the recording at `/messages/0/content`: recorded \"my key is \
                [redacted]\", now \"another task\"";
    assert!(error.message.contains(part), "{error}");
    let provider = play(&path);
    let request: Arc<[u8]> = Arc::from(
        &b"{ \"messages\":[{\"role\":\"user\",\"content\":\"my key is [redacted]\"}],\"model\":\"scripted\"}"
            [..],
    );
    let error = block_on(provider.send(0, request)).unwrap_err();
    assert!(error.message.contains("white space or the order"), "{error}");
}

#[test]
fn what_took_another_time_is_the_same_request_where_that_is_forgiven() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = recorded(dir.path());
    let player = || Player::open(&path, redact()).unwrap();
    let steady = Redact::new(|text| text.iter().copied().filter(|byte| !byte.is_ascii_digit()).collect());
    let send_with = |player: Player, text: &str| {
        let (player, model) = (Arc::new(player), "scripted:x".parse().unwrap());
        send(&Wired::replayed(&player, Role::Agent, model, None, Arc::new(SystemTimer)), 0, text).unwrap_err()
    };
    let slower = "my key is [redacted]7";
    assert!(send_with(player(), slower).message.contains("`/messages/0/content`"));
    assert_eq!(send_with(player().forgiving(steady.clone()), slower).class, ErrorClass::RateLimit);
    assert!(send_with(player().forgiving(steady), "my key is X").message.contains("`/messages/0/content`"));
}

#[test]
fn nothing_is_written_over_and_nothing_half_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = recorded(dir.path());
    let error = Recorder::create(&path, Vec::new(), redact()).unwrap_err().to_string();
    assert!(error.contains("exists already") && error.contains("calls.jsonl"), "{error}");
    let before = std::fs::read_dir(dir.path()).unwrap().count();
    let other = dir.path().join("other");
    drop(Recorder::create(&other, Vec::new(), redact()).unwrap());
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        before,
        "a run that was refused leaves nothing"
    );
    let taken = Recorder::create(&other, Vec::new(), redact()).unwrap();
    std::fs::write(&other, "mine").unwrap();
    assert!(taken.finish().unwrap_err().to_string().contains("cannot be put in its place"));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
    assert!(Recorder::create(&dir.path().join("no/such/dir"), Vec::new(), redact()).is_err());
    assert!(Recorder::create(Path::new("/"), Vec::new(), redact()).is_err());
}

#[test]
fn only_whole_recordings_of_a_known_format_are_played() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = recorded(dir.path());
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let no_end = lines[..4].join("\n");
    let (fewer, more) = ([&lines[..3], &lines[4..]].concat().join("\n"), format!("{whole}{}", lines[1]));
    let later = whole.replace("countersign.recording/1", "countersign.recording/2");
    for (text, part) in [
        ("", "is empty"),
        ("{}", "is no recording"),
        ("<html>", "is no recording"),
        (later.as_str(), "is of the format `countersign.recording/2`"),
        (no_end.as_str(), "it was cut"),
        (fewer.as_str(), "holds 2 attempts and says that there are 3"),
        (more.as_str(), "goes on after its end (line 6)"),
        (&whole[..whole.len() - 20], "is not valid (line 5)"),
        (&whole.replace("\"answer\"", "\"reply\""), "neither one answer nor one error in line 2"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Player::open(&path, redact()).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("calls.jsonl"), "{error}\n  want: {part}");
    }
    // A field of a later program of the same version is no reason to refuse it.
    std::fs::write(&path, whole.replace("{\"role\"", "{\"novel\":1,\"role\"")).unwrap();
    assert!(Player::open(&path, redact()).is_ok());
    assert!(Player::open(dir.path(), redact()).is_err());
}

/// The first format, as it was first released. It stays readable for ever.
#[test]
fn a_recording_of_the_first_version_is_played() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/version-1.jsonl"));
    let player = Arc::new(Player::open(path, redact()).unwrap());
    let model = player.model(Role::Agent).unwrap().clone();
    assert_eq!(model.model.to_string(), "anthropic:claude-sonnet-5-5");
    let url = model.endpoint.as_deref().map(|url| url.parse().unwrap());
    let provider = Wired::replayed(&player, Role::Agent, model.model, url.as_ref(), Arc::new(SystemTimer));
    assert_eq!(send(&provider, 0, "Fix it.").unwrap_err().class, ErrorClass::Overloaded);
    let reply = send(&provider, 1, "Fix it.").unwrap();
    assert_eq!((reply.text.as_deref(), reply.usage.input), (Some("Done."), Some(30)));
}

#[test]
fn a_body_that_is_no_text_comes_back_as_it_was() {
    let answer = HttpAnswerBytes(vec![0xff, 0x00, b'a']);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let model: ModelRef = "openai:m".parse().unwrap();
    let models = vec![RecordedModel { role: Role::Agent, model: model.clone(), endpoint: None }];
    let same = || Redact::new(<[u8]>::to_vec);
    let recorder = Recorder::create(&path, models, same()).unwrap();
    let provider = Wired::over(model, None, Arc::new(answer.clone()), Arc::new(SystemTimer));
    let provider = provider.recorded(&recorder, Role::Agent);
    let was = send(&provider, 0, "x").unwrap_err();
    recorder.finish().unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"body_base64\":\"/wBh\""));
    let player = Arc::new(Player::open(&path, same()).unwrap());
    let model = player.model(Role::Agent).unwrap().model.clone();
    let again = Wired::replayed(&player, Role::Agent, model, None, Arc::new(SystemTimer));
    assert_eq!(send(&again, 0, "x").unwrap_err(), was);
}

/// A server that answers with these bytes.
#[derive(Clone, Debug)]
struct HttpAnswerBytes(Vec<u8>);

impl crate::transport::Transport for HttpAnswerBytes {
    fn exchange(
        &self,
        _: u64,
        _: Arc<[u8]>,
    ) -> futures::future::BoxFuture<'_, Result<crate::http::HttpAnswer, SendError>> {
        let body = self.0.clone();
        Box::pin(async {
            Ok(crate::http::HttpAnswer { status: 200, headers: hyper::header::HeaderMap::new(), body })
        })
    }
}
