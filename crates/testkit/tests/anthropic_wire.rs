//! `anthropic:` against the scripted server over real HTTP: a server that refuses what the vendor refuses, and every way
//! in which the vendor says no.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_llm::{
    ApiKey, BaseUrl, Conversation, ErrorClass, HttpConfig, Message, Provider, Reply, Script, SendError, Stop,
    SystemTimer, ToolSchema, Wired,
};
use countersign_testkit::{Fault, ScriptedServer, ServerOptions};
use countersign_types::Millis;
use serde_json::{Value, json};

fn script(turns: &Value) -> Script {
    Script::parse("test.json", json!({"version": 1, "turns": turns}).to_string().as_bytes()).unwrap()
}

fn provider(base_url: &str, key: Option<&str>) -> Wired {
    let url: BaseUrl = base_url.parse().unwrap();
    let key = key.map(|key| ApiKey::new(key, &url).unwrap());
    let model = "anthropic:claude-test".parse().unwrap();
    Wired::http(HttpConfig::new(model, url, key), Arc::new(SystemTimer)).unwrap()
}

fn conversation() -> Conversation {
    let parameters = json!({"type": "object", "properties": {}});
    Conversation {
        system: "Be exact.".into(),
        tools: vec![ToolSchema { name: "run".into(), description: "Runs.".into(), parameters }],
        messages: vec![Message::user("Fix it. \u{1F980}")],
        max_output_tokens: Some(64),
        effort: None,
    }
}

async fn send(provider: &Wired, call: u64, talk: &Conversation) -> Result<Reply, SendError> {
    provider.send(call, provider.encode(talk).unwrap().into()).await
}

fn push(talk: &mut Conversation, reply: &Reply, result: &str) {
    talk.messages.push(Message::assistant(reply));
    for (index, call) in reply.calls.iter().enumerate() {
        let (call_id, name) = (call.id.clone(), call.name.clone());
        talk.messages.push(Message::ToolResult { call_id, name, text: result.into(), is_error: index == 1 });
    }
}

fn looks(command: &str) -> Value {
    json!({"text": format!("I look at {command}."), "calls": [
        {"tool": "run", "args": {"command": command}}, {"tool": "run", "args": {}}]})
}

#[tokio::test]
async fn ten_turns_pass_a_server_that_refuses_any_changed_signature() {
    let mut turns: Vec<Value> = (0..10).map(|n| looks(&format!("f{n}"))).collect();
    turns.insert(3, json!({"error": {"status": 529}}));
    turns.push(json!({"text": "done", "usage": {"input": 11, "output": 7}}));
    let options = ServerOptions {
        key: Some("sk-ant".into()),
        strict: true,
        ..ServerOptions::new(script(&json!(turns)))
    };
    let server = ScriptedServer::start(options).unwrap();
    let provider = provider(&server.base_url(), Some("sk-ant"));
    let mut talk = conversation();
    let mut said = Vec::new();
    for call in 0..12 {
        match send(&provider, call, &talk).await {
            Ok(reply) => {
                assert_eq!(
                    provider.decode(call, &reply.raw).unwrap(),
                    reply,
                    "read again from what is stored"
                );
                assert!(reply.reasoning.is_some());
                push(&mut talk, &reply, if call % 2 == 0 { "ok" } else { "" });
                // What a person or a detector says comes behind the results.
                if call == 4 {
                    talk.messages.push(Message::user("Go on."));
                }
                said.push(reply.text.unwrap());
            }
            Err(error) => assert_eq!((call, error.class), (3, ErrorClass::Overloaded), "{error}"),
        }
    }
    assert_eq!(server.violations(), Vec::<String>::new());
    assert_eq!(said.len(), 11);
    let requests = server.requests();
    assert_eq!(requests[3].body, requests[4].body, "a retry is the same bytes");
    for request in &requests {
        let header = |name: &str| {
            let found: Vec<_> = request.headers.iter().filter(|(given, _)| given == name).collect();
            assert!(found.len() <= 1, "{name} twice");
            found.first().map(|(_, value)| value.clone())
        };
        assert_eq!(request.path, "/v1/messages");
        assert_eq!(header("x-api-key").as_deref(), Some("sk-ant"));
        assert_eq!(header("anthropic-version").as_deref(), Some("2026-10-21"));
        assert_eq!(header("content-type").as_deref(), Some("application/json"));
        assert_eq!(header("authorization"), None);
    }
}

