//! Opening cells, talking to guests, and moving trees in and out of them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_cell::{Cell, CellError, CellSpec, Cells};
use countersign_gates::CellPaths;
use countersign_guest::protocol::{Fault, FaultKind, MAX_FDS, Reply, Request, Sealed};
use countersign_kernel::EffectFailure;
use countersign_kernel::contract::{Contract, Network};
use countersign_redact::Redactor;
use countersign_tree::{Durability, Entry, Manifest, NewSegment, ObjectStore, ScratchRules, StoreError};
use countersign_types::{
    CellId, Digest, JobId, JobLimits, JobReceipt, JobSpec, Millis, Mount, MountKind, Reason, RunAs, Tier,
};

use crate::ports::{Ports, Sources};
use crate::stop::Stop;

/// Where the user's repository and directories are mounted, for the cell's root only.
const GIT_DIR: &str = "/run/countersign/source/git";
const WORK_TREE: &str = "/run/countersign/source/tree";

/// Bytes kept of each output stream: enough for a reader and a model, bounded whatever a job prints.
const OUTPUT_HEAD: u64 = 16 * 1024;
const OUTPUT_TAIL: u64 = 32 * 1024;

/// Bytes kept of a standard output that is itself the runner's report.
pub(crate) const REPORT_HEAD: u64 = 8 << 20;

/// Why an effect has no result.
#[derive(Debug)]
pub(crate) enum Fail {
    Interrupted,
    Failed { failure: EffectFailure, message: String },
}

impl Fail {
    pub(crate) fn because(reason: Reason, message: impl Into<String>) -> Self {
        let failure = EffectFailure { reason, retry_after: None, reset_at: None, billed: false };
        Self::Failed { failure, message: message.into() }
    }
}

impl From<CellError> for Fail {
    fn from(error: CellError) -> Self {
        match error {
            CellError::Unavailable { tier, why, fix, .. } => Self::because(
                Reason::SandboxUnavailable,
                format!("the {tier} sandbox is not available: {why}. {fix}"),
            ),
            CellError::DiskFull(what) => Self::because(Reason::DiskFull, what),
            other => Self::because(Reason::CellDied, other.to_string()),
        }
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        let reason = if error.is_disk_full() {
            Reason::DiskFull
        } else if matches!(
            error,
            StoreError::NoTree(_) | StoreError::NoContent(_) | StoreError::Damaged { .. }
        ) {
            Reason::CheckpointLost
        } else {
            Reason::Store
        };
        Self::because(reason, error.to_string())
    }
}

pub(crate) fn fault(fault: Fault) -> Fail {
    let reason = match fault.kind {
        FaultKind::Repository => Reason::Repository,
        FaultKind::Candidate => Reason::Usage,
        FaultKind::Environment => Reason::Environment,
        FaultKind::DiskFull => Reason::DiskFull,
        FaultKind::PatchMismatch | FaultKind::BadRequest | FaultKind::Io => Reason::CellDied,
    };
    let message = match reason {
        // The system's words name an errno, and what was written.
        Reason::DiskFull => format!("the disk is full: {}", fault.message),
        _ => fault.message,
    };
    Fail::because(reason, message)
}

pub(crate) fn unexpected(what: &str) -> Fail {
    Fail::because(Reason::CellDied, format!("the guest gave another kind of answer to {what}"))
}

