//! Names that are one name on a file system that folds case, code points or the ends of names. The tree is judged on one
//! that folds nothing; the patch may be applied on another (95).

use std::collections::BTreeMap;

use countersign_guest::protocol::{FenceFinding, FenceVerdict};
use countersign_tree::{Change, GlobSet, TreePath, fold};

use super::{Fence, clipped};
use crate::rules::{Means, When};

impl Fence {
    /// New paths that another file system would hold under a name that counts.
    pub(super) fn aliases(&self, changes: &[Change]) -> Vec<FenceFinding> {
        let is_new = |change: &&Change| change.before.is_none() && change.after.is_some();
        let mut folded: BTreeMap<Vec<u8>, Vec<&TreePath>> = BTreeMap::new();
        for change in changes.iter().filter(is_new) {
            folded.entry(change.path.folded()).or_default().push(&change.path);
        }
        if folded.is_empty() {
            return Vec::new();
        }
        // What of the base is still there and would have the same name.
        let removed: std::collections::BTreeSet<&TreePath> =
            changes.iter().filter(|change| change.after.is_none()).map(|change| &change.path).collect();
        let kept = self.base.entries().iter().map(|entry| &entry.path).filter(|path| !removed.contains(path));
        let mut beside: BTreeMap<Vec<u8>, &TreePath> = BTreeMap::new();
        for path in kept {
            let name = path.folded();
            if folded.contains_key(&name) {
                beside.insert(name, path);
            }
        }
        let loaded = self.folded_auto_loaded();
        let mut out = Vec::new();
        for (name, paths) in &folded {
            for (at, path) in paths.iter().enumerate() {
                let other = beside.get(name).copied().or_else(|| paths.get(usize::from(at == 0)).copied());
                let mut find = |verdict, rule: &str, why: &str| {
                    let (path, detail) = ((*path).clone(), clipped(&format!("added: {why}")));
                    out.push(FenceFinding { path, verdict, rule: rule.to_owned(), detail });
                };
                match other {
                    Some(other) if self.is_protected(other) => find(
                        FenceVerdict::Planted,
                        "alias.protected",
                        &format!("on a file system that folds names it would stand in place of `{other}`"),
                    ),
                    // What lies outside of the scope has an outcome of its own.
                    Some(_) if self.is_out_of_scope(path) => {}
                    Some(other) => find(
                        FenceVerdict::Unverifiable,
                        "alias.collision",
                        &format!(
                            "on a file system that folds names it or `{other}` would be lost; rename one"
                        ),
                    ),
                    None if name.as_slice() != path.as_bytes()
                        && loaded.matches(name)
                        && !self.is_auto_loaded(path) =>
                    {
                        find(
                            FenceVerdict::Planted,
                            "alias.auto_loaded",
                            "on a file system that folds names a runner would load it by itself",
                        )
                    }
                    None => {}
                }
            }
        }
        out
    }

    fn is_out_of_scope(&self, path: &TreePath) -> bool {
        let scope = GlobSet::new(&self.in_scope).unwrap_or_default();
        !scope.is_empty() && !scope.matches(path.as_bytes())
    }

    /// Patterns of what is loaded by itself, in the spelling that [`TreePath::folded`] gives paths.
    fn folded_auto_loaded(&self) -> GlobSet {
        let rows =
            self.active.iter().filter(|a| a.rule.means == Means::AutoLoaded && a.rule.when == When::Always);
        let globs = rows.flat_map(|active| active.rule.globs).map(|glob| fold(glob));
        GlobSet::new(globs).unwrap_or_default()
    }

    fn is_auto_loaded(&self, path: &TreePath) -> bool {
        let mut rows = self.active.iter().filter(|active| active.rule.means == Means::AutoLoaded);
        rows.any(|active| active.globs.matches(path.as_bytes()))
    }

    /// Whether changing this path of the base would stop a run.
    fn is_protected(&self, path: &TreePath) -> bool {
        self.base.get(path).is_some()
            && (self.contract.matches(path.as_bytes())
                || self.named.files.contains_key(path)
                || self.is_linked_test(path)
                || self.is_auto_loaded(path)
                || self.protects_existing(path.as_bytes()))
    }
}
