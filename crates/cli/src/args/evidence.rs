//! Arguments of `verify` and `key`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_types::{StrengthLevel, Trust};

use super::{JudgeArgs, Network, Require, TextOrJson, TraceMode, strength};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The bundle's directory, `NAME.bundle`; without it, only what --revealed names is checked
    #[arg(value_name = "DIR", required_unless_present = "revealed")]
    pub(crate) bundle: Option<PathBuf>,
    /// Keys whose signatures count [default: those of `countersign key trust`]
    #[arg(long, value_name = "FILE")]
    pub(crate) trusted_keys: Option<PathBuf>,
    /// Accept only a turn that ended as `verified`
    #[arg(long, value_enum, requires = "bundle")]
    pub(crate) require: Option<Require>,
    /// The weakest strength that is accepted: exit_code, red_before, ids, canary, held_out
    #[arg(long, value_name = "STRENGTH", value_parser = strength, requires = "bundle")]
    pub(crate) min_strength: Option<StrengthLevel>,
    /// What else is asked of the bundle, as a TOML file; docs/evidence.md has its keys
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub(crate) policy: Option<PathBuf>,
    /// The verdict of another verifier about this bundle; repeatable
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub(crate) verdict: Vec<PathBuf>,
    /// The bundle's base has to be what this repository holds as its base commit, or this directory as it is; git runs
    /// in a sandbox
    #[arg(long, value_name = "DIR", requires = "bundle")]
    pub(crate) repo: Option<PathBuf>,
    /// The tree that was judged has to be this revision's, byte for byte
    #[arg(long, value_name = "REV", requires = "repo")]
    pub(crate) head: Option<String>,
    /// What was shown of the journal by `show --reveal`; its commitment has to be in the bundle. Without a bundle, a
    /// directory of `show --reveal --out`: a part of the evidence, checked against the journal that its runner signed;
    /// repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) revealed: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The bundle's directory, `NAME.bundle`
    #[arg(value_name = "DIR")]
    pub(crate) bundle: PathBuf,
    /// How far the project and the bundle's commands are trusted: trusted-local, reviewed or untrusted. Required here or
    /// in your configuration file
    #[arg(long, value_name = "LEVEL")]
    pub(crate) trust: Option<Trust>,
    /// Where the base is: a repository with the bundle's base commit, or a plain directory with its files [default: the
    /// current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    /// What the bundle's setup can reach: none or host [default: none]
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// Keys whose signatures count [default: those of `countersign key trust`]
    #[arg(long, value_name = "FILE")]
    pub(crate) trusted_keys: Option<PathBuf>,
    /// Write what came of it as a signed verdict into this new file, for `verify --verdict`
    #[arg(long, value_name = "FILE")]
    pub(crate) write_verdict: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
    /// What is written to standard error
    #[arg(long, value_enum, default_value_t = TraceMode::Compact)]
    pub(crate) trace: TraceMode,
    /// Your configuration file [default: countersign/config.toml in the XDG configuration directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key: this machine's, or in a file
    New(KeyFileArgs),
    /// Show a public key as OpenSSH and PEM: this machine's, or of a file
    Show(KeyFileArgs),
    /// Trust a key, for all that this home verifies
    Trust(KeyTrustArgs),
    /// Trust a key no longer
    Untrust(KeyUntrustArgs),
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
pub(crate) struct KeyUntrustArgs {
    /// Its name, its key id, or its fingerprint `SHA256:…`, as `key list` shows them; of the last two the beginning will do
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
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
