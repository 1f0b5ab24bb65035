#![expect(
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "shared by the test files: each uses a part of it, and a failure here fails the test"
)]
//! A host's side for tests: an object store, a workspace and a guest in this process.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use countersign_guest::Guest;
use countersign_guest::protocol::{
    BaseFile, Fault, Imported, Located, MAX_FDS, PatchChange, Reply, Request, Sealed, ToolBounds, ToolCall,
    ToolReply, WriteGuard,
};
use countersign_tree::{Durability, Entry, EntryMode, Manifest, ObjectStore, ScratchRules, TreePath};
use tempfile::TempDir;

pub struct Host {
    pub dir: TempDir,
    pub store: ObjectStore,
    pub guest: Guest,
    pub workspace: PathBuf,
}

impl Host {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        let store = ObjectStore::open(dir.path().join("blobs")).unwrap();
        let guest = Guest::new(&workspace, &dir.path().join("home"), None).unwrap();
        Self { dir, store, guest, workspace }
    }

    /// Sends a request whose contents come back in a segment, and adopts it.
    pub fn ask_segment(&mut self, request: Request) -> Result<Reply, Fault> {
        let segment = self.store.new_segment().unwrap();
        let reply = self.guest.answer(request, &[segment.file.try_clone().unwrap()]);
        let located = match &reply {
            Reply::Imported(i) => &i.located,
            Reply::Sealed(s) => &s.located,
            Reply::Error(fault) => return Err(fault.clone()),
            other => panic!("{other:?}"),
        };
        self.store.adopt(segment, located, Durability::Later).unwrap();
        Ok(reply)
    }

    pub fn import(&mut self, request: Request) -> Result<(Manifest, Imported), Fault> {
        match self.ask_segment(request)? {
            Reply::Imported(imported) => {
                let manifest = Manifest::new(imported.entries.clone());
                self.store.put_manifest(&manifest, Durability::Later).unwrap();
                Ok((manifest, imported))
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn import_git(&mut self, repo: &Path, rev: &str) -> Result<(Manifest, Imported), Fault> {
        let git_dir = repo.join(".git").to_str().unwrap().to_owned();
        self.import(Request::ImportGit { git_dir, rev: rev.to_owned(), write_workspace: true })
    }

    pub fn import_dir(&mut self, source: &Path) -> (Manifest, Imported) {
        let source = source.to_str().unwrap().to_owned();
        self.import(Request::ImportDir { source, write_workspace: true }).unwrap()
    }

    pub fn seal(&mut self, before: &Manifest, verdict: bool, scratch: ScratchRules) -> (Manifest, Sealed) {
        match self.ask_segment(Request::Seal { verdict, scratch, live: false }).unwrap() {
            Reply::Sealed(sealed) => {
                let after = before.with(&sealed.delta);
                assert_eq!(after.digest(), sealed.tree);
                self.store.put_manifest(&after, Durability::Later).unwrap();
                (after, sealed)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn materialise(&mut self, manifest: &Manifest) {
        let digests: Vec<_> = manifest.entries().iter().map(|e| e.digest).collect();
        let mut clear = true;
        let batches = self.store.locate(&digests, MAX_FDS).unwrap();
        for batch in batches {
            let here: std::collections::HashSet<_> = batch.located.iter().map(|l| l.digest).collect();
            let entries = manifest.entries().iter().filter(|e| here.contains(&e.digest)).cloned().collect();
            let request = Request::Materialise { entries, located: batch.located, clear };
            assert_eq!(self.guest.answer(request, &batch.files), Reply::Done);
            clear = false;
        }
    }

    /// The patch's bytes.
    pub fn patch(&mut self, before: &Manifest, after: &Manifest) -> Result<Vec<u8>, Fault> {
        let changes: Vec<PatchChange> = before
            .changes_to(after)
            .into_iter()
            .map(|c| PatchChange { path: c.path, before: c.before, after: c.after })
            .collect();
        let digests: Vec<_> =
            changes.iter().flat_map(|c| [&c.before, &c.after]).flatten().map(|e| e.digest).collect();
        let batch = self.store.gather(&digests, MAX_FDS - 1).unwrap();
        let path = self.dir.path().join("patch");
        let out = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let mut files = vec![out];
        files.extend(batch.files);
        match self.guest.answer(Request::MakePatch { changes, located: batch.located }, &files) {
            Reply::Patch { bytes, digest } => {
                let patch = fs::read(&path).unwrap();
                assert_eq!(patch.len() as u64, bytes);
                assert_eq!(countersign_types::Digest::of(&patch), digest);
                Ok(patch)
            }
            Reply::Error(fault) => Err(fault),
            other => panic!("{other:?}"),
        }
    }

    pub fn tool_guarded(&mut self, call: ToolCall, guard: WriteGuard) -> ToolReply {
        self.tool_with_base(call, guard, None, None)
    }

    /// A call together with a file of the base; `content` None: the base lacks it.
    pub fn tool_with_base(
        &mut self,
        call: ToolCall,
        guard: WriteGuard,
        path: Option<&str>,
        content: Option<&[u8]>,
    ) -> ToolReply {
        let file = tempfile::tempfile().unwrap();
        let mut located = Vec::new();
        let digest = content.map(|bytes| {
            std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
            let digest = countersign_types::Digest::of(bytes);
            located.push(Located { digest, segment: 0, offset: 0, len: bytes.len() as u64 });
            digest
        });
        let base =
            path.map(|path| BaseFile { path: TreePath::new(path.as_bytes()).unwrap(), content: digest });
        let request = Request::Tool { call, bounds: ToolBounds::DEFAULT, guard, base, located };
        match self.guest.answer(request, &[file]) {
            Reply::Tool(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub fn tool(&mut self, call: ToolCall) -> ToolReply {
        self.tool_guarded(call, WriteGuard::default())
    }

    pub fn ok(&mut self, call: ToolCall) -> String {
        let reply = self.tool(call);
        assert!(reply.ok, "{}", reply.text);
        reply.text
    }

    pub fn err(&mut self, call: ToolCall) -> String {
        let reply = self.tool(call);
        assert!(!reply.ok && !reply.wrote, "{}", reply.text);
        reply.text
    }
}

/// git as a user runs it, without this machine's configuration.
pub fn git(dir: &Path, args: &[&str]) -> Output {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

pub fn git_text(dir: &Path, args: &[&str]) -> String {
    String::from_utf8(git(dir, args).stdout).unwrap().trim_end().to_owned()
}

/// A repository with one commit of the files below `dir`.
pub fn commit_all(dir: &Path) {
    git(dir, &["init", "-q"]);
    git(dir, &["add", "-A", "-f"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "base"]);
}

pub fn write(dir: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub fn chmod(dir: &Path, path: &str, mode: u32) {
    fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

pub fn entry(path: &[u8], mode: EntryMode, content: &[u8]) -> Entry {
    Entry {
        path: TreePath::new(path).unwrap(),
        mode,
        size: content.len() as u64,
        digest: countersign_types::Digest::of(content),
    }
}

pub fn paths(manifest: &Manifest) -> Vec<String> {
    manifest.entries().iter().map(|e| e.path.to_string()).collect()
}

/// A digest over everything below a directory, times excluded: what "byte-identical" means.
pub fn fingerprint(path: &Path) -> Reply {
    let host = Host::new();
    let mut guest = host.guest;
    guest.answer(Request::HashPaths { paths: vec![path.to_str().unwrap().to_owned()] }, &[])
}
