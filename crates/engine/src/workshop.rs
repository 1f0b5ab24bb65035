//! What a driver holds in memory, and how results are learnt. Nothing here acts.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_cell::Cell;
use countersign_gates::{CheckDecision, Fence};
use countersign_guest::protocol::{CalledName, MAX_FDS, Reply, Request, WriteGuard};
use countersign_kernel::contract::Contract;
use countersign_kernel::{EffectKind, EffectResult, Event, ToolName, Turn};
use countersign_llm::{Call, Reply as ModelReply};
use countersign_tools::{Schema, ToolCallSpec};
use countersign_tree::{Manifest, ScratchRules};
use countersign_types::{
    Blind, CheckIndex, Digest, EffectId, JobReceipt, Millis, Mount, Reason, SessionId, canonical_json,
};
use futures::future::{BoxFuture, join_all};
use serde_json::json;

use crate::cells::{self, Fail};
use crate::checks::BaseSeen;
use crate::error::EngineError;
use crate::fetched::Second;
use crate::journal::Journal;
use crate::ports::Ports;
use crate::prompt;
use crate::repro::ReproMemory;
use crate::review::ReviewMemory;
use crate::rooms::Ran;
use crate::transcript::{Transcript, call_index, rebuild};

/// Scripts that scripts call.
const MAX_CALLED_DEPTH: usize = 4;

/// Prepares the agent's private repository while the model thinks.
pub(crate) type PrivateGit = BoxFuture<'static, Result<(), Fail>>;

/// What a driver holds in memory: everything here can be made again from the journal and the object store.
pub(crate) struct Workshop<'p> {
    pub(crate) ports: &'p Ports,
    pub(crate) contract: Contract,
    pub(crate) task: String,
    /// None: a session of before, whose journal names plain digests.
    pub(crate) blind: Option<Blind>,
    pub(crate) offered: Vec<Schema>,
    pub(crate) names: Vec<ToolName>,
    pub(crate) transcript: Option<Transcript>,
    pub(crate) encoded: BTreeMap<EffectId, Arc<[u8]>>,
    pub(crate) calls: BTreeMap<EffectId, ToolCallSpec>,
    pub(crate) replies: BTreeMap<EffectId, ModelReply>,
    pub(crate) results: BTreeMap<EffectId, (String, bool)>,
    pub(crate) working: Option<Arc<dyn Cell>>,
    /// A working cell that the base was imported into and that nothing has used yet.
    pub(crate) spare: Option<Arc<dyn Cell>>,
    /// Cells that are being ended while the next effect runs.
    pub(crate) closing: Vec<BoxFuture<'static, ()>>,
    pub(crate) private_git: Option<PrivateGit>,
    pub(crate) trees: BTreeMap<Digest, Arc<Manifest>>,
    pub(crate) layers: Vec<Mount>,
    /// The digest of what the operator's setup made.
    pub(crate) made: Option<Digest>,
    /// Environments of trees whose lockfiles are not the base's.
    pub(crate) seconds: BTreeMap<Digest, Second>,
    pub(crate) base: Option<BaseFacts>,
    /// What each check showed on the base.
    pub(crate) base_seen: BTreeMap<CheckIndex, Arc<BaseSeen>>,
    /// When this process ran them on the base.
    pub(crate) base_ran: BTreeMap<CheckIndex, Millis>,
    /// Control runs of this turn by the tree that they were on.
    pub(crate) controls: BTreeMap<(CheckIndex, Digest), Arc<Ran>>,
    /// What the guest read of the base's files that a check runs, by depth.
    pub(crate) called: Vec<Vec<CalledName>>,
    pub(crate) judged: Vec<(CheckIndex, CheckDecision, JobReceipt)>,
    pub(crate) feedback: Option<String>,
    /// What the agent declared as its reproduction, or why there is none.
    pub(crate) repro: ReproMemory,
    pub(crate) review: ReviewMemory,
}

/// What is derived once from the base tree.
#[derive(Clone)]
pub(crate) struct BaseFacts {
    pub(crate) tree: Arc<Manifest>,
    pub(crate) scratch: Arc<ScratchRules>,
    pub(crate) guard: Arc<WriteGuard>,
    pub(crate) sentence: Option<String>,
}

