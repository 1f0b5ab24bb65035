//! `countersign gate`: finished work that anyone made, judged as the work of an agent is judged.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Ended, Place};
use project::{CHECK, PROJECT, checked, finish, git, journal, repository, script, sh, snapshot};
use serde_json::{Value, json};

/// [`PROJECT`] with what a Python runner would load, and a rule about scratch.
const FILES: &[(&str, &str)] = &[
    PROJECT[0],
    PROJECT[1],
    PROJECT[2],
    (".gitignore", "*.log\n"),
    ("pyproject.toml", "[project]\nname = \"p\"\n"),
    ("pkg/test_answer.py", "def test_answer():\n    assert ANSWER == 42\n"),
    ("run.sh", "#!/bin/sh\n:\n"),
    ("crlf.txt", "one\r\ntwo\r\n"),
    ("data.bin", "\0\u{1}\0"),
];

/// The arguments of a gate on `repo/` with [`CHECK`]; neither the work nor a format is among them.
fn arguments(place: &Place, extra: &[&str]) -> Vec<String> {
    let repo = place.path("repo").display().to_string();
    let base = ["gate", "--trust", "trusted-local", "--repo", &repo, "--base", "main"];
    base.iter().chain(&["--check", CHECK, "--probe", "true"]).chain(extra).map(|w| (*w).to_owned()).collect()
}

fn gate(place: &Place, extra: &[&str]) -> Ended {
    let args = arguments(place, &[extra, &["--format", "json"]].concat());
    place.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// `repo/` on a branch that is called `main`.
fn base(place: &Place, files: &[(&str, &str)]) -> PathBuf {
    let repo = repository(place, files);
    git(&repo, &["branch", "--move", "--force", "main"]);
    repo
}

/// A linked work tree at `work-NAME/` in which `command` was run, committed on the branch NAME.
fn work(place: &Place, name: &str, command: &str) -> PathBuf {
    let repo = place.path("repo");
    let dir = place.path(&format!("work-{name}"));
    git(&repo, &["worktree", "add", "--quiet", "-b", name, dir.to_str().unwrap(), "main"]);
    let status = Command::new("sh").args(["-c", command]).current_dir(&dir).status().unwrap();
    assert!(status.success(), "{command}");
    git(&dir, &["add", "--all"]);
    git(&dir, &["commit", "--quiet", "--allow-empty", "--message", name]);
    dir
}

fn patch(place: &Place, name: &str) -> PathBuf {
    let output = Command::new("git")
        .args(["diff", "--binary", "main", name])
        .current_dir(place.path("repo"))
        .output()
        .unwrap();
    let path = place.path(&format!("{name}.patch"));
    std::fs::write(&path, output.stdout).unwrap();
    path
}

/// The same value without times, which nothing repeats, and without the rooms of a remembered base that was asked again.
fn timeless(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != "wall_ms")
            .map(|(key, value)| (key.clone(), timeless(value)))
            .collect(),
        Value::Array(all) => {
            let again = |(at, room): &(usize, &Value)| {
                room["role"] == "base"
                    && all[..*at].iter().any(|e| e["role"] == "base" && e["repeat"] == room["repeat"])
            };
            all.iter().enumerate().filter(|room| !again(room)).map(|(_, room)| timeless(room)).collect()
        }
        other => other.clone(),
    }
}

/// What a verdict says, whoever asked for it.
fn verdict(result: &Value) -> Value {
    let result = &timeless(result);
    let gates: Vec<Value> = ["seal", "fence", "scope", "change", "check"]
        .iter()
        .map(|key| json!([key, result["gates"][key]]))
        .collect();
    json!([
        result["outcome"],
        result["reason"],
        result["exit_code"],
        result["strength"],
        result["tree"],
        result["base"],
        result["patch"]["sha256"],
        result["changes"],
        result["findings"],
        gates
    ])
}

