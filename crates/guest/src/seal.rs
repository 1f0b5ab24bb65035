//! The seal: the whole tree as a manifest, its new contents stored.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use countersign_tree::{Delta, Entry, EntryMode, Judgement, Manifest, Scratch, ScratchRules, TreePath};
use countersign_types::{Digest, Hasher};
use rustix::fs::{FileType, Stat};

use crate::confined::{Root, not_too_large, read_all, type_name};
use crate::fault::{Outcome, shown_bytes};
use crate::module;
use crate::protocol::{Fault, Reply, Sealed};
use crate::segment::SegmentWriter;
use crate::state::{Guest, entry, first_file, now};
use crate::walk::{Found, walk};

/// Threads that read and hash.
const THREADS: usize = 2;
/// Contents of at most this many bytes are read at once.
const IN_MEMORY: u64 = 8 << 20;
/// Lines of each kind that a reply carries.
const MAX_LINES: usize = 100;
/// Entries of scratch that are looked at for its size.
const MAX_SCRATCH_ENTRIES: usize = 200_000;

/// A file or link that the walk found.
struct Item {
    path: TreePath,
    kind: FileType,
    stat: Stat,
}

#[derive(Default)]
struct Survey {
    items: Vec<Item>,
    unsealable: Vec<String>,
    normalised: Vec<String>,
    scratch: Vec<Vec<u8>>,
    /// Directories on another mount.
    mounts: Vec<Vec<u8>>,
    /// Directories of submodules that are still there, with the commit where that is another one.
    modules: Vec<(TreePath, Option<String>)>,
}

/// Walks, hashes and compares. `live`: a job lives, so no stat that is seen now is believed later.
pub(crate) fn seal(
    guest: &mut Guest,
    verdict: bool,
    live: bool,
    rules: &ScratchRules,
    files: &[File],
) -> Outcome<Reply> {
    seal_as(guest, Mounts::Layers, (verdict, live), rules, files)
}

/// The verdict seal of a directory that is no workspace: nothing is known of it before
/// but the submodules of the base: an empty directory is one of them, and a repository there says its commit.
pub(crate) fn directory(
    source: &Path,
    home: &Path,
    (rules, modules): (&ScratchRules, Vec<Entry>),
    files: &[File],
) -> Outcome<Reply> {
    let mut reader =
        Guest::new(source, home, None).map_err(|e| Fault::io("opening the directory that is judged", &e))?;
    reader.known = Manifest::new(modules);
    let reply = seal_as(&mut reader, Mounts::Foreign, (true, false), rules, files)?;
    // The reply is the difference to nothing, and the contents of the base's entries are the host's already.
    Ok(match reply {
        Reply::Sealed(sealed) => {
            let delta = delta(&Manifest::default(), &reader.known);
            Reply::Sealed(Sealed { delta, ..sealed })
        }
        other => other,
    })
}

/// What a directory on another mount is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mounts {
    /// Ours: a layer, which is environment.
    Layers,
    /// Somebody's: a part of what was to be judged, which cannot be.
    Foreign,
}

