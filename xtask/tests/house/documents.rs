//! Documents that tell the truth: tables against the types, promises against tests, links against files.

use std::collections::BTreeSet;
use std::process::Command;

use countersign_types::{Outcome, Reason};

use crate::support::{exists, files_ending, metadata, quoted, read, root, table};

#[test]
fn the_outcome_table_is_the_enum() {
    let document = read("docs/outcomes.md");
    let written: Vec<(String, String, Vec<String>)> = table(&document, "exit code")
        .iter()
        .filter(|row| row[0] != Outcome::BUG_EXIT_CODE.to_string())
        .map(|row| {
            let reasons = quoted(row[2]).iter().map(|reason| (*reason).to_owned()).collect();
            (row[0].to_owned(), quoted(row[1]).concat(), reasons)
        })
        .collect();
    let decided: Vec<(String, String, Vec<String>)> = Outcome::ALL
        .iter()
        .map(|outcome| {
            let reasons =
                Reason::ALL.iter().filter(|r| r.outcome() == *outcome).map(ToString::to_string).collect();
            (outcome.exit_code().to_string(), outcome.to_string(), reasons)
        })
        .collect();
    assert_eq!(written, decided);
    assert!(document.contains(&format!("| {} | a bug |", Outcome::BUG_EXIT_CODE)), "the row of a bug");
}

#[test]
fn every_reason_says_what_to_do() {
    let document = read("docs/outcomes.md");
    let written: Vec<String> = table(&document, "reason")
        .iter()
        .map(|row| {
            assert!(row[1].len() > 10 && row[2].len() > 3, "{row:?} explains nothing");
            quoted(row[0]).concat()
        })
        .collect();
    let decided: Vec<String> = Reason::ALL.iter().map(|r| format!("{}/{r}", r.outcome())).collect();
    assert_eq!(written, decided);
}

