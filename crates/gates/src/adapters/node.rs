//! `node --test`: a reporter of ours beside the usual one, in the process that starts one process for each test file; and in
//! each of those a module of ours that makes assertions that must fail, behind the file's tests.

use countersign_guest::protocol::{OverlayFile, ReportFormat};

use super::{Adapter, ReportPlan, ReportSource, Run, verifier, with_after};
use crate::runner::base_name;

#[derive(Debug)]
pub(super) struct NodeTest;

const REPORTER: &str = include_str!("overlay/node_reporter.mjs");
const CANARY: &str = include_str!("overlay/node_canary.mjs");

/// Options of node that take the next word as their value.
pub(super) const WITH_VALUE: &[&str] =
    &["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"];

pub(super) fn is_node(program: &str) -> bool {
    matches!(base_name(program), "node" | "nodejs")
}

/// Node's own options: everything in front of the first file.
fn options(argv: &[String]) -> impl Iterator<Item = &str> {
    let mut value = false;
    argv.iter().skip(1).map(String::as_str).take_while(move |word| {
        let own = value || word.starts_with('-');
        value = !value && WITH_VALUE.contains(word);
        own && *word != "--"
    })
}

impl Adapter for NodeTest {
    fn name(&self) -> &'static str {
        "node:test"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        argv.first().is_some_and(|program| is_node(program))
            && options(argv).any(|word| word == "--test")
            && !options(argv).any(|word| word.starts_with("--test-reporter") || word == "--watch")
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let (reporter, canary) =
            (format!("countersign_{nonce}.mjs"), format!("countersign_canary_{nonce}.mjs"));
        let mut run = Run::plain(&with_after(
            argv,
            0,
            &[
                "--import",
                &format!("file://{}", verifier(&canary)),
                &format!("--test-reporter=file://{}", verifier(&reporter)),
                "--test-reporter-destination=/dev/null",
                "--test-reporter=spec",
                "--test-reporter-destination=stdout",
            ],
        ));
        let file = |path: String, content: &str| OverlayFile {
            path,
            content: content.to_owned(),
            executable: false,
        };
        run.overlay = vec![file(reporter, REPORTER), file(canary, CANARY)];
        run.report =
            Some(ReportPlan { source: ReportSource::File("node".to_owned()), format: ReportFormat::Lines });
        run
    }

    /// What the reporter hears of a file is what the file's process says.
    fn in_process(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn our_reporter_stands_beside_the_usual_one() {
        let run = NodeTest.run(&words("node --test test/"), "N");
        let line = run.argv.join(" ");
        assert!(
            line.starts_with("node --import file:///run/countersign/verifier/countersign_canary_N.mjs "),
            "{line}"
        );
        assert!(
            line.ends_with(" --test-reporter=spec --test-reporter-destination=stdout --test test/"),
            "{line}"
        );
        assert_eq!(run.overlay_digest("N"), NodeTest.run(&words("node --test"), "M").overlay_digest("M"));
    }

    #[test]
    fn only_nodes_own_runner_is_recognised() {
        for line in ["node --import ./x.mjs --test", "/v/bin/node --test a.test.js", "node -r --x --test"] {
            assert!(NodeTest.recognises(&words(line)), "{line}");
        }
        for line in [
            "node test.js --test",
            "node --test --test-reporter=tap",
            "node a.js",
            "npm test",
            "node -- --test",
        ] {
            assert!(!NodeTest.recognises(&words(line)), "{line}");
        }
    }
}
