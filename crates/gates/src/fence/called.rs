//! What a check's own files call in their turn: what a script sources, a makefile includes, a `package.json` runs. The
//! guest reads them; here it is decided which of the base's files their words mean.
//!
//! Whoever wrote the check wrote its command and not these words, so a word means less here: a product that a script
//! runs is the thing to be fixed. A file counts where make includes it, where it stands beside the script that runs
//! it below the root, or where its name says that it is there for tests.

use std::collections::{BTreeMap, BTreeSet};

use countersign_guest::protocol::{CallHow, CalledFile, CalledKind, CalledName};
use countersign_tree::{EntryMode, Glob, Manifest, TreePath};

use super::{Fence, active_rules, is_below, last_part};
use crate::programs::{Found, Links, parent};
use crate::runner::base_name;

/// Files that are read for one check at most, manifests besides.
const MAX_READ: usize = 64;
/// Manifests that are read at most: those that lie highest.
const MAX_MANIFESTS: usize = 256;

/// Parts of a name that say that a file is there for tests.
const SUPPORT: &[&str] = &[
    "assert", "check", "checks", "ci", "e2e", "expected", "fixture", "fixtures", "golden", "harness",
    "helper", "helpers", "lint", "mock", "mocks", "runner", "script", "scripts", "snapshot", "spec", "specs",
    "suite", "support", "test", "testing", "tests", "validate", "verify",
];

/// Parts of a file's name that say that it builds something: ordinary, as every build script is.
const BUILDS: &[&str] =
    &["build", "bundle", "codegen", "compile", "gen", "generate", "install", "release", "setup"];

/// Directories of product code, whatever the files in them are called.
const PRODUCT_DIRS: &[&[u8]] = &[b"src", b"lib", b"app", b"pkg", b"cmd", b"internal"];

/// Names by which make finds its file, the one that wins first (76).
const MAKEFILES: &[&str] = &["GNUmakefile", "makefile", "Makefile"];

/// What is known of the files that a check's own files name.
#[derive(Clone, Debug, Default)]
pub(super) struct Called {
    read: BTreeSet<TreePath>,
    waiting: Vec<CalledFile>,
    /// Each with the file that names it.
    pub(super) files: BTreeMap<TreePath, TreePath>,
    /// Directories of packages that only tests need, each with the manifest that says so.
    pub(super) dirs: BTreeMap<Vec<u8>, TreePath>,
    /// Paths that make would read if they were there.
    pub(super) absent: BTreeMap<Vec<u8>, TreePath>,
}

impl Called {
    pub(super) fn begin(&mut self, files: Vec<CalledFile>) {
        self.waiting = files;
    }
}

impl Fence {
    /// Files of the base that the guest must read next: ask until there are none, and give the answer to
    /// [`Fence::learn_called`]. Bounded.
    pub fn unread(&mut self) -> Vec<CalledFile> {
        let waiting = std::mem::take(&mut self.called.waiting);
        let left = (MAX_READ + MAX_MANIFESTS).saturating_sub(self.called.read.len());
        let fresh = waiting.into_iter().filter(|file| !self.called.read.contains(&file.path));
        let files: Vec<CalledFile> = fresh.take(left).collect();
        self.called.read.extend(files.iter().map(|file| file.path.clone()));
        files
    }

    /// Words of the checks' commands: a target of make or a script of `package.json` may be among them.
    #[must_use]
    pub fn goals(&self) -> Vec<String> {
        self.command.iter().cloned().collect()
    }

    /// Takes in what the guest read.
    pub fn learn_called(&mut self, names: &[CalledName]) {
        let base = self.base.clone();
        let links = Links { base: &base };
        self.learn_dependencies(names);
        for name in names.iter().filter(|name| !is_dependency(name.how)) {
            let dir = parent(name.by.as_bytes());
            let mut any = false;
            for from in BTreeSet::from([dir, b""]) {
                let paths = if name.wild { links.matches(from, &name.text) } else { vec![name.text.clone()] };
                let from = if name.wild { b"" } else { from };
                for path in paths {
                    let Found { links: through, file: Some((file, mode)), .. } = links.find(from, &path)
                    else {
                        continue;
                    };
                    any = true;
                    if !self.is_manifest(&file) && counts(name, &file) {
                        self.called.waiting.extend(readable(&base, &file, mode, name.how));
                        for path in through.into_iter().chain([file]) {
                            self.called.files.entry(path).or_insert_with(|| name.by.clone());
                        }
                    }
                }
            }
            // make does without it as long as it is not there.
            if !any && !name.wild && matches!(name.how, CallHow::IncludedIfThere | CallHow::Included) {
                for from in BTreeSet::from([dir, b""]) {
                    let path = [
                        from,
                        if from.is_empty() { b"" } else { b"/" },
                        name.text.trim_start_matches("./").as_bytes(),
                    ]
                    .concat();
                    self.called.absent.insert(path, name.by.clone());
                }
            }
        }
        // A runner that one of these files starts has its own rules.
        let before = self.words.len();
        let words = names.iter().filter(|name| !name.wild && !is_dependency(name.how));
        self.words.extend(words.map(|name| base_name(&name.text).to_owned()));
        if self.words.len() > before {
            // The table's patterns are good: a test compiles each.
            if let Ok(active) = active_rules(&self.words, self.named.runs_script) {
                self.active = active;
            }
        }
        let in_scope = std::mem::take(&mut self.in_scope);
        self.called.files.retain(|path, _| !in_scope.iter().any(|glob| is_exactly(glob, path)));
        self.called.dirs.retain(|dir, _| !in_scope.iter().any(|glob| names_dir(glob, dir)));
        self.in_scope = in_scope;
    }

