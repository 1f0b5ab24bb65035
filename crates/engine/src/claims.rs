//! Gathers what a journal shows beside what an agent claims in its last words.

use std::collections::BTreeMap;

use countersign_gates::{Claim, ClaimFacts, Ran};
use countersign_kernel::{EffectResult, Event, ToolName};
use countersign_types::{Digest, GateKey, GateStatus};

use crate::error::EngineError;
use crate::transcript::call_index;
use crate::view::{Texts, View};

/// The claims of a turn that is over.
pub(crate) async fn of(
    view: &View,
    events: &[(u64, Event)],
    texts: &Texts<'_>,
) -> Result<Vec<Claim>, EngineError> {
    let (Some(answer), Some(_)) = (&view.answer, view.outcome) else { return Ok(Vec::new()) };
    let ran = ran(view.tree, events, texts).await?;
    let checks = view.session.as_ref().map_or_else(Vec::new, |session| {
        session.contract.checks.iter().map(|check| check.argv.join(" ")).collect()
    });
    // A list that is not whole cannot show that nothing else was changed.
    let changed: Option<Vec<String>> = view
        .changes
        .as_ref()
        .filter(|changes| changes.more == 0)
        .map(|changes| changes.paths.iter().map(|changed| changed.path.clone()).collect());
    let facts = ClaimFacts {
        ran: &ran,
        checks: &checks,
        judged: view.gates.get(&GateKey::Check).map_or(GateStatus::Absent, |gate| gate.status),
        changed: changed.as_deref(),
    };
    Ok(countersign_gates::claims(answer, &facts))
}

/// Commands and calls of `check`, in order, and whether the tree is still what each left.
async fn ran(
    last: Option<Digest>,
    events: &[(u64, Event)],
    texts: &Texts<'_>,
) -> Result<Vec<Ran>, EngineError> {
    let mut ran = Vec::new();
    let mut tree = None;
    let mut tools: BTreeMap<u32, ToolName> = BTreeMap::new();
    let mut lines = Vec::new();
    for (seq, event) in events {
        let Event::EffectCompleted { effect, result } = event else { continue };
        match result {
            EffectResult::Import { tree: base, .. } => tree = Some(*base),
            EffectResult::ModelCall { calls, .. } => {
                tools = (0..).zip(calls).map(|(index, call)| (index, call.tool)).collect();
                let text = texts.text(*seq, "calls").await?.unwrap_or_default();
                lines = text.lines().map(str::to_owned).collect();
            }
            EffectResult::Tool { ok, refused, tree: left, .. } => {
                tree = left.or(tree);
                let index = call_index(*effect);
                let tool = tools.get(&index).copied().filter(|_| !refused);
                let told = usize::try_from(index).ok().and_then(|index| lines.get(index));
                let command = match tool {
                    Some(ToolName::Run) => {
                        let told = told.map(String::as_str).unwrap_or_default();
                        Some(told.strip_prefix("run ").unwrap_or(told).to_owned())
                    }
                    Some(ToolName::Check) => None,
                    _ => continue,
                };
                ran.push((Ran { command, ok: *ok, current: false }, tree));
            }
            _ => {}
        }
    }
    Ok(ran.into_iter().map(|(one, tree)| Ran { current: tree == last, ..one }).collect())
}
