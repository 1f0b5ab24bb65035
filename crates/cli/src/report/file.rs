//! `--report FILE`: the report of a run in a file, besides what goes to standard output.

use std::io::Write as _;
use std::path::Path;

use countersign_engine::HygieneKind;
use countersign_types::Digest;

use super::markdown;
use crate::files;
use crate::refusal::Refusal;
use crate::result::RunResult;

/// Refuses a place where no report could be written, before anything else is done.
pub(crate) fn writable(path: &Path) -> Result<(), Refusal> {
    let refuse =
        |what: &str| Err(Refusal::usage(format!("--report {} is of no use: {what}", path.display())));
    if !directory(path).is_dir() {
        return refuse("its directory does not exist; make it first");
    }
    match path.symlink_metadata() {
        Ok(metadata) if !metadata.is_file() => refuse("something that is no regular file is there already"),
        _ => Ok(()),
    }
}

/// Writes the report. A failure is said in the result and changes nothing else of it.
pub(crate) fn write(path: &Path, result: &mut RunResult) {
    if let Err(refusal) = writable(path) {
        // Said already where the run was refused for it.
        if result.error.as_ref().is_none_or(|error| error.message != refusal.message) {
            result.degraded.push(refusal.message);
        }
        return;
    }
    let report = whole(result);
    let put = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory(path))?;
        file.write_all(report.as_bytes())?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    };
    if let Err(error) = put() {
        result.degraded.push(format!("the report {} could not be written: {error}", path.display()));
    }
}

/// The report with the patch, as long as its bytes are those that the journal recorded and bring no secret: a report is
/// passed on.
pub(crate) fn whole(result: &RunResult) -> String {
    let Some(patch) = &result.patch else { return markdown(result, None) };
    let secret = result.findings.iter().flatten().any(|finding| finding.kind == HygieneKind::Secret);
    let why = match files::read_regular(Path::new(&patch.path), patch.bytes) {
        Ok(bytes) if Digest::of(&bytes).hex() != patch.sha256 => "its file was changed",
        Ok(_) if secret => "it brings a secret",
        Ok(bytes) => return markdown(result, Some(&bytes)),
        Err(_) => "its file is gone",
    };
    let mut result = result.clone();
    result.degraded.push(format!("the patch, which is not shown: {why}"));
    markdown(&result, None)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
