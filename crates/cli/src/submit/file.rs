//! The contract file: the terms of a session as strict JSON. Each field is a flag of `submit` under another name, so that
//! there is one meaning of each term and one place that judges its value.

use std::path::Path;

use serde_json::Value;

use super::strict::{below, read};

pub(super) const SUBMISSION_SCHEMA: &str = "countersign.submission/1";

/// Bytes of a contract file, at most.
pub(super) const MAX_FILE: u64 = 1 << 20;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// A path, from the file's own directory.
    Place,
    Number,
    /// `true` gives the flag; `false` is as if it were not there.
    Switch,
    Texts,
    /// Lists of words, each a command.
    Commands,
}

/// Pointer, flag and kind of every field.
const FIELDS: &[(&str, &str, Kind)] = &[
    ("/task", "--task", Kind::Text),
    ("/trust", "--trust", Kind::Text),
    ("/source/repo", "--repo", Kind::Place),
    ("/source/base", "--base", Kind::Text),
    ("/source/include_dirty", "--include-dirty", Kind::Switch),
    ("/agent/model", "--model", Kind::Text),
    ("/agent/base_url", "--base-url", Kind::Text),
    ("/agent/preset", "--preset", Kind::Text),
    ("/sandbox", "--sandbox", Kind::Text),
    ("/network", "--network", Kind::Text),
    ("/environment/setup", "--setup", Kind::Text),
    ("/environment/probe", "--probe", Kind::Text),
    ("/checks/commands", "--check-argv", Kind::Commands),
    ("/checks/profile", "--profile", Kind::Text),
    ("/checks/expect", "--expect", Kind::Text),
    ("/checks/timeout", "--check-timeout", Kind::Text),
    ("/checks/repeats", "--repeats", Kind::Number),
    ("/checks/deps", "--deps", Kind::Text),
    ("/checks/require", "--require", Kind::Text),
    ("/checks/min_strength", "--min-strength", Kind::Text),
    ("/checks/out_of_process", "--out-of-process", Kind::Switch),
    ("/checks/mutants", "--mutants", Kind::Number),
    ("/no_check", "--no-check", Kind::Switch),
    ("/repro_first", "--repro-first", Kind::Switch),
    ("/scope", "--scope", Kind::Texts),
    ("/protect", "--protect", Kind::Texts),
    ("/allow", "--allow", Kind::Texts),
    ("/no_fence", "--no-fence", Kind::Switch),
    ("/review/model", "--review-model", Kind::Text),
    ("/review/base_url", "--review-base-url", Kind::Text),
    ("/review/rounds", "--review-rounds", Kind::Number),
    ("/review/required", "--review-required", Kind::Switch),
    ("/limits/max_turns", "--max-turns", Kind::Number),
    ("/limits/max_tokens", "--max-tokens", Kind::Number),
    ("/limits/max_cost", "--max-cost", Kind::Text),
    ("/limits/deadline", "--deadline", Kind::Text),
    ("/limits/attempts", "--attempts", Kind::Number),
];

/// Without these a session would mean another thing on another machine.
const REQUIRED: &[&str] = &["/schema", "/trust", "/source/repo", "/agent/model"];

/// The words of the command line that say the same. `dir`: the file's own directory.
pub(super) fn words(text: &str, dir: &Path) -> Result<Vec<String>, String> {
    let value = read(text)?;
    let mut words = Vec::new();
    collect(&value, "", dir, &mut words)?;
    for pointer in REQUIRED {
        if value.pointer(pointer).is_none() {
            return Err(format!("{pointer}: the field is missing"));
        }
    }
    Ok(words)
}

fn collect(value: &Value, pointer: &str, dir: &Path, words: &mut Vec<String>) -> Result<(), String> {
    let Value::Object(fields) = value else {
        let place = if pointer.is_empty() { "the file" } else { pointer };
        return Err(format!("{place}: {}", expected("an object", value)));
    };
    for (name, value) in fields {
        let pointer = below(pointer, name);
        let inner = format!("{pointer}/");
        if pointer == "/schema" {
            if value != SUBMISSION_SCHEMA {
                return Err(format!("/schema: expected \"{SUBMISSION_SCHEMA}\""));
            }
        } else if let Some((_, flag, kind)) = FIELDS.iter().find(|(known, ..)| *known == pointer) {
            take(value, &pointer, (flag, *kind), dir, words)?;
        } else if FIELDS.iter().any(|(known, ..)| known.starts_with(&inner)) {
            collect(value, &pointer, dir, words)?;
        } else {
            return Err(format!("{pointer}: there is no such field here; there are {}", beside(&pointer)));
        }
    }
    Ok(())
}

