//! Arguments of what hands a session's work over: `diff`, `apply`, `export`, and `--at-end` of `run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use countersign_types::SessionId;

use super::TextOrJson;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// The work tree to change [default: the repository that the session began from]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,
    /// Only say whether it would apply
    #[arg(long, conflicts_with = "commit")]
    pub(crate) check: bool,
    /// Make one commit of it, by your own git identity; no hook is run
    #[arg(long)]
    pub(crate) commit: bool,
    /// The commit's subject [default: the task's first line]
    #[arg(long, value_name = "TEXT", requires = "commit")]
    pub(crate) message: Option<String>,
    /// Apply a patch that no check has passed
    #[arg(long)]
    pub(crate) unverified: bool,
    /// Do not ask about files that something starts by itself: hooks, CI, editor tasks, build and install scripts
    #[arg(long)]
    pub(crate) accept_self_starting: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// The directory to make
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

/// What becomes of the patch when a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtEnd {
    /// Show how it ended, and ask on the terminal
    Ask,
    /// It waits for `countersign apply`
    Keep,
    /// One commit in the repository, if a check has passed
    Commit,
    /// It is removed; the evidence keeps it
    Discard,
}
