//! Evidence that others can check: signed statements about a turn, the bundle that holds them with all that they speak
//! of, and the verification of a bundle that anybody may have touched.
//!
//! Architecture invariants: everything that is read is hostile until a trusted key vouches for it, and bounded before it
//! is read; verification is offline and starts no process; writing replaces nothing; no secret is shown by `{:?}`, an
//! error or a bundle; files are touched only in `bundle::write` and `verify::files`, the clock and the environment
//! nowhere. `docs/format.md` describes the files.
//!
//! ```
//! use countersign_proof::verify::{Options, Policy, verify};
//! use countersign_proof::{TrustFile, time::parse_rfc3339};
//!
//! let trust = TrustFile::read("version = 1\n")?;
//! let policy = Policy::read("version = 1\nrequire = \"verified\"\nmin_strength = \"ids\"\n")?;
//! let now = parse_rfc3339("2026-12-01T00:00:00Z").unwrap_or_default();
//! let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v2.bundle"));
//! let report = verify(dir, &Options { trust: &trust, policy: &policy, now, verdicts: &[] })?;
//! assert!(report.intact(), "nothing in it was touched");
//! assert!(!report.accepted(), "and nobody in the trust file vouches for it");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod bundle;
pub mod dsse;
pub mod journal;
mod key;
pub mod layout;
pub mod patch;
mod reveal;
mod sign;
pub mod sshsig;
pub mod statement;
mod strict;
pub mod time;
pub mod verify;
mod wire;

pub use key::{
    KeyError, KeyId, MAX_KEY_TEXT, PublicKey, Role, SIGNATURE_LEN, SecretKey, TrustError, TrustFile,
    TrustedKey,
};
pub use reveal::{MAX_REVEALED, Revealed, RevealedError};
pub use sign::{AgentSigner, CommandSigner, SignError, Signer};
pub use strict::{JsonError, read_exact, read_unique};
