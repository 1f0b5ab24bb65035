//! One payload of a journal, shown with the salt of its commitment: what an event committed to is proven, and everything
//! else stays hidden.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_types::{Digest, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::journal;
use crate::strict::shown;

const SCHEMA: &str = "countersign.revealed/1";

/// The largest file of this kind, bytes.
pub const MAX_REVEALED: u64 = 128 << 20;

/// `sha256(salt || bytes)` is the commitment in the event's line, and the line is in the journal whose head a bundle signs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revealed {
    schema: String,
    session: SessionId,
    seq: u64,
    name: String,
    /// Hexadecimal.
    salt: String,
    /// `sha256:` and 64 hexadecimal digits.
    commitment: Digest,
    /// The payload where it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The payload where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The event's line as it is hashed.
    event: Box<RawValue>,
}

/// Why a file reveals nothing of a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevealedError {
    #[error("it is no `show --reveal`: {0}")]
    Syntax(String),
    #[error("its schema is not {SCHEMA}")]
    Schema,
    #[error("it is of another session")]
    Session,
    #[error("its {0}")]
    Field(&'static str),
    #[error("it has to have either text or base64")]
    Payload,
    #[error("the journal has no event {0}")]
    NoEvent(u64),
    #[error("event {0} of the journal has another line")]
    Line(u64),
    #[error("it shows another commitment than event {0} of the journal")]
    Commitment(u64),
    #[error("{0}")]
    Other(#[from] journal::RevealError),
}

impl Revealed {
    /// The payload `name` of event `seq`, whose `line` in the journal of `session` has `commitment`.
    ///
    /// # Errors
    /// Where the line is no JSON.
    pub fn new(
        (session, seq, name): (&SessionId, u64, &str),
        (line, commitment): (&str, Digest),
        salt: &[u8],
        bytes: Vec<u8>,
    ) -> Result<Self, RevealedError> {
        let (text, base64) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        let event = RawValue::from_string(line.to_owned());
        Ok(Self {
            schema: SCHEMA.to_owned(),
            session: session.clone(),
            seq,
            name: name.to_owned(),
            salt: salt.iter().map(|byte| format!("{byte:02x}")).collect(),
            commitment,
            text,
            base64,
            event: event.map_err(|error| RevealedError::Syntax(error.to_string()))?,
        })
    }

    /// Reads a file; nothing of it is believed.
    ///
    /// # Errors
    /// Where it has another form.
    pub fn read(bytes: &[u8]) -> Result<Self, RevealedError> {
        let read: Self = serde_json::from_slice(bytes)
            .map_err(|error| RevealedError::Syntax(shown(&error.to_string())))?;
        if read.schema == SCHEMA { Ok(read) } else { Err(RevealedError::Schema) }
    }

    /// One JSON line, without its newline.
    ///
    /// # Errors
    /// Never for what [`Self::new`] and [`Self::read`] give.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Holds it against the journal of `session`, whose chain was walked: which payload it is, in words.
    ///
    /// # Errors
    /// Where it is not of this journal.
    pub fn check(&self, journal: &[u8], session: &SessionId) -> Result<String, RevealedError> {
        if self.session != *session {
            return Err(RevealedError::Session);
        }
        let salt = unhex(&self.salt).ok_or(RevealedError::Field("salt is not hexadecimal"))?;
        let decoded;
        let bytes = match (&self.text, &self.base64) {
            (Some(text), None) => text.as_bytes(),
            (None, Some(base64)) => {
                decoded =
                    STANDARD.decode(base64).map_err(|_| RevealedError::Field("payload is not base64"))?;
                &decoded
            }
            _ => return Err(RevealedError::Payload),
        };
        let at = self.seq.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let line = at.and_then(|at| journal.split(|byte| *byte == b'\n').nth(at));
        let line = line.filter(|line| !line.is_empty()).ok_or(RevealedError::NoEvent(self.seq))?;
        // It is shown for people; what counts is the journal's own.
        if line != self.event.get().as_bytes() {
            return Err(RevealedError::Line(self.seq));
        }
        let committed = journal::check_reveal(line, &self.name, &salt, bytes)?;
        if committed != self.commitment {
            return Err(RevealedError::Commitment(self.seq));
        }
        Ok(format!("event {}, payload {}: it is what the journal committed to", self.seq, self.name))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) || text.len() > 128
    {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_shown_and_nothing_else_passes_for_it() {
        let session = SessionId::new("s-1").unwrap();
        let commitment = Digest::of(b"saltbytes");
        let line = format!(r#"{{"payloads":{{"reply":{{"commitment":"{commitment}","len":5}}}},"seq":2}}"#);
        let journal = format!("{{}}\n{line}\n");
        let shown =
            Revealed::new((&session, 2, "reply"), (&line, commitment), b"salt", b"bytes".to_vec()).unwrap();
        let text = shown.to_json().unwrap();
        let check = |text: &str| {
            Revealed::read(text.as_bytes()).and_then(|shown| shown.check(journal.as_bytes(), &session))
        };
        assert!(check(&text).unwrap().contains("payload reply"));
        for (old, new, why) in [
            ("revealed/1", "revealed/2", RevealedError::Schema),
            ("\"s-1\"", "\"s-2\"", RevealedError::Session),
            ("73616c74", "7361+c74", RevealedError::Field("salt is not hexadecimal")),
            ("\"text\"", "\"base64\"", RevealedError::Field("payload is not base64")),
            ("\"text\":\"bytes\"", "\"base64\":\"Ynl0ZXM=\",\"text\":\"bytes\"", RevealedError::Payload),
            ("\"seq\":2,\"name", "\"seq\":4,\"name", RevealedError::NoEvent(4)),
            ("\"seq\":2,\"name", "\"seq\":0,\"name", RevealedError::NoEvent(0)),
            ("\"seq\":2,\"name", "\"seq\":1,\"name", RevealedError::Line(1)),
            ("\"text\":\"bytes\"", "\"text\":\"bytez\"", journal::RevealError::Other.into()),
        ] {
            let changed = text.replacen(old, new, 1);
            assert_ne!(changed, text, "{old}");
            assert_eq!(check(&changed), Err(why), "{new}");
        }
        let other = text.replacen(&commitment.to_string(), &Digest::of(b"").to_string(), 1);
        assert_eq!(check(&other), Err(RevealedError::Commitment(2)));
    }
}
