//! Layers of settings: flags, environment, the user's own file.

use std::path::{Path, PathBuf};

use countersign_config::{Layer, Layers, MAX_CONFIG_FILE, Resolved, Setting, UserConfig};
use countersign_types::{Millis, Reason, Trust};

use crate::refusal::Refusal;
use crate::run::Wish;
use crate::run::model::{self, Keys, Tape};
use crate::{files, home};

/// Everything that is known before anything else is looked at.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) file: UserConfig,
    pub(super) resolved: Resolved,
    pub(super) keys: Keys,
    pub(super) tape: Option<Tape>,
}

/// Resolves what a command line, the environment and the user's files say. The trust level comes first.
pub(super) fn settle(wish: &Wish<'_>) -> Result<Settled, Refusal> {
    let file = user_config(wish.common.config.as_deref())?;
    let trust = countersign_config::trust(wish.common.trust, &file)?;
    let mut resolved = resolve(wish, trust, file.clone())?;
    let keys = keys(wish, &resolved)?;
    let tape = Tape::open(&wish.common.agent, &keys)?;
    if let Some(tape) = &tape {
        tape.take_over(&mut resolved)?;
    }
    if wish.work.is_none() {
        model::find(&mut resolved, &keys);
    }
    Ok(Settled { file, resolved, keys, tape })
}

/// The keys that this run may need. A script and a recording need none, and the user's file stays closed.
fn keys(wish: &Wish<'_>, resolved: &Resolved) -> Result<Keys, Refusal> {
    let agent = resolved.model.as_ref().map(|model| model.value.as_str());
    let unnamed = agent.is_none() && wish.work.is_none();
    let vendors = agent.into_iter().chain(wish.reviewer()).any(|model| !model.starts_with("scripted:"));
    if wish.common.agent.replay.is_some() || !(unnamed || vendors) {
        return Ok(Keys::inherited());
    }
    Keys::read(wish.common.repo.as_deref().unwrap_or_else(|| Path::new(".")))
}

/// The user's configuration. A file that nobody named may be missing.
fn user_config(named: Option<&Path>) -> Result<UserConfig, Refusal> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => match user_file("config.toml") {
            Some(path) if files::exists(&path) => path,
            _ => return Ok(UserConfig::default()),
        },
    };
    let refuse = |what: String| {
        Refusal::new(
            Reason::Config,
            format!("the configuration file {} is of no use: {what}", path.display()),
        )
    };
    let bytes = files::read_regular(&path, MAX_CONFIG_FILE).map_err(refuse)?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
    text.parse().map_err(|error: countersign_config::ConfigFileError| refuse(error.to_string()))
}

/// A file of the user's own in the XDG configuration directory.
pub(crate) fn user_file(name: &str) -> Option<PathBuf> {
    let xdg = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let dir = xdg.or_else(|| home::user_home().map(|home| home.join(".config")))?;
    Some(dir.join("countersign").join(name))
}

fn resolve(wish: &Wish<'_>, trust: Setting<Trust>, file: UserConfig) -> Result<Resolved, Refusal> {
    let common = wish.common;
    if wish.preset.read_only != wish.usual.read_only {
        let (what, way) =
            if wish.preset.read_only { ("only looks", "ask") } else { ("changes files", "run") };
        return Err(Refusal::usage(format!(
            "the preset {} {what}: it is for `countersign {way}`",
            wish.preset.name
        )));
    }
    let flags = Layer {
        model: common.model.clone(),
        base_url: common.base_url.clone(),
        api_key_file: common.api_key_file.clone(),
        sandbox: common.sandbox,
        network: common.network,
        max_turns: common.max_turns,
        max_tokens: common.max_tokens,
        max_cost: common.max_cost,
        deadline: common.deadline,
        check_timeout: wish.check_timeout,
        attempts: wish.attempts,
    };
    let env_model = match std::env::var("COUNTERSIGN_MODEL") {
        Ok(model) if model.is_empty() => None,
        Ok(model) => Some(model),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(Refusal::new(Reason::Config, "COUNTERSIGN_MODEL is not UTF-8"));
        }
    };
    Ok(countersign_config::resolve(wish.preset, trust, &Layers { flags, env_model, file })?)
}

/// Each setting with its source and value, for evidence: what was resolved, not what was said.
pub(super) fn listed(resolved: &Resolved) -> serde_json::Value {
    use serde_json::json;
    fn one<T: std::fmt::Display>(setting: &Setting<T>) -> serde_json::Value {
        serde_json::json!({ "value": setting.value.to_string(), "source": setting.source.to_string() })
    }
    fn maybe<T: std::fmt::Display>(setting: Option<&Setting<T>>) -> serde_json::Value {
        setting.map_or(serde_json::Value::Null, one)
    }
    let address = resolved.base_url.as_ref().map(|url| crate::text::address(&url.value));
    let number = |setting: &Setting<Millis>| json!({ "value": setting.value.0, "unit": "ms", "source": setting.source.to_string() });
    json!({
        "preset": { "name": resolved.preset.name, "canonical": resolved.canonical },
        "trust": one(&resolved.trust),
        "model": maybe(resolved.model.as_ref()),
        "base_url": address,
        "sandbox": maybe(resolved.sandbox.as_ref()),
        "network": one(&resolved.network),
        "max_turns": one(&resolved.max_turns),
        "max_tokens": maybe(resolved.max_tokens.as_ref()),
        "max_cost": maybe(resolved.max_cost.as_ref()),
        "deadline": number(&resolved.deadline),
        "check_timeout": number(&resolved.check_timeout),
        "command_timeout": number(&resolved.command_timeout),
        "attempts": one(&resolved.attempts),
        // No table of prices is built in.
        "prices": null,
    })
}
