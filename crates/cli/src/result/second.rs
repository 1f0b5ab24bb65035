//! What a result says of the review and of the agent's own reproduction.

use countersign_engine::{ReproView, ReviewFinding, ReviewView};
use countersign_types::Digest;
use serde::Serialize;

use super::CostResult;

/// What the agent settled about a failing test of its own. Both null: nothing, or `--repro-first` did not ask.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ReproResult {
    pub(crate) declared: Option<DeclaredResult>,
    /// Why there is none, in the agent's words.
    pub(crate) skipped: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeclaredResult {
    pub(crate) paths: Vec<String>,
    pub(crate) argv: Vec<String>,
    /// Of the files and the command, as they were seen to fail on the base.
    pub(crate) lock: Digest,
}

impl ReproResult {
    pub(super) fn of(view: Option<&ReproView>) -> Self {
        match view {
            None => Self::default(),
            Some(ReproView::Skipped { reason }) => Self { declared: None, skipped: Some(reason.clone()) },
            Some(ReproView::Declared { paths, argv, lock }) => {
                let declared = DeclaredResult { paths: paths.clone(), argv: argv.clone(), lock: *lock };
                Self { declared: Some(declared), skipped: None }
            }
        }
    }
}

/// Who reviewed, and what came of it. Null and empty where nobody did.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ReviewResult {
    pub(crate) model: Option<String>,
    /// The reviewer is the agent's own model.
    pub(crate) same_model: Option<bool>,
    /// Reviews that were begun.
    pub(crate) rounds: u32,
    /// Of all rounds, each with its fate; only `blocked` stops a success.
    pub(crate) findings: Vec<ReviewFinding>,
    /// Findings that are not in the list.
    pub(crate) more: u64,
    pub(crate) usage: Option<RoleUsage>,
}

/// What a model used besides the agent's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoleUsage {
    pub(crate) model_calls: u64,
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    pub(crate) cost: Option<CostResult>,
}

impl ReviewResult {
    pub(super) fn of(view: Option<&ReviewView>) -> Self {
        let Some(view) = view else { return Self::default() };
        Self {
            model: Some(view.model.clone()),
            same_model: Some(view.same_model),
            rounds: view.rounds,
            findings: view.findings.clone(),
            more: view.more,
            usage: Some(RoleUsage {
                model_calls: view.model_calls,
                input: view.usage.input,
                output: view.usage.output,
                cached: view.usage.cached,
                cache_write: view.usage.cache_write,
                reasoning: view.usage.reasoning,
                cost: view.cost.map(|cost| CostResult { usd: cost.usd() }),
            }),
        }
    }
}
