//! The bytes of a segment's index and of a manifest's locator.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use countersign_types::Digest;

use super::Located;

const HEADER: &[u8] = b"countersign.segment/1\n";
const RECORD: usize = 32 + 8 + 8;

/// Header, then digest, offset and length (big-endian) of each content.
pub(super) fn encode(located: &[&Located]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER.len() + located.len() * RECORD);
    out.extend_from_slice(HEADER);
    for l in located {
        out.extend_from_slice(l.digest.as_bytes());
        out.extend_from_slice(&l.offset.to_be_bytes());
        out.extend_from_slice(&l.len.to_be_bytes());
    }
    out
}

/// The tail of a segment: the index and its length.
pub(super) fn with_length(mut index: Vec<u8>) -> Vec<u8> {
    let length = index.len() as u64;
    index.extend_from_slice(&length.to_be_bytes());
    index
}

/// The index bytes at the end of a segment. None: the file cannot end in one.
pub(super) fn read_tail(file: &File) -> io::Result<Option<Vec<u8>>> {
    const LENGTH: u64 = 8;
    let end = file.metadata()?.len();
    let Some(length_at) = end.checked_sub(LENGTH) else { return Ok(None) };
    let mut length = [0; LENGTH as usize];
    file.read_exact_at(&mut length, length_at)?;
    let length = u64::from_be_bytes(length);
    let (Some(start), Ok(size)) = (length_at.checked_sub(length), usize::try_from(length)) else {
        return Ok(None);
    };
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, start)?;
    Ok(Some(bytes))
}

pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Located>> {
    let rest = bytes.strip_prefix(HEADER)?;
    let (records, tail) = rest.as_chunks::<RECORD>();
    if !tail.is_empty() {
        return None;
    }
    records
        .iter()
        .map(|r| {
            Some(Located {
                digest: Digest::from_bytes(r[..32].try_into().ok()?),
                segment: 0,
                offset: u64::from_be_bytes(r[32..40].try_into().ok()?),
                len: u64::from_be_bytes(r[40..].try_into().ok()?),
            })
        })
        .collect()
}

/// One hex name a line, and at last the digest of these lines.
pub(super) fn encode_names(names: &BTreeSet<Digest>) -> Vec<u8> {
    let lines: String = names.iter().map(|n| n.hex() + "\n").collect();
    format!("{lines}{}\n", Digest::of(lines.as_bytes())).into_bytes()
}

pub(super) fn decode_names(bytes: &[u8]) -> Option<Vec<Digest>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    let (lines, digest) = text.split_at(end);
    if Digest::of(lines.as_bytes()).to_string() != digest {
        return None;
    }
    lines.lines().map(|l| Digest::from_hex(l).ok()).collect()
}
