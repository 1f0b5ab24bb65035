//! git on the user's own repository, outside of a cell, because the user said so. The repository's configuration is the
//! user's; the files of its work tree are not: a patch may change a hook, a filter's script or the attributes that choose a
//! filter. So hooks, filters, monitors and lazy fetches are off, and nothing that a patch holds is started by applying it.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_types::Reason;

use crate::refusal::Refusal;

/// What git would start by itself, off.
const OFF: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("apply.whitespace", "nowarn"),
    ("apply.ignoreWhitespace", "false"),
    ("color.ui", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // A commit is the user's own, never one of a name that git made up from the machine's.
    ("user.useConfigOnly", "true"),
];

/// Variables that would point git at another repository, index or configuration.
const NOT_OURS: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_ATTR_SOURCE",
];

/// git in one directory.
#[derive(Debug)]
pub(super) struct Git {
    dir: PathBuf,
    /// Keys and values that are set for every call, besides [`OFF`].
    config: Vec<(String, String)>,
}

impl Git {
    /// Finds the filters that the configuration names, and switches them off.
    pub(super) fn new(dir: &Path) -> Result<Self, Refusal> {
        let mut git = Self { dir: dir.to_owned(), config: Vec::new() };
        let mut off = Vec::new();
        for (key, _) in git.configuration()? {
            let Some(filter) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) else {
                continue;
            };
            let name = format!("filter.{}", filter.0);
            for (part, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                off.push((format!("{name}.{part}"), value.to_owned()));
            }
        }
        off.sort();
        off.dedup();
        git.config = off;
        Ok(git)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every key and value that git reads here, in its order.
    pub(super) fn configuration(&self) -> Result<Vec<(String, String)>, Refusal> {
        let listed = self.run(&["config", "--null", "--list"], b"")?.unwrap_or_default();
        Ok(listed
            .split('\0')
            .filter_map(|entry| {
                let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
                (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
            })
            .collect())
    }

    /// Standard output, or in the inner `Err` git's own message.
    pub(super) fn run(&self, args: &[&str], input: &[u8]) -> Result<Result<String, String>, Refusal> {
        self.run_in(None, args, input)
    }

    /// The same with another index.
    pub(super) fn with_index(
        &self,
        index: &Path,
        args: &[&str],
        input: &[u8],
    ) -> Result<Result<String, String>, Refusal> {
        self.run_in(Some(index), args, input)
    }

    fn run_in(
        &self,
        index: Option<&Path>,
        args: &[&str],
        input: &[u8],
    ) -> Result<Result<String, String>, Refusal> {
        let failed = |error: std::io::Error| {
            let what = format!("git cannot be run: {error}; `apply` needs git in PATH");
            Refusal::new(Reason::Environment, what)
        };
        let mut command = Command::new("git");
        command.current_dir(&self.dir).args(args);
        for name in NOT_OURS {
            command.env_remove(name);
        }
        // Behind what the user's environment sets itself: the last one counts.
        let set = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        let off = OFF.iter().map(|(key, value)| (*key, *value));
        let off = off.chain(self.config.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let mut count: usize = set;
        for (key, value) in off {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command
            .env("GIT_CONFIG_COUNT", count.to_string())
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("LC_ALL", "C");
        if let Some(index) = index {
            command.env("GIT_INDEX_FILE", AsRef::<OsStr>::as_ref(index));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut stdin = child.stdin.take();
        let input = input.to_vec();
        let feed = std::thread::spawn(move || {
            if let Some(stdin) = &mut stdin {
                // Git may stop reading; its exit code says why.
                let _ = stdin.write_all(&input);
            }
        });
        let output = child.wait_with_output().map_err(failed)?;
        let _ = feed.join();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) })
    }
}
