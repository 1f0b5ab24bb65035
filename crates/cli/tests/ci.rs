//! The scripts of `docs/ci.md`, taken from the page as they stand there and run on a real repository.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::Place;
use project::{CHECK, PROJECT, git, repository};
use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/ci.md");

/// The first code block of a section that is written in `language`.
fn block(section: &str, language: &str) -> String {
    let section = PAGE.split(&format!("\n## {section}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// The steps of a workflow that run a script: name and script.
fn steps(workflow: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.trim().strip_prefix("- name: ") {
            steps.push((name.to_owned(), String::new()));
        }
        if line.trim() == "run: |" {
            let indent = line.len() - line.trim_start().len();
            let deeper =
                |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
            while let Some(line) = lines.next_if(deeper) {
                let script = &mut steps.last_mut().unwrap().1;
                script.push_str(line.get(indent + 2..).unwrap_or_default());
                script.push('\n');
            }
        }
    }
    steps
}

/// A clone whose branch `fix` goes to `origin/main`, as a CI machine has it.
fn clone(place: &Place) -> PathBuf {
    let origin = repository(place, PROJECT);
    git(&origin, &["branch", "--move", "--force", "main"]);
    let clone = place.path("clone");
    git(place.dir.path(), &["clone", "--quiet", origin.to_str().unwrap(), clone.to_str().unwrap()]);
    git(&clone, &["checkout", "--quiet", "-b", "fix"]);
    // The base goes on meanwhile: what others did is no part of this work.
    std::fs::write(origin.join("README"), "Somebody else's.\n").unwrap();
    git(&origin, &["commit", "--quiet", "--all", "--message", "elsewhere"]);
    git(&clone, &["fetch", "--quiet"]);
    clone
}

fn commit(clone: &Path, command: &str) {
    assert!(Command::new("sh").args(["-c", command]).current_dir(clone).status().unwrap().success());
    git(clone, &["add", "--all"]);
    git(clone, &["commit", "--quiet", "--message", "work"]);
}

/// bash as CI starts it: in the clone, the three programs in the path.
fn bash(place: &Place, clone: &Path, script: &str, env: &[(&str, &str)]) -> Output {
    let path = format!("{}:{}", place.bin.display(), std::env::var("PATH").unwrap());
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(clone)
        .env_clear()
        .env("PATH", path)
        .env("HOME", place.path("user"))
        .env("COUNTERSIGN_HOME", place.path("home"))
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

const FIX: &str = "echo 42 > answer";
const CHEAT: &str = "echo 'exit 0' > tests/check.sh";

#[test]
fn the_shell_job_judges_a_branch_against_where_it_left_the_base() {
    let test = "the_shell_job_judges_a_branch_against_where_it_left_the_base";
    let Some(place) = project::place(test) else { return };
    let clone = clone(&place);
    let script = block("A shell job", "bash");
    let env = [("COUNTERSIGN_CHECK", CHECK), ("COUNTERSIGN_EXPECT", "fix")];
    commit(&clone, FIX);
    let output = bash(&place, &clone, &script, &env);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let result: Value =
        serde_json::from_slice(&std::fs::read(clone.join("countersign.json")).unwrap()).unwrap();
    assert_eq!(result["outcome"], "verified");
    assert_eq!(result["changes"]["paths"].as_array().unwrap().len(), 1, "{result}");
    let report = std::fs::read_to_string(clone.join("countersign.md")).unwrap();
    assert!(
        report.starts_with("## Countersign: `verified`") && report.contains("modified `answer`"),
        "{report}"
    );

    std::fs::remove_file(clone.join("countersign.json")).unwrap();
    std::fs::remove_file(clone.join("countersign.md")).unwrap();
    commit(&clone, CHEAT);
    let output = bash(&place, &clone, &script, &env);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let report = std::fs::read_to_string(clone.join("countersign.md")).unwrap();
    assert!(report.contains("`tampered`") && report.contains("tests/check.sh"), "{report}");
}

#[test]
fn the_workflow_writes_its_report_and_fails_as_the_gate_does() {
    let Some(place) = project::place("the_workflow_writes_its_report_and_fails_as_the_gate_does") else {
        return;
    };
    let clone = clone(&place);
    // A guard has to be green on the base, too.
    git(&clone, &["reset", "--quiet", "--hard", "origin/main"]);
    commit(&clone, FIX);
    git(&clone, &["push", "--quiet", "--force", "origin", "HEAD:refs/heads/release"]);
    git(&clone, &["fetch", "--quiet"]);
    let steps = steps(&block("GitHub Actions", "yaml"));
    assert_eq!(steps.len(), 3, "{steps:?}");
    let (path_file, summary) = (place.write("github-path", ""), place.write("summary.md", ""));
    let bin = place.bin.display().to_string();
    let env = [
        ("COUNTERSIGN_CHECK", CHECK),
        ("COUNTERSIGN_BIN", &bin),
        ("GITHUB_BASE_REF", "release"),
        ("GITHUB_PATH", path_file.to_str().unwrap()),
        ("GITHUB_STEP_SUMMARY", summary.to_str().unwrap()),
    ];
    let play = || {
        let mut last = None;
        for (name, script) in &steps {
            assert!(!script.is_empty(), "{name}");
            // This machine is not a test's to change.
            if script.contains("sudo") {
                continue;
            }
            let output = bash(&place, &clone, script, &env);
            last = output.status.code();
            if last != Some(0) {
                break;
            }
        }
        (last, std::fs::read_to_string(&summary).unwrap())
    };
    commit(&clone, "echo more > notes");
    let (code, report) = play();
    assert_eq!(std::fs::read_to_string(&path_file).unwrap().trim(), bin);
    assert!(
        code == Some(0) && report.contains("`verified`") && report.contains("added `notes`"),
        "{code:?} {report}"
    );
    commit(&clone, "echo 43 > answer");
    let (code, report) = play();
    assert!(code == Some(2) && report.contains("`check_failed`"), "{code:?} {report}");
}

/// Each job has a home of its own, as on two machines; only the artifact goes from one to the other.
#[test]
fn two_jobs_work_and_judge_and_only_the_second_is_believed() {
    let Some(place) = project::place("two_jobs_work_and_judge_and_only_the_second_is_believed") else {
        return;
    };
    let clone = clone(&place);
    let steps = steps(&block("An agent in CI, in two jobs", "yaml"));
    assert_eq!(steps.len(), 4, "{steps:?}");
    let key = place.path("signing-key");
    assert_eq!(place.run(&["key", "new", key.to_str().unwrap()]).code, Some(0));
    let public: Value =
        serde_json::from_str(&place.run(&["key", "show", key.to_str().unwrap(), "--format", "json"]).stdout)
            .unwrap();
    let secret = std::fs::read_to_string(&key).unwrap();
    let play = |name: &str, turns: Value, meddle: &dyn Fn(&Path)| -> Vec<(String, Option<i32>, String)> {
        let model = project::script(&place, &format!("{name}.json"), &turns);
        let temp = place.path(&format!("{name}-temp"));
        std::fs::create_dir(&temp).unwrap();
        let temp_text = temp.to_str().unwrap();
        let mut ended = Vec::new();
        for (number, (step, script)) in steps.iter().enumerate() {
            let job = if number == 0 { "work" } else { "judge" };
            let home = place.path(&format!("{name}-{job}-home"));
            let mut env = vec![
                ("RUNNER_TEMP", temp_text),
                ("COUNTERSIGN_CHECK", CHECK),
                ("COUNTERSIGN_HOME", home.to_str().unwrap()),
                ("GIT_CONFIG_NOSYSTEM", "1"),
            ];
            if number == 0 {
                env.extend([("TASK", "make it 42"), ("COUNTERSIGN_MODEL", model.as_str())]);
            } else {
                env.push(("COUNTERSIGN_SIGNING_KEY", secret.as_str()));
                env.push(("COUNTERSIGN_VERIFIER", public["openssh"].as_str().unwrap()));
            }
            let output = bash(&place, &clone, script, &env);
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            ended.push((step.clone(), output.status.code(), said));
            if number == 0 {
                meddle(&temp);
            } else if output.status.code() != Some(0) {
                break;
            }
        }
        ended
    };
    let pushed = || !git(&place.path("repo"), &["branch", "--list", "countersign/work"]).is_empty();

    // The first job lies about a failure: its bundle says what it says, and the second job does not believe it.
    let lie = serde_json::json!([project::edit("answer", "41", "40"), project::finish("Done.")]);
    let ended = play("lie", lie, &|_| ());
    assert_eq!(ended[0].1, Some(2), "{ended:?}");
    assert!(ended.last().unwrap().1 != Some(0) && !pushed(), "{ended:?}");
    // A bundle that was changed on its way.
    let fix = || serde_json::json!([project::edit("answer", "41", "42"), project::finish("Done.")]);
    let ended = play("touched", fix(), &|temp| {
        let script = "mkdir x && tar -xf bundle.tar -C x && sed -i s/42/43/ x/patch.diff && tar -cf bundle.tar -C x . && rm -r x";
        assert!(Command::new("sh").args(["-c", script]).current_dir(temp).status().unwrap().success());
    });
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended[1].1 == Some(1) && !pushed(), "{ended:?}");
    // A fix.
    let ended = play("fix", fix(), &|_| ());
    assert!(ended.iter().all(|(_, code, _)| *code == Some(0)) && ended.len() == 4, "{ended:?}");
    assert!(pushed());
    let repo = place.path("repo");
    assert_eq!(git(&repo, &["show", "countersign/work:answer"]), "42");
    assert!(
        git(&repo, &["log", "-1", "--format=%B", "countersign/work"])
            .contains("Countersign-Outcome: verified")
    );
}

#[test]
fn the_hook_lets_through_what_is_verified_and_nothing_else() {
    let Some(place) = project::place("the_hook_lets_through_what_is_verified_and_nothing_else") else {
        return;
    };
    let clone = clone(&place);
    let hook = clone.join(".git/hooks/pre-push");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, block("A git hook", "sh")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let push = |what: &[&str]| {
        let script = format!("git push --quiet origin {}", what.join(" "));
        let output = bash(&place, &clone, &script, &[("GIT_CONFIG_NOSYSTEM", "1")]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let there = |branch: &str| !git(&place.path("repo"), &["branch", "--list", branch]).is_empty();

    commit(&clone, CHEAT);
    // Without a check in the configuration the hook is no hook.
    assert!(push(&["HEAD:refs/heads/early"]).0);
    git(&clone, &["config", "countersign.check", CHECK]);
    git(&clone, &["config", "countersign.expect", "fix"]);
    let (pushed, said) = push(&["HEAD:refs/heads/cheat"]);
    assert!(!pushed && !there("cheat") && said.contains("exit code 9"), "{said}");
    assert!(push(&["--no-verify", "HEAD:refs/heads/cheat"]).0);
    // A branch that is deleted, and one without a change of its own, have nothing to judge.
    assert!(push(&[":refs/heads/cheat"]).0 && !there("cheat"));
    assert!(push(&["origin/main:refs/heads/same"]).0 && there("same"));

    git(&clone, &["reset", "--quiet", "--hard", "HEAD~1"]);
    commit(&clone, FIX);
    let (pushed, said) = push(&["HEAD:refs/heads/fix"]);
    assert!(pushed && there("fix"), "{said}");
    // One bad branch among several keeps all of them back.
    commit(&clone, "echo 43 > answer");
    let (pushed, said) = push(&["HEAD~1:refs/heads/one", "HEAD:refs/heads/two"]);
    assert!(!pushed && !there("one") && !there("two") && said.contains("exit code 2"), "{said}");
}
