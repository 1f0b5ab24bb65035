use std::collections::BTreeSet;

use countersign_types::Digest;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounded::{AtMost, Object, text, tree};
use crate::error::printable;
use crate::failure::{Hints, body_failure};
use crate::messages::MAX_BLOCKS;
use crate::{Call, ErrorClass, MAX_STOP_WORD, RawJson, Reply, SendError, Stop, Usage};

/// The parts of a response that we read. Everything else is only in the stored bytes.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

/// Reads the body of a successful response. `call` makes the ids of calls that came without one: the same bytes under
/// the same number always give the same reply.
///
/// A conversation that no longer fits the model's window comes as a success too; it is
/// [`ErrorClass::ContextOverflow`], because nothing can be added to it.
pub(crate) fn decode(call: u64, body: &[u8]) -> Result<Reply, SendError> {
    // A body that carries an error under status 200 is an error whatever else it holds.
    if let Some(error) = body_failure(body, &Hints::status(200)) {
        return Err(error.maybe_billed());
    }
    let response: Response<'_> = serde_json::from_slice(body)
        .map_err(|error| bad(&format!("the response is not a message: {error}")))?;
    let Some(raw) = response.content else { return Err(bad("the response holds no content")) };
    let content: AtMost<&RawValue, MAX_BLOCKS> = serde_json::from_str(raw.get())
        .map_err(|error| bad(&format!("the message's content is no list of blocks: {error}")))?;
    let read = Content::read(call, &content.0)?;
    let reason = response.stop_reason.and_then(text);
    let stop = stop(reason.as_deref(), !read.calls.is_empty())?;
    let blocks = match &read.repaired {
        None => raw.get().to_owned(),
        Some(blocks) => serde_json::to_string(blocks).map_err(|error| unfit(&error))?,
    };
    let assistant = RawJson::parse(format!(r#"{{"role":"assistant","content":{blocks}}}"#))
        .map_err(|error| unfit(&error))?;
    let usage = response.usage.and_then(|usage| tree(usage.get())).unwrap_or_default();
    let declined = (stop == Stop::Refusal).then(|| explanation(response.stop_details)).flatten();
    Ok(Reply {
        text: read.text.or(declined),
        calls: read.calls,
        stop,
        usage: read_usage(&usage),
        cost: None,
        reasoning: (!read.thought.is_empty()).then(|| Digest::of(&read.thought)),
        raw: body.to_vec(),
        assistant,
    })
}

/// An answer arrived, so the provider has done its work.
fn bad(message: &str) -> SendError {
    SendError::new(ErrorClass::BadResponse, message).maybe_billed()
}

fn unfit(error: &serde_json::Error) -> SendError {
    bad(&format!("the message cannot be replayed: {error}"))
}

#[derive(Default)]
struct Content<'a> {
    text: Option<String>,
    calls: Vec<Call>,
    /// All thinking, readable or not.
    thought: Vec<u8>,
    /// The blocks, where one had to be changed so that a server would take it back.
    repaired: Option<Vec<std::borrow::Cow<'a, RawValue>>>,
}

impl<'a> Content<'a> {
    fn read(call: u64, blocks: &[&'a RawValue]) -> Result<Self, SendError> {
        use std::borrow::Cow;
        let parsed: Vec<Object<'a>> = blocks
            .iter()
            .map(|block| Object::parse(block))
            .collect::<Result<_, _>>()
            .map_err(|error| bad(&format!("a block of the message cannot be read: {error}")))?;
        let ids: Vec<String> = parsed.iter().filter_map(|block| block.text("id")).collect();
        let mut read = Self::default();
        let mut whole = String::new();
        let mut taken = BTreeSet::new();
        let mut all: Vec<Cow<'a, RawValue>> = blocks.iter().map(|block| Cow::Borrowed(*block)).collect();
        let mut repaired = false;
        for ((index, block), raw) in parsed.into_iter().enumerate().zip(blocks) {
            match block.text("type").as_deref() {
                Some("text") => whole.push_str(&block.text("text").unwrap_or_default()),
                Some("thinking" | "redacted_thinking") => {
                    read.thought.extend_from_slice(raw.get().as_bytes());
                }
                Some("tool_use") => {
                    let (asked, fine) = tool_use(call, read.calls.len(), &block, &ids, &taken)?;
                    if !fine {
                        all[index] = Cow::Owned(rewritten(block, &asked).map_err(|error| unfit(&error))?);
                        repaired = true;
                    }
                    taken.insert(asked.id.clone());
                    read.calls.push(asked);
                }
                // Tools of the vendor's own, and what we do not know.
                _ => {}
            }
        }
        read.text = (!whole.is_empty()).then_some(whole);
        read.repaired = repaired.then_some(all);
        Ok(read)
    }
}

/// A call, and whether it can go back as it is. The vendor's own always can; servers that only resemble it leave out
/// ids or send arguments that are no object.
fn tool_use(
    call: u64,
    nth: usize,
    block: &Object<'_>,
    ids: &[String],
    taken: &BTreeSet<String>,
) -> Result<(Call, bool), SendError> {
    let Some(name) = block.text("name") else { return Err(bad(&format!("tool use {nth} names no tool"))) };
    let mut fine = true;
    let mut id = block.text("id").unwrap_or_default();
    if id.is_empty() || taken.contains(&id) {
        fine = false;
        id = format!("toolu_{call}_{nth}");
        while ids.contains(&id) || taken.contains(&id) {
            id.push('_');
        }
    }
    let arguments = match block.get("input") {
        Some(input) => {
            fine &= input.get().starts_with('{');
            input.get().to_owned()
        }
        None => {
            fine = false;
            "{}".to_owned()
        }
    };
    Ok((Call { id, name, arguments }, fine))
}

fn rewritten(block: Object<'_>, call: &Call) -> Result<Box<RawValue>, serde_json::Error> {
    let mut block = block.into_owned();
    block.insert("id".to_owned(), serde_json::value::to_raw_value(&call.id)?);
    // What is no object is the tool's business, and nothing that the server takes back.
    let input = if call.arguments.starts_with('{') { call.arguments.clone() } else { "{}".to_owned() };
    block.insert("input".to_owned(), RawValue::from_string(input)?);
    serde_json::value::to_raw_value(&block)
}

fn stop(reason: Option<&str>, calls: bool) -> Result<Stop, SendError> {
    Ok(match reason {
        Some("model_context_window_exceeded") => {
            let text = "the conversation fills the model's context window (model_context_window_exceeded)";
            return Err(SendError::new(ErrorClass::ContextOverflow, text).maybe_billed());
        }
        Some("refusal") => Stop::Refusal,
        Some("max_tokens") => Stop::Length,
        _ if calls => Stop::ToolCalls,
        Some("end_turn" | "stop_sequence") => Stop::End,
        Some("pause_turn") => Stop::Paused,
        Some(other) => Stop::Other(printable(other, MAX_STOP_WORD)),
        None => Stop::Other("none".to_owned()),
    })
}

/// Why the model declined, where it wrote nothing.
fn explanation(details: Option<&RawValue>) -> Option<String> {
    let details = tree(details?.get())?;
    let part = |key: &str| details.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (part("category"), part("explanation")) {
        (Some(category), Some(why)) => Some(format!("{category}: {why}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// What came from a cache and what went into one is counted beside `input_tokens`, not within it.
fn read_usage(usage: &Value) -> Usage {
    let at = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let (cached, cache_write) = (at("/cache_read_input_tokens"), at("/cache_creation_input_tokens"));
    let beside = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    Usage {
        input: at("/input_tokens").map(|input| input.saturating_add(beside)),
        output: at("/output_tokens"),
        cached,
        cache_write,
        reasoning: at("/output_tokens_details/thinking_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(content: &Value, reason: &Value) -> Vec<u8> {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": reason, "stop_sequence": null})
        .to_string()
        .into_bytes()
    }

    fn read(content: Value, reason: &str) -> Reply {
        decode(7, &body(&content, &json!(reason))).unwrap()
    }

    fn call(id: &str, name: &str, arguments: &str) -> Call {
        Call { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn text_and_calls_are_read_and_blocks_of_other_kinds_are_kept() {
        let content = json!([
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I "},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "look."},
            {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "toolu_2", "name": "check", "input": {}},
        ]);
        let reply = read(content.clone(), "tool_use");
        assert_eq!((reply.text.as_deref(), &reply.stop), (Some("I look."), &Stop::ToolCalls));
        assert_eq!(
            reply.calls,
            [call("toolu_1", "run", r#"{"command":"ls"}"#), call("toolu_2", "check", "{}")]
        );
        let replay: Value = serde_json::from_str(reply.assistant.get()).unwrap();
        assert_eq!(replay, json!({"role": "assistant", "content": content}));
    }

    #[test]
    fn the_replay_is_what_arrived() {
        let content =
            r#"[ {"type":"thinking", "signature":"a\/b","thinking":"\u00e9"},{"type":"text","text":"x" } ]"#;
        let body = format!(r#"{{"role":"assistant","content":{content},"stop_reason":"end_turn"}}"#);
        let reply = decode(0, body.as_bytes()).unwrap();
        assert_eq!(reply.assistant.get(), format!(r#"{{"role":"assistant","content":{content}}}"#));
        assert_eq!(reply.raw, body.as_bytes());
    }

    #[test]
    fn calls_that_the_server_would_not_take_back_are_mended_and_nothing_else_is() {
        let content = json!([
            {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "tool_use", "name": "run", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "x", "name": "check"},
            {"type": "tool_use", "id": "x", "name": "run", "input": "ls", "novel": 1},
            {"type": "tool_use", "id": "toolu_7_0", "name": "run", "input": {}},
        ]);
        let reply = read(content, "tool_use");
        assert_eq!(
            reply.calls,
            [
                call("toolu_7_0_", "run", r#"{"command":"ls"}"#),
                call("x", "check", "{}"),
                call("toolu_7_2", "run", "\"ls\""),
                call("toolu_7_0", "run", "{}"),
            ]
        );
        let replay: Value = serde_json::from_str(reply.assistant.get()).unwrap();
        assert_eq!(replay["content"][0], json!({"type": "thinking", "thinking": "", "signature": "s"}));
        assert_eq!(
            replay["content"][3],
            json!({"type": "tool_use", "id": "toolu_7_2", "name": "run", "input": {}, "novel": 1})
        );
        assert_eq!(decode(7, &reply.raw).unwrap(), reply);
    }

    #[test]
    fn thinking_is_known_by_its_digest() {
        let of = |block: Value| read(json!([block, {"type": "text", "text": "x"}]), "end_turn").reasoning;
        let thinking = |text: &str, signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature});
        assert!(of(thinking("", "s")).is_some(), "without readable text too");
        assert_ne!(of(thinking("", "s")), of(thinking("", "t")));
        assert!(of(json!({"type": "redacted_thinking", "data": "d"})).is_some());
        assert_eq!(of(json!({"type": "text", "text": "y"})), None);
    }

    #[test]
    fn every_stop_reason_has_a_meaning() {
        let stop = |reason: Value| {
            decode(0, &body(&json!([{"type": "text", "text": "x"}]), &reason)).map(|r| r.stop)
        };
        for (reason, expected) in [
            (json!("end_turn"), Stop::End),
            (json!("stop_sequence"), Stop::End),
            (json!("max_tokens"), Stop::Length),
            (json!("refusal"), Stop::Refusal),
            (json!("pause_turn"), Stop::Paused),
            (json!("tool_use"), Stop::Other("tool_use".into())),
            (json!("brand_new"), Stop::Other("brand_new".into())),
            (json!(null), Stop::Other("none".into())),
            (json!(3), Stop::Other("none".into())),
        ] {
            assert_eq!(stop(reason.clone()).unwrap(), expected, "{reason}");
        }
        let full = stop(json!("model_context_window_exceeded")).unwrap_err();
        assert_eq!(
            (full.class, full.maybe_billed, full.retryable),
            (ErrorClass::ContextOverflow, true, false)
        );
        let calls = json!([{"type": "tool_use", "id": "a", "name": "run", "input": {}}]);
        for reason in ["tool_use", "end_turn", "pause_turn", "brand_new"] {
            assert_eq!(read(calls.clone(), reason).stop, Stop::ToolCalls, "{reason}");
        }
        assert_eq!(read(calls.clone(), "max_tokens").stop, Stop::Length);
        assert_eq!(read(calls, "refusal").stop, Stop::Refusal);
    }

    #[test]
    fn a_refusal_says_why() {
        let body = json!({"content": [], "stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."}});
        let reply = decode(0, body.to_string().as_bytes()).unwrap();
        assert_eq!((reply.stop, reply.text.as_deref()), (Stop::Refusal, Some("cyber: No.")));
        let reply = read(json!([{"type": "text", "text": "I cannot."}]), "refusal");
        assert_eq!(reply.text.as_deref(), Some("I cannot."));
        assert_eq!(read(json!([]), "refusal").text, None);
    }

    #[test]
    fn usage_counts_the_cache_in_and_is_unknown_unless_reported() {
        let with = |usage: Value| {
            let body = json!({"content": [], "stop_reason": "end_turn", "usage": usage}).to_string();
            decode(0, body.as_bytes()).unwrap().usage
        };
        let full = json!({"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000,
            "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 30}, "service_tier": "standard"});
        assert_eq!(
            with(full),
            Usage {
                input: Some(3210),
                output: Some(50),
                cached: Some(3000),
                cache_write: Some(200),
                reasoning: Some(30)
            }
        );
        assert_eq!(
            with(json!({"input_tokens": 10, "output_tokens": 5})),
            Usage { input: Some(10), output: Some(5), ..Usage::default() }
        );
        assert_eq!(with(json!({"cache_read_input_tokens": 5})).input, None, "a part is not the whole");
        for broken in [json!(null), json!("x"), json!({"input_tokens": -1, "output_tokens": "5"})] {
            assert_eq!(with(broken), Usage::default());
        }
        let huge = json!({"input_tokens": u64::MAX, "cache_read_input_tokens": 9});
        assert_eq!(with(huge).input, Some(u64::MAX));
    }

    #[test]
    fn what_is_no_answer_is_a_bad_response_that_may_be_billed() {
        for bytes in [
            &b""[..],
            b"<html>busy</html>",
            b"{}",
            b"[]",
            b"null",
            b"{\"content\":null}",
            b"{\"content\":\"text\"}",
            b"{\"content\":[5]}",
            b"{\"content\":[\"text\"]}",
            b"{\"content\":[{\"type\":\"tool_use\",\"id\":\"a\"}]}",
            b"{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}",
            b"{\"content\":[{\"type\":\"text\",\"type\":\"thinking\"}]}",
            b"{\"content\":[]",
            b"{\"choices\":[{\"message\":{\"content\":\"x\"}}]}",
        ] {
            let error = decode(0, bytes).unwrap_err();
            assert_eq!(
                (error.class, error.maybe_billed, error.retryable),
                (ErrorClass::BadResponse, true, false),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
        let many = vec![r#"{"type":"text","text":"x"}"#; 50_000].join(",");
        let body = format!(r#"{{"content":[{many}],"stop_reason":"end_turn"}}"#);
        assert_eq!(decode(0, body.as_bytes()).unwrap_err().class, ErrorClass::BadResponse);
        // Deep nesting is an error or stays text; it is never a stack overflow.
        let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
        let body = format!(
            r#"{{"content":[{{"type":"novel","x":{deep}}}],"stop_reason":"end_turn","usage":{deep}}}"#
        );
        assert!(decode(0, body.as_bytes()).is_ok());
    }

    #[test]
    fn an_error_in_a_200_body_is_an_error() {
        for (kind, class) in [
            ("overloaded_error", ErrorClass::Overloaded),
            ("rate_limit_error", ErrorClass::RateLimit),
            ("api_error", ErrorClass::Overloaded),
            ("billing_error", ErrorClass::QuotaExhausted),
        ] {
            let body = json!({"type": "error", "error": {"type": kind, "message": "m"}}).to_string();
            let error = decode(0, body.as_bytes()).unwrap_err();
            assert_eq!((error.class, error.maybe_billed), (class, true), "{kind}");
        }
    }
}
