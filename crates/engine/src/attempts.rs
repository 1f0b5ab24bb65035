//! Every attempt of a turn, the ones that went back to the agent included: what was sealed, what stopped it, and what its
//! rooms showed.

use countersign_gates::CheckEvidence;
use countersign_kernel::{EffectResult, Event};
use countersign_types::{Digest, GateKey, GateStatus, Reason};
use serde::Serialize;

use crate::error::EngineError;
use crate::view::Texts;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptView {
    /// From 1.
    pub attempt: u32,
    /// What was judged. None: nothing could be sealed.
    pub tree: Option<Digest>,
    /// The first gate that did not pass. None: all that were asked did.
    pub gate: Option<GateKey>,
    pub status: Option<GateStatus>,
    pub reason: Option<Reason>,
    /// In our words, with paths and names escaped.
    pub detail: Option<String>,
    /// It went back to the agent as work.
    pub returned: bool,
    /// Of each check that was judged.
    pub evidence: Vec<CheckEvidence>,
}

/// In the order in which they were made.
pub(crate) async fn attempts(
    events: &[(u64, Event)],
    texts: &Texts<'_>,
) -> Result<Vec<AttemptView>, EngineError> {
    let mut all: Vec<AttemptView> = Vec::new();
    // The detail of an effect comes before the gate that it decides.
    let mut room_detail = None;
    for (seq, event) in events {
        if let Event::AttemptBegun { attempt, .. } = event {
            all.push(AttemptView {
                attempt: *attempt,
                tree: None,
                gate: None,
                status: None,
                reason: None,
                detail: None,
                returned: false,
                evidence: Vec::new(),
            });
        }
        let Some(current) = all.last_mut() else { continue };
        match event {
            Event::EffectCompleted { result: EffectResult::Seal { tree, unsealable: 0 }, .. } => {
                current.tree = Some(*tree);
            }
            Event::EffectCompleted { result: EffectResult::Room { .. }, .. } => {
                let text = texts.text(*seq, "evidence").await?;
                current.evidence.extend(text.and_then(|text| serde_json::from_str(&text).ok()));
                room_detail = texts.text(*seq, "detail").await?;
            }
            Event::EffectCompleted {
                result:
                    EffectResult::Inspect { .. }
                    | EffectResult::Repro { .. }
                    | EffectResult::ReviewCall { .. }
                    | EffectResult::ReviewJudge { .. }
                    | EffectResult::ReviewRecheck { .. },
                ..
            } => {
                room_detail = texts.text(*seq, "detail").await?;
            }
            Event::GateDecided { gate, status, reason, .. }
                if current.gate.is_none() && !matches!(status, GateStatus::Passed | GateStatus::Absent) =>
            {
                current.gate = Some(*gate);
                current.status = Some(*status);
                current.reason = *reason;
                if matches!(gate, GateKey::Check | GateKey::Fence | GateKey::Repro | GateKey::Review) {
                    current.detail.clone_from(&room_detail);
                }
            }
            Event::AttemptReturned { .. } => current.returned = true,
            _ => {}
        }
    }
    Ok(all)
}
