//! Results as people and programs read them.

use countersign_engine::{Claim, ClaimVerdict};
use countersign_types::{GateStatus, Outcome, Reason, Tier};
use serde::Serialize;

use crate::args::Format;
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::{hint, report, terminal, text};

/// Lines of a gate's own words behind a run; `show` has all of them.
const STOPPED_LINES: usize = 12;

/// The last line of a stream of events.
#[derive(Serialize)]
struct LastLine<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    result: &'a RunResult,
}

/// Prints a result in the format that was asked for.
pub(crate) fn result(format: Format, result: &RunResult) {
    match format {
        Format::Text => {
            if let Some(error) = &result.error {
                terminal::err_line(&format!("error: {}", text::safe(&error.message)));
            }
            if let Some(advice) = advice(result) {
                terminal::err_line(&format!("hint: {advice}"));
            }
            for note in &result.degraded {
                terminal::err_line(&format!("note: {}", text::safe(note)));
            }
            for claim in &result.claims {
                if claim.verdict == ClaimVerdict::Contradicted {
                    terminal::err_line(&format!("note: {}", text::safe(&claimed(claim))));
                }
            }
            terminal::out_bytes(for_people(result).as_bytes());
        }
        Format::Markdown => terminal::out_bytes(report::markdown(result, None).as_bytes()),
        Format::Json | Format::Ndjson => machine(format, result),
    }
}

/// What to do where something did not go well. A message about a command line says that itself.
fn advice(result: &RunResult) -> Option<&'static str> {
    let reason = result.reason.and_then(hint::reason)?;
    let well = matches!(reason.outcome(), Outcome::Verified | Outcome::Answered);
    (!well && reason != Reason::Usage).then(|| hint::next(reason))
}

