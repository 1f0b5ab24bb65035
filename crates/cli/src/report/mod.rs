//! Reports of a turn: text for a terminal, Markdown for a pull request or a file.

mod file;
mod markdown;
mod meaning;
mod review;
mod story;

pub(crate) use file::{whole, writable, write};
pub(crate) use markdown::markdown;
pub(crate) use review::for_terminal as review;

use countersign_types::GateStatus;

use crate::result::RunResult;
use crate::text;

/// Changed paths that a terminal shows.
const MAX_PATHS: usize = 50;

/// What a terminal shows of the findings about any change.
pub(crate) fn findings(result: &RunResult) -> String {
    let mut out = String::new();
    for finding in result.findings.iter().flatten() {
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        let (path, detail) = (text::safe(&finding.path), text::safe(&finding.detail));
        out.push_str(&format!("finding  {} {path}{line}: {detail}\n", finding.kind.as_str()));
    }
    out
}

/// What a terminal shows of judged work besides the one line of every result.
pub(crate) fn for_terminal(result: &RunResult) -> String {
    let mut out = String::new();
    for (key, gate) in &result.gates {
        if gate.status == GateStatus::Absent {
            continue;
        }
        let reason = gate.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        out.push_str(&format!("gate {:<7} {}{reason}\n", key.as_str(), gate.status.as_str()));
        if let Some(detail) = gate.detail.as_deref().filter(|detail| !detail.is_empty()) {
            out.push_str(&format!("     {}\n", text::safe(detail).replace('\n', "\n     ")));
        }
    }
    if let Some(changes) = &result.changes {
        for path in changes.paths.iter().take(MAX_PATHS) {
            out.push_str(&format!("{:<8} {}\n", path.change.as_str(), text::safe(&path.path)));
        }
        let more = changes.all().saturating_sub(MAX_PATHS as u64);
        if more > 0 {
            out.push_str(&format!("… and {more} more\n"));
        }
    }
    if let Some(tree) = &result.tree {
        out.push_str(&format!("tree {tree}\n"));
    }
    out
}
