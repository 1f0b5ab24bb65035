//! What becomes of a finding.

use countersign_types::{JobEnd, JobReceipt};

use super::{ADVISES_FROM, ASKS_FROM, Draft, Fate, ReviewFinding, STANDS_FROM, Severity};
use crate::check::how_it_ended;
use crate::feedback::{line, push_stream, short, shown_argv};
use crate::runner::{Meaning, Runner};

/// Bytes of the text that takes findings to the agent.
const FEEDBACK_LIMIT: usize = 16 * 1024;
/// Bytes of one stream in it.
const FEEDBACK_STREAM: usize = 1500;

/// Whether a finding's quote was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoted {
    Verbatim,
    NotThere,
    /// The tree has no such file.
    NoFile,
}

/// Equal findings as one: the same quote of the same file, and not two different commands. The most severe of them stands,
/// with the highest confidence and with a command if any has one.
#[must_use]
pub fn merged(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut all: Vec<Draft> = Vec::new();
    for draft in drafts {
        let equal = all.iter_mut().find(|other| {
            let same_command = other.repro == draft.repro || other.repro.is_none() || draft.repro.is_none();
            other.file == draft.file && other.quote.trim() == draft.quote.trim() && same_command
        });
        match equal {
            None => all.push(draft),
            Some(other) => {
                if (draft.severity, draft.confidence) > (other.severity, other.confidence) {
                    other.failure_scenario = draft.failure_scenario;
                }
                other.severity = other.severity.max(draft.severity);
                other.confidence = other.confidence.max(draft.confidence);
                other.repro = other.repro.take().or(draft.repro);
            }
        }
    }
    all
}

/// What is certain before anything is run. None: its reproduction decides.
#[must_use]
pub fn first_look(draft: &Draft, quoted: Quoted) -> Option<(Fate, String)> {
    let settled = |fate, why: &str| Some((fate, why.to_owned()));
    match (quoted, draft.severity) {
        (Quoted::NoFile, _) => settled(Fate::Dropped, "the final tree has no such file"),
        (Quoted::NotThere, _) => settled(Fate::Dropped, "its quote does not stand in the file"),
        (Quoted::Verbatim, Severity::Note) => settled(Fate::Note, "it says itself that it blocks nothing"),
        (Quoted::Verbatim, Severity::Blocker) if draft.repro.is_none() => Some(unshown(draft.confidence)),
        (Quoted::Verbatim, Severity::Blocker) => None,
    }
}

/// A blocker that no command shows.
#[must_use]
pub fn unshown(confidence: u8) -> (Fate, String) {
    if confidence >= ADVISES_FROM {
        (Fate::Advised, "no command shows it".to_owned())
    } else {
        (Fate::Note, "no command shows it, and the reviewer is not sure".to_owned())
    }
}

/// Is the reviewer to be asked how this can be shown?
#[must_use]
pub fn wants_repro(finding: &ReviewFinding) -> bool {
    finding.severity == Severity::Blocker
        && finding.fate == Fate::Advised
        && finding.confidence >= ASKS_FROM
        && finding.repro.is_none()
        && !finding.asked
}

/// What the end of a reproduction says.
enum Shown {
    Green,
    Red,
    Nothing(String),
}

fn shown(argv: &[String], end: &JobEnd) -> Shown {
    match Runner::of(argv).meaning(end) {
        Meaning::Green => Shown::Green,
        Meaning::TestsFailed | Meaning::Red => Shown::Red,
        Meaning::NoTests => Shown::Nothing("it found no tests".to_owned()),
        Meaning::NotCollected(what) | Meaning::RunnerBroke(what) => Shown::Nothing(what.to_owned()),
        Meaning::NoAnswer(what) => Shown::Nothing(what),
    }
}

/// Is the base to be asked, too?
#[must_use]
pub fn needs_base(argv: &[String], on_final: &JobEnd, changed: bool) -> bool {
    !changed && matches!(shown(argv, on_final), Shown::Red)
}

