//! Whoever can sign: a key in this process, a command, or an ssh-agent.

mod agent;
mod command;

use std::fmt::Debug;

pub use agent::AgentSigner;
pub use command::CommandSigner;

use crate::key::{KeyError, PublicKey, SIGNATURE_LEN, SecretKey};

/// Why nothing was signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("the signer `{signer}` could not be reached: {why}")]
    Unreachable { signer: String, why: String },
    #[error("the signer `{signer}` did not answer within {seconds} s")]
    Timeout { signer: String, seconds: u64 },
    #[error("the signer `{signer}` refused: {why}")]
    Refused { signer: String, why: String },
    #[error("the signer `{signer}` gave an answer that is no signature: {why}")]
    Answer { signer: String, why: &'static str },
    /// It gave a signature, but not this key's over these bytes.
    #[error("the signer `{signer}` signed with another key than {key}, or something else")]
    WrongKey { signer: String, key: String },
    #[error("{0}")]
    Key(#[from] KeyError),
}

/// Makes Ed25519 signatures (RFC 8032, not prehashed) with one key.
pub trait Signer: Debug {
    fn public(&self) -> PublicKey;

    /// A signature over exactly these bytes. Ends within the signer's own time limit. Implementations that ask
    /// somebody else check the answer with [`Signer::public`] before they return it.
    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LEN], SignError>;
}

impl Signer for SecretKey {
    fn public(&self) -> PublicKey {
        Self::public(self)
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LEN], SignError> {
        Ok(Self::sign(self, message))
    }
}

/// Takes a foreign signer's answer only when it is what was asked for.
fn checked(
    signer: &str,
    public: &PublicKey,
    message: &[u8],
    raw: &[u8],
) -> Result<[u8; SIGNATURE_LEN], SignError> {
    let signature = <[u8; SIGNATURE_LEN]>::try_from(raw)
        .map_err(|_| SignError::Answer { signer: signer.to_owned(), why: "it has not 64 bytes" })?;
    if public.verifies(message, &signature) {
        Ok(signature)
    } else {
        Err(SignError::WrongKey { signer: signer.to_owned(), key: public.id().to_string() })
    }
}
