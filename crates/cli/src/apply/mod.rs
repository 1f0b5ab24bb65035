//! `apply`: brings a session's patch into the user's work tree. This is the one place where git runs outside a cell, on
//! the user's own repository, because the user said so; what its configuration could start is switched off.

mod at_end;
mod commit;
mod git;
mod moved;
mod starting;

pub(crate) use self::at_end::{at_end, can_ask};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use countersign_engine::View;
use countersign_kernel::contract::Source;
use countersign_proof::patch::Patch;
use countersign_types::{Outcome, Reason, SessionId};

use self::git::Git;
use crate::args::{ApplyArgs, Format};
use crate::ask::Terminal;
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, repository, session};
use crate::{exit, render, terminal, text};

/// Self-starting files that are told; the rest is counted.
const MAX_TOLD: usize = 50;

/// What is wanted of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Only say whether it would apply.
    Check,
    WorkTree,
    Commit,
}

/// Who has agreed to files that something starts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    /// A flag says so.
    Given,
    /// The terminal is asked.
    Asked,
}

/// What came of it.
#[derive(Debug)]
enum Done {
    /// For people, in one line.
    Said(String),
    /// Nothing, and why was said.
    Not,
}

pub(crate) fn apply(args: &ApplyArgs) -> u8 {
    match execute(args) {
        Ok(code) => code,
        Err(refusal) => render::refused(Format::Text, &refusal),
    }
}

fn execute(args: &ApplyArgs) -> Result<u8, Refusal> {
    let home = Home::open()?;
    let (view, patch) = of_session(&home, &args.id)?;
    let Some((outcome, reason)) = view.outcome else {
        return Err(Refusal::bug("a session without an end was not refused"));
    };
    if outcome != Outcome::Verified && !args.unverified && !args.check {
        return Err(Refusal::usage(format!(
            "session {0} ended {outcome} ({reason}): no check has passed on this patch. Look at it with `countersign \
             diff {0}`; to apply it all the same, say --unverified",
            args.id
        )));
    }
    let how = match (args.check, args.commit) {
        (true, _) => How::Check,
        (_, true) => How::Commit,
        _ => How::WorkTree,
    };
    let consent = if args.accept_self_starting { Consent::Given } else { Consent::Asked };
    let done = deliver(&home, &view, &patch, args.repo.as_deref(), how, consent, args.message.as_deref())?;
    Ok(match done {
        Done::Said(line) => {
            terminal::out_line(&line);
            exit::DONE
        }
        Done::Not => exit::NEGATIVE,
    })
}

fn of_session(home: &Home, id: &SessionId) -> Result<(View, Vec<u8>), Refusal> {
    run::runtime()?.block_on(async {
        session::known(home, id).await?;
        let view = countersign_engine::view(home.store.as_ref(), id).await?;
        session::ended(home, id, &view)?;
        let patch = session::patch(home, id, &view)?;
        Ok((view, patch))
    })
}

fn deliver(
    home: &Home,
    view: &View,
    bytes: &[u8],
    repo: Option<&Path>,
    how: How,
    consent: Consent,
    subject: Option<&str>,
) -> Result<Done, Refusal> {
    let (id, outcome) = (&view.id, view.outcome.map_or("no outcome", |(outcome, _)| outcome.as_str()));
    // Ours, strictly: what git would read otherwise is refused before git sees it.
    let patch = Patch::parse(bytes)
        .map_err(|error| Refusal::new(Reason::Store, format!("the patch of {id} is of no use: {error}")))?;
    let source = view.session.as_ref().map(|session| &session.contract.source);
    let (dir, tracked) = target(repo, source)?;
    if how == How::Commit && !tracked {
        return Err(Refusal::usage(format!(
            "--commit needs a git repository, and {} is in none: leave --commit out, or name one with --repo",
            dir.display()
        )));
    }
    let git = Git::new(&dir)?;
    let starting = starting::paths(&patch, view, tracked.then_some(&git))?;
    for line in told(&starting) {
        terminal::err_line(&line);
    }
    let not_applied = |why: &str| {
        explain(home, view, &patch, &git, why);
        Ok(Done::Not)
    };
    // The index has to agree with the work tree where both are changed.
    let target: &[&str] = if how == How::Commit { &["--index"] } else { &[] };
    let args = [&["apply", "--whitespace=nowarn"], target].concat();
    if how == How::Commit {
        // Times of files that were only looked at or copied; it fails where something is really changed, which is fine.
        let _changed = git.run(&["update-index", "-q", "--refresh"], b"")?;
    }
    if let Err(why) = git.run(&[&args[..], &["--check", "-"]].concat(), bytes)? {
        return not_applied(&why);
    }
    if how == How::Check {
        return Ok(Done::Said(format!("the patch of {id} ({outcome}) applies to {}", dir.display())));
    }
    if !starting.is_empty() && consent == Consent::Asked {
        agreed(id)?;
    }
    let made = match how {
        How::Commit => match commit::make(&git, view, &patch, bytes, subject)? {
            Ok(made) => Some(made),
            Err(why) => return not_applied(&why),
        },
        How::Check | How::WorkTree => None,
    };
    if let Err(why) = git.run(&[&args[..], &["-"]].concat(), bytes)? {
        return not_applied(&why);
    }
    if let Some(made) = made {
        if let Err(why) = commit::publish(&git, view, &made)? {
            terminal::err_line(&format!(
                "the patch of {id} is in the work tree and staged, and not committed: the branch was moved by somebody \
                 else. `git commit` commits it.\n{}",
                text::safe(why.trim_end())
            ));
            return Ok(Done::Not);
        }
        if made.unsigned {
            terminal::err_line(
                "note: your configuration asks for signed commits, and nothing of it was started: sign this one with `git \
                 commit --amend --no-edit --gpg-sign`",
            );
        }
        let (commit, dir) = (made.short(), dir.display());
        return Ok(Done::Said(format!("committed the patch of {id} ({outcome}) as {commit} in {dir}")));
    }
    Ok(Done::Said(format!("applied the patch of {id} ({outcome}) to {}", dir.display())))
}

