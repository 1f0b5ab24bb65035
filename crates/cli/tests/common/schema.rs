//! The schema of result objects: JSON Schema 2020-12, of the few words that a closed shape needs (`type`, `properties`, `required`,
//! `items`), learnt from results and held against them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn kinds(schema: &Value) -> BTreeSet<String> {
    schema["type"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|kind| kind.as_str().map(str::to_owned))
        .collect()
}

/// Widens a schema by one more value. What is required stays so only while every object has it.
pub fn learn(schema: &mut Value, value: &Value) {
    let first = schema.get("type").is_none();
    if first {
        *schema = json!({ "type": [] });
    }
    let mut all = kinds(schema);
    all.insert(kind(value).to_owned());
    schema["type"] = json!(all);
    match value {
        Value::Array(items) => {
            for item in items {
                let mut of = schema.get("items").cloned().unwrap_or_else(|| json!({}));
                learn(&mut of, item);
                schema["items"] = of;
            }
        }
        Value::Object(fields) => {
            let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let names: BTreeSet<String> = fields.keys().cloned().collect();
            let required: BTreeSet<String> = match schema["required"].as_array() {
                Some(before) => before
                    .iter()
                    .filter_map(|name| name.as_str())
                    .filter(|name| names.contains(*name))
                    .map(str::to_owned)
                    .collect(),
                None => names,
            };
            for (name, field) in fields {
                let of = properties.entry(name.clone()).or_insert_with(|| json!({}));
                learn(of, field);
            }
            schema["properties"] = Value::Object(properties);
            schema["required"] = json!(required);
        }
        _ => {}
    }
}

/// What was only ever null may be anything else in runs that were not played.
pub fn open_what_was_null(schema: &mut Value) {
    if schema["type"] == json!(["null"])
        && let Some(fields) = schema.as_object_mut()
    {
        fields.remove("type");
    }
    for of in schema["properties"].as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        open_what_was_null(of);
    }
    if let Some(of) = schema.get_mut("items") {
        open_what_was_null(of);
    }
}

/// Where a value is not what the schema says.
pub fn differences(schema: &Value, value: &Value, at: &str, out: &mut Vec<String>) {
    if schema.get("type").is_none() {
        return;
    }
    if !kinds(schema).contains(kind(value)) {
        out.push(format!("{at}: {} is not one of {}", kind(value), schema["type"]));
        return;
    }
    match value {
        Value::Array(items) => {
            for item in items {
                differences(&schema["items"], item, &format!("{at}[]"), out);
            }
        }
        Value::Object(fields) => {
            let none = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            for (name, field) in fields {
                match properties.get(name) {
                    Some(of) => differences(of, field, &format!("{at}.{name}"), out),
                    None => out.push(format!("{at}.{name} is not in the schema")),
                }
            }
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            for name in required.filter(|name| !fields.contains_key(*name)) {
                out.push(format!("{at}.{name} is missing"));
            }
        }
        _ => {}
    }
}
