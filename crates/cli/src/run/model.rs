//! Which model, behind which provider, with which key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_config::{Resolved, Setting, Source};
use countersign_kernel::contract::{ModelTerms, ReviewTerms};
use countersign_llm::{
    ApiKey, BaseUrl, Conversation, EncodeError, ErrorClass, KeyError, ModelRef, OpenAi, OpenAiConfig, Price,
    Provider, ProviderKind, Reply, Scripted, SendError, SystemTimer,
};
use countersign_redact::Redactor;
use countersign_types::Reason;

use futures::future::BoxFuture;

use crate::refusal::Refusal;
use crate::run::Wish;
use crate::text;

/// OpenAI's own variable, which compatible servers share.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Reviews of one turn where nobody says how many.
const REVIEW_ROUNDS: u32 = 2;

/// The flags that name a model, for messages.
#[derive(Clone, Copy, Debug)]
struct Flags {
    model: &'static str,
    base_url: &'static str,
    api_key_file: &'static str,
}

const AGENT: Flags = Flags { model: "--model", base_url: "--base-url", api_key_file: "--api-key-file" };

const REVIEWER: Flags =
    Flags { model: "--review-model", base_url: "--review-base-url", api_key_file: "--review-api-key-file" };

/// Values that no record may hold.
#[derive(Clone, Default)]
struct Secrets(Vec<Vec<u8>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// The models of a session.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) reviewer: Option<Arc<dyn Provider>>,
    secrets: Secrets,
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
    let secrets = inherited_key().iter().map(|key| key.as_bytes().to_vec()).collect();
    Model::of(Arc::new(Nobody(reference)), None, secrets)
}

impl Model {
    fn of(provider: Arc<dyn Provider>, terms: Option<ModelTerms>, secrets: Vec<Vec<u8>>) -> Self {
        let redactor = Arc::new(Redactor::new(secrets.clone()));
        Self { provider, reviewer: None, secrets: Secrets(secrets), terms, redactor }
    }

    /// Takes a reviewer in: whatever it writes, and whatever it is shown, holds no key of either.
    fn with_reviewer(&mut self, reviewer: Self) {
        self.secrets.0.extend(reviewer.secrets.0);
        self.redactor = Arc::new(Redactor::new(self.secrets.0.clone()));
        self.reviewer = Some(reviewer.provider);
    }
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
        AGENT,
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
    connect(AGENT, &reference, url.as_ref(), file.as_ref(), terms.max_output_tokens.unwrap_or_default())
}

/// The reviewer that a command line names, brought to the session's models. Only flags name one: it is never a default.
pub(super) fn reviewer(
    wish: &Wish<'_>,
    resolved: &Resolved,
    model: &mut Model,
) -> Result<Option<ReviewTerms>, Refusal> {
    let Some((args, named)) = wish.review.zip(wish.reviewer()) else { return Ok(None) };
    let reference: ModelRef =
        named.parse().map_err(|error| Refusal::usage(format!("{}: {error}", REVIEWER.model)))?;
    let url = args.review_base_url.clone();
    let url = url.map(|url| Setting::new(url, Source::Flag(REVIEWER.base_url)));
    let file = args.review_api_key_file.clone();
    let file = file.map(|file| Setting::new(file, Source::Flag(REVIEWER.api_key_file)));
    let reviewer = connect(REVIEWER, &reference, url.as_ref(), file.as_ref(), resolved.max_output_tokens)?;
    let terms = reviewer.terms.clone();
    model.with_reviewer(reviewer);
    Ok(terms.map(|model| ReviewTerms {
        model,
        rounds: args.review_rounds.unwrap_or(REVIEW_ROUNDS),
        required: args.review_required,
    }))
}

/// The reviewer of a contract, for a session that goes on.
pub(crate) fn reviewer_again(
    terms: &ModelTerms,
    api_key_file: Option<PathBuf>,
    model: &mut Model,
) -> Result<(), Refusal> {
    let reference: ModelRef = terms
        .reference
        .parse()
        .map_err(|error| Refusal::new(Reason::Config, format!("the recorded reviewer: {error}")))?;
    let url = terms.endpoint.clone().map(|url| Setting::new(url, Source::Default));
    let file = api_key_file.map(|file| Setting::new(file, Source::Flag(REVIEWER.api_key_file)));
    let tokens = terms.max_output_tokens.unwrap_or_default();
    model.with_reviewer(connect(REVIEWER, &reference, url.as_ref(), file.as_ref(), tokens)?);
    Ok(())
}

fn connect(
    flags: Flags,
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
                .map_err(|error| Refusal::usage(format!("{} {reference}: {error}", flags.model)))?;
            (Arc::new(scripted), None, reference)
        }
        ProviderKind::OpenAi => {
            let url: BaseUrl = match base_url {
                None => BaseUrl::openai(),
                Some(url) => url.value.parse().map_err(|error: countersign_llm::BaseUrlError| {
                    let name = source_name(flags.base_url, url.source);
                    Refusal::new(
                        reason_of(url.source),
                        format!("{name} `{}`: {error}", text::address(&url.value)),
                    )
                })?,
            };
            let key = key(flags, &url, api_key_file.map(|file| file.value.as_path()), inherited.as_deref())?;
            secrets.extend(key.iter().map(|key| key.secret().expose().as_bytes().to_vec()));
            let endpoint = url.to_string();
            let config = OpenAiConfig::new(reference.clone(), url, key);
            let provider =
                OpenAi::new(config, Arc::new(SystemTimer)).map_err(|error| no_key(flags, error))?;
            (Arc::new(provider), Some(endpoint), reference.clone())
        }
    };
    let terms = ModelTerms {
        reference: reference.to_string(),
        endpoint,
        max_output_tokens: Some(max_output_tokens).filter(|tokens| *tokens > 0),
    };
    Ok(Model::of(provider, Some(terms), secrets))
}

fn key(
    flags: Flags,
    url: &BaseUrl,
    file: Option<&Path>,
    inherited: Option<&str>,
) -> Result<Option<ApiKey>, Refusal> {
    match (file, inherited) {
        (Some(file), _) => ApiKey::from_file(file, url).map(Some).map_err(|error| no_key(flags, error)),
        (None, Some(value)) => ApiKey::new(value, url)
            .map(Some)
            .map_err(|error| Refusal::new(Reason::Key, format!("{KEY_VARIABLE}: {error}"))),
        // A server on this machine may want none; the provider says when one is needed.
        (None, None) => Ok(None),
    }
}

fn no_key(flags: Flags, error: KeyError) -> Refusal {
    let way =
        if matches!(error, KeyError::Missing(_)) { format!(" ({KEY_VARIABLE})") } else { String::new() };
    let said = error.to_string().replace(AGENT.api_key_file, flags.api_key_file);
    Refusal::new(Reason::Key, format!("{said}{way}"))
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