/// What a reproduction shows: its end on the final tree, whether it changed judged files there, and its end on the base, which
/// is asked for only where the first is a failure (None: it could not be run).
#[must_use]
pub fn settled(
    argv: &[String],
    confidence: u8,
    on_final: &JobEnd,
    changed: bool,
    on_base: Option<&JobEnd>,
) -> (Fate, String) {
    if changed {
        return (Fate::Dropped, "its reproduction changes files of the tree that is judged".to_owned());
    }
    match shown(argv, on_final) {
        Shown::Nothing(what) => (Fate::Advised, format!("its reproduction says nothing: {what}")),
        Shown::Green if confidence >= STANDS_FROM => (
            Fate::Advised,
            "its reproduction passes, which does not refute a failure that depends on timing".to_owned(),
        ),
        Shown::Green => (Fate::Refuted, "its reproduction passes".to_owned()),
        Shown::Red => {
            let end = how_it_ended(on_final);
            match on_base.map(|base| shown(argv, base)) {
                Some(Shown::Green) => (
                    Fate::Blocked,
                    format!("its reproduction fails on the final tree ({end}) and passes on the base"),
                ),
                Some(Shown::Red) => (
                    Fate::Advised,
                    "its reproduction fails on the base too, so that it shows nothing of this change"
                        .to_owned(),
                ),
                Some(Shown::Nothing(what)) => {
                    (Fate::Advised, format!("its reproduction says nothing on the base: {what}"))
                }
                None => (Fate::Advised, "its reproduction could not be run on the base".to_owned()),
            }
        }
    }
}

/// What the reproduction of a confirmed finding shows on a later tree. None: nothing, and it stays confirmed.
#[must_use]
pub fn again(argv: &[String], on_final: &JobEnd, changed: bool) -> Option<(Fate, String)> {
    match shown(argv, on_final) {
        Shown::Green if !changed => Some((Fate::Repaired, "its reproduction passes now".to_owned())),
        Shown::Red => {
            Some((Fate::Blocked, format!("its reproduction still fails ({})", how_it_ended(on_final))))
        }
        Shown::Green | Shown::Nothing(_) => None,
    }
}

/// One sentence over all findings.
#[must_use]
pub fn sentence(findings: &[ReviewFinding], malformed: u32, more: u32) -> String {
    let mut parts: Vec<String> = Fate::ALL
        .iter()
        .filter_map(|fate| {
            let count = findings.iter().filter(|finding| finding.fate == *fate).count();
            (count > 0).then(|| format!("{count} {}", fate.as_str()))
        })
        .collect();
    if malformed > 0 {
        parts.push(format!("{malformed} without the form that was asked for"));
    }
    if more > 0 {
        parts.push(format!("{more} more than are looked at"));
    }
    if parts.is_empty() { "no findings".to_owned() } else { format!("findings: {}", parts.join(", ")) }
}

/// A confirmed finding with what its reproduction printed.
#[derive(Clone, Copy, Debug)]
pub struct FeedbackFinding<'a> {
    pub finding: &'a ReviewFinding,
    /// None: it is no longer at hand.
    pub receipt: Option<&'a JobReceipt>,
}

/// Takes confirmed findings to the agent as work. At most 16 KiB; control characters are replaced. The receipts must already
/// be redacted.
#[must_use]
pub fn review_feedback(items: &[FeedbackFinding<'_>]) -> String {
    let mut out = String::from(
        "The checks pass. A review of the change found defects; each is shown by a command that fails on your files in a \
         clean room and passes on the files as they were at the start. Mend them: the same commands decide.\n",
    );
    for FeedbackFinding { finding, receipt } in items {
        out.push_str(&format!("\nIn {}: {}\n", short(&finding.file), line(&finding.failure_scenario)));
        if let Some(argv) = &finding.repro {
            out.push_str(&format!("$ {}\n", shown_argv(argv)));
        }
        if let Some(end) = &finding.on_final {
            out.push_str(&format!("{}\n", how_it_ended(end)));
        }
        if let Some(receipt) = receipt {
            push_stream(&mut out, "stdout", &receipt.stdout, FEEDBACK_STREAM);
            push_stream(&mut out, "stderr", &receipt.stderr, FEEDBACK_STREAM);
        }
    }
    crate::feedback::clip(&mut out, FEEDBACK_LIMIT);
    out
}