#[test]
fn an_agents_work_and_the_same_files_by_anyone_get_the_same_verdict() {
    let Some(place) = project::place("an_agents_work_and_the_same_files_by_anyone_get_the_same_verdict")
    else {
        return;
    };
    let repo = base(&place, FILES);
    let cases: &[(&str, &str, &[&str], &str, &str)] = &[
        ("fix", "echo 42 > answer", &[], "verified", "checks_passed"),
        (
            "odd",
            "echo 42 > answer; chmod +x README; chmod -x run.sh; ln -s answer link; printf 'a\\0\\377' > bin; \
             mkdir d; mv pyproject.toml d/moved.toml; printf 'a\\r\\nb' > crlf; : > empty; printf x > 'd/a \"b'; printf 'one\\r\\n2\\r\\n' > crlf.txt; \
             printf '\\1\\0\\377' > data.bin",
            &[],
            "verified",
            "checks_passed",
        ),
        ("wrong", "echo 43 > answer", &[], "unverified", "check_failed"),
        (
            "edited",
            "echo 42 > answer; printf 'exit 0\\n' > tests/check.sh",
            &[],
            "tampered",
            "protected_files",
        ),
        ("planted", "echo 42 > answer; : > conftest.py", &[], "tampered", "planted_runner_config"),
        (
            "outside",
            "echo 42 > answer; rm README; mkdir a; echo x > a/b",
            &["--scope", "answer"],
            "scope_violation",
            "paths",
        ),
        ("nothing", "true", &[], "unverified", "no_change"),
        ("weak", "echo 42 > answer", &["--min-strength", "ids"], "unverified", "too_weak"),
    ];
    for (name, command, extra, outcome, reason) in cases {
        let tree = work(&place, name, command);
        let before = snapshot(&repo);
        let model = script(&place, &format!("{name}.json"), &json!([sh(command), finish("Done.")]));
        let ran = checked(&place, &model, &[&["--probe", "true"], *extra].concat()).ended(outcome, reason);
        let patch = patch(&place, name);
        let forms: &[(&str, &str)] =
            &[("--head", name), ("--tree", tree.to_str().unwrap()), ("--patch", patch.to_str().unwrap())];
        for (flag, value) in forms {
            // Nothing to apply is refused before anything begins.
            if *name == "nothing" && *flag == "--patch" {
                continue;
            }
            let judged = gate(&place, &[&[*flag, *value], *extra].concat()).ended(outcome, reason);
            assert_eq!(verdict(&judged), verdict(&ran), "{name} {flag}");
            let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&judged), keys(&ran));
            assert_eq!((&judged["model"], &judged["answer"]), (&Value::Null, &Value::Null));
            assert_eq!(judged["usage"]["model_calls"], 0);
            assert_eq!(judged["usage"]["turns"], 0);
            assert_eq!(judged["gates"]["answer"]["status"], "absent");
            assert_eq!(judged["isolated"], true);
            assert_eq!(judged["candidate"]["kind"], flag.trim_start_matches("--"));
            let kinds: Vec<String> = journal(&place, judged["session"].as_str().unwrap())
                .iter()
                .filter(|line| line["data"]["event"] == "effect_intended")
                .map(|line| line["data"]["kind"].as_str().unwrap().to_owned())
                .collect();
            assert!(
                !kinds.iter().any(|kind| ["open", "model_call", "tool", "seal"].contains(&kind.as_str())),
                "{kinds:?}"
            );
        }
        assert_eq!(snapshot(&repo), before, "{name}: the repository is byte for byte as it was");
    }
}

/// A patch that adds one file.
fn adding(path: &str, content: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{content}\n"
    )
}

