//! The effect boundary: the only place that acts. One function per kind of effect, each total: a result, a typed
//! failure, or an interruption.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_cell::Cell;
use countersign_gates::{CheckDecision, FeedbackItem, Fence, job_env};
use countersign_guest::protocol::{MAX_FDS, PatchChange, Reply, Request, ToolBounds, WriteGuard};
use countersign_kernel::contract::Contract;
use countersign_kernel::{
    EffectFailure, EffectKind, EffectResult, Event, Intent, JobSummary, ModelStop, PlannedCall, ReceiptBody,
    Reservation, Session, Step, ToolName, Turn, Usage,
};
use countersign_llm::{
    Conversation, ErrorClass, Reply as ModelReply, RetryPolicy, SendError, Stop as ModelEnd, ToolSchema,
};
use countersign_tools::{Parsed, Schema, ToolCallSpec};
use countersign_tree::{Change, Delta, Durability, Manifest, ScratchRules};
use countersign_types::{
    CheckIndex, Digest, EffectId, GateStatus, JobEnd, JobReceipt, Millis, Mount, Reason, canonical_json,
};
use futures::future::{BoxFuture, join, join_all};
use serde_json::json;

use crate::Trace;
use crate::cells::{self, Fail};
use crate::edited;
use crate::error::EngineError;
use crate::journal::Journal;
use crate::ports::Ports;
use crate::prompt;
use crate::stop::Stop;
use crate::transcript::{Transcript, call_index, rebuild};

/// The output clamp of a call where the contract names none; what a reservation counts.
const DEFAULT_OUTPUT_TOKENS: u64 = 8192;

/// Bytes of request text per token at the least: a reservation must not be too small.
const BYTES_PER_TOKEN: u64 = 3;

/// Name of the patch below the session's directory.
pub(crate) const PATCH_FILE: &str = "patch.diff";

/// One effect's receipt with the texts that go beside it.
pub(crate) struct Done {
    pub(crate) effect: EffectId,
    pub(crate) body: ReceiptBody,
    pub(crate) named: Vec<(&'static str, Vec<u8>)>,
}

pub(crate) struct Performed {
    pub(crate) receipts: Vec<Done>,
    pub(crate) feedback: Option<String>,
}

pub(crate) type Named = Vec<(&'static str, Vec<u8>)>;
type Outcome = Result<(EffectResult, Named), Fail>;

/// Prepares the agent's private repository while the model thinks.
type PrivateGit = BoxFuture<'static, Result<(), Fail>>;

/// What a driver holds in memory: everything here can be made again from the journal and the object store.
pub(crate) struct Workshop<'p> {
    pub(crate) ports: &'p Ports,
    pub(crate) contract: Contract,
    task: String,
    offered: Vec<Schema>,
    names: Vec<ToolName>,
    transcript: Option<Transcript>,
    encoded: BTreeMap<EffectId, Arc<[u8]>>,
    calls: BTreeMap<EffectId, ToolCallSpec>,
    replies: BTreeMap<EffectId, ModelReply>,
    results: BTreeMap<EffectId, (String, bool)>,
    pub(crate) working: Option<Arc<dyn Cell>>,
    /// A working cell that the base was imported into and that nothing has used yet.
    pub(crate) spare: Option<Arc<dyn Cell>>,
    /// Cells that are being ended while the next effect runs.
    closing: Vec<BoxFuture<'static, ()>>,
    private_git: Option<PrivateGit>,
    trees: BTreeMap<Digest, Arc<Manifest>>,
    pub(crate) layers: Vec<Mount>,
    base: Option<BaseFacts>,
    judged: Vec<(CheckIndex, CheckDecision, JobReceipt)>,
    feedback: Option<String>,
}

/// What is derived once from the base tree.
#[derive(Clone)]
struct BaseFacts {
    tree: Arc<Manifest>,
    scratch: Arc<ScratchRules>,
    guard: Arc<WriteGuard>,
    sentence: Option<String>,
}

impl<'p> Workshop<'p> {
    pub(crate) async fn new(
        ports: &'p Ports,
        journal: &Journal,
        events: &[(u64, Event)],
    ) -> Result<Workshop<'p>, EngineError> {
        let contract = journal.session.contract.clone();
        let offered = countersign_tools::offered(prompt::read_only(&contract), !contract.checks.is_empty());
        let mut shop = Workshop {
            ports,
            names: offered.iter().map(|schema| schema.tool).collect(),
            offered,
            layers: cells::layer_mounts(&contract),
            task: String::from_utf8_lossy(&journal.input).into_owned(),
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
            judged: Vec::new(),
            feedback: None,
        };
        let turn = journal.session.turn.as_ref();
        if let Some(base) = turn.and_then(|turn| turn.base.as_ref())
            && turn.is_some_and(|turn| turn.ending.is_none())
        {
            shop.learn_base(base.tree).map_err(not_restored)?;
            if turn.is_some_and(|turn| turn.environment.is_some()) {
                shop.restore_setup(journal.session.turn.as_ref()).await.map_err(not_restored)?;
            }
            let opening = shop.opening();
            let transcript =
                rebuild(ports.store.as_ref(), ports.provider.as_ref(), &journal.id, events, opening).await?;
            shop.restore_calls(turn, &transcript);
            shop.transcript = Some(transcript);
        }
        Ok(shop)
    }

