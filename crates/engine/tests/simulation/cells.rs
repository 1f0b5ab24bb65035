//! Simulated cells: a workspace in memory, a guest that keeps the protocol, and commands of a language of their own.
//!
//! A command is some of these, one after the other with `;` between: `add FILE TEXT` appends a line, `wait MS`, `exit N`.
//! `judge` is the check: it passes where `answer` says `right`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use countersign_cell::{Cell, CellError, CellSpec, Cells};
use countersign_guest::protocol::{
    Fault, FaultKind, Imported, Located, PatchChange, Reply, Report, Request, Sealed, ToolCall, ToolReply,
};
use countersign_tree::{Delta, Entry, EntryMode, Manifest, TreePath};
use countersign_types::{
    Captured, Digest, JobEnd, JobId, JobReceipt, JobSpec, LimitHit, Millis, Observation, Tier,
};
use futures::future::{BoxFuture, FutureExt as _};

use super::story::BASE;
use super::time::lock;
use super::world::{Process, World};

#[derive(Debug)]
pub struct SimCells {
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

impl Cells for SimCells {
    fn tier(&self) -> Tier {
        Tier::Native
    }

    fn open(&self, spec: CellSpec) -> BoxFuture<'_, Result<Arc<dyn Cell>, CellError>> {
        async move {
            self.world.pause(20).await;
            self.world.use_a_cell()?;
            self.world.opened(&self.process);
            let cell = SimCell {
                world: Arc::clone(&self.world),
                process: Arc::clone(&self.process),
                network: spec.host_network,
                space: Mutex::default(),
                canceled: Mutex::default(),
                ended: AtomicBool::new(false),
            };
            Ok(Arc::new(cell) as Arc<dyn Cell>)
        }
        .boxed()
    }
}

#[derive(Debug, Default)]
struct Space {
    files: BTreeMap<TreePath, Vec<u8>>,
    /// What the host knows last.
    known: Manifest,
}

#[derive(Debug)]
struct SimCell {
    world: Arc<World>,
    process: Arc<Process>,
    network: bool,
    space: Mutex<Space>,
    canceled: Mutex<BTreeSet<String>>,
    ended: AtomicBool,
}

impl Drop for SimCell {
    fn drop(&mut self) {
        self.leave();
    }
}

impl SimCell {
    fn leave(&self) {
        if !self.ended.swap(true, Ordering::SeqCst) {
            self.world.left(&self.process);
        }
    }

