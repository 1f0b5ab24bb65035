//! What the verifier brings into a room: files that no job can change, and an empty directory for a run's reports.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};

use crate::fault::Outcome;
use crate::protocol::{Fault, OverlayFile};

/// Writes the files below `base`, new ones only. Everything belongs to this process's user, or to `owner`.
pub(crate) fn place(base: &Path, files: &[OverlayFile], owner: Option<u32>) -> Outcome<()> {
    for file in files {
        let relative = plain(&file.path)?;
        let path = base.join(relative);
        let mode = if file.executable { 0o755 } else { 0o644 };
        let written = (|| {
            if let Some(parent) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
            }
            let mut out = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
            out.write_all(file.content.as_bytes())?;
            own(&path, owner)
        })();
        written.map_err(|e| Fault::io(format!("writing the verifier's `{}`", file.path), &e))?;
    }
    Ok(())
}

/// Makes `base/name`, which must not exist, for `owner` alone.
pub(crate) fn make_report_dir(base: &Path, name: &str, owner: Option<u32>) -> Outcome<()> {
    let path = base.join(plain(name)?);
    let made = (|| {
        DirBuilder::new().recursive(true).mode(0o755).create(base)?;
        DirBuilder::new().mode(0o700).create(&path)?;
        own(&path, owner)
    })();
    made.map_err(|e| Fault::io("making the directory for reports", &e))
}

fn own(path: &Path, owner: Option<u32>) -> io::Result<()> {
    match owner {
        Some(id) => std::os::unix::fs::lchown(path, Some(id), Some(id)),
        None => Ok(()),
    }
}

/// All of a file from its start.
pub(crate) fn read_all(mut file: &File, limit: u64) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(limit).read_to_end(&mut bytes));
    read.map_err(|e| Fault::io("reading a runner's output", &e))?;
    Ok(bytes)
}

fn plain(path: &str) -> Outcome<&Path> {
    let relative = Path::new(path);
    let ok = !path.is_empty() && relative.components().all(|part| matches!(part, Component::Normal(_)));
    ok.then_some(relative)
        .ok_or_else(|| Fault::bad_request("a file of the verifier has a name that is no plain path"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_new_and_stay_below_their_directory() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("verifier");
        let file =
            |path: &str| OverlayFile { path: path.to_owned(), content: "x".to_owned(), executable: false };
        place(&base, &[file("a/b.py"), file("c")], None).unwrap();
        assert_eq!(fs::read(base.join("a/b.py")).unwrap(), b"x");
        assert!(place(&base, &[file("c")], None).is_err(), "what is there already is not the verifier's");
        for bad in ["../d", "/d", "", "a/../../d", "."] {
            assert!(place(&base, &[file(bad)], None).is_err(), "{bad}");
        }
        let reports = dir.path().join("report");
        make_report_dir(&reports, "n", None).unwrap();
        assert!(make_report_dir(&reports, "n", None).is_err());
        assert_eq!(fs::read_dir(reports.join("n")).unwrap().count(), 0);
    }
}
