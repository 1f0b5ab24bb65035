use std::sync::Mutex;

use futures::executor::block_on;

use super::*;
use crate::failure::{Hints, failure};
use crate::{Call, Conversation, Message, Provider, Reply, Stop, Usage, Wired};

/// Time that passes only when somebody sleeps.
#[derive(Debug, Default)]
struct FakeTimer(Arc<Mutex<Vec<Millis>>>);

impl Timer for FakeTimer {
    fn now(&self) -> Millis {
        Millis(1_000_000)
    }
    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(wait);
        async {}.boxed()
    }
}

fn parse(text: &str) -> Result<Script, ScriptError> {
    Script::parse("s.json", text.as_bytes())
}

fn scripted(text: &str) -> (Wired, Arc<Mutex<Vec<Millis>>>) {
    let timer = FakeTimer::default();
    let slept = timer.0.clone();
    let model = "scripted:s.json".parse().unwrap();
    let timer: Arc<dyn Timer> = Arc::new(timer);
    let player = ScriptPlayer { file: "s.json".into(), script: parse(text).unwrap(), timer: timer.clone() };
    (Wired::over(model, None, Arc::new(player), timer), slept)
}

fn send(provider: &Wired, call: u64) -> Result<Reply, SendError> {
    block_on(provider.send(call, Arc::from(&b"{}"[..])))
}

/// The example of the format's description, and a claim.
const FULL: &str = r#"{"version":1,"turns":[
  {"text":"…","calls":[{"tool":"run","args":{"command":"ls",  "z":1.50}},{"tool":"check","args":{}}],"delay_ms":5,"usage":{"input":3,"output":0}},
  {"error":{"status":429,"retry_after_s":1}},
  {"text":"done"}]}"#;

