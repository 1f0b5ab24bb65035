//! Which model, behind which provider, with which key.

mod keys;
mod tape;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_config::{Resolved, Setting, Source};
use countersign_kernel::contract::{ModelTerms, ReviewTerms};
use countersign_llm::{
    ApiKey, BaseUrl, Conversation, DEFAULT_MODELS_AS_OF, EncodeError, ErrorClass, HttpConfig, KeyError,
    ModelRef, Price, Provider, RecordedModel, Reply, Role, SendError, SystemTimer, Vendor, Wired,
};
use countersign_redact::Redactor;
use countersign_types::Reason;

use futures::future::BoxFuture;

pub(crate) use self::keys::Keys;
pub(crate) use self::tape::{Recorded, Tape, apart};
use crate::refusal::Refusal;
use crate::run::Wish;
use crate::text;

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
    /// None: no model is called.
    pub(crate) terms: Option<ModelTerms>,
    pub(crate) review: Option<ReviewTerms>,
    /// Knows every key that this process holds.
    pub(crate) redactor: Arc<Redactor>,
    /// Every attempt is written down here.
    pub(crate) recorded: Option<Recorded>,
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
    let redactor = Arc::new(Redactor::new(Keys::inherited().secrets()));
    Model {
        provider: Arc::new(Nobody(reference)),
        reviewer: None,
        terms: None,
        review: None,
        redactor,
        recorded: None,
    }
}

/// A model that nothing stands against, and the secrets that came with it.
#[derive(Debug)]
struct Connected {
    provider: Wired,
    terms: ModelTerms,
    secrets: Secrets,
}

/// What everybody who connects needs.
#[derive(Clone, Copy, Debug)]
struct Means<'a> {
    keys: &'a Keys,
    tape: Option<&'a Tape>,
    max_output_tokens: u32,
}

/// Fills in the model where nobody named one and there is exactly one vendor's key.
pub(super) fn find(resolved: &mut Resolved, keys: &Keys) {
    if resolved.model.is_some() {
        return;
    }
    if let [(vendor, key)] = keys.vendors()[..]
        && let Some(model) = vendor.default_model
    {
        let source = Source::Key { variable: key.variable, file: key.file.is_some() };
        resolved.model = Some(Setting::new(format!("{}:{model}", vendor.name), source));
    }
}

/// What people should know of a model that nobody named.
pub(super) fn found_note(resolved: &Resolved) -> Option<String> {
    let model = resolved.model.as_ref().filter(|model| matches!(model.source, Source::Key { .. }))?;
    Some(format!("model {}: {}, as of {DEFAULT_MODELS_AS_OF}", model.value, model.source))
}

/// The models that a run would have, as far as they can be told without a key.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) model: Option<ModelTerms>,
    pub(super) review: Option<ReviewTerms>,
    /// Who said where the agent's model is called.
    pub(super) endpoint: Source,
    /// Where its key would come from. None: none is known, or none is needed.
    pub(super) key: Option<String>,
}

pub(super) fn told(
    wish: &Wish<'_>,
    resolved: &Resolved,
    keys: &Keys,
    tape: Option<&Tape>,
) -> Result<Told, Refusal> {
    let means = Means { keys, tape, max_output_tokens: resolved.max_output_tokens };
    let review = match Review::asked(wish)? {
        Some(review) => {
            Some(review.terms(meant(&REVIEWER, &review.reference, &review.asked_by(), means)?.terms))
        }
        None => None,
    };
    let Some(named) = &resolved.model else {
        return Ok(Told { model: None, review, endpoint: Source::Default, key: None });
    };
    let reference = reference(named)?;
    let meant = meant(&AGENT, &reference, &agent_asked(resolved, named), means)?;
    let endpoint = meant.endpoint.as_ref().map_or(Source::Default, |(_, _, source)| *source);
    let key = meant.endpoint.and_then(|(vendor, ..)| match (&resolved.api_key_file, keys.of(vendor)) {
        (Some(file), _) => Some(format!("{} ({})", file.value.display(), file.source)),
        (None, key) => key.map(keys::Key::shown),
    });
    Ok(Told { model: Some(meant.terms), review, endpoint, key })
}

