//! From layers to settings.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use countersign_types::{ByteSize, Millis, Money, Tier, Trust};
use serde::Serialize;

use crate::{Preset, Setting, Source, UserConfig};

/// What the jobs of a session can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A loopback device and nothing else.
    None,
    /// Whatever the host reaches.
    Host,
}

impl Network {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "host" => Ok(Self::Host),
            _ => Err("expected one of none, host".to_owned()),
        }
    }
}

/// What one source says. Every value may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    pub model: Option<String>,
    pub base_url: Option<String>,
    pub api_key_file: Option<PathBuf>,
    pub sandbox: Option<Tier>,
    pub network: Option<Network>,
    pub max_turns: Option<u32>,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<Money>,
    pub deadline: Option<Millis>,
    pub check_timeout: Option<Millis>,
    pub attempts: Option<u32>,
}

/// All sources but the preset, in falling order of authority.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    pub flags: Layer,
    /// `COUNTERSIGN_MODEL`.
    pub env_model: Option<String>,
    pub file: UserConfig,
}

/// Settings that all hold together. `None` in a value: not limited, or nobody said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub preset: Preset,
    /// No source moved a value away from the preset's.
    pub canonical: bool,
    pub trust: Setting<Trust>,
    pub model: Option<Setting<String>>,
    pub base_url: Option<Setting<String>>,
    pub api_key_file: Option<Setting<PathBuf>>,
    /// None: nobody named a tier; the best that works is taken.
    pub sandbox: Option<Setting<Tier>>,
    pub network: Setting<Network>,
    pub max_turns: Setting<u32>,
    pub max_tokens: Option<Setting<u64>>,
    pub max_cost: Option<Setting<Money>>,
    pub deadline: Setting<Millis>,
    pub check_timeout: Setting<Millis>,
    pub command_timeout: Setting<Millis>,
    pub attempts: Setting<u32>,
    pub tool_actions: u32,
    pub output: ByteSize,
    pub max_output_tokens: u32,
    pub model_retries: u32,
}

/// Why settings do not hold together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error(
        "no trust level: say how far this repository and task are trusted, with --trust LEVEL or `trust = \"LEVEL\"` \
         in your configuration file. Levels: `trusted-local` (your own code: no floor), `reviewed` (somebody looked at \
         it: at least the native sandbox, no host network), `untrusted` (anybody's: a separate kernel, no network, no \
         secrets, its instructions ignored)"
    )]
    NoTrust,
    #[error(
        "{flag} {value} is weaker than trust {trust} allows ({floor}): leave it out, or choose another --trust"
    )]
    BelowFloor { flag: &'static str, value: String, trust: Trust, floor: String },
}

/// The trust level. It is resolved first: nothing else may be looked at before.
///
/// # Errors
/// [`SettingError::NoTrust`] when neither source has one.
pub fn trust(flag: Option<Trust>, file: &UserConfig) -> Result<Setting<Trust>, SettingError> {
    match (flag, file.trust) {
        (Some(trust), _) => Ok(Setting::new(trust, Source::Flag("--trust"))),
        (None, Some(trust)) => Ok(Setting::new(trust, Source::UserFile)),
        (None, None) => Err(SettingError::NoTrust),
    }
}

