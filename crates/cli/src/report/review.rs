//! What a second model found, and the agent's own reproduction, for people. Advice is shown as advice.

use std::fmt::Write as _;

use countersign_engine::{Fate, ReviewFinding};
use countersign_types::GateKey;

use super::markdown::{block, code};
use crate::result::{ReviewResult, RunResult};
use crate::text;

/// Findings that a report shows.
const MAX_SHOWN: usize = 40;

fn reviewed(result: &RunResult) -> Option<&ReviewResult> {
    let review = result.gates.get(&GateKey::Review)?.review.as_ref()?;
    review.model.is_some().then_some(review)
}

/// What a person wants to see: what blocks, what was mended, and advice.
fn shown(review: &ReviewResult) -> impl Iterator<Item = &ReviewFinding> {
    let told =
        |finding: &&ReviewFinding| matches!(finding.fate, Fate::Blocked | Fate::Repaired | Fate::Advised);
    review.findings.iter().filter(told).take(MAX_SHOWN)
}

/// Lines for a terminal.
pub(crate) fn for_terminal(result: &RunResult) -> String {
    let mut out = String::new();
    if let Some(review) = reviewed(result) {
        for finding in shown(review) {
            let (file, said) =
                (text::one_line(&finding.file, 200), text::one_line(&finding.failure_scenario, 300));
            let (fate, confidence) = (finding.fate.as_str(), finding.confidence);
            out.push_str(&format!("review   {fate} (confidence {confidence}) in {file}: {said}\n"));
        }
    }
    if let Some(reason) = skipped(result) {
        out.push_str(&format!("repro    skipped by the agent: {}\n", text::one_line(reason, 300)));
    }
    out
}

fn skipped(result: &RunResult) -> Option<&str> {
    result.gates.get(&GateKey::Repro)?.repro.as_ref()?.skipped.as_deref()
}

pub(super) fn markdown(out: &mut String, result: &RunResult) {
    if let Some(reason) = skipped(result) {
        let _ = writeln!(
            out,
            "### No failing test first\n\nThe agent gave a reason for having none:\n\n{}",
            block(reason)
        );
    }
    let Some(review) = reviewed(result) else { return };
    let model = review.model.as_deref().map(code).unwrap_or_default();
    let own = if review.same_model == Some(true) {
        ", the agent's own model, which is no second opinion"
    } else {
        ""
    };
    let rounds =
        if review.rounds == 1 { "1 review".to_owned() } else { format!("{} reviews", review.rounds) };
    let _ = writeln!(out, "### Review by a second model\n\n{rounds} by {model}{own}.\n");
    let all: Vec<&ReviewFinding> = shown(review).collect();
    if all.iter().any(|finding| finding.fate == Fate::Advised) {
        out.push_str("What is advised decides nothing: no command shows it.\n\n");
    }
    for finding in all {
        let fate = finding.fate.as_str();
        let (file, why, said) = (code(&finding.file), code(&finding.why), code(&finding.failure_scenario));
        let _ =
            writeln!(out, "- **{fate}** in {file}, confidence {} of 10: {said} ({why})", finding.confidence);
        if let Some(argv) = finding.repro.as_deref().filter(|_| finding.fate != Fate::Advised) {
            let _ = writeln!(out, "  - shown by {}", code(&text::command(argv)));
        }
    }
    let count = |fate: Fate| review.findings.iter().filter(|finding| finding.fate == fate).count();
    let rest: Vec<String> = [Fate::Refuted, Fate::Note, Fate::Dropped]
        .into_iter()
        .filter(|fate| count(*fate) > 0)
        .map(|fate| format!("{} {}", count(fate), fate.as_str()))
        .collect();
    if !rest.is_empty() {
        let _ = writeln!(out, "- not shown: {}", rest.join(", "));
    }
    if !review.findings.is_empty() {
        out.push('\n');
    }
}
