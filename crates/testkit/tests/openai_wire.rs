//! `openai:` against the scripted server over real HTTP: the answers, every way in which a network fails, and the limits.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_llm::{
    ApiKey, BaseUrl, Conversation, ErrorClass, HttpConfig, HttpLimits, Message, Provider, Reply, Script,
    SendError, Stop, SystemTimer, ToolSchema, Wired,
};
use countersign_testkit::{Fault, ScriptedServer, ServerOptions};
use countersign_types::{ByteSize, Millis};

const SCRIPT: &str = r#"{"version":1,"turns":[
  {"text":"I look.","calls":[{"tool":"run","args":{"command":"ls"}},{"tool":"check","args":{}}],"usage":{"input":11,"output":7}},
  {"error":{"status":429,"retry_after_s":1.5}},
  {"calls":[{"tool":"finish","args":{"summary":"\u00e9"}}]},
  {"text":"done"}]}"#;

fn script(text: &str) -> Script {
    Script::parse("test.json", text.as_bytes()).unwrap()
}

/// Small enough for a test that waits for them, large enough for a busy machine that must not meet them.
fn limits() -> HttpLimits {
    HttpLimits { response: ByteSize::kib(256), error_body: ByteSize::kib(1), ..HttpLimits::default() }
}

/// For tests in which a limit must fire.
const SHORT: Millis = Millis(300);

fn provider(base_url: &str, key: Option<&str>, limits: HttpLimits) -> Wired {
    let url: BaseUrl = base_url.parse().unwrap();
    let key = key.map(|key| ApiKey::new(key, &url).unwrap());
    let config = HttpConfig { limits, ..HttpConfig::new("openai:test-model".parse().unwrap(), url, key) };
    Wired::http(config, Arc::new(SystemTimer)).unwrap()
}

