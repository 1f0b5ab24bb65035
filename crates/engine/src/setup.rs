//! Before the agent: the base, the operator's setup and the probe.

use std::path::PathBuf;

use countersign_cell::Cell;
use countersign_gates::CheckPlan;
use countersign_guest::protocol::{Reply, Request};
use countersign_kernel::contract::Source;
use countersign_kernel::{EffectResult, JobSummary, Turn};
use countersign_tree::{Durability, Manifest};
use countersign_types::{Digest, JobEnd, JobReceipt, Millis, Mount, MountKind, Reason, canonical_json};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cells::{self, Fail};
use crate::perform::{Named, Outcome, summary_of};
use crate::ports::Sources;
use crate::stop::Stop;
use crate::workshop::Workshop;

/// A setup may take as long as a check, and at least this.
pub(crate) const SETUP_WALL: Millis = Millis::from_secs(600);

/// A commit that was imported before.
#[derive(Serialize, Deserialize)]
struct CachedImport {
    tree: Digest,
    skipped: Vec<String>,
}

struct KnownBase {
    tree: Digest,
    manifest: Manifest,
    skipped: Vec<String>,
    result: EffectResult,
}

/// What a setup made, so that another run need not make it again.
#[derive(Serialize, Deserialize)]
struct CachedSetup {
    environment: Digest,
    /// Directory below `layers/`.
    dir: String,
    /// Absolute paths of the cell.
    paths: Vec<String>,
}

/// What came of a setup.
pub(crate) struct Made {
    /// The digest of everything that it made.
    pub(crate) environment: Digest,
    /// None: it was not run, because what it made is remembered.
    pub(crate) receipt: Option<JobReceipt>,
}

