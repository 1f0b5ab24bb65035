//! The commands of the tutorials, run as they stand in the pages, with what they print.
//!
//! A ```` ```console ```` block is run by bash in the state that the one before left. It has to end with 0 at each command, or as
//! `<!-- exit: N -->` in front of it says. A ```` ```text ```` block right behind it holds lines that it has to print, in this order.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use common::Place;
use project::{edit, finish, script, sh};
use serde_json::{Value, json};

#[derive(Debug, PartialEq, Eq)]
struct Block {
    exit: i32,
    commands: String,
    prints: Vec<String>,
}

/// The blocks of a page that are to be run.
fn blocks(page: &str) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::new();
    let mut exit = 0;
    // Whether nothing but empty lines stood since the last block of commands.
    let mut behind = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let code = line.strip_prefix("<!-- exit: ").and_then(|rest| rest.strip_suffix(" -->"));
        match (line, code) {
            (_, Some(code)) => exit = code.parse().unwrap(),
            ("```console", _) => {
                let commands = lines
                    .by_ref()
                    .take_while(|line| *line != "```")
                    .fold(String::new(), |all, line| all + line + "\n");
                out.push(Block { exit: std::mem::take(&mut exit), commands, prints: Vec::new() });
                behind = true;
            }
            ("```text", _) if behind => {
                let prints = lines.by_ref().take_while(|line| *line != "```").map(squeezed).collect();
                out.last_mut().unwrap().prints = prints;
                behind = false;
            }
            (fence, _) if fence.starts_with("```") => {
                let _ = lines.by_ref().find(|line| *line == "```");
                behind = false;
            }
            ("", _) => {}
            _ => behind = false,
        }
    }
    out
}

/// Columns are for the eye.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs a page in `place`, and says of each block how it ended and what it printed.
fn run(place: &Place, page: &str) {
    let blocks = blocks(page);
    assert!(!blocks.is_empty());
    let at = |name: &str| place.path(name);
    std::fs::create_dir_all(at("work")).unwrap();
    std::fs::create_dir_all(at("user")).unwrap();
    let mut script = format!("cd {}\n", at("work").display());
    for (number, block) in blocks.iter().enumerate() {
        let file =
            place.write(&format!("block-{number}.sh"), &format!("trap 'return $?' ERR\n{}", block.commands));
        writeln!(
            script,
            "source {} > {out} 2>&1\necho $? > {out}.code\ntrap - ERR",
            file.display(),
            out = at(&format!("block-{number}.out")).display()
        )
        .unwrap();
    }
    let path = format!("{}:{}", place.bin.display(), std::env::var("PATH").unwrap());
    let status = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", &script])
        .env_clear()
        .env("PATH", path)
        .env("HOME", at("user"))
        .env("XDG_CONFIG_HOME", at("user/config"))
        .env("COUNTERSIGN_HOME", at("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    for (number, block) in blocks.iter().enumerate() {
        let out = at(&format!("block-{number}.out"));
        let said = String::from_utf8_lossy(&std::fs::read(&out).unwrap()).into_owned();
        let code = std::fs::read_to_string(out.with_extension("out.code")).unwrap();
        assert_eq!(code.trim(), block.exit.to_string(), "{}\n{said}", block.commands);
        let said: Vec<String> = said.lines().map(squeezed).collect();
        let mut rest = said.iter();
        for wanted in &block.prints {
            assert!(
                rest.any(|line| line.contains(wanted.as_str())),
                "`{wanted}` is not printed, or not in this order, by\n{}\n{said:#?}",
                block.commands
            );
        }
    }
}

#[test]
fn the_first_tutorial_does_what_it_says() {
    let Some(place) = project::place("the_first_tutorial_does_what_it_says") else { return };
    run(&place, include_str!("../../../docs/tutorial.md"));
}

/// The page is about a project of one's own; this is one.
#[test]
fn the_way_to_an_own_repository_does_what_it_says() {
    let Some(place) = project::place("the_way_to_an_own_repository_does_what_it_says") else { return };
    let files = [
        ("work/Makefile", "test:\n\t@sh sum_test.sh\n"),
        ("work/sum.sh", "total=0\nwhile read -r number; do total=$((total + number)); done\necho $total\n"),
        (
            "work/sum_test.sh",
            "[ \"$(printf '1\\n2' | sh sum.sh)\" = 3 ] || { echo 'FAILED: the last line is lost'; exit 1; }\n",
        ),
        (
            "fix.json",
            r#"{"version": 1, "turns": [
                {"calls": [{"tool": "edit_file", "args": {"path": "sum.sh", "old": "read -r number;", "new": "read -r number || [ -n \"$number\" ];"}}]},
                {"calls": [{"tool": "finish", "args": {"summary": "The last line counts."}}]}]}"#,
        ),
    ];
    for (name, content) in files {
        place.write(name, content);
    }
    let work = place.path("work");
    project::git(&work, &["init", "--quiet"]);
    project::git(&work, &["add", "--all"]);
    project::git(&work, &["commit", "--quiet", "--message", "base"]);
    run(&place, include_str!("../../../docs/own-repository.md"));
}

