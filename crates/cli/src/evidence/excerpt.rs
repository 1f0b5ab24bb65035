//! An excerpt: one payload with its salt, the journal's lines and the turn's signed statement, for somebody who is to see
//! nothing else of the run. Made by `show --reveal --out`, checked by `verify --revealed` without a bundle.

use std::path::Path;

use countersign_engine::Clock as _;
use countersign_proof::MAX_REVEALED;
use countersign_proof::layout::{JOURNAL, MAX_FILE, MAX_JSON, StatementPart};
use countersign_proof::verify::{
    EXCERPT_LIMIT, ExcerptReport, Finding, LIMITS, Options, Policy, Report, SignatureState, contents,
    excerpt as check_excerpt, verify as verify_bundle,
};
use countersign_types::{ByteSize, SessionId};
use serde_json::{Value, json};

use super::keys;
use super::reveal::{check as check_revealed, reveal};
use super::verify::trust;
use crate::args::{Format, TextOrJson, VerifyArgs};
use crate::home::Home;
use crate::package::Package;
use crate::ports::MachineClock;
use crate::refusal::Refusal;
use crate::{exit, files, render, terminal, text};

/// The payload, as `show --reveal` writes it.
pub(super) const REVEALED: &str = "revealed.json";
const TURN: &str = "turn.sigstore.json";
const SCHEMA: &str = "countersign.excerpt/1";

/// Writes the payload `what` of an ended session into the new directory `out`, with what it is checked by. Gives a line for
/// people.
pub(crate) fn hand_over(id: &SessionId, what: &str, out: &Path) -> Result<String, Refusal> {
    let taken = || Refusal::usage(format!("{} is there already: --out makes a new directory", out.display()));
    if files::exists(out) {
        return Err(taken());
    }
    let revealed = reveal(id, what)?;
    let (journal, turn) = signed_parts(&Home::open()?, id)?;
    if !hides_its_texts(&journal) {
        return Err(Refusal::usage(format!(
            "session {id} was begun before journals hid their texts: its lines hold plain digests, by which a short text \
             can be guessed, so they are not handed over. --reveal without --out shows the payload, for whoever has the bundle"
        )));
    }
    check_revealed(revealed.as_bytes(), &journal, id).map_err(|why| {
        Refusal::usage(format!("the payload is not one of the turn that was signed: {why}"))
    })?;
    let mut package = Package::new(out)?;
    package.write(REVEALED, format!("{revealed}\n").as_bytes())?;
    package.write(JOURNAL, &journal)?;
    package.write(TURN, &turn)?;
    if !package.publish(out)? {
        return Err(taken());
    }
    Ok(format!(
        "{}: {REVEALED}, {JOURNAL} and {TURN}, with no other text of the run; `countersign verify --revealed DIR` checks them \
         together, by whoever trusts this machine's key",
        text::safe(&out.display().to_string())
    ))
}

/// Journal and statement of the session's bundle, which has to be whole and signed.
fn signed_parts(home: &Home, id: &SessionId) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let bundle = home.session(id).join(format!("{id}.bundle"));
    if !files::exists(&bundle) {
        return Err(Refusal::usage(format!(
            "session {id} has no bundle, so nothing is signed that its journal could be checked by: --out is for turns that \
             ended"
        )));
    }
    let (trust, policy) = (keys::trusted(home.root())?, Policy::default());
    let options = Options { trust: &trust, policy: &policy, now: MachineClock.now(), verdicts: &[] };
    let damaged = |what: &str| {
        Refusal::usage(format!("the bundle {} {what}: `countersign verify` says how", bundle.display()))
    };
    let report: Report = verify_bundle(&bundle, &options).map_err(|e| damaged(&e.to_string()))?;
    if report.signature == SignatureState::Absent {
        return Err(Refusal::usage(format!(
            "the bundle of session {id} is not signed, so its journal cannot be checked without it: hand over the bundle, or \
             use --reveal without --out"
        )));
    }
    let statement = StatementPart::Turn.path(true);
    let mut parts = contents(&bundle, &report, &[JOURNAL, &statement])
        .map_err(|_| damaged("was changed since it was written"))?;
    match (parts.remove(JOURNAL), parts.remove(&statement)) {
        (Some(journal), Some(turn)) => Ok((journal, turn)),
        _ => Err(damaged("lacks its journal or its turn")),
    }
}

/// Whether the lines can be shown to somebody who is to guess no text by them. A run that was refused before it had a
/// contract names no text.
fn hides_its_texts(journal: &[u8]) -> bool {
    let first = journal.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first: Value = serde_json::from_slice(first).unwrap_or_default();
    match first["kind"].as_str() {
        Some("session_opened") => first["payloads"].get("blind").is_some(),
        Some(_) => true,
        None => false,
    }
}

/// One excerpt and what came of it.
struct Seen {
    dir: String,
    report: ExcerptReport,
    /// Which payload it is, or why it is none of this journal.
    revealed: Result<String, String>,
}

impl Seen {
    fn accepted(&self) -> bool {
        self.report.accepted() && self.revealed.is_ok()
    }
}

