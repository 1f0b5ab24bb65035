//! A session as its journal tells it, for results, lists and reports. Built from the store alone, so that a running
//! turn, an ended one and one that another process ran look the same.

use std::collections::BTreeMap;

use countersign_gates::{Allowed, CheckEvidence, Claim};
use countersign_guest::protocol::HygieneFinding;
use countersign_kernel::{EffectKind, EffectResult, EndPath, Event, Finding, PatchState, Session, Usage};
use countersign_store::{Store, StoredEvent};
use countersign_types::{
    Digest, EffectId, GateKey, GateStatus, Millis, Money, Outcome, Reason, SessionId, Strength, Tier,
    TierProperties, TurnId,
};
use serde::Deserialize;

use crate::attempts::{AttemptView, attempts};
use crate::changed::Changes;
use crate::error::EngineError;
use crate::hygiene::Looked;
use crate::journal::{read_event, replay};
use crate::mutants::Mutants;
use crate::perform::PATCH_FILE;
use crate::second::{self, ReproView, ReviewView};

/// Everything that the result object of a turn says.
#[derive(Clone, Debug)]
pub struct View {
    pub id: SessionId,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// None for a run that was refused before it had a contract.
    pub session: Option<Session>,
    pub turn: TurnId,
    /// The task text. Redacted.
    pub input: String,
    /// None while the turn is not over; a parked turn shows `parked`.
    pub outcome: Option<(Outcome, Reason)>,
    /// The agent's last text or the summary of its `finish`. Redacted; hostile.
    pub answer: Option<String>,
    pub strength: Option<Strength>,
    pub gates: BTreeMap<GateKey, GateView>,
    pub base_tree: Option<Digest>,
    pub base_commit: Option<String>,
    /// The commit of a candidate that is a revision.
    pub candidate_commit: Option<String>,
    /// The sealed tree, else the latest checkpoint.
    pub tree: Option<Digest>,
    pub patch: Option<PatchView>,
    /// What differs from the base; None where that was not looked at.
    pub changes: Option<Changes>,
    /// Scratch beside the sealed tree: not judged and not delivered. Paths with their bytes, at most 100. Hostile.
    pub not_delivered: Vec<(String, u64)>,
    /// What a reviewer wants to be told of the change; None where nobody looked.
    pub findings: Option<Vec<HygieneFinding>>,
    pub usage: Usage,
    pub model_calls: u64,
    pub steps: u32,
    pub cost: Option<Money>,
    pub tier: Option<Tier>,
    pub observed: TierProperties,
    /// Each try to end, in order.
    pub attempts: Vec<AttemptView>,
    /// What did not work without changing the outcome, in our words.
    pub degraded: Vec<String>,
    pub error: Option<ErrorView>,
    pub rescued_from: Option<Reason>,
    pub reset_at: Option<Millis>,
    pub active_ms: Millis,
    /// What the agent's last words claim, beside what the journal shows. It informs and decides nothing.
    pub claims: Vec<Claim>,
    /// What the checks made of mutants, where the contract asks for it.
    pub mutants: Option<Mutants>,
    /// None where the contract names no reviewer.
    pub review: Option<ReviewView>,
    /// None where the agent settled nothing about a reproduction.
    pub repro: Option<ReproView>,
    /// What the agent was told that it did in circles.
    pub nudged: Option<Finding>,
    /// The detector that stopped the agent, whatever was judged after that.
    pub stuck: Option<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    pub status: GateStatus,
    pub reason: Option<Reason>,
    /// In our words, with paths and names escaped.
    pub detail: Option<String>,
    /// Of the check gate: what each check's verdict rests on, as far as they were judged.
    pub evidence: Vec<CheckEvidence>,
    /// What only the contract's allowances let through.
    pub allowed: Vec<Allowed>,
}

