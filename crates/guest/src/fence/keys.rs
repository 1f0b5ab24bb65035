//! Compares the keys that a test runner reads in files that also hold ordinary ones.
//!
//! Not compared, because an honest change needs them: package metadata, dependencies, new binaries, build systems, and
//! the tables of formatters and linters.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tree::TreePath;
use toml::{Table, Value};

use super::{finding, go, ini, javascript, shown_list};
use crate::protocol::{FenceFinding, FenceKind, FenceVerdict};

/// A configuration file larger than this is not parsed.
const MAX_CONFIG: usize = 2 * 1024 * 1024;

/// What one file says to a runner.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// Must be the same, key by key.
    pub(super) exact: BTreeMap<String, String>,
    /// May not vanish; others may come.
    pub(super) keep: BTreeSet<String>,
    /// Compared where both sides have the group: the parts of a named thing that may be added or removed as a whole.
    pub(super) groups: BTreeMap<String, BTreeMap<String, String>>,
    /// Must be the same in order to be silent; else it is told.
    pub(super) noted: BTreeMap<String, String>,
}

/// Findings for one file; `before` None: the file is new, `after` None: it was removed.
pub(super) fn compare(
    path: &TreePath,
    (kind, words): (FenceKind, &[String]),
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Vec<FenceFinding> {
    let (rule, note) = match kind {
        FenceKind::CargoToml => ("cargo.runner_key", "cargo.noted_key"),
        FenceKind::PyprojectToml => ("pyproject.runner_key", "pyproject.noted_key"),
        FenceKind::SetupCfg => ("setup_cfg.runner_key", "setup_cfg.noted_key"),
        FenceKind::ToxIni => ("tox_ini.runner_key", "tox_ini.noted_key"),
        FenceKind::PackageJson => ("package_json.runner_key", "package_json.noted_key"),
        FenceKind::TsConfig => ("tsconfig.runner_key", "tsconfig.noted_key"),
        FenceKind::GoMod => ("go_mod.runner_key", "go_mod.noted_key"),
        FenceKind::GoWork => ("go_work.runner_key", "go_work.noted_key"),
        FenceKind::GoItems => return go::compare(path, before, after),
        FenceKind::RustItems => return Vec::new(),
    };
    let read = |bytes: Option<&[u8]>| bytes.map_or(Ok(Keys::default()), |bytes| read(kind, bytes, words));
    let (old, new) = match (read(before), read(after)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(why), _) => {
            return vec![finding(path, FenceVerdict::Unverifiable, "keys.base_unreadable", &why)];
        }
        (_, Err(why)) => return vec![finding(path, FenceVerdict::Unverifiable, "keys.unreadable", &why)],
    };
    let mut out = Vec::new();
    let names = changed_keys(&old, &new);
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let verdict = if before.is_some() { FenceVerdict::Tampered } else { FenceVerdict::Planted };
        out.push(finding(path, verdict, rule, &shown_list(&names)));
    }
    let noted: Vec<&str> = differing(&old.noted, &new.noted).collect();
    if !noted.is_empty() {
        out.push(finding(path, FenceVerdict::Note, note, &shown_list(&noted)));
    }
    out
}

fn changed_keys(old: &Keys, new: &Keys) -> Vec<String> {
    let mut names: BTreeSet<String> = differing(&old.exact, &new.exact).map(str::to_owned).collect();
    names.extend(old.keep.difference(&new.keep).cloned());
    for (group, parts) in &old.groups {
        if let Some(now) = new.groups.get(group) {
            names.extend(differing(parts, now).map(|part| format!("{group}.{part}")));
        }
    }
    names.into_iter().collect()
}

fn differing<'a>(
    old: &'a BTreeMap<String, String>,
    new: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a str> {
    let changed = old.iter().filter(|(key, value)| new.get(*key) != Some(value));
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    changed.chain(added).map(|(key, _)| key.as_str())
}

