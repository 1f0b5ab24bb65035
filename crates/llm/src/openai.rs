//! `openai:MODEL`: Chat Completions over HTTP, by OpenAI or any server that speaks it.

use std::sync::Arc;

use countersign_types::Millis;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::chat::{self, Dialect, Hints, OutputLimit};
use crate::http::{Http, HttpAnswer, HttpLimits};
use crate::{
    ApiKey, BaseUrl, Conversation, EncodeError, ErrorClass, KeyError, ModelRef, Price, Provider, Reply,
    SendError, Timer,
};

/// What an `openai:` provider needs.
#[derive(Clone, Debug)]
pub struct OpenAiConfig {
    pub model: ModelRef,
    pub url: BaseUrl,
    /// May be absent only for a loopback URL.
    pub key: Option<ApiKey>,
    pub limits: HttpLimits,
    /// None: unknown.
    pub price: Option<Price>,
    /// Root certificates (DER) that are trusted beside the public ones.
    pub extra_roots: Vec<Vec<u8>>,
}

impl OpenAiConfig {
    /// `model` at `url` with the usual limits.
    #[must_use]
    pub fn new(model: ModelRef, url: BaseUrl, key: Option<ApiKey>) -> Self {
        Self { model, url, key, limits: HttpLimits::default(), price: None, extra_roots: Vec::new() }
    }
}

/// The provider behind `openai:MODEL`. Making one connects to nothing.
#[derive(Debug)]
pub struct OpenAi {
    model: ModelRef,
    key: Option<ApiKey>,
    dialect: Dialect,
    price: Option<Price>,
    http: Http,
    timer: Arc<dyn Timer>,
}

const ENDPOINT: &str = "/chat/completions";

impl OpenAi {
    /// Fails when the URL needs a key and there is none, or when the key belongs to another origin.
    pub fn new(config: OpenAiConfig, timer: Arc<dyn Timer>) -> Result<Self, KeyError> {
        let OpenAiConfig { model, url, key, limits, price, extra_roots } = config;
        match &key {
            Some(key) if key.origin() != url.origin() => {
                return Err(KeyError::OtherOrigin { bound: key.origin().to_owned(), asked: url.origin() });
            }
            None if !url.is_loopback() => return Err(KeyError::Missing(url.origin())),
            _ => {}
        }
        let dialect = dialect(&url, model.name());
        let roots = extra_roots.into_iter().map(CertificateDer::from).collect();
        Ok(Self { model, key, dialect, price, http: Http::new(url, limits, roots), timer })
    }

    async fn post(&self, call: u64, request: Arc<[u8]>) -> Result<Reply, SendError> {
        let mut headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        if let Some(key) = &self.key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.secret().expose()))
                .map_err(|_| SendError::new(ErrorClass::Auth, "the API key cannot stand in a header"))?;
            value.set_sensitive(true);
            headers.push((header::AUTHORIZATION, value));
        }
        let answer = self.http.post(ENDPOINT, &headers, Bytes::from_owner(request)).await?;
        self.read(call, answer, self.timer.now())
    }

    fn read(&self, call: u64, answer: HttpAnswer, now: Millis) -> Result<Reply, SendError> {
        let HttpAnswer { status, headers, body } = answer;
        if !(200..300).contains(&status) {
            return Err(chat::failure(&self.without_key(body), &hints(status, &headers, now), now));
        }
        let encoded = headers.get(header::CONTENT_ENCODING).filter(|value| value.as_bytes() != b"identity");
        if encoded.is_some() {
            let text = "the answer is compressed although the request forbade it";
            return Err(SendError::new(ErrorClass::BadResponse, text).maybe_billed());
        }
        chat::decode(call, &body).map_err(|error| {
            let mut error = chat::decode(call, &self.without_key(body)).err().unwrap_or(error);
            chat::settle(&mut error, now);
            error
        })
    }

    /// The body of a failure without our key: some servers repeat the one that they refuse. Before the text is cut, and
    /// with the beginning of a key at the end of a body that was cut, so that no part of it is left.
    fn without_key(&self, body: Vec<u8>) -> Vec<u8> {
        let Some(key) = &self.key else { return body };
        let key = key.secret().expose();
        let mut text = String::from_utf8_lossy(&body).replace(key, MASK);
        if let Some(begun) = (1..key.len()).rev().find(|length| text.ends_with(&key[..*length])) {
            text.truncate(text.len() - begun);
        }
        text.into_bytes()
    }
}

/// What stands where a server repeated our key.
const MASK: &str = "[key]";

impl Provider for OpenAi {
    fn model(&self) -> &ModelRef {
        &self.model
    }

    fn encode(&self, conversation: &Conversation) -> Result<Vec<u8>, EncodeError> {
        chat::encode(self.model.name(), self.dialect, conversation)
    }