#[test]
fn a_patch_that_cannot_be_taken_is_refused_and_says_where() {
    let Some(place) = project::place("a_patch_that_cannot_be_taken_is_refused_and_says_where") else {
        return;
    };
    base(&place, FILES);
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/tmp\n\\ No newline at end of file\n";
    let late =
        "diff --git a/README b/README\n--- a/README\n+++ b/README\n@@ -1 +1 @@\n-An answer.\n+Another.\n";
    let wrong = "diff --git a/answer b/answer\n--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-40\n+42\n";
    let above = "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n".to_owned();
    let binary = "diff --git a/README b/README\nindex 1111111..2222222 100644\nBinary files a/README and b/README differ\n";
    let cases: &[(&str, String, &str)] = &[
        ("conflict", format!("{late}{wrong}"), "answer:1"),
        ("missing", late.replace("README", "none"), "none"),
        ("above", above, "../x"),
        ("dots", adding("a/../../x", "x"), "x"),
        ("absolute", adding("/etc/x", "x"), "/etc/x"),
        ("hooks", adding(".git/hooks/pre-commit", "x"), ".git/hooks/pre-commit"),
        ("hooks2", adding(".GIT/hooks/pre-commit", "x"), "hooks/pre-commit"),
        ("nested", adding("a/.git/config", "x"), ".git/config"),
        ("behind", format!("{link}{}", adding("l/x", "x")), "l/x"),
        ("words", "I changed the answer, believe me.\n".to_owned(), "no diff"),
        ("cut", wrong[..wrong.len() - 4].to_owned(), "line 6"),
        ("nobinary", binary.to_owned(), "README"),
        ("empty", String::new(), "empty"),
        ("blank", " \n\n".to_owned(), "empty"),
    ];
    for (name, text, said) in cases {
        let file = place.write(&format!("{name}.patch"), text);
        let result = gate(&place, &["--patch", file.to_str().unwrap()]).ended("setup_error", "usage");
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{name}: {message}");
        assert_eq!(result["gates"]["check"]["status"], "not_reached", "{name}: {result}");
        assert_eq!(result["patch"], Value::Null);
        assert!(!place.path("x").exists() && !Path::new("/etc/x").exists());
    }
    // All of a patch or nothing: the first file of this one would have applied.
    let good = place.write("good.patch", &format!("{late}{}", wrong.replace("-40", "-41")));
    gate(&place, &["--patch", good.to_str().unwrap()]).ended("verified", "checks_passed");
    // On standard input, and as a mail.
    let mail = format!(
        "From 1111 Mon Sep 17 00:00:00 2001\nSubject: x\n\n---\n{}--\n2.0\n",
        wrong.replace("-40", "-41")
    );
    let args = arguments(&place, &["--patch", "-", "--format", "json"]);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    place.run_with_input(&words, mail.as_bytes()).ended("verified", "checks_passed");
    place.run_with_input(&words, b"").ended("setup_error", "usage");
}