fn seal_as(
    guest: &mut Guest,
    mounts: Mounts,
    (verdict, live): (bool, bool),
    rules: &ScratchRules,
    files: &[File],
) -> Outcome<Reply> {
    let segment = first_file(files)?;
    let scratch = Scratch::compile(rules).map_err(|e| Fault::bad_request(e.to_string()))?;
    let modules: HashMap<&[u8], &Entry> = guest
        .known
        .entries()
        .iter()
        .filter(|entry| entry.mode == EntryMode::Gitlink)
        .map(|entry| (entry.path.as_bytes(), entry))
        .collect();
    let mut survey = survey(&guest.root, &scratch, &modules, mounts == Mounts::Foreign)
        .map_err(|e| Fault::io("walking the workspace", &e))?;
    let mut moved: Vec<(Digest, String)> = Vec::new();
    let mut at: Vec<Entry> = Vec::new();
    for (path, commit) in std::mem::take(&mut survey.modules) {
        match commit {
            Some(commit) => {
                let digest = Digest::of(commit.as_bytes());
                at.push(entry(path, EntryMode::Gitlink, commit.len() as u64, digest));
                moved.push((digest, commit));
            }
            None => at.extend(modules.get(path.as_bytes()).map(|entry| (*entry).clone())),
        }
    }
    match mounts {
        Mounts::Layers => survey.scratch.append(&mut survey.mounts),
        Mounts::Foreign => survey.unsealable.extend(
            survey
                .mounts
                .iter()
                .map(|path| format!("{}: another file system is mounted here", shown_bytes(path))),
        ),
    }
    let mut writer = SegmentWriter::new(segment);
    for (digest, commit) in moved {
        writer.append(digest, commit.as_bytes()).map_err(|e| Fault::io("writing new contents", &e))?;
    }
    let writer = Mutex::new(writer);
    let (mut entries, seen, failed) = read_items(guest, &survey.items, verdict, &writer)
        .map_err(|e| Fault::io("reading the workspace", &e))?;
    survey.unsealable.extend(failed);
    entries.extend(at);
    let located = writer
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .finish()
        .map_err(|e| Fault::io("writing new contents", &e))?;

    let manifest = Manifest::new(entries);
    if verdict {
        note_aliases(&manifest, &mut survey.normalised);
    }
    let delta = delta(&guest.known, &manifest);
    let touched = match &guest.watch {
        Some(watch) if verdict => {
            let changed: std::collections::HashSet<&TreePath> =
                delta.put.iter().map(|entry| &entry.path).chain(&delta.remove).collect();
            let same = seen.iter().filter(|(path, ..)| !changed.contains(path));
            watch.touched(same.map(|(path, stat, ..)| (*path, stat)))
        }
        _ => Vec::new(),
    };
    for (path, stat, digest, at) in seen {
        if live {
            guest.stats.forget(path);
        } else {
            guest.stats.learn(path, &stat, digest, at);
        }
    }
    guest.stored.extend(located.iter().map(|l| l.digest));
    let tree = manifest.digest();
    guest.known = manifest;
    let scratch_sizes = if verdict { sizes(&guest.root, &survey.scratch) } else { Vec::new() };
    guest.scratch = Some(scratch);
    survey.unsealable.sort();
    survey.normalised.truncate(MAX_LINES);
    Ok(Reply::Sealed(Sealed {
        tree,
        delta,
        located,
        unsealable: survey.unsealable,
        normalised: survey.normalised,
        touched,
        scratch: scratch_sizes,
    }))
}

fn delta(before: &Manifest, after: &Manifest) -> Delta {
    let mut delta = Delta::default();
    for change in before.changes_to(after) {
        match change.after {
            Some(entry) => delta.put.push(entry),
            None => delta.remove.push(change.path),
        }
    }
    delta
}

/// `foreign`: the directory may hold repositories of its submodules, which say at which commit they are. In a workspace
/// nothing that is done moves one.
fn survey(
    root: &Root,
    scratch: &Scratch,
    modules: &HashMap<&[u8], &Entry>,
    foreign: bool,
) -> io::Result<Survey> {
    let mut out = Survey::default();
    // Directories that are scratch but hold paths of the base.
    let mut mixed: std::collections::HashSet<Vec<u8>> = std::collections::HashSet::new();
    walk(root, |path, found| {
        let (parent, name) = crate::confined::split(path);
        let ruled = !mixed.is_empty() && mixed.contains(parent);
        // What lies in a submodule's directory belongs to another repository: no patch of this one can carry it.
        if modules.contains_key(parent)
            && !matches!(found, Found::EmptyDir | Found::Mount)
            && scratch.judge(path, matches!(found, Found::Dir), ruled) != Judgement::Scratch
        {
            out.unsealable.push(format!("{}: it lies in the directory of a submodule", shown_bytes(path)));
            return false;
        }
        match found {
            Found::Dir | Found::EmptyDir if modules.contains_key(path) => {
                let (Found::Dir, Ok(tree_path)) = (found, TreePath::new(path)) else { return true };
                let commit = if foreign { module::commit(root, path) } else { None };
                let is_repository = commit.is_some();
                if is_repository {
                    // Its files belong to that repository, and this one delivers the commit alone.
                    out.scratch.push(path.to_vec());
                }
                out.modules.push((tree_path, commit));
                !is_repository
            }
            Found::Dir => {
                if TreePath::is_dot_git(name) {
                    if scratch.judge(path, true, ruled) != Judgement::Scratch {
                        out.unsealable.push(format!("{}: a repository inside the tree", shown_bytes(path)));
                    }
                    return false;
                }
                match scratch.judge(path, true, ruled) {
                    Judgement::Tree => true,
                    Judgement::Mixed => {
                        mixed.insert(path.to_vec());
                        true
                    }
                    Judgement::Scratch => {
                        out.scratch.push(path.to_vec());
                        false
                    }
                }
            }
            Found::EmptyDir => {
                note(&mut out.normalised, path, "an empty directory is not part of a tree");
                false
            }
            Found::Mount => {
                out.mounts.push(path.to_vec());
                false
            }
            Found::Failed(e) => {
                out.unsealable.push(format!("{}: {e}", shown_bytes(path)));
                false
            }
            Found::Leaf { kind, stat } => {
                if scratch.judge(path, false, ruled) == Judgement::Scratch {
                    out.scratch.push(path.to_vec());
                    return false;
                }
                if !matches!(kind, FileType::RegularFile | FileType::Symlink) {
                    out.unsealable.push(format!("{}: {}", shown_bytes(path), type_name(kind)));
                    return false;
                }
                match TreePath::new(path) {
                    Ok(path) => {
                        if kind == FileType::RegularFile {
                            note_mode(&mut out.normalised, path.as_bytes(), stat.st_mode);
                        }
                        out.items.push(Item { path, kind, stat: *stat });
                    }
                    Err(why) => out.unsealable.push(format!("{}: {why}", shown_bytes(path))),
                }
                false
            }
        }
    })?;
    Ok(out)
}

