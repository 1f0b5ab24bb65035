use std::collections::BTreeSet;

use countersign_types::{Digest, Money};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounded::{AtMost, Object, text, tree};
use crate::failure::{Hints, body_failure};
use crate::{Call, ErrorClass, MAX_STOP_WORD, RawJson, Reply, SendError, Stop, Usage};

/// Choices of one response; we ask for one.
const MAX_CHOICES: usize = 128;

/// Calls of one message.
const MAX_CALLS: usize = 256;

/// Parts of one message's content.
const MAX_PARTS: usize = 4096;

/// The parts of a response that we read. Everything else is only in the stored bytes.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    choices: Option<AtMost<Choice<'a>, MAX_CHOICES>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads the body of a successful response. `call` makes the ids of calls that came without one: the same bytes under
/// the same number always give the same reply.
pub(crate) fn decode(call: u64, body: &[u8]) -> Result<Reply, SendError> {
    let hints = Hints::status(200);
    // A body that carries an error under status 200 is an error whatever else it holds.
    if let Some(error) = body_failure(body, &hints) {
        return Err(error.maybe_billed());
    }
    let response: Response<'_> = serde_json::from_slice(body)
        .map_err(|error| bad(&format!("the response is not a chat completion: {error}")))?;
    let Some(choice) = response.choices.as_ref().and_then(|choices| choices.0.first()) else {
        return Err(bad("the response holds no choice"));
    };
    if let Some(error) = choice.error
        && let Some(error) = body_failure(format!("{{\"error\":{}}}", error.get()).as_bytes(), &hints)
    {
        return Err(error.maybe_billed());
    }
    let Some(raw) = choice.message else {
        return Err(bad("the first choice holds no message"));
    };
    let message = Object::parse(raw).map_err(|error| bad(&format!("the message cannot be read: {error}")))?;

    let content = Content::read(message.get("content"))?;
    let (calls, repair) = read_calls(call, message.get("tool_calls"))?;
    let refusal = message.text("refusal").filter(|text| !text.is_empty()).or(content.refusal);
    let stop = stop(choice.finish_reason.and_then(text).as_deref(), !calls.is_empty(), refusal.is_some())?;
    let reasoning = reasoning(&message);
    let assistant = if repair || message.text("role").is_none() {
        repaired(message, &calls)
    } else {
        RawJson::parse(raw.get().to_owned())
    };
    let usage = response.usage.and_then(|usage| tree(usage.get())).unwrap_or_default();
    Ok(Reply {
        text: content.text.or(refusal),
        calls,
        stop,
        usage: read_usage(&usage),
        cost: usage.get("cost").and_then(Value::as_f64).and_then(money),
        reasoning,
        raw: body.to_vec(),
        assistant: assistant.map_err(|error| bad(&format!("the message cannot be replayed: {error}")))?,
    })
}

/// Where servers put what the model thought. It is replayed as it is and never read; that it changed says that the model
/// is thinking.
const REASONING: &[&str] =
    &["reasoning", "reasoning_content", "reasoning_details", "thinking", "thinking_blocks"];

fn reasoning(message: &Object<'_>) -> Option<Digest> {
    let mut thought = Vec::new();
    for name in REASONING {
        if let Some(value) =
            message.get(name).map(RawValue::get).filter(|value| !matches!(*value, "\"\"" | "[]"))
        {
            thought.extend_from_slice(name.as_bytes());
            thought.extend_from_slice(value.as_bytes());
        }
    }
    (!thought.is_empty()).then(|| Digest::of(&thought))
}

/// An answer arrived, so the provider has done its work.
fn bad(message: &str) -> SendError {
    SendError::new(ErrorClass::BadResponse, message).maybe_billed()
}

struct Content {
    text: Option<String>,
    refusal: Option<String>,
}