/// All other settings.
///
/// # Errors
/// [`SettingError::BelowFloor`] for a flag that is weaker than `trust` allows.
pub fn resolve(preset: &Preset, trust: Setting<Trust>, layers: &Layers) -> Result<Resolved, SettingError> {
    let Layers { flags, env_model, file } = layers;
    let pick = |flag: Option<u32>, name, file: Option<u32>, preset| {
        first(flag, name, file).unwrap_or(Setting::new(preset, Source::Preset))
    };
    let time = |flag: Option<Millis>, name, file: Option<Millis>, preset| {
        first(flag, name, file).unwrap_or(Setting::new(preset, Source::Preset))
    };
    let env_model = env_model.clone().map(|m| Setting::new(m, Source::Env("COUNTERSIGN_MODEL")));
    let model = match flags.model.clone() {
        Some(model) => Some(Setting::new(model, Source::Flag("--model"))),
        None => env_model.or_else(|| first(None, "--model", file.model.clone())),
    };
    let own = belongs(file, model.as_ref());
    let max_turns = pick(flags.max_turns, "--max-turns", file.max_turns, preset.turns);
    let attempts = pick(flags.attempts, "--attempts", file.attempts, preset.attempts);
    let deadline = time(flags.deadline, "--deadline", file.deadline, preset.deadline);
    let check_timeout =
        time(flags.check_timeout, "--check-timeout", file.check_timeout, preset.check_timeout);
    // A command that outlives the turn's deadline helps nobody.
    let command_timeout = Setting::new(preset.command_timeout.min(deadline.value), Source::Preset);
    let canonical = max_turns.value == preset.turns
        && attempts.value == preset.attempts
        && deadline.value == preset.deadline
        && check_timeout.value == preset.check_timeout;
    Ok(Resolved {
        preset: *preset,
        canonical,
        trust,
        model,
        base_url: first(flags.base_url.clone(), "--base-url", file.base_url.clone().filter(|_| own)),
        api_key_file: first(
            flags.api_key_file.clone(),
            "--api-key-file",
            file.api_key_file.clone().filter(|_| own),
        ),
        sandbox: sandbox(first(flags.sandbox, "--sandbox", file.sandbox), trust.value)?,
        network: network(first(flags.network, "--network", file.network), trust.value)?,
        max_turns,
        max_tokens: first(flags.max_tokens, "--max-tokens", file.max_tokens),
        max_cost: first(flags.max_cost, "--max-cost", file.max_cost),
        deadline,
        check_timeout,
        command_timeout,
        attempts,
        tool_actions: preset.tool_actions,
        output: preset.output,
        max_output_tokens: preset.max_output_tokens,
        model_retries: preset.model_retries,
    })
}

/// Do the file's address and key belong to `model`? They were written for the provider that the file names; another
/// one's key must not go there.
fn belongs(file: &UserConfig, model: Option<&Setting<String>>) -> bool {
    let provider = |model: &str| model.split_once(':').map(|(provider, _)| provider.to_owned());
    match (&file.model, model) {
        (Some(own), Some(chosen)) => provider(own) == provider(&chosen.value),
        _ => true,
    }
}

fn first<T>(flag: Option<T>, name: &'static str, file: Option<T>) -> Option<Setting<T>> {
    let flag = flag.map(|value| Setting::new(value, Source::Flag(name)));
    flag.or_else(|| file.map(|value| Setting::new(value, Source::UserFile)))
}

/// The weakest tier whose demands hold the floor.
fn floor_tier(trust: Trust) -> Option<Tier> {
    let floor = trust.floor();
    if floor.is_empty() {
        return None;
    }
    Tier::ALL.iter().copied().find(|tier| tier.demands().is_superset(&floor))
}

fn sandbox(asked: Option<Setting<Tier>>, trust: Trust) -> Result<Option<Setting<Tier>>, SettingError> {
    let Some(floor) = floor_tier(trust) else {
        return Ok(asked);
    };
    let raised = Setting::new(floor, Source::Floor(trust));
    match asked {
        Some(asked) if asked.value.demands().is_superset(&trust.floor()) => Ok(Some(asked)),
        Some(Setting { value, source: Source::Flag(flag) }) => Err(SettingError::BelowFloor {
            flag,
            value: value.to_string(),
            trust,
            floor: format!("at least {floor}"),
        }),
        _ => Ok(Some(raised)),
    }
}

