//! Verdicts that lie beside a bundle: other verifiers who say the same of it, or not.

use std::collections::{BTreeMap, BTreeSet};

use countersign_types::{Digest, Millis, Strength};

use super::report::BadVerdict;
use super::signatures::{Keys, trusted};
use super::statements::Statements;
use super::{Bundle, Options, Report, SignatureState};
use crate::dsse;
use crate::key::Role;
use crate::layout::SUMS;
use crate::sign::{SignError, Signer};
use crate::statement::{Resource, Statement, VERIFIER, Verdict, VerdictResult, Verifier, level, strength_of};
use crate::time::{parse_rfc3339, rfc3339};

/// Why no further verdict was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountersignError {
    #[error("the bundle is not intact or not signed; nothing can be said about it")]
    NotIntact,
    #[error("{0}")]
    Sign(#[from] SignError),
}

/// Another verifier's verdict over a bundle that was verified: the bundle's own with this verifier's result, time and
/// versions. It names the bundle by the sha256 of its `SHA256SUMS`, and lies beside it, never in it; [`super::verify`]
/// takes any number of them and counts the trusted verifiers. `result` is what this verifier saw itself, and `strength` how
/// much it means; the verdict claims no more than the bundle does.
pub fn countersign(
    report: &Report,
    result: VerdictResult,
    strength: Option<Strength>,
    at: Millis,
    versions: BTreeMap<String, String>,
    signer: &dyn Signer,
) -> Result<Vec<u8>, CountersignError> {
    let signed = matches!(report.signature, SignatureState::Trusted | SignatureState::UnknownSigner);
    let (Some(own), Some(sums), true, true) = (&report.verdict, report.digest, report.intact(), signed)
    else {
        return Err(CountersignError::NotIntact);
    };
    let mut verdict = own.clone();
    let predicate = &mut verdict.predicate;
    predicate.verifier = Verifier { id: VERIFIER.to_owned(), version: versions };
    predicate.time_verified = rfc3339(at);
    let claimed = report.claims.as_ref().and_then(|claims| claims.strength);
    let weaker = claimed.zip(strength).map(|(one, other)| Strength {
        level: one.level.min(other.level),
        in_process: one.in_process || other.in_process,
    });
    predicate.verification_result = result;
    predicate.verified_levels = level(result, weaker);
    predicate.input_attestations.push(Resource::file(SUMS, sums));
    // It was read from canonical JSON, so it can be written as such.
    let payload = verdict.to_bytes().map_err(|_| CountersignError::NotIntact)?;
    Ok(dsse::seal(signer, &payload)?)
}

/// What verifiers say of a bundle, by their names in the trust file.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// With the strength that the verdict gives; of several by one verifier the strongest.
    pub(super) passed: BTreeMap<String, Option<Strength>>,
    /// In a verdict beside the bundle; what the bundle's own says is among its claims.
    pub(super) failed: BTreeSet<String>,
    /// Verdicts by keys that the trust file does not know.
    pub(super) unknown: u64,
    /// Of another bundle, or not to be believed. The bundle itself is as good as it was.
    pub(super) bad: Vec<BadVerdict>,
}

impl Said {
    fn passed(&mut self, name: String, strength: Option<Strength>) {
        let level =
            |strength: &Option<Strength>| strength.map(|strength| (strength.level, !strength.in_process));
        let best = self.passed.entry(name).or_insert(strength);
        if level(best) < level(&strength) {
            *best = strength;
        }
    }
}

/// The trusted verifiers that say PASSED or FAILED: the bundle's own and those of the verdicts beside it. A verdict that
/// is not about this bundle, or whose signature is bad, counts for nothing and is told; one of an unknown verifier is only
/// counted as such.
pub(super) fn said(
    bundle: &Bundle,
    read: &Statements,
    keys: Option<&Keys>,
    sums: Option<Digest>,
    options: &Options<'_>,
) -> Said {
    let mut said = Said::default();
    if let (Some((_, own)), Some(name)) = (&read.verdict, keys.and_then(|keys| keys.verifier.name.as_ref()))
        && own.predicate.verification_result == VerdictResult::Passed
    {
        said.passed(name.clone(), strength_of(&own.predicate.verified_levels));
    }
    for (number, bytes) in (1_u64..).zip(options.verdicts) {
        match one(bundle, read, sums, bytes, options) {
            Ok(Some((name, verdict))) => match verdict.verification_result {
                VerdictResult::Passed => said.passed(name, strength_of(&verdict.verified_levels)),
                VerdictResult::Failed => {
                    said.failed.insert(name);
                }
            },
            Ok(None) => said.unknown += 1,
            Err(why) => said.bad.push(BadVerdict { number, why }),
        }
    }
    said
}

/// Who says what in one verdict; None: nobody whom the trust file knows.
fn one(
    bundle: &Bundle,
    read: &Statements,
    sums: Option<Digest>,
    bytes: &[u8],
    options: &Options<'_>,
) -> Result<Option<(String, Verdict)>, String> {
    let sealed = dsse::open(bytes).map_err(|e| e.to_string())?;
    let Some(key) = options.trust.by_id(&sealed.key_id) else { return Ok(None) };
    if !(sealed.is_by(&key.public) && sealed.names(&key.public)) {
        return Err(format!("the signature is not that of key `{}`", key.name));
    }
    let statement: Statement<Verdict> = Statement::read(&sealed.payload).map_err(|e| e.to_string())?;
    let mut told = Vec::new();
    let claimed = parse_rfc3339(&statement.predicate.time_verified);
    let name = trusted(&key.public, Role::Verifier, claimed, options, "the verdict", &mut told);
    if let Some(finding) = told.first() {
        return Err(finding.to_string());
    }
    let Some((_, own)) = &read.verdict else {
        return Err("the bundle's own verdict cannot be read".to_owned());
    };
    let bundle_is_named = statement.predicate.input_attestations.iter().any(|named: &Resource| {
        named.uri.as_deref() == Some(SUMS) && named.sha256().is_some() && named.sha256() == sums
    });
    let same_turn = statement.predicate.resource_uri == own.predicate.resource_uri;
    if !(bundle_is_named && same_turn && statement.subject == own.subject && bundle.signed) {
        return Err("it is about another bundle, or about one that is not signed".to_owned());
    }
    Ok(name.map(|name| (name, statement.predicate)))
}
