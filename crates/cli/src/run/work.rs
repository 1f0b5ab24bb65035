//! Finished work that is judged: found, bounded and named before anything begins. What it holds is read inside a cell.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use countersign_kernel::contract::{Candidate, Source};
use countersign_tree::Durability;
use countersign_types::{Reason, Tier};

use crate::args::{CommonArgs, WorkArgs};
use crate::files;
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::repository::{self, Place};

/// The largest patch, in bytes.
const MAX_PATCH: u64 = 256 << 20;

/// The work, ready to be judged.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) candidate: Candidate,
    /// Mounted by the cell that reads it.
    pub(super) directory: Option<PathBuf>,
}

/// What a list shows in place of a task.
pub(super) fn named(work: &WorkArgs) -> String {
    let shown = |path: &Path| repository::escape(path);
    match (&work.patch, &work.tree, &work.head) {
        (Some(patch), ..) if patch.as_os_str() == "-" => "judge a patch from standard input".to_owned(),
        (Some(patch), ..) => format!("judge the patch {}", shown(patch)),
        (_, Some(tree), _) => format!("judge the directory {}", shown(tree)),
        (_, _, Some(head)) => {
            format!("judge the revision {}", crate::text::one_line(head, crate::text::LINE))
        }
        _ => "judge".to_owned(),
    }
}

/// Finds the work. `place`: the base's, which a directory is added to.
pub(super) fn open(
    work: &WorkArgs,
    common: &CommonArgs,
    place: &mut Place,
    home: &Home,
) -> Result<Work, Refusal> {
    if common.sandbox == Some(Tier::Host) {
        return Err(Refusal::usage(
            "--sandbox host cannot be used with `gate`: nothing works outside of a room here, and a room is native or \
             stronger; leave --sandbox out",
        ));
    }
    if matches!(place.source, Source::Git { .. }) && common.base.is_none() {
        return Err(Refusal::usage(
            "--base REV is missing: name the commit that the work began from, for example --base \"$(git merge-base \
             origin/main HEAD)\"",
        ));
    }
    if let Some(rev) = &work.head {
        let rev = repository::head(common.repo.as_deref(), rev)?;
        return Ok(Work { candidate: Candidate::Head { rev }, directory: None });
    }
    if let Some(dir) = &work.tree {
        let dir = repository::readable_dir(dir, "--tree takes the directory that holds the work")
            .map_err(|what| Refusal::usage(format!("--tree {} is of no use: {what}", dir.display())))?;
        place.also(dir.clone());
        let candidate = Candidate::Tree { path: repository::escape(&dir) };
        return Ok(Work { candidate, directory: Some(dir) });
    }
    let Some(file) = &work.patch else {
        return Err(Refusal::usage("no work: give one of --patch, --tree and --head"));
    };
    let bytes = patch(file)?;
    let digest = home.objects.put(&bytes, Durability::Sync).map_err(|error| {
        let reason = if error.is_disk_full() { Reason::DiskFull } else { Reason::Store };
        Refusal::new(reason, format!("the patch cannot be stored: {error}"))
    })?;
    Ok(Work { candidate: Candidate::Patch { digest }, directory: None })
}

fn patch(file: &Path) -> Result<Vec<u8>, Refusal> {
    let refuse = |what: String| Refusal::usage(format!("--patch {} is of no use: {what}", file.display()));
    let bytes = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(MAX_PATCH + 1).read_to_end(&mut bytes);
        read.map_err(|error| refuse(format!("it cannot be read: {error}")))?;
        bytes
    } else {
        files::read_regular(file, MAX_PATCH).map_err(|what| {
            let piped = if what.contains("regular") { "; a pipe can be given as --patch -" } else { "" };
            refuse(format!("{what}{piped}"))
        })?
    };
    if bytes.len() as u64 > MAX_PATCH {
        return Err(refuse(format!("it is larger than {MAX_PATCH} bytes")));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(refuse("it is empty: a patch that changes nothing leaves nothing to judge".to_owned()));
    }
    Ok(bytes)
}

/// The directory of a recorded session again, for one that goes on.
pub(crate) fn again(candidate: Option<&Candidate>) -> Result<Option<PathBuf>, Refusal> {
    let Some(Candidate::Tree { path }) = candidate else { return Ok(None) };
    repository::unescape(path)
        .map(Some)
        .ok_or_else(|| Refusal::new(Reason::Store, "the recorded path of the directory is damaged"))
}
