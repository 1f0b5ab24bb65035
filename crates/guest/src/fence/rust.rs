//! Compares Rust sources before and after: inline tests, documentation tests, and whether product code learned to tell
//! that it is under test.
//!
//! All changed files are compared together, so that what moved between files with the module it belongs to (`foo.rs` to
//! `foo/mod.rs`) is not taken for a change. The rules, and the honest work that each must let pass:
//!
//! | rule | stops | lets pass |
//! |---|---|---|
//! | `rust.test_item_changed` | a test item or an item of a test module changed, removed, or moved under another `cfg` or into a macro | added items, comments, formatting, a renamed file that is still a module |
//! | `rust.test_name_shadowed` | a new item in an existing test module takes a name that its tests use (`use crate::fake::add`) | new tests, helpers and imports with names of their own |
//! | `rust.test_glob_added` | a new glob import from elsewhere (or `include!`) in an existing test module: unverifiable | `use super::*`, globs of `std`; any glob in a new test module |
//! | `rust.test_only_override` | a new `#[cfg(test)]` item of product code takes a name that the file uses | `#[cfg(test)] mod tests`, test-only helpers and imports |
//! | `rust.cfg_test_in_product` | new `cfg(not(test))`, `cfg!(test)`, `#[cfg(test)]` inside a body | `cfg_attr(test, derive(…))`, what was there before |
//! | `rust.crate_attribute_added` | a new file-level `cfg`, `test_runner`, … | other features and lints |
//! | `rust.verdict_macro_shadowed` | product code defines or imports a macro called `assert_eq`, `panic`, … | an import inside a new test module |
//! | `rust.module_removed` | `mod x;` removed, or under another `cfg` or `path`, while its file stays | the declaration removed with its file |
//! | `rust.doc_test_changed` | a runnable block of documentation changed or removed | new blocks, prose, `ignore` and `text` blocks |

use std::collections::{HashMap, HashSet};

use countersign_tree::TreePath;
use countersign_types::Digest;

use super::items::{ModuleDecl, Record, Source, read};
use super::{finding, shown_list};
use crate::protocol::{FenceFinding, FenceVerdict};

/// Deleted files times new files that are looked at for renames.
const MAX_RENAME_PAIRS: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) path: &'a TreePath,
    pub(super) before: Option<&'a [u8]>,
    pub(super) after: Option<&'a [u8]>,
}

struct Side<'a> {
    path: &'a TreePath,
    /// The path as a module: `src/foo` for `src/foo.rs` and `src/foo/mod.rs`.
    module: String,
    source: Source<'a>,
}

