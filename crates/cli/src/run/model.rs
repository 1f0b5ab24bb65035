//! Which model, behind which provider, with which key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_config::{Resolved, Setting, Source};
use countersign_kernel::contract::ModelTerms;
use countersign_llm::{
    ApiKey, BaseUrl, Conversation, EncodeError, ErrorClass, KeyError, ModelRef, OpenAi, OpenAiConfig, Price,
    Provider, ProviderKind, Reply, Scripted, SendError, SystemTimer,
};
use countersign_redact::Redactor;
use countersign_types::Reason;

use futures::future::BoxFuture;

use crate::refusal::Refusal;
use crate::text;

/// OpenAI's own variable, which compatible servers share.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// A model that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) provider: Arc<dyn Provider>,
    /// None: no model is called.
    pub(crate) terms: Option<ModelTerms>,
    /// Knows every key that this process holds.
    pub(crate) redactor: Arc<Redactor>,
}

/// Where finished work is judged nobody is asked. Whoever did would get an error: the session holds no capability for a
/// model call either.
#[derive(Debug)]
struct Nobody(ModelRef);

impl Provider for Nobody {
    fn model(&self) -> &ModelRef {
        &self.0
    }

    fn encode(&self, _: &Conversation) -> Result<Vec<u8>, EncodeError> {
        Err(EncodeError::Message { index: 0, what: "this session has no model".to_owned() })
    }

    fn send(&self, _: u64, _: Arc<[u8]>) -> BoxFuture<'_, Result<Reply, SendError>> {
        Box::pin(async { Err(no_model()) })
    }

    fn decode(&self, _: u64, _: &[u8]) -> Result<Reply, SendError> {
        Err(no_model())
    }

    fn prices(&self) -> Option<Price> {
        None
    }
}

fn no_model() -> SendError {
    SendError::new(ErrorClass::BadResponse, "this session has no model")
}

/// No model. A key that this process merely inherited is still kept out of every record.
#[expect(clippy::expect_used, reason = "a constant that a reference allows")]
pub(crate) fn nobody() -> Model {
    let reference: ModelRef = "scripted:nobody".parse().expect("a reference");
    let secrets = inherited_key().iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>();
    Model { provider: Arc::new(Nobody(reference)), terms: None, redactor: Arc::new(Redactor::new(secrets)) }
}

fn inherited_key() -> Option<String> {
    let key = std::env::var(KEY_VARIABLE).ok()?;
    Some(key.trim().to_owned()).filter(|key| !key.is_empty())
}

pub(super) fn choose(resolved: &Resolved) -> Result<Model, Refusal> {
    let Some(named) = &resolved.model else {
        return Err(Refusal::usage(
            "no model: name one with --model provider:model, in COUNTERSIGN_MODEL, or as `model` in your configuration \
             file",
        ));
    };
    let reason = reason_of(named.source);
    let reference: ModelRef = named.value.parse().map_err(|error| {
        Refusal::new(reason, format!("{}: {error}", source_name("--model", named.source)))
    })?;
    let model = connect(
        &reference,
        resolved.base_url.as_ref(),
        resolved.api_key_file.as_ref(),
        resolved.max_output_tokens,
    )?;
    if let Some(limit) = &resolved.max_cost
        && model.provider.prices().is_none()
    {
        return Err(Refusal::usage(format!(
            "{} cannot be kept: no table of prices is built in yet, so the price of {reference} is not known; limit \
             tokens with --max-tokens instead",
            source_name("--max-cost", limit.source)
        )));
    }
    Ok(model)
}

/// The model of a contract, for a session that goes on.
pub(crate) fn again(terms: &ModelTerms, api_key_file: Option<PathBuf>) -> Result<Model, Refusal> {
    let reference: ModelRef = terms
        .reference
        .parse()
        .map_err(|error| Refusal::new(Reason::Config, format!("the recorded model: {error}")))?;
    let url = terms.endpoint.clone().map(|url| Setting::new(url, Source::Default));
    let file = api_key_file.map(|file| Setting::new(file, Source::Flag("--api-key-file")));
    connect(&reference, url.as_ref(), file.as_ref(), terms.max_output_tokens.unwrap_or_default())
}

