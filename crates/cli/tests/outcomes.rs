//! The table of outcomes, held against the real binary: every reason is reached by a run that is played here, or owed
//! by a later issue that is named here. What a run ends with is the same in its exit code, its JSON object, the last
//! line of its stream and its words for people.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;
#[path = "common/schema.rs"]
mod schema;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Mutex;

use common::{Ended, Place};
use countersign_types::{GateKey, Reason};
use project::{CHECK, PROJECT, edit, finish, kill, odd_seconds, repository, script, sh, sleeps, until};
use serde_json::{Value, json};

/// Reasons that nothing of this version can reach, and the issue that owes them.
const OWED: &[(Reason, &str)] = &[
    (Reason::Budget, "6: prices, without which a limit in dollars is refused"),
    (Reason::Request, "5: the command `cancel`"),
    (Reason::ApprovalImpossible, "5: approvals"),
    (Reason::Approval, "5: approvals"),
    (Reason::Timer, "5: waits that outlive a process"),
];

/// A run that ends with `reason`.
struct Scenario {
    reason: Reason,
    /// One letter for each gate, in the order of the plan: (p)assed, (f)ailed, (u)nverifiable, (n)ot reached, (a)bsent.
    gates: &'static str,
    /// None: this machine cannot play it, which was said.
    play: fn(&Stage<'_>) -> Option<Ended>,
}

struct Stage<'a> {
    place: &'a Place,
    format: &'a str,
}