impl<'p> Workshop<'p> {
    pub(crate) async fn new(
        ports: &'p Ports,
        journal: &Journal,
        events: &[(u64, Event)],
    ) -> Result<Workshop<'p>, EngineError> {
        let mut shop = Self::bare(ports, journal.session.contract.clone());
        shop.blind = journal.blind.clone();
        shop.task = String::from_utf8_lossy(&journal.input).into_owned();
        let turn = journal.session.turn.as_ref();
        if let Some(base) = turn.and_then(|turn| turn.base.as_ref())
            && turn.is_some_and(|turn| turn.ending.is_none())
        {
            shop.learn_base(base.tree).await.map_err(not_restored)?;
            shop.restore_base_runs(&journal.id, events).await?;
            if turn.is_some_and(|turn| turn.environment.is_some()) {
                shop.restore_setup(journal.session.turn.as_ref()).await.map_err(not_restored)?;
            }
            shop.restore_repro(&journal.id, events).await?;
            shop.restore_review(&journal.id, events).await?;
            let opening = shop.opening();
            let transcript =
                rebuild(ports.store.as_ref(), ports.provider.as_ref(), &journal.id, events, opening).await?;
            shop.restore_calls(turn, &transcript);
            shop.transcript = Some(transcript);
        }
        Ok(shop)
    }

    /// Of which nothing is known but the contract.
    pub(crate) fn bare(ports: &'p Ports, contract: Contract) -> Self {
        let mut offered = offered(&contract);
        offered.retain(|schema| contract.tools.is_empty() || contract.tools.contains(&schema.tool));
        Workshop {
            ports,
            names: offered.iter().map(|schema| schema.tool).collect(),
            offered,
            layers: cells::layer_mounts(&contract),
            made: None,
            seconds: BTreeMap::new(),
            task: String::new(),
            blind: None,
            contract,
            transcript: None,
            encoded: BTreeMap::new(),
            calls: BTreeMap::new(),
            replies: BTreeMap::new(),
            results: BTreeMap::new(),
            working: None,
            spare: None,
            closing: Vec::new(),
            private_git: None,
            trees: BTreeMap::new(),
            base: None,
            base_seen: BTreeMap::new(),
            base_ran: BTreeMap::new(),
            controls: BTreeMap::new(),
            called: Vec::new(),
            judged: Vec::new(),
            feedback: None,
            repro: ReproMemory::default(),
            review: ReviewMemory::default(),
        }
    }

    /// After a resume: what the checks showed on the base, as the journal has it.
    async fn restore_base_runs(
        &mut self,
        id: &SessionId,
        events: &[(u64, Event)],
    ) -> Result<(), EngineError> {
        let runs = events.iter().filter(|(_, event)| {
            matches!(event, Event::EffectCompleted { result: EffectResult::BaseRun { .. }, .. })
        });
        for (check, (seq, _)) in (0_u32..).zip(runs) {
            let seen = self.ports.store.payload(id, *seq, "seen").await?;
            let seen = serde_json::from_slice(&seen).map_err(|error| EngineError::Bug(error.to_string()))?;
            self.base_seen.insert(CheckIndex(check), Arc::new(seen));
        }
        Ok(())
    }

    /// After a resume: the calls of the last reply that are still to be carried out.
    pub(crate) fn restore_calls(&mut self, turn: Option<&Turn>, transcript: &Transcript) {
        let Some(turn) = turn else { return };
        for (index, _) in (0_u32..).zip(&turn.calls) {
            if let Some(call) = transcript.call(index) {
                let spec = self.parse(call);
                for attempt in 0..=turn.tries.get(&(turn.step, index + 1)).copied().unwrap_or(0) {
                    let effect = EffectId { turn: turn.id, step: turn.step, slot: index + 1, attempt };
                    self.calls.insert(effect, spec.clone());
                }
            }
        }
    }

    /// The digest of a text as the journal names it: nobody can guess the text by it.
    pub(crate) fn hide(&self, plain: Digest) -> Digest {
        self.blind.as_ref().map_or(plain, |blind| blind.hide(plain))
    }

    /// A call of the model's, ready to be planned.
    pub(crate) fn parse(&self, call: &Call) -> ToolCallSpec {
        let mut spec = countersign_tools::parse(&call.name, &call.arguments, &self.names);
        spec.planned.arguments = self.hide(spec.planned.arguments);
        spec
    }

    /// Ends every cell. Nothing that this process started is left.
    pub(crate) async fn close(&mut self) {
        self.give_up_cells();
        join_all(std::mem::take(&mut self.closing)).await;
    }

    /// Ends the agent's cells whatever is going on in them. What they held is in the last checkpoint.
    pub(crate) fn give_up_cells(&mut self) {
        self.private_git = None;
        for cell in [self.working.take(), self.spare.take()].into_iter().flatten() {
            self.see_off(cell);
        }
    }

    /// Ends a cell that nobody uses any more, beside whatever comes next. The journal does not depend on it; a cell
    /// that cannot end cleanly is killed when its last handle is dropped.
    pub(crate) fn see_off(&mut self, cell: Arc<dyn Cell>) {
        self.closing.push(Box::pin(async move {
            let _ = cell.end(true).await;
        }));
    }

    /// A working cell without a tree in it.
    pub(crate) async fn open_working(&self, from_git: bool) -> Result<Arc<dyn Cell>, Fail> {
        let mut mounts = self.layers.clone();
        if from_git {
            mounts.extend(cells::source_mounts(self.ports).into_iter().take(1));
        }
        cells::open(self.ports, &self.ports.cells.working, &self.contract, mounts, None).await
    }

    pub(crate) fn opening(&self) -> String {
        let empty = Manifest::default();
        let base = self.base.as_ref().map_or(&empty, |facts| facts.tree.as_ref());
        let sentence = self.base.as_ref().and_then(|facts| facts.sentence.as_deref());
        prompt::opening(&self.contract, &self.task, base, sentence)
    }

    pub(crate) fn transcript(&mut self) -> &mut Transcript {
        let opening = match &self.transcript {
            Some(_) => String::new(),
            None => self.opening(),
        };
        self.transcript.get_or_insert_with(|| {
            let mut transcript = Transcript::default();
            transcript.open_with(opening);
            transcript
        })
    }

    /// Takes a committed event into the transcript.
    pub(crate) fn learn(&mut self, event: &Event, feedback: Option<&str>) {
        match event {
            Event::EffectCompleted { effect, result: EffectResult::ModelCall { .. } } => {
                if let Some(reply) = self.replies.remove(effect) {
                    self.transcript().reply(&reply);
                }
                self.encoded.clear();
                self.calls.clear();
            }
            Event::EffectCompleted { effect, result: EffectResult::Tool { .. } } => {
                if let Some((text, ok)) = self.results.remove(effect) {
                    self.transcript().result(call_index(*effect), text, ok);
                }
            }
            Event::EffectDenied { effect, capability, kind: EffectKind::Tool { .. } } => {
                self.transcript().result(call_index(*effect), countersign_tools::denied(*capability), false);
            }
            Event::AttemptReturned { .. } => {
                self.judged.clear();
                self.review.begin_round();
                if let Some(text) = feedback {
                    self.transcript().feedback(text.to_owned());
                }
            }
            // Its cell may be dead, or in a state that nobody knows: the next one is filled from the last checkpoint.
            Event::Recovered { .. } => self.give_up_cells(),
            Event::Nudged { finding } => self.transcript().feedback(countersign_tools::nudge(finding)),
            _ => {}
        }
    }

    pub(crate) fn tree(&mut self, digest: Digest) -> Result<Arc<Manifest>, Fail> {
        if let Some(tree) = self.trees.get(&digest) {
            return Ok(Arc::clone(tree));
        }
        let tree = Arc::new(self.ports.objects.manifest(&digest)?);
        self.trees.insert(digest, Arc::clone(&tree));
        Ok(tree)
    }

    pub(crate) fn keep(&mut self, digest: Digest, tree: Manifest) -> Arc<Manifest> {
        let tree = Arc::new(tree);
        self.trees.insert(digest, Arc::clone(&tree));
        tree
    }

    /// Scratch rules, the edit tools' guard and the fence's sentence, from the base.
    pub(crate) async fn learn_base(&mut self, digest: Digest) -> Result<(), Fail> {
        let tree = self.tree(digest)?;
        let objects = Arc::clone(&self.ports.objects);
        let read = |digest: &Digest| objects.read(digest).map_err(std::io::Error::other);
        let rules = ScratchRules::for_base(Vec::new(), &tree, read)
            .map_err(|e| Fail::because(Reason::Repository, e.to_string()))?;
        let (guard, sentence) = if self.contract.is_fenced() {
            let fence = self.read_called(&tree).await?;
            (fence.write_guard(&self.contract.scope), Some(fence.sentence(&self.contract.scope)))
        } else {
            (WriteGuard { scope: self.contract.scope.clone(), ..WriteGuard::default() }, None)
        };
        let sentence = sentence.filter(|_| !prompt::read_only(&self.contract));
        self.base = Some(BaseFacts { tree, scratch: Arc::new(rules), guard: Arc::new(guard), sentence });
        Ok(())
    }

    pub(crate) fn fence(&self, base: &Manifest) -> Result<Fence, Fail> {
        Fence::new(&self.contract.protect, &self.contract.checks, base)
            .and_then(|fence| fence.scoped(&self.contract.scope).allowing(&self.contract.allow))
            .map_err(|e| Fail::because(Reason::Config, e.to_string()))
            .map(|mut fence| {
                for names in &self.called {
                    fence.unread();
                    fence.learn_called(names);
                }
                fence
            })
    }

    /// The fence over a base whose check's own files were read by a guest, and what those name in their turn.
    async fn read_called(&mut self, base: &Manifest) -> Result<Fence, Fail> {
        self.called.clear();
        let mut fence = self.fence(base)?;
        let key = self.called_key(base)?;
        if let Some(called) = self.cached(&key).await {
            self.called = called;
            return self.fence(base);
        }
        for _ in 0..MAX_CALLED_DEPTH {
            let files = fence.unread();
            if files.is_empty() {
                break;
            }
            let digests: Vec<Digest> = files.iter().map(|file| file.digest).collect();
            let batch = self.ports.objects.gather(&digests, MAX_FDS)?;
            let fds = batch.files.into_iter().map(Into::into).collect();
            let request = Request::ReadCalled { files, goals: fence.goals(), located: batch.located };
            let spare = self.spare.clone();
            let cell = match &spare {
                Some(cell) => Arc::clone(cell),
                None => {
                    cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None)
                        .await?
                }
            };
            let reply = cells::ask(cell.as_ref(), &request, fds).await;
            if spare.is_none() {
                self.see_off(cell);
            }
            let Reply::Called { names } = reply? else {
                return Err(cells::unexpected("the files of a check"));
            };
            fence.learn_called(&names);
            self.called.push(names);
        }
        if !self.called.is_empty() {
            self.remember(&key, &self.called).await;
        }
        Ok(fence)
    }

    /// The guest's reading depends on the base and the checks' commands.
    fn called_key(&self, base: &Manifest) -> Result<Digest, Fail> {
        let commands: Vec<&[String]> =
            self.contract.checks.iter().map(|check| check.argv.as_slice()).collect();
        let key = json!({
            "what": "called",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": countersign_guest::protocol::GUEST_PROTOCOL,
            "tree": base.digest(),
            "commands": commands,
            "scope": self.contract.scope,
        });
        let bytes = canonical_json(&key).map_err(|e| Fail::because(Reason::Config, e.to_string()))?;
        Ok(Digest::of(&bytes))
    }

    pub(crate) fn facts(&self) -> Result<BaseFacts, Fail> {
        self.base.clone().ok_or_else(|| Fail::because(Reason::CheckpointLost, "the base tree is not known"))
    }

    pub(crate) fn scratch(&self) -> Result<Arc<ScratchRules>, Fail> {
        Ok(self.facts()?.scratch)
    }

    pub(crate) fn base_digest(&self) -> Result<Digest, Fail> {
        Ok(self.facts()?.tree.digest())
    }
}

fn offered(contract: &Contract) -> Vec<Schema> {
    countersign_tools::offered(prompt::read_only(contract), !contract.checks.is_empty(), contract.repro_first)
}

/// The tools that an agent under such a contract is given by this version, for the contract to name them.
#[must_use]
pub fn tools(contract: &Contract) -> Vec<ToolName> {
    if contract.candidate.is_some() {
        return Vec::new();
    }
    offered(contract).iter().map(|schema| schema.tool).collect()
}

/// What a turn needs to go on is not there.
fn not_restored(fail: Fail) -> EngineError {
    match fail {
        Fail::Interrupted => EngineError::Bug("interrupted before anything began".to_owned()),
        Fail::Failed { failure, message } => EngineError::NotRestored { reason: failure.reason, message },
    }
}
