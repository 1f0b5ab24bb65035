//! JSON as it is written: a field that is given twice is refused instead of the first being forgotten, and every error
//! names its place by JSON pointer (RFC 6901).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Reads a text strictly. `Err`: the place and what is wrong there.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value =
        Strict { pointer: String::new() }.deserialize(&mut deserializer).map_err(|e| e.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// The pointer of a field below another.
pub(super) fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

struct Strict {
    pointer: String,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(value) =
            seq.next_element_seed(Self { pointer: below(&self.pointer, &all.len().to_string()) })?
        {
            all.push(value);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = serde_json::Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let pointer = below(&self.pointer, &name);
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("{pointer}: the field is given twice")));
            }
            let value = map.next_value_seed(Self { pointer })?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_given_twice_is_named_wherever_it_stands() {
        for (text, named) in [
            (r#"{"a":1,"a":1}"#, "/a: the field is given twice"),
            (r#"{"a":[{},{"b~/c":null,"b~/c":2}]}"#, "/a/1/b~0~1c: the field is given twice"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(named), "{text}: {error}");
        }
        let text = r#"{"a":[1,-2,0.5,"x",null,true,{"b":[]}],"c":{}}"#;
        assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        for text in ["", "{", "{} {}", "[1,]", "{\"a\":1,}", "\u{feff}{}", "nul"] {
            assert!(read(text).is_err(), "{text}");
        }
        // Bounded: a deep file is refused, not followed until the stack ends.
        assert!(read(&"[".repeat(100_000)).unwrap_err().contains("recursion"));
    }
}
