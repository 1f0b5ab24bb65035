//! The fence: what may not change while an agent works, decided by rule.

use std::collections::BTreeSet;

use countersign_guest::protocol::{
    FenceFile, FenceFinding, FenceKind, FenceKindGuard, FenceVerdict, WriteGuard,
};
use countersign_kernel::contract::CheckTerms;
use countersign_tree::{Change, EntryMode, Glob, GlobError, GlobSet, Manifest, TreePath};
use countersign_types::{GateStatus, Reason};
use serde::{Deserialize, Serialize};

use crate::rules::{Means, RULES, RUNNER_MODULES, Rule, SHADOWED_STDLIB, When};
use crate::runner::{base_name, is_python, python_module};

/// Findings that a decision carries at most; the rest is counted in its detail.
const MAX_FINDINGS: usize = 200;

/// Bytes of a finding's detail at most, as the guest's findings have it.
const MAX_DETAIL: usize = 200;

/// The rules of one contract over one base.
#[derive(Debug)]
pub struct Fence {
    contract: GlobSet,
    /// The rows of [`RULES`] whose condition on the contract holds.
    active: Vec<(&'static Rule, GlobSet)>,
    /// Files of the base that a check's command runs.
    programs: BTreeSet<TreePath>,
    /// Names that Python would import for the check from the root: modules of `python -m`, and the standard modules.
    shadows: BTreeSet<String>,
    base: Manifest,
    /// Directories of the base that hold a crate's manifest.
    crate_dirs: BTreeSet<Vec<u8>>,
    /// Directories of the base that hold a Makefile, for the names that would win over it.
    make_dirs: BTreeSet<Vec<u8>>,
}

/// What the paths alone say, and what the guest must parse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FencePlan {
    pub findings: Vec<FenceFinding>,
    pub scan: Vec<FenceFile>,
}

/// What a gate says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateDecision {
    pub status: GateStatus,
    /// `protected_files`, `planted_runner_config` or `gate_unverifiable`; None when it passed.
    pub reason: Option<Reason>,
    /// One sentence for people; paths escaped.
    pub detail: String,
    /// What stops it first, then notes; bounded.
    pub findings: Vec<FenceFinding>,
}

impl Fence {
    /// `protect` are the contract's own globs: below them nothing may change, be added or removed.
    ///
    /// # Errors
    /// A pattern that is not a glob of the contract's language.
    pub fn new(protect: &[String], checks: &[CheckTerms], base: &Manifest) -> Result<Self, GlobError> {
        let words = command_words(checks);
        let active = RULES
            .iter()
            .filter(|rule| match rule.when {
                When::Always | When::Link => true,
                When::CheckRuns(names) => names.iter().any(|name| words.contains(*name)),
            })
            .map(|rule| Ok((rule, GlobSet::new(rule.globs)?)))
            .collect::<Result<_, GlobError>>()?;
        let dirs_of = |names: &[&[u8]]| -> BTreeSet<Vec<u8>> {
            let entries = base.entries().iter().filter(|e| names.contains(&e.path.file_name()));
            entries.map(|e| parent(e.path.as_bytes()).to_vec()).collect()
        };
        let mut shadows: BTreeSet<String> = SHADOWED_STDLIB.iter().map(|name| (*name).to_owned()).collect();
        for check in checks {
            if let Some((program, rest)) = check.argv.split_first()
                && is_python(base_name(program))
                && let Some(module) = python_module(rest)
            {
                shadows.insert(module.split('.').next().unwrap_or(module).to_owned());
            }
        }
        Ok(Self {
            contract: GlobSet::new(protect)?,
            active,
            programs: checks.iter().flat_map(|check| programs(&check.argv, base)).collect(),
            shadows,
            crate_dirs: dirs_of(&[b"Cargo.toml"]),
            make_dirs: dirs_of(&[b"Makefile", b"makefile"]),
            base: base.clone(),
        })
    }

    /// Judges every changed path. A rename is a deletion and a new file; a directory that became a link is the deletion
    /// of what was below it.
    #[must_use]
    pub fn judge(&self, changes: &[Change]) -> FencePlan {
        let mut plan = FencePlan::default();
        for change in changes {
            self.judge_one(change, &mut plan);
        }
        self.add_declaring_files(changes, &mut plan);
        plan
    }

