//! Signals at any moment of a run: it ends as typed, leaves no process and no cell behind, and what was parked goes on
//! to the same tree, at 50 moments for each signal (12 with `COUNTERSIGN_TEST_SIZE=quick`); a seed that is printed can be
//! played again with `COUNTERSIGN_TEST_SEED`.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/project.rs"]
mod project;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Ended, Place};
use project::{finish, kill, odd_seconds, processes, repository, script, sh, sleeps, snapshot, until};
use serde_json::{Value, json};

/// The promise: from the signal to the end of the process.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Moments that are played side by side.
const WORKERS: usize = 2;

/// Red until `answer` holds 42, and slow enough to be met by a signal.
const FILES: &[(&str, &str)] = &[
    ("answer", "41\n"),
    ("tests/check.sh", "#!/bin/sh\nsleep 0.1\n[ \"$(cat answer)\" = 42 ] || { echo 'FAILED'; exit 1; }\n"),
];

/// One repository, and the run that was not disturbed.
struct Story {
    place: Place,
    repo: PathBuf,
    before: BTreeMap<PathBuf, (u32, Vec<u8>)>,
    tree: Value,
    took: Duration,
}

/// One run of it in a home of its own, with programs of its own so that its processes can be told from others.
struct Play {
    place: Place,
    seconds: String,
    args: Vec<String>,
}

impl Story {
    fn begin(test: &str) -> Option<Self> {
        let place = project::place(test)?;
        let repo = repository(&place, FILES);
        let before = snapshot(&repo);
        let mut story = Self { place, repo, before, tree: Value::Null, took: Duration::ZERO };
        let play = story.play();
        let begun = Instant::now();
        let ended = project::ended(play.start());
        story.took = begun.elapsed();
        let result = ended.ended("verified", "checks_passed");
        story.tree = result["tree"].clone();
        play.nothing_is_left(&story, "an undisturbed run");
        Some(story)
    }

    fn play(&self) -> Play {
        let mut place = Place::new("signals").unwrap();
        let bin = place.path("bin");
        std::fs::create_dir(&bin).unwrap();
        for name in ["countersign", "countersign-jail", "countersign-guest"] {
            let (from, to) = (self.place.bin.join(name), bin.join(name));
            // Another name for the same file, or a copy where the file systems differ.
            if std::fs::hard_link(&from, &to).is_err() {
                std::fs::copy(&from, &to).unwrap();
            }
        }
        place.bin = bin;
        let seconds = odd_seconds();
        // A model call that is stopped counts as made: every entry stands twice, so that one may be lost.
        let work = format!("setsid sleep {seconds} & (sleep {seconds} &); echo 42 > answer; sleep 0.2");
        let model = script(
            &place,
            "m.json",
            &json!([
                sh("sleep 0.1"),
                sh(&work),
                sh(&work),
                { "calls": [{ "tool": "read_file", "args": { "path": "answer" } }], "delay_ms": 100 },
                { "calls": [{ "tool": "check", "args": {} }] },
                finish("It is 42."),
                finish("It is 42."),
            ]),
        );
        let repo = self.repo.display().to_string();
        let args = [
            "run",
            "make it 42",
            "--trust",
            "trusted-local",
            "--repo",
            &repo,
            "--model",
            &model,
            "--check",
            project::CHECK,
            "--format",
            "json",
        ];
        Play { place, seconds, args: args.iter().map(|arg| (*arg).to_owned()).collect() }
    }

    fn repository_is_untouched(&self, told: &str) {
        assert_eq!(snapshot(&self.repo), self.before, "{told}: the repository is byte-identical");
    }
}

