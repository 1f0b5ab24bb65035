//! Arguments of `verify` and `key`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_types::StrengthLevel;

use super::{Require, TextOrJson, strength};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The bundle's directory, `NAME.bundle`
    #[arg(value_name = "DIR")]
    pub(crate) bundle: PathBuf,
    /// Keys whose signatures count [default: those of `countersign key trust`]
    #[arg(long, value_name = "FILE")]
    pub(crate) trusted_keys: Option<PathBuf>,
    /// Accept only a turn that ended as `verified`
    #[arg(long, value_enum)]
    pub(crate) require: Option<Require>,
    /// The weakest strength that is accepted: exit_code, red_before, ids, canary, held_out
    #[arg(long, value_name = "STRENGTH", value_parser = strength)]
    pub(crate) min_strength: Option<StrengthLevel>,
    /// What else is asked of the bundle, as a TOML file; docs/evidence.md has its keys
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The verdict of another verifier about this bundle; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) verdict: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key: this machine's, or in a file
    New(KeyFileArgs),
    /// Show a public key as OpenSSH and PEM: this machine's, or of a file
    Show(KeyFileArgs),
    /// Trust a key, for all that this home verifies
    Trust(KeyTrustArgs),
    /// List trusted keys, and this machine's
    List(KeyListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyFileArgs {
    /// The key's file [default: this machine's key, below the home]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct KeyTrustArgs {
    /// A public key, OpenSSH or PEM [default: this machine's key]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What the key is called in policies and answers
    #[arg(long)]
    pub(crate) name: String,
    /// What it may sign: runner or verifier; repeatable [default: both]
    #[arg(long, value_parser = role)]
    pub(crate) role: Vec<countersign_proof::Role>,
    /// The first moment at which it is valid, for example 2026-12-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) not_before: Option<String>,
    /// The last moment at which it is valid
    #[arg(long, value_name = "TIME")]
    pub(crate) not_after: Option<String>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct KeyListArgs {
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

fn role(text: &str) -> Result<countersign_proof::Role, String> {
    use countersign_proof::Role;
    [Role::Runner, Role::Verifier]
        .into_iter()
        .find(|role| role.as_str() == text)
        .ok_or_else(|| "expected runner or verifier".to_owned())
}
