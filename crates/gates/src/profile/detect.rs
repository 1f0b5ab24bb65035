//! A starting profile from a project's own files, for people who name no check.
//!
//! Only names at the root of the base and what the guest read in them count. One candidate is a profile; two are none, because
//! a guess between them would be the gate's own word.

use countersign_guest::protocol::ProjectMark;
use countersign_tree::{Entry, EntryMode, Manifest};

use super::file::{ProfileCheck, ProfileTerms};
use crate::adapters::adapter_of;
use crate::runner::base_name;

/// A way in which a project may be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file that says so. Hostile.
    pub because: String,
    pub check: Vec<String>,
    pub probe: Vec<String>,
}

impl Candidate {
    fn new(because: &str, check: &[&str], probe: &[&str]) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { because: because.to_owned(), check: words(check), probe: words(probe) }
    }

    /// As a profile of this name.
    #[must_use]
    pub fn profile(&self, name: &str) -> ProfileTerms {
        ProfileTerms {
            schema: ProfileTerms::SCHEMA.to_owned(),
            name: name.to_owned(),
            description: None,
            setup: None,
            probe: Some(self.probe.clone()),
            checks: vec![ProfileCheck {
                runner: adapter_of(&self.check).map(|adapter| adapter.name().to_owned()),
                ..ProfileCheck::new(self.check.clone())
            }],
            scope: Vec::new(),
            protect: Vec::new(),
            allow: Vec::new(),
            deps: Default::default(),
        }
    }
}

/// Files of the base that the guest has to read before [`candidates`] can tell.
#[must_use]
pub fn project_files(base: &Manifest) -> Vec<&Entry> {
    let wanted = |name: &str| {
        matches!(
            name,
            "package.json"
                | "Makefile"
                | "GNUmakefile"
                | "makefile"
                | "pyproject.toml"
                | "setup.cfg"
                | "tox.ini"
        ) || (name.starts_with("requirements") && name.ends_with(".txt"))
    };
    base.entries()
        .iter()
        .filter(|entry| entry.mode != EntryMode::Symlink && wanted(&entry.path.to_string()))
        .collect()
}

/// Every way that the project's files name, in a fixed order.
#[must_use]
pub fn candidates(base: &Manifest, marks: &[ProjectMark]) -> Vec<Candidate> {
    let names: Vec<String> = base.entries().iter().map(|entry| entry.path.to_string()).collect();
    let has = |name: &str| names.iter().any(|path| path == name);
    let mut found = Vec::new();
    if has("Cargo.toml") {
        found.push(Candidate::new("Cargo.toml", &["cargo", "test"], &["cargo", "--version"]));
    }
    if has("go.mod") {
        found.push(Candidate::new("go.mod", &["go", "test", "./..."], &["go", "version"]));
    }
    if let Some(script) = marks.iter().find_map(|mark| match mark {
        ProjectMark::NpmTest { script } => Some(script),
        _ => None,
    }) {
        found.push(node(script));
    }
    found.extend(python(&names, marks));
    if let Some(target) = marks.iter().find_map(|mark| match mark {
        ProjectMark::MakeTarget { target } => Some(target),
        _ => None,
    }) {
        found.push(Candidate::new("Makefile", &["make", target], &["make", "--version"]));
    }
    found
}

/// The runner itself where the script is nothing else, so that its tests are seen by name.
fn node(script: &str) -> Candidate {
    let probe = ["node", "--version"];
    let plain = script.chars().all(|c| c.is_ascii_alphanumeric() || " -_./=,:@".contains(c));
    let words: Vec<&str> = script.split_ascii_whitespace().collect();
    if plain && let Some((program, rest)) = words.split_first() {
        let local = format!("node_modules/.bin/{program}");
        let program = if *program == "node" { program } else { local.as_str() };
        let argv: Vec<&str> = [program].into_iter().chain(rest.iter().copied()).collect();
        let owned: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        if adapter_of(&owned).is_some() {
            return Candidate::new("package.json", &argv, &probe);
        }
    }
    Candidate::new("package.json", &["npm", "test"], &probe)
}

