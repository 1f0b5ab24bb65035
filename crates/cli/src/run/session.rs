//! Where the engine takes over: everything that this crate calls of it to make, drive and record a session.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_engine::{Ended, EngineError, NewSession, Ports, Sources, StartingCheck};
use countersign_kernel::contract::{Contract, Source};
use countersign_store::Store as _;
use countersign_tree::Manifest;
use countersign_types::{Digest, Outcome, PrincipalId, Reason, SessionId, TenantId};

use crate::args::{Format, TraceMode};
use crate::evidence;
use crate::home::Home;
use crate::lease;
use crate::ports::{MachineClock, MachineIds, SessionFiles};
use crate::profile::ProfileStore;
use crate::refusal::Refusal;
use crate::result::{ErrorResult, RunResult};
use crate::run::model::Model;
use crate::signals::Signals;
use crate::trace::Watcher;

/// A session that nothing stands against.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) id: SessionId,
    pub(crate) contract: Contract,
    pub(crate) task: String,
    pub(crate) model: Model,
    pub(crate) home: Home,
    pub(crate) cells: countersign_engine::CellChoice,
    pub(crate) sources: Sources,
    /// The directory that is judged.
    pub(crate) candidate: Option<PathBuf>,
    /// What people should know about this run before it begins.
    pub(crate) notes: Vec<String>,
    /// What the result says of it besides.
    pub(crate) degraded: Vec<String>,
    pub(crate) format: Format,
    pub(crate) trace: TraceMode,
    pub(crate) signals: Arc<Signals>,
    /// Each setting with its source; None for a session that goes on.
    pub(crate) settings: Option<serde_json::Value>,
}

impl Prepared {
    fn ports(&self) -> Ports {
        let session = self.home.session(&self.id);
        Ports {
            clock: Arc::new(MachineClock),
            ids: Arc::new(MachineIds),
            store: self.home.store.clone(),
            objects: self.home.objects.clone(),
            memo: self.home.memo.clone(),
            cells: self.cells.clone(),
            provider: self.model.provider.clone(),
            reviewer: self.model.reviewer.clone(),
            redactor: self.model.redactor.clone(),
            interrupts: self.signals.clone(),
            observer: Watcher::start(self.id.clone(), self.format, self.trace),
            artifacts: Arc::new(SessionFiles { dir: session.clone() }),
            profiles: Arc::new(ProfileStore::new(self.home.root())),
            sources: self.sources.clone(),
            candidate: self.candidate.clone(),
            home: countersign_engine::Home { session, layers: self.home.layers() },
            crashes: crate::crash::wanted(),
        }
    }
}

/// Who drives, for people who find the session taken.
pub(crate) fn holder() -> String {
    format!("process {}", std::process::id())
}

#[expect(clippy::expect_used, reason = "constants that ids allow")]
pub(crate) fn owner() -> (TenantId, PrincipalId) {
    (TenantId::new("local").expect("an id"), PrincipalId::new("cli").expect("an id"))
}

/// What the project's own files say of how it is tested.
pub(crate) async fn scout(prepared: &Prepared) -> Result<Vec<StartingCheck>, Refusal> {
    Ok(countersign_engine::scout(&prepared.ports(), &prepared.contract).await?)
}

/// The tree that the source names.
pub(crate) async fn base_tree(prepared: &Prepared) -> Result<(Arc<Manifest>, Option<String>), Refusal> {
    Ok(countersign_engine::base_tree(&prepared.ports(), &prepared.contract).await?)
}

/// Records a new session that waits: for its approval, or where it has that for somebody to drive it. It begins from the
/// project as it is now, or not at all.
pub(crate) async fn submit(mut prepared: Prepared, approved: bool) -> Result<Prepared, Refusal> {
    let (tree, commit) = base_tree(&prepared).await?;
    prepared.contract.pinned = Some(tree.digest());
    if let (Source::Git { rev, .. }, Some(commit)) = (&mut prepared.contract.source, commit) {
        *rev = commit;
    }
    record(&prepared, approved).await?;
    Ok(prepared)
}

/// Records a new session and drives it to its result.
pub(crate) async fn begin(prepared: Prepared) -> RunResult {
    if let Err(error) = record(&prepared, true).await {
        return failed(&prepared, &error.into()).await;
    }
    let ports = prepared.ports();
    let holder = holder();
    let driving = lease::taken(|| countersign_engine::drive(&ports, &prepared.id, &holder));
    let mut result = drive(&prepared, driving).await;
    result.degraded.splice(0..0, prepared.degraded);
    result
}

/// The one way in: contract, task, settings and what is approved at once are one commit.
async fn record(prepared: &Prepared, approved: bool) -> Result<(), EngineError> {
    let ports = prepared.ports();
    for note in &prepared.notes {
        crate::trace::note(prepared.trace, note);
    }
    let (tenant, principal) = owner();
    // What a person typed may hold a key that this process knows.
    let task = ports.redactor.redact_str(&prepared.task);
    let new = NewSession {
        id: prepared.id.clone(),
        tenant,
        principal,
        contract: &prepared.contract,
        input: task.as_bytes(),
        settings: prepared.settings.as_ref(),
        approved,
    };
    countersign_engine::submit(&ports, new).await
}

/// Goes on with a session that was parked.
pub(crate) async fn resume(prepared: Prepared) -> RunResult {
    let ports = prepared.ports();
    let holder = holder();
    drive(&prepared, lease::taken(|| countersign_engine::resume(&ports, &prepared.id, &holder))).await
}

