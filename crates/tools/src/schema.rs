use countersign_kernel::ToolName;
use serde_json::{Value, json};

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub tool: ToolName,
    pub description: &'static str,
    /// A JSON schema of type `object`.
    pub parameters: Value,
}

/// The tools of a session, in a fixed order. A question gets those that only look; a failing test is asked for only where
/// the contract wants one first.
#[must_use]
pub fn offered(read_only: bool, has_check: bool, repro_first: bool) -> Vec<Schema> {
    let wanted = |tool: ToolName| match tool {
        ToolName::ListFiles | ToolName::ReadFile | ToolName::Search => true,
        ToolName::Check => !read_only && has_check,
        ToolName::DeclareRepro | ToolName::SkipRepro => !read_only && has_check && repro_first,
        ToolName::EditFile | ToolName::WriteFile | ToolName::Run | ToolName::Finish => !read_only,
        ToolName::Invalid => false,
    };
    ToolName::OFFERED.iter().copied().filter(|tool| wanted(*tool)).map(schema).collect()
}

fn schema(tool: ToolName) -> Schema {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let number = |what: &str| json!({ "type": "integer", "minimum": 1, "description": what });
    let texts = |what: &str| json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "description": what });
    let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let (description, parameters) = match tool {
        ToolName::ListFiles => (
            "Lists files and directories, directories first. Paths are relative to the project's root.",
            object(
                json!({
                    "path": text("Directory to list; the root when left out."),
                    "depth": number("How many levels to show; 1 when left out."),
                }),
                &[],
            ),
        ),
        ToolName::ReadFile => (
            "Shows a file with line numbers. A long file is cut; the note at its end names the next range.",
            object(
                json!({
                    "path": text("File to read."),
                    "from": number("First line, counted from 1."),
                    "to": number("Last line, included."),
                }),
                &["path"],
            ),
        ),
        ToolName::Search => (
            "Searches all files for a regular expression (Rust syntax; case counts only if the pattern has a capital).",
            object(
                json!({
                    "pattern": text("Regular expression."),
                    "path": text("Directory or file to search; the root when left out."),
                    "glob": text("Only files whose path matches, for example `src/**/*.rs`."),
                }),
                &["pattern"],
            ),
        ),
        ToolName::EditFile => (
            "Replaces text in a file. `old` must occur exactly `count` times (once when left out), white space included.",
            object(
                json!({
                    "path": text("File to edit."),
                    "old": text("Text to replace, copied exactly from the file, without line numbers."),
                    "new": text("Text to put in its place."),
                    "count": number("How often `old` occurs and is replaced; 1 when left out."),
                }),
                &["path", "old", "new"],
            ),
        ),
        ToolName::WriteFile => (
            "Writes a whole file, replacing what was there and making directories as needed.",
            object(
                json!({ "path": text("File to write."), "content": text("The whole content.") }),
                &["path", "content"],
            ),
        ),
        ToolName::Run => (
            "Runs a shell command in the project's root and shows its output and exit code. When it ends, whatever it \
             left running is ended too.",
            object(
                json!({
                    "command": text("The command, as for `sh -c`."),
                    "timeout_s": number("Seconds after which it is ended."),
                }),
                &["command"],
            ),
        ),
        ToolName::Check => (
            "Runs the project's check on the files as they are now, in a clean room, and shows the result. It judges \
             only this moment: a later change needs a new check.",
            object(json!({}), &[]),
        ),
        ToolName::DeclareRepro => (
            "Shows that there is something to mend: a new test of yours that fails before the change. It is run here on the \
             files as they were at the start plus the named new files, and must fail there as a test. From then on these \
             files are locked: they must be unchanged, and the command must pass, when the work is judged.",
            object(
                json!({
                    "paths": texts("New files that the test needs; none of them may have existed at the start."),
                    "argv": texts("The command that runs the test, word by word, without a shell."),
                }),
                &["paths", "argv"],
            ),
        ),
        ToolName::SkipRepro => (
            "Says that this task cannot be shown by a failing test, and why. The reason stands in the report.",
            object(json!({ "reason": text("Why no test can show it.") }), &["reason"]),
        ),
        ToolName::Finish => (
            "Ends the work. The files as they are then are judged by the check.",
            object(json!({ "summary": text("What was done and why, in a few sentences.") }), &["summary"]),
        ),
        ToolName::Invalid => ("", object(json!({}), &[])),
    };
    Schema { tool, description, parameters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_cannot_write_or_run() {
        let names: Vec<_> = offered(true, true, true).iter().map(|s| s.tool.as_str()).collect();
        assert_eq!(names, ["list_files", "read_file", "search"]);
    }

    #[test]
    fn the_eight_tools_have_the_promised_arguments() {
        let shape = shape(&offered(false, true, false));
        assert_eq!(
            shape,
            [
                "list_files {depth?, path?}",
                "read_file {from?, path, to?}",
                "search {glob?, path?, pattern}",
                "edit_file {count?, new, old, path}",
                "write_file {content, path}",
                "run {command, timeout_s?}",
                "check {}",
                "finish {summary}",
            ]
        );
    }

    #[test]
    fn a_failing_test_is_asked_for_only_where_the_contract_wants_one() {
        let more: Vec<String> = shape(&offered(false, true, true))
            .into_iter()
            .filter(|tool| !shape(&offered(false, true, false)).contains(tool))
            .collect();
        assert_eq!(more, ["declare_repro {argv, paths}", "skip_repro {reason}"]);
        let without_check = offered(false, false, true);
        assert!(without_check.iter().all(|schema| schema.tool != ToolName::DeclareRepro));
    }

    /// Each tool with its arguments, the optional ones marked.
    fn shape(schemas: &[Schema]) -> Vec<String> {
        schemas
            .iter()
            .map(|s| {
                let required: Vec<_> = s.parameters["required"].as_array().unwrap().iter().collect();
                let all = s.parameters["properties"].as_object().unwrap();
                let names: Vec<String> = all
                    .keys()
                    .map(|k| if required.iter().any(|r| *r == k) { k.clone() } else { format!("{k}?") })
                    .collect();
                format!("{} {{{}}}", s.tool, names.join(", "))
            })
            .collect()
    }
}
