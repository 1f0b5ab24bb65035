//! What a journal tells of the review and of the agent's own reproduction, for results and reports.

use std::collections::BTreeMap;

use countersign_gates::review::ReviewFinding;
use countersign_kernel::{EffectResult, Event, Session, Usage};
use countersign_types::{Digest, EffectId, GateStatus, Money};

use crate::error::EngineError;
use crate::repro::ReproMemory;
use crate::view::Texts;

/// Findings that a result lists.
const MAX_FINDINGS: usize = 100;

/// The second model and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewView {
    pub model: String,
    /// It is the agent's own model.
    pub same_model: bool,
    pub rounds: u32,
    /// Of all rounds, in the order in which they came, at most 100. Hostile texts.
    pub findings: Vec<ReviewFinding>,
    /// Findings that are not in the list.
    pub more: u64,
    pub model_calls: u64,
    pub usage: Usage,
    pub cost: Option<Money>,
}

/// The agent's own reproduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReproView {
    Declared {
        /// Control characters escaped. Hostile.
        paths: Vec<String>,
        /// Hostile.
        argv: Vec<String>,
        lock: Digest,
    },
    /// The agent gave a reason for having none. One line, hostile.
    Skipped { reason: String },
}

/// None where the contract names no reviewer.
pub(crate) async fn review(
    session: &Session,
    events: &[(u64, Event)],
    texts: &Texts<'_>,
) -> Result<Option<ReviewView>, EngineError> {
    let (Some(terms), Some(turn)) = (&session.contract.review, &session.turn) else { return Ok(None) };
    let mut findings: Vec<ReviewFinding> = Vec::new();
    for (seq, event) in events.iter().rev() {
        if let Event::EffectCompleted {
            result: EffectResult::ReviewJudge { .. } | EffectResult::ReviewRecheck { .. },
            ..
        } = event
        {
            let kept = texts.text(*seq, "findings").await?;
            findings = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            break;
        }
    }
    let more = findings.len().saturating_sub(MAX_FINDINGS) as u64;
    findings.truncate(MAX_FINDINGS);
    let budget = &turn.review.budget;
    Ok(Some(ReviewView {
        model: terms.model.reference.clone(),
        same_model: session.contract.reviews_itself(),
        rounds: turn.review.rounds,
        findings,
        more,
        model_calls: budget.model_calls,
        usage: Usage {
            input: budget.input.total(),
            output: budget.output.total(),
            cached: budget.cached.total(),
            cache_write: budget.cache_write.total(),
            reasoning: budget.reasoning.total(),
        },
        cost: budget.cost.total(),
    }))
}

/// None where nothing was settled.
pub(crate) async fn repro(
    events: &[(u64, Event)],
    texts: &Texts<'_>,
) -> Result<Option<ReproView>, EngineError> {
    for (seq, event) in events.iter().rev() {
        let Event::EffectCompleted { result: EffectResult::Tool { repro: Some(_), .. }, .. } = event else {
            continue;
        };
        let kept = texts.text(*seq, "repro").await?;
        let Some(ReproMemory { lock, skipped }) = kept.and_then(|text| serde_json::from_str(&text).ok())
        else {
            return Ok(None);
        };
        return Ok(match lock {
            Some(lock) => lock.digest().ok().map(|digest| ReproView::Declared {
                paths: lock.files.iter().map(|file| file.path.to_string()).collect(),
                argv: lock.argv,
                lock: digest,
            }),
            None => skipped.map(|reason| ReproView::Skipped { reason }),
        });
    }
    Ok(None)
}

/// Why the review says nothing, where no effect of its own says it.
pub(crate) async fn why_out(
    status: GateStatus,
    by: Option<EffectId>,
    events: &[(u64, Event)],
    texts: &Texts<'_>,
) -> Result<Option<String>, EngineError> {
    if status != GateStatus::Unverifiable {
        return Ok(None);
    }
    let Some(by) = by else { return Ok(Some("the limits left nothing for the reviewer".to_owned())) };
    let failed: BTreeMap<EffectId, u64> = events
        .iter()
        .filter(|(_, event)| matches!(event, Event::EffectFailed { .. }))
        .filter_map(|(seq, event)| Some((event.effect()?, *seq)))
        .collect();
    let Some(seq) = failed.get(&by) else { return Ok(None) };
    let message = texts.text(*seq, "message").await?.unwrap_or_default();
    Ok(Some(format!("the review could not be made: {message}")))
}
