//! The fence: what may not change while an agent works, decided by rule.

use std::collections::BTreeSet;

use countersign_guest::protocol::{
    FenceFile, FenceFinding, FenceKind, FenceKindGuard, FenceVerdict, WriteGuard,
};
use countersign_kernel::contract::CheckTerms;
use countersign_tree::{Change, EntryMode, Glob, GlobError, GlobSet, Manifest, TreePath};
use countersign_types::{GateStatus, Reason};
use serde::{Deserialize, Serialize};

use crate::programs::{Links, Named, escaped, parent};
use crate::rules::{Means, PACKAGE_FILES, RUNNER_MODULES, Rule, When, rules};
use crate::runner::base_name;
use crate::shell::plain_words;
use crate::stdlib::STDLIB_MODULES;

/// Findings that a decision carries at most; the rest is counted in its detail.
const MAX_FINDINGS: usize = 200;

/// Bytes of a finding's detail at most, as the guest's findings have it.
const MAX_DETAIL: usize = 200;

/// Links of the base that are followed to find tests.
const MAX_LINKED_TESTS: usize = 256;

/// Why a file that a check's command names is refused.
const NAMED: &str = "the check's command names it; if it is the file to be changed, the contract must name it: \
                     `--scope PATH`";

/// The rules of one contract over one base.
#[derive(Debug)]
pub struct Fence {
    contract: GlobSet,
    /// The rows of [`rules`] whose condition on the contract holds; what a runner loads by itself first.
    active: Vec<Active>,
    /// What the checks' commands name.
    named: Named,
    /// Where links of the base that a rule knows as tests lead: directories (and files) whose content is tests too.
    linked_tests: BTreeSet<Vec<u8>>,
    /// Names that Python would import for the check: modules of `python -m`, and the standard modules.
    shadows: BTreeSet<String>,
    base: Manifest,
    /// Directories of the base that hold a crate's manifest.
    crate_dirs: BTreeSet<Vec<u8>>,
    /// Directories of the base that hold a Makefile, for the names that would win over it.
    make_dirs: BTreeSet<Vec<u8>>,
    /// Directories of the base that hold a `go.mod`.
    module_dirs: BTreeSet<Vec<u8>>,
    /// Directories below the root that hold a package of their own, with tests beside its manifest.
    package_dirs: BTreeSet<Vec<u8>>,
}

/// A row of the table that holds for this contract.
#[derive(Debug)]
struct Active {
    rule: &'static Rule,
    globs: GlobSet,
    /// Those that are anchored at the root, and so at each package's root.
    anchored: GlobSet,
}

impl Active {
    fn new(rule: &'static Rule) -> Result<Self, GlobError> {
        let anchored = rule.globs.iter().filter(|glob| !glob.starts_with("**/"));
        let anchored = anchored.filter(|_| rule.means == Means::ProtectedExisting);
        Ok(Self { rule, globs: GlobSet::new(rule.globs)?, anchored: GlobSet::new(anchored)? })
    }

