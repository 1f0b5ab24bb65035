//! What is scratch: build outputs, caches and installed dependencies, which are never sealed, judged or delivered.

use std::collections::HashSet;
use std::io;

use countersign_types::Digest;
use serde::{Deserialize, Serialize};

use crate::ignore::Ignore;
use crate::{GlobError, GlobSet, Manifest, TreePath};

/// What belongs to scratch: patterns of the contract and of the **base** tree's ignore rules, and a fixed list per
/// language ([`FIXED_DIRS`], [`FIXED_SUFFIXES`], [`LOCKFILES`]). Nothing that the agent writes decides it; a path that
/// the base holds is tree whatever the rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchRules {
    /// Globs in the contract's language, anchored at the tree root.
    pub globs: Vec<String>,
    /// The base's `.gitignore` files: directory (`""` for the root, else as a [`TreePath`] is written) and text.
    pub ignore_files: Vec<(String, String)>,
    /// The base's paths that the rules alone would call scratch. Usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<TreePath>,
}

/// Directories that are scratch wherever they stand; `target` not below a component named `src`.
pub const FIXED_DIRS: &[&str] = &[
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    "__pypackages__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".eggs",
    ".gradle",
    ".cache",
    ".parcel-cache",
    ".turbo",
];

/// Name endings that are scratch: of directories when they end in `/`, else of files.
pub const FIXED_SUFFIXES: &[&str] = &[".egg-info/", ".pyc", ".pyo"];

/// Lockfiles: scratch where the base has none, for then the project chose not to carry one.
pub const LOCKFILES: &[&str] = &[
    "Cargo.lock",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "pdm.lock",
];

impl ScratchRules {
    /// The rules of a contract over its base. `read` gives the bytes of an ignore file of the base.
    ///
    /// # Errors
    /// A glob of the contract that cannot be used, or an ignore file that cannot be read.
    pub fn for_base(
        globs: Vec<String>,
        base: &Manifest,
        mut read: impl FnMut(&Digest) -> io::Result<Vec<u8>>,
    ) -> Result<Self, RulesError> {
        let mut ignore_files = Vec::new();
        for entry in base.entries() {
            // git does not follow a link here either.
            if entry.path.file_name() != b".gitignore" || !entry.mode.is_file() {
                continue;
            }
            let bytes = read(&entry.digest)
                .map_err(|source| RulesError::Read { path: entry.path.clone(), source })?;
            let dir = match entry.path.as_bytes().strip_suffix(b"/.gitignore") {
                Some(dir) => TreePath::new(dir).map(|d| d.to_string()).unwrap_or_default(),
                None => String::new(),
            };
            ignore_files.push((dir, String::from_utf8_lossy(&bytes).into_owned()));
        }
        let rules = Self { globs, ignore_files, held: Vec::new() };
        Ok(rules.holding(base)?)
    }

    /// The same rules, by which every entry of `tree` is tree too: a revision or a patch may carry what a directory would
    /// only have beside it.
    ///
    /// # Errors
    /// A glob that cannot be used.
    pub fn holding(mut self, tree: &Manifest) -> Result<Self, GlobError> {
        let scratch = Scratch::compile(&self)?;
        let more = tree.entries().iter().filter(|e| scratch.is_scratch(e.path.as_bytes(), false));
        self.held.extend(more.map(|e| e.path.clone()));
        Ok(self)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error(transparent)]
    Glob(#[from] GlobError),
    #[error("the ignore file `{path}` of the base cannot be read: {source}")]
    Read { path: TreePath, source: io::Error },
}

/// [`ScratchRules`], ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    globs: GlobSet,
    ignore: Ignore,
    held: HashSet<Vec<u8>>,
    held_dirs: HashSet<Vec<u8>>,
}

impl Scratch {
    /// # Errors
    /// A glob that cannot be used.
    pub fn compile(rules: &ScratchRules) -> Result<Self, GlobError> {
        let mut ignore = Ignore::default();
        for (dir, text) in &rules.ignore_files {
            let dir = TreePath::from_escaped(dir).map(|d| d.as_bytes().to_vec()).unwrap_or_default();
            ignore.add(&dir, text.as_bytes());
        }
        let mut held_dirs = HashSet::new();
        for path in &rules.held {
            held_dirs.extend(parents(path.as_bytes()).map(<[u8]>::to_vec));
        }
        Ok(Self {
            globs: GlobSet::new(&rules.globs)?,
            ignore,
            held: rules.held.iter().map(|p| p.as_bytes().to_vec()).collect(),
            held_dirs,
        })
    }

    /// Whether the path is scratch, its parents considered.
    #[must_use]
    pub fn is_scratch(&self, path: &[u8], is_dir: bool) -> bool {
        let mut ruled = false;
        for parent in parents(path) {
            match self.judge(parent, true, ruled) {
                Judgement::Scratch => return true,
                Judgement::Mixed => ruled = true,
                Judgement::Tree => {}
            }
        }
        self.judge(path, is_dir, ruled) == Judgement::Scratch
    }

    /// One step of a walk from the root. `ruled`: the parent was [`Judgement::Mixed`].
    #[must_use]
    pub fn judge(&self, path: &[u8], is_dir: bool, ruled: bool) -> Judgement {
        if !(ruled || self.rules_say(path, is_dir)) {
            return Judgement::Tree;
        }
        if is_dir && self.held_dirs.contains(path) {
            return Judgement::Mixed;
        }
        if self.held.contains(path) { Judgement::Tree } else { Judgement::Scratch }
    }

