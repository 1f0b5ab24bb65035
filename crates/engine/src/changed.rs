//! What differs between base and sealed tree, as a list for people and programs.

use countersign_tree::Change;
use serde::{Deserialize, Serialize};

/// Paths that a list names; the rest is counted.
const MAX_LISTED: usize = 500;

/// The changed paths of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    /// In the order of their paths, control characters escaped. Hostile.
    pub paths: Vec<ChangedPath>,
    /// Changed paths that are not in the list.
    pub more: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPath {
    pub path: String,
    pub change: ChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Modified,
    /// The same bytes, executable or no longer.
    Mode,
    /// A link in place of a file, or a file in place of a link.
    Type,
    Deleted,
}

impl ChangeKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Mode => "mode",
            Self::Type => "type",
            Self::Deleted => "deleted",
        }
    }

    fn of(change: &Change) -> Self {
        match (&change.before, &change.after) {
            (None, _) => Self::Added,
            (_, None) => Self::Deleted,
            (Some(a), Some(b)) if a.mode != b.mode && !(a.mode.is_file() && b.mode.is_file()) => Self::Type,
            (Some(a), Some(b)) if a.digest == b.digest => Self::Mode,
            _ => Self::Modified,
        }
    }
}

impl Changes {
    /// Changed paths, those that are not listed included.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.added + self.modified + self.deleted
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all() == 0
    }

    pub(crate) fn of(changes: &[Change]) -> Self {
        let mut all = Self::default();
        for change in changes {
            let kind = ChangeKind::of(change);
            match kind {
                ChangeKind::Added => all.added += 1,
                ChangeKind::Deleted => all.deleted += 1,
                ChangeKind::Modified | ChangeKind::Mode | ChangeKind::Type => all.modified += 1,
            }
            if all.paths.len() < MAX_LISTED {
                all.paths.push(ChangedPath { path: change.path.to_string(), change: kind });
            } else {
                all.more += 1;
            }
        }
        all
    }
}
