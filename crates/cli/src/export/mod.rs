//! `export`: what a reviewer elsewhere needs of an ended session, in one new directory that is there whole or not at all.

mod delivered;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_engine::{Records, View};
use countersign_types::{Digest, Outcome, Reason, SessionId};
use serde::Serialize;

use crate::args::{ExportArgs, Format, TextOrJson};
use crate::home::Home;
use crate::package::{Package, sync, unwritable};
use crate::refusal::Refusal;
use crate::result::{RESULT_SCHEMA, RunResult};
use crate::run::{self, session};
use crate::{evidence, exit, render, report, show, terminal};

const SCHEMA: &str = "countersign.export/1";

/// The file that says what the others are.
const INDEX: &str = "export.json";
const REPORT: &str = "REVIEW.md";
const RESULT: &str = "result.json";
const PATCH: &str = "patch.diff";
const TRANSCRIPT: &str = "transcript.jsonl";
const READABLE: &str = "transcript.txt";
const CHECKS: &str = "checks";

/// What a package says of itself.
#[derive(Debug, Serialize)]
struct Index {
    schema: &'static str,
    session: SessionId,
    outcome: Outcome,
    reason: Reason,
    versions: Versions,
    /// The tree that the session began from.
    base_tree: Option<Digest>,
    /// What the base and the patch of this package make together, worked out for this export.
    delivered_tree: Option<Digest>,
    /// What the last judged check ran on; null where none ran.
    verified_tree: Option<Digest>,
    /// The directory of the signed evidence; null where none could be written when the turn ended.
    bundle: Option<String>,
    /// sha256 of every other file outside of the bundle, which has its own list.
    files: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Versions {
    countersign: &'static str,
    result: &'static str,
    contract: Option<String>,
    preset: Option<String>,
    model: Option<String>,
    detectors: Option<String>,
}

pub(crate) fn export(args: &ExportArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    match execute(args) {
        Ok(index) => {
            match (args.format, serde_json::to_string(&index)) {
                (TextOrJson::Json, Ok(line)) => terminal::out_line(&line),
                (TextOrJson::Json, Err(error)) => {
                    return render::refused(format, &Refusal::bug(error.to_string()));
                }
                (TextOrJson::Text, _) => {
                    let (id, dir) = (&index.session, args.dir.display());
                    terminal::out_line(&format!(
                        "exported {id} ({}) to {dir}: read {REPORT} first",
                        index.outcome
                    ));
                }
            }
            exit::DONE
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

fn execute(args: &ExportArgs) -> Result<Index, Refusal> {
    let taken = || {
        Refusal::usage(format!("{} is there already: an export makes a new directory", args.dir.display()))
    };
    if crate::files::exists(&args.dir) {
        return Err(taken());
    }
    let home = Home::open()?;
    let runtime = run::runtime()?;
    let (view, records, transcript) = runtime.block_on(async {
        session::known(&home, &args.id).await?;
        let store = home.store.as_ref();
        let view = countersign_engine::view(store, &args.id).await?;
        session::ended(&home, &args.id, &view)?;
        let records = countersign_engine::records(store, &args.id).await?;
        let transcript = countersign_engine::transcript(store, &args.id).await?;
        Ok::<_, Refusal>((view, records, transcript))
    })?;
    let Some((outcome, reason)) = view.outcome else {
        return Err(Refusal::bug("a session without an end was not refused"));
    };
    if outcome == Outcome::Parked {
        return Err(Refusal::usage(format!(
            "session {0} is parked, and only ended work is exported: `countersign resume {0}` goes on",
            args.id
        )));
    }
    let package = Package::new(&args.dir)?;
    let mut result = RunResult::of(&view, &home.session(&args.id));
    let patch = view.patch.is_some().then(|| session::patch(&home, &args.id, &view)).transpose()?;
    let delivered = patch.as_deref().map(|patch| delivered::tree(&home, &view, patch)).transpose()?;
    let verified = verified(&records);
    if outcome == Outcome::Verified && (delivered != view.tree || verified != view.tree) {
        return Err(damaged(format!(
            "session {} does not fit together: the tree that was verified is {}, and base and patch make {}",
            args.id,
            shown(verified.as_ref()),
            shown(delivered.as_ref())
        )));
    }
    let bundle =
        result.bundle.as_deref().map(|bundle| bundle_into(&package, &home, Path::new(bundle))).transpose()?;
    let mut package = package;
    if let Some(bytes) = &patch {
        package.write(PATCH, bytes)?;
    }
    // Where they are now, not where they were.
    result.bundle.clone_from(&bundle);
    if let Some(patch) = &mut result.patch {
        PATCH.clone_into(&mut patch.path);
    }
    package.write(REPORT, report::markdown(&result, None).as_bytes())?;
    package.write(RESULT, &line(&result)?)?;
    let entries: Vec<show::Entry> = transcript.into_iter().map(show::Entry::from).collect();
    let spoken = entries.iter().map(line).collect::<Result<Vec<_>, _>>()?.concat();
    package.write(TRANSCRIPT, &spoken)?;
    package.write(READABLE, show::transcript(&entries, usize::MAX).as_bytes())?;
    for (name, record) in evidence::named(&records.rooms) {
        for (stream, bytes) in [("stdout", &record.stdout), ("stderr", &record.stderr)] {
            if let Some(bytes) = bytes {
                package.write(&format!("{CHECKS}/{name}.{stream}"), bytes)?;
            }
        }
    }
    let index = Index {
        schema: SCHEMA,
        session: args.id.clone(),
        outcome,
        reason,
        versions: versions(&view),
        base_tree: view.base_tree,
        delivered_tree: delivered,
        verified_tree: verified,
        bundle,
        files: std::mem::take(&mut package.files),
    };
    package.write(INDEX, &line(&index)?)?;
    if package.publish(&args.dir)? { Ok(index) } else { Err(taken()) }
}

/// The tree that the last judged check ran on.
fn verified(records: &Records) -> Option<Digest> {
    let last = records.rooms.iter().filter_map(|record| record.attempt).max()?;
    let of_last = records.rooms.iter().filter(|record| record.attempt == Some(last));
    of_last
        .filter(|record| record.room.role == countersign_gates::RoomRole::Final)
        .map(|record| record.room.tree)
        .next_back()
}

fn versions(view: &View) -> Versions {
    let contract = view.session.as_ref().map(|session| &session.contract);
    Versions {
        countersign: env!("CARGO_PKG_VERSION"),
        result: RESULT_SCHEMA,
        contract: contract.map(|contract| contract.schema.clone()),
        preset: contract.map(|contract| contract.preset.name.clone()),
        model: contract.and_then(|contract| contract.model.as_ref()).map(|model| model.reference.clone()),
        detectors: contract.map(|contract| contract.detectors.as_str().to_owned()),
    }
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = serde_json::to_vec(value).map_err(|error| Refusal::bug(error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn shown(tree: Option<&Digest>) -> String {
    tree.map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn damaged(what: String) -> Refusal {
    Refusal::new(Reason::Store, what)
}

/// Copies a bundle that still fits together, and gives its name.
fn bundle_into(package: &Package, home: &Home, bundle: &Path) -> Result<String, Refusal> {
    if !evidence::is_intact(home, bundle)? {
        return Err(damaged(format!(
            "the bundle {} was changed since it was written; `countersign verify` says how",
            bundle.display()
        )));
    }
    let name = bundle.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let target = package.path().join(&name);
    copy(bundle, &target).map_err(|error| unwritable(&target, &error))?;
    Ok(name)
}

/// Copies directories and regular files, which is all that an intact bundle has.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut open: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = open.pop() {
        fs::create_dir(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_dir() {
                open.push((from, to));
            } else {
                fs::copy(&from, &to)?;
                fs::File::open(&to)?.sync_all()?;
            }
        }
        sync(&to)?;
    }
    Ok(())
}
