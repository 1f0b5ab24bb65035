//! A script's answers as Anthropic Messages, with everything that a client has to carry along: signed thinking, redacted
//! thinking, and a block of a kind that nobody knows.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use countersign_llm::{Answer, Script};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::http1::Outgoing;

/// The path of the endpoint, below which prefix it may stand.
pub(crate) const ENDPOINT: &str = "/messages";

/// The versions of the API that are served.
pub(crate) const VERSIONS: &[&str] = &["2023-06-01", "2026-10-21"];

/// An error as Anthropic words it.
pub(crate) fn error(status: u16, message: &str) -> Outgoing {
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    };
    let body =
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"});
    Outgoing::json(status, body.to_string().into_bytes())
}

/// The entry for `call` as a response body, bound to the bytes of its request. None: it gets an error or nothing.
pub(crate) fn body(script: &Script, call: u64, model: &str, request: &[u8]) -> Option<Vec<u8>> {
    let Answer::Reply { text, calls, usage } = &script.entry(call)?.answer else { return None };
    let signature = signature(request);
    let mut content = vec![
        // As newer models send it: without readable text, and valid all the same.
        json!({"type": "thinking", "thinking": "", "signature": signature}).to_string(),
        json!({"type": "redacted_thinking", "data": format!("{signature}+redacted")}).to_string(),
        // White space and numbers that a client would lose which takes blocks apart.
        r#"{ "type" : "brand_new", "n": [1.50, 1e3] }"#.to_owned(),
    ];
    if let Some(text) = text {
        content.push(json!({"type": "text", "text": text}).to_string());
    }
    for (index, asked) in calls.iter().enumerate() {
        let id = format!("toolu_{call}_{index}");
        let mut block = json!({"type": "tool_use", "id": id, "name": asked.tool, "input": {}}).to_string();
        // Scripts hold wrong arguments too; a server of this wire always sends an object.
        if asked.args.get().starts_with('{') {
            block = block.replacen("\"input\":{}", &format!("\"input\":{}", asked.args.get()), 1);
        }
        content.push(block);
    }
    let stop_reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let usage = usage.map(|usage| json!({"input_tokens": usage.input, "output_tokens": usage.output}));
    let head = json!({"id": format!("msg_{call}"), "type": "message", "role": "assistant", "model": model,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage});
    let mut whole = head.to_string();
    whole.truncate(whole.len() - 1);
    whole.push_str(&format!(",\"content\":[{}]}}", content.join(",")));
    Some(whole.into_bytes())
}

/// What binds thinking to everything that stood before it.
fn signature(request: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    request.hash(&mut hasher);
    format!("c2ln{:016x}/+==", hasher.finish())
}

/// The blocks of a response, each as it was sent.
pub(crate) fn content(response: &[u8]) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let response: Response<'_> = serde_json::from_slice(response).ok()?;
    Some(response.content.iter().map(|block| block.get().to_owned()).collect())
}

/// Is this a block that a server takes back from a client? Blank text is not.
pub(crate) fn is_blank_text(block: &str) -> bool {
    let block: Value = serde_json::from_str(block).unwrap_or_default();
    block["type"] == "text" && block["text"].as_str().is_none_or(|text| text.trim().is_empty())
}