impl Play {
    fn start(&self) -> Child {
        self.place.command(&self.args.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap()
    }

    /// Every process that came from this run, by program or by what the agent started.
    fn living(&self) -> Vec<u32> {
        let seconds = self.seconds.as_bytes();
        processes(|line, program| {
            program.starts_with(&self.place.bin)
                || line.windows(seconds.len()).any(|window| window == seconds) && line.starts_with(b"sleep")
        })
        .into_iter()
        .map(|(pid, _)| pid)
        .collect()
    }

    fn nothing_runs(&self, told: &str) {
        until(&format!("{told}: the end of every process"), || {
            self.living().is_empty() && !sleeps(&self.seconds)
        });
    }

    /// Directories of cells below the home.
    fn cells(&self) -> Vec<PathBuf> {
        let list = |dir: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        list(&self.place.path("home/sessions"))
            .iter()
            .flat_map(|session| list(&session.join("cells")))
            .collect()
    }

    fn nothing_is_left(&self, story: &Story, told: &str) {
        self.nothing_runs(told);
        assert_eq!(self.cells(), Vec::<PathBuf>::new(), "{told}: no state of a cell is left");
        story.repository_is_untouched(told);
    }

    fn sessions(&self) -> Vec<String> {
        let listed = self.place.run(&["list", "--format", "json"]).stdout;
        let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
        listed.iter().map(|row| row["session"].as_str().unwrap().to_owned()).collect()
    }

    fn resume(&self, session: &str) -> Ended {
        project::ended(self.place.command(&["resume", session, "--format", "json"]).spawn().unwrap())
    }
}

/// Waits until a process answers SIGINT and SIGTERM by itself; false when it ended before.
fn listens(child: &mut Child) -> bool {
    const BOTH: u64 = 1 << (2 - 1) | 1 << (15 - 1);
    let status = format!("/proc/{}/status", child.id());
    let mut over = false;
    until("handlers of signals", || {
        over = child.try_wait().unwrap().is_some();
        let caught = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = caught.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
        over || u64::from_str_radix(caught.trim(), 16).unwrap_or_default() & BOTH == BOTH
    });
    !over
}

/// Control groups that launchers with these ids made.
fn groups_of(launchers: &[u32]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            // `countersign-NAMESPACE-LAUNCHER-NUMBER`
            let launcher =
                name.strip_prefix("countersign-").and_then(|rest| rest.split('-').nth(1)?.parse().ok());
            if launcher.is_some_and(|pid| launchers.contains(&pid)) {
                found.push(entry.path());
            }
            open.push(entry.path());
        }
    }
    found
}

/// splitmix64: the moments are a function of the seed.
fn dice(seed: u64, roll: usize) -> u64 {
    let mut z = seed.wrapping_add((roll as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Plays the run many times, each disturbed at another moment by `signal`, and judges each by `judge`.
fn at_many_moments(test: &str, signal: &str, judge: impl Fn(&Story, &Play, Ended, &str) -> String + Sync) {
    let Some(story) = Story::begin(test) else { return };
    let moments =
        if std::env::var("COUNTERSIGN_TEST_SIZE").is_ok_and(|size| size == "quick") { 12 } else { 50 };
    let seed = std::env::var("COUNTERSIGN_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    });
    eprintln!("{test}: seed {seed}, {moments} moments of {:?}", story.took);
    let next = AtomicUsize::new(0);
    let ends = Mutex::new(BTreeMap::<String, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let moment = next.fetch_add(1, Ordering::SeqCst);
                    if moment >= moments {
                        break;
                    }
                    // A little beyond the end: too late is a moment too.
                    let spread = u64::try_from((story.took * 5 / 4).as_micros()).unwrap();
                    let after = Duration::from_micros(dice(seed, moment) % spread);
                    let told = format!("SIG{signal} after {after:?} (seed {seed})");
                    let play = story.play();
                    let mut child = play.start();
                    if listens(&mut child) {
                        std::thread::sleep(after);
                    }
                    let alive = play.living();
                    kill(signal, child.id());
                    let sent = Instant::now();
                    let ended = project::ended(child);
                    assert!(sent.elapsed() < ENDS_WITHIN, "{told}: it took {:?}: {ended:#?}", sent.elapsed());
                    let end = judge(&story, &play, ended, &told);
                    until(&format!("{told}: the end of every control group"), || {
                        groups_of(&alive).is_empty()
                    });
                    *ends.lock().unwrap().entry(end).or_default() += 1;
                }
            });
        }
    });
    eprintln!("{test}: {:?}", ends.lock().unwrap());
}

fn outcome(ended: &Ended, told: &str) -> (Value, String) {
    let lines = ended.stdout.lines().count();
    assert_eq!(lines, 1, "{told}: one JSON object: {ended:#?}");
    let result = ended.json();
    let outcome =
        format!("{}/{}", result["outcome"].as_str().unwrap_or("bug"), result["reason"].as_str().unwrap());
    (result, outcome)
}

#[test]
fn an_interrupt_at_any_moment_cancels_and_leaves_nothing() {
    at_many_moments(
        "an_interrupt_at_any_moment_cancels_and_leaves_nothing",
        "INT",
        |story, play, ended, told| {
            let (_, end) = outcome(&ended, told);
            assert!(
                ["canceled/signal", "verified/checks_passed"].contains(&end.as_str()),
                "{told}: {ended:#?}"
            );
            play.nothing_is_left(story, told);
            for session in play.sessions() {
                let again = play.resume(&session);
                assert_eq!(outcome(&again, told).1, end, "{told}: an end stays what it is: {again:#?}");
            }
            end
        },
    );
}

