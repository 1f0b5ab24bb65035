//! `list`: sessions, newest first.

use std::path::{Path, PathBuf};

use countersign_engine::Clock as _;
use countersign_store::{ListFilter, SessionRow, Store as _};
use countersign_types::{Millis, SessionId};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Format, ListArgs, TextOrJson};
use crate::home::Home;
use crate::ports::MachineClock;
use crate::refusal::Refusal;
use crate::run::repository;
use crate::{exit, lease, ports, render, run, terminal, text};

/// Characters of a task in a list.
const TASK_WIDTH: usize = 60;

#[derive(Debug, Serialize)]
struct Listed {
    session: SessionId,
    created_at: Millis,
    updated_at: Millis,
    /// `ended`, `ready`, `approved`, `parked`, `running`, or `lost` where the process that drove it died.
    status: Option<String>,
    /// None while the turn is not over.
    outcome: Option<String>,
    reason: Option<String>,
    exit_code: Option<u64>,
    task: Option<String>,
    /// Where it began, with control characters escaped; None where nobody said.
    repository: Option<String>,
}

impl From<SessionRow> for Listed {
    fn from(row: SessionRow) -> Self {
        let word = |name: &str| row.summary.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            status: word("status"),
            outcome: word("outcome"),
            reason: word("reason"),
            exit_code: row.summary.get("exit_code").and_then(Value::as_u64),
            task: word("task"),
            repository: word("repository"),
            session: row.id,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

pub(crate) fn list(args: &ListArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    match rows(args) {
        Ok(rows) => {
            match args.format {
                TextOrJson::Json => match serde_json::to_string(&rows) {
                    Ok(line) => terminal::out_line(&line),
                    Err(error) => return render::refused(format, &Refusal::bug(error.to_string())),
                },
                TextOrJson::Text => terminal::out_bytes(for_people(&rows, args.narrows()).as_bytes()),
            }
            exit::DONE
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

/// Rows that are read at a time.
const PAGE: u32 = 500;

fn rows(args: &ListArgs) -> Result<Vec<Listed>, Refusal> {
    let home = Home::open()?;
    let root = args.repo.as_deref().map(root).transpose()?;
    let since = args.since.map(|since| since.at(MachineClock.now()));
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let wanted = |row: &Listed| {
        let outcome = args.outcome.is_empty()
            || args.outcome.iter().any(|outcome| row.outcome.as_deref() == Some(outcome.as_str()));
        let reason = args.reason.is_empty()
            || args.reason.iter().any(|reason| row.reason.as_deref() == Some(reason.as_str()));
        let place = root.as_ref().is_none_or(|root| {
            let recorded = row.repository.as_deref().and_then(repository::unescape);
            recorded.is_some_and(|recorded| recorded.starts_with(root))
        });
        outcome && reason && place
    };
    let runtime = run::runtime()?;
    let (mut rows, mut after): (Vec<Listed>, _) = (Vec::new(), None);
    'pages: loop {
        let filter = ListFilter { limit: PAGE, after: after.clone(), ..ListFilter::default() };
        let page = runtime.block_on(home.store.sessions(filter))?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        for row in page.into_iter().map(Listed::from) {
            // Newest first.
            if since.is_some_and(|since| row.created_at < since) || rows.len() == limit {
                break 'pages;
            }
            if wanted(&row) {
                rows.push(row);
            }
        }
    }
    for row in &mut rows {
        if row.outcome.is_none() && row.status.as_deref() != Some("parked") {
            let driven = lease::held(&home, &row.session);
            // What waits for its approval, or for a first driver, is neither.
            let waits = matches!(row.status.as_deref(), Some("ready" | "approved"));
            if driven || !waits {
                row.status = Some(if driven { "running" } else { "lost" }.to_owned());
            }
        }
    }
    Ok(rows)
}

/// The root of the repository that a directory is in, or the directory itself.
fn root(dir: &Path) -> Result<PathBuf, Refusal> {
    let refuse = |what: String| Refusal::usage(format!("--repo {}: {what}", dir.display()));
    let dir = std::fs::canonicalize(dir).map_err(|error| refuse(error.to_string()))?;
    Ok(match repository::root_of(&dir).map_err(refuse)? {
        repository::Root::WorkTree(root) => root,
        repository::Root::Bare | repository::Root::Plain => dir,
    })
}

fn for_people(rows: &[Listed], narrowed: bool) -> String {
    let mut out = String::new();
    for row in rows {
        let ending = match (&row.outcome, &row.reason) {
            (Some(outcome), Some(reason)) => format!("{outcome} ({reason})"),
            _ => text::one_line(row.status.as_deref().unwrap_or("open"), TASK_WIDTH),
        };
        let task = text::one_line(row.task.as_deref().unwrap_or_default(), TASK_WIDTH);
        out.push_str(&format!("{}  {}  {ending:<32}  {task}", row.session, ports::time(row.created_at)));
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    if rows.is_empty() && narrowed {
        out.push_str("no session is like that: `countersign list` shows the latest\n");
    } else if rows.is_empty() {
        out.push_str("no sessions yet: `countersign run --help` says how to begin one\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_for_people_and_bounded() {
        let row = |outcome: Option<&str>, task: &str| Listed {
            session: SessionId::new("s-20261130-005320-ababab").unwrap(),
            created_at: Millis(1_796_000_000_123),
            updated_at: Millis(1_796_000_000_123),
            status: outcome.is_none().then(|| "parked".to_owned()),
            outcome: outcome.map(str::to_owned),
            reason: outcome.map(|_| "checks_passed".to_owned()),
            exit_code: outcome.map(|_| 0),
            task: Some(task.to_owned()),
            repository: Some("/home/u/project".to_owned()),
        };
        let rows = [row(Some("verified"), "fix the parser"), row(None, &"x\u{1b}".repeat(99))];
        insta::assert_snapshot!(for_people(&rows, false));
        insta::assert_snapshot!(for_people(&[], false));
        assert!(for_people(&[], true).starts_with("no session is like that"));
        insta::assert_json_snapshot!(row(None, "t"));
    }
}