fn note(lines: &mut Vec<String>, path: &[u8], what: &str) {
    if lines.len() < MAX_LINES {
        lines.push(format!("{}: {what}", shown_bytes(path)));
    }
}

/// Modes that any umask makes of 666 and 777 are ordinary; others are worth a line.
fn note_mode(lines: &mut Vec<String>, path: &[u8], mode: u32) {
    let bits = mode & 0o7777;
    let executes = bits & 0o111;
    let reads = (bits & 0o444) >> 2;
    let ordinary = bits & 0o7000 == 0
        && bits & 0o600 == 0o600
        && (executes == 0 || (executes & 0o100 != 0 && executes & !reads & 0o011 == 0));
    if !ordinary {
        let kept = if bits & 0o100 != 0 { "755" } else { "644" };
        note(lines, path, &format!("mode {bits:o} is kept as {kept}"));
    }
}

/// Two paths that one file system would hold as one file.
fn note_aliases(manifest: &Manifest, lines: &mut Vec<String>) {
    let mut folded: HashMap<String, &TreePath> = HashMap::with_capacity(manifest.entries().len());
    for entry in manifest.entries() {
        let key = String::from_utf8_lossy(entry.path.as_bytes()).to_lowercase();
        if let Some(first) = folded.insert(key, &entry.path) {
            let text = format!("differs from `{first}` only in case");
            note(lines, entry.path.as_bytes(), &text);
        }
    }
}

type SeenFile<'a> = (&'a TreePath, Stat, Digest, i128);

/// The entries, what may be cached, and what could not be read.
fn read_items<'a>(
    guest: &Guest,
    items: &'a [Item],
    verdict: bool,
    writer: &Mutex<SegmentWriter<'_>>,
) -> io::Result<(Vec<Entry>, Vec<SeenFile<'a>>, Vec<String>)> {
    let mut entries = Vec::with_capacity(items.len());
    let mut wanted = Vec::new();
    for item in items {
        match guest.stats.get(&item.path, &item.stat).filter(|_| !verdict) {
            Some(digest) => {
                entries.push(entry(item.path.clone(), mode_of(item), size_of(&item.stat), digest))
            }
            None => wanted.push(item),
        }
    }
    // Small pieces, so that one large file does not leave a thread idle.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let (mut entries, mut seen, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = wanted.get(at) else { return Ok((entries, seen, failed)) };
            let time = now();
            match read_item(guest, item, writer) {
                Ok(Some((entry, stat))) => {
                    seen.push((&item.path, stat, entry.digest, time));
                    entries.push(entry);
                }
                Ok(None) => {}
                Err(e) if is_disk(&e) => return Err(e),
                Err(e) => failed.push(format!("{}: {e}", item.path)),
            }
        }
    };
    let threads = if wanted.len() < 32 { 1 } else { THREADS };
    let parts: Vec<io::Result<_>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut parts = vec![work()];
        let bug = || io::Error::other("a reader ended with a bug");
        parts.extend(others.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(bug()))));
        parts
    });
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    for part in parts {
        let (more, saw, lost) = part?;
        entries.extend(more);
        seen.extend(saw);
        failed.extend(lost);
    }
    Ok((entries, seen, failed))
}

