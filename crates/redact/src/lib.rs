//! Removes known secrets from bytes on their way to the transcript, the journal and people.
//!
//! It knows values, not shapes: every occurrence of a given value, and of its usual encodings, is replaced by
//! [`REPLACEMENT`]. Values shorter than [`MIN_VALUE`] bytes are ignored, because replacing them would destroy ordinary
//! text and tell the reader nothing less.
//!
//! Architecture invariants: no I/O; the time is linear in the input whatever the chunks; the result does not depend on
//! where chunks end; nothing here prints a value, not even with `{:?}`.
#![forbid(unsafe_code)]

mod encodings;
mod matcher;
mod scan;
mod stream;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::matcher::Matcher;
use crate::scan::Scanner;
pub use crate::stream::RedactStream;

/// What stands in the place of a secret. Occurrences that overlap become one.
///
/// A value that itself overlaps with this text can show up again where text was replaced; no real key does.
pub const REPLACEMENT: &str = "[redacted]";

/// The shortest value in bytes that is looked for.
pub const MIN_VALUE: usize = 6;

/// Longer values are looked for piece by piece, so that the tables stay small. Every occurrence is still removed.
const MAX_PIECE: usize = 4 * 1024;

/// Looks for a fixed set of values. Cheap to share, not to make.
#[derive(Clone)]
pub struct Redactor {
    /// What appears as it is: the values, percent-encoded and JSON-escaped.
    exact: Option<Matcher>,
    /// What tools break into lines: base64 and hex.
    wrapped: Option<Matcher>,
    values: usize,
    /// Length of the longest value in bytes.
    longest: usize,
}

impl Redactor {
    /// Looks for these values as they are (also without white space at their ends) and as base64 (standard and
    /// URL-safe, at any alignment), hex, percent-encoded and JSON-escaped text. Base64 and hex are also found when
    /// they are broken into lines.
    pub fn new(values: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut exact = Vec::new();
        let mut wrapped = Vec::new();
        let mut count = 0;
        let mut longest = 0;
        for value in values {
            let trimmed = value.trim_ascii();
            if trimmed.len() < MIN_VALUE {
                continue;
            }
            count += 1;
            longest = longest.max(value.len());
            for piece in pieces(&value).chain(pieces(trimmed)) {
                exact.extend(encodings::exact(piece));
                wrapped.extend(encodings::wrapped(piece));
            }
        }
        Self { exact: Matcher::new(exact), wrapped: Matcher::new(wrapped), values: count, longest }
    }

    /// How many values are looked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values
    }

    /// How many bytes on each side of a cut can belong to a value that the cut went through: nobody can see such a
    /// value, so whoever cuts a text drops these bytes as well. 0 when nothing is looked for.
    #[must_use]
    pub const fn reach(&self) -> usize {
        // JSON's `\\uXXXX`, six bytes for one, is the widest of the encodings.
        self.longest.saturating_mul(6)
    }

    /// True when nothing is looked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values == 0
    }

    /// The bytes without secrets; borrowed when there was none.
    #[must_use]
    pub fn redact<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_empty() || !Scanner::new(self).finds(bytes) {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut stream = self.stream();
        stream.push(bytes, &mut out);
        stream.finish(&mut out);
        Cow::Owned(out)
    }

    /// The text without secrets; borrowed when there was none.
    #[must_use]
    pub fn redact_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A value that is not UTF-8 can begin or end within a letter; the rest of that letter is no text.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
            ),
        }
    }

    /// Redacts every string of a JSON value: texts, names of fields, and numbers that hold a value (which become
    /// strings).
    pub fn redact_value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if let Cow::Owned(text) = self.redact_str(&number.to_string()) {
                    *value = Value::String(text);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact_str(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => self.redact_fields(fields),
        }
    }

    fn redact_fields(&self, fields: &mut serde_json::Map<String, Value>) {
        fields.values_mut().for_each(|field| self.redact_value(field));
        if !fields.keys().any(|name| matches!(self.redact_str(name), Cow::Owned(_))) {
            return;
        }
        for (name, field) in std::mem::take(fields) {
            let clean = self.redact_str(&name).into_owned();
            // Two names may have become one; no field may vanish.
            let mut free = clean.clone();
            let mut number = 1;
            while fields.contains_key(&free) {
                number += 1;
                free = format!("{clean}#{number}");
            }
            fields.insert(free, field);
        }
    }

    /// A redactor for one stream of bytes that comes in chunks.
    #[must_use]
    pub fn stream(&self) -> RedactStream {
        RedactStream::new(self.clone())
    }
}

impl Default for Redactor {
    /// Looks for nothing.
    fn default() -> Self {
        Self::new([])
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("values", &self.values).finish_non_exhaustive()
    }
}

/// The last piece takes a rest that would be too short to be looked for.
fn pieces(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = if rest.len() < MAX_PIECE + MIN_VALUE { rest.len() } else { MAX_PIECE };
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        Some(piece)
    })
}
