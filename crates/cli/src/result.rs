//! The result object: one for every ending, every key always present.

mod second;

use std::collections::BTreeMap;
use std::path::Path;

use countersign_engine::{
    AttemptView, Changes, CheckEvidence, Claim, GateView, HygieneFinding, HygieneKind, Mutants, View,
};
use countersign_gates::Allowed;
use countersign_kernel::Finding;
use countersign_kernel::contract::Candidate;
use countersign_types::{
    Digest, GateKey, GateStatus, Millis, Outcome, Reason, SessionId, Strength, Tier, TierProperty, Trust,
};
use serde::Serialize;

use crate::refusal::Refusal;
pub(crate) use crate::result::second::{ReproResult, ReviewResult};

pub(crate) const RESULT_SCHEMA: &str = "countersign.result/1";

/// What a run came to. `null` means unknown or not there, never zero.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunResult {
    pub(crate) schema: &'static str,
    pub(crate) session: Option<SessionId>,
    pub(crate) turn: Option<u32>,
    /// None for a bug of ours, and where `show` meets a turn without an end: it runs, or `error` says that it is lost.
    pub(crate) outcome: Option<Outcome>,
    /// A reason of the table, or `bug`; None for a turn without an end.
    pub(crate) reason: Option<&'static str>,
    /// Of the turn; None for one without an end.
    pub(crate) exit_code: Option<u8>,
    pub(crate) answer: Option<String>,
    pub(crate) strength: Option<Strength>,
    pub(crate) gates: BTreeMap<GateKey, GateResult>,
    pub(crate) base: Option<BaseResult>,
    /// Finished work that was judged; None where an agent worked.
    pub(crate) candidate: Option<CandidateResult>,
    /// What is judged and delivered.
    pub(crate) tree: Option<Digest>,
    pub(crate) patch: Option<PatchResult>,
    /// What differs from the base; None where that was not looked at.
    pub(crate) changes: Option<Changes>,
    /// Build outputs and caches beside the tree: not judged and not delivered.
    pub(crate) not_delivered: Vec<LeftOut>,
    /// What a reviewer wants to be told of the change; it stops nothing. None where nobody looked.
    pub(crate) findings: Option<Vec<HygieneResult>>,
    /// Of the agent; the reviewer's stands at its gate.
    pub(crate) usage: UsageResult,
    /// Of all models.
    pub(crate) cost: Option<CostResult>,
    pub(crate) model: Option<String>,
    /// Who named the model: a flag, a variable, a file, or the key that was found.
    pub(crate) model_source: Option<String>,
    /// Digest of the recording that played the model; None where a model was called.
    pub(crate) replay: Option<Digest>,
    pub(crate) tier: Option<Tier>,
    /// Whether the working cell was seen to confine its jobs.
    pub(crate) isolated: Option<bool>,
    pub(crate) observed: Vec<TierProperty>,
    pub(crate) trust: Option<Trust>,
    pub(crate) preset: Option<PresetResult>,
    pub(crate) contract: Option<Digest>,
    pub(crate) task_digest: Option<Digest>,
    pub(crate) created_at: Option<Millis>,
    pub(crate) active_ms: Option<Millis>,
    /// Each try to end, in order; the last one decided.
    pub(crate) attempts: Vec<AttemptView>,
    pub(crate) degraded: Vec<String>,
    pub(crate) error: Option<ErrorResult>,
    /// The outcome that the turn would have had: its work was cut off, and passed all the same.
    pub(crate) rescued_from: Option<Outcome>,
    /// What cut it off.
    pub(crate) rescued_reason: Option<Reason>,
    pub(crate) detectors: DetectorsResult,
    /// What the agent's last words claim, beside what the journal shows. It decides nothing.
    pub(crate) claims: Vec<Claim>,
    /// Whether the checks notice small faults in the changed lines; None where `--mutants` did not ask. It decides nothing.
    pub(crate) mutants: Option<Mutants>,
    /// When the provider's limit ends, milliseconds since the Unix epoch.
    pub(crate) reset_at: Option<Millis>,
    /// The directory with the evidence of a turn that has ended; None where none could be written, which is in `degraded`.
    pub(crate) bundle: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct GateResult {
    pub(crate) status: GateStatus,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: Option<String>,
    /// Of the check gate: for each check that was judged, what its verdict rests on.
    pub(crate) evidence: Vec<CheckEvidence>,
    /// Of the fence: what only the contract's allowances let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed: Option<Vec<Allowed>>,
    /// Of the repro gate.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) repro: Option<ReproResult>,
    /// Of the review gate.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) review: Option<ReviewResult>,
}

