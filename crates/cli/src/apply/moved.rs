//! Why a patch does not apply: which of the files that it needs are not those that it was made from.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use countersign_engine::View;
use countersign_proof::patch::Patch;
use countersign_tree::{Entry, EntryMode};
use countersign_types::Digest;

use crate::files;
use crate::home::Home;

/// Paths that are told; the rest is counted.
const MAX_TOLD: usize = 20;

/// One line for each path of the patch that differs from the base, and a count of those that are not told.
pub(super) fn from_base(home: &Home, view: &View, patch: &Patch<'_>, dir: &Path) -> Vec<String> {
    let base = view.base_tree.and_then(|tree| home.objects.manifest(&tree).ok());
    let Some(base) = base else { return Vec::new() };
    let mut told: Vec<String> = patch
        .files
        .iter()
        .filter_map(|file| {
            let path = dir.join(std::ffi::OsStr::from_bytes(file.path.as_bytes()));
            differs(base.get(&file.path), &path).map(|what| format!("{} {what}", file.path))
        })
        .collect();
    if told.len() > MAX_TOLD {
        let more = told.len() - MAX_TOLD;
        told.truncate(MAX_TOLD);
        told.push(format!("and {more} more"));
    }
    told
}

/// How the file at `path` differs from the base's entry; None where it does not.
fn differs(base: Option<&Entry>, path: &Path) -> Option<&'static str> {
    let metadata = path.symlink_metadata().ok();
    let (base, metadata) = match (base, metadata) {
        (None, None) => return None,
        (None, Some(_)) => return Some("exists already, and the patch makes it"),
        (Some(_), None) => return Some("is missing"),
        (Some(base), Some(metadata)) => (base, metadata),
    };
    let content = match base.mode {
        EntryMode::Gitlink => return None,
        EntryMode::Symlink => match std::fs::read_link(path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) => return Some("is no symbolic link any more"),
        },
        EntryMode::File | EntryMode::Executable => match files::read_regular(path, base.size) {
            Ok(bytes) => bytes,
            Err(_) => return Some("is not what it was in the base"),
        },
    };
    if Digest::of(&content) != base.digest {
        return Some("is not what it was in the base");
    }
    let executable = metadata.mode() & 0o100 != 0;
    match base.mode {
        EntryMode::File if executable => Some("is executable, and was not in the base"),
        EntryMode::Executable if !executable => Some("is not executable, and was in the base"),
        _ => None,
    }
}
