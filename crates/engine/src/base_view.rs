//! What checks showed on the base, as a session's journal tells it.

use countersign_gates::adapters::Canary;
use countersign_kernel::{BaseVerdict, EffectResult, Event, RedCause};
use countersign_store::Store;
use countersign_types::SessionId;
use serde::Serialize;

use crate::checks::BaseSeen;
use crate::error::EngineError;
use crate::journal::replay;

/// One check on the base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaseRunView {
    /// The position in the contract, from 0.
    pub check: u32,
    /// `red`, `red_cause_unknown`, `green`, `already_green` or `environment`.
    pub base: &'static str,
    /// In our words.
    pub detail: String,
    /// An earlier run on the same tree and environment is remembered.
    pub cached: bool,
    /// Tests by name that failed. None: they are not known by name.
    pub failed: Option<u64>,
    pub passed: Option<u64>,
    pub canary: Canary,
    /// Held-out inputs that are answered right. None: there are none.
    pub held_out_right: Option<u32>,
    /// Why held-out inputs have no answer.
    pub held_out_problem: Option<String>,
}

/// Every check that was run on the base of a session, in order.
pub async fn base_runs(store: &dyn Store, id: &SessionId) -> Result<Vec<BaseRunView>, EngineError> {
    let loaded = store.load(id).await?;
    let (_, _, events) = replay(store, id, &loaded.events).await?;
    let mut runs = Vec::new();
    for (seq, event) in &events {
        let Event::EffectCompleted { result: EffectResult::BaseRun { verdict, cached, .. }, .. } = event
        else {
            continue;
        };
        let seen = store.payload(id, *seq, "seen").await?;
        let seen: BaseSeen =
            serde_json::from_slice(&seen).map_err(|error| EngineError::Bug(error.to_string()))?;
        let detail = store.payload(id, *seq, "detail").await?;
        let held_out = seen.held_out.as_ref().map(|ran| &ran.seen);
        runs.push(BaseRunView {
            check: u32::try_from(runs.len()).unwrap_or(u32::MAX),
            base: word(*verdict),
            detail: String::from_utf8_lossy(&detail).into_owned(),
            cached: *cached,
            failed: seen.ids.as_ref().map(|ids| ids.failed.len() as u64),
            passed: seen.ids.as_ref().map(|ids| ids.passed.len() as u64),
            canary: seen.ids.as_ref().map_or(Canary::Absent, |ids| ids.canary),
            held_out_right: held_out.map(|seen| seen.right),
            held_out_problem: held_out.and_then(|seen| seen.not_built.clone().or(seen.no_answer.clone())),
        });
    }
    Ok(runs)
}

const fn word(verdict: BaseVerdict) -> &'static str {
    match verdict {
        BaseVerdict::Red { cause: RedCause::Test } => "red",
        BaseVerdict::Red { cause: RedCause::Unknown } => "red_cause_unknown",
        BaseVerdict::Green => "green",
        BaseVerdict::AlreadyGreen => "already_green",
        BaseVerdict::Environment => "environment",
    }
}