/// The base URL of a vendor's model, and who said it.
fn address(
    flags: &Flags,
    vendor: &Vendor,
    base_url: Option<&Setting<String>>,
) -> Result<(BaseUrl, Source), Refusal> {
    let (text, source) = match base_url {
        None => (vendor.base_url, Source::Default),
        Some(url) => (url.value.as_str(), url.source),
    };
    let url = text.parse().map_err(|error: countersign_llm::BaseUrlError| {
        let name = source_name(flags.base_url, source);
        Refusal::new(reason_of(source), format!("{name} `{}`: {error}", text::address(text)))
    })?;
    Ok((url, source))
}

fn no_model_named(keys: &Keys) -> Refusal {
    let vendors = keys.vendors();
    let ways = "--model provider:model, in COUNTERSIGN_MODEL, or as `model` in your configuration file";
    if vendors.is_empty() {
        return Refusal::usage(format!(
            "no model: name one with {ways}, or set the key of one provider: {}",
            keys::variables()
        ));
    }
    let all: Vec<String> = vendors
        .iter()
        .map(|(vendor, key)| {
            let model = vendor.default_model.unwrap_or_default();
            format!("{} for {}:{model}", key.shown(), vendor.name)
        })
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Refusal::usage(format!(
        "no model is named and there is more than one key: {}. Choose one with {ways}",
        text::list(&all, "and")
    ))
}

/// The models that a command line asks for.
pub(super) fn choose(
    wish: &Wish<'_>,
    resolved: &Resolved,
    keys: &Keys,
    tape: Option<&Tape>,
) -> Result<Model, Refusal> {
    let means = Means { keys, tape, max_output_tokens: resolved.max_output_tokens };
    let agent = if wish.work.is_some() { None } else { Some(agent(resolved, means)?) };
    let reviewer = reviewer(wish, means)?;
    let redactor = redactor(agent.iter().chain(reviewer.iter().map(|(reviewer, _)| reviewer)), keys);
    let recorded = match &wish.common.agent.record {
        None => None,
        Some(path) => {
            let agent = agent.iter().filter_map(|agent| recorded_model(Role::Agent, &agent.terms));
            let reviewer = reviewer.iter().filter_map(|(it, _)| recorded_model(Role::Reviewer, &it.terms));
            Some(Recorded::begin(path, agent.chain(reviewer).collect(), &redactor)?)
        }
    };
    let ready = |connected: Connected, role| match &recorded {
        Some(recorded) => (recorded.of(connected.provider, role), connected.terms),
        None => (connected.provider, connected.terms),
    };
    let mut model = Model { redactor, ..nobody() };
    if let Some(agent) = agent {
        let (provider, terms) = ready(agent, Role::Agent);
        (model.provider, model.terms) = (Arc::new(provider), Some(terms));
    }
    if let Some((reviewer, review)) = reviewer {
        let (provider, _) = ready(reviewer, Role::Reviewer);
        model.reviewer = Some(Arc::new(provider));
        model.review = Some(review);
    }
    model.recorded = recorded;
    Ok(model)
}

fn redactor<'a>(connected: impl Iterator<Item = &'a Connected>, keys: &Keys) -> Arc<Redactor> {
    let secrets = connected.flat_map(|connected| connected.secrets.0.iter().cloned());
    let secrets: Vec<Vec<u8>> = secrets.chain(keys.secrets()).collect();
    Arc::new(Redactor::new(secrets))
}

fn recorded_model(role: Role, terms: &ModelTerms) -> Option<RecordedModel> {
    Some(RecordedModel { role, model: terms.reference.parse().ok()?, endpoint: terms.endpoint.clone() })
}

fn agent(resolved: &Resolved, means: Means<'_>) -> Result<Connected, Refusal> {
    let Some(named) = &resolved.model else { return Err(no_model_named(means.keys)) };
    let reference = reference(named)?;
    let asked = agent_asked(resolved, named);
    let connected = connect(&AGENT, &reference, &asked, means)?;
    if let Some(limit) = &resolved.max_cost
        && connected.provider.prices().is_none()
    {
        return Err(Refusal::usage(format!(
            "{} cannot be kept: no table of prices is built in yet, so the price of {reference} is not known; limit \
             tokens with --max-tokens instead",
            source_name("--max-cost", limit.source)
        )));
    }
    Ok(connected)
}

