//! `--deps fetch` beside a setup: a tree whose lockfiles are not the base's gets an environment of its own, made by the
//! operator's setup in a cell of its own. The base, its control and every other tree keep the first one.

use countersign_gates::Cause;
use countersign_gates::CheckDecision;
use countersign_kernel::contract::Deps;
use countersign_tree::{Delta, Manifest, TreePath};
use countersign_types::{Digest, JobEnd};

use crate::cells::Fail;
use crate::stop::Stop;
use crate::workshop::Workshop;

/// What package managers read beside a lockfile, and refuse when the two do not belong together.
const MANIFESTS: &[&str] =
    &["Cargo.toml", "package.json", "pyproject.toml", "Pipfile", "go.mod", "composer.json", "Gemfile"];

impl Workshop<'_> {
    /// The digest of the environment that was made for a tree. None: it has the base's. What a setup cannot make is a
    /// decision, because the work is what asks for it.
    pub(crate) async fn environment_for(
        &mut self,
        tree: Digest,
        stop: &Stop,
    ) -> Result<Result<Option<Digest>, CheckDecision>, Fail> {
        let (Deps::Fetch, Some(argv)) = (self.contract.deps, self.contract.environment.setup.clone()) else {
            return Ok(Ok(None));
        };
        if let Some(second) = self.seconds.get(&tree) {
            return Ok(Ok(Some(second.environment)));
        }
        let (base, after) = (self.facts()?.tree, self.tree(tree)?);
        let lockfiles = countersign_gates::changed_lockfiles(&base, &after, true);
        let Some(first) = lockfiles.first().cloned() else { return Ok(Ok(None)) };
        let mixed = with_lockfiles(&base, &after, &lockfiles);
        let digest = mixed.digest();
        self.keep(digest, mixed);
        let kept = (std::mem::take(&mut self.layers), self.made.take());
        let made = self.make_environment(digest, argv, stop).await;
        let layers = std::mem::replace(&mut self.layers, kept.0);
        self.made = kept.1;
        let made = made?;
        match made.receipt {
            Some(receipt) if receipt.end != (JobEnd::Exited { code: 0 }) => {
                let words = countersign_tools::operator_result(&receipt);
                let text = format!("the setup failed on the changed lockfile `{first}`: {words}");
                let text = self.ports.redactor.redact_str(&text).into_owned();
                Ok(Err(CheckDecision::inconclusive(text).because(Cause::Dependencies)))
            }
            _ => {
                self.seconds.insert(tree, Second { layers, environment: made.environment });
                Ok(Ok(Some(made.environment)))
            }
        }
    }

    /// A tree that differs from another in nothing that an environment is made from.
    pub(crate) fn same_environment(&mut self, tree: Digest, other: Digest) {
        if let Some(second) = self.seconds.get(&tree).cloned() {
            self.seconds.insert(other, second);
        }
    }
}

/// An environment beside the base's.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    pub(crate) layers: Vec<countersign_types::Mount>,
    pub(crate) environment: Digest,
}

/// The base with the changed lockfiles and the manifests beside them; nothing else of the work is there.
fn with_lockfiles(base: &Manifest, after: &Manifest, lockfiles: &[TreePath]) -> Manifest {
    let dir = |path: &TreePath| {
        let bytes = path.as_bytes();
        bytes[..bytes.len() - path.file_name().len()].to_vec()
    };
    let dirs: Vec<Vec<u8>> = lockfiles.iter().map(dir).collect();
    let mut delta = Delta::default();
    for change in base.changes_to(after) {
        let is_manifest = MANIFESTS.iter().any(|name| change.path.file_name() == name.as_bytes())
            && dirs.contains(&dir(&change.path));
        if is_manifest || lockfiles.contains(&change.path) {
            match change.after {
                Some(entry) => delta.put.push(entry),
                None => delta.remove.push(change.path),
            }
        }
    }
    base.with(&delta)
}
