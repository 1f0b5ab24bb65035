use std::collections::BTreeMap;
use std::fmt;

use countersign_types::{Digest, GateKey, Outcome, Reason, SessionId, Strength, Tier, TierProperty, Trust};
use serde::Serialize;

use super::{Finding, PolicyFailure};
use crate::bundle::UnsignedReason;
use crate::key::{KeyId, Role};
use crate::statement::{GateFacts, ModelUsed, Statement, Turn, Verdict};

/// Who signed. Only `trusted` says anything about where a bundle comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureState {
    /// Nobody, and the bundle says so itself.
    #[default]
    Absent,
    /// Signatures that are good for keys which the trust file does not know.
    UnknownSigner,
    /// Every signature is good and of a trusted key in its role.
    Trusted,
    /// A signature is bad, missing, of a key that may not make it, or over bytes that cannot be read.
    Broken,
}

impl fmt::Display for SignatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "unsigned",
            Self::UnknownSigner => "unknown signer",
            Self::Trusted => "trusted signer",
            Self::Broken => "broken signature",
        })
    }
}

/// A key that signed in a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignerSeen {
    pub role: Role,
    pub key_id: KeyId,
    /// The trust file's name for it; null: unknown.
    pub name: Option<String>,
}

/// What a bundle says of its turn. Worth as much as the report's signature and findings make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    pub session: SessionId,
    pub turn: u32,
    pub ended_at: String,
    pub outcome: Outcome,
    pub reason: Reason,
    pub exit_code: u8,
    pub rescued_from: Option<Reason>,
    pub strength: Option<Strength>,
    pub gates: BTreeMap<GateKey, GateFacts>,
    pub base_commit: Option<String>,
    pub base_tree: Option<Digest>,
    pub final_tree: Option<Digest>,
    pub patch: Option<Digest>,
    pub contract: Option<Digest>,
    pub trust: Option<Trust>,
    pub network: Option<String>,
    pub tier: Option<Tier>,
    pub observed: Vec<TierProperty>,
    pub models: Vec<ModelUsed>,
}

impl Claims {
    pub(super) fn of(turn: &Turn) -> Self {
        Self {
            session: turn.session.clone(),
            turn: turn.turn,
            ended_at: turn.ended_at.clone(),
            outcome: turn.outcome,
            reason: turn.reason,
            exit_code: turn.exit_code,
            rescued_from: turn.rescued_from,
            strength: turn.strength,
            gates: turn.gates.clone(),
            base_commit: turn.base_commit.clone(),
            base_tree: turn.base_tree,
            final_tree: turn.final_tree,
            patch: turn.patch,
            contract: turn.contract,
            trust: turn.trust,
            network: turn.network.clone(),
            tier: turn.tier,
            observed: turn.observed.clone(),
            models: turn.models.clone(),
        }
    }
}

/// A verdict beside the bundle that is of another bundle, damaged, or of a key that may not make it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadVerdict {
    /// The how manieth of those that were given, from 1.
    pub number: u64,
    pub why: String,
}

/// The answer of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// sha256 of `SHA256SUMS`; null where there is none that can be read.
    pub digest: Option<Digest>,
    pub files: u64,
    pub bytes: u64,
    pub signature: SignatureState,
    /// Why it is not signed, in the bundle's own words.
    pub unsigned: Option<UnsignedReason>,
    pub signers: Vec<SignerSeen>,
    /// Names of the trusted verifiers, each once, that say PASSED.
    pub passed_by: Vec<String>,
    /// How strong each of them says that it is; a verifier that does not say so is not in it.
    pub passed_strength: BTreeMap<String, Strength>,
    /// Names of the trusted verifiers, each once, that say FAILED in a verdict beside the bundle.
    pub failed_by: Vec<String>,
    /// How many verdicts beside the bundle are by keys that the trust file does not know. They count for nothing.
    pub unknown_verdicts: u64,
    /// Verdicts beside the bundle that say nothing of it. They are not the bundle's fault, and it is not accepted with them.
    pub bad_verdicts: Vec<BadVerdict>,
    pub claims: Option<Claims>,
    /// What is wrong; empty: intact. The first [`super::MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// How many findings there are besides.
    pub untold: u64,
    /// What the policy asks for and the bundle does not show.
    pub failures: Vec<PolicyFailure>,
    /// The bundle's own verdict, for whoever is to add another.
    #[serde(skip)]
    pub(super) verdict: Option<Statement<Verdict>>,
}

impl Report {
    /// Everything fits together. Says nothing about who made it.
    #[must_use]
    pub fn intact(&self) -> bool {
        self.digest.is_some() && self.claims.is_some() && self.findings.is_empty()
    }

    /// Intact, all that the policy asks for, and every verdict that came with it is about it.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.intact() && self.failures.is_empty() && self.bad_verdicts.is_empty()
    }
}

/// Whether a finding takes the worth of a signature away.
pub(super) fn is_about_signature(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::SignatureFormat { .. }
            | Finding::BadSignature { .. }
            | Finding::KeyIdSwapped { .. }
            | Finding::OtherSigner { .. }
            | Finding::WrongRole { .. }
            | Finding::KeyNotValid { .. }
    )
}
