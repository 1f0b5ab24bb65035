//! `doctor`: which sandboxes work on this machine, what was observed in them, and how to get the others.

use countersign_cell::{CellError, TierReport, report};
use countersign_types::{Tier, TierProperties};
use serde::Serialize;

use crate::args::{DoctorArgs, Format, TextOrJson};
use crate::refusal::Refusal;
use crate::{exit, render, run, terminal, text, tiers};

#[derive(Debug, Serialize)]
struct Report {
    tiers: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: Tier,
    available: bool,
    /// What a canary saw inside; nothing is assumed.
    properties: TierProperties,
    why_not: Option<String>,
    fix: Option<String>,
}

impl From<TierReport> for Line {
    fn from(report: TierReport) -> Self {
        let TierReport { tier, available, properties, why_not, fix, .. } = report;
        Self { name: tier, available, properties, why_not, fix }
    }
}

pub(crate) fn doctor(args: &DoctorArgs) -> u8 {
    let format = if args.format == TextOrJson::Json { Format::Json } else { Format::Text };
    match look() {
        Ok(report) => {
            show(args.format, &report);
            exit::DONE
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

fn look() -> Result<Report, Refusal> {
    let binaries = match tiers::binaries() {
        Ok(binaries) => binaries,
        // Without the launcher no tier works; the report says so like of any other cause.
        Err(CellError::Unavailable { why, fix, .. }) => {
            return Ok(Report { tiers: Tier::ALL.iter().map(|t| without(*t, &why, &fix)).collect() });
        }
        Err(error) => return Err(error.into()),
    };
    let scratch = tempfile::Builder::new().prefix("countersign-doctor-").tempdir().map_err(|error| {
        Refusal::new(countersign_types::Reason::Config, format!("no temporary directory: {error}"))
    })?;
    let tiers = run::runtime()?.block_on(report(&binaries, scratch.path()));
    Ok(Report { tiers: tiers.into_iter().map(Line::from).collect() })
}

fn without(tier: Tier, why: &str, fix: &str) -> Line {
    Line {
        name: tier,
        available: false,
        properties: TierProperties::new(),
        why_not: Some(why.to_owned()),
        fix: Some(fix.to_owned()),
    }
}

fn show(format: TextOrJson, report: &Report) {
    match format {
        TextOrJson::Json => match serde_json::to_string(report) {
            Ok(line) => terminal::out_line(&line),
            Err(error) => terminal::err_line(&format!("the report cannot be written as JSON: {error}")),
        },
        TextOrJson::Text => terminal::out_bytes(for_people(report).as_bytes()),
    }
}

fn for_people(report: &Report) -> String {
    let mut out = String::new();
    for tier in &report.tiers {
        let word = if tier.available { "works" } else { "not available" };
        out.push_str(&format!("{:<10} {word}\n", tier.name.as_str()));
        if tier.available {
            let seen: Vec<_> = tier.properties.iter().map(|property| property.as_str()).collect();
            let seen =
                if seen.is_empty() { "nothing: commands run as you".to_owned() } else { seen.join(", ") };
            out.push_str(&format!("           observed: {seen}\n"));
        }
        for (label, text) in [("why", &tier.why_not), ("fix", &tier.fix)] {
            if let Some(text) = text {
                out.push_str(&format!("           {label}: {}\n", text::safe(text)));
            }
        }
    }
    out
}
