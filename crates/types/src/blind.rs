use std::fmt;

use crate::{Digest, DigestError, Hasher};

/// The bytes that sha256 works on at a time.
const BLOCK: usize = 64;

/// A session's own secret, which keeps texts from being guessed by their digests: a journal names the digest of a text
/// only through it. Whoever holds it can hold a text against such a digest; nobody else can.
#[derive(Clone, PartialEq, Eq)]
pub struct Blind([u8; 32]);

impl Blind {
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lowercase hex digits, as a bundle's transcript has them.
    #[must_use]
    pub fn hex(&self) -> String {
        Digest::from_bytes(self.0).hex()
    }

    /// Reads 64 lowercase hex digits.
    pub fn from_hex(text: &str) -> Result<Self, DigestError> {
        Digest::from_hex(text).map(|bytes| Self(*bytes.as_bytes()))
    }

    /// HMAC-SHA256 (RFC 2104) over the 32 bytes of `plain`, with this secret as the key. Equal texts of one session stay
    /// equal.
    #[must_use]
    pub fn hide(&self, plain: Digest) -> Digest {
        let keyed = |pad: u8, message: &[u8]| {
            let mut block = [pad; BLOCK];
            for (slot, byte) in block.iter_mut().zip(self.0) {
                *slot ^= byte;
            }
            let mut hasher = Hasher::new();
            hasher.update(&block);
            hasher.update(message);
            hasher.finish()
        };
        keyed(0x5c, keyed(0x36, plain.as_bytes()).as_bytes())
    }
}

impl fmt::Debug for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blind")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `openssl dgst -sha256 -mac HMAC -macopt hexkey:KEY` over the 32 bytes of `printf task | sha256sum`.
    #[test]
    fn it_is_hmac_as_every_machine_computes_it() {
        let mut key = [0; 32];
        for (slot, byte) in key.iter_mut().zip(0_u8..) {
            *slot = byte;
        }
        let hidden = Blind::from_bytes(key).hide(Digest::of(b"task"));
        assert_eq!(hidden.hex(), "abcf7fa3c631aeb6297631fd39a280d9fe198e8eebcfeaad5e911f1d74035db0");
        assert_ne!(Blind::from_bytes([0; 32]).hide(Digest::of(b"task")), hidden);
    }

    #[test]
    fn it_is_shown_only_where_that_is_asked_for() {
        let blind = Blind::from_bytes([7; 32]);
        assert_eq!(Blind::from_hex(&blind.hex()), Ok(blind));
        assert_eq!(format!("{:?}", Blind::from_bytes([7; 32])), "Blind");
    }
}
