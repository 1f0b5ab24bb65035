//! Layers of settings: flags, environment, the user's own file.

use std::path::{Path, PathBuf};

use countersign_config::{Layer, Layers, MAX_CONFIG_FILE, Resolved, Setting, UserConfig};
use countersign_types::{Reason, Trust};

use crate::refusal::Refusal;
use crate::run::Wish;
use crate::{files, home};

/// The user's configuration. A file that nobody named may be missing.
pub(super) fn user_config(named: Option<&Path>) -> Result<UserConfig, Refusal> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => match default_path() {
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

fn default_path() -> Option<PathBuf> {
    let xdg = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let dir = xdg.or_else(|| home::user_home().map(|home| home.join(".config")))?;
    Some(dir.join("countersign/config.toml"))
}

pub(super) fn resolve(wish: &Wish<'_>, trust: Setting<Trust>, file: UserConfig) -> Result<Resolved, Refusal> {
    let common = wish.common;
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
