//! Ed25519 keys: how they are named, written and read.

mod openssh;
mod pem;
mod secret;
mod trust;

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use countersign_types::Digest;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use secret::SecretKey;
pub use trust::{Role, TrustError, TrustFile, TrustedKey};

use crate::wire::{Reader, put_string};

pub(crate) fn armor(label: &str, bytes: &[u8]) -> String {
    pem::encode(label, bytes, 70)
}

pub(crate) fn dearmor(label: &str, text: &str) -> Result<zeroize::Zeroizing<Vec<u8>>, KeyError> {
    pem::decode(label, text)
}

/// Bytes of a signature.
pub const SIGNATURE_LEN: usize = 64;

/// The longest text of a key that is read. A real one has some hundreds of bytes.
pub const MAX_KEY_TEXT: usize = 16 * 1024;

const SSH_TYPE: &str = "ssh-ed25519";

/// What stands before the 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Why a key cannot be read. No message holds a part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the key text is longer than {MAX_KEY_TEXT} bytes")]
    TooLong,
    #[error(
        "this is no key that can be read: expected an OpenSSH or PKCS#8 PEM private key, or an `ssh-ed25519` line or PEM public key"
    )]
    Format,
    #[error("the key's PEM is damaged: {0}")]
    Pem(&'static str),
    #[error("only Ed25519 keys are used; this one is `{0}`")]
    Algorithm(String),
    #[error(
        "the private key is encrypted; load it into ssh-agent, or store it without a passphrase (`ssh-keygen -p`)"
    )]
    Encrypted,
    #[error("the key's fields contradict each other: {0}")]
    Damaged(&'static str),
    #[error("this public key is weak: anybody could sign for it")]
    Weak,
    #[error("no random bytes: {0}")]
    Random(String),
}

/// Names a public key: sha256 over its SubjectPublicKeyInfo in DER, as 64 lowercase hex digits.
/// `openssl pkey -pubin -in KEY.pem -outform DER | sha256sum` prints the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

impl KeyId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyId {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Digest::from_hex(text).map_err(|_| KeyError::Format)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for KeyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A public key that is not weak.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key =
            VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::Damaged("it is no point of the curve"))?;
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(Self(key)) }
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId(Digest::of(&self.spki()).hex())
    }

    /// Whether `signature` is this key's over `message`, by the strict rules (no small-order parts), so that one message
    /// and key have no second signature that somebody else could make of the first.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }

    /// SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn spki(&self) -> Vec<u8> {
        [&SPKI_PREFIX[..], self.as_bytes()].concat()
    }

    /// `-----BEGIN PUBLIC KEY-----`, as openssl and cosign read it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem::encode("PUBLIC KEY", &self.spki(), 64)
    }

    /// `ssh-ed25519 AAAA…`, without a comment.
    #[must_use]
    pub fn to_openssh(&self) -> String {
        format!("{SSH_TYPE} {}", STANDARD.encode(self.ssh_blob()))
    }

    /// `SHA256:…` as `ssh-keygen -l` prints it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Digest::of(&self.ssh_blob()).as_bytes()))
    }

    pub(crate) fn ssh_blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        put_string(&mut blob, SSH_TYPE.as_bytes());
        put_string(&mut blob, self.as_bytes());
        blob
    }

    pub(crate) fn from_ssh_blob(blob: &[u8]) -> Result<Self, KeyError> {
        let mut reader = Reader::new(blob);
        let kind = reader.string().ok_or(KeyError::Format)?;
        if kind != SSH_TYPE.as_bytes() {
            return Err(KeyError::Algorithm(crate::strict::shown(&String::from_utf8_lossy(kind))));
        }
        let bytes = reader.string().and_then(|bytes| <&[u8; 32]>::try_from(bytes).ok());
        match bytes {
            Some(bytes) if reader.is_empty() => Self::from_bytes(bytes),
            _ => Err(KeyError::Format),
        }
    }

    /// Reads an `ssh-ed25519` line (a comment may follow) or a PEM public key.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        if text.len() > MAX_KEY_TEXT {
            return Err(KeyError::TooLong);
        }
        let text = text.trim();
        if text.starts_with("-----BEGIN ") {
            let der = pem::decode("PUBLIC KEY", text)?;
            let bytes = der.strip_prefix(&SPKI_PREFIX[..]).and_then(|rest| <&[u8; 32]>::try_from(rest).ok());
            return Self::from_bytes(bytes.ok_or_else(|| KeyError::Algorithm("another one".into()))?);
        }
        let mut words = text.split_ascii_whitespace();
        let (Some(kind), Some(blob)) = (words.next(), words.next()) else { return Err(KeyError::Format) };
        if text.contains(['\n', '\r']) {
            return Err(KeyError::Format);
        }
        if kind != SSH_TYPE {
            let known = ["ssh-", "ecdsa-", "sk-"].iter().any(|start| kind.starts_with(start));
            return Err(if known {
                KeyError::Algorithm(crate::strict::shown(kind))
            } else {
                KeyError::Format
            });
        }
        Self::from_ssh_blob(&STANDARD.decode(blob).map_err(|_| KeyError::Format)?)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_openssh())
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_openssh())
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_key_has_two_spellings_and_one_id() {
        let key = SecretKey::from_seed(&[7; 32]).public();
        assert_eq!(PublicKey::read(&key.to_pem()), Ok(key.clone()));
        assert_eq!(PublicKey::read(&key.to_openssh()), Ok(key.clone()));
        assert_eq!(PublicKey::read(&format!("{} me@box\n", key.to_openssh())), Ok(key.clone()));
        assert_eq!(key.id().as_str(), Digest::of(&key.spki()).hex());
        assert_eq!(key.id().as_str().parse(), Ok(key.id()));
    }

    #[test]
    fn what_is_no_ed25519_key_says_why() {
        let good = SecretKey::from_seed(&[7; 32]).public().to_openssh();
        for text in [
            "",
            "ssh-ed25519",
            "hello",
            "ssh-ed25519 !!!!",
            &good[..good.len() - 2],
            &good.replace(' ', "\n"),
        ] {
            assert_eq!(PublicKey::read(text), Err(KeyError::Format), "{text:?}");
        }
        assert!(matches!(PublicKey::read("ssh-rsa AAAAB3Nz"), Err(KeyError::Algorithm(_))));
        assert!(matches!(
            PublicKey::read(&good.replacen("ssh-ed25519", "ssh-rsa", 1)),
            Err(KeyError::Algorithm(_))
        ));
        assert_eq!(PublicKey::read(&"x".repeat(MAX_KEY_TEXT + 1)), Err(KeyError::TooLong));
        // The neutral element: `0` would be everybody's signature for it.
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(PublicKey::from_bytes(&one), Err(KeyError::Weak));
    }
}
