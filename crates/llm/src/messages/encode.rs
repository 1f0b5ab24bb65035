use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounded::{AtMost, Object};
use crate::messages::MAX_BLOCKS;
use crate::{BaseUrl, Call, Conversation, Effort, EncodeError, Message, RawJson};

/// The output limit where the caller names none: the field is required.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// What the server behind a URL takes for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The most that `max_tokens` may say; beyond it the request is refused.
    pub most_output: u32,
    /// Whether `output_config.effort` may be sent. Where it may not, an effort is left out: it is a wish, not a limit.
    pub effort: bool,
    /// Whether the server is asked to cache the conversation up to its last block. Only the vendor's own is known to
    /// take the field.
    pub cache: bool,
}

/// Models whose answers are shorter than anybody asks for here, by the beginning of their names.
const SHORT_ANSWERS: &[(&str, u32)] =
    &[("claude-3-haiku", 4096), ("claude-3-opus", 4096), ("claude-3-sonnet", 4096), ("claude-3-5-", 8192)];

/// What every other model can write at least.
const LONG_ANSWERS: u32 = 32_000;

/// Models from before there was an effort to choose.
const WITHOUT_EFFORT: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4",
];

impl Dialect {
    pub(crate) fn of(url: Option<&BaseUrl>, model: &str) -> Self {
        let short = SHORT_ANSWERS.iter().find(|(prefix, _)| model.starts_with(prefix));
        Self {
            most_output: short.map_or(LONG_ANSWERS, |(_, most)| *most),
            effort: !WITHOUT_EFFORT.iter().any(|prefix| model.starts_with(prefix)),
            cache: url.is_some_and(|url| url.origin() == BaseUrl::anthropic().origin()),
        }
    }
}

/// Fields stand in the order in which they are written. `messages` comes last so that a longer conversation extends the
/// bytes of a shorter one, up to the closing brackets.
#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Turn<'a>>,
}

/// At the top it marks the last block that can be cached, and moves on by itself.
#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

/// One entry of `messages`. Roles alternate.
#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Text(TextBlock<'a>),
    Result(ResultBlock<'a>),
    /// What the model wrote.
    Replay(&'a RawValue),
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct ResultBlock<'a> {
    r#type: &'static str,
    tool_use_id: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    /// Optional, while an empty block of text is refused.
    #[serde(skip_serializing_if = "str::is_empty")]
    content: &'a str,
}

/// [`Message::Assistant::replay`] of this wire.
#[derive(Deserialize)]
struct Replay<'a> {
    #[serde(borrow)]
    content: AtMost<&'a RawValue, MAX_BLOCKS>,
}

