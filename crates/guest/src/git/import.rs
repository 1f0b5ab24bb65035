//! From a commit (and a work tree) to manifest, segment and workspace.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use countersign_tree::{EntryMode, Manifest, TreePath};
use countersign_types::Digest;
use rustix::fs::{FileType, Stat};

use super::cat::{CatFile, Header};
use super::commit::{self, Commit, GitEntry};
use super::{GitBase, Oid, git_command, repository, run_ok};
use crate::confined::{Root, read_all, split, type_name};
use crate::fault::Outcome;
use crate::protocol::{Fault, Imported};
use crate::segment::SegmentWriter;
use crate::state::{Guest, Placer, entry, first_file};

/// Contents of at most this many bytes are held in memory on their way to the workspace.
const IN_MEMORY: u64 = 4 << 20;
/// Contents that may wait for the writer: with [`IN_MEMORY`] this bounds the memory of an import.
const QUEUE: usize = 16;
/// Lines about files that were left out.
pub(crate) const MAX_SKIPPED: usize = 100;

/// What an import found, before the guest's state takes it over.
#[derive(Debug, Default)]
pub(crate) struct Import {
    pub(crate) entries: Vec<countersign_tree::Entry>,
    pub(crate) stats: Vec<(TreePath, Stat)>,
    pub(crate) skipped: Vec<String>,
}

impl Import {
    pub(crate) fn skip(&mut self, path: &[u8], why: &str) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(format!("{}: {why}", crate::fault::shown_bytes(path)));
        }
    }
}

/// The id of the commit that `rev` names.
pub(crate) fn resolve(git_dir: &Path, rev: &str) -> Outcome<String> {
    repository::inspect(git_dir)?;
    let mut cat = CatFile::start(git_dir)?;
    let (oid, _) = commit::find(&mut cat, git_dir, rev)?;
    Ok(oid.to_string())
}

/// Imports one commit.
pub(crate) fn git(
    guest: &mut Guest,
    git_dir: &Path,
    rev: &str,
    write_workspace: bool,
    files: &[File],
) -> Outcome<Imported> {
    let segment = first_file(files)?;
    repository::inspect(git_dir)?;
    let mut cat = CatFile::start(git_dir)?;
    let commit = commit::read(&mut cat, git_dir, rev)?;
    let mut writer = SegmentWriter::new(segment);
    let mut import = Import::default();
    let root = write_workspace.then_some(&guest.root);
    let oids = fetch(&mut cat, &commit.entries, &mut writer, root, segment, &mut import)?;
    guest.oids.extend(oids);
    let located = writer.finish().map_err(|e| Fault::io("writing the contents", &e))?;
    let manifest = Manifest::new(import.entries);
    let id = commit.oid.to_string();
    guest.base = Some(GitBase::new(commit));
    guest.now_at(manifest.clone(), if write_workspace { import.stats } else { Vec::new() });
    Ok(Imported {
        commit: Some(id),
        dirty: Vec::new(),
        entries: manifest.entries().to_vec(),
        located,
        skipped: import.skipped,
    })
}

/// One content and where it goes.
struct Job {
    content: Content,
    places: Vec<usize>,
}

#[derive(Clone)]
enum Content {
    Memory(Arc<[u8]>),
    /// In the segment at this offset.
    Segment {
        offset: u64,
        len: u64,
    },
}

/// Fetches every distinct blob once, in path order, to the segment and (on a second thread) to its paths.
pub(super) fn fetch(
    cat: &mut CatFile,
    wanted: &[GitEntry],
    writer: &mut SegmentWriter<'_>,
    root: Option<&Root>,
    segment: &File,
    import: &mut Import,
) -> Outcome<HashMap<Digest, Oid>> {
    let mut places: HashMap<Oid, Vec<usize>> = HashMap::with_capacity(wanted.len());
    let mut order = Vec::with_capacity(wanted.len());
    let is_link = |(_, entry): &(usize, &GitEntry)| entry.mode == EntryMode::Gitlink;
    let links: Vec<(usize, &GitEntry)> = wanted.iter().enumerate().filter(is_link).collect();
    for (at, entry) in wanted.iter().enumerate().filter(|item| !is_link(item)) {
        places
            .entry(entry.oid)
            .or_insert_with(|| {
                order.push(entry.oid);
                Vec::new()
            })
            .push(at);
    }
    cat.ask_all(order.iter().copied());

    std::thread::scope(|scope| {
        let (queue, jobs) = sync_channel::<Job>(QUEUE);
        let placing = root.map(|root| scope.spawn(move || place_all(root, wanted, segment, jobs)));
        let mut oids = HashMap::with_capacity(order.len());
        let fetched = (|| {
            // The commit is another repository's, and nothing of it is asked for.
            for (at, link) in links {
                let id = link.oid.to_string();
                let digest = Digest::of(id.as_bytes());
                writer.append(digest, id.as_bytes()).map_err(|e| Fault::io("writing the contents", &e))?;
                import.entries.push(entry(link.path.clone(), link.mode, id.len() as u64, digest));
                let content = Content::Memory(id.into_bytes().into());
                if placing.is_some() && queue.send(Job { content, places: vec![at] }).is_err() {
                    break;
                }
            }
            for oid in &order {
                let places = places.remove(oid).unwrap_or_default();
                let (digest, len, content) = fetch_one(cat, *oid, writer, &wanted[places[0]])?;
                oids.insert(digest, *oid);
                for at in &places {
                    let wanted = &wanted[*at];
                    import.entries.push(entry(wanted.path.clone(), wanted.mode, len, digest));
                }
                if placing.is_some() && queue.send(Job { content, places }).is_err() {
                    // The writer ended early: its error is the one to tell.
                    break;
                }
            }
            Ok(())
        })();
        drop(queue);
        let placed = placing.map(|p| p.join());
        fetched?;
        match placed {
            None => {}
            Some(Ok(stats)) => import.stats = stats.map_err(|e| Fault::io("writing the workspace", &e))?,
            Some(Err(_)) => return Err(Fault::bad_request("the workspace writer ended with a bug")),
        }
        Ok(oids)
    })
}

