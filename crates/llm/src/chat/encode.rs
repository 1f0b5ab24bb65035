use serde::Serialize;
use serde_json::Value;

use crate::{Call, Conversation, EncodeError, Message, RawJson};

/// What a model's server accepts, where servers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// Which field bounds the answer.
    pub output_limit: OutputLimit,
    /// Whether `reasoning_effort` may be sent. Where it may not, an effort is left out: it is a wish, not a limit.
    pub effort: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputLimit {
    /// OpenAI itself. Its reasoning models refuse the older field.
    MaxCompletionTokens,
    /// Nearly everybody else.
    MaxTokens,
}

/// Fields stand in the order in which they are written. `messages` comes last so that a longer conversation extends the
/// bytes of a shorter one, up to the two closing brackets.
#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

/// Without `strict`: that mode takes only a subset of JSON schema.
#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// One entry of `messages`.
enum Line<'a> {
    Plain { role: &'static str, content: &'a str },
    Tool { call_id: &'a str, content: &'a str },
    Replay(&'a RawJson),
}

#[derive(Serialize)]
struct PlainLine<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct ToolLine<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: &'a str,
}

impl Serialize for Line<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Plain { role, content } => PlainLine { role, content }.serialize(serializer),
            Self::Tool { call_id, content } => {
                ToolLine { role: "tool", tool_call_id: call_id, content }.serialize(serializer)
            }
            Self::Replay(raw) => raw.serialize(serializer),
        }
    }
}