fn connect(
    reference: &ModelRef,
    base_url: Option<&Setting<String>>,
    api_key_file: Option<&Setting<PathBuf>>,
    max_output_tokens: u32,
) -> Result<Model, Refusal> {
    // A key that this process merely inherited must not reach a transcript either.
    let inherited = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.trim().is_empty());
    let mut secrets: Vec<Vec<u8>> = inherited.iter().map(|key| key.trim().as_bytes().to_vec()).collect();
    let (provider, endpoint, reference): (Arc<dyn Provider>, _, _) = match reference.provider() {
        ProviderKind::Scripted => {
            if let Some(Setting { source: Source::Flag(flag), .. }) = base_url {
                return Err(Refusal::usage(format!(
                    "{flag} cannot be used with scripted:FILE, which calls nobody"
                )));
            }
            let here = std::env::current_dir()
                .map_err(|error| Refusal::usage(format!("the current directory is gone: {error}")))?;
            let reference = reference.anchored_at(&here);
            let scripted = Scripted::open(reference.clone(), Arc::new(SystemTimer))
                .map_err(|error| Refusal::usage(format!("--model {reference}: {error}")))?;
            (Arc::new(scripted), None, reference)
        }
        ProviderKind::OpenAi => {
            let url: BaseUrl = match base_url {
                None => BaseUrl::openai(),
                Some(url) => url.value.parse().map_err(|error: countersign_llm::BaseUrlError| {
                    let name = source_name("--base-url", url.source);
                    Refusal::new(
                        reason_of(url.source),
                        format!("{name} `{}`: {error}", text::address(&url.value)),
                    )
                })?,
            };
            let key = key(&url, api_key_file.map(|file| file.value.as_path()), inherited.as_deref())?;
            secrets.extend(key.iter().map(|key| key.secret().expose().as_bytes().to_vec()));
            let endpoint = url.to_string();
            let config = OpenAiConfig::new(reference.clone(), url, key);
            let provider = OpenAi::new(config, Arc::new(SystemTimer)).map_err(no_key)?;
            (Arc::new(provider), Some(endpoint), reference.clone())
        }
    };
    let terms = ModelTerms {
        reference: reference.to_string(),
        endpoint,
        max_output_tokens: Some(max_output_tokens).filter(|tokens| *tokens > 0),
    };
    Ok(Model { provider, terms: Some(terms), redactor: Arc::new(Redactor::new(secrets)) })
}

fn key(url: &BaseUrl, file: Option<&Path>, inherited: Option<&str>) -> Result<Option<ApiKey>, Refusal> {
    match (file, inherited) {
        (Some(file), _) => ApiKey::from_file(file, url).map(Some).map_err(no_key),
        (None, Some(value)) => ApiKey::new(value, url)
            .map(Some)
            .map_err(|error| Refusal::new(Reason::Key, format!("{KEY_VARIABLE}: {error}"))),
        // A server on this machine may want none; the provider says when one is needed.
        (None, None) => Ok(None),
    }
}

fn no_key(error: KeyError) -> Refusal {
    let way =
        if matches!(error, KeyError::Missing(_)) { format!(" ({KEY_VARIABLE})") } else { String::new() };
    Refusal::new(Reason::Key, format!("{error}{way}"))
}

const fn reason_of(source: Source) -> Reason {
    match source {
        Source::Flag(_) => Reason::Usage,
        _ => Reason::Config,
    }
}

fn source_name(flag: &str, source: Source) -> String {
    match source {
        Source::UserFile => {
            format!("{} of your configuration file", flag.trim_start_matches("--").replace('-', "_"))
        }
        Source::Env(name) => name.to_owned(),
        _ => flag.to_owned(),
    }
}
