use countersign_guest::protocol::ToolCall;
use countersign_kernel::{PlannedCall, ToolName};
use countersign_types::{Digest, Millis};
use serde_json::{Map, Value};

use crate::render::one_line;

/// The longest argument text that is looked at, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 2 * 1024 * 1024;

/// New files that one reproduction may need.
const MAX_REPRO_PATHS: usize = 10;

/// Words of a reproduction's command.
const MAX_REPRO_WORDS: usize = 50;

/// A call after parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A file tool: served by the guest.
    File(ToolCall),
    Run {
        command: String,
        timeout: Option<Millis>,
    },
    Check,
    /// Not checked against any tree.
    DeclareRepro {
        paths: Vec<String>,
        argv: Vec<String>,
    },
    SkipRepro {
        reason: String,
    },
    Finish {
        summary: String,
    },
    /// Answered with this text; nothing is done and nothing is charged.
    Invalid {
        why: String,
    },
}

/// A call that is ready to be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallSpec {
    pub parsed: Parsed,
    pub planned: PlannedCall,
    /// One line for people.
    pub summary: String,
}

/// Parses what a model sent. `offered` is what the session's schemas name; anything else is invalid.
#[must_use]
pub fn parse(name: &str, arguments: &str, offered: &[ToolName]) -> ToolCallSpec {
    let parsed = match offered.iter().find(|tool| tool.as_str() == name) {
        None => {
            let known: Vec<&str> = offered.iter().map(|tool| tool.as_str()).collect();
            Parsed::Invalid {
                why: format!(
                    "there is no tool `{}`. The tools are: {}.",
                    one_line(name, 80),
                    known.join(", ")
                ),
            }
        }
        Some(tool) => arguments_of(*tool, arguments)
            .unwrap_or_else(|why| Parsed::Invalid { why: format!("{tool}: {why} Nothing was done.") }),
    };
    let tool = match &parsed {
        Parsed::File(ToolCall::ListFiles { .. }) => ToolName::ListFiles,
        Parsed::File(ToolCall::ReadFile { .. }) => ToolName::ReadFile,
        Parsed::File(ToolCall::Search { .. }) => ToolName::Search,
        Parsed::File(ToolCall::EditFile { .. }) => ToolName::EditFile,
        Parsed::File(ToolCall::WriteFile { .. }) => ToolName::WriteFile,
        Parsed::Run { .. } => ToolName::Run,
        Parsed::Check => ToolName::Check,
        Parsed::DeclareRepro { .. } => ToolName::DeclareRepro,
        Parsed::SkipRepro { .. } => ToolName::SkipRepro,
        Parsed::Finish { .. } => ToolName::Finish,
        Parsed::Invalid { .. } => ToolName::Invalid,
    };
    let blank = matches!(&parsed, Parsed::Finish { summary } if summary.trim().is_empty());
    let mut bound = Vec::with_capacity(name.len() + 1 + arguments.len());
    bound.extend_from_slice(name.as_bytes());
    bound.push(0);
    bound.extend_from_slice(arguments.as_bytes());
    let planned = PlannedCall { tool, arguments: Digest::of(&bound), blank };
    ToolCallSpec { summary: summary(&parsed), parsed, planned }
}

