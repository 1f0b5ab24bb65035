//! Evidence from a person's view: every ended turn leaves a bundle, stock tools and `verify` accept it, and it falls apart when it
//! is touched.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ended, Place};
use project::{PROJECT, checked, edit, finish, place, repository, script, sh};
use serde_json::{Value, json};

fn played(place: &Place, turns: &Value, extra: &[&str]) -> Ended {
    repository(place, PROJECT);
    let model = script(place, "m.json", turns);
    checked(place, &model, extra)
}

fn bundle(result: &Value) -> PathBuf {
    assert_eq!(result["degraded"], json!([]), "{result}");
    PathBuf::from(result["bundle"].as_str().unwrap())
}

fn verify(place: &Place, bundle: &Path, extra: &[&str]) -> (Option<i32>, Value) {
    let dir = bundle.to_str().unwrap();
    let ended = place.run(&[&["verify", dir, "--format", "json"], extra].concat());
    (ended.code, serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}")))
}

#[test]
fn a_verified_turn_is_signed_and_only_a_trusted_key_makes_it_accepted() {
    let Some(place) = place("a_verified_turn_is_signed_and_only_a_trusted_key_makes_it_accepted") else {
        return;
    };
    let result = played(&place, &json!([edit("answer", "41", "42"), finish("Done.")]), &["--probe", "true"])
        .ended("verified", "checks_passed");
    let bundle = bundle(&result);
    // Made at first use, and trusted by nobody.
    let (code, report) = verify(&place, &bundle, &[]);
    assert_eq!((code, &report["intact"]), (Some(2), &json!(true)), "{report}");
    assert_eq!(report["report"]["signature"], "unknown_signer", "{report}");
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let (code, report) = verify(&place, &bundle, &["--require", "verified", "--min-strength", "red_before"]);
    assert_eq!((code, &report["accepted"]), (Some(0), &json!(true)), "{report}");
    assert_eq!(report["report"]["signature"], "trusted");
    assert_eq!(report["report"]["claims"]["outcome"], "verified");
    let (code, report) = verify(&place, &bundle, &["--min-strength", "held_out"]);
    assert_eq!(code, Some(2), "{report}");
    // Somebody else's home knows nobody.
    let nobody = place.write("nobody.toml", "version = 1\n").display().to_string();
    let (code, report) = verify(&place, &bundle, &["--trusted-keys", &nobody]);
    assert_eq!((code, &report["report"]["signature"]), (Some(2), &json!("unknown_signer")));
    // The machine's own tools.
    let sums = Command::new("sha256sum")
        .args(["--strict", "--quiet", "-c", "SHA256SUMS"])
        .current_dir(&bundle)
        .status()
        .unwrap();
    assert!(sums.success());
    // `show` names it; a second look writes nothing over it.
    let id = result["session"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&place.run(&["show", id, "--format", "json"]).stdout).unwrap();
    assert_eq!(shown["result"]["bundle"], result["bundle"]);
}

#[test]
fn every_kind_of_ending_leaves_a_bundle_that_says_it() {
    let Some(place) = place("every_kind_of_ending_leaves_a_bundle_that_says_it") else { return };
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let cases: &[(&str, &str, Value, &[&str])] = &[
        ("unverified", "check_failed", json!([edit("answer", "41", "40"), finish("Done.")]), &[]),
        ("unverified", "no_change", json!([finish("Done.")]), &[]),
        ("tampered", "protected_files", json!([sh("echo exit 0 > tests/check.sh"), finish("Done.")]), &[]),
        (
            "scope_violation",
            "paths",
            json!([sh("echo 42 > answer; echo > x"), finish("Done.")]),
            &["--scope", "answer"],
        ),
        ("capped", "turns", json!([sh("true"), sh("echo")]), &["--max-turns", "1"]),
        ("provider_error", "auth", json!([{ "error": { "status": 401 } }]), &[]),
        ("setup_error", "already_green", json!([finish("Done.")]), &["--check", "true"]),
    ];
    for (outcome, reason, turns, extra) in cases {
        let result = played(&place, turns, extra).ended(outcome, reason);
        let (code, report) = verify(&place, &bundle(&result), &[]);
        assert_eq!(code, Some(0), "{outcome}/{reason}: {report}");
        assert_eq!(report["report"]["claims"]["outcome"], *outcome);
        assert_eq!(report["report"]["passed_by"], json!([]));
        let (code, _) = verify(&place, &bundle(&result), &["--require", "verified"]);
        assert_eq!(code, Some(2), "{outcome}/{reason}");
    }
    // A refusal that never had a contract.
    let refused = place.run(&[
        "run",
        "t",
        "--trust",
        "trusted-local",
        "--check",
        "true",
        "--repo",
        "/nowhere",
        "--model",
        "scripted:/nowhere",
        "--format",
        "json",
    ]);
    let result = refused.json();
    assert_eq!(result["outcome"], "setup_error");
}

