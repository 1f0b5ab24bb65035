//! One step as the detectors see it.

use countersign_types::{Digest, Millis};

use crate::effect::{JobSummary, PlannedCall, ToolName};

/// A step whose commands took this long may have waited for something.
const WAITS: Millis = Millis(1000);

/// What came of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) call: PlannedCall,
    pub(crate) ok: bool,
    pub(crate) job: Option<JobSummary>,
    /// The digest of what it said, durations left out. None: it said nothing.
    pub(crate) said: Option<Digest>,
}

impl Seen {
    /// How an act failed, if it failed in words that can be known again.
    pub(crate) const fn failure(&self) -> Option<Digest> {
        let acts = matches!(
            self.call.tool,
            ToolName::Run | ToolName::Check | ToolName::EditFile | ToolName::WriteFile
        );
        if self.ok || !acts { None } else { self.said }
    }

    /// What a read told: what was asked for and what was said.
    pub(crate) fn read(&self) -> Option<Digest> {
        if self.ok && self.call.tool == ToolName::ReadFile {
            Some(chained(self.call.arguments, &[self.said?.as_bytes()]))
        } else {
            None
        }
    }

    fn end(&self) -> [u8; 6] {
        let (kind, number) = match self.job {
            None => (0, 0),
            Some(JobSummary::Exited { code }) => (1, code),
            Some(JobSummary::Signaled { signal }) => (2, signal),
            Some(JobSummary::Limited) => (3, 0),
            Some(JobSummary::Canceled) => (4, 0),
            Some(JobSummary::NotStarted) => (5, 0),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [u8::from(self.ok), kind, a, b, c, d]
    }
}

/// A step whose calls are under way. Its size is that of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    asked: Digest,
    begun: Option<Millis>,
    moved: bool,
    pub(crate) seen: Vec<Seen>,
}

impl Open {
    /// `moved`: the model's opaque reasoning is another than in the step before.
    pub(crate) fn new(calls: &[PlannedCall], moved: bool) -> Self {
        let asked = calls.iter().fold(Digest::of(b"step"), |before, call| {
            chained(before, &[call.tool.as_str().as_bytes(), call.arguments.as_bytes()])
        });
        Self { asked, begun: None, moved, seen: Vec::new() }
    }

    pub(crate) fn begin(&mut self, at: Millis) {
        self.begun.get_or_insert(at);
    }

    /// All results are there; `tree` is what they left.
    pub(crate) fn close(&self, tree: Option<Digest>, at: Millis) -> Mark {
        let results = self.seen.iter().fold(self.asked, |before, seen| {
            let said = seen.said.map_or([0; 32], |said| *said.as_bytes());
            chained(before, &[&seen.end(), &said])
        });
        let commands = self.seen.iter().any(|seen| seen.job.is_some() || seen.call.tool == ToolName::Check);
        let took = self.begun.map_or(Millis(0), |begun| at.saturating_sub(begun));
        Mark {
            asked: self.asked,
            whole: chained(results, &[&tree.map_or([0; 32], |tree| *tree.as_bytes())]),
            moved: self.moved,
            waited: commands && took >= WAITS,
        }
    }
}

/// A step that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// What was asked for.
    pub(crate) asked: Digest,
    /// What was asked for, what came of it, and the tree that it left.
    pub(crate) whole: Digest,
    /// The model's opaque reasoning moved.
    pub(crate) moved: bool,
    /// Its commands took long.
    pub(crate) waited: bool,
}

/// The digest of what came before and of some parts, none of which can be taken for another.
fn chained(before: Digest, parts: &[&[u8]]) -> Digest {
    let mut bytes = before.as_bytes().to_vec();
    for part in parts {
        bytes.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    Digest::of(&bytes)
}
