//! A model behind a wire: what turns conversations into bytes and bytes into replies, over whatever carries them.

use std::sync::Arc;

use countersign_types::Millis;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::header;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::failure::{failure, settle};
use crate::hints::hints;
use crate::http::{Http, HttpAnswer, HttpLimits};
use crate::recording::{Player, Recorder, Recording, Role};
use crate::scripted::{SCRIPTED_NAME, ScriptPlayer};
use crate::transport::{HttpTransport, Transport};
use crate::wire::Wire;
use crate::{
    ApiKey, BaseUrl, Conversation, EncodeError, ErrorClass, KeyError, ModelRef, Price, Provider, Reply,
    ScriptError, Secret, SendError, Timer,
};

/// What a model over HTTP needs.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Its vendor decides which wire is spoken.
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

impl HttpConfig {
    /// `model` at `url` with the usual limits.
    #[must_use]
    pub fn new(model: ModelRef, url: BaseUrl, key: Option<ApiKey>) -> Self {
        Self { model, url, key, limits: HttpLimits::default(), price: None, extra_roots: Vec::new() }
    }
}

/// The provider behind every reference to a model. Making one connects to nothing.
#[derive(Debug)]
pub struct Wired {
    model: ModelRef,
    wire: Wire,
    transport: Arc<dyn Transport>,
    /// The key that a server may repeat in a failure.
    key: Option<Secret>,
    price: Option<Price>,
    timer: Arc<dyn Timer>,
}

impl Wired {
    /// `vendor:MODEL` over HTTP. Fails when the URL needs a key and there is none, or when the key belongs to another
    /// origin.
    pub fn http(config: HttpConfig, timer: Arc<dyn Timer>) -> Result<Self, KeyError> {
        let HttpConfig { model, url, key, limits, price, extra_roots } = config;
        match &key {
            Some(key) if key.origin() != url.origin() => {
                return Err(KeyError::OtherOrigin { bound: key.origin().to_owned(), asked: url.origin() });
            }
            None if !url.is_loopback() => return Err(KeyError::Missing(url.origin())),
            _ => {}
        }
        let wire = Wire::of(&model, Some(&url));
        let roots = extra_roots.into_iter().map(CertificateDer::from).collect();
        let key = key.map(|key| key.secret().clone());
        let (endpoint, headers) = (wire.endpoint(&url), wire.headers(key.as_ref())?);
        let transport = HttpTransport { http: Http::new(url, limits, roots), endpoint, headers };
        Ok(Self { model, wire, transport: Arc::new(transport), key, price, timer })
    }

    /// `scripted:FILE`. Reads and checks the whole script; what was read is what is played, whatever becomes of the file.
    pub fn scripted(model: ModelRef, timer: Arc<dyn Timer>) -> Result<Self, ScriptError> {
        let player = ScriptPlayer::open(&model, Arc::clone(&timer))?;
        Ok(Self::over(model, None, Arc::new(player), timer))
    }

    /// What a recording holds for `role`, without any network.
    #[must_use]
    pub fn replayed(
        player: &Arc<Player>,
        role: Role,
        model: ModelRef,
        url: Option<&BaseUrl>,
        timer: Arc<dyn Timer>,
    ) -> Self {
        Self::over(model, url, Arc::new(Arc::clone(player).of(role)), timer)
    }

    pub(crate) fn over(
        model: ModelRef,
        url: Option<&BaseUrl>,
        transport: Arc<dyn Transport>,
        timer: Arc<dyn Timer>,
    ) -> Self {
        let wire = Wire::of(&model, url);
        Self { model, wire, transport, key: None, price: None, timer }
    }

    /// The same with every attempt written down.
    #[must_use]
    pub fn recorded(mut self, recorder: &Arc<Recorder>, role: Role) -> Self {
        self.transport = Arc::new(Recording::new(self.transport, Arc::clone(recorder), role));
        self
    }

    fn read(&self, call: u64, answer: HttpAnswer, now: Millis) -> Result<Reply, SendError> {
        let HttpAnswer { status, headers, body } = answer;
        if !(200..300).contains(&status) {
            return Err(failure(&self.without_key(body), &hints(status, &headers, now), now));
        }
        let encoded = headers.get(header::CONTENT_ENCODING).filter(|value| value.as_bytes() != b"identity");
        if encoded.is_some() {
            let text = "the answer is compressed although the request forbade it";
            return Err(SendError::new(ErrorClass::BadResponse, text).maybe_billed());
        }
        self.wire.decode(call, &body).map_err(|error| {
            let mut error = self.wire.decode(call, &self.without_key(body)).err().unwrap_or(error);
            settle(&mut error, now);
            error
        })
    }

    /// The body of a failure without our key: some servers repeat the one that they refuse. Before the text is cut, and
    /// with the beginning of a key at the end of a body that was cut, so that no part of it is left.
    fn without_key(&self, body: Vec<u8>) -> Vec<u8> {
        let Some(key) = &self.key else { return body };
        let key = key.expose();
        let mut text = String::from_utf8_lossy(&body).replace(key, MASK);
        if let Some(begun) = (1..key.len()).rev().find(|length| text.ends_with(&key[..*length])) {
            text.truncate(text.len() - begun);
        }
        text.into_bytes()
    }
}

/// What stands where a server repeated our key.
const MASK: &str = "[key]";

impl Provider for Wired {
    fn model(&self) -> &ModelRef {
        &self.model
    }

    fn encode(&self, conversation: &Conversation) -> Result<Vec<u8>, EncodeError> {
        // A script's name would be a path, and equal sessions would differ from machine to machine.
        let name = if self.model.script().is_some() { SCRIPTED_NAME } else { self.model.name() };
        self.wire.encode(name, conversation)
    }

    fn send(&self, call: u64, request: Arc<[u8]>) -> BoxFuture<'_, Result<Reply, SendError>> {
        async move {
            let answer = self.transport.exchange(call, request).await?;
            self.read(call, answer, self.timer.now())
        }
        .boxed()
    }

    fn decode(&self, call: u64, raw: &[u8]) -> Result<Reply, SendError> {
        self.wire.decode(call, raw)
    }

    fn prices(&self) -> Option<Price> {
        self.price
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_to_its_own_origin_only_and_is_needed_beyond_this_machine() {
        for (vendor, own, elsewhere) in [
            ("openai", "https://api.openai.com/v1", "https://api.openai.com/other"),
            ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ] {
            let make = |url: &str, key: Option<&str>| {
                let url: BaseUrl = url.parse().unwrap();
                let key = key.map(|of| ApiKey::new("sk-1", &of.parse().unwrap()).unwrap());
                let model = format!("{vendor}:m").parse().unwrap();
                Wired::http(HttpConfig::new(model, url, key), Arc::new(crate::SystemTimer))
            };
            assert!(make(own, Some(own)).is_ok());
            assert!(make(elsewhere, Some(own)).is_ok());
            assert!(make("http://127.0.0.1:9/v1", None).is_ok());
            assert!(matches!(make(own, None), Err(KeyError::Missing(_))));
            for other in
                ["https://evil.example/v1", &own.replace(".com", ".com:8443"), "http://127.0.0.1:9/v1"]
            {
                assert!(matches!(make(other, Some(own)), Err(KeyError::OtherOrigin { .. })), "{other}");
            }
            assert!(!format!("{:?}", make(own, Some(own)).unwrap()).contains("sk-1"));
        }
    }
}
