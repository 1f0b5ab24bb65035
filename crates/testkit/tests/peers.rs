//! Programs that are not ours read what we write, and we read what they write.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests; a skipped test says so")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use countersign_llm::{
    Conversation, ErrorClass, HttpConfig, Message, Provider, Script, Stop, SystemTimer, Wired,
};
use countersign_testkit::{ScriptedServer, ServerOptions, aimock};
use countersign_types::Millis;

const SCRIPT: &str = r#"{"version":1,"turns":[
  {"text":"I look.","calls":[{"tool":"run","args":{"command":"ls"}},{"tool":"check","args":{}}],"usage":{"input":11,"output":7}},
  {"error":{"status":429,"retry_after_s":1}},
  {"calls":[{"tool":"finish","args":{"summary":"é"}}]},
  {"text":"done"}]}"#;

fn script() -> Script {
    Script::parse("test.json", SCRIPT.as_bytes()).unwrap()
}

fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED: {test}: {why}");
}

/// The python of `COUNTERSIGN_PYTHON`, else `python3`, when it can import `package`.
fn python_with(package: &str) -> Option<String> {
    let python = std::env::var("COUNTERSIGN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let quiet = || Stdio::null();
    let import = format!("import {package}");
    let status = Command::new(&python).args(["-c", &import]).stdout(quiet()).stderr(quiet()).status();
    status.ok().filter(std::process::ExitStatus::success).map(|_| python)
}

const READER: &str = r#"
import json, os, openai
client = openai.OpenAI(base_url=os.environ["URL"], api_key="sk-peer", max_retries=0)
messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}]
tools = [{"type": "function", "function": {"name": "run", "description": "d", "parameters": {"type": "object"}}}]
def ask():
    return client.chat.completions.create(model="peer-model", messages=messages, tools=tools)
first = ask()
message = first.choices[0].message
assert first.model == "peer-model" and first.object == "chat.completion", first
assert message.content == "I look." and first.choices[0].finish_reason == "tool_calls", first
assert [(c.id, c.type, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls] == [
    ("call_0_0", "function", "run", {"command": "ls"}), ("call_0_1", "function", "check", {})], first
assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.total_tokens) == (11, 7, 18), first
openai.types.chat.ChatCompletion.model_validate(first.model_dump(), strict=True)
messages.append(message.model_dump(exclude_none=True))
messages += [{"role": "tool", "tool_call_id": c.id, "content": "ok"} for c in message.tool_calls]
try:
    ask()
    raise SystemExit("the 429 was not raised")
except openai.RateLimitError as error:
    assert error.response.headers["retry-after"] == "1", error.response.headers
third = ask()
assert json.loads(third.choices[0].message.tool_calls[0].function.arguments) == {"summary": "é"}, third
assert third.usage is None, third
fourth = ask()
assert fourth.choices[0].message.content == "done" and fourth.choices[0].finish_reason == "stop", fourth
assert not fourth.choices[0].message.tool_calls, fourth
try:
    ask()
    raise SystemExit("the end of the script was not raised")
except openai.BadRequestError as error:
    assert error.code == "script_ended", error
print("read by openai", openai.__version__)
"#;

