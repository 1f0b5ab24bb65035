//! The blocks of commands in a page, run by bash as they stand there.
//!
//! A block of `console`, `sh` or `bash` is run in the state that the one before left. It has to end with 0 at each command, or as
//! `<!-- exit: N -->` in front of it says. A block of `text` right behind it holds lines that it has to print, in this order; `…` in
//! one stands for whatever differs from run to run. `<!-- not run: WHY -->` and `<!-- run by: FILE -->` in front of a block take it
//! out; `xtask/tests/house/commands.rs` knows every reason that there may be.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Place;

/// What a page takes for granted, as bash.
#[derive(Default)]
pub struct Given<'a> {
    /// Run first, in the directory of the reader.
    pub first: &'a str,
    /// A text in a block, and what the reader has done before that one.
    pub before: &'a [(&'a str, &'a str)],
    /// What a page writes for what a reader has: models, sessions, addresses. Replaced in order.
    pub words: &'a [(&'a str, &'a str)],
}

#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    pub exit: i32,
    pub commands: String,
    pub prints: Vec<String>,
}

/// A page of the repository, by its path there.
pub fn page(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The blocks of a page that are to be run.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let (mut exit, mut excused) = (0, false);
    // Whether nothing but empty lines stood since the last block of commands.
    let mut behind = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(code) = line.strip_prefix("<!-- exit: ").and_then(|rest| rest.strip_suffix(" -->")) {
            exit = code.parse().unwrap();
        } else if line.starts_with("<!-- not run: ") || line.starts_with("<!-- run by: ") {
            excused = true;
        } else if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let runs = matches!(language, "console" | "sh" | "bash") && !std::mem::take(&mut excused);
            if runs {
                let commands = inside.iter().fold(String::new(), |all, line| all + line + "\n");
                out.push(Block { exit: std::mem::take(&mut exit), commands, prints: Vec::new() });
            } else if language == "text" && behind {
                out.last_mut().unwrap().prints = inside.into_iter().map(squeezed).collect();
            }
            behind = runs;
        } else if !line.is_empty() {
            behind = false;
        }
    }
    out
}

/// Columns are for the eye.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line that was printed holds what the page shows, `…` standing for anything.
fn shows(printed: &str, wanted: &str) -> bool {
    let mut rest = printed;
    wanted.split('…').all(|part| {
        let at = rest.find(part.trim());
        at.inspect(|at| rest = &rest[at + part.trim().len()..]).is_some()
    })
}

/// Helpers for [`Given`]: an agent that runs one command and is done, the newest session and its bundle.
const HELPERS: &str = r#"
agent() {
  local script='{"version":1,"turns":[{"calls":[{"tool":"run","args":{"command":"%s"}}]},{"calls":[{"tool":"finish","args":{"summary":"Done."}}]}]}'
  printf "$script" "$2" > "$HOME/$1.json"
}
last() { countersign list --format json | sed 's/^\[{"session":"\([^"]*\)".*/\1/'; }
bundle() { echo "$COUNTERSIGN_HOME/sessions/$(last)/$(last).bundle"; }
commit() { git add --all && git commit --quiet --message "$1"; }
"#;

/// Runs a page in `place`, and holds how each block ended and what it printed against the page.
pub fn run(place: &Place, page: &str, given: &Given<'_>) {
    let blocks = blocks(page);
    assert!(!blocks.is_empty());
    for (mark, _) in given.before {
        assert!(blocks.iter().any(|block| block.commands.contains(mark)), "no block has `{mark}`");
    }
    let at = |name: &str| place.path(name);
    std::fs::create_dir_all(at("work")).unwrap();
    std::fs::create_dir_all(at("user")).unwrap();
    let trapped = |text: &str| format!("trap 'return $?' ERR\n{text}");
    let mut script = format!("cd {}\n{HELPERS}", at("work").display());
    let mut step = |name: String, text: &str| {
        let (file, out) =
            (place.write(&format!("{name}.sh"), &trapped(text)), at(&name).with_extension("out"));
        let (file, out) = (file.display(), out.display());
        writeln!(script, "source {file} > {out} 2>&1\necho $? > {out}.code\ntrap - ERR").unwrap();
    };
    step("first".to_owned(), given.first);
    for (number, block) in blocks.iter().enumerate() {
        let before: Vec<_> = given.before.iter().filter(|(mark, _)| block.commands.contains(mark)).collect();
        step(
            format!("before-{number}"),
            &before.iter().fold(String::new(), |all, (_, text)| all + text + "\n"),
        );
        let commands = given
            .words
            .iter()
            .fold(block.commands.clone(), |commands, (word, with)| commands.replace(word, with));
        step(format!("block-{number}"), &commands);
    }
    let mut command = Command::new("bash");
    command
        .args(["--noprofile", "--norc", "-c", &script])
        .env_clear()
        .env("PATH", format!("{}:{}", place.bin.display(), std::env::var("PATH").unwrap()))
        .env("HOME", at("user"))
        .env("XDG_CONFIG_HOME", at("user/config"))
        .env("COUNTERSIGN_HOME", at("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null());
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "T").env(format!("GIT_{role}_EMAIL"), "t@example.invalid");
    }
    // Where rustup keeps the machine's Rust, which a home of its own would hide.
    for (name, below) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let there = std::env::var_os("HOME").map(|home| Path::new(&home).join(below).into_os_string());
        command.envs(std::env::var_os(name).or(there).map(|dir| (name, dir)));
    }
    let status = command.status().unwrap();
    assert!(status.success(), "{status}");
    let ended = |name: &str| {
        let out = at(name).with_extension("out");
        let said = String::from_utf8_lossy(&std::fs::read(&out).unwrap()).into_owned();
        let code = std::fs::read_to_string(out.with_extension("out.code")).unwrap();
        (code.trim().to_owned(), said)
    };
    let (code, said) = ended("first");
    assert_eq!(code, "0", "{}\n{said}", given.first);
    for (number, block) in blocks.iter().enumerate() {
        let (code, said) = ended(&format!("before-{number}"));
        assert_eq!(code, "0", "before {}\n{said}", block.commands);
        let (code, said) = ended(&format!("block-{number}"));
        assert_eq!(code, block.exit.to_string(), "{}\n{said}", block.commands);
        let said: Vec<String> = said.lines().map(squeezed).collect();
        let mut rest = said.iter();
        for wanted in &block.prints {
            assert!(
                rest.any(|line| shows(line, wanted)),
                "`{wanted}` is not printed, or not in this order, by\n{}\n{said:#?}",
                block.commands
            );
        }
    }
}
