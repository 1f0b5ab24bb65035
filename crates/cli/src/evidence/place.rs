//! A bundle's trees held against a repository: its base is what that holds as the base commit, its judged tree what a
//! revision holds. Objects are read by git in a cell; nothing of the repository runs.

use std::path::Path;
use std::sync::Arc;

use countersign_proof::layout::{BASE_MANIFEST, FINAL_MANIFEST};
use countersign_proof::verify::{Claims, Report, contents};
use countersign_tree::Manifest;
use countersign_types::{Reason, Trust};
use serde::Serialize;

use crate::args::ProjectArgs;
use crate::refusal::Refusal;
use crate::run;

/// One tree beside the bundle's.
#[derive(Debug, Serialize)]
pub(super) struct Held {
    /// `base` or `head`.
    pub(super) what: &'static str,
    /// What was looked up; null: a plain directory.
    pub(super) rev: Option<String>,
    /// A directory's files were compared, not a commit's.
    #[serde(skip)]
    pub(super) plain: bool,
    pub(super) same: bool,
    /// The first path that differs.
    pub(super) path: Option<String>,
    /// How many paths differ.
    pub(super) differing: u64,
}

impl Held {
    fn of(what: &'static str, rev: Option<String>, bundled: &Manifest, found: &Manifest) -> Self {
        let changes = bundled.changes_to(found);
        Self {
            what,
            plain: rev.is_none(),
            rev,
            same: changes.is_empty(),
            path: changes.first().map(|change| change.path.to_string()),
            differing: changes.len() as u64,
        }
    }
}

/// One of the bundle's manifests, which was verified.
pub(super) fn manifest(dir: &Path, report: &Report, path: &str) -> Result<Manifest, Refusal> {
    let refuse = |what: &str| Refusal::usage(format!("{}: {what}", dir.display()));
    let mut parts = contents(dir, report, &[path]).map_err(|error| refuse(&error.to_string()))?;
    let bytes = parts
        .remove(path)
        .ok_or_else(|| refuse("its turn sealed no tree, so there is nothing to hold against a repository"))?;
    Manifest::decode(&bytes).ok_or_else(|| refuse("its manifest cannot be read"))
}

/// What stands at a revision of a repository, or in a plain directory.
fn found(repo: &Path, rev: Option<&str>) -> Result<Arc<Manifest>, Refusal> {
    let project = ProjectArgs {
        repo: Some(repo.to_owned()),
        base: rev.map(str::to_owned),
        // Objects are read, in a native cell, and nothing of them runs.
        trust: Some(Trust::Reviewed),
        config: None,
    };
    run::base_tree(&project).map(|(tree, _)| tree)
}

/// The revision that stands for a bundle's base, as its own statement names it. It is an object id or nothing: no other
/// name of a hostile bundle is ever given to git.
pub(super) fn base_rev(claims: &Claims) -> Result<Option<&str>, Refusal> {
    let Some(commit) = claims.base_commit.as_deref() else { return Ok(None) };
    let is_id = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id {
        return Ok(Some(commit));
    }
    Err(Refusal::usage("the bundle's base commit is no object id, so nothing can be looked up by it"))
}

/// Whether a directory belongs to a git repository.
pub(super) fn is_git(dir: &Path) -> bool {
    let root = std::path::absolute(dir).ok().and_then(|dir| run::repository::root_of(&dir).ok());
    root.is_some_and(|root| root != run::repository::Root::Plain)
}

/// Is the bundle's base what `repo` holds?
pub(super) fn base(dir: &Path, report: &Report, claims: &Claims, repo: &Path) -> Result<Held, Refusal> {
    let bundled = manifest(dir, report, BASE_MANIFEST)?;
    let rev = base_rev(claims)?;
    let is_git = is_git(repo);
    match (rev, is_git) {
        (None, true) => {
            return Err(Refusal::usage(format!(
                "the turn began from a plain directory, and {} is in a git repository: name a directory with the files \
                 that it began from",
                repo.display()
            )));
        }
        (Some(rev), false) => {
            // A plain copy of the commit's files will do as well.
            let found = found(repo, None)?;
            return Ok(Held { plain: true, ..Held::of("base", Some(rev.to_owned()), &bundled, &found) });
        }
        _ => {}
    }
    let found = found(repo, rev).map_err(|refusal| match (refusal.reason, rev) {
        (Some(Reason::Repository), Some(rev)) if refusal.message.contains("no commit") => Refusal::new(
            Reason::Repository,
            format!(
                "{} (the bundle's base is commit {rev}: fetch it into {} first)",
                refusal.message,
                repo.display()
            ),
        ),
        _ => refusal,
    })?;
    Ok(Held::of("base", rev.map(str::to_owned), &bundled, &found))
}

/// Is the judged tree what a revision holds?
pub(super) fn head(dir: &Path, report: &Report, repo: &Path, rev: &str) -> Result<Held, Refusal> {
    run::repository::check_rev("--head", Some(rev))?;
    let bundled = manifest(dir, report, FINAL_MANIFEST)?;
    let found = found(repo, Some(rev))?;
    Ok(Held::of("head", Some(rev.to_owned()), &bundled, &found))
}