fn summary(parsed: &Parsed) -> String {
    const WIDTH: usize = 160;
    let path = |p: &Option<String>| p.as_deref().map_or_else(|| ".".to_owned(), |p| one_line(p, WIDTH));
    match parsed {
        Parsed::File(ToolCall::ListFiles { path: p, .. }) => path(p),
        Parsed::File(ToolCall::ReadFile { path, from, to }) => {
            let range = match (from, to) {
                (None, None) => String::new(),
                (from, to) => format!(
                    ":{}-{}",
                    from.unwrap_or(1),
                    to.map_or_else(|| "end".to_owned(), |to| to.to_string())
                ),
            };
            format!("{}{range}", one_line(path, WIDTH))
        }
        Parsed::File(ToolCall::Search { pattern, path: p, .. }) => {
            format!("{} in {}", one_line(pattern, WIDTH), path(p))
        }
        Parsed::File(ToolCall::EditFile { path, .. } | ToolCall::WriteFile { path, .. }) => {
            one_line(path, WIDTH)
        }
        Parsed::Run { command, .. } => one_line(command, WIDTH),
        Parsed::Check => String::new(),
        Parsed::DeclareRepro { argv, .. } => one_line(&argv.join(" "), WIDTH),
        Parsed::SkipRepro { reason } => one_line(reason, WIDTH),
        Parsed::Finish { summary } => one_line(summary, WIDTH),
        Parsed::Invalid { why } => one_line(why, WIDTH),
    }
}

fn arguments_of(tool: ToolName, text: &str) -> Result<Parsed, String> {
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(format!("the arguments are longer than {MAX_ARGUMENT_BYTES} bytes."));
    }
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value: Value =
        serde_json::from_str(text).map_err(|e| format!("the arguments are not JSON ({e})."))?;
    let Value::Object(map) = value else {
        return Err("the arguments are not a JSON object.".to_owned());
    };
    let mut arguments = Arguments { map };
    let parsed = match tool {
        ToolName::ListFiles => Parsed::File(ToolCall::ListFiles {
            path: arguments.text("path")?,
            depth: arguments.number("depth")?.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        }),
        ToolName::ReadFile => Parsed::File(ToolCall::ReadFile {
            path: arguments.required("path")?,
            from: arguments.number("from")?,
            to: arguments.number("to")?,
        }),
        ToolName::Search => Parsed::File(ToolCall::Search {
            pattern: arguments.required("pattern")?,
            path: arguments.text("path")?,
            glob: arguments.text("glob")?,
        }),
        ToolName::EditFile => Parsed::File(ToolCall::EditFile {
            path: arguments.required("path")?,
            old: arguments.required("old")?,
            new: arguments.required("new")?,
            count: arguments.number("count")?.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        }),
        ToolName::WriteFile => Parsed::File(ToolCall::WriteFile {
            path: arguments.required("path")?,
            content: arguments.required("content")?,
        }),
        ToolName::Run => {
            let command = arguments.required("command")?;
            if command.trim().is_empty() {
                return Err("`command` is empty.".to_owned());
            }
            if command.contains('\0') {
                return Err("`command` holds a NUL byte.".to_owned());
            }
            Parsed::Run { command, timeout: arguments.number("timeout_s")?.map(Millis::from_secs) }
        }
        ToolName::Check => Parsed::Check,
        ToolName::DeclareRepro => Parsed::DeclareRepro {
            paths: arguments.texts("paths", MAX_REPRO_PATHS)?,
            argv: arguments.texts("argv", MAX_REPRO_WORDS)?,
        },
        ToolName::SkipRepro => {
            let reason = arguments.required("reason")?;
            if reason.trim().is_empty() {
                return Err("`reason` is empty.".to_owned());
            }
            Parsed::SkipRepro { reason }
        }
        ToolName::Finish => Parsed::Finish { summary: arguments.required("summary")? },
        ToolName::Invalid => return Err("it cannot be called.".to_owned()),
    };
    arguments.nothing_else()?;
    Ok(parsed)
}

struct Arguments {
    map: Map<String, Value>,
}

