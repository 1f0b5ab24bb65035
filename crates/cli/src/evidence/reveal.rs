//! One payload of a journal, shown with the salt of its commitment: what an event committed to is proven, and everything
//! else stays hidden.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_proof::journal;
use countersign_store::Store as _;
use countersign_types::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, session};

const SCHEMA: &str = "countersign.revealed/1";

/// The largest file of this kind, bytes.
pub(super) const MAX_REVEALED: u64 = 128 << 20;

/// What hides every text that the journal names. Shown, it would let all of them be guessed.
const BLIND: &str = "blind";

/// What `show --reveal` writes. `sha256(salt || bytes)` is the commitment in the event's line, and the line is in the
/// journal whose head the bundle signs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Revealed {
    schema: String,
    session: SessionId,
    seq: u64,
    name: String,
    /// Hexadecimal.
    salt: String,
    /// `sha256:` and 64 hexadecimal digits.
    commitment: String,
    /// The payload where it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The payload where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The event's line as it is hashed.
    event: Box<RawValue>,
}

/// One JSON line: the payload `what`, a number or `NUMBER:NAME`, of a session of this home.
pub(crate) fn reveal(id: &SessionId, what: &str) -> Result<String, Refusal> {
    let (seq, name) = what.split_once(':').map_or((what, None), |(seq, name)| (seq, Some(name)));
    let Some(seq) = seq.parse().ok().filter(|seq| *seq > 0) else {
        return Err(Refusal::usage(format!(
            "--reveal `{}` names no event: give its number, as `countersign events {id}` shows it, and `:NAME` for one \
             of several payloads",
            crate::text::one_line(what, crate::text::LINE)
        )));
    };
    let home = Home::open()?;
    run::runtime()?.block_on(async {
        session::known(&home, id).await?;
        let page = home.store.events(id, seq - 1, 1).await?;
        let Some(event) = page.events.first().filter(|event| event.seq == seq) else {
            return Err(Refusal::usage(format!(
                "session {id} has no event {seq}: `countersign events {id}` lists them"
            )));
        };
        if name == Some(BLIND) {
            return Err(Refusal::usage(format!(
                "the payload `{BLIND}` of event {seq} is not shown: it hides all other texts of session {id}"
            )));
        }
        let names: Vec<&str> = event.payloads.keys().map(String::as_str).filter(|name| *name != BLIND).collect();
        let name = match (name, names.as_slice()) {
            (Some(name), _) if names.contains(&name) => name,
            (None, [only]) => only,
            (_, []) => {
                return Err(Refusal::usage(format!(
                    "event {seq} ({}) has no payload: all of it is in its line, which `countersign events {id} --format \
                     ndjson` shows",
                    event.kind
                )));
            }
            (_, several) => {
                return Err(Refusal::usage(format!(
                    "say which payload of event {seq} ({}): --reveal {seq}:NAME with one of {}",
                    event.kind,
                    several.join(", ")
                )));
            }
        };
        let revealed = home.store.reveal(id, seq, name).await?;
        let commitment = event.payloads.get(name).map(|payload| payload.commitment.to_string());
        let (text, base64) = match String::from_utf8(revealed.bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        let shown = Revealed {
            schema: SCHEMA.to_owned(),
            session: id.clone(),
            seq,
            name: name.to_owned(),
            salt: revealed.salt.iter().map(|byte| format!("{byte:02x}")).collect(),
            commitment: commitment.unwrap_or_default(),
            text,
            base64,
            event: RawValue::from_string(event.line.clone()).map_err(|error| Refusal::bug(error.to_string()))?,
        };
        serde_json::to_string(&shown).map_err(|error| Refusal::bug(error.to_string()))
    })
}

/// Holds what was revealed against the journal of a session: which payload it is, or why it is not of it.
pub(super) fn check(file: &[u8], journal: &[u8], session: &SessionId) -> Result<String, String> {
    let shown: Revealed =
        serde_json::from_slice(file).map_err(|error| format!("it is no `show --reveal`: {error}"))?;
    if shown.schema != SCHEMA {
        return Err(format!("its schema is not {SCHEMA}"));
    }
    if shown.session != *session {
        return Err("it is of another session".to_owned());
    }
    let salt = unhex(&shown.salt).ok_or("its salt is not hexadecimal")?;
    let decoded;
    let bytes = match (&shown.text, &shown.base64) {
        (Some(text), None) => text.as_bytes(),
        (None, Some(base64)) => {
            decoded = STANDARD.decode(base64).map_err(|_| "its payload is not base64")?;
            &decoded
        }
        _ => return Err("it has to have either text or base64".to_owned()),
    };
    let at = usize::try_from(shown.seq.saturating_sub(1)).unwrap_or(usize::MAX);
    let line = journal.split(|byte| *byte == b'\n').nth(at).filter(|line| !line.is_empty());
    let line = line.ok_or_else(|| format!("the journal has no event {}", shown.seq))?;
    // It is shown for people; what counts is the journal's own.
    if line != shown.event.get().as_bytes() {
        return Err(format!("event {} of the journal has another line", shown.seq));
    }
    journal::check_reveal(line, &shown.name, &salt, bytes).map_err(|error| error.to_string())?;
    let committed = serde_json::from_slice::<serde_json::Value>(line).map_err(|error| error.to_string())?;
    if committed["payloads"][&shown.name]["commitment"] != *shown.commitment {
        return Err(format!("it shows another commitment than event {} of the journal", shown.seq));
    }
    Ok(format!("event {}, payload {}: it is what the journal committed to", shown.seq, shown.name))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() > 128 {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}
