//! What Anthropic's API refuses: fields that it does not know, roles that do not alternate, calls without results in the
//! very next message, blank text, and thinking whose conversation was changed.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::messages::{content, is_blank_text};

/// Remembers one conversation.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    last: Option<Transcript>,
    /// The blocks that the last request was answered with.
    reply: Option<Vec<String>>,
}

/// The parts of a request that must not change, as the text that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transcript {
    system: String,
    tools: String,
    messages: Vec<(String, Vec<String>)>,
}

/// Every field that the API takes; another one is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<'a> {
    model: String,
    max_tokens: u64,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    cache_control: Option<CacheControl>,
    #[serde(default)]
    output_config: Option<OutputConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    role: String,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    description: String,
    input_schema: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputConfig {
    effort: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum UserBlock {
    Text {
        text: String,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Option<String>,
        #[serde(default, rename = "is_error")]
        _is_error: Option<bool>,
    },
}

impl Validator {
    /// Checks one request against everything before it. The error says what is wrong.
    pub(crate) fn check(&mut self, body: &[u8]) -> Result<(), String> {
        let request: Request<'_> =
            serde_json::from_slice(body).map_err(|error| format!("the request cannot be read: {error}"))?;
        fields(&request)?;
        let messages: Vec<(String, Vec<String>)> = request
            .messages
            .iter()
            .map(|message| {
                let blocks = message.content.iter().map(|block| block.get().to_owned()).collect();
                (message.role.clone(), blocks)
            })
            .collect();
        alternating(&messages)?;
        pairing(&messages)?;
        let tools = request.tools.iter().flatten();
        let tools = tools.map(|tool| format!("{} {} {}", tool.name, tool.description, tool.input_schema));
        let transcript = Transcript {
            system: request.system.map(RawValue::get).unwrap_or_default().to_owned(),
            tools: tools.collect::<Vec<_>>().join("\n"),
            messages,
        };
        if let Some(last) = &self.last {
            extends(last, self.reply.as_deref(), &transcript)?;
        }
        self.last = Some(transcript);
        self.reply = None;
        Ok(())
    }

    /// The reply that the checked request gets.
    pub(crate) fn answered(&mut self, response: &[u8]) {
        self.reply = content(response);
    }
}

fn fields(request: &Request<'_>) -> Result<(), String> {
    let effort = request.output_config.as_ref().map(|config| config.effort.as_str());
    if request.model.is_empty() {
        return Err("the model is empty".to_owned());
    }
    if request.max_tokens == 0 {
        return Err("max_tokens: it must be at least 1".to_owned());
    }
    if request.stream == Some(true) {
        return Err("this server does not stream".to_owned());
    }
    if request.system.is_some_and(|system| system.get() == "\"\"") {
        return Err("system: it is empty".to_owned());
    }
    if request.cache_control.as_ref().is_some_and(|control| control.kind != "ephemeral") {
        return Err("cache_control.type: only `ephemeral` is known".to_owned());
    }
    if effort.is_some_and(|effort| !["low", "medium", "high", "xhigh", "max"].contains(&effort)) {
        return Err(format!("output_config.effort: {effort:?} is not known"));
    }
    for tool in request.tools.iter().flatten() {
        if !is_name(&tool.name) || tool.input_schema["type"] != "object" {
            return Err(format!("the tool {:?} has a name or a schema that is not taken", tool.name));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn alternating(messages: &[(String, Vec<String>)]) -> Result<(), String> {
    for (index, (role, blocks)) in messages.iter().enumerate() {
        let due = if index % 2 == 0 { "user" } else { "assistant" };
        if role != due {
            return Err(format!("message {index} has the role {role:?}, and {due:?} is due"));
        }
        if blocks.is_empty() {
            return Err(format!("message {index} has no content"));
        }
        if blocks.iter().any(|block| is_blank_text(block)) {
            return Err(format!("message {index} holds a block of blank text"));
        }
    }
    match messages.last() {
        None => Err("there are no messages".to_owned()),
        // Newer models take no beginning of their own answer.
        Some((role, _)) if role == "assistant" => Err("the last message is the assistant's".to_owned()),
        Some(_) => Ok(()),
    }
}

/// Every call of an assistant message has exactly one result in the next message, before any text there.
fn pairing(messages: &[(String, Vec<String>)]) -> Result<(), String> {
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (index, (role, blocks)) in messages.iter().enumerate() {
        if role == "assistant" {
            open = asked(index, blocks)?;
            continue;
        }
        let mut text_before = false;
        for block in blocks {
            let block: UserBlock = serde_json::from_str(block)
                .map_err(|error| format!("message {index} holds a block that is not taken: {error}"))?;
            match block {
                UserBlock::Text { text } => text_before = !text.is_empty(),
                UserBlock::ToolResult { .. } if text_before => {
                    return Err(format!("message {index} has a result behind text"));
                }
                UserBlock::ToolResult { tool_use_id, content, .. } => {
                    if !open.remove(&tool_use_id) {
                        return Err(format!(
                            "message {index} is a result for {tool_use_id:?}, which no call right before it has"
                        ));
                    }
                    if content.is_some_and(|content| content.is_empty()) {
                        return Err(format!("message {index} has a result with empty text"));
                    }
                }
            }
        }
        if !open.is_empty() {
            return Err(format!("message {index} stands where results of {open:?} are due"));
        }
    }
    Ok(())
}

/// The ids of an assistant message's calls.
fn asked(index: usize, blocks: &[String]) -> Result<BTreeSet<String>, String> {
    let mut ids = BTreeSet::new();
    for block in blocks {
        let block: Value = serde_json::from_str(block)
            .map_err(|error| format!("message {index} cannot be read: {error}"))?;
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        match text("type") {
            "tool_use" => {
                if !is_name(text("name")) || !block["input"].is_object() {
                    return Err(format!("message {index} has a call without a proper name or input"));
                }
                if text("id").is_empty() || !ids.insert(text("id").to_owned()) {
                    return Err(format!("message {index} has a call without an id of its own"));
                }
            }
            "thinking" if text("signature").is_empty() => {
                return Err(format!("message {index} has thinking without a signature"));
            }
            "redacted_thinking" if text("data").is_empty() => {
                return Err(format!("message {index} has redacted thinking without its data"));
            }
            _ => {}
        }
    }
    Ok(ids)
}

/// The new transcript is the last one again (a retry), or the last one, then exactly our reply, then something new.
/// Thinking is bound to all of it.
fn extends(last: &Transcript, reply: Option<&[String]>, now: &Transcript) -> Result<(), String> {
    const BOUND: &str = "the block is bound to a different conversation";
    if now.system != last.system {
        return Err(format!("{BOUND}: the system text changed"));
    }
    if now.tools != last.tools {
        return Err(format!("{BOUND}: the tools changed"));
    }
    for (index, before) in last.messages.iter().enumerate() {
        match now.messages.get(index) {
            Some(message) if message == before => {}
            Some(_) => return Err(format!("{BOUND}: message {index} changed")),
            None => return Err(format!("{BOUND}: message {index} is gone")),
        }
    }
    let at = last.messages.len();
    let Some((_, next)) = now.messages.get(at) else { return Ok(()) };
    match reply {
        Some(reply) if next == reply => Ok(()),
        Some(_) => Err(format!("message {at} is not the reply as it was given, signatures and all")),
        None => Err("messages were added although the last request got no reply".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = r#"{"role":"user","content":[{"type":"text","text":"u"}]}"#;
    const THINKING: &str = r#"{"type":"thinking","thinking":"","signature":"s"}"#;
    const A: &str = r#"{"type":"tool_use","id":"a","name":"run","input":{}}"#;
    const B: &str = r#"{"type":"tool_use","id":"b","name":"run","input":{}}"#;

    fn assistant(blocks: &[&str]) -> String {
        format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","))
    }

    fn results(blocks: &[&str]) -> String {
        format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","))
    }

    fn result(id: &str) -> String {
        format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"1"}}"#)
    }

    fn request(more: &str, messages: &[&str]) -> Vec<u8> {
        format!(r#"{{"model":"m","max_tokens":5,{more}"system":"s","messages":[{}]}}"#, messages.join(","))
            .into_bytes()
    }

    fn answered() -> Validator {
        let mut validator = Validator::default();
        validator.check(&request("", &[USER])).unwrap();
        validator.answered(format!(r#"{{"content":[{}]}}"#, [THINKING, A, B].join(",")).as_bytes());
        validator
    }

    #[test]
    fn a_retry_and_an_extension_pass() {
        answered().check(&request("", &[USER])).unwrap();
        let mut validator = answered();
        let both = results(&[&result("b"), &result("a"), r#"{"type":"text","text":"go on"}"#]);
        let all = [USER, &assistant(&[THINKING, A, B]), &both];
        validator.check(&request("", &all)).unwrap();
        validator.check(&request("", &all)).unwrap();
    }

    #[test]
    fn everything_that_the_real_api_refuses_is_named() {
        let (a, b) = (result("a"), result("b"));
        let (both, reply) = (results(&[&a, &b]), assistant(&[THINKING, A, B]));
        let forged = reply.replace("\"s\"", "\"t\"");
        let text = r#"{"type":"text","text":"x"}"#;
        let long = "n".repeat(200);
        for (more, messages, part) in [
            ("", &[][..], "no messages"),
            (r#""temperatur":1,"#, &[USER], "unknown field `temperatur`"),
            (r#""cache_control":{"type":"for_ever"},"#, &[USER], "cache_control"),
            (r#""output_config":{"effort":"minimal"},"#, &[USER], "effort"),
            (r#""stream":true,"#, &[USER], "stream"),
            (
                r#""tools":[{"name":"a b","description":"","input_schema":{"type":"object"}}],"#,
                &[USER],
                "a name",
            ),
            (
                &format!(
                    r#""tools":[{{"name":"{long}","description":"","input_schema":{{"type":"object"}}}}],"#
                ),
                &[USER],
                "a name",
            ),
            (
                r#""tools":[{"name":"n","description":"","input_schema":{"type":"object"}}],"#,
                &[USER, &reply, &both],
                "tools changed",
            ),
            ("", &[USER, USER], "\"assistant\" is due"),
            ("", &[&reply], "\"user\" is due"),
            ("", &[USER, &reply], "the last message is the assistant's"),
            ("", &[USER, &assistant(&[]), USER], "no content"),
            ("", &[&results(&[r#"{"type":"text","text":" "}"#])], "blank text"),
            ("", &[&results(&[r#"{"type":"text","text":"u","x":1}"#])], "unknown field `x`"),
            ("", &[&results(&[r#"{"type":"novel"}"#])], "unknown variant"),
            ("", &[&results(&[text])], "message 0 changed"),
            ("", &[USER, &forged, &both], "not the reply as it was given"),
            ("", &[USER, &assistant(&[A, B]), &both], "not the reply as it was given"),
            ("", &[USER, &reply.replace("signature", "sig"), &both], "without a signature"),
            ("", &[USER, &assistant(&[r#"{"type":"redacted_thinking"}"#]), USER], "without its data"),
            ("", &[USER, &reply, &results(&[&a])], "are due"),
            ("", &[USER, &reply, &results(&[&a, text, &b])], "behind text"),
            ("", &[USER, &reply, &results(&[&a, &a])], "no call right before it"),
            ("", &[USER, &assistant(&[A, A]), &results(&[&a])], "without an id of its own"),
            ("", &[USER, &reply.replace("\"input\":{}", "\"input\":[]"), &both], "input"),
            ("", &[USER, &reply, &both.replace("\"1\"", "\"\"")], "empty text"),
        ] {
            let error = answered().check(&request(more, messages)).unwrap_err();
            assert!(error.contains(part), "{more} {messages:?}: {error}");
        }
        let no_limit =
            br#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"u"}]}]}"#;
        let error = Validator::default().check(no_limit).unwrap_err();
        assert!(error.contains("max_tokens"), "{error}");
        let mut unanswered = Validator::default();
        unanswered.check(&request("", &[USER])).unwrap();
        let more = request("", &[USER, &assistant(&[text]), USER]);
        assert!(unanswered.check(&more).unwrap_err().contains("no reply"));
        let system =
            String::from_utf8(request("", &[USER])).unwrap().replace("\"system\":\"s\"", "\"system\":\"t\"");
        assert!(answered().check(system.as_bytes()).unwrap_err().contains("system text changed"));
    }
}
