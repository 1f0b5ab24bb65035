//! git, kept on a short leash: no user or system configuration, no hooks, no lazy fetch, no replaced objects.

mod apply;
mod cat;
mod commit;
mod import;
mod index;
mod patch;
mod private;
mod repository;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use apply::apply_patch;
pub(crate) use import::{Import, dirty, git, resolve};
pub(crate) use patch::{make_patch, text_diff};
pub(crate) use private::{GitBase, init_private};

/// A git object id of a sha1 repository.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Oid(pub(crate) [u8; 20]);

impl Oid {
    pub(crate) fn of(kind: &str, bytes: &[u8]) -> Self {
        let mut hasher = OidHasher::new(kind, bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish()
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 40 {
            return None;
        }
        let mut out = [0; 20];
        for (slot, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            *slot = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Hashes an object as git names it.
#[derive(Clone)]
pub(crate) struct OidHasher(sha1::Sha1);

impl OidHasher {
    pub(crate) fn new(kind: &str, len: u64) -> Self {
        use sha1::Digest as _;
        let mut hasher = sha1::Sha1::new();
        hasher.update(format!("{kind} {len}\0"));
        Self(hasher)
    }
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        sha1::Digest::update(&mut self.0, bytes);
    }
    pub(crate) fn finish(self) -> Oid {
        Oid(sha1::Digest::finalize(self.0).into())
    }
}

/// Where git is looked up; the cell's system layer has it in one of these.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Settings that could run a program, reach the network, rewrite contents or merely differ between machines. They win
/// over the repository's own configuration, which git insists on reading.
const SETTINGS: &[&str] = &[
    "safe.directory=*",
    "core.fsmonitor=false",
    "core.hooksPath=/nonexistent/countersign-hooks",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.quotePath=true",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "core.logAllRefUpdates=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "uploadpack.packObjectsHook=false",
    "pack.threads=2",
];

/// A git command that sees only `git_dir`.
pub(crate) fn git_command(git_dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear();
    command.envs([
        ("PATH", PATH),
        ("HOME", "/nonexistent"),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_GRAFT_FILE", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_ALLOW_PROTOCOL", "none"),
    ]);
    command.env("GIT_DIR", git_dir);
    command.current_dir("/");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command.arg("--no-pager");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What stderr may say before the rest is dropped, in bytes.
const MAX_STDERR: u64 = 8 * 1024;

/// Collects a child's stderr so that it can never fill its pipe.
#[derive(Debug)]
pub(crate) struct Stderr(Option<std::thread::JoinHandle<String>>);

impl Stderr {
    pub(crate) fn of(child: &mut Child) -> Self {
        let Some(mut pipe) = child.stderr.take() else { return Self(None) };
        Self(Some(std::thread::spawn(move || {
            let mut kept = Vec::new();
            // A broken pipe ends the text; the exit status tells the rest.
            drop((&mut pipe).take(MAX_STDERR).read_to_end(&mut kept));
            drop(io::copy(&mut pipe, &mut io::sink()));
            String::from_utf8_lossy(&kept).into_owned()
        })))
    }

    pub(crate) fn text(self) -> String {
        let text = self.0.and_then(|t| t.join().ok()).unwrap_or_default();
        text.trim().to_owned()
    }
}

/// Runs git to its end with `input`, and turns a failure into its last words.
pub(crate) fn run(mut command: Command, input: &[u8]) -> io::Result<Output> {
    use std::io::Write as _;
    command.stdin(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A child that stops reading says why in its status.
                drop(stdin.write_all(input));
            }
        });
        child.wait_with_output()
    })
}

/// As [`run`]; an exit status other than zero is an error that quotes stderr.
pub(crate) fn run_ok(command: Command, input: &[u8], what: &str) -> io::Result<Vec<u8>> {
    let output = run(command, input)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(500).collect();
    Err(io::Error::other(format!("{what}: git ended with {}: {words}", output.status)))
}

/// A private directory that goes away with its handle.
#[derive(Debug)]
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        for _ in 0..1000 {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = PathBuf::from(format!("/tmp/countersign-guest-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                // A name that somebody else made is never used.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
                Ok(()) => return Ok(Self(path)),
            }
        }
        Err(io::Error::other("every temporary name in /tmp is taken"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // `/tmp` goes with the cell.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