async fn drive(prepared: &Prepared, driving: impl Future<Output = Result<Ended, EngineError>>) -> RunResult {
    // A second SIGINT drops the engine, and with its last handle every cell dies.
    let ended = tokio::select! {
        ended = driving => ended,
        () = prepared.signals.insisted() => return insisted(prepared).await,
    };
    tokio::select! {
        () = crate::sweep::leftovers(&prepared.home) => {}
        () = prepared.signals.insisted() => {}
    }
    match ended {
        Ok(Ended::Over(_) | Ended::Parked(_) | Ended::Idle) => {
            let mut result = shown(&prepared.home, &prepared.id).await;
            evidence::attach(&prepared.home, &mut result).await;
            result
        }
        Err(error) => failed(prepared, &error.into()).await,
    }
}

/// The result as the journal tells it.
pub(crate) async fn shown(home: &Home, id: &SessionId) -> RunResult {
    match countersign_engine::view(home.store.as_ref(), id).await {
        Ok(view) => RunResult::of(&view, &home.session(id)),
        Err(error) => RunResult::refused(Some(id.clone()), None, &[], &error.into()),
    }
}

/// The engine itself failed. What the journal knows of the turn is still shown, under the failure's reason.
async fn failed(prepared: &Prepared, refusal: &Refusal) -> RunResult {
    let task = prepared.task.as_bytes();
    let failure = RunResult::refused(Some(prepared.id.clone()), Some(task), &[], refusal);
    match countersign_engine::view(prepared.home.store.as_ref(), &prepared.id).await {
        Ok(view) if view.outcome.is_none() => {
            let RunResult { outcome, reason, exit_code, error, .. } = failure;
            RunResult {
                outcome,
                reason,
                exit_code,
                error,
                ..RunResult::of(&view, &prepared.home.session(&prepared.id))
            }
        }
        _ => failure,
    }
}

/// A person did not want to wait for an orderly end.
async fn insisted(prepared: &Prepared) -> RunResult {
    let mut result = shown(&prepared.home, &prepared.id).await;
    if result.outcome != Some(Outcome::Canceled) {
        let message = format!(
            "stopped at once by a second interrupt; `countersign resume {}` goes on with what was left open",
            prepared.id
        );
        result.outcome = Some(Outcome::Canceled);
        result.reason = Some(Reason::Signal.as_str());
        result.exit_code = Some(Outcome::Canceled.exit_code());
        result.error = Some(ErrorResult { kind: Reason::Signal.as_str(), message });
    }
    result
}

/// Leaves a record of a run that was refused.
pub(crate) async fn refuse(
    home: &Home,
    id: &SessionId,
    task: &str,
    repository: Option<&str>,
    reason: Reason,
    message: &str,
) -> Result<(), EngineError> {
    use countersign_engine::Clock as _;
    let (tenant, principal) = owner();
    let row = countersign_store::NewSession { id: id.clone(), tenant, principal, at: MachineClock.now() };
    countersign_engine::refuse(home.store.as_ref(), &MachineIds, row, task, repository, reason, message).await
}

/// The contract of a recorded session; None for one that was refused before it had one.
pub(crate) async fn contract(home: &Home, id: &SessionId) -> Result<Option<Contract>, Refusal> {
    let view = countersign_engine::view(home.store.as_ref(), id).await.map_err(Refusal::from)?;
    Ok(view.session.map(|session| session.contract))
}

/// Does the session exist? Says what to do when it does not.
pub(crate) async fn known(home: &Home, id: &SessionId) -> Result<(), Refusal> {
    Ok(home.store.session(id).await.map(|_| ())?)
}

/// Refuses a session without an end.
pub(crate) fn ended(home: &Home, id: &SessionId, view: &countersign_engine::View) -> Result<(), Refusal> {
    if view.outcome.is_some() {
        return Ok(());
    }
    if lease::held(home, id) {
        return Err(Refusal::usage(format!("session {id} is running: wait for its end")));
    }
    let turn = view.session.as_ref().and_then(|session| session.turn.as_ref());
    Err(Refusal::usage(lease::idle(id, turn.map(|turn| turn.status().as_str())).1))
}

/// The patch of a session, checked against its journal.
pub(crate) fn patch(
    home: &Home,
    id: &SessionId,
    view: &countersign_engine::View,
) -> Result<Vec<u8>, Refusal> {
    let Some(patch) = &view.patch else {
        ended(home, id, view)?;
        return Err(Refusal::usage(format!(
            "session {id} has no patch: its agent changed nothing that can be delivered"
        )));
    };
    let path = home.session(id).join(patch.file);
    let refuse = |what: String| {
        Refusal::new(Reason::Store, format!("the patch {} is of no use: {what}", path.display()))
    };
    if !crate::files::exists(&path) {
        return Err(Refusal::usage(format!(
            "the patch of session {id} is gone: it was discarded when the run ended, or removed; the evidence still holds it \
             as patch.diff (`countersign show {id} --format json` names the bundle)"
        )));
    }
    let bytes = crate::files::read_regular(&path, patch.bytes).map_err(refuse)?;
    if Digest::of(&bytes) != patch.digest {
        return Err(refuse("its bytes are not those that the journal recorded".to_owned()));
    }
    Ok(bytes)
}
