//! `verify`: checks a bundle offline. Nothing that is recorded in it is started.

use std::path::{Path, PathBuf};

use countersign_engine::Clock as _;
use countersign_proof::layout::JOURNAL;
use countersign_proof::verify::{
    LIMITS, Options, Policy, Report, SignatureState, contents, verify as verify_bundle,
};
use countersign_proof::{MAX_REVEALED, TrustFile};
use countersign_types::Reason;

use super::place::Held;
use super::reveal::check as check_revealed;
use super::{excerpt, keys, place};
use crate::args::{Format, TextOrJson, VerifyArgs};
use crate::home::Home;
use crate::ports::MachineClock;
use crate::refusal::Refusal;
use crate::{exit, files, home, render, terminal, text};

/// The largest verdict of another verifier, bytes.
const MAX_VERDICT: u64 = 1 << 20;
/// The largest policy, bytes.
const MAX_POLICY: u64 = 256 << 10;

pub(crate) fn verify(args: &VerifyArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    let Some(bundle) = &args.bundle else { return excerpt::verify(args, format) };
    match report(args, bundle).and_then(|report| Ok((beside(args, bundle, &report)?, report))) {
        Ok((beside, report)) => {
            show(args.format, bundle, &report, &beside);
            if report.accepted() && beside.fits() { exit::DONE } else { exit::NEGATIVE }
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

/// What was held against the bundle from beside it.
#[derive(Debug, Default)]
struct Beside {
    /// The files of verdicts, in the order in which they were given.
    verdicts: Vec<PathBuf>,
    trees: Vec<Held>,
    /// The event and payload that each file reveals, or why it reveals nothing of this bundle.
    revealed: Vec<Result<String, String>>,
}

impl Beside {
    /// The file of a verdict by its number, from 1.
    fn verdict(&self, number: u64) -> String {
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        at.and_then(|at| self.verdicts.get(at)).map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn fits(&self) -> bool {
        self.trees.iter().all(|held| held.same) && self.revealed.iter().all(Result::is_ok)
    }
}

/// Only of a bundle that is intact; of another one there is nothing to hold anything against.
fn beside(args: &VerifyArgs, bundle: &Path, report: &Report) -> Result<Beside, Refusal> {
    let mut out = Beside { verdicts: args.verdict.clone(), ..Beside::default() };
    let Some(claims) = report.claims.as_ref().filter(|_| report.intact()) else { return Ok(out) };
    if let Some(repo) = &args.repo {
        out.trees.push(place::base(bundle, report, claims, repo)?);
        if let Some(rev) = &args.head {
            out.trees.push(place::head(bundle, report, repo, rev)?);
        }
    }
    if args.revealed.is_empty() {
        return Ok(out);
    }
    let mut parts = contents(bundle, report, &[JOURNAL])
        .map_err(|error| Refusal::usage(format!("{}: {error}", bundle.display())))?;
    let journal = parts.remove(JOURNAL).unwrap_or_default();
    for path in &args.revealed {
        // Of a directory that was made to be handed over, the payload; the bundle has the rest of it.
        let file = if path.is_dir() { path.join(excerpt::REVEALED) } else { path.clone() };
        if path.is_dir()
            && let Some(stray) = excerpt::stray(path)?.first()
        {
            out.revealed.push(Err(format!("{}: {stray}", path.display())));
            continue;
        }
        let bytes = files::read_regular(&file, MAX_REVEALED)
            .map_err(|what| Refusal::usage(format!("--revealed {}: {what}", file.display())))?;
        let checked = check_revealed(&bytes, &journal, &claims.session);
        out.revealed.push(checked.map_err(|why| format!("{}: {why}", path.display())));
    }
    Ok(out)
}

/// The keys whose signatures count.
pub(super) fn trust(args: &VerifyArgs) -> Result<TrustFile, Refusal> {
    match &args.trusted_keys {
        Some(path) => keys::read_trust(path),
        None => keys::trusted(&home::path()?),
    }
}

fn report(args: &VerifyArgs, bundle: &Path) -> Result<Report, Refusal> {
    let trust = trust(args)?;
    let mut policy = match &args.policy {
        Some(path) => policy(path)?,
        None => Policy::default(),
    };
    policy.require_verified |= args.require.is_some();
    policy.min_strength = policy.min_strength.max(args.min_strength);
    let verdicts = args
        .verdict
        .iter()
        .map(|path| {
            files::read_regular(path, MAX_VERDICT)
                .map_err(|what| Refusal::usage(format!("--verdict {}: {what}", path.display())))
        })
        .collect::<Result<Vec<_>, _>>()?;
    is_bundle(bundle)?;
    let options = Options { trust: &trust, policy: &policy, now: MachineClock.now(), verdicts: &verdicts };
    verify_bundle(bundle, &options).map_err(|error| {
        Refusal::usage(format!("{} cannot be read as a bundle's directory: {error}", bundle.display()))
    })
}

/// Refuses a directory that was never meant to be a bundle; what is wrong with one that was is a finding.
pub(super) fn is_bundle(dir: &Path) -> Result<(), Refusal> {
    let holds = |name: &str| files::exists(&dir.join(name));
    if holds("bundle.json") || holds("SHA256SUMS") {
        return Ok(());
    }
    Err(Refusal::usage(format!(
        "{} is no bundle: it holds neither bundle.json nor SHA256SUMS; `countersign show SESSION` names a session's bundle",
        dir.display()
    )))
}

/// Does everything in a bundle of this home fit together, whoever signed it?
pub(crate) fn is_intact(home: &Home, bundle: &Path) -> Result<bool, Refusal> {
    let (trust, policy) = (keys::trusted(home.root())?, Policy::default());
    let options = Options { trust: &trust, policy: &policy, now: MachineClock.now(), verdicts: &[] };
    let report = verify_bundle(bundle, &options).map_err(|error| {
        Refusal::new(Reason::Store, format!("the bundle {} cannot be read: {error}", bundle.display()))
    })?;
    Ok(report.intact())
}

fn policy(path: &Path) -> Result<Policy, Refusal> {
    let refuse =
        |what: String| Refusal::new(Reason::Config, format!("the policy {}: {what}", path.display()));
    let bytes = files::read_regular(path, MAX_POLICY).map_err(refuse)?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
    Policy::read(&text).map_err(|why| refuse(why.to_string()))
}

fn show(format: TextOrJson, bundle: &Path, report: &Report, beside: &Beside) {
    if format == TextOrJson::Json {
        let shown = serde_json::json!({
            "schema": "countersign.verification/1",
            "accepted": report.accepted() && beside.fits(),
            "intact": report.intact(),
            "report": report,
            "trees": beside.trees,
            "revealed": beside.revealed.iter().map(|one| serde_json::json!({
                "fits": one.is_ok(),
                "what": one.as_ref().unwrap_or_else(|why| why),
            })).collect::<Vec<_>>(),
            "limits": LIMITS,
        });
        terminal::out_line(&shown.to_string());
        return;
    }
    terminal::out_bytes(text::safe(&for_people(bundle, report, beside)).as_bytes());
}

fn for_people(bundle: &Path, report: &Report, beside: &Beside) -> String {
    let mut out = format!("{}\n", bundle.display());
    let mut line = |name: &str, value: String| out.push_str(&format!("  {name:<10}{value}\n"));
    let intact = if report.intact() { "yes, everything in it fits together" } else { "NO" };
    line("intact", intact.to_owned());
    let signers: Vec<String> = report
        .signers
        .iter()
        .map(|signer| {
            format!(
                "{} as {}",
                signer.name.as_deref().unwrap_or(signer.key_id.as_str()),
                signer.role.as_str()
            )
        })
        .collect();
    let by = if signers.is_empty() { String::new() } else { format!(": {}", signers.join(", ")) };
    let why = report.unsigned.map_or_else(String::new, |why| format!(" ({})", why.as_str()));
    line("signature", format!("{}{why}{by}", report.signature));
    if let Some(claims) = &report.claims {
        line("says", format!("{} ({})", claims.outcome, claims.reason.as_str()));
        if let Some(strength) = claims.strength {
            let how = if strength.in_process { ", in process" } else { "" };
            line("strength", format!("{}{how}", strength.level));
        }
        line("session", format!("{} turn {}, ended {}", claims.session, claims.turn, claims.ended_at));
        if let Some(tree) = claims.final_tree {
            line("tree", tree.to_string());
        }
    }
    for bad in &report.bad_verdicts {
        line("verdict", format!("{} says nothing of this bundle: {}", beside.verdict(bad.number), bad.why));
    }
    if !report.failed_by.is_empty() {
        line("FAILED by", report.failed_by.join(", "));
    }
    if report.unknown_verdicts > 0 {
        let many = report.unknown_verdicts;
        line(
            "verdicts",
            format!("{many} by a key that the trust file does not know; that counts for nothing"),
        );
    }
    for finding in &report.findings {
        line("finding", finding.to_string());
    }
    if report.untold > 0 {
        line("", format!("and {} more", report.untold));
    }
    for failure in &report.failures {
        line("policy", failure.to_string());
    }
    for held in &beside.trees {
        let rev = held.rev.as_deref().filter(|_| !held.plain).unwrap_or("the plain directory");
        let found = match (&held.path, held.same) {
            (_, true) => format!(
                "the bundle's {} tree is what {rev} holds",
                if held.what == "head" { "judged" } else { "base" }
            ),
            (path, false) => format!(
                "NOT what {rev} holds: {} paths differ, the first is {}",
                held.differing,
                path.as_deref().unwrap_or("?")
            ),
        };
        line(held.what, found);
        if held.what == "base" && !held.same {
            let why = if held.plain {
                "it is in no git repository, so all that it holds was compared: name the repository, or a plain copy of the base"
            } else {
                "a turn that began from changes that were not committed has a base that no commit holds"
            };
            line("", why.to_owned());
        }
    }
    for revealed in &beside.revealed {
        match revealed {
            Ok(what) => line("revealed", what.clone()),
            Err(why) => line("revealed", format!("NOT of this bundle: {why}")),
        }
    }
    if report.signature == SignatureState::UnknownSigner {
        line("hint", "`countersign key trust --name NAME FILE` trusts a key; a key in the bundle itself is no reason to".to_owned());
    }
    line("accepted", if report.accepted() && beside.fits() { "yes" } else { "no" }.to_owned());
    for limit in LIMITS {
        line("limit", (*limit).to_owned());
    }
    out
}
