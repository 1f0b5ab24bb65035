//! Which directories of the base its manifests take for the tests' world alone: packages by path that only a table of test
//! dependencies names. What the product depends on too is the product.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tree::TreePath;
use serde_json::Value as Json;
use toml::{Table, Value};

use crate::protocol::{CallHow, CalledFile, CalledKind, CalledName};

/// What one manifest names, paths from the root of the tree.
#[derive(Default)]
struct Named {
    tests: BTreeSet<String>,
    product: BTreeSet<String>,
    members: BTreeSet<String>,
}

/// Names of all manifests together: a path of one may be meant by a name in another.
pub(super) fn depends(files: &[(&CalledFile, String)]) -> Vec<CalledName> {
    let manifests: Vec<(&TreePath, Table)> = files
        .iter()
        .filter(|(file, _)| file.kind == CalledKind::CargoToml)
        .filter_map(|(file, text)| Some((&file.path, text.parse::<Table>().ok()?)))
        .collect();
    let shared = Shared::of(&manifests);
    let mut out = Vec::new();
    for (path, manifest) in &manifests {
        push(&mut out, path, cargo(dir_of(path), manifest, &shared));
    }
    for (file, text) in files {
        let dir = dir_of(&file.path);
        let named = match file.kind {
            CalledKind::NodeDependencies => node(dir, text),
            CalledKind::Requirements => requirements(&file.path, dir, text),
            CalledKind::GoMod => go(dir, text),
            CalledKind::CargoToml | CalledKind::Script | CalledKind::Makefile | CalledKind::PackageJson => {
                continue;
            }
        };
        push(&mut out, &file.path, named);
    }
    out
}

fn push(out: &mut Vec<CalledName>, by: &TreePath, named: Named) {
    for (how, paths) in [
        (CallHow::TestDependency, named.tests),
        (CallHow::Dependency, named.product),
        (CallHow::Member, named.members),
    ] {
        out.extend(paths.into_iter().map(|text| CalledName {
            by: by.clone(),
            text,
            wild: how == CallHow::Member,
            how,
        }));
    }
}

fn dir_of(path: &TreePath) -> &str {
    let text = std::str::from_utf8(path.as_bytes()).unwrap_or_default();
    text.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// A path from the root of the tree. None: it leads out of it, or is the root.
fn join(dir: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

// ---- cargo

/// What a workspace's root says for all its members, by name.
#[derive(Default)]
struct Shared {
    paths: BTreeMap<String, String>,
    /// Registry names that lead to a path instead.
    patched: BTreeMap<String, String>,
}

impl Shared {
    fn of(manifests: &[(&TreePath, Table)]) -> Self {
        let mut shared = Self::default();
        for (path, manifest) in manifests {
            let dir = dir_of(path);
            let table = |value: Option<&Value>| value.and_then(Value::as_table).cloned().unwrap_or_default();
            let workspace = table(manifest.get("workspace"));
            shared.paths.extend(paths(dir, &table(workspace.get("dependencies"))));
            for patches in table(manifest.get("patch")).values() {
                shared.patched.extend(paths(dir, &table(Some(patches))));
            }
            let replaced = paths(dir, &table(manifest.get("replace")));
            let bare = |name: String| name.split(':').next().unwrap_or_default().to_owned();
            shared.patched.extend(replaced.into_iter().map(|(name, path)| (bare(name), path)));
        }
        shared
    }
}

/// Packages by path of one table, by the name of the package.
fn paths(dir: &str, table: &Table) -> BTreeMap<String, String> {
    let entries = table.iter().filter_map(|(key, value)| {
        let path = join(dir, value.get("path")?.as_str()?)?;
        Some((value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned(), path))
    });
    entries.collect()
}

fn cargo(dir: &str, manifest: &Table, shared: &Shared) -> Named {
    let mut named = Named::default();
    let mut tables = vec![manifest];
    let targets = manifest.get("target").and_then(Value::as_table);
    tables.extend(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    for table in tables {
        for (keys, found) in [
            (&["dev-dependencies", "dev_dependencies"][..], &mut named.tests),
            (&["dependencies", "build-dependencies", "build_dependencies"][..], &mut named.product),
        ] {
            for (key, value) in
                keys.iter().filter_map(|key| table.get(*key)?.as_table()).flat_map(Table::iter)
            {
                let name = value.get("package").and_then(Value::as_str).unwrap_or(key);
                found.extend(value.get("path").and_then(Value::as_str).and_then(|path| join(dir, path)));
                if value.get("workspace").and_then(Value::as_bool) == Some(true) {
                    found.extend(shared.paths.get(name).cloned());
                }
                found.extend(shared.patched.get(name).cloned());
            }
        }
    }
    let members = manifest.get("workspace").and_then(|workspace| workspace.get("members")?.as_array());
    let members = members.into_iter().flatten().filter_map(Value::as_str);
    named.members.extend(members.filter_map(|member| join(dir, member)));
    named
}

// ---- the others

fn node(dir: &str, text: &str) -> Named {
    let mut named = Named::default();
    let Ok(root) = serde_json::from_str::<Json>(text.strip_prefix('\u{feff}').unwrap_or(text)) else {
        return named;
    };
    for (keys, found) in [
        (&["devDependencies"][..], &mut named.tests),
        (&["dependencies", "optionalDependencies", "peerDependencies"][..], &mut named.product),
    ] {
        let tables = keys.iter().filter_map(|key| root.get(*key)?.as_object());
        let paths = tables.flatten().filter_map(|(_, value)| {
            let value = value.as_str()?;
            let path = ["file:", "link:", "portal:"].iter().find_map(|kind| value.strip_prefix(kind))?;
            join(dir, path)
        });
        found.extend(paths);
    }
    named
}

/// Files whose name says for what they are: `requirements-dev.txt`, `test-requirements.txt`, `requirements/test.in`.
fn requirements(path: &TreePath, dir: &str, text: &str) -> Named {
    let mut named = Named::default();
    let is_tests = path.as_bytes().split(|b| !b.is_ascii_alphanumeric()).any(|word| {
        [&b"dev"[..], b"develop", b"development", b"test", b"tests", b"testing", b"ci"].contains(&word)
    });
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let editable = line.strip_prefix("-e").or_else(|| line.strip_prefix("--editable"));
        let path = editable.map(|rest| rest.trim_start_matches([' ', '=']));
        let path = path.or_else(|| (line.starts_with('.') || line.starts_with("file:")).then_some(line));
        let Some(path) = path else { continue };
        let path = path.strip_prefix("file:").unwrap_or(path).split(['[', ';', ' ', '#']).next();
        // pip reads a path from where it is started, which is the root as often as the file's own directory.
        let found = if is_tests { &mut named.tests } else { &mut named.product };
        found.extend(["", dir].into_iter().filter_map(|from| join(from, path?)));
    }
    named
}

/// Go does not say what only tests need. A module of the tree whose name says it is one.
fn go(dir: &str, text: &str) -> Named {
    let mut named = Named::default();
    for line in text.lines() {
        let Some((_, to)) = line.split("//").next().unwrap_or_default().split_once("=>") else { continue };
        let Some(path) = to.split_whitespace().next().filter(|path| path.starts_with('.')) else { continue };
        let Some(path) = join(dir, path) else { continue };
        let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let is_tests = ["test", "mock", "fake", "stub", "assert"].iter().any(|word| name.contains(word));
        if is_tests { &mut named.tests } else { &mut named.product }.insert(path);
    }
    named
}
