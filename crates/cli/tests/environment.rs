//! What a setup makes is there in every later cell, read-only, and hides nothing that the configuration declares.

mod common;
#[path = "common/project.rs"]
mod project;

use project::{CHECK, PROJECT, edit, finish, place, repository, script, sh, snapshot};
use serde_json::json;

/// A cache inside HOME, as the ones of package managers are.
fn config(place: &common::Place) -> String {
    let cache = place.write("cache/pkg/sum", "42\n").parent().map(|dir| dir.display().to_string());
    let text = format!(
        "[[caches]]\nhost = \"{cache}\"\ncell = \"/home/agent/.tool/cache\"\n",
        cache = cache.unwrap_or_default()
    );
    place.write("config.toml", &text).display().to_string()
}

#[test]
fn layers_of_a_setup_are_in_every_cell_and_hide_no_cache() {
    let Some(place) = place("layers_of_a_setup_are_in_every_cell_and_hide_no_cache") else { return };
    let repo = repository(&place, PROJECT);
    let before = snapshot(&repo);
    let config = config(&place);
    // In the tree's scratch, beside a cache in HOME, in HOME itself, and a single file.
    let setup = "sh -c 'mkdir -p .venv/bin ~/.local/bin ~/.tool/bin node_modules && cp ~/.tool/cache/sum .venv/sum \
                 && cp .venv/sum node_modules/sum && cp .venv/sum ~/.local/bin/sum && cp .venv/sum ~/.tool/bin/sum && \
                 cp .venv/sum Cargo.lock'";
    let all = "cat ~/.tool/cache/sum .venv/sum node_modules/sum ~/.local/bin/sum ~/.tool/bin/sum Cargo.lock";
    let probe = format!("sh -c 'test $({all} | sort -u) = 42'");
    let check = format!("sh -c \"sh tests/check.sh && {all} > /dev/null\"");
    let model = script(
        &place,
        "m.json",
        &json!([
            sh(&format!("{all} | wc -l; touch .venv/mine ~/.tool/bin/mine; rm -rf .venv; cat .venv/sum")),
            edit("answer", "41", "42"),
            finish("42"),
        ]),
    );
    let run = || {
        place.run(&[
            "run",
            "make it 42",
            "--trust",
            "trusted-local",
            "--repo",
            &repo.display().to_string(),
            "--model",
            &model,
            "--config",
            &config,
            "--setup",
            setup,
            "--probe",
            &probe,
            "--check",
            &check,
            "--format",
            "json",
        ])
    };
    let first = run();
    let result = first.ended("verified", "checks_passed");
    assert_eq!(result["strength"]["level"], "red_before", "{result}");
    // The same terms again: nothing of the first run is gone, and nothing is made twice.
    let second = run().ended("verified", "checks_passed");
    assert_eq!(first.json()["tree"], second["tree"]);
    assert_eq!(std::fs::read_dir(place.path("home/layers")).unwrap().count(), 1, "one setup for both");
    assert_eq!(snapshot(&repo), before);
    let shown = place.run(&["show", result["session"].as_str().unwrap()]).stdout;
    assert!(shown.contains("Read-only file system"), "{shown}");
    assert!(shown.contains("\nFAILED: not 42\n"), "what the check wrote on the base: {shown}");
}

#[test]
fn a_setup_that_leaves_a_link_or_fails_is_refused_in_words() {
    let Some(place) = place("a_setup_that_leaves_a_link_or_fails_is_refused_in_words") else { return };
    let repo = repository(&place, PROJECT).display().to_string();
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("42")]));
    for (setup, words) in [
        ("ln -s /etc/passwd made.pyc", "symbolic link `/workspace/made.pyc`"),
        ("sh -c 'ln -s /usr ~/.tools'", "symbolic link `/home/agent/.tools`"),
        ("sh -c 'echo no such package >&2; exit 3'", "no such package"),
        ("no-such-program", "no-such-program"),
    ] {
        let ended = place.run(&[
            "run",
            "make it 42",
            "--trust",
            "trusted-local",
            "--repo",
            &repo,
            "--model",
            &model,
            "--setup",
            setup,
            "--check",
            CHECK,
            "--format",
            "json",
        ]);
        let result = ended.ended("setup_error", "environment");
        assert!(result["error"]["message"].as_str().unwrap().contains(words), "{setup}: {result}");
        assert_eq!(result["usage"]["model_calls"], 0);
        let layers =
            std::fs::read_dir(place.path("home/layers")).unwrap().flatten().map(|entry| entry.path());
        assert_eq!(layers.collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new(), "{setup}");
    }
}

