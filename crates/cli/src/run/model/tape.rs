//! `--record` and `--replay`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_config::{Resolved, Setting, Source};
use countersign_llm::{BaseUrl, Player, RecordedModel, Recorder, Redact, Role, SystemTimer, Wired};
use countersign_redact::Redactor;
use countersign_types::Reason;

use crate::args::AgentArgs;
use crate::refusal::Refusal;
use crate::run::model::keys::Keys;
use crate::run::repository::Place;

/// A recording that is played.
#[derive(Clone, Debug)]
pub(crate) struct Tape {
    player: Arc<Player>,
}

impl Tape {
    /// The recording that a command line names, opened and checked.
    pub(crate) fn open(args: &AgentArgs, keys: &Keys) -> Result<Option<Self>, Refusal> {
        let Some(path) = &args.replay else { return Ok(None) };
        let redactor = Arc::new(Redactor::new(keys.secrets()));
        let player =
            Player::open(path, redact(&redactor)).map_err(|error| Refusal::usage(error.to_string()))?;
        let steady =
            Redact::new(|text| countersign_tools::steady(&String::from_utf8_lossy(text)).into_bytes());
        Ok(Some(Self { player: Arc::new(player.forgiving(steady)) }))
    }

    /// What was recorded for a role. `named` is the model that somebody asked for.
    pub(super) fn model(&self, role: Role, named: Option<&str>) -> Result<RecordedModel, Refusal> {
        let Some(recorded) = self.player.model(role) else {
            return Err(Refusal::usage(format!("the recording of --replay has no calls of the {role}")));
        };
        match named {
            Some(named) if named != recorded.model.to_string() => Err(Refusal::usage(format!(
                "--replay plays {} as the {role}, and {named} was named: leave the model out",
                recorded.model
            ))),
            _ => Ok(recorded.clone()),
        }
    }

    /// The provider that plays `recorded`, with the base URL that it had.
    pub(super) fn provider(&self, recorded: &RecordedModel) -> Result<Wired, Refusal> {
        let url: Option<BaseUrl> = recorded
            .endpoint
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|error| Refusal::new(Reason::Usage, format!("the recording's endpoint: {error}")))?;
        let timer = Arc::new(SystemTimer);
        Ok(Wired::replayed(&self.player, recorded.role, recorded.model.clone(), url.as_ref(), timer))
    }

    /// sha256 of the file.
    pub(super) fn digest(&self) -> countersign_types::Digest {
        self.player.digest()
    }

    /// The settings with the recorded model and nothing that a network would need.
    pub(crate) fn take_over(&self, resolved: &mut Resolved) -> Result<(), Refusal> {
        for (flag, given) in [
            ("--base-url", resolved.base_url.as_ref().map(|url| url.source)),
            ("--api-key-file", resolved.api_key_file.as_ref().map(|file| file.source)),
        ] {
            if matches!(given, Some(Source::Flag(_))) {
                return Err(Refusal::usage(format!(
                    "{flag} cannot be used with --replay, which calls nobody"
                )));
            }
        }
        let flagged = resolved.model.as_ref().filter(|model| matches!(model.source, Source::Flag(_)));
        let recorded = self.model(Role::Agent, flagged.map(|model| model.value.as_str()))?;
        let source = Source::Flag("--replay");
        resolved.model = Some(Setting::new(recorded.model.to_string(), source));
        resolved.base_url = recorded.endpoint.map(|url| Setting::new(url, source));
        resolved.api_key_file = None;
        Ok(())
    }
}

fn redact(redactor: &Arc<Redactor>) -> Redact {
    let redactor = Arc::clone(redactor);
    Redact::new(move |bytes| redactor.redact(bytes).into_owned())
}

/// A recording that is made, and where.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    recorder: Arc<Recorder>,
    path: PathBuf,
}

impl Recorded {
    pub(super) fn begin(
        path: &Path,
        models: Vec<RecordedModel>,
        redactor: &Arc<Redactor>,
    ) -> Result<Self, Refusal> {
        let path = std::path::absolute(path)
            .map_err(|error| Refusal::usage(format!("--record {}: {error}", path.display())))?;
        let recorder = Recorder::create(&path, models, redact(redactor))
            .map_err(|error| Refusal::usage(format!("--record: {error}")))?;
        Ok(Self { recorder, path })
    }

    pub(super) fn of(&self, provider: Wired, role: Role) -> Wired {
        provider.recorded(&self.recorder, role)
    }

    /// Puts the recording in its place. What it says is for people; `Err` belongs into the result too.
    pub(crate) fn finish(&self) -> Result<String, String> {
        let attempts = self.recorder.finish().map_err(|error| error.to_string())?;
        Ok(format!("{attempts} model call(s) are recorded in {}", self.path.display()))
    }
}

/// Where the work tree itself is what is worked on, a recording in it would become part of the work.
pub(crate) fn apart(args: &AgentArgs, place: &Place) -> Result<(), Refusal> {
    let Some(path) = &args.record else { return Ok(()) };
    let dir = std::path::absolute(path).ok().and_then(|path| path.parent()?.canonicalize().ok());
    let lies_in = |part: &&PathBuf| dir.as_ref().is_some_and(|dir| dir.starts_with(part));
    match place.taken_as_it_is().iter().find(lies_in) {
        Some(part) => Err(Refusal::usage(format!(
            "--record {} lies in the project {}, whose files are taken as they are: name a file elsewhere",
            path.display(),
            part.display()
        ))),
        None => Ok(()),
    }
}