    /// After a resume: the calls of the last reply that are still to be carried out.
    fn restore_calls(&mut self, turn: Option<&Turn>, transcript: &Transcript) {
        let Some(turn) = turn else { return };
        for (index, _) in (0_u32..).zip(&turn.calls) {
            if let Some(call) = transcript.call(index) {
                let spec = countersign_tools::parse(&call.name, &call.arguments, &self.names);
                for attempt in 0..=turn.tries.get(&(turn.step, index + 1)).copied().unwrap_or(0) {
                    let effect = EffectId { turn: turn.id, step: turn.step, slot: index + 1, attempt };
                    self.calls.insert(effect, spec.clone());
                }
            }
        }
    }

    /// Ends every cell. Nothing that this process started is left.
    pub(crate) async fn close(&mut self) {
        self.private_git = None;
        for cell in [self.working.take(), self.spare.take()].into_iter().flatten() {
            self.see_off(cell);
        }
        join_all(std::mem::take(&mut self.closing)).await;
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

    fn opening(&self) -> String {
        let empty = Manifest::default();
        let base = self.base.as_ref().map_or(&empty, |facts| facts.tree.as_ref());
        let sentence = self.base.as_ref().and_then(|facts| facts.sentence.as_deref());
        prompt::opening(&self.contract, &self.task, base, sentence)
    }

    fn transcript(&mut self) -> &mut Transcript {
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

    // ---- before the act ---------------------------------------------------------------------------------------

    /// Makes requests ready: their bytes are what the intent is bound to.
    pub(crate) fn prepare(&mut self, journal: &Journal, steps: &[Step]) -> Result<Vec<Intent>, EngineError> {
        let Some(turn) = &journal.session.turn else {
            return Err(EngineError::Bug("there is no turn to prepare for".to_owned()));
        };
        steps.iter().map(|step| self.prepare_one(turn, *step)).collect()
    }

    fn prepare_one(&mut self, turn: &Turn, step: Step) -> Result<Intent, EngineError> {
        let Step { effect, kind } = step;
        let (request, reserve) = match kind {
            EffectKind::ModelCall => {
                let conversation = self.conversation();
                let bytes = self
                    .ports
                    .provider
                    .encode(&conversation)
                    .map_err(|e| EngineError::Bug(format!("the request cannot be written: {e}")))?;
                let output = self.contract.model.max_output_tokens.map_or(DEFAULT_OUTPUT_TOKENS, u64::from);
                let tokens = (bytes.len() as u64 / BYTES_PER_TOKEN).saturating_add(output);
                let digest = Digest::of(&bytes);
                self.encoded.insert(effect, bytes.into());
                (digest, Reservation { tokens })
            }
            EffectKind::Tool { .. } => {
                let spec = self.spec_of(turn, effect)?;
                (spec.planned.arguments, Reservation::default())
            }
            _ => (self.request_digest(turn, kind)?, Reservation::default()),
        };
        Ok(Intent { effect, kind, request, reserve })
    }

    fn spec_of(&mut self, turn: &Turn, effect: EffectId) -> Result<ToolCallSpec, EngineError> {
        if let Some(spec) = self.calls.get(&effect) {
            return Ok(spec.clone());
        }
        let names = self.names.clone();
        let call = self.transcript().call(call_index(effect)).cloned();
        let Some(call) = call else {
            return Err(EngineError::Bug(format!("the call of {effect} is not in the transcript")));
        };
        let spec = countersign_tools::parse(&call.name, &call.arguments, &names);
        if turn.call_of(effect).is_some_and(|planned| planned.arguments != spec.planned.arguments) {
            return Err(EngineError::Bug(format!("the call of {effect} is not the one that was planned")));
        }
        self.calls.insert(effect, spec.clone());
        Ok(spec)
    }

    /// What an effect without bytes of its own is bound to: its kind, the terms, and the tree that it works on.
    fn request_digest(&self, turn: &Turn, kind: EffectKind) -> Result<Digest, EngineError> {
        let contract = self.contract.digest().map_err(|e| EngineError::Bug(e.to_string()))?;
        let tree = turn.sealed.map(|sealed| sealed.tree).or(turn.head);
        let request = json!({ "kind": kind, "contract": contract, "tree": tree });
        let bytes = canonical_json(&request).map_err(|e| EngineError::Bug(e.to_string()))?;
        Ok(Digest::of(&bytes))
    }

    fn conversation(&mut self) -> Conversation {
        let tools = self
            .offered
            .iter()
            .map(|schema| ToolSchema {
                name: schema.tool.as_str().to_owned(),
                description: schema.description.to_owned(),
                parameters: schema.parameters.clone(),
            })
            .collect();
        Conversation {
            system: prompt::system(&self.contract),
            tools,
            messages: self.transcript().messages().to_vec(),
            max_output_tokens: self.contract.model.max_output_tokens,
            effort: None,
        }
    }

    // ---- after the commit -------------------------------------------------------------------------------------

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
            Event::EffectDenied { effect, capability, .. } => {
                self.transcript().result(call_index(*effect), countersign_tools::denied(*capability), false);
            }
            Event::AttemptReturned { .. } => {
                self.judged.clear();
                if let Some(text) = feedback {
                    self.transcript().feedback(text.to_owned());
                }
            }
            _ => {}
        }
    }

