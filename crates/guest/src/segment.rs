//! Contents on their way out of the cell (to the one segment of a request) and into it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use countersign_types::{Digest, Hasher};

use crate::protocol::Located;

/// Bytes that are collected before a write.
const BUFFER: usize = 1 << 20;
/// Bytes that are copied at once from file to file.
const COPY_CHUNK: usize = 1 << 18;

/// Appends distinct contents to a file, from offset 0.
#[derive(Debug)]
pub(crate) struct SegmentWriter<'a> {
    file: &'a File,
    flushed: u64,
    buffer: Vec<u8>,
    located: Vec<Located>,
    seen: HashSet<Digest>,
}

impl<'a> SegmentWriter<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self { file, flushed: 0, buffer: Vec::new(), located: Vec::new(), seen: HashSet::new() }
    }

    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.seen.contains(digest)
    }

    pub(crate) fn append(&mut self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        if !self.seen.insert(digest) {
            return Ok(());
        }
        let offset = self.flushed + self.buffer.len() as u64;
        self.located.push(Located { digest, segment: 0, offset, len: bytes.len() as u64 });
        if bytes.len() >= BUFFER {
            self.flush()?;
            self.file.write_all_at(bytes, self.flushed)?;
            self.flushed += bytes.len() as u64;
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends a content piece by piece, without holding it in memory.
    pub(crate) fn stream(&mut self) -> io::Result<Stream<'_, 'a>> {
        self.flush()?;
        Ok(Stream { hasher: Hasher::new(), len: 0, writer: self })
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_all_at(&self.buffer, self.flushed)?;
            self.flushed += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Cuts what no content claims and returns where each lies.
    pub(crate) fn finish(mut self) -> io::Result<Vec<Located>> {
        self.flush()?;
        self.file.set_len(self.flushed)?;
        Ok(self.located)
    }
}

/// A content of unknown digest that is being appended.
#[derive(Debug)]
pub(crate) struct Stream<'w, 'a> {
    writer: &'w mut SegmentWriter<'a>,
    hasher: Hasher,
    len: u64,
}

impl Stream<'_, '_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.writer.file.write_all_at(bytes, self.writer.flushed + self.len)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// The digest, and the offset in the file where the content lies: a second copy is given up.
    pub(crate) fn finish(self) -> (Digest, u64) {
        let digest = self.hasher.finish();
        let offset = self.writer.flushed;
        if self.writer.seen.insert(digest) {
            self.writer.located.push(Located { digest, segment: 0, offset, len: self.len });
            self.writer.flushed += self.len;
            return (digest, offset);
        }
        let first = self.writer.located.iter().find(|l| l.digest == digest);
        (digest, first.map_or(offset, |l| l.offset))
    }
}

/// Contents that came with a request.
#[derive(Debug)]
pub(crate) struct Segments<'a> {
    files: &'a [File],
    places: HashMap<Digest, &'a Located>,
}

impl<'a> Segments<'a> {
    pub(crate) fn new(files: &'a [File], located: &'a [Located]) -> Self {
        Self { files, places: located.iter().map(|l| (l.digest, l)).collect() }
    }

    fn place(&self, digest: &Digest) -> io::Result<(&'a File, &'a Located)> {
        let missing =
            || io::Error::new(io::ErrorKind::NotFound, format!("the content {digest} was not passed"));
        let located = *self.places.get(digest).ok_or_else(missing)?;
        let file = self.files.get(located.segment as usize).ok_or_else(missing)?;
        Ok((file, located))
    }

    /// The bytes of one content, verified.
    pub(crate) fn read(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let (file, located) = self.place(digest)?;
        let mut bytes = Vec::new();
        read_range(file, located, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    pub(crate) fn len(&self, digest: &Digest) -> io::Result<u64> {
        self.place(digest).map(|(_, l)| l.len)
    }

    /// Hands out the content piece by piece. The last piece comes before the digest is known: undo on an error.
    pub(crate) fn each(&self, digest: &Digest, take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let (file, located) = self.place(digest)?;
        read_range(file, located, take)
    }
}

fn read_range(
    file: &File,
    located: &Located,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; usize::try_from(located.len).unwrap_or(COPY_CHUNK).min(COPY_CHUNK)];
    let mut done = 0;
    while done < located.len {
        let want = usize::try_from(located.len - done).unwrap_or(COPY_CHUNK).min(COPY_CHUNK);
        file.read_exact_at(&mut buffer[..want], located.offset.saturating_add(done))?;
        hasher.update(&buffer[..want]);
        take(&buffer[..want])?;
        done += want as u64;
    }
    if hasher.finish() == located.digest {
        return Ok(());
    }
    let text = format!("the passed bytes are not {}", located.digest);
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}
