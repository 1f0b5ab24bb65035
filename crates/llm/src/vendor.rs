//! Who can be named in front of a model, in one table.

use std::fmt::Write as _;

/// How a vendor's server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireKind {
    /// OpenAI Chat Completions, which nearly everybody speaks.
    Chat,
    /// Anthropic Messages.
    Messages,
}

/// A name in front of the colon of `provider:model`, and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vendor {
    pub name: &'static str,
    pub wire: WireKind,
    /// Where its API lives unless somebody says otherwise.
    pub base_url: &'static str,
    /// The environment variable of its key. None: it needs none.
    pub key_variable: Option<&'static str>,
    /// The model that is taken where only the key is known. None: one has to be named.
    pub default_model: Option<&'static str>,
}

/// When the default models were last looked over, as year, month and day.
pub const DEFAULT_MODELS_AS_OF: &str = "2026-11-30";

/// All vendors. A default model is the vendor's middle one: good at code, and not the dearest.
#[rustfmt::skip]
pub const VENDORS: &[Vendor] = &[
    Vendor { name: "openai",     wire: WireKind::Chat,     base_url: "https://api.openai.com/v1",    key_variable: Some("OPENAI_API_KEY"),     default_model: Some("gpt-6.1-sol") },
    Vendor { name: "anthropic",  wire: WireKind::Messages, base_url: "https://api.anthropic.com",    key_variable: Some("ANTHROPIC_API_KEY"),  default_model: Some("claude-sonnet-5-5") },
    Vendor { name: "openrouter", wire: WireKind::Chat,     base_url: "https://openrouter.ai/api/v1", key_variable: Some("OPENROUTER_API_KEY"), default_model: Some("anthropic/claude-sonnet-5.5") },
    Vendor { name: "xai",        wire: WireKind::Chat,     base_url: "https://api.x.ai/v1",          key_variable: Some("XAI_API_KEY"),        default_model: Some("grok-4.7") },
    Vendor { name: "ollama",     wire: WireKind::Chat,     base_url: "http://127.0.0.1:11434/v1",    key_variable: None,                       default_model: None },
    Vendor { name: "local",      wire: WireKind::Chat,     base_url: "http://127.0.0.1:8080/v1",     key_variable: None,                       default_model: None },
];

impl Vendor {
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        VENDORS.iter().find(|vendor| vendor.name == name)
    }

    /// All names as people write them, for messages: `openai:MODEL, anthropic:MODEL, …`.
    #[must_use]
    pub fn list() -> String {
        let mut text = String::new();
        for vendor in VENDORS {
            // Writing to a String does not fail.
            let _ = write!(text, "{}:MODEL, ", vendor.name);
        }
        text.truncate(text.len() - ", ".len());
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{BaseUrl, ModelRef};

    #[test]
    fn the_table_holds_together() {
        let names: BTreeSet<_> = VENDORS.iter().map(|vendor| vendor.name).collect();
        assert_eq!(names.len(), VENDORS.len());
        let variables: Vec<_> = VENDORS.iter().filter_map(|vendor| vendor.key_variable).collect();
        assert_eq!(variables.iter().collect::<BTreeSet<_>>().len(), variables.len());
        for vendor in VENDORS {
            let url: BaseUrl = vendor.base_url.parse().unwrap();
            assert_eq!(url.to_string(), vendor.base_url, "written as it is shown");
            assert_eq!(vendor.key_variable.is_none(), url.is_loopback(), "{}", vendor.name);
            assert_eq!(vendor.key_variable.is_some(), vendor.default_model.is_some(), "{}", vendor.name);
            let model = format!("{}:{}", vendor.name, vendor.default_model.unwrap_or("m"));
            assert_eq!(model.parse::<ModelRef>().unwrap().vendor(), Some(vendor));
        }
        assert_eq!(BaseUrl::openai().to_string(), VENDORS[0].base_url);
        assert_eq!(BaseUrl::anthropic().to_string(), VENDORS[1].base_url);
        assert!(Vendor::list().starts_with("openai:MODEL, anthropic:MODEL, "));
    }

    #[test]
    fn the_page_for_people_has_the_same_table() {
        let page = include_str!("../../../docs/models.md");
        assert!(page.contains(&format!("default model ({DEFAULT_MODELS_AS_OF})")));
        for vendor in VENDORS {
            let wire = match vendor.wire {
                WireKind::Chat => "Chat Completions",
                WireKind::Messages => "Messages",
            };
            let key = vendor.key_variable.map_or("none".to_owned(), |name| format!("`{name}`"));
            let model = vendor.default_model.map_or("-".to_owned(), |name| format!("`{name}`"));
            let row = format!("| `{}` | {wire} | `{}` | {key} | {model} |", vendor.name, vendor.base_url);
            assert!(page.contains(&row), "docs/models.md lacks: {row}");
        }
    }
}