    /// Packages of the tree that manifests name for tests and never for the product. One that a workspace has among its
    /// members is a product of its own, whoever tests with it, unless its name says otherwise.
    fn learn_dependencies(&mut self, names: &[CalledName]) {
        let of = |how: CallHow| names.iter().filter(move |name| name.how == how);
        let products: BTreeSet<&str> = of(CallHow::Dependency).map(|name| name.text.as_str()).collect();
        let members: Vec<Glob> = of(CallHow::Member).filter_map(|name| Glob::new(&name.text).ok()).collect();
        for name in of(CallHow::TestDependency) {
            let dir = name.text.as_bytes();
            let own = parent(name.by.as_bytes());
            let is_product = products.contains(name.text.as_str()) || own == dir || is_below(own, dir);
            let is_member = members.iter().any(|glob| glob.matches(dir));
            let is_there = self.base.entries().iter().any(|entry| is_below(entry.path.as_bytes(), dir));
            if is_there && !is_product && (!is_member || says_tests(last_part(dir))) {
                self.called.dirs.entry(dir.to_vec()).or_insert_with(|| name.by.clone());
            }
        }
    }

    /// Manifests that name packages of the tree, the topmost first.
    fn manifests(&self) -> Vec<CalledFile> {
        let runs = |names: &[&str]| names.iter().any(|name| self.words.contains(*name));
        let kinds = [
            (runs(&["cargo", "cargo-nextest"]), CalledKind::CargoToml),
            (
                runs(&["node", "npm", "npx", "yarn", "pnpm", "bun", "jest", "vitest", "mocha"]),
                CalledKind::NodeDependencies,
            ),
            (runs(&["python", "python3", "pytest", "py.test", "tox", "nox", "uv"]), CalledKind::Requirements),
            (runs(&["go"]), CalledKind::GoMod),
        ];
        let means = |name: &[u8], path: &[u8], kind| match kind {
            CalledKind::CargoToml => name == b"Cargo.toml",
            CalledKind::NodeDependencies => name == b"package.json",
            CalledKind::GoMod => name == b"go.mod",
            _ => {
                (name.ends_with(b".txt") || name.ends_with(b".in"))
                    && path.windows(12).any(|word| word == b"requirements")
            }
        };
        let mut out: Vec<CalledFile> = Vec::new();
        for entry in self.base.entries().iter().filter(|entry| entry.mode.is_file()) {
            let (path, name) = (entry.path.as_bytes(), last_part(entry.path.as_bytes()));
            let kind = kinds.iter().find(|(runs, kind)| *runs && means(name, path, *kind));
            out.extend(kind.map(|(_, kind)| CalledFile {
                path: entry.path.clone(),
                kind: *kind,
                digest: entry.digest,
            }));
        }
        out.sort_by_key(|file| file.path.components().count());
        out.truncate(MAX_MANIFESTS);
        out
    }

    /// The check's own files, to begin with.
    pub(super) fn first_called(&self) -> Vec<CalledFile> {
        let mut out = Vec::new();
        for path in self.named.files.keys() {
            if let Some(entry) = self.base.get(path) {
                out.extend(readable(&self.base, path, entry.mode, CallHow::Run));
            }
        }
        let dirs = || self.named.dirs.iter().map(Vec::as_slice).chain([&b""[..]]).collect::<BTreeSet<_>>();
        let runs = |names: &[&str]| names.iter().any(|name| self.words.contains(*name));
        if runs(&["make", "gmake"]) {
            for dir in dirs() {
                let found = MAKEFILES.iter().find_map(|name| self.entry_in(dir, name));
                out.extend(found.map(|(path, digest)| CalledFile {
                    path,
                    kind: CalledKind::Makefile,
                    digest,
                }));
            }
        }
        if runs(&["npm", "npx", "yarn", "pnpm", "bun"]) {
            for dir in dirs() {
                let found = self.entry_in(dir, "package.json");
                out.extend(found.map(|(path, digest)| CalledFile {
                    path,
                    kind: CalledKind::PackageJson,
                    digest,
                }));
            }
        }
        out.extend(self.manifests());
        out
    }

