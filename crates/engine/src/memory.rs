//! What is remembered between runs: answers by everything that they depend on. A wrong one costs work, never truth.

use countersign_gates::adapters::Adapter;
use countersign_gates::{CellPaths, CheckPlan};
use countersign_kernel::contract::CheckTerms;
use countersign_types::{Digest, Reason, canonical_json};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cells::Fail;
use crate::workshop::Workshop;

impl Workshop<'_> {
    /// Everything that the answer depends on: the tree, the environment's terms, the command, and who asks it.
    pub(crate) fn cache_key(
        &self,
        what: &str,
        tree: Digest,
        terms: Option<&CheckTerms>,
    ) -> Result<Digest, Fail> {
        // Our own reporter is a part of the answer, too.
        let adapter = terms.map(|terms| {
            let plan = CheckPlan::new(terms, &self.contract.environment);
            let paths = CellPaths { workspace: String::new(), home: String::new() };
            let (run, _) = plan.run(&paths, "NONCE");
            json!({ "name": plan.adapter().map(Adapter::name), "argv": run.argv, "overlay": run.overlay_digest("NONCE") })
        });
        let key = json!({
            "what": what,
            "version": env!("CARGO_PKG_VERSION"),
            "tree": tree,
            "environment": self.contract.environment,
            "network": self.contract.network,
            "made": self.made,
            "layers": self.layers.iter().map(|m| m.target.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            "terms": terms,
            "adapter": adapter,
        });
        let bytes = canonical_json(&key).map_err(|e| Fail::because(Reason::Config, e.to_string()))?;
        Ok(Digest::of(&bytes))
    }

    pub(crate) async fn cached<T: for<'de> Deserialize<'de>>(&self, key: &Digest) -> Option<T> {
        serde_json::from_slice(&self.ports.memo.recall(key)?).ok()
    }

    pub(crate) async fn remember<T: Serialize>(&self, key: &Digest, value: &T) {
        // A memory that cannot be kept costs time in the next run and nothing else.
        if let Ok(bytes) = serde_json::to_vec(value) {
            let _ = self.ports.memo.remember(key, &bytes);
        }
    }
}
