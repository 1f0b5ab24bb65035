//! Commands of the documentation: each block of them is run by a test, or says why not.

use crate::support::{exists, files_ending, read, root};

/// Where the pages are run, each by its path.
const RUNNER: &str = "crates/cli/tests/docs.rs";

/// Why a block may be left out, and how many blocks may say so.
const EXCUSES: &[(&str, usize)] = &[("it builds and tests this project", 3)];

/// Languages whose blocks somebody would copy and run.
const RUNNABLE: &[&str] = &["console", "sh", "bash", "shell", "yaml"];

#[derive(Debug, PartialEq, Eq)]
enum Block {
    /// By the runner of its page.
    Plain,
    NotRun(String),
    RunBy(String),
}

/// The runnable blocks of a page, each with its line.
fn blocks(page: &str) -> Vec<(usize, Block)> {
    let mut out = Vec::new();
    let mut mark = Block::Plain;
    let mut fenced = false;
    for (at, line) in page.lines().enumerate() {
        let comment = |name: &str| Some(line.strip_prefix(name)?.strip_suffix(" -->")?.to_owned());
        // A fence in a list is indented, and no less a block.
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = !fenced;
            let mark = std::mem::replace(&mut mark, Block::Plain);
            if fenced && RUNNABLE.contains(&language.trim()) {
                out.push((at + 1, mark));
            }
        } else if let Some(why) = comment("<!-- not run: ") {
            mark = Block::NotRun(why);
        } else if let Some(file) = comment("<!-- run by: ") {
            mark = Block::RunBy(file);
        }
    }
    out
}

/// What is wrong with the blocks of a page, and the excuses that it used.
fn judge(name: &str, page: &str, runner: &str) -> (Vec<String>, Vec<String>) {
    let (mut wrong, mut excuses) = (Vec::new(), Vec::new());
    for (line, block) in blocks(page) {
        let why = match block {
            // The runner takes every block of a page that carries no mark.
            Block::Plain if runner.contains(&format!("page(\"{name}\")")) => continue,
            Block::Plain => format!("neither run in {RUNNER} nor excused"),
            Block::NotRun(why) if EXCUSES.iter().any(|(known, _)| *known == why) => {
                excuses.push(why);
                continue;
            }
            Block::NotRun(why) => format!("`{why}` is no excuse that EXCUSES knows"),
            Block::RunBy(file) if exists(&root().join(&file)) && read(&file).contains(name) => continue,
            Block::RunBy(file) => format!("{file} does not take it from the page"),
        };
        wrong.push(format!("{name}:{line}: {why}"));
    }
    (wrong, excuses)
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let runner = read(RUNNER);
    let mut excuses = Vec::new();
    let mut wrong = Vec::new();
    for name in files_ending(".md") {
        let (bad, used) = judge(&name, &read(&name), &runner);
        wrong.extend(bad);
        excuses.extend(used);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (excuse, count) in EXCUSES {
        assert_eq!(excuses.iter().filter(|used| used == excuse).count(), *count, "{excuse}");
    }
}

#[test]
fn a_block_that_nobody_runs_is_found() {
    let page = "```console\na\n```\n<!-- not run: no time -->\n```sh\nb\n```\n<!-- run by: README.md -->\n```yaml\nc\n```\n\
                ```text\nd\n```\n- x\n  ```bash\n  e\n  ```\n";
    let (wrong, _) = judge("docs/x.md", page, "");
    let lines: Vec<_> = wrong.iter().map(|line| line.split(':').nth(1).unwrap_or_default()).collect();
    assert_eq!(lines, ["1", "5", "9", "16"], "{wrong:#?}");
    let (wrong, _) = judge("docs/x.md", page, "run(&place, &page(\"docs/x.md\"), &given);");
    assert_eq!(wrong.len(), 2, "{wrong:#?}");
}
