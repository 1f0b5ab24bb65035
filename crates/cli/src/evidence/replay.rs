//! `replay-check`: the work of a bundle is judged again, here, by the same terms or by the user's own, and the first
//! difference is told. The bundle is verified first; its commands run in rooms, and what it says can only be asked for,
//! never widen what this user's trust allows.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use countersign_engine::Clock as _;
use countersign_kernel::contract::Contract;
use countersign_proof::layout::{CONFIG, PATCH, RESULT};
use countersign_proof::statement::VerdictResult;
use countersign_proof::verify::{
    Claims, Options, Policy, Report, SignatureState, contents, countersign, verify as verify_bundle,
};
use countersign_types::{Digest, Outcome, Reason, Strength, canonical_json};
use serde_json::{Value, json};

use super::compared::{Compared, compare, not_again};
use super::{keys, place};
use crate::args::{CommonArgs, Format, ReplayArgs, TaskArgs, TextOrJson, WorkArgs};
use crate::home::Home;
use crate::ports::MachineClock;
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::{self, Wish};
use crate::{exit, files, home, render, terminal, text};

/// The bundle's commands that are shown before they run.
const SHOWN_CHECKS: usize = 10;

/// A bundle whose work is judged again.
struct Recorded {
    report: Report,
    claims: Claims,
    contract: Contract,
    result: Value,
    patch: Digest,
}

/// What came of it.
struct Replayed {
    compared: Compared,
    here: RunResult,
    verdict: Option<PathBuf>,
}

