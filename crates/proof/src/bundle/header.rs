use countersign_types::SessionId;
use serde::{Deserialize, Serialize};

use crate::key::{KeyId, PublicKey};
use crate::sign::Signer;

/// What is written.
pub const FORMAT: &str = "countersign.bundle/2";

/// What was written once, and is read for ever: the turn's statement named every file, and the task by its plain digest.
pub const EARLIER_FORMATS: &[&str] = &["countersign.bundle/1"];

/// `bundle.json`: which turn this is about and how it is signed. Nothing in it is believed on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`], or one of [`EARLIER_FORMATS`].
    pub format: String,
    pub session: SessionId,
    pub turn: u32,
    pub created_at: String,
    pub signing: Signing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Signing {
    /// The keys, so that a reader who does not know them can at least see whether the signatures are theirs.
    Signed {
        runner: Box<SignerName>,
        verifier: Box<SignerName>,
    },
    Unsigned {
        reason: UnsignedReason,
        detail: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignerName {
    pub key_id: KeyId,
    pub public: PublicKey,
}

impl SignerName {
    #[must_use]
    pub fn of(signer: &dyn Signer) -> Self {
        let public = signer.public();
        Self { key_id: public.id(), public }
    }
}

/// Why a bundle has no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsignedReason {
    /// The `host` tier does not isolate: what ran there could have changed whatever would have been signed.
    HostTier,
    /// No key was given.
    NoKey,
    /// The signer could not sign.
    SignerFailed,
}

impl UnsignedReason {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HostTier => "host_tier",
            Self::NoKey => "no_key",
            Self::SignerFailed => "signer_failed",
        }
    }
}
