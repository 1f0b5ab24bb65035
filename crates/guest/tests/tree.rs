//! Seal, materialise, the private repository, patches, and digests of layers.
#![expect(clippy::unwrap_used, reason = "a failure of a helper fails the test")]

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{Host, chmod, commit_all, entry, git, git_text, paths, write};
use countersign_guest::protocol::{Reply, Request};
use countersign_tree::{EntryMode, Manifest, ScratchRules};
use proptest::prelude::*;

fn repo_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let repo = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(repo.path(), path, text);
    }
    commit_all(repo.path());
    repo
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_seal_sees_every_kind_of_change_and_stores_only_new_contents() {
    let repo = repo_with(&[("a", "1"), ("b", "2"), ("c", "3"), ("dir/x", "x"), ("file", "f")]);
    let mut host = Host::new();
    let (base, _) = host.import_git(repo.path(), "HEAD").unwrap();
    let ws = host.workspace.clone();
    write(&ws, "a", "changed");
    fs::remove_file(ws.join("b")).unwrap();
    chmod(&ws, "c", 0o755);
    fs::remove_dir_all(ws.join("dir")).unwrap();
    write(&ws, "dir", "now a file");
    fs::remove_file(ws.join("file")).unwrap();
    write(&ws, "file/below", "1");
    symlink("a", ws.join("link")).unwrap();
    fs::hard_link(ws.join("a"), ws.join("hard")).unwrap();
    fs::create_dir_all(ws.join("empty/deeper")).unwrap();
    write(&ws, "setuid", "s");
    chmod(&ws, "setuid", 0o4755);
    write(&ws, ".git/config", "the private repository is no entry");
    let (after, sealed) = host.seal(&base, false, ScratchRules::default());
    let expected = Manifest::new(vec![
        entry(b"a", EntryMode::File, b"changed"),
        entry(b"c", EntryMode::Executable, b"3"),
        entry(b"dir", EntryMode::File, b"now a file"),
        entry(b"file/below", EntryMode::File, b"1"),
        entry(b"hard", EntryMode::File, b"changed"),
        entry(b"link", EntryMode::Symlink, b"a"),
        entry(b"setuid", EntryMode::Executable, b"s"),
    ]);
    assert_eq!(after, expected);
    assert!(sealed.unsealable.is_empty(), "{:?}", sealed.unsealable);
    assert!(
        sealed.normalised.iter().any(|n| n == "setuid: mode 4755 is kept as 755"),
        "{:?}",
        sealed.normalised
    );
    assert!(sealed.normalised.iter().any(|n| n.starts_with("empty/deeper: ")));
    // "1" came with the base; "a" the link target, "changed", "now a file" and "s" are new.
    assert_eq!(sealed.located.len(), 4);
    let (again, sealed) = host.seal(&after, true, ScratchRules::default());
    assert_eq!(again, after);
    assert!(sealed.located.is_empty());
}

