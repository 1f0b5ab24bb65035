//! `diff` and `apply`: a session's patch in the user's own repository, one commit of it, and what applying never starts.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/pty.rs"]
mod pty;

use std::path::{Path, PathBuf};

use common::{Ended, Place};
use project::{CHECK, PROJECT, checked, edit, finish, git, repository, script, sh, snapshot, until};
use pty::{Pty, without_terminal};
use serde_json::{Value, json};

/// A verified session on [`PROJECT`] whose agent ran `command` before it fixed the answer.
fn fixed(place: &Place, command: &str) -> String {
    repository(place, PROJECT);
    let turns = json!([sh(command), edit("answer", "41", "42"), finish("It is 42 now.")]);
    let result = checked(place, &script(place, "m.json", &turns), &[]).ended("verified", "checks_passed");
    result["session"].as_str().unwrap().to_owned()
}

/// With a git identity and without a terminal.
fn apply(place: &Place, args: &[&str]) -> Ended {
    let mut command = place.command(&[&["apply"], args].concat());
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Ada")
            .env(format!("GIT_{role}_EMAIL"), "ada@example.invalid");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    Ended::of(without_terminal(&command).output().unwrap())
}

fn clone(place: &Place, name: &str) -> PathBuf {
    let dir = place.path(name);
    git(place.dir.path(), &["clone", "--quiet", "repo", dir.to_str().unwrap()]);
    dir
}

fn log(dir: &Path, format: &str) -> String {
    git(dir, &["log", "-1", &format!("--format={format}")])
}

#[test]
fn a_patch_is_tried_then_applied_in_a_clone_where_the_check_then_passes() {
    let test = "a_patch_is_tried_then_applied_in_a_clone_where_the_check_then_passes";
    let Some(place) = project::place(test) else { return };
    let id = fixed(&place, "true");
    let dir = clone(&place, "clone");
    let at = dir.display().to_string();
    let before = snapshot(&dir);
    assert_eq!(apply(&place, &[&id, "--repo", &at, "--check"]).code, Some(0));
    assert_eq!(snapshot(&dir), before, "--check changes nothing");
    assert_eq!(apply(&place, &[&id, "--repo", &at]).code, Some(0));
    let check = std::process::Command::new("sh").args(["tests/check.sh"]).current_dir(&dir).status().unwrap();
    assert!(check.success(), "{CHECK} passes where the patch was applied");
    assert_eq!(git(&dir, &["rev-list", "--count", "HEAD"]), "1", "applying commits nothing");
}

