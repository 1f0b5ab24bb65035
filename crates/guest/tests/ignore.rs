//! The ignore rules of `countersign-tree` against git's own.
#![expect(clippy::unwrap_used, reason = "a failure of a helper fails the test")]

mod common;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{git, write};
use countersign_tree::{Scratch, ScratchRules};
use proptest::prelude::*;

const FILES: &[&str] = &[
    "a", "b.x", "ab", "c/a", "c/b.x", "c/ab", "c/d/a", "c/d/b.x", "c/d/e/a", "d/a", "d/c/a", "d/ x", "d/#y",
    "d/!z",
];

fn dirs() -> BTreeSet<String> {
    let parents = |f: &str| f.match_indices('/').map(|(at, _)| f[..at].to_owned()).collect::<Vec<_>>();
    FILES.iter().flat_map(|f| parents(f)).collect()
}

/// What git says is ignored. A directory is asked for without a slash: git looks at the disk.
fn git_says(root: &Path, paths: &[String]) -> BTreeSet<String> {
    let mut child = Command::new("git")
        .args(["check-ignore", "-z", "--no-index", "--stdin"])
        .current_dir(root)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all((paths.join("\0") + "\0").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code().is_some_and(|c| c < 2));
    String::from_utf8(output.stdout).unwrap().split_terminator('\0').map(str::to_owned).collect()
}

fn compare(root_rules: &str, c_rules: &str) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    for file in FILES {
        write(dir.path(), file, "");
    }
    write(dir.path(), ".gitignore", root_rules);
    write(dir.path(), "c/.gitignore", c_rules);
    let rules = ScratchRules {
        ignore_files: vec![(String::new(), root_rules.to_owned()), ("c".to_owned(), c_rules.to_owned())],
        ..ScratchRules::default()
    };
    let scratch = Scratch::compile(&rules).unwrap();
    let files = FILES.iter().map(|f| ((*f).to_owned(), false));
    let asked: Vec<(String, bool)> = files.chain(dirs().into_iter().map(|d| (d, true))).collect();
    let paths: Vec<String> = asked.iter().map(|(p, _)| p.clone()).collect();
    let ours: BTreeSet<String> = asked
        .into_iter()
        .filter(|(p, is_dir)| scratch.is_scratch(p.as_bytes(), *is_dir))
        .map(|(p, _)| p)
        .collect();
    prop_assert_eq!(ours, git_says(dir.path(), &paths), "{:?} {:?}", root_rules, c_rules);
    Ok(())
}

/// Without stars that stand beside other characters (`a**`): git's matcher compares addresses of two buffers there
/// (`prev_p < text` in wildmatch.c), so what it answers before a slash changes from run to run. What the manual says of
/// them is a row of the unit test.
fn any_rules() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "a",
        "b.x",
        "c",
        "d",
        "e",
        "*",
        "**",
        "?",
        "a*",
        "*.x",
        "[ab]",
        "[!a]*",
        "[[:alpha:]]",
        "\\a",
        "***",
    ]);
    let line =
        (any::<bool>(), any::<bool>(), proptest::collection::vec(part, 1..4), any::<bool>(), 0..3_usize)
            .prop_map(|(negated, rooted, parts, dir, spaces)| {
                let bang = if negated { "!" } else { "" };
                let (root, slash) = (if rooted { "/" } else { "" }, if dir { "/" } else { "" });
                format!("{bang}{root}{}{slash}{}", parts.join("/"), " ".repeat(spaces))
            });
    proptest::collection::vec(line, 0..5).prop_map(|lines| lines.join("\n"))
}

#[test]
fn odd_lines_mean_what_they_mean_to_git() {
    for rules in [
        "\\#y\n\\!z\n",
        "#y\n!z",
        "\\ x",
        " x",
        "a\r\nb.x\r\n",
        "\u{feff}a\n",
        "/",
        "//",
        "!",
        "\\",
        "a\\",
        "[",
        "[a",
        "c//d",
        "/**/a",
        "**/",
        "c/**/",
        "c/**/a",
        "*/a",
        "c/d/../a",
        "!a\na\n!c/a\n",
        "c\n!c/a",
        "/*\n!/c\n/c/*\n!/c/d",
        "*\n!*/\n!*.x",
        "a   \nb.x\\  ",
        "***/*",
        "c/***",
    ] {
        compare(rules, "").unwrap();
        compare("", rules).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_rules_mean_what_they_mean_to_git(root in any_rules(), c in any_rules()) {
        compare(&root, &c)?;
    }
}