fn told(starting: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines: Vec<String> = starting
        .iter()
        .take(MAX_TOLD)
        .map(|(path, who)| {
            let line = format!("look at {path} before you run anything: {who}");
            text::one_line(&line, 2 * text::LINE)
        })
        .collect();
    let more = starting.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        lines.push(format!("and at {more} more such files"));
    }
    lines
}

/// Asks whether files that something starts by itself may be written.
fn agreed(id: &SessionId) -> Result<(), Refusal> {
    let Some(mut terminal) = Terminal::open() else {
        return Err(Refusal::usage(format!(
            "the patch of {id} changes files that something starts by itself (listed above), and there is no terminal to \
             ask: read them with `countersign diff {id}`, then say --accept-self-starting"
        )));
    };
    if terminal.agrees("The patch changes files that something starts by itself. Write them?") {
        return Ok(());
    }
    Err(Refusal::usage(format!("nothing was written: read the patch with `countersign diff {id}`")))
}

/// Says why the patch does not apply, and the way out.
fn explain(home: &Home, view: &View, patch: &Patch<'_>, git: &Git, why: &str) {
    let (id, dir) = (&view.id, git.dir().display());
    terminal::err_line(&format!("the patch of {id} does not apply to {dir}:"));
    terminal::err_line(&text::safe(why.trim_end()));
    if let (Some(base), Some(head)) = (&view.base_commit, head(git))
        && *base != head
    {
        terminal::err_line(&format!("{dir} is at {head:.12} and the patch was made from {base:.12}"));
    }
    let moved = moved::from_base(home, view, patch, git.dir());
    if !moved.is_empty() {
        terminal::err_line("files that the patch needs as they were in its base:");
        for line in moved {
            terminal::err_line(&format!("  {}", text::one_line(&line, 2 * text::LINE)));
        }
    }
    terminal::err_line(&format!(
        "way out: `countersign diff {id} | git apply --3way` merges it (git then runs the filters of your configuration), or \
         run the task again from where you are now. Nothing was changed"
    ));
}

/// The root of the work tree that is changed, where the paths of a patch start, and whether git tracks it.
fn target(repo: Option<&Path>, source: Option<&Source>) -> Result<(PathBuf, bool), Refusal> {
    let dir = match repo {
        Some(dir) => dir.to_owned(),
        None => source.and_then(repository::work_tree).ok_or_else(|| {
            Refusal::new(Reason::Repository, "the recorded path of the repository is damaged; use --repo DIR")
        })?,
    };
    let refuse = |what: String| {
        Refusal::new(Reason::Repository, format!("{} cannot be changed: {what}", dir.display()))
    };
    let dir = std::fs::canonicalize(&dir)
        .map_err(|error| refuse(format!("{error}; --repo DIR names another work tree")))?;
    match repository::root_of(&dir).map_err(refuse)? {
        repository::Root::WorkTree(root) => Ok((root, true)),
        repository::Root::Plain => Ok((dir, false)),
        repository::Root::Bare => {
            Err(refuse("it is a bare repository; use --repo DIR with a work tree".to_owned()))
        }
    }
}

fn head(git: &Git) -> Option<String> {
    let out = git.run(&["rev-parse", "--verify", "--quiet", "HEAD"], b"").ok()?.ok()?;
    Some(out.trim().to_owned()).filter(|head| head.bytes().all(|b| b.is_ascii_hexdigit()) && !head.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_starts_by_itself_is_told_on_lines_of_its_own_and_bounded() {
        let many: BTreeMap<String, String> = (0..MAX_TOLD + 3)
            .map(|n| (format!("{n:03}/\u{202e}build.rs"), "cargo runs it".to_owned()))
            .collect();
        let lines = told(&many);
        assert_eq!(lines.len(), MAX_TOLD + 1);
        assert!(lines.iter().all(|line| !line.contains('\u{202e}')), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "and at 3 more such files");
    }
}