#[test]
fn a_commit_is_one_commit_by_the_user_that_names_session_outcome_and_strength() {
    let test = "a_commit_is_one_commit_by_the_user_that_names_session_outcome_and_strength";
    let Some(place) = project::place(test) else { return };
    let id = fixed(&place, "mkdir d; printf 'a\\0b' > d/bin; chmod +x README");
    let dir = clone(&place, "clone");
    let at = dir.display().to_string();
    // What else is staged and changed stays as it is, and no hook sees the commit.
    std::fs::write(dir.join("mine"), "staged\n").unwrap();
    git(&dir, &["add", "mine"]);
    std::fs::write(dir.join("loose"), "not staged\n").unwrap();
    let hook = |name: &str| {
        let path = dir.join(".git/hooks").join(name);
        std::fs::write(&path, format!("#!/bin/sh\ntouch '{at}/ran-{name}'\nexit 1\n")).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    for name in ["pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"] {
        hook(name);
    }
    let ended = apply(&place, &[&id, "--repo", &at, "--commit"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        !std::fs::read_dir(&dir)
            .unwrap()
            .any(|e| { e.unwrap().file_name().to_string_lossy().starts_with("ran-") })
    );
    std::fs::remove_dir_all(dir.join(".git/hooks")).unwrap();
    assert_eq!(git(&dir, &["rev-list", "--count", "HEAD"]), "2", "exactly one commit");
    assert_eq!(log(&dir, "%an <%ae>, %cn, %s"), "Ada <ada@example.invalid>, Ada, make it 42");
    let trailers = log(&dir, "%(trailers:only)");
    let result: Value = serde_json::from_str(&place.run(&["show", &id, "--format", "json"]).stdout).unwrap();
    let (tree, level) = (&result["result"]["tree"], &result["result"]["strength"]["level"]);
    for line in [
        format!("Countersign-Session: {id}"),
        "Countersign-Outcome: verified (checks_passed)".to_owned(),
        format!("Countersign-Strength: {} (in process)", level.as_str().unwrap()),
        format!("Countersign-Tree: {}", tree.as_str().unwrap()),
    ] {
        assert!(trailers.lines().any(|trailer| trailer == line), "{line}: {trailers}");
    }
    let changed = git(&dir, &["diff-tree", "--no-commit-id", "--name-only", "-r", "HEAD"]);
    assert_eq!(changed.lines().collect::<Vec<_>>(), ["README", "answer", "d/bin"]);
    assert_eq!(git(&dir, &["status", "--porcelain"]), "A  mine\n?? loose");
    let again = apply(&place, &[&id, "--repo", &at, "--commit"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert_eq!(git(&dir, &["rev-list", "--count", "HEAD"]), "2", "no second commit");
}

#[test]
fn a_commit_is_refused_where_it_could_not_be_the_users_alone() {
    let Some(place) = project::place("a_commit_is_refused_where_it_could_not_be_the_users_alone") else {
        return;
    };
    let id = fixed(&place, "true");
    let dir = clone(&place, "clone");
    let at = dir.display().to_string();
    let refused = |why: &str, code: i32| {
        let before = (git(&dir, &["rev-parse", "HEAD"]), git(&dir, &["status", "--porcelain"]));
        let ended = apply(&place, &[&id, "--repo", &at, "--commit"]);
        assert!(ended.code == Some(code) && ended.stderr.contains(why), "{why}: {ended:?}");
        assert_eq!((git(&dir, &["rev-parse", "HEAD"]), git(&dir, &["status", "--porcelain"])), before);
    };
    // Staged, but the same in the work tree as in HEAD: the index is asked too.
    std::fs::write(dir.join("answer"), "40\n").unwrap();
    git(&dir, &["add", "answer"]);
    refused("answer is not what it was in the base", 2);
    git(&dir, &["reset", "--quiet", "--hard"]);
    std::fs::write(dir.join(".git/MERGE_HEAD"), git(&dir, &["rev-parse", "HEAD"])).unwrap();
    refused("in the middle of something (MERGE_HEAD)", 2);
    std::fs::remove_file(dir.join(".git/MERGE_HEAD")).unwrap();
    // Without an identity no name is made up.
    let mut command = place.command(&["apply", &id, "--repo", &at, "--commit"]);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ended = Ended::of(without_terminal(&command).output().unwrap());
    assert!(ended.code == Some(2) && ended.stderr.contains("git does not know who you are"), "{ended:?}");
    assert_eq!(git(&dir, &["status", "--porcelain"]), "");
    let plain = place.write("plain/answer", "41\n");
    let plain = plain.parent().unwrap().display().to_string();
    let ended = apply(&place, &[&id, "--repo", &plain, "--commit"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("--commit needs a git repository"), "{ended:?}");
}

#[test]
fn a_moved_base_is_explained_by_the_files_that_the_patch_needs() {
    let Some(place) = project::place("a_moved_base_is_explained_by_the_files_that_the_patch_needs") else {
        return;
    };
    let id = fixed(&place, "echo new > made; rm README");
    let dir = clone(&place, "clone");
    let at = dir.display().to_string();
    std::fs::write(dir.join("answer"), "7\n").unwrap();
    std::fs::write(dir.join("made"), "mine\n").unwrap();
    git(&dir, &["add", "--all"]);
    git(&dir, &["commit", "--quiet", "--message", "moved on"]);
    let before = snapshot(&dir);
    for extra in [&[][..], &["--check"], &["--commit"]] {
        let ended = apply(&place, &[&[&id, "--repo", &at][..], extra].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        for part in [
            "answer is not what it was in the base",
            "made exists already, and the patch makes it",
            "and the patch was made from",
            &format!("countersign diff {id} | git apply --3way"),
        ] {
            assert!(ended.stderr.contains(part), "{part}: {ended:?}");
        }
        assert!(!ended.stderr.contains("README is"), "what did not move is not named: {ended:?}");
    }
    let mut after = snapshot(&dir);
    // `--commit` lets git look at the times of files again.
    after.insert(dir.join(".git/index"), before[&dir.join(".git/index")].clone());
    assert_eq!(after, before, "nothing was changed");
}

#[test]
fn files_that_start_by_themselves_need_a_yes_at_the_terminal_or_a_flag() {
    let test = "files_that_start_by_themselves_need_a_yes_at_the_terminal_or_a_flag";
    let Some(place) = project::place(test) else { return };
    let starting = [
        (".envrc", "a shell loads it"),
        (".github/workflows/ci.yml", "a CI service reads it"),
        (".vscode/tasks.json", "an editor may start it"),
        ("Makefile", "a build tool runs"),
        ("package.json", "these scripts on an install: postinstall"),
        ("tools/clean.sh", "your git configuration starts it (filter.fmt.clean)"),
        ("tools/hook", "a link in your git directory makes it a hook"),
    ];
    let id = fixed(
        &place,
        "mkdir -p .github/workflows .vscode tools; for f in .envrc .github/workflows/ci.yml .vscode/tasks.json Makefile \
         tools/clean.sh tools/hook tools/ordinary; do echo x > $f; done; \
         echo '{\"scripts\":{\"postinstall\":\"x\"}}' > package.json",
    );
    let dir = clone(&place, "clone");
    let at = dir.display().to_string();
    git(&dir, &["config", "filter.fmt.clean", "sh tools/clean.sh"]);
    std::os::unix::fs::symlink("../../tools/hook", dir.join(".git/hooks/pre-push")).unwrap();
    let told = |ended: &Ended| {
        for (path, who) in starting {
            assert!(
                ended
                    .stderr
                    .lines()
                    .any(|line| line.contains(&format!("look at {path} ")) && line.contains(who)),
                "{path}: {ended:?}"
            );
        }
        assert!(!ended.stderr.contains("tools/ordinary"), "{ended:?}");
    };
    let refused = apply(&place, &[&id, "--repo", &at]);
    assert!(refused.code == Some(1) && refused.stderr.contains("--accept-self-starting"), "{refused:?}");
    told(&refused);
    assert_eq!(git(&dir, &["status", "--porcelain"]), "", "nothing was written");
    told(&apply(&place, &[&id, "--repo", &at, "--check"]));
    for (answer, code, status) in [("n\n", 1, false), ("\n", 1, false), ("y\n", 0, true)] {
        let command = place.command(&["apply", &id, "--repo", &at]);
        let (mut pty, child) = Pty::start(&command);
        until("the question", || pty.shown().contains("Write them? [y/N]"));
        pty.type_in(answer);
        let ended = project::ended(child);
        assert_eq!(ended.code, Some(code), "{answer:?}: {ended:?}");
        assert_eq!(!git(&dir, &["status", "--porcelain"]).is_empty(), status, "{answer:?}");
    }
    let other = clone(&place, "other").display().to_string();
    let ended = apply(&place, &[&id, "--repo", &other, "--accept-self-starting"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn applying_starts_nothing_that_the_patch_brings() {
    let Some(place) = project::place("applying_starts_nothing_that_the_patch_brings") else { return };
    // The user's own filter runs a script of the repository; the patch changes the script and whom it filters.
    let dir = repository(
        &place,
        &[
            PROJECT[0],
            PROJECT[1],
            ("a/filter.sh", "#!/bin/sh\ncat\n"),
            (".gitattributes", "zz* filter=own\n"),
        ],
    );
    let id = fixed(
        &place,
        "printf '#!/bin/sh\\ntouch ran; cat\\n' > a/filter.sh; echo x > zz; echo '* filter=own' > .gitattributes; \
         mkdir hooks; printf '#!/bin/sh\\ntouch ran\\n' > hooks/post-index-change; chmod +x hooks/post-index-change",
    );
    for (key, value) in [
        ("filter.own.clean", "a/filter.sh"),
        ("filter.own.smudge", "a/filter.sh"),
        ("filter.own.process", "a/filter.sh"),
        ("filter.own.required", "true"),
        ("core.hooksPath", "hooks"),
        ("core.fsmonitor", "a/filter.sh"),
        ("diff.own.textconv", "a/filter.sh"),
    ] {
        git(&dir, &["config", key, value]);
    }
    let ended = apply(&place, &[&id, "--commit", "--accept-self-starting"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!dir.join("ran").exists(), "what the patch brought was started");
    assert_eq!(std::fs::read_to_string(dir.join("zz")).unwrap(), "x\n");
    // The trap works: git itself falls into it.
    let _ = std::process::Command::new("git").args(["add", "zz", "answer"]).current_dir(&dir).output();
    let _ = std::process::Command::new("git").args(["status"]).current_dir(&dir).output();
    assert!(dir.join("ran").exists(), "this test could not have failed");
}
