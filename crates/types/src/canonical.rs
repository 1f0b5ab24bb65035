use serde::Serialize;

/// Canonical JSON: UTF-8, object keys sorted by their bytes, no white space, integers only as they are.
///
/// This is the subset of RFC 8785 that our own types need: they hold no floating numbers (a test in each crate that
/// writes canonical bytes would see one as an error), so number formatting never differs between implementations.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    // serde_json's map type is a BTreeMap (the `preserve_order` feature is off), so a round trip through `Value` sorts.
    let value = serde_json::to_value(value)?;
    refuse_floats(&value)?;
    serde_json::to_vec(&value)
}

fn refuse_floats(value: &serde_json::Value) -> Result<(), serde_json::Error> {
    use serde::ser::Error as _;
    match value {
        serde_json::Value::Number(n) if n.is_f64() => {
            Err(serde_json::Error::custom("canonical JSON holds no floating numbers"))
        }
        serde_json::Value::Array(items) => items.iter().try_for_each(refuse_floats),
        serde_json::Value::Object(map) => map.values().try_for_each(refuse_floats),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth_and_floats_refused() {
        let value: serde_json::Value = serde_json::from_str(r#"{"b":[{"z":1,"a":"é"}],"a":null}"#).unwrap();
        assert_eq!(canonical_json(&value).unwrap(), "{\"a\":null,\"b\":[{\"a\":\"é\",\"z\":1}]}".as_bytes());
        assert!(canonical_json(&serde_json::json!({ "x": 0.5 })).is_err());
    }
}