/// The strict server is no formality: it notices what a careless client does to a conversation.
#[tokio::test]
async fn a_changed_signature_a_lost_block_or_a_changed_result_is_refused() {
    type Change = fn(&str) -> String;
    let changes: [Change; 4] = [
        |body| body.replacen("c2ln", "c2lm", 1),
        |body| body.replacen(r#"{ "type" : "brand_new", "n": [1.50, 1e3] },"#, "", 1),
        |body| body.replacen("1.50", "1.5", 1),
        |body| body.replacen("Fix it", "Break it", 1),
    ];
    for change in changes {
        let turns = json!([looks("a"), {"text": "done"}]);
        let server =
            ScriptedServer::start(ServerOptions { strict: true, ..ServerOptions::new(script(&turns)) })
                .unwrap();
        let provider = provider(&server.base_url(), None);
        let mut talk = conversation();
        let reply = send(&provider, 0, &talk).await.unwrap();
        push(&mut talk, &reply, "ok");
        let body = String::from_utf8(provider.encode(&talk).unwrap()).unwrap();
        let bent = change(&body);
        assert_ne!(bent, body);
        let error = provider.send(1, bent.into_bytes().into()).await.unwrap_err();
        assert_eq!((error.class, error.status), (ErrorClass::BadResponse, Some(400)), "{error}");
        assert_eq!(server.violations().len(), 1);
    }
}

/// A body as the vendor words its errors.
fn failure(status: u16, kind: &str, message: &str, headers: &[(&str, &str)]) -> Fault {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Fault::Response { status, headers, body: body.to_string().into_bytes() }
}

async fn failed(fault: Fault) -> SendError {
    let server = ScriptedServer::start(ServerOptions {
        faults: BTreeMap::from([(0, fault.clone())]),
        ..ServerOptions::new(script(&json!([{"text": "a claim"}])))
    })
    .unwrap();
    send(&provider(&server.base_url(), None), 0, &conversation())
        .await
        .map(|_| ())
        .expect_err(&format!("{fault:?}"))
}

#[tokio::test]
async fn every_error_of_the_vendor_has_its_class() {
    use ErrorClass as C;
    for (status, kind, message, class, retryable) in [
        (400, "invalid_request_error", "messages.0: bad", C::BadResponse, false),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            C::ContextOverflow,
            false,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            C::ContextOverflow,
            false,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API.",
            C::QuotaExhausted,
            false,
        ),
        (401, "authentication_error", "invalid x-api-key", C::Auth, false),
        (402, "billing_error", "m", C::QuotaExhausted, false),
        (403, "permission_error", "m", C::Auth, false),
        (404, "not_found_error", "model: claude-test", C::BadResponse, false),
        (409, "conflict_error", "m", C::Overloaded, true),
        (413, "request_too_large", "Request exceeds the maximum size", C::ContextOverflow, false),
        (429, "rate_limit_error", "m", C::RateLimit, true),
        (500, "api_error", "m", C::Overloaded, true),
        (504, "timeout_error", "m", C::Transport, true),
        (529, "overloaded_error", "Overloaded", C::Overloaded, true),
        // Status 200 and an error all the same.
        (200, "overloaded_error", "Overloaded", C::Overloaded, true),
    ] {
        let error = failed(failure(status, kind, message, &[])).await;
        assert_eq!((error.class, error.retryable), (class, retryable), "{status} {kind}: {error}");
        assert_eq!(error.status, Some(status));
        assert!(error.message.contains(message), "{error}");
    }
}

#[tokio::test]
async fn the_asked_wait_is_read_from_headers_in_every_form() {
    let limited = |headers: &[(&str, &str)]| failed(failure(429, "rate_limit_error", "m", headers));
    assert_eq!(limited(&[("retry-after", "3")]).await.retry_after, Some(Millis(3_000)));
    assert_eq!(limited(&[("retry-after", "0.25")]).await.retry_after, Some(Millis(250)));
    assert_eq!(limited(&[("retry-after-ms", "40")]).await.retry_after, Some(Millis(40)));
    let dated = [("date", "Mon, 30 Nov 2026 21:00:00 GMT"), ("retry-after", "Mon, 30 Nov 2026 21:00:07 GMT")];
    assert_eq!(limited(&dated).await.retry_after, Some(Millis(7_000)));
    // Only a counter says when: the latest of those that are used up. Far away it is a quota.
    let counted = [
        ("anthropic-ratelimit-requests-remaining", "3"),
        ("anthropic-ratelimit-requests-reset", "2036-01-01T00:00:00Z"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2035-01-01T00:00:00Z"),
    ];
    let error = limited(&counted).await;
    assert_eq!(error.reset_at.map(|at| at.0 / 1000), Some(2_051_222_400));
    assert_eq!((error.class, error.retryable), (ErrorClass::QuotaExhausted, false));
    let error = failed(failure(529, "overloaded_error", "m", &[("x-should-retry", "false")])).await;
    assert!(!error.retryable);
}

#[tokio::test]
async fn every_stop_reason_arrives_as_what_it_means() {
    let said = |reason: &str| {
        let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": "x"}], "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 1}});
        Fault::Response { status: 200, headers: Vec::new(), body: body.to_string().into_bytes() }
    };
    for (reason, stop) in [
        ("end_turn", Stop::End),
        ("stop_sequence", Stop::End),
        ("max_tokens", Stop::Length),
        ("refusal", Stop::Refusal),
        ("pause_turn", Stop::Paused),
        ("brand_new", Stop::Other("brand_new".into())),
    ] {
        let server = ScriptedServer::start(ServerOptions {
            faults: BTreeMap::from([(0, said(reason))]),
            ..ServerOptions::new(script(&json!([{"text": "x"}])))
        })
        .unwrap();
        let reply = send(&provider(&server.base_url(), None), 0, &conversation()).await.unwrap();
        assert_eq!(reply.stop, stop, "{reason}");
    }
    assert_eq!(failed(said("model_context_window_exceeded")).await.class, ErrorClass::ContextOverflow);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_repeated_key_is_not_shown() {
    let elsewhere = ScriptedServer::start(ServerOptions::new(script(&json!([{"text": "x"}])))).unwrap();
    let to = format!("{}/messages", elsewhere.base_url());
    let redirect = Fault::Response { status: 307, headers: vec![("Location".into(), to)], body: Vec::new() };
    assert_eq!(failed(redirect).await.class, ErrorClass::BadResponse);
    assert_eq!(elsewhere.requests().len(), 0);
    let server = ScriptedServer::start(ServerOptions {
        faults: BTreeMap::from([(0, failure(401, "authentication_error", "no such key: sk-ant-123", &[]))]),
        ..ServerOptions::new(script(&json!([{"text": "x"}])))
    })
    .unwrap();
    let error =
        send(&provider(&server.base_url(), Some("sk-ant-123")), 0, &conversation()).await.unwrap_err();
    assert!(error.message.contains("no such key: [key]"), "{error}");
}
