//! What somebody asks of a bundle before they act on it. Everything that is asked is asked of signed facts, and what is
//! unknown does not meet any demand.

use std::fmt;

use countersign_types::{Millis, Outcome, Strength, StrengthLevel, TierProperties, TierProperty};
use serde::{Deserialize, Serialize};

use super::{Report, SignatureState};
use crate::time::{parse_rfc3339, rfc3339};

const VERSION: u32 = 1;

/// The largest policy file that is read, bytes.
const MAX_TEXT: usize = 256 * 1024;

/// How much later than now a bundle may say it was made: clocks differ.
const CLOCK_SKEW: Millis = Millis::from_secs(300);

/// When a key must be valid, besides the time that the bundle gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeysAt {
    /// Now. The time in a bundle is its signer's word, and whoever stole an old key can write any.
    #[default]
    Now,
    /// Only then: for an archive whose age is known otherwise.
    Claimed,
}

/// The signature that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureDemand {
    #[default]
    Trusted,
    /// None at all, or by anybody: integrity is checked and nothing else.
    Any,
}

/// An admission policy. The default asks for an intact bundle by trusted signers that is not from the future, and nothing
/// else of what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub signature: SignatureDemand,
    pub keys_at: KeysAt,
    /// `--require verified`.
    pub require_verified: bool,
    /// Of the bundle, and of every verdict that counts for `verifiers`.
    pub min_strength: Option<StrengthLevel>,
    /// Refuse a strength that was seen from inside the judged process; of verdicts as above.
    pub out_of_process: bool,
    /// Properties that the working cell must have been seen to have.
    pub tier: TierProperties,
    /// Networks that are accepted; empty: any.
    pub network: Vec<String>,
    /// References of models that are accepted, `*` standing for anything; empty: any.
    pub models: Vec<String>,
    /// Names of the trust file that may sign; empty: every trusted key.
    pub signers: Vec<String>,
    /// How old a bundle may be.
    pub max_age: Option<Millis>,
    /// How many different trusted verifiers must say PASSED; 0 and 1 ask for no other than the bundle's own.
    pub verifiers: u32,
    /// Which verifiers count; empty: every trusted one.
    pub verifier_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyIn {
    version: u32,
    #[serde(default)]
    signature: SignatureDemand,
    #[serde(default)]
    keys_at: KeysAt,
    require: Option<Require>,
    min_strength: Option<StrengthLevel>,
    #[serde(default)]
    out_of_process: bool,
    tier: Option<Vec<TierProperty>>,
    network: Option<Vec<String>>,
    models: Option<Vec<String>>,
    signers: Option<Vec<String>>,
    max_age: Option<String>,
    #[serde(default)]
    verifiers: u32,
    verifier_names: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Require {
    Verified,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("the policy is longer than {MAX_TEXT} bytes")]
    TooLong,
    #[error("the policy cannot be read: {0}")]
    Syntax(String),
    #[error("the policy is of version {0}; this program reads version {VERSION}")]
    Version(u32),
    #[error("max_age: {0}; write for example \"30d\" or \"12h\"")]
    Age(String),
    #[error("{field}: {why}")]
    Field { field: &'static str, why: String },
}

impl Policy {
    /// Reads the TOML of a policy file. Unknown fields and values are errors, so that a misspelt demand is not none.
    pub fn read(text: &str) -> Result<Self, PolicyError> {
        if text.len() > MAX_TEXT {
            return Err(PolicyError::TooLong);
        }
        let read: PolicyIn =
            toml::from_str(text).map_err(|e| PolicyError::Syntax(e.to_string().trim().to_owned()))?;
        if read.version != VERSION {
            return Err(PolicyError::Version(read.version));
        }
        let field = |field, why: &str| Err(PolicyError::Field { field, why: why.to_owned() });
        // Whoever writes an empty list may mean "none" or "any": neither is guessed.
        let lists = [
            ("tier", read.tier.as_ref().is_some_and(Vec::is_empty)),
            ("network", read.network.as_ref().is_some_and(Vec::is_empty)),
            ("models", read.models.as_ref().is_some_and(Vec::is_empty)),
            ("signers", read.signers.as_ref().is_some_and(Vec::is_empty)),
            ("verifier_names", read.verifier_names.as_ref().is_some_and(Vec::is_empty)),
        ];
        if let Some((name, _)) = lists.into_iter().find(|(_, is_empty)| *is_empty) {
            return field(name, "it is empty: name what is accepted, or leave it out, which accepts any");
        }
        let (network, models) = (read.network.unwrap_or_default(), read.models.unwrap_or_default());
        let (signers, verifier_names) =
            (read.signers.unwrap_or_default(), read.verifier_names.unwrap_or_default());
        if network.iter().any(|network| network != "none" && network != "host") {
            return field("network", "expected `none` or `host`");
        }
        let named = u32::try_from(verifier_names.len()).unwrap_or(u32::MAX);
        if named > 0 && read.verifiers > named {
            return field("verifiers", "more are asked for than verifier_names has");
        }
        if matches!(read.signature, SignatureDemand::Any) && (!signers.is_empty() || read.verifiers > 1) {
            return field("signature", "`any` contradicts signers and verifiers");
        }
        Ok(Self {
            signature: read.signature,
            keys_at: read.keys_at,
            require_verified: matches!(read.require, Some(Require::Verified)),
            min_strength: read.min_strength,
            out_of_process: read.out_of_process,
            tier: read.tier.unwrap_or_default().into_iter().collect(),
            network,
            models,
            signers,
            max_age: read.max_age.map(|text| age(&text)).transpose()?,
            verifiers: read.verifiers,
            verifier_names,
        })
    }

    /// All that this policy asks for and the bundle does not show.
    pub(super) fn judge(&self, report: &Report, now: Millis) -> Vec<PolicyFailure> {
        let mut out = Vec::new();
        if self.signature == SignatureDemand::Trusted && report.signature != SignatureState::Trusted {
            out.push(PolicyFailure::Signature { is: report.signature });
        }
        if !self.signers.is_empty() {
            let names = report.signers.iter().map(|signer| signer.name.as_ref());
            for name in names.filter(|name| name.is_none_or(|name| !self.signers.contains(name))) {
                let failure = PolicyFailure::Signer { name: name.cloned() };
                if !out.contains(&failure) {
                    out.push(failure);
                }
            }
        }
        self.judge_verifiers(report, &mut out);
        // Who says FAILED of a turn that says so itself only agrees with it.
        if report.claims.as_ref().is_some_and(|claims| claims.outcome == Outcome::Verified) {
            out.extend(report.failed_by.iter().map(|name| PolicyFailure::Refused { name: name.clone() }));
        }
        let Some(claims) = &report.claims else {
            out.push(PolicyFailure::NothingClaimed);
            return out;
        };
        if self.require_verified && claims.outcome != Outcome::Verified {
            out.push(PolicyFailure::NotVerified { outcome: claims.outcome });
        }
        if let Some(wanted) = self.min_strength
            && claims.strength.is_none_or(|strength| strength.level < wanted)
        {
            out.push(PolicyFailure::TooWeak { strength: claims.strength, wanted });
        }
        if self.out_of_process && claims.strength.is_none_or(|strength| strength.in_process) {
            out.push(PolicyFailure::InProcess);
        }
        let missing: Vec<TierProperty> =
            self.tier.iter().filter(|property| !claims.observed.contains(property)).copied().collect();
        if !missing.is_empty() {
            out.push(PolicyFailure::Tier { missing });
        }
        let known = |network: &String| self.network.contains(network);
        if !self.network.is_empty() && !claims.network.as_ref().is_some_and(known) {
            out.push(PolicyFailure::Network { is: claims.network.clone() });
        }
        if !self.models.is_empty() {
            let accepted = |reference: &str| self.models.iter().any(|pattern| matches(pattern, reference));
            let other = claims.models.iter().filter(|model| !accepted(&model.reference));
            out.extend(other.map(|model| PolicyFailure::Model {
                role: model.role.clone(),
                reference: model.reference.clone(),
            }));
        }
        let ended_at = claims.ended_at.clone();
        match parse_rfc3339(&ended_at) {
            Some(at) if at <= now.saturating_add(CLOCK_SKEW) => {
                if self.max_age.is_some_and(|limit| now.saturating_sub(at) > limit) {
                    out.push(PolicyFailure::TooOld { ended_at });
                }
            }
            // Of what is dated ahead nobody can say how old it will be, so it is not kept for a policy with an age.
            _ => out.push(PolicyFailure::FromTheFuture { ended_at, now: rfc3339(now) }),
        }
        out
    }

    fn judge_verifiers(&self, report: &Report, out: &mut Vec<PolicyFailure>) {
        if self.verifiers == 0 && self.verifier_names.is_empty() {
            return;
        }
        let wanted = self.verifiers.max(1);
        let strong = |name: &String| {
            let strength = report.passed_strength.get(name);
            self.min_strength.is_none_or(|wanted| strength.is_some_and(|strength| strength.level >= wanted))
                && (!self.out_of_process || strength.is_some_and(|strength| !strength.in_process))
        };
        let named = |name: &String| self.verifier_names.is_empty() || self.verifier_names.contains(name);
        let counts = |name: &&String| named(name) && strong(name);
        let passed: Vec<String> = report.passed_by.iter().filter(counts).cloned().collect();
        if u32::try_from(passed.len()).unwrap_or(u32::MAX) < wanted {
            out.push(PolicyFailure::Verifiers { passed, wanted, at_least: self.min_strength });
        }
    }
}

/// `30d` or what [`Millis`] reads.
fn age(text: &str) -> Result<Millis, PolicyError> {
    const DAY_SECS: u64 = 86_400;
    let days: Option<u64> =
        text.strip_suffix('d').filter(|digits| digits.len() <= 6).and_then(|digits| digits.parse().ok());
    match days {
        Some(days) if days > 0 => Ok(Millis::from_secs(DAY_SECS * days)),
        _ => text.parse().map_err(|_| PolicyError::Age(crate::strict::shown(text))),
    }
}

/// `*` stands for any text, all else for itself.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A demand that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "failure")]
pub enum PolicyFailure {
    Signature {
        is: SignatureState,
    },
    /// Null: a signer that nobody trusts.
    Signer {
        name: Option<String>,
    },
    Verifiers {
        passed: Vec<String>,
        wanted: u32,
        /// The strength that a verdict had to have to count.
        at_least: Option<StrengthLevel>,
    },
    /// A trusted verifier says FAILED of a turn that is said to be verified, whoever else says PASSED.
    Refused {
        name: String,
    },
    /// The statement of the turn cannot be read, so there is nothing to judge.
    NothingClaimed,
    NotVerified {
        outcome: Outcome,
    },
    TooWeak {
        strength: Option<Strength>,
        wanted: StrengthLevel,
    },
    InProcess,
    Tier {
        missing: Vec<TierProperty>,
    },
    Network {
        is: Option<String>,
    },
    Model {
        role: String,
        reference: String,
    },
    TooOld {
        ended_at: String,
    },
    FromTheFuture {
        ended_at: String,
        now: String,
    },
}

impl fmt::Display for PolicyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature { is } => write!(f, "a trusted signature is asked for; this is: {is}"),
            Self::Signer { name: Some(name) } => {
                write!(f, "signer `{name}` is not among those that are accepted")
            }
            Self::Signer { name: None } => {
                write!(f, "an unknown signer is not among those that are accepted")
            }
            Self::Verifiers { passed, wanted, at_least } => {
                let level = at_least.map_or_else(String::new, |level| format!(" at `{level}` or above"));
                write!(
                    f,
                    "{wanted} verifiers must have said PASSED{level}; {} did: {}",
                    passed.len(),
                    passed.join(", ")
                )
            }
            Self::Refused { name } => write!(f, "refused by a verifier that is trusted: {name}"),
            Self::NothingClaimed => {
                write!(f, "the turn's statement cannot be read, so nothing can be judged")
            }
            Self::NotVerified { outcome } => {
                write!(f, "`verified` is asked for; the outcome is `{}`", outcome.as_str())
            }
            Self::TooWeak { strength: Some(strength), wanted } => {
                write!(f, "strength `{wanted}` is asked for; it is `{}`", strength.level)
            }
            Self::TooWeak { strength: None, wanted } => {
                write!(f, "strength `{wanted}` is asked for; there is none")
            }
            Self::InProcess => {
                write!(f, "the strength was seen from inside of the judged process, or there is none")
            }
            Self::Tier { missing } => {
                let names: Vec<&str> = missing.iter().map(|property| property.as_str()).collect();
                write!(f, "the cell was not seen to have: {}", names.join(", "))
            }
            Self::Network { is } => {
                write!(f, "the network `{}` is not accepted", is.as_deref().unwrap_or("unknown"))
            }
            Self::Model { role, reference } => {
                write!(
                    f,
                    "the model `{}` ({}) is not accepted",
                    reference.escape_debug(),
                    role.escape_debug()
                )
            }
            Self::TooOld { ended_at } => write!(f, "it is too old: {}", ended_at.escape_debug()),
            Self::FromTheFuture { ended_at, now } => {
                write!(f, "it says that it was made at {}, and now is {now}", ended_at.escape_debug())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_an_error_that_names_it() {
        for name in ["tier", "network", "models", "signers", "verifier_names"] {
            let read = Policy::read(&format!("version = 1\n{name} = []\n"));
            assert!(
                matches!(read, Err(PolicyError::Field { field, .. }) if field == name),
                "{name}: {read:?}"
            );
        }
    }

    #[test]
    fn a_policy_is_read_strictly() {
        let text = "version = 1\nrequire = \"verified\"\nmin_strength = \"ids\"\nout_of_process = true\n\
                    tier = [\"netns\", \"seccomp\"]\nnetwork = [\"none\"]\nmodels = [\"anthropic:*\"]\n\
                    signers = [\"ci\"]\nmax_age = \"30d\"\nverifiers = 2\nverifier_names = [\"a\", \"b\", \"c\"]\n\
                    keys_at = \"claimed\"\n";
        let policy = Policy::read(text).unwrap();
        assert_eq!(policy.max_age, Some(Millis::from_secs(30 * 86_400)));
        assert_eq!((policy.verifiers, policy.keys_at, policy.tier.len()), (2, KeysAt::Claimed, 2));
        assert_eq!(Policy::read("version = 1\n").unwrap(), Policy::default());
        for (text, says) in [
            ("", "missing field `version`"),
            ("version = 2", "version 2"),
            ("version = 1\nminstrength = \"ids\"", "unknown field"),
            ("version = 1\nmin_strength = \"strong\"", "unknown variant"),
            ("version = 1\nrequire = \"answered\"", "unknown variant"),
            ("version = 1\nnetwork = [\"lan\"]", "expected `none` or `host`"),
            ("version = 1\nmax_age = \"0d\"", "max_age"),
            ("version = 1\nmax_age = \"soon\"", "max_age"),
            ("version = 1\nverifiers = 3\nverifier_names = [\"a\"]", "more are asked for"),
            ("version = 1\nsignature = \"any\"\nsigners = [\"a\"]", "contradicts"),
            ("version = 1\nsignature = \"none\"", "unknown variant"),
        ] {
            let error = Policy::read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn a_star_stands_for_anything_and_nothing_else_does() {
        for (pattern, text, fits) in [
            ("anthropic:*", "anthropic:opus", true),
            ("anthropic:*", "xanthropic:opus", false),
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "ac", false),
            ("*x", "yx", true),
            ("a*a", "a", false),
            ("a.c", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
