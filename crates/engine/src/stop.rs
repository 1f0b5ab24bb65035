//! One switch that interrupts what is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::channel::oneshot;
use futures::future::{Either, FutureExt, Shared, select};

/// Set once; everything that watches it stops at its next safe point.
#[derive(Clone)]
pub(crate) struct Stop {
    set: Arc<AtomicBool>,
    heard: Shared<oneshot::Receiver<()>>,
}

/// The side that sets it.
pub(crate) struct Stopper {
    set: Arc<AtomicBool>,
    tell: Option<oneshot::Sender<()>>,
}

pub(crate) fn stop() -> (Stopper, Stop) {
    let (tell, heard) = oneshot::channel();
    let set = Arc::new(AtomicBool::new(false));
    (Stopper { set: Arc::clone(&set), tell: Some(tell) }, Stop { set, heard: heard.shared() })
}

impl Stopper {
    pub(crate) fn stop(&mut self) {
        self.set.store(true, Ordering::SeqCst);
        if let Some(tell) = self.tell.take() {
            // The other side may be gone already; then there is nothing to stop.
            let _ = tell.send(());
        }
    }
}

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    /// Resolves when the switch is set; never when its other side is dropped unset.
    pub(crate) async fn wait(&self) {
        if self.heard.clone().await.is_err() && !self.is_set() {
            std::future::pending::<()>().await;
        }
    }

    /// The future's result, or None when the switch was set first; the future is dropped then.
    pub(crate) async fn or<F: Future>(&self, future: F) -> Option<F::Output> {
        if self.is_set() {
            return None;
        }
        let stopped = std::pin::pin!(self.wait());
        let future = std::pin::pin!(future);
        match select(future, stopped).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(((), _)) => None,
        }
    }
}
