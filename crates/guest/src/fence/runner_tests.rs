//! Keys of node's runners and of Go's modules, each attack with its honest twin.

use super::tests::{kind_guard, kind_of, scan_files, stops};
use super::*;

/// An attack or an honest edit: name, file, before, after.
type Case<'a> = (&'a str, &'a str, &'a str, String);

const PACKAGE: &str = r#"{
  "name": "x", "version": "1.0.0", "description": "d", "main": "index.js", "type": "commonjs",
  "scripts": {"test": "npm run build && jest", "build": "tsc", "start": "node .", "unit:a": "mocha a"},
  "workspaces": ["packages/*"],
  "dependencies": {"left-pad": "^1.0.0"},
  "devDependencies": {"jest": "^29.0.0", "chai": "file:vendor/chai", "y": "workspace:^", "z": "github:a/z#v1"}
}"#;

const TSCONFIG: &str = "{\n  // how it is built\n  \"compilerOptions\": {\"strict\": true, \"paths\": {\"@/*\": [\"./src/*\"]},},\n}\n";

const GO_MOD: &str = "module example.com/x // main\n\ngo 1.21\n\nrequire (\n\tgithub.com/stretchr/testify v1.8.0\n\tgolang.org/x/text v0.3.0 // indirect\n)\n\nreplace golang.org/x/text => ../text\n";

const GO_WORK: &str = "go 1.21\n\nuse (\n\t./a\n\t./b\n)\n";

const GO: &str = "package x\n\nimport (\n\t\"fmt\"\n)\n\n// func TestMain(m) {}\nvar text = `\nfunc init() {}\n`\n\nconst (\n\ta, b = 1, 2\n\tc\n)\n\ntype T struct {\n\tlen int\n}\n\nfunc (t *T) panic(len int) { var nil = 1; fmt.Println(nil, t.len) }\n\nfunc Add(a, b int) int { return a - b }\n";

