//! `cargo test`: cargo starts each test program, and rustdoc, through scripts of ours, which have the harness write each
//! result to a file. That wins over a `runner` of the tree's own cargo configuration.
//!
//! `cargo nextest run` starts the same programs, once for each test: the same scripts see it.
//!
//! The canary is one more test at the end of each test program's root. A wrapper of rustc compiles a copy of the root that
//! lies beside it for as long as rustc runs; where that cannot be, it compiles the root as it is. The program's failure
//! through nothing but the canary is taken back by the script that started it. Each process of nextest runs it beside its
//! test.

use countersign_guest::protocol::{OverlayFile, ReportFormat};

use super::{Adapter, ReportPlan, ReportSource, Run, report_path, verifier, with_after};
use crate::runner::Runner;

#[derive(Debug)]
pub(super) struct CargoTest;

#[derive(Debug)]
pub(super) struct Nextest;

const RUNNER: &str = include_str!("overlay/cargo_runner.sh");
const RUSTDOC: &str = include_str!("overlay/cargo_rustdoc.sh");
const RUSTC: &str = include_str!("overlay/cargo_rustc.sh");
const CANARY: &str = include_str!("overlay/cargo_canary.rs");

/// Targets of machines that rooms run on, as cargo spells them in its variables.
const TARGETS: &[&str] = &[
    "X86_64_UNKNOWN_LINUX_GNU",
    "X86_64_UNKNOWN_LINUX_MUSL",
    "AARCH64_UNKNOWN_LINUX_GNU",
    "AARCH64_UNKNOWN_LINUX_MUSL",
];

/// All programs are run, also behind one that failed: what is not run has no name. `commands`: how the command is spelt
/// that knows the flag.
fn without_fail_fast(argv: &[String], commands: &[&str]) -> Vec<String> {
    const FLAG: &str = "--no-fail-fast";
    let own = argv.iter().take_while(|word| *word != "--");
    let at = argv.iter().position(|word| commands.contains(&word.as_str())).unwrap_or_default();
    if own.clone().any(|word| word == FLAG || word == "--no-run") {
        return argv.to_vec();
    }
    with_after(argv, at, &[FLAG])
}

/// The command, with cargo told to start test programs and rustdoc through our scripts.
fn through_scripts(argv: Vec<String>, nonce: &str) -> Run {
    let mut run = Run { argv, ..Run::default() };
    let runner = format!("sh {}", verifier("cargo-runner"));
    for target in TARGETS {
        run.env.insert(format!("CARGO_TARGET_{target}_RUNNER"), runner.clone());
    }
    run.env.insert("RUSTDOC".to_owned(), verifier("rustdoc"));
    // For the workspace's own crates only; what it depends on is compiled as ever.
    run.env.insert("RUSTC_WORKSPACE_WRAPPER".to_owned(), verifier("cargo-rustc"));
    run.env.insert("COUNTERSIGN_REPORT".to_owned(), report_path(nonce, ""));
    let file = |path: &str, content: &str, executable| OverlayFile {
        path: path.to_owned(),
        content: content.to_owned(),
        executable,
    };
    run.overlay = vec![
        file("cargo-runner", RUNNER, false),
        file("rustdoc", RUSTDOC, true),
        file("cargo-rustc", RUSTC, true),
        file("cargo-canary", CANARY, false),
    ];
    run.report =
        Some(ReportPlan { source: ReportSource::File(String::new()), format: ReportFormat::CargoTest });
    run
}

impl Adapter for CargoTest {
    fn name(&self) -> &'static str {
        "cargo test"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        Runner::of(argv) == Runner::CargoTest
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        through_scripts(without_fail_fast(argv, &["test", "t"]), nonce)
    }

    fn in_process(&self) -> bool {
        true
    }

    /// An example of the documentation is a program that rustdoc makes.
    fn has_canary_beside(&self, id: &str) -> bool {
        !id.starts_with("doc/")
    }

    /// A base that does not compile has no test program that could begin to report.
    fn may_lack_reporter(&self) -> bool {
        false
    }
}

impl Adapter for Nextest {
    fn name(&self) -> &'static str {
        "nextest"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        Runner::of(argv) == Runner::Nextest && argv.iter().any(|word| word == "run" || word == "r")
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        through_scripts(without_fail_fast(argv, &["run", "r"]), nonce)
    }

    fn in_process(&self) -> bool {
        true
    }

    fn may_lack_reporter(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_test_is_run_as_it_is_through_our_scripts() {
        let argv: Vec<String> = ["cargo", "+1.95", "test", "-p", "a", "--", "b"].map(str::to_owned).to_vec();
        assert!(CargoTest.recognises(&argv));
        let run = CargoTest.run(&argv, "N");
        assert_eq!(run.argv.join(" "), "cargo +1.95 test --no-fail-fast -p a -- b");
        let argv: Vec<String> = ["cargo", "t", "--no-fail-fast"].map(str::to_owned).to_vec();
        assert_eq!(CargoTest.run(&argv, "N").argv, argv);
        assert_eq!(run.env["COUNTERSIGN_REPORT"], "/run/countersign/report/N");
        assert_eq!(
            run.env["CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"],
            "sh /run/countersign/verifier/cargo-runner"
        );
        assert_eq!(run.env["RUSTC_WORKSPACE_WRAPPER"], "/run/countersign/verifier/cargo-rustc");
        let argv: Vec<String> = ["cargo", "nextest", "run", "-p", "a"].map(str::to_owned).to_vec();
        assert!(Nextest.recognises(&argv) && !CargoTest.recognises(&argv));
        assert_eq!(Nextest.run(&argv, "N").argv.join(" "), "cargo nextest run --no-fail-fast -p a");
        for other in [&["cargo", "nextest", "run"][..], &["cargo", "build"], &["sh", "-c", "cargo test"]] {
            let argv: Vec<String> = other.iter().map(|word| (*word).to_owned()).collect();
            assert!(!CargoTest.recognises(&argv), "{other:?}");
        }
    }
}
