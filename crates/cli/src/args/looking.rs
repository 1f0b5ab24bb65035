//! Arguments of what looks at sessions: `list`, `show`, `report`, `watch`, `events`.

use std::path::PathBuf;

use clap::Args;
use countersign_proof::time::parse_rfc3339;
use countersign_types::{Millis, Outcome, Reason, SessionId};

use super::{ShowFormat, TextOrJson, TextOrNdjson};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only sessions that ended like this; repeatable
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    pub(crate) outcome: Vec<Outcome>,
    /// Only sessions that ended for this reason; repeatable
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub(crate) reason: Vec<Reason>,
    /// Only sessions of the repository that this directory is in
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,
    /// Only sessions that began since then: 2h, 7d, 2026-11-30 or 2026-11-30T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
    /// Sessions, at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

impl ListArgs {
    /// Does anything but the number narrow the list?
    pub(crate) fn narrows(&self) -> bool {
        !self.outcome.is_empty() || !self.reason.is_empty() || self.repo.is_some() || self.since.is_some()
    }
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also the patch files of sessions that ended before then (30d, 2026-11-30), where their bundle holds the same patch
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) older_than: Option<Since>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// Show one payload of one event with the salt of its commitment, as JSON that `verify --revealed` takes: the event's
    /// number, and the payload's name where it has several. Everything else stays hidden
    #[arg(long, value_name = "EVENT[:NAME]")]
    pub(crate) reveal: Option<String>,
    /// Write the payload into this new directory, with the journal's lines and the signed statement of the turn, to be
    /// handed to somebody who is to see nothing else: `verify --revealed DIR` checks it without the bundle
    #[arg(long, value_name = "DIR", requires = "reveal")]
    pub(crate) out: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = ShowFormat::Text)]
    pub(crate) format: ShowFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// One line for each thing done, as where standard output is no terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// Go on until the session ends
    #[arg(long)]
    pub(crate) follow: bool,
    #[arg(long, value_enum, default_value_t = TextOrNdjson::Text)]
    pub(crate) format: TextOrNdjson,
}

/// A point in time, as a person says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Millis),
    At(Millis),
}

impl Since {
    /// Milliseconds since the epoch.
    pub(crate) fn at(self, now: Millis) -> Millis {
        match self {
            Self::Ago(ago) => now.saturating_sub(ago),
            Self::At(at) => at,
        }
    }
}

const DAY: u64 = 86_400_000;

fn since(text: &str) -> Result<Since, String> {
    let day = |text: &str| parse_rfc3339(&format!("{text}T00:00:00Z"));
    if let Some(at) = parse_rfc3339(text).or_else(|| day(text)) {
        return Ok(Since::At(at));
    }
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()?.checked_mul(DAY)).map(Millis);
    // A bare number would be seconds, which nobody means here.
    let unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    days.or_else(|| text.parse().ok().filter(|_| unit)).map(Since::Ago).ok_or_else(|| {
        "expected how long ago (90m, 2h, 7d), a day (2026-11-30) or a time (2026-11-30T12:00:00Z)".to_owned()
    })
}

fn outcome(text: &str) -> Result<Outcome, String> {
    Outcome::ALL.iter().copied().find(|outcome| outcome.as_str() == text).ok_or_else(|| {
        let all: Vec<_> = Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect();
        format!("expected one of {}", all.join(", "))
    })
}

fn reason(text: &str) -> Result<Reason, String> {
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == text).ok_or_else(|| {
        let all: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        format!("expected one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_is_said_in_three_ways() {
        let now = Millis(1_796_000_000_000);
        for (text, at) in [
            ("2h", now.0 - 7_200_000),
            ("7d", now.0 - 7 * DAY),
            ("90m", now.0 - 5_400_000),
            ("2026-11-30", 1_795_996_800_000),
            ("2026-11-30T00:53:20Z", 1_796_000_000_000),
        ] {
            assert_eq!(since(text).map(|since| since.at(now)), Ok(Millis(at)), "{text}");
        }
        for text in ["", "7", "d", "-1d", "yesterday", "2026-13-01", "99999999999999999999d"] {
            assert!(since(text).is_err(), "{text}");
        }
        assert_eq!(Since::Ago(Millis(u64::MAX)).at(now), Millis(0));
    }
}
