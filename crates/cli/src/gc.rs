//! `gc`: removes what no session needs any more, or says what it would remove.
//!
//! Nothing of a session that somebody drives is touched: its cells are left alone while its lock is held, a directory
//! without a recorded session only after a day, and a patch only where the signed bundle holds it too. Trees and payloads
//! stay, because what a later session finds in the store it does not write again.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use countersign_engine::{Clock as _, PATCH_FILE};
use countersign_store::{Store as _, StoreError};
use countersign_types::{Millis, SessionId};
use serde::Serialize;

use crate::args::{Format, GcArgs, TextOrJson};
use crate::home::Home;
use crate::ports::MachineClock;
use crate::refusal::Refusal;
use crate::{exit, files, lease, render, run, sweep, terminal};

const GC_SCHEMA: &str = "countersign.gc/1";

/// A directory that no session is recorded for may be of one that is being set up.
const SET_UP: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// The working files of a process that died.
    Cell,
    /// Of a command that died before it recorded a session.
    Unrecorded,
    /// Of a session that ended long ago; its bundle holds the same bytes.
    Patch,
}

#[derive(Debug, Serialize)]
struct Found {
    kind: Kind,
    session: Option<SessionId>,
    path: String,
    /// What it takes on the disk, as far as it can be seen.
    bytes: u64,
    /// False with `--dry-run`, and where it could not be removed.
    removed: bool,
    #[serde(skip)]
    place: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    dry_run: bool,
    found: Vec<Found>,
    /// Of all that was found.
    bytes: u64,
}

pub(crate) fn gc(args: &GcArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    let report = match collect(args) {
        Ok(report) => report,
        Err(refusal) => return render::refused(format, &refusal),
    };
    match args.format {
        TextOrJson::Json => match serde_json::to_string(&report) {
            Ok(line) => terminal::out_line(&line),
            Err(error) => return render::refused(format, &Refusal::bug(error.to_string())),
        },
        TextOrJson::Text => {
            for Found { path, bytes, removed, .. } in &report.found {
                let did = match (report.dry_run, removed) {
                    (true, _) => "would remove",
                    (false, true) => "removed",
                    (false, false) => "could not remove",
                };
                terminal::out_line(&format!("{did} {path} ({bytes} bytes)"));
            }
            let did = if report.dry_run { "would be removed" } else { "found" };
            terminal::out_line(&format!("{} bytes {did}", report.bytes));
        }
    }
    let left = !args.dry_run && report.found.iter().any(|found| !found.removed);
    if left { exit::NEGATIVE } else { exit::DONE }
}

fn collect(args: &GcArgs) -> Result<Report, Refusal> {
    let home = Home::open()?;
    let before = args.older_than.map(|ago| ago.at(MachineClock.now()));
    run::runtime()?.block_on(async {
        let mut found = Vec::new();
        for dir in sweep::directories(&home.root().join("sessions")) {
            look(&home, &dir, before, &mut found).await?;
        }
        found.sort_by(|a, b| a.place.cmp(&b.place));
        if !args.dry_run {
            remove(&home, &mut found).await;
        }
        let bytes = found.iter().map(|found| found.bytes).sum();
        Ok(Report { schema: GC_SCHEMA, dry_run: args.dry_run, found, bytes })
    })
}

/// What of one directory is of no use.
async fn look(
    home: &Home,
    dir: &Path,
    before: Option<Millis>,
    found: &mut Vec<Found>,
) -> Result<(), Refusal> {
    // Whatever else lies there is nobody's.
    let name = dir.file_name().and_then(|name| name.to_str());
    let Some(id) = name.and_then(|name| SessionId::new(name).ok()) else { return Ok(()) };
    let row = match home.store.session(&id).await {
        Ok(row) => row,
        Err(StoreError::NoSuchSession(_)) => {
            if untouched(dir) {
                found.push(Found::new(Kind::Unrecorded, None, dir.to_owned()));
            }
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if lease::held(home, &id) {
        return Ok(());
    }
    for cell in sweep::cells(dir) {
        found.push(Found::new(Kind::Cell, Some(id.clone()), cell));
    }
    let ended = row.summary.get("outcome").is_some_and(|outcome| !outcome.is_null());
    let patch = dir.join(PATCH_FILE);
    let kept = files::exists(&dir.join(format!("{id}.bundle")));
    if ended && kept && before.is_some_and(|before| row.updated_at < before) && files::exists(&patch) {
        found.push(Found::new(Kind::Patch, Some(id), patch));
    }
    Ok(())
}

async fn remove(home: &Home, found: &mut [Found]) {
    // Holds each session's lock while its cells are removed: who drives it by now keeps them.
    sweep::leftovers(home).await;
    for one in found.iter_mut() {
        match one.kind {
            Kind::Cell => {}
            Kind::Unrecorded => {
                sweep::forget(&one.place).await;
                let _ = std::fs::remove_dir_all(&one.place);
            }
            Kind::Patch => {
                let _ = std::fs::remove_file(&one.place);
            }
        }
        one.removed = !files::exists(&one.place);
    }
}

impl Found {
    fn new(kind: Kind, session: Option<SessionId>, place: PathBuf) -> Self {
        let (path, bytes) = (place.to_string_lossy().into_owned(), on_disk(&place));
        Self { kind, session, path, bytes, removed: false, place }
    }
}

/// Bytes below a path, links not followed. What cannot be looked into counts as nothing.
fn on_disk(path: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return 0 };
    let below = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| on_disk(&entry.path())).sum()
    };
    let inside: u64 = if metadata.is_dir() { below(path) } else { 0 };
    (metadata.blocks() * BLOCK).saturating_add(inside)
}

/// Nothing was added to it or taken from it for long.
fn untouched(dir: &Path) -> bool {
    let changed = |path: &Path| std::fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let old = |at: SystemTime| at.elapsed().is_ok_and(|age| age > SET_UP);
    let cells = dir.join("cells");
    changed(dir).is_ok_and(old) && (!files::exists(&cells) || changed(&cells).is_ok_and(old))
}
