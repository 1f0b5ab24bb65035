//! What the tests of this crate share.
#![expect(dead_code, reason = "each test file uses a part of it")]

pub mod fixture;
pub mod tamper;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use countersign_tree::EntryMode;

/// Path bytes to mode and content.
pub type Files = BTreeMap<Vec<u8>, (EntryMode, Vec<u8>)>;

/// A mode in git's spelling, if trees have it.
pub fn mode(text: &str) -> Option<EntryMode> {
    serde_json::from_value(text.into()).ok()
}

/// Whether a program is there; says by name what is skipped when not.
#[expect(clippy::print_stderr, reason = "the line of a skipped test")]
pub fn program_is_here(program: &str, arg: &str, test: &str) -> bool {
    let found = Command::new(program).arg(arg).stdin(Stdio::null()).output().is_ok();
    if !found {
        eprintln!("SKIPPED: {test}: {program} is not here");
    }
    found
}

pub fn git_is_here(test: &str) -> bool {
    program_is_here("git", "--version", test)
}

/// The Python of `COUNTERSIGN_PYTHON`, else `python3`, when it can import securesystemslib.
pub fn python_with_securesystemslib() -> Option<String> {
    let python = std::env::var("COUNTERSIGN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-I", "-c", "import securesystemslib"]).output();
    import.is_ok_and(|output| output.status.success()).then_some(python)
}

pub fn run(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

/// A bare repository that makes and applies patches, with nobody's configuration.
pub struct Repo(tempfile::TempDir);

impl Repo {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = Self(dir);
        assert!(repo.git(&["init", "-q", "--bare", "."], b"").status.success());
        repo
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new("git");
        command.current_dir(self.0.path()).args(args).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", self.0.path()).env("GIT_DIR", self.0.path());
        run(&mut command, input)
    }

    /// The id of a tree of these files.
    fn tree(&self, files: &Files) -> String {
        let mut index = Vec::new();
        for (path, (mode, bytes)) in files {
            // A submodule's content is the commit's id.
            let id = if mode.as_str() == "160000" {
                String::from_utf8(bytes.clone()).unwrap()
            } else {
                String::from_utf8(self.git(&["hash-object", "-w", "--stdin"], bytes).stdout).unwrap()
            };
            index.extend_from_slice(format!("{} {} 0\t", mode.as_str(), id.trim()).as_bytes());
            index.extend_from_slice(path);
            index.push(0);
        }
        assert!(self.git(&["read-tree", "--empty"], b"").status.success());
        let put = self.git(&["update-index", "-z", "--index-info"], &index);
        assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
        String::from_utf8(self.git(&["write-tree"], b"").stdout).unwrap().trim().to_owned()
    }

    /// The patch as the product makes it.
    pub fn diff(&self, before: &Files, after: &Files) -> Vec<u8> {
        let (before, after) = (self.tree(before), self.tree(after));
        let args = [
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
            &before,
            &after,
        ];
        let output = self.git(&args, b"");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What `git apply` makes of the files, or what it says.
    pub fn apply(&self, before: &Files, patch: &[u8]) -> Result<Files, String> {
        let tree = self.tree(before);
        assert!(self.git(&["read-tree", &tree], b"").status.success());
        let applied = self.git(&["apply", "--cached", "--binary", "-p1", "--whitespace=nowarn", "-"], patch);
        if !applied.status.success() {
            return Err(String::from_utf8_lossy(&applied.stderr).into_owned());
        }
        let list = self.git(&["ls-files", "-s", "-z"], b"").stdout;
        let mut out = Files::new();
        for row in list.split(|b| *b == 0).filter(|row| !row.is_empty()) {
            let tab = row.iter().position(|b| *b == b'\t').unwrap();
            let head = String::from_utf8(row[..tab].to_vec()).unwrap();
            let words: Vec<&str> = head.split(' ').collect();
            let mode = mode(words[0]).ok_or_else(|| format!("mode {}", words[0]))?;
            let bytes = if words[0] == "160000" {
                words[1].as_bytes().to_vec()
            } else {
                self.git(&["cat-file", "blob", words[1]], b"").stdout
            };
            out.insert(row[tab + 1..].to_vec(), (mode, bytes));
        }
        Ok(out)
    }
}
