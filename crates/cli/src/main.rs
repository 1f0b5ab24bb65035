//! `countersign`: runs coding agents and does not take their word for it.
//!
//! This crate is the only place of the project that reads the environment, prints, or knows of signals and exit codes.
//! Read [`run`] for the story of `countersign run` up to the point where the engine takes over.
//!
//! Architecture invariants: standard output is data, standard error is for people; nothing of a child process reaches
//! standard output; every ending has one exit code, which is a function of its outcome; hostile text is escaped before
//! it reaches a terminal.
#![forbid(unsafe_code)]

mod apply;
mod args;
mod ask;
mod bug;
mod crash;
mod demo;
mod desk;
mod diff;
mod doctor;
mod events;
mod evidence;
mod exit;
mod export;
mod files;
mod gate;
mod gc;
mod generated;
mod grants;
mod hint;
mod home;
mod lease;
mod list;
mod package;
mod ports;
mod profile;
mod refusal;
mod render;
mod report;
mod result;
mod resume;
mod run;
mod show;
mod signals;
mod status;
mod submit;
mod sweep;
mod terminal;
mod text;
mod tiers;
mod trace;
mod watch;

use std::process::ExitCode;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    let format = args::format_of(&argv);
    bug::install(format);
    let exit = match args::parse(&argv) {
        Ok(Some(cli)) => {
            // The exit code of these is the turn's outcome, whoever could read of it.
            let ends_turn = matches!(
                cli.command,
                Command::Run(_) | Command::Gate(_) | Command::Ask(_) | Command::Resume(_)
            );
            let exit = dispatch(cli);
            if ends_turn { exit } else { exit::of_writing(exit) }
        }
        Ok(None) => exit::of_writing(exit::DONE),
        Err(refusal) => run::refused_at_parse(&argv, format, &refusal),
    };
    ExitCode::from(exit)
}

fn dispatch(cli: Cli) -> u8 {
    crash::want(cli.crash_at.as_ref());
    match cli.command {
        Command::Init(args) => profile::init(&args),
        Command::Run(args) => run::run(&args),
        Command::Gate(args) => gate::gate(&args),
        Command::Ask(args) => run::ask(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::CrashDemo(args) => demo::crash_demo(&args),
        Command::Profile(command) => profile::profile(&command),
        Command::Verify(args) => evidence::verify(&args),
        Command::ReplayCheck(args) => evidence::replay_check(&args),
        Command::Config(args::ConfigCommand::Explain(args)) => run::explain(&args),
        Command::Key(command) => evidence::key(&command),
        Command::List(args) => list::list(&args),
        Command::Show(args) => show::show(&args),
        Command::Report(args) => show::report(&args.id),
        Command::Watch(args) => watch::watch(&args),
        Command::Events(args) => events::events(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Apply(args) => apply::apply(&args),
        Command::Export(args) => export::export(&args),
        Command::Submit(args) => submit::submit(&args),
        Command::Approve(args) => desk::approve(&args),
        Command::Resume(args) => resume::resume(&args),
        Command::Pause(args) => desk::pause(&args),
        Command::Cancel(args) => desk::cancel(&args),
        Command::Revoke(args) => desk::revoke(&args),
        Command::Status(args) => status::status(&args),
        Command::Gc(args) => gc::gc(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions(args) => generated::completions(&args),
        Command::Generate(command) => generated::generate(&command),
        Command::Version => {
            terminal::out_line(&format!("countersign {}", env!("CARGO_PKG_VERSION")));
            exit::DONE
        }
    }
}
