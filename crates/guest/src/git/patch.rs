//! The patch between two states of some paths, and the proof that it leads from one to the other.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};

use countersign_tree::{Entry, EntryMode, TreePath};
use countersign_types::{Digest, Hasher};

use super::{Oid, Stderr, TempDir, git_command, run_ok};
use crate::fault::Outcome;
use crate::protocol::{Fault, Located, PatchChange, Reply};
use crate::segment::Segments;
use crate::state::first_file;

/// Every option that could change a byte of the patch, whatever a configuration or the tree's attributes say.
const DIFF: &[&str] = &[
    "diff-tree",
    "-r",
    "-p",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--no-indent-heuristic",
    "--diff-algorithm=myers",
    "--unified=3",
    "--inter-hunk-context=0",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=none",
];

/// A repository of no files and no attributes. `attr.tree` stays empty, so `.gitattributes` of the tree means nothing.
pub(super) fn scratch_repository(at: &Path) -> io::Result<()> {
    for dir in ["objects/pack", "objects/info", "refs/heads", "info"] {
        std::fs::create_dir_all(at.join(dir))?;
    }
    std::fs::write(at.join("HEAD"), "ref: refs/heads/none\n")?;
    std::fs::write(at.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
}

/// Writes the patch to the first file and proves it.
pub(crate) fn make_patch(changes: &[PatchChange], located: &[Located], files: &[File]) -> Outcome<Reply> {
    let mut out = first_file(files)?;
    let disk = |e: io::Error| Fault::io("making the patch", &e);
    out.set_len(0).and_then(|()| out.seek(SeekFrom::Start(0))).map_err(disk)?;
    if changes.iter().all(|c| c.before == c.after) {
        return Ok(Reply::Patch { bytes: 0, digest: Digest::of(b"") });
    }
    let temporary = TempDir::new().map_err(disk)?;
    let git_dir = temporary.path().join("git");
    scratch_repository(&git_dir).map_err(disk)?;
    let segments = Segments::new(&files[1..], located);
    load(&git_dir, changes, &segments).map_err(disk)?;

    let git = |args: &[&str]| {
        let mut command = git_command(&git_dir);
        // A path below the private directory that never exists: no work tree's attributes are found.
        command.current_dir(temporary.path()).env("GIT_INDEX_FILE", git_dir.join("index"));
        command.args(args);
        command
    };
    let mut diff = git(DIFF);
    diff.args(["refs/heads/before", "refs/heads/after"]);
    diff.stdout(out.try_clone().map_err(disk)?);
    run_ok(diff, b"", "writing the patch").map_err(disk)?;

    run_ok(git(&["read-tree", "refs/heads/before"]), b"", "proving the patch").map_err(disk)?;
    out.seek(SeekFrom::Start(0)).map_err(disk)?;
    let mut apply = git(&["apply", "--cached", "--binary", "-p1", "--whitespace=nowarn", "-"]);
    apply.stdin(out.try_clone().map_err(disk)?);
    let applied = apply.output().map_err(disk)?;
    let same = git(&["diff-index", "--cached", "--quiet", "--no-ext-diff", "refs/heads/after"])
        .output()
        .map_err(disk)?;
    if !(applied.status.success() && same.status.success()) {
        let words = String::from_utf8_lossy(&applied.stderr);
        return Err(Fault::patch_mismatch(format!(
            "applying the patch to the base does not give the final tree ({}): {}",
            applied.status,
            crate::fault::shown(words.trim(), 500)
        )));
    }
    let (bytes, digest) = digest_of(out).map_err(disk)?;
    Ok(Reply::Patch { bytes, digest })
}

/// The change as people read it, at most so many bytes of it, and whether it goes on. Files that are no text are only named.
pub(crate) fn text_diff(
    changes: &[PatchChange],
    segments: &Segments<'_>,
    most: usize,
) -> io::Result<(Vec<u8>, bool)> {
    use std::io::Read as _;
    if changes.iter().all(|c| c.before == c.after) {
        return Ok((Vec::new(), false));
    }
    let temporary = TempDir::new()?;
    let git_dir = temporary.path().join("git");
    scratch_repository(&git_dir)?;
    load(&git_dir, changes, segments)?;
    let mut diff = git_command(&git_dir);
    diff.current_dir(temporary.path())
        .args(DIFF.iter().filter(|word| !matches!(**word, "--binary" | "--full-index")));
    diff.args(["refs/heads/before", "refs/heads/after"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = diff.spawn()?;
    let stderr = Stderr::of(&mut child);
    let out = child.stdout.take().ok_or_else(|| io::Error::other("git was started without a pipe"))?;
    let mut bytes = Vec::new();
    let read = out.take(most as u64 + 1).read_to_end(&mut bytes);
    let cut = bytes.len() > most;
    if cut {
        // Nobody reads the rest; git ends when its pipe is closed, or here.
        let _ = child.kill();
    }
    let status = child.wait()?;
    read?;
    if !cut && !status.success() {
        let words = crate::fault::shown(&stderr.text(), 500);
        return Err(io::Error::other(format!("git diff-tree ended with {status}: {words}")));
    }
    bytes.truncate(most);
    Ok((bytes, cut))
}

fn load(git_dir: &Path, changes: &[PatchChange], segments: &Segments<'_>) -> io::Result<()> {
    let mut import = FastImport::start(git_dir)?;
    let before: Vec<Entry> = changes.iter().filter_map(|c| c.before.clone()).collect();
    let after: Vec<Entry> = changes.iter().filter_map(|c| c.after.clone()).collect();
    let mut seen = HashSet::new();
    for entry in before.iter().chain(&after) {
        if entry.mode == EntryMode::Gitlink {
            import.link(entry.digest, &segments.read(&entry.digest)?)?;
        } else if seen.insert(entry.digest) {
            let len = segments.len(&entry.digest)?;
            import
                .blob(entry.digest, len, |out| segments.each(&entry.digest, |chunk| out.write_all(chunk)))?;
        }
    }
    let removed: Vec<&TreePath> = before.iter().map(|e| &e.path).collect();
    import.commit("before", "", None, &[], &before)?;
    import.commit("after", "", Some("before"), &removed, &after)?;
    import.finish()
}

fn digest_of(mut file: &File) -> io::Result<(u64, Digest)> {
    use std::io::Read as _;
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hasher.finish())),
            n => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
}

/// `git fast-import`: contents and commits from a stream, byte for byte, without a work tree or filters.
#[derive(Debug)]
pub(super) struct FastImport {
    child: Child,
    input: BufWriter<ChildStdin>,
    stderr: Stderr,
    marks: HashMap<Digest, usize>,
    /// Commits of other repositories.
    links: HashMap<Digest, Oid>,
}

impl FastImport {
    pub(super) fn start(git_dir: &Path) -> io::Result<Self> {
        let mut command = git_command(git_dir);
        command.args(["-c", "core.compression=1", "fast-import", "--quiet", "--done", "--force"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn()?;
        let stderr = Stderr::of(&mut child);
        let input = child.stdin.take().ok_or_else(|| io::Error::other("git was started without a pipe"))?;
        let input = BufWriter::with_capacity(1 << 17, input);
        Ok(Self { child, input, stderr, marks: HashMap::new(), links: HashMap::new() })
    }

    /// The commit that a submodule's entry means.
    pub(super) fn link(&mut self, digest: Digest, content: &[u8]) -> io::Result<()> {
        let id = std::str::from_utf8(content).ok().and_then(Oid::from_hex);
        let id = id.ok_or_else(|| io::Error::other("the commit of a submodule is none"))?;
        self.links.insert(digest, id);
        Ok(())
    }

    pub(super) fn blob(
        &mut self,
        digest: Digest,
        len: u64,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mark = self.marks.len() + 1;
        write!(self.input, "blob\nmark :{mark}\ndata {len}\n")?;
        content(&mut self.input)?;
        self.marks.insert(digest, mark);
        self.input.write_all(b"\n")
    }

    pub(super) fn commit(
        &mut self,
        branch: &str,
        message: &str,
        from: Option<&str>,
        remove: &[&TreePath],
        put: &[Entry],
    ) -> io::Result<()> {
        let len = message.len();
        write!(self.input, "commit refs/heads/{branch}\ncommitter agent <agent@localhost> 0 +0000\n")?;
        write!(self.input, "data {len}\n{message}\n")?;
        if let Some(from) = from {
            writeln!(self.input, "from refs/heads/{from}")?;
        }
        for path in remove {
            self.input.write_all(b"D ")?;
            self.path(path)?;
        }
        for entry in put {
            let mode = entry.mode.as_str();
            if entry.mode == EntryMode::Gitlink {
                let id = self.links.get(&entry.digest);
                let id = id.ok_or_else(|| io::Error::other("the commit of a submodule is not known"))?;
                write!(self.input, "M {mode} {id} ")?;
            } else {
                let mark = self.marks.get(&entry.digest).copied().unwrap_or_default();
                write!(self.input, "M {mode} :{mark} ")?;
            }
            self.path(&entry.path)?;
        }
        self.input.write_all(b"\n")
    }

    fn path(&mut self, path: &TreePath) -> io::Result<()> {
        self.input.write_all(b"\"")?;
        for byte in path.as_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                    self.input.write_all(&[*byte])?;
                }
                other => write!(self.input, "\\{other:03o}")?,
            }
        }
        self.input.write_all(b"\"\n")
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let ended = self.input.write_all(b"done\n").and_then(|()| self.input.flush());
        drop(self.input);
        let status = self.child.wait()?;
        let words = self.stderr.text();
        if status.success() {
            return ended;
        }
        let words = crate::fault::shown(&words, 500);
        Err(io::Error::other(format!("git fast-import ended with {status}: {words}")))
    }
}