fn edit(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn what_node_and_go_read_is_compared() {
    let package = |from: &str, to: &str| edit(PACKAGE, from, to);
    let go_mod = |from: &str, to: &str| edit(GO_MOD, from, to);
    let attacks: &[Case<'_>] = &[
        ("74 script", "package.json", PACKAGE, package("&& jest", "&& exit 0")),
        (
            "74 a script that the check's script calls",
            "package.json",
            PACKAGE,
            package("\"tsc\"", "\"true\""),
        ),
        (
            "74 hook of such a script",
            "package.json",
            PACKAGE,
            package("\"start\"", "\"postbuild\": \"x\", \"start\""),
        ),
        ("74 part of a family", "package.json", PACKAGE, package("mocha a", "true")),
        (
            "29 new table",
            "package.json",
            PACKAGE,
            package("\"name\"", "\"jest\": {\"passWithNoTests\": true}, \"name\""),
        ),
        (
            "28 new table of mocha",
            "package.json",
            PACKAGE,
            package("\"name\"", "\"mocha\": {\"spec\": \"x\"}, \"name\""),
        ),
        (
            "babel",
            "package.json",
            PACKAGE,
            package("\"name\"", "\"babel\": {\"plugins\": [\"./x\"]}, \"name\""),
        ),
        ("36 workspace taken out", "package.json", PACKAGE, package("[\"packages/*\"]", "[]")),
        ("70 runner from elsewhere", "package.json", PACKAGE, package("^29.0.0", "file:fake")),
        ("70 alias", "package.json", PACKAGE, package("^29.0.0", "npm:fake@1.0.0")),
        ("70 another place", "package.json", PACKAGE, package("vendor/chai", "fake/chai")),
        (
            "70 override",
            "package.json",
            PACKAGE,
            package("\"name\"", "\"overrides\": {\"a\": {\"jest-circus\": \"file:x\"}}, \"name\""),
        ),
        (
            "70 resolution",
            "package.json",
            PACKAGE,
            package("\"name\"", "\"resolutions\": {\"expect\": \"github:a/b\"}, \"name\""),
        ),
        ("paths", "tsconfig.json", TSCONFIG, edit(TSCONFIG, "./src/*\"]", "./src/*\"], \"chai\": [\"./x\"]")),
        (
            "base url",
            "tsconfig.json",
            TSCONFIG,
            edit(TSCONFIG, "{\"strict\"", "{\"baseUrl\": \".\", \"strict\""),
        ),
        (
            "hook",
            "tsconfig.json",
            TSCONFIG,
            edit(
                TSCONFIG,
                "\"compilerOptions\"",
                "\"ts-node\": {\"require\": [\"./x\"]}, \"compilerOptions\"",
            ),
        ),
        (
            "local base",
            "tsconfig.json",
            TSCONFIG,
            edit(TSCONFIG, "\"compilerOptions\"", "\"extends\": \"./x.json\", \"compilerOptions\""),
        ),
        ("70 replace", "go.mod", GO_MOD, format!("{GO_MOD}replace github.com/stretchr/testify => ./fake\n")),
        (
            "70 replace in a block",
            "go.mod",
            GO_MOD,
            format!("{GO_MOD}replace (\n\tgithub.com/stretchr/testify v1.8.0 => ./fake\n)\n"),
        ),
        (
            "70 replace of what nobody requires by name",
            "go.mod",
            GO_MOD,
            format!("{GO_MOD}replace \"github.com/davecgh/go-spew\" => ./fake\n"),
        ),
        ("70 another place", "go.mod", GO_MOD, go_mod("../text", "./text")),
        ("70 no replace", "go.mod", GO_MOD, go_mod("replace golang.org/x/text => ../text\n", "")),
        ("exclude", "go.mod", GO_MOD, format!("{GO_MOD}exclude golang.org/x/text v0.3.0\n")),
        ("68 toolchain", "go.mod", GO_MOD, format!("{GO_MOD}toolchain go1.99-fake\n")),
        ("39 another module", "go.mod", GO_MOD, go_mod("example.com/x", "example.com/y")),
        ("39 ignored", "go.mod", GO_MOD, format!("{GO_MOD}ignore ./sub\n")),
        ("39 member out", "go.work", GO_WORK, edit(GO_WORK, "\t./b\n", "")),
        (
            "70 workspace replace",
            "go.work",
            GO_WORK,
            format!("{GO_WORK}replace github.com/stretchr/testify => ./fake\n"),
        ),
        ("shadowed by a function", "x.go", GO, format!("{GO}\nfunc panic(v any) {{}}\n")),
        ("shadowed by a constant", "x.go", GO, edit(GO, "\tc\n", "\tc, false = 1, 1\n")),
        ("shadowed by a type", "x.go", GO, format!("{GO}\ntype (\n\tU struct {{ a int }}\n\terror = U\n)\n")),
        ("shadowed behind a comment", "x.go", GO, format!("{GO}var /* x */ nil = T{{}}\n")),
    ];
    for (name, path, before, after) in attacks {
        let found = stops(&[(path, Some(before), Some(after))]);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(
            guard(&kind_guard(kind_of(path)), path.as_bytes(), before.as_bytes(), after.as_bytes(), &[])
                .is_some(),
            "{name}"
        );
    }
    let honest: &[Case<'_>] = &[
        ("8 description", "package.json", PACKAGE, package("\"d\"", "\"e\"")),
        ("8 version and main", "package.json", PACKAGE, package("1.0.0\"", "1.0.1\", \"license\": \"MIT\"")),
        ("module type is told", "package.json", PACKAGE, package("commonjs", "module")),
        ("7 dependency", "package.json", PACKAGE, package("^1.0.0\"", "^1.1.0\", \"is-odd\": \"~2.0\"")),
        ("7 runner's version", "package.json", PACKAGE, package("^29.0.0", ">=29.1 <30")),
        (
            "7 local package that is new",
            "package.json",
            PACKAGE,
            package("\"jest\"", "\"w\": \"file:packages/w\", \"jest\""),
        ),
        (
            "7 version of a package of the tree",
            "package.json",
            PACKAGE,
            package("workspace:^", "workspace:*"),
        ),
        ("7 version in a repository", "package.json", PACKAGE, package("z#v1", "z#v2")),
        (
            "override to another version",
            "package.json",
            PACKAGE,
            package("\"name\"", "\"overrides\": {\"minimist\": \"1.2.6\"}, \"name\""),
        ),
        ("new workspace", "package.json", PACKAGE, package("\"packages/*\"", "\"packages/*\", \"apps/*\"")),
        ("other script", "package.json", PACKAGE, package("node .", "node --enable-source-maps .")),
        ("new script", "package.json", PACKAGE, package("\"start\"", "\"docs\": \"typedoc\", \"start\"")),
        (
            "stricter",
            "tsconfig.json",
            TSCONFIG,
            edit(
                TSCONFIG,
                "\"strict\": true",
                "\"strict\": true, \"target\": \"es2022\", /* , */ \"types\": [\"node\"]",
            ),
        ),
        (
            "published options",
            "tsconfig.json",
            TSCONFIG,
            edit(
                TSCONFIG,
                "\"compilerOptions\"",
                "\"extends\": \"@tsconfig/node20/tsconfig.json\", \"compilerOptions\"",
            ),
        ),
        (
            "7 new requirement",
            "go.mod",
            GO_MOD,
            go_mod("\tgolang.org", "\tgithub.com/a/b v1.0.0\n\tgolang.org"),
        ),
        (
            "7 new module from beside",
            "go.mod",
            GO_MOD,
            format!("{GO_MOD}require example.com/y v0.0.0\nreplace example.com/y => ../y\n"),
        ),
        ("7 version", "go.mod", GO_MOD, go_mod("v1.8.0", "v1.9.0")),
        ("language version is told", "go.mod", GO_MOD, go_mod("go 1.21", "go 1.22")),
        ("order and comments", "go.mod", GO_MOD, go_mod("// main\n", "\n// main\n")),
        ("new member", "go.work", GO_WORK, edit(GO_WORK, "./b", "./b\n\t./c")),
        ("the fix", "x.go", GO, edit(GO, "a - b", "a + b")),
        (
            "names in functions, fields and methods",
            "x.go",
            GO,
            format!(
                "{GO}\nfunc f() {{\n\tlen := 1\n\tvar cap, new = 2, len\n\t_ = cap + new\n}}\n\ntype V interface {{\n\tclose() error\n}}\n"
            ),
        ),
        (
            "helpers that later versions of Go predeclare",
            "x.go",
            GO,
            format!(
                "{GO}\nfunc max(a, b int) int {{ return a }}\n\nfunc clear() {{}}\n\ntype any = interface{{}}\n"
            ),
        ),
        ("init of the product", "x.go", GO, format!("{GO}\nfunc init() {{ Add(1, 2) }}\n")),
        ("24 formatted", "x.go", GO, GO.replace('\t', "    ")),
        ("testing is told", "x.go", GO, edit(GO, "\"fmt\"", "\"fmt\"\n\t\"testing\"")),
    ];
    for (name, path, before, after) in honest {
        assert_ne!(before, after, "{name}");
        assert_eq!(stops(&[(path, Some(before), Some(after))]), Vec::<String>::new(), "{name}");
        assert_eq!(
            guard(&kind_guard(kind_of(path)), path.as_bytes(), before.as_bytes(), after.as_bytes(), &[]),
            None,
            "{name}"
        );
    }
}

#[test]
fn new_files_of_node_and_go() {
    let planted = |path: &str, text: &str| {
        let found = scan_files(&[(path, None, Some(text))]);
        found
            .iter()
            .filter(|f| f.verdict == FenceVerdict::Planted)
            .map(|f| f.rule.clone())
            .collect::<Vec<_>>()
    };
    // 43: an exit code of its own. An `init` is no more than product code can have.
    let main = "package x\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { os.Exit(0) }\n";
    assert_eq!(planted("z_test.go", main), ["go.test_main"]);
    assert_eq!(planted("z_test.go", "package x\nfunc init() { println() }\n"), Vec::<String>::new());
    let ordinary =
        "package x\nimport \"testing\"\n// func init() {}\nfunc TestAdd(t *testing.T) { init() }\n";
    assert_eq!(planted("z_test.go", ordinary), Vec::<String>::new());
    assert_eq!(planted("z_test.go", "package x\nfunc (t T) TestMain() {}\n"), Vec::<String>::new());
    assert_eq!(planted("go.work", "go 1.21\nuse .\n"), ["go_work.runner_key"]);
    assert_eq!(planted("sub/package.json", "{\"jest\": {}}"), ["package_json.runner_key"]);
    assert_eq!(planted("sub/package.json", "{\"name\": \"y\", \"main\": \"x.js\"}"), Vec::<String>::new());
    assert_eq!(stops(&[("go.mod", Some(GO_MOD), None)]), ["go_mod.runner_key"]);
    assert_eq!(stops(&[("tsconfig.json", Some(TSCONFIG), Some("{,"))]), ["keys.unreadable"]);
}