impl GateView {
    const fn bare(status: GateStatus, reason: Option<Reason>) -> Self {
        Self { status, reason, detail: None, evidence: Vec::new(), allowed: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchView {
    /// Below the session's directory.
    pub file: &'static str,
    pub digest: Digest,
    pub bytes: u64,
}

/// Why a turn ended without a verdict, for people: what happened, where, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorView {
    pub kind: Reason,
    pub message: String,
}

/// Reads a session for people. A session that was refused before it had a contract has a view too.
pub async fn view(store: &dyn Store, id: &SessionId) -> Result<View, EngineError> {
    let loaded = store.load(id).await?;
    let texts = Texts { store, id, events: &loaded.events };
    let row = &loaded.session;
    if let Some(refusal) = texts.refusal()? {
        let message = texts.text(1, "message").await?.unwrap_or_default();
        let input = texts.text(1, "input").await?.unwrap_or_default();
        return Ok(View::refused(row.id.clone(), row.created_at, refusal, input, message));
    }
    let (session, input, events) = replay(store, id, &loaded.events).await?;
    let mut view = View::empty(row.id.clone(), row.created_at, row.updated_at, session);
    view.input = String::from_utf8_lossy(&input).into_owned();
    view.fill(&events, &texts).await?;
    Ok(view)
}

/// The part of a seal's detail that a result shows.
#[derive(Default, Deserialize)]
struct SealDetail {
    #[serde(default)]
    not_delivered: Vec<(String, u64)>,
}

/// The payloads of a journal.
pub(crate) struct Texts<'a> {
    store: &'a dyn Store,
    id: &'a SessionId,
    events: &'a [StoredEvent],
}

impl Texts<'_> {
    pub(crate) async fn text(&self, seq: u64, name: &str) -> Result<Option<String>, EngineError> {
        let held = usize::try_from(seq)
            .ok()
            .and_then(|seq| self.events.get(seq.checked_sub(1)?))
            .is_some_and(|line| line.payloads.contains_key(name));
        if !held {
            return Ok(None);
        }
        match self.store.payload(self.id, seq, name).await {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(countersign_store::StoreError::PayloadDropped { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The first event of a run that was refused before it had a contract.
    fn refusal(&self) -> Result<Option<Reason>, EngineError> {
        let Some(first) = self.events.first() else { return Ok(None) };
        match read_event(first)? {
            Event::TurnEnded { reason, .. } => Ok(Some(reason)),
            _ => Ok(None),
        }
    }
}

impl View {
    fn refused(id: SessionId, at: Millis, reason: Reason, input: String, message: String) -> Self {
        let mut view = Self::nothing(id, at, at);
        view.input = input;
        view.outcome = Some((reason.outcome(), reason));
        view.error = Some(ErrorView { kind: reason, message });
        view
    }

    fn nothing(id: SessionId, created_at: Millis, updated_at: Millis) -> Self {
        let absent = GateView::bare(GateStatus::Absent, None);
        Self {
            id,
            created_at,
            updated_at,
            session: None,
            turn: TurnId(1),
            input: String::new(),
            outcome: None,
            answer: None,
            strength: None,
            gates: GateKey::ALL.iter().map(|key| (*key, absent.clone())).collect(),
            base_tree: None,
            base_commit: None,
            candidate_commit: None,
            tree: None,
            patch: None,
            changes: None,
            not_delivered: Vec::new(),
            findings: None,
            usage: Usage::default(),
            model_calls: 0,
            steps: 0,
            cost: None,
            tier: None,
            observed: TierProperties::new(),
            attempts: Vec::new(),
            degraded: Vec::new(),
            error: None,
            rescued_from: None,
            reset_at: None,
            active_ms: Millis(0),
            claims: Vec::new(),
            mutants: None,
            review: None,
            repro: None,
            nudged: None,
            stuck: None,
        }
    }

    fn empty(id: SessionId, created_at: Millis, updated_at: Millis, session: Session) -> Self {
        let mut view = Self::nothing(id, created_at, updated_at);
        let Some(turn) = &session.turn else { return view };
        view.turn = turn.id;
        view.base_tree = turn.base.as_ref().map(|base| base.tree);
        view.base_commit = turn.base.as_ref().and_then(|base| base.commit.clone());
        view.tree = turn.sealed.map(|sealed| sealed.tree).or(turn.head);
        if let PatchState::Made { digest, bytes, .. } = turn.patch {
            view.patch = Some(PatchView { file: PATCH_FILE, digest, bytes });
        }
        let budget = &turn.budget;
        view.usage = Usage {
            input: budget.input.total(),
            output: budget.output.total(),
            cached: budget.cached.total(),
            cache_write: budget.cache_write.total(),
            reasoning: budget.reasoning.total(),
        };
        view.model_calls = budget.model_calls;
        view.steps = turn.step;
        // Unknown in any part is unknown in all.
        let reviewer = turn.review.budget.cost.total();
        view.cost = budget.cost.total().zip(reviewer).map(|(a, b)| a.saturating_add(b));
        view.tier = turn.last_cell.as_ref().map(|cell| cell.tier);
        view.observed = turn.last_cell.as_ref().map(|cell| cell.observed.clone()).unwrap_or_default();
        if let Some(ending) = turn.ending {
            view.outcome = Some((ending.outcome, ending.reason));
            view.strength = ending.strength;
            view.rescued_from = ending.rescued_from;
            view.reset_at = ending.reset_at;
        } else if turn.approved_at.is_none() {
            view.outcome = Some((Outcome::Parked, Reason::Approval));
        } else if turn.drain.is_some() {
            view.outcome = Some((Outcome::Parked, Reason::Drained));
        }
        if let Some(approved) = turn.approved_at {
            view.active_ms = updated_at.saturating_sub(approved).saturating_sub(turn.idle);
        }
        view.nudged = turn.watch.nudged();
        if let Some(EndPath::Stuck { finding }) = turn.path {
            view.stuck = Some(finding);
        }
        for (key, slot) in &mut view.gates {
            let gate = turn.gate(*key, &session.contract);
            *slot = GateView::bare(gate.status, gate.reason);
        }
        view.session = Some(session);
        view
    }

    async fn fill(&mut self, events: &[(u64, Event)], texts: &Texts<'_>) -> Result<(), EngineError> {
        let completed: BTreeMap<EffectId, u64> = events
            .iter()
            .filter(|(_, event)| matches!(event, Event::EffectCompleted { .. }))
            .filter_map(|(seq, event)| Some((event.effect()?, *seq)))
            .collect();
        let gates =
            self.session.as_ref().and_then(|s| s.turn.as_ref()).map(|t| t.gates.clone()).unwrap_or_default();
        for (key, gate) in gates {
            if key == GateKey::Review
                && let Some(why) = second::why_out(gate.status, gate.by, events, texts).await?
                && let Some(view) = self.gates.get_mut(&key)
            {
                view.detail = Some(why);
            }
            let Some(seq) = gate.by.and_then(|by| completed.get(&by)) else { continue };
            let payload = if key == GateKey::Scope { "scope" } else { "detail" };
            // A gate that an effect passed needs no words of a gate that the same effect failed.
            let told = !(key == GateKey::Change || key == GateKey::Seal && gate.status == GateStatus::Passed);
            if told && let Some(view) = self.gates.get_mut(&key) {
                view.detail = texts.text(*seq, payload).await?;
                if key == GateKey::Fence {
                    let allowed = texts.text(*seq, "allowed").await?;
                    view.allowed =
                        allowed.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
                }
            }
        }
        let rooms: Vec<EffectId> = self
            .session
            .as_ref()
            .and_then(|session| session.turn.as_ref())
            .map(|turn| turn.rooms.iter().map(|room| room.by).collect())
            .unwrap_or_default();
        for seq in rooms.iter().filter_map(|by| completed.get(by)) {
            let text = texts.text(*seq, "evidence").await?;
            let evidence = text.and_then(|text| serde_json::from_str(&text).ok());
            if let Some(view) = self.gates.get_mut(&GateKey::Check) {
                view.evidence.extend(evidence);
            }
        }
        let kinds: BTreeMap<EffectId, EffectKind> = events
            .iter()
            .filter_map(|(_, event)| match event {
                Event::EffectIntended { effect, kind, .. } => Some((*effect, *kind)),
                _ => None,
            })
            .collect();
        let mut setup_detail = None;
        for (seq, event) in events {
            match event {
                Event::EffectCompleted { result: EffectResult::ModelCall { .. }, .. } => {
                    let summary = texts.text(*seq, "summary").await?.filter(|s| !s.trim().is_empty());
                    let said = match summary {
                        Some(summary) => Some(summary),
                        None => texts.text(*seq, "text").await?,
                    };
                    self.answer = said.or(self.answer.take());
                }
                Event::EffectCompleted { result: EffectResult::Import { .. }, .. } => {
                    self.degraded.extend(texts.text(*seq, "detail").await?);
                }
                Event::EffectCompleted {
                    result: EffectResult::Seal { .. } | EffectResult::Candidate { .. },
                    ..
                } => {
                    if let Event::EffectCompleted { result: EffectResult::Candidate { commit, .. }, .. } =
                        event
                    {
                        self.candidate_commit.clone_from(commit);
                    }
                    let seal = texts.text(*seq, "seal").await?.unwrap_or_default();
                    let seal: SealDetail = serde_json::from_str(&seal).unwrap_or_default();
                    self.not_delivered = seal.not_delivered;
                }
                Event::EffectCompleted { result: EffectResult::Inspect { .. }, .. } => {
                    let changes = texts.text(*seq, "changes").await?;
                    self.changes = changes.and_then(|text| serde_json::from_str(&text).ok());
                    // Where nothing was changed there is nothing to look over.
                    let nothing = self.changes.as_ref().is_some_and(|changes| changes.is_empty());
                    self.findings = nothing.then(Vec::new);
                }
                Event::EffectCompleted { result: EffectResult::Mutants { .. }, .. } => {
                    let mutants = texts.text(*seq, "mutants").await?;
                    self.mutants = mutants.and_then(|text| serde_json::from_str(&text).ok());
                }
                Event::EffectCompleted { result: EffectResult::Patch { .. }, .. } => {
                    self.degraded.extend(texts.text(*seq, "degraded").await?);
                    self.looked_over(texts.text(*seq, "hygiene").await?);
                }
                Event::EffectCompleted {
                    result:
                        EffectResult::Setup { .. } | EffectResult::Probe { .. } | EffectResult::BaseRun { .. },
                    ..
                } => setup_detail = texts.text(*seq, "detail").await?.or(setup_detail),
                Event::EffectFailed { effect, failure } => {
                    let message = texts.text(*seq, "message").await?.unwrap_or_default();
                    let patch = self.session.as_ref().and_then(|s| s.turn.as_ref()).map(|t| t.patch);
                    let kind = kinds.get(effect);
                    if kind.is_some_and(|kind| kind.reviews()) {
                        // The gate's detail says it.
                    } else if kind == Some(&EffectKind::Mutants) {
                        self.degraded.push(format!("the checks could not be tried on mutants: {message}"));
                    } else if matches!(patch, Some(PatchState::Failed { by }) if by == *effect) {
                        self.degraded.push(format!("the patch could not be made: {message}"));
                    } else {
                        self.error = Some(ErrorView { kind: failure.reason, message });
                    }
                }
                _ => {}
            }
        }
        if let Some(session) = &self.session {
            self.review = second::review(session, events, texts).await?;
            self.repro = second::repro(events, texts).await?;
        }
        if self.review.as_ref().is_some_and(|review| review.same_model) {
            self.degraded.push(
                "the reviewer is the agent's own model, which is no second opinion: name another with --review-model"
                    .to_owned(),
            );
        }
        self.claims = crate::claims::of(self, events, texts).await?;
        self.attempts = attempts(events, texts).await?;
        self.stopped_from_outside(events);
        self.settle_error(setup_detail);
        Ok(())
    }

    fn looked_over(&mut self, text: Option<String>) {
        let looked: Option<Looked> = text.and_then(|text| serde_json::from_str(&text).ok());
        let Some(Looked { findings, more }) = looked else { return };
        self.findings = Some(findings);
        if more > 0 {
            self.degraded.push(format!("{more} more findings about the change are not listed"));
        }
    }

    /// What a person did or has not done, where that is why the turn stands or ended.
    fn stopped_from_outside(&mut self, events: &[(u64, Event)]) {
        let Some((_, reason)) = self.outcome else { return };
        let id = &self.id;
        let message = match reason {
            Reason::Approval => {
                format!(
                    "session {id} waits for its approval: `countersign approve {id}` shows what that grants"
                )
            }
            Reason::Request => match events.iter().rev().nth(1) {
                Some((_, Event::EffectDenied { capability, kind, .. })) => format!(
                    "the capability {} was revoked, and {} needs it",
                    capability.as_str(),
                    kind.name()
                ),
                _ => return,
            },
            _ => return,
        };
        self.error = Some(ErrorView { kind: reason, message });
    }

    /// An error is shown only where it is what ended the turn.
    fn settle_error(&mut self, setup_detail: Option<String>) {
        let Some((outcome, reason)) = self.outcome else {
            self.error = None;
            return;
        };
        if self.error.as_ref().is_some_and(|error| error.kind != reason) {
            self.error = None;
        }
        if self.error.is_none() && outcome == Outcome::SetupError {
            let message = setup_detail.unwrap_or_default();
            self.error = Some(ErrorView { kind: reason, message });
        }
    }
}
