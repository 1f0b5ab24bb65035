//! `openssh-key-v1`: the format of private keys that `ssh-keygen` writes (PROTOCOL.key in OpenSSH's sources).

use zeroize::Zeroizing;

use super::{KeyError, PublicKey, SSH_TYPE};
use crate::wire::{Reader, put_string, put_u32};

const MAGIC: &[u8] = b"openssh-key-v1\0";

/// What the private part is padded to for the cipher `none`, bytes.
const BLOCK: usize = 8;

/// The seed, the public key that the file names beside it, and the comment.
pub(super) fn read(bytes: &[u8]) -> Result<(Zeroizing<[u8; 32]>, PublicKey, String), KeyError> {
    const CUT: KeyError = KeyError::Damaged("it is cut");
    let mut outer =
        Reader::new(bytes.strip_prefix(MAGIC).ok_or(KeyError::Damaged("it has another magic number"))?);
    let cipher = outer.string().ok_or(CUT)?;
    let kdf = outer.string().ok_or(CUT)?;
    let options = outer.string().ok_or(CUT)?;
    if cipher != b"none" {
        return Err(KeyError::Encrypted);
    }
    if kdf != b"none" || !options.is_empty() {
        return Err(KeyError::Damaged("it has a passphrase's parameters and no cipher"));
    }
    if outer.u32().ok_or(CUT)? != 1 {
        return Err(KeyError::Damaged("it does not hold exactly one key"));
    }
    let public = PublicKey::from_ssh_blob(outer.string().ok_or(CUT)?)?;
    let mut inner = Reader::new(outer.string().ok_or(CUT)?);
    if !outer.is_empty() {
        return Err(KeyError::Damaged("something follows it"));
    }
    if inner.u32().ok_or(CUT)? != inner.u32().ok_or(CUT)? {
        return Err(KeyError::Damaged("its check numbers differ"));
    }
    let kind = inner.string().ok_or(CUT)?;
    if kind != SSH_TYPE.as_bytes() {
        return Err(KeyError::Algorithm(crate::strict::shown(&String::from_utf8_lossy(kind))));
    }
    let named = inner.string().ok_or(CUT)?;
    let pair = inner.string().ok_or(CUT)?;
    let comment = inner.string().ok_or(CUT)?;
    let padding = inner.rest();
    let padded = padding.len() < BLOCK && (1_u8..).zip(padding).all(|(want, got)| want == *got);
    let (seed, own) = pair.split_first_chunk::<32>().ok_or(KeyError::Damaged("its private part is short"))?;
    if named != public.as_bytes() || own != public.as_bytes() || !padded {
        return Err(KeyError::Damaged("its two public keys differ, or its padding is wrong"));
    }
    let comment = String::from_utf8_lossy(comment).into_owned();
    Ok((Zeroizing::new(*seed), public, comment))
}

/// The unencrypted form. `check` is any number; ssh-keygen takes a random one.
pub(super) fn write(seed: &[u8; 32], public: &PublicKey, comment: &str, check: u32) -> Zeroizing<Vec<u8>> {
    // Large enough that no copy is left behind when it grows.
    let mut inner = Zeroizing::new(Vec::with_capacity(256 + comment.len()));
    for _ in 0..2 {
        inner.extend_from_slice(&check.to_be_bytes());
    }
    put_string(&mut inner, SSH_TYPE.as_bytes());
    put_string(&mut inner, public.as_bytes());
    put_u32(&mut inner, 64);
    inner.extend_from_slice(seed);
    inner.extend_from_slice(public.as_bytes());
    put_string(&mut inner, comment.as_bytes());
    for byte in 1_u8.. {
        if inner.len().is_multiple_of(BLOCK) {
            break;
        }
        inner.push(byte);
    }
    let mut out = Zeroizing::new(Vec::with_capacity(256 + inner.len()));
    out.extend_from_slice(MAGIC);
    put_string(&mut out, b"none");
    put_string(&mut out, b"none");
    put_string(&mut out, b"");
    put_u32(&mut out, 1);
    put_string(&mut out, &public.ssh_blob());
    put_string(&mut out, &inner);
    out
}