/// `package::name` is a test of that package; `bench name` is a measurement.
#[test]
fn every_promise_names_a_test_that_exists() {
    let metadata = metadata(false);
    let packages: Vec<(String, String)> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let manifest = package["manifest_path"].as_str().unwrap();
            let dir = manifest.strip_suffix("Cargo.toml").unwrap();
            let dir = dir.strip_prefix(root().to_str().unwrap()).unwrap().trim_start_matches('/');
            (package["name"].as_str().unwrap().to_owned(), dir.to_owned())
        })
        .collect();
    let sources: Vec<(String, String)> = files_ending(".rs")
        .into_iter()
        .map(|name| {
            let text = read(&name);
            (name, text)
        })
        .collect();
    let document = read("docs/specification.md");
    let rows = table(&document, "promise");
    assert!(rows.len() >= 10, "the table of promises was not found");
    let mut wrong = Vec::new();
    for row in rows {
        let tests = quoted(row.get(2).copied().unwrap_or_default());
        if tests.is_empty() {
            wrong.push(format!("no test for: {}", row[0]));
        }
        for test in tests {
            let found = if let Some(bench) = test.strip_prefix("bench ") {
                sources.iter().any(|(name, text)| {
                    name.starts_with("xtask/src/bench/") && text.contains(&format!("\"{bench}\""))
                })
            } else if let Some((package, function)) = test.split_once("::") {
                packages.iter().any(|(name, dir)| {
                    name == package
                        && sources.iter().any(|(file, text)| {
                            file.starts_with(dir.as_str()) && text.contains(&format!("fn {function}("))
                        })
                })
            } else {
                false
            };
            if !found {
                wrong.push(format!("no such test: {test} (promise: {})", row[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn links_between_documents_resolve() {
    let mut wrong = Vec::new();
    for name in files_ending(".md") {
        let text = read(&name);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                root().join(&name)
            } else {
                root().join(&name).parent().unwrap().join(file)
            };
            if !exists(&path) {
                wrong.push(format!("{name}: {target}"));
            } else if !anchor.is_empty()
                && !anchors(&std::fs::read_to_string(&path).unwrap()).contains(anchor)
            {
                wrong.push(format!("{name}: {target}: no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn anchors(document: &str) -> BTreeSet<String> {
    document
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            heading
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// The commands in the indented and fenced code of a document, with continued lines joined.
fn commands(document: &str, program: &str) -> Vec<String> {
    let mut fenced = false;
    let mut code = String::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            code.push_str(line);
            code.push('\n');
        }
    }
    code.replace("\\\n", " ")
        .lines()
        .filter_map(|line| {
            line.trim().trim_start_matches("$ ").strip_prefix(program).map(|rest| rest.trim().to_owned())
        })
        .collect()
}

#[test]
fn the_readme_names_only_chores_that_exist() {
    let used = commands(&read("README.md"), "cargo xtask ");
    assert!(
        used.iter().any(|line| line.starts_with("demo")) && used.iter().any(|line| line.starts_with("test"))
    );
    for line in used {
        let word = line.split_whitespace().next().unwrap_or_default();
        assert!(
            xtask::cli::HELP.lines().any(|help| help.starts_with(&format!("  {word} "))),
            "cargo xtask {line}"
        );
    }
}

#[test]
fn the_readme_names_only_commands_and_flags_that_exist() {
    let Some(bin_dir) = std::env::var_os("COUNTERSIGN_TEST_BIN_DIR") else {
        eprintln!(
            "SKIPPED: the_readme_names_only_commands_and_flags_that_exist: COUNTERSIGN_TEST_BIN_DIR is not set; `cargo xtask test` sets it"
        );
        return;
    };
    let program = std::path::Path::new(&bin_dir).join("countersign");
    let mut wrong = Vec::new();
    for document in
        ["README.md", "CONTRIBUTING.md", "docs/outcomes.md", "docs/sessions.md", "docs/delivery.md"]
    {
        for line in commands(&read(document), "countersign ") {
            let mut words = line.split_whitespace();
            let command = words.next().unwrap_or_default();
            let output = Command::new(&program).args([command, "--help"]).output().unwrap();
            let help = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() {
                wrong.push(format!("{document}: countersign {command}"));
            }
            for flag in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                let flag = flag.split('=').next().unwrap_or_default();
                if !help.contains(flag) {
                    wrong.push(format!("{document}: countersign {command} {flag}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    let Some(bin_dir) = std::env::var_os("COUNTERSIGN_TEST_BIN_DIR") else {
        eprintln!(
            "SKIPPED: the_page_of_the_command_line_is_what_the_program_says: COUNTERSIGN_TEST_BIN_DIR is not set; `cargo xtask test` sets it"
        );
        return;
    };
    let program = std::path::Path::new(&bin_dir).join("countersign");
    let output = Command::new(program).args(["generate", "cli-docs"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let page = read(xtask::docs::CLI_PAGE);
    let stale = page.lines().zip(said.lines()).find(|(page, said)| page != said);
    assert!(
        page == said,
        "{} is stale at {stale:?}: `cargo xtask docs` writes it again",
        xtask::docs::CLI_PAGE
    );
}

/// What `verify` prints with every answer stands in the page of limits, word for word.
#[test]
fn the_page_of_limits_says_what_verify_prints() {
    let source = read("crates/proof/src/verify/mod.rs");
    let limits = source.split("pub const LIMITS").nth(1).unwrap().split("];").next().unwrap();
    let limits: Vec<&str> = limits
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"').and_then(|line| line.strip_suffix("\",")))
        .collect();
    assert_eq!(limits.len(), 4, "{limits:?}");
    let page = read("docs/limits.md");
    for limit in limits {
        assert!(page.contains(&format!("- {limit}\n")), "docs/limits.md does not say: {limit}");
    }
}

/// Every name with a number that the program writes is in the table of what stays, and none is there that it does not write.
#[test]
fn the_table_of_what_stays_names_every_format() {
    let page = read("docs/stability.md");
    let written: BTreeSet<String> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .flat_map(|line| line.split('|').nth(2).map(quoted).unwrap_or_default())
        .filter(|name| name.starts_with("countersign."))
        .map(str::to_owned)
        .collect();
    let mut used = BTreeSet::new();
    for file in files_ending(".rs") {
        if !file.starts_with("crates/") || !file.contains("/src/") || file.contains("test") {
            continue;
        }
        let text = read(&file);
        for rest in text.split("\"countersign.").skip(1) {
            let name: String = rest.chars().take_while(|c| *c != '"').collect();
            let is_format = name.split_once('/').is_some_and(|(word, number)| {
                !word.is_empty()
                    && word.bytes().all(|b| b.is_ascii_lowercase())
                    && !number.is_empty()
                    && number.bytes().all(|b| b.is_ascii_digit())
            });
            if is_format {
                used.insert(format!("countersign.{name}"));
            }
        }
    }
    assert_eq!(written, used);
    for (file, name) in [
        ("crates/config/src/preset.rs", "coding@1"),
        ("crates/config/src/preset.rs", "question@1"),
        ("crates/config/src/preset.rs", "gate@1"),
        ("crates/kernel/src/contract.rs", "detectors@1"),
    ] {
        assert!(read(file).contains(&format!("\"{name}\"")) && page.contains(&format!("`{name}`")), "{name}");
    }
    assert!(
        read("crates/store/src/line.rs").contains("const LINE_FORMAT: u32 = 1;") && page.contains("`v: 1`")
    );
}
