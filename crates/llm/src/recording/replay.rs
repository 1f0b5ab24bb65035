use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_types::Digest;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use crate::error::printable;
use crate::file::{Links, read_regular};
use crate::http::HttpAnswer;
use crate::recording::differ::first_difference;
use crate::recording::{
    Answered, Attempt, End, Header, MAX_RECORDING, RECORDING_FORMAT, RecordedModel, RecordingError, Redact,
    Role,
};
use crate::transport::Transport;
use crate::{ErrorClass, SendError};

/// A recording that was read and checked, and how far it was played. Every role has its own order.
#[derive(Debug)]
pub struct Player {
    models: Vec<RecordedModel>,
    digest: Digest,
    attempts: BTreeMap<Role, usize>,
    left: Mutex<BTreeMap<Role, VecDeque<Attempt>>>,
    redact: Redact,
    steady: Option<Redact>,
}

/// Any line but the first.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    End(End),
    Attempt(Box<Attempt>),
}

impl Player {
    /// Reads a whole recording from a regular file of at most [`MAX_RECORDING`] bytes. `redact` is what takes keys out of
    /// requests before they are compared, as it did when they were recorded.
    ///
    /// # Errors
    /// It is no recording, one of a later version, or cut.
    pub fn open(path: &Path, redact: Redact) -> Result<Self, RecordingError> {
        let fail = |what: String| RecordingError::new(path, what);
        let bytes = read_regular(path, MAX_RECORDING, Links::Follow)
            .map_err(|error| fail(format!("is of no use: {error}")))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| fail("is no UTF-8 text".to_owned()))?;
        let mut lines = text.lines().zip(1..);
        let (first, _) = lines.next().ok_or_else(|| fail("is empty".to_owned()))?;
        let header = header(first).map_err(&fail)?;
        let mut left: BTreeMap<Role, VecDeque<Attempt>> = BTreeMap::new();
        let mut read = 0_u64;
        let mut end = None;
        for (line, number) in lines {
            if end.is_some() {
                return Err(fail(format!("goes on after its end (line {number})")));
            }
            let line: Line = serde_json::from_str(line).map_err(|error| {
                fail(format!("is not valid (line {number}): {}", printable(&error.to_string(), MAX_WHY)))
            })?;
            match line {
                Line::End(total) => end = Some(total.end.attempts),
                Line::Attempt(attempt) => {
                    if attempt.answer.is_some() == attempt.error.is_some() {
                        return Err(fail(format!("has neither one answer nor one error in line {number}")));
                    }
                    read += 1;
                    left.entry(attempt.role).or_default().push_back(*attempt);
                }
            }
        }
        match end {
            Some(attempts) if attempts == read => {}
            Some(attempts) => {
                return Err(fail(format!("holds {read} attempts and says that there are {attempts}")));
            }
            None => return Err(fail("has no end: it was cut".to_owned())),
        }
        let attempts = left.iter().map(|(role, attempts)| (*role, attempts.len())).collect();
        let digest = Digest::of(&bytes);
        Ok(Self { models: header.models, digest, attempts, left: Mutex::new(left), redact, steady: None })
    }

    /// Texts of requests that are the same after `steady` are no difference: what ran took another time.
    #[must_use]
    pub fn forgiving(self, steady: Redact) -> Self {
        Self { steady: Some(steady), ..self }
    }

    /// The model that `role` was played by.
    #[must_use]
    pub fn model(&self, role: Role) -> Option<&RecordedModel> {
        self.models.iter().find(|model| model.role == role)
    }

    /// Of the file's bytes.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn of(self: Arc<Self>, role: Role) -> Playing {
        Playing { player: self, role }
    }

    fn answer(&self, role: Role, request: &[u8]) -> Result<HttpAnswer, SendError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let total = self.attempts.get(&role).copied().unwrap_or_default();
        let queue = left.entry(role).or_default();
        let nth = total - queue.len() + 1;
        let Some(attempt) = queue.pop_front() else {
            return Err(stop(&format!(
                "the recording holds {total} model call(s) of the {role} and this is one more: the run no longer does \
                 what was recorded"
            )));
        };
        drop(left);
        self.compare(role, nth, &attempt, request)?;
        match (attempt.answer, attempt.error) {
            (Some(answer), _) => http_answer(answer),
            (None, Some(error)) => Err(error),
            // `open` lets no such attempt pass.
            (None, None) => Err(stop("the recording holds neither an answer nor an error")),
        }
    }

    fn compare(&self, role: Role, nth: usize, attempt: &Attempt, request: &[u8]) -> Result<(), SendError> {
        let was = &attempt.request;
        let is = self.redact.bytes(request);
        if Digest::of(request).hex() == was.sha256 || is == was.body.as_bytes() {
            return Ok(());
        }
        let lead = format!("model call {nth} of the {role} differs from the recording");
        let values = (serde_json::from_str::<Value>(&was.body), serde_json::from_slice::<Value>(&is));
        let (Ok(was), Ok(is)) = values else {
            return Err(stop(&format!("{lead}, and one of them is no JSON")));
        };
        let said = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_owned());
        let same = |was: &str, is: &str| {
            self.steady.as_ref().is_some_and(|steady| steady.text(was) == steady.text(is))
        };
        match first_difference(&was, &is, &same) {
            None if was != is => Ok(()),
            Some(at) => Err(stop(&format!(
                "{lead} at `{}`: recorded {}, now {}",
                printable(&at.pointer, MAX_WHY),
                said(at.was),
                said(at.is)
            ))),
            None => Err(stop(&format!("{lead} in its white space or the order of its fields"))),
        }
    }
}

/// Bytes of somebody else's words in a message.
const MAX_WHY: usize = 300;

/// A recording that does not fit ends a run: it is never retried and nobody was paid.
fn stop(what: &str) -> SendError {
    SendError::new(ErrorClass::BadResponse, what)
}

fn header(line: &str) -> Result<Header, String> {
    #[derive(Deserialize)]
    struct FormatOnly {
        format: String,
    }
    // First, so that a later format is refused by its name and not by a field that it added.
    let format = match serde_json::from_str::<FormatOnly>(line) {
        Ok(FormatOnly { format }) => format,
        Err(_) => return Err(format!("is no recording: its first line does not say {RECORDING_FORMAT}")),
    };
    if format != RECORDING_FORMAT {
        let shown = printable(&format, MAX_WHY);
        return Err(format!("is of the format `{shown}`; this program reads {RECORDING_FORMAT}"));
    }
    serde_json::from_str(line)
        .map_err(|error| format!("is not valid (line 1): {}", printable(&error.to_string(), MAX_WHY)))
}

fn http_answer(answer: Answered) -> Result<HttpAnswer, SendError> {
    let Answered { status, headers: given, body, body_base64 } = answer;
    let body = match (body, body_base64) {
        (Some(body), None) => body.into_bytes(),
        (None, Some(text)) => {
            BASE64_STANDARD.decode(text).map_err(|_| stop("a body of the recording is no base64"))?
        }
        _ => return Err(stop("an answer of the recording has no body, or two")),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    Ok(HttpAnswer { status, headers, body })
}

/// A recording as the transport of one role.
#[derive(Debug)]
pub(crate) struct Playing {
    player: Arc<Player>,
    role: Role,
}

impl Transport for Playing {
    fn exchange(&self, _: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<HttpAnswer, SendError>> {
        async move { self.player.answer(self.role, &request) }.boxed()
    }
}
