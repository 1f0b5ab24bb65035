//! Commands and globs of the command line, and what cannot be asked for together.

use countersign_config::{check_words, split_words};
use countersign_engine::StartingCheck;
use countersign_kernel::contract::{Allowance, CheckTerms, Contract, Deps, Expect, ProfileRef};
use countersign_tree::GlobSet;
use countersign_types::{Millis, Reason};

use crate::args;
use crate::profile::ProfileStore;
use crate::refusal::Refusal;
use crate::run::Wish;

/// Checks of a contract that is repeated, at most.
const MAX_REPEATED_CHECKS: usize = 100;

/// One run of one of them takes at most this, whatever the contract says: an hour.
const MAX_REPEATED_TIMEOUT: Millis = Millis::from_secs(3600);

/// All runs together may take at most this, or they are refused: six hours.
const MAX_REPEATED_TOTAL: Millis = Millis::from_secs(6 * 3600);

/// Words of one command, and their bytes together.
const MAX_REPEATED_WORDS: usize = 4096;
const MAX_REPEATED_COMMAND: usize = 64 << 10;

/// Commands as words.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) checks: Vec<CheckTerms>,
    pub(super) setup: Option<Vec<String>>,
    pub(super) probe: Option<Vec<String>>,
    /// Where all of it comes from, if it is a registered profile.
    pub(super) profile: Option<ProfileRef>,
    pub(super) scope: Vec<String>,
    pub(super) protect: Vec<String>,
    pub(super) allow: Vec<Allowance>,
    pub(super) deps: Deps,
    timeout: Millis,
}

pub(super) fn parse(wish: &Wish<'_>, timeout: Millis) -> Result<Commands, Refusal> {
    let given = !wish.check.is_empty() || !wish.check_argv.is_empty();
    if wish.no_check {
        contradictions(wish, given)?;
    } else if wish.profile.is_some() {
        beside_a_profile(wish, given)?;
    }
    if wish.no_fence {
        let beside = [
            ("--protect", !wish.protect.is_empty()),
            ("--allow", !wish.allow.is_empty()),
            ("--no-check", wish.no_check),
        ];
        if let Some((flag, _)) = beside.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Refusal::usage(format!(
                "--no-fence cannot be used with {flag}: it protects nothing at all; leave one of them out"
            )));
        }
    }
    let mut argvs = Vec::new();
    for text in wish.check {
        argvs.push(words("--check", text)?);
    }
    for text in wish.check_argv {
        argvs.push(json("--check-argv", text)?);
    }
    Ok(Commands {
        checks: argvs.into_iter().map(|argv| check(wish, argv, timeout)).collect(),
        setup: wish.setup.map(|text| words("--setup", text)).transpose()?,
        probe: wish.probe.map(|text| words("--probe", text)).transpose()?,
        profile: None,
        scope: wish.scope.to_vec(),
        protect: wish.protect.to_vec(),
        allow: wish.allow.to_vec(),
        deps: match wish.deps {
            None | Some(args::Deps::Deny) => Deps::Deny,
            Some(args::Deps::Ask) => Deps::Ask,
            Some(args::Deps::Fetch) => Deps::Fetch,
        },
        timeout,
    })
}

fn check(wish: &Wish<'_>, argv: Vec<String>, timeout: Millis) -> CheckTerms {
    let expect = match wish.expect {
        Some(args::Expect::Guard) => Expect::Guard,
        Some(args::Expect::New) => Expect::New,
        Some(args::Expect::Fix) | None => Expect::Fix,
    };
    CheckTerms { repeats: wish.repeats.unwrap_or(1), ..CheckTerms::new(argv, expect, timeout) }
}

impl Commands {
    /// Everything that a registered profile says.
    pub(super) fn take_over(&mut self, store: &ProfileStore, named: &str) -> Result<(), Refusal> {
        let refuse =
            |what: String| Refusal::new(Reason::Config, format!("--profile {}: {what}", shown(named)));
        let pinned = store.find(named).map_err(refuse)?;
        let profile = store.profile(&pinned).map_err(refuse)?;
        if !self.scope.is_empty() && !profile.terms.scope.is_empty() {
            return Err(Refusal::usage(format!(
                "--scope cannot be used with --profile {named}: the profile has a scope of its own",
                named = shown(named)
            )));
        }
        self.checks = profile.checks;
        self.setup = profile.terms.setup;
        self.probe = profile.terms.probe;
        self.scope.extend(profile.terms.scope);
        self.protect.extend(profile.terms.protect);
        self.allow = profile.terms.allow;
        self.deps = profile.terms.deps;
        self.profile = Some(pinned);
        Ok(())
    }

