//! SSH signatures over files (PROTOCOL.sshsig in OpenSSH's sources), as `ssh-keygen -Y sign` makes and
//! `ssh-keygen -Y verify` reads them.

use sha2::Digest as _;

use crate::key::{KeyError, PublicKey, SIGNATURE_LEN};
use crate::sign::{SignError, Signer};
use crate::wire::{Reader, put_string, put_u32};

/// What our signatures are for. One of another namespace (`git`, `file`) is not taken for ours.
pub const NAMESPACE: &str = "countersign";

/// The largest armored signature that is read, bytes. A real one has about 300.
pub const MAX_SIGNATURE_TEXT: usize = 16 * 1024;

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: usize = 1;
const HASH: &[u8] = b"sha512";
const LABEL: &str = "SSH SIGNATURE";
const SIGNATURE_TYPE: &[u8] = b"ssh-ed25519";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshSigError {
    #[error("it is no SSH signature")]
    Format,
    #[error("it is a signature for namespace `{0}`")]
    Namespace(String),
    #[error("its hash or its algorithm is not used here (sha512 or sha256, ssh-ed25519)")]
    Algorithm,
    #[error("{0}")]
    Key(KeyError),
    /// The embedded key did not make it over this message.
    #[error("it is not a signature of the key that it names over these bytes")]
    Bad,
}

/// Signs bytes. The armored text ends with a newline.
pub fn sign(signer: &dyn Signer, message: &[u8]) -> Result<String, SignError> {
    let signature = signer.sign(&signed_bytes(HASH, &sha2::Sha512::digest(message)))?;
    let mut blob = MAGIC.to_vec();
    put_u32(&mut blob, VERSION);
    put_string(&mut blob, &signer.public().ssh_blob());
    put_string(&mut blob, NAMESPACE.as_bytes());
    put_string(&mut blob, b"");
    put_string(&mut blob, HASH);
    let mut inner = Vec::new();
    put_string(&mut inner, SIGNATURE_TYPE);
    put_string(&mut inner, &signature);
    put_string(&mut blob, &inner);
    Ok(crate::key::armor(LABEL, &blob))
}

/// Checks a signature and gives the key that made it. Whether that key is trusted is another question.
pub fn verify(armored: &[u8], message: &[u8]) -> Result<PublicKey, SshSigError> {
    if armored.len() > MAX_SIGNATURE_TEXT {
        return Err(SshSigError::Format);
    }
    let text = std::str::from_utf8(armored).map_err(|_| SshSigError::Format)?;
    let blob = crate::key::dearmor(LABEL, text).map_err(|_| SshSigError::Format)?;
    // Nothing vouches for this text but itself, so it has one spelling.
    if crate::key::armor(LABEL, &blob) != text {
        return Err(SshSigError::Format);
    }
    let mut outer = Reader::new(blob.strip_prefix(MAGIC).ok_or(SshSigError::Format)?);
    if outer.u32() != Some(VERSION as u32) {
        return Err(SshSigError::Format);
    }
    let mut next = || outer.string().ok_or(SshSigError::Format);
    let (key, namespace, reserved, hash, signature) = (next()?, next()?, next()?, next()?, next()?);
    if !outer.is_empty() || !reserved.is_empty() {
        return Err(SshSigError::Format);
    }
    if namespace != NAMESPACE.as_bytes() {
        return Err(SshSigError::Namespace(crate::strict::shown(&String::from_utf8_lossy(namespace))));
    }
    let key = PublicKey::from_ssh_blob(key).map_err(SshSigError::Key)?;
    let digest = match hash {
        b"sha512" => sha2::Sha512::digest(message).to_vec(),
        b"sha256" => sha2::Sha256::digest(message).to_vec(),
        _ => return Err(SshSigError::Algorithm),
    };
    let mut inner = Reader::new(signature);
    if inner.string() != Some(SIGNATURE_TYPE) {
        return Err(SshSigError::Algorithm);
    }
    let raw = inner.string().filter(|raw| raw.len() == SIGNATURE_LEN && inner.is_empty());
    let raw = raw.ok_or(SshSigError::Format)?;
    if key.verifies(&signed_bytes(hash, &digest), raw) { Ok(key) } else { Err(SshSigError::Bad) }
}

fn signed_bytes(hash: &[u8], digest: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for part in [NAMESPACE.as_bytes(), b"", hash, digest] {
        put_string(&mut out, part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    #[test]
    fn a_signature_is_good_for_its_bytes_only() {
        let key = SecretKey::from_seed(&[3; 32]);
        let text = sign(&key, b"sums\n").unwrap();
        assert_eq!(verify(text.as_bytes(), b"sums\n"), Ok(key.public()));
        assert_eq!(verify(text.as_bytes(), b"sums"), Err(SshSigError::Bad));
        assert_eq!(verify(b"", b"sums\n"), Err(SshSigError::Format));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            assert!(verify(&other, b"sums\n").is_err(), "{at}");
        }
        for cut in 0..text.len() - 1 {
            assert!(verify(&text.as_bytes()[..cut], b"sums\n").is_err());
        }
    }
}
