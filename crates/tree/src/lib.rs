//! Trees: what is sealed, judged and delivered. Entries and manifests, their digest, globs, scratch rules, and the
//! object store that holds their bytes.
//!
//! Architecture invariants: a manifest's digest depends on path bytes, modes and contents only; nothing here parses
//! what a file holds; nothing here starts a process.
#![forbid(unsafe_code)]

mod entry;
mod glob;
mod ignore;
mod memo;
mod path;
mod scratch;
mod store;

pub use entry::{Change, Delta, Entry, EntryMode, Manifest};
pub use glob::{Glob, GlobError, GlobSet};
pub use memo::Memo;
pub use path::{PathError, TreePath, fold};
pub use scratch::{
    FIXED_DIRS, FIXED_SUFFIXES, Judgement, LOCKFILES, RulesError, Scratch, ScratchRules, is_fixed_scratch,
};
pub use store::{Batch, Durability, Located, NewSegment, ObjectStore, StoreError};
