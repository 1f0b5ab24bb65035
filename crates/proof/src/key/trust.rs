//! The trust file: which public keys count, for what and when. A person writes it; nothing is trusted that is not in it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use countersign_types::Millis;
use serde::{Deserialize, Serialize};

use super::{KeyError, KeyId, PublicKey};
use crate::time::{parse_rfc3339, rfc3339};

/// The largest trust file that is read, bytes.
const MAX_TEXT: usize = 1024 * 1024;

const MAX_KEYS: usize = 1000;

/// The only version of the format.
const VERSION: u32 = 1;

/// What a key may sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What was run and what it showed: provenance, test results, the turn, and `SHA256SUMS`.
    Runner,
    /// The verdict.
    Verifier,
}

impl Role {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Verifier => "verifier",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// Unique; policies and messages use it. Two keys of one person have two names.
    pub name: String,
    pub public: PublicKey,
    pub roles: BTreeSet<Role>,
    /// The first moment of validity; None: since ever.
    pub not_before: Option<Millis>,
    /// The last moment of validity; None: for ever.
    pub not_after: Option<Millis>,
}

impl TrustedKey {
    #[must_use]
    pub fn valid_at(&self, at: Millis) -> bool {
        self.not_before.is_none_or(|first| first <= at) && self.not_after.is_none_or(|last| at <= last)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error("the trust file is longer than {MAX_TEXT} bytes or holds more than {MAX_KEYS} keys")]
    TooLong,
    #[error("the trust file cannot be read: {0}")]
    Syntax(String),
    #[error("the trust file is of version {0}; this program reads version {VERSION}")]
    Version(u32),
    #[error("key `{name}`: {why}")]
    Key { name: String, why: String },
}

