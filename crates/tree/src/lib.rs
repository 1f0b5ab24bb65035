//! Trees: what is sealed, judged and delivered. Entries and manifests, their digest, globs, scratch rules, and the
//! object store that holds their bytes.
//!
//! Architecture invariants: a manifest's digest depends on path bytes, modes and contents only; nothing here parses
//! what a file holds; nothing here starts a process.
#![forbid(unsafe_code)]

mod entry;
mod path;

pub use entry::{Change, Delta, Entry, EntryMode, Manifest};
pub use path::{PathError, TreePath};

use serde::{Deserialize, Serialize};

/// What belongs to scratch: patterns of the contract and of the **base** tree's ignore rules, and a fixed list per
/// language. Nothing that the agent writes decides it; a path that the base holds is tree whatever the rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchRules {
    /// Globs in the contract's language, anchored at the tree root.
    pub globs: Vec<String>,
    /// The base's `.gitignore` files: directory (`""` for the root) and text.
    pub ignore_files: Vec<(String, String)>,
}
