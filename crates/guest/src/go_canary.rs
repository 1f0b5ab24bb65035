//! A test of ours in each Go package of the tree that has tests, for `go test -overlay`: go compiles a copy of one of the
//! package's test files, with something behind its package clause and at its end, and the tree stays as it is. A file of
//! its own would not do: `go vet`, which `go test` runs, looks for it in the tree.

use std::collections::BTreeMap;

use countersign_tree::EntryMode;
use serde_json::json;

use crate::confined::read_all;
use crate::protocol::{GoCanary, OverlayFile, VERIFIER_DIR};
use crate::state::Guest;

/// A larger test file is left alone.
const MAX_FILE: u64 = 4 << 20;
/// Copies at most. A package without one has no canary, which its report says.
const MAX_COPIES: usize = 4096;
/// Bytes of all copies at most.
const MAX_ALL: usize = 64 << 20;

/// A test file.
struct Source {
    path: String,
    text: String,
    /// Where the package's name ends.
    clause: usize,
    /// It may be left out of a build.
    conditional: bool,
}

/// The copies, and the map that names them.
pub(crate) fn files(guest: &Guest, canary: &GoCanary) -> Vec<OverlayFile> {
    let mut packages: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for entry in guest.known.entries() {
        let Ok(path) = std::str::from_utf8(entry.path.as_bytes()) else { continue };
        if !matches!(entry.mode, EntryMode::File | EntryMode::Executable) || !is_test(path) {
            continue;
        }
        let Some(source) = read(guest, path) else { continue };
        let (dir, _) = path.rsplit_once('/').unwrap_or(("", path));
        packages.entry(dir.to_owned()).or_default().push(source);
    }
    let workspace = guest.workspace.display();
    let mut out = Vec::new();
    let mut map = serde_json::Map::new();
    let mut left = MAX_ALL;
    for source in packages.into_values().flat_map(chosen) {
        let number = out.len();
        let content = with_canary(&source, &format!("{workspace}/{}", source.path), canary, number);
        if number == MAX_COPIES || content.len() > left {
            break;
        }
        left -= content.len();
        let path = format!("go/{number}_test.go");
        map.insert(format!("{workspace}/{}", source.path), json!(format!("{VERIFIER_DIR}/{path}")));
        out.push(OverlayFile { path, content, executable: false });
    }
    let content = json!({ "Replace": map }).to_string();
    out.push(OverlayFile { path: canary.map.clone(), content, executable: false });
    out
}

/// A test file of a package that go looks at.
fn is_test(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let ours = |name: &str| !name.starts_with(['.', '_']);
    parts.next().is_some_and(|name| name.ends_with("_test.go") && ours(name))
        && parts.all(|dir| ours(dir) && dir != "testdata" && dir != "vendor")
}

/// One that is in every build; where each may be left out, all of them.
fn chosen(mut sources: Vec<Source>) -> Vec<Source> {
    match sources.iter().position(|source| !source.conditional) {
        Some(at) => vec![sources.swap_remove(at)],
        None => sources,
    }
}

/// What go compiles in the file's place. `path`: where the file lies, which is what go says in messages.
fn with_canary(source: &Source, path: &str, canary: &GoCanary, number: usize) -> String {
    let (head, tail) = source.text.split_at(source.clause);
    let head = head.trim_start_matches('\u{feff}');
    let tests = canary.tests.replace("NUMBER", &number.to_string());
    format!("//line {path}:1:1\n{head}; {}{tail}\n{tests}", canary.imports)
}

fn read(guest: &Guest, path: &str) -> Option<Source> {
    let (mut file, stat) = guest.root.file(path.as_bytes()).ok()?;
    let size = u64::try_from(stat.st_size).ok().filter(|size| *size <= MAX_FILE)?;
    let text = String::from_utf8(read_all(&mut file, size).ok()?).ok()?;
    let clause = package_clause(&text)?;
    let head = &text[..clause];
    // The name would end the directive that says where the file lies.
    if path.contains(['\n', '\r']) {
        return None;
    }
    let constrained = |line: &str| line.starts_with("//go:build") || line.contains("+build");
    // `name_linux_test.go` is for one system: which words are systems changes with go's versions.
    let stem = path.rsplit('/').next()?.strip_suffix("_test.go")?;
    let conditional = head.lines().any(|line| constrained(line.trim_start())) || stem.contains('_');
    Some(Source { path: path.to_owned(), text, clause, conditional })
}

/// The position behind the name of the package clause, which is the first thing in a file but comments. None: there is
/// none.
fn package_clause(text: &str) -> Option<usize> {
    let mut at = text.strip_prefix('\u{feff}').map_or(0, |rest| text.len() - rest.len());
    let mut keyword = false;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
        } else if rest.starts_with("//") {
            at += rest.find('\n')?;
        } else if rest.starts_with("/*") {
            at += rest.find("*/")? + 2;
        } else {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            match (keyword, &rest[..word]) {
                (_, "") => return None,
                (false, "package") => keyword = true,
                (false, _) => return None,
                (true, _) => return Some(at + word),
            }
            at += word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, conditional: bool) -> Source {
        Source { path: path.to_owned(), text: String::new(), clause: 0, conditional }
    }

    #[test]
    fn the_package_clause_is_found_behind_comments_and_nowhere_else() {
        for (text, clause) in [
            ("package a\n", Some("package a")),
            ("\u{feff}// package b\n/* package c\n*/ package\n\td_test; import \"x\"", Some("d_test")),
            ("//go:build x\n\npackage é // why", Some("é")),
            ("package/* x */a", Some("a")),
            ("package a", Some("a")),
            ("", None),
            ("// package a", None),
            ("/* package a", None),
            ("func package a", None),
            ("package ", None),
            ("package \"a\"", None),
        ] {
            let found = package_clause(text).map(|at| &text[..at]);
            assert_eq!(found.is_some(), clause.is_some(), "{text}");
            assert!(found.unwrap_or_default().ends_with(clause.unwrap_or_default()), "{text}: {found:?}");
        }
    }

    #[test]
    fn no_line_moves_and_no_name_is_used_twice() {
        let text = "package a // why\nimport \"x\"\n// end".to_owned();
        let clause = package_clause(&text).unwrap();
        let source = Source { clause, text, ..source("a_test.go", false) };
        let canary = GoCanary {
            imports: "import t \"testing\"".to_owned(),
            tests: "func TestNUMBER() {}\n".to_owned(),
            map: "map".to_owned(),
        };
        assert_eq!(
            with_canary(&source, "/w/a_test.go", &canary, 7),
            "//line /w/a_test.go:1:1\npackage a; import t \"testing\" // why\nimport \"x\"\n// end\nfunc Test7() {}\n"
        );
    }

    #[test]
    fn one_file_of_each_package_is_enough_where_it_is_in_every_build() {
        let names = |sources| -> Vec<String> { chosen(sources).into_iter().map(|s| s.path).collect() };
        assert_eq!(names(vec![source("a", true), source("b", false), source("c", false)]), ["b"]);
        assert_eq!(names(vec![source("a", true), source("b", true)]), ["a", "b"]);
        for path in ["a_test.go", "x/y/a_test.go"] {
            assert!(is_test(path), "{path}");
        }
        for path in [
            "a.go",
            "_a_test.go",
            ".a_test.go",
            "testdata/a_test.go",
            "x/vendor/y/a_test.go",
            "_x/a_test.go",
            ".x/a_test.go",
        ] {
            assert!(!is_test(path), "{path}");
        }
    }
}
