//! Which bytes a vendor's server takes and gives.

use hyper::header::{self, HeaderName, HeaderValue};

use crate::chat::{self, OutputLimit};
use crate::messages;
use crate::vendor::WireKind;
use crate::{BaseUrl, Conversation, EncodeError, KeyError, ModelRef, Reply, Secret, SendError};

/// A wire with what the server behind it accepts for one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat(chat::Dialect),
    Messages(messages::Dialect),
}

impl Wire {
    /// The wire of `model` at `url`. A script speaks the first one.
    pub(crate) fn of(model: &ModelRef, url: Option<&BaseUrl>) -> Self {
        match (model.vendor(), url) {
            (Some(vendor), url) if vendor.wire == WireKind::Messages => {
                Self::Messages(messages::Dialect::of(url, model.name()))
            }
            (Some(_), Some(url)) => Self::Chat(chat_dialect(url, model.name())),
            _ => Self::Chat(chat::Dialect { output_limit: OutputLimit::MaxTokens, effort: true }),
        }
    }

    /// The path below the base URL.
    pub(crate) fn endpoint(self, url: &BaseUrl) -> &'static str {
        match self {
            Self::Chat(_) => "/chat/completions",
            // The vendor's own base URL has no version in it, those of others often have.
            Self::Messages(_) if url.path().ends_with("/v1") => "/messages",
            Self::Messages(_) => "/v1/messages",
        }
    }

    pub(crate) fn headers(self, key: Option<&Secret>) -> Result<Vec<(HeaderName, HeaderValue)>, KeyError> {
        let mut headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let (name, prefix) = match self {
            Self::Chat(_) => (header::AUTHORIZATION, "Bearer "),
            Self::Messages(_) => {
                let version = HeaderValue::from_static(messages::VERSION);
                headers.push((HeaderName::from_static("anthropic-version"), version));
                (HeaderName::from_static("x-api-key"), "")
            }
        };
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose()))
                .map_err(|_| KeyError::NotPrintable)?;
            value.set_sensitive(true);
            headers.push((name, value));
        }
        Ok(headers)
    }

    pub(crate) fn encode(self, model: &str, conversation: &Conversation) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::Chat(dialect) => chat::encode(model, dialect, conversation),
            Self::Messages(dialect) => messages::encode(model, dialect, conversation),
        }
    }

    pub(crate) fn decode(self, call: u64, body: &[u8]) -> Result<Reply, SendError> {
        match self {
            Self::Chat(_) => chat::decode(call, body),
            Self::Messages(_) => messages::decode(call, body),
        }
    }
}

/// Models of OpenAI's own that do not think and refuse an effort.
const WITHOUT_EFFORT: [&str; 4] = ["gpt-3.5", "gpt-4", "chatgpt", "ft:gpt-4"];

/// What the server behind `url` accepts for `model`. Only OpenAI itself insists on the newer field for the output limit
/// and only there is the list of models known; everybody else gets what nearly everybody takes.
fn chat_dialect(url: &BaseUrl, model: &str) -> chat::Dialect {
    let own = url.origin() == BaseUrl::openai().origin();
    let output_limit = if own { OutputLimit::MaxCompletionTokens } else { OutputLimit::MaxTokens };
    let effort = !WITHOUT_EFFORT.iter().any(|prefix| model.starts_with(prefix));
    chat::Dialect { output_limit, effort }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_table_says_which_fields_go_out() {
        let dialect = |url: &str, model: &str| chat_dialect(&url.parse().unwrap(), model);
        let own = dialect("https://api.openai.com/v1", "gpt-5.1");
        assert_eq!((own.output_limit, own.effort), (OutputLimit::MaxCompletionTokens, true));
        assert!(!dialect("https://api.openai.com/v1", "gpt-4.1").effort);
        assert_eq!(dialect("http://127.0.0.1:1", "gpt-5.1").output_limit, OutputLimit::MaxTokens);
    }

    #[test]
    fn each_vendor_has_its_wire_endpoint_and_headers() {
        let key = Secret::new("sk-1".to_owned());
        for vendor in crate::VENDORS {
            let url: BaseUrl = vendor.base_url.parse().unwrap();
            let wire = Wire::of(&format!("{}:m", vendor.name).parse().unwrap(), Some(&url));
            let headers = wire.headers(Some(&key)).unwrap();
            let of = |name: &str| {
                let found = headers.iter().find(|(given, _)| given.as_str() == name);
                found.map(|(_, value)| value.to_str().unwrap())
            };
            if vendor.name == "anthropic" {
                assert_eq!(url.target(wire.endpoint(&url)), "/v1/messages");
                assert_eq!(of("x-api-key"), Some("sk-1"));
                assert_eq!(of("anthropic-version"), Some("2026-10-21"));
                assert_eq!(of("authorization"), None, "one key in one header");
            } else {
                assert!(url.target(wire.endpoint(&url)).ends_with("/v1/chat/completions"), "{}", vendor.name);
                assert_eq!(of("authorization"), Some("Bearer sk-1"));
                assert_eq!(of("x-api-key"), None);
            }
            assert!(
                headers.iter().all(|(_, value)| !format!("{value:?}").contains("sk-1")),
                "marked as sensitive"
            );
        }
        let wire = Wire::of(&"anthropic:m".parse().unwrap(), None);
        assert_eq!(wire.endpoint(&"http://127.0.0.1:1/v1".parse().unwrap()), "/messages");
        assert_eq!(wire.endpoint(&"http://127.0.0.1:1/proxy".parse().unwrap()), "/v1/messages");
    }
}
