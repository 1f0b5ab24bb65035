//! How an agent is called, beside its model: what `run` and `ask` have and `gate` has not.

use std::path::PathBuf;

use clap::Args;
use countersign_config::{PRESETS, Preset};

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentArgs {
    /// Named behaviour defaults: limits, attempts and what the agent is told. Recorded in every run; flags override them
    /// (default: coding@1 of run, question@1 of ask)
    #[arg(long, value_name = "NAME@VERSION", value_parser = preset)]
    pub(crate) preset: Option<&'static Preset>,
    /// Write every attempt of every model call into this new file, once the run has ended. It holds the whole
    /// conversation: the task, what was read of the project, and what commands wrote. Known keys are taken out, and only
    /// you can open it
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Play the model calls of a recording, without a network or a key. A call that differs from the recorded one ends the
    /// run and names the field
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

fn preset(name: &str) -> Result<&'static Preset, String> {
    PRESETS.iter().find(|preset| preset.name == name && preset.turns > 0).ok_or_else(|| {
        let all: Vec<&str> =
            PRESETS.iter().filter(|preset| preset.turns > 0).map(|preset| preset.name).collect();
        format!("there is no preset of this name; expected one of {}", all.join(", "))
    })
}