fn read(kind: FenceKind, bytes: &[u8], words: &[String]) -> Result<Keys, String> {
    if bytes.len() > MAX_CONFIG {
        return Err(format!("the file is larger than {} MiB", MAX_CONFIG / (1024 * 1024)));
    }
    let text = || std::str::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned());
    let table = || text()?.parse::<Table>().map_err(|_| "the file is not TOML".to_owned());
    Ok(match kind {
        FenceKind::CargoToml => cargo(&table()?),
        FenceKind::PyprojectToml => pyproject(&table()?),
        FenceKind::SetupCfg => ini::setup_cfg(bytes),
        FenceKind::ToxIni => ini::tox_ini(bytes),
        FenceKind::PackageJson => javascript::package_json(&json(text()?)?, words),
        FenceKind::TsConfig => javascript::tsconfig(&json(&javascript::plain_json(text()?))?),
        FenceKind::GoMod => go::go_mod(text()?),
        FenceKind::GoWork => go::go_work(text()?),
        FenceKind::GoItems | FenceKind::RustItems => Keys::default(),
    })
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|_| "the file is not JSON".to_owned())
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    if rest.is_empty() { Some(value) } else { at(value.as_table()?, rest) }
}

/// Every leaf below `value` under its dotted name. The parser has bounded the depth.
fn flatten(name: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            // An empty table says something too: that it is there.
            out.insert(name.to_owned(), "table".to_owned());
            for (key, value) in table {
                flatten(&format!("{name}.{key}"), value, out);
            }
        }
        leaf => {
            out.insert(name.to_owned(), plain(leaf));
        }
    }
}

/// A value as text that differs when the value does.
fn plain(value: &Value) -> String {
    format!("{value:?}")
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

// ---- Cargo.toml

/// Keys of a target that decide whether and how its tests run.
const TARGET_RUNS: &[&str] = &["test", "harness", "doctest", "bench", "doc-scrape-examples"];

/// Keys of a profile that decide what a test sees (59). Optimisation and debug information are ordinary.
const PROFILE_KEYS: &[&str] = &["debug-assertions", "overflow-checks", "panic", "inherits", "rustflags"];

/// Where a dependency comes from.
const SOURCE_KEYS: &[&str] =
    &["path", "git", "branch", "tag", "rev", "registry", "registry-index", "package", "workspace"];

fn cargo(root: &Table) -> Keys {
    let mut keys = Keys::default();
    let package = ["package", "project"].iter().find_map(|name| root.get(*name)).and_then(Value::as_table);
    for name in
        ["autolib", "autobins", "autotests", "autobenches", "autoexamples", "default-run", "workspace"]
    {
        if let Some(value) = package.and_then(|package| package.get(name)) {
            keys.exact.insert(format!("package.{name}"), plain(value));
        }
    }
    for name in ["build", "links", "edition", "rust-version"] {
        if let Some(value) = package.and_then(|package| package.get(name)) {
            keys.noted.insert(format!("package.{name}"), plain(value));
        }
    }
    if let Some(lib) = root.get("lib").and_then(Value::as_table) {
        for name in TARGET_RUNS.iter().chain(&["path", "required-features"]) {
            if let Some(value) = lib.get(*name) {
                keys.exact.insert(format!("lib.{name}"), plain(value));
            }
        }
    }
    let package_name =
        package.and_then(|package| package.get("name")).and_then(Value::as_str).unwrap_or_default();
    let is_off = |name: &str| package.and_then(|p| p.get(name)).and_then(Value::as_bool) == Some(false);
    targets(root, "bin", &mut keys, |target| {
        let path = target.get("path").and_then(Value::as_str).unwrap_or_default();
        let name = target.get("name").and_then(Value::as_str).unwrap_or_default();
        // The target that cargo finds by itself: declaring it is a change of it, unless it is declared as it is.
        (path == "src/main.rs" || name == package_name)
            .then(|| vec![("name", package_name), ("path", "src/main.rs")])
    });
    targets(root, "example", &mut keys, |_| None);
    targets(root, "test", &mut keys, |_| (!is_off("autotests")).then(Vec::new));
    targets(root, "bench", &mut keys, |_| (!is_off("autobenches")).then(Vec::new));
    if let Some(workspace) = root.get("workspace").and_then(Value::as_table) {
        keys.keep
            .extend(strings(workspace.get("members")).map(|member| format!("workspace.members {member}")));
        for name in ["default-members", "exclude"] {
            if let Some(value) = workspace.get(name) {
                let set: BTreeSet<&str> = strings(Some(value)).collect();
                keys.exact.insert(format!("workspace.{name}"), format!("{set:?}"));
            }
        }
        sources("workspace.dependencies", workspace.get("dependencies"), &mut keys);
    }
    for (name, profile) in root.get("profile").and_then(Value::as_table).into_iter().flatten() {
        profile_keys(&format!("profile.{name}"), profile, &mut keys);
    }
    for name in ["patch", "replace"] {
        if let Some(value) = root.get(name) {
            flatten(name, value, &mut keys.exact);
        }
    }
    dev_dependencies("", root, &mut keys);
    for (target, value) in root.get("target").and_then(Value::as_table).into_iter().flatten() {
        if let Some(table) = value.as_table() {
            dev_dependencies(&format!("target.{target}."), table, &mut keys);
        }
    }
    // Fewer default features compile tests out; more do not.
    keys.keep.extend(
        strings(at(root, &["features", "default"])).map(|feature| format!("features.default {feature}")),
    );
    keys
}

/// `[[bin]]` and its like. A target that is `found_anyway` is compared in full also when its entry is new: cargo knows the
/// target without the entry, so the entry can only change it. What it says as cargo would have it says nothing.
fn targets<'a>(
    root: &Table,
    kind: &str,
    keys: &mut Keys,
    found_anyway: impl Fn(&Table) -> Option<Vec<(&'static str, &'a str)>>,
) {
    for target in root.get(kind).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table) {
        let name = target.get("name").and_then(Value::as_str).unwrap_or("?");
        let group = format!("{kind} {name}");
        let found = found_anyway(target);
        let mut parts = BTreeMap::new();
        for (key, value) in target {
            let runs = TARGET_RUNS.contains(&key.as_str());
            let as_found = |found: &Vec<(&str, &str)>| {
                found.iter().any(|(name, text)| *name == key && value.as_str() == Some(*text))
            };
            if found.as_ref().is_some_and(as_found) {
                continue;
            }
            if found.is_some() || runs {
                keys.exact.insert(format!("{group}.{key}"), plain(value));
            } else if key == "path" || key == "required-features" {
                parts.insert(key.clone(), plain(value));
            }
        }
        if kind == "test" {
            keys.keep.insert(group.clone());
        }
        keys.groups.insert(group, parts);
    }
}

