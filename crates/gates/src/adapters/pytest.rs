//! pytest: a plug-in of ours, loaded by name before anything of the project.
//!
//! Plug-ins that the environment declares still load (`PYTEST_DISABLE_PLUGIN_AUTOLOAD` is not set): a project's tests may
//! need them, and what could add one, a distribution's metadata in the tree or a `conftest.py`, is the fence's. The
//! project's own configuration counts for the same reason. Nothing of the host's reaches the room: `HOME`, the
//! environment and the directories above the workspace are the cell's own.

use countersign_guest::protocol::{OverlayFile, ReportFormat, VERIFIER_DIR};

use super::{Adapter, ReportPlan, ReportSource, Run, with_after};
use crate::runner::{base_name, is_python, module_position};

#[derive(Debug)]
pub(super) struct Pytest;

const PLUGIN: &str = include_str!("overlay/pytest_plugin.py");
const CANARY: &str = include_str!("overlay/pytest_canary.py");

/// The word behind which pytest's own arguments begin.
fn runner_at(argv: &[String]) -> Option<usize> {
    let (program, rest) = argv.split_first()?;
    match base_name(program) {
        "pytest" | "py.test" => Some(0),
        // An interpreter that ignores its environment cannot be shown where the plug-in lies.
        name if is_python(name) => {
            let (module, at) = module_position(rest)?;
            let usable = matches!(module, "pytest" | "py.test") && !ignores_environment(&rest[..at]);
            usable.then_some(at + 1)
        }
        _ => None,
    }
}

/// `-I` and `-E`, also in a bundle, among the interpreter's own options.
pub(super) fn ignores_environment(options: &[String]) -> bool {
    let short = |option: &&String| {
        option.starts_with('-') && !["--", "-X", "-W", "-m"].iter().any(|o| option.starts_with(o))
    };
    options.iter().filter(short).any(|option| option.contains(['I', 'E']))
}

impl Adapter for Pytest {
    fn name(&self) -> &'static str {
        "pytest"
    }

    fn recognises(&self, argv: &[String]) -> bool {
        runner_at(argv).is_some()
    }

    fn run(&self, argv: &[String], nonce: &str) -> Run {
        let Some(at) = runner_at(argv) else { return Run::plain(argv) };
        let plugin = format!("countersign_{nonce}");
        let mut words = with_after(argv, at, &["-p", &plugin]);
        // Wins over `-x` and `--maxfail` in front of it: what is not run has no name.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.insert(end, "--maxfail=0".to_owned());
        let mut run = Run::plain(&words);
        // Behind the working directory on Python's path, which is why the name cannot be guessed.
        run.front.insert("PYTHONPATH".to_owned(), VERIFIER_DIR.to_owned());
        run.overlay = vec![
            OverlayFile { path: format!("{plugin}.py"), content: PLUGIN.to_owned(), executable: false },
            OverlayFile {
                path: format!("countersign_canary_{nonce}.py"),
                content: CANARY.to_owned(),
                executable: false,
            },
        ];
        run.report =
            Some(ReportPlan { source: ReportSource::File("pytest".to_owned()), format: ReportFormat::Lines });
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
    fn the_plug_in_stands_behind_the_runners_word() {
        for (line, expected) in [
            ("pytest -q tests", "pytest -p countersign_N -q tests --maxfail=0"),
            ("/v/bin/py.test", "/v/bin/py.test -p countersign_N --maxfail=0"),
            ("python3 -B -m pytest -x", "python3 -B -m pytest -p countersign_N -x --maxfail=0"),
            ("python -W error -mpytest -- a", "python -W error -mpytest -p countersign_N --maxfail=0 -- a"),
        ] {
            let run = Pytest.run(&words(line), "N");
            assert_eq!(run.argv, words(expected));
            assert_eq!(run.front["PYTHONPATH"], "/run/countersign/verifier");
            assert!(run.overlay.iter().all(|file| file.path.contains("_N")));
            assert_eq!(run.overlay_digest("N"), Pytest.run(&words(line), "M").overlay_digest("M"));
        }
    }

    #[test]
    fn what_cannot_load_a_plug_in_is_not_recognised() {
        for line in [
            "python -I -m pytest",
            "python -BE -m pytest",
            "python -W error -I -mpytest",
            "python pytest.py",
            "python -c pytest",
            "sh -c pytest",
            "uv run pytest",
            "python -m unittest",
        ] {
            assert!(!Pytest.recognises(&words(line)), "{line}");
        }
        assert!(Pytest.recognises(&words("python -X dev -WE -B -m pytest")));
    }
}
