//! The bytes of a segment's index and of a manifest's locator.

use std::collections::BTreeSet;

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

/// One hex name a line, closed by an empty line so that a torn file is seen.
pub(super) fn encode_names(names: &BTreeSet<Digest>) -> Vec<u8> {
    let mut out: String = names.iter().map(|n| n.hex() + "\n").collect();
    out.push('\n');
    out.into_bytes()
}

pub(super) fn decode_names(bytes: &[u8]) -> Option<Vec<Digest>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let lines = if text.is_empty() { "" } else { text.strip_suffix('\n')? };
    lines.lines().map(|l| Digest::from_hex(l).ok()).collect()
}
