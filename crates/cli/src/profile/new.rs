//! `profile new`: a directory to begin with.

use std::fs;
use std::path::Path;

use countersign_engine::StartingCheck;
use countersign_gates::profile::{ProfileCheck, ProfileFiles, ProfileTerms};
use countersign_types::Reason;

use super::unusable;
use crate::args::{ProfileNewArgs, ProjectArgs};
use crate::refusal::Refusal;
use crate::{run, terminal, text};

/// What stands in the directory beside the profile itself.
const HELD_OUT: &str = "Held-out inputs: one case is NAME.out (what a right program writes), with NAME.in (its standard \
                        input), NAME.args (a JSON array of further words) and NAME.code (its exit code, if not 0).\n\
                        \n\
                        Put them into a directory of their own, for example `cases`, and name it in profile.json:\n\
                        \n\
                        \"held_out\": { \"argv\": [\"./program\"], \"cases\": \"cases\" }\n\
                        \n\
                        No agent sees them: they are never mounted in a cell, and what is right is compared outside of it.\n";

pub(super) fn new(args: &ProfileNewArgs) -> Result<(), Refusal> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => named_like(&args.dir)?,
    };
    is_name(&name)?;
    if crate::files::exists(&args.dir) {
        return Err(Refusal::usage(format!(
            "{} is there already: name a new directory, or change what is in that one",
            args.dir.display()
        )));
    }
    let (terms, _) = terms(&name, args.check.as_deref(), &args.project)?;
    write(&args.dir, &terms).map_err(|error| unusable(format!("{}: {error}", args.dir.display())))?;
    terminal::out_line(&args.dir.join(ProfileFiles::MAIN).display().to_string());
    terminal::err_line(&format!(
        "the check is `{}`; look the file over, then `countersign profile check {dir}` and `countersign profile register {dir}`",
        text::safe(&shown_check(&terms)),
        dir = text::quoted(&args.dir.display().to_string())
    ));
    Ok(())
}

pub(super) fn is_name(name: &str) -> Result<(), Refusal> {
    if ProfileTerms::is_name(name) {
        return Ok(());
    }
    Err(Refusal::usage(format!(
        "`{}` is no profile's name: lower-case letters, digits, `.`, `_` and `-`, at most 64; give one with --name",
        text::one_line(name, text::LINE)
    )))
}

/// The first check, as a person would type it.
pub(super) fn shown_check(terms: &ProfileTerms) -> String {
    terms.checks.first().map(|check| text::command(&check.argv)).unwrap_or_default()
}

/// What a profile begins with, and why: the named check, or what the project's own files say if they say one thing.
pub(super) fn terms(
    name: &str,
    check: Option<&str>,
    project: &ProjectArgs,
) -> Result<(ProfileTerms, String), Refusal> {
    if let Some(check) = check {
        let argv = countersign_config::split_words(check)
            .map_err(|error| Refusal::usage(format!("--check cannot be split into words: {error}")))?;
        return Ok((starting(name, argv), "--check says so".to_owned()));
    }
    let found = run::scout(project)?;
    let repo = project.repo.as_deref().unwrap_or(Path::new(".")).display();
    let refuse = |what: String| Err(Refusal::new(Reason::NoCheck, what));
    let because = |one: &StartingCheck| text::one_line(&one.because, text::LINE);
    match found.as_slice() {
        [one] => Ok((one.profile(name), because(one))),
        [] => refuse(format!("the files of {repo} name no way to test it: give one with --check")),
        all => {
            let ways = all.iter().map(|one| format!("`{}` ({})", text::command(&one.check), because(one)));
            refuse(format!(
                "the files of {repo} name {} ways to test it: {}. Choose one with --check",
                all.len(),
                ways.collect::<Vec<_>>().join(", ")
            ))
        }
    }
}

fn named_like(dir: &Path) -> Result<String, Refusal> {
    let name = dir.file_name().and_then(|name| name.to_str()).map(str::to_ascii_lowercase);
    name.ok_or_else(|| Refusal::usage("the directory's name cannot be the profile's: give one with --name"))
}

fn starting(name: &str, argv: Vec<String>) -> ProfileTerms {
    ProfileTerms {
        schema: ProfileTerms::SCHEMA.to_owned(),
        name: name.to_owned(),
        description: None,
        setup: None,
        probe: None,
        checks: vec![ProfileCheck::new(argv)],
        scope: Vec::new(),
        protect: Vec::new(),
        allow: Vec::new(),
        deps: Default::default(),
    }
}

/// The text of a profile's main file.
pub(super) fn text_of(terms: &ProfileTerms) -> std::io::Result<String> {
    let mut text = serde_json::to_string_pretty(terms).map_err(std::io::Error::from)?;
    text.push('\n');
    Ok(text)
}

pub(super) fn write(dir: &Path, terms: &ProfileTerms) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join(ProfileFiles::MAIN), text_of(terms)?)?;
    fs::write(dir.join("HELD-OUT.txt"), HELD_OUT)
}
