//! What a bundle says is held against the world: the repository that it came from, the same work judged again, and one
//! payload of its journal shown alone.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::path::{Path, PathBuf};

use common::{Ended, Place};
use project::{CHECK, PROJECT, checked, edit, finish, git, place, repository, script, sh};
use serde_json::{Value, json};

/// A bundle of a turn, and the repository that it began from.
fn judged(place: &Place, turns: &Value, extra: &[&str]) -> (PathBuf, PathBuf, Value) {
    let repo = repository(place, PROJECT);
    let model = script(place, "m.json", turns);
    let result = checked(place, &model, extra).json();
    (repo, PathBuf::from(result["bundle"].as_str().unwrap()), result)
}

fn json_of(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

fn replay(place: &Place, bundle: &Path, repo: &Path, extra: &[&str]) -> (Option<i32>, Value) {
    let (bundle, repo) = (bundle.to_str().unwrap(), repo.to_str().unwrap());
    let args =
        ["replay-check", bundle, "--repo", repo, "--trust", "reviewed", "--format", "json", "--trace", "off"];
    let ended = place.run(&[&args, extra].concat());
    (ended.code, json_of(&ended))
}

fn good() -> Value {
    json!([edit("answer", "41", "42"), finish("Done.")])
}

#[test]
fn a_bundle_is_held_against_the_repository_that_it_came_from() {
    let Some(place) = place("a_bundle_is_held_against_the_repository_that_it_came_from") else { return };
    let (repo, bundle, result) = judged(&place, &good(), &[]);
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let verify = |repo: &Path, extra: &[&str]| {
        let args = ["verify", bundle.to_str().unwrap(), "--format", "json", "--repo", repo.to_str().unwrap()];
        place.run(&[&args, extra].concat())
    };
    let ended = verify(&repo, &[]);
    let report = json_of(&ended);
    assert_eq!((ended.code, &report["accepted"]), (Some(0), &json!(true)), "{report}");
    assert_eq!((&report["trees"][0]["what"], &report["trees"][0]["same"]), (&json!("base"), &json!(true)));
    // The judged tree is not what HEAD holds, until it is applied and committed.
    let ended = verify(&repo, &["--head", "HEAD"]);
    let report = json_of(&ended);
    assert_eq!((ended.code, &report["accepted"]), (Some(2), &json!(false)), "{report}");
    assert_eq!((&report["trees"][1]["same"], &report["trees"][1]["path"]), (&json!(false), &json!("answer")));
    let id = result["session"].as_str().unwrap();
    assert_eq!(place.run(&["apply", id]).code, Some(0));
    git(&repo, &["commit", "-qam", "applied"]);
    let ended = verify(&repo, &["--head", "HEAD"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // A repository that does not hold the base says so, and is no answer.
    let other = place.path("other");
    std::fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q"]);
    let ended = verify(&other, &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("fetch it into") || ended.stdout.contains("fetch it into"), "{ended:?}");
    // `--head` alone names nothing.
    let ended = place.run(&["verify", bundle.to_str().unwrap(), "--head", "HEAD"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn the_work_of_a_bundle_is_judged_again_and_is_the_same() {
    let Some(place) = place("the_work_of_a_bundle_is_judged_again_and_is_the_same") else { return };
    let (repo, bundle, result) = judged(&place, &good(), &[]);
    let before = project::snapshot(&repo);
    let (code, shown) = replay(&place, &bundle, &repo, &[]);
    assert_eq!((code, &shown["answer"]), (Some(0), &json!("same")), "{shown}");
    assert_eq!(shown["here"]["tree"], result["tree"]);
    assert_eq!(
        (&shown["recorded"]["outcome"], &shown["here"]["outcome"]),
        (&json!("verified"), &json!("verified"))
    );
    assert_eq!(shown["difference_what"], json!(null));
    assert_eq!(project::snapshot(&repo), before, "a replay changes nothing");
    // On a clone of the repository, and on a plain copy of its files.
    let clone = place.path("clone");
    git(&place.path("."), &["clone", "-q", repo.to_str().unwrap(), clone.to_str().unwrap()]);
    assert_eq!(replay(&place, &bundle, &clone, &[]).0, Some(0));
    std::fs::remove_dir_all(clone.join(".git")).unwrap();
    assert_eq!(replay(&place, &bundle, &clone, &[]).0, Some(0));
    // Other files than those that the turn began from are told before anything runs.
    std::fs::write(clone.join("answer"), "40\n").unwrap();
    let (code, shown) = replay(&place, &bundle, &clone, &[]);
    assert_eq!((code, &shown["reason"]), (Some(1), &json!("repository")), "{shown}");
    // By the user's own terms: the same ones agree, others are told.
    let own = |check: &str| replay(&place, &bundle, &repo, &["--check", check]);
    let (code, shown) = own("sh tests/check.sh");
    assert_eq!((code, &shown["answer"]), (Some(0), &json!("same")), "{shown}");
    let (code, shown) = own("sh tests/check.sh again");
    assert_eq!((code, &shown["difference_what"]), (Some(2), &json!("checks")), "{shown}");
    let (code, shown) = own("sh -c 'sh tests/check.sh; exit 3'");
    assert_eq!((code, &shown["difference_what"]), (Some(2), &json!("gates.check")), "{shown}");
    assert_eq!(shown["difference_recorded"], "passed");
    // A flag of one's own terms without a check of one's own is a mistake.
    let (code, shown) = replay(&place, &bundle, &repo, &["--no-fence"]);
    assert_eq!((code, &shown["reason"]), (Some(1), &json!("usage")), "{shown}");
}

#[test]
fn a_failure_is_judged_again_as_the_failure_that_it_was() {
    let Some(place) = place("a_failure_is_judged_again_as_the_failure_that_it_was") else { return };
    let turns = json!([edit("answer", "41", "40"), finish("Done.")]);
    let (repo, bundle, _) = judged(&place, &turns, &[]);
    let (code, shown) = replay(&place, &bundle, &repo, &[]);
    assert_eq!((code, &shown["answer"]), (Some(0), &json!("same")), "{shown}");
    assert_eq!(shown["recorded"]["outcome"], "unverified");
    let turns = json!([sh("echo exit 0 > tests/check.sh"), finish("Done.")]);
    let (repo, bundle, _) = judged(&place, &turns, &[]);
    let (code, shown) = replay(&place, &bundle, &repo, &[]);
    assert_eq!((code, &shown["here"]["outcome"]), (Some(0), &json!("tampered")), "{shown}");
    // Nothing was changed: there is nothing to judge.
    let (repo, bundle, _) = judged(&place, &json!([finish("Done.")]), &[]);
    let (code, shown) = replay(&place, &bundle, &repo, &[]);
    assert_eq!((code, &shown["reason"]), (Some(1), &json!("usage")), "{shown}");
}

/// A check that looks at the machine passes where the file is and fails where it is not: the difference is told, and no
/// verdict says PASSED.
#[test]
fn a_pass_that_does_not_hold_elsewhere_is_told() {
    let Some(place) = place("a_pass_that_does_not_hold_elsewhere_is_told") else { return };
    let repo = repository(&place, PROJECT);
    let layer = place.path("layer");
    std::fs::create_dir(&layer).unwrap();
    std::fs::write(layer.join("luck"), "").unwrap();
    let config = place
        .write("config.toml", &format!("[[caches]]\nhost = \"{}\"\ncell = \"/opt/luck\"\n", layer.display()));
    let model = script(&place, "m.json", &good());
    let config = config.to_str().unwrap();
    let ended = checked(
        &place,
        &model,
        &["--config", config, "--check", "sh -c 'test -e /opt/luck/luck && sh tests/check.sh'"],
    );
    let result = ended.ended("verified", "checks_passed");
    let bundle = PathBuf::from(result["bundle"].as_str().unwrap());
    let verdict = place.path("verdict.json");
    let told = verdict.to_str().unwrap().to_owned();
    let own = ["--check", CHECK, "--check", "sh -c 'test -e /opt/luck/luck && sh tests/check.sh'"];
    // A signature of one's own stands for terms of one's own, and lies where it harms nothing.
    let (code, shown) = replay(&place, &bundle, &repo, &["--write-verdict", &told]);
    assert_eq!((code, &shown["reason"]), (Some(1), &json!("usage")), "{shown}");
    let inside = bundle.join("verdict.json");
    let in_bundle = [&own[..], &["--write-verdict", inside.to_str().unwrap()]].concat();
    assert_eq!(replay(&place, &bundle, &repo, &in_bundle).0, Some(1));
    let signed = [&own[..], &["--write-verdict", &told]].concat();
    let (code, shown) = replay(&place, &bundle, &repo, &signed);
    assert_eq!((code, &shown["answer"]), (Some(2), &json!("differs")), "{shown}");
    assert_eq!(shown["difference_what"], "gates.check");
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let dir = bundle.to_str().unwrap();
    let policy = place.write("policy.toml", "version = 1\nverifiers = 2\n");
    let ended = place.run(&[
        "verify",
        dir,
        "--verdict",
        &told,
        "--policy",
        policy.to_str().unwrap(),
        "--format",
        "json",
    ]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(json_of(&ended)["report"]["passed_by"], json!(["me"]));
    // With the layer it holds.
    let (code, shown) = replay(&place, &bundle, &repo, &["--config", config]);
    assert_eq!((code, &shown["answer"]), (Some(0), &json!("same")), "{shown}");
}

/// Two jobs: one runs and is not trusted, a protected one judges again and signs with its own key. Both verdicts count.
#[test]
fn a_second_verifier_signs_what_it_saw_itself() {
    let Some(place) = place("a_second_verifier_signs_what_it_saw_itself") else { return };
    let (repo, bundle, _) = judged(&place, &good(), &[]);
    let key = place.path("protected");
    let key = key.to_str().unwrap();
    assert_eq!(place.run(&["key", "new", key]).code, Some(0));
    assert_eq!(place.run(&["key", "trust", "--name", "protected", "--role", "verifier", key]).code, Some(0));
    let verdict = place.path("verdict.json");
    let told = verdict.to_str().unwrap();
    let args = [
        "replay-check",
        bundle.to_str().unwrap(),
        "--repo",
        repo.to_str().unwrap(),
        "--trust",
        "reviewed",
        "--check",
        "sh tests/check.sh",
        "--write-verdict",
        told,
        "--trace",
        "off",
    ];
    let ended = Ended::of(place.command(&args).env("COUNTERSIGN_SIGNING_KEY_FILE", key).output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("answer    the same"), "{ended:?}");
    let dir = bundle.to_str().unwrap();
    let policy = place.write(
        "policy.toml",
        "version = 1\nsignature = \"any\"\nrequire = \"verified\"\nverifiers = 1\nverifier_names = [\"protected\"]\n",
    );
    let policy = policy.to_str().unwrap();
    let ended = place.run(&["verify", dir, "--policy", policy, "--verdict", told, "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(json_of(&ended)["report"]["passed_by"], json!(["protected"]));
    assert_eq!(place.run(&["verify", dir, "--policy", policy]).code, Some(2), "without it nobody passed it");
    // It is never written over anything.
    let ended = Ended::of(place.command(&args).env("COUNTERSIGN_SIGNING_KEY_FILE", key).output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn a_bundle_that_was_touched_is_never_run() {
    let Some(place) = place("a_bundle_that_was_touched_is_never_run") else { return };
    let (repo, bundle, _) = judged(&place, &good(), &[]);
    let config = bundle.join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("tests/check.sh", "tests/other.sh")).unwrap();
    let (code, shown) = replay(&place, &bundle, &repo, &[]);
    assert_eq!((code, &shown["reason"]), (Some(1), &json!("usage")), "{shown}");
    let listed = json_of(&place.run(&["list", "--format", "json"]));
    assert_eq!(listed.as_array().unwrap().len(), 1, "nothing was begun: {listed}");
}

#[test]
fn one_payload_is_shown_with_its_proof_and_the_rest_stays_hidden() {
    let Some(place) = place("one_payload_is_shown_with_its_proof_and_the_rest_stays_hidden") else { return };
    let turns = json!([sh("echo hush-hush-7"), edit("answer", "41", "42"), finish("Done and dusted.")]);
    let (_, bundle, result) = judged(&place, &turns, &[]);
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let id = result["session"].as_str().unwrap();
    let events = project::journal(&place, id);
    // The event whose payload holds the command's output.
    let (seq, name, revealed) = events
        .iter()
        .flat_map(|event| {
            let names = event["payloads"].as_object().into_iter().flat_map(|all| all.keys().cloned());
            // What hides the others is shown to nobody.
            let names = names.filter(|name| name != "blind");
            names.map(|name| (event["seq"].as_u64().unwrap(), name)).collect::<Vec<_>>()
        })
        .find_map(|(seq, name)| {
            let ended = place.run(&["show", id, "--reveal", &format!("{seq}:{name}")]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let shown = json_of(&ended);
            let text = shown["text"].as_str()?;
            (text.contains("hush-hush-7") && !text.contains("dusted"))
                .then(|| (seq, name, ended.stdout.clone()))
        })
        .unwrap();
    assert!(!revealed.contains("dusted"), "{revealed}");
    let file = place.write("revealed.json", &revealed);
    let dir = bundle.to_str().unwrap();
    let verify =
        |file: &Path| place.run(&["verify", dir, "--revealed", file.to_str().unwrap(), "--format", "json"]);
    let ended = verify(&file);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(json_of(&ended)["revealed"][0]["fits"], true);
    // Another word, another salt, another event: none is what the journal committed to.
    let salt = json_of(&Ended { code: None, stdout: revealed.clone(), stderr: String::new() })["salt"]
        .as_str()
        .unwrap()
        .to_owned();
    let lies = [
        revealed.replace("hush-hush-7", "hush-hush-8"),
        revealed.replace(&salt, &"0".repeat(salt.len())),
        revealed.replace(&format!("\"seq\":{seq}"), &format!("\"seq\":{}", seq - 1)),
        revealed.replace(&format!("\"name\":\"{name}\""), "\"name\":\"other\""),
        "{}".to_owned(),
    ];
    for lie in lies {
        assert_ne!(lie, revealed);
        let ended = verify(&place.write("lie.json", &lie));
        assert_eq!(ended.code, Some(2), "{lie}: {ended:?}");
    }
    for wrong in ["0", "x", "99999", &format!("{seq}:nothing")] {
        let ended = place.run(&["show", id, "--reveal", wrong]);
        assert_eq!(ended.code, Some(1), "{wrong}: {ended:?}");
    }
}

/// Who cannot sign says so: the evidence is there, unsigned, and the result tells it.
#[test]
fn a_signer_that_does_not_sign_is_told_and_takes_no_evidence_away() {
    let Some(place) = place("a_signer_that_does_not_sign_is_told_and_takes_no_evidence_away") else { return };
    repository(&place, PROJECT);
    let model = script(&place, "m.json", &good());
    let args = project::args(&place, &model, &["--check", CHECK, "--format", "json"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let key = place.path("key");
    assert_eq!(place.run(&["key", "new", key.to_str().unwrap()]).code, Some(0));
    let public = place.run(&["key", "show", key.to_str().unwrap()]).stdout;
    let public = place.write("key.pub", &public).display().to_string();
    // What can be seen before the agent starts is refused there.
    for (name, value) in
        [("COUNTERSIGN_SIGNING_KEY", "garbage"), ("COUNTERSIGN_SIGNING_KEY_FILE", "/nowhere")]
    {
        let refused = Ended::of(place.command(&args).env(name, value).output().unwrap());
        let result = refused.ended("setup_error", "key");
        let said = result["error"].to_string();
        assert!(said.contains(name) && said.contains("countersign key new"), "{result}");
        assert_eq!(result["usage"]["model_calls"], 0, "{result}");
    }
    let cases: [&[(&str, &str)]; 2] = [
        &[("COUNTERSIGN_SIGNING_COMMAND", "false"), ("COUNTERSIGN_SIGNING_PUBLIC_KEY_FILE", &public)],
        &[("COUNTERSIGN_SIGNING_KEY", "")],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let result = Ended::of(place.command(&args).envs(case.iter().copied()).output().unwrap()).json();
        assert_eq!(result["outcome"], "verified", "{case:?}: {result}");
        let note = result["degraded"][0].as_str().unwrap_or_else(|| panic!("{case:?}: {result}"));
        let verified =
            json_of(&place.run(&["verify", result["bundle"].as_str().unwrap(), "--format", "json"]));
        assert_eq!(verified["intact"], true, "{case:?}: {verified}");
        let signature = &verified["report"]["signature"];
        if number == 1 {
            assert!(note.contains("set and empty") && signature == "unknown_signer", "{note} {verified}");
        } else {
            assert!(note.contains("is not signed") && signature == "absent", "{case:?}: {note} {verified}");
        }
    }
}

/// A submodule's work tree is a repository like any other.
#[test]
fn a_bundle_of_a_submodule_is_made_and_held_against_it() {
    let Some(place) = place("a_bundle_of_a_submodule_is_made_and_held_against_it") else { return };
    let origin = repository(&place, PROJECT);
    let outer = place.path("outer");
    std::fs::create_dir(&outer).unwrap();
    git(&outer, &["init", "--quiet"]);
    let add =
        ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"];
    git(&outer, &add);
    let sub = outer.join("sub");
    let model = script(&place, "m.json", &good());
    let sub = sub.to_str().unwrap();
    let run =
        ["run", "make it 42", "--trust", "trusted-local", "--repo", sub, "--model", &model, "--check", CHECK];
    let result = place.run(&[&run[..], &["--format", "json"]].concat()).ended("verified", "checks_passed");
    let verified =
        place.run(&["verify", result["bundle"].as_str().unwrap(), "--repo", sub, "--format", "json"]);
    assert_eq!(json_of(&verified)["trees"][0]["same"], true, "{verified:?}");
}
