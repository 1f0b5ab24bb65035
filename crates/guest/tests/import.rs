//! From repositories and directories to a base, and the refusals.
#![expect(clippy::unwrap_used, reason = "a failure of a helper fails the test")]

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::{Host, chmod, commit_all, entry, fingerprint, git, git_text, paths, write};
use countersign_guest::protocol::{FaultKind, Reply, Request};
use countersign_tree::{EntryMode, Manifest, ScratchRules};

fn odd_files(dir: &Path) {
    write(dir, "src/main.rs", "fn main() {}\n");
    write(dir, "crlf.txt", "a\r\nb\r\n");
    write(dir, "no-newline", "x");
    write(dir, "empty", "");
    write(dir, "binary", [0_u8, 255, 1, 2]);
    write(dir, "twice/a", "same");
    write(dir, "twice/b", "same");
    write(dir, "run.sh", "#!/bin/sh\n");
    chmod(dir, "run.sh", 0o755);
    write(dir, "new\nline \"q\" \\", "odd");
    fs::write(dir.join(std::ffi::OsStr::from_bytes(b"not-utf8-\xff")), "odd").unwrap();
    symlink("src/main.rs", dir.join("link")).unwrap();
    symlink("/nowhere", dir.join("dangling")).unwrap();
    write(dir, ".gitattributes", "*.txt text eol=crlf\n*.rs filter=x\n");
    write(dir, "big", vec![7_u8; 9 << 20]);
}

#[test]
fn a_commit_comes_out_bit_for_bit_and_the_repository_stays_as_it_was() {
    let repo = tempfile::tempdir().unwrap();
    odd_files(repo.path());
    commit_all(repo.path());
    let before = fingerprint(repo.path());
    let mut host = Host::new();
    let (manifest, imported) = host.import_git(repo.path(), "HEAD").unwrap();
    assert_eq!(imported.commit.unwrap(), git_text(repo.path(), &["rev-parse", "HEAD"]));
    assert_eq!(manifest.entries().len(), 14);
    assert_eq!(fingerprint(repo.path()), before);
    let blob = |path: &str| git(repo.path(), &["cat-file", "blob", &format!("HEAD:{path}")]).stdout;
    for e in manifest.entries() {
        let on_disk = host.workspace.join(std::ffi::OsStr::from_bytes(e.path.as_bytes()));
        let bytes = match e.mode {
            EntryMode::Symlink => fs::read_link(&on_disk).unwrap().as_os_str().as_bytes().to_vec(),
            _ => fs::read(&on_disk).unwrap(),
        };
        assert_eq!(host.store.read(&e.digest).unwrap(), bytes, "{}", e.path);
        if let Ok(path) = std::str::from_utf8(e.path.as_bytes()) {
            assert_eq!(bytes, blob(path), "{path}");
        }
    }
    // The next seal finds exactly the same tree.
    for verdict in [false, true] {
        let (after, sealed) = host.seal(&manifest, verdict, ScratchRules::default());
        assert_eq!(after, manifest);
        assert!(sealed.delta.is_empty() && sealed.located.is_empty() && sealed.unsealable.is_empty());
    }
}

fn refusal(repo: &Path, rev: &str) -> String {
    let fault = Host::new().import_git(repo, rev).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Repository, "{fault}");
    fault.message
}

fn simple() -> tempfile::TempDir {
    let repo = tempfile::tempdir().unwrap();
    write(repo.path(), "a", "1");
    commit_all(repo.path());
    repo
}

#[test]
fn revisions_that_name_no_commit_are_refused_by_name() {
    let repo = simple();
    assert!(refusal(repo.path(), "no-such-branch").contains("`no-such-branch`"));
    for bad in ["", "--all", "HEAD\nHEAD", "a\x1b"] {
        assert!(refusal(repo.path(), bad).contains("no revision"), "{bad:?}");
    }
    assert!(refusal(repo.path(), "HEAD:a").contains("no commit"), "a blob is no commit");
    let empty = tempfile::tempdir().unwrap();
    git(empty.path(), &["init", "-q"]);
    assert!(refusal(empty.path(), "HEAD").contains("no commits yet"));
    let plain = tempfile::tempdir().unwrap();
    fs::create_dir(plain.path().join(".git")).unwrap();
    assert!(refusal(plain.path(), "HEAD").contains("not a git directory"));
}