    async fn command(&self, job: &JobSpec, text: &str, out: &mut String) -> JobEnd {
        let mut spent = 0;
        for part in text.split(';').map(str::trim) {
            let mut words = part.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("add"), Some(file), Some(line)) => {
                    self.world.pause(3).await;
                    let Ok(path) = TreePath::new(file) else { return JobEnd::Exited { code: 2 } };
                    let mut space = lock(&self.space);
                    let content = space.files.entry(path).or_default();
                    content.extend_from_slice(line.as_bytes());
                    content.push(b'\n');
                    out.push_str("added\n");
                }
                (Some("wait"), Some(ms), None) => {
                    let mut rest: u64 = ms.parse().unwrap_or(0);
                    while rest > 0 {
                        if lock(&self.canceled).contains(job.job.as_str()) {
                            return JobEnd::Canceled;
                        }
                        if spent >= job.limits.wall.0 {
                            return JobEnd::Limit { which: LimitHit::Timeout };
                        }
                        let next = rest.min(25);
                        self.world.time.wait(next).await;
                        (rest, spent) = (rest - next, spent + next);
                    }
                }
                (Some("exit"), Some(code), None) => {
                    return JobEnd::Exited { code: code.parse().unwrap_or(1) };
                }
                (Some("judge"), None, None) => {
                    self.world.pause(40).await;
                    let path = TreePath::new("answer").ok();
                    let right = path.is_some_and(|path| {
                        lock(&self.space).files.get(&path).is_some_and(|content| content == b"right\n")
                    });
                    return JobEnd::Exited { code: i32::from(!right) };
                }
                (Some("prepare" | "probe"), None, None) => self.world.pause(10).await,
                _ => return JobEnd::Exited { code: 127 },
            }
        }
        JobEnd::Exited { code: 0 }
    }

    fn answer(&self, request: Request, fds: Vec<OwnedFd>) -> std::io::Result<Reply> {
        let files: Vec<File> = fds.into_iter().map(File::from).collect();
        let mut space = lock(&self.space);
        Ok(match request {
            Request::ResolveGit { .. } => Reply::Resolved { commit: "c".repeat(40) },
            Request::ImportGit { write_workspace, .. } => {
                let base: BTreeMap<TreePath, Vec<u8>> = BASE
                    .iter()
                    .filter_map(|(path, text)| Some((TreePath::new(*path).ok()?, text.as_bytes().to_vec())))
                    .collect();
                let manifest = manifest_of(&base);
                let located = store(&files, base.values())?;
                if write_workspace {
                    space.files = base;
                    space.known = manifest.clone();
                }
                let entries = manifest.entries().to_vec();
                let commit = Some("c".repeat(40));
                Reply::Imported(Imported { commit, dirty: Vec::new(), entries, located, skipped: Vec::new() })
            }
            Request::Materialise { entries, located, clear } => {
                if clear {
                    space.files.clear();
                }
                for entry in &entries {
                    space.files.insert(entry.path.clone(), read(&files, &located, &entry.digest)?);
                }
                space.known = manifest_of(&space.files);
                Reply::Done
            }
            Request::Seal { .. } => {
                let now = manifest_of(&space.files);
                let changes = space.known.changes_to(&now);
                let put: Vec<Entry> = changes.iter().filter_map(|change| change.after.clone()).collect();
                let gone = changes.iter().filter(|change| change.after.is_none());
                let remove = gone.map(|change| change.path.clone()).collect();
                let located = store(&files, put.iter().filter_map(|entry| space.files.get(&entry.path)))?;
                space.known = now;
                Reply::Sealed(Sealed {
                    tree: space.known.digest(),
                    delta: Delta { put, remove },
                    located,
                    unsealable: Vec::new(),
                    normalised: Vec::new(),
                    touched: Vec::new(),
                    scratch: Vec::new(),
                })
            }
            Request::MakePatch { changes, .. } => {
                let text: String = changes.iter().map(shown).collect();
                let located = store(&files, [&text.into_bytes()])?;
                let patch = located.first();
                let digest = patch.map_or_else(|| Digest::of(b""), |patch| patch.digest);
                Reply::Patch { bytes: patch.map_or(0, |patch| patch.len), digest }
            }
            Request::Tool { call, .. } => Reply::Tool(tool(&mut space.files, call)),
            Request::ScanFence { .. } => Reply::Fence { findings: Vec::new() },
            Request::ReadCalled { .. } => Reply::Called { names: Vec::new() },
            Request::ReadProject { .. } => Reply::Project { marks: Vec::new() },
            Request::ScanHygiene { .. } => Reply::Hygiene { findings: Vec::new(), more: 0 },
            Request::ReadReport { .. } | Request::ReadOutput { .. } => Reply::Report(Report::default()),
            Request::ListSetupPaths { .. } => Reply::Paths { paths: Vec::new() },
            Request::HashPaths { .. } => Reply::Hashed { digest: Digest::of(b"none"), files: 0, bytes: 0 },
            Request::SeeEnvironment { .. } => Reply::Environment { seen: None },
            Request::Watch | Request::InitPrivateGit { .. } | Request::PlaceOverlay { .. } => Reply::Done,
            other => Reply::Error(Fault {
                kind: FaultKind::BadRequest,
                message: format!("no simulated guest does this: {other:?}"),
            }),
        })
    }
}