fn profile_keys(name: &str, profile: &Value, keys: &mut Keys) {
    let Some(table) = profile.as_table() else { return };
    for key in PROFILE_KEYS {
        if let Some(value) = table.get(*key) {
            keys.exact.insert(format!("{name}.{key}"), plain(value));
        }
    }
    for (package, value) in table.get("package").and_then(Value::as_table).into_iter().flatten() {
        profile_keys(&format!("{name}.package.{package}"), value, keys);
    }
}

/// A dev-dependency may be added, removed or have its version changed; where it comes from may not change (11, 70).
fn dev_dependencies(front: &str, table: &Table, keys: &mut Keys) {
    for name in ["dev-dependencies", "dev_dependencies"] {
        sources(&format!("{front}{name}"), table.get(name), keys);
    }
}

fn sources(name: &str, dependencies: Option<&Value>, keys: &mut Keys) {
    for (dependency, value) in dependencies.and_then(Value::as_table).into_iter().flatten() {
        let table = value.as_table();
        let parts = SOURCE_KEYS
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), plain(table?.get(*key)?))))
            .collect::<BTreeMap<String, String>>();
        keys.groups.insert(format!("{name}.{dependency}"), parts);
    }
}

// ---- pyproject.toml

fn pyproject(root: &Table) -> Keys {
    let mut keys = Keys::default();
    for (name, value) in root.get("tool").and_then(Value::as_table).into_iter().flatten() {
        if name.starts_with("pytest") || ["tox", "nox", "coverage", "hypothesis"].contains(&name.as_str()) {
            flatten(&format!("tool.{name}"), value, &mut keys.exact);
        }
    }
    for path in [
        // Commands that a check may call by name.
        &["tool", "hatch", "envs"][..],
        &["tool", "pdm", "scripts"],
        &["tool", "poe", "tasks"],
        &["tool", "taskipy", "tasks"],
        // A plug-in that pytest loads from the installed package.
        &["project", "entry-points", "pytest11"],
        &["tool", "poetry", "plugins", "pytest11"],
        &["tool", "flit", "entrypoints", "pytest11"],
    ] {
        if let Some(value) = at(root, path) {
            flatten(&path.join("."), value, &mut keys.exact);
        }
    }
    if let Some(value) = root.get("build-system") {
        flatten("build-system", value, &mut keys.noted);
    }
    keys
}
