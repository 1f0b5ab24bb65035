//! `python -m unittest`: the same program started by a module of ours, which gives it a result class that reports.

use countersign_guest::protocol::{OverlayFile, ReportFormat, VERIFIER_DIR};

use super::pytest::ignores_environment;
use super::{Adapter, ReportPlan, ReportSource, Run};
use crate::runner::{base_name, is_python, module_position};

#[derive(Debug)]
pub(super) struct Unittest;

const RUNNER: &str = include_str!("overlay/unittest_runner.py");
const CANARY: &str = include_str!("overlay/unittest_canary.py");

/// The word that names the module.
fn module_at(argv: &[String]) -> Option<usize> {
    let (program, rest) = argv.split_first()?;
    let (module, at) = module_position(rest).filter(|_| is_python(base_name(program)))?;
    // An interpreter that ignores its environment cannot be shown where the module lies.
    (module == "unittest" && !ignores_environment(&rest[..at])).then_some(at + 1)
}

impl Adapter for Unittest {
    fn name(&self) -> &'static str {
        "unittest"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        module_at(argv).is_some()
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let Some(at) = module_at(argv) else { return Run::plain(argv) };
        let module = format!("countersign_{nonce}");
        let mut run = Run::plain(argv);
        if let Some(word) = run.argv.get_mut(at) {
            let joined = if word.starts_with("-m") { "-m" } else { "" };
            *word = format!("{joined}{module}");
        }
        run.front.insert("PYTHONPATH".to_owned(), VERIFIER_DIR.to_owned());
        let file = |path: String, content: &str| OverlayFile {
            path,
            content: content.to_owned(),
            executable: false,
        };
        run.overlay = vec![
            file(format!("{module}.py"), RUNNER),
            file(format!("countersign_canary_{nonce}.py"), CANARY),
        ];
        run.report = Some(ReportPlan {
            source: ReportSource::File("unittest".to_owned()),
            format: ReportFormat::Lines,
        });
        run
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
    fn our_module_takes_the_place_of_unittest() {
        for (line, expected) in [
            ("python3 -m unittest", "python3 -m countersign_N"),
            ("python3 -B -munittest -v tests.a", "python3 -B -mcountersign_N -v tests.a"),
            ("python -W error -m unittest discover -s t", "python -W error -m countersign_N discover -s t"),
        ] {
            assert_eq!(Unittest.run(&words(line), "N").argv, words(expected));
        }
        for line in ["python tests.py", "python -I -m unittest", "python -m unittest.main", "sh -m unittest"]
        {
            assert!(!Unittest.recognises(&words(line)), "{line}");
        }
    }
}
