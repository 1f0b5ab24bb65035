//! A cell behind a launcher process: both tiers of this crate are one, they differ in what they ask of it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_types::{
    ByteSize, CELL_PROTOCOL, CellLaunch, CellRequest, CellResponse, JobId, JobReceipt, JobSpec, MAX_FRAME,
    Observation, Tier,
};
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::guest::{self, Guest};
use crate::{Binaries, Cell, CellError, CellSpec};

/// Bytes that `/tmp` and `/dev/shm` of a cell hold, each.
const TMP_LIMIT: ByteSize = ByteSize::mib(2048);
/// How long a launcher may take to say that a cell stands.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a launcher may take to exit after its last word, before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(10);

/// What waits for an answer of the launcher.
#[derive(Debug, Default)]
struct Waiting {
    /// None: its caller went away. It stays until its receipt comes, so that no later job gets that receipt.
    jobs: HashMap<JobId, Option<oneshot::Sender<JobReceipt>>>,
    end: Option<oneshot::Sender<Result<u32, CellError>>>,
    /// Why the launcher's socket ended; nothing is answered after that.
    over: Option<String>,
}

/// What the canary saw so far.
#[derive(Clone, Debug)]
struct Observed {
    observation: Observation,
    /// Nothing will be added any more.
    whole: bool,
}

#[derive(Debug)]
pub(crate) struct Supervised {
    observed: watch::Receiver<Observed>,
    workspace: PathBuf,
    home: PathBuf,
    state_dir: PathBuf,
    requests: mpsc::UnboundedSender<CellRequest>,
    waiting: Arc<Mutex<Waiting>>,
    /// Told whenever a job is over.
    finished: Arc<Notify>,
    guest: Guest,
}

/// Starts a launcher, has it make the cell, and returns when the canary has looked.
pub(crate) async fn open(
    tier: Tier,
    binaries: &Binaries,
    spec: CellSpec,
) -> Result<Arc<dyn Cell>, CellError> {
    let io = |what: &'static str| move |source| CellError::Io { what: what.to_owned(), source };
    // The cell's own uid owns what lies in it; the directory itself is ours and nobody else's.
    tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(&spec.state_dir).await.map_err(
        |source| match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                CellError::DiskFull(format!("making {}: {source}", spec.state_dir.display()))
            }
            _ => CellError::Io { what: format!("making {}", spec.state_dir.display()), source },
        },
    )?;
    let (ours, theirs) = StdStream::pair().map_err(io("making the control socket"))?;
    let (channel, guest_end) = StdStream::pair().map_err(io("making the guest channel"))?;
    for socket in [&ours, &channel] {
        socket.set_nonblocking(true).map_err(io("preparing a socket"))?;
    }
    let mut control = UnixStream::from_std(ours).map_err(io("watching the control socket"))?;
    let channel = UnixStream::from_std(channel).map_err(io("watching the guest channel"))?;
    // A process group of its own: Ctrl-C at the terminal is the controller's business. Nothing is inherited.
    let child = Command::new(&binaries.jail)
        .args(["--tier", tier.as_str()])
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            unavailable(tier, format!("{} cannot be started: {error}", binaries.jail.display()))
        })?;
    let paths = match tier {
        Tier::Host => (spec.state_dir.join("workspace"), spec.state_dir.join("home")),
        _ => (PathBuf::from("/workspace"), PathBuf::from("/home/agent")),
    };
    let state_dir = spec.state_dir.clone();
    let launch = CellLaunch {
        protocol: CELL_PROTOCOL,
        cell: spec.id,
        state_dir: spec.state_dir,
        mounts: spec.mounts,
        host_network: spec.host_network,
        guest: binaries.guest.clone(),
        tmp_limit: TMP_LIMIT.as_u64(),
    };
    let body = serde_json::to_vec(&launch).map_err(|error| CellError::Protocol(error.to_string()))?;
    let handshake = async {
        guest::send_frame(&mut control, &body, &[OwnedFd::from(guest_end)])
            .await
            .map_err(io("talking to the launcher"))?;
        read_response(&mut control).await
    };
    let answer = tokio::time::timeout(LAUNCH_TIMEOUT, handshake).await;
    let answer = answer.unwrap_or_else(|_| {
        Err(CellError::Died(format!("its launcher said nothing for {LAUNCH_TIMEOUT:?}")))
    });
    let observation = match answer {
        Ok(Some(CellResponse::Ready { observation })) => observation,
        other => {
            drop(control);
            see_off(child);
            return Err(match other {
                Ok(Some(CellResponse::Unavailable { why, .. })) if disk_is_full(&why) => {
                    CellError::DiskFull(why)
                }
                Ok(Some(CellResponse::Unavailable { why, fix, missing })) => {
                    CellError::Unavailable { tier, why, fix, missing }
                }
                Ok(Some(other)) => {
                    CellError::Protocol(format!("an unexpected first answer: {}", kind(&other)))
                }
                Ok(None) => CellError::Died("its launcher ended before the cell stood".to_owned()),
                Err(error) => error,
            });
        }
    };
    let (read, write) = control.into_split();
    let (requests, queue) = mpsc::unbounded_channel();
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    tokio::spawn(write_requests(write, queue));
    let finished = Arc::new(Notify::new());
    let (last_words, heard) = watch::channel(None);
    let (observing, observed) = watch::channel(Observed { observation, whole: false });
    let told = Told { waiting: Arc::clone(&waiting), finished: Arc::clone(&finished), last_words, observing };
    tokio::spawn(read_responses(read, child, told));
    let (workspace, home) = paths;
    Ok(Arc::new(Supervised {
        observed,
        workspace,
        home,
        state_dir,
        requests,
        waiting,
        finished,
        guest: Guest::start(channel, heard),
    }))
}

