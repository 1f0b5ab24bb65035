//! Looking at a git directory before git does: what we refuse, and what to do about it.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::fault::{Outcome, shown, shown_bytes};
use crate::protocol::Fault;

/// Bytes of a repository's small files that are looked at.
const MAX_SMALL_FILE: u64 = 1 << 20;

/// Entries of a directory that are looked at for pipes: above it, looking would cost more than git itself.
const MAX_LOOKED_AT: usize = 200_000;

fn small_file(path: &Path) -> Option<Vec<u8>> {
    // Opening a pipe would wait for somebody who writes.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_SMALL_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The directory that holds the objects of `git_dir`, after every check that needs no git.
pub(super) fn inspect(git_dir: &Path) -> Outcome<PathBuf> {
    if !git_dir.is_dir() || !git_dir.join("HEAD").exists() {
        return Err(Fault::repository(
            "this is not a git directory (it has no HEAD): give the top of a git repository, or a plain directory \
             without a base revision",
        ));
    }
    let common = match small_file(&git_dir.join("commondir")) {
        None => git_dir.to_owned(),
        Some(text) => {
            linked(git_dir, &text, "the main repository of this worktree", "run in the main work tree")?
        }
    };
    let objects = common.join("objects");
    if !objects.is_dir() {
        return Err(Fault::repository("this is not a git directory: it has no objects"));
    }
    if let Some(alternates) = small_file(&objects.join("info/alternates")) {
        for line in alternates.split(|b| *b == b'\n').filter(|l| !l.is_empty() && l[0] != b'#') {
            let advice = "run `git repack -a -d` and remove objects/info/alternates, or clone without --shared and \
                          --reference";
            linked(&objects, line, "a repository whose objects this one borrows", advice)?;
        }
    }
    partial(&common)?;
    no_pipes(&common, |_| true)?;
    Ok(objects)
}

/// git waits for ever for a writer of a pipe that lies where it looks for a file.
fn no_pipes(top: &Path, git_opens: impl Fn(&[u8]) -> bool) -> Outcome<()> {
    let mut left = MAX_LOOKED_AT;
    let mut waiting = vec![top.to_owned()];
    while let Some(dir) = waiting.pop() {
        // What cannot be read is git's to complain about.
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(());
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                waiting.push(path);
                continue;
            }
            if !git_opens(entry.file_name().as_bytes()) {
                continue;
            }
            let is_pipe = kind.is_fifo()
                || kind.is_symlink() && fs::metadata(&path).is_ok_and(|m| m.file_type().is_fifo());
            if is_pipe {
                let name = path.strip_prefix(top).unwrap_or(&path);
                return Err(Fault::repository(format!(
                    "`{}` is a pipe, and git would wait for ever to read it: remove it",
                    shown_bytes(name.as_os_str().as_bytes())
                )));
            }
        }
    }
    Ok(())
}

/// The same for the files of git's own that a work tree holds, such as `.gitignore`.
pub(super) fn inspect_work_tree(work_tree: &Path) -> Outcome<()> {
    no_pipes(work_tree, |name| name.starts_with(b".git"))
}

/// A place that a repository's file names, if it can be seen from here.
fn linked(base: &Path, text: &[u8], what: &str, advice: &str) -> Outcome<PathBuf> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let path = normal(&base.join(Path::new(std::ffi::OsStr::from_bytes(text))));
    if path.is_dir() {
        return Ok(path);
    }
    Err(Fault::repository(format!(
        "{what} lies at `{}`, which this run cannot see: {advice}",
        shown_bytes(text)
    )))
}

/// `a/../b` is `b`: the kernel would need every part to exist.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// A partial clone would ask the network for objects in the middle of a run.
fn partial(common: &Path) -> Outcome<()> {
    let config = small_file(&common.join("config")).unwrap_or_default().to_ascii_lowercase();
    let says = |word: &[u8]| memchr::memmem::find(&config, word).is_some();
    let promised = fs::read_dir(common.join("objects/pack"))
        .ok()
        .is_some_and(|dir| dir.flatten().any(|e| e.path().extension().is_some_and(|x| x == "promisor")));
    if promised || says(b"partialclone") {
        return Err(Fault::repository(
            "this is a partial clone: objects may be missing, and nothing is fetched during a run. Make it whole with \
             `git fetch --refetch --no-filter` and remove `extensions.partialClone`, or clone again without --filter",
        ));
    }
    Ok(())
}

/// A revision that can stand on one line and is no option.
pub(super) fn check_revision(rev: &str) -> Outcome<()> {
    let why = if rev.is_empty() {
        "it is empty"
    } else if rev.starts_with('-') {
        "it starts with `-`"
    } else if rev.chars().any(char::is_control) {
        "it has a control character"
    } else if rev.len() > 1000 {
        "it is longer than 1000 bytes"
    } else {
        return Ok(());
    };
    Err(Fault::repository(format!(
        "`{}` is no revision: {why}. Give a branch, a tag or a commit",
        shown(rev, 200)
    )))
}

/// Why `rev` names no commit.
pub(super) fn no_such_revision(git_dir: &Path, rev: &str) -> Fault {
    if !has_refs(git_dir) {
        return Fault::repository("the repository has no commits yet: make one with `git commit` first");
    }
    let shallow = if git_dir.join("shallow").exists() {
        " (the repository is shallow: `git fetch --unshallow` brings its history)"
    } else {
        ""
    };
    Fault::repository(format!(
        "there is no commit `{}` in the repository{shallow}. `git rev-parse --verify '{}^{{commit}}'` must print one",
        shown(rev, 200),
        shown(rev, 200)
    ))
}

fn has_refs(git_dir: &Path) -> bool {
    let common = match small_file(&git_dir.join("commondir")) {
        None => git_dir.to_owned(),
        Some(text) => git_dir.join(String::from_utf8_lossy(&text).trim_end()),
    };
    let packed = small_file(&common.join("packed-refs"))
        .is_some_and(|t| t.split(|b| *b == b'\n').any(|l| l.len() > 40 && l[0] != b'#'));
    let detached = small_file(&git_dir.join("HEAD")).is_some_and(|t| !t.starts_with(b"ref:"));
    // Other storages (reftable) are git's to read: only what is surely empty is called so.
    packed || detached || common.join("reftable").exists() || any_file(&common.join("refs"), 0)
}

fn any_file(dir: &Path, depth: usize) -> bool {
    const MAX_DEPTH: usize = 16;
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => depth < MAX_DEPTH && any_file(&entry.path(), depth + 1),
        Ok(_) => true,
        Err(_) => false,
    })
}