/// Errors of the disk that we write to end the seal; errors of a file make that file unsealable.
fn is_disk(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn mode_of(item: &Item) -> EntryMode {
    mode_from(item.kind, &item.stat)
}

fn mode_from(kind: FileType, stat: &Stat) -> EntryMode {
    match kind {
        FileType::Symlink => EntryMode::Symlink,
        _ if stat.st_mode & 0o100 != 0 => EntryMode::Executable,
        _ => EntryMode::File,
    }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Reads one item and stores its content if the host has none. None: it is gone.
fn read_item(
    guest: &Guest,
    item: &Item,
    writer: &Mutex<SegmentWriter<'_>>,
) -> io::Result<Option<(Entry, Stat)>> {
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let store = |digest: Digest, bytes: &[u8]| {
        if guest.stored.contains(&digest) {
            return Ok(());
        }
        writer.lock().unwrap_or_else(PoisonError::into_inner).append(digest, bytes)
    };
    if item.kind == FileType::Symlink {
        let target = match guest.root.read_link(item.path.as_bytes()) {
            Err(e) if gone(&e) => return Ok(None),
            other => other?,
        };
        let digest = Digest::of(&target);
        store(digest, &target)?;
        let entry = entry(item.path.clone(), EntryMode::Symlink, target.len() as u64, digest);
        return Ok(Some((entry, item.stat)));
    }
    let (mut file, stat) = match guest.root.file(item.path.as_bytes()) {
        Err(e) if gone(&e) => return Ok(None),
        other => other?,
    };
    // What a commit brought along may stay as large as it is.
    let known = guest.known.get(&item.path).map_or(0, |entry| entry.size);
    if size_of(&stat) > known {
        not_too_large(size_of(&stat))?;
    }
    let (digest, size) = if size_of(&stat) <= IN_MEMORY {
        let bytes = read_all(&mut file, size_of(&stat))?;
        let digest = Digest::of(&bytes);
        store(digest, &bytes)?;
        (digest, bytes.len() as u64)
    } else {
        read_large(guest, (&mut file, size_of(&stat)), writer)?
    };
    Ok(Some((entry(item.path.clone(), mode_from(item.kind, &stat), size, digest), stat)))
}

/// Hashes first and copies only what is new; what changed in between is copied under the digest of the copy.
fn read_large(
    guest: &Guest,
    (file, limit): (&mut File, u64),
    writer: &Mutex<SegmentWriter<'_>>,
) -> io::Result<(Digest, u64)> {
    let mut buffer = vec![0; 1 << 20];
    let mut hasher = Hasher::new();
    let mut size = 0;
    let mut reader = (&*file).take(limit);
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                size += n as u64;
            }
        }
    }
    let digest = hasher.finish();
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    if guest.stored.contains(&digest) || writer.has(&digest) {
        return Ok((digest, size));
    }
    file.seek(SeekFrom::Start(0))?;
    let mut sink = writer.stream()?;
    let mut copied = 0;
    let mut reader = (&*file).take(limit);
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            n => {
                sink.write(&buffer[..n])?;
                copied += n as u64;
            }
        }
    }
    Ok((sink.finish().0, copied))
}

/// Bytes below each scratch path, the largest first.
fn sizes(root: &Root, paths: &[Vec<u8>]) -> Vec<(String, u64)> {
    let mut left = MAX_SCRATCH_ENTRIES;
    let mut out: Vec<(String, u64)> =
        paths.iter().map(|path| (shown_bytes(path), size_below(root, path, &mut left))).collect();
    out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out.truncate(MAX_LINES);
    out
}

fn size_below(root: &Root, path: &[u8], left: &mut usize) -> u64 {
    let mut total = 0;
    let mut waiting = vec![path.to_vec()];
    while let Some(path) = waiting.pop() {
        if *left == 0 {
            return total;
        }
        *left -= 1;
        let Ok(stat) = root.stat(&path) else { continue };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            total += size_of(&stat);
            continue;
        }
        // A layer is not what the agent left behind.
        let names = root.dir(&path).and_then(|dir| match root.is_other_mount(&dir)? {
            true => Ok(Vec::new()),
            false => crate::confined::entries(&dir),
        });
        waiting.extend(names.unwrap_or_default().iter().map(|(n, _)| [&path, &b"/"[..], n].concat()));
    }
    total
}
