//! Whether what a check showed on the base in an earlier run may be relied on: its room saw a system, toolchains and caches
//! that no digest of the contract holds. What the kernel says of their files is compared instead, beside the room on the
//! final tree; where that is not possible, or says that something was changed, the base is run again.

use countersign_guest::protocol::{EnvironmentSeen, Reply, Request};
use countersign_kernel::contract::Network;
use countersign_types::{CheckIndex, Digest, Millis};
use futures::future::BoxFuture;

use crate::cells;
use crate::workshop::Workshop;

/// A base that takes less is run again as fast as anything is compared.
const WORTH_A_LOOK: Millis = Millis(500);

/// A look may take as many times what it saves: it runs beside a room.
const PATIENCE: u64 = 2;

/// What was changed this long before a run was changed before it: clocks that stamp files tick slower than others.
const SETTLED: Millis = Millis(1_000);

/// A remembered result is asked again after this long: what depends on the day is in no digest.
const FRESH_FOR: Millis = Millis::from_secs(24 * 60 * 60);

/// The environment of a base run that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RanIn {
    /// When the run began.
    pub(crate) at: Millis,
    /// None: nothing can be said of it.
    pub(crate) environment: Option<Digest>,
}

impl RanIn {
    /// What a later look says of a run: nothing that it sees was changed after the run began.
    pub(crate) fn seen_later(at: Millis, seen: Option<&EnvironmentSeen>) -> Self {
        let settled = seen.filter(|seen| seen.newest.0.saturating_add(SETTLED.0) < at.0);
        Self { at, environment: settled.map(|seen| seen.digest) }
    }

    /// Whether the run would be in the same environment now.
    pub(crate) fn still(&self, seen: Option<&EnvironmentSeen>, now: Millis) -> bool {
        let same = self.environment.is_some() && self.environment == seen.map(|seen| seen.digest);
        same && self.at.0 <= now.0 && now.0 - self.at.0 < FRESH_FOR.0
    }
}

impl<'p> Workshop<'p> {
    /// A look at what rooms see besides the tree and what a setup made, in a cell of its own. None: it is not worth it, or
    /// not possible; a check that has the network depends on more than files.
    pub(crate) fn look_at_environment(&self, check: CheckIndex) -> BoxFuture<'p, Option<EnvironmentSeen>> {
        let took = self.base_seen.get(&check).map_or(0, |seen| seen.wall().0);
        let nothing = Box::pin(std::future::ready(None));
        if took < WORTH_A_LOOK.0 || self.contract.network == Network::Host {
            return nothing;
        }
        let Some(rooms) = &self.ports.cells.rooms else { return nothing };
        let (ports, contract, mounts) = (self.ports, self.contract.clone(), self.layers.clone());
        let layers = contract.environment.layers.iter().map(|layer| layer.target.clone()).collect();
        let request = Request::SeeEnvironment { layers, within: Millis(took.saturating_mul(PATIENCE)) };
        Box::pin(async move {
            let cell = cells::open(ports, rooms, &contract, mounts, None).await.ok()?;
            let reply = cells::ask(cell.as_ref(), &request, Vec::new()).await;
            let ended = cell.end(true).await;
            match (reply, ended) {
                (Ok(Reply::Environment { seen }), Ok(())) => seen,
                // Not knowing costs a run of the base and nothing else.
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(digest: &str, newest: u64) -> EnvironmentSeen {
        EnvironmentSeen { digest: Digest::of(digest.as_bytes()), newest: Millis(newest), files: 1 }
    }

    #[test]
    fn a_run_is_relied_on_only_where_nothing_was_changed_after_it_began() {
        let at = Millis(100_000);
        let ran = RanIn::seen_later(at, Some(&seen("a", 98_999)));
        assert!(ran.still(Some(&seen("a", 98_999)), Millis(200_000)));
        assert!(!ran.still(Some(&seen("b", 98_999)), Millis(200_000)), "another environment");
        assert!(!ran.still(None, Millis(200_000)), "nobody looked");
        let day = 24 * 60 * 60 * 1000;
        assert!(ran.still(Some(&seen("a", 98_999)), Millis(100_000 + day - 1)));
        assert!(!ran.still(Some(&seen("a", 98_999)), Millis(100_000 + day)), "too old");
        assert!(!ran.still(Some(&seen("a", 98_999)), Millis(99_999)), "from the future");
        // What is younger may have been changed while the base ran.
        for newest in [99_000, 99_999, 100_000, 500_000] {
            let ran = RanIn::seen_later(at, Some(&seen("a", newest)));
            assert!(!ran.still(Some(&seen("a", newest)), Millis(200_000)), "{newest}");
        }
        assert!(!RanIn::seen_later(at, None).still(None, Millis(200_000)));
    }
}
