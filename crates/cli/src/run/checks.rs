//! Commands and globs of the command line, and what cannot be asked for together.

use countersign_config::{check_words, split_words};
use countersign_kernel::contract::{CheckTerms, Expect};
use countersign_tree::GlobSet;
use countersign_types::{Millis, Reason};

use crate::args;
use crate::refusal::Refusal;
use crate::run::Wish;

/// Commands as words.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) checks: Vec<CheckTerms>,
    pub(super) setup: Option<Vec<String>>,
    pub(super) probe: Option<Vec<String>>,
}

pub(super) fn parse(wish: &Wish<'_>, timeout: Millis) -> Result<Commands, Refusal> {
    let given = !wish.check.is_empty() || !wish.check_argv.is_empty();
    if wish.no_check {
        contradictions(wish, given)?;
    } else if !given {
        return Err(Refusal::new(
            Reason::NoCheck,
            "nothing says when the task is done: give a command that shows it with --check, or accept the agent's \
             word with --no-check",
        ));
    }
    let mut argvs = Vec::new();
    for text in wish.check {
        argvs.push(words("--check", text)?);
    }
    for text in wish.check_argv {
        argvs.push(json("--check-argv", text)?);
    }
    let expect = match wish.expect {
        Some(args::Expect::Guard) => Expect::Guard,
        Some(args::Expect::New) => Expect::New,
        Some(args::Expect::Fix) | None => Expect::Fix,
    };
    if wish.deps == Some(args::Deps::Fetch) && wish.setup.is_some() {
        return Err(Refusal::usage(
            "--deps fetch cannot be used with --setup: it would run the setup again on the changed lockfile, and nothing \
             shows that a setup command runs no code of a package; make the environment from the new lockfile first, and \
             judge the work against that base",
        ));
    }
    Ok(Commands {
        checks: argvs
            .into_iter()
            .map(|argv| CheckTerms { argv, expect, timeout, repeats: wish.repeats })
            .collect(),
        setup: wish.setup.map(|text| words("--setup", text)).transpose()?,
        probe: wish.probe.map(|text| words("--probe", text)).transpose()?,
    })
}

fn contradictions(wish: &Wish<'_>, given: bool) -> Result<(), Refusal> {
    let way = if wish.preset.read_only { "`ask`" } else { "--no-check" };
    let refuse =
        |flag: &str, why: &str| Err(Refusal::usage(format!("{flag} cannot be used with {way}: {why}")));
    if given {
        return refuse("--check", "say either what shows success or that nothing does");
    }
    if wish.require_verified {
        return refuse("--require verified", "without a check nothing is verified");
    }
    if wish.min_strength.is_some() {
        return refuse("--min-strength", "without a check there is no strength");
    }
    if wish.repeats != 1 {
        return refuse("--repeats", "there is no check to repeat");
    }
    if wish.deps.is_some() {
        return refuse("--deps", "there is no check whose environment could differ");
    }
    if wish.expect.is_some() {
        return refuse("--expect", "there is no check to expect anything of");
    }
    Ok(())
}

fn words(flag: &str, text: &str) -> Result<Vec<String>, Refusal> {
    split_words(text).map_err(|error| {
        let way = match &error {
            countersign_config::WordsError::Operator(_) if flag == "--check" => {
                "; give the words as a JSON array with --check-argv, for example --check-argv '[\"sh\",\"-c\",\"a && b\"]'"
            }
            countersign_config::WordsError::Operator(_) => {
                "; quote it, or name a shell yourself: sh -c 'a && b' (a check takes a JSON array with --check-argv)"
            }
            _ => "",
        };
        Refusal::usage(format!("{flag} `{}` cannot be split into words: {error}{way}", shown(text)))
    })
}

fn json(flag: &str, text: &str) -> Result<Vec<String>, Refusal> {
    let refuse = |what: String| Refusal::usage(format!("{flag} `{}` is of no use: {what}", shown(text)));
    let words: Vec<String> = serde_json::from_str(text).map_err(|error| {
        refuse(format!("it has to be a JSON array of strings, for example [\"make\",\"test\"] ({error})"))
    })?;
    check_words(words).map_err(|error| refuse(error.to_string()))
}

fn shown(text: &str) -> String {
    crate::text::one_line(text, crate::text::LINE)
}

/// Globs are compiled before anything is opened, so that a wrong one never reaches an agent.
pub(super) fn globs(wish: &Wish<'_>) -> Result<(), Refusal> {
    for (flag, globs) in [("--scope", wish.scope), ("--protect", wish.protect)] {
        for glob in globs {
            GlobSet::new([glob])
                .map_err(|error| Refusal::usage(format!("{flag} `{}`: {error}", shown(glob))))?;
        }
    }
    Ok(())
}
