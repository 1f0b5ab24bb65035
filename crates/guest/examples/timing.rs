//! Times of import, seal, private repository and patch over a repository: `timing GIT_DIR REV`. Not a test: run it with
//! `--release` on a quiet machine and compare with git's own times for the same commit.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use countersign_guest::Guest;
use countersign_guest::protocol::{MAX_FDS, Reply, Request};
use countersign_tree::{Durability, Manifest, ObjectStore, ScratchRules};

type Failure = Box<dyn std::error::Error>;

fn timed<T>(what: &str, run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let (started, used) = (Instant::now(), processor_seconds());
    let result = run()?;
    let (took, used) = (started.elapsed(), processor_seconds() - used);
    writeln!(
        std::io::stdout(),
        "{:>9.2} ms {:>9.2} ms processor  {what}",
        took.as_secs_f64() * 1e3,
        used * 1e3
    )?;
    Ok(result)
}

/// Of this process, git's not included: what stays the same on a busy machine.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn seal(guest: &mut Guest, store: &ObjectStore, verdict: bool) -> Result<(), Failure> {
    let segment = store.new_segment()?;
    let file = segment.file.try_clone()?;
    let request = Request::Seal { verdict, scratch: ScratchRules::default(), live: false };
    match guest.answer(request, &[file]) {
        Reply::Sealed(sealed) => Ok(store.adopt(segment, &sealed.located, Durability::Sync)?),
        other => Err(format!("{other:?}").into()),
    }
}

fn done(reply: Reply) -> Result<(), Failure> {
    if reply == Reply::Done { Ok(()) } else { Err(format!("{reply:?}").into()) }
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(git_dir), Some(rev)) = (args.next(), args.next()) else {
        return Err("usage: timing GIT_DIR REV".into());
    };
    let dir = tempfile::tempdir()?;
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    let store = ObjectStore::open(dir.path().join("blobs"))?;
    let mut guest = Guest::new(&workspace, Path::new("/nonexistent"), None)?;

    let segment = store.new_segment()?;
    let file = segment.file.try_clone()?;
    let import = Request::ImportGit { git_dir: git_dir.clone(), rev, write_workspace: true };
    let imported = timed("import", || match guest.answer(import, &[file]) {
        Reply::Imported(imported) => Ok(imported),
        other => Err(format!("{other:?}").into()),
    })?;
    let manifest = Manifest::new(imported.entries);
    timed("adopt, manifest, sync", || {
        store.adopt(segment, &imported.located, Durability::Later)?;
        store.put_manifest(&manifest, Durability::Later)?;
        Ok(store.sync_pending()?)
    })?;
    let init = Request::InitPrivateGit { git_dir: Some(git_dir), commit: imported.commit };
    timed("private repository", || done(guest.answer(init, &[])))?;
    timed("first step seal", || seal(&mut guest, &store, false))?;
    std::fs::write(workspace.join("changed-by-timing"), "x")?;
    timed("step seal after one change", || seal(&mut guest, &store, false))?;
    timed("verdict seal", || seal(&mut guest, &store, true))?;
    let digests: Vec<_> = manifest.entries().iter().map(|e| e.digest).collect();
    timed("materialise with clear", || {
        let mut clear = true;
        for batch in store.locate(&digests, MAX_FDS)? {
            let files: Vec<File> = batch.files;
            let entries = manifest.entries().to_vec();
            done(guest.answer(Request::Materialise { entries, located: batch.located, clear }, &files))?;
            clear = false;
        }
        Ok(())
    })
}
