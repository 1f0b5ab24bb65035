//! The task: one argument, one file, or standard input.

use std::io::Read as _;

use crate::args::TaskArgs;
use crate::files;
use crate::refusal::Refusal;

/// The longest task, in bytes.
const MAX_TASK: u64 = 1024 * 1024;

pub(super) fn read(what: &TaskArgs) -> Result<String, Refusal> {
    let text = match (&what.text, &what.task, &what.task_file) {
        (Some(text), None, None) | (None, Some(text), None) if text == "-" => from_stdin()?,
        (Some(text), None, None) | (None, Some(text), None) => text.clone(),
        (None, None, Some(file)) => {
            let refuse = |what: String| {
                Refusal::usage(format!("the task file {} is of no use: {what}", file.display()))
            };
            utf8(files::read_regular(file, MAX_TASK).map_err(refuse)?)?
        }
        (None, None, None) => {
            return Err(Refusal::usage(
                "no task: give it as an argument, with --task-file FILE, or with --task - on standard input",
            ));
        }
        _ => {
            return Err(Refusal::usage(
                "the task was given more than once: choose one of TASK, --task and --task-file",
            ));
        }
    };
    if text.len() as u64 > MAX_TASK {
        return Err(Refusal::usage(format!(
            "the task is longer than {MAX_TASK} bytes, which no task may be: put the material into the repository, and \
             name it in the task"
        )));
    }
    if text.contains('\0') {
        return Err(Refusal::usage("the task holds a NUL byte: it has to be text"));
    }
    if text.trim().is_empty() {
        return Err(Refusal::usage("the task is empty: say what is to be done"));
    }
    Ok(text)
}

fn from_stdin() -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_TASK + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::usage(format!("the task cannot be read from standard input: {error}")))?;
    utf8(bytes)
}

fn utf8(bytes: Vec<u8>) -> Result<String, Refusal> {
    String::from_utf8(bytes).map_err(|_| Refusal::usage("the task is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: Option<&str>, task: Option<&str>) -> TaskArgs {
        TaskArgs { text: text.map(str::to_owned), task: task.map(str::to_owned), task_file: None }
    }

    #[test]
    fn a_task_is_text_and_says_something() {
        assert_eq!(read(&args(Some("fix it\n"), None)).unwrap(), "fix it\n");
        assert_eq!(read(&args(None, Some("fix it"))).unwrap(), "fix it");
        let long = "x".repeat(MAX_TASK as usize + 1);
        for bad in [
            args(None, None),
            args(Some(" \n\t"), None),
            args(Some("a\0"), None),
            args(Some("a"), Some("b")),
            args(Some(&long), None),
        ] {
            assert!(read(&bad).is_err(), "{:.20?}", bad.text);
        }
    }
}