/// Everything that the fence has to say about these files. `whole`: the pairs are all changed files of a tree; else one
/// edit, of which nobody knows yet what else will change.
pub(super) fn compare(pairs: &[Pair<'_>], whole: bool) -> Vec<FenceFinding> {
    let mut out = Vec::new();
    let declared = declared_test_modules(pairs);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for pair in pairs {
        let all_test = declared.contain(pair);
        let read_side = |bytes| {
            read(bytes, all_test).map(|source| Side { path: pair.path, module: module_of(pair.path), source })
        };
        match pair.before.map(read_side) {
            None => {}
            Some(Ok(side)) => before.push(side),
            // Passed along for what it declares; nothing changed in it.
            Some(Err(_)) if pair.before == pair.after => continue,
            Some(Err(error)) => {
                out.push(finding(
                    pair.path,
                    FenceVerdict::Unverifiable,
                    "rust.base_unreadable",
                    &error.to_string(),
                ));
                continue;
            }
        }
        match pair.after.map(read_side) {
            None => {}
            Some(Ok(side)) => after.push(side),
            // A new file that does not lex cannot be compiled, and no test stood in it.
            Some(Err(error)) if pair.before.is_none() => {
                out.push(finding(
                    pair.path,
                    FenceVerdict::Note,
                    "rust.new_file_unreadable",
                    &error.to_string(),
                ));
            }
            Some(Err(error)) => {
                before.pop();
                out.push(finding(
                    pair.path,
                    FenceVerdict::Unverifiable,
                    "rust.unreadable",
                    &error.to_string(),
                ));
            }
        }
    }
    let renames = renames(pairs, &before, &after);
    compare_records(&before, &after, &renames, &mut out);
    compare_counts(&before, &after, &mut out);
    compare_inner(&before, &after, &mut out);
    compare_modules(pairs, &before, &after, &renames, whole, &mut out);
    out
}

// ---- which files are test modules as a whole

#[derive(Default)]
struct Declared {
    /// Module paths; everything below them too.
    modules: HashSet<String>,
    files: HashSet<String>,
    /// As the final tree declares them: only for files that the base does not have.
    new_modules: HashSet<String>,
}

impl Declared {
    fn contain(&self, pair: &Pair<'_>) -> bool {
        let path = pair.path.to_string();
        if self.files.contains(&path) {
            return true;
        }
        let is_new = pair.before.is_none();
        let module = module_of(pair.path);
        // A new file of a test crate: nothing in it is product code.
        if is_new && module.split('/').any(|part| part == "tests" || part == "benches") {
            return true;
        }
        let mut name = module.as_str();
        loop {
            if self.modules.contains(name) || (is_new && self.new_modules.contains(name)) {
                return true;
            }
            match name.rsplit_once('/') {
                Some((outer, _)) => name = outer,
                None => return false,
            }
        }
    }
}

fn declared_test_modules(pairs: &[Pair<'_>]) -> Declared {
    let mut declared = Declared::default();
    for pair in pairs {
        let dir = module_dir(pair.path);
        for (bytes, is_base) in [(pair.before, true), (pair.after, false)] {
            let Some(Ok(source)) = bytes.map(|bytes| read(bytes, false)) else { continue };
            for module in source.test_modules {
                if let Some(explicit) = module.explicit
                    && is_base
                {
                    declared.files.insert(below(&parent_dir(pair.path), &explicit));
                }
                let path = below(&dir, &module.path);
                let set = if is_base { &mut declared.modules } else { &mut declared.new_modules };
                set.insert(path);
            }
        }
    }
    declared
}

fn parent_dir(path: &TreePath) -> String {
    let text = path.to_string();
    text.rsplit_once('/').map_or_else(String::new, |(dir, _)| dir.to_owned())
}

/// `src/foo` for `src/foo.rs` and `src/foo/mod.rs`; crate roots keep their name.
fn module_of(path: &TreePath) -> String {
    let text = path.to_string();
    let stem = text.strip_suffix(".rs").unwrap_or(&text);
    stem.strip_suffix("/mod").unwrap_or(stem).to_owned()
}

/// The directory in which the file's child modules lie.
fn module_dir(path: &TreePath) -> String {
    let module = module_of(path);
    match module.rsplit_once('/') {
        Some((dir, "lib" | "main")) => dir.to_owned(),
        None if module == "lib" || module == "main" || module == "mod" => String::new(),
        _ => module,
    }
}

fn below(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

// ---- renames

/// Base modules whose file is gone and whose test items all stand in one new file, which the final tree declares.
fn renames(pairs: &[Pair<'_>], before: &[Side<'_>], after: &[Side<'_>]) -> HashMap<String, String> {
    let gone: HashSet<&TreePath> = pairs.iter().filter(|p| p.after.is_none()).map(|p| p.path).collect();
    let new: HashSet<&TreePath> = pairs.iter().filter(|p| p.before.is_none()).map(|p| p.path).collect();
    if gone.len().saturating_mul(new.len()) > MAX_RENAME_PAIRS {
        return HashMap::new();
    }
    let declared: HashSet<String> = after
        .iter()
        .flat_map(|side| {
            let dir = module_dir(side.path);
            side.source.modules.iter().map(move |module| below(&dir, &module.path))
        })
        .collect();
    let new_sides: Vec<(&Side<'_>, HashMap<Digest, usize>)> = after
        .iter()
        .filter(|side| new.contains(side.path) && declared.contains(&side.module))
        .map(|side| (side, counts(side.source.records.iter().map(|r| r.digest))))
        .collect();
    let mut found = HashMap::new();
    for old in before.iter().filter(|side| gone.contains(side.path) && !side.source.records.is_empty()) {
        let wanted = counts(old.source.records.iter().map(|r| r.digest));
        let target =
            new_sides.iter().find(|(_, has)| wanted.iter().all(|(d, n)| has.get(d).is_some_and(|m| m >= n)));
        if let Some((side, _)) = target {
            found.insert(old.module.clone(), side.module.clone());
        }
    }
    found
}

fn counts<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut map = HashMap::new();
    for key in keys {
        *map.entry(key).or_insert(0) += 1;
    }
    map
}

/// Takes one from the count of `key`; false when none is left.
fn take<K: std::hash::Hash + Eq>(map: &mut HashMap<K, usize>, key: &K) -> bool {
    match map.get_mut(key) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

// ---- the rules

fn compare_records(
    before: &[Side<'_>],
    after: &[Side<'_>],
    renames: &HashMap<String, String>,
    out: &mut Vec<FenceFinding>,
) {
    let records = |sides: &[Side<'_>]| -> HashMap<(String, Digest), usize> {
        counts(sides.iter().flat_map(|side| {
            let module = renames_or(renames, &side.module);
            side.source.records.iter().map(move |record| (module.clone(), record.digest))
        }))
    };
    let mut left_after = records(after);
    let mut changed_names: HashSet<(String, String)> = HashSet::new();
    for side in before {
        let module = renames_or(renames, &side.module);
        let mut names = Vec::new();
        for record in &side.source.records {
            if !take(&mut left_after, &(module.clone(), record.digest)) {
                names.push(record.name.as_str());
                changed_names.insert((module.clone(), record.name.clone()));
            }
        }
        if !names.is_empty() {
            out.push(finding(
                side.path,
                FenceVerdict::Tampered,
                "rust.test_item_changed",
                &shown_list(&names),
            ));
        }
    }
    let base: HashMap<String, &Side<'_>> =
        before.iter().map(|s| (renames_or(renames, &s.module), s)).collect();
    let mut left_before = records(before);
    for side in after {
        let Some(old) = base.get(&side.module) else { continue };
        let added: Vec<&Record<'_>> = side
            .source
            .records
            .iter()
            .filter(|record| !take(&mut left_before, &(side.module.clone(), record.digest)))
            .filter(|record| !changed_names.contains(&(side.module.clone(), record.name.clone())))
            .collect();
        if !added.is_empty() {
            judge_added(side, old, &added, out);
        }
    }
}

fn renames_or(renames: &HashMap<String, String>, module: &str) -> String {
    renames.get(module).map_or_else(|| module.to_owned(), Clone::clone)
}

/// New test-only items of a file that the base has.
fn judge_added(side: &Side<'_>, old: &Side<'_>, added: &[&Record<'_>], out: &mut Vec<FenceFinding>) {
    let old_tests: Vec<&Record<'_>> = old.source.records.iter().filter(|record| record.in_test).collect();
    let old_contexts: HashSet<Digest> = old_tests.iter().map(|record| record.context).collect();
    let used: HashSet<&str> = old_tests.iter().flat_map(|record| record.idents.iter().copied()).collect();
    let (mut shadowed, mut globs, mut overrides) = (Vec::new(), Vec::new(), Vec::new());
    for record in added {
        if record.in_test {
            if !old_contexts.contains(&record.context) {
                continue;
            }
            shadowed.extend(record.binds.iter().copied().filter(|name| used.contains(name)));
            if record.opaque {
                globs.push(record.name.as_str());
            }
        } else if !record.is_test_fn {
            overrides.extend(record.binds.iter().copied().filter(|name| old.source.idents.contains(name)));
            if record.opaque {
                overrides.push(record.name.as_str());
            }
        }
    }
    for (names, verdict, rule) in [
        (shadowed, FenceVerdict::Tampered, "rust.test_name_shadowed"),
        (overrides, FenceVerdict::Tampered, "rust.test_only_override"),
        (globs, FenceVerdict::Unverifiable, "rust.test_glob_added"),
    ] {
        if !names.is_empty() {
            out.push(finding(side.path, verdict, rule, &shown_list(&names)));
        }
    }
}

/// Marks, macros and documentation tests: only how many there are of each counts, wherever they stand.
fn compare_counts(before: &[Side<'_>], after: &[Side<'_>], out: &mut Vec<FenceFinding>) {
    let mut marks = counts(before.iter().flat_map(|side| side.source.marks.iter()));
    let mut macros = counts(before.iter().flat_map(|side| side.source.macros.iter()));
    for side in after {
        let new_marks = side.source.marks.iter().filter(|mark| !take(&mut marks, mark)).count();
        if new_marks > 0 {
            let detail = format!("{new_marks} new places that behave differently under test");
            out.push(finding(side.path, FenceVerdict::Tampered, "rust.cfg_test_in_product", &detail));
        }
        let names: Vec<&str> =
            side.source.macros.iter().filter(|name| !take(&mut macros, name)).map(String::as_str).collect();
        if !names.is_empty() {
            out.push(finding(
                side.path,
                FenceVerdict::Tampered,
                "rust.verdict_macro_shadowed",
                &shown_list(&names),
            ));
        }
    }
    let mut docs = counts(after.iter().flat_map(|side| side.source.doc_tests.iter()));
    for side in before {
        let missing = side.source.doc_tests.iter().filter(|block| !take(&mut docs, block)).count();
        if missing > 0 {
            let detail = format!("{missing} documentation tests changed or removed");
            out.push(finding(side.path, FenceVerdict::Tampered, "rust.doc_test_changed", &detail));
        }
    }
}

fn compare_inner(before: &[Side<'_>], after: &[Side<'_>], out: &mut Vec<FenceFinding>) {
    let base: HashMap<&str, &Side<'_>> = before.iter().map(|side| (side.module.as_str(), side)).collect();
    for side in after {
        let Some(old) = base.get(side.module.as_str()) else { continue };
        let mut left = counts(old.source.inner.iter());
        let added = side.source.inner.iter().filter(|attr| !take(&mut left, attr)).count();
        if added > 0 {
            let detail =
                format!("{added} new file-level attributes that decide what is compiled or how tests run");
            out.push(finding(side.path, FenceVerdict::Tampered, "rust.crate_attribute_added", &detail));
        }
    }
}

/// A module that is no longer declared, although its file stays, takes its tests out of the build (9).
fn compare_modules(
    pairs: &[Pair<'_>],
    before: &[Side<'_>],
    after: &[Side<'_>],
    renames: &HashMap<String, String>,
    whole: bool,
    out: &mut Vec<FenceFinding>,
) {
    let gone: HashSet<String> = pairs
        .iter()
        .filter(|p| p.before.is_some() && p.after.is_none())
        .map(|p| p.path.to_string())
        .collect();
    let key =
        |side: &Side<'_>, decl: &ModuleDecl| (below(&module_dir(side.path), &decl.path), decl.conditions);
    let declared: HashSet<(String, Digest)> =
        after.iter().flat_map(|side| side.source.modules.iter().map(|decl| key(side, decl))).collect();
    let still_named: HashSet<&str> = declared.iter().map(|(path, _)| path.as_str()).collect();
    for side in before {
        let mut names = Vec::new();
        for decl in &side.source.modules {
            let (target, conditions) = key(side, decl);
            if declared.contains(&(target.clone(), conditions)) || renames.contains_key(&target) {
                continue;
            }
            let file_gone = match &decl.explicit {
                Some(explicit) => gone.contains(&below(&parent_dir(side.path), explicit)),
                None => gone.contains(&format!("{target}.rs")) || gone.contains(&format!("{target}/mod.rs")),
            };
            if (whole && !file_gone) || still_named.contains(target.as_str()) {
                names.push(decl.path.clone());
            }
        }
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            out.push(finding(side.path, FenceVerdict::Tampered, "rust.module_removed", &shown_list(&names)));
        }
    }
}
