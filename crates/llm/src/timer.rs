use std::fmt::Debug;

use countersign_types::Millis;
use futures::future::BoxFuture;

/// Time, from outside: providers wait and read the clock only through this.
pub trait Timer: Send + Sync + Debug {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Millis;

    /// Ends after `wait`.
    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()>;
}