#[test]
fn a_submodule_is_an_entry_and_its_directory_is_empty() {
    let repo = simple();
    let head = git_text(repo.path(), &["rev-parse", "HEAD"]);
    git(repo.path(), &["update-index", "--add", "--cacheinfo", &format!("160000,{head},libs/sub")]);
    git(repo.path(), &["commit", "-q", "-m", "sub"]);
    let mut host = Host::new();
    let (manifest, _) = host.import_git(repo.path(), "HEAD").unwrap();
    let module = entry(b"libs/sub", EntryMode::Gitlink, head.as_bytes());
    assert_eq!(manifest.get(&module.path), Some(&module));
    assert_eq!(host.store.read(&module.digest).unwrap(), head.as_bytes());
    let dir = host.workspace.join("libs/sub");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    let seal = |host: &mut Host| host.seal(&manifest, true, ScratchRules::default());
    assert_eq!(seal(&mut host).0, manifest);
    // A private repository takes it for unchanged.
    let ask = Request::InitPrivateGit {
        git_dir: Some(repo.path().join(".git").to_str().unwrap().to_owned()),
        commit: Some(git_text(repo.path(), &["rev-parse", "HEAD"])),
    };
    assert_eq!(host.guest.answer(ask, &[]), Reply::Done);
    assert_eq!(git_text(&host.workspace, &["status", "--short"]), "");
    // What lies in it is told, and does not make it another one; without it, it is gone.
    write(&dir, "planted", "x");
    write(&dir, ".git/config", "x");
    let (after, sealed) = seal(&mut host);
    assert_eq!((after, sealed.unsealable.len()), (manifest.clone(), 2), "{:?}", sealed.unsealable);
    fs::remove_dir_all(&dir).unwrap();
    let (after, sealed) = seal(&mut host);
    assert!(after.get(&module.path).is_none() && sealed.unsealable.is_empty());
    // Materialised again, and in a patch both ways.
    let mut host = Host::new();
    let mut moved = manifest.entries().to_vec();
    moved.retain(|e| e.path != module.path);
    let gone = Manifest::new(moved);
    host.import_git(repo.path(), "HEAD").unwrap();
    host.materialise(&manifest);
    assert!(host.workspace.join("libs/sub").is_dir());
    let taken = String::from_utf8(host.patch(&manifest, &gone).unwrap()).unwrap();
    assert!(taken.contains(&format!("-Subproject commit {head}")), "{taken}");
    let put = String::from_utf8(host.patch(&gone, &manifest).unwrap()).unwrap();
    assert!(put.contains("new file mode 160000"), "{put}");
}

