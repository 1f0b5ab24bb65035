//! `scripted:FILE`: a model without a key or a network that says what a file says.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use countersign_types::Millis;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::header::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};

use crate::failure::seconds;
use crate::file::{Links, read_regular};
use crate::http::HttpAnswer;
use crate::transport::Transport;
use crate::{ErrorClass, ModelRef, RawJson, SendError, Timer};

/// Bytes of a script, at most.
pub const MAX_SCRIPT: u64 = 64 * 1024 * 1024;

/// The only version of the format.
const VERSION: u64 = 1;

/// Why a script cannot be played. The text names the file and the place.
#[derive(Debug, thiserror::Error)]
#[error("the script `{file}` {what}")]
pub struct ScriptError {
    file: String,
    what: String,
}

/// A script that was read and checked.
#[derive(Clone, PartialEq)]
pub struct Script {
    turns: Vec<Entry>,
}

/// What one model call gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub delay: Millis,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Reply {
        /// Without calls it is a claim of being done.
        text: Option<String>,
        calls: Vec<ScriptedCall>,
        usage: Option<ScriptedUsage>,
    },
    Error {
        /// 400 to 599.
        status: u16,
        retry_after: Option<Millis>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    /// Usually an object. Kept as it is written, so that a script can hold wrong ones.
    pub args: RawJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedUsage {
    pub input: Option<u64>,
    pub output: Option<u64>,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(rename = "version")]
    _version: u64,
    turns: Vec<TurnForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnForm {
    text: Option<String>,
    calls: Option<Vec<ScriptedCall>>,
    error: Option<ErrorForm>,
    #[serde(default)]
    delay_ms: u64,
    usage: Option<ScriptedUsage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorForm {
    status: u16,
    retry_after_s: Option<f64>,
}

impl Script {
    /// Reads a script from a regular file of at most [`MAX_SCRIPT`] bytes.
    pub fn open(path: &Path) -> Result<Self, ScriptError> {
        let bytes = read_regular(path, MAX_SCRIPT, Links::Follow).map_err(|error| ScriptError {
            file: path.display().to_string(),
            what: format!("is of no use: {error}"),
        })?;
        Self::parse(&path.display().to_string(), &bytes)
    }

    /// Reads a script from bytes; `file` names it in errors.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, ScriptError> {
        let fail = |what: String| ScriptError { file: file.to_owned(), what };
        let syntax = |error: serde_json::Error| {
            let text = crate::error::printable(&error.to_string(), crate::MAX_ERROR_MESSAGE);
            fail(format!("is not valid: {text}"))
        };
        // First, so that a later format is refused by its number and not by a field that it added.
        let version = serde_json::from_slice::<VersionOnly>(bytes).map_err(syntax)?.version;
        match version {
            Some(version) if version == VERSION => {}
            Some(version) => {
                let shown = crate::error::printable(&version.to_string(), 64);
                return Err(fail(format!("has version {shown}; this program reads version {VERSION}")));
            }
            None => return Err(fail(format!("names no version: write \"version\": {VERSION}"))),
        }
        let form: FileForm = serde_json::from_slice(bytes).map_err(syntax)?;
        let turns = form
            .turns
            .into_iter()
            .enumerate()
            .map(|(index, turn)| {
                Entry::read(turn).map_err(|what| fail(format!("is not valid: turns[{index}]{what}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { turns })
    }

    /// The entry for model call number `call`, retries included, from 0.
    #[must_use]
    pub fn entry(&self, call: u64) -> Option<&Entry> {
        self.turns.get(usize::try_from(call).ok()?)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The same answer as a Chat Completions response body. None: `call` gets an error or nothing.
    #[must_use]
    pub fn response_body(&self, call: u64, model: &str) -> Option<Vec<u8>> {
        match &self.entry(call)?.answer {
            // Strings and numbers always serialise.
            Answer::Reply { text, calls, usage } => {
                serde_json::to_vec(&Body::new(call, model, text, calls, *usage)).ok()
            }
            Answer::Error { .. } => None,
        }
    }
}

impl Entry {
    fn read(turn: TurnForm) -> Result<Self, String> {
        let delay = Millis(turn.delay_ms);
        let answer = match (turn.text, turn.calls, turn.error) {
            (None, None, Some(error)) => {
                if turn.usage.is_some() {
                    return Err(".usage: it goes with `text` or `calls`, not with `error`".to_owned());
                }
                if !(400..600).contains(&error.status) {
                    return Err(format!(
                        ".error.status: {} is not an HTTP error status (400 to 599)",
                        error.status
                    ));
                }
                let retry_after = match error.retry_after_s {
                    None => None,
                    Some(given) => match seconds(given) {
                        Some(wait) => Some(wait),
                        None => {
                            return Err(format!(".error.retry_after_s: {given} is not a number of seconds"));
                        }
                    },
                };
                Answer::Error { status: error.status, retry_after }
            }
            (_, _, Some(_)) => {
                return Err(
                    ": it has both an `error` and `text` or `calls`; one entry is one of them".to_owned()
                );
            }
            (None, None, None) => return Err(": it has neither `text` nor `calls` nor `error`".to_owned()),
            (text, calls, None) => {
                let calls = calls.unwrap_or_default();
                if text.is_none() && calls.is_empty() {
                    return Err(".calls: it is empty and there is no `text`".to_owned());
                }
                if let Some(index) = calls.iter().position(|call| call.tool.is_empty()) {
                    return Err(format!(".calls[{index}].tool: it is empty"));
                }
                Answer::Reply { text, calls, usage: turn.usage }
            }
        };
        Ok(Self { delay, answer })
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({} entries)", self.turns.len())
    }
}

#[derive(Serialize)]
struct Body<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [ChoiceBody<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageBody>,
}

#[derive(Serialize)]
struct ChoiceBody<'a> {
    index: u32,
    message: MessageBody<'a>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct MessageBody<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallBody<'a>>,
}

#[derive(Serialize)]
struct CallBody<'a> {
    id: String,
    r#type: &'static str,
    function: FunctionBody<'a>,
}

#[derive(Serialize)]
struct FunctionBody<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct UsageBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
}

impl<'a> Body<'a> {
    fn new(
        call: u64,
        model: &'a str,
        text: &'a Option<String>,
        calls: &'a [ScriptedCall],
        usage: Option<ScriptedUsage>,
    ) -> Self {
        let tool_calls = calls.iter().enumerate().map(|(index, asked)| CallBody {
            id: format!("call_{call}_{index}"),
            r#type: "function",
            function: FunctionBody { name: &asked.tool, arguments: asked.args.get() },
        });
        let message =
            MessageBody { role: "assistant", content: text.as_deref(), tool_calls: tool_calls.collect() };
        let finish_reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        let usage = usage.map(|usage| UsageBody {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.input.zip(usage.output).and_then(|(input, output)| input.checked_add(output)),
        });
        Self {
            id: format!("scripted-{call}"),
            object: "chat.completion",
            created: 0,
            model,
            choices: [ChoiceBody { index: 0, message, finish_reason }],
            usage,
        }
    }
}

/// Plays a script in process, as a server would answer.
#[derive(Debug)]
pub(crate) struct ScriptPlayer {
    /// The file's name, for messages.
    file: String,
    script: Script,
    timer: Arc<dyn Timer>,
}

impl ScriptPlayer {
    /// Reads and checks the whole script. `model` is a `scripted:` reference.
    pub(crate) fn open(model: &ModelRef, timer: Arc<dyn Timer>) -> Result<Self, ScriptError> {
        let Some(path) = model.script() else {
            return Err(ScriptError {
                file: model.name().to_owned(),
                what: "is not a script but a model".to_owned(),
            });
        };
        Ok(Self { file: model.name().to_owned(), script: Script::open(path)?, timer })
    }

    async fn answer(&self, call: u64) -> Result<HttpAnswer, SendError> {
        let Some(entry) = self.script.entry(call) else {
            let text = format!(
                "the script `{}` has {} entries and model call {} asks for one more",
                self.file,
                self.script.len(),
                call.saturating_add(1)
            );
            return Err(SendError::new(ErrorClass::BadResponse, &text));
        };
        if entry.delay > Millis(0) {
            self.timer.sleep(entry.delay).await;
        }
        let mut headers = HeaderMap::new();
        let (status, body) = match entry.answer {
            Answer::Error { status, retry_after } => {
                if let Some(wait) = retry_after {
                    headers.insert(HeaderName::from_static("retry-after-ms"), wait.0.into());
                }
                (status, b"{\"error\":{\"message\":\"the script says so\"}}".to_vec())
            }
            Answer::Reply { .. } => (200, self.script.response_body(call, SCRIPTED_NAME).unwrap_or_default()),
        };
        Ok(HttpAnswer { status, headers, body })
    }
}

/// The model's name on the wire.
pub(crate) const SCRIPTED_NAME: &str = "scripted";

impl Transport for ScriptPlayer {
    fn exchange(&self, call: u64, _: Arc<[u8]>) -> BoxFuture<'_, Result<HttpAnswer, SendError>> {
        self.answer(call).boxed()
    }
}

#[cfg(test)]
#[path = "scripted_tests.rs"]
mod tests;
