//! Signals. SIGINT cancels, a second SIGINT does not wait any longer; SIGTERM and SIGHUP park.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_engine::{Interrupt, Interrupts};
use countersign_kernel::StopHow;
use futures::future::BoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// How far the command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is recorded and no agent runs: a signal ends the process.
    SetUp,
    /// The engine drives: a signal is its to answer.
    Running,
    /// The result is being printed: too late.
    Over,
}

/// Called for a signal during set-up; it prints the result and gives the exit code.
type Early = Box<dyn Fn() -> u8 + Send + Sync>;

/// Where the engine hears of signals.
pub(crate) struct Signals {
    phase: Mutex<Phase>,
    early: Early,
    tell: UnboundedSender<Interrupt>,
    heard: tokio::sync::Mutex<UnboundedReceiver<Interrupt>>,
    insisted: watch::Sender<bool>,
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signals")
    }
}

impl Signals {
    /// Listens from now on. Needs a runtime whose worker threads are not the one that does the set-up.
    pub(crate) fn listen(early: impl Fn() -> u8 + Send + Sync + 'static) -> std::io::Result<Arc<Self>> {
        let (tell, heard) = unbounded_channel();
        let signals = Arc::new(Self {
            phase: Mutex::new(Phase::SetUp),
            early: Box::new(early),
            tell,
            heard: tokio::sync::Mutex::new(heard),
            insisted: watch::Sender::new(false),
        });
        let int = signal(SignalKind::interrupt())?;
        let term = signal(SignalKind::terminate())?;
        let hup = signal(SignalKind::hangup())?;
        tokio::spawn(Arc::clone(&signals).watch(int, term, hup));
        Ok(signals)
    }

    async fn watch(self: Arc<Self>, mut int: Signal, mut term: Signal, mut hup: Signal) {
        let mut canceled = false;
        loop {
            let interrupt = tokio::select! {
                _ = int.recv() => Interrupt::Cancel(StopHow::Signal),
                _ = term.recv() => Interrupt::Drain,
                _ = hup.recv() => Interrupt::Drain,
            };
            let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            match *phase {
                // The lock is held: the command cannot begin to run in the meantime.
                Phase::SetUp => std::process::exit(i32::from((self.early)())),
                Phase::Running => {}
                Phase::Over => continue,
            }
            drop(phase);
            if matches!(interrupt, Interrupt::Cancel(_)) {
                if canceled {
                    self.insisted.send_replace(true);
                }
                canceled = true;
            }
            // Nobody listens any more once the engine is done.
            let _ = self.tell.send(interrupt);
        }
    }

    /// From here on signals are the engine's.
    pub(crate) fn begin(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Running;
    }

    /// From here on signals change nothing.
    pub(crate) fn end(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Over;
    }

    /// Resolves when a person asked a second time to stop.
    pub(crate) async fn insisted(&self) {
        let mut insisted = self.insisted.subscribe();
        if insisted.wait_for(|yes| *yes).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Interrupts for Signals {
    fn next(&self) -> BoxFuture<'_, Interrupt> {
        Box::pin(async move {
            match self.heard.lock().await.recv().await {
                Some(interrupt) => interrupt,
                None => std::future::pending().await,
            }
        })
    }
}