#[test]
fn the_official_python_sdk_reads_the_scripted_server() {
    let Some(python) = python_with("openai") else {
        skipped(
            "the_official_python_sdk_reads_the_scripted_server",
            "python3 with the package `openai` is not here (COUNTERSIGN_PYTHON names another python)",
        );
        return;
    };
    let server =
        ScriptedServer::start(ServerOptions { key: Some("sk-peer".into()), ..ServerOptions::new(script()) })
            .unwrap();
    let output = Command::new(python)
        .args(["-c", READER])
        .env("URL", server.base_url())
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const ANTHROPIC_READER: &str = r#"
import anthropic, os
client = anthropic.Anthropic(base_url=os.environ["URL"], api_key="sk-peer", max_retries=0)
messages = [{"role": "user", "content": "go"}]
tools = [{"name": "run", "description": "d", "input_schema": {"type": "object"}}]
def ask():
    return client.messages.create(model="peer-model", max_tokens=64, system="s", messages=messages, tools=tools)
first = ask()
assert first.model == "peer-model" and first.type == "message" and first.stop_reason == "tool_use", first
thinking, redacted, _, text, run, check = first.content
assert thinking.type == "thinking" and thinking.signature and redacted.data, first
assert text.text == "I look.", first
assert [(c.id, c.name, c.input) for c in (run, check)] == [
    ("toolu_0_0", "run", {"command": "ls"}), ("toolu_0_1", "check", {})], first
assert (first.usage.input_tokens, first.usage.output_tokens) == (11, 7), first
messages.append({"role": "assistant", "content": first.content})
messages.append({"role": "user", "content": [
    {"type": "tool_result", "tool_use_id": c.id, "content": "ok"} for c in (run, check)]})
try:
    ask()
    raise SystemExit("the 429 was not raised")
except anthropic.RateLimitError as error:
    assert error.response.headers["retry-after"] == "1", error.response.headers
    assert error.body["error"]["type"] == "rate_limit_error", error.body
third = ask()
assert third.content[-1].input == {"summary": "é"}, third
fourth = ask()
assert fourth.content[-1].text == "done" and fourth.stop_reason == "end_turn", fourth
print("read by anthropic", anthropic.__version__)
"#;

#[test]
fn the_official_anthropic_sdk_reads_the_scripted_server() {
    let Some(python) = python_with("anthropic") else {
        skipped(
            "the_official_anthropic_sdk_reads_the_scripted_server",
            "python3 with the package `anthropic` is not here (COUNTERSIGN_PYTHON names another python)",
        );
        return;
    };
    let options = ServerOptions { key: Some("sk-peer".into()), ..ServerOptions::new(script()) };
    let server = ScriptedServer::start(options).unwrap();
    let output = Command::new(python)
        .args(["-c", ANTHROPIC_READER])
        // A token of the environment would go out beside the key.
        .env_clear()
        .env("URL", server.base_url().trim_end_matches("/v1"))
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What our wires send is what the vendors' own types allow: every body is read by the SDK's models of a request.
const REQUEST_CHECK: &str = r#"
import json, sys, typing, pydantic, anthropic
from anthropic.types import message_create_params
body = json.load(sys.stdin)
params = message_create_params.MessageCreateParamsNonStreaming
unknown = set(body) - set(typing.get_type_hints(params))
assert not unknown, unknown
for message in body["messages"]:
    pydantic.TypeAdapter(anthropic.types.MessageParam).validate_python(message)
for tool in body["tools"]:
    pydantic.TypeAdapter(anthropic.types.ToolParam).validate_python(tool)
pydantic.TypeAdapter(anthropic.types.OutputConfigParam).validate_python(body["output_config"])
pydantic.TypeAdapter(anthropic.types.CacheControlEphemeralParam).validate_python(body["cache_control"])
"#;

#[tokio::test]
async fn the_official_anthropic_sdk_knows_every_field_that_we_send() {
    use std::io::Write as _;
    let Some(python) = python_with("anthropic") else {
        skipped(
            "the_official_anthropic_sdk_knows_every_field_that_we_send",
            "python3 with the package `anthropic` is not here (COUNTERSIGN_PYTHON names another python)",
        );
        return;
    };
    let url: countersign_llm::BaseUrl = "https://api.anthropic.com".parse().unwrap();
    let key = countersign_llm::ApiKey::new("k", &url).unwrap();
    let config = HttpConfig::new("anthropic:claude-sonnet-5-5".parse().unwrap(), url, Some(key));
    let provider = Wired::http(config, Arc::new(SystemTimer)).unwrap();
    let body = br#"{"content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"x"},
        {"type":"tool_use","id":"a","name":"run","input":{}}],"stop_reason":"tool_use"}"#;
    let reply = provider.decode(0, body).unwrap();
    let result =
        Message::ToolResult { call_id: "a".into(), name: "run".into(), text: "no".into(), is_error: true };
    let parameters = serde_json::json!({"type": "object"});
    let talk = Conversation {
        system: "s".into(),
        tools: vec![countersign_llm::ToolSchema { name: "run".into(), description: "d".into(), parameters }],
        messages: vec![Message::user("go"), Message::assistant(&reply), result, Message::user("on")],
        max_output_tokens: None,
        effort: Some(countersign_llm::Effort::Xhigh),
    };
    let mut child = Command::new(python)
        .args(["-c", REQUEST_CHECK])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&provider.encode(&talk).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn our_wires_read_aimock() {
    let Some(dir) = std::env::var_os("COUNTERSIGN_AIMOCK_DIR") else {
        skipped(
            "our_wires_read_aimock",
            "COUNTERSIGN_AIMOCK_DIR names no directory with node_modules/@copilotkit/aimock",
        );
        return;
    };
    if let Err(why) = aimock::node() {
        skipped("our_wires_read_aimock", &why.to_string());
        return;
    }
    for model in ["openai:gpt-test", "anthropic:claude-test"] {
        reads_aimock(Path::new(&dir), model).await;
    }
}

async fn reads_aimock(dir: &Path, model: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let server = aimock::start(dir, &script(), scratch.path()).unwrap();
    let config = HttpConfig::new(model.parse().unwrap(), server.base_url().parse().unwrap(), None);
    let provider = Wired::http(config, Arc::new(SystemTimer)).unwrap();
    let mut talk = Conversation { messages: vec![Message::user("go")], ..Conversation::default() };
    let mut replies = Vec::new();
    for call in 0..5 {
        let request = provider.encode(&talk).unwrap().into();
        let answer = provider.send(call, request).await;
        if let Ok(reply) = &answer {
            assert_eq!(&provider.decode(call, &reply.raw).unwrap(), reply);
            talk.messages.push(Message::assistant(reply));
            for call in &reply.calls {
                let (call_id, name) = (call.id.clone(), call.name.clone());
                talk.messages.push(Message::ToolResult { call_id, name, text: "ok".into(), is_error: false });
            }
        }
        replies.push(answer);
    }
    let first = replies[0].as_ref().unwrap();
    assert_eq!((first.text.as_deref(), &first.stop), (Some("I look."), &Stop::ToolCalls));
    let calls: Vec<_> =
        first.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("run", r#"{"command":"ls"}"#), ("check", "{}")]);
    assert_eq!((first.usage.input, first.usage.output), (Some(11), Some(7)));
    let limited = replies[1].as_ref().unwrap_err();
    assert_eq!((limited.class, limited.retry_after), (ErrorClass::RateLimit, Some(Millis(1000))));
    let third = replies[2].as_ref().unwrap();
    assert_eq!(third.calls[0].arguments, r#"{"summary":"é"}"#);
    assert_eq!(replies[3].as_ref().unwrap().text.as_deref(), Some("done"));
    assert!(replies[4].is_err(), "beyond the script: {:?}", replies[4]);
}

/// A child that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_binary_says_where_it_listens_and_plays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.json");
    std::fs::write(&file, SCRIPT).unwrap();
    let binary = env!("CARGO_BIN_EXE_countersign-scripted-server");
    let child = Command::new(binary)
        .args(["--port", "0", "--key", "k", "--strict", "--script"])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ended(child);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").unwrap();
    let url: countersign_llm::BaseUrl = format!("http://{address}").parse().unwrap();
    let key = countersign_llm::ApiKey::new("k", &url).unwrap();
    let config = HttpConfig::new("openai:m".parse().unwrap(), url, Some(key));
    let provider = Wired::http(config, Arc::new(SystemTimer)).unwrap();
    let talk = Conversation { messages: vec![Message::user("go")], ..Conversation::default() };
    let reply = provider.send(0, provider.encode(&talk).unwrap().into()).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("I look."));
}

#[test]
fn the_binary_refuses_bad_arguments_in_words() {
    let binary = env!("CARGO_BIN_EXE_countersign-scripted-server");
    for args in
        [&[][..], &["--port"], &["--port", "x"], &["--nonsense"], &["--script", "/nonexistent/s.json"]]
    {
        let output = Command::new(binary).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}