#[test]
fn bad_input_is_named_before_anything_runs() {
    let Some(place) = project::place("bad_input_is_named_before_anything_runs") else { return };
    let repo = base(&place, FILES);
    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (fifo, file) = (fifo.to_str().unwrap(), repo.join("answer"));
    let home = place.path("home");
    std::fs::create_dir_all(home.join("inside")).unwrap();
    let inside = home.join("inside");
    let cases: &[(&[&str], (&str, &str), &str)] = &[
        (&["--head", "none"], ("setup_error", "repository"), "none"),
        (&["--head", "-x"], ("setup_error", "usage"), "--head"),
        (&["--head", ""], ("setup_error", "usage"), "--head"),
        (&["--head", "a b"], ("setup_error", "usage"), "--head"),
        (&["--head", "main:answer"], ("setup_error", "repository"), "main:answer"),
        (&["--patch", "none.patch"], ("setup_error", "usage"), "none.patch"),
        (&["--patch", fifo], ("setup_error", "usage"), "regular file"),
        (&["--patch", "."], ("setup_error", "usage"), "--patch"),
        (&["--tree", "none"], ("setup_error", "usage"), "--tree none"),
        (&["--tree", file.to_str().unwrap()], ("setup_error", "usage"), "not a directory"),
        (&["--tree", fifo], ("setup_error", "usage"), "not a directory"),
        (&["--tree", inside.to_str().unwrap()], ("setup_error", "config"), "COUNTERSIGN_HOME"),
        (&[], ("setup_error", "usage"), "--patch"),
        (&["--head", "main", "--tree", "."], ("setup_error", "usage"), "--tree"),
        (&["--head", "main", "--sandbox", "host"], ("setup_error", "usage"), "--sandbox host"),
        (&["--head", "main", "--sandbox", "vm"], ("setup_error", "sandbox_unavailable"), "vm"),
        (&["--head", "main", "--model", "scripted:x"], ("setup_error", "usage"), "--model"),
        (&["--head", "main", "--scope", "["], ("setup_error", "usage"), "--scope"),
    ];
    let before = snapshot(&repo);
    for (extra, (outcome, reason), said) in cases {
        let result = gate(&place, extra).ended(outcome, reason);
        let message = result["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{extra:?}: {message}");
    }
    let repo_text = repo.display().to_string();
    let bare = ["gate", "--trust", "trusted-local", "--repo", &repo_text, "--format", "json"];
    let run = |extra: &[&str]| place.run(&[&bare, extra].concat());
    run(&["--head", "main", "--base", "main"]).ended("setup_error", "no_check");
    let result = run(&["--head", "main", "--check", CHECK]).ended("setup_error", "usage");
    assert!(result["error"]["message"].as_str().unwrap().contains("--base"), "{result}");
    run(&["--head", "main", "--base", "none", "--check", CHECK]).ended("setup_error", "repository");
    let green =
        run(&["--head", "main", "--base", "main", "--check", "true"]).ended("setup_error", "already_green");
    assert_eq!(green["usage"]["model_calls"], 0);
    run(&["--head", "main", "--base", "main", "--check", CHECK]).ended("unverified", "no_change");
    assert_eq!(snapshot(&repo), before);
    // Every refusal left a line, and none of them a second one.
    let listed: Value =
        serde_json::from_str(&place.run(&["list", "--format", "json", "--limit", "100"]).stdout).unwrap();
    assert!(listed.as_array().unwrap().iter().all(|row| row["outcome"] != Value::Null), "{listed}");
}

