//! The fence: what may not change while an agent works, decided by rule.

use std::collections::BTreeSet;

use countersign_guest::protocol::{FenceFile, FenceFinding, FenceKind, FenceVerdict};
use countersign_kernel::contract::{Allowance, CheckTerms};
use countersign_tree::{Change, EntryMode, GlobError, GlobSet, Manifest, TreePath};

use self::allow::Allowances;
pub use self::allow::Allowed;
use self::called::Called;
pub use self::decision::{FencePlan, GateDecision};

use crate::programs::{Links, Named, escaped, parent};
use crate::rules::{Means, PACKAGE_FILES, Rule, When, rules};
use crate::runner::base_name;
use crate::stdlib::STDLIB_MODULES;
use countersign_guest::shell::plain_words;

/// Bytes of a finding's detail at most, as the guest's findings have it.
const MAX_DETAIL: usize = 200;

/// Links of the base that are followed to find tests.
const MAX_LINKED_TESTS: usize = 256;

/// Why a file that a check's command names is refused.
const NAMED: &str = "the check's command names it; if it is the file to be changed, the contract must name it: \
                     `--scope PATH`";

/// Why a file is refused that a link of the base leads to.
const LINKED: &str = "a link of the base makes it an existing test";

/// The rules of one contract over one base.
#[derive(Debug)]
pub struct Fence {
    contract: GlobSet,
    allow: Allowances,
    /// The contract's scope, which makes a product of what a check names.
    in_scope: Vec<String>,
    /// Words of the checks' commands by their base name.
    command: BTreeSet<String>,
    /// The same, and words of the files that these call.
    words: BTreeSet<String>,
    /// Files of which the runner's keys are compared.
    manifests: GlobSet,
    /// What the check's own files name.
    called: Called,
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
        let active = active_rules(&words, named.runs_script)?;
        let dirs_of = |names: &[&[u8]]| -> BTreeSet<Vec<u8>> {
            let entries = base.entries().iter().filter(|e| names.contains(&e.path.file_name()));
            entries.map(|e| parent(e.path.as_bytes()).to_vec()).collect()
        };
        let mut shadows: BTreeSet<String> = STDLIB_MODULES.iter().map(|name| (*name).to_owned()).collect();
        shadows.extend(named.modules.iter().cloned());
        let package_dirs = dirs_of(&PACKAGE_FILES.map(str::as_bytes));
        let package_dirs: BTreeSet<Vec<u8>> =
            package_dirs.into_iter().filter(|dir| !dir.is_empty()).collect();
        let mut fence = Self {
            contract: GlobSet::new(protect)?,
            allow: Allowances::default(),
            in_scope: Vec::new(),
            command: words.clone(),
            words,
            manifests,
            called: Called::default(),
            linked_tests: linked_tests(&active, &package_dirs, base),
            active,
            named,
            shadows,
            crate_dirs: dirs_of(&[b"Cargo.toml"]),
            make_dirs: dirs_of(&[b"Makefile", b"makefile"]),
            module_dirs: dirs_of(&[b"go.mod"]),
            package_dirs,
            base: base.clone(),
        };
        fence.called.begin(fence.first_called());
        Ok(fence)
    }

    /// What may be the name of a script.
    fn script_words(&self, kind: FenceKind) -> Vec<String> {
        if kind == FenceKind::PackageJson { self.goals() } else { Vec::new() }
    }

    fn is_manifest(&self, path: &TreePath) -> bool {
        self.manifests.matches(path.as_bytes())
    }

    /// Lets the agent change files that the checks' commands name, where the contract's scope names them too: by their
    /// very path, or by the pattern that stands in the command. A wider pattern (`src/**`) names nothing.
    #[must_use]
    pub fn scoped(mut self, scope: &[String]) -> Self {
        self.in_scope = scope.to_vec();
        let in_scope = |text: &str| scope.iter().any(|glob| glob == text);
        self.named.files.retain(|path, words| {
            !(literal_glob(path).is_some_and(|glob| in_scope(&glob))
                || words.iter().all(|word| in_scope(word)))
        });
        self
    }

    /// Takes rules out that the contract allows to be broken.
    ///
    /// # Errors
    /// A pattern that is not a glob of the contract's language.
    pub fn allowing(mut self, allow: &[Allowance]) -> Result<Self, GlobError> {
        self.allow = Allowances::new(allow)?;
        Ok(self)
    }

    /// Judges every changed path. A rename is a deletion and a new file; a directory that became a link is the deletion
    /// of what was below it.
    #[must_use]
    pub fn judge(&self, changes: &[Change]) -> FencePlan {
        let mut plan = FencePlan { allow: self.allow.clone(), ..FencePlan::default() };
        for change in changes {
            self.judge_one(change, &mut plan);
        }
        plan.findings.extend(self.aliases(changes));
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
            if let Some(entry) = self.base.get(&path).filter(|entry| entry.mode.is_file()) {
                let digest = Some(entry.digest);
                plan.scan.push(FenceFile {
                    path,
                    kind: FenceKind::RustItems,
                    before: digest,
                    after: digest,
                    words: Vec::new(),
                });
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
        if let Some(why) = self.called_by(path, change.before.is_none()) {
            let verdict =
                if change.before.is_some() { FenceVerdict::Tampered } else { FenceVerdict::Planted };
            return find(verdict, "check.called", &why);
        }
        if change.before.is_some() && self.is_linked_test(path) {
            return find(FenceVerdict::Tampered, "tests.linked", LINKED);
        }
        if let Some(why) = self.new_file_shadows(change) {
            return find(FenceVerdict::Planted, "runner.shadow", &why);
        }
        if let Some((verdict, why)) = self.vendored(change) {
            let rule = if verdict == FenceVerdict::Note { "note.vendored" } else { "go.vendor" };
            return find(verdict, rule, why);
        }
        let sides = [&change.before, &change.after];
        if sides.into_iter().flatten().any(|entry| entry.mode == EntryMode::Gitlink) {
            find(FenceVerdict::Note, "note.submodule", "it is or was a commit of another repository");
        }
        let is_new = change.before.is_none();
        let is_link = change.after.as_ref().is_some_and(|e| e.mode == EntryMode::Symlink);
        for active in &self.active {
            let rule = active.rule;
            if (rule.when == When::Link && !is_link) || !active.matches(path.as_bytes(), &self.package_dirs) {
                continue;
            }
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
                            "it is or was a symbolic link or a submodule, which hides its keys",
                        );
                    } else if self.needs_scan(change, kind) {
                        plan.scan.push(FenceFile {
                            path: path.clone(),
                            kind,
                            before: change.before.as_ref().map(|e| e.digest),
                            after: change.after.as_ref().map(|e| e.digest),
                            words: self.script_words(kind),
                        });
                    }
                }
                Means::Noted => find(FenceVerdict::Note, rule.name, rule.why),
            }
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

    /// Whether the file is no part of the product: a test by rule, or what a runner loads by itself. Manifests and build
    /// scripts are the product's.
    #[must_use]
    pub fn is_beside_product(&self, path: &TreePath) -> bool {
        let tests = self
            .active
            .iter()
            .filter(|active| matches!(active.rule.means, Means::ProtectedExisting | Means::AutoLoaded));
        tests.into_iter().any(|active| active.matches(path.as_bytes(), &self.package_dirs))
            || self.is_linked_test(path)
            || self.named.files.contains_key(path)
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
    [&change.before, &change.after].into_iter().flatten().any(|entry| !entry.mode.is_file())
}

fn clipped(text: &str) -> String {
    let mut end = text.len().min(MAX_DETAIL);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

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

/// The rows of the table that hold where a check runs these programs.
fn active_rules(words: &BTreeSet<String>, runs_script: bool) -> Result<Vec<Active>, GlobError> {
    let holds = |rule: &&Rule| match rule.when {
        When::Always | When::Link => true,
        When::CheckRuns(names) => names.iter().any(|name| words.contains(*name)),
        When::CheckRunsScript => runs_script,
    };
    let mut active: Vec<Active> = rules().filter(holds).map(Active::new).collect::<Result<_, _>>()?;
    // Stable: otherwise the order of the table.
    active.sort_by_key(|active| active.rule.means != Means::AutoLoaded);
    Ok(active)
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

mod alias;
mod allow;
#[cfg(test)]
mod allow_tests;
mod called;
#[cfg(test)]
mod called_tests;
mod decision;
mod go;
mod guard;
#[cfg(test)]
mod runner_tests;
mod shadow;
#[cfg(test)]
mod tests;