/// Trusted keys in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustFile {
    keys: Vec<TrustedKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIn {
    version: u32,
    #[serde(default)]
    key: Vec<KeyIn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyIn {
    name: String,
    public: String,
    roles: Vec<Role>,
    not_before: Option<String>,
    not_after: Option<String>,
}

impl TrustFile {
    /// Reads the TOML of a trust file. Unknown fields, a name or key that stands twice, no role, and a validity that
    /// ends before it begins are errors.
    pub fn read(text: &str) -> Result<Self, TrustError> {
        if text.len() > MAX_TEXT {
            return Err(TrustError::TooLong);
        }
        let file: FileIn =
            toml::from_str(text).map_err(|e| TrustError::Syntax(e.to_string().trim().to_owned()))?;
        if file.version != VERSION {
            return Err(TrustError::Version(file.version));
        }
        let mut out = Self::default();
        for key in file.key {
            let bad = |why: String| TrustError::Key { name: crate::strict::shown(&key.name), why };
            let time = |field: &str, text: &Option<String>| match text {
                None => Ok(None),
                Some(text) => parse_rfc3339(text)
                    .map(Some)
                    .ok_or_else(|| bad(format!("{field}: write a time like 2026-11-30T16:13:07Z"))),
            };
            let (not_before, not_after) =
                (time("not_before", &key.not_before)?, time("not_after", &key.not_after)?);
            let public = PublicKey::read(&key.public).map_err(|e: KeyError| bad(e.to_string()))?;
            let roles = key.roles.iter().copied().collect();
            out.add(TrustedKey { name: key.name.clone(), public, roles, not_before, not_after })?;
        }
        Ok(out)
    }

    /// Adds a key, by the rules of [`Self::read`].
    pub fn add(&mut self, key: TrustedKey) -> Result<(), TrustError> {
        let bad =
            |why: &str| Err(TrustError::Key { name: crate::strict::shown(&key.name), why: why.to_owned() });
        if self.keys.len() >= MAX_KEYS {
            return Err(TrustError::TooLong);
        }
        let letter = |b: u8| b.is_ascii_alphanumeric() || b"_-.@".contains(&b);
        let starts = key.name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if !starts || key.name.len() > 64 || !key.name.bytes().all(letter) {
            return bad(
                "a name is 1 to 64 of a-z, A-Z, 0-9, `_`, `-`, `.`, `@`, beginning with a letter or digit",
            );
        }
        if key.roles.is_empty() {
            return bad("it needs at least one role of `runner`, `verifier`");
        }
        if key.not_before.zip(key.not_after).is_some_and(|(first, last)| last < first) {
            return bad("not_after is before not_before");
        }
        if let Some(other) = self.by_public(&key.public) {
            let roles: Vec<&str> = other.roles.iter().map(|role| role.as_str()).collect();
            return bad(&format!(
                "its public key is there already, as `{}` for {}",
                other.name,
                roles.join(", ")
            ));
        }
        if let Some(other) = self.keys.iter().find(|other| other.name == key.name) {
            return bad(&format!("the name stands twice; the other key is {}", other.public.fingerprint()));
        }
        self.keys.push(key);
        Ok(())
    }

    /// Takes out the key of this name, key id or OpenSSH fingerprint, all of it or its beginning of eight letters or more
    /// (of a fingerprint, after `SHA256:`). None: there is none.
    ///
    /// # Errors
    /// With the names of the keys, where it could be more than one.
    pub fn remove(&mut self, named: &str) -> Result<Option<TrustedKey>, Vec<String>> {
        const LEAST: usize = 8;
        let begins = |whole: &str, part: &str| part.len() >= LEAST && whole.starts_with(part);
        let fits = |key: &TrustedKey| {
            let (id, print) = (key.public.id().to_string(), key.public.fingerprint());
            let short = print.strip_prefix("SHA256:").zip(named.strip_prefix("SHA256:"));
            key.name == named || begins(&id, named) || short.is_some_and(|(whole, part)| begins(whole, part))
        };
        let found: Vec<usize> = (0..self.keys.len()).filter(|at| fits(&self.keys[*at])).collect();
        match found[..] {
            [] => Ok(None),
            [at] => Ok(Some(self.keys.remove(at))),
            _ => Err(found.iter().map(|at| self.keys[*at].name.clone()).collect()),
        }
    }

    #[must_use]
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    #[must_use]
    pub fn by_public(&self, public: &PublicKey) -> Option<&TrustedKey> {
        self.keys.iter().find(|key| key.public == *public)
    }

    #[must_use]
    pub fn by_id(&self, id: &KeyId) -> Option<&TrustedKey> {
        self.keys.iter().find(|key| key.public.id() == *id)
    }

    /// The TOML that [`Self::read`] reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = format!(
            "# Keys whose signatures count. roles: runner (what ran), verifier (the verdict).\nversion = {VERSION}\n"
        );
        for key in &self.keys {
            let roles: Vec<String> = key.roles.iter().map(|role| format!("\"{}\"", role.as_str())).collect();
            // Names and keys hold no letter that TOML would have escaped. Writing to a String cannot fail.
            let _ = write!(
                out,
                "\n[[key]]\nname = \"{}\"\npublic = \"{}\"\nroles = [{}]\n",
                key.name,
                key.public.to_openssh(),
                roles.join(", ")
            );
            for (field, at) in [("not_before", key.not_before), ("not_after", key.not_after)] {
                if let Some(at) = at {
                    let _ = writeln!(out, "{field} = \"{}\"", rfc3339(at));
                }
            }
        }
        out
    }

    /// The keys that may sign `SHA256SUMS`, as `ssh-keygen -Y verify -n countersign -f` reads them. OpenSSH knows no
    /// roles of ours, so only runners are in it.
    #[must_use]
    pub fn to_allowed_signers(&self) -> String {
        let mut out = String::new();
        for key in self.keys.iter().filter(|key| key.roles.contains(&Role::Runner)) {
            let _ = write!(out, "{} namespaces=\"{}\"", key.name, crate::sshsig::NAMESPACE);
            for (option, at) in [("valid-after", key.not_before), ("valid-before", key.not_after)] {
                if let Some(at) = at {
                    let digits: String = rfc3339(at).chars().filter(char::is_ascii_digit).collect();
                    let _ = write!(out, ",{option}=\"{digits}Z\"");
                }
            }
            let _ = writeln!(out, " {}", key.public.to_openssh());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    fn line(seed: u8) -> String {
        SecretKey::from_seed(&[seed; 32]).public().to_openssh()
    }

    #[test]
    fn a_trust_file_reads_back() {
        let text = format!(
            "version = 1\n[[key]]\nname = \"ci\"\npublic = \"{} me@box\"\nroles = [\"runner\"]\n\
             not_before = \"2026-01-01T00:00:00Z\"\nnot_after = \"2027-01-01T00:00:00Z\"\n\
             [[key]]\nname = \"desk\"\npublic = \"{}\"\nroles = [\"verifier\", \"runner\"]\n",
            line(1),
            line(2)
        );
        let file = TrustFile::read(&text).unwrap();
        assert_eq!(TrustFile::read(&file.to_toml()), Ok(file.clone()));
        let ci = &file.keys()[0];
        for (at, valid) in [
            ("2025-12-31T23:59:59Z", false),
            ("2026-01-01T00:00:00Z", true),
            ("2027-01-01T00:00:00Z", true),
            ("2027-01-01T00:00:01Z", false),
        ] {
            assert_eq!(ci.valid_at(parse_rfc3339(at).unwrap()), valid, "{at}");
        }
        assert_eq!(file.by_id(&ci.public.id()), Some(ci));
        insta::assert_snapshot!(file.to_allowed_signers());
    }

    #[test]
    fn a_key_is_taken_out_by_its_name_or_its_fingerprint() {
        let mut file = TrustFile::default();
        let key = |name: &str, seed: u8| TrustedKey {
            name: name.to_owned(),
            public: SecretKey::from_seed(&[seed; 32]).public(),
            roles: [Role::Runner].into(),
            not_before: None,
            not_after: None,
        };
        for (name, seed) in [("ci", 1), ("desk", 2), ("lab", 3)] {
            file.add(key(name, seed)).unwrap();
        }
        let twice = file.add(key("other", 1)).unwrap_err().to_string();
        assert!(twice.contains("there already, as `ci` for runner"), "{twice}");
        let taken = file.add(key("ci", 9)).unwrap_err().to_string();
        assert!(taken.contains("the other key is SHA256:"), "{taken}");
        assert_eq!(file.remove("nobody"), Ok(None));
        assert_eq!(file.remove("ci"), Ok(Some(key("ci", 1))));
        let desk = key("desk", 2);
        let id = desk.public.id().to_string();
        let print = desk.public.fingerprint();
        assert_eq!(file.remove(&id[..7]), Ok(None), "too short to be meant");
        for named in [&id, &id[..8], &print, &print[.."SHA256:".len() + 8]] {
            assert_eq!(file.remove(named), Ok(Some(desk.clone())), "{named}");
            file.add(desk.clone()).unwrap();
        }
        // A name that is the beginning of another's key id: nobody says which is meant.
        file.add(key(&id[..8], 9)).unwrap();
        let both = Err(vec!["desk".to_owned(), id[..8].to_owned()]);
        assert_eq!(file.remove(&id[..8]), both);
        assert_eq!(file.remove(&id[..9]), Ok(Some(desk.clone())));
        file.remove(&id[..8]).unwrap();
        assert_eq!(file.keys(), [key("lab", 3)]);
        file.add(key("ci", 1)).unwrap();
    }

    #[test]
    fn what_a_trust_file_may_not_say_is_named() {
        let key = |name: &str, seed: u8, more: &str| {
            format!("[[key]]\nname = \"{name}\"\npublic = \"{}\"\nroles = [\"runner\"]\n{more}", line(seed))
        };
        let one = key("a", 1, "");
        for (text, says) in [
            ("".to_owned(), "missing field `version`"),
            ("version = 2\n".to_owned(), "version 2"),
            (format!("version = 1\nkeys = []\n{one}"), "unknown field `keys`"),
            (format!("version = 1\n{one}{one}"), "there already, as `a` for runner"),
            (format!("version = 1\n{one}{}", key("a", 2, "")), "the name stands twice"),
            (format!("version = 1\n{one}{}", key("b", 1, "")), "there already"),
            (format!("version = 1\n{}", key("-a", 1, "")), "a name is"),
            (format!("version = 1\n{}", key("a", 1, "owner = \"x\"")), "unknown field `owner`"),
            (format!("version = 1\n{}", key("a", 1, "not_after = \"2026\"")), "not_after"),
            (
                format!(
                    "version = 1\n{}",
                    key(
                        "a",
                        1,
                        "not_before = \"2026-02-01T00:00:00Z\"\nnot_after = \"2026-01-01T00:00:00Z\""
                    )
                ),
                "before not_before",
            ),
            (format!("version = 1\n{}", one.replace("[\"runner\"]", "[]")), "at least one role"),
            (format!("version = 1\n{}", one.replace("runner", "owner")), "unknown variant `owner`"),
            (format!("version = 1\n{}", one.replace("ssh-ed25519", "ssh-rsa")), "only Ed25519"),
            ("#".repeat(MAX_TEXT + 1), "longer"),
        ] {
            let error = TrustFile::read(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