    /// Everything that another session's contract says of how its work is judged. Its bounds are held to this program's:
    /// a contract that comes from elsewhere does not make anybody wait for days.
    pub(super) fn repeat(&mut self, contract: &Contract, at_most: Option<Millis>) -> Result<(), Refusal> {
        let refuse =
            |what: &str| Err(Refusal::usage(format!("the bundle's contract cannot be repeated: {what}")));
        if contract.checks.is_empty() {
            return refuse("it has no check");
        }
        if contract.checks.len() > MAX_REPEATED_CHECKS {
            return refuse("it has more than 100 checks");
        }
        let argvs = contract.checks.iter().map(|check| &check.argv);
        for argv in argvs.chain(&contract.environment.setup).chain(&contract.environment.probe) {
            if argv.len() > MAX_REPEATED_WORDS
                || argv.iter().map(String::len).sum::<usize>() > MAX_REPEATED_COMMAND
            {
                return refuse("a command of it is longer than 64 KiB or 4096 words");
            }
            if let Err(error) = check_words(argv.clone()) {
                return refuse(&format!("a command of it is none: {error}"));
            }
        }
        if let Err(error) = GlobSet::new(contract.scope.iter().chain(&contract.protect)) {
            return refuse(&format!("a glob of it is none: {}", shown(&error.to_string())));
        }
        let rules = countersign_gates::rules::catalogue();
        if let Some(unknown) = contract
            .allow
            .iter()
            .find(|one| !rules.iter().any(|rule| rule.name == one.rule && rule.can_be_allowed))
        {
            return refuse(&format!(
                "it allows `{}`, which is no rule that can be allowed",
                shown(&unknown.rule)
            ));
        }
        let of_a_profile =
            |check: &CheckTerms| check.runner.is_some() || !check.ids.is_empty() || check.held_out.is_some();
        if contract.profile.is_none() && contract.checks.iter().any(of_a_profile) {
            return refuse("its checks have terms that only a profile has, and it names none");
        }
        self.checks.clone_from(&contract.checks);
        for check in &mut self.checks {
            check.timeout = check.timeout.min(at_most.unwrap_or(MAX_REPEATED_TIMEOUT));
            check.repeats = check.repeats.clamp(1, 10);
        }
        // On the base and on the final tree.
        let longest: u64 = self
            .checks
            .iter()
            .map(|check| check.timeout.0.saturating_mul(2 * u64::from(check.repeats)))
            .sum();
        if longest > MAX_REPEATED_TOTAL.0 {
            return refuse(&format!(
                "its checks may take {} hours together, and six are the most: --check-timeout TIME lets each take less",
                longest / 3_600_000
            ));
        }
        self.setup.clone_from(&contract.environment.setup);
        self.probe.clone_from(&contract.environment.probe);
        self.scope.clone_from(&contract.scope);
        self.protect.clone_from(&contract.protect);
        self.allow.clone_from(&contract.allow);
        self.deps = contract.deps;
        Ok(())
    }

    /// The profile of a repeated contract is the one that is registered here under the same digest: its held-out inputs
    /// are in no bundle.
    pub(super) fn same_profile(&mut self, store: &ProfileStore, pinned: &ProfileRef) -> Result<(), Refusal> {
        let named = format!("{}@{}", pinned.name, pinned.digest);
        let own = store.find(&named).map_err(|what| {
            let advice = "the bundle was judged by a profile; register the same one here";
            Refusal::new(Reason::Config, format!("profile {}: {what} ({advice})", shown(&named)))
        })?;
        let profile = store
            .profile(&own)
            .map_err(|what| Refusal::new(Reason::Config, format!("profile {}: {what}", shown(&named))))?;
        // What pins the held-out inputs is the profile's own word.
        self.checks = profile.checks;
        self.profile = Some(own);
        Ok(())
    }

    /// What the project's own files say, where nobody named a check. Returns what people should know of it.
    pub(super) fn begin_with(&mut self, found: StartingCheck, wish: &Wish<'_>) -> String {
        let note = format!(
            "the check is `{}`, because the project has {}: name another with --check",
            shown(&found.check.join(" ")),
            shown(&found.because)
        );
        self.checks = vec![check(wish, found.check, self.timeout)];
        self.probe.get_or_insert(found.probe);
        note
    }
}

/// A profile says how the work is judged; flags may ask for more, not for something else.
fn beside_a_profile(wish: &Wish<'_>, given: bool) -> Result<(), Refusal> {
    let taken = [
        ("--check", given),
        ("--expect", wish.expect.is_some()),
        ("--check-timeout", wish.check_timeout.is_some()),
        ("--repeats", wish.repeats.is_some()),
        ("--deps", wish.deps.is_some()),
        ("--allow", !wish.allow.is_empty()),
        ("--no-fence", wish.no_fence),
        ("--setup", wish.setup.is_some()),
        ("--probe", wish.probe.is_some()),
    ];
    match taken.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Refusal::usage(format!(
            "{flag} cannot be used with --profile: the profile says it; change the profile and register it again, or \
             leave --profile out"
        ))),
        None => Ok(()),
    }
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
    if wish.out_of_process {
        return refuse("--out-of-process", "without a check nothing is reported");
    }
    if wish.mutants > 0 {
        return refuse("--mutants", "there is no check that could notice them");
    }
    if wish.attempts.is_some() {
        return refuse("--attempts", "no attempt is judged");
    }
    if wish.probe.is_some() {
        return refuse("--probe", "there is no red check to explain");
    }
    if !wish.allow.is_empty() {
        return refuse("--allow", "no test is protected without a check");
    }
    if wish.repeats.is_some() {
        return refuse("--repeats", "there is no check to repeat");
    }
    if wish.profile.is_some() {
        return refuse("--profile", "say either what shows success or that nothing does");
    }
    if wish.deps.is_some() {
        return refuse("--deps", "there is no check whose environment could differ");
    }
    if wish.reviewer().is_some() {
        return refuse("--review-model", "a review looks over what a check has passed");
    }
    if wish.repro_first {
        return refuse("--repro-first", "without a check nothing judges the end");
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
