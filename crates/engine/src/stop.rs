//! The switch that interrupts what is under way. It has two positions: at a **deadline** commands end and the rest goes on
//! to its own end, because the tree is judged next; at a **halt** (cancel, drain) nothing is waited for and every cell that
//! is in the middle of something is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::channel::oneshot;
use futures::future::{Either, FutureExt, Shared, select};

/// One position: set once, heard by everybody.
#[derive(Clone)]
struct Signal {
    set: Arc<AtomicBool>,
    heard: Shared<oneshot::Receiver<()>>,
}

struct Sender {
    set: Arc<AtomicBool>,
    tell: Option<oneshot::Sender<()>>,
}

/// What watches the switch.
#[derive(Clone)]
pub(crate) struct Stop {
    stop: Signal,
    halt: Signal,
}

/// The side that sets it.
pub(crate) struct Stopper {
    stop: Sender,
    halt: Sender,
}

fn signal() -> (Sender, Signal) {
    let (tell, heard) = oneshot::channel();
    let set = Arc::new(AtomicBool::new(false));
    (Sender { set: Arc::clone(&set), tell: Some(tell) }, Signal { set, heard: heard.shared() })
}

pub(crate) fn stop() -> (Stopper, Stop) {
    let ((stop, stop_heard), (halt, halt_heard)) = (signal(), signal());
    (Stopper { stop, halt }, Stop { stop: stop_heard, halt: halt_heard })
}

impl Sender {
    fn send(&mut self) {
        self.set.store(true, Ordering::SeqCst);
        if let Some(tell) = self.tell.take() {
            // The other side may be gone already; then there is nothing to stop.
            let _ = tell.send(());
        }
    }
}

impl Stopper {
    /// The deadline: commands end, the rest goes on.
    pub(crate) fn stop(&mut self) {
        self.stop.send();
    }

    /// Cancel or drain: nothing is waited for.
    pub(crate) fn halt(&mut self) {
        self.stop.send();
        self.halt.send();
    }
}

impl Signal {
    fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    /// Resolves when it is set; never when its other side is dropped unset.
    async fn wait(&self) {
        if self.heard.clone().await.is_err() && !self.is_set() {
            std::future::pending::<()>().await;
        }
    }

    /// The future's result, or None when the signal came first; the future is dropped then.
    async fn or<F: Future>(&self, future: F) -> Option<F::Output> {
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

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.stop.is_set()
    }

    /// For what ends at a deadline and at a halt.
    pub(crate) async fn or<F: Future>(&self, future: F) -> Option<F::Output> {
        self.stop.or(future).await
    }

    /// For everything: ends at a halt only.
    pub(crate) async fn unless_halted<F: Future>(&self, future: F) -> Option<F::Output> {
        self.halt.or(future).await
    }
}