impl Stage<'_> {
    /// The arguments, with the format added.
    fn command(&self, args: &[&str]) -> std::process::Command {
        self.place.command(&[args, &["--format", self.format]].concat())
    }

    fn play(&self, args: &[&str]) -> Option<Ended> {
        Some(project::ended(self.command(args).spawn().unwrap()))
    }

    fn args(&self, turns: &Value, extra: &[&str]) -> Vec<String> {
        let model = script(self.place, "m.json", turns);
        project::args(self.place, &model, extra)
    }

    /// Plays a script in a repository of `files`.
    fn run(&self, files: &[(&str, &str)], turns: &Value, extra: &[&str]) -> Option<Ended> {
        repository(self.place, files);
        let args = self.args(turns, extra);
        self.play(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The usual project under its check.
    fn checked(&self, turns: &Value, extra: &[&str]) -> Option<Ended> {
        self.run(PROJECT, turns, &[&["--check", CHECK], extra].concat())
    }

    /// The usual project and a model that makes one call after another, for as long as it is asked.
    fn circle(&self, call: impl Fn(u32) -> Value) -> Option<Ended> {
        let turns: Vec<Value> = (0..40).map(|n| json!({ "calls": [call(n)] })).collect();
        self.checked(&Value::from(turns), &[])
    }

    /// The same, stopped while a command of the agent runs.
    fn disturbed(&self, disturb: impl FnOnce(u32)) -> Ended {
        self.disturbed_with(&["--check", CHECK], |pid, _| disturb(pid))
    }

    fn disturbed_with(&self, judged_by: &[&str], disturb: impl FnOnce(u32, &str)) -> Ended {
        let seconds = odd_seconds();
        repository(self.place, PROJECT);
        let turns = json!([
            sh(&format!("if [ ! -e woken ]; then sleep {seconds}; fi")),
            edit("answer", "41", "42"),
            finish("Done.")
        ]);
        let args = self.args(&turns, judged_by);
        let child = self.command(&args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
        until("the agent's command", || sleeps(&seconds));
        disturb(child.id(), &seconds);
        let ended = project::ended(child);
        until("the end of the agent's command", || !sleeps(&seconds));
        ended
    }

    /// The session of the last run in this place.
    fn last_session(&self) -> String {
        let listed = self.place.run(&["list", "--format", "json"]).stdout;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        listed[0]["session"].as_str().unwrap().to_owned()
    }

    /// Against a model that answers every request with this message.
    fn against(&self, finish_reason: &str, message: &Value) -> Option<Ended> {
        repository(self.place, PROJECT);
        let url = answering(finish_reason, message);
        let args = project::args(self.place, "openai:m", &["--check", CHECK, "--base-url", &url]);
        self.play(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// A model's server on loopback that says the same to everybody, until the test process ends.
fn answering(finish_reason: &str, message: &Value) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let body = json!({
        "id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
    })
    .to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            while !is_whole(&request) {
                let read = stream.read(&mut chunk).unwrap();
                request.extend_from_slice(&chunk[..read]);
            }
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    url
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.is_none_or(|length| body.len() >= length.trim().parse().unwrap())
}

const SCENARIOS: &[Scenario] = &[
    Scenario { reason: Reason::ChecksPassed, gates: "pppappaa", play: |s| s.checked(&fixed(), &[]) },
    Scenario {
        reason: Reason::NoClaim,
        gates: "aaaaaaaa",
        play: |s| s.run(PROJECT, &fixed(), &["--no-check"]),
    },
    Scenario {
        reason: Reason::Usage,
        gates: "nnnannaa",
        play: |s| s.play(&["run", " ", "--trust", "reviewed", "--check", "true"]),
    },
    Scenario {
        reason: Reason::Config,
        gates: "nnnannaa",
        play: |s| s.checked(&fixed(), &["--config", "/nowhere"]),
    },
    Scenario { reason: Reason::Trust, gates: "nnnannaa", play: |s| s.play(&["run", "t", "--check", "true"]) },
    Scenario {
        reason: Reason::Key,
        gates: "nnnnnnaa",
        play: |s| {
            s.play(&[
                "run",
                "t",
                "--trust",
                "reviewed",
                "--check",
                "true",
                "--scope",
                "src/**",
                "--model",
                "openai:m",
                "--api-key-file",
                "/nowhere",
            ])
        },
    },
    Scenario {
        reason: Reason::NoCheck,
        gates: "aaaaaaaa",
        play: |s| {
            let empty = s.place.write("empty/README", "").parent().unwrap().display().to_string();
            s.play(&["run", "t", "--trust", "reviewed", "--repo", &empty])
        },
    },
    Scenario {
        reason: Reason::AlreadyGreen,
        gates: "nnnannaa",
        play: |s| s.run(&[("answer", "42\n"), PROJECT[1]], &fixed(), &["--check", CHECK]),
    },
    Scenario {
        reason: Reason::Environment,
        gates: "nnnannaa",
        play: |s| s.run(PROJECT, &fixed(), &["--check", "no-such-program"]),
    },
    Scenario {
        reason: Reason::SandboxUnavailable,
        gates: "nnnannaa",
        play: |s| s.checked(&fixed(), &["--sandbox", "vm"]),
    },
    Scenario {
        reason: Reason::Repository,
        gates: "nnnannaa",
        play: |s| s.checked(&fixed(), &["--base", "no-such-branch"]),
    },
    Scenario {
        reason: Reason::CheckFailed,
        gates: "pppapfaa",
        play: |s| s.checked(&json!([edit("answer", "41", "40"), finish("Done.")]), &[]),
    },
    Scenario {
        reason: Reason::CheckInconclusive,
        gates: "pppapuaa",
        play: |s| {
            let check = "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || exit 1\nsleep 600\n";
            let files = [PROJECT[0], ("tests/check.sh", check)];
            s.run(&files, &fixed(), &["--check", CHECK, "--check-timeout", "1s"])
        },
    },
    Scenario {
        reason: Reason::NoTestsRan,
        gates: "pppapuaa",
        play: |s| {
            // Known by its name, and answering as pytest documents: 1 tests failed, 5 none were found.
            let runner = "#!/bin/sh\n[ \"$(cat answer)\" = 41 ] && exit 1\nexit 5\n";
            s.run(&[PROJECT[0], ("tests/pytest", runner)], &fixed(), &["--check", "tests/pytest"])
        },
    },
    Scenario {
        reason: Reason::TooWeak,
        gates: "pppapfaa",
        play: |s| s.checked(&fixed(), &["--min-strength", "red_before"]),
    },
    Scenario {
        reason: Reason::GateUnverifiable,
        gates: "ppuannaa",
        play: |s| {
            let files = [PROJECT[0], PROJECT[1], ("Cargo.toml", "[package]\nname = \"p\"\n")];
            let turns = json!([sh("echo 42 > answer; echo '[[[' > Cargo.toml"), finish("Done.")]);
            s.run(&files, &turns, &["--check", CHECK])
        },
    },
    Scenario {
        reason: Reason::NoChange,
        gates: "pppafnaa",
        play: |s| s.checked(&json!([{ "text": "Fixed." }]), &[]),
    },
    Scenario {
        reason: Reason::EmptyAnswer,
        gates: "pfnannaa",
        play: |s| s.checked(&json!([edit("answer", "41", "42"), finish(" \n")]), &[]),
    },
    Scenario {
        reason: Reason::EvidenceStale,
        gates: "pppapuaa",
        play: |s| {
            let check = "#!/bin/sh\n[ \"$(cat answer)\" = 42 ] || exit 1\necho rewritten > README\n";
            let files = [PROJECT[0], ("tests/check.sh", check), PROJECT[2]];
            s.run(&files, &fixed(), &["--check", CHECK])
        },
    },
    Scenario {
        reason: Reason::Unsealable,
        gates: "fnnannaa",
        play: |s| {
            // Offered as work once; the agent insists.
            let turns = json!([sh("echo 42 > answer; mkfifo pipe"), finish("Done."), finish("Still done.")]);
            s.checked(&turns, &[])
        },
    },
    Scenario {
        reason: Reason::Turns,
        gates: "pnpafnaa",
        play: |s| s.checked(&json!([sh("true"), finish("Done.")]), &["--max-turns", "1"]),
    },
    Scenario {
        reason: Reason::Deadline,
        gates: "pnpafnaa",
        play: |s| {
            let slow = json!([{ "text": "Fixed.", "delay_ms": 600_000 }]);
            s.checked(&slow, &["--deadline", "2s"])
        },
    },
    Scenario { reason: Reason::Context, gates: "pnpafnaa", play: |s| s.checked(&failing(413, None), &[]) },
    Scenario {
        reason: Reason::Tokens,
        gates: "pnpafnaa",
        play: |s| s.checked(&fixed(), &["--max-tokens", "100"]),
    },
    Scenario {
        reason: Reason::Actions,
        gates: "pnpafnaa",
        play: |s| {
            // One more than the preset's limit of 400, in two messages whose calls may run side by side.
            let read = json!({ "tool": "read_file", "args": { "path": "answer" } });
            let reads = |count| json!({ "calls": vec![read.clone(); count] });
            s.checked(&json!([reads(200), reads(201), finish("Done.")]), &[])
        },
    },
    Scenario {
        reason: Reason::Output,
        gates: "pnpafnaa",
        play: |s| s.against("length", &json!({ "role": "assistant", "content": "I think that" })),
    },
    Scenario {
        reason: Reason::Repeat,
        gates: "pnpafnaa",
        play: |s| s.circle(|_| json!({ "tool": "read_file", "args": { "path": "answer" } })),
    },
    Scenario {
        reason: Reason::Alternate,
        gates: "pnpafnaa",
        play: |s| {
            s.circle(|n| json!({ "tool": "read_file", "args": { "path": if n % 2 == 0 { "answer" } else { "README" } } }))
        },
    },
    Scenario {
        reason: Reason::Discovery,
        gates: "pnpafnaa",
        play: |s| s.circle(|n| json!({ "tool": "search", "args": { "pattern": format!("word{n}") } })),
    },
    Scenario {
        reason: Reason::Stagnant,
        gates: "pnpafnaa",
        play: |s| {
            s.circle(
                |n| json!({ "tool": "run", "args": { "command": format!(": {n}; echo no answer; exit 1") } }),
            )
        },
    },
    Scenario {
        reason: Reason::ToolFormat,
        gates: "pnpafnaa",
        play: |s| s.circle(|n| json!({ "tool": "think", "args": { "thought": n } })),
    },
    Scenario { reason: Reason::Auth, gates: "nnnannaa", play: |s| s.checked(&failing(401, None), &[]) },
    Scenario {
        reason: Reason::RateLimit,
        gates: "nnnannaa",
        play: |s| {
            let busy = json!({ "error": { "status": 429 } });
            s.checked(&json!([busy, busy, busy, busy, { "text": "Never asked." }]), &[])
        },
    },
    Scenario {
        reason: Reason::QuotaExhausted,
        gates: "nnnannaa",
        // A reset in an hour is no matter of waiting.
        play: |s| s.checked(&failing(429, Some(3600)), &[]),
    },
    Scenario {
        reason: Reason::Overloaded,
        gates: "nnnannaa",
        play: |s| s.checked(&failing(503, Some(3600)), &[]),
    },
    Scenario {
        reason: Reason::Transport,
        gates: "nnnannaa",
        play: |s| s.checked(&failing(408, Some(3600)), &[]),
    },
    Scenario { reason: Reason::BadResponse, gates: "nnnannaa", play: |s| s.checked(&json!([]), &[]) },
    Scenario {
        reason: Reason::Declined,
        gates: "nnnannaa",
        play: |s| {
            s.against("stop", &json!({ "role": "assistant", "content": null, "refusal": "I will not." }))
        },
    },
    Scenario {
        reason: Reason::Signal,
        gates: "nnnannaa",
        play: |s| Some(s.disturbed(|pid| kill("INT", pid))),
    },
    Scenario {
        reason: Reason::Paths,
        gates: "pppfnnaa",
        play: |s| {
            let turns = json!([sh("echo 42 > answer; echo x > README"), finish("Done.")]);
            s.checked(&turns, &["--scope", "answer"])
        },
    },
    Scenario {
        reason: Reason::ProtectedFiles,
        gates: "ppfannaa",
        play: |s| {
            let turns = json!([sh("echo 42 > answer; echo exit 0 > tests/check.sh"), finish("Done.")]);
            s.checked(&turns, &[])
        },
    },
    Scenario {
        reason: Reason::ProfileChanged,
        gates: "pppapfaa",
        play: |s| {
            let terms = json!({
                "schema": "countersign.profile/1",
                "name": "p",
                "checks": [{ "argv": ["sh", "tests/check.sh"] }],
            });
            let dir = s.place.write("p/profile.json", &terms.to_string()).parent().unwrap().to_owned();
            let registered = s.place.run(&["profile", "register", dir.to_str().unwrap()]).stdout;
            let digest = registered.trim().rsplit(':').next().unwrap().to_owned();
            let copy = s.place.path("home/profiles/p").join(digest).join("profile.json");
            Some(s.disturbed_with(&["--profile", "p"], |_, seconds| {
                std::fs::remove_file(&copy).unwrap();
                std::fs::write(&copy, "{}").unwrap();
                // The agent goes on.
                let line = format!("sleep\0{seconds}\0");
                for (pid, _) in project::processes(|seen, _| seen == line.as_bytes()) {
                    kill("KILL", pid);
                }
            }))
        },
    },
    Scenario {
        reason: Reason::PlantedRunnerConfig,
        gates: "ppfannaa",
        play: |s| s.checked(&json!([sh("echo 42 > answer; echo > conftest.py"), finish("Done.")]), &[]),
    },
    Scenario {
        reason: Reason::EffectUnknown,
        gates: "nnnannaa",
        play: |s| {
            // Only what could reach the network is not done again.
            let judged_by = ["--check", CHECK, "--network", "host"];
            let killed = s.disturbed_with(&judged_by, |pid, _| kill("KILL", pid));
            assert_eq!(killed.code, None, "{killed:?}");
            s.play(&["resume", &s.last_session()])
        },
    },
    Scenario {
        reason: Reason::CheckpointLost,
        gates: "nnnannaa",
        play: |s| {
            let parked = s.disturbed(|pid| kill("TERM", pid));
            assert_eq!(parked.code, Some(12), "{parked:?}");
            let session = s.last_session();
            std::fs::remove_dir_all(s.place.path("home/blobs")).unwrap();
            s.play(&["resume", &session])
        },
    },
    Scenario {
        reason: Reason::Drained,
        gates: "nnnannaa",
        play: |s| Some(s.disturbed(|pid| kill("TERM", pid))),
    },
    Scenario {
        reason: Reason::LeaseLost,
        gates: "nnnannaa",
        play: |s| {
            let mut second = None;
            let first = s.disturbed(|pid| {
                let resumed = s.play(&["resume", &s.last_session()]).unwrap();
                let told = format!("{}{}", resumed.stdout, resumed.stderr);
                assert!(told.contains(&format!("process {pid}")), "it names who runs it: {resumed:?}");
                second = Some(resumed);
                kill("TERM", pid);
            });
            assert_eq!(first.code, Some(12), "undisturbed by it: {first:?}");
            second
        },
    },
    Scenario { reason: Reason::DiskFull, gates: "nnnannaa", play: on_a_full_disk },
    Scenario {
        reason: Reason::Store,
        gates: "nnnannaa",
        play: |s| {
            s.place.write("home/countersign.db", &"no database at all".repeat(1000));
            s.checked(&fixed(), &[])
        },
    },
    Scenario {
        reason: Reason::CellDied,
        gates: "nnnannaa",
        play: |s| {
            Some(s.disturbed_with(&["--check", CHECK], |pid, seconds| {
                let launcher = s.place.bin.join("countersign-jail");
                // A cell that dies is replaced twice.
                for _ in 0..3 {
                    until("the agent's command", || sleeps(seconds));
                    for (jail, parent) in project::processes(|_, program| program == launcher) {
                        if parent == pid {
                            kill("KILL", jail);
                        }
                    }
                    until("the end of the agent's command", || !sleeps(seconds));
                }
            }))
        },
    },
];

fn fixed() -> Value {
    json!([edit("answer", "41", "42"), finish("It is 42 now.")])
}

fn failing(status: u16, retry_after_s: Option<u32>) -> Value {
    let mut error = json!({ "status": status });
    if let Some(wait) = retry_after_s {
        error["retry_after_s"] = wait.into();
    }
    json!([{ "error": error }])
}

/// A home on a file system without space, which only root can make.
fn on_a_full_disk(stage: &Stage<'_>) -> Option<Ended> {
    repository(stage.place, PROJECT);
    let full = stage.place.path("full");
    std::fs::create_dir_all(&full).unwrap();
    let args = stage.args(&fixed(), &["--check", CHECK]);
    let inner = stage.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let mount =
        "mount -t tmpfs -o size=64k none \"$0\" || exit 99; cat /dev/zero > \"$0\"/filler 2>&-; exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", mount]).arg(&full);
    command.arg(inner.get_program()).args(inner.get_args()).env("COUNTERSIGN_HOME", &full);
    let piped = || std::process::Stdio::piped();
    let child = command.stdin(std::process::Stdio::null()).stdout(piped()).stderr(piped()).spawn().ok()?;
    let ended = project::ended(child);
    (ended.code != Some(99) && !ended.stderr.starts_with("unshare")).then_some(ended)
}

/// What an end says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    outcome: String,
    reason: String,
    exit_code: i64,
    gates: String,
}

fn told(result: &Value) -> Told {
    let gates = result["gates"].as_object().unwrap();
    assert_eq!(gates.len(), GateKey::ALL.len(), "{result}");
    let letter = |key: &GateKey| match gates[key.as_str()]["status"].as_str().unwrap() {
        "passed" => 'p',
        "failed" => 'f',
        "unverifiable" => 'u',
        "not_reached" => 'n',
        "absent" => 'a',
        other => unreachable!("status {other}"),
    };
    Told {
        outcome: result["outcome"].as_str().unwrap().to_owned(),
        reason: result["reason"].as_str().unwrap().to_owned(),
        exit_code: result["exit_code"].as_i64().unwrap(),
        gates: GateKey::ALL.iter().map(letter).collect(),
    }
}

/// The bundle of an ended turn says the same, gate by gate. A turn that the journal has not ended has none, nor has one whose
/// home cannot be read any more.
fn bundled(place: &Place, result: &Value, wanted: &Told) -> Result<(), String> {
    let Some(bundle) = result["bundle"].as_str() else {
        let id = result["session"].as_str().unwrap_or("none");
        let events = place.run(&["events", id, "--format", "ndjson"]);
        let over = events.code == Some(0) && events.stdout.contains("\"kind\":\"turn_ended\"");
        let said = result["degraded"].as_array().is_some_and(|notes| !notes.is_empty());
        return if said || !over { Ok(()) } else { Err("no bundle, and nobody says why".to_owned()) };
    };
    let ended = place.run(&["verify", bundle, "--format", "json"]);
    let report: Value = serde_json::from_str(&ended.stdout).map_err(|error| format!("{error}: {ended:?}"))?;
    if report["intact"] != true {
        return Err(format!("the bundle is not intact: {report}"));
    }
    let told = told(&report["report"]["claims"]);
    if told == *wanted { Ok(()) } else { Err(format!("the bundle says {told:?}, wanted {wanted:?}")) }
}

/// Plays a scenario in all formats. What differs from what is wanted is the error.
fn hold(
    scenario: &Scenario,
    seen: &Mutex<BTreeSet<String>>,
    results: &Mutex<Vec<Value>>,
) -> Result<(), String> {
    let reason = scenario.reason;
    let wanted = Told {
        outcome: reason.outcome().to_string(),
        reason: reason.to_string(),
        exit_code: reason.outcome().exit_code().into(),
        gates: scenario.gates.to_owned(),
    };
    for format in ["json", "ndjson", "text"] {
        // Each in a home of its own: some of them are spoilt on purpose.
        let Some(place) = Place::new("every_reason_is_reached_or_owed") else { return Ok(()) };
        let stage = Stage { place: &place, format };
        let Some(ended) = (scenario.play)(&stage) else {
            eprintln!("SKIPPED: every_reason_is_reached_or_owed: {reason}: this machine cannot play it");
            return Ok(());
        };
        let wrong = |what: &str| Err(format!("{reason} as {format}: {what}: {ended:#?}"));
        if ended.code != i32::try_from(wanted.exit_code).ok() {
            return wrong("the exit code");
        }
        if format == "text" {
            let line = format!("{} ({})", wanted.outcome, wanted.reason);
            if !ended.stdout.contains(&line) {
                return wrong("the words for people");
            }
            continue;
        }
        let lines: Vec<&str> = ended.stdout.lines().collect();
        if format == "json" && lines.len() != 1 {
            return wrong("not one object");
        }
        let Some(result) = lines.last().and_then(|line| serde_json::from_str::<Value>(line).ok()) else {
            return wrong("no result");
        };
        if format == "ndjson" && result["type"] != "result" {
            return wrong("the last line is no result");
        }
        let told = told(&result);
        seen.lock().unwrap().insert(told.reason.clone());
        if told != wanted {
            return wrong(&format!("{told:?}, wanted {wanted:?}"));
        }
        if let Err(what) = bundled(&place, &result, &wanted) {
            return wrong(&what);
        }
        if format == "json" {
            results.lock().unwrap().push(result.clone());
        }
        if wanted.outcome == "setup_error" && result["error"]["message"].as_str().is_none_or(str::is_empty) {
            return wrong("a refusal without a word");
        }
    }
    Ok(())
}

#[test]
fn every_reason_is_reached_or_owed() {
    let Some(_place) = project::place("every_reason_is_reached_or_owed") else { return };
    for reason in Reason::ALL {
        let played = SCENARIOS.iter().filter(|scenario| scenario.reason == *reason).count();
        let owed = OWED.iter().filter(|(owed, _)| owed == reason).count();
        assert_eq!(played + owed, 1, "{reason}: {played} scenarios play it and {owed} lines say who owes it");
    }
    let seen = Mutex::new(BTreeSet::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(scenario) =
                    SCENARIOS.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
                {
                    if let Err(failure) = hold(scenario, &seen, &results) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    hold_against_the_schema(&results.into_inner().unwrap());
    let seen = seen.into_inner().unwrap();
    for (reason, issue) in OWED {
        assert!(!seen.contains(reason.as_str()), "{reason} is owed by issue {issue} and was seen");
    }
}

/// `docs/result.schema.json` says what programs can rely on; `COUNTERSIGN_WRITE_SCHEMA=1` widens it by what was seen.
fn hold_against_the_schema(results: &[Value]) {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/result.schema.json");
    let mut schema: Value = std::fs::read_to_string(&page)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(|| json!({}));
    if std::env::var_os("COUNTERSIGN_WRITE_SCHEMA").is_some() {
        for result in results {
            schema::learn(&mut schema, result);
        }
        schema::open_what_was_null(&mut schema);
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!("countersign.result/1");
        std::fs::write(&page, format!("{schema:#}\n")).unwrap();
    }
    let mut wrong = Vec::new();
    for result in results {
        schema::differences(&schema, result, "result", &mut wrong);
        assert_eq!(
            result.as_object().unwrap().len(),
            schema["properties"].as_object().unwrap().len(),
            "every ending has every key: {result}"
        );
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "docs/result.schema.json does not say so: {wrong:#?}");
}

#[test]
fn no_value_but_two_exits_zero() {
    let zero: Vec<_> = Reason::ALL.iter().filter(|reason| reason.outcome().exit_code() == 0).collect();
    assert_eq!(zero, [&Reason::ChecksPassed, &Reason::NoClaim]);
}
