use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use countersign_types::Millis;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Time, from outside: providers wait and read the clock only through this.
pub trait Timer: Send + Sync + Debug {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Millis;

    /// Ends after `wait`.
    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()>;
}

/// The machine's clock and tokio's timer. Sleeps need a tokio runtime with its time driver on.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTimer;

impl Timer for SystemTimer {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()> {
        tokio::time::sleep(wait.duration()).boxed()
    }
}
