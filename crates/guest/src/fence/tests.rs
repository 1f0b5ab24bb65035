//! Each rule with an attack and its honest twin, by the catalogue of false greens.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A file: path, content in the base, content in the final tree.
pub(super) type File<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

pub(super) fn kind_of(path: &str) -> FenceKind {
    match path.rsplit('/').next().unwrap() {
        "Cargo.toml" => FenceKind::CargoToml,
        "pyproject.toml" => FenceKind::PyprojectToml,
        "setup.cfg" => FenceKind::SetupCfg,
        "tox.ini" => FenceKind::ToxIni,
        "package.json" => FenceKind::PackageJson,
        "tsconfig.json" => FenceKind::TsConfig,
        "go.mod" => FenceKind::GoMod,
        "go.work" => FenceKind::GoWork,
        name if name.ends_with(".go") => FenceKind::GoItems,
        _ => FenceKind::RustItems,
    }
}

pub(super) fn kind_guard(kind: FenceKind) -> FenceKindGuard {
    FenceKindGuard { glob: "**".to_owned(), kind, words: Vec::new() }
}

pub(super) fn scan_files(files: &[File<'_>]) -> Vec<FenceFinding> {
    let mut store: HashMap<Digest, Vec<u8>> = HashMap::new();
    let mut put = |text: Option<&str>| {
        text.map(|text| {
            let digest = Digest::of(text.as_bytes());
            store.insert(digest, text.as_bytes().to_vec());
            digest
        })
    };
    let files: Vec<FenceFile> = files
        .iter()
        .map(|(path, before, after)| FenceFile {
            path: TreePath::new(path.as_bytes()).unwrap(),
            kind: kind_of(path),
            before: put(*before),
            after: put(*after),
            words: Vec::new(),
        })
        .collect();
    scan(&files, &|digest| store.get(digest).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()))
}

