//! `submit`: records a session that waits for its approval. Nothing of it runs: no set-up, no check, no model.

use countersign_types::SessionId;

use crate::args::{Format, SubmitArgs, TaskArgs};
use crate::refusal::Refusal;
use crate::run::{self, Wish, session};
use crate::{exit, grants, render, status, terminal};

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
    let what = TaskArgs { text: None, task: args.task.clone(), task_file: args.task_file.clone() };
    waiting(&Wish::terms(&what, &args.terms), args.yes)
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