impl Arguments {
    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("`{name}` must be a string, not {}.", kind(&other))),
        }
    }

    fn required(&mut self, name: &str) -> Result<String, String> {
        self.text(name)?.ok_or_else(|| format!("`{name}` is missing."))
    }

    /// A list of 1 to `most` strings, none of them empty or with a NUL byte.
    fn texts(&mut self, name: &str, most: usize) -> Result<Vec<String>, String> {
        let Some(Value::Array(all)) = self.map.remove(name) else {
            return Err(format!("`{name}` must be an array of strings."));
        };
        if all.is_empty() || all.len() > most {
            return Err(format!("`{name}` must hold 1 to {most} strings."));
        }
        all.into_iter()
            .map(|one| match one {
                Value::String(text) if !text.is_empty() && !text.contains('\0') => Ok(text),
                Value::String(_) => Err(format!("`{name}` holds an empty string or a NUL byte.")),
                other => Err(format!("`{name}` must hold strings, not {}.", kind(&other))),
            })
            .collect()
    }

    /// A whole number from 1. Models send `"3"` and `3.0` for it; both mean the same and nothing else is guessed.
    fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.map.remove(name) else { return Ok(None) };
        let number = match &value {
            Value::Null => return Ok(None),
            Value::Number(n) => n.as_u64().or_else(|| n.to_string().strip_suffix(".0")?.parse().ok()),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number {
            Some(n) if n >= 1 => Ok(Some(n)),
            _ => Err(format!("`{name}` must be a whole number from 1.")),
        }
    }

    fn nothing_else(&self) -> Result<(), String> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("there is no argument `{}`.", one_line(name, 80))),
        }
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(name: &str, arguments: &str) -> String {
        match parse(name, arguments, ToolName::OFFERED).parsed {
            Parsed::Invalid { why } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bad_calls_are_answered_with_what_is_wrong() {
        assert!(why("rm", "{}").contains("there is no tool `rm`. The tools are: list_files,"));
        assert!(why("run", "not json").contains("not JSON"));
        assert!(why("run", "[]").contains("not a JSON object"));
        assert!(why("run", "{}").contains("`command` is missing"));
        assert!(why("run", r#"{"command":" "}"#).contains("empty"));
        assert!(why("run", r#"{"command":"ls","sandbox":"off"}"#).contains("no argument `sandbox`"));
        assert!(why("read_file", r#"{"path":"a","from":0}"#).contains("whole number from 1"));
        assert!(
            why("edit_file", r#"{"path":1,"old":"","new":""}"#).contains("must be a string, not a number")
        );
        assert!(why("\u{1b}[31m", "{}").contains("\\x1b"));
        assert!(why("skip_repro", r#"{"reason":" "}"#).contains("empty"));
        for (arguments, what) in [
            (r#"{"paths":"t.py","argv":["x"]}"#, "`paths` must be an array"),
            (r#"{"paths":[],"argv":["x"]}"#, "1 to 10 strings"),
            (r#"{"paths":["t.py"],"argv":["x",3]}"#, "not a number"),
            (r#"{"paths":["t.py"],"argv":["x","a\u0000b"]}"#, "NUL"),
            (r#"{"paths":["t.py"],"argv":["x"],"shell":true}"#, "no argument `shell`"),
        ] {
            assert!(why("declare_repro", arguments).contains(what), "{arguments}");
        }
    }

    #[test]
    fn numbers_as_models_write_them_are_understood() {
        for text in
            [r#"{"path":"a","from":3}"#, r#"{"path":"a","from":"3"}"#, r#"{"path":"a","from":3.0,"to":null}"#]
        {
            let parsed = parse("read_file", text, ToolName::OFFERED).parsed;
            let expected = ToolCall::ReadFile { path: "a".to_owned(), from: Some(3), to: None };
            assert_eq!(parsed, Parsed::File(expected), "{text}");
        }
    }

    #[test]
    fn a_tool_that_is_not_offered_is_no_tool() {
        let spec = parse("run", r#"{"command":"ls"}"#, &[ToolName::ReadFile]);
        assert_eq!(spec.planned.tool, ToolName::Invalid);
    }

    #[test]
    fn a_blank_summary_is_seen_and_empty_arguments_are_an_empty_object() {
        assert!(parse("finish", r#"{"summary":" \n"}"#, ToolName::OFFERED).planned.blank);
        assert_eq!(parse("check", "", ToolName::OFFERED).parsed, Parsed::Check);
    }
}
