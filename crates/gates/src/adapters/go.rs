//! `go test`: go starts each package's test program through a script of ours (`-exec`), which keeps what the program says
//! of each test. Results that go itself makes up are not used: of a program that ends with 0 in the middle of a test,
//! `go test -json` says that the test passed.
//!
//! Nothing is taken from go's cache of results (`-count=1`); the build cache is the room's own.
//!
//! The canary is compiled into a test file of each package (`-overlay`). It has the package's own runner run tests that must
//! fail, in the process that ran the package's tests, and passes: a `TestMain` that looks at the result of all tests (for
//! coverage or for goroutines that are left) sees what it would see without it. A command that brings an overlay of its own
//! goes without.

use countersign_guest::protocol::{GoCanary, OverlayFile, ReportFormat};

use super::{Adapter, ReportPlan, ReportSource, Run, report_path, verifier, with_after};
use crate::runner::base_name;

#[derive(Debug)]
pub(super) struct GoTest;

const EXEC: &str = include_str!("overlay/go_exec.sh");
const CANARY: &str = include_str!("overlay/go_canary.go");

/// Under names that nothing in the file can have. Predeclared names are not relied on: a package may declare them anew.
const IMPORTS: &str = r#"import (regexp_NONCE "regexp"; runtime_NONCE "runtime"; testing_NONCE "testing")"#;

/// What go's `-overlay` reads, below the verifier's directory.
const OVERLAY: &str = "go-overlay.json";

/// `-exec`, `--exec=…`: a flag of go's own, with one dash or two.
fn has_flag(argv: &[String], name: &str) -> bool {
    argv.iter().take_while(|word| *word != "-args" && *word != "--args").any(|word| {
        let flag = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or_default();
        flag.split('=').next() == Some(name)
    })
}

/// The word behind which flags may stand: `-C DIR` has to be the first of all.
fn directory_at(argv: &[String]) -> usize {
    match argv.get(2).map(String::as_str) {
        Some("-C" | "--C") => 3,
        Some(word) if word.starts_with("-C=") || word.starts_with("--C=") => 2,
        _ => 1,
    }
}

impl Adapter for GoTest {
    fn name(&self) -> &'static str {
        "go test"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        let [program, command, ..] = argv else { return false };
        base_name(program) == "go" && command == "test" && !has_flag(argv, "exec") && !has_flag(argv, "c")
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let exec = verifier("go-exec");
        let overlay = format!("-overlay={}", verifier(OVERLAY));
        let mut more = vec!["-exec", exec.as_str()];
        if !has_flag(argv, "count") {
            more.push("-count=1");
        }
        let canary = !has_flag(argv, "overlay");
        if canary {
            more.push(&overlay);
        }
        let mut run = Run::plain(&with_after(argv, directory_at(argv), &more));
        run.go_canary = canary.then(|| GoCanary {
            imports: IMPORTS.replace("NONCE", nonce),
            tests: CANARY.replace("NONCE", nonce),
            map: OVERLAY.to_owned(),
        });
        run.env.insert("COUNTERSIGN_REPORT".to_owned(), report_path(nonce, ""));
        // Another toolchain than the declared one would have to be downloaded.
        run.env.insert("GOTOOLCHAIN".to_owned(), "local".to_owned());
        run.env.insert("GOFLAGS".to_owned(), String::new());
        run.overlay =
            vec![OverlayFile { path: "go-exec".to_owned(), content: EXEC.to_owned(), executable: true }];
        run.report =
            Some(ReportPlan { source: ReportSource::File(String::new()), format: ReportFormat::GoTest });
        run
    }

    fn in_process(&self) -> bool {
        true
    }

    /// A base that does not compile has no test program that could begin to report.
    fn may_lack_reporter(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn go_test_runs_its_programs_through_our_script_and_without_cached_results() {
        const OURS: &str = "-exec /run/countersign/verifier/go-exec -count=1 \
                            -overlay=/run/countersign/verifier/go-overlay.json";
        let run = GoTest.run(&words("go test -run TestA ./... -args -exec x"), "N");
        assert_eq!(run.argv, words(&format!("go test {OURS} -run TestA ./... -args -exec x")));
        assert_eq!(run.env["COUNTERSIGN_REPORT"], "/run/countersign/report/N");
        assert!(run.overlay.iter().all(|file| file.executable));
        let run = GoTest.run(&words("go test -count 3"), "N");
        assert_eq!(run.argv, words(&format!("go test {} -count 3", OURS.replace(" -count=1", ""))));
        // Go wants it in front of all flags.
        for (line, first) in [("go test -C a ./...", "go test -C a"), ("go test -C=a ./...", "go test -C=a")]
        {
            let run = GoTest.run(&words(line), "N");
            assert_eq!(run.argv, words(&format!("{first} {OURS} ./...")));
        }
    }

    #[test]
    fn the_canary_is_brought_under_names_of_the_run_unless_the_command_has_an_overlay_of_its_own() {
        let run = GoTest.run(&words("go test ./..."), "0f");
        let canary = run.go_canary.as_ref().unwrap();
        for text in [&canary.imports, &canary.tests] {
            assert!(text.contains("testing_0f") && !text.contains("NONCE"), "{text}");
        }
        assert!(canary.tests.contains("func TestCountersign_0f_NUMBER(t *testing_0f.T)"));
        let digest = run.overlay_digest("0f");
        assert_eq!(digest, GoTest.run(&words("go test ./..."), "1e").overlay_digest("1e"));
        let run = GoTest.run(&words("go test -overlay x.json ./..."), "0f");
        assert!(
            run.go_canary.is_none() && run.argv.iter().filter(|word| word.contains("overlay")).count() == 1
        );
        assert_ne!(digest, run.overlay_digest("0f"), "what is brought is told apart");
    }

    #[test]
    fn what_chooses_its_own_runner_or_only_builds_is_not_recognised() {
        for line in
            ["go test -exec=/bin/true ./...", "go test --exec x", "go test -c", "go vet", "go", "gotestsum"]
        {
            assert!(!GoTest.recognises(&words(line)), "{line}");
        }
        assert!(GoTest.recognises(&words("/usr/lib/go-1.19/bin/go test ./...")));
    }
}
