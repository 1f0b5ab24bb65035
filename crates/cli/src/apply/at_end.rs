//! `run --at-end`: what becomes of the patch when the turn is over. The outcome is decided by then, and nothing here changes
//! it or the exit code.

use countersign_types::{Outcome, Reason, SessionId};

use super::{Consent, Done, How, deliver, of_session};
use crate::args::AtEnd;
use crate::ask::Terminal;
use crate::home::Home;
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::{render, terminal, text};

/// Answers that are none before the patch is kept.
const PATIENCE: u32 = 3;

/// Changed paths that the question shows.
const MAX_PATHS: usize = 20;

/// Refuses a run that would have to ask at its end and has nobody to ask.
pub(crate) fn can_ask(choice: AtEnd) -> Result<(), Refusal> {
    if choice == AtEnd::Ask && Terminal::open().is_none() {
        return Err(Refusal::usage(
            "--at-end ask needs a terminal to ask on, and there is none: say keep, commit or discard",
        ));
    }
    Ok(())
}

/// Does what was chosen, or what a person says now. Everything is said on standard error or on the terminal.
pub(crate) fn at_end(choice: AtEnd, result: &RunResult) {
    let (Some(id), true) = (&result.session, result.patch.is_some()) else { return };
    let verified = result.outcome == Some(Outcome::Verified);
    let done = match choice {
        AtEnd::Keep => return,
        AtEnd::Discard => discard(id),
        AtEnd::Commit if verified => commit(id),
        AtEnd::Commit => {
            terminal::err_line(&format!(
                "note: the patch is kept and not committed, because no check has passed on it: `countersign apply {id} \
                 --commit --unverified` commits it all the same"
            ));
            return;
        }
        AtEnd::Ask => match asked(result, verified) {
            AtEnd::Commit => commit(id),
            AtEnd::Discard => discard(id),
            AtEnd::Ask | AtEnd::Keep => return,
        },
    };
    match done {
        Ok(Done::Said(line)) => terminal::err_line(&line),
        Ok(Done::Not) => terminal::err_line("the patch is kept"),
        Err(refusal) => {
            let what = text::safe(&refusal.message);
            terminal::err_line(&format!("error: {what}\nthe patch is kept"));
        }
    }
}

/// Shows the end and asks. Without an answer the patch is kept.
fn asked(result: &RunResult, verified: bool) -> AtEnd {
    let Some(mut terminal) = Terminal::open() else { return AtEnd::Keep };
    terminal.say(&render::summary(result));
    if let Some(changes) = &result.changes {
        for path in changes.paths.iter().take(MAX_PATHS) {
            terminal.say(&format!(
                "  {:<8} {}",
                path.change.as_str(),
                text::one_line(&path.path, text::LINE)
            ));
        }
        let more = changes.all().saturating_sub(MAX_PATHS as u64);
        if more > 0 {
            terminal.say(&format!("  … and {more} more"));
        }
    }
    if !verified {
        terminal.say("No check has passed on this patch.");
    }
    for _ in 0..PATIENCE {
        let Some(answer) = terminal.ask("Commit, keep or discard the patch? [c/K/d]") else { break };
        match answer.to_ascii_lowercase().as_str() {
            "c" | "commit" => return AtEnd::Commit,
            "" | "k" | "keep" => return AtEnd::Keep,
            "d" | "discard" => return AtEnd::Discard,
            _ => terminal.say("Say c, k or d."),
        }
    }
    AtEnd::Keep
}

fn commit(id: &SessionId) -> Result<Done, Refusal> {
    let home = Home::open()?;
    let (view, patch) = of_session(&home, id)?;
    deliver(&home, &view, &patch, None, How::Commit, Consent::Asked, None)
}

/// Takes the patch out of the session's directory. The evidence keeps it, as it keeps everything that was judged.
fn discard(id: &SessionId) -> Result<Done, Refusal> {
    let home = Home::open()?;
    let path = home.session(id).join(countersign_engine::PATCH_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Refusal::new(Reason::Store, format!("{} cannot be removed: {error}", path.display())))
        }
        _ => Ok(Done::Said(
            "the patch is discarded; only the evidence of the session still holds it".to_owned(),
        )),
    }
}
