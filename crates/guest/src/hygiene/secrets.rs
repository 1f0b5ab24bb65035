//! Secrets in a line: formats of well-known issuers, and values of high entropy behind a telling name. What is told is the
//! kind, never the value or a part of it.

use std::sync::OnceLock;

use regex::bytes::Regex;

/// The issuers' own formats. The value is the first group where there is one, else the whole match.
const FORMATS: &[(&str, &str)] = &[
    ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("an AWS access key id", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    ("a GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    ("a GitHub token", r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b"),
    ("a GitLab token", r"\bgl(?:pat|dt|rt|cbt|ptt|agent)-[A-Za-z0-9_\-]{20,}"),
    ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9\-]{20,}"),
    ("a Slack webhook", r"hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{16,}"),
    ("a Google API key", r"\bAIza[A-Za-z0-9_\-]{35}\b"),
    ("a Google OAuth secret", r"\bGOCSPX-[A-Za-z0-9_\-]{28}\b"),
    ("a Stripe key", r"\b[sr]k_live_[A-Za-z0-9]{20,}"),
    ("an Anthropic key", r"\bsk-ant-[A-Za-z0-9_\-]{32,}"),
    ("an OpenAI key", r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_\-]{32,}"),
    ("an npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("a PyPI token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_\-]{32,}"),
    ("a crates.io token", r"\bcio[A-Za-z0-9]{32}\b"),
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{34,}\b"),
    ("a SendGrid key", r"\bSG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}\b"),
    ("an age key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}\b"),
    ("a JSON web token", r"\beyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{16,}"),
    (
        "an address with a password",
        r#"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@"'<>`]{1,64}:([^\s/:@"'<>`]{3,})@[A-Za-z0-9.\-]+"#,
    ),
];

/// A name that tells of a secret, and its value: quoted anywhere, or the bare rest of a line in a file of settings.
const NAMED: &[&str] = &[
    r#"(?i)(?:secret|token|passw(?:or)?d|passphrase|api_?-?key|access_?-?key|private_?-?key|auth_?-?key|credential)[a-z0-9_\-]*["']?\s*(?::=|=>|=|:)\s*["'`]([A-Za-z0-9+/=_\-.~!@#$%^&*]{16,200})["'`]"#,
    r"^\s*(?:export\s+)?[A-Z0-9_]*(?:SECRET|TOKEN|PASSW(?:OR)?D|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH_?KEY|CREDENTIAL)[A-Z0-9_]*\s*=\s*([A-Za-z0-9+/=_\-.~!@#%^&*]{16,200})\s*$",
];

/// Bits per character from which a value does not look like words: random hexadecimal digits have 3.5 to 4, random
/// base64 at least 4 at such lengths.
const ENTROPY: f64 = 3.4;

/// Parts of values that stand for a value.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "dummy",
    "redacted",
    "xxxx",
    "****",
    "....",
    "0000",
    "1234567",
    "abcdef",
    "sample",
    "fake",
    "insert",
    "todo",
    "test_",
    "foobar",
];

/// Passwords in addresses that everybody writes in documentation.
const COMMON: &[&str] = &[
    "password", "passwd", "pass", "secret", "pw", "pwd", "postgres", "root", "admin", "user", "guest", "test",
];

/// What kind of secret the line holds, if one that `before` (the base's file) does not hold.
pub(super) fn of(line: &[u8], before: &[u8]) -> Option<&'static str> {
    let news = |value: &[u8]| memchr::memmem::find(before, value).is_none();
    for (what, format) in formats() {
        for found in format.captures_iter(line) {
            let value = found.get(1).or_else(|| found.get(0)).map(|m| m.as_bytes()).unwrap_or_default();
            let written = String::from_utf8_lossy(value).to_lowercase();
            let common = COMMON.contains(&written.as_str()) || written.starts_with(['$', '{', '<', '%']);
            if news(value) && !common && !stands_for_one(&written) {
                return Some(what);
            }
        }
    }
    for format in named() {
        for found in format.captures_iter(line) {
            let value = found.get(1).map(|m| m.as_bytes()).unwrap_or_default();
            let written = String::from_utf8_lossy(value).to_lowercase();
            if looks_random(value) && entropy(value) >= ENTROPY && news(value) && !stands_for_one(&written) {
                return Some("a value that looks random, behind a name that tells of a secret");
            }
        }
    }
    None
}

fn stands_for_one(lower: &str) -> bool {
    PLACEHOLDERS.iter().any(|part| lower.contains(part))
}

/// Words and names have few digits: a value has two among letters of both cases, or one in six.
fn looks_random(value: &[u8]) -> bool {
    let count = |of: fn(&u8) -> bool| value.iter().filter(|b| of(b)).count();
    let (digits, upper, lower) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let both = upper > 0 && lower > 0;
    upper + lower > 0 && (both && digits >= 2 || digits * 6 >= value.len())
}

/// Shannon's entropy of the bytes, in bits for each.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let all = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / all)
        .map(|p| -p * p.log2())
        .sum()
}

fn formats() -> &'static [(&'static str, Regex)] {
    static FORMS: OnceLock<Vec<(&str, Regex)>> = OnceLock::new();
    FORMS.get_or_init(|| FORMATS.iter().filter_map(|(what, form)| Some((*what, compile(form)?))).collect())
}

fn named() -> &'static [Regex] {
    static FORMS: OnceLock<Vec<Regex>> = OnceLock::new();
    FORMS.get_or_init(|| NAMED.iter().filter_map(|form| compile(form)).collect())
}

/// Bytes, not characters: a line may be in any encoding. A test holds that every form compiles.
fn compile(form: &str) -> Option<Regex> {
    regex::bytes::RegexBuilder::new(form).unicode(false).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_compiles() {
        assert_eq!((formats().len(), named().len()), (FORMATS.len(), NAMED.len()));
    }
}
