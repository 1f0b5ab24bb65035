//! The object store for trees: contents in segments, manifests by digest, and which manifest a commit has.
//!
//! ```text
//! segments/<hex>.seg   contents, one after the other, as one seal or import produced them; then the index that says
//!                      where each lies, and its length. <hex> is the sha256 of the index
//! trees/<hex>          a manifest's bytes; <hex> is its digest
//! trees/<hex>.loc      the segments that hold its contents, one name a line
//! bases/<commit>       the digest of a commit's manifest
//! ```
//! Every claim about a segment is hashed again before it is believed, here and on every read: the store never says
//! that bytes are there which are not.

mod disk;
mod index;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_types::{Digest, Hasher};
use serde::{Deserialize, Serialize};

use crate::Manifest;

/// Bytes read at once while a segment is hashed.
const READ_CHUNK: usize = 1 << 20;

/// Where the bytes of one digest lie: in the `segment`-th file of a list that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    pub digest: Digest,
    pub segment: u32,
    pub offset: u64,
    pub len: u64,
}

/// When adopted bytes are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the call returns.
    Sync,
    /// At the next [`ObjectStore::sync_pending`].
    Later,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The bytes at a claimed place have another digest.
    #[error("{}: the bytes at offset {offset}, length {len}, are not {digest}", path.display())]
    Mismatch { path: PathBuf, digest: Digest, offset: u64, len: u64 },
    /// A claim reaches beyond the file, overlaps another, or names a segment that was not passed.
    #[error("{}: the claimed place of {digest} (offset {offset}, length {len}) cannot be right", path.display())]
    Claim { path: PathBuf, digest: Digest, offset: u64, len: u64 },
    /// A file of the store itself is torn or changed.
    #[error("{}: the file is damaged ({what}); {digest} cannot be read from it", path.display())]
    Damaged { path: PathBuf, digest: Digest, what: &'static str },
    #[error("the tree {0} is not in the store")]
    NoTree(Digest),
    #[error("the content {0} is not in the store")]
    NoContent(Digest),
}

impl StoreError {
    /// The disk is full or a quota is reached: nothing is wrong with what is stored.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    move |source| StoreError::Io { path: path.to_owned(), source }
}

/// An empty segment file to write contents to. Dropping it without [`ObjectStore::adopt`] removes the file.
#[derive(Debug)]
pub struct NewSegment {
    /// Open for reading and writing. Pass a duplicate of it to the writer.
    pub file: File,
    path: PathBuf,
    adopted: bool,
}

