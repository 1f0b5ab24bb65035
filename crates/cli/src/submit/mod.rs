//! `submit`: records a session that waits for its approval. Nothing of it runs: no set-up, no check, no model.

mod file;
mod strict;

use std::ffi::OsString;
use std::path::Path;

use countersign_types::{Reason, SessionId};

use crate::args::{self, Command, Format, SubmitArgs, TaskArgs};
use crate::refusal::Refusal;
use crate::run::{self, Wish, session};
use crate::{exit, files, grants, render, status, terminal};

pub(crate) fn submit(args: &SubmitArgs) -> u8 {
    let format = args.terms.common.format;
    match recorded(args) {
        Ok(status) => {
            match format {
                // What a script puts into a variable.
                Format::Text | Format::Markdown => terminal::out_line(status.session.as_str()),
                Format::Json | Format::Ndjson => return status::machine(&status),
            }
            exit::DONE
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

fn recorded(args: &SubmitArgs) -> Result<status::Status, Refusal> {
    let common = &args.terms.common;
    for (given, flag) in [
        (common.agent.record.is_some(), "--record"),
        (common.agent.replay.is_some(), "--replay"),
        (common.report.is_some(), "--report"),
    ] {
        if given {
            return Err(Refusal::usage(format!(
                "{flag} belongs to a run that this command does not begin: use `countersign run`"
            )));
        }
    }
    if let Some(path) = &args.contract {
        return of_file(path, args);
    }
    let what = TaskArgs { text: None, task: args.task.clone(), task_file: args.task_file.clone() };
    waiting(&Wish::terms(&what, &args.terms), args.yes)
}

/// A file is read as the flags that it stands for: there is one meaning of each term.
fn of_file(path: &Path, args: &SubmitArgs) -> Result<status::Status, Refusal> {
    let refuse = |what: String| Refusal::new(Reason::Config, format!("{}: {what}", path.display()));
    let bytes = files::read_regular(path, file::MAX_FILE).map_err(refuse)?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
    let dir = std::path::absolute(path).map_err(|error| refuse(error.to_string()))?;
    let dir = dir.parent().unwrap_or(Path::new("/"));
    let mut words: Vec<OsString> = vec!["countersign".into(), "submit".into()];
    words.extend(file::words(&text, dir).map_err(refuse)?.into_iter().map(Into::into));
    let given = args.task.is_some() || args.task_file.is_some();
    if given {
        if words.iter().any(|word| word.to_string_lossy().starts_with("--task=")) {
            return Err(refuse("/task: the command line has a task too; leave one of them out".to_owned()));
        }
        words.extend(args.task.iter().map(|task| format!("--task={task}").into()));
        if let Some(file) = &args.task_file {
            words.extend(["--task-file".into(), file.clone().into_os_string()]);
        }
    }
    let common = &args.terms.common;
    let keys = [
        ("--api-key-file", &common.api_key_file),
        ("--review-api-key-file", &args.terms.review.review_api_key_file),
        ("--config", &common.config),
    ];
    for (flag, path) in keys {
        if let Some(path) = path {
            words.extend([flag.into(), path.clone().into_os_string()]);
        }
    }
    // Whatever is wrong with a term is wrong with its field.
    let named = |refusal: Refusal| match file::field_of(&refusal.message) {
        Some(field) => {
            let message = format!("{}: {field}: {}", path.display(), refusal.message);
            Refusal { message, ..refusal }
        }
        None => refusal,
    };
    let meant = args::parse(&words).map_err(named)?.map(|cli| cli.command);
    let Some(Command::Submit(meant)) = meant else {
        return Err(Refusal::bug("a contract file is read as another command"));
    };
    let mut meant = *meant;
    (meant.terms.common.trace, meant.terms.common.format) = (common.trace, common.format);
    let what = TaskArgs { text: None, task: meant.task.clone(), task_file: meant.task_file.clone() };
    waiting(&Wish::terms(&what, &meant.terms), args.yes).map_err(named)
}

/// Records it, and says what it is granted or would be.
fn waiting(wish: &Wish<'_>, approved: bool) -> Result<status::Status, Refusal> {
    run::prepared(wish, |prepared, runtime| {
        let home = prepared.home.clone();
        let trace = prepared.trace;
        let prepared = runtime.block_on(session::submit(prepared, approved))?;
        let id: &SessionId = &prepared.id;
        if trace != crate::args::TraceMode::Off {
            for line in grants::lines(&prepared.contract, &prepared.task) {
                terminal::err_line(&line);
            }
            let next = if approved { "resume" } else { "approve" };
            terminal::err_line(&format!("next: countersign {next} {id}"));
        }
        runtime.block_on(status::of(&home, id))
    })
}
