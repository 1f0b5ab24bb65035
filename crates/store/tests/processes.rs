//! Several processes on one home, killed at any moment; a disk that is full or read-only. The test binary starts itself
//! again as its children.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a panic")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use common::open;
use countersign_store::conformance::{append, event, new_session, session_id};
use countersign_store::{
    Append, Authority, Fence, NewEvent, NewPayload, Options, OutboxItem, SqliteStore, Store, StoreError,
};
use countersign_types::Digest;
use futures::executor::block_on;
use serde_json::json;

const ROLE: &str = "STORE_TEST_ROLE";
const HOME: &str = "STORE_TEST_HOME";

/// The body of the children. They answer on standard error, one line each.
#[test]
#[ignore = "started by the other tests as their child process"]
fn child() {
    let (Ok(role), Some(home)) = (std::env::var(ROLE), std::env::var_os(HOME)) else {
        eprintln!("SKIPPED: child: it is only the body of other tests' child processes");
        return;
    };
    let home = PathBuf::from(home);
    match role.split_once(':').unwrap_or((&role, "")) {
        ("append_for_ever", _) => append_for_ever(&home),
        ("append_some", _) => append_some(&home),
        ("append_200", id) => append_200(&home, id),
        ("hold_lease", _) => hold_lease(&home),
        ("small_disk", _) => small_disk(&home),
        (other, _) => panic!("unknown role {other}"),
    }
}

fn command(role: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    as_child(&mut command, role, home);
    command
}

fn as_child(command: &mut Command, role: &str, home: &Path) {
    command
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(HOME, home)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
}

fn start(role: &str, home: &Path) -> (Child, BufReader<ChildStderr>) {
    let mut child = command(role, home).spawn().unwrap();
    let answers = BufReader::new(child.stderr.take().unwrap());
    (child, answers)
}

