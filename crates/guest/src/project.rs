//! What a project's own files say of how it is tested, for a starting profile. Read inside a cell: the files are hostile.

use countersign_tree::TreePath;
use countersign_types::Digest;

use crate::fault::Outcome;
use crate::protocol::{Fault, ProjectFile, ProjectMark, Reply};
use crate::segment::Segments;

/// Bytes of a file that are looked at; a longer one says nothing.
const MAX_FILE: usize = 1 << 20;
/// Bytes of a script's text.
const MAX_SCRIPT: usize = 500;
/// What `npm init` writes into a package without tests.
const NO_TEST: &str = "no test specified";

pub(crate) fn read(
    project: &[ProjectFile],
    located: &[countersign_tree::Located],
    files: &[std::fs::File],
) -> Outcome<Reply> {
    let segments = Segments::new(files, located);
    let read =
        |digest: &Digest| segments.read(digest).map_err(|e| Fault::io("reading the project's files", &e));
    let mut marks = Vec::new();
    for file in project {
        let bytes = read(&file.digest)?;
        if bytes.len() > MAX_FILE {
            continue;
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        marks.extend(of(&file.path, &text));
    }
    Ok(Reply::Project { marks })
}

fn of(path: &TreePath, text: &str) -> Option<ProjectMark> {
    let name = path.to_string();
    match name.as_str() {
        "package.json" => npm_test(text).map(|script| ProjectMark::NpmTest { script }),
        "Makefile" | "GNUmakefile" | "makefile" => {
            make_target(text).map(|target| ProjectMark::MakeTarget { target: target.to_owned() })
        }
        "pyproject.toml" => names_pytest_in_toml(text).then_some(ProjectMark::Pytest),
        "setup.cfg" => text.lines().any(|line| line.trim() == "[tool:pytest]").then_some(ProjectMark::Pytest),
        "tox.ini" => text.lines().any(|line| line.trim() == "[pytest]").then_some(ProjectMark::Pytest),
        _ if name.starts_with("requirements") => {
            text.lines().any(is_pytest_requirement).then_some(ProjectMark::Pytest)
        }
        _ => None,
    }
}

fn npm_test(text: &str) -> Option<String> {
    let package: serde_json::Value = serde_json::from_str(text).ok()?;
    let script = package.get("scripts")?.get("test")?.as_str()?.trim();
    let usable = !script.is_empty() && script.len() <= MAX_SCRIPT && !script.contains(NO_TEST);
    usable.then(|| script.to_owned())
}

/// The first of `test` and `check` that is a target.
fn make_target(text: &str) -> Option<&'static str> {
    let is_target = |wanted: &str| {
        text.lines().filter(|line| !line.starts_with(['\t', ' ', '#', '.'])).any(|line| {
            line.split_once(':').is_some_and(|(targets, rest)| {
                !rest.starts_with('=') && targets.split_ascii_whitespace().any(|target| target == wanted)
            })
        })
    };
    ["test", "check"].into_iter().find(|target| is_target(target))
}

/// `pytest`, `pytest==8`, `pytest[x]>=7 ; …`, and no other package whose name begins with it.
fn is_pytest_requirement(line: &str) -> bool {
    let name: String = line
        .trim()
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        .collect();
    name.eq_ignore_ascii_case("pytest")
}

/// A `[tool.pytest]` table, or pytest among any list of requirements.
fn names_pytest_in_toml(text: &str) -> bool {
    let Ok(root) = text.parse::<toml::Table>() else { return false };
    let has_table = root.get("tool").and_then(|tool| tool.get("pytest")).is_some();
    has_table || root.values().any(|value| names_pytest(value, 0))
}

fn names_pytest(value: &toml::Value, depth: u32) -> bool {
    match value {
        toml::Value::Array(items) => items.iter().any(|item| match item {
            toml::Value::String(text) => is_pytest_requirement(text),
            other => depth < 8 && names_pytest(other, depth + 1),
        }),
        toml::Value::Table(table) => depth < 8 && table.values().any(|value| names_pytest(value, depth + 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(path: &str, text: &str) -> Option<ProjectMark> {
        of(&TreePath::new(path).unwrap(), text)
    }

    #[test]
    fn a_test_script_that_tests_nothing_is_none() {
        let script = |text: &str| {
            mark("package.json", &serde_json::json!({ "scripts": { "test": text } }).to_string())
        };
        assert_eq!(script("jest"), Some(ProjectMark::NpmTest { script: "jest".to_owned() }));
        assert_eq!(script("echo \"Error: no test specified\" && exit 1"), None);
        assert_eq!(script(""), None);
        assert_eq!(mark("package.json", "{"), None);
        assert_eq!(mark("package.json", "{\"scripts\":{\"test\":1}}"), None);
    }

    #[test]
    fn targets_of_make_are_told_from_what_looks_like_one() {
        let target = |text: &str| match mark("Makefile", text) {
            Some(ProjectMark::MakeTarget { target }) => Some(target),
            _ => None,
        };
        assert_eq!(target("all: x\n\ttrue\ncheck: all\n\ttrue\n").as_deref(), Some("check"));
        assert_eq!(target("check:\n\ntest check2: all\n").as_deref(), Some("test"));
        for text in ["test := 1\n", "\ttest: x\n", "# test: x\n", ".PHONY: test\n", "tests: x\n", ""] {
            assert_eq!(target(text), None, "{text}");
        }
    }

    #[test]
    fn pytest_is_found_where_projects_name_it() {
        for (path, text) in [
            ("pyproject.toml", "[tool.pytest.ini_options]\n"),
            ("pyproject.toml", "[project.optional-dependencies]\ndev = [\"pytest>=7\"]\n"),
            ("pyproject.toml", "[dependency-groups]\ndev = [\"ruff\", \"pytest\"]\n"),
            ("setup.cfg", "[tool:pytest]\n"),
            ("tox.ini", "[pytest]\n"),
            ("requirements-dev.txt", "ruff\npytest==8.0 ; python_version > '3'\n"),
        ] {
            assert_eq!(mark(path, text), Some(ProjectMark::Pytest), "{path} {text}");
        }
        for (path, text) in [
            ("pyproject.toml", "[project]\nname = \"pytest\"\n"),
            ("pyproject.toml", "[project]\ndependencies = [\"pytest-xdist\"]\n"),
            ("pyproject.toml", "not toml ["),
            ("requirements.txt", "pytest-cov\n# pytest\n"),
            ("setup.cfg", "[pytest]\n"),
        ] {
            assert_eq!(mark(path, text), None, "{path} {text}");
        }
    }
}