#[test]
fn partial_and_sha256_repositories_are_refused_with_a_way_out() {
    let source = simple();
    git(source.path(), &["config", "uploadpack.allowFilter", "true"]);
    let partial = tempfile::tempdir().unwrap();
    let url = format!("file://{}", source.path().display());
    git(partial.path(), &["clone", "-q", "--filter=blob:none", &url, "."]);
    assert!(refusal(partial.path(), "HEAD").contains("partial clone"));

    let sha256 = tempfile::tempdir().unwrap();
    git(sha256.path(), &["init", "-q", "--object-format=sha256"]);
    git(sha256.path(), &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert!(refusal(sha256.path(), "HEAD").contains("sha256"));
    // The id of a commit of a repository with ids of 40 digits, as a bundle names it.
    assert!(refusal(sha256.path(), &"0123456789".repeat(4)).contains("sha256"));
    assert!(!refusal(source.path(), &"0123456789".repeat(4)).contains("sha256"));
}

#[test]
fn a_pipe_where_git_would_read_is_refused_and_not_waited_for() {
    for name in ["HEAD", "config", "packed-refs", "refs/heads/side", "objects/info/alternates", "commondir"] {
        let repo = simple();
        let path = repo.path().join(".git").join(name);
        drop(fs::remove_file(&path));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let text = refusal(repo.path(), "HEAD");
        assert!(text.contains(&format!("`{name}` is a pipe")), "{text}");
    }
}

#[test]
fn missing_and_corrupt_objects_are_refused_with_the_path() {
    let repo = simple();
    let oid = git_text(repo.path(), &["rev-parse", "HEAD:a"]);
    let object = repo.path().join(".git/objects").join(&oid[..2]).join(&oid[2..]);
    let good = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    let text = refusal(repo.path(), "HEAD");
    assert!(text.contains("`a`") && text.contains("missing"), "{text}");
    for bad in [&good[..good.len() / 2], b"", b"garbage"] {
        fs::write(&object, bad).unwrap();
        let text = refusal(repo.path(), "HEAD");
        assert!(text.contains("git fsck"), "{text}");
    }
    // A whole object under a wrong name.
    write(repo.path(), "b", "other");
    let other = git_text(repo.path(), &["hash-object", "-w", "b"]);
    let other = repo.path().join(".git/objects").join(&other[..2]).join(&other[2..]);
    fs::remove_file(&object).unwrap();
    fs::copy(other, &object).unwrap();
    let text = refusal(repo.path(), "HEAD");
    assert!(text.contains("git fsck"), "{text}");
}

#[test]
fn bare_shallow_worktree_and_borrowing_repositories() {
    let source = simple();
    write(source.path(), "b", "2");
    commit_all(source.path());
    let url = format!("file://{}", source.path().display());

    let bare = tempfile::tempdir().unwrap();
    git(bare.path(), &["clone", "-q", "--bare", "--depth=1", &url, "bare.git"]);
    let mut host = Host::new();
    let git_dir = bare.path().join("bare.git").to_str().unwrap().to_owned();
    let request = Request::ImportGit { git_dir, rev: "HEAD".into(), write_workspace: false };
    let (manifest, _) = host.import(request).unwrap();
    assert_eq!(paths(&manifest), ["a", "b"]);
    assert!(!host.workspace.join("a").exists());

    git(source.path(), &["worktree", "add", "-q", "-b", "w", "../w-tree"]);
    let tree = source.path().parent().unwrap().join("w-tree");
    let git_dir = git_text(&tree, &["rev-parse", "--absolute-git-dir"]);
    let request = Request::ImportGit { git_dir: git_dir.clone(), rev: "HEAD".into(), write_workspace: true };
    assert_eq!(paths(&Host::new().import(request.clone()).unwrap().0), ["a", "b"]);
    fs::write(Path::new(&git_dir).join("commondir"), "/not/mounted\n").unwrap();
    let fault = Host::new().import(request).unwrap_err();
    assert!(fault.message.contains("`/not/mounted`") && fault.message.contains("main work tree"), "{fault}");
    fs::remove_dir_all(tree).unwrap();

    let borrowing = tempfile::tempdir().unwrap();
    git(borrowing.path(), &["clone", "-q", "--shared", source.path().to_str().unwrap(), "."]);
    assert_eq!(paths(&Host::new().import_git(borrowing.path(), "HEAD").unwrap().0), ["a", "b"]);
    fs::write(borrowing.path().join(".git/objects/info/alternates"), "/gone/objects\n").unwrap();
    let text = refusal(borrowing.path(), "HEAD");
    assert!(text.contains("/gone/objects") && text.contains("repack"), "{text}");
}

#[test]
fn configuration_hooks_replacements_and_grafts_of_the_repository_do_nothing() {
    let repo = simple();
    let mark = repo.path().join("ran");
    let script = repo.path().join(".git/evil.sh");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    chmod(repo.path(), ".git/evil.sh", 0o755);
    let script = script.to_str().unwrap().to_owned();
    for key in
        ["core.fsmonitor", "core.sshCommand", "core.pager", "filter.x.clean", "core.alternateRefsCommand"]
    {
        git(repo.path(), &["config", key, &script]);
    }
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"] {
        fs::copy(&script, repo.path().join(".git/hooks").join(hook)).unwrap();
    }
    write(repo.path(), ".git/info/attributes", "* filter=x\n");
    let blob = git_text(repo.path(), &["rev-parse", "HEAD:a"]);
    write(repo.path(), "evil", "evil");
    let evil = git_text(repo.path(), &["hash-object", "-w", "--no-filters", "evil"]);
    fs::create_dir_all(repo.path().join(".git/refs/replace")).unwrap();
    fs::write(repo.path().join(".git/refs/replace").join(&blob), format!("{evil}\n")).unwrap();
    drop(fs::remove_file(&mark));

    let mut host = Host::new();
    let (manifest, imported) = host.import_git(repo.path(), "HEAD").unwrap();
    assert_eq!(manifest.entries(), [entry(b"a", EntryMode::File, b"1")]);
    let git_dir = repo.path().join(".git").to_str().unwrap().to_owned();
    let init = Request::InitPrivateGit { git_dir: Some(git_dir.clone()), commit: imported.commit };
    assert_eq!(host.guest.answer(init, &[]), Reply::Done);
    let work_tree = repo.path().to_str().unwrap().to_owned();
    let dirty = Request::ImportDirty { git_dir, work_tree, rev: "HEAD".into(), write_workspace: true };
    let (manifest, _) = Host::new().import(dirty).unwrap();
    assert_eq!(paths(&manifest), ["a", "evil"]);
    assert!(!mark.exists(), "something of the repository ran");
}

