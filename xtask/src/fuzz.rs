//! `cargo xtask fuzz`: one libFuzzer program for each parser that `verify` uses, from `fuzz/`, a workspace of its own because
//! everything in it is built with coverage instrumentation. The stable compiler has what that needs.
//!
//! A program starts from `fuzz/seeds/TARGET` and from the golden bundle's files. What it finds lies in `target/fuzz/found`; put
//! it into the seeds with its fix, so that it is tried for ever.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sh::{self, Context, Error, Result};
use crate::workspace::Workspace;

/// A target, and what of the golden files it starts from, below `crates/proof/tests/golden`.
pub const TARGETS: &[(&str, &[&str])] = &[
    ("account", &["v2.bundle/journal.jsonl", "v1.bundle/journal.jsonl"]),
    (
        "envelope",
        &["v2.bundle/statements/turn.sigstore.json", "v1.bundle/statements/test-result.base-0.sigstore.json"],
    ),
    ("header", &["v1.bundle/bundle.json"]),
    ("journal", &["v1.bundle/journal.jsonl", "v2.bundle/journal.jsonl"]),
    ("key", &[]),
    ("manifest", &["v1.bundle/tree/base.manifest", "v1.bundle/tree/final.manifest"]),
    ("patch", &["fixture.diff", "v1.bundle/patch.diff"]),
    ("policy", &[]),
    ("result", &["v1.bundle/result.json", "v1.bundle/config.json"]),
    ("revealed", &[]),
    ("sshsig", &["v1.bundle/SHA256SUMS.sig", "git-namespace.sig"]),
    (
        "statement",
        &[
            "v1.bundle/statements/turn.sigstore.json",
            "v2.bundle/statements/turn.sigstore.json",
            "v1.bundle/statements/verdict.sigstore.json",
            "v1.bundle/statements/provenance.sigstore.json",
            "v1.bundle/statements/test-result.base-0.sigstore.json",
        ],
    ),
    ("sums", &["v1.bundle/SHA256SUMS"]),
    ("text", &["v1.bundle/SHA256SUMS"]),
    ("trust", &[]),
];

/// What makes a program one that libFuzzer can steer; the sanitizers, which need another compiler, find nothing in safe code.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1";

/// The only target that is built for; with one named, build scripts are not instrumented.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which; none means all.
    pub targets: Vec<String>,
    /// For each. None: 3.
    pub seconds: Option<u32>,
}

/// Downloads what the programs are built from.
///
/// # Errors
/// When there is no registry.
pub fn fetch(workspace: &Workspace) -> Result<()> {
    let manifest = workspace.root.join("fuzz/Cargo.toml");
    sh::run(workspace.cargo().args(["fetch", "--locked", "--quiet", "--manifest-path"]).arg(manifest))
}

/// # Errors
/// When a target is not known, cannot be built, or finds something.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let named: Vec<&(&str, &[&str])> = TARGETS
        .iter()
        .filter(|(name, _)| options.targets.is_empty() || options.targets.iter().any(|one| one == name))
        .collect();
    if let Some(unknown) = options.targets.iter().find(|one| !TARGETS.iter().any(|(name, _)| name == one)) {
        let all: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        return Err(Error::new(format!("no fuzz target `{unknown}`; there are {}", all.join(", "))));
    }
    let target = workspace.target.join("fuzz");
    let mut cargo = workspace.cargo();
    cargo
        .args([
            "build",
            "--release",
            "--locked",
            "--offline",
            "--quiet",
            "--target",
            TRIPLE,
            "--manifest-path",
        ])
        .arg(workspace.root.join("fuzz/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    for (name, _) in &named {
        cargo.args(["--bin", name]);
    }
    sh::run(&mut cargo)?;
    let found = target.join("found");
    std::fs::create_dir_all(&found).context(found.display())?;
    let mut broken = Vec::new();
    for (name, golden) in named {
        let seeds = seeds(workspace, &target, name, golden)?;
        let program = target.join(TRIPLE).join("release").join(name);
        let seconds = options.seconds.unwrap_or(3);
        let mut command = Command::new(&program);
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg("-rss_limit_mb=2048")
            .arg("-timeout=10")
            .arg("-max_len=65536")
            .arg("-print_final_stats=1")
            .arg(format!("-artifact_prefix={}/{name}-", found.display()))
            .args(seeds)
            .stdin(Stdio::null())
            .current_dir(&target);
        let output = command.output().context(sh::shown(&command))?;
        let words = String::from_utf8_lossy(&output.stderr);
        let runs = words.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        if output.status.success() {
            sh::print(&format!("ok   fuzz/{name:<12} {} inputs in {seconds} s", runs.unwrap_or("?").trim()))?;
        } else {
            sh::say(&words);
            sh::print(&format!("FOUND fuzz/{name}: see {}", found.display()))?;
            broken.push(*name);
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(Error::new(format!("found by fuzzing: {}", broken.join(", "))))
    }
}

/// Where a program keeps what it learns, and where it starts from.
fn seeds(workspace: &Workspace, target: &Path, name: &str, golden: &[&str]) -> Result<Vec<PathBuf>> {
    let (learnt, from) = (target.join("corpus").join(name), target.join("golden").join(name));
    sh::remove_tree(&from)?;
    for dir in [&learnt, &from] {
        std::fs::create_dir_all(dir).context(dir.display())?;
    }
    for (number, path) in golden.iter().enumerate() {
        let path = workspace.root.join("crates/proof/tests/golden").join(path);
        std::fs::copy(&path, from.join(number.to_string())).context(path.display())?;
    }
    let own = workspace.root.join("fuzz/seeds").join(name);
    Ok([learnt, from].into_iter().chain(own.is_dir().then_some(own)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that is missing in one of the three places would never run, and nobody would notice.
    #[test]
    fn every_target_is_a_file_a_program_and_a_row() {
        let workspace = Workspace::find();
        let mut files: Vec<String> = std::fs::read_dir(workspace.root.join("fuzz/targets"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let rows: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, rows);
        let manifest = std::fs::read_to_string(workspace.root.join("fuzz/Cargo.toml")).unwrap();
        for name in rows {
            assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"")), "{name}");
        }
        for (name, golden) in TARGETS {
            let own = workspace.root.join("fuzz/seeds").join(name);
            assert!(!golden.is_empty() || own.is_dir(), "{name} starts from nothing");
            for path in *golden {
                assert!(workspace.root.join("crates/proof/tests/golden").join(path).is_file(), "{path}");
            }
        }
    }
}