fn fetch_one(
    cat: &mut CatFile,
    oid: Oid,
    writer: &mut SegmentWriter<'_>,
    first: &GitEntry,
) -> Outcome<(Digest, u64, Content)> {
    let size = match cat.header()? {
        Header::Object { kind, size, oid: found } if kind == "blob" && found == oid => size,
        Header::Missing => {
            let fault = commit::missing("blob", oid);
            return Err(Fault::repository(format!("`{}`: {}", first.path, fault.message)));
        }
        _ => return Err(Fault::repository(format!("`{}`: {oid} is not a blob", first.path))),
    };
    let disk = |e: io::Error| Fault::io("writing the contents", &e);
    if size <= IN_MEMORY {
        let bytes = cat.whole(oid, "blob", size)?;
        let digest = Digest::of(&bytes);
        writer.append(digest, &bytes).map_err(disk)?;
        return Ok((digest, size, Content::Memory(bytes.into())));
    }
    let mut sink = writer.stream().map_err(disk)?;
    cat.body((oid, "blob", size), |chunk| sink.write(chunk).map_err(disk))?;
    let (digest, offset) = sink.finish();
    Ok((digest, size, Content::Segment { offset, len: size }))
}

fn place_all(
    root: &Root,
    wanted: &[GitEntry],
    segment: &File,
    jobs: Receiver<Job>,
) -> io::Result<Vec<(TreePath, Stat)>> {
    let mut placer = Placer::new(root);
    let mut stats = Vec::with_capacity(wanted.len());
    for job in jobs {
        for at in job.places {
            let GitEntry { path, mode, .. } = &wanted[at];
            let stat = placer.place(path, *mode, &mut |out| match &job.content {
                Content::Memory(bytes) => out.write_all(bytes),
                Content::Segment { offset, len } => copy_range(segment, *offset, *len, out),
            })?;
            stats.push((path.clone(), stat));
        }
    }
    Ok(stats)
}

fn copy_range(file: &File, offset: u64, len: u64, out: &mut dyn io::Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).unwrap_or(buffer.len()).min(buffer.len());
        file.read_exact_at(&mut buffer[..want], offset + done)?;
        out.write_all(&buffer[..want])?;
        done += want as u64;
    }
    Ok(())
}