#[test]
fn blocks_are_found_with_their_exits_and_what_they_print() {
    let page = "x\n```console\na\nb\n```\n\n```text\none   two\n```\ny\n<!-- exit: 2 -->\n```console\nc\n```\nz\n```text\nnot its\n```\n```sh\nd\n```\n";
    let block = |exit, commands: &str, prints: &[&str]| Block {
        exit,
        commands: commands.to_owned(),
        prints: prints.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(blocks(page), [block(0, "a\nb\n", &["one two"]), block(2, "c\n", &[])]);
}

/// A journal as the walk-through tells it: events by number, an effect with its three lines as one.
fn told(events: &[Value]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let text = |event: &Value, field: &str| event["data"][field].as_str().unwrap_or_default().to_owned();
    let mut open: Option<(u64, String)> = None;
    for event in events {
        let seq = event["seq"].as_u64().unwrap();
        let kind = event["kind"].as_str().unwrap();
        match kind {
            "effect_intended" => {
                let what = [text(event, "kind"), text(event, "tool")].join(" ");
                open = Some((seq, format!("effect {}", what.trim())));
            }
            "effect_dispatched" => {}
            "effect_completed" => {
                let (first, what) = open.take().unwrap();
                out.push((format!("{first}-{seq}"), what));
            }
            "gate_decided" => {
                out.push((
                    seq.to_string(),
                    format!("gate {} {}", text(event, "gate"), text(event, "status")),
                ));
            }
            "turn_ended" => out.push((seq.to_string(), format!("{kind} {}", text(event, "outcome")))),
            _ => out.push((seq.to_string(), kind.to_owned())),
        }
    }
    out
}

#[test]
fn the_walk_through_tells_recorded_runs_event_by_event() {
    let Some(place) = project::place("the_walk_through_tells_recorded_runs_event_by_event") else { return };
    let page = include_str!("../../../docs/walkthrough.md");
    let written = |section: &str| -> Vec<(String, String)> {
        let section = page.split(&format!("\n## {section}\n")).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        section
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains('`'))
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                (cells[1].to_owned(), cells[2].trim_matches('`').to_owned())
            })
            .collect()
    };
    let files = [
        ("a.py", "def f():\n    return 1\n"),
        (
            "test_a.py",
            "import unittest\nfrom a import f\n\n\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(), 2)\n",
        ),
    ];
    let repo = project::repository(&place, &files);
    let look = json!({ "calls": [{ "tool": "read_file", "args": { "path": "a.py" } }] });
    let runs = [
        ("The honest run", json!([look, edit("a.py", "return 1", "return 2"), finish("f returns 2.")])),
        ("The attack", json!([sh("sed -i s/2/1/ test_a.py"), finish("f returns 2.")])),
    ];
    for (section, turns) in runs {
        let model = script(&place, "m.json", &turns);
        let ended = place.run(&[
            "run",
            "f has to return 2",
            "--trust",
            "trusted-local",
            "--repo",
            repo.to_str().unwrap(),
            "--model",
            &model,
            "--check",
            "python3 -m unittest",
            "--format",
            "json",
            "--trace",
            "off",
        ]);
        let result = ended.json();
        let events = project::journal(&place, result["session"].as_str().unwrap());
        assert_eq!(told(&events), written(section), "{section}: {result}");
    }
}
