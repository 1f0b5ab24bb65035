//! mocha, jest and vitest: a reporter of ours, and a canary: in mocha's process behind all tests, in jest and vitest in the world
//! of each test file, into which the reporter puts one more set-up file. Each runner is a program of the project's own packages, so the reporter is as
//! good as those, which come from the environment and which the agent cannot change.

use countersign_guest::protocol::{OverlayFile, ReportFormat};

use super::node::{WITH_VALUE, is_node};
use super::{Adapter, ReportPlan, ReportSource, Run, verifier};
use crate::runner::base_name;

/// Writes the lines; beside each reporter.
const LINES: &str = include_str!("overlay/javascript_lines.cjs");
/// What a canary says, which must not be taken for true.
const LIES: &str = include_str!("overlay/javascript_lies.cjs");

#[derive(Debug)]
pub(super) struct Mocha;
#[derive(Debug)]
pub(super) struct Jest;
#[derive(Debug)]
pub(super) struct Vitest;

/// The arguments of the runner `name`, however it is started: by its name or path, by `npx`, or by node from the path of
/// its package's program.
fn arguments<'a>(argv: &'a [String], name: &str) -> Option<&'a [String]> {
    let is_runner = |word: &str| {
        let stem = base_name(word);
        let stem = stem.strip_suffix(".js").or_else(|| stem.strip_suffix(".mjs")).unwrap_or(stem);
        stem.trim_start_matches('_') == name
    };
    let (program, rest) = argv.split_first()?;
    if is_runner(program) {
        return Some(rest);
    }
    let npx = base_name(program) == "npx";
    if !npx && !is_node(program) {
        return None;
    }
    let mut value = false;
    let at = rest.iter().position(|word| {
        let own = value || word.starts_with('-');
        value = !value && !npx && WITH_VALUE.contains(&word.as_str());
        !own
    })?;
    is_runner(rest.get(at)?).then(|| rest.get(at + 1..).unwrap_or_default())
}

/// The command with more options at the end of the runner's own, where they win and take nothing for their values.
fn with_options(argv: &[String], options: &[String]) -> Vec<String> {
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let mut out = argv.get(..end).unwrap_or_default().to_vec();
    out.extend_from_slice(options);
    out.extend_from_slice(argv.get(end..).unwrap_or_default());
    out
}

/// `own`: what is named by the run's number: the reporter, and the canary where that is a file of its own.
fn run(argv: &[String], options: &[String], own: Vec<(String, &str)>, report: &str) -> Run {
    let mut run = Run::plain(&with_options(argv, options));
    let shared = [("countersign_lines.cjs".to_owned(), LINES), ("countersign_lies.cjs".to_owned(), LIES)];
    run.overlay = own
        .into_iter()
        .chain(shared)
        .map(|(path, content)| OverlayFile { path, content: content.to_owned(), executable: false })
        .collect();
    run.report =
        Some(ReportPlan { source: ReportSource::File(report.to_owned()), format: ReportFormat::Lines });
    run
}

impl Adapter for Mocha {
    fn name(&self) -> &'static str {
        "mocha"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        arguments(argv, "mocha").is_some_and(|own| !own.iter().any(|w| w == "--watch" || w == "-w"))
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let reporter = format!("countersign_{nonce}.cjs");
        let options = ["--reporter".to_owned(), verifier(&reporter)];
        run(argv, &options, vec![(reporter, include_str!("overlay/mocha_reporter.cjs"))], "mocha")
    }

    fn in_process(&self) -> bool {
        true
    }
}

impl Adapter for Jest {
    fn name(&self) -> &'static str {
        "jest"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        let stays = |word: &String| word.starts_with("--watch") || word.starts_with("--reporters");
        arguments(argv, "jest").is_some_and(|own| !own.iter().any(stays))
    }

    /// `--ci`: a snapshot that is missing fails instead of being written.
    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let reporter = format!("countersign_{nonce}.cjs");
        let options = [
            "--ci".to_owned(),
            "--reporters=default".to_owned(),
            format!("--reporters={}", verifier(&reporter)),
        ];
        let canary = format!("countersign_canary_{nonce}.cjs");
        let own = vec![
            (reporter, include_str!("overlay/jest_reporter.cjs")),
            (canary, include_str!("overlay/jest_canary.cjs")),
        ];
        run(argv, &options, own, "jest")
    }

    fn in_process(&self) -> bool {
        true
    }
}

impl Adapter for Vitest {
    fn name(&self) -> &'static str {
        "vitest"
    }

    /// Without `run` it may stay and watch.
    fn recognises(&self, argv: &[String]) -> bool {
        arguments(argv, "vitest").is_some_and(|own| own.iter().any(|word| word == "run" || word == "--run"))
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let reporter = format!("countersign_{nonce}.mjs");
        let options = ["--reporter=default".to_owned(), format!("--reporter={}", verifier(&reporter))];
        let canary = format!("countersign_canary_{nonce}.mjs");
        let own = vec![
            (reporter, include_str!("overlay/vitest_reporter.mjs")),
            (canary, include_str!("overlay/vitest_canary.mjs")),
        ];
        run(argv, &options, own, "vitest")
    }

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
    fn a_runner_is_recognised_however_it_is_started() {
        for line in [
            "mocha",
            "node_modules/.bin/mocha --recursive",
            "npx --no-install mocha test",
            "node node_modules/mocha/bin/mocha.js",
            "node -r ./setup.js node_modules/mocha/bin/_mocha spec",
        ] {
            assert!(Mocha.recognises(&words(line)), "{line}");
            assert!(!Jest.recognises(&words(line)) && !Vitest.recognises(&words(line)), "{line}");
        }
        assert!(Jest.recognises(&words("node --experimental-vm-modules node_modules/jest/bin/jest.js a")));
        assert!(Vitest.recognises(&words("node node_modules/vitest/vitest.mjs run")));
        for line in ["npm test", "mocha --watch", "node mocha-like.js", "sh -c mocha", "npx eslint mocha"] {
            assert!(!Mocha.recognises(&words(line)), "{line}");
        }
        assert!(!Jest.recognises(&words("jest --watchAll")) && !Vitest.recognises(&words("vitest")));
    }

    #[test]
    fn options_come_last_and_in_front_of_what_is_not_the_runners() {
        assert_eq!(
            Mocha.run(&words("mocha test -- x"), "N").argv.join(" "),
            "mocha test --reporter /run/countersign/verifier/countersign_N.cjs -- x"
        );
        assert_eq!(
            Jest.run(&words("npx jest a"), "N").argv.join(" "),
            "npx jest a --ci --reporters=default --reporters=/run/countersign/verifier/countersign_N.cjs"
        );
        let run = Vitest.run(&words("vitest run"), "N");
        assert!(run.argv.join(" ").ends_with("--reporter=/run/countersign/verifier/countersign_N.mjs"));
        let brought: Vec<&str> = run.overlay.iter().map(|file| file.path.as_str()).collect();
        let shared = ["countersign_lines.cjs", "countersign_lies.cjs"];
        assert_eq!(brought, [&["countersign_N.mjs", "countersign_canary_N.mjs"], &shared[..]].concat());
    }
}
