//! base + patch = final, over manifests.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tree::{Entry, Manifest, TreePath};
use countersign_types::Digest;

use super::{Bundle, Finding};
use crate::layout::{BASE_MANIFEST, MAX_CHANGED, PRE_IMAGES, Part, part};
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

/// What the patch needs of the base and should make of it.
pub(super) struct Plan<'a> {
    base: &'a Manifest,
    last: &'a Manifest,
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
    /// None when the patch begins at something else than the base, or asks for more work than a bundle may.
    pub(super) fn new(
        base: &'a Manifest,
        last: &'a Manifest,
        patch: &'a Patch<'a>,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let mut users: BTreeMap<Digest, Vec<usize>> = BTreeMap::new();
        let (mut told, mut work) = (0, 0_u64);
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
            let after = last.get(&change.path).filter(|_| change.after.is_some());
            for size in entry.iter().chain(after.iter()).map(|entry| entry.size) {
                work = work.saturating_add(size);
            }
            if let Some(entry) = entry {
                users.entry(entry.digest).or_default().push(at);
            }
        }
        if work > MAX_CHANGED.as_u64() {
            let limit = MAX_CHANGED.as_u64();
            findings.push(Finding::TooLarge { path: "what was changed".to_owned(), limit });
            return None;
        }
        (told == 0).then_some(Self { base, last, patch, users })
    }

    pub(super) fn change(&self, at: usize) -> Option<&FileChange<'a>> {
        self.patch.files.get(at)
    }

    /// The size that the content after a change should have; more is not looked at.
    pub(super) fn size_after(&self, change: &FileChange<'_>) -> u64 {
        self.last.get(&change.path).filter(|_| change.after.is_some()).map_or(0, |entry| entry.size)
    }

    pub(super) fn users(&self, digest: &Digest) -> &[usize] {
        self.users.get(digest).map_or(&[], Vec::as_slice)
    }

    /// Changes that begin with nothing, with a guess of their weight.
    pub(super) fn new_files(&self) -> impl Iterator<Item = (usize, u64)> {
        let files = self.patch.files.iter().enumerate();
        files.filter(|(_, change)| change.before.is_none()).map(|(at, change)| (at, change.weight()))
    }

    /// The contents of all touched files are here, as large as the base says, and no others.
    pub(super) fn pre_images_are_there(&self, bundle: &Bundle, findings: &mut Vec<Finding>) {
        let here: BTreeMap<Digest, u64> = bundle
            .files
            .sizes
            .iter()
            .filter_map(|(path, size)| match part(path, bundle.signed) {
                Some(Part::PreImage(digest)) => Some((digest, *size)),
                _ => None,
            })
            .collect();
        for (digest, users) in &self.users {
            let change = users.first().and_then(|at| self.change(*at));
            let Some((path, entry)) =
                change.and_then(|change| Some((&change.path, self.base.get(&change.path)?)))
            else {
                continue;
            };
            match here.get(digest) {
                None => findings.push(Finding::PreImageMissing { path: path.clone() }),
                Some(size) if *size != entry.size => {
                    findings.push(Finding::Manifest { path: BASE_MANIFEST.to_owned() });
                }
                Some(_) => {}
            }
        }
        let unused = here.keys().filter(|digest| !self.users.contains_key(digest));
        findings.extend(
            unused.map(|digest| Finding::PreImageUnused { path: format!("{PRE_IMAGES}{}", digest.hex()) }),
        );
    }

    /// Holds what became of the changes against what the final manifest says. Says nothing of paths whose change could
    /// not be applied; that was told.
    pub(super) fn compare(&self, applied: Vec<Applied>, findings: &mut Vec<Finding>) {
        let results: BTreeMap<usize, Result<(Digest, u64), ()>> =
            applied.into_iter().map(|applied| (applied.at, applied.result)).collect();
        // Touched paths: what they are now; None: gone. Of two changes of one path the second counts.
        let mut touched: BTreeMap<&TreePath, Option<Entry>> = BTreeMap::new();
        let mut unknown: BTreeSet<&TreePath> = BTreeSet::new();
        for (at, change) in self.patch.files.iter().enumerate() {
            let path = &change.path;
            match (results.get(&at), change.after) {
                (Some(Ok((digest, size))), Some(mode)) => {
                    touched
                        .insert(path, Some(Entry { path: path.clone(), mode, size: *size, digest: *digest }));
                }
                (Some(Ok(_)), None) => {
                    touched.insert(path, None);
                }
                (Some(Err(())) | None, _) => {
                    unknown.insert(path);
                }
            }
        }
        let mut wrong: BTreeSet<TreePath> = BTreeSet::new();
        for change in self.base.changes_to(self.last) {
            // Where nothing was touched, the base's entry should have stayed.
            let ours = touched.remove(&change.path).unwrap_or(change.before);
            if ours != change.after && !unknown.contains(&change.path) {
                wrong.insert(change.path);
            }
        }
        let rest = touched.into_iter().filter(|(path, ours)| ours.as_ref() != self.last.get(path));
        wrong.extend(rest.map(|(path, _)| path.clone()).filter(|path| !unknown.contains(path)));
        findings.extend(wrong.into_iter().take(MAX_TOLD).map(|path| Finding::FinalTree { path }));
    }
}
