//! What no file of the repository may hold.

use crate::support::{code_lines, files_ending, product_part, read, repository_files};

/// Patterns are put together here, so that this file does not hold them itself.
fn pattern(parts: &[&str]) -> String {
    parts.concat()
}

fn hits(files: &[String], patterns: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for name in files {
        let text = read(name);
        for (at, line) in text.lines().enumerate() {
            found.extend(
                patterns
                    .iter()
                    .filter(|pattern| line.contains(pattern.as_str()))
                    .map(|pattern| format!("{name}:{}: {pattern}", at + 1)),
            );
        }
    }
    found
}

#[test]
fn no_lint_is_switched_off_and_nothing_is_left_undone() {
    let patterns = [
        pattern(&["to", "do!("]),
        pattern(&["unim", "plemented!("]),
        pattern(&["TO", "DO"]),
        pattern(&["FIX", "ME"]),
        pattern(&["dbg", "!("]),
    ];
    let mut found = hits(&files_ending(".rs"), &patterns);
    // Clippy denies these too (`allow_attributes`); in tests they may stand in texts that are scanned.
    let switches = [pattern(&["#[al", "low("]), pattern(&["#![al", "low("])];
    for name in files_ending(".rs") {
        let product = product_part(&name, &read(&name));
        found.extend(
            code_lines(&product)
                .filter(|(_, line)| switches.iter().any(|switch| line.trim_start().starts_with(switch)))
                .map(|(at, line)| format!("{name}:{at}: {line}")),
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    let patterns = [
        pattern(&["/wo", "rk/"]),
        pattern(&["/ro", "ot/.cargo"]),
        pattern(&["/ro", "ot/.pyenv"]),
        pattern(&["/tmp/tar", "get-"]),
        pattern(&[".cargo/regi", "stry/src/index"]),
    ];
    let text_files: Vec<String> =
        repository_files().into_iter().filter(|name| !name.ends_with(".lock")).collect();
    let found = hits(&text_files, &patterns);
    assert!(found.is_empty(), "{found:#?}");
}

/// Only the jail may hold it, and there each place says why it is sound.
#[test]
fn unsafe_code_is_in_the_jail_only_and_justified() {
    let word = pattern(&["un", "safe"]);
    let opens_block = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        ["{", " {", " fn", " impl", " extern", " trait", "("]
            .iter()
            .any(|next| code.contains(&format!("{word}{next}")))
    };
    let expects = pattern(&["expect(", "unsafe_code"]);
    let mut wrong = Vec::new();
    for name in files_ending(".rs") {
        let text = read(&name);
        let lines: Vec<&str> = text.lines().collect();
        let in_jail = name.starts_with("crates/jail/");
        for (at, line) in code_lines(&text) {
            if !in_jail && (opens_block(line) || line.contains(&expects)) {
                wrong.push(format!("{name}:{at}: outside of the jail"));
            }
            let before = &lines[at.saturating_sub(SAFETY_LINES)..at];
            if in_jail && opens_block(line) && !before.iter().any(|line| line.contains("SAFETY")) {
                wrong.push(format!("{name}:{at}: no SAFETY comment in the lines above"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How far above its block a SAFETY comment may stand, lines.
const SAFETY_LINES: usize = 12;

#[test]
fn only_the_cli_prints_or_reads_the_environment() {
    let patterns: Vec<String> = [
        "env::var(",
        "env::var_os(",
        "env::vars(",
        "env::vars_os(",
        "env::current_dir(",
        "env::home_dir(",
        "env::set_var(",
        "env::remove_var(",
        "println!(",
        "print!(",
        "eprintln!(",
        "eprint!(",
        "io::stdout(",
        "io::stderr(",
    ]
    .map(str::to_owned)
    .into();
    let mut wrong = Vec::new();
    for name in files_ending(".rs") {
        let exempt = ["crates/cli/", "crates/testkit/", "xtask/"].iter().any(|dir| name.starts_with(dir));
        if exempt || !name.contains("/src/") {
            continue;
        }
        let text = read(&name);
        let product = product_part(&name, &text);
        for (at, line) in code_lines(&product) {
            // A program inside cells has a `main` of its own, which may say its version, or why it cannot start.
            let own_main = name.ends_with("src/main.rs") && line.contains("io::std");
            wrong.extend(
                patterns
                    .iter()
                    .filter(|pattern| line.contains(pattern.as_str()) && !own_main)
                    .map(|pattern| format!("{name}:{at}: {pattern}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_crate_says_what_it_is_and_what_it_leaves_out() {
    let mut wrong = Vec::new();
    for manifest in files_ending("Cargo.toml") {
        let Some(dir) = manifest.strip_suffix("/Cargo.toml") else { continue };
        // A program for each parser, no crate of ours; every one of them says what it feeds.
        if dir == "fuzz" {
            continue;
        }
        let roots = [format!("{dir}/src/lib.rs"), format!("{dir}/src/main.rs")];
        let Some(text) =
            roots.iter().find(|root| crate::support::root().join(root).is_file()).map(|r| read(r))
        else {
            wrong.push(format!("{dir} has no root file"));
            continue;
        };
        if !text.starts_with("//!") {
            wrong.push(format!("{dir}: its root file does not say what it is"));
        } else if !text.contains("rchitecture invariants")
            && !text.contains("Who trusts whom")
            && dir != "crates/testkit"
        {
            wrong.push(format!("{dir}: its root file names no architecture invariants"));
        }
        if !read(&manifest).contains("[lints]\nworkspace = true") {
            wrong.push(format!("{dir}: the workspace's lints are not on"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
