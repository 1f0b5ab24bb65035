use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Vendor;

/// Which model: `vendor:MODEL` with a vendor of [`crate::VENDORS`], or `scripted:FILE`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// None: a script.
    vendor: Option<&'static Vendor>,
    /// What follows the colon. Never empty, no control characters.
    name: String,
}

/// In front of a script's file.
const SCRIPTED: &str = "scripted";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModelRefError {
    #[error("`{0}` names no provider: write provider:MODEL or scripted:FILE, for example openai:gpt-5.1. Providers: {list}", list = Vendor::list())]
    NoProvider(String),
    #[error(
        "unknown provider `{0}`: this version knows {list} and scripted:FILE (with --base-url, openai: is any server that speaks OpenAI Chat Completions)",
        list = Vendor::list()
    )]
    UnknownProvider(String),
    #[error("`{0}:` names no {1} after the colon")]
    NoName(&'static str, &'static str),
    #[error("the model name holds a control character")]
    Control,
    #[error("the model name is longer than {MAX_NAME} bytes")]
    TooLong,
}

/// Bytes of a model or file name: the longest path of Linux.
const MAX_NAME: usize = 4096;

/// Characters of a wrong reference that an error repeats.
const QUOTED: usize = 80;

impl ModelRef {
    /// None: a script, which nobody sells.
    #[must_use]
    pub const fn vendor(&self) -> Option<&'static Vendor> {
        self.vendor
    }

    /// What stands in front of the colon.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        self.vendor.map_or(SCRIPTED, |vendor| vendor.name)
    }

    /// The model's name, or the script's path as it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The script of a `scripted:` model.
    #[must_use]
    pub fn script(&self) -> Option<&Path> {
        self.vendor.is_none().then(|| Path::new(&self.name))
    }

    /// The same model with its script at an absolute path, so that a resumed process finds it from anywhere.
    #[must_use]
    pub fn anchored_at(&self, dir: &Path) -> Self {
        match self.script().map(|script| dir.join(script)).as_deref().map(Path::to_str) {
            Some(Some(path)) => Self { vendor: self.vendor, name: path.to_owned() },
            _ => self.clone(),
        }
    }
}

impl FromStr for ModelRef {
    type Err = ModelRefError;

    fn from_str(text: &str) -> Result<Self, ModelRefError> {
        if text.chars().any(char::is_control) {
            return Err(ModelRefError::Control);
        }
        let quoted = |text: &str| text.chars().take(QUOTED).collect::<String>();
        let Some((provider, name)) = text.split_once(':') else {
            return Err(ModelRefError::NoProvider(quoted(text)));
        };
        let vendor = Vendor::named(provider);
        if vendor.is_none() && provider != SCRIPTED {
            return Err(ModelRefError::UnknownProvider(quoted(provider)));
        }
        if name.trim().is_empty() {
            let what = if vendor.is_none() { "file" } else { "model" };
            return Err(ModelRefError::NoName(vendor.map_or(SCRIPTED, |vendor| vendor.name), what));
        }
        if name.len() > MAX_NAME {
            return Err(ModelRefError::TooLong);
        }
        Ok(Self { vendor, name: name.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider(), self.name)
    }
}

impl fmt::Debug for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ModelRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ModelRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_back_and_a_wrong_one_says_what_is_known() {
        for good in
            ["openai:gpt-5.1", "scripted:a b/c:d.json", "openrouter:org/model:free", "anthropic:m", "local:m"]
        {
            assert_eq!(good.parse::<ModelRef>().unwrap().to_string(), good);
        }
        for bad in ["gpt-5.1", "", "cohere:x", "openai:", "scripted: ", "openai:a\nb", "OpenAI:x", ":x"] {
            let text = bad.parse::<ModelRef>().unwrap_err().to_string();
            assert!(!text.contains('\n'), "{text}");
        }
        let text = "antrhopic:x".parse::<ModelRef>().unwrap_err().to_string();
        assert!(
            text.contains("antrhopic") && text.contains("openai:MODEL") && text.contains("scripted:FILE")
        );
    }

    #[test]
    fn a_script_is_anchored_and_a_model_name_is_not() {
        let at = |text: &str| text.parse::<ModelRef>().unwrap().anchored_at(Path::new("/base")).to_string();
        assert_eq!(at("scripted:x.json"), "scripted:/base/x.json");
        assert_eq!(at("scripted:/y.json"), "scripted:/y.json");
        assert_eq!(at("openai:m"), "openai:m");
    }
}