    /// Whether a Rust file is a test module stands in the file that declares it, changed or not: the guest is given
    /// every file of the base that could.
    fn add_declaring_files(&self, changes: &[Change], plan: &mut FencePlan) {
        let changed: BTreeSet<&TreePath> = changes.iter().map(|change| &change.path).collect();
        let mut wanted: BTreeSet<TreePath> = BTreeSet::new();
        for file in plan.scan.iter().filter(|f| f.kind == FenceKind::RustItems && f.before.is_some()) {
            let mut dir = file.path.as_bytes();
            while !dir.is_empty() {
                dir = parent(dir);
                let inside = if dir.is_empty() { Vec::new() } else { [dir, b"/"].concat() };
                for name in [&b"lib.rs"[..], b"main.rs", b"mod.rs"] {
                    wanted.extend(TreePath::new([&inside, name].concat()));
                }
                wanted.extend(TreePath::new([dir, b".rs"].concat()));
            }
        }
        for path in wanted.into_iter().filter(|path| !changed.contains(path)) {
            if let Some(entry) = self.base.get(&path).filter(|entry| entry.mode != EntryMode::Symlink) {
                let digest = Some(entry.digest);
                plan.scan.push(FenceFile { path, kind: FenceKind::RustItems, before: digest, after: digest });
            }
        }
    }

    fn judge_one(&self, change: &Change, plan: &mut FencePlan) {
        let path = &change.path;
        let mut find = |verdict: FenceVerdict, rule: &str, why: &str| {
            plan.findings.push(FenceFinding {
                path: path.clone(),
                verdict,
                rule: rule.to_owned(),
                detail: clipped(&format!("{}: {why}", what_happened(change))),
            });
        };
        if let Some(glob) = self.contract.find(path.as_bytes()) {
            return find(
                FenceVerdict::Tampered,
                "contract.protect",
                &format!("the contract protects `{glob}`"),
            );
        }
        if self.programs.contains(path) {
            return find(FenceVerdict::Tampered, "check.program", "the check's command runs it");
        }
        if let Some(why) = self.new_file_shadows(change) {
            return find(FenceVerdict::Planted, "runner.shadow", &why);
        }
        let is_new = change.before.is_none();
        let is_link = change.after.as_ref().is_some_and(|e| e.mode == EntryMode::Symlink);
        let mut known_name = false;
        for (rule, globs) in &self.active {
            if (rule.when == When::Link && !is_link) || !globs.matches(path.as_bytes()) {
                continue;
            }
            known_name = true;
            match rule.means {
                Means::ProtectedExisting | Means::AutoLoaded if !is_new => {
                    return find(FenceVerdict::Tampered, rule.name, rule.why);
                }
                Means::AutoLoaded if is_new => {
                    return find(FenceVerdict::Planted, rule.name, rule.why);
                }
                Means::ProtectedExisting | Means::AutoLoaded => {}
                Means::Mixed(kind) => {
                    if was_linked(change) {
                        find(
                            FenceVerdict::Unverifiable,
                            rule.name,
                            "it is or was a symbolic link, which hides its keys",
                        );
                    } else if self.needs_scan(change, kind) {
                        plan.scan.push(FenceFile {
                            path: path.clone(),
                            kind,
                            before: change.before.as_ref().map(|e| e.digest),
                            after: change.after.as_ref().map(|e| e.digest),
                        });
                    }
                }
                Means::Noted => find(FenceVerdict::Note, rule.name, rule.why),
            }
        }
        if is_new && !known_name && self.folds_to_auto_loaded(path) {
            find(
                FenceVerdict::Note,
                "note.case_alias",
                "on a file system that folds case a runner would load it",
            );
        }
    }

    /// A mode change alone leaves keys and items as they are. A new manifest can only change how crates below it are
    /// tested; a new crate of its own is ordinary.
    fn needs_scan(&self, change: &Change, kind: FenceKind) -> bool {
        let digest = |e: &Option<countersign_tree::Entry>| e.as_ref().map(|e| e.digest);
        if digest(&change.before) == digest(&change.after) {
            return false;
        }
        if kind == FenceKind::CargoToml && change.before.is_none() {
            let dir = parent(change.path.as_bytes());
            return self.crate_dirs.iter().any(|below| is_below(below, dir));
        }
        true
    }

