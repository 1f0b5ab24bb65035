//! Lockfiles: what an environment is made from. A tree that brings others asks for another environment.

use countersign_kernel::contract::Deps;
use countersign_tree::{LOCKFILES, Manifest, TreePath};

use crate::check::CheckDecision;
use crate::evidence::Cause;

/// Files that pin what a package manager installs, beside the ones that are scratch where the base has none.
const MORE: &[&str] =
    &["go.sum", "npm-shrinkwrap.json", "bun.lock", "bun.lockb", "composer.lock", "Gemfile.lock"];

/// Lockfiles that are not the same in both trees.
#[must_use]
pub fn changed_lockfiles(base: &Manifest, tree: &Manifest) -> Vec<TreePath> {
    let is_lock =
        |path: &TreePath| LOCKFILES.iter().chain(MORE).any(|name| path.file_name() == name.as_bytes());
    base.changes_to(tree).into_iter().map(|change| change.path).filter(is_lock).collect()
}

/// What the contract makes of them. None: the check goes on.
#[must_use]
pub fn judge_deps(deps: Deps, changed: &[TreePath]) -> Option<CheckDecision> {
    let first = changed.first()?;
    let more = changed.len() - 1;
    let named = if more == 0 { format!("`{first}`") } else { format!("`{first}` (and {more} more)") };
    let what = format!("{named} is not the base's, and the environment was made from the base's");
    let decision = match deps {
        Deps::Fetch => return None,
        Deps::Deny => CheckDecision::inconclusive(format!("{what}; `--deps fetch` allows it")),
        Deps::Ask => {
            CheckDecision::blocked(format!("{what}, and nobody can be asked here; `--deps fetch` allows it"))
        }
    };
    Some(decision.because(Cause::Dependencies))
}