    fn matches(&self, path: &[u8], package_dirs: &BTreeSet<Vec<u8>>) -> bool {
        let is_below =
            |dir: &[u8]| package_dirs.contains(dir) && self.anchored.matches(&path[dir.len() + 1..]);
        self.globs.matches(path) || (!self.anchored.is_empty() && ancestors(path).any(is_below))
    }
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
        let mut named = Named::by(checks.iter().map(|check| check.argv.as_slice()), base);
        // The runner's keys of these are compared, and the rest of them is ordinary.
        let is_manifest = |rule: &&Rule| matches!(rule.means, Means::Mixed(kind) if !matches!(kind, FenceKind::RustItems | FenceKind::GoItems));
        let manifests = GlobSet::new(rules().filter(is_manifest).flat_map(|rule| rule.globs))?;
        named.files.retain(|path, _| !manifests.matches(path.as_bytes()));
        let mut active: Vec<Active> = rules()
            .filter(|rule| match rule.when {
                When::Always | When::Link => true,
                When::CheckRuns(names) => names.iter().any(|name| words.contains(*name)),
                When::CheckRunsScript => named.runs_script,
            })
            .map(Active::new)
            .collect::<Result<_, GlobError>>()?;
        // Stable: otherwise the order of the table.
        active.sort_by_key(|active| active.rule.means != Means::AutoLoaded);
        let dirs_of = |names: &[&[u8]]| -> BTreeSet<Vec<u8>> {
            let entries = base.entries().iter().filter(|e| names.contains(&e.path.file_name()));
            entries.map(|e| parent(e.path.as_bytes()).to_vec()).collect()
        };
        let mut shadows: BTreeSet<String> = STDLIB_MODULES.iter().map(|name| (*name).to_owned()).collect();
        shadows.extend(named.modules.iter().cloned());
        let package_dirs = dirs_of(&PACKAGE_FILES.map(str::as_bytes));
        let package_dirs: BTreeSet<Vec<u8>> =
            package_dirs.into_iter().filter(|dir| !dir.is_empty()).collect();
        Ok(Self {
            contract: GlobSet::new(protect)?,
            linked_tests: linked_tests(&active, &package_dirs, base),
            active,
            named,
            shadows,
            crate_dirs: dirs_of(&[b"Cargo.toml"]),
            make_dirs: dirs_of(&[b"Makefile", b"makefile"]),
            module_dirs: dirs_of(&[b"go.mod"]),
            package_dirs,
            base: base.clone(),
        })
    }

    /// Lets the agent change files that the checks' commands name, where the contract's scope names them too: by their
    /// very path, or by the pattern that stands in the command. A wider pattern (`src/**`) names nothing.
    #[must_use]
    pub fn scoped(mut self, scope: &[String]) -> Self {
        let in_scope = |text: &str| scope.iter().any(|glob| glob == text);
        self.named.files.retain(|path, words| {
            !(literal_glob(path).is_some_and(|glob| in_scope(&glob))
                || words.iter().all(|word| in_scope(word)))
        });
        self
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
        if self.named.files.contains_key(path) {
            return find(FenceVerdict::Tampered, "check.program", NAMED);
        }
        if change.before.is_some() && self.is_linked_test(path) {
            return find(
                FenceVerdict::Tampered,
                "tests.linked",
                "a link of the base makes it an existing test",
            );
        }
        if let Some(why) = self.new_file_shadows(change) {
            return find(FenceVerdict::Planted, "runner.shadow", &why);
        }
        if let Some((verdict, why)) = self.vendored(change) {
            let rule = if verdict == FenceVerdict::Note { "note.vendored" } else { "go.vendor" };
            return find(verdict, rule, why);
        }
        let is_new = change.before.is_none();
        let is_link = change.after.as_ref().is_some_and(|e| e.mode == EntryMode::Symlink);
        let mut known_name = false;
        for active in &self.active {
            let rule = active.rule;
            if (rule.when == When::Link && !is_link) || !active.matches(path.as_bytes(), &self.package_dirs) {
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
        let dir = parent(change.path.as_bytes());
        match kind {
            _ if change.before.is_some() => true,
            FenceKind::CargoToml => self.crate_dirs.iter().any(|below| is_below(below, dir)),
            FenceKind::GoItems => {
                !change.path.as_bytes().ends_with(b"_test.go") || self.has_beside(dir, b"_test.go")
            }
            FenceKind::RustItems => true,
            // Above existing packages it is planted, and elsewhere a module of its own.
            FenceKind::GoMod => false,
            // Nothing loads one of another name by itself.
            FenceKind::TsConfig if last_part(change.path.as_bytes()).starts_with(b"tsconfig.") => {
                last_part(change.path.as_bytes()) == b"tsconfig.json"
                    && (Links { base: &self.base }).is_dir(dir)
            }
            // Where the base has nothing, a new package may say of itself what it likes.
            _ => dir.is_empty() || (Links { base: &self.base }).is_dir(dir),
        }
    }

    /// Whether the base has a file with this ending in exactly this directory.
    fn has_beside(&self, dir: &[u8], ending: &[u8]) -> bool {
        self.base
            .entries()
            .iter()
            .any(|e| e.path.as_bytes().ends_with(ending) && parent(e.path.as_bytes()) == dir)
    }

    /// Whether a rule protects an existing file at this path.
    fn protects_existing(&self, path: &[u8]) -> bool {
        let existing = self.active.iter().filter(|active| active.rule.means == Means::ProtectedExisting);
        existing.into_iter().any(|active| active.matches(path, &self.package_dirs))
    }

    fn is_linked_test(&self, path: &TreePath) -> bool {
        let path = path.as_bytes();
        self.linked_tests.iter().any(|at| path == at.as_slice() || is_below(path, at))
    }

    fn folds_to_auto_loaded(&self, path: &TreePath) -> bool {
        let folded = path.as_bytes().to_ascii_lowercase();
        folded != path.as_bytes()
            && self.active.iter().any(|Active { rule, globs, .. }| {
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
        // Of a row that always holds every pattern has one of a few words in it.
        let (mut existing, mut existing_by_command) = (Vec::new(), Vec::new());
        for active in &self.active {
            let texts = active.globs.globs().iter().map(|glob: &Glob| glob.as_str().to_owned());
            match active.rule.means {
                Means::AutoLoaded if active.rule.when != When::Link => protect.extend(texts),
                Means::Mixed(kind) => fence.extend(texts.map(|glob| FenceKindGuard { glob, kind })),
                Means::ProtectedExisting if active.rule.when == When::Always => existing.push(active),
                Means::ProtectedExisting => existing_by_command.push(active),
                Means::AutoLoaded | Means::Noted => {}
            }
        }
        let modules = RUNNER_MODULES.iter().copied().chain(self.shadows.iter().map(String::as_str));
        for module in modules.filter(|module| !self.base_has_module(b"", module)) {
            protect.extend([format!("{module}.py"), format!("{module}/__init__.py")]);
        }
        // Nobody writes these by hand, so the tools are told no more than where they stand.
        protect.extend(self.vendor_globs());
        let listed = self.base.entries().iter().map(|entry| &entry.path);
        let is_in = |rows: &[&Active], path: &TreePath| {
            rows.iter().any(|active| active.matches(path.as_bytes(), &self.package_dirs))
        };
        let listed = listed.filter(|path| {
            (may_be_test(path) && is_in(&existing, path)) || is_in(&existing_by_command, path)
        });
        let linked =
            self.base.entries().iter().map(|entry| &entry.path).filter(|path| self.is_linked_test(path));
        protect.extend(listed.chain(linked).chain(self.named.files.keys()).filter_map(literal_glob));
        WriteGuard { scope: scope.to_vec(), protect, fence }
    }

    /// One paragraph for the model: what it may not change, and what it may do instead.
    #[must_use]
    pub fn sentence(&self, scope: &[String]) -> String {
        let mut text = String::from(
            "You may add new tests, but existing tests (test files and their data, `#[test]` and `#[cfg(test)]` items, \
             documentation tests) and the test runner's configuration (conftest.py, pytest.ini, .cargo/config.toml, \
             runner keys of Cargo.toml, pyproject.toml, setup.cfg, tox.ini, package.json, tsconfig.json and go.mod, …) must stay as they are, \
             and new files that a runner loads by itself are not allowed. Changing them ends the task as tampered.",
        );
        if !self.contract.is_empty() {
            let globs: Vec<String> = self.contract.globs().iter().map(|glob| format!("`{glob}`")).collect();
            text.push_str(&format!(" Nothing may change in {}.", globs.join(", ")));
        }
        if !self.named.files.is_empty() {
            const SHOWN: usize = 20;
            let mut names: Vec<String> =
                self.named.files.keys().take(SHOWN).map(|path| format!("`{path}`")).collect();
            if self.named.files.len() > SHOWN {
                names.push("…".to_owned());
            }
            text.push_str(&format!(" The check names {}, which must stay as it is.", names.join(", ")));
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

/// False for a path that no `ProtectedExisting` row that always holds can match: each of their patterns holds one of
/// these words, and looking for a word is far cheaper than matching patterns over every file of a large base.
fn may_be_test(path: &TreePath) -> bool {
    let path = path.as_bytes();
    path.iter().enumerate().any(|(at, first)| {
        TEST_WORDS
            .iter()
            .any(|word| word.as_bytes().first() == Some(first) && path[at..].starts_with(word.as_bytes()))
    })
}

const TEST_WORDS: &[&str] = &[
    "test", "Test", "TEST", "snap", "spec", "Spec", "fixt", "e2e", "gold", "cypr", ".cy.", "t/", "/it/",
    "IT.java", "gradle", "mvnw", "mocha", "jest", ".bats",
];

/// The directories above a path, the nearest first; not the root.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().rev().filter(|(_, b)| **b == b'/').map(|(at, _)| &path[..at])
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
    Some(escaped(text))
}

/// Every word of the checks' commands by its base name; words inside a shell string count.
fn command_words(checks: &[CheckTerms]) -> BTreeSet<String> {
    let words = checks.iter().flat_map(|check| &check.argv).flat_map(|arg| plain_words(arg));
    words.map(|word| base_name(word).to_owned()).collect()
}

/// Where links of the base lead whose name makes what is below them tests.
fn linked_tests(active: &[Active], package_dirs: &BTreeSet<Vec<u8>>, base: &Manifest) -> BTreeSet<Vec<u8>> {
    let is_test = |path: &[u8]| {
        let rows =
            active.iter().filter(|a| a.rule.means == Means::ProtectedExisting && a.rule.when == When::Always);
        rows.into_iter().any(|active| active.matches(path, package_dirs))
    };
    let links = base.entries().iter().filter(|entry| entry.mode == EntryMode::Symlink);
    let links = links.filter(|e| is_test(e.path.as_bytes()) || is_test(&[e.path.as_bytes(), b"/x"].concat()));
    let targets = links.take(MAX_LINKED_TESTS).filter_map(|entry| (Links { base }).target(&entry.path));
    // A link to the root would protect everything.
    targets.filter(|target| !target.is_empty()).collect()
}

mod go;
#[cfg(test)]
mod runner_tests;
mod shadow;
#[cfg(test)]
mod tests;
