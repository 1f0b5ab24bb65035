//! `apply --commit`: exactly one commit that holds the patch and nothing else, whatever else is staged or changed. Made by
//! git's plumbing on an index of its own, so that no hook runs and nothing of the user's index gets into it.

use std::collections::BTreeSet;
use std::path::Path;

use countersign_engine::View;
use countersign_proof::patch::Patch;
use countersign_types::{Outcome, Reason};

use super::git::Git;
use crate::refusal::Refusal;
use crate::text;

/// Characters of a commit's subject.
const SUBJECT: usize = 72;

/// What git leaves in its directory while an operation is under way that a commit would end.
const UNDER_WAY: &[&str] = &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];

/// A commit that exists and that no branch holds yet.
#[derive(Debug)]
pub(super) struct Made {
    commit: String,
    parent: String,
    /// The user's configuration asks for signed commits, and this one is not signed.
    pub(super) unsigned: bool,
}

impl Made {
    pub(super) fn short(&self) -> &str {
        self.commit.get(..12).unwrap_or(&self.commit)
    }
}

/// Makes the commit on top of `HEAD`. Neither the work tree nor the index nor a branch is changed. The inner `Err` says why
/// the patch cannot be committed as things stand.
pub(super) fn make(
    git: &Git,
    view: &View,
    patch: &Patch<'_>,
    bytes: &[u8],
    subject: Option<&str>,
) -> Result<Result<Made, String>, Refusal> {
    for name in UNDER_WAY {
        let path = git.run(&["rev-parse", "--git-path", name], b"")?;
        if path.is_ok_and(|path| git.dir().join(path.trim_end_matches('\n')).exists()) {
            return Ok(Err(format!("git is in the middle of something ({name}): end it first")));
        }
    }
    let Ok(parent) = git.run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], b"")? else {
        return Ok(Err("there is no commit yet that this one could follow".to_owned()));
    };
    let parent = parent.trim().to_owned();
    let staged = git.run(&["diff-index", "--cached", "--name-only", "--no-renames", "-z", &parent], b"")?;
    let staged = match staged {
        Ok(staged) => staged,
        Err(why) => return Ok(Err(why)),
    };
    let staged: BTreeSet<&str> = staged.split('\0').collect();
    let both: Vec<String> = patch
        .files
        .iter()
        .filter(|file| staged.contains(String::from_utf8_lossy(file.path.as_bytes()).as_ref()))
        .map(|file| file.path.to_string())
        .collect();
    if !both.is_empty() {
        let both = text::one_line(&both.join(", "), 4 * text::LINE);
        return Ok(Err(format!(
            "what you have staged touches files of the patch: {both}. Commit or unstage it"
        )));
    }
    let scratch = tempfile::tempdir()
        .map_err(|error| Refusal::new(Reason::Environment, format!("no temporary directory: {error}")))?;
    let index = scratch.path().join("index");
    match tree(git, &index, &parent, bytes)? {
        Ok(tree) => commit(git, view, &parent, &tree, subject),
        Err(why) => Ok(Err(why)),
    }
}

/// The tree of `parent` with the patch in it.
fn tree(git: &Git, index: &Path, parent: &str, patch: &[u8]) -> Result<Result<String, String>, Refusal> {
    let steps: [(&[&str], &[u8]); 3] = [
        (&["read-tree", parent], b""),
        (&["apply", "--cached", "--whitespace=nowarn", "-"], patch),
        (&["write-tree"], b""),
    ];
    let mut said = String::new();
    for (args, input) in steps {
        match git.with_index(index, args, input)? {
            Ok(out) => said = out,
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(said.trim().to_owned()))
}

fn commit(
    git: &Git,
    view: &View,
    parent: &str,
    tree: &str,
    subject: Option<&str>,
) -> Result<Result<Made, String>, Refusal> {
    let message = message(view, subject);
    let commit = git.run(&["commit-tree", tree, "-p", parent, "-F", "-"], message.as_bytes())?;
    Ok(match commit {
        Ok(commit) => {
            let asks = git.run(&["config", "--type=bool", "commit.gpgSign"], b"")?;
            Ok(Made {
                commit: commit.trim().to_owned(),
                parent: parent.to_owned(),
                unsigned: asks.is_ok_and(|asks| asks.trim() == "true"),
            })
        }
        Err(why) if why.contains("user.email") || why.contains("user.name") => Err(format!(
            "git does not know who you are, and a commit is yours: set user.name and user.email with `git config`\n{why}"
        )),
        Err(why) => Err(why),
    })
}

/// Moves the branch, unless somebody else moved it since.
pub(super) fn publish(git: &Git, view: &View, made: &Made) -> Result<Result<(), String>, Refusal> {
    let why = format!("countersign apply: {}", view.id);
    Ok(git.run(&["update-ref", "-m", &why, "HEAD", &made.commit, &made.parent], b"")?.map(|_| ()))
}

/// The subject, and what ended the session as trailers.
fn message(view: &View, subject: Option<&str>) -> String {
    let subject = text::one_line(subject.unwrap_or(&view.input), SUBJECT);
    // A task of blanks never began.
    let subject = if subject.is_empty() { format!("Apply the patch of {}", view.id) } else { subject };
    let mut out = format!("{subject}\n\nCountersign-Session: {}\n", view.id);
    if let Some((outcome, reason)) = view.outcome {
        out.push_str(&format!("Countersign-Outcome: {outcome} ({reason})\n"));
        let strength = view.strength.filter(|_| outcome == Outcome::Verified).map_or_else(
            || "none".to_owned(),
            |strength| {
                let inside = if strength.in_process { " (in process)" } else { "" };
                format!("{}{inside}", strength.level)
            },
        );
        out.push_str(&format!("Countersign-Strength: {strength}\n"));
    }
    if let Some(tree) = view.tree {
        out.push_str(&format!("Countersign-Tree: {tree}\n"));
    }
    out
}
