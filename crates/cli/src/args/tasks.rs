//! Arguments of durable tasks: `submit`, `approve`, `pause`, `cancel`, `revoke`, `status`.

use std::path::PathBuf;

use clap::Args;
use countersign_kernel::Capability;
use countersign_types::{Digest, SessionId};

use super::{TermsArgs, TextOrJson};

/// Every flag that a contract file stands in place of.
pub(crate) const TERMS: &[&str] = &[
    "trust",
    "model",
    "base_url",
    "preset",
    "repo",
    "base",
    "include_dirty",
    "sandbox",
    "network",
    "max_turns",
    "max_tokens",
    "max_cost",
    "deadline",
    "check",
    "check_argv",
    "profile",
    "expect",
    "check_timeout",
    "repeats",
    "deps",
    "scope",
    "protect",
    "allow",
    "no_fence",
    "out_of_process",
    "setup",
    "probe",
    "require",
    "mutants",
    "min_strength",
    "review_model",
    "review_base_url",
    "review_rounds",
    "review_required",
    "repro_first",
    "attempts",
    "no_check",
];

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The terms as a JSON file, in place of flags: docs/tasks.md has its fields
    #[arg(value_name = "CONTRACT.json", conflicts_with_all = TERMS)]
    pub(crate) contract: Option<PathBuf>,
    /// The task; `-` reads it from standard input
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) task: Option<String>,
    /// Read the task from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) task_file: Option<PathBuf>,
    /// Approve it at once: whoever resumes it lets it run
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// Approve only if this is the digest of its contract
    #[arg(long, value_name = "DIGEST")]
    pub(crate) contract: Option<Digest>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) reason: Option<String>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) reason: Option<String>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// Only this one, as `status` names it, for example command.run [default: everything that was granted]
    #[arg(long, value_name = "NAME", value_parser = capability)]
    pub(crate) capability: Option<Capability>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) reason: Option<String>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// One session [default: every session that is not over]
    #[arg(value_name = "SESSION")]
    pub(crate) id: Option<SessionId>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

/// Bytes of somebody's words, at most: they are a note, no document.
const MAX_WORDS: usize = 4096;

fn words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty: leave the flag out".to_owned());
    }
    if text.len() > MAX_WORDS {
        return Err(format!("it has {} bytes, and {MAX_WORDS} are kept at most", text.len()));
    }
    Ok(text.to_owned())
}

fn capability(name: &str) -> Result<Capability, String> {
    Capability::ALL.iter().copied().find(|capability| capability.as_str() == name).ok_or_else(|| {
        let all: Vec<&str> = Capability::ALL.iter().map(|capability| capability.as_str()).collect();
        format!("there is no such capability; expected one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_contract_file_stands_in_place_of_every_flag_that_is_a_term() {
        // Where and how a person is told, with which key, and what is a file for people: none of it is a term.
        const NO_TERMS: &[&str] = &[
            "contract",
            "task",
            "task_file",
            "yes",
            "api_key_file",
            "review_api_key_file",
            "record",
            "replay",
            "format",
            "trace",
            "report",
            "config",
            "crash_at",
            "help",
            "version",
        ];
        let mut command = super::super::Cli::command();
        command.build();
        let submit = command.find_subcommand("submit").unwrap();
        for arg in submit.get_arguments() {
            let id = arg.get_id().as_str();
            assert!(TERMS.contains(&id) != NO_TERMS.contains(&id), "{id}");
        }
    }

    #[test]
    fn a_capability_is_named_as_status_names_it() {
        for one in Capability::ALL {
            assert_eq!(capability(one.as_str()), Ok(*one));
        }
        assert!(capability("tree").unwrap_err().contains("tree.read"));
    }
}
