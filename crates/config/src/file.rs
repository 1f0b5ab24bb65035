//! The user's own configuration file: TOML, strict. A repository never has one that is read.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use countersign_types::{Millis, Money, Tier, Trust};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::Network;

/// The longest file that is read, in bytes.
pub const MAX_CONFIG_FILE: u64 = 1024 * 1024;

/// What a user may set for all runs. Every key may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    #[serde(default, deserialize_with = "parsed")]
    pub trust: Option<Trust>,
    /// `provider:model`.
    #[serde(default, deserialize_with = "not_blank")]
    pub model: Option<String>,
    #[serde(default, deserialize_with = "not_blank")]
    pub base_url: Option<String>,
    /// Absolute.
    #[serde(default, deserialize_with = "absolute")]
    pub api_key_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "parsed")]
    pub sandbox: Option<Tier>,
    #[serde(default, deserialize_with = "parsed")]
    pub network: Option<Network>,
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Toolchain directories, absolute, mounted read-only at the same path; `bin` below them comes into `PATH`.
    #[serde(default, deserialize_with = "absolutes")]
    pub toolchains: Vec<PathBuf>,
    #[serde(default, deserialize_with = "positive")]
    pub max_turns: Option<u32>,
    #[serde(default, deserialize_with = "positive_u64")]
    pub max_tokens: Option<u64>,
    /// US dollars, written as a string: `"0.50"`.
    #[serde(default, deserialize_with = "parsed")]
    pub max_cost: Option<Money>,
    /// Written as a string: `"30m"`.
    #[serde(default, deserialize_with = "parsed")]
    pub deadline: Option<Millis>,
    #[serde(default, deserialize_with = "parsed")]
    pub check_timeout: Option<Millis>,
    #[serde(default, deserialize_with = "positive")]
    pub attempts: Option<u32>,
    /// Where the keys stand, from 1. Known of a file that was parsed from text.
    #[serde(skip)]
    pub lines: BTreeMap<String, usize>,
}

impl UserConfig {
    /// The line of a key, from 1.
    #[must_use]
    pub fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }
}

/// A directory of the host that jobs may read, such as a download cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Absolute, on the host.
    #[serde(deserialize_with = "one_absolute")]
    pub host: PathBuf,
    /// Absolute, in the cell.
    #[serde(deserialize_with = "one_absolute")]
    pub cell: PathBuf,
}

/// A file that is not understood. The text names the line and, where there is one, the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {what}", key.as_ref().map(|k| format!(" (`{k}`)")).unwrap_or_default())]
pub struct ConfigFileError {
    /// From 1.
    pub line: usize,
    pub key: Option<String>,
    pub what: String,
}

impl FromStr for UserConfig {
    type Err = ConfigFileError;

    fn from_str(text: &str) -> Result<Self, ConfigFileError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            // The parser's positions are bytes; step back to the start of a character to be safe.
            let at = (0..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            let line = text[..at].matches('\n').count();
            let source = text.lines().nth(line).unwrap_or_default();
            let key = source.split_once('=').map(|(key, _)| key.trim()).filter(|key| is_key(key));
            ConfigFileError { line: line + 1, key: key.map(str::to_owned), what: one_line(error.message()) }
        })?;
        Ok(Self { lines: lines(text), ..config })
    }
}

/// The lines of all top-level keys.
fn lines(text: &str) -> BTreeMap<String, usize> {
    let keys: BTreeMap<Spanned<String>, IgnoredAny> = toml::from_str(text).unwrap_or_default();
    let line = |at: usize| text.get(..at).map_or(0, |before| before.matches('\n').count()) + 1;
    keys.into_keys().map(|key| (key.get_ref().clone(), line(key.span().start))).collect()
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn not_blank<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    if text.trim().is_empty() { Err(serde::de::Error::custom("it is empty")) } else { Ok(Some(text)) }
}

fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    Ok(Some(std::num::NonZeroU32::deserialize(from)?.get()))
}

fn positive_u64<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Some(std::num::NonZeroU64::deserialize(from)?.get()))
}

fn one_absolute<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(from)?;
    check_absolute(&path).map_err(serde::de::Error::custom)?;
    Ok(path)
}

fn absolute<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    one_absolute(from).map(Some)
}

fn absolutes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    let paths = Vec::<PathBuf>::deserialize(from)?;
    for path in &paths {
        check_absolute(path).map_err(serde::de::Error::custom)?;
    }
    Ok(paths)
}

fn check_absolute(path: &Path) -> Result<(), String> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && path != Path::new("/") {
        Ok(())
    } else {
        Err(format!(
            "`{}` is not an absolute path below / without `..` (`~` is not expanded)",
            path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let config: UserConfig = r#"
            trust = "reviewed"
            model = "openai:m"
            base_url = "http://127.0.0.1:1/v1"
            api_key_file = "/k"
            sandbox = "native"
            network = "none"
            toolchains = ["/opt/go"]
            max_turns = 7
            max_tokens = 100000
            max_cost = "0.50"
            deadline = "10m"
            check_timeout = "90s"
            attempts = 2
            [[caches]]
            host = "/srv/wheels"
            cell = "/home/agent/wheels"
        "#
        .parse()
        .unwrap();
        assert_eq!(config.trust, Some(Trust::Reviewed));
        assert_eq!(config.max_cost, Some(Money::from_micro_usd(500_000)));
        assert_eq!(config.deadline, Some(Millis::from_secs(600)));
        assert_eq!(config.caches[0].cell, Path::new("/home/agent/wheels"));
        assert_eq!("".parse::<UserConfig>().unwrap(), UserConfig::default());
        assert_eq!((config.line("trust"), config.line("attempts")), (Some(2), Some(14)));
        assert_eq!((config.line("caches"), config.line("novel")), (Some(15), None));
    }

    #[test]
    fn an_error_names_line_and_key() {
        for (text, line, key, what) in [
            ("model = \"openai:m\"\ntrsut = \"reviewed\"\n", 2, "trsut", "unknown field"),
            ("trust = \"full\"\n", 1, "trust", "trusted-local"),
            ("\n\nmax_turns = 0\n", 3, "max_turns", "nonzero"),
            ("max_turns = -1", 1, "max_turns", ""),
            ("max_turns = \"7\"", 1, "max_turns", "string"),
            ("max_cost = \"much\"", 1, "max_cost", "US dollars"),
            ("deadline = \"0\"", 1, "deadline", "duration"),
            ("api_key_file = \"~/k\"", 1, "api_key_file", "absolute"),
            ("toolchains = [\"/a/../b\"]", 1, "toolchains", "absolute"),
            ("model = \" \"", 1, "model", "empty"),
            ("trust = \"reviewed\"\ntrust = \"untrusted\"", 2, "trust", "duplicate"),
            ("caches = [{host = \"/a\"}]", 1, "caches", "cell"),
        ] {
            let error = text.parse::<UserConfig>().unwrap_err();
            assert_eq!((error.line, error.key.as_deref()), (line, Some(key)), "{text}: {error}");
            assert!(error.what.contains(what), "{text}: {error}");
            assert!(!error.to_string().contains('\n'));
        }
        assert!("trust".parse::<UserConfig>().is_err());
        assert!("é = ".parse::<UserConfig>().is_err());
    }
}