fn python(names: &[String], marks: &[ProjectMark]) -> Option<Candidate> {
    let named = |wanted: &[&str]| names.iter().find(|name| wanted.contains(&name.as_str()));
    let pytest =
        named(&["pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"]);
    let is_test = |name: &&String| {
        let (dir, file) = name.rsplit_once('/').unwrap_or(("", name));
        let file = base_name(file);
        matches!(dir, "" | "tests" | "test") && file.starts_with("test_") && file.ends_with(".py")
    };
    let test = names.iter().find(is_test);
    let probe = ["python3", "-c", "import pytest"];
    if pytest.is_some() || marks.contains(&ProjectMark::Pytest) {
        let because = pytest.map_or("pytest among the requirements", String::as_str);
        return Some(Candidate::new(because, &["python3", "-m", "pytest"], &probe));
    }
    let test = test?;
    let dir = test.rsplit_once('/').map_or(".", |(dir, _)| dir);
    // `discover` imports below its start directory; the project's own packages lie at the root.
    let argv = ["python3", "-m", "unittest", "discover", "-s", dir, "-t", "."];
    let is_package = dir == "." || names.contains(&format!("{dir}/__init__.py"));
    let argv = if is_package { &argv[..] } else { &argv[..6] };
    Some(Candidate::new(test, argv, &["python3", "--version"]))
}

#[cfg(test)]
mod tests {
    use countersign_tree::TreePath;
    use countersign_types::Digest;

    use super::*;

    fn base(names: &[&str]) -> Manifest {
        let entry = |name: &&str| Entry {
            path: TreePath::new(*name).unwrap(),
            mode: EntryMode::File,
            size: 0,
            digest: Digest::of(b""),
        };
        Manifest::new(names.iter().map(entry).collect())
    }

    fn commands(names: &[&str], marks: &[ProjectMark]) -> Vec<String> {
        candidates(&base(names), marks).iter().map(|found| found.check.join(" ")).collect()
    }

    fn npm(script: &str) -> [ProjectMark; 1] {
        [ProjectMark::NpmTest { script: script.to_owned() }]
    }

    #[test]
    fn each_kind_of_project_has_its_command() {
        assert_eq!(commands(&["Cargo.toml", "src/lib.rs"], &[]), ["cargo test"]);
        assert_eq!(commands(&["go.mod"], &[]), ["go test ./..."]);
        assert_eq!(commands(&["package.json"], &npm("jest --ci")), ["node_modules/.bin/jest --ci"]);
        assert_eq!(commands(&["package.json"], &npm("node --test")), ["node --test"]);
        assert_eq!(commands(&["package.json"], &npm("tsc && jest")), ["npm test"]);
        assert_eq!(commands(&["package.json"], &npm("jest $(x)")), ["npm test"]);
        assert_eq!(commands(&["package.json"], &[]), [""; 0]);
        assert_eq!(commands(&["pytest.ini", "a.py"], &[]), ["python3 -m pytest"]);
        assert_eq!(commands(&["pyproject.toml"], &[ProjectMark::Pytest]), ["python3 -m pytest"]);
        assert_eq!(
            commands(&["tests/__init__.py", "tests/test_a.py"], &[]),
            ["python3 -m unittest discover -s tests -t ."]
        );
        assert_eq!(commands(&["test/test_a.py"], &[]), ["python3 -m unittest discover -s test"]);
        let make = [ProjectMark::MakeTarget { target: "check".to_owned() }];
        assert_eq!(commands(&["Makefile"], &make), ["make check"]);
        assert_eq!(commands(&["README.md"], &[]), [""; 0]);
        assert_eq!(commands(&["sub/Cargo.toml", "sub/go.mod", "deep/tests/test_a.py"], &[]), [""; 0]);
    }

    #[test]
    fn two_ways_are_both_told() {
        assert_eq!(commands(&["Cargo.toml", "package.json"], &npm("jest")).len(), 2);
    }

    #[test]
    fn a_candidate_is_a_profile_that_can_be_read() {
        let found = candidates(&base(&["Cargo.toml"]), &[]).remove(0);
        let terms = found.profile("sample");
        let mut files = super::super::ProfileFiles::default();
        let bytes = serde_json::to_vec(&terms).unwrap();
        files.add(TreePath::new("profile.json").unwrap(), EntryMode::File, bytes).unwrap();
        let read = super::super::Profile::read(&files).unwrap();
        assert_eq!(read.checks[0].argv, ["cargo", "test"]);
        assert_eq!(read.checks[0].runner.as_deref(), Some("cargo test"));
    }
}
