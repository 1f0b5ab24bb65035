//! New files that a check would use in place of others: modules, links and makefiles by their name.

use countersign_tree::{Change, EntryMode, FIXED_DIRS, TreePath};

use super::{Fence, last_part};
use crate::programs::parent;
use crate::rules::{JS_RUNNER_MODULES, RUNNER_MODULES};

impl Fence {
    /// A new file that would be used in place of one that the check relies on.
    pub(super) fn new_file_shadows(&self, change: &Change) -> Option<String> {
        if change.before.is_some() {
            return None;
        }
        let path = change.path.as_bytes();
        let (dir, name) = (parent(path), change.path.file_name());
        // GNU make prefers GNUmakefile to makefile to Makefile (76).
        if (name == b"GNUmakefile" || name == b"makefile") && self.make_dirs.contains(dir) {
            return Some("make would read it in place of the existing Makefile".to_owned());
        }
        if self.takes_packages(path) {
            return Some(
                "it would take existing packages out of their module, and their tests with them".to_owned(),
            );
        }
        if let Some(why) = self.shadows_installed(dir, name).or_else(|| shadows_library(path)) {
            return Some(why);
        }
        let is_link = change.after.as_ref().is_some_and(|e| e.mode == EntryMode::Symlink);
        if is_link && FIXED_DIRS.iter().any(|fixed| fixed.as_bytes() == name) {
            return Some("a link with this name stands for a directory that no tree holds".to_owned());
        }
        if change.after.as_ref().is_some_and(|e| e.size > 0)
            && let Some(why) = self.package_of_tests(path)
        {
            return Some(why);
        }
        let (dir, module, is_package) =
            importable(path).or_else(|| linked_package(path).filter(|_| is_link))?;
        // pytest puts a test's directory first on the path unless that directory is a package itself.
        let in_tests = (dir.split(|b| *b == b'/').any(|part| part == b"tests") || dir == b"test")
            && TreePath::new([dir, b"/__init__.py"].concat())
                .is_ok_and(|path| self.base.get(&path).is_none());
        let is_start = dir.is_empty() || self.named.import_dirs.contains(dir);
        if !(is_start || dir == b"src" || in_tests) || self.base_has_module(dir, module) {
            return None;
        }
        let stands_for_runner = RUNNER_MODULES.contains(&module) || module.starts_with("pytest_");
        // Where pytest has put a directory of tests, most standard modules are loaded already.
        let stands_for_other =
            self.shadows.contains(module) && (is_start || (in_tests && (!is_package || is_link)));
        if stands_for_runner || stands_for_other {
            return Some(format!("Python would import it in place of the module `{module}`"));
        }
        // A decoy of the product's module beside the tests is what they would import (14, 22).
        let is_aside = in_tests || (is_start && !dir.is_empty() && dir != b"src");
        if is_aside && (self.base_has_module(b"", module) || self.base_has_module(b"src", module)) {
            return Some(format!("tests would import it in place of the product's `{module}`"));
        }
        None
    }

    /// A new `__init__.py` that is not empty, in a directory of existing Python tests: Python runs it before each of them.
    fn package_of_tests(&self, path: &[u8]) -> Option<String> {
        let (dir, _, true) = importable(path)? else { return None };
        let package = parent(path);
        let inside = [package, b"/"].concat();
        let entries = self.base.entries();
        let start = entries.partition_point(|entry| entry.path.as_bytes() < inside.as_slice());
        let below = entries[start..].iter().map(|e| e.path.as_bytes()).take_while(|p| p.starts_with(&inside));
        let in_tests = self.protects_existing(path);
        let mut tests = below.filter(|p| {
            p.ends_with(b".py") && self.protects_existing(p) && (in_tests || parent(p) == package)
        });
        tests.next().map(|_| {
            let dir = String::from_utf8_lossy(if dir.is_empty() { package } else { last_part(package) });
            format!("Python would run it before every existing test in `{}`", dir.escape_debug())
        })
    }

    /// A new file, or directory, at the root of a JavaScript package that a runner may take for an installed one.
    fn shadows_installed(&self, dir: &[u8], name: &[u8]) -> Option<String> {
        let is_package = |dir: &[u8]| {
            let manifest = [dir, if dir.is_empty() { b"" } else { b"/" }, b"package.json"].concat();
            TreePath::new(manifest).is_ok_and(|path| self.base.get(&path).is_some())
        };
        let (stem, end) = name.split_at(name.iter().position(|b| *b == b'.').unwrap_or(name.len()));
        if !JS_ENDINGS.iter().any(|known| known.as_bytes() == end) {
            return None;
        }
        let (package, module) = if stem == b"index" { (parent(dir), last_part(dir)) } else { (dir, stem) };
        let module = JS_RUNNER_MODULES.iter().find(|known| known.as_bytes() == module)?;
        (stem != b"index" || !dir.is_empty()).then_some(())?;
        let has_it = JS_ENDINGS
            .iter()
            .flat_map(|end| [format!("{module}{end}"), format!("{module}/index{end}")])
            .any(|file| {
                let path = [package, if package.is_empty() { b"" } else { b"/" }, file.as_bytes()].concat();
                TreePath::new(path).is_ok_and(|path| self.base.get(&path).is_some())
            });
        (is_package(package) && !has_it)
            .then(|| format!("a test runner may import it in place of the package `{module}`"))
    }

    pub(super) fn base_has_module(&self, dir: &[u8], module: &str) -> bool {
        let prefix = if dir.is_empty() { Vec::new() } else { [dir, b"/"].concat() };
        [".py", "/__init__.py"].iter().any(|end| {
            let path = [&prefix, module.as_bytes(), end.as_bytes()].concat();
            TreePath::new(path).is_ok_and(|path| self.base.get(&path).is_some())
        })
    }
}

/// Endings of what node and its relatives import without being told the ending.
const JS_ENDINGS: &[&str] = &[".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"];

/// Where Ruby looks for libraries first when a runner is started as usual.
const RUBY_DIRS: &[&str] = &["lib/", "test/", "spec/"];

/// Files that Ruby's runners and tests require by these names.
const RUBY_LIBRARIES: &[&str] = &[
    "minitest.rb",
    "minitest/assertions.rb",
    "minitest/autorun.rb",
    "minitest/mock.rb",
    "minitest/spec.rb",
    "minitest/test.rb",
    "minitest/unit.rb",
    "rspec.rb",
    "rspec/autorun.rb",
    "rspec/core.rb",
    "rspec/expectations.rb",
    "rspec/mocks.rb",
    "test/unit.rb",
    "test/unit/autorun.rb",
];

/// A new file that Ruby would load in place of a runner's own (51).
fn shadows_library(path: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(path).ok()?;
    let library = RUBY_LIBRARIES
        .iter()
        .find(|library| RUBY_DIRS.iter().any(|dir| text.strip_prefix(dir) == Some(**library)))?;
    Some(format!("Ruby would load it in place of `{library}`"))
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

/// A link that Python would import as a package. Where it leads is not asked.
fn linked_package(path: &[u8]) -> Option<(&[u8], &str, bool)> {
    let name = std::str::from_utf8(last_part(path)).ok()?;
    let is_name = name.chars().all(|c| c == '_' || c.is_alphanumeric());
    (is_name && !name.starts_with(|c: char| c.is_ascii_digit())).then(|| (parent(path), name, true))
}
