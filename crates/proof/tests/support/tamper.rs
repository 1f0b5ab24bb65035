//! What somebody could do to a bundle. Each function works on the fixture's bundle; those with `insider` in their name
//! hold the runner's key and sign `SHA256SUMS` anew, so that only the statements speak.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_proof::{SecretKey, dsse, layout, sshsig};
use countersign_types::Digest;
use serde_json::{Value, json};

use super::fixture::{self, Fixture, RUNNER, STRANGER, VERIFIER, files_of, key};

/// A way to tamper, and the finding that names it.
pub struct Tamper {
    pub name: &'static str,
    /// Codes that must be among the findings.
    pub told: &'static [&'static str],
    pub apply: fn(&Path),
}

const ROOM: &str = "statements/test-result.base-0.sigstore.json";
/// The room that decides.
const DECIDES: &str = "statements/test-result.a2-final-0.sigstore.json";
const TURN: &str = "statements/turn.sigstore.json";
const PROVENANCE: &str = "statements/provenance.sigstore.json";
const VERDICT: &str = "statements/verdict.sigstore.json";

pub const ALL: &[Tamper] = &[
    Tamper { name: "a byte of the patch flipped", told: &["digest"], apply: |d| flip(d, "patch.diff") },
    Tamper { name: "a byte of a statement flipped", told: &["digest"], apply: |d| flip(d, TURN) },
    Tamper {
        name: "a byte of the list flipped",
        told: &["bad_signature", "digest"],
        apply: |d| edit(d, "SHA256SUMS", |text| text.replacen("3", "4", 1)),
    },
    Tamper {
        name: "the list edited after a file",
        told: &["bad_signature", "part_changed", "final_tree"],
        apply: |d| {
            edit(d, "patch.diff", |text| text.replacen("a + b", "a * b", 1));
            resum(d);
        },
    },
    Tamper { name: "the list unsorted", told: &["sums_format"], apply: |d| edit(d, "SHA256SUMS", reversed) },
    Tamper {
        name: "the list with a comment",
        told: &["sums_format"],
        apply: |d| edit(d, "SHA256SUMS", |text| format!("# mine\n{text}")),
    },
    Tamper { name: "the list removed", told: &["missing_file"], apply: |d| remove(d, "SHA256SUMS") },
    Tamper { name: "the header removed", told: &["missing_file"], apply: |d| remove(d, "bundle.json") },
    Tamper {
        name: "a statement dropped",
        told: &["missing_file", "statement_missing"],
        apply: |d| remove(d, ROOM),
    },
    Tamper {
        name: "a statement dropped, the list edited",
        told: &["bad_signature", "statement_missing"],
        apply: |d| {
            remove(d, ROOM);
            resum(d);
        },
    },
    Tamper {
        name: "a statement dropped, insider",
        told: &["statement_missing"],
        apply: |d| {
            remove(d, ROOM);
            insider(d);
        },
    },
    Tamper {
        name: "the verdict dropped, insider",
        told: &["missing_file"],
        apply: |d| {
            remove(d, VERDICT);
            insider(d);
        },
    },
    Tamper {
        name: "a room's statement added, insider",
        told: &["statement_unlisted"],
        apply: |d| {
            let payload = payload(d, ROOM);
            let other: Value =
                serde_json::from_str(&payload.to_string().replace("base-0", "base-1")).unwrap();
            seal(d, "statements/test-result.base-1.sigstore.json", &other, RUNNER);
            insider(d);
        },
    },
    Tamper {
        name: "a statement of another kind in the place of one, insider",
        told: &["statement", "statement_changed"],
        apply: |d| {
            fs::copy(d.join(PROVENANCE), d.join(TURN)).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "signatures of two statements swapped, insider",
        told: &["bad_signature", "statement_changed"],
        apply: |d| {
            let (a, b) = (value(d, TURN), value(d, PROVENANCE));
            let mut swapped = (a.clone(), b.clone());
            swapped.0["dsseEnvelope"]["signatures"] = b["dsseEnvelope"]["signatures"].clone();
            swapped.1["dsseEnvelope"]["signatures"] = a["dsseEnvelope"]["signatures"].clone();
            put(d, TURN, &swapped.0);
            put(d, PROVENANCE, &swapped.1);
            insider(d);
        },
    },
    Tamper {
        name: "a second signature, insider",
        told: &["signature_format"],
        apply: |d| {
            let mut turn = value(d, TURN);
            let more = turn["dsseEnvelope"]["signatures"][0].clone();
            turn["dsseEnvelope"]["signatures"].as_array_mut().unwrap().push(more);
            put(d, TURN, &turn);
            insider(d);
        },
    },
    Tamper {
        name: "the key id swapped, insider",
        told: &["key_id_swapped"],
        apply: |d| {
            let mut turn = value(d, TURN);
            let other = key(VERIFIER).public();
            turn["dsseEnvelope"]["signatures"][0]["keyid"] = json!(other.fingerprint());
            turn["verificationMaterial"]["publicKey"]["hint"] = json!(other.id());
            put(d, TURN, &turn);
            insider(d);
        },
    },
    Tamper {
        name: "the envelope's key id alone swapped, insider",
        told: &["key_id_swapped"],
        apply: |d| {
            let mut turn = value(d, TURN);
            turn["dsseEnvelope"]["signatures"][0]["keyid"] = json!(key(VERIFIER).public().fingerprint());
            put(d, TURN, &turn);
            insider(d);
        },
    },
    Tamper {
        name: "a statement signed by a stranger, insider",
        told: &["other_signer"],
        apply: |d| {
            let payload = payload(d, TURN);
            seal(d, TURN, &payload, STRANGER);
            insider(d);
        },
    },
    Tamper {
        name: "the verdict signed by the runner, insider",
        told: &["other_signer"],
        apply: |d| {
            let payload = payload(d, VERDICT);
            seal(d, VERDICT, &payload, RUNNER);
            insider(d);
        },
    },
    Tamper {
        name: "the list signed by a stranger",
        told: &["other_signer"],
        apply: |d| sign(d, &key(STRANGER)),
    },
    Tamper {
        name: "the list's signature of another list",
        told: &["bad_signature"],
        apply: |d| {
            let other = sshsig::sign(&key(RUNNER), b"another list\n").unwrap();
            fs::write(d.join("SHA256SUMS.sig"), other).unwrap();
        },
    },
    Tamper {
        name: "the list's signature of another namespace",
        told: &["signature_format"],
        apply: |d| fs::write(d.join("SHA256SUMS.sig"), NAMESPACE_GIT).unwrap(),
    },
    Tamper {
        name: "the list's signature stripped",
        told: &["missing_file"],
        apply: |d| remove(d, "SHA256SUMS.sig"),
    },
    Tamper {
        name: "said to be unsigned and not stripped",
        told: &["digest"],
        apply: |d| edit(d, "bundle.json", |_| unsigned_header()),
    },
    Tamper {
        name: "the header of a stranger, insider",
        told: &["other_signer"],
        apply: |d| {
            let mut header = value(d, "bundle.json");
            let stranger = key(STRANGER).public();
            header["signing"]["runner"] = json!({"key_id": stranger.id(), "public": stranger});
            put_raw(d, "bundle.json", header.to_string());
            insider(d);
        },
    },
    Tamper {
        name: "a replayed verdict of another turn, insider",
        told: &["other_turn", "statement_changed"],
        apply: |d| {
            take(d, &Fixture { turn: 2, ..Fixture::default() }, VERDICT);
            insider(d);
        },
    },
    Tamper {
        name: "a replayed verdict about other files, insider",
        told: &["subject", "statement_changed"],
        apply: |d| {
            let other = Fixture { last: fixture::base(), patch: Vec::new(), ..Fixture::default() };
            take(d, &other, VERDICT);
            insider(d);
        },
    },
    Tamper {
        name: "a turn and provenance of a foreign run, insider",
        told: &["other_turn", "statement_changed", "contradiction"],
        apply: |d| {
            let session = "s-foreign";
            let other = Fixture { session: session.to_owned(), ..Fixture::default() };
            take(d, &other, TURN);
            take(d, &other, PROVENANCE);
            insider(d);
        },
    },
    Tamper {
        name: "a failure's result shown as success, insider",
        told: &["contradiction", "part_changed"],
        apply: |d| {
            failed(d);
            let mut result = value(d, "result.json");
            result["outcome"] = json!("verified");
            result["reason"] = json!("checks_passed");
            result["exit_code"] = json!(0);
            put_raw(d, "result.json", result.to_string());
            insider(d);
        },
    },
    Tamper {
        name: "the transcript's task changed, insider",
        told: &["contradiction", "part_changed"],
        apply: |d| {
            edit(d, "transcript.jsonl", |text| text.replacen("\"text\":\"task\"", "\"text\":\"tusk\"", 1));
            insider(d);
        },
    },
    Tamper {
        name: "the transcript's task changed, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "transcript.jsonl", |text| text.replacen("\"text\":\"task\"", "\"text\":\"tusk\"", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "the transcript's blind changed, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "transcript.jsonl", |text| text.replacen("\"text\":\"09", "\"text\":\"0a", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "the transcript's blind taken away, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "transcript.jsonl", |text| text.split_once('\n').unwrap().1.to_owned());
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a room's output changed, insider",
        told: &["part_changed"],
        apply: |d| {
            edit(d, "rooms/base-0/stdout", |text| text.replacen("2 tests", "3 tests", 1));
            insider(d);
        },
    },
    Tamper {
        name: "a failure's verdict turned to PASSED, by its verifier",
        told: &["contradiction"],
        apply: |d| {
            failed(d);
            let mut verdict = payload(d, VERDICT);
            verdict["predicate"]["verificationResult"] = json!("PASSED");
            verdict["predicate"]["verifiedLevels"] = json!(["COUNTERSIGN_IDS"]);
            seal(d, VERDICT, &verdict, VERIFIER);
            insider(d);
        },
    },
    Tamper {
        name: "a turn of the host tier, by all keys",
        told: &["contradiction"],
        apply: |d| {
            let mut turn = payload(d, TURN);
            turn["predicate"]["tier"] = json!("host");
            seal(d, TURN, &turn, RUNNER);
            let mut verdict = payload(d, VERDICT);
            relist(d, &mut verdict);
            seal(d, VERDICT, &verdict, VERIFIER);
            insider(d);
        },
    },
    Tamper {
        name: "a turn turned to verified over a failed room, by all keys",
        told: &["contradiction"],
        apply: |d| {
            let mut room = payload(d, DECIDES);
            room["predicate"]["result"] = json!("FAILED");
            seal(d, DECIDES, &room, RUNNER);
            let mut verdict = payload(d, VERDICT);
            relist(d, &mut verdict);
            seal(d, VERDICT, &verdict, VERIFIER);
            insider(d);
        },
    },
    Tamper {
        name: "a gate turned from failed to passed, by all keys",
        told: &["contradiction", "journal_turn"],
        apply: |d| {
            failed(d);
            let mut turn = payload(d, TURN);
            turn["predicate"]["outcome"] = json!("verified");
            turn["predicate"]["reason"] = json!("checks_passed");
            turn["predicate"]["exit_code"] = json!(0);
            seal(d, TURN, &turn, RUNNER);
            let mut verdict = payload(d, VERDICT);
            relist(d, &mut verdict);
            seal(d, VERDICT, &verdict, VERIFIER);
            insider(d);
        },
    },
    Tamper {
        name: "everything but the journal turned to verified, by all keys",
        told: &["journal_turn"],
        apply: verified_but_for_the_journal,
    },
    Tamper {
        name: "everything but a gate in the journal turned to verified, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            verified_but_for_the_journal(d);
            rechain(d, |data| {
                if data["event"] == "turn_ended" {
                    data["outcome"] = json!("verified");
                    data["reason"] = json!("checks_passed");
                    data["strength"] = json!({"in_process": true, "level": "ids"});
                }
            });
        },
    },
    Tamper {
        name: "fewer calls and tokens than were used, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            all_keys(
                d,
                |turn| {
                    turn["usage"][0]["calls"] = json!(1);
                    turn["usage"][0]["input"] = json!(400);
                },
                |_| (),
            );
        },
    },
    Tamper {
        name: "an unknown cost that is said to be known, by all keys",
        told: &["journal_turn"],
        apply: |d| all_keys(d, |turn| turn["usage"][0]["micro_usd"] = json!(0), |_| ()),
    },
    Tamper {
        name: "the usage left out, by all keys",
        told: &["journal_turn"],
        apply: |d| all_keys(d, |turn| turn["usage"] = json!([]), |_| ()),
    },
    Tamper {
        name: "a reviewer that was never asked, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            let more = json!({"role": "reviewer", "calls": 2, "input": 9, "output": 9, "micro_usd": null});
            all_keys(d, |turn| turn["usage"].as_array_mut().unwrap().push(more), |_| ());
        },
    },
    Tamper {
        name: "a stronger tier than the cell's, by all keys",
        told: &["journal_turn"],
        apply: |d| all_keys(d, |turn| turn["tier"] = json!("vm"), |_| ()),
    },
    Tamper {
        name: "a property that nobody observed, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            let more = json!("separate_kernel");
            all_keys(d, |turn| turn["observed"].as_array_mut().unwrap().push(more), |_| ());
        },
    },
    Tamper {
        name: "a room of an attempt that never was, by all keys",
        told: &["journal_turn"],
        apply: |d| room(d, |room| room["attempt"] = json!(7)),
    },
    Tamper {
        name: "the contract of the config changed, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "config.json", |text| text.replacen("\"review\":null", "\"review\":false", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "the contract of the config taken away from its key, by all keys",
        told: &["contradiction"],
        apply: |d| {
            let mut config = value(d, "config.json");
            config["contract"] = json!(null);
            put_raw(d, "config.json", config.to_string());
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "the contract of the config left out, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "config.json", |_| "{}".to_owned());
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "the strength of the result left out, by all keys",
        told: &["contradiction"],
        apply: |d| {
            let mut result = value(d, "result.json");
            result.as_object_mut().unwrap().remove("strength");
            put_raw(d, "result.json", result.to_string());
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "another model than the contract's, by all keys",
        told: &["contradiction"],
        apply: |d| {
            let models = json!([{"role": "agent", "reference": "scripted:other.json", "endpoint": null}]);
            let mut provenance = payload(d, PROVENANCE);
            provenance["predicate"]["buildDefinition"]["internalParameters"]["models"] = models.clone();
            seal(d, PROVENANCE, &provenance, RUNNER);
            all_keys(d, |turn| turn["models"] = models, |_| ());
        },
    },
    Tamper {
        name: "another strength in the result, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "result.json", |text| text.replacen("\"level\":\"ids\"", "\"level\":\"held_out\"", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "another base in the result, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "result.json", |text| text.replacen("\"commit\":\"0", "\"commit\":\"1", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a transcript with a line that is no object, by all keys",
        told: &["json"],
        apply: |d| {
            edit(d, "transcript.jsonl", |text| format!("{text}[]\n"));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a test that failed in the room that passed, by all keys",
        told: &["contradiction"],
        apply: |d| {
            let mut room = payload(d, DECIDES);
            room["predicate"]["failedTests"] = json!(["adds_nothing"]);
            seal(d, DECIDES, &room, RUNNER);
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a verified turn that sealed nothing by its gates, by all keys",
        told: &["contradiction"],
        apply: |d| {
            all_keys(d, |turn| turn["gates"]["seal"] = json!({"reason": null, "status": "absent"}), |_| ());
        },
    },
    Tamper {
        name: "a base commit that is no object id, by all keys",
        told: &["contradiction"],
        apply: |d| all_keys(d, |turn| turn["base_commit"] = json!("HEAD"), |_| ()),
    },
    Tamper {
        name: "a reason that nobody knows, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["reason"] = json!("because"), |_| ()),
    },
    Tamper {
        name: "a reason of another outcome, by all keys",
        told: &["contradiction"],
        apply: |d| all_keys(d, |turn| turn["reason"] = json!("no_change"), |_| ()),
    },
    Tamper {
        name: "a turn without the key of its tier, by all keys",
        told: &["json"],
        apply: |d| {
            all_keys(
                d,
                |turn| {
                    turn.as_object_mut().unwrap().remove("tier");
                },
                |_| (),
            )
        },
    },
    Tamper {
        name: "a turn with a tier that nobody knows, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["tier"] = json!("cloud"), |_| ()),
    },
    Tamper {
        name: "a property that nobody can observe, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["observed"] = json!(["userns", "magic"]), |_| ()),
    },
    Tamper {
        name: "a trust that nobody knows, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["trust"] = json!("full"), |_| ()),
    },
    Tamper {
        name: "a network that nobody knows, by all keys",
        told: &["contradiction"],
        apply: |d| all_keys(d, |turn| turn["network"] = json!("lan"), |_| ()),
    },
    Tamper {
        name: "an exit code that is true or false, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["exit_code"] = json!(false), |_| ()),
    },
    Tamper {
        name: "a gate with a field of its own, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["gates"]["seal"]["by"] = json!(null), |_| ()),
    },
    Tamper {
        name: "a gate that nobody knows, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["gates"]["luck"] = turn["gates"]["seal"].clone(), |_| ()),
    },
    Tamper {
        name: "a model with a field of its own, by all keys",
        told: &["json"],
        apply: |d| all_keys(d, |turn| turn["models"][0]["price"] = json!(1), |_| ()),
    },
    Tamper {
        name: "a day that the calendar does not have, by all keys",
        told: &["journal_turn"],
        apply: |d| ended_at(d, "2026-02-30T12:05:00Z"),
    },
    Tamper {
        name: "the last second of the year 9999, by all keys",
        told: &["journal_turn"],
        apply: |d| ended_at(d, "9999-12-31T23:59:59Z"),
    },
    Tamper {
        name: "a time without its zone, by all keys",
        told: &["journal_turn"],
        apply: |d| ended_at(d, "2026-11-30T12:05:00"),
    },
    Tamper {
        name: "a number that is none, by all keys",
        told: &["json"],
        apply: |d| {
            edit(d, "config.json", |text| text.replacen("\"none\"", "NaN", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a number beyond all bounds, by all keys",
        told: &["json"],
        apply: |d| {
            edit(d, "config.json", |text| text.replacen("\"none\"", "1e999", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "an exit code of minus zero in the result, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "result.json", |text| text.replacen("\"exit_code\":0", "\"exit_code\":-0", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "an exit code with a point in the result, by all keys",
        told: &["contradiction"],
        apply: |d| {
            edit(d, "result.json", |text| text.replacen("\"exit_code\":0", "\"exit_code\":0.0", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "half a letter, by all keys",
        told: &["json"],
        apply: |d| {
            edit(d, "config.json", |text| text.replacen("\"none\"", "\"\\ud800\"", 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a config that is too deep, by all keys",
        told: &["json"],
        apply: |d| {
            let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
            edit(d, "config.json", |text| text.replacen('{', &format!("{{\"deep\":{deep},"), 1));
            all_keys(d, |_| (), |_| ());
        },
    },
    Tamper {
        name: "a room with a field of its own, by all keys",
        told: &["contradiction"],
        apply: |d| room(d, |facts| facts["luck"] = json!(true)),
    },
    Tamper {
        name: "a room without a field, by all keys",
        told: &["contradiction"],
        apply: |d| {
            room(d, |facts| {
                facts.as_object_mut().unwrap().remove("cause");
            });
        },
    },
    Tamper {
        name: "the journal's last event taken away, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            edit(d, "journal.jsonl", |text| {
                let lines: Vec<&str> = text.split_inclusive('\n').collect();
                lines[..lines.len() - 1].concat()
            });
            rechain(d, |_| ());
        },
    },
    Tamper {
        name: "the journal of a turn with another strength, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            rechain(d, |data| {
                if data["event"] == "turn_ended" {
                    data["strength"]["level"] = json!("exit_code");
                }
            });
        },
    },
    Tamper {
        name: "the journal of a turn under another contract, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            rechain(d, |data| {
                if data["event"] == "session_opened" {
                    data["contract"] = json!(Digest::of(b"another contract"));
                }
            });
        },
    },
    Tamper {
        name: "the journal of a turn from another commit, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            rechain(d, |data| {
                if data["result"] == "import" {
                    data["commit"] = json!("fedcba9876543210fedcba9876543210fedcba98");
                }
            });
        },
    },
    Tamper {
        name: "the journal of a turn that sealed another tree, by all keys",
        told: &["journal_turn"],
        apply: |d| {
            rechain(d, |data| {
                if data["result"] == "seal" {
                    data["tree"] = json!(Digest::of(b"another tree"));
                }
            });
        },
    },
    Tamper {
        name: "the journal cut at an event, insider",
        told: &["journal_head", "part_changed"],
        apply: |d| {
            edit(d, "journal.jsonl", |text| text.split_inclusive('\n').take(5).collect());
            insider(d);
        },
    },
    Tamper {
        name: "the journal cut inside of an event, insider",
        told: &["journal", "part_changed"],
        apply: |d| {
            edit(d, "journal.jsonl", |text| text[..text.len() - 9].to_owned());
            insider(d);
        },
    },
    Tamper {
        name: "an event changed, insider",
        told: &["journal"],
        apply: |d| {
            edit(d, "journal.jsonl", |text| text.replacen("\"dirty\":0", "\"dirty\":1", 1));
            insider(d);
        },
    },
    Tamper {
        name: "an event removed, insider",
        told: &["journal"],
        apply: |d| {
            edit(d, "journal.jsonl", |text| {
                text.split_inclusive('\n')
                    .enumerate()
                    .filter(|(at, _)| *at != 2)
                    .map(|(_, line)| line)
                    .collect()
            });
            insider(d);
        },
    },
    Tamper {
        name: "the journal of another session, insider",
        told: &["journal"],
        apply: |d| {
            fs::write(d.join("journal.jsonl"), fixture::journal("s-other", 7)).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "a pre-image changed",
        told: &["digest"],
        apply: |d| {
            let path = pre_image(d);
            flip(d, &path);
        },
    },
    Tamper {
        name: "a pre-image of another name, insider",
        told: &["pre_image_missing", "pre_image_unused"],
        apply: |d| {
            let path = pre_image(d);
            let mut bytes = fs::read(d.join(&path)).unwrap();
            bytes.push(b'x');
            remove(d, &path);
            fs::write(d.join(format!("tree/pre/{}", Digest::of(&bytes).hex())), bytes).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "the patch damaged, insider",
        told: &["patch"],
        apply: |d| {
            edit(d, "patch.diff", |text| text.replacen("-    a - b", "-    a / b", 1));
            insider(d);
        },
    },
    Tamper {
        name: "the patch with a file less, insider",
        told: &["final_tree", "pre_image_unused"],
        apply: |d| {
            edit(d, "patch.diff", |text| {
                let at = text.find("diff --git a/src/lib.rs").unwrap();
                text[..at].to_owned()
            });
            insider(d);
        },
    },
    Tamper {
        name: "the final tree changed, insider",
        told: &["final_tree", "subject", "contradiction"],
        apply: |d| {
            let mut files = fixture::last();
            files.get_mut(&b"same.txt"[..]).unwrap().1 = b"changed".to_vec();
            fs::write(d.join("tree/final.manifest"), fixture::manifest(&files).encode()).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "the base changed, insider",
        told: &["final_tree", "contradiction"],
        apply: |d| {
            let mut files = fixture::base();
            files.get_mut(&b"same.txt"[..]).unwrap().1 = b"changed".to_vec();
            fs::write(d.join("tree/base.manifest"), fixture::manifest(&files).encode()).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "the base with another mode, insider",
        told: &["patch_base"],
        apply: |d| {
            let mut files = fixture::base();
            files.get_mut(&b"run.sh"[..]).unwrap().0 = countersign_tree::EntryMode::Executable;
            fs::write(d.join("tree/base.manifest"), fixture::manifest(&files).encode()).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "a manifest that is none, insider",
        told: &["manifest"],
        apply: |d| {
            fs::write(d.join("tree/final.manifest"), b"countersign.tree/1\nnothing").unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "a file added",
        told: &["unexpected_file"],
        apply: |d| fs::write(d.join("notes.txt"), "read me").unwrap(),
    },
    Tamper {
        name: "an output added",
        told: &["unlisted_file"],
        apply: |d| fs::write(d.join("rooms/base-0/stderr"), "read me").unwrap(),
    },
    Tamper {
        name: "an output added, insider",
        told: &["part_unlisted"],
        apply: |d| {
            fs::write(d.join("rooms/base-0/stderr"), "read me").unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "an output removed, insider",
        told: &["part_missing"],
        apply: |d| {
            remove(d, "rooms/base-0/stdout");
            fs::remove_dir(d.join("rooms/base-0")).unwrap();
            insider(d);
        },
    },
    Tamper {
        name: "an empty directory added",
        told: &["not_a_file"],
        apply: |d| fs::create_dir(d.join("empty")).unwrap(),
    },
    Tamper {
        name: "a file too deep",
        told: &["unexpected_file"],
        apply: |d| {
            fs::create_dir_all(d.join("tree/pre/a/b")).unwrap();
            fs::write(d.join("tree/pre/a/b/c"), "x").unwrap();
        },
    },
    Tamper {
        name: "a name that is not text",
        told: &["unexpected_file"],
        apply: |d| {
            use std::os::unix::ffi::OsStrExt as _;
            fs::write(d.join(std::ffi::OsStr::from_bytes(b"x\xff")), "x").unwrap();
        },
    },
    Tamper {
        name: "a link in a file's place",
        told: &["not_a_file"],
        apply: |d| {
            fs::rename(d.join("transcript.jsonl"), d.with_extension("elsewhere")).unwrap();
            std::os::unix::fs::symlink(d.with_extension("elsewhere"), d.join("transcript.jsonl")).unwrap();
        },
    },
    Tamper {
        name: "a link in a directory's place",
        told: &["not_a_file", "missing_file"],
        apply: |d| {
            fs::rename(d.join("rooms"), d.with_extension("elsewhere")).unwrap();
            std::os::unix::fs::symlink(d.with_extension("elsewhere"), d.join("rooms")).unwrap();
        },
    },
    Tamper {
        name: "a pipe in a file's place",
        told: &["not_a_file"],
        apply: |d| {
            remove(d, "transcript.jsonl");
            let made = std::process::Command::new("mkfifo").arg(d.join("transcript.jsonl")).status().unwrap();
            assert!(made.success());
        },
    },
    Tamper {
        name: "a huge file",
        told: &["too_large"],
        apply: |d| grow(d, "transcript.jsonl", layout::MAX_FILE.as_u64() + 1),
    },
    Tamper {
        name: "a huge statement",
        told: &["too_large"],
        apply: |d| grow(d, TURN, layout::MAX_JSON.as_u64() + 1),
    },
    Tamper {
        name: "a huge list",
        told: &["too_large"],
        apply: |d| grow(d, "SHA256SUMS", layout::MAX_JSON.as_u64() + 1),
    },
    Tamper {
        name: "a header that is no JSON, insider",
        told: &["json"],
        apply: |d| {
            put_raw(d, "bundle.json", "{".to_owned());
            insider(d);
        },
    },
    Tamper {
        name: "a header of another format, insider",
        told: &["json"],
        apply: |d| {
            edit(d, "bundle.json", |text| text.replacen("countersign.bundle/2", "countersign.bundle/3", 1));
            insider(d);
        },
    },
    Tamper {
        name: "a key twice in the result, insider",
        told: &["json", "part_changed"],
        apply: |d| {
            edit(d, "result.json", |text| text.replacen('{', "{\"outcome\":\"verified\",", 1));
            insider(d);
        },
    },
    Tamper {
        name: "an unknown field in a statement, by its signer",
        told: &["json", "statement_changed"],
        apply: |d| {
            let mut turn = payload(d, TURN);
            turn["predicate"]["approved"] = json!(true);
            seal(d, TURN, &turn, RUNNER);
            insider(d);
        },
    },
    Tamper {
        name: "a statement in another spelling, by its signer",
        told: &["json", "statement_changed"],
        apply: |d| {
            let text = format!(" {}", payload(d, TURN));
            fs::write(d.join(TURN), dsse::seal(&key(RUNNER), text.as_bytes()).unwrap()).unwrap();
            insider(d);
        },
    },
];

/// An SSH signature by the runner's key for namespace `git`.
const NAMESPACE_GIT: &str = include_str!("../golden/git-namespace.sig");

fn edit(dir: &Path, path: &str, change: impl FnOnce(&str) -> String) {
    let text = fs::read_to_string(dir.join(path)).unwrap();
    let changed = change(&text);
    assert_ne!(text, changed, "{path}");
    fs::write(dir.join(path), changed).unwrap();
}

pub fn flip(dir: &Path, path: &str) {
    let mut bytes = fs::read(dir.join(path)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(dir.join(path), bytes).unwrap();
}

fn remove(dir: &Path, path: &str) {
    fs::remove_file(dir.join(path)).unwrap();
}

fn grow(dir: &Path, path: &str, len: u64) {
    fs::OpenOptions::new().write(true).open(dir.join(path)).unwrap().set_len(len).unwrap();
}

fn reversed(text: &str) -> String {
    text.split_inclusive('\n').rev().collect()
}

fn pre_image(dir: &Path) -> String {
    files_of(dir).into_keys().find(|path| path.starts_with("tree/pre/")).unwrap()
}

/// Writes `SHA256SUMS` over what is there now.
pub fn resum(dir: &Path) {
    let files = files_of(dir);
    let listed = files.iter().filter(|(path, _)| !path.starts_with("SHA256SUMS"));
    let text: String = listed.map(|(path, bytes)| format!("{}  {path}\n", Digest::of(bytes).hex())).collect();
    fs::write(dir.join("SHA256SUMS"), text).unwrap();
}

fn sign(dir: &Path, key: &SecretKey) {
    let sums = fs::read(dir.join("SHA256SUMS")).unwrap();
    fs::write(dir.join("SHA256SUMS.sig"), sshsig::sign(key, &sums).unwrap()).unwrap();
}

/// The list over what is there now, signed by the runner.
pub fn insider(dir: &Path) {
    resum(dir);
    sign(dir, &key(RUNNER));
}

fn value(dir: &Path, path: &str) -> Value {
    serde_json::from_slice(&fs::read(dir.join(path)).unwrap()).unwrap()
}

/// serde_json writes keys sorted, so this is canonical.
fn put(dir: &Path, path: &str, value: &Value) {
    put_raw(dir, path, format!("{value}\n"));
}

fn put_raw(dir: &Path, path: &str, text: String) {
    fs::write(dir.join(path), text).unwrap();
}

fn payload(dir: &Path, path: &str) -> Value {
    let text = value(dir, path)["dsseEnvelope"]["payload"].as_str().unwrap().to_owned();
    serde_json::from_slice(&STANDARD.decode(text).unwrap()).unwrap()
}

fn seal(dir: &Path, path: &str, payload: &Value, seed: u8) {
    fs::write(dir.join(path), dsse::seal(&key(seed), payload.to_string().as_bytes()).unwrap()).unwrap();
}

/// The verdict lists the statements that are there now.
fn relist(dir: &Path, verdict: &mut Value) {
    for named in verdict["predicate"]["inputAttestations"].as_array_mut().unwrap() {
        let path = named["uri"].as_str().unwrap().to_owned();
        named["digest"]["sha256"] = json!(Digest::of(&fs::read(dir.join(path)).unwrap()).hex());
    }
}

/// Writes the turn's, the provenance's and then the verdict's statement anew, over what is there now, and signs all of it.
fn all_keys(dir: &Path, change: impl FnOnce(&mut Value), verdict: impl FnOnce(&mut Value)) {
    let mut turn = payload(dir, TURN);
    change(&mut turn["predicate"]);
    for (path, digest) in turn["predicate"]["parts"].as_object_mut().unwrap() {
        *digest = json!(Digest::of(&fs::read(dir.join(path)).unwrap()));
    }
    seal(dir, TURN, &turn, RUNNER);
    let mut made = payload(dir, PROVENANCE);
    let now = |resource: &mut Value| {
        let path = resource["name"].as_str().unwrap().to_owned();
        resource["digest"]["sha256"] = json!(Digest::of(&fs::read(dir.join(path)).unwrap()).hex());
    };
    now(&mut made["predicate"]["buildDefinition"]["internalParameters"]["config"]);
    made["predicate"]["runDetails"]["byproducts"].as_array_mut().unwrap().iter_mut().for_each(now);
    seal(dir, PROVENANCE, &made, RUNNER);
    let mut own = payload(dir, VERDICT);
    verdict(&mut own["predicate"]);
    relist(dir, &mut own);
    seal(dir, VERDICT, &own, VERIFIER);
    insider(dir);
}

/// The bundle of a turn that failed, which says in every statement and in its result that it passed.
fn verified_but_for_the_journal(dir: &Path) {
    failed(dir);
    let mut room = payload(dir, DECIDES);
    let tests = room["predicate"]["failedTests"].take();
    room["predicate"]["passedTests"] = tests;
    room["predicate"]["failedTests"] = json!([]);
    room["predicate"]["result"] = json!("PASSED");
    for resource in room["predicate"]["configuration"].as_array_mut().unwrap() {
        if resource["name"] == "room" {
            resource["annotations"]["ended"] = json!("exit 0");
        }
    }
    seal(dir, DECIDES, &room, RUNNER);
    let strength = json!({"in_process": true, "level": "ids"});
    let says = |value: &mut Value| {
        value["outcome"] = json!("verified");
        value["reason"] = json!("checks_passed");
        value["exit_code"] = json!(0);
        if value.get("strength").is_some() {
            value["strength"] = strength.clone();
        }
    };
    let mut result = value(dir, "result.json");
    says(&mut result);
    put_raw(dir, "result.json", result.to_string());
    let turn = |turn: &mut Value| {
        says(turn);
        turn["gates"]["check"] = json!({"reason": null, "status": "passed"});
    };
    let verdict = |verdict: &mut Value| {
        verdict["verificationResult"] = json!("PASSED");
        verdict["verifiedLevels"] = json!(["COUNTERSIGN_IDS_IN_PROCESS"]);
    };
    all_keys(dir, turn, verdict);
}

/// The header and the turn say that it ended then.
fn ended_at(dir: &Path, time: &str) {
    let mut header = value(dir, "bundle.json");
    header["created_at"] = json!(time);
    put_raw(dir, "bundle.json", header.to_string());
    all_keys(dir, |turn| turn["ended_at"] = json!(time), |_| ());
}

/// The room that decides says something else of itself.
fn room(dir: &Path, change: impl Fn(&mut Value)) {
    let mut room = payload(dir, DECIDES);
    for resource in room["predicate"]["configuration"].as_array_mut().unwrap() {
        if resource["name"] == "room" {
            change(&mut resource["annotations"]);
        }
    }
    seal(dir, DECIDES, &room, RUNNER);
    all_keys(dir, |_| (), |_| ());
}

/// A journal of the same events but for a change of their data, chained and signed anew.
fn rechain(dir: &Path, change: impl Fn(&mut Value)) {
    let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let events = text.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        change(&mut event["data"]);
        (event["at"].as_u64().unwrap(), event["kind"].as_str().unwrap().to_owned(), event["data"].take())
    });
    let bytes = fixture::chained(fixture::SESSION, events);
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let head = json!({"head": Digest::of(lines[lines.len() - 1]), "seq": lines.len()});
    fs::write(dir.join("journal.jsonl"), &bytes).unwrap();
    all_keys(dir, |turn| turn["journal"] = head, |_| ());
}

/// One file of another bundle.
fn take(dir: &Path, other: &Fixture, path: &str) {
    let elsewhere = tempfile::tempdir().unwrap();
    let written = other.write(elsewhere.path());
    fs::copy(written.path.join(path), dir.join(path)).unwrap();
}

/// In the place of the bundle, that of a turn whose check failed.
fn failed(dir: &Path) {
    fs::remove_dir_all(dir).unwrap();
    let reason = countersign_types::Reason::CheckFailed;
    Fixture { reason, ..Fixture::default() }.write(dir.parent().unwrap());
}

fn unsigned_header() -> String {
    let dir = tempfile::tempdir().unwrap();
    let written = Fixture { signed: false, ..Fixture::default() }.write(dir.path());
    fs::read_to_string(written.path.join("bundle.json")).unwrap()
}
