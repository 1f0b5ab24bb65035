//! The program itself, over a socket pair.

mod common;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use common::{commit_all, write};
use countersign_guest::Channel;
use countersign_guest::protocol::{GUEST_PROTOCOL, Reply, Request};
use countersign_tree::{Durability, Manifest, ObjectStore};

#[test]
fn it_serves_frames_with_descriptors_until_the_end_of_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    write(&repo, "a", "hello");
    commit_all(&repo);
    let workspace = dir.path().join("ws");
    std::fs::create_dir(&workspace).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_countersign-guest"))
        .arg("--workspace")
        .arg(&workspace)
        .args(["--home", "/nonexistent", "--user", "0"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    let mut channel = Channel::new(ours);
    let mut ask = |bytes: &[u8], fds: &[OwnedFd]| -> Reply {
        channel.send(bytes, fds).unwrap();
        serde_json::from_slice(&channel.receive().unwrap().unwrap().bytes).unwrap()
    };
    let json = |request: &Request| serde_json::to_vec(request).unwrap();
    assert!(matches!(ask(&json(&Request::Hello), &[]), Reply::Hello { protocol: GUEST_PROTOCOL, .. }));
    assert!(matches!(ask(b"{\"op\":\"what\"}", &[]), Reply::Error(_)));
    assert!(matches!(ask(b"", &[]), Reply::Error(_)));

    let store = ObjectStore::open(dir.path().join("blobs")).unwrap();
    let segment = store.new_segment().unwrap();
    let git_dir = repo.join(".git").to_str().unwrap().to_owned();
    let import = Request::ImportGit { git_dir, rev: "HEAD".into(), write_workspace: true };
    assert!(matches!(ask(&json(&import), &[]), Reply::Error(_)), "without a descriptor");
    let fd: OwnedFd = segment.file.try_clone().unwrap().into();
    let Reply::Imported(imported) = ask(&json(&import), &[fd]) else { panic!("no import") };
    store.adopt(segment, &imported.located, Durability::Sync).unwrap();
    let manifest = Manifest::new(imported.entries);
    assert_eq!(store.read(&manifest.entries()[0].digest).unwrap(), b"hello");
    assert_eq!(std::fs::read(workspace.join("a")).unwrap(), b"hello");
    drop(channel);
    assert!(child.wait().unwrap().success());
}

#[test]
fn it_tells_its_version_and_refuses_unknown_arguments() {
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_countersign-guest"))
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let version = String::from_utf8(run(&["--version"]).stdout).unwrap();
    assert_eq!(
        version,
        format!("countersign-guest {} protocol {GUEST_PROTOCOL}\n", env!("CARGO_PKG_VERSION"))
    );
    for bad in [&["--nope"][..], &["--user"], &["--user", "x"], &["--workspace", "/nonexistent/ws"]] {
        let output = run(bad);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{bad:?}");
    }
}