/// Opens a cell of a tier below the session's directory.
pub(crate) async fn open(
    ports: &Ports,
    cells: &Arc<dyn Cells>,
    contract: &Contract,
    mounts: Vec<Mount>,
    state_dir: Option<PathBuf>,
) -> Result<Arc<dyn Cell>, Fail> {
    let name = format!("c{}", hex(&ports.ids.bytes()[..6]));
    let id = CellId::new(name.clone()).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
    let spec = CellSpec {
        id,
        state_dir: state_dir.unwrap_or_else(|| ports.home.session.join("cells").join(&name)),
        mounts,
        host_network: contract.network == Network::Host && cells.tier() == contract.sandbox,
    };
    Ok(cells.open(spec).await?)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The cells that judge and read: native or stronger. Without a check the working tier may serve.
pub(crate) fn judging(ports: &Ports) -> &Arc<dyn Cells> {
    ports.cells.rooms.as_ref().unwrap_or(&ports.cells.working)
}

/// One request to a guest.
pub(crate) async fn ask(cell: &dyn Cell, request: &Request, fds: Vec<OwnedFd>) -> Result<Reply, Fail> {
    let bytes = serde_json::to_vec(request).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
    let reply = cell.guest(bytes, fds).await?;
    let reply: Reply = serde_json::from_slice(&reply)
        .map_err(|e| Fail::because(Reason::CellDied, format!("the guest's answer cannot be read: {e}")))?;
    match reply {
        Reply::Error(error) => Err(fault(error)),
        reply => Ok(reply),
    }
}

/// A duplicate of a segment's descriptor for the guest.
pub(crate) fn lend(segment: &NewSegment) -> Result<OwnedFd, Fail> {
    let file =
        segment.file.try_clone().map_err(|e| Fail::because(Reason::Store, format!("a segment: {e}")))?;
    Ok(OwnedFd::from(file))
}

/// Mounts of the contract's layers.
pub(crate) fn layer_mounts(contract: &Contract) -> Vec<Mount> {
    contract
        .environment
        .layers
        .iter()
        .map(|layer| Mount {
            kind: MountKind::ReadOnly,
            source: PathBuf::from(&layer.source),
            target: PathBuf::from(&layer.target),
        })
        .collect()
}

/// Mounts through which a cell's root reads the base.
pub(crate) fn source_mounts(ports: &Ports) -> Vec<Mount> {
    let mount = |source: &PathBuf, target: &str| Mount {
        kind: MountKind::RootOnly,
        source: source.clone(),
        target: PathBuf::from(target),
    };
    match &ports.sources {
        Sources::Git { git_dir, work_tree } => {
            let mut mounts = vec![mount(git_dir, GIT_DIR)];
            mounts.extend(work_tree.iter().map(|tree| mount(tree, WORK_TREE)));
            mounts
        }
        Sources::Directory(path) => vec![mount(path, WORK_TREE)],
    }
}

/// Where a cell of this tier sees the user's git directory. The host tier mounts nothing: there it is the path itself.
pub(crate) fn git_dir(ports: &Ports, tier: Tier) -> String {
    match (&ports.sources, tier) {
        (Sources::Git { git_dir, .. }, Tier::Host) => git_dir.to_string_lossy().into_owned(),
        _ => GIT_DIR.to_owned(),
    }
}

/// Where a cell of this tier sees the user's files.
pub(crate) fn work_tree(ports: &Ports, tier: Tier) -> String {
    match (&ports.sources, tier) {
        (Sources::Git { work_tree: Some(path), .. } | Sources::Directory(path), Tier::Host) => {
            path.to_string_lossy().into_owned()
        }
        _ => WORK_TREE.to_owned(),
    }
}

/// Paths as jobs of a cell see them.
pub(crate) fn paths(cell: &dyn Cell) -> CellPaths {
    CellPaths {
        workspace: cell.workspace().to_string_lossy().into_owned(),
        home: cell.home().to_string_lossy().into_owned(),
    }
}

/// Fills an empty workspace with a tree.
pub(crate) async fn materialise(cell: &dyn Cell, objects: &ObjectStore, tree: &Manifest) -> Result<(), Fail> {
    let digests: Vec<Digest> = tree.entries().iter().map(|e| e.digest).collect();
    let batches = objects.locate(&digests, MAX_FDS)?;
    let mut clear = true;
    if batches.is_empty() {
        let request = Request::Materialise { entries: Vec::new(), located: Vec::new(), clear };
        ask(cell, &request, Vec::new()).await?;
    }
    for batch in batches {
        let held: std::collections::HashSet<Digest> = batch.located.iter().map(|l| l.digest).collect();
        let entries: Vec<Entry> =
            tree.entries().iter().filter(|e| held.contains(&e.digest)).cloned().collect();
        let fds = batch.files.into_iter().map(OwnedFd::from).collect();
        let request = Request::Materialise { entries, located: batch.located, clear };
        ask(cell, &request, fds).await?;
        clear = false;
    }
    Ok(())
}

/// Walks a cell's workspace and takes its contents into the store. `before` is what the guest knows last.
pub(crate) async fn seal(
    cell: &dyn Cell,
    objects: &ObjectStore,
    before: &Manifest,
    scratch: &ScratchRules,
    verdict: bool,
) -> Result<(Sealed, Manifest), Fail> {
    let segment = objects.new_segment()?;
    let fd = lend(&segment)?;
    let request = Request::Seal { verdict, live: false, scratch: scratch.clone() };
    let Reply::Sealed(sealed) = ask(cell, &request, vec![fd]).await? else {
        return Err(unexpected("a seal"));
    };
    objects.adopt(segment, &sealed.located, Durability::Sync)?;
    if sealed.delta.is_empty() {
        return Ok((sealed, before.clone()));
    }
    let manifest = before.with(&sealed.delta);
    // The digest that is judged and delivered is the host's own.
    if manifest.digest() != sealed.tree {
        return Err(Fail::because(
            Reason::CellDied,
            "the guest's digest of the tree is not the digest of its entries",
        ));
    }
    objects.put_manifest(&manifest, Durability::Sync)?;
    Ok((sealed, manifest))
}

/// Bytes that a job may hold in memory and processes that it may have, where the host gives us a cgroup: enough for any
/// build that people run, too little to take the machine down.
const MEMORY: u64 = 8 << 30;
const PROCESSES: u32 = 4096;

/// A job's limits from its wall time.
pub(crate) const fn limits(wall: Millis) -> JobLimits {
    JobLimits {
        wall,
        output_head: OUTPUT_HEAD,
        output_tail: OUTPUT_TAIL,
        output_total: None,
        memory: Some(MEMORY),
        processes: Some(PROCESSES),
    }
}

/// Runs a job to its receipt; on a stop its processes are dead before this returns.
pub(crate) async fn run_job(cell: &dyn Cell, job: JobSpec, stop: &Stop) -> Result<JobReceipt, Fail> {
    if stop.is_set() {
        return Err(Fail::Interrupted);
    }
    let id = job.job.clone();
    let mut running = cell.run(job);
    match stop.or(&mut running).await {
        Some(receipt) => Ok(receipt?),
        None => {
            cell.cancel(&id);
            // Bounded by the cell: a canceled job is killed, and a cell that cannot do that dies.
            let _ = running.await;
            Err(Fail::Interrupted)
        }
    }
}

/// A job that runs as the cell's user.
pub(crate) fn job(
    ports: &Ports,
    argv: Vec<String>,
    cwd: String,
    env: std::collections::BTreeMap<String, String>,
    wall: Millis,
) -> Result<JobSpec, Fail> {
    let name = format!("j{}", hex(&ports.ids.bytes()[..6]));
    let job = JobId::new(name).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
    Ok(JobSpec { job, argv, cwd, env, run_as: RunAs::User, limits: limits(wall), stdin: Vec::new() })
}

/// Output is redacted once, before anybody reads it. Where the middle of a stream was left out, a value could have been
/// cut in two: what may be a piece of one goes too.
pub(crate) fn redacted(redactor: &Redactor, mut receipt: JobReceipt) -> JobReceipt {
    for stream in [&mut receipt.stdout, &mut receipt.stderr] {
        stream.head = redactor.redact(&stream.head).into_owned();
        stream.tail = redactor.redact(&stream.tail).into_owned();
        if stream.omitted > 0 {
            let head = stream.head.len().min(redactor.reach());
            stream.head.truncate(stream.head.len() - head);
            let tail = stream.tail.len().min(redactor.reach());
            stream.tail.drain(..tail);
            stream.omitted = stream.omitted.saturating_add((head + tail) as u64);
        }
    }
    receipt
}

/// A receipt with no more of each stream than any job's has.
pub(crate) fn shortened(mut receipt: JobReceipt) -> JobReceipt {
    let bytes = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    let (head, tail) = (bytes(OUTPUT_HEAD), bytes(OUTPUT_TAIL));
    for stream in [&mut receipt.stdout, &mut receipt.stderr] {
        if stream.head.len() <= head {
            continue;
        }
        let rest = stream.head.split_off(head);
        if stream.omitted > 0 {
            // The tail does not follow on what is cut off here.
            stream.omitted = stream.omitted.saturating_add(rest.len() as u64);
            continue;
        }
        stream.tail = [rest, std::mem::take(&mut stream.tail)].concat();
        let cut = stream.tail.len().saturating_sub(tail);
        stream.tail.drain(..cut);
        stream.omitted = cut as u64;
    }
    receipt
}

/// What is kept of a stream, with the gap said.
pub(crate) fn kept(captured: &countersign_types::Captured) -> Vec<u8> {
    let mut out = captured.head.clone();
    if captured.omitted > 0 {
        out.extend_from_slice(format!("\n[… {} bytes left out …]\n", captured.omitted).as_bytes());
    }
    out.extend_from_slice(&captured.tail);
    out
}

#[cfg(test)]
mod tests {
    use countersign_types::{Captured, JobEnd};

    use super::*;

    #[test]
    fn a_long_output_is_cut_to_its_head_and_its_end() {
        let all: Vec<u8> = (0..200_000_u32).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
        for len in [0, 100, 16 * 1024, 16 * 1024 + 1, 48 * 1024, 48 * 1024 + 1, 200_000] {
            let receipt = JobReceipt {
                job: JobId::new("j1").unwrap(),
                end: JobEnd::Exited { code: 0 },
                stdout: Captured { head: all[..len].to_vec(), total: len as u64, ..Captured::default() },
                stderr: Captured::default(),
                wall: Millis(1),
                killed: 0,
            };
            let stdout = shortened(receipt).stdout;
            assert_eq!(stdout.head.len() as u64 + stdout.omitted + stdout.tail.len() as u64, stdout.total);
            assert!(all.starts_with(&stdout.head) && all[..len].ends_with(&stdout.tail), "{len}");
            assert!(stdout.head.len() <= 16 * 1024 && stdout.tail.len() <= 32 * 1024, "{len}");
            assert_eq!(stdout.omitted == 0, len <= 48 * 1024, "{len}");
        }
    }

    #[test]
    fn no_piece_of_a_value_stays_at_a_cut() {
        let key = b"sk-abcdefghijklmnopqrstuvwxyz0123456789";
        let redactor = Redactor::new([key.to_vec()]);
        for cut in 0..=key.len() {
            let stream = |from: &[u8], to: &[u8]| Captured {
                head: [b"first line ".repeat(40).as_slice(), from].concat(),
                tail: [to, b" last line".repeat(40).as_slice()].concat(),
                omitted: 1000,
                total: 4000,
            };
            let receipt = JobReceipt {
                job: JobId::new("j1").unwrap(),
                end: JobEnd::Exited { code: 0 },
                stdout: stream(&key[..cut], &key[cut..]),
                stderr: Captured { head: key.to_vec(), total: key.len() as u64, ..Captured::default() },
                wall: Millis(1),
                killed: 0,
            };
            let receipt = redacted(&redactor, receipt);
            let text = format!(
                "{}{}",
                String::from_utf8_lossy(&receipt.stdout.head),
                String::from_utf8_lossy(&receipt.stdout.tail)
            );
            assert!(!text.contains("sk-") && !text.contains("789"), "{cut}: {text}");
            assert!(text.starts_with("first line") && text.ends_with("last line"));
            assert_eq!(receipt.stderr.head, b"[redacted]");
        }
    }
}
