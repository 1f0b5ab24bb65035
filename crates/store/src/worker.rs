use std::fmt;
use std::sync::mpsc;
use std::thread::JoinHandle;

use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt as _};

use crate::StoreError;

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A thread that owns `S` and does jobs one after the other, so that blocking calls never stand in an executor's way.
pub(crate) struct Worker<S> {
    /// None only while it is being dropped.
    jobs: Option<mpsc::Sender<Job<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Send + 'static> Worker<S> {
    pub(crate) fn spawn(name: &str, mut state: S) -> Result<Self, std::io::Error> {
        let (jobs, queue) = mpsc::channel::<Job<S>>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for job in queue {
                job(&mut state);
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Hands the job over at once, whether or not the future is polled.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (answer, result) = oneshot::channel();
        let job: Job<S> = Box::new(move |state| {
            // Nobody may be waiting any more; what was done stays done.
            let _ = answer.send(job(state));
        });
        // When the thread is gone the job is dropped with its `answer`, and the receiver below says so.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
        async move { result.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }
}

impl<S> Drop for Worker<S> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Err means that a job panicked; its caller has seen `Closed`.
            let _ = thread.join();
        }
    }
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}
