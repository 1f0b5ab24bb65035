use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::StoredEvent;
use crate::line::LINE_FORMAT;

/// Which kinds of events this program understands. A session that holds another one is read-only for it.
#[derive(Clone)]
pub struct KnownKinds(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl KnownKinds {
    pub fn new(known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(known))
    }

    /// For programs that only move records about and never act on them.
    #[must_use]
    pub fn all() -> Self {
        Self::new(|_| true)
    }

    pub(crate) fn knows(&self, kind: &str) -> bool {
        (self.0)(kind)
    }
}

impl Default for KnownKinds {
    fn default() -> Self {
        Self::all()
    }
}

impl fmt::Debug for KnownKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownKinds")
    }
}

/// The kinds and formats that a session holds, kept beside its head so that an append need not read its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindSet(BTreeSet<String>);

impl KindSet {
    /// Reads what [`KindSet::to_text`] wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.lines().map(str::to_owned).collect())
    }

    /// One entry a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    #[must_use]
    pub fn of(events: &[StoredEvent]) -> Self {
        let mut set = Self::default();
        for event in events {
            set.add(&event.kind, event.v);
        }
        set
    }

    /// Says whether the entry is new.
    pub fn add(&mut self, kind: &str, v: u32) -> bool {
        self.0.insert(format!("{kind}@{v}"))
    }

    /// The entries that a program with `known` cannot act on.
    #[must_use]
    pub fn unknown(&self, known: &KnownKinds) -> Vec<String> {
        let understood = |entry: &str| {
            entry.rsplit_once('@').is_some_and(|(kind, v)| {
                v.parse::<u32>().is_ok_and(|v| v <= LINE_FORMAT) && known.knows(kind)
            })
        };
        self.0.iter().filter(|entry| !understood(entry)).cloned().collect()
    }
}
