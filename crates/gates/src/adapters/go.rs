//! `go test`: go starts each package's test program through a script of ours (`-exec`), which keeps what the program says
//! of each test. Results that go itself makes up are not used: of a program that ends with 0 in the middle of a test,
//! `go test -json` says that the test passed.
//!
//! Nothing is taken from go's cache of results (`-count=1`); the build cache is the room's own. There is no canary: a test
//! that must fail would have to be compiled into the project's own packages.

use countersign_guest::protocol::{OverlayFile, ReportFormat};

use super::{Adapter, ReportPlan, ReportSource, Run, report_path, verifier, with_after};
use crate::runner::base_name;

#[derive(Debug)]
pub(super) struct GoTest;

const EXEC: &str = include_str!("overlay/go_exec.sh");

/// `-exec`, `--exec=…`: a flag of go's own, with one dash or two.
fn has_flag(argv: &[String], name: &str) -> bool {
    argv.iter().take_while(|word| *word != "-args" && *word != "--args").any(|word| {
        let flag = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or_default();
        flag.split('=').next() == Some(name)
    })
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
        let mut more = vec!["-exec", exec.as_str()];
        if !has_flag(argv, "count") {
            more.push("-count=1");
        }
        let mut run = Run::plain(&with_after(argv, 1, &more));
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
        let run = GoTest.run(&words("go test -run TestA ./... -args -exec x"), "N");
        let expected =
            "go test -exec /run/countersign/verifier/go-exec -count=1 -run TestA ./... -args -exec x";
        assert_eq!(run.argv, words(expected));
        assert_eq!(run.env["COUNTERSIGN_REPORT"], "/run/countersign/report/N");
        assert!(run.overlay.iter().all(|file| file.executable));
        let run = GoTest.run(&words("go test -count 3"), "N");
        assert_eq!(run.argv, words("go test -exec /run/countersign/verifier/go-exec -count 3"));
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
