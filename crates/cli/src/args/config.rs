use clap::Subcommand;

use crate::args::RunArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting of a run with these flags: its value, where it came from, and whether the trust level moved it
    Explain(Box<RunArgs>),
}