    fn rules_say(&self, path: &[u8], is_dir: bool) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        is_fixed_scratch(path, is_dir)
            || (!is_dir && LOCKFILES.iter().any(|l| l.as_bytes() == name))
            || (if is_dir { self.globs.matches_dir(path) } else { self.globs.matches(path) })
            || self.ignore.ignores(path, is_dir)
    }
}

/// What a walk does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Tree,
    Scratch,
    /// A scratch directory that holds paths of the base: it is walked, and only those are tree.
    Mixed,
}

/// Whether the fixed list says that this path is scratch by its own name: for a base that has no rules yet. Lockfiles
/// are not part of this answer.
#[must_use]
pub fn is_fixed_scratch(path: &[u8], is_dir: bool) -> bool {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    let listed = is_dir && FIXED_DIRS.iter().any(|d| d.as_bytes() == name);
    let ending = FIXED_SUFFIXES.iter().any(|suffix| match suffix.strip_suffix('/') {
        Some(suffix) => is_dir && name.ends_with(suffix.as_bytes()),
        None => !is_dir && name.ends_with(suffix.as_bytes()),
    });
    (listed && !(name == b"target" && below_src(path))) || ending
}

fn below_src(path: &[u8]) -> bool {
    path.split(|b| *b == b'/').any(|part| part == b"src")
}

/// Every directory above a path, the topmost first.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;
    use crate::EntryMode;

    fn base(paths: &[(&str, &str)]) -> (Manifest, Vec<(Digest, Vec<u8>)>) {
        let mut contents = Vec::new();
        let entries = paths
            .iter()
            .map(|(path, text)| {
                contents.push((Digest::of(text.as_bytes()), text.as_bytes().to_vec()));
                Entry {
                    path: TreePath::new(path.as_bytes()).unwrap(),
                    mode: EntryMode::File,
                    size: text.len() as u64,
                    digest: Digest::of(text.as_bytes()),
                }
            })
            .collect();
        (Manifest::new(entries), contents)
    }

    fn scratch(globs: &[&str], paths: &[(&str, &str)]) -> Scratch {
        let (manifest, contents) = base(paths);
        let globs = globs.iter().map(|g| (*g).to_owned()).collect();
        let rules = ScratchRules::for_base(globs, &manifest, |digest| {
            Ok(contents.iter().find(|(d, _)| d == digest).map(|(_, b)| b.clone()).unwrap_or_default())
        })
        .unwrap();
        let json = serde_json::to_string(&rules).unwrap();
        Scratch::compile(&serde_json::from_str(&json).unwrap()).unwrap()
    }

    #[test]
    fn build_outputs_are_scratch_and_sources_are_not() {
        let s = scratch(&["gen/"], &[(".gitignore", "*.log\n"), ("sub/.gitignore", "/only-here\n")]);
        for (path, expected) in [
            ("target/debug/x", true),
            ("crates/a/target/x", true),
            ("src/target/mod.rs", false),
            ("src/main.rs", false),
            ("a/node_modules/b/c.js", true),
            ("pkg/__pycache__/a.pyc", true),
            ("a.pyc", true),
            ("x.egg-info/PKG-INFO", true),
            ("gen/a", true),
            ("generated", false),
            ("deep/x.log", true),
            ("sub/only-here", true),
            ("only-here", false),
            ("Cargo.lock", true),
            ("dist/a.js", false),
            ("build/a.js", false),
        ] {
            assert_eq!(s.is_scratch(path.as_bytes(), false), expected, "{path}");
        }
        assert!(!s.is_scratch(b"target", false), "a file of that name is no build directory");
    }

    #[test]
    fn what_the_base_holds_is_tree_whatever_the_rules_say() {
        let paths =
            [(".gitignore", "*.log\n"), ("target/keep.txt", "k"), ("Cargo.lock", "l"), ("a/b.log", "x")];
        let s = scratch(&[], &paths);
        for tree in ["target/keep.txt", "Cargo.lock", "a/b.log"] {
            assert!(!s.is_scratch(tree.as_bytes(), false), "{tree}");
        }
        for out in ["target/other.txt", "target/keep/x", "sub/Cargo.lock", "a/c.log"] {
            assert!(s.is_scratch(out.as_bytes(), false), "{out}");
        }
        assert!(!s.is_scratch(b"target", true));
        assert_eq!(s.judge(b"target", true, false), Judgement::Mixed);
        assert_eq!(s.judge(b"target/keep.txt", false, true), Judgement::Tree);
        assert_eq!(s.judge(b"target/other", true, true), Judgement::Scratch);
    }

    #[test]
    fn another_tree_can_be_held_besides() {
        let (tree, _) = base(&[("Cargo.lock", "l"), ("target/new/x", "x"), ("src/a.rs", "a")]);
        let rules =
            ScratchRules { held: vec![TreePath::new(&b"old.pyc"[..]).unwrap()], ..ScratchRules::default() };
        let s = Scratch::compile(&rules.holding(&tree).unwrap()).unwrap();
        for (path, expected) in [
            ("Cargo.lock", false),
            ("target/new/x", false),
            ("old.pyc", false),
            ("target/new/y", true),
            ("sub/Cargo.lock", true),
        ] {
            assert_eq!(s.is_scratch(path.as_bytes(), false), expected, "{path}");
        }
    }

    #[test]
    fn a_bad_glob_is_refused_by_name() {
        let rules = ScratchRules { globs: vec!["/abs".into()], ..ScratchRules::default() };
        assert!(Scratch::compile(&rules).unwrap_err().to_string().contains("/abs"));
    }
}
