//! base + patch = final, over manifests.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tree::{Entry, Manifest, TreePath};
use countersign_types::Digest;

use super::{Bundle, Finding};
use crate::layout::{PRE_IMAGES, Part, part};
use crate::patch::{FileChange, Patch};

/// How many differing paths are told; the rest is known by then.
const MAX_TOLD: usize = 20;

pub(super) fn manifest(path: &str, bytes: &[u8], findings: &mut Vec<Finding>) -> Option<Manifest> {
    let manifest = Manifest::decode(bytes);
    if manifest.is_none() {
        findings.push(Finding::Manifest { path: path.to_owned() });
    }
    manifest
}

/// What the patch will need of the base.
pub(super) struct Plan<'a> {
    base: &'a Manifest,
    patch: &'a Patch<'a>,
    /// Changes by the content that they begin with.
    users: BTreeMap<Digest, Vec<usize>>,
}

/// What became of one change: digest and size of the content after it.
pub(super) struct Applied {
    pub(super) at: usize,
    pub(super) result: Result<(Digest, u64), ()>,
}

impl<'a> Plan<'a> {
    /// None when the patch begins at something else than the base.
    pub(super) fn new(base: &'a Manifest, patch: &'a Patch<'a>, findings: &mut Vec<Finding>) -> Option<Self> {
        let mut users: BTreeMap<Digest, Vec<usize>> = BTreeMap::new();
        let mut told = 0;
        for (at, change) in patch.files.iter().enumerate() {
            let again = at > 0 && patch.files[at - 1].path == change.path;
            // A path that the change before has deleted is gone.
            let entry = if again { None } else { base.get(&change.path) };
            if entry.map(|entry| entry.mode) != change.before {
                findings.push(Finding::PatchBase { path: change.path.clone() });
                told += 1;
                if told == MAX_TOLD {
                    break;
                }
            }
            if let Some(entry) = entry {
                users.entry(entry.digest).or_default().push(at);
            }
        }
        (told == 0).then_some(Self { base, patch, users })
    }

    pub(super) fn change(&self, at: usize) -> Option<&FileChange<'a>> {
        self.patch.files.get(at)
    }

    pub(super) fn users(&self, digest: &Digest) -> &[usize] {
        self.users.get(digest).map_or(&[], Vec::as_slice)
    }

    /// Changes that begin with nothing, with a guess of their weight.
    pub(super) fn new_files(&self) -> impl Iterator<Item = (usize, u64)> {
        let files = self.patch.files.iter().enumerate();
        files.filter(|(_, change)| change.before.is_none()).map(|(at, change)| (at, change.weight()))
    }

    /// The contents of all touched files are here, and no others.
    pub(super) fn pre_images_are_there(&self, bundle: &Bundle, findings: &mut Vec<Finding>) {
        let here: BTreeSet<Digest> = bundle
            .files
            .sizes
            .keys()
            .filter_map(|path| match part(path, bundle.signed) {
                Some(Part::PreImage(digest)) => Some(digest),
                _ => None,
            })
            .collect();
        let missing = self.users.iter().filter(|(digest, _)| !here.contains(digest));
        findings.extend(missing.flat_map(|(_, users)| users.first()).filter_map(|at| {
            self.change(*at).map(|change| Finding::PreImageMissing { path: change.path.clone() })
        }));
        let unused = here.iter().filter(|digest| !self.users.contains_key(digest));
        findings.extend(
            unused.map(|digest| Finding::PreImageUnused { path: format!("{PRE_IMAGES}{}", digest.hex()) }),
        );
    }

    /// Puts what became of the changes into the base and compares with the final manifest. Says nothing of paths whose
    /// change could not be applied; that was told.
    pub(super) fn compare(&self, last: &Manifest, applied: Vec<Applied>, findings: &mut Vec<Finding>) {
        let results: BTreeMap<usize, Result<(Digest, u64), ()>> =
            applied.into_iter().map(|applied| (applied.at, applied.result)).collect();
        let mut unknown: BTreeSet<&TreePath> = BTreeSet::new();
        let mut entries: BTreeMap<&TreePath, Entry> =
            self.base.entries().iter().map(|entry| (&entry.path, entry.clone())).collect();
        for (at, change) in self.patch.files.iter().enumerate() {
            match (results.get(&at), change.after) {
                (Some(Ok((digest, size))), Some(mode)) => {
                    let entry = Entry { path: change.path.clone(), mode, size: *size, digest: *digest };
                    entries.insert(&change.path, entry);
                }
                (Some(Ok(_)), None) => {
                    entries.remove(&change.path);
                }
                (Some(Err(())) | None, _) => {
                    unknown.insert(&change.path);
                }
            }
        }
        let ours = Manifest::new(entries.into_values().collect());
        let differs = ours.changes_to(last).into_iter().filter(|change| !unknown.contains(&change.path));
        findings.extend(differs.take(MAX_TOLD).map(|change| Finding::FinalTree { path: change.path }));
    }
}