/// Writes `conversation` for `model`. A transcript in which a call has no result, or a result has no call, is refused
/// here: servers answer it with a 400 after the round trip.
pub(crate) fn encode(
    model: &str,
    dialect: Dialect,
    conversation: &Conversation,
) -> Result<Vec<u8>, EncodeError> {
    let mut messages = Vec::with_capacity(conversation.messages.len() + 1);
    if !conversation.system.is_empty() {
        messages.push(Line::Plain { role: "system", content: &conversation.system });
    }
    let mut open: &[Call] = &[];
    for (index, message) in conversation.messages.iter().enumerate() {
        let refuse = |what: String| Err(EncodeError::Message { index, what });
        match (message, open) {
            (Message::ToolResult { call_id, text, .. }, [call, rest @ ..]) if call.id == *call_id => {
                open = rest;
                messages.push(Line::Tool { call_id, content: text });
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
            (Message::User { text }, []) => messages.push(Line::Plain { role: "user", content: text }),
            (Message::Assistant { replay, calls, .. }, []) => {
                open = calls;
                messages.push(Line::Replay(replay));
            }
        }
    }
    if let [call, ..] = open {
        let what = format!("the conversation ends and the call `{}` has no result", call.id);
        return Err(EncodeError::Message { index: conversation.messages.len(), what });
    }
    let limit = |which| conversation.max_output_tokens.filter(|_| dialect.output_limit == which);
    let request = Request {
        model,
        max_completion_tokens: limit(OutputLimit::MaxCompletionTokens),
        max_tokens: limit(OutputLimit::MaxTokens),
        reasoning_effort: conversation.effort.filter(|_| dialect.effort).map(crate::Effort::as_str),
        tools: tools(conversation)?,
        messages,
    };
    Ok(serde_json::to_vec(&request)?)
}

fn tools(conversation: &Conversation) -> Result<Vec<Tool<'_>>, EncodeError> {
    conversation
        .tools
        .iter()
        .map(|tool| {
            if !tool.parameters.is_object() {
                let what = "its parameters are not a JSON schema object".to_owned();
                return Err(EncodeError::Tool { name: tool.name.clone(), what });
            }
            Ok(Tool {
                r#type: "function",
                function: Function {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: &tool.parameters,
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chat::decode;
    use crate::{Effort, ToolSchema};

    const OPENAI: Dialect = Dialect { output_limit: OutputLimit::MaxCompletionTokens, effort: true };
    const OTHER: Dialect = Dialect { output_limit: OutputLimit::MaxTokens, effort: false };

    fn conversation() -> Conversation {
        let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        Conversation {
            system: "Be exact.".into(),
            tools: vec![ToolSchema { name: "read_file".into(), description: "Reads.".into(), parameters }],
            messages: vec![Message::user("Fix \u{1F980} \"it\"\n")],
            max_output_tokens: Some(100),
            effort: Some(Effort::Low),
        }
    }

    fn result(call_id: &str) -> Message {
        Message::ToolResult {
            call_id: call_id.into(),
            name: "read_file".into(),
            text: "ok".into(),
            is_error: false,
        }
    }

    /// With white space, an unknown field and a reasoning field, all of which must survive.
    const WITH_CALLS: &str = r#"{"choices":[{"message": { "reasoning_content":"hm", "content" : null, "role":"assistant",
        "tool_calls":[{"id":"a","type":"function","function":{"name":"read_file","arguments":"{\"path\": \"x\"}"}},
        {"id":"b","type":"function","function":{"name":"read_file","arguments":"{}"}}], "novel":[1.50, 1e3]},"finish_reason":"tool_calls"}]}"#;

    #[test]
    fn the_request_has_one_form() {
        let bytes = encode("gpt-x", OPENAI, &conversation()).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            concat!(
                r#"{"model":"gpt-x","max_completion_tokens":100,"reasoning_effort":"low","tools":[{"type":"function","#,
                r#""function":{"name":"read_file","description":"Reads.","parameters":{"properties":{"path":{"type":"string"}},"#,
                r#""type":"object"}}}],"messages":[{"role":"system","content":"Be exact."},"#,
                "{\"role\":\"user\",\"content\":\"Fix \u{1F980} \\\"it\\\"\\n\"}]}"
            )
        );
        let other = String::from_utf8(encode("m", OTHER, &conversation()).unwrap()).unwrap();
        assert!(other.starts_with(r#"{"model":"m","max_tokens":100,"tools""#), "{other}");
        let bare = Conversation { messages: vec![Message::user("x")], ..Conversation::default() };
        assert_eq!(
            encode("m", OTHER, &bare).unwrap(),
            br#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#
        );
    }

    #[test]
    fn each_request_extends_the_one_before_byte_for_byte() {
        let mut talk = conversation();
        let mut before = encode("m", OPENAI, &talk).unwrap();
        for call in 0..4 {
            let reply = decode(call, WITH_CALLS.as_bytes()).unwrap();
            talk.messages.push(Message::assistant(&reply));
            talk.messages.extend([result("a"), result("b")]);
            if call == 2 {
                talk.messages.push(Message::user("nudge"));
            }
            let after = encode("m", OPENAI, &talk).unwrap();
            let kept = before.len() - b"]}".len();
            assert_eq!(&after[..kept], &before[..kept]);
            assert_eq!(after[kept], b',');
            before = after;
        }
        let text = String::from_utf8(before).unwrap();
        assert_eq!(
            text.matches(r#""novel":[1.50, 1e3]"#).count(),
            4,
            "replayed as it arrived, numbers included"
        );
        assert_eq!(text.matches(r#"{ "reasoning_content":"hm", "content" : null"#).count(), 4);
    }

    #[test]
    fn a_transcript_with_unpaired_calls_is_refused_by_place() {
        let assistant = || Message::assistant(&decode(0, WITH_CALLS.as_bytes()).unwrap());
        let cases: [(Vec<Message>, usize); 6] = [
            (vec![assistant()], 1),
            (vec![assistant(), result("a")], 2),
            (vec![assistant(), result("b"), result("a")], 1),
            (vec![assistant(), result("a"), Message::user("x"), result("b")], 2),
            (vec![assistant(), result("a"), result("b"), result("b")], 3),
            (vec![result("a")], 0),
        ];
        for (messages, at) in cases {
            let talk = Conversation { messages, ..Conversation::default() };
            match encode("m", OPENAI, &talk) {
                Err(EncodeError::Message { index, .. }) => assert_eq!(index, at, "{talk:?}"),
                other => panic!("{other:?}"),
            }
        }
        let mut talk = conversation();
        talk.tools[0].parameters = json!([]);
        assert!(matches!(encode("m", OPENAI, &talk), Err(EncodeError::Tool { .. })));
    }
}