/// Writes `conversation` for `model`. A transcript in which a call has no result, or a result has no call, is refused
/// here: the server answers it with a 400 after the round trip.
pub(crate) fn encode(
    model: &str,
    dialect: Dialect,
    conversation: &Conversation,
) -> Result<Vec<u8>, EncodeError> {
    let mut turns = Vec::with_capacity(conversation.messages.len());
    let mut open: &[Call] = &[];
    for (index, message) in conversation.messages.iter().enumerate() {
        let refuse = |what: String| Err(EncodeError::Message { index, what });
        match (message, open) {
            (Message::ToolResult { call_id, text, is_error, .. }, [call, rest @ ..])
                if call.id == *call_id =>
            {
                open = rest;
                let (tool_use_id, content, is_error) = (call_id.as_str(), text.as_str(), *is_error);
                push(
                    &mut turns,
                    Role::User,
                    [Block::Result(ResultBlock { r#type: "tool_result", tool_use_id, is_error, content })],
                );
            }
            (Message::ToolResult { call_id, .. }, [call, ..]) => {
                return refuse(format!(
                    "the result of `{call_id}` stands where that of `{}` is due",
                    call.id
                ));
            }
            (Message::ToolResult { call_id, .. }, []) => {
                return refuse(format!("a result of `{call_id}`, which no call before it asked for"));
            }
            (_, [call, ..]) => return refuse(format!("the call `{}` before it has no result", call.id)),
            (Message::User { text }, []) if text.trim().is_empty() => {
                return refuse("its text is blank, which this wire does not take".to_owned());
            }
            (Message::User { text }, []) => {
                push(&mut turns, Role::User, [Block::Text(TextBlock { r#type: "text", text })]);
            }
            (Message::Assistant { replay, calls, .. }, []) => {
                open = calls;
                push(&mut turns, Role::Assistant, blocks(index, replay)?);
            }
        }
    }
    if let [call, ..] = open {
        let what = format!("the conversation ends and the call `{}` has no result", call.id);
        return Err(EncodeError::Message { index: conversation.messages.len(), what });
    }
    let request = Request {
        model,
        max_tokens: conversation
            .max_output_tokens
            .unwrap_or(DEFAULT_MAX_TOKENS)
            .clamp(1, dialect.most_output),
        cache_control: dialect.cache.then_some(CacheControl { r#type: "ephemeral" }),
        output_config: conversation
            .effort
            .filter(|_| dialect.effort)
            .map(|effort| OutputConfig { effort: word(effort) }),
        system: &conversation.system,
        tools: tools(conversation)?,
        messages: turns,
    };
    Ok(serde_json::to_vec(&request)?)
}

/// Adds blocks to the last turn, or begins one where the role changes. A model that said nothing leaves no turn.
fn push<'a>(turns: &mut Vec<Turn<'a>>, role: Role, blocks: impl IntoIterator<Item = Block<'a>>) {
    for block in blocks {
        match turns.last_mut() {
            Some(turn) if turn.role == role => turn.content.push(block),
            _ => turns.push(Turn { role, content: vec![block] }),
        }
    }
}

/// The blocks of an assistant message, each as it arrived. Blank text is left out: models write it and the server does
/// not take it back.
fn blocks(index: usize, replay: &RawJson) -> Result<Vec<Block<'_>>, EncodeError> {
    let replay: Replay<'_> = serde_json::from_str(replay.get()).map_err(|error| EncodeError::Message {
        index,
        what: format!("it is no message of this wire: {error}"),
    })?;
    Ok(replay.content.0.into_iter().filter(|block| !is_blank_text(block)).map(Block::Replay).collect())
}

fn is_blank_text(block: &RawValue) -> bool {
    Object::parse(block).is_ok_and(|block| {
        block.text("type").as_deref() == Some("text")
            && block.text("text").is_none_or(|text| text.trim().is_empty())
    })
}

/// The wire knows fewer words than there are; the nearest one is meant.
const fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Xhigh => "xhigh",
        Effort::Max => "max",
    }
}

fn tools(conversation: &Conversation) -> Result<Vec<Tool<'_>>, EncodeError> {
    let all = conversation.tools.iter().map(|tool| {
        if tool.parameters.is_object() {
            Ok(Tool { name: &tool.name, description: &tool.description, input_schema: &tool.parameters })
        } else {
            let what = "its parameters are not a JSON schema object".to_owned();
            Err(EncodeError::Tool { name: tool.name.clone(), what })
        }
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ToolSchema;
    use crate::messages::decode;

    const PLAIN: Dialect = Dialect { most_output: 32_000, effort: true, cache: false };

    fn conversation() -> Conversation {
        let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        Conversation {
            system: "Be exact.".into(),
            tools: vec![ToolSchema { name: "read_file".into(), description: "Reads.".into(), parameters }],
            messages: vec![Message::user("Fix \u{1F980} \"it\"\n")],
            max_output_tokens: Some(100),
            effort: Some(Effort::Minimal),
        }
    }

    fn result(call_id: &str, text: &str, is_error: bool) -> Message {
        Message::ToolResult { call_id: call_id.into(), name: "read_file".into(), text: text.into(), is_error }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    /// Thinking with and without text, a redacted one, a block of a kind that nobody knows, odd white space and
    /// numbers: all of it has to come back as it is.
    const WITH_CALLS: &str = r#"{"type":"message","role":"assistant","content":[ {"type":"thinking", "thinking":"hm","signature":"c2ln+/=="},
        {"type":"thinking","thinking":"","signature":"b21pdHRlZA=="},{"type":"redacted_thinking","data":"ZW5j"},
        {"type":"brand_new","n":[1.50, 1e3]},{"type":"text","text":"I look."},
        {"type":"tool_use","id":"a","name":"read_file","input":{"path" : "x"}},
        {"type":"tool_use","id":"b","name":"read_file","input":{}} ],"stop_reason":"tool_use"}"#;

    #[test]
    fn the_request_has_one_form() {
        let bytes = encode("claude-x", Dialect { cache: true, ..PLAIN }, &conversation()).unwrap();
        assert_eq!(
            text(bytes),
            concat!(
                r#"{"model":"claude-x","max_tokens":100,"cache_control":{"type":"ephemeral"},"output_config":{"effort":"low"},"#,
                r#""system":"Be exact.","tools":[{"name":"read_file","description":"Reads.","input_schema":"#,
                r#"{"properties":{"path":{"type":"string"}},"type":"object"}}],"messages":[{"role":"user","content":"#,
                "[{\"type\":\"text\",\"text\":\"Fix \u{1F980} \\\"it\\\"\\n\"}]}]}"
            )
        );
        let bare = Conversation { messages: vec![Message::user("x")], ..Conversation::default() };
        assert_eq!(
            text(encode("m", PLAIN, &bare).unwrap()),
            r#"{"model":"m","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}"#
        );
    }

    #[test]
    fn the_output_limit_is_always_there_and_never_more_than_the_model_takes() {
        let limit = |model: &str, asked: Option<u32>| {
            let talk = Conversation { max_output_tokens: asked, ..conversation() };
            let bytes = encode(model, Dialect::of(None, model), &talk).unwrap();
            serde_json::from_slice::<Value>(&bytes).unwrap()["max_tokens"].as_u64().unwrap()
        };
        assert_eq!(limit("claude-sonnet-5-5", None), 8192);
        assert_eq!(limit("claude-sonnet-5-5", Some(20_000)), 20_000);
        assert_eq!(limit("claude-sonnet-5-5", Some(u32::MAX)), 32_000);
        assert_eq!(limit("claude-3-haiku-20240307", Some(8192)), 4096);
        assert_eq!(limit("claude-3-5-haiku-latest", None), 8192);
        assert_eq!(limit("m", Some(0)), 1);
    }

    #[test]
    fn the_capability_table_says_which_fields_go_out() {
        let own = BaseUrl::anthropic();
        let dialect = |url: Option<&BaseUrl>, model: &str| {
            let dialect = Dialect::of(url, model);
            (dialect.effort, dialect.cache)
        };
        assert_eq!(dialect(Some(&own), "claude-opus-4-5"), (true, true));
        assert_eq!(dialect(Some(&own), "claude-opus-4-1-20250805"), (false, true));
        assert_eq!(dialect(Some(&own), "claude-sonnet-4-5"), (false, true));
        assert_eq!(dialect(Some(&own), "claude-3-7-sonnet-latest"), (false, true));
        assert_eq!(dialect(Some(&"http://127.0.0.1:1".parse().unwrap()), "claude-opus-5"), (true, false));
        assert_eq!(dialect(None, "claude-sonnet-5"), (true, false));
    }

    #[test]
    fn each_request_extends_the_one_before_byte_for_byte() {
        let mut talk = conversation();
        let mut before = encode("m", PLAIN, &talk).unwrap();
        for call in 0..4 {
            let reply = decode(call, WITH_CALLS.as_bytes()).unwrap();
            talk.messages.push(Message::assistant(&reply));
            talk.messages.extend([result("a", "ok", false), result("b", "", true)]);
            if call == 2 {
                talk.messages.push(Message::user("nudge"));
            }
            let after = encode("m", PLAIN, &talk).unwrap();
            let kept = before.len() - b"]}".len();
            assert_eq!(&after[..kept], &before[..kept]);
            assert_eq!(after[kept], b',');
            before = after;
        }
        let text = text(before);
        for block in [
            r#"{"type":"thinking", "thinking":"hm","signature":"c2ln+/=="}"#,
            r#"{"type":"thinking","thinking":"","signature":"b21pdHRlZA=="}"#,
            r#"{"type":"redacted_thinking","data":"ZW5j"}"#,
            r#"{"type":"brand_new","n":[1.50, 1e3]}"#,
            r#""input":{"path" : "x"}}"#,
        ] {
            assert_eq!(text.matches(block).count(), 4, "replayed as it arrived: {block}");
        }
    }

    #[test]
    fn all_results_of_a_turn_are_one_user_message_in_slot_order_with_text_after_them() {
        let mut talk = conversation();
        talk.messages.push(Message::assistant(&decode(0, WITH_CALLS.as_bytes()).unwrap()));
        talk.messages.extend([result("a", "ok", false), result("b", "", true), Message::user("go on")]);
        let request: Value = serde_json::from_slice(&encode("m", PLAIN, &talk).unwrap()).unwrap();
        assert_eq!(
            request["messages"][2],
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "ok"},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true},
                {"type": "text", "text": "go on"},
            ]})
        );
        assert_eq!(request["messages"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn roles_alternate_and_no_blank_text_goes_out() {
        let said = |content: &str| {
            let body = format!(r#"{{"role":"assistant","content":{content},"stop_reason":"end_turn"}}"#);
            Message::assistant(&decode(0, body.as_bytes()).unwrap())
        };
        let messages = |between: &str| {
            let messages = vec![Message::user("a"), said(between), Message::user("b")];
            let talk = Conversation { messages, ..Conversation::default() };
            let bytes = encode("m", PLAIN, &talk).unwrap();
            serde_json::from_slice::<Value>(&bytes).unwrap()["messages"].clone()
        };
        let block = |text: &str| json!({"type": "text", "text": text});
        let user = |blocks: &[Value]| json!({"role": "user", "content": blocks});
        for nothing in ["[]", r#"[{"type":"text","text":""}]"#, r#"[{"type":"text","text":" \n"}]"#] {
            assert_eq!(messages(nothing), json!([user(&[block("a"), block("b")])]), "{nothing}");
        }
        let thinking = json!({"type": "thinking", "thinking": "", "signature": "s"});
        assert_eq!(
            messages(&format!(r#"[{{"type":"text","text":""}},{thinking}]"#)),
            json!([user(&[block("a")]), {"role": "assistant", "content": [thinking]}, user(&[block("b")])])
        );
        // A turn that was paused goes back as it is, and what follows continues it.
        let paused = vec![Message::user("a"), said(r#"[{"type":"text","text":"1"}]"#)];
        let again = vec![said(r#"[{"type":"text","text":"2"}]"#), Message::user("b")];
        let talk = Conversation { messages: [paused, again].concat(), ..Conversation::default() };
        let request: Value = serde_json::from_slice(&encode("m", PLAIN, &talk).unwrap()).unwrap();
        assert_eq!(request["messages"][1], json!({"role": "assistant", "content": [block("1"), block("2")]}));
    }

    #[test]
    fn a_transcript_that_the_server_would_refuse_is_refused_by_place() {
        let assistant = || Message::assistant(&decode(0, WITH_CALLS.as_bytes()).unwrap());
        let ok = |id: &str| result(id, "ok", false);
        let foreign = || Message::Assistant {
            replay: RawJson::parse(r#"{"role":"assistant","content":"text"}"#.to_owned()).unwrap(),
            text: None,
            calls: Vec::new(),
        };
        let cases: [(Vec<Message>, usize); 8] = [
            (vec![assistant()], 1),
            (vec![assistant(), ok("a")], 2),
            (vec![assistant(), ok("b"), ok("a")], 1),
            (vec![assistant(), ok("a"), Message::user("x"), ok("b")], 2),
            (vec![assistant(), ok("a"), ok("b"), ok("b")], 3),
            (vec![ok("a")], 0),
            (vec![Message::user(" \n")], 0),
            (vec![Message::user("x"), foreign()], 1),
        ];
        for (messages, at) in cases {
            let talk = Conversation { messages, ..Conversation::default() };
            match encode("m", PLAIN, &talk) {
                Err(EncodeError::Message { index, .. }) => assert_eq!(index, at, "{talk:?}"),
                other => panic!("{other:?}"),
            }
        }
        let mut talk = conversation();
        talk.tools[0].parameters = json!([]);
        assert!(matches!(encode("m", PLAIN, &talk), Err(EncodeError::Tool { .. })));
    }
}