#[test]
fn what_cannot_be_an_entry_is_named_and_never_hangs() {
    let repo = repo_with(&[("a", "1")]);
    let mut host = Host::new();
    let (base, _) = host.import_git(repo.path(), "HEAD").unwrap();
    let ws = host.workspace.clone();
    mkfifo(&ws.join("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(ws.join("socket")).unwrap();
    write(&ws, "sub/.git/HEAD", "x");
    write(&ws, "other/.git", "gitdir: elsewhere");
    write(&ws, "third/.GIT", "x");
    write(&ws, "x/.git /config", "x");
    write(&ws, "x/git~1", "x");
    write(&ws, "Readme", "1");
    write(&ws, "README", "2");
    let (after, sealed) = host.seal(&base, true, ScratchRules::default());
    assert_eq!(paths(&after), ["README", "Readme", "a"]);
    let starts = [
        "fifo: a FIFO",
        "other/.git: ",
        "socket: a socket",
        "sub/.git: a repository",
        "third/.GIT: ",
        "x/.git : a repository",
        "x/git~1: ",
    ];
    assert_eq!(sealed.unsealable.len(), starts.len(), "{:?}", sealed.unsealable);
    for (line, start) in sealed.unsealable.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(sealed.normalised.iter().any(|n| n.contains("only in case")), "{:?}", sealed.normalised);
}

#[test]
fn scratch_is_left_out_and_told_with_its_size() {
    let repo = repo_with(&[(".gitignore", "*.log\n"), ("Cargo.toml", ""), ("target/kept", "base")]);
    let mut host = Host::new();
    let (base, _) = host.import_git(repo.path(), "HEAD").unwrap();
    let rules =
        ScratchRules::for_base(vec!["out/".into()], &base, |d| Ok(host.store.read(d).unwrap())).unwrap();
    assert_eq!(rules.held.len(), 1);
    let ws = host.workspace.clone();
    write(&ws, "target/debug/bin", "0123456789");
    write(&ws, "target/kept", "changed");
    write(&ws, "x.log", "12345");
    write(&ws, "out/a", "1");
    write(&ws, "Cargo.lock", "1");
    write(&ws, "src/lib.rs", "1");
    // The agent's own rules decide nothing.
    write(&ws, ".gitignore", "src/\n");
    write(&ws, "src/.gitignore", "*\n");
    write(&ws, "node_modules/m/.git/HEAD", "hidden in scratch");
    let (after, sealed) = host.seal(&base, true, rules.clone());
    assert_eq!(paths(&after), [".gitignore", "Cargo.toml", "src/.gitignore", "src/lib.rs", "target/kept"]);
    let names: Vec<&str> = sealed.scratch.iter().map(|(p, _)| p.as_str()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(sealed.scratch.contains(&("target/debug".to_owned(), 10)));
    assert!(sealed.scratch.contains(&("x.log".to_owned(), 5)));
    assert!(sealed.unsealable.is_empty(), "{:?}", sealed.unsealable);

    write(&host.dir.path().join("home"), ".cargo/registry/x", "1");
    fs::create_dir(host.dir.path().join("home/empty")).unwrap();
    let listed = host.guest.answer(Request::ListSetupPaths { scratch: rules }, &[]);
    let Reply::Paths { paths } = listed else { panic!("{listed:?}") };
    let root = host.dir.path().to_str().unwrap();
    let expected = ["home/.cargo", "workspace/Cargo.lock", "workspace/node_modules", "workspace/out"];
    for path in expected {
        assert!(paths.contains(&format!("{root}/{path}")), "{path} in {paths:?}");
    }
    assert!(!paths.iter().any(|p| p.ends_with("home/empty") || p.ends_with("target/kept")));
}

/// Changes a file behind the stat cache's back as well as a process can: same size, same times.
#[test]
fn a_verdict_seal_reads_every_byte() {
    let repo = repo_with(&[("a", "one")]);
    let mut host = Host::new();
    let (base, _) = host.import_git(repo.path(), "HEAD").unwrap();
    let path = host.workspace.join("a");
    let times = fs::metadata(&path).unwrap();
    fs::write(&path, "two").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    let modified = times.modified().unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    let (after, _) = host.seal(&base, true, ScratchRules::default());
    assert_eq!(after.entries()[0], entry(b"a", EntryMode::File, b"two"));
}

/// 66: what is changed and put back leaves the same bytes, and is told.
#[test]
fn what_was_touched_and_put_back_is_told() {
    type Act = fn(&Path);
    let rewrite = |ws: &Path| {
        fs::write(ws.join("tests/a"), "fake").unwrap();
        fs::write(ws.join("tests/a"), "one").unwrap();
    };
    let restamp = |ws: &Path| {
        let path = ws.join("tests/a");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "fake").unwrap();
        fs::write(&path, "one").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    };
    let aside = |ws: &Path| {
        fs::rename(ws.join("tests/a"), ws.join("tests/b")).unwrap();
        fs::write(ws.join("tests/a"), "fake").unwrap();
        fs::rename(ws.join("tests/b"), ws.join("tests/a")).unwrap();
    };
    let whole = |ws: &Path| {
        fs::rename(ws.join("tests"), ws.join("kept")).unwrap();
        fs::create_dir(ws.join("tests")).unwrap();
        fs::write(ws.join("tests/a"), "fake").unwrap();
        fs::remove_dir_all(ws.join("tests")).unwrap();
        fs::rename(ws.join("kept"), ws.join("tests")).unwrap();
    };
    let above = |ws: &Path| {
        fs::rename(ws.join("deep"), ws.join("kept")).unwrap();
        fs::rename(ws.join("kept"), ws.join("deep")).unwrap();
    };
    let link = |ws: &Path| {
        fs::remove_file(ws.join("link")).unwrap();
        symlink("tests/a", ws.join("link")).unwrap();
    };
    // What a build does beside the entries, and reading them, touches nothing.
    let build = |ws: &Path| {
        fs::read(ws.join("tests/a")).unwrap();
        fs::create_dir_all(ws.join("target/debug")).unwrap();
        write(ws, "tests/__pycache__/a.pyc", "x");
        fs::write(ws.join("tests/temporary"), "x").unwrap();
        fs::remove_file(ws.join("tests/temporary")).unwrap();
    };
    let changed = |ws: &Path| fs::write(ws.join("tests/a"), "two").unwrap();
    let cases: [(&str, Act, &[&str]); 8] = [
        ("rewritten", rewrite, &["tests/a"]),
        ("rewritten with its time", restamp, &["tests/a"]),
        ("moved aside", aside, &["tests/a"]),
        ("its directory moved aside", whole, &["tests"]),
        ("a directory above", above, &["deep"]),
        ("a link", link, &["link"]),
        ("a build", build, &[]),
        ("changed, which the difference says", changed, &[]),
    ];
    for (name, act, expected) in cases {
        let repo = repo_with(&[("tests/a", "one"), ("deep/er/x", "x"), ("src/b", "b")]);
        symlink("tests/a", repo.path().join("link")).unwrap();
        commit_all(repo.path());
        let mut host = Host::new();
        let (base, _) = host.import_git(repo.path(), "HEAD").unwrap();
        host.materialise(&base);
        assert_eq!(host.guest.answer(Request::Watch, &[]), Reply::Done);
        act(&host.workspace);
        let (_, sealed) = host.seal(&base, true, ScratchRules::default());
        let told: Vec<String> = sealed.touched.iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn rewinding_gives_the_tree_back_without_scratch_and_through_no_link() {
    let repo = repo_with(&[("a/b/c", "1"), ("d", "2"), ("run", "3")]);
    let mut host = Host::new();
    let (base, _) = host.import_git(repo.path(), "HEAD").unwrap();
    let ws = host.workspace.clone();
    let outside = host.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("c"), "precious").unwrap();
    fs::remove_dir_all(ws.join("a/b")).unwrap();
    symlink(&outside, ws.join("a/b")).unwrap();
    write(&ws, "target/x", "scratch");
    write(&ws, ".git/HEAD", "kept");
    host.materialise(&base);
    assert_eq!(fs::read(ws.join("a/b/c")).unwrap(), b"1");
    assert_eq!(fs::read(outside.join("c")).unwrap(), b"precious");
    assert!(!ws.join("target").exists() && ws.join(".git/HEAD").exists());
    let (after, _) = host.seal(&base, true, ScratchRules::default());
    assert_eq!(after, base);

    // Without `clear` a link in the way is replaced, never followed.
    fs::remove_dir_all(ws.join("a/b")).unwrap();
    symlink(&outside, ws.join("a/b")).unwrap();
    let digests: Vec<_> = base.entries().iter().map(|e| e.digest).collect();
    for batch in host.store.locate(&digests, 64).unwrap() {
        let entries = base.entries().to_vec();
        let request = Request::Materialise { entries, located: batch.located, clear: false };
        assert_eq!(host.guest.answer(request, &batch.files), Reply::Done);
    }
    assert!(fs::symlink_metadata(ws.join("a/b")).unwrap().is_dir());
    assert_eq!(fs::read(outside.join("c")).unwrap(), b"precious");
}

#[test]
fn passed_bytes_that_are_not_what_they_are_called_are_refused() {
    let mut host = Host::new();
    let segment = host.store.new_segment().unwrap();
    fs::write(host.dir.path().join("seg"), "wrong").unwrap();
    drop(segment);
    let file = fs::File::open(host.dir.path().join("seg")).unwrap();
    let wanted = entry(b"a", EntryMode::File, b"right");
    let located =
        vec![countersign_guest::protocol::Located { digest: wanted.digest, segment: 0, offset: 0, len: 5 }];
    let request = Request::Materialise { entries: vec![wanted], located, clear: false };
    let reply = host.guest.answer(request, &[file]);
    assert!(matches!(&reply, Reply::Error(f) if f.message.contains("are not sha256:")), "{reply:?}");
}

#[test]
fn the_private_repository_has_the_base_commit_and_nothing_else() {
    let repo = repo_with(&[("old", "secret of the past")]);
    git(repo.path(), &["tag", "v1"]);
    fs::remove_file(repo.path().join("old")).unwrap();
    write(repo.path(), "src/a.rs", "fn a() {}\n");
    write(repo.path(), "crlf", "a\r\nb\r\n");
    write(repo.path(), ".gitattributes", "crlf text eol=lf\n");
    chmod(repo.path(), "src/a.rs", 0o755);
    symlink("src", repo.path().join("link")).unwrap();
    commit_all(repo.path());
    git(repo.path(), &["gc", "-q"]);
    write(repo.path(), "future", "the gold fix");
    commit_all(repo.path());
    let head = git_text(repo.path(), &["rev-parse", "HEAD~1"]);

    for fresh in [false, true] {
        let mut host = Host::new();
        let (base, imported) = host.import_git(repo.path(), "HEAD~1").unwrap();
        assert_eq!(imported.commit.as_deref(), Some(head.as_str()));
        if fresh {
            // As in a cell whose workspace came from the store.
            host.guest = countersign_guest::Guest::new(&host.workspace, &host.workspace, None).unwrap();
            host.materialise(&base);
        }
        let git_dir = repo.path().join(".git").to_str().unwrap().to_owned();
        let init = Request::InitPrivateGit { git_dir: Some(git_dir), commit: Some(head.clone()) };
        for _ in 0..2 {
            assert_eq!(host.guest.answer(init.clone(), &[]), Reply::Done);
        }
        let ws = &host.workspace;
        assert_eq!(git_text(ws, &["status", "--porcelain"]), "");
        assert_eq!(git_text(ws, &["log", "--format=%H"]), head);
        assert_eq!(git_text(ws, &["symbolic-ref", "HEAD"]), "refs/heads/main");
        assert_eq!(git_text(ws, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
        assert_eq!(git_text(ws, &["remote"]), "");
        git(ws, &["fsck", "--strict"]);
        let objects = git_text(ws, &["cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"]);
        assert_eq!(objects.lines().filter(|l| *l == "commit").count(), 1);
        for gone in ["HEAD~1:old", "HEAD@{1}", "v1"] {
            let output = Command::new("git")
                .args(["rev-parse", "--verify", "-q", gone])
                .current_dir(ws)
                .output()
                .unwrap();
            assert!(!output.status.success(), "{gone}");
        }
        let past = git_text(repo.path(), &["rev-parse", "v1:old"]);
        let found = Command::new("git").args(["cat-file", "-e", &past]).current_dir(ws).output().unwrap();
        assert!(!found.status.success(), "an object of the past is there");
        write(ws, "src/a.rs", "fn b() {}\n");
        assert!(git_text(ws, &["diff"]).contains("+fn b() {}"));
        git(ws, &["commit", "-qam", "agent"]);
        git(ws, &["stash", "list"]);
        let (after, _) = host.seal(&base, true, ScratchRules::default());
        assert_eq!(base.changes_to(&after).len(), 1);
    }
}

#[test]
fn a_plain_directory_gets_a_first_commit() {
    let source = tempfile::tempdir().unwrap();
    write(source.path(), "a b/\"x\"\n", "1\r\n");
    write(source.path(), ".gitignore", "ignored\n");
    write(source.path(), "ignored", "but part of the base");
    write(source.path(), ".gitattributes", "* text=auto\n");
    symlink("x", source.path().join("link")).unwrap();
    let mut host = Host::new();
    let (base, _) = host.import_dir(source.path());
    assert_eq!(host.guest.answer(Request::InitPrivateGit { git_dir: None, commit: None }, &[]), Reply::Done);
    let ws = &host.workspace;
    assert_eq!(git_text(ws, &["status", "--porcelain"]), "");
    assert_eq!(git_text(ws, &["log", "--format=%s"]), "base");
    assert_eq!(git_text(ws, &["ls-files"]).lines().count(), base.entries().len());
    git(ws, &["fsck", "--strict"]);
    let reply = host.guest.answer(Request::InitPrivateGit { git_dir: None, commit: Some("x".into()) }, &[]);
    assert!(matches!(reply, Reply::Error(_)));
}

/// Applies a patch to a work tree of `before` and compares the result with `after`, bit for bit.
fn applies(host: &Host, before: &Manifest, after: &Manifest, patch: &[u8]) {
    let tree = tempfile::tempdir().unwrap();
    for e in before.entries() {
        put(host, tree.path(), e);
    }
    git(tree.path(), &["init", "-q"]);
    let file = host.dir.path().join("to-apply");
    fs::write(&file, patch).unwrap();
    if !patch.is_empty() {
        git(tree.path(), &["apply", "--whitespace=nowarn", file.to_str().unwrap()]);
    }
    let mut judge = Host::new();
    judge.guest = countersign_guest::Guest::new(tree.path(), tree.path(), None).unwrap();
    let (found, _) = judge.seal(&Manifest::default(), true, ScratchRules::default());
    assert_eq!(found.entries(), after.entries(), "{}", String::from_utf8_lossy(patch));
}

fn put(host: &Host, root: &Path, e: &countersign_tree::Entry) {
    let path = root.join(std::ffi::OsStr::from_bytes(e.path.as_bytes()));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let bytes = host.store.read(&e.digest).unwrap();
    if e.mode == EntryMode::Symlink {
        symlink(std::ffi::OsStr::from_bytes(&bytes), path).unwrap();
        return;
    }
    fs::write(&path, bytes).unwrap();
    if e.mode == EntryMode::Executable {
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

type Spec<'a> = (&'a [u8], EntryMode, &'a [u8]);

fn tree_of(host: &Host, specs: &[Spec<'_>]) -> Manifest {
    for (_, _, bytes) in specs {
        host.store.put(bytes, countersign_tree::Durability::Later).unwrap();
    }
    Manifest::new(specs.iter().map(|(path, mode, bytes)| entry(path, *mode, bytes)).collect())
}

#[test]
fn patches_of_every_kind_round_trip() {
    use EntryMode::{Executable as X, File as F, Symlink as L};
    let cases: &[(&str, &[Spec<'_>], &[Spec<'_>])] = &[
        ("nothing", &[(b"a", F, b"1")], &[(b"a", F, b"1")]),
        ("edit", &[(b"a", F, b"1\n2\n3\n")], &[(b"a", F, b"1\nx\n3\n")]),
        ("no final newline", &[(b"a", F, b"1\n2")], &[(b"a", F, b"1\n2\n")]),
        ("crlf", &[(b"a", F, b"1\r\n2\r\n")], &[(b"a", F, b"1\r\n3\r\n\r")]),
        ("binary", &[(b"a", F, b"\0\x01\xff")], &[(b"a", F, b"\0\x02\xff\xfe")]),
        ("mode", &[(b"a", F, b"1")], &[(b"a", X, b"1")]),
        ("mode and edit", &[(b"a", X, b"1\n")], &[(b"a", F, b"2\n")]),
        ("empty files", &[(b"a", F, b""), (b"c", F, b"x")], &[(b"b", X, b""), (b"c", F, b"")]),
        ("to link", &[(b"a", F, b"b")], &[(b"a", L, b"b")]),
        ("from link", &[(b"a", L, b"b")], &[(b"a", X, b"text\n")]),
        ("link target", &[(b"a", L, b"b")], &[(b"a", L, b"c\nd")]),
        ("file to directory", &[(b"a", F, b"1")], &[(b"a/b", F, b"1"), (b"a/c/d", F, b"2")]),
        ("directory to file", &[(b"a/b", F, b"1"), (b"a/c/d", F, b"2")], &[(b"a", F, b"1")]),
        ("directory to link", &[(b"a/b", F, b"1")], &[(b"a", L, b"elsewhere")]),
        (
            "odd names",
            &[(b"q\"\n\\ \xff", F, b"1\n")],
            &[(b"q\"\n\\ \xff", F, b"2\n"), (b" lead\t", F, b"1")],
        ),
        ("rename", &[(b"a", F, b"same\nlines\n")], &[(b"b", F, b"same\nlines\n")]),
        (
            "attributes",
            &[(b".gitattributes", F, b"* -diff\n*.txt binary\n"), (b"a", F, b"1\n"), (b"b.txt", F, b"1\n")],
            &[(b".gitattributes", F, b"* text eol=crlf\n"), (b"a", F, b"2\n"), (b"b.txt", F, b"2\r\n")],
        ),
        ("dash names", &[(b"-p", F, b"1\n")], &[(b"-p", F, b"2\n"), (b"--binary", F, b"x")]),
        ("whitespace", &[(b"a", F, b" \t\n\n\n")], &[(b"a", F, b"\t \n\n \n\n")]),
        ("looks like a patch", &[(b"a", F, b"--- a/x\n+++ b/x\n")], &[(b"a", F, b"-- a/x\n@@ -1 +1 @@\n")]),
    ];
    let mut host = Host::new();
    for (name, before, after) in cases {
        let (before, after) = (tree_of(&host, before), tree_of(&host, after));
        let patch = host.patch(&before, &after).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(patch.is_empty(), *name == "nothing", "{name}");
        assert_eq!(host.patch(&before, &after).unwrap(), patch, "{name}: the bytes differ from run to run");
        applies(&host, &before, &after, &patch);
    }
}

#[test]
fn a_text_patch_looks_as_people_know_it() {
    let mut host = Host::new();
    let before = tree_of(&host, &[(b"dir/a", EntryMode::File, b"1\n")]);
    let after = tree_of(&host, &[(b"dir/a", EntryMode::File, b"2\n")]);
    let patch = String::from_utf8(host.patch(&before, &after).unwrap()).unwrap();
    let expected = "diff --git a/dir/a b/dir/a\n\
        index d00491fd7e5bb6fa28c517a0bb32b8b506539d4d..0cfbf08886fca9a91cb753ec8734c84fcbe52c9f 100644\n\
        --- a/dir/a\n+++ b/dir/a\n@@ -1 +1 @@\n-1\n+2\n";
    assert_eq!(patch, expected);
}

fn any_tree() -> impl Strategy<Value = Vec<(Vec<u8>, EntryMode, Vec<u8>)>> {
    let name = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"b".to_vec()),
        Just(b"a b".to_vec()),
        Just(b"\xff\"".to_vec()),
        Just(b"n\nl".to_vec()),
    ];
    let path = proptest::collection::vec(name, 1..4).prop_map(|parts| parts.join(&b'/'));
    let mode = prop_oneof![Just(EntryMode::File), Just(EntryMode::Executable), Just(EntryMode::Symlink)];
    let line = proptest::sample::select(vec![&b"x\n"[..], b"y\r\n", b"\n", b"z", b"\0", b"\xfe\n"]);
    let content = proptest::collection::vec(line, 0..8).prop_map(|lines| lines.concat());
    proptest::collection::vec((path, mode, content), 0..6)
}

/// Drops what no file system could hold: a link without a target or with a NUL, and paths below a file.
fn possible(entries: Vec<(Vec<u8>, EntryMode, Vec<u8>)>) -> Vec<(Vec<u8>, EntryMode, Vec<u8>)> {
    let mut kept: Vec<(Vec<u8>, EntryMode, Vec<u8>)> = Vec::new();
    for (path, mode, mut content) in entries {
        if mode == EntryMode::Symlink {
            content.retain(|b| *b != 0);
            content.push(b't');
        }
        let clash = kept.iter().any(|(other, ..)| {
            let (short, long) = if other.len() < path.len() { (other, &path) } else { (&path, other) };
            other == &path || (long.starts_with(short) && long[short.len()] == b'/')
        });
        if !clash {
            kept.push((path, mode, content));
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_patch_round_trips(before in any_tree(), after in any_tree()) {
        let mut host = Host::new();
        let [before, after] = [before, after].map(|specs| {
            let specs = possible(specs);
            let specs: Vec<Spec<'_>> = specs.iter().map(|(p, m, c)| (p.as_slice(), *m, c.as_slice())).collect();
            tree_of(&host, &specs)
        });
        let patch = host.patch(&before, &after).unwrap();
        applies(&host, &before, &after, &patch);
    }
}

#[test]
fn a_digest_of_paths_sees_names_modes_contents_and_links() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "l/a", "1");
    write(dir.path(), "l/d/b", "2");
    symlink("a", dir.path().join("l/link")).unwrap();
    let mut host = Host::new();
    let path = dir.path().join("l").to_str().unwrap().to_owned();
    let mut hash = || match host.guest.answer(Request::HashPaths { paths: vec![path.clone()] }, &[]) {
        Reply::Hashed { digest, .. } => digest,
        other => panic!("{other:?}"),
    };
    let first = hash();
    assert_eq!(hash(), first);
    let mut seen = vec![first];
    write(dir.path(), "l/a", "3");
    seen.push(hash());
    chmod(dir.path(), "l/a", 0o755);
    seen.push(hash());
    fs::rename(dir.path().join("l/d/b"), dir.path().join("l/d/c")).unwrap();
    seen.push(hash());
    fs::remove_file(dir.path().join("l/link")).unwrap();
    symlink("b", dir.path().join("l/link")).unwrap();
    seen.push(hash());
    fs::create_dir(dir.path().join("l/empty")).unwrap();
    seen.push(hash());
    let distinct: std::collections::HashSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len());
    let reply = host.guest.answer(Request::HashPaths { paths: vec!["relative".into()] }, &[]);
    assert!(matches!(reply, Reply::Error(_)));
}

#[test]
fn what_is_made_belongs_to_the_job_user() {
    const OWNER: u32 = 1000;
    let repo = repo_with(&[("d/a", "1"), ("b", "2")]);
    symlink("b", repo.path().join("link")).unwrap();
    commit_all(repo.path());
    let mut host = Host::new();
    if std::os::unix::fs::chown(&host.workspace, Some(OWNER), Some(OWNER)).is_err() {
        eprintln!("SKIPPED: what_is_made_belongs_to_the_job_user: only root may give files away");
        return;
    }
    host.guest = countersign_guest::Guest::new(&host.workspace, &host.workspace, Some(OWNER)).unwrap();
    let (_, imported) = host.import_git(repo.path(), "HEAD").unwrap();
    let git_dir = repo.path().join(".git").to_str().unwrap().to_owned();
    let init = Request::InitPrivateGit { git_dir: Some(git_dir), commit: imported.commit };
    assert_eq!(host.guest.answer(init, &[]), Reply::Done);
    let mut waiting = vec![host.workspace.clone()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (OWNER, OWNER), "{}", path.display());
        seen += 1;
        if meta.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
    }
    assert!(seen > 15);
}