impl Cell for SimCell {
    fn observation(&self) -> BoxFuture<'_, Observation> {
        let properties = Tier::Native.demands();
        async move { Observation { properties, ..Observation::default() } }.boxed()
    }

    fn workspace(&self) -> PathBuf {
        PathBuf::from("/workspace")
    }

    fn home(&self) -> PathBuf {
        PathBuf::from("/home/agent")
    }

    fn run(&self, job: JobSpec) -> BoxFuture<'_, Result<JobReceipt, CellError>> {
        async move {
            self.world.pause(10).await;
            self.world.use_a_cell()?;
            let text = match job.argv.as_slice() {
                [shell, flag, text] if shell == "sh" && flag == "-c" => {
                    self.world.began(text, self.network);
                    text.clone()
                }
                argv => argv.join(" "),
            };
            let began = self.world.time.at();
            let mut out = String::new();
            let end = self.command(&job, &text, &mut out).await;
            self.world.pause(5).await;
            let total = out.len() as u64;
            Ok(JobReceipt {
                job: job.job,
                end,
                stdout: Captured { head: out.into_bytes(), total, ..Captured::default() },
                stderr: Captured::default(),
                wall: Millis(self.world.time.at() - began),
                killed: 0,
            })
        }
        .boxed()
    }

    fn cancel(&self, job: &JobId) {
        lock(&self.canceled).insert(job.as_str().to_owned());
    }

    fn guest(&self, request: Vec<u8>, fds: Vec<OwnedFd>) -> BoxFuture<'_, Result<Vec<u8>, CellError>> {
        async move {
            self.world.pause(4).await;
            self.world.use_a_cell()?;
            let request: Request =
                serde_json::from_slice(&request).map_err(|e| CellError::Protocol(e.to_string()))?;
            let reply = self.answer(request, fds);
            let reply =
                reply.map_err(|source| CellError::Io { what: "simulated guest".to_owned(), source })?;
            self.world.pause(4).await;
            serde_json::to_vec(&reply).map_err(|e| CellError::Protocol(e.to_string()))
        }
        .boxed()
    }

    fn end(&self, _delete: bool) -> BoxFuture<'_, Result<(), CellError>> {
        async move {
            self.world.pause(5).await;
            self.leave();
            Ok(())
        }
        .boxed()
    }
}

fn manifest_of(files: &BTreeMap<TreePath, Vec<u8>>) -> Manifest {
    let entry = |(path, content): (&TreePath, &Vec<u8>)| Entry {
        path: path.clone(),
        mode: EntryMode::File,
        size: content.len() as u64,
        digest: Digest::of(content),
    };
    Manifest::new(files.iter().map(entry).collect())
}

/// Writes distinct contents to the request's segment.
fn store<'a>(
    files: &[File],
    contents: impl IntoIterator<Item = &'a Vec<u8>>,
) -> std::io::Result<Vec<Located>> {
    let mut located: Vec<Located> = Vec::new();
    let segment = files.first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut offset = 0;
    for content in contents {
        let digest = Digest::of(content);
        if located.iter().any(|known| known.digest == digest) {
            continue;
        }
        segment.write_all_at(content, offset)?;
        let len = content.len() as u64;
        located.push(Located { digest, segment: 0, offset, len });
        offset += len;
    }
    Ok(located)
}

fn read(files: &[File], located: &[Located], digest: &Digest) -> std::io::Result<Vec<u8>> {
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let place = located.iter().find(|place| place.digest == *digest).ok_or_else(missing)?;
    let file = files.get(place.segment as usize).ok_or_else(missing)?;
    let mut content = vec![0; usize::try_from(place.len).unwrap_or(0)];
    file.read_exact_at(&mut content, place.offset)?;
    Ok(content)
}

fn shown(change: &PatchChange) -> String {
    let digest = |entry: &Option<Entry>| entry.as_ref().map_or_else(String::new, |e| e.digest.to_string());
    format!("{} {} {}\n", change.path, digest(&change.before), digest(&change.after))
}

fn tool(files: &mut BTreeMap<TreePath, Vec<u8>>, call: ToolCall) -> ToolReply {
    let said = |ok, text: String, wrote| ToolReply { ok, text, wrote, refused: false };
    match call {
        ToolCall::ReadFile { path, .. } => match TreePath::new(path).ok().and_then(|path| files.get(&path)) {
            Some(content) => said(true, String::from_utf8_lossy(content).into_owned(), false),
            None => said(false, "error: there is no such file".to_owned(), false),
        },
        ToolCall::WriteFile { path, content } => match TreePath::new(path) {
            Ok(path) => {
                files.insert(path, content.into_bytes());
                said(true, "written".to_owned(), true)
            }
            Err(error) => said(false, format!("error: {error}"), false),
        },
        _ => {
            let names: Vec<String> = files.keys().map(ToString::to_string).collect();
            said(true, names.join("\n"), false)
        }
    }
}