impl Content {
    /// Null, a string, or an array of parts.
    fn read(content: Option<&RawValue>) -> Result<Self, SendError> {
        let some = |text: String| (!text.is_empty()).then_some(text);
        let Some(content) = content else { return Ok(Self { text: None, refusal: None }) };
        if let Some(content) = text(content) {
            return Ok(Self { text: some(content), refusal: None });
        }
        let parts: AtMost<&RawValue, MAX_PARTS> = serde_json::from_str(content.get()).map_err(|error| {
            bad(&format!("the message's content is neither text nor a list of parts: {error}"))
        })?;
        let (mut whole, mut refusal) = (String::new(), String::new());
        for part in parts.0 {
            if let Some(piece) = text(part) {
                whole.push_str(&piece);
            } else if let Ok(part) = Object::parse(part) {
                // A part of a kind that we do not know has neither and is skipped; it stays in the replay.
                whole.push_str(&part.text("text").unwrap_or_default());
                refusal.push_str(&part.text("refusal").unwrap_or_default());
            }
        }
        Ok(Self { text: some(whole), refusal: some(refusal) })
    }
}

/// The calls, and whether any had to be repaired so that a server would take the message back.
fn read_calls(call: u64, calls: Option<&RawValue>) -> Result<(Vec<Call>, bool), SendError> {
    let Some(calls) = calls else { return Ok((Vec::new(), false)) };
    let items: AtMost<Object<'_>, MAX_CALLS> = serde_json::from_str(calls.get())
        .map_err(|error| bad(&format!("the message's tool_calls cannot be read: {error}")))?;
    let ids: Vec<String> = items.0.iter().map(|item| item.text("id").unwrap_or_default()).collect();
    let mut taken = BTreeSet::new();
    let mut repair = false;
    let mut calls = Vec::with_capacity(items.0.len());
    for (index, (item, given)) in items.0.iter().zip(&ids).enumerate() {
        let function = item.get("function").and_then(|function| Object::parse(function).ok());
        let Some((function, name)) = function.and_then(|f| f.text("name").map(|name| (f, name))) else {
            return Err(bad(&format!("tool call {index} names no function")));
        };
        let mut id = given.clone();
        // Missing (several local servers) or used twice in one message.
        if id.is_empty() || taken.contains(&id) {
            repair = true;
            id = format!("call_{call}_{index}");
            while ids.contains(&id) || taken.contains(&id) {
                id.push('_');
            }
        }
        taken.insert(id.clone());
        let arguments = match function.get("arguments").map(|raw| (raw, text(raw))) {
            Some((_, Some(arguments))) if !arguments.trim().is_empty() => arguments,
            Some((_, Some(_))) => "{}".to_owned(),
            None => {
                repair = true;
                "{}".to_owned()
            }
            // Some servers send the object itself.
            Some((raw, None)) => {
                repair = true;
                raw.get().to_owned()
            }
        };
        calls.push(Call { id, name, arguments });
    }
    Ok((calls, repair))
}

/// The message with the calls as we read them; every other field as it was.
fn repaired(message: Object<'_>, calls: &[Call]) -> Result<RawJson, serde_json::Error> {
    let own = |text: &str| serde_json::value::to_raw_value(text);
    let list = message.get("tool_calls");
    let has_role = message.text("role").is_some();
    let mut whole = message.into_owned();
    if !has_role {
        whole.insert("role".to_owned(), own("assistant")?);
    }
    if let Some(list) = list {
        let items: AtMost<Object<'_>, MAX_CALLS> = serde_json::from_str(list.get())?;
        let mut repaired = Vec::with_capacity(items.0.len());
        for (item, call) in items.0.into_iter().zip(calls) {
            let (kind, function) = (item.text("type"), item.get("function"));
            let mut item = item.into_owned();
            item.insert("id".to_owned(), own(&call.id)?);
            if kind.is_none() {
                item.insert("type".to_owned(), own("function")?);
            }
            if let Some(function) = function {
                let mut function = Object::parse(function)?.into_owned();
                function.insert("arguments".to_owned(), own(&call.arguments)?);
                item.insert("function".to_owned(), serde_json::value::to_raw_value(&function)?);
            }
            repaired.push(item);
        }
        whole.insert("tool_calls".to_owned(), serde_json::value::to_raw_value(&repaired)?);
    }
    RawJson::of(&whole)
}

