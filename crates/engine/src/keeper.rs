//! Keeps a lease that ends by the store's clock for as long as its driver works.

use std::future::pending;
use std::sync::Arc;

use countersign_store::{Lease, StoreError};
use countersign_types::Millis;

use crate::ports::Clock;

/// Renews at a third of the term, so that two failures are survived. Comes back only when somebody else has the lease:
/// whatever its driver does from then on, nobody believes it.
pub(crate) async fn keep(clock: Arc<dyn Clock>, lease: Arc<Lease>) {
    let Some(term) = lease.term() else { return pending().await };
    let third = u64::try_from(term.as_millis() / 3).unwrap_or(u64::MAX).max(1);
    loop {
        clock.sleep(Millis(third)).await;
        // A store that cannot be reached now may be again before the term is over; an append says what stands.
        if let Err(StoreError::Fenced { .. }) = lease.renew().await {
            return;
        }
    }
}
