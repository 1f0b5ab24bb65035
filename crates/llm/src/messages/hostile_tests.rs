//! Whatever a server sends, reading it ends in a reply that can be replayed or in a typed error.

use proptest::prelude::*;

use super::{Dialect, decode, encode};
use crate::{Conversation, MAX_ERROR_MESSAGE, Message};

const BODY: &str = r#"{"id":"x","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a"},{"type":"tool_use","id":"a","name":"run","input":{"command":"ls"}},{"type":"tool_use","id":"b","name":"check","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#;

/// Pieces that turn one valid body into another or into a broken one.
const PIECES: [&str; 16] = [
    "null",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e999",
    "\"error\":{\"type\":\"overloaded_error\"}",
    ",",
    ":",
    "\"",
    "\\ud800",
    "[",
    "{",
    "\"id\":\"a\"",
    "\u{202e}",
    "\"type\":\"tool_use\"",
];

fn check(bytes: &[u8]) {
    match decode(3, bytes) {
        Ok(reply) => {
            assert_eq!(decode(3, &reply.raw).as_ref(), Ok(&reply));
            let mut talk = Conversation { messages: vec![Message::user("u")], ..Conversation::default() };
            talk.messages.push(Message::assistant(&reply));
            for call in &reply.calls {
                assert!(!call.id.is_empty());
                let (call_id, name) = (call.id.clone(), call.name.clone());
                talk.messages.push(Message::ToolResult { call_id, name, text: "ok".into(), is_error: false });
            }
            let request = encode("m", Dialect::of(None, "m"), &talk).unwrap();
            assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&request).is_ok());
        }
        Err(error) => assert!(error.maybe_billed && error.message.len() <= MAX_ERROR_MESSAGE),
    }
}

proptest! {
    #[test]
    fn a_bent_answer_is_a_reply_or_an_error(
        edits in prop::collection::vec((0..BODY.len(), 0..12_usize, prop::sample::select(&PIECES[..])), 1..4)
    ) {
        let mut text: Vec<u8> = BODY.into();
        for (at, cut, piece) in edits {
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, piece.bytes());
        }
        check(&text);
    }

    #[test]
    fn noise_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }
}