#[test]
fn a_termination_at_any_moment_parks_and_the_run_goes_on_to_the_same_tree() {
    let test = "a_termination_at_any_moment_parks_and_the_run_goes_on_to_the_same_tree";
    at_many_moments(test, "TERM", |story, play, ended, told| {
        let (result, end) = outcome(&ended, told);
        play.nothing_is_left(story, told);
        match end.as_str() {
            "verified/checks_passed" => {}
            // Nothing was recorded yet that could go on.
            "canceled/signal" => assert_eq!(result["base"], Value::Null, "{told}: {ended:#?}"),
            "parked/drained" => {
                let resumed = play.resume(result["session"].as_str().unwrap());
                let (result, end) = outcome(&resumed, told);
                assert_eq!(end, "verified/checks_passed", "{told}: {resumed:#?}");
                assert_eq!(result["tree"], story.tree, "{told}: the same tree");
                play.nothing_is_left(story, told);
            }
            _ => panic!("{told}: {ended:#?}"),
        }
        end
    });
}

#[test]
fn a_killed_run_goes_on_to_the_same_tree() {
    at_many_moments("a_killed_run_goes_on_to_the_same_tree", "KILL", |story, play, ended, told| {
        play.nothing_runs(told);
        story.repository_is_untouched(told);
        if ended.code.is_some() {
            return outcome(&ended, told).1;
        }
        let sessions = play.sessions();
        let Some(session) = sessions.first() else { return "killed before anything was recorded".to_owned() };
        let resumed = play.resume(session);
        let (result, end) = outcome(&resumed, told);
        assert_eq!(end, "verified/checks_passed", "{told}: {resumed:#?}");
        assert_eq!(result["tree"], story.tree, "{told}: the same tree");
        assert!(result["bundle"].is_string(), "{told}: {result:#}");
        let events = project::journal(&play.place, session);
        let mut done: Vec<String> = events
            .iter()
            .filter(|event| event["kind"] == "effect_completed")
            .map(|event| event["data"]["effect"].to_string())
            .collect();
        let all = done.len();
        done.sort_unstable();
        done.dedup();
        assert_eq!(done.len(), all, "{told}: one completion for each effect: {events:#?}");
        let recovered = events.iter().any(|event| event["kind"] == "recovered");
        play.nothing_is_left(story, told);
        format!("{end}, {}", if recovered { "recovered" } else { "nothing to recover" })
    });
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_run() {
    let Some(story) = Story::begin("what_a_killed_run_left_is_removed_by_the_next_run") else { return };
    let play = story.play();
    let child = play.start();
    until("the agent's command", || sleeps(&play.seconds));
    kill("KILL", child.id());
    assert_eq!(project::ended(child).code, None);
    play.nothing_runs("killed");
    assert!(!play.cells().is_empty(), "the working cell's files are still there");
    project::ended(play.start()).ended("verified", "checks_passed");
    play.nothing_is_left(&story, "the next run");
}

#[test]
fn a_second_interrupt_ends_at_once_and_is_typed() {
    let Some(story) = Story::begin("a_second_interrupt_ends_at_once_and_is_typed") else { return };
    for pause in [0, 1, 5, 20] {
        let told = format!("two interrupts, {pause} ms apart");
        let play = story.play();
        let child = play.start();
        until("the agent's command", || sleeps(&play.seconds));
        for _ in 0..2 {
            kill("INT", child.id());
            std::thread::sleep(Duration::from_millis(pause));
        }
        let sent = Instant::now();
        let ended = project::ended(child);
        assert!(sent.elapsed() < ENDS_WITHIN, "{told}: {ended:#?}");
        let (result, end) = outcome(&ended, &told);
        assert_eq!(end, "canceled/signal", "{told}: {ended:#?}");
        play.nothing_runs(&told);
        story.repository_is_untouched(&told);
        let again = play.resume(result["session"].as_str().unwrap());
        assert_eq!(outcome(&again, &told).1, "canceled/signal", "{told}: {again:#?}");
        play.nothing_is_left(&story, &told);
    }
}

#[test]
fn a_terminal_that_goes_away_parks_the_run() {
    let Some(story) = Story::begin("a_terminal_that_goes_away_parks_the_run") else { return };
    let play = story.play();
    let child = play.start();
    until("the agent's command", || sleeps(&play.seconds));
    kill("HUP", child.id());
    let ended = project::ended(child);
    assert_eq!(outcome(&ended, "SIGHUP").1, "parked/drained", "{ended:#?}");
    play.nothing_is_left(&story, "SIGHUP");
}
