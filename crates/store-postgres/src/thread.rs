use std::fmt;
use std::future::Future;
use std::io;
use std::thread::JoinHandle;

use countersign_store::StoreError;
use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::mpsc;

type Job = BoxFuture<'static, ()>;

/// A thread with the client's runtime, so that callers may use any executor or none, and what was handed over goes on
/// when its caller stops waiting. Dropping it waits for all that was handed over.
pub(crate) struct Thread {
    /// None only while it is being dropped.
    jobs: Option<mpsc::UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    pub(crate) fn spawn(name: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                // Each job holds a sender; when all are gone, so are the jobs.
                let (running, mut finished) = mpsc::channel::<()>(1);
                while let Some(job) = queue.recv().await {
                    let running = running.clone();
                    tokio::spawn(async move {
                        job.await;
                        drop(running);
                    });
                }
                drop(running);
                let _ = finished.recv().await;
            });
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Hands the work over at once, whether or not the future is polled.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (answer, result) = oneshot::channel();
        self.start(async move {
            // Nobody may be waiting any more; what was done stays done.
            let _ = answer.send(work.await);
        });
        async move { result.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }

    pub(crate) fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        // When the thread is gone the work is dropped with its answer, and whoever waits is told.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(work.boxed()));
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thread")
    }
}

/// Work that would hold up every other caller of the thread: hashing and files.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}
