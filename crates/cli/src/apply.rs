//! `apply`: brings a session's patch into the user's work tree. This is the one place where git runs outside a cell, on
//! the user's own repository, because the user said so; what its configuration could start is switched off.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_types::{Outcome, Reason};

use crate::args::{ApplyArgs, Format};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, repository, session};
use crate::{exit, render, terminal, text};

/// Files that something starts by itself: a person should look at them before the next command.
const SELF_STARTING: &[&str] = &[
    ".bashrc",
    ".envrc",
    ".gitattributes",
    ".gitmodules",
    ".pre-commit-config.yaml",
    "Makefile",
    "build.rs",
    "conftest.py",
    "package.json",
    "setup.py",
    "sitecustomize.py",
];

/// Directories whose files something starts by itself.
const SELF_STARTING_DIRS: &[&str] =
    &[".cargo/", ".devcontainer/", ".github/workflows/", ".githooks/", ".husky/", ".vscode/", ".idea/"];

pub(crate) fn apply(args: &ApplyArgs) -> u8 {
    match execute(args) {
        Ok(code) => code,
        Err(refusal) => render::refused(Format::Text, &refusal),
    }
}

fn execute(args: &ApplyArgs) -> Result<u8, Refusal> {
    let home = Home::open()?;
    let id = &args.id;
    let (view, patch) = run::runtime()?.block_on(async {
        session::known(&home, id).await?;
        let view = countersign_engine::view(home.store.as_ref(), id).await?;
        session::ended(&home, id, &view)?;
        let patch = session::patch(&home, id, &view)?;
        Ok::<_, Refusal>((view, patch))
    })?;
    let Some((outcome, reason)) = view.outcome else {
        return Err(Refusal::bug("a session without an end was not refused"));
    };
    if outcome != Outcome::Verified && !args.unverified && !args.check {
        return Err(Refusal::usage(format!(
            "session {id} ended {outcome} ({reason}): no check has passed on this patch. Look at it with `countersign \
             diff {id}`; to apply it all the same, say --unverified"
        )));
    }
    let source = view.session.as_ref().map(|session| &session.contract.source);
    let dir = target(args, source)?;
    for path in self_starting(&patch) {
        terminal::err_line(&format!("look at {path} before you run anything: it is started by itself"));
    }
    if let Err(why) = git(&dir, &["apply", "--check", "--whitespace=nowarn", "-"], &patch)? {
        let moved = match (&view.base_commit, head(&dir)) {
            (Some(base), Some(head)) if *base != head => format!(
                "\n{} is at {head:.12} and the patch was made from {base:.12}: check that commit out (or run the task \
                 again) and apply there",
                dir.display()
            ),
            _ => String::new(),
        };
        terminal::err_line(&format!(
            "the patch does not apply to {}:\n{}{moved}",
            dir.display(),
            text::safe(why.trim_end())
        ));
        return Ok(exit::NEGATIVE);
    }
    if args.check {
        terminal::out_line(&format!("the patch of {id} ({outcome}) applies to {}", dir.display()));
        return Ok(exit::DONE);
    }
    if let Err(why) = git(&dir, &["apply", "--whitespace=nowarn", "-"], &patch)? {
        terminal::err_line(&format!(
            "git could not apply the patch to {}:\n{}",
            dir.display(),
            text::safe(why.trim_end())
        ));
        return Ok(exit::NEGATIVE);
    }
    terminal::out_line(&format!("applied the patch of {id} ({outcome}) to {}", dir.display()));
    Ok(exit::DONE)
}

/// The root of the work tree that is changed: paths of a patch start there.
fn target(
    args: &ApplyArgs,
    source: Option<&countersign_kernel::contract::Source>,
) -> Result<PathBuf, Refusal> {
    let dir = match &args.repo {
        Some(dir) => dir.clone(),
        None => source.and_then(repository::work_tree).ok_or_else(|| {
            Refusal::new(Reason::Repository, "the recorded path of the repository is damaged; use --repo DIR")
        })?,
    };
    let refuse = |what: String| {
        Refusal::new(Reason::Repository, format!("{} cannot be changed: {what}", dir.display()))
    };
    let dir = std::fs::canonicalize(&dir).map_err(|error| refuse(error.to_string()))?;
    match repository::root_of(&dir).map_err(refuse)? {
        repository::Root::WorkTree(root) => Ok(root),
        repository::Root::Plain => Ok(dir),
        repository::Root::Bare => {
            Err(refuse("it is a bare repository; use --repo DIR with a work tree".to_owned()))
        }
    }
}

/// Runs git without anything that its configuration could start. `Err` inside is git's own message.
fn git(dir: &Path, args: &[&str], input: &[u8]) -> Result<Result<String, String>, Refusal> {
    let failed = |error: std::io::Error| {
        Refusal::new(Reason::Environment, format!("git cannot be run: {error}; `apply` needs git in PATH"))
    };
    let mut child = Command::new("git")
        .current_dir(dir)
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"])
        .args(["-c", "core.untrackedCache=false", "-c", "apply.whitespace=nowarn", "-c", "color.ui=false"])
        .args(args)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdin = child.stdin.take();
    let input = input.to_vec();
    let feed = std::thread::spawn(move || {
        if let Some(stdin) = &mut stdin {
            // Git may stop reading; its exit code says why.
            let _ = stdin.write_all(&input);
        }
    });
    let output = child.wait_with_output().map_err(failed)?;
    let _ = feed.join();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) })
}

fn head(dir: &Path) -> Option<String> {
    let out = git(dir, &["rev-parse", "--verify", "--quiet", "HEAD"], b"").ok()?.ok()?;
    Some(out.trim().to_owned()).filter(|head| head.bytes().all(|b| b.is_ascii_hexdigit()) && !head.is_empty())
}

/// Paths of a patch that something starts by itself, escaped.
fn self_starting(patch: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for line in patch.split(|b| *b == b'\n') {
        let Some(rest) = line.strip_prefix(b"diff --git ") else { continue };
        let rest = String::from_utf8_lossy(rest);
        // Both names are the same without renames: the second half is the path.
        let Some((_, path)) = rest.split_once(" b/").or_else(|| rest.split_once(" \"b/")) else { continue };
        let path = path.trim_end_matches('"');
        let name = path.rsplit('/').next().unwrap_or(path);
        let starts = SELF_STARTING.contains(&name)
            || SELF_STARTING_DIRS
                .iter()
                .any(|dir| path.starts_with(dir) || path.contains(&format!("/{dir}")));
        if starts {
            found.push(text::one_line(path, text::LINE));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_start_by_themselves_are_named() {
        let patch = b"diff --git a/src/a.rs b/src/a.rs\n+x\ndiff --git a/Makefile b/Makefile\n\
            diff --git a/x/.vscode/tasks.json b/x/.vscode/tasks.json\ndiff --git \"a/q\\nconftest.py\" \"b/q/conftest.py\"\n";
        assert_eq!(self_starting(patch), ["Makefile", "x/.vscode/tasks.json", "q/conftest.py"]);
    }
}