impl Drop for NewSegment {
    fn drop(&mut self) {
        if !self.adopted {
            // It is swept at the next open when this fails.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Some contents and the files that hold them.
#[derive(Debug)]
pub struct Batch {
    /// Open for reading, in the order that [`Located::segment`] counts.
    pub files: Vec<File>,
    pub located: Vec<Located>,
}

/// The store. Cheap calls may come from several threads; several processes may share the directory.
#[derive(Debug)]
pub struct ObjectStore {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    segments: Vec<Segment>,
    by_name: HashMap<Digest, usize>,
    contents: HashMap<Digest, Place>,
    pending: BTreeSet<PathBuf>,
    temporary: u64,
}

#[derive(Debug)]
struct Segment {
    name: Digest,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    segment: usize,
    offset: u64,
    len: u64,
}

impl ObjectStore {
    /// Opens or makes the store in `dir`, readable by its owner only.
    ///
    /// # Errors
    /// The directories cannot be made or read.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = dir.into();
        for part in ["segments", "trees"] {
            disk::make_private_dir(&root.join(part))?;
        }
        disk::sweep(&root)?;
        Ok(Self { root, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is one assignment at the end of its checks: a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_temporary(&self) -> u64 {
        let mut state = self.state();
        state.temporary += 1;
        state.temporary
    }

    /// # Errors
    /// The file cannot be made.
    pub fn new_segment(&self) -> Result<NewSegment, StoreError> {
        let (path, file) = disk::create_temporary(&self.root.join("segments"), || self.next_temporary())?;
        Ok(NewSegment { file, path, adopted: false })
    }

    /// Takes over what was written to a segment, after hashing every claimed range. A wrong claim adopts nothing. A
    /// segment without claims is removed.
    ///
    /// # Errors
    /// [`StoreError::Claim`], [`StoreError::Mismatch`], or the disk's.
    pub fn adopt(
        &self,
        mut new: NewSegment,
        located: &[Located],
        durability: Durability,
    ) -> Result<(), StoreError> {
        if located.is_empty() {
            return Ok(());
        }
        let mut sorted: Vec<&Located> = located.iter().collect();
        sorted.sort_by_key(|l| (l.offset, l.len));
        verify(&new.file, &new.path, &sorted)?;

        let encoded = index::encode(&sorted);
        let name = Digest::of(&encoded);
        let dir = self.root.join("segments");
        let segment_path = segment_file(&dir, &name);
        let end = sorted.last().map_or(0, |l| l.offset + l.len);
        new.file
            .set_len(end)
            .and_then(|()| new.file.write_all_at(&index::with_length(encoded), end))
            .map_err(at(&new.path))?;
        // The index is in the same file, so that one sync makes both durable.
        if durability == Durability::Sync {
            new.file.sync_data().map_err(at(&new.path))?;
        }
        fs::rename(&new.path, &segment_path).map_err(at(&segment_path))?;
        new.adopted = true;
        if durability == Durability::Sync {
            disk::sync_dir(&dir)?;
        }

        let mut state = self.state();
        if durability == Durability::Later {
            state.pending.extend([segment_path, dir.clone()]);
        }
        let segment = state.segment(&dir, name);
        for l in sorted {
            let place = Place { segment, offset: l.offset, len: l.len };
            state.contents.entry(l.digest).or_insert(place);
        }
        Ok(())
    }

    /// Stores bytes that did not come from a cell, as a segment of their own. Known bytes are not stored again.
    ///
    /// # Errors
    /// The disk's.
    pub fn put(&self, bytes: &[u8], durability: Durability) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        if self.state().contents.contains_key(&digest) {
            return Ok(digest);
        }
        let new = self.new_segment()?;
        new.file.write_all_at(bytes, 0).map_err(at(&new.path))?;
        let located = Located { digest, segment: 0, offset: 0, len: bytes.len() as u64 };
        self.adopt(new, &[located], durability)?;
        Ok(digest)
    }

    /// Puts everything that was adopted with [`Durability::Later`] on the disk.
    ///
    /// # Errors
    /// The disk's; what could not be synced stays pending.
    pub fn sync_pending(&self) -> Result<(), StoreError> {
        let pending = std::mem::take(&mut self.state().pending);
        // Files before the directories that name them.
        let (dirs, files): (Vec<_>, Vec<_>) = pending.iter().partition(|p| p.is_dir());
        for path in files.into_iter().chain(dirs) {
            let synced = File::open(path).and_then(|f| f.sync_data()).map_err(at(path));
            if synced.is_err() {
                self.state().pending.extend(pending.iter().cloned());
            }
            synced?;
        }
        Ok(())
    }

    #[must_use]
    pub fn contains(&self, digest: &Digest) -> bool {
        self.state().contents.contains_key(digest)
    }

    /// Stores a manifest whose contents are all here, so that a later process finds both. A damaged copy is replaced.
    ///
    /// # Errors
    /// [`StoreError::NoContent`] names a content that was never adopted; or the disk's.
    pub fn put_manifest(&self, manifest: &Manifest, durability: Durability) -> Result<Digest, StoreError> {
        let bytes = manifest.encode();
        let digest = Digest::of(&bytes);
        let mut names = BTreeSet::new();
        {
            let state = self.state();
            for entry in manifest.entries() {
                let place = state.contents.get(&entry.digest).ok_or(StoreError::NoContent(entry.digest))?;
                names.insert(state.segments[place.segment].name);
            }
        }
        let dir = self.root.join("trees");
        let path = dir.join(digest.hex());
        let locator = dir.join(format!("{}.loc", digest.hex()));
        let names = index::encode_names(&names);
        let sync = durability == Durability::Sync;
        let mut wrote = false;
        // The locator first: a manifest that is there can be located.
        for (path, bytes) in [(&locator, &names), (&path, &bytes)] {
            if !disk::holds(path, bytes) {
                disk::write_atomic(path, bytes, sync, || self.next_temporary())?;
                wrote = true;
                if !sync {
                    self.state().pending.insert(path.clone());
                }
            }
        }
        if wrote && sync {
            disk::sync_dir(&dir)?;
        } else if wrote {
            self.state().pending.insert(dir);
        }
        Ok(digest)
    }

    /// Reads a manifest back and learns where its contents lie.
    ///
    /// # Errors
    /// [`StoreError::NoTree`], or [`StoreError::Damaged`] with the file and digest.
    pub fn manifest(&self, digest: &Digest) -> Result<Manifest, StoreError> {
        let dir = self.root.join("trees");
        let path = dir.join(digest.hex());
        let damaged =
            |path: &Path, what| StoreError::Damaged { path: path.to_owned(), digest: *digest, what };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(StoreError::NoTree(*digest)),
            Err(source) => return Err(StoreError::Io { path, source }),
        };
        if Digest::of(&bytes) != *digest {
            return Err(damaged(&path, "its bytes have another digest"));
        }
        let manifest = Manifest::decode(&bytes).ok_or_else(|| damaged(&path, "it is no manifest"))?;
        let locator = dir.join(format!("{}.loc", digest.hex()));
        let names = match fs::read(&locator) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(damaged(&locator, "it is gone")),
            other => other.map_err(at(&locator))?,
        };
        let names =
            index::decode_names(&names).ok_or_else(|| damaged(&locator, "it is no list of segments"))?;
        for name in names {
            self.learn(name)?;
        }
        let state = self.state();
        if let Some(missing) = manifest.entries().iter().find(|e| !state.contents.contains_key(&e.digest)) {
            return Err(StoreError::NoContent(missing.digest));
        }
        Ok(manifest)
    }

    /// Reads a segment's index once.
    fn learn(&self, name: Digest) -> Result<(), StoreError> {
        if self.state().by_name.contains_key(&name) {
            return Ok(());
        }
        let dir = self.root.join("segments");
        let path = segment_file(&dir, &name);
        let damaged = |what| StoreError::Damaged { path: path.clone(), digest: name, what };
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(damaged("it is gone")),
            other => other.map_err(at(&path))?,
        };
        let bytes = index::read_tail(&file)
            .map_err(at(&path))?
            .ok_or_else(|| damaged("its end is no segment index"))?;
        if Digest::of(&bytes) != name {
            return Err(damaged("its index has another digest"));
        }
        let located = index::decode(&bytes).ok_or_else(|| damaged("it is no segment index"))?;
        let mut state = self.state();
        let segment = state.segment(&dir, name);
        for l in located {
            let place = Place { segment, offset: l.offset, len: l.len };
            state.contents.entry(l.digest).or_insert(place);
        }
        Ok(())
    }

    /// Where contents lie, in batches of at most `max_segments` files. Each digest is in exactly one batch.
    ///
    /// # Errors
    /// [`StoreError::NoContent`], or a segment that cannot be opened.
    pub fn locate(&self, digests: &[Digest], max_segments: usize) -> Result<Vec<Batch>, StoreError> {
        let mut by_segment: HashMap<usize, Vec<(Digest, Place)>> = HashMap::new();
        let mut order = Vec::new();
        let mut seen = HashSet::with_capacity(digests.len());
        let state = self.state();
        for digest in digests {
            if !seen.insert(*digest) {
                continue;
            }
            let place = state.contents.get(digest).ok_or(StoreError::NoContent(*digest))?;
            by_segment
                .entry(place.segment)
                .or_insert_with(|| {
                    order.push(place.segment);
                    Vec::new()
                })
                .push((*digest, *place));
        }
        let mut batches = Vec::new();
        for chunk in order.chunks(max_segments.max(1)) {
            let mut batch = Batch { files: Vec::with_capacity(chunk.len()), located: Vec::new() };
            for (number, segment) in chunk.iter().enumerate() {
                let path = &state.segments[*segment].path;
                batch.files.push(File::open(path).map_err(at(path))?);
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                batch.located.extend(
                    by_segment.remove(segment).unwrap_or_default().into_iter().map(|(digest, p)| Located {
                        digest,
                        segment: number,
                        offset: p.offset,
                        len: p.len,
                    }),
                );
            }
            batches.push(batch);
        }
        Ok(batches)
    }

    /// As [`Self::locate`], in one batch whatever the number of segments: beyond `max_segments` the contents are
    /// copied, verified, to one unnamed file.
    ///
    /// # Errors
    /// As [`Self::locate`] and [`Self::read`].
    pub fn gather(&self, digests: &[Digest], max_segments: usize) -> Result<Batch, StoreError> {
        let mut batches = self.locate(digests, max_segments)?;
        match batches.len() {
            0 => return Ok(Batch { files: Vec::new(), located: Vec::new() }),
            1 => return Ok(batches.remove(0)),
            _ => {}
        }
        let copy = self.new_segment()?;
        let mut located = Vec::new();
        let mut offset = 0;
        for digest in batches.iter().flat_map(|b| &b.located).map(|l| l.digest) {
            let bytes = self.read(&digest)?;
            copy.file.write_all_at(&bytes, offset).map_err(at(&copy.path))?;
            located.push(Located { digest, segment: 0, offset, len: bytes.len() as u64 });
            offset += bytes.len() as u64;
        }
        let file = copy.file.try_clone().map_err(at(&copy.path))?;
        Ok(Batch { files: vec![file], located })
    }

    /// The bytes of one content, verified.
    ///
    /// # Errors
    /// [`StoreError::NoContent`]; [`StoreError::Mismatch`] when the segment was torn or changed.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let (path, place) = {
            let state = self.state();
            let place = *state.contents.get(digest).ok_or(StoreError::NoContent(*digest))?;
            (state.segments[place.segment].path.clone(), place)
        };
        let wrong = |path: &Path| StoreError::Mismatch {
            path: path.to_owned(),
            digest: *digest,
            offset: place.offset,
            len: place.len,
        };
        let file = File::open(&path).map_err(at(&path))?;
        let end = file.metadata().map_err(at(&path))?.len();
        if place.offset.checked_add(place.len).is_none_or(|e| e > end) {
            return Err(wrong(&path));
        }
        let mut bytes = vec![0; usize::try_from(place.len).map_err(|_| wrong(&path))?];
        file.read_exact_at(&mut bytes, place.offset).map_err(at(&path))?;
        if Digest::of(&bytes) != *digest {
            return Err(wrong(&path));
        }
        Ok(bytes)
    }
}

