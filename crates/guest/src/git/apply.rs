//! Somebody's patch on the base: applied by git to an index without a work tree, all of it or nothing.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use countersign_tree::{Delta, Entry, EntryMode, Located, TreePath};
use countersign_types::Digest;

use super::cat::CatFile;
use super::commit::GitEntry;
use super::import::{Import, fetch};
use super::patch::{FastImport, scratch_repository};
use super::private::quoted;
use super::{Oid, TempDir, git_command, repository, run, run_ok};
use crate::fault::{Outcome, shown, shown_bytes};
use crate::protocol::{Fault, PatchBase, Reply};
use crate::segment::{SegmentWriter, Segments};
use crate::state::first_file;

/// Bytes of git's own words that a refusal quotes.
const MAX_WORDS: usize = 1200;

/// What git says of a text in which it finds no diff.
const NO_PATCH: &str = "No valid patches in input";

/// Applies the patch with the digest `patch` and gives the difference to the base. New contents go to the first file;
/// the patch and (for [`PatchBase::Files`]) the base lie in the others.
pub(crate) fn apply_patch(
    base: &PatchBase,
    patch: &Digest,
    located: &[Located],
    files: &[File],
) -> Outcome<Reply> {
    let out = first_file(files)?;
    let disk = |e: io::Error| Fault::io("applying the patch", &e);
    let temporary = TempDir::new().map_err(disk)?;
    let git_dir = temporary.path().join("git");
    scratch_repository(&git_dir).map_err(disk)?;
    let segments = Segments::new(&files[1..], located);
    let before = lay_base(base, &git_dir, &segments)?;

    let text = temporary.path().join("patch");
    let mut file = File::create(&text).map_err(disk)?;
    segments.each(patch, |bytes| io::Write::write_all(&mut file, bytes)).map_err(disk)?;
    drop(file);

    let git = |args: &[&str]| {
        let mut command = git_command(&git_dir);
        // No work tree's attributes are found from here.
        command.current_dir(temporary.path()).env("GIT_INDEX_FILE", git_dir.join("index"));
        command.args(args);
        command
    };
    run_ok(git(&["read-tree", &before]), b"", "reading the base")
        .map_err(|e| Fault::repository(e.to_string()))?;
    // The index and nothing else: paths above the root, absolute ones, `.git`, and paths behind a link are refused.
    let apply = git(&["apply", "--cached", "--binary", "-p1", "--whitespace=nowarn", "patch"]);
    let applied = run(apply, b"").map_err(disk)?;
    if !applied.status.success() {
        return Err(refused(&String::from_utf8_lossy(&applied.stderr)));
    }
    let raw = run_ok(
        git(&["diff-index", "--cached", "--raw", "-z", "--no-renames", "--abbrev=40", &before]),
        b"",
        "comparing the patched tree",
    )
    .map_err(disk)?;
    let (put, remove) = changes(&raw)?;

    let mut cat = CatFile::start(&git_dir)?;
    let mut writer = SegmentWriter::new(out);
    let mut import = Import::default();
    fetch(&mut cat, &put, &mut writer, None, out, &mut import)?;
    let located = writer.finish().map_err(disk)?;
    Ok(Reply::Applied { delta: Delta { put: import.entries, remove }, located })
}

/// Makes the base known to the scratch repository and gives its name there.
fn lay_base(base: &PatchBase, git_dir: &Path, segments: &Segments<'_>) -> Outcome<String> {
    let disk = |e: io::Error| Fault::io("preparing the base for the patch", &e);
    match base {
        PatchBase::Commit { git_dir: source, commit } => {
            let objects = repository::inspect(Path::new(source))?;
            let commit = Oid::from_hex(commit).ok_or_else(|| Fault::bad_request("the base is no commit"))?;
            let mut line = quoted(&objects).into_encoded_bytes();
            line.push(b'\n');
            fs::write(git_dir.join("objects/info/alternates"), line).map_err(disk)?;
            Ok(commit.to_string())
        }
        PatchBase::Files { entries } => {
            load(git_dir, entries, segments).map_err(disk)?;
            Ok("refs/heads/before".to_owned())
        }
    }
}

fn load(git_dir: &Path, entries: &[Entry], segments: &Segments<'_>) -> io::Result<()> {
    let mut import = FastImport::start(git_dir)?;
    let mut seen = HashSet::new();
    for entry in entries {
        if entry.mode == EntryMode::Gitlink {
            import.link(entry.digest, &segments.read(&entry.digest)?)?;
        } else if seen.insert(entry.digest) {
            let len = segments.len(&entry.digest)?;
            import
                .blob(entry.digest, len, |out| segments.each(&entry.digest, |chunk| out.write_all(chunk)))?;
        }
    }
    import.commit("before", "", None, &[], entries)?;
    import.finish()
}

/// git says where: which file and which line.
fn refused(words: &str) -> Fault {
    if words.contains(NO_PATCH) {
        return Fault::candidate(
            "the patch changes nothing: git finds no diff in it. Make one with `git diff --binary BASE HEAD`",
        );
    }
    let words = shown(words.trim(), MAX_WORDS);
    Fault::candidate(format!(
        "the patch does not apply to the base, and nothing of it was taken. git says: {words}\nMake it against this \
         base with `git diff --binary BASE HEAD`"
    ))
}

/// Reads `diff-index --raw -z`: `:oldmode newmode oldoid newoid STATUS NUL path NUL`.
fn changes(raw: &[u8]) -> Outcome<(Vec<GitEntry>, Vec<TreePath>)> {
    let odd = || Fault::bad_request("git's list of changes cannot be read");
    let (mut put, mut remove) = (Vec::new(), Vec::new());
    let mut fields = raw.split(|b| *b == 0);
    while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
        let raw_path = fields.next().ok_or_else(odd)?;
        let path = TreePath::new(raw_path).map_err(|why| {
            Fault::candidate(format!(
                "the patch has a path that cannot be used, `{}`: {why}",
                shown_bytes(raw_path)
            ))
        })?;
        let head = std::str::from_utf8(head).map_err(|_| odd())?;
        let words: Vec<&str> = head.split(' ').collect();
        let [_, mode, _, oid, status] = words.as_slice() else { return Err(odd()) };
        if *status == "D" {
            remove.push(path);
            continue;
        }
        let mode = match *mode {
            "100644" => EntryMode::File,
            "100755" => EntryMode::Executable,
            "120000" => EntryMode::Symlink,
            "160000" => EntryMode::Gitlink,
            _ => return Err(odd()),
        };
        put.push(GitEntry { path, mode, oid: Oid::from_hex(oid).ok_or_else(odd)? });
    }
    Ok((put, remove))
}