/// Imports a work tree as it is on disk: tracked files, and untracked ones that are not ignored.
pub(crate) fn dirty(
    guest: &mut Guest,
    (git_dir, work_tree): (&Path, &Path),
    rev: &str,
    write_workspace: bool,
    files: &[File],
) -> Outcome<Imported> {
    let segment = first_file(files)?;
    repository::inspect(git_dir)?;
    repository::inspect_work_tree(work_tree)?;
    let mut cat = CatFile::start(git_dir)?;
    let commit = commit::read(&mut cat, git_dir, rev)?;
    let (paths, sparse) = list(git_dir, work_tree)?;
    let source = Root::open(work_tree, None).map_err(|e| Fault::io("opening the work tree", &e))?;

    let mut writer = SegmentWriter::new(segment);
    let mut import = Import::default();
    let mut placer = write_workspace.then(|| Placer::new(&guest.root));
    let mut absent = HashSet::new();
    let mut oids: HashMap<TreePath, (EntryMode, Oid)> = HashMap::new();
    let modules: HashMap<&TreePath, &GitEntry> =
        commit.entries.iter().filter(|e| e.mode == EntryMode::Gitlink).map(|e| (&e.path, e)).collect();
    let mut kept: Vec<GitEntry> = Vec::new();
    for raw in paths {
        let path = match TreePath::new(raw.as_slice()) {
            Ok(path) => path,
            Err(why) => {
                import.skip(&raw, &why.to_string());
                continue;
            }
        };
        // Which commit a submodule's own repository is at is not looked up in it: it stays where the commit has it.
        if let Some(module) = modules.get(&path)
            && source.dir(path.as_bytes()).is_ok()
        {
            kept.push((*module).clone());
            continue;
        }
        match read_raw(&source, &raw) {
            Ok((mode, bytes)) => {
                let digest = Digest::of(&bytes);
                let oid = Oid::of("blob", &bytes);
                guest.oids.insert(digest, oid);
                oids.insert(path.clone(), (mode, oid));
                writer.append(digest, &bytes).map_err(|e| Fault::io("writing the contents", &e))?;
                if let Some(placer) = &mut placer {
                    let stat = placer
                        .place(&path, mode, &mut |out| out.write_all(&bytes))
                        .map_err(|e| Fault::io("writing the workspace", &e))?;
                    import.stats.push((path.clone(), stat));
                }
                import.entries.push(entry(path, mode, bytes.len() as u64, digest));
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                absent.insert(path);
            }
            Err(e) => import.skip(&raw, &e.to_string()),
        }
    }
    // A sparse checkout leaves files out on purpose: they are as the commit has them.
    let left_out: Vec<GitEntry> = commit
        .entries
        .iter()
        .filter(|e| absent.contains(&e.path) && sparse.contains(e.path.as_bytes()))
        .cloned()
        .chain(kept)
        .collect();
    let root = write_workspace.then_some(&guest.root);
    let mut more = Import::default();
    let fetched = fetch(&mut cat, &left_out, &mut writer, root, segment, &mut more)?;
    guest.oids.extend(fetched);
    import.entries.append(&mut more.entries);
    import.stats.append(&mut more.stats);
    oids.extend(left_out.into_iter().map(|e| (e.path, (e.mode, e.oid))));

    let located = writer.finish().map_err(|e| Fault::io("writing the contents", &e))?;
    let manifest = Manifest::new(import.entries);
    let dirty = differing(&commit, &oids, &manifest);
    let id = commit.oid.to_string();
    guest.base = Some(GitBase::new(commit));
    guest.now_at(manifest.clone(), if write_workspace { import.stats } else { Vec::new() });
    Ok(Imported {
        commit: Some(id),
        dirty,
        entries: manifest.entries().to_vec(),
        located,
        skipped: import.skipped,
    })
}

fn differing(
    commit: &Commit,
    found: &HashMap<TreePath, (EntryMode, Oid)>,
    manifest: &Manifest,
) -> Vec<TreePath> {
    let committed: HashMap<&TreePath, (EntryMode, Oid)> =
        commit.entries.iter().map(|e| (&e.path, (e.mode, e.oid))).collect();
    let mut out: Vec<TreePath> = manifest
        .entries()
        .iter()
        .filter(|e| committed.get(&e.path) != found.get(&e.path))
        .map(|e| e.path.clone())
        .chain(committed.keys().filter(|p| manifest.get(p).is_none()).map(|p| (*p).clone()))
        .collect();
    out.sort();
    out
}

/// Paths of the index and untracked ones, and among them those that a sparse checkout leaves out.
type Listed = (Vec<Vec<u8>>, HashSet<Vec<u8>>);

fn list(git_dir: &Path, work_tree: &Path) -> Outcome<Listed> {
    let mut command = git_command(git_dir);
    command.env("GIT_WORK_TREE", work_tree).current_dir(work_tree);
    command.args(["ls-files", "-t", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed =
        run_ok(command, b"", "listing the work tree").map_err(|e| Fault::repository(e.to_string()))?;
    let mut seen = HashSet::new();
    let mut sparse = HashSet::new();
    let mut paths = Vec::new();
    for line in listed.split(|b| *b == 0) {
        let Some((tag, path)) = line.split_first_chunk::<2>() else { continue };
        if tag == b"S " {
            sparse.insert(path.to_vec());
        }
        if seen.insert(path.to_vec()) {
            paths.push(path.to_vec());
        }
    }
    Ok((paths, sparse))
}

/// A file or link as it is on disk, without any filter.
pub(crate) fn read_raw(source: &Root, path: &[u8]) -> io::Result<(EntryMode, Vec<u8>)> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let stat = source.stat(path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Ok((EntryMode::Symlink, source.read_link(path)?)),
        FileType::RegularFile => {
            let (mut file, stat) = source.file(path)?;
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mode = if stat.st_mode & 0o100 != 0 { EntryMode::Executable } else { EntryMode::File };
            Ok((mode, read_all(&mut file, size)?))
        }
        FileType::Directory => {
            let (_, name) = split(path);
            let name = crate::fault::shown_bytes(name);
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is a repository of its own")))
        }
        other => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}", type_name(other)))),
    }
}