fn take(
    value: &Value,
    pointer: &str,
    (flag, kind): (&str, Kind),
    dir: &Path,
    words: &mut Vec<String>,
) -> Result<(), String> {
    let wrong = |what: &str| format!("{pointer}: {}", expected(what, value));
    let text = |value: &Value, pointer: &str| match value {
        Value::String(text) if text.is_empty() => Err(format!("{pointer}: it is empty")),
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("{pointer}: {}", expected("a text", other))),
    };
    match kind {
        Kind::Text => words.push(format!("{flag}={}", text(value, pointer)?)),
        Kind::Place => {
            let place = dir.join(text(value, pointer)?);
            let place = place.to_str().ok_or_else(|| format!("{pointer}: the path is not UTF-8"))?;
            words.push(format!("{flag}={place}"));
        }
        Kind::Number => {
            let number = value.as_u64().ok_or_else(|| wrong("a whole number, 0 or more"))?;
            words.push(format!("{flag}={number}"));
        }
        Kind::Switch => match value {
            Value::Bool(true) => words.push(flag.to_owned()),
            Value::Bool(false) => {}
            _ => return Err(wrong("true or false")),
        },
        Kind::Texts => {
            let Value::Array(all) = value else { return Err(wrong("a list of texts")) };
            for (position, one) in all.iter().enumerate() {
                let one = text(one, &below(pointer, &position.to_string()))?;
                words.push(format!("{flag}={one}"));
            }
        }
        Kind::Commands => {
            let Value::Array(all) = value else { return Err(wrong("a list of lists of words")) };
            for (position, argv) in all.iter().enumerate() {
                let pointer = below(pointer, &position.to_string());
                let Value::Array(argv) = argv else {
                    return Err(format!("{pointer}: {}", expected("a list of words", argv)));
                };
                for (position, word) in argv.iter().enumerate() {
                    if !word.is_string() {
                        let pointer = below(&pointer, &position.to_string());
                        return Err(format!("{pointer}: {}", expected("a text", word)));
                    }
                }
                words.push(format!("{flag}={}", Value::Array(argv.clone())));
            }
        }
    }
    Ok(())
}

fn expected(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    format!("expected {what}, and it is {found}")
}

/// The fields that there are where somebody wrote another one.
fn beside(pointer: &str) -> String {
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let inner = format!("{parent}/");
    let mut names: Vec<&str> = FIELDS
        .iter()
        .filter_map(|(known, ..)| known.strip_prefix(&inner))
        .map(|rest| rest.split('/').next().unwrap_or(rest))
        .chain(parent.is_empty().then_some("schema"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The field that a refusal speaks of, where it names the flag that the field stands for.
pub(super) fn field_of(message: &str) -> Option<&'static str> {
    let names = |flag: &str| {
        message.match_indices(flag).any(|(at, _)| {
            let next = message[at + flag.len()..].chars().next();
            next.is_none_or(|c| c != '-' && !c.is_ascii_alphanumeric())
        })
    };
    // The one that is named first.
    let found = FIELDS.iter().filter(|(_, flag, _)| names(flag));
    found.min_by_key(|(_, flag, _)| message.find(flag)).map(|(pointer, ..)| *pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = include_str!("full.json");

    #[test]
    fn every_field_is_a_flag_of_submit_and_every_term_is_a_field() {
        let mut flags: Vec<String> = FIELDS.iter().map(|(_, flag, _)| flag[2..].replace('-', "_")).collect();
        flags.retain(|flag| flag != "task");
        let mut terms: Vec<&str> =
            crate::args::TERMS.iter().copied().filter(|term| *term != "check").collect();
        flags.sort_unstable();
        terms.sort_unstable();
        assert_eq!(flags, terms);
    }

    #[test]
    fn the_golden_file_says_what_it_said() {
        let words = words(FULL, Path::new("/project/ci")).unwrap();
        insta::assert_snapshot!(words.join("\n"));
        // Whoever approved a file by its digest approved these words.
        let value = read(FULL).unwrap();
        let digest = countersign_types::Digest::of(&countersign_types::canonical_json(&value).unwrap());
        insta::assert_snapshot!(digest.hex());
        for (pointer, ..) in FIELDS {
            assert!(value.pointer(pointer).is_some(), "{pointer} is not in the golden file");
        }
    }

    #[test]
    fn every_error_names_its_field() {
        let with = |pointer: &str, value: Value| {
            let mut file = read(FULL).unwrap();
            *file.pointer_mut(pointer).unwrap() = value;
            words(&file.to_string(), Path::new("/")).unwrap_err()
        };
        for (pointer, _, kind) in FIELDS {
            for value in [Value::Null, serde_json::json!({ "x": 1 }), serde_json::json!(-1)] {
                let error = with(pointer, value);
                assert!(error.starts_with(&format!("{pointer}: expected ")), "{kind:?}: {error}");
            }
        }
        for pointer in REQUIRED {
            let mut file = read(FULL).unwrap();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            file.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            let error = words(&file.to_string(), Path::new("/")).unwrap_err();
            assert_eq!(error, format!("{pointer}: the field is missing"));
        }
        for (text, starts) in [
            (r#"{"goal":"x"}"#, "/goal: there is no such field here; there are agent, allow, checks"),
            (r#"{"limits":{"turns":1}}"#, "/limits/turns: there is no such field here; there are attempts"),
            (r#"{"limits":[]}"#, "/limits: expected an object, and it is a list"),
            (r#"{"schema":"other"}"#, "/schema: expected \"countersign.submission/1\""),
            (r#"{"checks":{"commands":[["make"],["make",7]]}}"#, "/checks/commands/1/1: expected a text"),
            (r#"{"scope":["a",""]}"#, "/scope/1: it is empty"),
            (r#"{"trust":"reviewed","trust":"untrusted"}"#, "/trust: the field is given twice"),
            ("[]", "the file: expected an object, and it is a list"),
        ] {
            let error = words(text, Path::new("/")).unwrap_err();
            assert!(error.starts_with(starts), "{error}");
        }
    }

    #[test]
    fn a_refusal_of_a_flag_is_one_of_its_field() {
        assert_eq!(field_of("invalid value '0' for '--max-turns <N>'"), Some("/limits/max_turns"));
        assert_eq!(field_of("--scope `[`: not a glob"), Some("/scope"));
        assert_eq!(field_of("--check-argv: not words; --check is another"), Some("/checks/commands"));
        assert_eq!(field_of("the model is busy"), None);
    }
}