    fn send(&self, call: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<Reply, SendError>> {
        self.post(call, request).boxed()
    }

    fn decode(&self, call: u64, raw: &[u8]) -> Result<Reply, SendError> {
        chat::decode(call, raw)
    }

    fn prices(&self) -> Option<Price> {
        self.price
    }
}

/// Models of OpenAI's own that do not think and refuse an effort.
const WITHOUT_EFFORT: [&str; 4] = ["gpt-3.5", "gpt-4", "chatgpt", "ft:gpt-4"];

/// What the server behind `url` accepts for `model`. Only OpenAI itself insists on the newer field for the output limit
/// and only there is the list of models known; everybody else gets what nearly everybody takes.
fn dialect(url: &BaseUrl, model: &str) -> Dialect {
    let own = url.origin() == BaseUrl::openai().origin();
    let output_limit = if own { OutputLimit::MaxCompletionTokens } else { OutputLimit::MaxTokens };
    let effort = !WITHOUT_EFFORT.iter().any(|prefix| model.starts_with(prefix));
    Dialect { output_limit, effort }
}

fn hints(status: u16, headers: &HeaderMap, now: Millis) -> Hints {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|value| value.parse::<f64>().ok());
    let exact = number("retry-after-ms").and_then(|millis| chat::seconds(millis / 1000.0));
    let date =
        |name: &str| text(name).and_then(|value| httpdate::parse_http_date(value).ok()).and_then(epoch);
    let plain = || {
        number("retry-after").and_then(chat::seconds).or_else(|| {
            // A date is by the server's clock, so it is measured against the server's own date where it gives one.
            Some(date("retry-after")?.saturating_sub(date("date").unwrap_or(now)))
        })
    };
    let should_retry = match text("x-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    Hints { status: Some(status), retry_after: exact.or_else(plain), should_retry }
}

fn epoch(time: std::time::SystemTime) -> Option<Millis> {
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        // 1994-11-06 08:49:37 UTC
        const NOW: Millis = Millis(784_111_777_000);
        let wait = |pairs: &[(&'static str, &str)]| hints(429, &headers(pairs), NOW).retry_after;
        assert_eq!(wait(&[("retry-after", "6")]), Some(Millis(6_000)));
        assert_eq!(wait(&[("retry-after", " 1.5 ")]), Some(Millis(1_500)));
        assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "9")]), Some(Millis(250)));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")]), Some(Millis(10_000)));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Millis(0)));
        let skewed =
            [("retry-after", "Mon, 07 Nov 1994 00:00:05 GMT"), ("date", "Mon, 07 Nov 1994 00:00:00 GMT")];
        assert_eq!(wait(&skewed), Some(Millis(5_000)));
        for bad in ["", "soon", "-5", "NaN", "inf", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(wait(&[("retry-after", bad)]), None, "{bad}");
        }
        assert_eq!(wait(&[("retry-after", "1e300")]), Some(Millis(u64::MAX)));
        assert_eq!(hints(500, &headers(&[("x-should-retry", "false")]), NOW).should_retry, Some(false));
    }

    #[test]
    fn the_capability_table_says_which_fields_go_out() {
        let dialect = |url: &str, model: &str| dialect(&url.parse().unwrap(), model);
        let own = dialect("https://api.openai.com/v1", "gpt-5.1");
        assert_eq!((own.output_limit, own.effort), (OutputLimit::MaxCompletionTokens, true));
        assert!(!dialect("https://api.openai.com/v1", "gpt-4.1").effort);
        assert_eq!(dialect("http://127.0.0.1:1", "gpt-5.1").output_limit, OutputLimit::MaxTokens);
    }

    #[test]
    fn a_key_goes_to_its_own_origin_only_and_is_needed_beyond_this_machine() {
        let make = |url: &str, key: Option<&str>| {
            let url: BaseUrl = url.parse().unwrap();
            let key = key.map(|of| ApiKey::new("sk-1", &of.parse().unwrap()).unwrap());
            let model = "openai:m".parse().unwrap();
            OpenAi::new(OpenAiConfig::new(model, url, key), Arc::new(crate::SystemTimer))
        };
        let openai = "https://api.openai.com/v1";
        assert!(make(openai, Some(openai)).is_ok());
        assert!(make("https://api.openai.com/other", Some(openai)).is_ok());
        assert!(make("http://127.0.0.1:9/v1", None).is_ok());
        assert!(matches!(make(openai, None), Err(KeyError::Missing(_))));
        for other in ["https://evil.example/v1", "https://api.openai.com:8443/v1", "http://127.0.0.1:9/v1"] {
            assert!(matches!(make(other, Some(openai)), Err(KeyError::OtherOrigin { .. })), "{other}");
        }
        assert!(!format!("{:?}", make(openai, Some(openai)).unwrap()).contains("sk-1"));
    }
}
