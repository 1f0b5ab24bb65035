//! Arguments of `profile` and `init`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_types::Trust;

use super::TextOrJson;

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Write a starting profile into a new directory, from what the project's own files say
    New(ProfileNewArgs),
    /// Keep a copy of a profile's directory, pinned by its digest
    Register(ProfileRegisterArgs),
    /// List registered profiles
    List(ProfileListArgs),
    /// Show what a registered profile asks for; held-out inputs are counted, not shown
    Show(ProfileShowArgs),
    /// Check a profile, and with --repo try it on the project's base
    Check(ProfileCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProfileNewArgs {
    /// The directory to make
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The profile's name [default: the directory's]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The command that judges, split into words [default: what the project's files say]
    #[arg(long, value_name = "CMD")]
    pub(crate) check: Option<String>,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
}

/// A project that is looked at, not worked on.
#[derive(Debug, Args)]
pub(crate) struct ProjectArgs {
    /// The project: a git repository or a plain directory [default of `new` and `init`: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,
    /// The commit to look at [default: HEAD]
    #[arg(long, value_name = "REV")]
    pub(crate) base: Option<String>,
    /// How far the project is trusted: trusted-local, reviewed or untrusted. Required here or in your configuration file
    /// where the project is read
    #[arg(long, value_name = "LEVEL")]
    pub(crate) trust: Option<Trust>,
    /// Your configuration file [default: countersign/config.toml in the XDG configuration directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileRegisterArgs {
    /// The profile's directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileListArgs {
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileShowArgs {
    /// NAME or NAME@DIGEST
    #[arg(value_name = "PROFILE")]
    pub(crate) profile: String,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileCheckArgs {
    /// A profile's directory, or NAME or NAME@DIGEST of a registered one
    #[arg(value_name = "PROFILE")]
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) project: ProjectArgs,
    /// The profile's name [default: the project's directory's]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The command that judges, split into words [default: what the project's files say]
    #[arg(long, value_name = "CMD")]
    pub(crate) check: Option<String>,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) print: bool,
}
