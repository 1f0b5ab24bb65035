//! Format 1 of an event line, written once here and read for ever.

use std::collections::{BTreeMap, BTreeSet};

use countersign_types::{Digest, Hasher, Millis, SessionId, TenantId, canonical_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Append, Authority, KnownKinds, MAX_EVENTS_PER_APPEND, MAX_LINE, MAX_PAYLOAD, NewEvent, PayloadRef,
    StoreError, StoredEvent,
};

/// The format of event lines that this version writes, and the highest that it can act on.
pub const LINE_FORMAT: u32 = 1;

/// How deep arrays and objects may lie in each other: well below where parsers give up, so that all that is written
/// can be read.
const MAX_DEPTH: usize = 64;

/// The longest name of a kind, payload or topic in bytes.
const MAX_NAME: usize = 64;

/// What the first line of a session has as `prev`: a line cannot be moved to another session and still fit.
#[must_use]
pub fn genesis(session: &SessionId) -> Digest {
    Digest::of(format!("countersign journal genesis 1\n{session}\n").as_bytes())
}

/// `sha256(salt || bytes)`.
#[must_use]
pub fn commitment(salt: &[u8], bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(salt);
    hasher.update(bytes);
    hasher.finish()
}

#[derive(Serialize)]
struct LineOut<'a> {
    v: u32,
    session: &'a SessionId,
    tenant: &'a TenantId,
    authority: &'a Authority,
    seq: u64,
    at: Millis,
    kind: &'a str,
    data: &'a Value,
    payloads: &'a BTreeMap<String, PayloadRef>,
    prev: Digest,
}

/// Reads any format tolerantly: a later one may have more fields or other ones, and must still be shown.
#[derive(Deserialize)]
struct LineIn {
    v: u32,
    session: SessionId,
    seq: u64,
    at: Millis,
    kind: String,
    #[serde(default)]
    authority: Option<Value>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    payloads: Option<Value>,
    prev: Digest,
}

/// An event as it will be stored.
#[derive(Debug)]
pub struct Sealed {
    pub seq: u64,
    pub line: String,
    pub digest: Digest,
    /// In the order of `NewEvent::payloads`.
    pub commitments: Vec<Digest>,
}

/// Checks everything about an append that does not depend on what is stored.
pub fn check(append: &Append, known: &KnownKinds) -> Result<(), StoreError> {
    let invalid = |what: String| Err(StoreError::Invalid(what));
    if append.events.is_empty() {
        return invalid("it holds no events".into());
    }
    if append.events.len() > MAX_EVENTS_PER_APPEND {
        return invalid(format!("{} events, at most {MAX_EVENTS_PER_APPEND}", append.events.len()));
    }
    for event in &append.events {
        check_name("kind", &event.kind)?;
        if !known.knows(&event.kind) {
            return invalid(format!(
                "kind `{}` is not among those that this store was opened with",
                event.kind
            ));
        }
        check_depth(&event.kind, &event.data)?;
        let mut names = BTreeSet::new();
        for payload in &event.payloads {
            check_name("payload", &payload.name)?;
            if !names.insert(payload.name.as_str()) {
                return invalid(format!("two payloads named `{}` in one event", payload.name));
            }
            if payload.bytes.len() > MAX_PAYLOAD {
                return invalid(format!("payload `{}` is above {MAX_PAYLOAD} bytes", payload.name));
            }
        }
    }
    for item in &append.outbox {
        check_name("topic", &item.topic)?;
        check_text(&item.topic, &item.body)?;
    }
    append.summary.as_ref().map_or(Ok(()), |summary| check_text("summary", summary))
}

/// For what is kept beside the chain.
fn check_text(what: &str, value: &Value) -> Result<(), StoreError> {
    check_depth(what, value)?;
    let len = value.to_string().len();
    if len <= MAX_LINE {
        return Ok(());
    }
    Err(StoreError::Invalid(format!("`{what}` has {len} bytes, at most {MAX_LINE}")))
}

fn check_depth(what: &str, value: &Value) -> Result<(), StoreError> {
    // Level by level: a recursive walk could itself run out of stack.
    let mut level = vec![value];
    for _ in 0..=MAX_DEPTH {
        level = level.into_iter().flat_map(children).collect();
        if level.is_empty() {
            return Ok(());
        }
    }
    Err(StoreError::Invalid(format!("`{what}` is nested more than {MAX_DEPTH} deep")))
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn check_name(what: &str, name: &str) -> Result<(), StoreError> {
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(ok) {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "{what} `{}`: 1 to {MAX_NAME} of a-z, 0-9, `_`, `.`, `-`",
        name.escape_debug()
    )))
}

/// Writes the lines of a checked append that follow (`seq`, `head`).
pub fn seal(append: &Append, tenant: &TenantId, seq: u64, head: Digest) -> Result<Vec<Sealed>, StoreError> {
    let mut prev = head;
    let mut next = seq;
    append
        .events
        .iter()
        .map(|event| {
            next += 1;
            let sealed = seal_one(append, tenant, event, next, prev)?;
            prev = sealed.digest;
            Ok(sealed)
        })
        .collect()
}

