//! `profile`: makes, keeps and looks at profiles.

mod init;
mod look;
mod new;
mod store;

use std::path::Path;

use countersign_gates::profile::{Profile, ProfileFiles};
use countersign_kernel::contract::ProfileRef;
use countersign_types::{Digest, Reason};
use serde::Serialize;

pub(crate) use self::init::init;
pub(crate) use self::store::ProfileStore;
use crate::args::{Format, ProfileCommand, TextOrJson};
use crate::refusal::Refusal;
use crate::{exit, home, render, terminal, text};

pub(crate) fn profile(command: &ProfileCommand) -> u8 {
    let (format, done) = match command {
        ProfileCommand::New(args) => (TextOrJson::Text, new::new(args).map(|()| exit::DONE)),
        ProfileCommand::Register(args) => {
            (args.format, register(&args.dir, args.format).map(|()| exit::DONE))
        }
        ProfileCommand::List(args) => (args.format, list(args.format).map(|()| exit::DONE)),
        ProfileCommand::Show(args) => (args.format, show(&args.profile, args.format).map(|()| exit::DONE)),
        ProfileCommand::Check(args) => (args.format, look::check(args)),
    };
    done.unwrap_or_else(|refusal| {
        let format = if format == TextOrJson::Json { Format::Json } else { Format::Text };
        render::refused(format, &refusal)
    })
}

/// The registered profiles. The home need not hold anything yet.
fn store() -> Result<ProfileStore, Refusal> {
    Ok(ProfileStore::new(&home::path()?))
}

fn unusable(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(Reason::Config, what.to_string())
}

/// A profile's directory, read and understood.
fn read(dir: &Path) -> Result<(ProfileFiles, Profile), Refusal> {
    let refuse = |what: &dyn std::fmt::Display| unusable(format!("{} is no profile: {what}", dir.display()));
    let files = store::read_dir(dir).map_err(|what| refuse(&what))?;
    let profile = Profile::read(&files).map_err(|what| refuse(&what))?;
    Ok((files, profile))
}

fn out_json(value: &impl Serialize) -> Result<(), Refusal> {
    let line = serde_json::to_string(value).map_err(|error| Refusal::bug(error.to_string()))?;
    terminal::out_line(&line);
    Ok(())
}

#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    digest: Digest,
    /// What the name alone stands for.
    current: bool,
    /// None: the copy can be used. Else what is wrong with it.
    problem: Option<String>,
}

fn register(dir: &Path, format: TextOrJson) -> Result<(), Refusal> {
    let (files, profile) = read(dir)?;
    let name = &profile.terms.name;
    let digest = store()?.register(&files, name).map_err(unusable)?;
    match format {
        TextOrJson::Json => out_json(&Listed { name, digest, current: true, problem: None }),
        TextOrJson::Text => {
            terminal::out_line(&format!("{name}@{digest}"));
            Ok(())
        }
    }
}

fn list(format: TextOrJson) -> Result<(), Refusal> {
    let store = store()?;
    let all = store.list().map_err(unusable)?;
    let listed: Vec<Listed<'_>> = all
        .iter()
        .map(|one| Listed {
            name: &one.profile.name,
            digest: one.profile.digest,
            current: one.current,
            problem: store.profile(&one.profile).err(),
        })
        .collect();
    if format == TextOrJson::Json {
        return out_json(&listed);
    }
    for one in &listed {
        let mark = if one.current { "" } else { "  (older)" };
        let problem = one.problem.as_ref().map_or_else(String::new, |what| format!("  DAMAGED: {what}"));
        terminal::out_line(&text::safe(&format!("{}@{}{mark}{problem}", one.name, one.digest)));
    }
    if listed.is_empty() {
        terminal::err_line(
            "no profiles yet: `countersign profile new DIR` begins one, `countersign profile register DIR` keeps it",
        );
    }
    Ok(())
}

fn pinned(named: &str) -> Result<(ProfileRef, Profile), Refusal> {
    let store = store()?;
    let pinned = store.find(named).map_err(unusable)?;
    let profile = store.profile(&pinned).map_err(unusable)?;
    Ok((pinned, profile))
}

fn show(named: &str, format: TextOrJson) -> Result<(), Refusal> {
    let (pinned, profile) = pinned(named)?;
    if format == TextOrJson::Json {
        #[derive(Serialize)]
        struct Shown<'a> {
            digest: Digest,
            profile: &'a countersign_gates::profile::ProfileTerms,
            /// Held-out inputs of each check.
            held_out_cases: Vec<usize>,
        }
        let held_out_cases = (0..profile.checks.len()).map(|check| profile.cases(check).len()).collect();
        return out_json(&Shown { digest: pinned.digest, profile: &profile.terms, held_out_cases });
    }
    terminal::out_bytes(text::safe(&for_people(&pinned, &profile)).as_bytes());
    Ok(())
}

fn for_people(pinned: &ProfileRef, profile: &Profile) -> String {
    let mut out = format!("{}@{}\n", pinned.name, pinned.digest);
    let terms = &profile.terms;
    let mut line = |name: &str, value: String| out.push_str(&format!("  {name:<10}{value}\n"));
    let command = |argv: &[String]| text::command(argv);
    if let Some(description) = &terms.description {
        line("about", description.clone());
    }
    for (name, argv) in [("setup", &terms.setup), ("probe", &terms.probe)] {
        if let Some(argv) = argv {
            line(name, command(argv));
        }
    }
    for (index, check) in profile.checks.iter().enumerate() {
        line("check", command(&check.argv));
        let expect = serde_json::to_value(check.expect).unwrap_or_default();
        line("", format!("expect {}, {} each", expect.as_str().unwrap_or("?"), times(check.repeats)));
        if let Some(runner) = &check.runner {
            line("", format!("runner {runner}"));
        }
        if !check.ids.is_empty() {
            line("", format!("{} tests expected by name", check.ids.len()));
        }
        if let Some(held_out) = &check.held_out {
            line(
                "",
                format!("{} held-out inputs for {}", profile.cases(index).len(), command(&held_out.argv)),
            );
        }
    }
    for (name, globs) in [("scope", &terms.scope), ("protect", &terms.protect)] {
        if !globs.is_empty() {
            line(name, globs.join(" "));
        }
    }
    for allowance in &terms.allow {
        let place = allowance.glob.as_ref().map_or_else(String::new, |glob| format!(":{glob}"));
        line("allow", format!("{}{place}", allowance.rule));
    }
    out
}

fn times(repeats: u32) -> String {
    if repeats == 1 { "one run".to_owned() } else { format!("{repeats} runs") }
}
