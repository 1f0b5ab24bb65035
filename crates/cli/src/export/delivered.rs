//! What base and patch make together, worked out from the objects of the home and from nothing that was recorded of it.

use countersign_engine::View;
use countersign_proof::patch::{Patch, Sink};
use countersign_tree::{Delta, Entry, Manifest};
use countersign_types::Digest;

use super::damaged;
use crate::home::Home;
use crate::refusal::Refusal;

/// The largest file that a patch may make, bytes.
const MAX_FILE: u64 = 512 << 20;

/// The digest of the tree that the patch makes of the session's base.
pub(super) fn tree(home: &Home, view: &View, patch: &[u8]) -> Result<Digest, Refusal> {
    made(home, view, patch).map(|tree| tree.digest()).map_err(|why| {
        damaged(format!("the patch of {} does not lead from its base to a tree: {why}", view.id))
    })
}

fn made(home: &Home, view: &View, patch: &[u8]) -> Result<Manifest, String> {
    let base = view.base_tree.ok_or("the base is not known")?;
    let base = home.objects.manifest(&base).map_err(|error| error.to_string())?;
    let patch = Patch::parse(patch).map_err(|error| error.to_string())?;
    let mut delta = Delta::default();
    for file in &patch.files {
        let old = base.get(&file.path);
        if old.map(|entry| entry.mode) != file.before {
            return Err(format!("{} is not in the base as the patch says", file.path));
        }
        let before = match old {
            Some(entry) => home.objects.read(&entry.digest).map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        let mut out = Sink::new(MAX_FILE);
        file.apply(&before, &mut out).map_err(|error| error.to_string())?;
        let (digest, size, _) = out.finish();
        match file.after {
            Some(mode) => delta.put.push(Entry { path: file.path.clone(), mode, size, digest }),
            None => delta.remove.push(file.path.clone()),
        }
    }
    Ok(base.with(&delta))
}
