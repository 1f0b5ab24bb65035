use countersign_types::Millis;

use super::report::is_about_signature;
use super::{Bundle, Finding, KeysAt, Options, SignatureState, SignerSeen};
use crate::bundle::{Header, SignerName, SigningNote};
use crate::dsse::{self, Sealed};
use crate::key::{KeyId, PublicKey, Role};
use crate::layout::{HEADER, SUMS_SIGNATURE, StatementPart};
use crate::sshsig::{self, SshSigError};
use crate::time::parse_rfc3339;

/// The keys that a bundle names, and what the trust file makes of them.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) runner: RoleKey,
    pub(super) verifier: RoleKey,
}

#[derive(Debug)]
pub(super) struct RoleKey {
    pub(super) role: Role,
    pub(super) id: KeyId,
    pub(super) public: PublicKey,
    /// None: not in the trust file.
    pub(super) name: Option<String>,
}

impl Keys {
    /// None where the bundle says that it is not signed.
    pub(super) fn of(header: &Header, options: &Options<'_>, findings: &mut Vec<Finding>) -> Option<Self> {
        let SigningNote::Signed { runner, verifier } = &header.signing else { return None };
        let claimed = parse_rfc3339(&header.created_at);
        let mut key = |named: &SignerName, role: Role, path: &str| {
            if named.public.id() != named.key_id {
                findings.push(Finding::KeyIdSwapped { path: HEADER.to_owned() });
            }
            let name = trusted(&named.public, role, claimed, options, path, findings);
            RoleKey { role, id: named.public.id(), public: named.public.clone(), name }
        };
        Some(Self {
            runner: key(runner, Role::Runner, SUMS_SIGNATURE),
            verifier: key(verifier, Role::Verifier, &StatementPart::Verdict.path(true)),
        })
    }

    pub(super) fn seen(&self) -> Vec<SignerSeen> {
        let seen =
            |key: &RoleKey| SignerSeen { role: key.role, key_id: key.id.clone(), name: key.name.clone() };
        vec![seen(&self.runner), seen(&self.verifier)]
    }
}

/// The trust file's name for a key, if it may sign in this role at the claimed time and, by the policy, now.
pub(super) fn trusted(
    public: &PublicKey,
    role: Role,
    claimed: Option<Millis>,
    options: &Options<'_>,
    path: &str,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    let key = options.trust.by_public(public)?;
    if !key.roles.contains(&role) {
        findings.push(Finding::WrongRole { path: path.to_owned(), key: key.name.clone(), needs: role });
    }
    let then = claimed.is_some_and(|at| key.valid_at(at));
    let now = options.policy.keys_at == KeysAt::Claimed || key.valid_at(options.now);
    if !(then && now) {
        findings.push(Finding::KeyNotValid { path: path.to_owned(), key: key.name.clone() });
    }
    Some(key.name.clone())
}

/// The signature over `SHA256SUMS`.
pub(super) fn check_sums(
    bundle: &Bundle,
    keys: &Keys,
    sums: &[u8],
    buffer: &mut Vec<u8>,
    findings: &mut Vec<Finding>,
) {
    let path = SUMS_SIGNATURE.to_owned();
    if !bundle.files.sizes.contains_key(&path) {
        // Told as missing.
        return;
    }
    let armored = match bundle.files.read(&path, buffer) {
        Ok((bytes, _)) => bytes,
        Err(finding) => return findings.push(finding),
    };
    match sshsig::verify(&armored, sums) {
        Ok(public) if public == keys.runner.public => {}
        Ok(public) => findings.push(Finding::OtherSigner { path, key: public.id() }),
        Err(SshSigError::Bad) => findings.push(Finding::BadSignature { path }),
        Err(other) => findings.push(Finding::SignatureFormat { path, why: other.to_string() }),
    }
}

/// Opens a signed statement and gives its payload when the key that the bundle names for it signed it.
pub(super) fn open_statement(
    path: &str,
    bytes: &[u8],
    key: &RoleKey,
    findings: &mut Vec<Finding>,
) -> Option<Vec<u8>> {
    let path = path.to_owned();
    let sealed = match dsse::open(bytes) {
        Ok(sealed) => sealed,
        Err(e) => {
            findings.push(Finding::SignatureFormat { path, why: e.to_string() });
            return None;
        }
    };
    let Sealed { payload, key_id, .. } = &sealed;
    match (sealed.names(&key.public), sealed.is_by(&key.public)) {
        (true, true) => return Some(payload.clone()),
        (true, false) => findings.push(Finding::BadSignature { path }),
        (false, true) => findings.push(Finding::KeyIdSwapped { path }),
        (false, false) => findings.push(Finding::OtherSigner { path, key: key_id.clone() }),
    }
    None
}

/// One answer for the whole bundle.
pub(super) fn state(
    bundle: &Bundle,
    keys: Option<&Keys>,
    all_opened: bool,
    findings: &[Finding],
) -> SignatureState {
    let Some(keys) = keys else { return SignatureState::Absent };
    let has_sums = bundle.files.sizes.contains_key(SUMS_SIGNATURE);
    if !has_sums || !all_opened || findings.iter().any(is_about_signature) {
        SignatureState::Broken
    } else if keys.runner.name.is_some() && keys.verifier.name.is_some() {
        SignatureState::Trusted
    } else {
        SignatureState::UnknownSigner
    }
}