    /// A new file that would be used in place of one that the check relies on.
    fn new_file_shadows(&self, change: &Change) -> Option<String> {
        if change.before.is_some() {
            return None;
        }
        let path = change.path.as_bytes();
        let (dir, name) = (parent(path), change.path.file_name());
        // GNU make prefers GNUmakefile to makefile to Makefile (76).
        if (name == b"GNUmakefile" || name == b"makefile") && self.make_dirs.contains(dir) {
            return Some("make would read it in place of the existing Makefile".to_owned());
        }
        let (dir, module, is_package) = importable(path)?;
        // pytest puts a test's directory first on the path unless that directory is a package itself.
        let in_tests = (dir.split(|b| *b == b'/').any(|part| part == b"tests") || dir == b"test")
            && TreePath::new([dir, b"/__init__.py"].concat())
                .is_ok_and(|path| self.base.get(&path).is_none());
        if !(dir.is_empty() || dir == b"src" || in_tests) || self.base_has_module(dir, module) {
            return None;
        }
        let stands_for_runner = RUNNER_MODULES.contains(&module) || module.starts_with("pytest_");
        // Where pytest has put a directory of tests, most standard modules are loaded already.
        let stands_for_other = self.shadows.contains(module) && (dir.is_empty() || (in_tests && !is_package));
        if stands_for_runner || stands_for_other {
            return Some(format!("Python would import it in place of the module `{module}`"));
        }
        // A decoy of the product's module beside the tests is what they would import (14, 22).
        if in_tests && (self.base_has_module(b"", module) || self.base_has_module(b"src", module)) {
            return Some(format!("tests would import it in place of the product's `{module}`"));
        }
        None
    }

    fn base_has_module(&self, dir: &[u8], module: &str) -> bool {
        let prefix = if dir.is_empty() { Vec::new() } else { [dir, b"/"].concat() };
        [".py", "/__init__.py"].iter().any(|end| {
            let path = [&prefix, module.as_bytes(), end.as_bytes()].concat();
            TreePath::new(path).is_ok_and(|path| self.base.get(&path).is_some())
        })
    }

    fn folds_to_auto_loaded(&self, path: &TreePath) -> bool {
        let folded = path.as_bytes().to_ascii_lowercase();
        folded != path.as_bytes()
            && self.active.iter().any(|(rule, globs)| {
                rule.means == Means::AutoLoaded && rule.when == When::Always && globs.matches(&folded)
            })
    }

    /// What the edit tools refuse at once. Computed over the whole base: make it once per turn and keep it.
    ///
    /// Protected files of the base are named one by one, so that new files beside them can be written and written
    /// again.
    #[must_use]
    pub fn write_guard(&self, scope: &[String]) -> WriteGuard {
        let mut protect: Vec<String> =
            self.contract.globs().iter().map(|glob| glob.as_str().to_owned()).collect();
        let mut fence = Vec::new();
        let mut existing = Vec::new();
        for (rule, globs) in &self.active {
            let texts = globs.globs().iter().map(|glob: &Glob| glob.as_str().to_owned());
            match rule.means {
                Means::AutoLoaded if rule.when != When::Link => protect.extend(texts),
                Means::Mixed(kind) => fence.extend(texts.map(|glob| FenceKindGuard { glob, kind })),
                Means::ProtectedExisting => existing.push(globs),
                Means::AutoLoaded | Means::Noted => {}
            }
        }
        let modules = RUNNER_MODULES.iter().copied().chain(self.shadows.iter().map(String::as_str));
        for module in modules.filter(|module| !self.base_has_module(b"", module)) {
            protect.extend([format!("{module}.py"), format!("{module}/__init__.py")]);
        }
        let listed = self.base.entries().iter().map(|entry| &entry.path).filter(|path| may_be_test(path));
        let listed = listed.filter(|path| existing.iter().any(|globs| globs.matches(path.as_bytes())));
        protect.extend(listed.chain(&self.programs).filter_map(literal_glob));
        WriteGuard { scope: scope.to_vec(), protect, fence }
    }