/// `verify --revealed DIR` without a bundle.
pub(super) fn verify(args: &VerifyArgs, format: Format) -> u8 {
    let look = || -> Result<Vec<Seen>, Refusal> {
        let (known, policy) = (trust(args)?, Policy::default());
        let options = Options { trust: &known, policy: &policy, now: MachineClock.now(), verdicts: &[] };
        args.revealed.iter().map(|dir| seen(dir, &options)).collect()
    };
    match look() {
        Ok(all) => {
            show(args.format, &all);
            if all.iter().all(Seen::accepted) { exit::DONE } else { exit::NEGATIVE }
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

fn seen(dir: &Path, options: &Options<'_>) -> Result<Seen, Refusal> {
    if !dir.is_dir() {
        return Err(Refusal::usage(format!(
            "--revealed {}: alone, it has to be a directory that `countersign show SESSION --reveal EVENT --out DIR` made; a \
             single file is checked against a bundle: `countersign verify BUNDLE --revealed FILE`",
            dir.display()
        )));
    }
    let read = |name: &str, limit: ByteSize| {
        let path = dir.join(name);
        files::read_regular(&path, limit.as_u64())
            .map_err(|what| Refusal::usage(format!("--revealed {}: {what}", path.display())))
    };
    let stray = stray(dir)?;
    let file = read(REVEALED, ByteSize::bytes(MAX_REVEALED))?;
    let (journal, turn) = (read(JOURNAL, MAX_FILE)?, read(TURN, MAX_JSON)?);
    let mut report = check_excerpt(TURN, &turn, &journal, options);
    report.findings.extend(stray);
    let revealed = match &report.claims {
        Some(claims) if report.events.is_some() => check_revealed(&file, &journal, &claims.session),
        _ => Err("not looked at: nobody who is trusted vouches for this journal".to_owned()),
    };
    Ok(Seen { dir: dir.display().to_string(), report, revealed })
}

/// What lies in the directory and belongs to no excerpt, links in place of its files included: whoever looks into it would take
/// that for a part of what was checked.
pub(super) fn stray(dir: &Path) -> Result<Vec<Finding>, Refusal> {
    let unreadable = |error: std::io::Error| Refusal::usage(format!("--revealed {}: {error}", dir.display()));
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.file_name().to_string_lossy().into_owned();
        if ![REVEALED, JOURNAL, TURN].contains(&path.as_str()) {
            out.push(Finding::UnexpectedFile { path: text::one_line(&path, text::LINE) });
        } else if !entry.file_type().map_err(unreadable)?.is_file() {
            out.push(Finding::NotAFile { path });
        }
    }
    out.sort();
    Ok(out)
}

fn show(format: TextOrJson, all: &[Seen]) {
    if format == TextOrJson::Json {
        let excerpts: Vec<Value> = all
            .iter()
            .map(|seen| {
                json!({
                    "dir": seen.dir,
                    "accepted": seen.accepted(),
                    "report": seen.report,
                    "revealed": {
                        "fits": seen.revealed.is_ok(),
                        "what": seen.revealed.as_ref().unwrap_or_else(|why| why),
                    },
                })
            })
            .collect();
        let limits: Vec<&str> = std::iter::once(EXCERPT_LIMIT).chain(LIMITS.iter().copied()).collect();
        let shown = json!({
            "schema": SCHEMA,
            "accepted": all.iter().all(Seen::accepted),
            "excerpts": excerpts,
            "limits": limits,
        });
        terminal::out_line(&shown.to_string());
        return;
    }
    let told: String = all.iter().map(for_people).collect();
    terminal::out_bytes(text::safe(&told).as_bytes());
}

fn for_people(seen: &Seen) -> String {
    let report = &seen.report;
    let mut out = format!("{}\n", seen.dir);
    let mut line = |name: &str, value: String| out.push_str(&format!("  {name:<10}{value}\n"));
    line("partial", "one payload against a signed journal; this is no bundle".to_owned());
    let by = report.signer.as_ref().map_or_else(String::new, |signer| {
        format!(": {}", signer.name.as_deref().unwrap_or(signer.key_id.as_str()))
    });
    line("signature", format!("{}{by}", report.signature));
    if let Some(claims) = &report.claims {
        line("says", format!("{} ({})", claims.outcome, claims.reason.as_str()));
        line("session", format!("{} turn {}, ended {}", claims.session, claims.turn, claims.ended_at));
    }
    if let Some(events) = report.events {
        line("journal", format!("{events} events, up to the head that was signed"));
    }
    for finding in &report.findings {
        line("finding", finding.to_string());
    }
    match &seen.revealed {
        Ok(what) => line("revealed", what.clone()),
        Err(why) => line("revealed", format!("NO: {why}")),
    }
    if report.signature == SignatureState::UnknownSigner {
        let how =
            "`countersign key trust --name NAME FILE` trusts a key, which its owner gives you by another way";
        line("hint", how.to_owned());
    }
    line("accepted", if seen.accepted() { "yes" } else { "no" }.to_owned());
    for limit in std::iter::once(&EXCERPT_LIMIT).chain(LIMITS) {
        line("limit", (*limit).to_owned());
    }
    out
}
