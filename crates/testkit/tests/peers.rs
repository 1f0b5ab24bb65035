//! Programs that are not ours read what we write, and we read what they write.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests; a skipped test says so")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use countersign_llm::{
    Conversation, ErrorClass, Message, OpenAi, OpenAiConfig, Provider, Script, Stop, SystemTimer,
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

/// The python of `COUNTERSIGN_PYTHON`, else `python3`, when it can import `openai`.
fn python_with_openai() -> Option<String> {
    let python = std::env::var("COUNTERSIGN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let quiet = || Stdio::null();
    let status = Command::new(&python).args(["-c", "import openai"]).stdout(quiet()).stderr(quiet()).status();
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
    let Some(python) = python_with_openai() else {
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

#[tokio::test]
async fn our_wire_reads_aimock() {
    let Some(dir) = std::env::var_os("COUNTERSIGN_AIMOCK_DIR") else {
        skipped(
            "our_wire_reads_aimock",
            "COUNTERSIGN_AIMOCK_DIR names no directory with node_modules/@copilotkit/aimock",
        );
        return;
    };
    if let Err(why) = aimock::node() {
        skipped("our_wire_reads_aimock", &why.to_string());
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let server = aimock::start(Path::new(&dir), &script(), scratch.path()).unwrap();
    let config =
        OpenAiConfig::new("openai:gpt-test".parse().unwrap(), server.base_url().parse().unwrap(), None);
    let provider = OpenAi::new(config, Arc::new(SystemTimer)).unwrap();
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
    let config = OpenAiConfig::new("openai:m".parse().unwrap(), url, Some(key));
    let provider = OpenAi::new(config, Arc::new(SystemTimer)).unwrap();
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