    // ---- the act ----------------------------------------------------------------------------------------------

    /// Carries effects out in slot order. After a stop the rest is interrupted, not begun.
    pub(crate) async fn perform(
        &mut self,
        session: &Session,
        effects: &[EffectId],
        stop: &Stop,
    ) -> Performed {
        let mut receipts = Vec::with_capacity(effects.len());
        for effect in effects {
            let Some(turn) = &session.turn else { break };
            let Some(outstanding) = turn.outstanding.get(effect) else { continue };
            let outcome = if stop.is_set() {
                Err(Fail::Interrupted)
            } else {
                let closing = join_all(std::mem::take(&mut self.closing));
                join(self.act(session, turn, *effect, outstanding.kind, stop), closing).await.0
            };
            receipts.push(match outcome {
                Ok((result, named)) => Done { effect: *effect, body: ReceiptBody::Done(result), named },
                Err(Fail::Interrupted) => {
                    Done { effect: *effect, body: ReceiptBody::Interrupted, named: Vec::new() }
                }
                Err(Fail::Failed { failure, message }) => {
                    let message = self.ports.redactor.redact_str(&message).into_owned();
                    Done {
                        effect: *effect,
                        body: ReceiptBody::Failed(failure),
                        named: vec![("message", message.into_bytes())],
                    }
                }
            });
        }
        Performed { receipts, feedback: self.feedback.take() }
    }

