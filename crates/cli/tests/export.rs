//! `export`: a package of ended work for a reviewer elsewhere, whole or not at all.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::path::Path;
use std::process::Command;

use project::{PROJECT, checked, edit, finish, git, kill, repository, script, sh, snapshot, under_way};
use serde_json::{Value, json};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_package_holds_all_that_a_reviewer_needs_and_its_digests_are_one() {
    let test = "a_package_holds_all_that_a_reviewer_needs_and_its_digests_are_one";
    let Some(place) = project::place(test) else { return };
    repository(&place, PROJECT);
    let turns = json!([
        sh(
            "printf 'a\\0b' > bin; ln -s answer link; chmod +x README; mkdir d; mv bin d/bin; echo said-by-the-agent"
        ),
        edit("answer", "41", "42"),
        finish("It is 42 now.")
    ]);
    let result = checked(&place, &script(&place, "m.json", &turns), &[]).ended("verified", "checks_passed");
    let id = result["session"].as_str().unwrap();
    let before = snapshot(&place.path("home/sessions"));
    let ended = place.run(&["export", id, "out", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(snapshot(&place.path("home/sessions")), before, "an export changes nothing of the session");
    let dir = place.path("out");
    let index: Value = serde_json::from_str(&read(&dir.join("export.json"))).unwrap();
    assert_eq!(index, serde_json::from_str::<Value>(&ended.stdout).unwrap());
    for (name, sha256) in index["files"].as_object().unwrap() {
        let output = Command::new("sha256sum").arg(dir.join(name)).output().unwrap();
        assert!(output.stdout.starts_with(sha256.as_str().unwrap().as_bytes()), "{name}");
    }
    // Base and patch by git, and the tree by another command: the same digest as what was delivered and verified.
    let clone = place.path("clone");
    git(place.dir.path(), &["clone", "--quiet", "repo", "clone"]);
    git(&clone, &["apply", dir.join("patch.diff").to_str().unwrap()]);
    let gate = place.run(&[
        "gate",
        "--trust",
        "trusted-local",
        "--repo",
        "repo",
        "--base",
        "HEAD",
        "--tree",
        "clone",
        "--check",
        project::CHECK,
        "--format",
        "json",
    ]);
    let judged = gate.ended("verified", "checks_passed");
    for tree in [&index["delivered_tree"], &index["verified_tree"], &judged["tree"]] {
        assert_eq!(tree, &result["tree"]);
    }
    // The signed evidence is whole where it is now.
    let bundle = dir.join(index["bundle"].as_str().unwrap());
    let verified = place.run(&["verify", bundle.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["intact"], true, "{report}");
    assert!(read(&dir.join("REVIEW.md")).contains("`verified`"));
    assert!(read(&dir.join("transcript.txt")).contains("said-by-the-agent"));
    let shown: Value = serde_json::from_str(&read(&dir.join("result.json"))).unwrap();
    assert_eq!((&shown["patch"]["path"], &shown["tree"]), (&json!("patch.diff"), &result["tree"]));
    let all = snapshot(&dir);
    let home = place.path("home").display().to_string();
    assert!(
        all.iter().all(|(path, (_, bytes))| {
            path.starts_with(&bundle) || !String::from_utf8_lossy(bytes).contains(&home)
        }),
        "nothing outside of the evidence names the home"
    );
    for (what, again) in [("the same directory", "out"), ("a file", "out/patch.diff"), ("no parent", "a/b")] {
        let refused = place.run(&["export", id, again]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{what}: {refused:?}");
    }
    assert_eq!(snapshot(&dir), all, "a second export leaves the first as it is");
    let left: Vec<_> = std::fs::read_dir(place.dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".countersign"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // What was changed since is not handed on.
    std::fs::write(place.path("home/sessions").join(id).join(format!("{id}.bundle/result.json")), "{}")
        .unwrap();
    let damaged = place.run(&["export", id, "late"]);
    assert!(damaged.code == Some(13) && damaged.stderr.contains("was changed"), "{damaged:?}");
    assert!(!place.path("late").exists());
}

#[test]
fn only_ended_work_is_exported_whatever_its_outcome() {
    let Some(place) = project::place("only_ended_work_is_exported_whatever_its_outcome") else { return };
    let (child, _) = under_way(&place);
    let rows: Value = serde_json::from_str(&place.run(&["list", "--format", "json"]).stdout).unwrap();
    let id = rows[0]["session"].as_str().unwrap().to_owned();
    let refused = place.run(&["export", &id, "out"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("running"), "{refused:?}");
    kill("TERM", child.id());
    project::ended(child).ended("parked", "drained");
    let refused = place.run(&["export", &id, "out"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("countersign resume"), "{refused:?}");
    assert!(!place.path("out").exists());
    for (outcome, turns) in [
        ("unverified", json!([edit("answer", "41", "40"), finish("Done.")])),
        ("unverified", json!([finish("Done.")])),
    ] {
        let result = checked(&place, &script(&place, "m.json", &turns), &[]).json();
        assert_eq!(result["outcome"], outcome);
        let id = result["session"].as_str().unwrap();
        let dir = format!("out-{id}");
        assert_eq!(place.run(&["export", id, &dir]).code, Some(0));
        let dir = place.path(&dir);
        assert_eq!(dir.join("patch.diff").exists(), result["patch"].is_object());
        if result["reason"] == "check_failed" {
            assert!(read(&dir.join("checks/try1-check0-final.stdout")).contains("FAILED: not 42"));
        }
    }
    let refused = checked(&place, "scripted:/nowhere", &[]).ended("setup_error", "usage");
    let id = refused["session"].as_str().unwrap();
    let ended = place.run(&["export", id, "refused"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(read(&place.path("refused/REVIEW.md")).contains("`setup_error`"));
}