    /// One paragraph for the model: what it may not change, and what it may do instead.
    #[must_use]
    pub fn sentence(&self, scope: &[String]) -> String {
        let mut text = String::from(
            "You may add new tests, but existing tests (test files and their data, `#[test]` and `#[cfg(test)]` items, \
             documentation tests) and the test runner's configuration (conftest.py, pytest.ini, .cargo/config.toml, \
             runner keys of Cargo.toml, pyproject.toml, setup.cfg, tox.ini and package.json, …) must stay as they are, \
             and new files that a runner loads by itself are not allowed. Changing them ends the task as tampered.",
        );
        if !self.contract.is_empty() {
            let globs: Vec<String> = self.contract.globs().iter().map(|glob| format!("`{glob}`")).collect();
            text.push_str(&format!(" Nothing may change in {}.", globs.join(", ")));
        }
        if !self.programs.is_empty() {
            let names: Vec<String> = self.programs.iter().map(|path| format!("`{path}`")).collect();
            text.push_str(&format!(" The check runs {}, which must stay as it is.", names.join(", ")));
        }
        if !scope.is_empty() {
            let globs: Vec<String> = scope.iter().map(|glob| format!("`{glob}`")).collect();
            text.push_str(&format!(" Change only files in {}.", globs.join(", ")));
        }
        text
    }
}

impl FencePlan {
    /// Joins what the guest found. An error, or a finding about a file that was not asked for, means that the fence
    /// could not look: unverifiable, unless the paths alone already show more. Tampered beats planted beats
    /// unverifiable.
    #[must_use]
    pub fn conclude(self, scanned: Result<Vec<FenceFinding>, String>) -> GateDecision {
        let asked: BTreeSet<&TreePath> = self.scan.iter().map(|file| &file.path).collect();
        let mut findings = self.findings;
        let mut broken = None;
        match scanned {
            Ok(found) => {
                if found.iter().any(|finding| !asked.contains(&finding.path)) {
                    broken = Some("the scanner answered about a file that it was not asked about".to_owned());
                }
                findings.extend(found);
            }
            Err(why) => broken = Some(format!("the changed files could not be scanned: {why}")),
        }
        // Stable: what stops first, each in the order in which it was found.
        findings.sort_by_key(|finding| weight(finding.verdict));
        let worst = findings.first().map(|finding| finding.verdict);
        let (status, reason) = match worst {
            Some(FenceVerdict::Tampered) => (GateStatus::Failed, Some(Reason::ProtectedFiles)),
            Some(FenceVerdict::Planted) => (GateStatus::Failed, Some(Reason::PlantedRunnerConfig)),
            Some(FenceVerdict::Unverifiable) => (GateStatus::Unverifiable, Some(Reason::GateUnverifiable)),
            Some(FenceVerdict::Note) | None if broken.is_some() => {
                (GateStatus::Unverifiable, Some(Reason::GateUnverifiable))
            }
            Some(FenceVerdict::Note) | None => (GateStatus::Passed, None),
        };
        let detail = match (broken, reason) {
            (Some(why), Some(Reason::GateUnverifiable)) => why,
            (_, Some(_)) => summary(&findings, worst),
            (_, None) => "no protected file, runner key or test item was changed".to_owned(),
        };
        findings.truncate(MAX_FINDINGS);
        GateDecision { status, reason, detail, findings }
    }
}

fn weight(verdict: FenceVerdict) -> u8 {
    match verdict {
        FenceVerdict::Tampered => 0,
        FenceVerdict::Planted => 1,
        FenceVerdict::Unverifiable => 2,
        FenceVerdict::Note => 3,
    }
}

/// The first few of the findings that decide.
fn summary(findings: &[FenceFinding], worst: Option<FenceVerdict>) -> String {
    const SHOWN: usize = 5;
    let deciding: Vec<&FenceFinding> = findings.iter().filter(|f| Some(f.verdict) == worst).collect();
    let mut parts: Vec<String> =
        deciding.iter().take(SHOWN).map(|f| format!("{} ({}: {})", f.path, f.rule, f.detail)).collect();
    if deciding.len() > SHOWN {
        parts.push(format!("and {} more", deciding.len() - SHOWN));
    }
    parts.join("; ")
}