#[test]
fn a_directory_is_judged_as_it_is_on_disk() {
    let Some(place) = project::place("a_directory_is_judged_as_it_is_on_disk") else { return };
    base(&place, FILES);
    let dir = work(&place, "work", "echo 42 > answer");
    let tree = dir.to_str().unwrap();
    // Not committed, not even tracked: it counts. What the base calls scratch does not, and is named.
    place.write("work-work/new.txt", "new\n");
    place.write("work-work/debug.log", "12345");
    place.write("work-work/target/debug/out", "x");
    let verified = gate(&place, &["--tree", tree]).ended("verified", "checks_passed");
    let paths: Vec<&str> = verified["changes"]["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["answer", "new.txt"]);
    assert_eq!(
        verified["not_delivered"],
        json!([{"path": "debug.log", "bytes": 5}, {"path": "target", "bytes": 1}])
    );
    // A rule that the work itself makes decides nothing.
    place.write("work-work/.gitignore", "*.log\nnew.txt\n");
    let again = gate(&place, &["--tree", tree]).ended("verified", "checks_passed");
    assert_eq!(again["changes"]["added"], 1);
    // The same log, committed: a revision is judged as it is, whatever would be ignored.
    git(&dir, &["add", "--force", "debug.log"]);
    git(&dir, &["commit", "--quiet", "--message", "log"]);
    let head = gate(&place, &["--head", "work"]).ended("verified", "checks_passed");
    assert!(head["changes"]["paths"].to_string().contains("debug.log"), "{head}");
    assert_eq!(head["candidate"]["commit"].as_str().unwrap(), git(&dir, &["rev-parse", "HEAD"]));
    for (make, name) in [
        ("mkfifo pipe", "pipe"),
        ("git init --quiet nested && echo x > nested/x", "nested/.git"),
        ("echo x > \"$(printf 'a\\\\b')\"; mkdir .GIT; echo x > .GIT/x", ".GIT"),
    ] {
        let status = Command::new("sh").args(["-c", make]).current_dir(&dir).status().unwrap();
        assert!(status.success());
        let result = gate(&place, &["--tree", tree]).ended("unverified", "unsealable");
        let detail = result["gates"]["seal"]["detail"].as_str().unwrap();
        assert!(detail.contains(name), "{detail}");
        assert_eq!(result["gates"]["check"]["status"], "not_reached");
        std::fs::remove_file(dir.join("pipe")).unwrap_or_default();
        for made in ["nested", ".GIT"] {
            std::fs::remove_dir_all(dir.join(made)).unwrap_or_default();
        }
    }
    // Links lead where they lead; what they lead to is not read.
    std::os::unix::fs::symlink("/etc/passwd", dir.join("out")).unwrap();
    let linked = gate(&place, &["--tree", tree]).ended("verified", "checks_passed");
    let diff = place.run(&["diff", linked["session"].as_str().unwrap()]).stdout;
    assert!(diff.contains("+/etc/passwd") && !diff.contains("root:"), "{diff}");
}

#[test]
fn what_a_reviewer_wants_to_know_is_told_and_decides_nothing() {
    let Some(place) = project::place("what_a_reviewer_wants_to_know_is_told_and_decides_nothing") else {
        return;
    };
    base(&place, FILES);
    // In pieces, so that no scanner takes this file for a leak.
    let (kind, value) = ("ghp", "Zq8Rk2Lm5Tn9Wb3Xv7Yc1Hd4Jf6Gp0SaZq8R");
    let change = format!(
        "echo 42 > answer; printf 'a\\n{kind}_{value}\\n' > notes.txt; mkdir -p .github/workflows; echo x > \
         .github/workflows/x.yml; echo x > build.rs; echo x > go.sum; printf 'a \\342\\200\\256 b\\n' > a.c; \
         head -c 1100000 /dev/zero > big; ln -s /etc/hosts out"
    );
    work(&place, "odd", &change);
    work(&place, "clean", "echo 42 > answer; echo '// plain' > b.c; ln -s answer in");
    let judged = gate(&place, &["--head", "odd", "--deps", "fetch"]).ended("verified", "checks_passed");
    let told: Vec<(&str, &str, Option<u64>)> = judged["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["kind"].as_str().unwrap(), f["path"].as_str().unwrap(), f["line"].as_u64()))
        .collect();
    let expected = [
        ("ci", ".github/workflows/x.yml", None),
        ("bidi", "a.c", Some(1)),
        ("large_binary", "big", None),
        ("self_starting", "build.rs", None),
        ("lockfile", "go.sum", None),
        ("secret", "notes.txt", Some(2)),
        ("link_outside", "out", None),
    ];
    assert_eq!(told, expected);
    let clean = gate(&place, &["--head", "clean"]).ended("verified", "checks_passed");
    assert_eq!(clean["findings"], json!([]));

    // An agent's work is looked over as anybody's.
    let model =
        script(&place, "odd.json", &json!([sh(&change.replace("echo x > go.sum; ", "")), finish("Done.")]));
    let ran = checked(&place, &model, &[]).ended("verified", "checks_passed");
    assert_eq!(ran["findings"].as_array().unwrap().len(), expected.len() - 1);
    let lied = script(&place, "lie.json", &json!([finish("Done.")]));
    assert_eq!(checked(&place, &lied, &[]).ended("unverified", "no_change")["findings"], json!([]));
    assert_eq!(gate(&place, &["--head", "none"]).ended("setup_error", "repository")["findings"], Value::Null);

    let id = judged["session"].as_str().unwrap();
    let text = place.run(&["show", id]).stdout;
    assert!(text.contains("finding  secret notes.txt:2: a GitHub token"), "{text}");
    let report = place.run(&["show", id, "--format", "markdown"]).stdout;
    assert!(report.contains("- `secret` in `notes.txt` line 2: `a GitHub token`"), "{report}");
    for text in [judged.to_string(), report, text] {
        assert!(!text.contains(&value[..8]), "the value is never shown: {text}");
    }
}

#[test]
fn a_submodule_is_an_entry_whose_commit_is_judged_and_delivered() {
    let Some(place) = project::place("a_submodule_is_an_entry_whose_commit_is_judged_and_delivered") else {
        return;
    };
    let repo = repository(&place, FILES);
    let first = git(&repo, &["rev-parse", "HEAD"]);
    let at = |id: &str, path: &str| format!("git update-index --add --cacheinfo 160000,{id},{path}");
    std::fs::write(repo.join(".gitmodules"), "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub.git\n")
        .unwrap();
    for dir in ["sub", "tests/data"] {
        std::fs::create_dir_all(repo.join(dir)).unwrap();
        git(&repo, &["update-index", "--add", "--cacheinfo", &format!("160000,{first},{dir}")]);
    }
    git(&repo, &["add", ".gitmodules"]);
    git(&repo, &["commit", "--quiet", "--message", "sub"]);
    let repo = base(&place, FILES);
    let second = "1".repeat(40);
    // As the base has it, and in a directory that is no repository.
    let plain = work(&place, "plain", "echo 42 > answer");
    let by_head = gate(&place, &["--head", "plain"]).ended("verified", "checks_passed");
    std::fs::remove_file(plain.join(".git")).unwrap();
    let by_tree = gate(&place, &["--tree", plain.to_str().unwrap()]).ended("verified", "checks_passed");
    assert_eq!(by_head["tree"], by_tree["tree"]);
    assert_eq!(by_head["findings"], json!([]));
    // Another commit and a new submodule: what the patch says is what git makes of it.
    work(
        &place,
        "moved",
        &format!("mkdir -p new/sub; {}; {}; echo 42 > answer", at(&second, "sub"), at(&second, "new/sub")),
    );
    let moved = gate(&place, &["--head", "moved"]).ended("verified", "checks_passed");
    let told = moved["findings"].as_array().unwrap();
    assert!(told.iter().all(|finding| finding["kind"] == "submodule"), "{moved}");
    assert!(told.iter().map(|finding| finding["path"].as_str().unwrap()).eq(["new/sub", "sub"]), "{moved}");
    let again = gate(&place, &["--patch", moved["patch"]["path"].as_str().unwrap()]);
    assert_eq!(again.ended("verified", "checks_passed")["tree"], moved["tree"]);
    git(&repo, &["checkout", "--quiet", "main"]);
    git(&repo, &["apply", "--index", moved["patch"]["path"].as_str().unwrap()]);
    assert_eq!(git(&repo, &["write-tree"]), git(&repo, &["rev-parse", "moved^{tree}"]));
    git(&repo, &["reset", "--quiet", "--hard"]);
    // The same at a path that holds tests is a changed test.
    work(&place, "tests", &format!("{}; echo 42 > answer", at(&second, "tests/data")));
    gate(&place, &["--head", "tests"]).ended("tampered", "protected_files");
    // What is put into its directory is no part of this repository, and not silently left out.
    std::fs::write(plain.join("sub/planted"), "x").unwrap();
    let planted = gate(&place, &["--tree", plain.to_str().unwrap()]).ended("unverified", "unsealable");
    assert!(planted["gates"]["seal"]["detail"].as_str().unwrap().contains("sub/planted"), "{planted}");
    let model = project::script(
        &place,
        "m.json",
        &json!([
            project::sh("echo x > sub/planted; git status --short"),
            project::edit("answer", "41", "42"),
            project::finish("Done."),
            project::sh("rm sub/planted"),
            project::finish("Done.")
        ]),
    );
    let run = project::checked(&place, &model, &[]).ended("verified", "checks_passed");
    assert_eq!(run["tree"], by_head["tree"], "the agent was told, and took it out");
}

#[test]
fn a_plain_directory_can_be_the_base() {
    let Some(place) = project::place("a_plain_directory_can_be_the_base") else { return };
    for (name, content) in PROJECT {
        place.write(&format!("plain/{name}"), content);
        place.write(&format!("other/{name}"), content);
    }
    place.write("other/answer", "42\n");
    let fix = "--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-41\n+42\n";
    place.write("fix.patch", fix);
    let run = |extra: &[&str]| {
        let base =
            ["gate", "--trust", "trusted-local", "--repo", "plain", "--check", CHECK, "--format", "json"];
        place.run(&[&base, extra].concat())
    };
    let tree = run(&["--tree", "other"]).ended("verified", "checks_passed");
    let patch = run(&["--patch", "fix.patch"]).ended("verified", "checks_passed");
    assert_eq!(tree["tree"], patch["tree"]);
    run(&["--head", "main"]).ended("setup_error", "usage");
    run(&["--tree", "other", "--base", "main"]).ended("setup_error", "usage");
}

#[test]
fn sessions_of_a_gate_are_sessions() {
    let Some(place) = project::place("sessions_of_a_gate_are_sessions") else { return };
    base(&place, FILES);
    work(&place, "fix", "echo 42 > answer; echo x > '![x](h) @a'");
    let expected =
        git(&place.path("repo"), &["diff", "--binary", "--full-index", "--no-renames", "main", "fix"]);
    let result = gate(&place, &["--head", "fix"]).ended("verified", "checks_passed");
    let id = result["session"].as_str().unwrap();
    assert_eq!(place.run(&["diff", id]).stdout.trim(), expected);
    let shown: Value = serde_json::from_str(&place.run(&["show", id, "--format", "json"]).stdout).unwrap();
    assert_eq!(verdict(&shown["result"]), verdict(&result));
    assert_eq!(shown["result"]["candidate"], result["candidate"]);
    let listed = place.run(&["list"]).stdout;
    assert!(listed.contains("judge the revision fix") && listed.contains("verified"), "{listed}");

    let args = arguments(&place, &["--head", "fix", "--format", "ndjson"]);
    let stream = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).stdout;
    let last: Value = serde_json::from_str(stream.lines().last().unwrap()).unwrap();
    assert_eq!((last["type"].as_str(), last["outcome"].as_str()), (Some("result"), Some("verified")));
    assert!(stream.lines().count() > 5);

    let args = arguments(&place, &["--head", "fix", "--format", "text"]);
    let text = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(text.code, Some(0));
    assert!(
        text.stdout.contains("gate check   passed") && text.stdout.contains("modified answer"),
        "{}",
        text.stdout
    );

    let args = arguments(&place, &["--head", "fix", "--format", "markdown"]);
    let report = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(report.code, Some(0));
    let tree = result["tree"].as_str().unwrap();
    for part in ["## Countersign: `verified`", "`red_before`", tree, "- modified `answer`", "### Not judged"]
    {
        assert!(report.stdout.contains(part), "{part}: {}", report.stdout);
    }
    assert!(report.stdout.contains("- added `![x](h) @a`"), "{}", report.stdout);
    let refused = arguments(&place, &["--head", "none", "--format", "markdown"]);
    let refused = place.run(&refused.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(refused.code, Some(1));
    assert!(refused.stdout.starts_with("## Countersign: `setup_error`"), "{}", refused.stdout);
}

#[test]
fn a_gate_that_was_parked_goes_on() {
    let Some(place) = project::place("a_gate_that_was_parked_goes_on") else { return };
    let seconds = project::odd_seconds();
    let check =
        format!("#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || exit 1\n[ -e slow ] && sleep {seconds}\nexit 0\n");
    base(&place, &[PROJECT[0], ("tests/check.sh", &check), ("fast", "")]);
    let dir = work(&place, "fix", "echo 42 > answer; : > slow");
    let args = arguments(&place, &["--tree", dir.to_str().unwrap(), "--format", "json"]);
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let child = place.command(&words).stdin(Stdio::null()).spawn().unwrap();
    project::until("the check runs in its room", || project::sleeps(&seconds));
    project::kill("TERM", child.id());
    let parked = project::ended(child).ended("parked", "drained");
    let id = parked["session"].as_str().unwrap();
    let resumed = place.command(&["resume", id, "--format", "json"]).spawn().unwrap();
    project::until("the check runs again", || project::sleeps(&seconds));
    project::kill("INT", resumed.id());
    let canceled = project::ended(resumed).ended("canceled", "signal");
    assert_eq!(canceled["tree"], parked["tree"], "what was read before it was parked is what is judged");
}