impl GateResult {
    fn bare(key: GateKey, status: GateStatus) -> Self {
        let allowed = (key == GateKey::Fence).then(Vec::new);
        let repro = (key == GateKey::Repro).then(ReproResult::default);
        let review = (key == GateKey::Review).then(ReviewResult::default);
        Self { status, reason: None, detail: None, evidence: Vec::new(), allowed, repro, review }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct BaseResult {
    pub(crate) commit: Option<String>,
    pub(crate) tree: Digest,
}

/// What `gate` was given, with null for what that kind does not have.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CandidateResult {
    /// `head`, `tree` or `patch`.
    pub(crate) kind: &'static str,
    pub(crate) rev: Option<String>,
    /// The commit that the revision named; null until it was read.
    pub(crate) commit: Option<String>,
    pub(crate) path: Option<String>,
    /// Of the patch's bytes.
    pub(crate) sha256: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct HygieneResult {
    pub(crate) kind: HygieneKind,
    pub(crate) path: String,
    pub(crate) line: Option<u64>,
    pub(crate) detail: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PatchResult {
    pub(crate) path: String,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct UsageResult {
    /// Model calls with what they asked for.
    pub(crate) turns: u32,
    pub(crate) model_calls: u64,
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CostResult {
    pub(crate) usd: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PresetResult {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    pub(crate) canonical: bool,
}

/// What watched for circles, and what it saw.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DetectorsResult {
    /// The set of rules; None without a contract.
    pub(crate) version: Option<&'static str>,
    /// The agent was told, once.
    pub(crate) nudged: Option<FindingResult>,
    /// The agent went on and was stopped; what it had done was judged.
    pub(crate) stuck: Option<FindingResult>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct FindingResult {
    pub(crate) reason: Reason,
    /// The first and the last step that showed it.
    pub(crate) steps: [u32; 2],
}

impl FindingResult {
    const fn of(finding: Finding) -> Self {
        Self { reason: finding.reason, steps: [finding.first, finding.last] }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ErrorResult {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

impl RunResult {
    /// Of a session as far as it got. `dir` is the session's directory.
    pub(crate) fn of(view: &View, dir: &Path) -> Self {
        let contract = view.session.as_ref().map(|session| &session.contract);
        let terms = contract.and_then(|contract| contract.model.as_ref());
        let (outcome, reason) = view.outcome.unzip();
        let gates = view.gates.iter().map(|(key, gate)| {
            let GateView { status, reason, detail, evidence, allowed } = gate.clone();
            let allowed = (*key == GateKey::Fence).then_some(allowed);
            let repro = (*key == GateKey::Repro).then(|| ReproResult::of(view.repro.as_ref()));
            let review = (*key == GateKey::Review).then(|| ReviewResult::of(view.review.as_ref()));
            (*key, GateResult { status, reason, detail, evidence, allowed, repro, review })
        });
        let isolated = view.tier.map(|_| view.observed.is_superset(&confining()));
        Self {
            schema: RESULT_SCHEMA,
            session: Some(view.id.clone()),
            turn: Some(view.turn.0),
            outcome,
            reason: reason.map(Reason::as_str),
            exit_code: outcome.map(Outcome::exit_code),
            answer: view.answer.clone(),
            strength: view.strength,
            gates: all_gates(GateStatus::Absent).into_iter().chain(gates).collect(),
            base: view.base_tree.map(|tree| BaseResult { commit: view.base_commit.clone(), tree }),
            candidate: contract
                .and_then(|contract| contract.candidate.as_ref())
                .map(|candidate| CandidateResult::of(candidate, view.candidate_commit.clone())),
            tree: view.tree,
            patch: view.patch.as_ref().map(|patch| PatchResult {
                path: dir.join(patch.file).to_string_lossy().into_owned(),
                sha256: patch.digest.hex(),
                bytes: patch.bytes,
            }),
            changes: view.changes.clone(),
            not_delivered: view
                .not_delivered
                .iter()
                .map(|(path, bytes)| LeftOut { path: path.clone(), bytes: *bytes })
                .collect(),
            findings: view.findings.as_ref().map(|all| all.iter().map(HygieneResult::of).collect()),
            usage: UsageResult {
                turns: view.steps,
                model_calls: view.model_calls,
                input: view.usage.input,
                output: view.usage.output,
                cached: view.usage.cached,
                cache_write: view.usage.cache_write,
                reasoning: view.usage.reasoning,
            },
            cost: view.cost.map(|cost| CostResult { usd: cost.usd() }),
            model: terms.map(|model| model.reference.clone()),
            model_source: terms.and_then(|model| model.source.clone()),
            replay: terms.and_then(|model| model.replayed),
            tier: view.tier,
            isolated,
            observed: view.observed.iter().copied().collect(),
            trust: contract.map(|contract| contract.trust),
            preset: contract.map(|contract| PresetResult {
                name: contract.preset.name.clone(),
                digest: contract.preset.digest,
                canonical: contract.preset.canonical,
            }),
            contract: contract.and_then(|contract| contract.digest().ok()),
            task_digest: contract
                .is_none_or(|contract| contract.candidate.is_none())
                .then(|| Digest::of(view.input.as_bytes())),
            created_at: Some(view.created_at),
            active_ms: Some(view.active_ms),
            attempts: view.attempts.clone(),
            degraded: view.degraded.clone(),
            error: view
                .error
                .as_ref()
                .map(|error| ErrorResult { kind: error.kind.as_str(), message: error.message.clone() }),
            rescued_from: view.rescued_from.map(Reason::outcome),
            rescued_reason: view.rescued_from,
            claims: view.claims.clone(),
            mutants: view.mutants.clone(),
            detectors: DetectorsResult {
                version: contract.map(|contract| contract.detectors.as_str()),
                nudged: view.nudged.map(FindingResult::of),
                stuck: view.stuck.map(FindingResult::of),
            },
            reset_at: view.reset_at,
            bundle: Some(dir.join(format!("{}.bundle", view.id)))
                .filter(|bundle| crate::files::exists(bundle))
                .map(|bundle| bundle.to_string_lossy().into_owned()),
        }
    }

    /// Of a command that stopped before it had a contract.
    pub(crate) fn refused(
        session: Option<SessionId>,
        task: Option<&[u8]>,
        armed: &[GateKey],
        refusal: &Refusal,
    ) -> Self {
        let Some(reason) = refusal.reason else {
            return Self { session, ..Self::bug(&refusal.message) };
        };
        let mut gates = all_gates(GateStatus::Absent);
        for key in armed {
            gates.insert(*key, GateResult::bare(*key, GateStatus::NotReached));
        }
        Self {
            session,
            outcome: Some(reason.outcome()),
            reason: Some(reason.as_str()),
            exit_code: Some(reason.outcome().exit_code()),
            gates,
            task_digest: task.map(Digest::of),
            error: Some(ErrorResult { kind: reason.as_str(), message: refusal.message.clone() }),
            ..Self::nothing()
        }
    }

    /// Of a process that ends with a bug of ours.
    pub(crate) fn bug(message: &str) -> Self {
        let error = Some(ErrorResult { kind: "bug", message: message.to_owned() });
        Self { error, ..Self::nothing() }
    }

    /// The exit code of a command that ends with this result. One that drove a turn has left it an end.
    pub(crate) fn code(&self) -> u8 {
        self.exit_code.unwrap_or(Outcome::BUG_EXIT_CODE)
    }

    fn nothing() -> Self {
        Self {
            schema: RESULT_SCHEMA,
            session: None,
            turn: None,
            outcome: None,
            reason: Some("bug"),
            exit_code: Some(Outcome::BUG_EXIT_CODE),
            answer: None,
            strength: None,
            gates: all_gates(GateStatus::Absent),
            base: None,
            candidate: None,
            tree: None,
            patch: None,
            changes: None,
            not_delivered: Vec::new(),
            findings: None,
            usage: UsageResult::default(),
            cost: None,
            model: None,
            model_source: None,
            replay: None,
            tier: None,
            isolated: None,
            observed: Vec::new(),
            trust: None,
            preset: None,
            contract: None,
            task_digest: None,
            created_at: None,
            active_ms: None,
            attempts: Vec::new(),
            degraded: Vec::new(),
            error: None,
            rescued_from: None,
            rescued_reason: None,
            detectors: DetectorsResult::default(),
            claims: Vec::new(),
            mutants: None,
            reset_at: None,
            bundle: None,
        }
    }
}

impl HygieneResult {
    fn of(finding: &HygieneFinding) -> Self {
        let HygieneFinding { kind, path, line, detail } = finding;
        Self { kind: *kind, path: path.to_string(), line: *line, detail: detail.clone() }
    }
}

impl CandidateResult {
    fn of(candidate: &Candidate, commit: Option<String>) -> Self {
        let nothing = Self { kind: "head", rev: None, commit: None, path: None, sha256: None };
        match candidate {
            Candidate::Head { rev } => Self { rev: Some(rev.clone()), commit, ..nothing },
            Candidate::Tree { path } => Self { kind: "tree", path: Some(path.clone()), ..nothing },
            Candidate::Patch { digest } => Self { kind: "patch", sha256: Some(digest.hex()), ..nothing },
        }
    }
}

fn all_gates(status: GateStatus) -> BTreeMap<GateKey, GateResult> {
    GateKey::ALL.iter().map(|key| (*key, GateResult::bare(*key, status))).collect()
}

/// What makes a cell a confinement; a network that was asked for does not unmake it.
fn confining() -> countersign_types::TierProperties {
    let mut all = Tier::Native.demands();
    all.remove(&TierProperty::Netns);
    all
}

/// The gates that a contract would have armed; for results of runs that were refused before they had one.
pub(crate) fn armed(checked: bool, scoped: bool, protects: bool) -> Vec<GateKey> {
    let mut keys = Vec::new();
    if checked {
        keys.extend([GateKey::Seal, GateKey::Answer, GateKey::Fence, GateKey::Change, GateKey::Check]);
    } else if protects {
        keys.push(GateKey::Fence);
    }
    if scoped {
        keys.push(GateKey::Scope);
    }
    keys
}
