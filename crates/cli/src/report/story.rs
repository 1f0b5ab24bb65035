//! What a report says of an agent's run besides its verdict: the answer, the patch, what it cost, what to do next.

use std::fmt::Write as _;

use countersign_types::Outcome;

use super::markdown::{block, fenced};
use crate::hint;
use crate::result::RunResult;

/// Characters of a patch that a report shows.
const MAX_PATCH: usize = 60_000;

/// The agent's last words. They claim what they like.
pub(super) fn answer(out: &mut String, result: &RunResult) {
    if let Some(answer) = result.answer.as_deref().map(str::trim).filter(|answer| !answer.is_empty()) {
        let _ = writeln!(out, "### The agent's last words\n\nNobody checked them.\n\n{}", block(answer));
    }
}

pub(super) fn patch(out: &mut String, patch: &[u8]) {
    let patch = String::from_utf8_lossy(patch);
    let _ = writeln!(out, "### Patch\n\n{}", fenced("diff", &patch, MAX_PATCH));
}

/// One item of the facts; None where no model was asked.
pub(super) fn cost(result: &RunResult) -> Option<String> {
    result.model.as_ref()?;
    let cost = result.cost.as_ref().map_or_else(
        || "unknown, because no price of the model is known".to_owned(),
        |cost| format!("${:.4}", cost.usd),
    );
    let usage = &result.usage;
    let tokens =
        |count: Option<u64>| count.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
    let (input, output) = (tokens(usage.input), tokens(usage.output));
    let calls = usage.model_calls;
    Some(format!("{cost}; {calls} model calls, {input} tokens in and {output} out"))
}

pub(super) fn next(out: &mut String, result: &RunResult) {
    let Some(reason) = result.reason.and_then(hint::reason) else { return };
    let _ = writeln!(out, "### Next step\n\n{}.", hint::next(reason).trim_end_matches('.'));
    // A session's name is letters, digits and dashes.
    if let Some(session) = &result.session {
        let flag = if result.outcome == Some(Outcome::Verified) { "" } else { " --unverified" };
        out.push('\n');
        if result.patch.is_some() {
            let _ = writeln!(out, "- `countersign diff {session}` shows the patch");
            let _ =
                writeln!(out, "- `countersign apply {session} --commit{flag}` commits it in your repository");
        }
        let _ = writeln!(out, "- `countersign show {session}` has the whole transcript");
    }
    out.push('\n');
}
