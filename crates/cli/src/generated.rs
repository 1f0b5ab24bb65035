//! What is made from the command line's types: completions for shells, manual pages, and `docs/cli.md`.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::args::{Cli, CompletionsArgs, Format, GenerateCommand, ManArgs};
use crate::refusal::Refusal;
use crate::{exit, render, terminal};

const NAME: &str = "countersign";

/// `completions`: a script that the shell loads.
pub(crate) fn completions(args: &CompletionsArgs) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), NAME, &mut script);
    terminal::out_bytes(&script);
    exit::DONE
}

/// `generate`: what the repository and packages hold of the command line.
pub(crate) fn generate(command: &GenerateCommand) -> u8 {
    match command {
        GenerateCommand::CliDocs => {
            terminal::out_bytes(cli_docs().as_bytes());
            exit::DONE
        }
        GenerateCommand::Man(ManArgs { dir }) => {
            let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(shown(), dir));
            match written {
                Ok(()) => exit::DONE,
                Err(error) => {
                    let why = format!("{} cannot be written: {error}; name another directory", dir.display());
                    render::refused(Format::Text, &Refusal::usage(why))
                }
            }
        }
    }
}

/// The command line without what is only for us.
fn shown() -> Command {
    let mut all = Cli::command();
    let shown: Vec<Command> =
        all.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    all = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(shown);
    all.build();
    all
}

/// Every command with every flag, as Markdown.
fn cli_docs() -> String {
    let mut out = "# The command line\n\nMade from the program's own types by `cargo xtask docs`; a test fails where it is \
                   not.\n\n"
        .to_owned();
    let all = shown();
    for command in all.get_subcommands() {
        // Writing to a String does not fail, here and below.
        let anchor = format!("{NAME} {}", command.get_name()).replace(' ', "-");
        let _ = writeln!(out, "- [`{NAME} {}`](#{anchor}): {}", command.get_name(), about(command));
    }
    for command in all.get_subcommands() {
        section(&mut out, command, NAME, 2);
    }
    out
}

fn section(out: &mut String, command: &Command, parent: &str, level: usize) {
    let name = format!("{parent} {}", command.get_name());
    let _ = writeln!(out, "\n{} {name}\n\n{}.", "#".repeat(level), about(command).trim_end_matches('.'));
    let mut usage = command.clone();
    let usage = usage.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(out, "\n```text\n{usage}\n```");
    let arguments: Vec<String> = command
        .get_arguments()
        .filter(|argument| {
            !argument.is_hide_set() && argument.get_id() != "help" && argument.get_id() != "version"
        })
        .map(item)
        .collect();
    if !arguments.is_empty() {
        let _ = writeln!(out, "\n{}", arguments.join("\n"));
    }
    for inner in command.get_subcommands() {
        section(out, inner, &name, level + 1);
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(|about| one_line(&about.to_string())).unwrap_or_default()
}

fn item(argument: &Arg) -> String {
    let value = argument
        .get_action()
        .takes_values()
        .then(|| argument.get_value_names().and_then(|names| names.first()))
        .flatten()
        .map(ToString::to_string);
    let name = match (argument.get_long(), value) {
        (Some(long), Some(value)) => format!("--{long} {value}"),
        (Some(long), None) => format!("--{long}"),
        (None, value) => value.unwrap_or_default(),
    };
    let help = argument.get_help().map(|help| one_line(&help.to_string())).unwrap_or_default();
    let mut parts = vec![help];
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && argument.get_action().takes_values())
        .map(|value| {
            let help = value.get_help().map(|help| format!(" ({})", one_line(&help.to_string())));
            format!("`{}`{}", value.get_name(), help.unwrap_or_default())
        })
        .collect();
    if !values.is_empty() {
        parts.push(format!("One of {}", values.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() {
        parts.push(format!("Default: `{}`", defaults.join(" ")));
    }
    parts.retain(|part| !part.is_empty());
    let said = parts.join(". ");
    if said.is_empty() { format!("- `{name}`") } else { format!("- `{name}`: {said}") }
}

/// Words with angle brackets would be HTML outside of code.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('<', "\\<")
}
