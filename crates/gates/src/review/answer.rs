//! Reads what a reviewer answers: one JSON object, strictly, within bounds.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Severity;

/// Findings of one answer that are looked at.
pub const MAX_FINDINGS: usize = 20;

/// Bytes of an answer.
const MAX_ANSWER: usize = 256 * 1024;
/// Bytes of a path, of a quote and of a failure's description.
const MAX_FILE: usize = 500;
const MAX_TEXT: usize = 2 * 1024;
/// Words of a reproduction, and bytes of all of them.
const MAX_WORDS: usize = 30;
const MAX_ARGV: usize = 8 * 1024;

/// A finding as it came.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    pub file: String,
    pub quote: String,
    pub severity: Severity,
    pub confidence: u8,
    pub failure_scenario: String,
    #[serde(default)]
    pub repro: Option<Vec<String>>,
}

/// An answer that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub findings: Vec<Draft>,
    /// Findings without the form that was asked for.
    pub malformed: u32,
    /// Findings beyond the bound.
    pub more: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Findings {
    findings: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repros {
    repros: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repro {
    finding: usize,
    argv: Vec<String>,
}

/// Reads a list of findings. `Err` says, in our words, why the whole answer is of no use.
pub fn findings(text: &str) -> Result<Answer, String> {
    let Findings { findings: all } = object(text)?;
    let more = all.len().saturating_sub(MAX_FINDINGS);
    let mut answer = Answer { more: u32::try_from(more).unwrap_or(u32::MAX), ..Answer::default() };
    for value in all.into_iter().take(MAX_FINDINGS) {
        match serde_json::from_value::<Draft>(value).ok().filter(is_well_formed) {
            Some(draft) => answer.findings.push(draft),
            None => answer.malformed += 1,
        }
    }
    if answer.findings.is_empty() && answer.malformed > 0 {
        return Err(format!("none of its {} findings has the form that was asked for", answer.malformed));
    }
    Ok(answer)
}

/// Reads commands for the findings numbered from 1 to `asked`. One without its form is left out; the first of several for one
/// finding counts.
pub fn repros(text: &str, asked: usize) -> Result<BTreeMap<usize, Vec<String>>, String> {
    let Repros { repros: all } = object(text)?;
    let mut by_finding = BTreeMap::new();
    for value in all.into_iter().take(MAX_FINDINGS) {
        let Ok(Repro { finding, argv }) = serde_json::from_value(value) else { continue };
        if (1..=asked).contains(&finding) && is_a_command(&argv) {
            by_finding.entry(finding).or_insert(argv);
        }
    }
    Ok(by_finding)
}

/// The one object of an answer, which may stand in a code block of its own.
fn object<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
    if text.len() > MAX_ANSWER {
        return Err(format!("it is longer than {MAX_ANSWER} bytes"));
    }
    let text = text.trim();
    let inner = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'))
        .map_or(text, |(_, inner)| inner);
    // The parser's own words quote the answer: only the place is told.
    serde_json::from_str(inner).map_err(|error| {
        format!(
            "it is not the JSON object that was asked for (line {}, column {})",
            error.line(),
            error.column()
        )
    })
}

fn is_well_formed(draft: &Draft) -> bool {
    let text = |text: &str, most: usize| !text.trim().is_empty() && text.len() <= most;
    text(&draft.file, MAX_FILE)
        && text(&draft.quote, MAX_TEXT)
        && text(&draft.failure_scenario, MAX_TEXT)
        && draft.confidence <= 10
        && draft.repro.as_deref().is_none_or(is_a_command)
}

fn is_a_command(argv: &[String]) -> bool {
    let bytes: usize = argv.iter().map(String::len).sum();
    argv.first().is_some_and(|program| !program.trim().is_empty())
        && argv.len() <= MAX_WORDS
        && bytes <= MAX_ARGV
        && argv.iter().all(|word| !word.contains('\0'))
}
