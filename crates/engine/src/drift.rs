//! What a check did to the tree that it judged. A check that changes what it judges did not judge what would be
//! delivered, unless it does the same on the base: then it is the project's own way.

use std::collections::BTreeSet;

use countersign_cell::Cell;
use countersign_tree::{Delta, Manifest, TreePath};
use countersign_types::{Digest, Reason, canonical_json};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};
use crate::workshop::Workshop;

/// Everything that was not as it had been.
#[derive(Serialize, Deserialize)]
struct Drift {
    delta: Delta,
    /// Paths that cannot be entries.
    unsealable: Vec<String>,
    /// Entries with the content that they had, and directories, that were changed and put back.
    touched: BTreeSet<TreePath>,
}

impl Workshop<'_> {
    /// The digest of what a check did to the tree in a room, or None when it did nothing. What it stands for is kept
    /// beside other memories.
    pub(crate) async fn drift_of(&self, cell: &dyn Cell, tree: &Manifest) -> Result<Option<Digest>, Fail> {
        // The tree that is judged stays tree, also where a revision carries what the base's rules call scratch.
        let scratch = self.scratch()?.as_ref().clone().holding(tree);
        let scratch = scratch.map_err(|e| Fail::because(Reason::Config, e.to_string()))?;
        let (sealed, _) = cells::seal(cell, &self.ports.objects, tree, &scratch, true).await?;
        let touched: BTreeSet<TreePath> = sealed.touched.into_iter().collect();
        if sealed.delta.is_empty() && sealed.unsealable.is_empty() && touched.is_empty() {
            return Ok(None);
        }
        let drift = Drift { delta: sealed.delta, unsealable: sealed.unsealable, touched };
        let bytes = canonical_json(&drift).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
        let digest = Digest::of(&bytes);
        // Without it only the very same drift is excused.
        let _ = self.ports.memo.remember(&digest, &bytes);
        Ok(Some(digest))
    }

    /// Whether a check did more to the final tree than it did to the base.
    pub(crate) fn drifted(&self, after: Option<Digest>, base: Option<Digest>) -> bool {
        let Some(after) = after else { return false };
        let Some(base) = base else { return true };
        if after == base {
            return false;
        }
        let recall = |digest: Digest| -> Option<Drift> {
            let bytes = self.ports.memo.recall(&digest)?;
            (Digest::of(&bytes) == digest).then(|| serde_json::from_slice(&bytes).ok())?
        };
        match (recall(after), recall(base)) {
            (Some(after), Some(base)) => {
                after.delta != base.delta
                    || after.unsealable != base.unsealable
                    || !after.touched.is_subset(&base.touched)
            }
            _ => true,
        }
    }
}
