//! The agent's own repository in the workspace: the base commit, and nothing that is not reachable from its tree.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use countersign_tree::{Entry, EntryMode, Manifest};
use countersign_types::Digest;
use rustix::fs::{Mode, Stat};

use super::cat::CatFile;
use super::commit::{self, Commit};
use super::index::{Staged, encode};
use super::patch::FastImport;
use super::{Oid, git_command, import, repository, run_ok};
use crate::fault::Outcome;
use crate::protocol::Fault;
use crate::state::Guest;

/// The commit that was imported.
#[derive(Debug)]
pub(crate) struct GitBase {
    commit: Commit,
}

impl GitBase {
    pub(super) const fn new(commit: Commit) -> Self {
        Self { commit }
    }
}

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[user]\n\tname = \
                      agent\n\temail = agent@localhost\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n";

/// Makes `.git` anew. `source`: the mounted repository and the commit; None for a first commit of the files.
pub(crate) fn init_private(guest: &mut Guest, git_dir: Option<&Path>, commit: Option<&str>) -> Outcome<()> {
    let disk = |e: io::Error| Fault::io("making the private repository", &e);
    guest.root.remove(b".git").map_err(disk)?;
    for dir in [&b".git/refs/heads"[..], b".git/objects/pack", b".git/objects/info", b".git/info"] {
        guest.root.make_dir(dir, false).map_err(disk)?;
    }
    write(guest, "HEAD", "ref: refs/heads/main\n")?;
    write(guest, "config", CONFIG)?;
    let index = match (git_dir, commit) {
        (Some(git_dir), Some(commit)) => from_commit(guest, git_dir, commit)?,
        (None, None) => from_files(guest)?,
        _ => return Err(Fault::bad_request("a git directory and a commit come together or not at all")),
    };
    guest.root.replace(b".git/index", Mode::from_raw_mode(0o644), &index).map_err(disk)?;
    guest.root.own_tree(b".git").map_err(disk)
}

fn write(guest: &Guest, name: &str, text: &str) -> Outcome<()> {
    guest
        .root
        .replace(format!(".git/{name}").as_bytes(), Mode::from_raw_mode(0o644), text.as_bytes())
        .map_err(|e| Fault::io("making the private repository", &e))
}

fn from_commit(guest: &mut Guest, git_dir: &Path, id: &str) -> Outcome<Vec<u8>> {
    let objects = repository::inspect(git_dir)?;
    if guest.base.as_ref().is_none_or(|b| b.commit.oid.to_string() != id) {
        let mut cat = CatFile::start(git_dir)?;
        let commit = commit::read(&mut cat, git_dir, id)?;
        guest.base = Some(GitBase { commit });
    }
    let Some(GitBase { commit }) = &guest.base else {
        return Err(Fault::bad_request("no base commit"));
    };

    let mut wanted = vec![commit.oid];
    wanted.extend(&commit.trees);
    let own = commit.entries.iter().filter(|e| e.mode != EntryMode::Gitlink);
    let mut blobs: Vec<Oid> = own.map(|e| e.oid).collect();
    blobs.sort_unstable();
    blobs.dedup();
    wanted.extend(blobs);
    let list: String = wanted.iter().map(|oid| format!("{oid}\n")).collect();

    let private = guest.workspace.join(".git");
    let mut command = git_command(&private);
    // Reuses what the source has packed; no searching for deltas, hardly any compressing.
    command.args(["-c", "pack.compression=0", "pack-objects", "-q", "--window=0", "--delta-base-offset"]);
    command.arg(private.join("objects/pack/pack"));
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&objects));
    run_ok(command, list.as_bytes(), "copying the base commit")
        .map_err(|e| Fault::repository(e.to_string()))?;

    write(guest, "refs/heads/main", &format!("{}\n", commit.oid))?;
    if commit.has_parents {
        write(guest, "shallow", &format!("{}\n", commit.oid))?;
    }
    let staged =
        commit.entries.iter().map(|e| Staged { path: &e.path, mode: e.mode, oid: e.oid, stat: None });
    let mut staged: Vec<Staged<'_>> = staged.collect();
    add_stats(guest, &mut staged);
    Ok(encode(&staged))
}

/// Fills in the stat of each file that is known to hold what the index says.
fn add_stats(guest: &Guest, staged: &mut [Staged<'_>]) {
    const THREADS: usize = 2;
    let size = staged.len().div_ceil(THREADS).max(1);
    std::thread::scope(|scope| {
        for chunk in staged.chunks_mut(size) {
            scope.spawn(move || {
                for entry in chunk {
                    let known = guest.known.get(entry.path);
                    if let Some(known) = known.filter(|known| known.mode != EntryMode::Gitlink) {
                        entry.stat = stat_if_same(guest, known, entry.oid);
                    }
                }
            });
        }
    });
}

fn stat_if_same(guest: &Guest, known: &Entry, oid: Oid) -> Option<Stat> {
    let path = known.path.as_bytes();
    let before = guest.root.stat(path).ok()?;
    let found = match guest.oids.get(&known.digest) {
        Some(found) => *found,
        // Materialised from the store: look at the file once.
        None => Oid::of("blob", &import::read_raw(&guest.root, path).ok()?.1),
    };
    (found == oid).then_some(before)
}

/// A path as an element of a `:`-separated list of git.
pub(super) fn quoted(path: &Path) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut out = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    std::ffi::OsString::from_vec(out)
}

/// A first commit of everything that was imported.
fn from_files(guest: &Guest) -> Outcome<Vec<u8>> {
    let disk = |e: io::Error| Fault::io("making the private repository", &e);
    let private = guest.workspace.join(".git");
    let mut import = FastImport::start(&private).map_err(disk)?;
    let mut oids: HashMap<Digest, Oid> = HashMap::new();
    let manifest: &Manifest = &guest.known;
    // Which commit a submodule is at is known of a commit only, and a plain directory has no submodule.
    let own: Vec<Entry> =
        manifest.entries().iter().filter(|e| e.mode != EntryMode::Gitlink).cloned().collect();
    for entry in &own {
        if oids.contains_key(&entry.digest) {
            continue;
        }
        let (_, bytes) = import::read_raw(&guest.root, entry.path.as_bytes()).map_err(disk)?;
        oids.insert(entry.digest, Oid::of("blob", &bytes));
        let len = bytes.len() as u64;
        import.blob(entry.digest, len, |out| out.write_all(&bytes)).map_err(disk)?;
    }
    import.commit("main", "base", None, &[], &own).map_err(disk)?;
    import.finish().map_err(disk)?;
    let staged: Vec<Staged<'_>> = own
        .iter()
        .filter_map(|e| {
            let oid = *oids.get(&e.digest)?;
            Some(Staged { path: &e.path, mode: e.mode, oid, stat: guest.root.stat(e.path.as_bytes()).ok() })
        })
        .collect();
    Ok(encode(&staged))
}
