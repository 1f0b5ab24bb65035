//! The hash chain of a journal, checked over its raw lines: format 1 of an event line names its session, its number and
//! the sha256 of the line before it.

use std::collections::BTreeMap;

use countersign_types::{Digest, Hasher, SessionId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::statement::JournalHead;

/// The longest line, bytes; no journal has a longer one.
pub const MAX_LINE: usize = 1024 * 1024;

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {seq}: {why}")]
pub struct JournalError {
    /// The first bad event.
    pub seq: u64,
    pub why: &'static str,
}

/// The fields that the chain needs. Later formats may have others and must keep these.
#[derive(Deserialize)]
struct Line {
    session: SessionId,
    seq: u64,
    prev: Digest,
}

/// Walks a journal as its bytes come, in pieces of any size.
#[derive(Debug)]
pub struct Chain {
    session: SessionId,
    seq: u64,
    head: Digest,
    /// The beginning of a line whose end has not come yet.
    part: Vec<u8>,
}

impl Chain {
    #[must_use]
    pub fn new(session: &SessionId) -> Self {
        let genesis = Digest::of(format!("countersign journal genesis 1\n{session}\n").as_bytes());
        Self { session: session.clone(), seq: 0, head: genesis, part: Vec::new() }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        self.feed_each(bytes, |_| ())
    }

    /// As [`Self::feed`], and shows each whole line that follows its predecessor, without its newline.
    pub fn feed_each(&mut self, mut bytes: &[u8], mut see: impl FnMut(&[u8])) -> Result<(), JournalError> {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            if self.part.is_empty() {
                self.line(line)?;
                see(line);
            } else {
                let mut whole = std::mem::take(&mut self.part);
                whole.extend_from_slice(line);
                self.line(&whole)?;
                see(&whole);
            }
        }
        self.part.extend_from_slice(bytes);
        if self.part.len() > MAX_LINE { self.bad("its line is too long") } else { Ok(()) }
    }

    /// After the last piece: where the journal stands. A last line without its newline is an error.
    pub fn finish(self) -> Result<JournalHead, JournalError> {
        if !self.part.is_empty() {
            return self.bad("its line is cut");
        }
        Ok(JournalHead { seq: self.seq, head: self.head })
    }

    fn line(&mut self, line: &[u8]) -> Result<(), JournalError> {
        if line.len() > MAX_LINE {
            return self.bad("its line is too long");
        }
        // serde would take an array for the three fields as well.
        let read = line.starts_with(b"{").then(|| serde_json::from_slice::<Line>(line).ok()).flatten();
        let Some(read) = read else { return self.bad("its line is no event") };
        if read.session != self.session {
            return self.bad("it belongs to another session");
        }
        if read.seq != self.seq + 1 {
            return self.bad("it is missing: its line has another number");
        }
        if read.prev != self.head {
            return self.bad("it does not follow its predecessor");
        }
        self.seq += 1;
        self.head = Digest::of(line);
        Ok(())
    }

    fn bad<T>(&self, why: &'static str) -> Result<T, JournalError> {
        Err(JournalError { seq: self.seq + 1, why })
    }
}

/// Why a payload is not what an event committed to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevealError {
    #[error("the event's line cannot be read")]
    Line,
    #[error("the event has no payload `{0}`")]
    NoSuchPayload(String),
    #[error("the bytes are not those that the event committed to")]
    Other,
}