fn network(asked: Option<Setting<Network>>, trust: Trust) -> Result<Setting<Network>, SettingError> {
    let open = trust == Trust::TrustedLocal;
    match asked {
        None => Ok(Setting::new(Network::None, Source::Default)),
        Some(asked) if open || asked.value == Network::None => Ok(asked),
        Some(Setting { value, source: Source::Flag(flag) }) => Err(SettingError::BelowFloor {
            flag,
            value: value.to_string(),
            trust,
            floor: "no host network".to_owned(),
        }),
        Some(_) => Ok(Setting::new(Network::None, Source::Floor(trust))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CODING, QUESTION};

    fn at(trust: Trust) -> Setting<Trust> {
        Setting::new(trust, Source::Flag("--trust"))
    }

    fn file(text: &str) -> UserConfig {
        text.parse().unwrap()
    }

    #[test]
    fn trust_is_required_and_the_message_lists_the_levels() {
        let text = trust(None, &UserConfig::default()).unwrap_err().to_string();
        for level in Trust::ALL {
            assert!(text.contains(level.as_str()), "{text}");
        }
        assert_eq!(trust(None, &file("trust = \"reviewed\"")).unwrap().source, Source::UserFile);
        let both = trust(Some(Trust::Untrusted), &file("trust = \"reviewed\"")).unwrap();
        assert_eq!(both, at(Trust::Untrusted));
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_file_which_beats_the_preset() {
        let mut layers = Layers {
            flags: Layer { model: Some("flag:m".into()), max_turns: Some(3), ..Layer::default() },
            env_model: Some("env:m".into()),
            file: file("model = \"file:m\"\nmax_turns = 9\ndeadline = \"1m\""),
        };
        let all = resolve(&CODING, at(Trust::TrustedLocal), &layers).unwrap();
        assert_eq!(all.model, Some(Setting::new("flag:m".into(), Source::Flag("--model"))));
        assert_eq!(all.max_turns, Setting::new(3, Source::Flag("--max-turns")));
        assert_eq!(all.deadline, Setting::new(Millis::from_secs(60), Source::UserFile));
        assert_eq!(all.check_timeout.source, Source::Preset);
        assert_eq!(all.command_timeout.value, Millis::from_secs(60), "clamped to the deadline");
        assert!(!all.canonical);
        layers.flags = Layer::default();
        let all = resolve(&CODING, at(Trust::TrustedLocal), &layers).unwrap();
        assert_eq!(all.model.unwrap().source, Source::Env("COUNTERSIGN_MODEL"));
        layers.env_model = None;
        let all = resolve(&CODING, at(Trust::TrustedLocal), &layers).unwrap();
        assert_eq!(all.model.unwrap().source, Source::UserFile);
        let plain = resolve(&QUESTION, at(Trust::TrustedLocal), &Layers::default()).unwrap();
        assert!(plain.canonical);
        assert_eq!(plain.max_turns, Setting::new(20, Source::Preset));
    }

    #[test]
    fn the_files_address_and_key_stay_with_the_provider_that_it_names() {
        let own = "model = \"openai:m\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_file = \"/k\"";
        let with = |model: &str, text: &str| {
            let flags = Layer { model: Some(model.into()), ..Layer::default() };
            let layers = Layers { flags, file: file(text), ..Layers::default() };
            let all = resolve(&CODING, at(Trust::TrustedLocal), &layers).unwrap();
            (all.base_url.is_some(), all.api_key_file.is_some())
        };
        assert_eq!(with("openai:other", own), (true, true));
        assert_eq!(with("anthropic:m", own), (false, false));
        assert_eq!(with("anthropic:m", "base_url = \"http://127.0.0.1:1/v1\""), (true, false));
    }

    #[test]
    fn a_flag_below_the_floor_is_refused_by_name_and_a_file_is_raised() {
        for (trust, tier, fine) in [
            (Trust::TrustedLocal, Tier::Host, true),
            (Trust::Reviewed, Tier::Host, false),
            (Trust::Reviewed, Tier::Native, true),
            (Trust::Untrusted, Tier::Native, false),
            (Trust::Untrusted, Tier::Container, false),
            (Trust::Untrusted, Tier::Gvisor, true),
            (Trust::Untrusted, Tier::Vm, true),
        ] {
            let flags = Layer { sandbox: Some(tier), ..Layer::default() };
            let result = resolve(&CODING, at(trust), &Layers { flags, ..Layers::default() });
            assert_eq!(result.is_ok(), fine, "{trust} {tier}");
            if let Err(error) = result {
                assert!(error.to_string().contains("--sandbox"), "{error}");
            }
        }
        let layers = Layers { file: file("sandbox = \"host\"\nnetwork = \"host\""), ..Layers::default() };
        let all = resolve(&CODING, at(Trust::Reviewed), &layers).unwrap();
        assert_eq!(all.sandbox, Some(Setting::new(Tier::Native, Source::Floor(Trust::Reviewed))));
        assert_eq!(all.network, Setting::new(Network::None, Source::Floor(Trust::Reviewed)));
        let all = resolve(&CODING, at(Trust::Untrusted), &Layers::default()).unwrap();
        assert_eq!(all.sandbox, Some(Setting::new(Tier::Gvisor, Source::Floor(Trust::Untrusted))));
        let flags = Layer { network: Some(Network::Host), ..Layer::default() };
        let error =
            resolve(&CODING, at(Trust::Reviewed), &Layers { flags, ..Layers::default() }).unwrap_err();
        assert!(error.to_string().contains("--network"), "{error}");
    }
}