fn unavailable(tier: Tier, why: String) -> CellError {
    let fix = "build and install all three programs together: cargo xtask setup".to_owned();
    CellError::Unavailable { tier, why, fix, missing: tier.demands() }
}

/// The launcher's messages end with the system's own words for the error.
fn disk_is_full(why: &str) -> bool {
    why.contains("No space left on device") || why.contains("Disk quota exceeded")
}

fn kind(response: &CellResponse) -> &'static str {
    match response {
        CellResponse::Ready { .. } => "ready",
        CellResponse::Limits { .. } => "limits",
        CellResponse::Unavailable { .. } => "unavailable",
        CellResponse::Finished { .. } => "finished",
        CellResponse::GuestDied { .. } => "guest_died",
        CellResponse::Ended { .. } => "ended",
        CellResponse::Failed { .. } => "failed",
    }
}

/// None at the end of the socket.
async fn read_response(socket: &mut (impl AsyncReadExt + Unpin)) -> Result<Option<CellResponse>, CellError> {
    let io = |source| CellError::Io { what: "reading from the launcher".to_owned(), source };
    let length = match socket.read_u32().await {
        Ok(length) => length as usize,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(io(error)),
    };
    if length > MAX_FRAME {
        return Err(CellError::Protocol(format!("an answer of {length} bytes; the bound is {MAX_FRAME}")));
    }
    let mut body = vec![0_u8; length];
    socket.read_exact(&mut body).await.map_err(io)?;
    serde_json::from_slice(&body).map(Some).map_err(|error| CellError::Protocol(error.to_string()))
}

