//! The fence's language rules: one table, read by the fence, by the edit tools' guard and by people
//! (`docs/fence.md` is held against it).
//!
//! Numbers in comments are entries of the catalogue of false greens: what an agent could change to make a check say yes
//! without doing the work.
//!
//! Decided here, and why:
//! - A **new** ordinary test file is fine anywhere, `tests/__init__.py` included (it can change which directory pytest
//!   puts on `sys.path`, so it is noted).
//! - What a pattern without `**` in front means at the root it means at the root of each package of the base too: beside
//!   a `package.json`, `go.mod`, `Cargo.toml`, … A directory named `test` elsewhere is product code in many packages;
//!   only sources in languages whose runners look into it count there.
//! - `build.rs`, `pom.xml`, `CMakeLists.txt`, lockfiles and the like are ordinary and noted: an honest fix edits them,
//!   and what a build script does to the tree while the check runs shows when judged entries are looked at afterwards.
//! - A Makefile (justfile, noxfile, lint configuration, …) is a rule of the runner only where a check's command names
//!   that runner, or runs a script that could; elsewhere it is an ordinary file of the project.
//! - A file that a check's command names is a part of the check. Where it is the product itself, the contract's scope
//!   names it by its path.
//! - `*.pth` counts only below `site-packages`: elsewhere it is a common name for model weights.
//! - Names are compared as bytes, and once more as a file system that folds them would have them.

mod any;
mod catalogue;
mod go;
mod javascript;
mod make;
mod other;
mod python;
mod rust;

use countersign_guest::protocol::FenceKind;

pub use catalogue::{CatalogueRow, catalogue};
pub use javascript::JS_RUNNER_MODULES;
pub use python::RUNNER_MODULES;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Stable: stands in findings, verdicts and documents.
    pub name: &'static str,
    pub language: Language,
    pub means: Means,
    pub when: When,
    /// In the contract's glob language, anchored at the tree root.
    pub globs: &'static [&'static str],
    /// Ends the sentence "this path is refused because …".
    pub why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Any,
    Rust,
    Python,
    JavaScript,
    Go,
    Make,
    Ruby,
    Perl,
    Php,
    Jvm,
    C,
}

/// What a match means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A file of the base: changing, deleting or renaming it, its mode included, is `tampered`. A new one is fine.
    ProtectedExisting,
    /// A runner reads it by itself. As `ProtectedExisting`, and a new one is planted.
    AutoLoaded,
    /// The runner's keys in it are compared by the guest, the rest is ordinary.
    Mixed(FenceKind),
    /// Worth telling, stops nothing.
    Noted,
}

/// A condition on the contract or on the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// A word of a check's command has this base name (words inside a shell string count).
    CheckRuns(&'static [&'static str]),
    /// A check's command runs a shell script or an executable of the base, which may call anything.
    CheckRunsScript,
    /// The entry is a symlink: a directory that a runner looks into would be reached through it.
    Link,
}

const fn rule(
    name: &'static str,
    language: Language,
    means: Means,
    globs: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { name, language, means, when: When::Always, globs, why }
}

const fn rule_when(
    name: &'static str,
    language: Language,
    means: Means,
    when: When,
    globs: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { name, language, means, when, globs, why }
}

/// Every rule that is decided by path. What a runner loads by itself decides before what is an existing test, and
/// otherwise the first row that matches.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        any::TESTS,
        python::RULES,
        rust::RULES,
        javascript::RULES,
        go::RULES,
        make::RULES,
        other::RULES,
        any::NOTES,
    ]
    .into_iter()
    .flatten()
}

/// Files beside which a package's own directories of tests stand.
pub const PACKAGE_FILES: [&str; 12] = [
    "package.json",
    "go.mod",
    "Cargo.toml",
    "pyproject.toml",
    "setup.py",
    "Gemfile",
    "Makefile.PL",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "CMakeLists.txt",
];