impl Workshop<'_> {
    pub(crate) async fn import(&mut self) -> Outcome {
        // A commit is read straight into the agent's cell, which is then the first working cell: nothing is copied
        // twice. Not where a setup will add layers, where the user's own files (which may hold more than the base)
        // are mounted to be read, or where there is no agent or its cell is weaker than the one that reads.
        let direct = self.contract.candidate.is_none()
            && self.contract.environment.setup.is_none()
            && matches!(self.contract.source, Source::Git { include_dirty: false, .. })
            && cells::judging(self.ports).tier() == self.ports.cells.working.tier();
        self.import_base(direct).await
    }

    /// Reads the base into the store; with `direct` into the working cell that it is read in, too.
    pub(crate) async fn import_base(&mut self, direct: bool) -> Outcome {
        let ports = self.ports;
        let cells = cells::judging(ports);
        let request = self.import_request(direct)?;
        let cell = if direct {
            self.open_working(true).await?
        } else {
            cells::open(ports, cells, &self.contract, cells::source_mounts(ports), None).await?
        };
        match self.known_base(cell.as_ref(), direct).await {
            Ok(Some(known)) => {
                if direct {
                    self.spare = Some(cell);
                } else {
                    self.see_off(cell);
                }
                self.is_pinned(known.tree)?;
                self.keep(known.tree, known.manifest);
                self.learn_base(known.tree).await?;
                return Ok((known.result, left_out(&known.skipped)));
            }
            Ok(None) => {}
            Err(fail) => {
                self.see_off(cell);
                return Err(fail);
            }
        }
        let segment = ports.objects.new_segment()?;
        let reply = cells::ask(cell.as_ref(), &request, vec![cells::lend(&segment)?]).await;
        if direct && reply.is_ok() {
            self.spare = Some(cell);
        } else {
            self.see_off(cell);
        }
        let Reply::Imported(imported) = reply? else { return Err(cells::unexpected("an import")) };
        ports.objects.adopt(segment, &imported.located, Durability::Sync)?;
        let tree = Manifest::new(imported.entries);
        let digest = ports.objects.put_manifest(&tree, Durability::Sync)?;
        let entries = tree.entries().len() as u64;
        self.is_pinned(digest)?;
        self.keep(digest, tree);
        self.learn_base(digest).await?;
        if let Some(commit) = &imported.commit
            && matches!(self.contract.source, Source::Git { include_dirty: false, .. })
        {
            let known = CachedImport { tree: digest, skipped: imported.skipped.clone() };
            self.remember(&self.import_key(commit)?, &known).await;
        }
        let mut named = left_out(&imported.skipped);
        if !imported.dirty.is_empty() {
            let paths: Vec<String> = imported.dirty.iter().map(ToString::to_string).collect();
            named.push(("dirty", paths.join("\n").into_bytes()));
        }
        let result = EffectResult::Import {
            tree: digest,
            commit: imported.commit,
            entries,
            dirty: imported.dirty.len() as u64,
        };
        Ok((result, named))
    }

    /// The base as an earlier run on the same commit of the same repository imported it. With `place` its files are
    /// written into the cell too. None: nothing is remembered, or it is no longer whole; the cell is as it was.
    async fn known_base(&mut self, cell: &dyn Cell, place: bool) -> Result<Option<KnownBase>, Fail> {
        let Source::Git { rev, include_dirty: false, .. } = &self.contract.source else { return Ok(None) };
        let git_dir = cells::git_dir(self.ports, cells::judging(self.ports).tier());
        // git says what `rev` means now; only what the commit's id stands for is remembered, and that cannot change.
        let request = Request::ResolveGit { git_dir, rev: rev.clone() };
        let Reply::Resolved { commit } = cells::ask(cell, &request, Vec::new()).await? else {
            return Err(cells::unexpected("a revision"));
        };
        let Some(known) = self.cached::<CachedImport>(&self.import_key(&commit)?).await else {
            return Ok(None);
        };
        // Also says whether every content is still there.
        let Ok(manifest) = self.ports.objects.manifest(&known.tree) else { return Ok(None) };
        if place {
            cells::materialise(cell, &self.ports.objects, &manifest).await?;
        }
        let entries = manifest.entries().len() as u64;
        let result = EffectResult::Import { tree: known.tree, commit: Some(commit), entries, dirty: 0 };
        Ok(Some(KnownBase { tree: known.tree, manifest, skipped: known.skipped, result }))
    }

    /// Object ids are only as good as the repository that they come from: another one's import is not used.
    /// A session that waited for its approval begins from what was submitted, or not at all.
    fn is_pinned(&self, tree: Digest) -> Result<(), Fail> {
        if self.contract.pinned.is_none_or(|pinned| pinned == tree) {
            return Ok(());
        }
        let what = "the project is not what it was when the session was submitted, and nothing of it was run: submit it again";
        Err(Fail::because(Reason::Repository, what))
    }

    fn import_key(&self, commit: &str) -> Result<Digest, Fail> {
        let repository = match &self.contract.source {
            Source::Git { repository, .. } => repository.as_str(),
            Source::Directory { path } => path.as_str(),
        };
        let key = json!({
            "what": "import",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": countersign_guest::protocol::GUEST_PROTOCOL,
            "repository": repository,
            "commit": commit,
        });
        let bytes = canonical_json(&key).map_err(|e| Fail::because(Reason::Config, e.to_string()))?;
        Ok(Digest::of(&bytes))
    }

    fn import_request(&self, write_workspace: bool) -> Result<Request, Fail> {
        let ports = self.ports;
        let tier = cells::judging(ports).tier();
        Ok(match (&self.contract.source, &ports.sources) {
            (Source::Git { rev, include_dirty: false, .. }, Sources::Git { .. }) => {
                Request::ImportGit { git_dir: cells::git_dir(ports, tier), rev: rev.clone(), write_workspace }
            }
            (Source::Git { rev, include_dirty: true, .. }, Sources::Git { .. }) => Request::ImportDirty {
                git_dir: cells::git_dir(ports, tier),
                work_tree: cells::work_tree(ports, tier),
                rev: rev.clone(),
                write_workspace,
            },
            (Source::Directory { .. }, Sources::Directory(_)) => {
                Request::ImportDir { source: cells::work_tree(ports, tier), write_workspace }
            }
            _ => {
                return Err(Fail::because(
                    Reason::Config,
                    "the contract's source is not the one that was opened",
                ));
            }
        })
    }

    /// The operator's setup, in a cell of its own, on the base. What it adds becomes read-only layers.
    pub(crate) async fn setup(&mut self, turn: &Turn, stop: &Stop) -> Outcome {
        let Some(argv) = self.contract.environment.setup.clone() else {
            return Err(Fail::because(Reason::Config, "the contract has no setup"));
        };
        let base = base_tree(turn)?;
        let made = self.make_environment(base, argv, stop).await?;
        let Some(receipt) = made.receipt else {
            let (environment, job) = (made.environment, JobSummary::Exited { code: 0 });
            return Ok((EffectResult::Setup { environment, job, cached: true }, Vec::new()));
        };
        let named = vec![("stdout", cells::kept(&receipt.stdout)), ("stderr", cells::kept(&receipt.stderr))];
        let job = summary_of(&receipt.end);
        Ok((
            EffectResult::Setup { environment: made.environment, job, cached: false },
            self.with_setup_detail(named, &receipt),
        ))
    }

    /// What a setup makes of a tree, remembered from an earlier run and still whole, or made now. It is mounted in every
    /// cell from then on, unless the setup failed.
    pub(crate) async fn make_environment(
        &mut self,
        tree: Digest,
        argv: Vec<String>,
        stop: &Stop,
    ) -> Result<Made, Fail> {
        (self.layers, self.made) = (cells::layer_mounts(&self.contract), None);
        let key = self.cache_key("setup", tree, None)?;
        if let Some(found) = self.cached::<CachedSetup>(&key).await
            && self.mount_setup(&found)
        {
            if matches!(self.setup_is_whole(&found).await, Ok(true)) {
                return Ok(Made { environment: found.environment, receipt: None });
            }
            (self.layers, self.made) = (cells::layer_mounts(&self.contract), None);
        }
        let dir = format!("l{}", cells::hex(&self.ports.ids.bytes()[..8]));
        let state_dir = self.ports.home.layers.join(&dir);
        let mounts = cells::layer_mounts(&self.contract);
        let cells = cells::judging(self.ports);
        let cell = cells::open(self.ports, cells, &self.contract, mounts, Some(state_dir)).await?;
        let result = self.run_setup(cell.as_ref(), tree, argv, stop).await;
        let kept = matches!(&result, Ok((_, receipt)) if receipt.end == JobEnd::Exited { code: 0 });
        cell.end(!kept).await?;
        let (cached, receipt) = result?;
        let cached = CachedSetup { dir, ..cached };
        if kept {
            if !self.mount_setup(&cached) {
                return Err(Fail::because(Reason::Environment, "what the setup made cannot be found again"));
            }
            self.remember(&key, &cached).await;
        }
        Ok(Made { environment: cached.environment, receipt: Some(receipt) })
    }

    fn with_setup_detail(&self, mut named: Named, receipt: &JobReceipt) -> Named {
        if receipt.end != (JobEnd::Exited { code: 0 }) {
            let text = format!("the setup command failed: {}", countersign_tools::operator_result(receipt));
            named.push(("detail", self.ports.redactor.redact_str(&text).into_owned().into_bytes()));
        }
        named
    }

    async fn run_setup(
        &mut self,
        cell: &dyn Cell,
        base: Digest,
        argv: Vec<String>,
        stop: &Stop,
    ) -> Result<(CachedSetup, JobReceipt), Fail> {
        let tree = self.tree(base)?;
        cells::materialise(cell, &self.ports.objects, &tree).await?;
        let paths = cells::paths(cell);
        let env = countersign_gates::job_env(&self.contract.environment, &paths);
        let job = cells::job(self.ports, argv, paths.workspace, env, SETUP_WALL)?;
        let receipt = cells::run_job(cell, job, stop).await?;
        let receipt = cells::redacted(&self.ports.redactor, receipt);
        let scratch = self.scratch()?.as_ref().clone();
        if receipt.end != (JobEnd::Exited { code: 0 }) {
            // What a failed setup left behind is of no use, and its own words are what people need to read.
            let cached = CachedSetup { environment: Digest::of(b""), dir: String::new(), paths: Vec::new() };
            return Ok((cached, receipt));
        }
        let request = Request::ListSetupPaths { scratch };
        let Reply::Paths { paths } = cells::ask(cell, &request, Vec::new()).await? else {
            return Err(cells::unexpected("a list of paths"));
        };
        let request = Request::HashPaths { paths: paths.clone() };
        let Reply::Hashed { digest, .. } = cells::ask(cell, &request, Vec::new()).await? else {
            return Err(cells::unexpected("a digest of paths"));
        };
        Ok((CachedSetup { environment: digest, dir: String::new(), paths }, receipt))
    }

    /// Whether what a setup made is still there, byte for byte: an earlier run's layers may have been removed or cut.
    ///
    /// A cell that dies while it looks has not seen anything: that is no answer.
    async fn setup_is_whole(&self, found: &CachedSetup) -> Result<bool, Fail> {
        let ports = self.ports;
        let cell =
            cells::open(ports, cells::judging(ports), &self.contract, self.layers.clone(), None).await?;
        let request = Request::HashPaths { paths: found.paths.clone() };
        let reply = cells::ask(cell.as_ref(), &request, Vec::new()).await;
        cell.end(true).await?;
        Ok(matches!(reply?, Reply::Hashed { digest, .. } if digest == found.environment))
    }

    /// Mounts what a setup made at the same paths. False when they are none that a setup can make.
    fn mount_setup(&mut self, cached: &CachedSetup) -> bool {
        let root = self.ports.home.layers.join(&cached.dir);
        let mut mounts = Vec::new();
        for path in &cached.paths {
            let source = if let Some(rest) = path.strip_prefix("/workspace/") {
                root.join("workspace").join(rest)
            } else if let Some(rest) = path.strip_prefix("/home/agent/") {
                root.join("home").join(rest)
            } else {
                return false;
            };
            mounts.push(Mount { kind: MountKind::ReadOnly, source, target: PathBuf::from(path) });
        }
        self.layers = cells::layer_mounts(&self.contract);
        self.layers.extend(mounts);
        self.made = Some(cached.environment);
        true
    }

    /// After a resume: the layers of the setup that this turn's journal names.
    pub(crate) async fn restore_setup(&mut self, turn: Option<&Turn>) -> Result<(), Fail> {
        let Some(turn) = turn else { return Ok(()) };
        let key = self.cache_key("setup", base_tree(turn)?, None)?;
        let cached = self.cached::<CachedSetup>(&key).await;
        let gone = |why: &str| {
            let message = format!("the environment that the setup made is gone{why}");
            Err(Fail::because(Reason::CheckpointLost, message))
        };
        let Some(cached) = cached.filter(|cached| turn.environment == Some(cached.environment)) else {
            return gone("");
        };
        if !self.mount_setup(&cached) {
            return gone("");
        }
        // A cell may die while it looks; one that cannot be made twice is missing what it mounts.
        let seen = match self.setup_is_whole(&cached).await {
            Err(_) => self.setup_is_whole(&cached).await,
            seen => seen,
        };
        match seen {
            Ok(true) => Ok(()),
            Ok(false) => gone(""),
            Err(Fail::Failed { message, .. }) => gone(&format!(": {message}")),
            Err(Fail::Interrupted) => Err(Fail::Interrupted),
        }
    }

    pub(crate) async fn probe(&mut self, turn: &Turn, stop: &Stop) -> Outcome {
        let wall = self.contract.checks.first().map_or(SETUP_WALL, |check| check.timeout);
        let Some(plan) = CheckPlan::probe(&self.contract.environment, wall) else {
            return Err(Fail::because(Reason::Config, "the contract has no probe"));
        };
        let base = base_tree(turn)?;
        let (cell, tree) = self.room_with(base).await?;
        let ran = self.run_in_room(cell.as_ref(), plan.job(&cells::paths(cell.as_ref())), stop).await;
        cell.end(true).await?;
        drop(tree);
        let receipt = ran?;
        let mut named =
            vec![("stdout", cells::kept(&receipt.stdout)), ("stderr", cells::kept(&receipt.stderr))];
        if let Some(detail) = countersign_gates::environment_failure(Some(&receipt.end)) {
            let text = format!("{detail}\n{}", countersign_tools::operator_result(&receipt));
            named.push(("detail", text.into_bytes()));
        }
        Ok((EffectResult::Probe { job: summary_of(&receipt.end) }, named))
    }
}

/// The payload that names files which are not part of the base.
fn left_out(skipped: &[String]) -> Named {
    if skipped.is_empty() {
        return Vec::new();
    }
    vec![("detail", format!("left out of the base: {}", skipped.join("; ")).into_bytes())]
}

pub(crate) fn base_tree(turn: &Turn) -> Result<Digest, Fail> {
    turn.base
        .as_ref()
        .map(|base| base.tree)
        .ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no base"))
}
