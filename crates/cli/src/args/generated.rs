//! Arguments of `completions` and `generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that the completions are for
    #[arg(value_name = "SHELL", value_parser = shell)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    /// Write docs/cli.md to standard output
    CliDocs,
    /// Write a manual page for each command into a directory
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory, which is made where it is missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

fn shell(text: &str) -> Result<Shell, String> {
    match text {
        "bash" => Ok(Shell::Bash),
        "zsh" => Ok(Shell::Zsh),
        "fish" => Ok(Shell::Fish),
        _ => Err("expected bash, zsh or fish".to_owned()),
    }
}