/// Prints the one JSON object, or the line that ends a stream of events.
pub(crate) fn machine(format: Format, result: &RunResult) {
    let line = match format {
        Format::Ndjson => serde_json::to_string(&LastLine { r#type: "result", result }),
        Format::Json | Format::Text | Format::Markdown => serde_json::to_string(result),
    };
    match line {
        Ok(line) => terminal::out_line(&line),
        Err(error) => terminal::err_line(&format!("the result cannot be written as JSON: {error}")),
    }
}

/// Prints why a command other than `run` and `ask` did nothing, and gives its exit code.
pub(crate) fn refused(format: Format, refusal: &Refusal) -> u8 {
    result(format, &RunResult::refused(None, None, &[], refusal));
    refusal.exit_code()
}

/// The answer, then one line.
pub(crate) fn for_people(result: &RunResult) -> String {
    let mut out = String::new();
    if let Some(answer) = result.answer.as_deref().map(str::trim_end).filter(|answer| !answer.is_empty()) {
        out.push_str(&text::safe(answer));
        out.push_str("\n\n");
    }
    if result.session.is_none() {
        return out;
    }
    if result.candidate.is_some() {
        out.push_str(&report::for_terminal(result));
    } else {
        out.push_str(&stopped(result));
    }
    out.push_str(&report::findings(result));
    out.push_str(&report::review(result));
    out.push_str(&summary(result));
    out.push('\n');
    out
}

/// The gates that a success stopped at, with what each of them says.
fn stopped(result: &RunResult) -> String {
    let mut out = String::new();
    for (key, gate) in &result.gates {
        if !matches!(gate.status, GateStatus::Failed | GateStatus::Unverifiable) {
            continue;
        }
        let reason = gate.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        out.push_str(&format!("gate {:<7} {}{reason}\n", key.as_str(), gate.status.as_str()));
        if let Some(detail) = gate.detail.as_deref().filter(|detail| !detail.is_empty()) {
            let safe = text::safe(detail.trim_end());
            let mut lines = safe.lines();
            for line in lines.by_ref().take(STOPPED_LINES) {
                out.push_str(&format!("     {line}\n"));
            }
            if lines.next().is_some() {
                out.push_str("     [more: countersign show]\n");
            }
        }
    }
    out
}

/// A claim beside its evidence.
pub(crate) fn claimed(claim: &Claim) -> String {
    format!("the agent said \"{}\", {}: {}", claim.quote, claim.verdict.words(), claim.evidence)
}

/// One line: how it ended and what there is to do next.
pub(crate) fn summary(result: &RunResult) -> String {
    let mut parts = vec![match (result.outcome, result.reason) {
        (Some(outcome), Some(reason)) => format!("{outcome} ({reason})"),
        _ if result.exit_code == Some(Outcome::BUG_EXIT_CODE) => "bug (bug)".to_owned(),
        // The word of a session that nobody drives: one whose process died, or that waits for somebody.
        _ if result.error.is_some() => result.error.iter().map(|error| error.kind).collect(),
        _ => "running".to_owned(),
    }];
    if let Some(strength) = result.strength {
        let inside = if strength.in_process { ", in process" } else { "" };
        parts.push(format!("strength {}{inside}", strength.level));
    }
    if let Some(from) = result.rescued_reason {
        parts.push(format!("rescued from {from}"));
    }
    if let Some(stuck) = &result.detectors.stuck {
        let [first, last] = stuck.steps;
        parts.push(format!("in circles from step {first} to {last}"));
    }
    if result.usage.turns > 0 {
        parts.push(format!(
            "{} {}",
            result.usage.turns,
            if result.usage.turns == 1 { "step" } else { "steps" }
        ));
    }
    if let Some(mutants) = result.mutants.as_ref().filter(|mutants| !mutants.survived.is_empty()) {
        parts.push(format!("{} of {} mutants survived", mutants.survived.len(), mutants.tried));
    }
    if let Some(active) = result.active_ms.filter(|active| active.0 > 0) {
        parts.push(active.to_string());
    }
    if let Some(cost) = &result.cost.as_ref().filter(|cost| cost.usd > 0.0) {
        parts.push(format!("${:.4}", cost.usd));
    }
    if result.isolated == Some(false) {
        let tier = if result.tier == Some(Tier::Host) { "host tier: " } else { "" };
        parts.push(format!("{tier}not isolated"));
    }
    if let Some(session) = &result.session {
        match &result.patch {
            Some(patch) => parts.push(format!("patch of {} bytes: countersign diff {session}", patch.bytes)),
            None => parts.push(session.to_string()),
        }
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{self, PatchResult, UsageResult};
    use countersign_types::{Digest, SessionId, Strength, StrengthLevel};

    fn id() -> SessionId {
        SessionId::new("s-20261130-005320-ababab").unwrap()
    }

    fn verified() -> RunResult {
        let nothing = Refusal::new(Reason::Usage, "");
        RunResult {
            outcome: Some(Outcome::Verified),
            reason: Some(Reason::ChecksPassed.as_str()),
            exit_code: Some(0),
            answer: Some("Done.\u{1b}[2J\n".to_owned()),
            strength: Some(Strength { level: StrengthLevel::RedBefore, in_process: false }),
            patch: Some(PatchResult {
                path: "/h/patch.diff".to_owned(),
                sha256: Digest::of(b"").hex(),
                bytes: 12,
            }),
            usage: UsageResult { turns: 1, ..UsageResult::default() },
            error: None,
            ..RunResult::refused(Some(id()), Some(b"t"), &[], &nothing)
        }
    }

    #[test]
    fn the_shapes_that_programs_read() {
        let refusal = Refusal::new(Reason::NoCheck, "nothing says when the task is done");
        let armed = result::armed(true, true, false);
        insta::assert_json_snapshot!("refused", RunResult::refused(Some(id()), Some(b"t"), &armed, &refusal));
        insta::assert_json_snapshot!("verified", verified());
        insta::assert_json_snapshot!("bug", RunResult::bug("index out of bounds at x.rs:1"));
    }

    #[test]
    fn whatever_does_not_go_well_comes_with_what_to_do() {
        for reason in Reason::ALL {
            let told = advice(&RunResult::refused(None, None, &[], &Refusal::new(*reason, "")));
            let well = matches!(reason.outcome(), Outcome::Verified | Outcome::Answered);
            assert_eq!(told.is_none(), well || *reason == Reason::Usage, "{reason}");
        }
    }

    #[test]
    fn what_people_read() {
        insta::assert_snapshot!("people_verified", for_people(&verified()));
        let refusal = Refusal::new(Reason::Trust, "no trust level");
        insta::assert_snapshot!(
            "people_refused",
            for_people(&RunResult::refused(Some(id()), None, &[], &refusal))
        );
        let rescued = RunResult {
            rescued_reason: Some(Reason::Turns),
            isolated: Some(false),
            patch: None,
            ..verified()
        };
        insta::assert_snapshot!("people_rescued", for_people(&rescued));
    }
}