fn seal_one(
    append: &Append,
    tenant: &TenantId,
    event: &NewEvent,
    seq: u64,
    prev: Digest,
) -> Result<Sealed, StoreError> {
    let commitments: Vec<Digest> = event.payloads.iter().map(|p| commitment(&p.salt, &p.bytes)).collect();
    let payloads = event
        .payloads
        .iter()
        .zip(&commitments)
        .map(|(p, c)| (p.name.clone(), PayloadRef { commitment: *c, len: p.bytes.len() as u64 }))
        .collect();
    let out = LineOut {
        v: LINE_FORMAT,
        session: &append.session,
        tenant,
        authority: &append.authority,
        seq,
        at: append.at,
        kind: &event.kind,
        data: &event.data,
        payloads: &payloads,
        prev,
    };
    let not_canonical = |why: String| StoreError::Invalid(format!("data of `{}`: {why}", event.kind));
    let bytes = canonical_json(&out).map_err(|e| not_canonical(e.to_string()))?;
    let line = String::from_utf8(bytes).map_err(|e| not_canonical(e.to_string()))?;
    if line.len() > MAX_LINE {
        return Err(not_canonical(format!(
            "its line has {} bytes, at most {MAX_LINE}: use a payload",
            line.len()
        )));
    }
    Ok(Sealed { seq, digest: Digest::of(line.as_bytes()), line, commitments })
}

/// A row as an implementation keeps it.
#[derive(Clone, Copy, Debug)]
pub struct RawLine<'a> {
    pub seq: u64,
    pub line: &'a [u8],
    pub digest: &'a [u8],
}

/// Walks a journal line by line and checks that each fits its predecessor.
#[derive(Debug)]
pub struct ChainReader<'a> {
    session: &'a SessionId,
    seq: u64,
    /// None at the start of a page, whose first predecessor is not at hand.
    prev: Option<Digest>,
}

impl<'a> ChainReader<'a> {
    /// Begins with event 1.
    #[must_use]
    pub fn from_start(session: &'a SessionId) -> Self {
        Self { session, seq: 0, prev: Some(genesis(session)) }
    }

    /// Begins behind event `after`.
    #[must_use]
    pub fn from_page(session: &'a SessionId, after: u64) -> Self {
        Self { session, seq: after, prev: if after == 0 { Some(genesis(session)) } else { None } }
    }

    fn bad(&self, seq: u64, what: impl Into<String>) -> StoreError {
        StoreError::BadChain { session: self.session.clone(), seq, what: what.into() }
    }

    /// Takes the next line, or says what is wrong with it: [`StoreError::BadChain`].
    pub fn read(&mut self, raw: &RawLine<'_>) -> Result<StoredEvent, StoreError> {
        let seq = self.seq + 1;
        if raw.seq != seq {
            return Err(self.bad(seq, format!("it is missing; event {} follows event {}", raw.seq, self.seq)));
        }
        let digest = Digest::of(raw.line);
        if digest.as_bytes() != raw.digest {
            return Err(self.bad(seq, "its line does not match its digest"));
        }
        let line = std::str::from_utf8(raw.line).map_err(|_| self.bad(seq, "its line is not UTF-8"))?;
        let read: LineIn =
            serde_json::from_str(line).map_err(|e| self.bad(seq, format!("its line is no event ({e})")))?;
        if read.seq != seq || read.session != *self.session {
            return Err(
                self.bad(seq, format!("its line says event {} of session {}", read.seq, read.session))
            );
        }
        if self.prev.is_some_and(|prev| prev != read.prev) {
            return Err(self.bad(seq, "it does not follow its predecessor"));
        }
        // Of a later format only the header is promised; its other fields are shown when they can be read.
        let strict = read.v <= LINE_FORMAT;
        let authority = match read.authority.map(serde_json::from_value).transpose() {
            Ok(Some(authority)) => Some(authority),
            Ok(None) | Err(_) if strict => return Err(self.bad(seq, "its line names no authority")),
            Ok(None) | Err(_) => None,
        };
        let payloads = match read.payloads.map(serde_json::from_value).transpose() {
            Ok(payloads) => payloads.unwrap_or_default(),
            Err(e) if strict => return Err(self.bad(seq, format!("its payloads cannot be read ({e})"))),
            Err(_) => BTreeMap::new(),
        };
        self.seq = seq;
        self.prev = Some(digest);
        Ok(StoredEvent {
            seq,
            at: read.at,
            v: read.v,
            kind: read.kind,
            authority,
            data: read.data,
            payloads,
            line: line.to_owned(),
            digest,
        })
    }

    /// After the last line of a whole journal: the session's own record of its end must agree.
    pub fn finish(&self, seq: u64, head: &Digest) -> Result<(), StoreError> {
        if self.seq != seq {
            return Err(
                self.bad(self.seq + 1, format!("it is missing; the session says that it has {seq} events"))
            );
        }
        if self.prev != Some(*head) {
            return Err(self.bad(seq, "the session's head is not its digest"));
        }
        Ok(())
    }
}