/// Checks one payload, shown with its salt, against the commitment in its event's line: `sha256(salt || bytes)`. All
/// other payloads stay hidden. Gives the commitment.
pub fn check_reveal(line: &[u8], name: &str, salt: &[u8], bytes: &[u8]) -> Result<Digest, RevealError> {
    #[derive(Deserialize)]
    struct Payload {
        commitment: Digest,
        len: u64,
    }
    #[derive(Deserialize)]
    struct Payloads {
        payloads: BTreeMap<String, Payload>,
        #[serde(flatten)]
        _rest: BTreeMap<String, IgnoredAny>,
    }
    let read: Payloads = serde_json::from_slice(line).map_err(|_| RevealError::Line)?;
    let payload =
        read.payloads.get(name).ok_or_else(|| RevealError::NoSuchPayload(crate::strict::shown(name)))?;
    let mut hasher = Hasher::new();
    hasher.update(salt);
    hasher.update(bytes);
    let same = payload.len == bytes.len() as u64 && payload.commitment == hasher.finish();
    if same { Ok(payload.commitment) } else { Err(RevealError::Other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(session: &SessionId, events: u64) -> Vec<u8> {
        let mut prev = Chain::new(session).head;
        let mut out = Vec::new();
        for seq in 1..=events {
            let line = format!(
                r#"{{"data":{{"n":{seq}}},"kind":"k","prev":"{prev}","seq":{seq},"session":"{session}","v":1}}"#
            );
            prev = Digest::of(line.as_bytes());
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out
    }

    fn walk(session: &SessionId, bytes: &[u8], piece: usize) -> Result<JournalHead, JournalError> {
        let mut chain = Chain::new(session);
        bytes.chunks(piece).try_for_each(|piece| chain.feed(piece))?;
        chain.finish()
    }

    #[test]
    fn the_head_does_not_depend_on_the_pieces() {
        let session = SessionId::new("s-1").unwrap();
        let bytes = journal(&session, 9);
        let whole = walk(&session, &bytes, bytes.len()).unwrap();
        assert_eq!(whole.seq, 9);
        for piece in 1..200 {
            assert_eq!(walk(&session, &bytes, piece), Ok(whole));
        }
        assert_eq!(walk(&session, b"", 1).unwrap().seq, 0);
    }

    #[test]
    fn every_damage_names_the_first_bad_event() {
        let session = SessionId::new("s-1").unwrap();
        let bytes = journal(&session, 5);
        let text = String::from_utf8(bytes.clone()).unwrap();
        let seq = |text: &str| walk(&session, text.as_bytes(), 64).map_err(|e| e.seq);
        assert_eq!(seq(&text.replacen("\"n\":3", "\"n\":4", 1)), Err(4), "the next line shows it");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        assert_eq!(seq(&[lines[0], lines[2], lines[3]].concat()), Err(2));
        assert_eq!(seq(&[lines[1], lines[0]].concat()), Err(1));
        assert_eq!(seq(text.trim_end()), Err(5));
        assert_eq!(seq(&text.replacen("s-1", "s-2", 1)), Err(1));
        assert_eq!(seq(&format!("\n{text}")), Err(1));
        assert_eq!(seq(&"x".repeat(MAX_LINE + 2)), Err(1));
        assert_eq!(walk(&SessionId::new("s-2").unwrap(), &bytes, 9).map_err(|e| e.seq), Err(1));
        let prev = Chain::new(&session).head;
        assert_eq!(seq(&format!("[\"s-1\",1,\"{prev}\"]\n")), Err(1), "an array is no event");
        // A cut tail is a shorter journal; only a signed head tells.
        assert_eq!(seq(&lines[..4].concat()).map(|head| head.seq), Ok(4));
    }

    #[test]
    fn one_payload_is_shown_and_nothing_else_fits() {
        let commitment = Digest::of(b"saltbytes");
        let line = format!(r#"{{"payloads":{{"reply":{{"commitment":"{commitment}","len":5}}}},"seq":1}}"#);
        let check = |name, salt: &[u8], bytes: &[u8]| check_reveal(line.as_bytes(), name, salt, bytes);
        assert_eq!(check("reply", b"salt", b"bytes"), Ok(commitment));
        assert_eq!(check("reply", b"sal", b"tbytes"), Err(RevealError::Other), "the length is fixed too");
        assert_eq!(check("reply", b"salt", b"bytez"), Err(RevealError::Other));
        assert_eq!(check("other", b"salt", b"bytes"), Err(RevealError::NoSuchPayload("other".into())));
        assert_eq!(check_reveal(b"{", "reply", b"", b""), Err(RevealError::Line));
    }
}