#[test]
fn a_dirty_work_tree_is_taken_as_it_is() {
    let repo = tempfile::tempdir().unwrap();
    for (path, text) in [("same", "1"), ("changed", "1"), ("deleted", "1"), ("mode", "1"), ("sparse", "s")] {
        write(repo.path(), path, text);
    }
    write(repo.path(), ".gitignore", "*.log\n");
    commit_all(repo.path());
    write(repo.path(), "changed", "2");
    fs::remove_file(repo.path().join("deleted")).unwrap();
    chmod(repo.path(), "mode", 0o755);
    write(repo.path(), "new/file", "n");
    write(repo.path(), "x.log", "ignored");
    git(repo.path(), &["update-index", "--skip-worktree", "sparse"]);
    fs::remove_file(repo.path().join("sparse")).unwrap();
    assert!(Command::new("mkfifo").arg(repo.path().join("fifo")).status().unwrap().success());
    write(repo.path(), "nested/f", "1");
    commit_all(&repo.path().join("nested"));
    let before = fingerprint(repo.path());

    let mut host = Host::new();
    let git_dir = repo.path().join(".git").to_str().unwrap().to_owned();
    let work_tree = repo.path().to_str().unwrap().to_owned();
    let request = Request::ImportDirty { git_dir, work_tree, rev: "HEAD".into(), write_workspace: true };
    let (manifest, imported) = host.import(request).unwrap();
    assert_eq!(paths(&manifest), [".gitignore", "changed", "mode", "new/file", "same", "sparse"]);
    let dirty: Vec<String> = imported.dirty.iter().map(ToString::to_string).collect();
    assert_eq!(dirty, ["changed", "deleted", "mode", "new/file"]);
    assert!(imported.skipped.iter().any(|s| s.contains("nested")), "{:?}", imported.skipped);
    assert_eq!(fs::read(host.workspace.join("sparse")).unwrap(), b"s");
    assert_eq!(fingerprint(repo.path()), before);
    let (after, _) = host.seal(&manifest, true, ScratchRules::default());
    assert_eq!(after, manifest);

    // The private repository shows the dirt as the user's own would.
    let git_dir = repo.path().join(".git").to_str().unwrap().to_owned();
    let init = Request::InitPrivateGit { git_dir: Some(git_dir), commit: imported.commit };
    assert_eq!(host.guest.answer(init, &[]), Reply::Done);
    let status = git_text(&host.workspace, &["status", "--porcelain"]);
    assert_eq!(status, " M changed\n D deleted\n M mode\n?? new/");
}

#[test]
fn a_plain_directory_without_what_is_no_file() {
    let source = tempfile::tempdir().unwrap();
    odd_files(source.path());
    write(source.path(), "target/debug/x", "build");
    write(source.path(), "Cargo.lock", "kept: it is the base's");
    write(source.path(), "sub/.git/config", "x");
    assert!(Command::new("mkfifo").arg(source.path().join("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(source.path().join("socket")).unwrap();
    let mut host = Host::new();
    let (manifest, imported) = host.import_dir(source.path());
    assert_eq!(manifest.entries().len(), 15);
    assert!(paths(&manifest).contains(&"Cargo.lock".to_owned()));
    for left_out in ["fifo: a FIFO", "socket: a socket", "sub/.git: a repository"] {
        assert!(imported.skipped.iter().any(|s| s.starts_with(left_out)), "{:?}", imported.skipped);
    }
    let rules = ScratchRules::for_base(Vec::new(), &manifest, |d| Ok(host.store.read(d).unwrap())).unwrap();
    assert_eq!(host.seal(&manifest, true, rules).0, manifest);
}

#[test]
fn an_import_without_workspace_leaves_it_alone_and_equal_contents_are_stored_once() {
    let repo = simple();
    write(repo.path(), "b", "1");
    commit_all(repo.path());
    let mut host = Host::new();
    let (manifest, imported) = host.import_git(repo.path(), "HEAD").unwrap();
    assert_eq!(manifest.entries().len(), 2);
    assert_eq!(imported.located.len(), 1);
    assert_eq!(Manifest::new(imported.entries), manifest);
}
