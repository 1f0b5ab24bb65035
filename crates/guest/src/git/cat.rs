//! One `git cat-file --batch` process: requests go in from a thread of their own, so that git never waits for us.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{Sender, channel};

use super::{Oid, OidHasher, Stderr, git_command};
use crate::fault::{Outcome, shown};
use crate::protocol::Fault;

/// Bytes handed on at once from a large object.
const CHUNK: u64 = 1 << 18;
/// Trees and commits are held in memory; no real one is near this many bytes.
const MAX_META: u64 = 256 << 20;

#[derive(Debug)]
pub(crate) struct CatFile {
    child: Child,
    requests: Option<Sender<Vec<u8>>>,
    output: BufReader<ChildStdout>,
    stderr: Option<Stderr>,
}

/// The first line of an answer.
#[derive(Debug)]
pub(crate) enum Header {
    Object {
        oid: Oid,
        kind: String,
        size: u64,
    },
    /// An object id of 64 digits: a sha256 repository.
    Sha256,
    Missing,
}

impl CatFile {
    pub(crate) fn start(git_dir: &Path) -> Outcome<Self> {
        let mut command = git_command(git_dir);
        // A submodule's configuration names its work tree by a path that is not there in a cell; none is needed here.
        command.env("GIT_WORK_TREE", "/");
        command.args(["cat-file", "--batch"]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().map_err(|e| {
            if e.kind() == std::io::ErrorKind::NotFound {
                Fault::repository(
                    "git is not installed where cells look for it (/usr/bin, /usr/local/bin): install git",
                )
            } else {
                Fault::io("starting git cat-file", &e)
            }
        })?;
        let stderr = Stderr::of(&mut child);
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Fault::bad_request("git was started without pipes"));
        };
        let (requests, queue) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for lines in queue {
                if stdin.write_all(&lines).is_err() {
                    return;
                }
            }
        });
        let output = BufReader::with_capacity(1 << 17, stdout);
        Ok(Self { child, requests: Some(requests), output, stderr: Some(stderr) })
    }

    /// Queues lines; the answers come in the same order.
    pub(crate) fn ask(&self, lines: Vec<u8>) {
        if let Some(requests) = &self.requests {
            // A dead git shows when its answers end.
            drop(requests.send(lines));
        }
    }

    pub(crate) fn ask_all(&self, oids: impl IntoIterator<Item = Oid>) {
        let mut lines = Vec::new();
        for oid in oids {
            lines.extend_from_slice(format!("{oid}\n").as_bytes());
        }
        self.ask(lines);
    }

    pub(crate) fn header(&mut self) -> Outcome<Header> {
        let mut line = Vec::new();
        let read = (&mut self.output).take(8192).read_until(b'\n', &mut line);
        if read.is_err() || line.pop() != Some(b'\n') {
            return Err(self.died());
        }
        let line = String::from_utf8_lossy(&line);
        if line.ends_with(" missing") || line.ends_with(" ambiguous") {
            return Ok(Header::Missing);
        }
        let mut parts = line.split(' ');
        let parsed = (|| {
            let name = parts.next()?;
            if name.len() == 64 {
                return Some(Header::Sha256);
            }
            let oid = Oid::from_hex(name)?;
            let kind = parts.next()?.to_owned();
            Some(Header::Object { oid, kind, size: parts.next()?.parse().ok()? })
        })();
        parsed.ok_or_else(|| Fault::repository(format!("git cat-file answered `{}`", shown(&line, 200))))
    }

    /// The bytes behind a header, piece by piece, checked against the object's id.
    pub(crate) fn body(
        &mut self,
        (oid, kind, size): (Oid, &str, u64),
        mut take: impl FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut hasher = OidHasher::new(kind, size);
        let mut buffer = vec![0; usize::try_from(size.min(CHUNK)).unwrap_or(0)];
        let mut left = size;
        while left > 0 {
            let want = usize::try_from(left.min(CHUNK)).unwrap_or(buffer.len());
            if self.output.read_exact(&mut buffer[..want]).is_err() {
                return Err(self.died());
            }
            hasher.update(&buffer[..want]);
            take(&buffer[..want])?;
            left -= want as u64;
        }
        let mut end = [0];
        if self.output.read_exact(&mut end).is_err() {
            return Err(self.died());
        }
        if end == *b"\n" && hasher.finish() == oid {
            return Ok(());
        }
        Err(Fault::repository(format!(
            "the {kind} {oid} is corrupt: its bytes have another id. Run `git fsck` in the repository"
        )))
    }

    pub(crate) fn whole(&mut self, oid: Oid, kind: &str, size: u64) -> Outcome<Vec<u8>> {
        if size > MAX_META {
            return Err(Fault::repository(format!(
                "the {kind} {oid} has {size} bytes, more than any real one"
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        self.body((oid, kind, size), |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Why the answers ended too early.
    fn died(&mut self) -> Fault {
        self.requests = None;
        let status = self.child.wait();
        let words = self.stderr.take().map(Stderr::text).unwrap_or_default();
        let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
        Fault::repository(format!(
            "git could not read the repository ({status}): {}. Run `git fsck` in it to see what is wrong",
            shown(&words, 1000)
        ))
    }
}

impl Drop for CatFile {
    fn drop(&mut self) {
        self.requests = None;
        // It reads a repository and writes nothing: there is nothing to wait for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
