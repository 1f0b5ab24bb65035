//! What a strict Chat Completions server refuses: a transcript that does not extend the one before it, and calls without results.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The parts of a request that must not change, as the text that arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Transcript {
    tools: String,
    messages: Vec<String>,
}

/// Remembers one conversation.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    last: Option<Transcript>,
    /// The assistant message that the last request was answered with.
    reply: Option<String>,
}

#[derive(Deserialize)]
struct Request<'a> {
    model: String,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(default)]
    stream: Option<bool>,
}

impl Validator {
    /// Checks one request against everything before it. The error says what is wrong.
    pub(crate) fn check(&mut self, body: &[u8]) -> Result<(), String> {
        let request: Request<'_> =
            serde_json::from_slice(body).map_err(|error| format!("the request cannot be read: {error}"))?;
        if request.model.is_empty() {
            return Err("the model is empty".to_owned());
        }
        if request.stream == Some(true) {
            return Err("this server does not stream".to_owned());
        }
        let transcript = Transcript {
            tools: request.tools.map(RawValue::get).unwrap_or_default().to_owned(),
            messages: request.messages.iter().map(|message| message.get().to_owned()).collect(),
        };
        pairing(&transcript.messages)?;
        if let Some(last) = &self.last {
            extends(last, self.reply.as_deref(), &transcript)?;
        }
        self.last = Some(transcript);
        self.reply = None;
        Ok(())
    }

    /// The reply that the checked request gets.
    pub(crate) fn answered(&mut self, response: &[u8]) {
        #[derive(Deserialize)]
        struct Response<'a> {
            #[serde(borrow)]
            choices: [Choice<'a>; 1],
        }
        #[derive(Deserialize)]
        struct Choice<'a> {
            #[serde(borrow)]
            message: &'a RawValue,
        }
        let response: Result<Response<'_>, _> = serde_json::from_slice(response);
        self.reply = response.ok().map(|response| response.choices[0].message.get().to_owned());
    }
}

/// The new transcript is the last one again (a retry), or the last one, then exactly our reply, then something new.
fn extends(last: &Transcript, reply: Option<&str>, now: &Transcript) -> Result<(), String> {
    if now.tools != last.tools {
        return Err("the tools changed".to_owned());
    }
    for (index, before) in last.messages.iter().enumerate() {
        match now.messages.get(index) {
            Some(message) if message == before => {}
            Some(_) => return Err(format!("message {index} changed")),
            None => return Err(format!("message {index} is gone")),
        }
    }
    let Some(next) = now.messages.get(last.messages.len()) else { return Ok(()) };
    match reply {
        Some(reply) if next == reply => Ok(()),
        Some(_) => Err(format!("message {} is not the reply as it was given", last.messages.len())),
        None => Err("messages were added although the last request got no reply".to_owned()),
    }
}

/// Every call of an assistant message has exactly one result, and the results come right behind it.
fn pairing(messages: &[String]) -> Result<(), String> {
    let mut open = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        let message: Value = serde_json::from_str(message)
            .map_err(|error| format!("message {index} cannot be read: {error}"))?;
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            return Err(format!("message {index} stands where results of {open:?} are due"));
        }
        match role {
            "system" | "developer" | "user" => {
                if !message.get("content").is_some_and(|content| content.is_string() || content.is_array()) {
                    return Err(format!("message {index} has no content"));
                }
            }
            "assistant" => {
                for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
                    let arguments = call.pointer("/function/arguments");
                    if id.is_empty() || !arguments.is_some_and(Value::is_string) {
                        return Err(format!(
                            "message {index} has a call without an id or without arguments as text"
                        ));
                    }
                    if !open.insert(id.to_owned()) {
                        return Err(format!("message {index} uses the call id {id} twice"));
                    }
                }
            }
            "tool" => {
                let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or_default();
                if !open.remove(id) {
                    return Err(format!("message {index} is a result for {id:?}, which no open call has"));
                }
                if !message.get("content").is_some_and(Value::is_string) {
                    return Err(format!("message {index} has no content"));
                }
            }
            other => return Err(format!("message {index} has the role {other:?}")),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("the calls {open:?} have no result")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"{"role":"system","content":"s"}"#;
    const USER: &str = r#"{"role":"user","content":"u"}"#;
    const CALLS: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"run","arguments":"{}"}},{"id":"b","function":{"name":"run","arguments":"{}"}}]}"#;
    const A: &str = r#"{"role":"tool","tool_call_id":"a","content":"1"}"#;
    const B: &str = r#"{"role":"tool","tool_call_id":"b","content":"2"}"#;

    fn request(tools: &str, messages: &[&str]) -> Vec<u8> {
        format!(r#"{{"model":"m","tools":{tools},"messages":[{}]}}"#, messages.join(",")).into_bytes()
    }

    fn answered() -> Validator {
        let mut validator = Validator::default();
        validator.check(&request("[]", &[SYSTEM, USER])).unwrap();
        validator.answered(format!(r#"{{"choices":[{{"message":{CALLS}}}]}}"#).as_bytes());
        validator
    }

    #[test]
    fn a_retry_and_an_extension_pass() {
        answered().check(&request("[]", &[SYSTEM, USER])).unwrap();
        let mut validator = answered();
        validator.check(&request("[]", &[SYSTEM, USER, CALLS, B, A])).unwrap();
        validator.check(&request("[]", &[SYSTEM, USER, CALLS, B, A])).unwrap();
    }

    #[test]
    fn every_change_of_the_prefix_is_named() {
        let spaced = CALLS.replace("null,", "null, ");
        for (tools, messages, part) in [
            ("[{}]", &[SYSTEM, USER, CALLS, A, B][..], "tools changed"),
            ("[]", &[USER, USER, CALLS, A, B], "message 0 changed"),
            ("[]", &[SYSTEM], "message 1 is gone"),
            ("[]", &[SYSTEM, USER, USER], "message 2 is not the reply"),
            ("[]", &[SYSTEM, USER, &spaced, A, B], "message 2 is not the reply"),
            ("[]", &[SYSTEM, USER, CALLS], "have no result"),
            ("[]", &[SYSTEM, USER, CALLS, A], "have no result"),
            ("[]", &[SYSTEM, USER, CALLS, A, A], "no open call"),
            ("[]", &[SYSTEM, USER, CALLS, A, B, B], "no open call"),
            ("[]", &[SYSTEM, USER, CALLS, A, USER, B], "are due"),
        ] {
            let error = answered().check(&request(tools, messages)).unwrap_err();
            assert!(error.contains(part), "{messages:?}: {error}");
        }
        let mut unanswered = Validator::default();
        unanswered.check(&request("[]", &[SYSTEM, USER])).unwrap();
        assert!(unanswered.check(&request("[]", &[SYSTEM, USER, USER])).unwrap_err().contains("no reply"));
    }
}