/// The reviewer that a command line names. Only flags name one: it is never a default.
fn reviewer(wish: &Wish<'_>, means: Means<'_>) -> Result<Option<(Connected, ReviewTerms)>, Refusal> {
    let Some(review) = Review::asked(wish)? else { return Ok(None) };
    let connected = connect(&REVIEWER, &review.reference, &review.asked_by(), means)?;
    let review = review.terms(connected.terms.clone());
    Ok(Some((connected, review)))
}

/// The models of a contract, for a session that goes on. A key file is what a command line names.
pub(crate) fn again(
    agent: Option<(&ModelTerms, Option<PathBuf>)>,
    reviewer: Option<(&ModelTerms, Option<PathBuf>)>,
    keys: &Keys,
) -> Result<Model, Refusal> {
    let one = |flags: &Flags, role: Role, terms: &ModelTerms, file: Option<PathBuf>| {
        if terms.replayed.is_some() {
            return Err(Refusal::usage(
                "the session plays a recording, which has no middle to go on from: run it again with --replay",
            ));
        }
        let reference: ModelRef = terms
            .reference
            .parse()
            .map_err(|error| Refusal::new(Reason::Config, format!("the recorded {role}: {error}")))?;
        let url = terms.endpoint.clone().map(|url| Setting::new(url, Source::Default));
        let file = file.map(|file| Setting::new(file, Source::Flag(flags.api_key_file)));
        let source = terms.source.clone().unwrap_or_default();
        let asked = Asked { role, source, base_url: url.as_ref(), api_key_file: file.as_ref() };
        let max_output_tokens = terms.max_output_tokens.unwrap_or_default();
        connect(flags, &reference, &asked, Means { keys, tape: None, max_output_tokens })
    };
    let agent = agent.map(|(terms, file)| one(&AGENT, Role::Agent, terms, file)).transpose()?;
    let reviewer = reviewer.map(|(terms, file)| one(&REVIEWER, Role::Reviewer, terms, file)).transpose()?;
    let redactor = redactor(agent.iter().chain(&reviewer), keys);
    let mut model = Model { redactor, ..nobody() };
    if let Some(Connected { provider, terms, .. }) = agent {
        (model.provider, model.terms) = (Arc::new(provider), Some(terms));
    }
    model.reviewer = reviewer.map(|reviewer| Arc::new(reviewer.provider) as Arc<dyn Provider>);
    Ok(model)
}

/// What was said of one model.
#[derive(Debug)]
struct Asked<'a> {
    role: Role,
    /// Who named it.
    source: String,
    base_url: Option<&'a Setting<String>>,
    api_key_file: Option<&'a Setting<PathBuf>>,
}

fn reference(named: &Setting<String>) -> Result<ModelRef, Refusal> {
    named.value.parse().map_err(|error| {
        Refusal::new(reason_of(named.source), format!("{}: {error}", source_name("--model", named.source)))
    })
}

fn agent_asked<'a>(resolved: &'a Resolved, named: &Setting<String>) -> Asked<'a> {
    Asked {
        role: Role::Agent,
        source: named.source.to_string(),
        base_url: resolved.base_url.as_ref(),
        api_key_file: resolved.api_key_file.as_ref(),
    }
}

/// The review that a command line asks for.
#[derive(Debug)]
struct Review {
    reference: ModelRef,
    base_url: Option<Setting<String>>,
    api_key_file: Option<Setting<PathBuf>>,
    rounds: u32,
    required: bool,
}

impl Review {
    fn asked(wish: &Wish<'_>) -> Result<Option<Self>, Refusal> {
        let Some((args, named)) = wish.review.zip(wish.reviewer()) else { return Ok(None) };
        let file = args.review_api_key_file.clone();
        let url = args.review_base_url.clone();
        Ok(Some(Self {
            reference: named
                .parse()
                .map_err(|error| Refusal::usage(format!("{}: {error}", REVIEWER.model)))?,
            base_url: url.map(|url| Setting::new(url, Source::Flag(REVIEWER.base_url))),
            api_key_file: file.map(|file| Setting::new(file, Source::Flag(REVIEWER.api_key_file))),
            rounds: args.review_rounds.unwrap_or(REVIEW_ROUNDS),
            required: args.review_required,
        }))
    }