pub(crate) fn replay_check(args: &ReplayArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    let recorded = match recorded(args) {
        Ok(recorded) => recorded,
        Err(refusal) => return render::refused(format, &refusal),
    };
    match replay(args, &recorded) {
        Ok(replayed) => {
            show(args, &recorded, &replayed);
            match replayed.compared {
                Compared::Same => exit::DONE,
                Compared::Differs { .. } => exit::NEGATIVE,
                Compared::Inconclusive { .. } => exit::UNWRITTEN,
            }
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

/// The bundle, verified, with the terms by which it was judged.
fn recorded(args: &ReplayArgs) -> Result<Recorded, Refusal> {
    let dir = &args.bundle;
    let refuse = |what: String| Refusal::usage(format!("{}: {what}", dir.display()));
    let trust = match &args.trusted_keys {
        Some(path) => keys::read_trust(path)?,
        None => keys::trusted(&home::path()?)?,
    };
    super::verify::is_bundle(dir)?;
    if args.write_verdict.is_some() {
        keys::can_sign()?;
    }
    let options =
        Options { trust: &trust, policy: &Policy::default(), now: MachineClock.now(), verdicts: &[] };
    let report = verify_bundle(dir, &options)
        .map_err(|error| refuse(format!("it cannot be read as a bundle's directory: {error}")))?;
    let Some(claims) = report.claims.clone().filter(|_| report.intact()) else {
        let first = report.findings.first().map_or_else(|| "it is no bundle".to_owned(), ToString::to_string);
        return Err(refuse(format!(
            "the bundle is not intact, so nothing of it is run: {first}; `countersign verify` lists what is wrong"
        )));
    };
    if args.write_verdict.is_some() && report.signature == SignatureState::Absent {
        return Err(refuse(
            "it is not signed, so no verdict about it could be bound to who made it; leave --write-verdict out".to_owned(),
        ));
    }
    let parts =
        contents(dir, &report, &[CONFIG, RESULT, PATCH]).map_err(|error| refuse(error.to_string()))?;
    let json = |path: &str| -> Result<Value, Refusal> {
        let bytes = parts.get(path).map(Vec::as_slice).unwrap_or_default();
        serde_json::from_slice(bytes).map_err(|error| refuse(format!("its {path} cannot be read: {error}")))
    };
    let contract = json(CONFIG)?["contract"].take();
    let digest = canonical_json(&contract).map(|bytes| Digest::of(&bytes)).ok();
    if contract.is_null() || digest != claims.contract {
        return Err(refuse(
            "it does not hold the contract that was signed, so there are no terms to judge by again"
                .to_owned(),
        ));
    }
    let contract: Contract = serde_json::from_value(contract).map_err(|error| {
        refuse(format!(
            "its contract is of another version of countersign, and this one cannot read it: {error}"
        ))
    })?;
    let patch = parts.get(PATCH).filter(|patch| !patch.is_empty()).map(|patch| Digest::of(patch));
    let Some(patch) = patch else {
        return Err(refuse(format!(
            "its turn ended as {} ({}) and delivers no change, so there is nothing to judge again",
            claims.outcome, claims.reason
        )));
    };
    Ok(Recorded { claims, contract, result: json(RESULT)?, patch, report })
}

fn replay(args: &ReplayArgs, recorded: &Recorded) -> Result<Replayed, Refusal> {
    writable(args)?;
    let repo = args.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let held = place::base(&args.bundle, &recorded.report, &recorded.claims, &repo)?;
    if !held.same {
        let path = held.path.unwrap_or_default();
        return Err(Refusal::new(
            Reason::Repository,
            format!(
                "{} is not what the turn began from: {} paths differ, the first is {path}. Name the repository with its base \
                 commit, or a directory with its files, by --repo; changes that were not committed are in no commit",
                repo.display(),
                held.differing
            ),
        ));
    }
    let own =
        !args.judge.check.is_empty() || !args.judge.check_argv.is_empty() || args.judge.profile.is_some();
    if !own && let Some(flag) = judging_flag(args) {
        return Err(Refusal::usage(format!(
            "{flag} belongs to terms of your own: name --check or --profile too, or leave it out to judge by the bundle's"
        )));
    }
    let commit = held.rev.clone().filter(|_| place::is_git(&repo));
    let common = common(args, &repo, commit);
    let work = WorkArgs { patch: Some(args.bundle.join(PATCH)), tree: None, head: None };
    let what = TaskArgs { text: None, task: None, task_file: None };
    let judging = Wish::judging(&countersign_config::GATE, &what, &common, &args.judge);
    // A base result that this machine remembers would be its own word, not a second look.
    let anew =
        tempfile::Builder::new().prefix("replay-").tempdir_in(Home::open()?.root()).map_err(|error| {
            Refusal::new(Reason::Store, format!("no directory can be made in the home: {error}"))
        })?;
    let wish = Wish { work: Some(&work), anew: Some(anew.path()), ..judging };
    let wish = if own {
        wish
    } else {
        Wish {
            terms: Some(&recorded.contract),
            no_fence: recorded.contract.unfenced,
            out_of_process: recorded.contract.out_of_process,
            ..wish
        }
    };
    if !own {
        for check in recorded.contract.checks.iter().take(SHOWN_CHECKS) {
            let command = text::one_line(&check.argv.join(" "), text::LINE);
            crate::trace::note(
                args.trace,
                &format!("the bundle's check is `{command}`: name --check to judge by your own"),
            );
        }
    }
    let here = run::execute(&wish, None);
    if here.candidate.as_ref().and_then(|one| one.sha256.clone()).is_some_and(|is| is != recorded.patch.hex())
    {
        return Err(Refusal::usage(format!("{} was changed while it was judged", args.bundle.display())));
    }
    // Nothing was judged: the command line is at fault, not the bundle.
    if let (Some("usage" | "trust" | "config"), Some(error)) = (here.reason, &here.error) {
        let reason = if here.reason == Some("trust") { Reason::Trust } else { Reason::Usage };
        return Err(Refusal::new(reason, error.message.clone()));
    }
    let mut compared = compare(&recorded.claims, &recorded.result, &here);
    if own && compared == Compared::Same {
        compared = terms(recorded, &here)?;
    }
    let verdict = match (&args.write_verdict, &compared) {
        (Some(path), Compared::Same | Compared::Differs { .. }) => {
            write_verdict(path, recorded, &compared, here.strength)?;
            Some(path.clone())
        }
        _ => None,
    };
    Ok(Replayed { compared, here, verdict })
}

/// Refuses a verdict that could not be written, or would stand for terms that its signer has not chosen.
fn writable(args: &ReplayArgs) -> Result<(), Refusal> {
    let Some(path) = &args.write_verdict else { return Ok(()) };
    let refuse = |what: &str| Err(Refusal::usage(format!("--write-verdict {} {what}", path.display())));
    if args.judge.check.is_empty() && args.judge.check_argv.is_empty() && args.judge.profile.is_none() {
        return refuse(
            "needs --check or --profile: what you sign stands for terms of yours, not for a check that the bundle chose",
        );
    }
    if files::exists(path) {
        return refuse("exists already; a verdict is never written over anything");
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(parent) = std::fs::canonicalize(parent) else {
        return refuse("cannot be written: its directory is not there");
    };
    if std::fs::canonicalize(&args.bundle).is_ok_and(|bundle| parent.starts_with(bundle)) {
        return refuse("would lie in the bundle and make it worthless: a verdict lies beside it");
    }
    Ok(())
}

/// A flag that only means something beside a check of one's own.
fn judging_flag(args: &ReplayArgs) -> Option<&'static str> {
    let judge = &args.judge;
    [
        ("--expect", judge.expect.is_some()),
        ("--repeats", judge.repeats.is_some()),
        ("--deps", judge.deps.is_some()),
        ("--scope", !judge.scope.is_empty()),
        ("--protect", !judge.protect.is_empty()),
        ("--allow", !judge.allow.is_empty()),
        ("--no-fence", judge.no_fence),
        ("--out-of-process", judge.out_of_process),
        ("--setup", judge.setup.is_some()),
        ("--probe", judge.probe.is_some()),
        ("--require", judge.require.is_some()),
        ("--min-strength", judge.min_strength.is_some()),
        ("--mutants", judge.mutants > 0),
    ]
    .into_iter()
    .find_map(|(flag, is_given)| is_given.then_some(flag))
}

fn common(args: &ReplayArgs, repo: &Path, base: Option<String>) -> CommonArgs {
    CommonArgs {
        trust: args.trust,
        model: None,
        base_url: None,
        api_key_file: None,
        agent: crate::args::AgentArgs::default(),
        repo: Some(repo.to_owned()),
        base,
        include_dirty: false,
        sandbox: None,
        network: args.network,
        max_turns: None,
        max_tokens: None,
        max_cost: None,
        deadline: None,
        format: Format::Text,
        trace: args.trace,
        report: None,
        config: args.config.clone(),
    }
}

/// Where the user's own terms judged the work and agree with the bundle: are they what the bundle was judged by?
fn terms(recorded: &Recorded, here: &RunResult) -> Result<Compared, Refusal> {
    let Some(id) = &here.session else { return Ok(Compared::Same) };
    let home = Home::open()?;
    let own = run::runtime()?.block_on(run::session::contract(&home, id))?;
    let Some(own) = own else { return Ok(Compared::Same) };
    let was = &recorded.contract;
    let commands = |contract: &Contract| -> Vec<(String, String)> {
        let one = |check: &countersign_kernel::contract::CheckTerms| {
            (format!("{:?}", check.argv), format!("{:?}", check.expect).to_lowercase())
        };
        contract.checks.iter().map(one).collect()
    };
    let shown = |list: &[(String, String)]| {
        list.iter().map(|(argv, expect)| format!("{argv} ({expect})")).collect::<Vec<_>>().join(", ")
    };
    let (theirs, ours) = (commands(was), commands(&own));
    if theirs != ours {
        return Ok(Compared::differs("checks", shown(&theirs), shown(&ours)));
    }
    let digest = |contract: &Contract| {
        contract.profile.as_ref().map_or_else(|| "none".to_owned(), |profile| profile.digest.to_string())
    };
    if digest(was) != digest(&own) {
        return Ok(Compared::differs("profile", digest(was), digest(&own)));
    }
    Ok(Compared::Same)
}

fn versions() -> BTreeMap<String, String> {
    [("countersign".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into()
}

fn write_verdict(
    path: &Path,
    recorded: &Recorded,
    compared: &Compared,
    strength: Option<Strength>,
) -> Result<(), Refusal> {
    let refuse =
        |what: String| Refusal::new(Reason::Key, format!("--write-verdict {}: {what}", path.display()));
    let passed = *compared == Compared::Same && recorded.claims.outcome == Outcome::Verified;
    let result = if passed { VerdictResult::Passed } else { VerdictResult::Failed };
    let (signer, note) = keys::signer(&Home::open()?)?;
    if let Some(note) = note {
        terminal::err_line(&format!("note: {}", text::safe(&note)));
    }
    let bytes =
        countersign(&recorded.report, result, strength, MachineClock.now(), versions(), signer.as_ref())
            .map_err(|error| refuse(error.to_string()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".verdict-").tempfile_in(parent)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        Ok(())
    };
    written().map_err(|error| refuse(error.to_string()))
}

fn show(args: &ReplayArgs, recorded: &Recorded, replayed: &Replayed) {
    let not_again = not_again(&recorded.claims);
    if args.format == TextOrJson::Json {
        let mut shown = json!({
            "schema": "countersign.replay/1",
            "recorded": {
                "bundle": recorded.report.digest,
                "signature": recorded.report.signature,
                "session": recorded.claims.session,
                "turn": recorded.claims.turn,
                "outcome": recorded.claims.outcome,
                "reason": recorded.claims.reason,
                "strength": recorded.claims.strength,
                "tree": recorded.claims.final_tree,
            },
            "not_judged_again": not_again,
            "here": replayed.here,
            "verdict": replayed.verdict.as_ref().map(|path| path.to_string_lossy()),
        });
        if let (Value::Object(shown), Ok(Value::Object(compared))) =
            (&mut shown, serde_json::to_value(&replayed.compared))
        {
            for key in ["what", "recorded", "here", "why"] {
                shown.entry(format!("difference_{key}")).or_insert(Value::Null);
            }
            for (key, value) in compared {
                let key = if key == "answer" { key } else { format!("difference_{key}") };
                shown.insert(key, value);
            }
        }
        terminal::out_line(&shown.to_string());
        return;
    }
    terminal::out_bytes(text::safe(&for_people(args, recorded, replayed, &not_again)).as_bytes());
}

fn for_people(args: &ReplayArgs, recorded: &Recorded, replayed: &Replayed, not_again: &[&str]) -> String {
    let mut out = format!("{}\n", args.bundle.display());
    let mut line = |name: &str, value: String| out.push_str(&format!("  {name:<10}{value}\n"));
    line("signature", recorded.report.signature.to_string());
    line("says", format!("{} ({})", recorded.claims.outcome, recorded.claims.reason));
    let here = &replayed.here;
    let outcome = here.outcome.map_or("no end", Outcome::as_str);
    line("here", format!("{outcome} ({})", here.reason.unwrap_or("bug")));
    if let Some(session) = &here.session {
        line("session", format!("{session}; `countersign show {session}` tells it"));
    }
    match &replayed.compared {
        Compared::Same => line("answer", "the same".to_owned()),
        Compared::Differs { what, recorded, here } => {
            line("answer", "NOT the same".to_owned());
            line("differs", what.clone());
            line("recorded", recorded.clone());
            line("shown", here.clone());
        }
        Compared::Inconclusive { why } => {
            line("answer", "nothing could be concluded here, which says nothing about the bundle".to_owned());
            line("why", why.clone());
        }
    }
    for gate in not_again {
        line("not again", format!("the {gate} gate, which cannot be repeated without a model or the agent"));
    }
    if let Some(path) = &replayed.verdict {
        line("verdict", format!("signed, in {}", path.display()));
    }
    out
}
