//! The lines of our own reporters, one JSON object each: a beginning, tests, canaries, what could not be collected, an end.

use serde::Deserialize;

use super::{Draft, MAX_CASES, fits};
use crate::protocol::{Report, TestCase, TestStatus};

/// One line. Exactly one of `begin`, `id`, `canary`, `collector` and `end` says what it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The runner's name. Several where the runner has several processes.
    begin: Option<String>,
    #[serde(rename = "version")]
    _version: Option<String>,
    id: Option<String>,
    canary: Option<String>,
    /// A file or a group of tests that could not be read.
    collector: Option<String>,
    status: Option<TestStatus>,
    /// The exit code that the runner means to end with.
    end: Option<i64>,
}

/// None: a line that no reporter of ours writes.
pub(super) fn read(text: &str) -> Option<Report> {
    let mut draft = Draft::default();
    let (whole, cut) = text.rsplit_once('\n').unwrap_or(("", text));
    let mut ended = false;
    for line in whole.split('\n').filter(|line| !line.is_empty()) {
        let line: Line = serde_json::from_str(line).ok()?;
        if ended {
            return None;
        }
        match line {
            Line {
                begin: Some(_), id: None, canary: None, collector: None, status: None, end: None, ..
            } => {
                draft.report.begun = true;
            }
            // Nothing comes before a beginning.
            _ if !draft.report.begun => return None,
            Line {
                begin: None,
                id: Some(id),
                canary: None,
                collector: None,
                status: Some(status),
                end: None,
                ..
            } => {
                draft.case(id, status)?;
            }
            Line {
                begin: None,
                id: None,
                canary: Some(id),
                collector: None,
                status: Some(status),
                end: None,
                ..
            } => {
                fits(&id)?;
                draft.report.canaries.push(TestCase { id, status });
            }
            Line {
                begin: None,
                id: None,
                canary: None,
                collector: Some(id),
                status: None,
                end: None,
                ..
            } => {
                fits(&id)?;
                draft.report.broken.push(id);
            }
            Line {
                begin: None, id: None, canary: None, collector: None, status: None, end: Some(_), ..
            } => {
                ended = true;
            }
            _ => return None,
        }
        if draft.report.canaries.len() + draft.report.broken.len() > MAX_CASES {
            return None;
        }
    }
    if ended && cut.is_empty() { draft.complete() } else { Some(draft.report) }
}