    fn asked_by(&self) -> Asked<'_> {
        Asked {
            role: Role::Reviewer,
            source: REVIEWER.model.to_owned(),
            base_url: self.base_url.as_ref(),
            api_key_file: self.api_key_file.as_ref(),
        }
    }

    fn terms(&self, model: ModelTerms) -> ReviewTerms {
        ReviewTerms { model, rounds: self.rounds, required: self.required }
    }
}

/// A model as the contract has it.
#[derive(Debug)]
struct Meant {
    reference: ModelRef,
    terms: ModelTerms,
    /// Where it is called. None: nobody is, by a script or a recording.
    endpoint: Option<(&'static Vendor, BaseUrl, Source)>,
}

fn meant(flags: &Flags, reference: &ModelRef, asked: &Asked<'_>, means: Means<'_>) -> Result<Meant, Refusal> {
    let meant = |reference: ModelRef, called: Option<String>, endpoint| {
        let terms = ModelTerms {
            reference: reference.to_string(),
            endpoint: called,
            max_output_tokens: Some(means.max_output_tokens).filter(|tokens| *tokens > 0),
            source: Some(asked.source.clone()).filter(|source| !source.is_empty()),
            replayed: means.tape.map(Tape::digest),
        };
        Meant { reference, terms, endpoint }
    };
    if let Some(tape) = means.tape {
        let recorded = tape.model(asked.role, Some(&reference.to_string()))?;
        return Ok(meant(reference.clone(), recorded.endpoint, None));
    }
    let Some(vendor) = reference.vendor() else {
        if let Some(Setting { source: Source::Flag(flag), .. }) = asked.base_url {
            return Err(Refusal::usage(format!(
                "{flag} cannot be used with scripted:FILE, which calls nobody"
            )));
        }
        let here = std::env::current_dir()
            .map_err(|error| Refusal::usage(format!("the current directory is gone: {error}")))?;
        return Ok(meant(reference.anchored_at(&here), None, None));
    };
    let (url, source) = address(flags, vendor, asked.base_url)?;
    Ok(meant(reference.clone(), Some(url.to_string()), Some((vendor, url, source))))
}

fn connect(
    flags: &Flags,
    reference: &ModelRef,
    asked: &Asked<'_>,
    means: Means<'_>,
) -> Result<Connected, Refusal> {
    let Meant { reference, terms, endpoint } = meant(flags, reference, asked, means)?;
    let quiet = || Secrets(Vec::new());
    if let Some(tape) = means.tape {
        let recorded = tape.model(asked.role, Some(&reference.to_string()))?;
        return Ok(Connected { provider: tape.provider(&recorded)?, terms, secrets: quiet() });
    }
    let Some((vendor, url, _)) = endpoint else {
        let provider = Wired::scripted(reference.clone(), Arc::new(SystemTimer))
            .map_err(|error| Refusal::usage(format!("{} {reference}: {error}", flags.model)))?;
        return Ok(Connected { provider, terms, secrets: quiet() });
    };
    let key = key(flags, vendor, &url, asked.api_key_file.map(|file| file.value.as_path()), means.keys)?;
    let secrets = Secrets(key.iter().map(|key| key.secret().expose().as_bytes().to_vec()).collect());
    let provider = Wired::http(HttpConfig::new(reference, url, key), Arc::new(SystemTimer))
        .map_err(|error| no_key(flags, vendor, &error))?;
    Ok(Connected { provider, terms, secrets })
}

/// The key for `url`: a file that somebody named, else the vendor's variable.
fn key(
    flags: &Flags,
    vendor: &Vendor,
    url: &BaseUrl,
    file: Option<&Path>,
    keys: &Keys,
) -> Result<Option<ApiKey>, Refusal> {
    match (file, keys.of(vendor)) {
        (Some(file), _) => {
            ApiKey::from_file(file, url).map(Some).map_err(|error| no_key(flags, vendor, &error))
        }
        (None, Some(key)) => ApiKey::new(&key.value, url)
            .map(Some)
            .map_err(|error| Refusal::new(Reason::Key, format!("{}: {error}", key.shown()))),
        // A server on this machine may want none; the provider says when one is needed.
        (None, None) => Ok(None),
    }
}

fn no_key(flags: &Flags, vendor: &Vendor, error: &KeyError) -> Refusal {
    let way = match (error, vendor.key_variable) {
        (KeyError::Missing(_), Some(variable)) => format!(" ({variable})"),
        _ => String::new(),
    };
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
