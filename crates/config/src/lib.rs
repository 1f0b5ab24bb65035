//! Settings: what a run is asked to do, each value with where it came from and whether a floor moved it.
//!
//! Flags beat the environment, which beats the user's configuration file, which beats the preset, which beats the
//! default. The trust level sets floors: a file's or a default's value below one is raised and says so, a flag below
//! one is an error that names the field.
//!
//! Architecture invariants: no I/O and no environment (the caller brings text and values); a repository's files are
//! never a layer; presets are constants pinned by digest, and a changed behaviour is a new version of the name.
#![forbid(unsafe_code)]

mod file;
mod preset;
mod resolve;
mod setting;
mod words;

pub use file::{Cache, ConfigFileError, MAX_CONFIG_FILE, UserConfig};
pub use preset::{CODING, GATE, PRESETS, Preset, QUESTION};
pub use resolve::{Layer, Layers, Network, Resolved, SettingError, resolve, trust};
pub use setting::{Setting, Source};
pub use words::{WordsError, check_words, split_words};
