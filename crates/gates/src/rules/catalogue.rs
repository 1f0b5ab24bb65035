//! Every name that a finding of the fence can carry, with what it is for: the help text, `docs/fence.md` and the check of
//! `--allow` read it.

use super::{Means, When, rules};

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueRow {
    pub name: &'static str,
    /// What stands under the rule, for people.
    pub protects: String,
    /// Whether a contract can lift it by `--allow`.
    pub can_be_allowed: bool,
}

/// Names of findings that no row of the table carries, with what they say.
const OTHERS: &[(&str, &str, bool)] = &[
    ("contract.protect", "what the contract protects by `--protect`", false),
    (
        "check.program",
        "every file of the base that the check's command names, unless `--scope` names it",
        true,
    ),
    (
        "check.called",
        "what the check's scripts source and run, its makefiles include, and its `package.json` runs, where the name or the \
         place says that it is there for tests",
        true,
    ),
    ("tests.linked", "what a link of the base makes an existing test", true),
    (
        "runner.shadow",
        "new modules, libraries, links, makefiles and nested `go.mod` that would be used in place of what a check relies on",
        true,
    ),
    ("go.vendor", "vendored modules of Go, and a new `vendor/modules.txt`", true),
    ("alias.protected", "a new name that a file system may hold as a protected file", true),
    (
        "alias.auto_loaded",
        "a new name that a file system may hold as one that a runner loads by itself",
        true,
    ),
    ("alias.collision", "two names of the final tree that a file system may hold as one", true),
    // What the guest finds in files.
    ("cargo.runner_key", "keys of `Cargo.toml` that say which tests run, how, and from what", true),
    (
        "pyproject.runner_key",
        "tables of `pyproject.toml` for pytest, coverage, tox, nox, hypothesis and task runners",
        true,
    ),
    ("setup_cfg.runner_key", "sections of `setup.cfg` for test runners, and plug-ins of pytest", true),
    ("tox_ini.runner_key", "sections of `tox.ini` for pytest, tox and coverage", true),
    (
        "package_json.runner_key",
        "scripts of `package.json` that a check may reach, tables of test runners, workspaces, and where dependencies come from",
        true,
    ),
    ("tsconfig.runner_key", "keys of `tsconfig.json` that say where imports lead", true),
    ("go_mod.runner_key", "lines of `go.mod` but `require`, `go`, `retract` and `tool`", true),
    ("go_work.runner_key", "a new `go.work`; modules, replacements and toolchain of an existing one", true),
    ("go.test_main", "a new `TestMain` beside existing Go tests", true),
    ("go.predeclared", "a package-level name of Go that is predeclared, such as `panic` or `false`", true),
    ("rust.test_item_changed", "existing `#[test]` and `#[cfg(test)]` items", true),
    ("rust.doc_test_changed", "existing documentation tests", true),
    ("rust.module_removed", "declarations of modules that hold tests", true),
    ("rust.test_name_shadowed", "names that existing tests use", true),
    ("rust.test_glob_added", "new glob imports in front of existing tests", true),
    ("rust.test_only_override", "items that only tests would see", true),
    ("rust.crate_attribute_added", "new attributes of a crate or module that compile tests out", true),
    ("rust.cfg_test_in_product", "new product code that asks whether it is under test", true),
    ("rust.verdict_macro_shadowed", "macros such as `assert_eq!` declared anew", true),
    // What could not be read.
    ("fence.not_read", "a changed file that is too large or could not be read", true),
    ("keys.unreadable", "a changed file of keys that cannot be parsed", true),
    ("keys.base_unreadable", "a file of keys that cannot be parsed in the base", true),
    ("rust.unreadable", "changed Rust source that is no Rust", true),
    ("rust.base_unreadable", "Rust source of the base that is no Rust", true),
];

/// All names that can stop a run, the table's rows first. Notes stop nothing and are not among them.
#[must_use]
pub fn catalogue() -> Vec<CatalogueRow> {
    let rows = rules().filter(|rule| rule.means != Means::Noted).map(|rule| {
        let globs: Vec<String> = rule.globs.iter().map(|glob| format!("`{glob}`")).collect();
        let what = match rule.means {
            Means::ProtectedExisting => "existing files",
            Means::AutoLoaded => "existing and new files",
            Means::Mixed(_) => "a link in place of",
            Means::Noted => "",
        };
        let when = match rule.when {
            When::Always => String::new(),
            When::CheckRuns(names) => {
                format!(
                    ", where the check runs {}",
                    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
                )
            }
            When::CheckRunsScript => ", where the check runs a script".to_owned(),
            When::Link => ", where it is a link".to_owned(),
        };
        let protects = format!("{what} {}{when}", globs.join(" "));
        CatalogueRow { name: rule.name, protects, can_be_allowed: true }
    });
    let others = OTHERS.iter().map(|(name, protects, can_be_allowed)| CatalogueRow {
        name,
        protects: (*protects).to_owned(),
        can_be_allowed: *can_be_allowed,
    });
    rows.chain(others).collect()
}