    async fn act(
        &mut self,
        session: &Session,
        turn: &Turn,
        effect: EffectId,
        kind: EffectKind,
        stop: &Stop,
    ) -> Outcome {
        match kind {
            EffectKind::Import => stop.or(self.import()).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::Setup => self.setup(turn, stop).await,
            EffectKind::Probe => self.probe(turn, stop).await,
            EffectKind::BaseRun { check } => self.base_run(turn, check, stop).await,
            EffectKind::Open => stop.or(self.open(turn)).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::ModelCall => {
                let outcome = self.model_call(turn, effect, stop).await;
                if let Some(text) = self.replies.get(&effect).and_then(|reply| reply.text.as_deref()) {
                    self.ports.observer.see(session, Trace::Said { step: effect.step, text });
                }
                outcome
            }
            EffectKind::Tool { tool } => self.traced_tool(session, turn, effect, tool, stop).await,
            EffectKind::Seal => self.seal(turn).await,
            EffectKind::Inspect => stop.or(self.inspect(turn)).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::Room { check } => self.room(turn, check, stop).await,
            EffectKind::Patch => stop.or(self.patch(turn)).await.unwrap_or(Err(Fail::Interrupted)),
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
    pub(crate) fn learn_base(&mut self, digest: Digest) -> Result<(), Fail> {
        let tree = self.tree(digest)?;
        let objects = Arc::clone(&self.ports.objects);
        let read = |digest: &Digest| objects.read(digest).map_err(std::io::Error::other);
        let rules = ScratchRules::for_base(Vec::new(), &tree, read)
            .map_err(|e| Fail::because(Reason::Repository, e.to_string()))?;
        let fenced = !self.contract.checks.is_empty() || !self.contract.protect.is_empty();
        let (guard, sentence) = if fenced {
            let fence = self.fence(&tree)?;
            (fence.write_guard(&self.contract.scope), Some(fence.sentence(&self.contract.scope)))
        } else {
            (WriteGuard { scope: self.contract.scope.clone(), ..WriteGuard::default() }, None)
        };
        let sentence = sentence.filter(|_| !prompt::read_only(&self.contract));
        self.base = Some(BaseFacts { tree, scratch: Arc::new(rules), guard: Arc::new(guard), sentence });
        Ok(())
    }

    fn fence(&self, base: &Manifest) -> Result<Fence, Fail> {
        Fence::new(&self.contract.protect, &self.contract.checks, base)
            .map_err(|e| Fail::because(Reason::Config, e.to_string()))
    }

    fn facts(&self) -> Result<BaseFacts, Fail> {
        self.base.clone().ok_or_else(|| Fail::because(Reason::CheckpointLost, "the base tree is not known"))
    }

    pub(crate) fn scratch(&self) -> Result<Arc<ScratchRules>, Fail> {
        Ok(self.facts()?.scratch)
    }

    pub(crate) fn base_digest(&self) -> Result<Digest, Fail> {
        Ok(self.facts()?.tree.digest())
    }

    /// The working cell with the latest checkpoint in it.
    async fn open(&mut self, turn: &Turn) -> Outcome {
        if let Some(old) = self.working.take() {
            self.see_off(old);
        }
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let tree = self.tree(head)?;
        let base = self.facts()?.tree;
        let commit = turn.base.as_ref().and_then(|base| base.commit.clone());
        let from_git = commit.is_some();
        // The private repository shows the base; what the checkpoint changed on top of it shows as a change.
        let resumed = head != base.digest();
        let cell = match self.spare.take() {
            Some(cell) if !resumed => cell,
            spare => {
                if let Some(spare) = spare {
                    self.see_off(spare);
                }
                let cell = self.open_working(from_git).await?;
                let first = if resumed { &base } else { &tree };
                cells::materialise(cell.as_ref(), &self.ports.objects, first).await?;
                cell
            }
        };
        self.working = Some(Arc::clone(&cell));
        let git = Request::InitPrivateGit {
            git_dir: from_git.then(|| cells::git_dir(self.ports, self.ports.cells.working.tier())),
            commit,
        };
        if resumed {
            cells::ask(cell.as_ref(), &git, Vec::new()).await?;
            cells::materialise(cell.as_ref(), &self.ports.objects, &tree).await?;
        } else if !prompt::read_only(&self.contract) {
            let cell = Arc::clone(&cell);
            self.private_git =
                Some(Box::pin(async move { cells::ask(cell.as_ref(), &git, Vec::new()).await.map(|_| ()) }));
        }
        let observed = cell.observation().properties.clone();
        Ok((EffectResult::Open { tier: self.ports.cells.working.tier(), observed }, Vec::new()))
    }

    /// Waits for the private repository before anything else may use the cell.
    async fn ready(&mut self) -> Result<Arc<dyn Cell>, Fail> {
        if let Some(private_git) = self.private_git.take() {
            private_git.await?;
        }
        self.working.clone().ok_or_else(|| Fail::because(Reason::CellDied, "the working cell is gone"))
    }

    async fn model_call(&mut self, turn: &Turn, effect: EffectId, stop: &Stop) -> Outcome {
        let request = match self.encoded.get(&effect) {
            Some(bytes) => Arc::clone(bytes),
            None => return Err(Fail::because(Reason::CellDied, "the request's bytes are gone")),
        };
        // Counted from 0, this one included.
        let number = turn.budget.model_calls.saturating_sub(1);
        let provider = Arc::clone(&self.ports.provider);
        let mut git = self.private_git.take();
        let meanwhile = async {
            let Some(pending) = git.as_mut() else { return Ok(()) };
            let made = pending.await;
            git = None;
            made
        };
        // The repository is made while the model thinks; its failure is the cell's.
        let both = join(provider.send(number, request), meanwhile);
        let Some((sent, made)) = stop.or(both).await else {
            // The guest may be in the middle of a request. Who uses the cell next, after a deadline, waits for its end.
            self.private_git = git;
            return Err(Fail::Interrupted);
        };
        made?;
        match sent {
            Ok(reply) => self.replied(turn, effect, number, &reply),
            Err(error) => Err(self.not_sent(turn, &error)),
        }
    }

    fn replied(&mut self, turn: &Turn, effect: EffectId, number: u64, reply: &ModelReply) -> Outcome {
        // Redacted once, at the source: transcript, journal and replay see the same bytes.
        let raw = self.ports.redactor.redact(&reply.raw).into_owned();
        let reply = self
            .ports
            .provider
            .decode(number, &raw)
            .map_err(|e| self.not_sent(turn, &SendError::new(ErrorClass::BadResponse, &e.message)))?;
        let names = self.names.clone();
        let specs: Vec<ToolCallSpec> = reply
            .calls
            .iter()
            .map(|call| countersign_tools::parse(&call.name, &call.arguments, &names))
            .collect();
        let text = reply.text.clone().unwrap_or_default();
        let usage = Usage {
            input: reply.usage.input,
            output: reply.usage.output,
            cached: reply.usage.cached,
            reasoning: reply.usage.reasoning,
        };
        let stop = match &reply.stop {
            ModelEnd::Refusal | ModelEnd::ContentFilter => ModelStop::Declined,
            ModelEnd::Length => ModelStop::Length,
            ModelEnd::End | ModelEnd::ToolCalls | ModelEnd::Other(_) => ModelStop::Ordinary,
        };
        let calls: Vec<PlannedCall> = specs.iter().map(|spec| spec.planned).collect();
        let listed: Vec<String> =
            specs.iter().map(|spec| format!("{} {}", spec.planned.tool, spec.summary)).collect();
        let mut named = vec![("reply", raw)];
        if !text.is_empty() {
            named.push(("text", text.clone().into_bytes()));
        }
        if !listed.is_empty() {
            named.push(("calls", listed.join("\n").into_bytes()));
        }
        if let Some(summary) = specs.iter().find_map(|spec| match &spec.parsed {
            Parsed::Finish { summary } => Some(summary.clone()),
            _ => None,
        }) {
            named.push(("summary", summary.into_bytes()));
        }
        self.replies.insert(effect, reply.clone());
        let result = EffectResult::ModelCall {
            usage,
            cost: reply.cost,
            stop,
            calls,
            text_bytes: text.trim().len() as u64,
        };
        Ok((result, named))
    }

    fn not_sent(&self, turn: &Turn, error: &SendError) -> Fail {
        let policy =
            RetryPolicy { max_retries: self.contract.limits.model_retries, ..RetryPolicy::default() };
        let seed = self.ports.ids.bytes();
        let jitter =
            u64::from_le_bytes([seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], seed[6], seed[7]]);
        let failures = turn.retries.saturating_add(1);
        let reason = match error.class {
            ErrorClass::Auth => Reason::Auth,
            ErrorClass::RateLimit => Reason::RateLimit,
            ErrorClass::QuotaExhausted => Reason::QuotaExhausted,
            ErrorClass::Overloaded => Reason::Overloaded,
            ErrorClass::Transport => Reason::Transport,
            ErrorClass::BadResponse => Reason::BadResponse,
            ErrorClass::ContextOverflow => Reason::Context,
            ErrorClass::Refused => Reason::Declined,
        };
        let failure = EffectFailure {
            reason,
            retry_after: policy.next_after(error, failures, jitter),
            reset_at: error.reset_at,
            billed: error.maybe_billed,
        };
        Fail::Failed { failure, message: error.message.clone() }
    }

    async fn traced_tool(
        &mut self,
        session: &Session,
        turn: &Turn,
        effect: EffectId,
        tool: ToolName,
        stop: &Stop,
    ) -> Outcome {
        let began = self.ports.clock.now();
        let spec = self.spec_of(turn, effect).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
        let summary = self.ports.redactor.redact_str(&spec.summary).into_owned();
        self.ports.observer.see(session, Trace::Call { effect, tool, summary: &summary });
        let outcome = self.tool(turn, effect, tool, stop).await;
        if let Ok((EffectResult::Tool { ok, .. }, _)) = &outcome {
            let wall: Millis = self.ports.clock.now().saturating_sub(began);
            let text = self.results.get(&effect).map(|(text, _)| text.as_str()).unwrap_or_default();
            let summary = text.lines().next().unwrap_or_default();
            self.ports.observer.see(session, Trace::Result { effect, tool, ok: *ok, summary, wall });
        }
        outcome
    }

    async fn tool(&mut self, turn: &Turn, effect: EffectId, tool: ToolName, stop: &Stop) -> Outcome {
        let spec = self.spec_of(turn, effect).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
        let (text, ok, refused, job, wrote) = match &spec.parsed {
            Parsed::Invalid { why } => (format!("error: {why}"), false, true, None, false),
            Parsed::Finish { .. } => {
                ("The work ends here and is judged as it is.".to_owned(), true, false, None, false)
            }
            Parsed::Check => self.check_call(turn, stop).await?,
            Parsed::File(call) => {
                let cell = self.ready().await?;
                let BaseFacts { tree, guard, .. } = self.facts()?;
                let workspace = cells::paths(cell.as_ref()).workspace;
                let side = edited::Side::of(call, &workspace, &guard, &tree, &self.ports.objects)?;
                let request = Request::Tool {
                    call: call.clone(),
                    bounds: ToolBounds::DEFAULT,
                    guard: guard.as_ref().clone(),
                    base: side.base,
                    located: side.located,
                };
                let Reply::Tool(reply) = cells::ask(cell.as_ref(), &request, side.fds).await? else {
                    return Err(cells::unexpected("a tool call"));
                };
                (reply.text, reply.ok, reply.refused, None, reply.wrote)
            }
            Parsed::Run { command, timeout } => {
                let cell = self.ready().await?;
                let limit = self.contract.limits.command_timeout;
                let wall = timeout.map_or(limit, |asked| asked.min(limit));
                let argv = vec!["sh".to_owned(), "-c".to_owned(), command.clone()];
                let paths = cells::paths(cell.as_ref());
                let env = job_env(&self.contract.environment, &paths);
                let job = cells::job(self.ports, argv, paths.workspace, env, wall)?;
                let receipt = cells::run_job(cell.as_ref(), job, stop).await?;
                let ok = matches!(receipt.end, JobEnd::Exited { code: 0 });
                (countersign_tools::job_result(&receipt), ok, false, Some(summary_of(&receipt.end)), true)
            }
        };
        let text = self.ports.redactor.redact_str(&text).into_owned();
        // Whatever may have written leaves a checkpoint that is durable before this effect's completion.
        let tree = if wrote && tool.may_write() { Some(self.checkpoint(turn).await?) } else { None };
        let result = EffectResult::Tool { ok, refused, tree, output_bytes: text.len() as u64, job };
        self.results.insert(effect, (text.clone(), ok));
        Ok((result, vec![("result", text.into_bytes())]))
    }

    async fn checkpoint(&mut self, turn: &Turn) -> Result<Digest, Fail> {
        let cell = self.ready().await?;
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let before = self.tree(head)?;
        let scratch = self.scratch()?;
        let (sealed, tree) =
            cells::seal(cell.as_ref(), &self.ports.objects, &before, &scratch, false).await?;
        self.keep(sealed.tree, tree);
        Ok(sealed.tree)
    }

    /// The `check` tool: every check on the latest checkpoint. It grants nothing.
    async fn check_call(
        &mut self,
        turn: &Turn,
        stop: &Stop,
    ) -> Result<(String, bool, bool, Option<JobSummary>, bool), Fail> {
        if self.contract.checks.is_empty() {
            return Ok((countersign_tools::check_refused(), false, true, None, false));
        }
        self.ready().await?;
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let mut items = Vec::new();
        for index in 0..self.contract.checks.len() {
            let check = CheckIndex(u32::try_from(index).unwrap_or(u32::MAX));
            let (decision, receipt, _) = self.judge(turn, head, check, stop).await?;
            let red = decision.status != GateStatus::Passed;
            items.push((check, decision, receipt));
            if red {
                break;
            }
        }
        let ok = items.iter().all(|(_, decision, _)| decision.status == GateStatus::Passed);
        Ok((self.feedback_of(&items), ok, false, None, false))
    }

    fn feedback_of(&self, items: &[(CheckIndex, CheckDecision, JobReceipt)]) -> String {
        let items: Vec<FeedbackItem<'_>> = items
            .iter()
            .filter_map(|(check, decision, receipt)| {
                let terms = self.contract.checks.get(usize::try_from(check.0).ok()?)?;
                Some(FeedbackItem { terms, decision, receipt })
            })
            .collect();
        countersign_gates::feedback(&items)
    }

    /// The verdict seal. No job is alive: a job ends with its command, and this driver runs one at a time.
    async fn seal(&mut self, turn: &Turn) -> Outcome {
        let cell = self.ready().await?;
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let before = self.tree(head)?;
        let scratch = self.scratch()?;
        let (sealed, tree) = cells::seal(cell.as_ref(), &self.ports.objects, &before, &scratch, true).await?;
        let detail = json!({
            "unsealable": sealed.unsealable,
            "normalised": sealed.normalised,
            "not_delivered": sealed.scratch,
        });
        let mut named = vec![("seal", detail.to_string().into_bytes())];
        if sealed.unsealable.is_empty() {
            self.keep(sealed.tree, tree);
            if let Some(cell) = self.working.take() {
                cell.end(true).await?;
            }
        } else {
            let text = format!(
                "These paths cannot be part of the result (a nested .git, a pipe, a socket, a device, or a name that a \
                 patch cannot carry): {}. Remove them or replace them by ordinary files, then finish again.",
                sealed.unsealable.join(", ")
            );
            named.push(("detail", text.clone().into_bytes()));
            self.feedback = Some(text);
        }
        let unsealable = sealed.unsealable.len() as u64;
        Ok((EffectResult::Seal { tree: sealed.tree, unsealable }, named))
    }

    /// Fence and scope over everything that differs from the base.
    async fn inspect(&mut self, turn: &Turn) -> Outcome {
        let base = self.facts()?.tree;
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changes = base.changes_to(&tree);
        let armed = !self.contract.checks.is_empty() || !self.contract.protect.is_empty();
        let decision = if armed { Some(self.judge_fence(&base, &changes).await?) } else { None };
        let outside = countersign_gates::scope_violations(&changes, &self.contract.scope)
            .map_err(|e| Fail::because(Reason::Config, e.to_string()))?;
        let outside: Vec<String> = outside.iter().map(ToString::to_string).collect();
        let scope = match (self.contract.scope.is_empty(), outside.is_empty()) {
            (true, _) => GateStatus::Absent,
            (false, true) => GateStatus::Passed,
            (false, false) => GateStatus::Failed,
        };
        let mut named = Vec::new();
        if let Some(decision) = &decision {
            named.push(("detail", decision.detail.clone().into_bytes()));
            let findings = serde_json::to_vec(&decision.findings).unwrap_or_default();
            named.push(("findings", findings));
        }
        if !outside.is_empty() {
            named.push(("scope", outside.join("\n").into_bytes()));
        }
        if changes.is_empty() {
            let text = "Nothing was changed, and this task asks for a change.";
            self.feedback = Some(text.to_owned());
        }
        let result = EffectResult::Inspect {
            fence: decision.as_ref().map_or(GateStatus::Absent, |d| d.status),
            fence_reason: decision.as_ref().and_then(|d| d.reason),
            scope,
            findings: decision.as_ref().map_or(0, |d| d.findings.len() as u64),
            out_of_scope: outside.len() as u64,
            changed: changes.len() as u64,
        };
        Ok((result, named))
    }

    async fn judge_fence(
        &mut self,
        base: &Manifest,
        changes: &[Change],
    ) -> Result<countersign_gates::GateDecision, Fail> {
        let plan = self.fence(base)?.judge(changes);
        if plan.scan.is_empty() {
            return Ok(plan.conclude(Ok(Vec::new())));
        }
        let digests: Vec<Digest> =
            plan.scan.iter().flat_map(|file| [file.before, file.after]).flatten().collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS)?;
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let request = Request::ScanFence { files: plan.scan.clone(), located: batch.located };
        let fds = batch.files.into_iter().map(Into::into).collect();
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        // A parser that failed or was taken over says nothing: the gate is unverifiable, never passed.
        let scanned = match reply {
            Ok(Reply::Fence { findings }) => Ok(findings),
            Ok(_) => Err("the scanner gave another kind of answer".to_owned()),
            Err(Fail::Failed { failure, message }) if failure.reason == Reason::DiskFull => {
                return Err(Fail::because(Reason::DiskFull, message));
            }
            Err(Fail::Failed { message, .. }) => Err(message),
            Err(Fail::Interrupted) => return Err(Fail::Interrupted),
        };
        Ok(plan.conclude(scanned))
    }

