use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::sh;
use xtask::workspace::Workspace;

pub fn root() -> PathBuf {
    Workspace::find().root
}

/// Every file that belongs to the repository or is about to: tracked, or new and not ignored.
pub fn repository_files() -> Vec<String> {
    let mut git = sh::plain_git(&root());
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = sh::capture(&mut git).unwrap();
    let mut files: Vec<String> =
        listed.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    files.retain(|name| root().join(name).is_file());
    files.sort();
    files.dedup();
    assert!(files.len() > 20, "the repository's files were not found");
    files
}

pub fn read(name: &str) -> String {
    let bytes = std::fs::read(root().join(name)).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The projects of the benchmark of gates are data: they keep no rule of this workspace.
const DATA: [&str; 3] = ["bench/gate/bases/", "bench/gate/cheats/", "bench/gate/honest/"];

pub fn files_ending(suffix: &str) -> Vec<String> {
    let files = repository_files().into_iter();
    files.filter(|name| name.ends_with(suffix) && !DATA.iter().any(|dir| name.starts_with(dir))).collect()
}

/// The part of a Rust file before its unit tests.
pub fn product_part(name: &str, text: &str) -> String {
    let is_test = name.contains("/tests/") || name.contains("/tests.rs") || name.contains("_tests.rs");
    if is_test {
        return String::new();
    }
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

/// Lines that are no comment, with their numbers.
pub fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(at, line)| (at + 1, line))
}

pub fn metadata(with_dependencies: bool) -> serde_json::Value {
    let workspace = Workspace::find();
    let mut cargo: Command = workspace.cargo();
    cargo.args(["metadata", "--format-version", "1", "--offline", "--locked"]);
    if with_dependencies {
        cargo.args(["--filter-platform", xtask::workspace::STATIC_TARGET]);
    } else {
        cargo.arg("--no-deps");
    }
    serde_json::from_str(&sh::capture(&mut cargo).unwrap()).unwrap()
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Cells of the rows of all tables of a document whose header's first cell is `first`.
pub fn table<'a>(document: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let mut rows = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        let Some(row) = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
            inside = false;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells.first() == Some(&first) {
            inside = true;
        } else if inside && !cells.iter().all(|cell| cell.chars().all(|c| c == '-' || c == ':')) {
            rows.push(cells);
        }
    }
    rows
}

/// What stands between backticks.
pub fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
