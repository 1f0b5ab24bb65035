//! What an agent says beside what the journal shows. Patterns over its last words, without a model: they inform, and
//! nothing that is decided depends on them.
//!
//! A clause counts only when it states a fact: "should pass", "if it passes" and "does not pass" claim nothing that could
//! be held against it. What no pattern knows is silence, which is no verdict either.

mod kinds;
mod text;

use countersign_types::GateStatus;
use serde::{Deserialize, Serialize};

pub use crate::claims::kinds::is_named_as_a_test;
use crate::claims::kinds::{changed, ran, tests_pass, untouched};
use crate::claims::text::{clauses, names_in, sentences, tokens};
use crate::feedback::line;

/// Bytes of the last words that are looked at.
const LOOKED_AT: usize = 32 * 1024;

/// Claims of one text that are told.
const MOST: usize = 16;

/// Bytes of a quote.
const QUOTE: usize = 200;

/// What kind of fact is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// "All tests pass."
    TestsPass,
    /// "I ran pytest."
    Ran,
    /// "No other files changed", "the tests are as they were".
    Untouched,
    /// "I changed `lib.py`."
    Changed,
}

/// What the journal says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    Supported,
    Contradicted,
    /// The journal shows neither.
    NotShown,
}

impl ClaimVerdict {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Contradicted => "contradicted",
            Self::NotShown => "not_shown",
        }
    }

    /// As a part of a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Supported => "which the journal supports",
            Self::Contradicted => "which the journal contradicts",
            Self::NotShown => "which the journal does not show",
        }
    }
}

/// One claim beside its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub claim: ClaimKind,
    pub verdict: ClaimVerdict,
    /// The sentence, escaped, at most 200 bytes.
    pub quote: String,
    /// What the journal shows, in our words.
    pub evidence: String,
}

/// A command or a call of `check`, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// None: the `check` tool.
    pub command: Option<String>,
    pub ok: bool,
    /// The tree is still what it was when this ended.
    pub current: bool,
}

/// What the journal of a turn shows.
#[derive(Clone, Copy, Debug)]
pub struct ClaimFacts<'a> {
    /// In order.
    pub ran: &'a [Ran],
    /// The contract's checks as one line each.
    pub checks: &'a [String],
    /// What the check gate said of the delivered tree.
    pub judged: GateStatus,
    /// Paths that differ from the base. None: nothing was sealed, or there are too many to list.
    pub changed: Option<&'a [String]>,
}

/// The claims in an agent's last words, in the order in which they stand there.
#[must_use]
pub fn claims(words: &str, facts: &ClaimFacts<'_>) -> Vec<Claim> {
    let mut end = words.len().min(LOOKED_AT);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    let words = words.get(..end).unwrap_or_default();
    let mentioned = names_in(words);
    let mut found: Vec<Claim> = Vec::new();
    for sentence in sentences(words).filter(|sentence| !sentence.trim_end().ends_with('?')) {
        let mut kinds = Vec::new();
        for clause in clauses(sentence) {
            let tokens = tokens(clause);
            let told = [
                untouched(clause, &tokens, &mentioned, facts).map(|told| (ClaimKind::Untouched, told)),
                tests_pass(&tokens, facts).map(|told| (ClaimKind::TestsPass, told)),
                ran(clause, &tokens, facts).map(|told| (ClaimKind::Ran, told)),
                changed(clause, &tokens, facts).map(|told| (ClaimKind::Changed, told)),
            ];
            for (claim, (verdict, evidence)) in told.into_iter().flatten() {
                if found.len() < MOST && !kinds.contains(&(claim, verdict)) {
                    kinds.push((claim, verdict));
                    found.push(Claim { claim, verdict, quote: quote(sentence), evidence });
                }
            }
        }
    }
    found
}

type Told = (ClaimVerdict, String);

fn quote(sentence: &str) -> String {
    let mut quote = line(sentence.trim());
    let mut end = quote.len().min(QUOTE);
    while !quote.is_char_boundary(end) {
        end -= 1;
    }
    quote.truncate(end);
    quote
}
