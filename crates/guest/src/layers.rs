//! What a setup made, and digests over trees of the cell that are not the workspace's tree.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use countersign_tree::{Judgement, Scratch, ScratchRules};
use countersign_types::{Digest, Hasher};
use rustix::fs::{AtFlags, CWD, FileType, OFlags};

use crate::confined::{Root, entries, open_regular, type_name};
use crate::fault::{Outcome, shown_bytes};
use crate::protocol::{Fault, Reply};
use crate::state::Guest;
use crate::walk::{Found, walk, walk_from};

/// Paths that a reply carries at most.
const MAX_PATHS: usize = 1000;

/// The topmost scratch directories and files of the workspace, and everything that lies directly in HOME, as absolute
/// paths of the cell in path order. Empty directories are left out, and so is what is mounted: a cache that the setup
/// read is there again in every other cell, and a layer over it or around it would hide it.
pub(crate) fn list_setup_paths(guest: &Guest, rules: &ScratchRules) -> Outcome<Reply> {
    let scratch = Scratch::compile(rules).map_err(|e| Fault::bad_request(e.to_string()))?;
    let mut tops: Vec<Vec<u8>> = Vec::new();
    let mut mixed: Vec<Vec<u8>> = Vec::new();
    walk(&guest.root, |path, found| {
        let ruled = mixed.iter().any(|m| m.as_slice() == crate::confined::split(path).0);
        let is_dir = match found {
            Found::Dir => true,
            Found::Leaf { .. } => false,
            _ => return false,
        };
        match scratch.judge(path, is_dir, ruled) {
            Judgement::Tree => is_dir,
            Judgement::Mixed => {
                mixed.push(path.to_vec());
                true
            }
            Judgement::Scratch => {
                tops.push(path.to_vec());
                false
            }
        }
    })
    .map_err(|e| Fault::io("walking the workspace", &e))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut links: Vec<PathBuf> = Vec::new();
    add_made(&guest.root, &guest.workspace, tops, &mut paths, &mut links)
        .map_err(|e| Fault::io("walking the workspace", &e))?;
    match Root::open(&guest.home, None) {
        Ok(home) => home
            .dir(b"")
            .and_then(|dir| entries(&dir))
            .map(|names| names.into_iter().map(|(name, _)| name).collect())
            .and_then(|tops| add_made(&home, &guest.home, tops, &mut paths, &mut links))
            .map_err(|e| Fault::io("reading HOME", &e))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Fault::io("reading HOME", &e)),
    }
    if let Some(link) = links.first() {
        let shown = shown_bytes(link.as_os_str().as_encoded_bytes());
        return Err(Fault::environment(format!(
            "the setup made the symbolic link `{shown}`, which cannot be a layer: make a directory that holds it, or \
             the files themselves"
        )));
    }
    if paths.len() > MAX_PATHS {
        return Err(Fault::environment(format!("the setup made more than {MAX_PATHS} separate paths")));
    }
    let mut out = Vec::with_capacity(paths.len());
    for path in paths {
        match path.into_os_string().into_string() {
            Ok(path) => out.push(path),
            Err(path) => {
                let shown = shown_bytes(path.as_encoded_bytes());
                return Err(Fault::environment(format!("the setup made `{shown}`, whose name is not UTF-8")));
            }
        }
    }
    out.sort();
    Ok(Reply::Paths { paths: out })
}

/// Adds `tops`, paths below `root`, which lies at `at`: whole, but around mounts in parts. Links are told apart: in
/// another cell, or on the host, one could lead elsewhere.
fn add_made(
    root: &Root,
    at: &Path,
    tops: Vec<Vec<u8>>,
    out: &mut Vec<PathBuf>,
    links: &mut Vec<PathBuf>,
) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut waiting = tops;
    while let Some(path) = waiting.pop() {
        let absolute = at.join(std::ffi::OsStr::from_bytes(&path));
        let fd = root.open_at(&path, OFlags::PATH)?;
        if root.is_other_mount(&fd)? {
            continue;
        }
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::Directory => {}
            FileType::Symlink => {
                links.push(absolute);
                continue;
            }
            _ => {
                out.push(absolute);
                continue;
            }
        }
        let mut mounts = false;
        walk_from(root, &path, |_, found| {
            mounts |= matches!(found, Found::Mount);
            matches!(found, Found::Dir)
        })?;
        let below = entries(&root.dir(&path)?)?;
        if mounts {
            waiting.extend(below.iter().map(|(name, _)| [&path, &b"/"[..], name].concat()));
        } else if !below.is_empty() {
            out.push(absolute);
        }
    }
    Ok(())
}

