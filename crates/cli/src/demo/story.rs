//! What the demo tells a person who sees this for the first time.

use std::path::Path;

use countersign_types::{GateKey, Outcome};

use super::{CHECK, TASK, scripts};
use crate::result::RunResult;
use crate::{render, text};

pub(super) const OPENING: &str = "\
A small shell project has a bug: total.sh loses the last number of a file that does not end in a newline.
An agent is asked to fix it, three times. Its model plays a script; everything else is real, and nothing needs a network.";

pub(super) const CLOSING: &str = "
The lie was the same both times; only the check told it from the truth. The agent had no say in it: the
check ran on a copy of exactly the files that would be delivered, in a sandbox that the agent never touched.
Now in your own repository:
  countersign run \"fix the failing test\" --trust trusted-local --model openai:MODEL --check \"CMD\"";

/// Before each run.
pub(super) fn before(index: usize) -> String {
    match index {
        0 => format!(
            "\n1. The agent's word is all there is (--no-check). It looks at one file and changes nothing.\n   task    {TASK}"
        ),
        1 => format!(
            "\n2. The same task with a check: {CHECK}\n   The agent makes an edit that changes nothing that matters, and says the same."
        ),
        _ => {
            "\n3. The same task and check. This time the agent runs the tests, finds the cause and fixes it."
                .to_owned()
        }
    }
}

/// After each run.
pub(super) fn after(index: usize, result: &RunResult) -> String {
    let says = result.answer.as_deref().unwrap_or(if index == 2 { scripts::TRUTH } else { scripts::LIE });
    let mut out = format!("   agent   \"{}\"\n", text::one_line(says, 2 * text::LINE));
    if let Some(line) =
        result.gates.get(&GateKey::Check).and_then(|gate| gate.detail.as_deref()).and_then(shown)
    {
        out.push_str(&format!("   check   {line}\n"));
    }
    out.push_str(&format!("   result  exit {}: {}\n", result.code(), render::summary(result)));
    let meaning = match result.outcome {
        Some(Outcome::Answered) => {
            "Taken at its word, and marked as such: `answered` claims nothing. The bug is still there."
        }
        Some(Outcome::Unverified) => {
            "Refused. The patch is kept for a look, and no script will take this for a success."
        }
        Some(Outcome::Verified) => {
            "Accepted: red before the change, green after it, and no test was touched."
        }
        _ => "",
    };
    out.push_str(&format!("   {meaning}"));
    out
}

/// The line of a check's detail that says most.
fn shown(detail: &str) -> Option<String> {
    let line = detail
        .lines()
        .find(|line| line.contains("FAILED"))
        .or_else(|| detail.lines().find(|line| !line.trim().is_empty()))?;
    Some(text::one_line(line, text::LINE))
}

/// Where everything was left.
pub(super) fn kept(dir: &Path) -> String {
    format!(
        "\nEverything is in {0}; look at it with: COUNTERSIGN_HOME={0}/home countersign list",
        text::quoted(&dir.to_string_lossy())
    )
}