fn say(line: &str) {
    let mut stderr = std::io::stderr().lock();
    stderr.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Appends with payloads of all sizes and says what was acknowledged.
fn append_for_ever(home: &Path) {
    let store = open(home);
    let lease = block_on(store.acquire(&session_id("a"), "child")).unwrap();
    let mut seq = block_on(store.load(&session_id("a"))).unwrap().seq;
    loop {
        let bytes = vec![seq as u8; [10, 5_000, 40_000][(seq % 3) as usize]];
        let payloads = vec![NewPayload { name: "p".into(), salt: [seq as u8; 16], bytes }];
        let events = vec![event("k", seq), NewEvent { kind: "k".into(), data: json!({}), payloads }];
        let new = Append {
            authority: lease.authority(),
            summary: Some(json!({ "seq": seq + 2 })),
            outbox: vec![OutboxItem { topic: "t".into(), body: json!(seq) }],
            ..append("a", seq, events)
        };
        let end = block_on(store.append(new)).unwrap();
        seq = end.seq;
        say(&format!("{} {}", end.seq, end.head));
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9_at_any_moment() {
    const ROUNDS: usize = 25;
    let home = tempfile::tempdir().unwrap();
    block_on(open(home.path()).create(new_session("a", 1))).unwrap();
    // A fixed sequence of moments (xorshift); where in an append the kill falls is up to the scheduler.
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut acknowledged: Vec<(u64, Digest)> = Vec::new();
    for round in 0..ROUNDS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (mut child, mut answers) = start("append_for_ever", home.path());
        let mut line = String::new();
        for _ in 0..random % 40 {
            line.clear();
            answers.read_line(&mut line).unwrap();
            acknowledged.push(parse_ack(&line));
        }
        for _ in 0..(random >> 32) % 5_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it still said before it died was acknowledged too. Its last line may be cut.
        let mut rest = String::new();
        answers.read_to_string(&mut rest).unwrap();
        acknowledged.extend(rest.split_inclusive('\n').filter(|l| l.ends_with('\n')).map(parse_ack));

        let store = open(home.path());
        let loaded = block_on(store.load(&session_id("a"))).unwrap();
        for (seq, head) in &acknowledged {
            let index = usize::try_from(*seq).unwrap() - 1;
            assert_eq!(loaded.events.get(index).map(|e| e.digest), Some(*head), "round {round}, event {seq}");
        }
        // One commit is all or nothing: pairs of events, their payload, the summary, the outbox item.
        assert_eq!(loaded.seq % 2, 0);
        for event in loaded.events.iter().filter(|event| event.seq % 2 == 0) {
            let bytes = block_on(store.payload(&session_id("a"), event.seq, "p")).unwrap();
            assert_eq!(bytes[0], (event.seq - 2) as u8);
        }
        if loaded.seq > 0 {
            assert_eq!(loaded.session.summary, json!({ "seq": loaded.seq }));
        }
        assert_eq!(block_on(store.outbox(u32::MAX)).unwrap().len() as u64, loaded.seq / 2);
    }
    assert!(acknowledged.len() > ROUNDS, "the children did no work");
}

/// A fresh home, a session, a few appends of all sizes, a blob, a drop; each acknowledgement said.
fn append_some(home: &Path) {
    let store = open(home);
    block_on(store.create(new_session("a", 1))).unwrap();
    for seq in 0..4 {
        let bytes = vec![7; [10, 40_000][(seq % 2) as usize]];
        let payloads = vec![NewPayload { name: "p".into(), salt: [seq as u8; 16], bytes }];
        let new = NewEvent { kind: "k".into(), data: json!({ "n": seq }), payloads };
        let end = block_on(store.append(append("a", seq, vec![new]))).unwrap();
        say(&format!("{} {}", end.seq, end.head));
    }
    block_on(store.put_blob(vec![8; 10_000])).unwrap();
    block_on(store.drop_payload(&session_id("a"), 1, "p")).unwrap();
    drop(store);
    say("done");
}

/// The kernel kills the writer, or tells it of an error, exactly at the n-th call of each kind that changes a file.
#[test]
fn what_was_acknowledged_survives_a_kill_or_an_error_at_each_system_call() {
    const NAME: &str = "what_was_acknowledged_survives_a_kill_or_an_error_at_each_system_call";
    let mut probe = Command::new("strace");
    probe.args(["-f", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: {NAME}: strace is missing or may not trace here");
        return;
    }
    // What happens, how far apart the moments are, and the last one. A kill ends with the first that is not reached.
    let faults = [
        ("pwrite64", "signal=SIGKILL", 7, usize::MAX),
        ("write", "signal=SIGKILL", 2, usize::MAX),
        ("fsync", "signal=SIGKILL", 1, usize::MAX),
        ("fdatasync", "signal=SIGKILL", 1, usize::MAX),
        ("ftruncate", "signal=SIGKILL", 1, usize::MAX),
        ("rename", "signal=SIGKILL", 1, usize::MAX),
        ("unlink", "signal=SIGKILL", 1, usize::MAX),
        ("pwrite64", "error=ENOSPC", 11, 50),
        ("fsync", "error=EIO", 3, 20),
        ("rename", "error=ENOSPC", 1, 3),
    ];
    let mut hit = 0;
    for (call, fault, step, last) in faults {
        for when in (1..last).step_by(step) {
            let home = tempfile::tempdir().unwrap();
            let mut traced = Command::new("strace");
            traced.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
            traced.arg(format!("inject={call}:{fault}:when={when}")).arg(std::env::current_exe().unwrap());
            as_child(&mut traced, "append_some", home.path());
            let said = String::from_utf8_lossy(&traced.output().unwrap().stderr).into_owned();
            if said.ends_with("done\n") {
                // A killed child says nothing more. One that only met an error may have been able to go on.
                if fault.contains("SIGKILL") {
                    break;
                }
            } else {
                hit += 1;
            }
            let acknowledged: Vec<_> =
                said.lines().filter(|l| l.contains(" sha256:")).map(parse_ack).collect();
            let store = open(home.path());
            match block_on(store.load(&session_id("a"))) {
                Ok(loaded) => {
                    for (seq, head) in &acknowledged {
                        let index = usize::try_from(*seq).unwrap() - 1;
                        let found = loaded.events.get(index).map(|e| e.digest);
                        assert_eq!(found, Some(*head), "{call} {fault} {when}: event {seq}");
                    }
                    for event in &loaded.events {
                        match block_on(store.payload(&session_id("a"), event.seq, "p")) {
                            Ok(_) => {}
                            Err(StoreError::PayloadDropped { .. }) if event.seq == 1 => {}
                            Err(error) => panic!("{call} {fault} {when}: {error}"),
                        }
                    }
                    let next = block_on(store.append(append("a", loaded.seq, vec![event("k", 9)])));
                    assert!(next.is_ok(), "{call} {fault} {when}: {next:?}");
                }
                Err(StoreError::NoSuchSession(_)) if acknowledged.is_empty() => {}
                Err(error) => panic!("{call} {fault} {when}: {error}"),
            }
        }
    }
    assert!(hit > 20, "only {hit} moments were hit");
}

fn parse_ack(line: &str) -> (u64, Digest) {
    let (seq, head) = line.trim_end().split_once(' ').unwrap_or_else(|| panic!("no answer: {line:?}"));
    (seq.parse().unwrap(), head.parse().unwrap())
}

fn append_200(home: &Path, id: &str) {
    let store = open(home);
    block_on(store.create(new_session(id, 1))).unwrap();
    let mut shared = 0;
    for n in 0..200 {
        // Every tenth goes to one session that all share.
        if n % 10 == 0 {
            loop {
                match block_on(store.append(append("shared", shared, vec![event("k", n)]))) {
                    Ok(end) => break shared = end.seq,
                    Err(StoreError::Moved { actual, .. }) => shared = actual,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        block_on(store.append(append(id, n, vec![event("k", n)]))).unwrap();
    }
}

#[test]
fn eight_processes_append_200_each_and_none_is_lost_or_refused() {
    const PROCESSES: u64 = 8;
    let home = tempfile::tempdir().unwrap();
    block_on(open(home.path()).create(new_session("shared", 1))).unwrap();
    let children: Vec<_> = (0..PROCESSES).map(|n| start(&format!("append_200:p{n}"), home.path())).collect();
    for (mut child, mut answers) in children {
        let mut said = String::new();
        answers.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
    }
    let store = open(home.path());
    for n in 0..PROCESSES {
        assert_eq!(block_on(store.load(&session_id(&format!("p{n}")))).unwrap().seq, 200);
    }
    assert_eq!(block_on(store.load(&session_id("shared"))).unwrap().seq, PROCESSES * 20);
}

/// Closing any descriptor of a database drops the locks of all of a process's connections to it (fcntl(2)); another
/// process that comes and goes would then believe itself alone and tidy away the log that is in use.
#[test]
fn opening_a_home_twice_in_one_process_keeps_its_locks() {
    use std::os::unix::fs::MetadataExt as _;
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let inode = std::fs::metadata(home.path().join("countersign.db")).unwrap().ino();
    let locked = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        locks.lines().any(|line| line.contains(" POSIX ") && line.contains(&format!(":{inode} ")))
    };
    if !locked() {
        eprintln!(
            "SKIPPED: opening_a_home_twice_in_one_process_keeps_its_locks: /proc/locks does not show our locks"
        );
        return;
    }
    drop(open(home.path()));
    assert!(locked());
    drop(store);
    assert!(!locked());
}

fn hold_lease(home: &Path) {
    let store = open(home);
    let lease = block_on(store.acquire(&session_id("a"), "the child")).unwrap();
    say(&lease.fence.0.to_string());
    // Until it is killed, or its parent is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_lease_excludes_other_processes_and_ends_when_its_holder_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = session_id("a");
    block_on(store.create(new_session("a", 1))).unwrap();
    let (mut child, mut answers) = start("hold_lease", home.path());
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    let zombie = Fence(line.trim().parse().unwrap());
    let held = block_on(store.acquire(&id, "me"));
    assert!(matches!(&held, Err(StoreError::LeaseHeld { holder, .. }) if holder == "the child"), "{held:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let lease = block_on(store.acquire(&id, "me")).unwrap();
    assert_eq!(lease.fence, Fence(zombie.0 + 1));
    let late = Append { authority: Authority::Lease(zombie), ..append("a", 0, vec![event("k", 1)]) };
    let result = block_on(store.append(late));
    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
    assert_eq!(block_on(store.load(&id)).unwrap().seq, 0);
}

/// Runs with a file system of 4 MiB mounted at `home`.
fn small_disk(home: &Path) {
    let store = open(home);
    block_on(store.create(new_session("a", 1))).unwrap();
    let ballast = home.join("ballast");
    std::fs::write(&ballast, vec![1; 1024 * 1024]).unwrap();
    let fill = |store: &SqliteStore, mut seq: u64| loop {
        let payloads = vec![NewPayload { name: "p".into(), salt: [1; 16], bytes: vec![2; 30_000] }];
        let new = NewEvent { kind: "k".into(), data: json!({}), payloads };
        match block_on(store.append(append("a", seq, vec![new]))) {
            Ok(end) => seq = end.seq,
            Err(StoreError::DiskFull { .. }) => return seq,
            Err(other) => panic!("{other:?}"),
        }
    };
    let full_at = fill(&store, 0);
    assert!(full_at > 10, "{full_at}");
    let blob = block_on(store.put_blob(vec![3; 2 * 1024 * 1024]));
    assert!(matches!(blob, Err(StoreError::DiskFull { .. })), "{blob:?}");
    assert_eq!(std::fs::read_dir(home.join("blobs/unfinished")).unwrap().count(), 0);
    let large = NewPayload { name: "p".into(), salt: [1; 16], bytes: vec![4; 2 * 1024 * 1024] };
    let new = NewEvent { kind: "k".into(), data: json!({}), payloads: vec![large] };
    let result = block_on(store.append(append("a", full_at, vec![new])));
    assert!(matches!(result, Err(StoreError::DiskFull { .. })), "{result:?}");
    // Everything acknowledged is there, and once there is room the same store goes on.
    assert_eq!(block_on(store.load(&session_id("a"))).unwrap().seq, full_at);
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(block_on(store.append(append("a", full_at, vec![event("k", 1)]))).unwrap().seq, full_at + 1);
    let full_again = fill(&store, full_at + 1);
    drop(store);

    // A new process on the full disk says the same, or works with what room closing made.
    let opened = SqliteStore::open(home, Options::default());
    match &opened {
        Ok(store) => assert_eq!(block_on(store.load(&session_id("a"))).unwrap().seq, full_again),
        Err(error) => assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}"),
    }
    drop(opened);

    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(home).status().unwrap();
    assert!(status.success());
    for home in [home.to_owned(), home.join("fresh")] {
        let error = SqliteStore::open(&home, Options::default()).map(drop).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains(home.to_str().unwrap()), "{error}");
    }
    say("done");
}

#[test]
fn a_full_or_read_only_disk_is_said_and_loses_nothing() {
    const MOUNT: &str = "mount -t tmpfs -o size=4m tmpfs \"$1\" && shift && exec \"$@\"";
    // A mount namespace of its own: the mount is gone with the child.
    let ways: [&[&str]; 2] = [&["-m"], &["-r", "-m"]];
    let probe = |way: &[&str]| {
        let home = tempfile::tempdir().unwrap();
        let mut unshare = Command::new("unshare");
        unshare.args(way).args(["sh", "-c", MOUNT, "sh"]).arg(home.path()).arg("true").stderr(Stdio::null());
        unshare.status().is_ok_and(|status| status.success())
    };
    let Some(way) = ways.into_iter().find(|way| probe(way)) else {
        eprintln!(
            "SKIPPED: a_full_or_read_only_disk_is_said_and_loses_nothing: no tmpfs can be mounted here"
        );
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(way).args(["sh", "-c", MOUNT, "sh"]).arg(home.path()).arg(std::env::current_exe().unwrap());
    as_child(&mut unshare, "small_disk", home.path());
    let output = unshare.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("done"), "{said}");
}