#[test]
fn a_bundle_falls_apart_when_it_is_touched() {
    let Some(place) = place("a_bundle_falls_apart_when_it_is_touched") else { return };
    assert_eq!(place.run(&["key", "trust", "--name", "me"]).code, Some(0));
    let result = played(&place, &json!([edit("answer", "41", "42"), finish("Done.")]), &[])
        .ended("verified", "checks_passed");
    let whole = bundle(&result);
    assert_eq!(verify(&place, &whole, &[]).0, Some(0));
    let files = |dir: &Path| -> Vec<PathBuf> {
        let listed = Command::new("find").args([".", "-type", "f"]).current_dir(dir).output().unwrap();
        String::from_utf8(listed.stdout).unwrap().lines().map(PathBuf::from).collect()
    };
    let copy = place.path("copy.bundle");
    let again = || {
        let _ = std::fs::remove_dir_all(&copy);
        assert!(Command::new("cp").args(["-r"]).arg(&whole).arg(&copy).status().unwrap().success());
    };
    for file in files(&whole) {
        again();
        let path = copy.join(&file);
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let (code, report) = verify(&place, &copy, &[]);
        assert_eq!((code, &report["intact"]), (Some(2), &json!(false)), "{}: {report}", file.display());
        again();
        std::fs::remove_file(copy.join(&file)).unwrap();
        assert_eq!(verify(&place, &copy, &[]).0, Some(2), "{} is gone", file.display());
    }
    again();
    std::fs::write(copy.join("extra"), "x").unwrap();
    assert_eq!(verify(&place, &copy, &[]).0, Some(2));
}

/// A disk that is full when the bundle is written changes no outcome, is said, and leaves nothing half made. Here it is the signer
/// that fills it: it runs just then.
#[test]
fn a_disk_that_is_full_at_bundle_time_is_told_and_changes_no_outcome() {
    let test = "a_disk_that_is_full_at_bundle_time_is_told_and_changes_no_outcome";
    let Some(place) = place(test) else { return };
    repository(&place, PROJECT);
    let key = place.path("key").display().to_string();
    assert_eq!(place.run(&["key", "new", &key]).code, Some(0));
    let public = place.run(&["key", "show", &key]).stdout;
    let public = place.write("key.pub", &public);
    let full = place.path("full");
    std::fs::create_dir(&full).unwrap();
    let fill = format!("cat /dev/zero > {}/filler 2>&-; exit 1\n", full.display());
    let fill = place.write("fill.sh", &fill);
    let model = script(&place, "m.json", &json!([edit("answer", "41", "42"), finish("Done.")]));
    let args = project::args(&place, &model, &["--check", project::CHECK, "--format", "json"]);
    let inner = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    // What is left is looked at before the mount is gone.
    let script = "mount -t tmpfs -o size=32m none \"$0\" || exit 99; \"$@\"; code=$?; \
                  find \"$0/sessions\" -name '*bundle*' >&2; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&full);
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("COUNTERSIGN_HOME", &full).current_dir(place.dir.path());
    command.env("COUNTERSIGN_SIGNING_COMMAND", format!("sh {}", fill.display()));
    command.env("COUNTERSIGN_SIGNING_PUBLIC_KEY_FILE", public);
    let ended = match command.output() {
        Ok(output) => Ended::of(output),
        Err(why) => return eprintln!("SKIPPED: {test}: unshare cannot be started: {why}"),
    };
    if ended.code == Some(99) || ended.stderr.starts_with("unshare") {
        return eprintln!("SKIPPED: {test}: this machine mounts nothing: {}", ended.stderr);
    }
    let result = ended.ended("verified", "checks_passed");
    assert_eq!(result["bundle"], json!(null), "{result}");
    let notes = result["degraded"].to_string();
    assert!(notes.contains("no bundle was written") && notes.contains("No space left"), "{notes}");
    assert!(!ended.stderr.contains(".bundle"), "{}", ended.stderr);
}

#[test]
fn a_turn_of_the_host_tier_is_not_signed_and_says_why() {
    let Some(place) = place("a_turn_of_the_host_tier_is_not_signed_and_says_why") else { return };
    let turns = json!([sh("echo 42 > answer"), finish("Done.")]);
    let result = played(&place, &turns, &["--sandbox", "host"]).ended("verified", "checks_passed");
    let (code, report) = verify(&place, Path::new(result["bundle"].as_str().unwrap()), &[]);
    assert_eq!((code, &report["report"]["signature"]), (Some(2), &json!("absent")), "{report}");
    assert_eq!(report["report"]["unsigned"], "host_tier");
}