fn what_happened(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "added",
        (Some(_), None) => "removed",
        (Some(before), Some(after)) if before.digest == after.digest && before.size == after.size => {
            "mode changed"
        }
        (Some(_), Some(_)) => "changed",
    }
}

fn was_linked(change: &Change) -> bool {
    [&change.before, &change.after].into_iter().flatten().any(|entry| entry.mode == EntryMode::Symlink)
}

fn clipped(text: &str) -> String {
    let mut end = text.len().min(MAX_DETAIL);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The directory and the name under which Python would import a file, and whether the file makes a package. Extension
/// modules and byte code without source are imported like sources.
fn importable(path: &[u8]) -> Option<(&[u8], &str, bool)> {
    let (dir, name) = (parent(path), last_part(path));
    let stem = name.split(|b| *b == b'.').next().unwrap_or(name);
    if ![&b".py"[..], b".pyc", b".so", b".pyd"].iter().any(|end| name.ends_with(end)) {
        return None;
    }
    let (dir, module, is_package) =
        if stem == b"__init__" { (parent(dir), last_part(dir), true) } else { (dir, stem, false) };
    std::str::from_utf8(module).ok().map(|module| (dir, module, is_package))
}

/// False for a path that no `ProtectedExisting` row can match: each of their patterns holds one of these words, and
/// looking for a word is far cheaper than matching patterns over every file of a large base.
fn may_be_test(path: &TreePath) -> bool {
    path.as_bytes().windows(4).any(|window| TEST_WORDS.iter().any(|word| window == word.as_bytes()))
}

const TEST_WORDS: &[&str] = &["test", "snap", "spec", "fixt"];

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

/// Whether the directory `below` lies strictly below the directory `dir` (empty: the root).
fn is_below(below: &[u8], dir: &[u8]) -> bool {
    below.len() > dir.len() && (dir.is_empty() || (below.starts_with(dir) && below[dir.len()] == b'/'))
}

/// A glob that means exactly this path. None for a path that is not text: the fence alone holds it.
fn literal_glob(path: &TreePath) -> Option<String> {
    let text = std::str::from_utf8(path.as_bytes()).ok()?;
    let mut out = String::with_capacity(text.len() + 4);
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    Some(out)
}

/// Every word of the checks' commands by its base name; words inside a shell string count.
fn command_words(checks: &[CheckTerms]) -> BTreeSet<String> {
    let words = checks.iter().flat_map(|check| &check.argv).flat_map(|arg| shell_words(arg));
    words.map(|word| base_name(word).to_owned()).collect()
}

/// The plain words of a string that may be a shell command. Quotes and expansions are not understood: a word is used
/// only to find files of the base, so a strange one finds nothing.
fn shell_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || ";&|()<>`'\"$={}".contains(c)).filter(|word| !word.is_empty())
}

/// Interpreters whose first plain argument is a program of its own.
const INTERPRETERS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "node", "deno", "bun", "ruby", "perl", "env"];

/// Files of the base that a command runs (83): the program itself, the script of an interpreter, and in a shell string
/// every word that names a script (`.sh`) or an executable file.
fn programs(argv: &[String], base: &Manifest) -> Vec<TreePath> {
    let find = |word: &str| {
        let word = word.strip_prefix("/workspace/").unwrap_or(word);
        let parts: Vec<&str> = word.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let path = TreePath::new(parts.join("/")).ok()?;
        base.get(&path).map(|entry| (path, entry.mode))
    };
    let Some((program, rest)) = argv.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    if program.contains('/') {
        found.extend(find(program).map(|(path, _)| path));
    }
    let name = base_name(program);
    if INTERPRETERS.contains(&name) || (is_python(name) && python_module(rest).is_none()) {
        let script = rest.iter().find(|arg| !arg.starts_with('-'));
        found.extend(script.and_then(|arg| find(arg)).map(|(path, _)| path));
    }
    for word in argv.iter().filter(|arg| arg.contains(char::is_whitespace)).flat_map(|arg| shell_words(arg)) {
        if let Some((path, mode)) = find(word)
            && (mode == EntryMode::Executable || word.ends_with(".sh"))
        {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests;
