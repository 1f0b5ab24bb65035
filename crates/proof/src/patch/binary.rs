//! git's base85 and its deltas.

use super::{Encoded, PatchError};

const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// No letter of the alphabet.
const NONE: u8 = 255;

const VALUES: [u8; 256] = {
    let mut out = [NONE; 256];
    let mut at = 0;
    while at < 85 {
        out[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    out
};

/// Decodes and inflates one side. At most `limit` bytes come out.
pub(super) fn inflate(encoded: &Encoded<'_>, limit: usize) -> Result<Vec<u8>, PatchError> {
    let err = |why| PatchError { line: encoded.line, why };
    if encoded.size > limit {
        return Err(err("its binary content is larger than a bundle may hold"));
    }
    let mut deflated = Vec::with_capacity(encoded.text.len() / 5 * 4);
    for (line, text) in (encoded.line + 1..).zip(encoded.text.split(|byte| *byte == b'\n')) {
        if !text.is_empty() {
            decode_line(text, &mut deflated).ok_or(PatchError { line, why: "this is not git's base85" })?;
        }
    }
    // One byte more than it says, so that more is noticed.
    let inflated = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&deflated, encoded.size + 1);
    match inflated {
        Ok(bytes) if bytes.len() == encoded.size => Ok(bytes),
        _ => Err(err("its binary content cannot be inflated to the size that it says")),
    }
}

/// A letter for the number of bytes, then five letters for every four of them.
fn decode_line(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (first, letters) = text.split_first()?;
    let len = usize::from(match first {
        b'A'..=b'Z' => first - b'A' + 1,
        b'a'..=b'z' => first - b'a' + 27,
        _ => return None,
    });
    if letters.len() != len.div_ceil(4) * 5 {
        return None;
    }
    let start = out.len();
    for group in letters.chunks_exact(5) {
        let mut number = 0_u64;
        for letter in group {
            let value = VALUES[usize::from(*letter)];
            if value == NONE {
                return None;
            }
            number = number * 85 + u64::from(value);
        }
        out.extend_from_slice(&u32::try_from(number).ok()?.to_be_bytes());
    }
    out.truncate(start + len);
    Some(())
}

/// An instruction of a delta.
pub(super) enum Step<'a> {
    /// Bytes of the content before.
    Copy {
        at: usize,
        len: usize,
    },
    Insert(&'a [u8]),
}

/// Sizes before and after, and the instructions.
pub(super) fn delta(bytes: &[u8]) -> Option<(usize, usize, Vec<Step<'_>>)> {
    let (before, rest) = varint(bytes)?;
    let (after, mut rest) = varint(rest)?;
    let mut steps = Vec::new();
    while let Some((op, tail)) = rest.split_first() {
        rest = tail;
        if op & 0x80 == 0 {
            // 0 is reserved.
            let (insert, tail) = rest.split_at_checked(usize::from(*op)).filter(|_| *op != 0)?;
            rest = tail;
            steps.push(Step::Insert(insert));
            continue;
        }
        let mut field = |bits: std::ops::Range<u32>| -> Option<usize> {
            let mut number = 0;
            for (place, bit) in bits.enumerate() {
                if op & (1 << bit) != 0 {
                    let (byte, tail) = rest.split_first()?;
                    rest = tail;
                    number |= usize::from(*byte) << (8 * place);
                }
            }
            Some(number)
        };
        let at = field(0..4)?;
        let len = field(4..7)?;
        steps.push(Step::Copy { at, len: if len == 0 { 0x10000 } else { len } });
    }
    Some((before, after, steps))
}

/// Seven bits a byte, the lowest first.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(6) {
        number |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}