    fn entry_in(&self, dir: &[u8], name: &str) -> Option<(TreePath, countersign_types::Digest)> {
        let path = [dir, if dir.is_empty() { b"" } else { b"/" }, name.as_bytes()].concat();
        let entry = self.base.get(&TreePath::new(path).ok()?)?;
        entry.mode.is_file().then(|| (entry.path.clone(), entry.digest))
    }

    /// Why a changed or new path is a part of the check; None when it is none.
    pub(super) fn called_by(&self, path: &TreePath, is_new: bool) -> Option<String> {
        let within = |dir: &&[u8]| self.called.dirs.contains_key(*dir);
        if let Some(by) =
            super::ancestors(path.as_bytes()).find(within).and_then(|dir| self.called.dirs.get(dir))
        {
            return Some(format!(
                "`{by}` names its package for tests alone; if it is to be changed, say `--scope DIR/**`"
            ));
        }
        if is_new {
            let by = self.called.absent.get(path.as_bytes())?;
            return Some(format!("`{by}`, which the check runs, would read it"));
        }
        let by = self.called.files.get(path)?;
        Some(format!(
            "`{by}`, which the check runs, reads or runs it; if it is to be changed, say `--scope PATH`"
        ))
    }
}

/// Whether a word of a check's file makes a file of the base a part of the check.
fn counts(name: &CalledName, file: &TreePath) -> bool {
    let dir = parent(file.as_bytes());
    match name.how {
        CallHow::Included | CallHow::IncludedIfThere => true,
        CallHow::Sourced | CallHow::Run if !dir.is_empty() && dir == parent(name.by.as_bytes()) => true,
        _ => is_support(file),
    }
}

fn is_support(file: &TreePath) -> bool {
    let is_one_of = |part: &[u8], known: &[&str]| {
        let mut words = part.split(|b| !b.is_ascii_alphanumeric());
        words.any(|word| known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(word)))
    };
    if is_one_of(file.file_name(), BUILDS) && !is_one_of(file.file_name(), SUPPORT) {
        return false;
    }
    let mut dirs = file.components().peekable();
    while let Some(part) = dirs.next() {
        let is_dir = dirs.peek().is_some();
        if is_one_of(part, SUPPORT) {
            return true;
        }
        if is_dir && PRODUCT_DIRS.contains(&part) {
            return false;
        }
    }
    false
}

const fn is_dependency(how: CallHow) -> bool {
    matches!(how, CallHow::TestDependency | CallHow::Dependency | CallHow::Member)
}

/// Whether a package's own name says that it is there for tests: `test-utils`, `testkit`, `mocks`.
fn says_tests(name: &[u8]) -> bool {
    let mut words = name.split(|b| !b.is_ascii_alphanumeric());
    words.any(|word| {
        let word = word.to_ascii_lowercase();
        word.starts_with(b"test") || SUPPORT.iter().any(|known| known.as_bytes() == word)
    })
}

/// Whether a glob of the scope names a directory, and not one above it.
fn names_dir(glob: &str, dir: &[u8]) -> bool {
    let Ok(dir) = std::str::from_utf8(dir) else { return false };
    let dir = super::escaped(dir);
    glob.strip_prefix(dir.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A file that can name others in its turn.
fn readable(base: &Manifest, path: &TreePath, mode: EntryMode, how: CallHow) -> Option<CalledFile> {
    let name = last_part(path.as_bytes());
    let is_shell = [&b".sh"[..], b".bash", b".zsh", b".ksh", b".bats"].iter().any(|end| name.ends_with(end));
    let is_make = matches!(how, CallHow::Included | CallHow::IncludedIfThere)
        || name.ends_with(b".mk")
        || MAKEFILES.iter().any(|known| known.as_bytes() == name);
    let kind = match how {
        _ if !mode.is_file() => return None,
        _ if is_make => CalledKind::Makefile,
        _ if is_shell => CalledKind::Script,
        CallHow::Sourced => CalledKind::Script,
        // An executable, or the argument of a shell.
        CallHow::Run if !name.contains(&b'.') => CalledKind::Script,
        _ => return None,
    };
    Some(CalledFile { path: path.clone(), kind, digest: base.get(path)?.digest })
}

/// Whether a glob of the scope names exactly this file.
fn is_exactly(glob: &str, path: &TreePath) -> bool {
    super::literal_glob(path).is_some_and(|literal| literal == *glob) && Glob::new(glob).is_ok()
}