fn stop(reason: Option<&str>, calls: bool, refused: bool) -> Result<Stop, SendError> {
    Ok(match reason {
        Some("error") => {
            let text = "the provider broke off its answer with finish_reason `error`";
            return Err(SendError::new(ErrorClass::Overloaded, text).maybe_billed());
        }
        Some("length" | "max_tokens") => Stop::Length,
        Some("content_filter") => Stop::ContentFilter,
        Some("refusal") => Stop::Refusal,
        _ if refused => Stop::Refusal,
        // Some servers say `stop` and send calls all the same.
        _ if calls => Stop::ToolCalls,
        Some("stop" | "end_turn" | "eos") => Stop::End,
        Some(other) => Stop::Other(crate::error::printable(other, MAX_STOP_WORD)),
        None => Stop::Other("none".to_owned()),
    })
}

fn read_usage(usage: &Value) -> Usage {
    let at = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    Usage {
        input: at("/prompt_tokens"),
        output: at("/completion_tokens"),
        cached: at("/prompt_tokens_details/cached_tokens").or_else(|| at("/prompt_cache_hit_tokens")),
        cache_write: at("/prompt_tokens_details/cache_write_tokens"),
        reasoning: at("/completion_tokens_details/reasoning_tokens"),
    }
}

/// Dollars as some providers report them. A cost above zero is never rounded down to nothing.
fn money(usd: f64) -> Option<Money> {
    const MICRO: f64 = 1e6;
    /// More than this for one call is not a cost but a broken number.
    const MOST: f64 = 1e6;
    if !usd.is_finite() || !(0.0..=MOST).contains(&usd) {
        return None;
    }
    let micro = (usd * MICRO).round();
    let micro = if usd > 0.0 { micro.max(1.0) } else { micro };
    Some(Money::from_micro_usd(micro as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(message: &Value, finish: &Value) -> Vec<u8> {
        json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}]})
            .to_string()
            .into_bytes()
    }

    fn read(message: Value, finish: Value) -> Reply {
        decode(7, &body(&message, &finish)).unwrap()
    }

    fn call(id: &str, name: &str, arguments: &str) -> Call {
        Call { id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn reasoning_is_known_by_its_digest_wherever_a_server_puts_it() {
        let of = |name: &str, thought: Value| {
            let mut message = json!({"role": "assistant", "content": "hi"});
            message[name] = thought;
            read(message, json!("stop")).reasoning
        };
        for name in REASONING {
            let one = of(name, json!([{"type": "reasoning.encrypted", "data": "a"}]));
            assert!(one.is_some(), "{name}");
            assert_ne!(one, of(name, json!([{"type": "reasoning.encrypted", "data": "b"}])), "{name} moved");
            for nothing in [json!(null), json!(""), json!([])] {
                assert_eq!(of(name, nothing), None, "{name}");
            }
        }
        assert_eq!(of("content", json!("another")), None, "what is said is no reasoning");
    }

    #[test]
    fn content_may_be_text_null_or_parts() {
        let text =
            |content: Value| read(json!({"role": "assistant", "content": content}), json!("stop")).text;
        assert_eq!(text(json!("hi")), Some("hi".into()));
        assert_eq!(text(json!("")), None);
        assert_eq!(text(json!(null)), None);
        let parts =
            json!([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}, {"type": "novel"}]);
        assert_eq!(text(parts), Some("ab".into()));
        assert_eq!(read(json!({"role": "assistant"}), json!("stop")).text, None);
    }

    #[test]
    fn calls_are_read_leniently_and_replayed_in_a_form_that_servers_take() {
        let message = json!({"content": null, "reasoning": "r", "tool_calls": [
            {"function": {"name": "run", "arguments": {"command": "ls"}}},
            {"id": "x", "type": "function", "function": {"name": "check", "arguments": ""}, "extra_content": {"sig": "s"}},
            {"id": "x", "function": {"name": "check"}},
        ]});
        let reply = read(message, json!("stop"));
        assert_eq!(reply.stop, Stop::ToolCalls, "`stop` with calls means calls");
        let calls = [
            call("call_7_0", "run", r#"{"command":"ls"}"#),
            call("x", "check", "{}"),
            call("call_7_2", "check", "{}"),
        ];
        assert_eq!(reply.calls, calls);
        let replay: Value = serde_json::from_str(reply.assistant.get()).unwrap();
        assert_eq!(replay["role"], "assistant");
        assert_eq!(replay["reasoning"], "r");
        assert_eq!(replay["tool_calls"][0]["id"], "call_7_0");
        assert_eq!(replay["tool_calls"][0]["function"]["arguments"], r#"{"command":"ls"}"#);
        assert_eq!(replay["tool_calls"][1]["extra_content"]["sig"], "s");
        assert_eq!(replay["tool_calls"][2]["type"], "function");
    }

    #[test]
    fn a_made_up_id_never_meets_a_given_one() {
        let function = json!({"name": "run", "arguments": "{}"});
        let message = json!({"role": "assistant", "tool_calls": [{"function": function}, {"id": "call_7_0", "function": function}]});
        let reply = read(message, json!("tool_calls"));
        assert_eq!(reply.calls[0].id, "call_7_0_");
        assert_eq!(reply.calls[1].id, "call_7_0");
    }

    #[test]
    fn malformed_arguments_are_the_tools_business() {
        let message = json!({"role": "assistant", "tool_calls": [
            {"id": "a", "function": {"name": "run", "arguments": "{\"command\": \"ls"}},
            {"id": "b", "function": {"name": "no such tool", "arguments": "[1]"}},
        ]});
        let reply = read(message, json!("length"));
        assert_eq!(reply.stop, Stop::Length);
        assert_eq!(reply.calls[0].arguments, "{\"command\": \"ls");
        assert_eq!(reply.calls[1], call("b", "no such tool", "[1]"));
    }

    #[test]
    fn every_stop_reason_has_a_meaning() {
        let stop = |finish: Value| read(json!({"role": "assistant", "content": "x"}), finish).stop;
        for (finish, expected) in [
            (json!("stop"), Stop::End),
            (json!("length"), Stop::Length),
            (json!("content_filter"), Stop::ContentFilter),
            (json!("refusal"), Stop::Refusal),
            (json!("tool_calls"), Stop::Other("tool_calls".into())),
            (json!("brand_new"), Stop::Other("brand_new".into())),
            (json!(null), Stop::Other("none".into())),
            (json!(3), Stop::Other("none".into())),
        ] {
            assert_eq!(stop(finish.clone()), expected, "{finish}");
        }
        let refusal = read(json!({"role": "assistant", "content": null, "refusal": "No."}), json!("stop"));
        assert_eq!((refusal.stop, refusal.text), (Stop::Refusal, Some("No.".into())));
        let error =
            decode(0, &body(&json!({"role": "assistant", "content": "x"}), &json!("error"))).unwrap_err();
        assert_eq!((error.class, error.maybe_billed), (ErrorClass::Overloaded, true));
    }

    #[test]
    fn usage_and_cost_are_unknown_unless_reported() {
        let message = json!({"role": "assistant", "content": "x"});
        let reply = read(message.clone(), json!("stop"));
        assert_eq!((reply.usage, reply.cost), (Usage::default(), None));
        let with = |usage: Value| {
            let body = json!({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
                .to_string();
            let reply = decode(0, body.as_bytes()).unwrap();
            (reply.usage, reply.cost)
        };
        let full = json!({"prompt_tokens": 10, "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 3}, "cost": 0.000123});
        let usage = Usage {
            input: Some(10),
            output: Some(5),
            cached: Some(4),
            cache_write: Some(2),
            reasoning: Some(3),
        };
        assert_eq!(with(full), (usage, Some(Money::from_micro_usd(123))));
        for broken in
            [json!(null), json!("x"), json!({"prompt_tokens": -1, "completion_tokens": "5", "cost": -1.0})]
        {
            assert_eq!(with(broken), (Usage::default(), None));
        }
        assert_eq!(with(json!({"cost": 1e-9})).1, Some(Money::from_micro_usd(1)));
        assert_eq!(with(json!({"cost": 1e300})).1, None);
        assert_eq!(with(json!({"cost": 0})).1, Some(Money::from_micro_usd(0)));
    }

    #[test]
    fn what_is_no_answer_is_a_bad_response_that_may_be_billed() {
        for bytes in [
            &b""[..],
            b"<html>busy</html>",
            b"{}",
            b"[]",
            b"null",
            b"{\"choices\":[]}",
            b"{\"choices\":null}",
            b"{\"choices\":[{}]}",
            b"{\"choices\":[{\"message\":null}]}",
            b"{\"choices\":[{\"message\":\"text\"}]}",
            b"{\"choices\":[{\"message\":{\"content\":5}}]}",
            b"{\"choices\":[{\"message\":{\"tool_calls\":{}}}]}",
            b"{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"a\"}]}}]}",
            b"{\"choices\":[{\"message\":{\"content\":\"\xff\"}}]}",
            b"{\"choices\":[{\"message\":[\"assistant\",\"x\"]}]}",
            b"{\"choices\":[{\"message\":{\"content\":\"x\",\"content\":\"y\"}}]}",
            b"{\"choices\":[{\"message\":{\"content\":\"x\"}}]",
        ] {
            let error = decode(0, bytes).unwrap_err();
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(
                (error.class, error.maybe_billed, error.retryable),
                (ErrorClass::BadResponse, true, false),
                "{shown}"
            );
        }
        // Deep nesting is an error or stays text; it is never a stack overflow.
        let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
        for (field, fails) in [("content", false), ("tool_calls", true), ("novel", false), ("refusal", false)]
        {
            let message = format!(r#"{{"role":"assistant","{field}":{deep}}}"#);
            let body = format!(r#"{{"choices":[{{"message":{message}}}],"usage":{deep}}}"#);
            assert_eq!(decode(0, body.as_bytes()).is_err(), fails, "{field}");
        }
    }

    #[test]
    fn an_error_in_a_200_body_is_an_error() {
        for (body, class) in [
            (json!({"error": {"message": "slow down", "code": 429}}), ErrorClass::RateLimit),
            (
                json!({"error": {"message": "no money", "code": "insufficient_quota"}, "choices": []}),
                ErrorClass::QuotaExhausted,
            ),
            (json!({"error": {"message": "x", "type": "overloaded_error"}}), ErrorClass::Overloaded),
            (json!({"error": "plain"}), ErrorClass::BadResponse),
            (json!({"object": "error", "message": "vllm", "code": 503}), ErrorClass::Overloaded),
            (
                json!({"choices": [{"message": {"content": "half"}, "error": {"code": 502, "message": "upstream"}}]}),
                ErrorClass::Overloaded,
            ),
        ] {
            let error = decode(0, body.to_string().as_bytes()).unwrap_err();
            assert_eq!(error.class, class, "{body}");
            assert!(error.maybe_billed);
        }
        assert!(decode(0, br#"{"error":null,"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}"#).is_ok());
    }

    #[test]
    fn a_flood_of_small_values_is_refused_or_stays_text() {
        let flood = |item: &str| vec![item; 50_000].join(",");
        for message in [
            format!(r#"{{"role":"assistant","content":[{}]}}"#, flood("{}")),
            format!(r#"{{"role":"assistant","tool_calls":[{}]}}"#, flood("{}")),
        ] {
            let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
            assert_eq!(decode(0, body.as_bytes()).unwrap_err().class, ErrorClass::BadResponse);
        }
        let novel = format!(r#"{{"role":"assistant","content":"x","novel":[{}]}}"#, flood("[]"));
        let body = format!(
            r#"{{"choices":[{{"message":{novel},"finish_reason":"stop"}}],"usage":{{"x":[{}]}}}}"#,
            flood("0")
        );
        let reply = decode(0, body.as_bytes()).unwrap();
        assert_eq!((reply.assistant.get(), reply.usage), (novel.as_str(), Usage::default()));
        let error = format!(r#"{{"error":{{"message":"m","x":[{}]}}}}"#, flood("0"));
        assert_eq!(decode(0, error.as_bytes()).unwrap_err().class, ErrorClass::BadResponse);
    }

    #[test]
    fn a_cut_emoji_does_not_end_a_session() {
        let body =
            br#"{"choices":[{"message":{"role":"assistant","content":"a\ud83e"},"finish_reason":"stop"}]}"#;
        let reply = decode(0, body).unwrap();
        assert!(reply.text.unwrap().starts_with("a\u{fffd}"));
        assert!(reply.assistant.get().contains(r"a\ud83e"), "the replay is what arrived");
    }

    #[test]
    fn a_reply_reads_back_from_its_own_bytes() {
        let message =
            json!({"content": "t", "tool_calls": [{"function": {"name": "run", "arguments": {"a": 1.5}}}]});
        let reply = read(message, json!("tool_calls"));
        assert_eq!(decode(7, &reply.raw).unwrap(), reply);
    }
}