impl State {
    /// The number of a segment, made on first sight.
    fn segment(&mut self, dir: &Path, name: Digest) -> usize {
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        self.segments.push(Segment { name, path: segment_file(dir, &name) });
        let number = self.segments.len() - 1;
        self.by_name.insert(name, number);
        number
    }
}

fn segment_file(dir: &Path, name: &Digest) -> PathBuf {
    dir.join(format!("{}.seg", name.hex()))
}

/// Hashes every claimed range. `claims` are in the order of their offsets and may not overlap: a hostile list could
/// otherwise have one byte hashed without end.
fn verify(file: &File, path: &Path, claims: &[&Located]) -> Result<(), StoreError> {
    let end = file.metadata().map_err(at(path))?.len();
    let mut free_from = 0;
    let mut buffer = vec![0; READ_CHUNK];
    for l in claims {
        let stop = l.offset.checked_add(l.len).filter(|stop| *stop <= end);
        let (Some(stop), 0, true) = (stop, l.segment, l.offset >= free_from) else {
            let (digest, offset, len) = (l.digest, l.offset, l.len);
            return Err(StoreError::Claim { path: path.to_owned(), digest, offset, len });
        };
        free_from = stop;
        let mut hasher = Hasher::new();
        let mut offset = l.offset;
        while offset < stop {
            let want = usize::try_from(stop - offset).unwrap_or(READ_CHUNK).min(READ_CHUNK);
            file.read_exact_at(&mut buffer[..want], offset).map_err(at(path))?;
            hasher.update(&buffer[..want]);
            offset += want as u64;
        }
        if hasher.finish() != l.digest {
            let (digest, offset, len) = (l.digest, l.offset, l.len);
            return Err(StoreError::Mismatch { path: path.to_owned(), digest, offset, len });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
