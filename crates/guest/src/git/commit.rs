//! Commits and trees: from a revision to the flat list of what it holds.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use countersign_tree::{EntryMode, TreePath};

use super::cat::{CatFile, Header};
use super::{Oid, repository};
use crate::fault::{Outcome, shown_bytes};
use crate::protocol::Fault;

/// Entries that a commit may have: more than any repository that fits this tool, far less than a tree bomb unfolds to.
const MAX_ENTRIES: usize = 2_000_000;

#[derive(Clone, Debug)]
pub(crate) struct GitEntry {
    pub(crate) path: TreePath,
    pub(crate) mode: EntryMode,
    pub(crate) oid: Oid,
}

/// What a commit is made of.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) oid: Oid,
    pub(crate) has_parents: bool,
    /// In the order of their paths.
    pub(crate) entries: Vec<GitEntry>,
    pub(crate) trees: Vec<Oid>,
}

/// The commit that `rev` names, and the size of its object, which is what `cat` answers next.
pub(crate) fn find(cat: &mut CatFile, git_dir: &Path, rev: &str) -> Outcome<(Oid, u64)> {
    repository::check_revision(rev)?;
    cat.ask(format!("{rev}^{{commit}}\n").into_bytes());
    match cat.header()? {
        Header::Object { oid, kind, size } if kind == "commit" => Ok((oid, size)),
        Header::Sha256 => Err(sha256()),
        // A repository of the other kind takes an id of 40 digits for the beginning of one of its own.
        _ if of_sha256(cat) => Err(sha256()),
        _ => Err(repository::no_such_revision(git_dir, rev)),
    }
}

/// Resolves `rev` and reads its trees.
pub(crate) fn read(cat: &mut CatFile, git_dir: &Path, rev: &str) -> Outcome<Commit> {
    let (oid, size) = find(cat, git_dir, rev)?;
    let text = cat.whole(oid, "commit", size)?;
    let mut lines = text.split(|b| *b == b'\n');
    let tree = lines
        .next()
        .and_then(|l| l.strip_prefix(b"tree "))
        .and_then(|hex| Oid::from_hex(std::str::from_utf8(hex).ok()?))
        .ok_or_else(|| Fault::repository(format!("the commit {oid} names no tree")))?;
    let has_parents = lines.next().is_some_and(|l| l.starts_with(b"parent "));
    let (entries, trees) = flatten(cat, tree)?;
    Ok(Commit { oid, has_parents, entries, trees })
}

fn of_sha256(cat: &mut CatFile) -> bool {
    cat.ask(b"HEAD\n".to_vec());
    matches!(cat.header(), Ok(Header::Sha256))
}

fn sha256() -> Fault {
    Fault::repository(
        "the repository uses sha256 object ids, which are not supported: use a clone with sha1 ids (`git init \
         --object-format=sha1`), or a plain copy of its files",
    )
}

/// Reads all trees level by level; equal trees once.
fn flatten(cat: &mut CatFile, root: Oid) -> Outcome<(Vec<GitEntry>, Vec<Oid>)> {
    let mut known: HashMap<Oid, Vec<u8>> = HashMap::new();
    let mut level: Vec<(Vec<u8>, Oid)> = vec![(Vec::new(), root)];
    let mut entries: Vec<GitEntry> = Vec::new();
    let mut order = Vec::new();
    while !level.is_empty() {
        let mut wanted = Vec::new();
        let mut queued = HashSet::new();
        for (_, oid) in &level {
            if !known.contains_key(oid) && queued.insert(*oid) {
                wanted.push(*oid);
            }
        }
        cat.ask_all(wanted.iter().copied());
        for oid in wanted {
            let size = match cat.header()? {
                Header::Object { kind, size, oid: found } if kind == "tree" && found == oid => size,
                _ => return Err(missing("tree", oid)),
            };
            known.insert(oid, cat.whole(oid, "tree", size)?);
            order.push(oid);
        }
        let mut next = Vec::new();
        for (prefix, oid) in &level {
            let bytes = known.get(oid).map(Vec::as_slice).unwrap_or_default();
            parse(*oid, bytes, prefix, &mut entries, &mut next)?;
            if entries.len() + next.len() > MAX_ENTRIES {
                return Err(Fault::repository(format!("the commit has more than {MAX_ENTRIES} files")));
            }
        }
        level = next;
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    for pair in entries.windows(2) {
        let (a, b) = (pair[0].path.as_bytes(), pair[1].path.as_bytes());
        if a == b || (b.starts_with(a) && b[a.len()] == b'/') {
            let text = format!("the commit holds the path `{}` twice: run `git fsck` in it", pair[0].path);
            return Err(Fault::repository(text));
        }
    }
    Ok((entries, order))
}

pub(crate) fn missing(kind: &str, oid: Oid) -> Fault {
    Fault::repository(format!(
        "the {kind} {oid} is missing from the repository, and nothing is fetched during a run: `git fsck` names what \
         is missing; a full `git fetch` or a new clone brings it"
    ))
}

fn parse(
    tree: Oid,
    bytes: &[u8],
    prefix: &[u8],
    entries: &mut Vec<GitEntry>,
    next: &mut Vec<(Vec<u8>, Oid)>,
) -> Outcome<()> {
    let corrupt =
        || Fault::repository(format!("the tree {tree} is corrupt: run `git fsck` in the repository"));
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = memchr::memchr(b' ', rest).ok_or_else(corrupt)?;
        let nul = memchr::memchr(0, rest).filter(|nul| *nul > space).ok_or_else(corrupt)?;
        let (mode, name) = (&rest[..space], &rest[space + 1..nul]);
        let raw = rest.get(nul + 1..nul + 21).ok_or_else(corrupt)?;
        rest = &rest[nul + 21..];
        let oid = Oid(raw.try_into().map_err(|_| corrupt())?);
        let mut full = prefix.to_vec();
        if !full.is_empty() {
            full.push(b'/');
        }
        full.extend_from_slice(name);
        let path = TreePath::new(full.as_slice()).map_err(|why| {
            Fault::repository(format!(
                "the commit holds a path that cannot be used, `{}`: {why}",
                shown_bytes(&full)
            ))
        })?;
        if name.contains(&b'/') {
            return Err(corrupt());
        }
        let mode = match mode {
            b"40000" | b"040000" => {
                next.push((full, oid));
                continue;
            }
            b"120000" => EntryMode::Symlink,
            b"160000" => EntryMode::Gitlink,
            // Old gits wrote 100664 and other bits.
            file if file.starts_with(b"100") => {
                let bits = std::str::from_utf8(file).ok().and_then(|t| u32::from_str_radix(t, 8).ok());
                let bits = bits.ok_or_else(corrupt)?;
                if bits & 0o100 != 0 { EntryMode::Executable } else { EntryMode::File }
            }
            _ => return Err(corrupt()),
        };
        entries.push(GitEntry { path, mode, oid });
    }
    Ok(())
}
