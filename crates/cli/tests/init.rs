//! `init`: the first step in a project, which leads to a first run and never writes over anything.

mod common;
#[path = "common/project.rs"]
mod project;

use common::{Ended, Place};
use project::{PROJECT, edit, finish, repository, script, snapshot};
use serde_json::{Value, json};

const FILES: &[(&str, &str)] =
    &[PROJECT[0], PROJECT[1], ("Makefile", "test:\n\tsh tests/check.sh\n"), ("README", "An answer.\n")];

fn init(place: &Place, extra: &[&str]) -> Ended {
    place.run(
        &[&["init", "--trust", "trusted-local", "--repo", "repo", "--check", project::CHECK], extra].concat(),
    )
}

#[test]
fn the_commands_that_init_names_lead_to_a_verified_run() {
    let Some(place) = project::place("the_commands_that_init_names_lead_to_a_verified_run") else { return };
    let repo = repository(&place, FILES);
    let before = snapshot(&repo);
    let printed = init(&place, &["--print"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let profile: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(profile["name"], "repo");
    assert!(
        !place.path("user/.config").exists() && !place.path("home/profiles").exists(),
        "nothing is written"
    );
    let ended = init(&place, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let main = place.path("user/.config/countersign/profiles/repo/profile.json");
    assert_eq!(ended.stdout.trim(), main.display().to_string());
    assert_eq!(std::fs::read_to_string(&main).unwrap(), printed.stdout);
    let named = |word: &str| -> Vec<String> {
        let line = ended.stderr.lines().find(|line| line.starts_with(word)).unwrap();
        let line = line.trim_start_matches(word).trim().trim_start_matches("countersign ");
        line.split(' ').map(str::to_owned).collect()
    };
    let next = named("next");
    let checked = place.run(&next.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(checked.code, Some(0), "{next:?}: {checked:?}");
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("Done.")]));
    let then: Vec<String> = named("then")
        .into_iter()
        .map(|word| if word == "PROVIDER:MODEL" { model.clone() } else { word })
        .chain(["--format", "json"].map(str::to_owned))
        .collect();
    place.run(&then.iter().map(String::as_str).collect::<Vec<_>>()).ended("verified", "checks_passed");
    // A second time nothing is written over, whatever a person made of it.
    let own =
        printed.stdout.replace("\"name\": \"repo\"", "\"name\": \"repo\",\n  \"description\": \"mine\"");
    std::fs::write(&main, &own).unwrap();
    let again = init(&place, &[]);
    assert!(again.code == Some(0) && again.stderr.contains("kept"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&main).unwrap(), own);
    assert_eq!(snapshot(&repo), before, "the repository is byte-identical");
}

#[test]
fn init_finds_the_check_of_a_project_and_says_when_there_is_none_or_no_trust() {
    let test = "init_finds_the_check_of_a_project_and_says_when_there_is_none_or_no_trust";
    let Some(place) = project::place(test) else { return };
    place.write("rust/Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    place.write("rust/src/lib.rs", "");
    let found = place.run(&["init", "--trust", "reviewed", "--repo", "rust", "--print"]);
    assert!(found.code == Some(0) && found.stdout.contains("\"cargo\""), "{found:?}");
    assert!(found.stderr.contains("found      the check `cargo test"), "{found:?}");
    place.write("empty/file", "x\n");
    for (args, part) in [
        (&["--trust", "reviewed", "--repo", "empty"][..], "give one with --check"),
        (&["--repo", "rust"], "--trust"),
        (&["--trust", "reviewed", "--repo", "nowhere"], "--repo takes the project's directory"),
        (&["--trust", "reviewed", "--repo", "rust", "--name", "A B"], "give one with --name"),
    ] {
        let refused = place.run(&[&["init"], args].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(part), "{args:?}: {refused:?}");
    }
    // What judges a project does not lie in it.
    let mut command = place.command(&["init", "--trust", "reviewed", "--repo", "rust"]);
    command.env("XDG_CONFIG_HOME", place.path("rust/config"));
    let refused = Ended::of(command.output().unwrap());
    assert!(refused.code == Some(1) && refused.stderr.contains("XDG_CONFIG_HOME"), "{refused:?}");
    // An untrusted project does not choose how it is judged.
    let ended = place.run(&["init", "--trust", "untrusted", "--repo", "rust"]);
    assert!(ended.code != Some(0) || ended.stderr.contains("look the file over"), "{ended:?}");
    assert_eq!(place.run(&["profile", "list"]).stdout, "");
}