/// Ends when the last handle of the cell is dropped; closing the socket then makes the launcher kill everything.
async fn write_requests(mut socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<CellRequest>) {
    while let Some(request) = queue.recv().await {
        let Ok(body) = serde_json::to_vec(&request) else { continue };
        let Ok(length) = u32::try_from(body.len()) else { continue };
        let frame = [length.to_be_bytes().as_slice(), &body].concat();
        if socket.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// Who hears what the launcher says.
struct Told {
    waiting: Arc<Mutex<Waiting>>,
    finished: Arc<Notify>,
    last_words: watch::Sender<Option<String>>,
    observing: watch::Sender<Observed>,
}

async fn read_responses(mut socket: OwnedReadHalf, child: Child, told: Told) {
    let Told { waiting, finished, last_words, observing } = told;
    let mut why = "its launcher ended".to_owned();
    loop {
        match read_response(&mut socket).await {
            Ok(Some(CellResponse::Finished { receipt })) => {
                if let Some(Some(waiter)) = lock(&waiting).jobs.remove(&receipt.job) {
                    // Its caller may go away at this very moment.
                    drop(waiter.send(receipt));
                }
                finished.notify_waiters();
            }
            Ok(Some(CellResponse::Limits { observation })) => {
                observing.send_replace(Observed { observation, whole: true });
            }
            Ok(Some(CellResponse::GuestDied { what })) => {
                last_words.send_replace(Some(what));
            }
            Ok(Some(CellResponse::Ended { survivors })) => {
                "it was ended".clone_into(&mut why);
                if let Some(waiter) = lock(&waiting).end.take() {
                    drop(waiter.send(Ok(survivors)));
                }
            }
            Ok(Some(CellResponse::Failed { what })) => {
                tracing::warn!(what, "the launcher failed");
                if let Some(waiter) = lock(&waiting).end.take() {
                    let full = disk_is_full(&what);
                    let error =
                        if full { CellError::DiskFull(what.clone()) } else { CellError::Died(what.clone()) };
                    drop(waiter.send(Err(error)));
                }
                why = what;
            }
            Ok(Some(other)) => {
                why = format!("an unexpected answer: {}", kind(&other));
                break;
            }
            Ok(None) => break,
            Err(error) => {
                why = error.to_string();
                break;
            }
        }
    }
    {
        let mut waiting = lock(&waiting);
        waiting.jobs.clear();
        waiting.end = None;
        waiting.over = Some(why);
    }
    finished.notify_waiters();
    drop(socket);
    see_off(child);
}

/// Waits for a launcher that has nothing more to say, and kills it if it does not go.
fn see_off(mut child: Child) {
    tokio::spawn(async move {
        if tokio::time::timeout(EXIT_GRACE, child.wait()).await.is_err() {
            // Its death kills the cell too.
            drop(child.kill().await);
        }
    });
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // A panic elsewhere leaves the maps whole: every change is one insert, remove or clear.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Supervised {
    fn died(&self) -> CellError {
        CellError::Died(lock(&self.waiting).over.clone().unwrap_or_else(|| "its launcher is gone".to_owned()))
    }

    async fn run_job(&self, spec: JobSpec) -> Result<JobReceipt, CellError> {
        let job = spec.job.clone();
        let (sender, receipt) = oneshot::channel();
        self.register(&job, sender).await?;
        let mut cancel = CancelOnDrop { requests: &self.requests, waiting: &self.waiting, job: Some(job) };
        self.requests.send(CellRequest::Run(spec)).map_err(|_| self.died())?;
        let received = receipt.await;
        cancel.job = None;
        received.map_err(|_| self.died())
    }

    /// Waits for an abandoned job of the same id to be over.
    async fn register(&self, job: &JobId, sender: oneshot::Sender<JobReceipt>) -> Result<(), CellError> {
        loop {
            // Made before looking, so that a receipt between looking and waiting is not missed.
            let changed = self.finished.notified();
            {
                let mut waiting = lock(&self.waiting);
                if let Some(why) = &waiting.over {
                    return Err(CellError::Died(why.clone()));
                }
                match waiting.jobs.get(job) {
                    Some(Some(_)) => return Err(CellError::Protocol(format!("job {job} runs already"))),
                    Some(None) => {}
                    None => {
                        waiting.jobs.insert(job.clone(), Some(sender));
                        return Ok(());
                    }
                }
            }
            changed.await;
        }
    }

    async fn end_cell(&self, delete: bool) -> Result<(), CellError> {
        let (sender, ended) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(why) = &waiting.over {
                return Err(CellError::Died(why.clone()));
            }
            if waiting.end.is_some() {
                return Err(CellError::Protocol("the cell is being ended already".to_owned()));
            }
            waiting.end = Some(sender);
        }
        self.requests.send(CellRequest::End { delete }).map_err(|_| self.died())?;
        let survivors = ended.await.map_err(|_| self.died())??;
        if delete {
            // Emptied by the launcher; what is left are directories without content.
            for name in ["workspace", "home", ""] {
                drop(tokio::fs::remove_dir(self.state_dir.join(name)).await);
            }
        }
        match survivors {
            0 => Ok(()),
            survivors => {
                Err(CellError::Died(format!("{survivors} of its processes could not be shown to be dead")))
            }
        }
    }
}

struct CancelOnDrop<'a> {
    requests: &'a mpsc::UnboundedSender<CellRequest>,
    waiting: &'a Mutex<Waiting>,
    job: Option<JobId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            // Absent when the receipt has come meanwhile.
            if let Some(waiter) = lock(self.waiting).jobs.get_mut(&job) {
                *waiter = None;
            }
            drop(self.requests.send(CellRequest::Cancel { job }));
        }
    }
}

impl Cell for Supervised {
    fn observation(&self) -> BoxFuture<'_, Observation> {
        let mut observed = self.observed.clone();
        Box::pin(async move {
            // Err: the launcher is gone, and what was seen until then is what there is.
            let _ = observed.wait_for(|observed| observed.whole).await;
            observed.borrow().observation.clone()
        })
    }
    fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }
    fn home(&self) -> PathBuf {
        self.home.clone()
    }
    fn run(&self, job: JobSpec) -> BoxFuture<'_, Result<JobReceipt, CellError>> {
        Box::pin(self.run_job(job))
    }
    fn cancel(&self, job: &JobId) {
        // When the launcher is gone, so is the job.
        drop(self.requests.send(CellRequest::Cancel { job: job.clone() }));
    }
    fn guest(&self, request: Vec<u8>, fds: Vec<OwnedFd>) -> BoxFuture<'_, Result<Vec<u8>, CellError>> {
        Box::pin(self.guest.ask(request, fds))
    }
    fn end(&self, delete: bool) -> BoxFuture<'_, Result<(), CellError>> {
        Box::pin(self.end_cell(delete))
    }
}

/// For `report`: a directory name that does not exist yet.
pub(crate) fn scratch_dir(base: &Path) -> PathBuf {
    base.join(format!("countersign-doctor-{}", std::process::id()))
}
