//! Reading hostile JSON without building more than we keep: lists and objects with a bound, everything else as text.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Bytes of text from which a [`Value`] is built. A tree costs many times its text.
const MAX_TREE: usize = 64 * 1024;

/// Keys of one object.
const MAX_KEYS: usize = 256;

/// A list of at most `N` items.
#[derive(Debug)]
pub(crate) struct AtMost<T, const N: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for List<T, N> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N} items")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut kept = Vec::new();
                while let Some(item) = items.next_element()? {
                    if kept.len() == N {
                        return Err(de::Error::custom(format_args!("a list holds more than {N} items")));
                    }
                    kept.push(item);
                }
                Ok(kept)
            }
        }
        deserializer.deserialize_seq(List::<T, N>(PhantomData)).map(Self)
    }
}

/// An object of at most [`MAX_KEYS`] keys, each once, whose values are still text.
#[derive(Debug)]
pub(crate) struct Object<'a>(pub BTreeMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw.get())
    }

    /// The same with its values copied, so that some can be replaced.
    pub(crate) fn into_owned(self) -> BTreeMap<String, Box<RawValue>> {
        self.0.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
    }

    /// None: absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.get(key).copied().filter(|raw| raw.get() != "null")
    }

    /// None: absent, or no string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Keys<'a> {
            type Value = BTreeMap<String, &'a RawValue>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut kept = BTreeMap::new();
                while let Some((key, value)) = entries.next_entry::<String, &'a RawValue>()? {
                    if kept.len() == MAX_KEYS {
                        return Err(de::Error::custom(format_args!(
                            "an object holds more than {MAX_KEYS} keys"
                        )));
                    }
                    if kept.contains_key(&key) {
                        return Err(de::Error::custom("an object holds a key twice"));
                    }
                    kept.insert(key, value);
                }
                Ok(kept)
            }
        }
        deserializer.deserialize_map(Keys(PhantomData)).map(Self)
    }
}

/// The string that `raw` is. An escape of half a surrogate pair, which models do write, becomes U+FFFD.
pub(crate) fn text(raw: &RawValue) -> Option<String> {
    struct Lossy;
    impl Visitor<'_> for Lossy {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    if !raw.get().starts_with('"') {
        return None;
    }
    // Asked for bytes, the parser lets half a pair pass.
    serde_json::Deserializer::from_str(raw.get()).deserialize_bytes(Lossy).ok()
}

/// The value of a text that is short enough to become a tree.
pub(crate) fn tree(json: &str) -> Option<Value> {
    if json.len() > MAX_TREE {
        return None;
    }
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_objects_are_bounded_and_keys_are_unique() {
        let list = |n: usize| {
            serde_json::from_str::<AtMost<u8, 3>>(&format!("{:?}", vec![1; n])).map(|list| list.0.len())
        };
        assert_eq!(list(3).unwrap(), 3);
        assert!(list(4).is_err());
        let object = |n: usize| {
            let keys: Vec<String> = (0..n).map(|n| format!("\"{n}\":1")).collect();
            serde_json::from_str::<Object<'_>>(&format!("{{{}}}", keys.join(",")))
                .map(|object| object.0.len())
                .ok()
        };
        assert_eq!((object(256), object(257)), (Some(256), None));
        assert!(serde_json::from_str::<Object<'_>>(r#"{"a":1,"a":2}"#).is_err());
        assert!(serde_json::from_str::<Object<'_>>("[]").is_err());
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_nothing_else() {
        let read = |json: &str| text(serde_json::from_str::<&RawValue>(json).unwrap());
        assert_eq!(read(r#""a\ud83e\udd80b""#).as_deref(), Some("a\u{1F980}b"));
        let cut = read(r#""a\ud83eb""#).unwrap();
        assert!(cut.starts_with('a') && cut.ends_with('b') && cut.contains('\u{fffd}'), "{cut:?}");
        assert_eq!(read("5"), None);
        assert_eq!(read("null"), None);
    }
}