#[test]
fn entries_answer_by_call_number_in_any_process() {
    let (provider, slept) = scripted(FULL);
    let reply = send(&provider, 0).unwrap();
    assert_eq!(reply.text.as_deref(), Some("…"));
    assert_eq!(reply.stop, Stop::ToolCalls);
    let call = |id: &str, name: &str, arguments: &str| Call {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    assert_eq!(
        reply.calls,
        [call("call_0_0", "run", r#"{"command":"ls",  "z":1.50}"#), call("call_0_1", "check", "{}")]
    );
    assert_eq!(reply.usage, Usage { input: Some(3), output: Some(0), ..Usage::default() });
    assert_eq!(reply.cost, None);
    assert_eq!(*slept.lock().unwrap(), [Millis(5)]);

    let error = send(&provider, 1).unwrap_err();
    assert_eq!(
        (error.class, error.status, error.retry_after),
        (ErrorClass::RateLimit, Some(429), Some(Millis(1000)))
    );
    assert_eq!(error.reset_at, Some(Millis(1_001_000)));

    let claim = send(&provider, 2).unwrap();
    assert_eq!(
        (claim.text.as_deref(), &claim.stop, claim.usage),
        (Some("done"), &Stop::End, Usage::default())
    );
    assert!(claim.calls.is_empty());

    let error = send(&provider, 3).unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::BadResponse, false));
    assert!(error.message.contains("3 entries"), "{error}");

    // Another process reads the same replies from what was stored.
    assert_eq!(provider.decode(0, &reply.raw).unwrap(), reply);
    assert_eq!(send(&scripted(FULL).0, 0).unwrap(), reply);
}

#[test]
fn the_transcript_goes_back_as_it_came() {
    let (provider, _) = scripted(FULL);
    let reply = send(&provider, 0).unwrap();
    let result = |id: &str| Message::ToolResult {
        call_id: id.into(),
        name: "run".into(),
        text: "r".into(),
        is_error: false,
    };
    let mut talk = Conversation { messages: vec![Message::user("go")], ..Conversation::default() };
    let before = provider.encode(&talk).unwrap();
    talk.messages.extend([Message::assistant(&reply), result("call_0_0"), result("call_0_1")]);
    let after = provider.encode(&talk).unwrap();
    assert!(after.starts_with(&before[..before.len() - 2]));
    let text = String::from_utf8(after).unwrap();
    assert!(text.contains(reply.assistant.get()));
    assert!(!text.contains("s.json"), "no path of this machine");
}

#[test]
fn the_format_is_strict_and_errors_name_the_place() {
    for (text, part) in [
        ("", "line 1 column 0"),
        ("[]", "invalid"),
        (r#"{"turns":[]}"#, "names no version"),
        (r#"{"version":2,"turns":[],"new":1}"#, "has version 2"),
        (r#"{"version":"1","turns":[]}"#, r#"has version "1""#),
        (r#"{"version":1}"#, "missing field `turns`"),
        (r#"{"version":1,"turns":[],"more":1}"#, "unknown field `more`"),
        ("{\"version\":1,\n\"turns\":[{\"txt\":\"a\"}]}", "unknown field `txt`, expected one of"),
        ("{\"version\":1,\n\"turns\":[{\"txt\":\"a\"}]}", "line 2 column"),
        (r#"{"version":1,"turns":[{"text":"a"},{}]}"#, "turns[1]: it has neither"),
        (r#"{"version":1,"turns":[{"text":"a","error":{"status":429}}]}"#, "turns[0]: it has both"),
        (r#"{"version":1,"turns":[{"calls":[],"error":{"status":429}}]}"#, "turns[0]: it has both"),
        (r#"{"version":1,"turns":[{"calls":[]}]}"#, "turns[0].calls: it is empty"),
        (r#"{"version":1,"turns":[{"calls":[{"tool":"","args":{}}]}]}"#, "turns[0].calls[0].tool"),
        (r#"{"version":1,"turns":[{"calls":[{"tool":"run"}]}]}"#, "missing field `args`"),
        (r#"{"version":1,"turns":[{"calls":[{"tool":"run","args":{},"id":"x"}]}]}"#, "unknown field `id`"),
        (r#"{"version":1,"turns":[{"error":{"status":200}}]}"#, "turns[0].error.status: 200"),
        (
            r#"{"version":1,"turns":[{"error":{"status":429,"retry_after_s":-1}}]}"#,
            "turns[0].error.retry_after_s",
        ),
        (r#"{"version":1,"turns":[{"error":{"status":500},"usage":{"input":1}}]}"#, "turns[0].usage"),
        (r#"{"version":1,"turns":[{"text":"a","delay_ms":-1}]}"#, "invalid value"),
        (r#"{"version":1,"turns":[{"text":"a","text":"b"}]}"#, "duplicate field"),
        (r#"{"version":1,"turns":[]} x"#, "trailing characters"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("`s.json`"),
            "{text}\n  gave: {error}\n  want: {part}"
        );
    }
    assert!(parse(r#"{"version":1,"turns":[]}"#).unwrap().is_empty());
    assert_eq!(
        parse(r#"{"version":1,"turns":[{"error":{"status":503,"retry_after_s":0.5},"delay_ms":1}]}"#)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn every_status_maps_as_over_http() {
    for status in 400..600_u16 {
        let (provider, _) =
            scripted(&format!(r#"{{"version":1,"turns":[{{"error":{{"status":{status}}}}}]}}"#));
        let error = send(&provider, 0).unwrap_err();
        let http = failure(b"", &Hints::status(status), Millis(0));
        assert_eq!((error.class, error.retryable, error.status), (http.class, http.retryable, Some(status)));
    }
}

#[test]
fn a_script_that_is_no_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let model: ModelRef = format!("scripted:{}", dir.path().display()).parse().unwrap();
    let error = Wired::scripted(model, Arc::new(FakeTimer::default())).unwrap_err().to_string();
    assert!(error.contains("not a regular file") && error.contains(dir.path().to_str().unwrap()), "{error}");
    let model: ModelRef = "openai:x".parse().unwrap();
    assert!(Wired::scripted(model, Arc::new(FakeTimer::default())).is_err());
}