fn conversation() -> Conversation {
    let parameters = serde_json::json!({"type": "object", "properties": {}});
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

fn push(talk: &mut Conversation, reply: &Reply) {
    talk.messages.push(Message::assistant(reply));
    for call in &reply.calls {
        let (call_id, name) = (call.id.clone(), call.name.clone());
        talk.messages.push(Message::ToolResult { call_id, name, text: "ok".into(), is_error: false });
    }
}

/// A provider with `limits` against a server that plays a claim and meets call 0 with `fault`.
async fn faulty(fault: Fault, limits: HttpLimits) -> Result<Reply, SendError> {
    let server = ScriptedServer::start(ServerOptions {
        faults: BTreeMap::from([(0, fault)]),
        ..ServerOptions::new(script(
            r#"{"version":1,"turns":[{"text":"a claim of some length"},{"text":"b"}]}"#,
        ))
    })
    .unwrap();
    send(&provider(&server.base_url(), None, limits), 0, &conversation()).await
}

async fn failed(fault: Fault, limits: HttpLimits) -> SendError {
    faulty(fault.clone(), limits).await.map(|_| ()).expect_err(&format!("{fault:?}"))
}

#[tokio::test]
async fn a_session_passes_a_strict_server() {
    let server = ScriptedServer::start(ServerOptions {
        key: Some("sk-test".into()),
        strict: true,
        ..ServerOptions::new(script(SCRIPT))
    })
    .unwrap();
    let provider = provider(&server.base_url(), Some("sk-test"), limits());
    let mut talk = conversation();

    let first = send(&provider, 0, &talk).await.unwrap();
    assert_eq!((first.text.as_deref(), &first.stop), (Some("I look."), &Stop::ToolCalls));
    assert_eq!((first.usage.input, first.usage.output), (Some(11), Some(7)));
    assert_eq!(first.calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call_0_0", "call_0_1"]);
    push(&mut talk, &first);

    let error = send(&provider, 1, &talk).await.unwrap_err();
    assert_eq!((error.class, error.status), (ErrorClass::RateLimit, Some(429)));
    assert_eq!(error.retry_after, Some(Millis(1500)));
    assert!(error.reset_at.is_some());

    let second = send(&provider, 2, &talk).await.unwrap();
    assert_eq!(second.calls[0].arguments, r#"{"summary":"\u00e9"}"#, "arguments are the bytes of the script");
    assert_eq!(second.usage.input, None);
    push(&mut talk, &second);

    let third = send(&provider, 3, &talk).await.unwrap();
    assert_eq!((third.text.as_deref(), third.stop), (Some("done"), Stop::End));

    let ended = send(&provider, 4, &talk).await.unwrap_err();
    assert_eq!((ended.class, ended.retryable), (ErrorClass::BadResponse, false));

    assert_eq!(server.violations(), Vec::<String>::new());
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[1].body, requests[2].body, "a retry is the same bytes");
    assert_eq!(provider.decode(0, &first.raw).unwrap(), first);
    for request in &requests {
        let header = |name: &str| {
            let found: Vec<_> = request.headers.iter().filter(|(given, _)| given == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].1.clone()
        };
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("accept-encoding"), "identity");
        assert_eq!(header("host"), format!("127.0.0.1:{}", server.port()));
    }
}

#[tokio::test]
async fn the_in_process_model_and_the_server_give_the_same_replies() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.json");
    std::fs::write(&file, SCRIPT).unwrap();
    let model = format!("scripted:{}", file.display()).parse().unwrap();
    let scripted = countersign_llm::Wired::scripted(model, Arc::new(SystemTimer)).unwrap();
    let server = ScriptedServer::start(ServerOptions::new(script(SCRIPT))).unwrap();
    let http = provider(&server.base_url(), None, limits());
    for call in 0..5 {
        let request: Arc<[u8]> = http.encode(&conversation()).unwrap().into();
        let one = scripted.send(call, request.clone()).await;
        let other = http.send(call, request).await;
        match (one, other) {
            (Ok(one), Ok(other)) => {
                assert_eq!((&one.text, &one.calls, &one.stop), (&other.text, &other.calls, &other.stop));
                assert_eq!((one.usage, one.assistant), (other.usage, other.assistant));
            }
            (Err(one), Err(other)) => {
                assert_eq!((one.class, one.retry_after), (other.class, other.retry_after));
                assert_eq!(one.retryable, other.retryable);
            }
            (one, other) => panic!("{one:?}\n{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_wrong_key_is_auth_and_is_not_repeated_in_the_message() {
    let server = ScriptedServer::start(ServerOptions {
        key: Some("right".into()),
        ..ServerOptions::new(script(SCRIPT))
    })
    .unwrap();
    let error =
        send(&provider(&server.base_url(), Some("wrong"), limits()), 0, &conversation()).await.unwrap_err();
    assert_eq!((error.class, error.status, error.retryable), (ErrorClass::Auth, Some(401), false));

    // The key stands where the body is cut, and once in an error under status 200.
    let long = "x".repeat(usize::try_from(limits().error_body.as_u64()).unwrap() - "sk-echo".len());
    let failures = [
        Fault::Response {
            status: 401,
            headers: vec![],
            body: b"Incorrect API key provided: sk-echo-me".to_vec(),
        },
        Fault::Response { status: 500, headers: vec![], body: format!("{long}sk-echo-me").into() },
        Fault::body(r#"{"error":{"code":401,"message":"bad key sk-echo-me"}}"#),
    ];
    let faults = (0..).zip(failures).collect();
    let server =
        ScriptedServer::start(ServerOptions { faults, ..ServerOptions::new(script(SCRIPT)) }).unwrap();
    let provider = provider(&server.base_url(), Some("sk-echo-me"), limits());
    for call in 0..3 {
        let error = send(&provider, call, &conversation()).await.unwrap_err();
        assert!(!error.message.contains("sk-e"), "{error}");
    }
}

#[tokio::test]
async fn a_strict_server_refuses_a_changed_transcript() {
    let server =
        ScriptedServer::start(ServerOptions { strict: true, ..ServerOptions::new(script(SCRIPT)) }).unwrap();
    let provider = provider(&server.base_url(), None, limits());
    let mut talk = conversation();
    let reply = send(&provider, 0, &talk).await.unwrap();
    push(&mut talk, &reply);
    talk.system.push_str(" And now this.");
    let error = send(&provider, 1, &talk).await.unwrap_err();
    assert_eq!((error.class, error.status), (ErrorClass::BadResponse, Some(400)));
    assert!(server.violations()[0].contains("message 0 changed"), "{:?}", server.violations());
}

#[tokio::test]
async fn failures_by_status_have_their_class_and_their_wait() {
    for (fault, class, wait) in [
        (Fault::status(400), ErrorClass::BadResponse, None),
        (Fault::status(401), ErrorClass::Auth, None),
        (Fault::status(402), ErrorClass::QuotaExhausted, None),
        (Fault::status(404), ErrorClass::BadResponse, None),
        (Fault::status(413), ErrorClass::ContextOverflow, None),
        (Fault::status(429).header("Retry-After", "6"), ErrorClass::RateLimit, Some(Millis(6_000))),
        (Fault::status(429).header("retry-after-ms", "40"), ErrorClass::RateLimit, Some(Millis(40))),
        (
            Fault::status(429).header("Retry-After", "7200"),
            ErrorClass::QuotaExhausted,
            Some(Millis(7_200_000)),
        ),
        (Fault::status(500), ErrorClass::Overloaded, None),
        (Fault::status(503).header("Retry-After", "2"), ErrorClass::Overloaded, Some(Millis(2_000))),
        (Fault::status(529), ErrorClass::Overloaded, None),
    ] {
        let error = failed(fault.clone(), limits()).await;
        assert_eq!((error.class, error.retry_after), (class, wait), "{fault:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_error_and_nobody_is_asked_there() {
    let elsewhere = ScriptedServer::start(ServerOptions::new(script(SCRIPT))).unwrap();
    for status in [301, 302, 303, 307, 308] {
        let fault =
            Fault::status(status).header("Location", &format!("{}/chat/completions", elsewhere.base_url()));
        let error = failed(fault, limits()).await;
        assert_eq!(
            (error.class, error.status, error.retryable),
            (ErrorClass::BadResponse, Some(status), false)
        );
        assert!(error.message.contains("redirects are not followed"), "{error}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_cut_or_broken_answer_is_typed_and_may_be_billed() {
    for (fault, class) in [
        (Fault::CloseBeforeHead, ErrorClass::Transport),
        (Fault::CloseMidBody, ErrorClass::Transport),
        (Fault::Garbage(b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()), ErrorClass::Transport),
        (Fault::Garbage(vec![0; 4096]), ErrorClass::Transport),
        (Fault::EndlessHead, ErrorClass::Transport),
        (Fault::HugeBody(1 << 20), ErrorClass::BadResponse),
        (Fault::EndlessBody, ErrorClass::BadResponse),
        (Fault::body("<html>captive portal</html>"), ErrorClass::BadResponse),
        (Fault::body(""), ErrorClass::BadResponse),
        (Fault::body("{\"choices\":[]}"), ErrorClass::BadResponse),
        (Fault::body(vec![0xff; 100]), ErrorClass::BadResponse),
        (Fault::body("{}").header("Content-Encoding", "gzip"), ErrorClass::BadResponse),
        (Fault::body(r#"{"error":{"code":503,"message":"inside"}}"#), ErrorClass::Overloaded),
    ] {
        let error = failed(fault.clone(), limits()).await;
        assert_eq!((error.class, error.maybe_billed), (class, true), "{fault:?}: {error}");
    }
}

#[tokio::test]
async fn a_long_error_body_is_cut_and_still_classified() {
    let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(100_000));
    let fault =
        Fault::Response { status: 429, headers: vec![("Retry-After".into(), "3".into())], body: body.into() };
    let error = failed(fault, limits()).await;
    assert_eq!((error.class, error.retry_after), (ErrorClass::RateLimit, Some(Millis(3_000))));
    assert!(error.message.len() <= countersign_llm::MAX_ERROR_MESSAGE);
}

#[tokio::test]
async fn every_stall_ends_by_a_limit() {
    for (fault, limits) in [
        (Fault::StallBeforeHead, HttpLimits { total: SHORT, ..limits() }),
        (Fault::StallMidBody, HttpLimits { total: SHORT, ..limits() }),
        (Fault::StallMidBody, HttpLimits { idle: SHORT, ..limits() }),
        (
            // Each piece comes in time, but the pauses together are far beyond the total.
            Fault::SlowDrip { piece: 1, pause: Millis(50).duration() },
            HttpLimits { total: SHORT, ..limits() },
        ),
    ] {
        let error = failed(fault.clone(), limits).await;
        assert_eq!(
            (error.class, error.maybe_billed, error.retryable),
            (ErrorClass::Transport, true, true),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_in_pieces_is_whole() {
    let drip = Fault::SlowDrip { piece: 3, pause: Millis(0).duration() };
    let reply = faulty(drip, limits()).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("a claim of some length"));
}

#[tokio::test]
async fn a_connection_is_kept_and_a_closed_one_is_replaced_without_a_second_send() {
    let server = ScriptedServer::start(ServerOptions {
        faults: BTreeMap::from([(1, Fault::CloseAfter), (2, Fault::CloseAfter)]),
        ..ServerOptions::new(script(
            r#"{"version":1,"turns":[{"text":"0"},{"text":"1"},{"text":"2"},{"text":"3"}]}"#,
        ))
    })
    .unwrap();
    let provider = provider(&server.base_url(), None, limits());
    for call in 0..4 {
        // A server that closes while the request is on its way gives a transport error; whatever happens, no request
        // goes out twice under one send.
        if let Ok(reply) = send(&provider, call, &conversation()).await {
            assert!(reply.text.is_some());
        }
        assert!(server.requests().len() as u64 <= call + 1);
    }
}

#[tokio::test]
async fn calls_side_by_side_get_their_own_answers() {
    let turns: Vec<String> = (0..8).map(|n| format!(r#"{{"text":"{n}","delay_ms":{}}}"#, n % 3)).collect();
    let script = script(&format!(r#"{{"version":1,"turns":[{}]}}"#, turns.join(",")));
    let server = ScriptedServer::start(ServerOptions::new(script)).unwrap();
    let provider = Arc::new(provider(&server.base_url(), None, limits()));
    let sent: Vec<_> = (0..8)
        .map(|call| {
            let provider = provider.clone();
            tokio::spawn(async move { send(&provider, call, &conversation()).await.unwrap().text.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for one in sent {
        answers.push(one.await.unwrap());
    }
    answers.sort();
    assert_eq!(answers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[tokio::test]
async fn no_server_and_no_such_host_are_transport_errors_that_were_not_billed() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let error = send(&provider(&format!("http://127.0.0.1:{port}/v1"), None, limits()), 0, &conversation())
        .await
        .unwrap_err();
    assert_eq!((error.class, error.maybe_billed, error.retryable), (ErrorClass::Transport, false, true));
    assert!(error.message.contains(&port.to_string()), "{error}");

    // A listener that never accepts TLS: the handshake is bounded by the connect limit.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", mute.local_addr().unwrap());
    let error = send(&provider(&url, None, HttpLimits { connect: SHORT, ..limits() }), 0, &conversation())
        .await
        .unwrap_err();
    assert_eq!((error.class, error.maybe_billed), (ErrorClass::Transport, false));
}

#[test]
fn outside_a_runtime_it_is_an_error_and_not_a_panic() {
    use std::future::Future as _;
    let provider = provider("http://127.0.0.1:9/v1", None, limits());
    let mut sent = provider.send(0, Arc::from(&b"{}"[..]));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(&mut sent).poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.class, ErrorClass::Transport),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let provider = provider(&url, None, limits());
    let request: Arc<[u8]> = provider.encode(&conversation()).unwrap().into();
    let mut stream = tokio::select! {
        answer = provider.send(0, request) => panic!("{answer:?}"),
        accepted = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first = [0];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first).await.unwrap();
            stream
        } => accepted,
    };
    // The send is dropped here. The peer sees the end although the provider lives on.
    let mut rest = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    assert!(provider.prices().is_none());
}