/// The rules that stop, in order, without repetition.
pub(super) fn stops(files: &[File<'_>]) -> Vec<String> {
    let found = scan_files(files).into_iter().filter(|f| f.verdict != FenceVerdict::Note);
    let mut rules: Vec<String> = found.map(|f| f.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

const LIB: &str = "\
//! Sums.
//!
//! ```
//! assert_eq!(sums::add(1, 2), 3);
//! ```
mod other;

/// Adds.
pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (i32, i32) {
        (1, 2) // one and two
    }

    #[test]
    fn adds() {
        let (a, b) = pair();
        assert_eq!(add(a, b), 3);
        match a {
            1 => {}
            _ => panic!(\"no\"),
        }
    }
}
";

/// `LIB` with one text for another; fails when the text is not there.
fn lib(from: &str, to: &str) -> String {
    assert!(LIB.contains(from), "{from}");
    LIB.replace(from, to)
}

#[test]
fn rust_attacks_are_found_by_the_rule_that_names_them() {
    let cases: &[(&str, String, &str)] = &[
        ("1 expected value", lib("add(a, b), 3", "add(a, b), -1"), "rust.test_item_changed"),
        ("2 test deleted", LIB.split("#[cfg(test)]").next().unwrap().to_owned(), "rust.test_item_changed"),
        ("3 ignore", lib("#[test]", "#[test]\n#[ignore]"), "rust.test_item_changed"),
        ("4 should_panic", lib("#[test]", "#[test]\n#[should_panic]"), "rust.test_item_changed"),
        ("8 attribute removed", lib("#[test]", ""), "rust.test_item_changed"),
        ("9 module compiled out", lib("#[cfg(test)]", "#[cfg(all(test, any()))]"), "rust.test_item_changed"),
        ("9 file compiled out", format!("#![cfg(any())]\n{LIB}"), "rust.crate_attribute_added"),
        ("9 item compiled out", lib("#[test]", "#[cfg(any())]\n#[test]"), "rust.test_item_changed"),
        (
            "9 moved into a macro",
            lib("#[cfg(test)]", "macro_rules! never { () => {} }\nnever! {\n#[cfg(test)]") + "}",
            "rust.test_item_changed",
        ),
        ("9 moved into a comment", lib("#[cfg(test)]", "/* #[cfg(test)]") + "*/", "rust.test_item_changed"),
        (
            "9 moved into a string",
            lib("#[cfg(test)]", "const _: &str = r##\"\n#[cfg(test)]") + "\"##;",
            "rust.test_item_changed",
        ),
        (
            "9 moved under another module",
            lib("#[cfg(test)]", "#[cfg(any())]\nmod off {\n#[cfg(test)]") + "}",
            "rust.test_item_changed",
        ),
        (
            "9 inner attribute of the module",
            lib("mod tests {", "mod tests {\n#![cfg(any())]"),
            "rust.test_item_changed",
        ),
        (
            "9 test runner replaced",
            format!("#![feature(custom_test_frameworks)]\n#![test_runner(x::y)]\n{LIB}"),
            "rust.crate_attribute_added",
        ),
        (
            "11 assert_eq in product",
            format!("macro_rules! assert_eq {{ ($($t:tt)*) => {{}} }}\n{LIB}"),
            "rust.verdict_macro_shadowed",
        ),
        (
            "11 assert_eq behind a macro",
            format!("mk! {{ macro_rules! assert_eq {{ () => {{}} }} }}\n{LIB}"),
            "rust.verdict_macro_shadowed",
        ),
        (
            "11 macros of a whole crate",
            format!("#[macro_use]\nextern crate fakes;\n{LIB}"),
            "rust.verdict_macro_shadowed",
        ),
        (
            "11 assert_eq in the test module",
            lib("use super::*;", "use super::*;\nmacro_rules! assert_eq { ($($t:tt)*) => {} }"),
            "rust.test_name_shadowed",
        ),
        (
            "11 assert_eq imported",
            lib("mod other;", "mod other;\nuse fakes::assert_eq;"),
            "rust.verdict_macro_shadowed",
        ),
        (
            "14 subject imported from elsewhere",
            lib("use super::*;", "use super::*;\nuse crate::other::add;"),
            "rust.test_name_shadowed",
        ),
        (
            "14 subject renamed into place",
            lib("use super::*;", "use super::*;\nuse crate::other::{x as add};"),
            "rust.test_name_shadowed",
        ),
        (
            "14 subject defined in the test module",
            lib("use super::*;", "use super::*;\nfn add(_: i32, _: i32) -> i32 { 3 }"),
            "rust.test_name_shadowed",
        ),
        (
            "14 glob from elsewhere",
            lib("use super::*;", "use super::*;\nuse crate::other::*;"),
            "rust.test_glob_added",
        ),
        ("14 include", lib("use super::*;", "use super::*;\ninclude!(\"x.in\");"), "rust.test_glob_added"),
        (
            "14 subject replaced under test",
            lib(
                "pub fn add",
                "#[cfg(test)]\npub fn add(_: i32, _: i32) -> i32 { 3 }\n#[cfg(not(test))]\npub fn add",
            ),
            "rust.cfg_test_in_product",
        ),
        (
            "14 override under test",
            lib("mod other;", "mod other;\n#[cfg(test)]\nuse other::add;"),
            "rust.test_only_override",
        ),
        ("58 cfg!(test)", lib("a - b", "if cfg!(test) { 3 } else { a - b }"), "rust.cfg_test_in_product"),
        (
            "58 cfg(test) statement",
            lib("a - b", "#[cfg(test)]\nreturn 3;\n#[allow(unreachable_code)]\n{ a - b }"),
            "rust.cfg_test_in_product",
        ),
        ("helper changed", lib("(1, 2)", "(3, 0)"), "rust.test_item_changed"),
        ("import changed", lib("use super::*;", "use crate::other::*;"), "rust.test_item_changed"),
        ("documentation test", lib("add(1, 2), 3", "add(1, 2), -1"), "rust.doc_test_changed"),
        (
            "documentation test ignored",
            lib("//! ```\n//! assert", "//! ```ignore\n//! assert"),
            "rust.doc_test_changed",
        ),
        ("module orphaned", lib("mod other;", ""), "rust.module_removed"),
        ("module compiled out", lib("mod other;", "#[cfg(any())]\nmod other;"), "rust.module_removed"),
        ("module redirected", lib("mod other;", "#[path = \"x.rs\"]\nmod other;"), "rust.module_removed"),
        ("does not lex", lib("a - b", "a + \"b"), "rust.unreadable"),
    ];
    for (name, after, rule) in cases {
        let found = stops(&[("src/lib.rs", Some(LIB), Some(after))]);
        assert!(found.iter().any(|f| f == rule), "{name}: expected {rule}, found {found:?}");
        let refused =
            guard(&kind_guard(FenceKind::RustItems), b"src/lib.rs", LIB.as_bytes(), after.as_bytes(), &[]);
        let decided_at_the_end =
            ["rust.unreadable", "rust.test_glob_added"].contains(rule) || *name == "module orphaned";
        assert_eq!(refused.is_some(), !decided_at_the_end, "{name}: {refused:?}");
    }
}

#[test]
fn honest_rust_changes_pass() {
    let cases: &[(&str, String)] = &[
        ("1 one-line fix", lib("a - b", "a + b")),
        (
            "3 new test beside the others",
            lib(
                "    #[test]\n",
                "    #[test]\n    fn zero() { assert_eq!(super::add(0, 0), 0); }\n\n    #[test]\n",
            ),
        ),
        (
            "3 new helper and import",
            lib(
                "use super::*;",
                "use super::*;\nuse std::collections::HashMap;\nfn fresh() -> HashMap<i32, i32> { HashMap::new() }",
            ),
        ),
        (
            "3 new test module",
            format!(
                "{LIB}\n#[cfg(test)]\nmod more {{ use super::*; use pretty::assert_eq; fn h() {{}} #[test] fn t() {{ h() }} }}"
            ),
        ),
        ("3 new test module in a file", format!("{LIB}\n#[cfg(test)]\nmod more;")),
        ("3 test at the top level", format!("{LIB}\n#[test]\nfn top() {{}}")),
        ("test-only helper", lib("mod other;", "mod other;\n#[cfg(test)]\nfn for_tests() {}")),
        ("test-only import", lib("mod other;", "mod other;\n#[cfg(test)]\nuse std::io::Write as _;")),
        ("derive under test", format!("{LIB}\n#[cfg_attr(test, derive(Debug))]\nstruct New;")),
        ("cfg on a feature", lib("pub fn add", "#[cfg_attr(docsrs, doc(cfg(feature = \"x\")))]\npub fn add")),
        (
            "other crate attributes",
            format!(
                "#![deny(missing_docs)]\n#![cfg_attr(docsrs, feature(doc_cfg))]\n#![cfg_attr(not(test), no_std)]\n{LIB}"
            ),
        ),
        (
            "new documentation test",
            lib("/// Adds.", "/// Adds.\n///\n/// ```\n/// assert_eq!(sums::add(0, 0), 0);\n/// ```"),
        ),
        ("no_std imports", lib("mod other;", "mod other;\nuse alloc::{format, vec};")),
        ("own macro", format!("macro_rules! sum {{ () => {{}} }}\n{LIB}")),
        ("prose", lib("/// Adds.", "/// Adds two numbers; `#[cfg(test)]` is only a word here.")),
        ("visibility of a module", lib("mod other;", "pub(crate) mod other;")),
        ("lint on a test", lib("#[test]", "#[test]\n#[allow(clippy::all)]")),
        ("comments in a test", lib("// one and two", "/* 1 and 2 */")),
        ("17 CRLF", LIB.replace('\n', "\r\n")),
        (
            "24 formatting of a whole file",
            LIB.replace("    ", "\t")
                .replace("assert_eq!(add(a, b), 3);", "assert_eq!(\n  add(a, b),\n  3,\n);")
                .replace("_ => panic!(\"no\"),", "_ => { panic!(\"no\") }")
                .replace("1 => {}", "1 => {},")
                .replace("(1, 2) // one", "( 1,2 ) // one"),
        ),
        ("byte-order mark", format!("\u{feff}{LIB}")),
        (
            "raw identifiers, lifetimes, generics",
            format!(
                "{LIB}\npub fn r#match<'a, const N: usize>(x: &'a [u8; N]) -> Foo<{{ 1 + 1 }}, '\\''> {{ 'x'; x }}"
            ),
        ),
    ];
    for (name, after) in cases {
        assert_eq!(stops(&[("src/lib.rs", Some(LIB), Some(after))]), Vec::<String>::new(), "{name}");
        assert_eq!(
            guard(&kind_guard(FenceKind::RustItems), b"src/lib.rs", LIB.as_bytes(), after.as_bytes(), &[]),
            None,
            "{name}"
        );
    }
}

#[test]
fn what_rustfmt_does_to_a_test_is_no_change_and_what_it_never_does_is() {
    let test = |body: &str| format!("#[test]\nfn t() {{ {body} }}");
    for (before, after) in [
        ("f(a, b)", "f(\n a,\n b,\n)"),
        ("let x: A<B, C> = y;", "let x: A<\n B,\n C,\n> = y;"),
        ("let Some(x) = y else { return };", "let Some(x) = y else {\n return;\n};"),
        ("match x { A => return, _ => {} }", "match x { A => { return; } _ => {} }"),
        ("match x { A => a, B => { b } }", "match x { A => { a } B => b, }"),
        ("match x { A => { a; b }, _ => c }", "match x { A => { a; b } _ => c, }"),
        ("f(|x| { g(x) })", "f(|x| g(x))"),
        ("use b::{D, C}; use a;", "use b::{\n C,\n D,\n};\nuse a;"),
    ] {
        // Imports inside a body are compared in order: only their own braces may be sorted by a formatter's option.
        let expected: &[&str] = if before.starts_with("use") { &["rust.test_item_changed"] } else { &[] };
        assert_eq!(stops(&[("src/a.rs", Some(&test(before)), Some(&test(after)))]), expected, "{before}");
    }
    for (before, after) in [
        ("f(a, b)", "f(b, a)"),
        ("f(a); g(b);", "f(a);"),
        ("assert_eq!(x, \"a b\")", "assert_eq!(x, \"a  b\")"),
        ("x; return", "x"),
        ("let x = { a; b };", "let x = { a; b; };"),
        ("if a { b }", "if a { }"),
        ("match x { A => a, B => b }", "match x { A => a, B => a }"),
        ("f(1.0)", "f(10)"),
        ("f('a')", "f('b')"),
    ] {
        let found = stops(&[("src/a.rs", Some(&test(before)), Some(&test(after)))]);
        assert_eq!(found, ["rust.test_item_changed"], "{before}");
    }
    let module = |uses: &str| format!("#[cfg(test)]\nmod tests {{ {uses} #[test] fn t() {{}} }}");
    let (before, after) = (module("use b::{D, C}; use a::x;"), module("use a::x; use b::{ C, D, };"));
    assert_eq!(stops(&[("src/a.rs", Some(&before), Some(&after))]), Vec::<String>::new());
}

#[test]
fn files_are_compared_together() {
    let other = "pub fn x() {}\n#[cfg(test)]\nmod tests { #[test] fn t() { super::x() } }";
    let none: &[&str] = &[];
    let parent = "mod a;\n#[cfg(test)]\nmod unit;\n";
    let cases: &[(&str, &[File<'_>], &[&str])] = &[
        (
            "5 foo.rs to foo/mod.rs",
            &[("src/a.rs", Some(other), None), ("src/a/mod.rs", None, Some(other))],
            none,
        ),
        (
            "5 renamed module",
            &[
                ("src/lib.rs", Some("mod a;"), Some("mod b;")),
                ("src/a.rs", Some(other), None),
                ("src/b.rs", None, Some(other)),
            ],
            none,
        ),
        (
            "2 renamed to a file that nobody declares",
            &[("src/a.rs", Some(other), None), ("src/b.rs", None, Some(other))],
            &["rust.test_item_changed"],
        ),
        (
            "6 dead module without tests",
            &[("src/lib.rs", Some("mod a;"), Some("")), ("src/a.rs", Some("fn x() {}"), None)],
            none,
        ),
        ("2 file with tests deleted", &[("src/a.rs", Some(other), None)], &["rust.test_item_changed"]),
        (
            "module orphaned, its file stays",
            &[("src/lib.rs", Some("mod a;"), Some("mod b;")), ("src/b.rs", None, Some("fn x() {}"))],
            &["rust.module_removed"],
        ),
        (
            "a helper of a test module in a file of its own",
            &[
                ("src/lib.rs", Some(parent), Some(parent)),
                ("src/unit.rs", Some("fn h() -> i32 { 1 }"), Some("fn h() -> i32 { 2 }")),
            ],
            &["rust.test_item_changed"],
        ),
        (
            "below a test module",
            &[
                ("src/lib.rs", Some(parent), Some(parent)),
                ("src/unit/x.rs", Some("fn h() {}"), Some("fn g() {}")),
            ],
            &["rust.test_item_changed"],
        ),
        (
            "product beside a test module",
            &[("src/lib.rs", Some(parent), Some(parent)), ("src/a.rs", Some("fn h() {}"), Some("fn g() {}"))],
            none,
        ),
        (
            "new test module in a file of its own",
            &[
                ("src/lib.rs", Some("mod a;"), Some("mod a;\n#[cfg(test)]\nmod more;")),
                ("src/more.rs", None, Some("use pretty::assert_eq;\n#[test]\nfn t() {}")),
            ],
            none,
        ),
        (
            "4 code moved with its `cfg(not(test))`",
            &[
                ("src/lib.rs", Some("mod a;\n#[cfg(not(test))]\nfn f() {}"), Some("mod a;\nmod b;")),
                ("src/b.rs", None, Some("#[cfg(not(test))]\nfn f() {}")),
            ],
            none,
        ),
        (
            "58 in a new file",
            &[("src/b.rs", None, Some("pub fn f() -> bool { cfg!(test) }"))],
            &["rust.cfg_test_in_product"],
        ),
        (
            "new integration test",
            &[("tests/b.rs", None, Some("use pretty::assert_eq;\n#[test]\nfn t() { if cfg!(test) {} }"))],
            none,
        ),
        ("new file that is no Rust", &[("templates/b.rs", None, Some("fn {{ name"))], none),
    ];
    for (name, files, expected) in cases {
        assert_eq!(&stops(files), expected, "{name}");
    }
}

#[test]
fn macros_and_attributes_of_known_test_crates_count_as_tests() {
    for (before, after) in [
        ("proptest! { #[test] fn p(x: u8) { assert!(x < 1) } }", "proptest! { #[test] fn p(x: u8) { } }"),
        (
            "#[tokio::test(flavor = \"x\")] async fn t() { a() }",
            "#[tokio::test(flavor = \"x\")] async fn t() {}",
        ),
        ("#[rstest] fn t(#[case] x: u8) { a() }", "#[rstest] fn t(#[case] x: u8) {}"),
        ("#[wasm_bindgen_test] fn t() { a() }", "#[wasm_bindgen_test] fn t() {}"),
        ("#[test_case(1; \"one\")] fn t(x: u8) { a() }", "#[test_case(2; \"one\")] fn t(x: u8) { a() }"),
        ("impl X { #[cfg(test)] fn t() { a() } }", "impl X { #[cfg(test)] fn t() { } }"),
        (
            "#[cfg(any(test, feature = \"t\"))] pub fn t() { a() }",
            "#[cfg(any(test, feature = \"t\"))] pub fn t() { }",
        ),
    ] {
        assert_eq!(stops(&[("src/a.rs", Some(before), Some(after))]), ["rust.test_item_changed"], "{before}");
        let added = format!("{before}\nfn other() {{}}");
        assert_eq!(stops(&[("src/a.rs", Some(before), Some(&added))]), Vec::<String>::new(), "{before}");
    }
}

#[test]
fn runner_keys_are_compared_and_other_keys_are_not() {
    const CARGO: &str = "[package]\nname = \"x\"\nversion = \"1.0.0\"\n[features]\ndefault = [\"std\"]\nstd = []\n[dependencies]\nserde = \"1\"\n[dev-dependencies]\nrand = \"0.8\"\n[[bench]]\nname = \"b\"\nharness = false\n[workspace]\nmembers = [\"a\"]\n";
    const PYPROJECT: &str = "[project]\nname = \"x\"\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n[tool.ruff]\nline-length = 100\n[build-system]\nrequires = [\"hatchling\"]\n";
    const SETUP: &str = "[metadata]\nname = x\n\n[tool:pytest]\naddopts = -q\n# a comment\ntestpaths =\n    tests\n\n[options.entry_points]\nconsole_scripts =\n    x = x:main\n";
    const TOX: &str = "[tox]\nenvlist = py3\n[testenv]\ncommands = pytest\n[flake8]\nmax-line-length = 100\n";
    const PACKAGE: &str = "{\"name\":\"x\",\"scripts\":{\"test\":\"jest\",\"build\":\"tsc\"},\"jest\":{\"bail\":1},\"dependencies\":{}}";
    let add = |base: &str, text: &str| format!("{base}{text}");
    let cargo = |from: &str, to: &str| CARGO.replacen(from, to, 1);
    let stop: &[(&str, &str, &str, String)] = &[
        ("35", "Cargo.toml", CARGO, add(CARGO, "[[test]]\nname = \"it\"\nharness = false\n")),
        (
            "22 decoy under the name of a found test",
            "Cargo.toml",
            CARGO,
            add(CARGO, "[[test]]\nname = \"it\"\npath = \"decoy.rs\"\n"),
        ),
        ("36 autotests", "Cargo.toml", CARGO, cargo("name = \"x\"", "name = \"x\"\nautotests = false")),
        ("36 lib test", "Cargo.toml", CARGO, add(CARGO, "[lib]\ntest = false\n")),
        ("36 lib path", "Cargo.toml", CARGO, add(CARGO, "[lib]\npath = \"decoy.rs\"\n")),
        (
            "36 main untested",
            "Cargo.toml",
            CARGO,
            add(CARGO, "[[bin]]\nname = \"y\"\npath = \"src/main.rs\"\n"),
        ),
        ("36 default-members", "Cargo.toml", CARGO, add(CARGO, "default-members = [\"a\"]\n")),
        ("36 member removed", "Cargo.toml", CARGO, cargo("[\"a\"]", "[]")),
        ("36 excluded", "Cargo.toml", CARGO, add(CARGO, "exclude = [\"a\"]\n")),
        ("59 profile", "Cargo.toml", CARGO, add(CARGO, "[profile.test]\ndebug-assertions = false\n")),
        ("70 patch", "Cargo.toml", CARGO, add(CARGO, "[patch.crates-io]\nserde = { path = \"x\" }\n")),
        (
            "11 dev-dependency from elsewhere",
            "Cargo.toml",
            CARGO,
            cargo("rand = \"0.8\"", "rand = { path = \"fake\" }"),
        ),
        ("9 default feature removed", "Cargo.toml", CARGO, cargo("[\"std\"]", "[]")),
        ("no TOML", "Cargo.toml", CARGO, add(CARGO, "[[[")),
        ("20", "pyproject.toml", PYPROJECT, PYPROJECT.replace("testpaths", "addopts = \"--co\"\ntestpaths")),
        ("22", "pyproject.toml", PYPROJECT, PYPROJECT.replace("[\"tests\"]", "[\"decoy\"]")),
        (
            "removed",
            "pyproject.toml",
            PYPROJECT,
            PYPROJECT.replace("[tool.pytest.ini_options]\ntestpaths = [\"tests\"]", ""),
        ),
        (
            "25 plug-in",
            "pyproject.toml",
            PYPROJECT,
            add(PYPROJECT, "[project.entry-points.pytest11]\nx = \"x.plugin\"\n"),
        ),
        (
            "41 threshold",
            "pyproject.toml",
            PYPROJECT,
            add(PYPROJECT, "[tool.coverage.report]\nfail_under = 1\n"),
        ),
        ("20 setup.cfg", "setup.cfg", SETUP, SETUP.replace("-q", "--co")),
        ("20 continued", "setup.cfg", SETUP, SETUP.replace("    tests\n", "    tests\n    --co\n")),
        ("20 second section", "setup.cfg", SETUP, add(SETUP, "[pytest]\naddopts=--co\n")),
        (
            "20 hidden line end",
            "setup.cfg",
            SETUP,
            SETUP.replace("name = x", "name = x\u{2028}[tool:pytest]\u{2028}addopts=--co"),
        ),
        ("20 defaults", "setup.cfg", SETUP, add(SETUP, "[DEFAULT]\naddopts=--co\n")),
        ("25 setup.cfg plug-in", "setup.cfg", SETUP, add(SETUP, "pytest11 =\n    x = x.plugin\n")),
        ("tox commands", "tox.ini", TOX, TOX.replace("pytest", "true")),
        ("tox gets pytest", "tox.ini", TOX, add(TOX, "[pytest]\naddopts = --co\n")),
        ("74", "package.json", PACKAGE, PACKAGE.replace("\"jest\",", "\"exit 0\",")),
        ("29", "package.json", PACKAGE, PACKAGE.replace("\"bail\":1", "\"passWithNoTests\":true")),
        (
            "pretest",
            "package.json",
            PACKAGE,
            PACKAGE.replace("\"build\"", "\"pretest\":\"exit 1\",\"build\""),
        ),
    ];
    for (name, path, before, after) in stop {
        assert_ne!(before, after, "{name}");
        let found = stops(&[(path, Some(before), Some(after))]);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(
            guard(&kind_guard(kind_of(path)), path.as_bytes(), before.as_bytes(), after.as_bytes(), &[])
                .is_some(),
            *name != "no TOML",
            "{name}"
        );
    }
    let pass: &[(&str, &str, &str, String)] = &[
        ("7 dependency", "Cargo.toml", CARGO, cargo("serde = \"1\"", "serde = \"1.1\"\nitoa = \"1\"")),
        (
            "7 dev-dependency",
            "Cargo.toml",
            CARGO,
            cargo("rand = \"0.8\"", "rand = \"0.9\"\nproptest = \"1\""),
        ),
        ("8 metadata", "Cargo.toml", CARGO, cargo("1.0.0", "1.0.1\"\ndescription = \"y")),
        (
            "9 new binary",
            "Cargo.toml",
            CARGO,
            add(CARGO, "[[bin]]\nname = \"tool\"\npath = \"src/tool.rs\"\nrequired-features = [\"std\"]\n"),
        ),
        (
            "9 the binary as cargo finds it",
            "Cargo.toml",
            CARGO,
            add(CARGO, "[[bin]]\nname = \"x\"\npath = \"src/main.rs\"\n"),
        ),
        ("new member", "Cargo.toml", CARGO, cargo("[\"a\"]", "[\"a\", \"b\"]")),
        ("new default feature", "Cargo.toml", CARGO, cargo("[\"std\"]", "[\"std\", \"more\"]\nmore = []")),
        ("release profile", "Cargo.toml", CARGO, add(CARGO, "[profile.release]\nlto = true\n")),
        (
            "order and comments",
            "Cargo.toml",
            CARGO,
            cargo(
                "[[bench]]\nname = \"b\"\nharness = false",
                "# c\n[[bench]]\nharness = false\nname = \"b\"",
            ),
        ),
        (
            "8 metadata",
            "pyproject.toml",
            PYPROJECT,
            PYPROJECT.replace("name = \"x\"", "name = \"x\"\nversion = \"2\"\ndependencies = [\"y\"]"),
        ),
        ("linter", "pyproject.toml", PYPROJECT, PYPROJECT.replace("100", "120")),
        (
            "build system is noted",
            "pyproject.toml",
            PYPROJECT,
            PYPROJECT.replace("hatchling", "hatchling>=1"),
        ),
        ("8 metadata", "setup.cfg", SETUP, SETUP.replace("name = x", "name = x\nversion = 2")),
        ("new script", "setup.cfg", SETUP, add(SETUP, "    y = x:other\n")),
        ("comment", "setup.cfg", SETUP, SETUP.replace("# a comment", "; another\n")),
        ("linter", "tox.ini", TOX, TOX.replace("100", "120")),
        ("build script", "package.json", PACKAGE, PACKAGE.replace("tsc", "tsc -b")),
        (
            "dependency",
            "package.json",
            PACKAGE,
            PACKAGE.replace("\"dependencies\":{}", "\"dependencies\":{\"a\":\"1\"}"),
        ),
    ];
    for (name, path, before, after) in pass {
        assert_ne!(before, after, "{name}");
        assert_eq!(stops(&[(path, Some(before), Some(after))]), Vec::<String>::new(), "{name}");
        assert_eq!(
            guard(&kind_guard(kind_of(path)), path.as_bytes(), before.as_bytes(), after.as_bytes(), &[]),
            None,
            "{name}"
        );
    }
    // A new file with runner keys is planted, one without is fine, a removed one takes its keys away.
    let planted = scan_files(&[
        ("sub/pyproject.toml", None, Some(PYPROJECT)),
        ("setup.cfg", None, Some("[metadata]\nname = x\n")),
    ]);
    let planted: Vec<_> =
        planted.iter().filter(|f| f.verdict != FenceVerdict::Note).map(|f| f.verdict).collect();
    assert_eq!(planted, [FenceVerdict::Planted]);
    assert_eq!(stops(&[("tox.ini", Some(TOX), None)]), ["tox_ini.runner_key"]);
}

#[test]
fn a_file_that_cannot_be_read_is_unverifiable() {
    let file = FenceFile {
        path: TreePath::new(b"a.rs".as_slice()).unwrap(),
        kind: FenceKind::RustItems,
        before: Some(Digest::of(b"a")),
        after: None,
        words: Vec::new(),
    };
    let found = scan(std::slice::from_ref(&file), &|_| Err(io::ErrorKind::NotFound.into()));
    assert_eq!((found[0].verdict, found[0].rule.as_str()), (FenceVerdict::Unverifiable, "fence.not_read"));
    let found = scan(&[file], &|_| Ok(vec![b' '; MAX_FILE + 1]));
    assert_eq!((found[0].verdict, found[0].rule.as_str()), (FenceVerdict::Unverifiable, "fence.not_read"));
}

#[test]
fn hostile_structure_is_refused_or_read_in_bounds() {
    for text in [
        "mod a {".repeat(400) + &"}".repeat(400),
        "(".repeat(1_000_000),
        "use a::{".repeat(400) + "b" + &"}".repeat(400) + ";",
        "#[a]".repeat(200_000),
        "r#\"".repeat(100_000),
        "/*".repeat(300_000),
        "cfg(test) ".repeat(100_000),
        "#[cfg(test)] mod a { fn b() {} }".repeat(20_000),
        "use ".to_owned() + &"a::".repeat(2_000) + "{" + &"b,".repeat(1_000) + "};",
        "|x| => { ".repeat(200) + &"}".repeat(200),
    ] {
        let _ = stops(&[("src/a.rs", Some(LIB), Some(&text))]);
        let _ = stops(&[("src/a.rs", Some(&text), Some(LIB))]);
    }
    for text in
        ["a = [".repeat(100_000), format!("{} = 1", "a.".repeat(100_000) + "b"), "[a.".repeat(10) + "x"]
    {
        let after = format!("[package]\nname = \"x\"\n{text}");
        assert_eq!(
            stops(&[("Cargo.toml", Some("[package]\nname = \"x\"\n"), Some(&after))]),
            ["keys.unreadable"]
        );
    }
    let deep = "[".repeat(100_000);
    assert_eq!(stops(&[("package.json", Some("{}"), Some(&deep))]), ["keys.unreadable"]);
}

proptest! {
    #[test]
    fn any_bytes_are_compared_without_a_panic(before in any::<Vec<u8>>(), after in any::<Vec<u8>>()) {
        for kind in [
            FenceKind::RustItems, FenceKind::CargoToml, FenceKind::PyprojectToml, FenceKind::SetupCfg,
            FenceKind::ToxIni, FenceKind::PackageJson, FenceKind::TsConfig, FenceKind::GoMod, FenceKind::GoWork,
            FenceKind::GoItems,
        ] {
            let _ = guard(&kind_guard(kind), b"a", &before, &after, &[]);
        }
    }

    #[test]
    fn any_soup_of_rust_is_compared_without_a_panic(
        words in proptest::collection::vec(
            prop_oneof![
                "(#|!|\\[|\\]|\\{|\\}|\\(|\\)|;|,|=>|\\||::|<|>|\\*)",
                "(mod|fn|use|impl|trait|pub|const|static|macro_rules|cfg|cfg_attr|test|not|as|self|super|path|a|b|extern|crate|include)",
                "(\"x\"|'a|'a'|1|///d\n|//!d\n|/\\*x\\*/)",
            ],
            0..120,
        )
    ) {
        let text = words.join(" ");
        let _ = stops(&[("src/lib.rs", Some(&text), Some(LIB))]);
        let _ = stops(&[("src/lib.rs", Some(LIB), Some(&text))]);
        // Whatever it is, it is the same as itself.
        prop_assert!(stops(&[("src/lib.rs", Some(&text), Some(&text))]).iter().all(|rule| rule.ends_with("unreadable")));
    }

    #[test]
    fn white_space_and_comments_between_tokens_are_no_change(
        gaps in proptest::collection::vec(prop_oneof!["[ \t\r\n]{1,3}", "/\\* c \\*/", "// c\n"], 1..20)
    ) {
        let mut gaps = gaps.iter().cycle();
        let (code, _) = LIB.split_once("// one and two").unwrap();
        let tests_at = code.find("#[cfg(test)]").unwrap();
        let spaced: String = LIB[tests_at..]
            .split_inclusive(' ')
            .map(|word| if word.contains("//") || word.contains("one") || word.contains("and") || word.contains("two") {
                word.to_owned()
            } else {
                format!("{word}{}", gaps.next().unwrap())
            })
            .collect();
        let after = format!("{}{spaced}", &LIB[..tests_at]);
        prop_assert_eq!(stops(&[("src/lib.rs", Some(LIB), Some(&after))]), Vec::<String>::new());
    }
}