#[test]
fn no_key_that_the_program_knows_is_in_a_bundle() {
    let Some(place) = place("no_key_that_the_program_knows_is_in_a_bundle") else { return };
    let secret = "sk-0123456789abcdefghijklmnopqrstuv";
    repository(&place, PROJECT);
    let turns =
        json!([sh(&format!("echo {secret}; echo 42 > answer")), finish(&format!("It was {secret}."))]);
    let model = script(&place, "m.json", &turns);
    let args = project::args(&place, &model, &["--check", project::CHECK, "--format", "json"]);
    let mut command = place.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let ended = project::ended(command.env("OPENAI_API_KEY", secret).spawn().unwrap());
    let dir = bundle(&ended.ended("verified", "checks_passed"));
    let found = Command::new("grep").args(["-r", "-l", "-F", secret]).arg(&dir).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn keys_are_made_once_and_shown_in_the_forms_that_tools_read() {
    let Some(place) = place("keys_are_made_once_and_shown_in_the_forms_that_tools_read") else { return };
    let path = place.path("ci.key").display().to_string();
    let made = place.run(&["key", "new", &path, "--format", "json"]);
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    assert!(made["openssh"].as_str().unwrap().starts_with("ssh-ed25519 "));
    assert!(made["pem"].as_str().unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
    assert_eq!(place.run(&["key", "new", &path]).code, Some(1), "never over another");
    let bare = place.run(&["key", "new", "bare.key"]);
    assert!(bare.code == Some(0) && place.path("bare.key").exists(), "{bare:?}");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = place.run(&["key", "show", &path, "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["key_id"], made["key_id"]);
    for wrong in
        [&["--name", ""][..], &["--name", "a", "--role", "x"], &["--name", "a", "--not-after", "soon"]]
    {
        assert_eq!(place.run(&[&["key", "trust", &path], wrong].concat()).code, Some(1), "{wrong:?}");
    }
    assert_eq!(place.run(&["key", "trust", &path, "--name", "ci", "--role", "runner"]).code, Some(0));
    let twice = place.run(&["key", "trust", &path, "--name", "other"]);
    assert_eq!(twice.code, Some(1), "a key stands once");
    assert!(twice.stderr.contains("there already, as `ci` for runner"), "{}", twice.stderr);
    assert!(twice.stderr.contains("key untrust"), "{}", twice.stderr);
    let listed: Value =
        serde_json::from_str(&place.run(&["key", "list", "--format", "json"]).stdout).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["roles"]), (&json!("ci"), &json!(["runner"])));
    assert_eq!(place.run(&["verify", "/nowhere"]).code, Some(1));
    let none = place.run(&["verify", place.path("").to_str().unwrap()]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("is no bundle"), "{}", none.stderr);
    // What `key show` prints is a file that `key trust` reads.
    let public = place.run(&["key", "show"]).stdout;
    let public = place.write("machine.pub", &public).display().to_string();
    assert_eq!(place.run(&["key", "trust", &public, "--name", "machine"]).code, Some(0));
    // Trust is taken back by name or fingerprint, and says when there was none.
    let names = || {
        let listed: Value =
            serde_json::from_str(&place.run(&["key", "list", "--format", "json"]).stdout).unwrap();
        let trusted = listed.as_array().unwrap().iter().filter(|key| key["trusted"] == json!(true));
        trusted.map(|key| key["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["ci", "machine"]);
    let gone = place.run(&["key", "untrust", "ci"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(gone.stderr.contains("not trusted here"), "{gone:?}");
    assert_eq!(names(), ["machine"]);
    // By what `key list --format json` prints as well; and a key that nobody named here is not called this machine's.
    let other = place.path("other");
    assert_eq!(place.run(&["key", "new", other.to_str().unwrap()]).code, Some(0));
    let other = other.to_str().unwrap();
    let text = place.run(&["key", "show", other]);
    assert!(text.stderr.contains("BEGIN PUBLIC KEY") && !text.stdout.contains("BEGIN"), "{text:?}");
    let foreign: Value =
        serde_json::from_str(&place.run(&["key", "show", other, "--format", "json"]).stdout).unwrap();
    assert_eq!(foreign["name"], Value::Null, "{foreign}");
    assert_eq!(place.run(&["key", "trust", "--name", "other", other]).code, Some(0));
    assert_eq!(place.run(&["key", "untrust", foreign["key_id"].as_str().unwrap()]).code, Some(0));
    let again = place.run(&["key", "untrust", "ci"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("no trusted key has the name, key id or fingerprint `ci`"), "{again:?}");
    let shown = place.run(&["key", "show", "--format", "json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(place.run(&["key", "untrust", shown["fingerprint"].as_str().unwrap()]).code, Some(0));
    assert_eq!(names(), [""; 0]);
}
