use std::fmt;

use ed25519_dalek::{Signer as _, SigningKey};
use zeroize::Zeroizing;

use super::{KeyError, MAX_KEY_TEXT, PublicKey, SIGNATURE_LEN, openssh, pem};

/// PKCS#8 of an Ed25519 key up to its seed (RFC 8410, section 7), version 1, as openssl writes it.
const PKCS8_V1: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The same of version 2, where the public key follows the seed behind [`PKCS8_V2_PUBLIC`].
const PKCS8_V2: [u8; 16] =
    [0x30, 0x51, 0x02, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

const PKCS8_V2_PUBLIC: [u8; 3] = [0x81, 0x21, 0x00];

/// A private key. Its memory is overwritten when it is dropped, and neither `{:?}` nor any error shows a part of it.
pub struct SecretKey {
    key: SigningKey,
    comment: String,
}

impl SecretKey {
    /// A new key from the system's random numbers.
    pub fn generate(comment: &str) -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *seed).map_err(|e| KeyError::Random(e.to_string()))?;
        let clean = comment.chars().filter(|c| !c.is_control()).take(256).collect();
        Ok(Self { comment: clean, ..Self::from_seed(&seed) })
    }

    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self { key: SigningKey::from_bytes(seed), comment: String::new() }
    }

    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.key.verifying_key())
    }

    /// What the key's file says about it; often empty.
    #[must_use]
    pub fn comment(&self) -> &str {
        &self.comment
    }

    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.key.sign(message).to_bytes()
    }

    /// Reads an OpenSSH private key without a passphrase or a PKCS#8 PEM, from a file's or a variable's text.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        if text.len() > MAX_KEY_TEXT {
            return Err(KeyError::TooLong);
        }
        let text = text.trim();
        match pem::label(text) {
            Some(label @ "OPENSSH PRIVATE KEY") => {
                let (seed, named, comment) = openssh::read(&pem::decode(label, text)?)?;
                let key = Self { comment, ..Self::from_seed(&seed) };
                if key.public() == named {
                    Ok(key)
                } else {
                    Err(KeyError::Damaged("its public key is another one"))
                }
            }
            Some(label @ "PRIVATE KEY") => Self::from_pkcs8(&pem::decode(label, text)?),
            Some("ENCRYPTED PRIVATE KEY") => Err(KeyError::Encrypted),
            Some(label) if label.ends_with(" PRIVATE KEY") => {
                Err(KeyError::Algorithm(crate::strict::shown(label.trim_end_matches(" PRIVATE KEY"))))
            }
            _ => Err(KeyError::Format),
        }
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let other = || KeyError::Algorithm("another one".into());
        let seed_of =
            |rest: &[u8]| rest.first_chunk::<32>().map(Self::from_seed).ok_or(KeyError::Damaged("it is cut"));
        if let Some(rest) = der.strip_prefix(&PKCS8_V1[..]) {
            return if rest.len() == 32 {
                seed_of(rest)
            } else {
                Err(KeyError::Damaged("its length is wrong"))
            };
        }
        let rest = der.strip_prefix(&PKCS8_V2[..]).ok_or_else(other)?;
        let key = seed_of(rest)?;
        let public = rest[32..].strip_prefix(&PKCS8_V2_PUBLIC[..]);
        if public == Some(key.public().as_bytes()) {
            Ok(key)
        } else {
            Err(KeyError::Damaged("its public key is another one"))
        }
    }

    /// As `ssh-keygen -t ed25519 -N ''` writes it.
    pub fn to_openssh(&self) -> Result<Zeroizing<String>, KeyError> {
        let mut check = [0; 4];
        getrandom::fill(&mut check).map_err(|e| KeyError::Random(e.to_string()))?;
        let seed = Zeroizing::new(self.key.to_bytes());
        let bytes = openssh::write(&seed, &self.public(), &self.comment, u32::from_be_bytes(check));
        Ok(Zeroizing::new(pem::encode("OPENSSH PRIVATE KEY", &bytes, 70)))
    }

    /// As `openssl genpkey -algorithm ed25519` writes it.
    #[must_use]
    pub fn to_pkcs8_pem(&self) -> Zeroizing<String> {
        let mut der = Zeroizing::new(Vec::with_capacity(64));
        der.extend_from_slice(&PKCS8_V1);
        der.extend_from_slice(&*Zeroizing::new(self.key.to_bytes()));
        Zeroizing::new(pem::encode("PRIVATE KEY", &der, 64))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public().id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_key_reads_back_from_both_formats() {
        let key = SecretKey::generate("ci\n\u{1b}@box").unwrap();
        assert_eq!(key.comment(), "ci@box");
        let openssh = SecretKey::read(&key.to_openssh().unwrap()).unwrap();
        assert_eq!((openssh.public(), openssh.comment()), (key.public(), "ci@box"));
        let pkcs8 = SecretKey::read(&key.to_pkcs8_pem()).unwrap();
        assert_eq!(pkcs8.public(), key.public());
        assert_eq!(pkcs8.sign(b"x"), key.sign(b"x"));
    }

    #[test]
    fn nothing_shows_a_secret() {
        let key = SecretKey::from_seed(&[0x61; 32]);
        let shown = format!("{key:?}");
        assert!(!shown.contains(&"61".repeat(8)) && !shown.contains("aaaaaaaa"), "{shown}");
        let mut text = key.to_pkcs8_pem().to_string();
        text.truncate(60);
        let error = SecretKey::read(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("YWFhYWFh"));
    }

    #[test]
    fn damaged_keys_are_refused() {
        let key = SecretKey::from_seed(&[9; 32]);
        let (good, other) = (key.to_openssh().unwrap(), SecretKey::from_seed(&[8; 32]).public());
        let seed = [9; 32];
        let foreign = pem::encode("OPENSSH PRIVATE KEY", &openssh::write(&seed, &other, "", 1), 70);
        assert_eq!(
            SecretKey::read(&foreign).unwrap_err(),
            KeyError::Damaged("its public key is another one")
        );
        for cut in 0..good.len() - 1 {
            assert!(SecretKey::read(&good[..cut]).is_err(), "{cut}");
        }
        let v2 = [&PKCS8_V2[..], &seed, &PKCS8_V2_PUBLIC, key.public().as_bytes()].concat();
        assert!(SecretKey::read(&pem::encode("PRIVATE KEY", &v2, 64)).is_ok());
        let v2 = [&PKCS8_V2[..], &seed, &PKCS8_V2_PUBLIC, other.as_bytes()].concat();
        assert!(SecretKey::read(&pem::encode("PRIVATE KEY", &v2, 64)).is_err());
        for (label, bytes) in
            [("RSA PRIVATE KEY", &b"x"[..]), ("ENCRYPTED PRIVATE KEY", b"x"), ("PRIVATE KEY", b"x")]
        {
            assert!(SecretKey::read(&pem::encode(label, bytes, 64)).is_err(), "{label}");
        }
    }
}
