//! Reading JSON that somebody else wrote: one spelling only, and every way to be something else has a name.

use std::fmt;

use countersign_types::canonical_json;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Why bytes are not the JSON that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("it is not JSON: {0}")]
    Syntax(String),
    /// Two readers could see two values.
    #[error("the key `{0}` stands twice in one object")]
    DuplicateKey(String),
    #[error("it is not canonical: keys sorted, no white space, integers only")]
    NotCanonical,
    /// A missing or unknown field, or a value of another kind.
    #[error("it has not the expected form: {0}")]
    Shape(String),
}

/// What a duplicate key's error begins with on its way through serde.
const DUPLICATE: &str = "duplicate key ";

/// Reads canonical JSON: the bytes must be exactly those that [`canonical_json`] writes for the value. Nesting is
/// bounded by serde_json (128 deep).
pub fn read_canonical<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let value = parse(bytes)?;
    if canonical_json(&value).ok().as_deref() != Some(bytes) {
        return Err(JsonError::NotCanonical);
    }
    shape(value)
}

/// As [`read_canonical`], and writing what was read gives the same bytes: serde would also take an array for an object, and
/// a key that is left out for one that is null.
pub fn read_exact<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, JsonError> {
    let read = read_canonical::<T>(bytes)?;
    if canonical_json(&read).ok().as_deref() != Some(bytes) {
        return Err(JsonError::Shape("a key is missing, or is there and empty".to_owned()));
    }
    Ok(read)
}

/// Reads JSON in any spelling, but no object may hold a key twice.
pub fn read_unique<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    shape(parse(bytes)?)
}

fn shape<T: DeserializeOwned>(value: Value) -> Result<T, JsonError> {
    serde_json::from_value(value).map_err(|e| JsonError::Shape(shown(&e.to_string())))
}

fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Unique.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| {
        let words = e.to_string();
        match words.split_once(DUPLICATE) {
            Some((_, key)) => {
                JsonError::DuplicateKey(shown(key.rsplit_once(" at line ").map_or(key, |(key, _)| key)))
            }
            None => JsonError::Syntax(shown(&words)),
        }
    })
}

/// What hostile text may show of itself in a message: printable, and at most 200 characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut out: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

/// As `Value`, but a key that stands twice is an error.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(Unique)? {
            out.push(item);
        }
        Ok(out.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if out.contains_key(&key) {
                return Err(A::Error::custom(format!("{DUPLICATE}{key}")));
            }
            let value = fields.next_value_seed(Unique)?;
            out.insert(key, value);
        }
        Ok(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_is_read() {
        let read = |text: &str| read_canonical::<Value>(text.as_bytes());
        assert!(read(r#"{"a":[1,null,true],"b":"é"}"#).is_ok());
        for other in [
            r#"{"b":1,"a":2}"#,
            r#"{ "a":1}"#,
            "{\"a\":1}\n",
            r#"{"a":1.5}"#,
            r#"{"a":1e2}"#,
            r#"{"a":-0}"#,
            r#"{"a":"\u00e9"}"#,
            r#"{"a":18446744073709551616}"#,
        ] {
            assert_eq!(read(other), Err(JsonError::NotCanonical), "{other}");
        }
    }

    #[test]
    fn each_way_to_be_wrong_has_its_name() {
        let read = |text: &str| read_unique::<Value>(text.as_bytes());
        assert_eq!(
            read(r#"{"x":{"a":1,"a":1}}"#),
            Err(JsonError::DuplicateKey("a".into())),
            "also below the top"
        );
        assert!(matches!(read(r#"{"a":1} {}"#), Err(JsonError::Syntax(_))));
        assert!(matches!(read(&"[".repeat(100_000)), Err(JsonError::Syntax(_))));
        assert!(matches!(read_unique::<u8>(b"300"), Err(JsonError::Shape(_))));
        assert!(matches!(read_unique::<Value>(b"\"\xff\""), Err(JsonError::Syntax(_))));
    }

    #[test]
    fn an_array_is_not_taken_for_an_object() {
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct Two {
            a: u8,
            b: Option<u8>,
        }
        assert_eq!(read_exact(br#"{"a":1,"b":null}"#), Ok(Two { a: 1, b: None }));
        for other in [&br#"[1,null]"#[..], br#"{"a":1}"#] {
            assert!(read_canonical::<Two>(other).is_ok(), "serde takes it");
            assert!(read_exact::<Two>(other).is_err());
        }
    }
}