    async fn room(&mut self, turn: &Turn, check: CheckIndex, stop: &Stop) -> Outcome {
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let (decision, receipt, observed) = self.judge(turn, sealed.tree, check, stop).await?;
        let named = vec![
            ("detail", decision.detail.clone().into_bytes()),
            ("stdout", cells::kept(&receipt.stdout)),
            ("stderr", cells::kept(&receipt.stderr)),
        ];
        let result = EffectResult::Room {
            status: decision.status,
            reason: decision.reason,
            strength: decision.strength,
            job: summary_of(&receipt.end),
            observed,
        };
        let red = decision.status != GateStatus::Passed;
        self.judged.push((check, decision, receipt));
        if red {
            self.feedback = Some(self.feedback_of(&self.judged));
        }
        Ok((result, named))
    }

    async fn patch(&mut self, turn: &Turn) -> Outcome {
        let base = self.facts()?.tree;
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changes: Vec<PatchChange> = base
            .changes_to(&tree)
            .into_iter()
            .map(|change| PatchChange { path: change.path, before: change.before, after: change.after })
            .collect();
        let digests: Vec<Digest> =
            changes.iter().flat_map(|c| [&c.before, &c.after]).flatten().map(|entry| entry.digest).collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS - 1)?;
        let segment = self.ports.objects.new_segment()?;
        let mut fds = vec![cells::lend(&segment)?];
        fds.extend(batch.files.into_iter().map(Into::into));
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let request = Request::MakePatch { changes, located: batch.located };
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        let Reply::Patch { bytes, digest } = reply? else { return Err(cells::unexpected("a patch")) };
        let located = [countersign_tree::Located { digest, segment: 0, offset: 0, len: bytes }];
        self.ports.objects.adopt(segment, &located, Durability::Sync)?;
        let patch = self.ports.objects.read(&digest)?;
        let mut named = Vec::new();
        if let Err(why) = self.ports.artifacts.write(PATCH_FILE, patch.clone()).await {
            named.push((
                "degraded",
                format!("the patch could not be written to {PATCH_FILE}: {why}").into_bytes(),
            ));
        }
        named.push(("patch", patch));
        Ok((EffectResult::Patch { patch: digest, bytes }, named))
    }
}

/// How a job ended, without its output.
pub(crate) const fn summary_of(end: &JobEnd) -> JobSummary {
    match end {
        JobEnd::Exited { code } => JobSummary::Exited { code: *code },
        JobEnd::Signaled { signal } => JobSummary::Signaled { signal: *signal },
        JobEnd::Limit { .. } => JobSummary::Limited,
        JobEnd::Canceled => JobSummary::Canceled,
        JobEnd::NotStarted { .. } => JobSummary::NotStarted,
    }
}

/// The digest of a difference, or None when there is none.
pub(crate) fn drift(delta: &Delta) -> Result<Option<Digest>, Fail> {
    if delta.is_empty() {
        return Ok(None);
    }
    let bytes = canonical_json(delta).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
    Ok(Some(Digest::of(&bytes)))
}

/// What a turn needs to go on is not there.
fn not_restored(fail: Fail) -> EngineError {
    match fail {
        Fail::Interrupted => EngineError::Bug("interrupted before anything began".to_owned()),
        Fail::Failed { failure, message } => EngineError::NotRestored { reason: failure.reason, message },
    }
}