/// The digest is sha256 over `countersign.paths/1\n` and one record for each thing found, in path order:
/// `TYPE SP MODE SP SIZE SP SHA256HEX SP PATH NUL`, where the content of a link is its target.
pub(crate) fn hash_paths(paths: &[String]) -> Outcome<Reply> {
    let mut total = Total { hasher: Hasher::new(), files: 0, bytes: 0 };
    total.hasher.update(b"countersign.paths/1\n");
    let mut sorted: Vec<&String> = paths.iter().collect();
    sorted.sort();
    sorted.dedup();
    for path in sorted {
        if !path.starts_with('/') {
            return Err(Fault::bad_request(format!("`{path}` is not absolute")));
        }
        hash_top(Path::new(path), &mut total).map_err(|e| Fault::io(format!("hashing `{path}`"), &e))?;
    }
    Ok(Reply::Hashed { digest: total.hasher.finish(), files: total.files, bytes: total.bytes })
}

struct Total {
    hasher: Hasher,
    files: u64,
    bytes: u64,
}

impl Total {
    fn add(&mut self, path: &[u8], kind: char, mode: u32, size: u64, content: Digest) {
        let head = format!("{kind} {:o} {size} {} ", mode & 0o7777, content.hex());
        self.hasher.update(head.as_bytes());
        self.hasher.update(path);
        self.hasher.update(b"\0");
        self.files += 1;
        self.bytes += size;
    }
}

fn hash_top(path: &Path, total: &mut Total) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = path.as_os_str().as_bytes();
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        let (parent, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
        let parent = Root::open(parent, None)?;
        return hash_leaf(&parent, name.as_bytes(), bytes, total);
    }
    total.add(bytes, 'd', stat.st_mode, 0, Digest::of(b""));
    let root = Root::open(path, None)?;
    let mut waiting = vec![Vec::new()];
    while let Some(dir) = waiting.pop() {
        let fd = root.dir(&dir)?;
        let mut below = Vec::new();
        for (name, kind) in entries(&fd)? {
            let inner = if dir.is_empty() { name.clone() } else { [&dir, &b"/"[..], &name].concat() };
            let full = [bytes, &b"/"[..], &inner].concat();
            if kind == FileType::Directory {
                let stat = rustix::fs::statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                total.add(&full, 'd', stat.st_mode, 0, Digest::of(b""));
                below.push(inner);
            } else {
                hash_leaf(&root, &inner, &full, total)?;
            }
        }
        waiting.extend(below.into_iter().rev());
    }
    Ok(())
}

fn hash_leaf(root: &Root, path: &[u8], full: &[u8], total: &mut Total) -> io::Result<()> {
    let (dir, name) = crate::confined::split(path);
    let dir = root.dir(dir)?;
    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&dir, name, Vec::new())?.into_bytes();
            // A link has no mode of its own.
            total.add(full, 'l', 0o777, target.len() as u64, Digest::of(&target));
        }
        FileType::RegularFile => {
            let (mut file, stat) = open_regular(&dir, name)?;
            let (size, digest) = hash_file(&mut file)?;
            total.add(full, 'f', stat.st_mode, size, digest);
        }
        other => {
            let kind = match other {
                FileType::Fifo => 'p',
                FileType::Socket => 's',
                _ => return Err(io::Error::other(format!("{} is {}", shown_bytes(full), type_name(other)))),
            };
            total.add(full, kind, stat.st_mode, 0, Digest::of(b""));
        }
    }
    Ok(())
}

fn hash_file(file: &mut File) -> io::Result<(u64, Digest)> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((size, hasher.finish())),
            n => {
                hasher.update(&buffer[..n]);
                size += n as u64;
            }
        }
    }
}