#[test]
fn layers_that_were_removed_or_changed_are_made_again() {
    let Some(place) = place("layers_that_were_removed_or_changed_are_made_again") else { return };
    let repo = repository(&place, PROJECT).display().to_string();
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("42")]));
    let setup = "sh -c 'mkdir .venv; echo 42 > .venv/sum; echo y > ~/.made'";
    let probe = "grep -qx 42 .venv/sum";
    let run = |extra: &[&str]| {
        let args = ["run", "make it 42", "--trust", "trusted-local", "--repo", &repo, "--model", &model];
        let more = ["--setup", setup, "--probe", probe, "--check", CHECK, "--format", "json"];
        place.run(&[&args[..], &more, extra].concat())
    };
    let cached = |ended: &common::Ended| ended.stderr.contains("setup: exit 0, known from an earlier run");
    let layer = || std::fs::read_dir(place.path("home/layers")).unwrap().flatten().map(|entry| entry.path());
    let first = run(&[]);
    first.ended("verified", "checks_passed");
    assert!(!cached(&first), "{first:#?}");
    let again = run(&[]);
    again.ended("verified", "checks_passed");
    assert!(cached(&again), "{again:#?}");
    let breakers: [&dyn Fn(&std::path::Path); 3] = [
        &|layer| std::fs::remove_dir_all(layer).unwrap(),
        &|layer| std::fs::remove_file(layer.join("home/.made")).unwrap(),
        &|layer| std::fs::write(layer.join("workspace/.venv/sum"), "43\n").unwrap(),
    ];
    for breaks in breakers {
        for layer in layer() {
            breaks(&layer);
        }
        let mended = run(&[]);
        mended.ended("verified", "checks_passed");
        assert!(!cached(&mended), "{mended:#?}");
        for layer in layer().filter(|layer| !layer.join("home/.made").exists()) {
            std::fs::remove_dir_all(layer).unwrap();
        }
    }
    let host = run(&["--sandbox", "host"]).ended("setup_error", "usage");
    assert!(host["error"]["message"].as_str().unwrap().contains("--sandbox native"), "{host}");
}

/// A check that a look at the environment is worth: it takes much longer than the look.
const SLOW: &str = "sh -c 'sleep 4; sh tests/check.sh'";

#[test]
fn a_remembered_base_is_relied_on_while_nothing_was_changed_that_its_room_saw() {
    let Some(place) = place("a_remembered_base_is_relied_on_while_nothing_was_changed_that_its_room_saw")
    else {
        return;
    };
    repository(&place, PROJECT);
    let config = config(&place);
    let sum = place.path("cache/pkg/sum");
    let made = std::fs::metadata(&sum).unwrap().modified().unwrap();
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("42")]));
    let rooms = |check: &str| {
        let args =
            project::args(&place, &model, &["--config", &config, "--check", check, "--format", "json"]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let result = place.run(&args).ended("verified", "checks_passed");
        let rooms = result["gates"]["check"]["evidence"][0]["rooms"].as_array().unwrap().clone();
        rooms.iter().map(|room| room["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // What is younger than a run may have been changed while it ran, so the files have to be older.
    project::until("the cache to be older than the first run", || {
        made.elapsed().is_ok_and(|age| age > std::time::Duration::from_millis(1500))
    });
    assert_eq!(rooms(SLOW), ["base", "final"]);
    assert_eq!(rooms(SLOW), ["base", "final"], "nothing was changed: the remembered base is enough");
    // The length and the time are those from before; the content is not.
    std::fs::write(&sum, "43\n").unwrap();
    std::fs::File::options().write(true).open(&sum).unwrap().set_modified(made).unwrap();
    assert_eq!(rooms(SLOW), ["base", "final", "base"], "the base had to be asked again");
    // A base that is asked as fast as anything is compared is always asked again.
    assert_eq!(rooms(CHECK), ["base", "final"]);
    assert_eq!(rooms(CHECK), ["base", "final", "base"]);
}
