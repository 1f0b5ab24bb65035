use std::fmt::Write as _;
use std::time::{Duration, Instant};

use countersign_tree::{Glob, Judgement, TreePath};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::FileType;

use super::{Answer, Refusal, error, is_binary, readable, resolve, said};
use crate::confined::{read_all, split};
use crate::fault::shown_bytes;
use crate::protocol::ToolBounds;
use crate::state::Guest;
use crate::walk::{Found, walk_from};

/// A search ends after this time and says so.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Larger files are not searched.
const MAX_FILE: u64 = 8 << 20;
/// Bytes of a matching line that are shown.
const MAX_LINE: usize = 300;
/// Bytes that a compiled pattern may take.
const MAX_PATTERN: usize = 4 << 20;

pub(super) fn search(
    guest: &Guest,
    pattern: &str,
    path: Option<&str>,
    glob: Option<&str>,
    bounds: &ToolBounds,
) -> Answer {
    if pattern.is_empty() {
        return error("the pattern is empty: give a regular expression, such as `fn main`");
    }
    let regex = compile(pattern)?;
    let filter = glob.map(Filter::new).transpose()?;
    let top = resolve::existing(guest, path.unwrap_or("."))?;
    let mut run = Run {
        guest,
        regex,
        started: Instant::now(),
        limit: usize::try_from(bounds.result_bytes).unwrap_or(usize::MAX).saturating_sub(400),
        matches_left: bounds.search_matches,
        text: String::new(),
        files: 0,
        skipped: 0,
        stopped: None,
    };
    if top.kind() == Some(FileType::Directory) {
        let scratch = guest.scratch.clone().unwrap_or_default();
        let walked = walk_from(&guest.root, &top.path, |path, found| {
            if run.stopped.is_some() || TreePath::is_dot_git(split(path).1) {
                return false;
            }
            match found {
                Found::Dir => scratch.judge(path, true, false) != Judgement::Scratch,
                Found::Leaf { kind: FileType::RegularFile, .. } => {
                    let wanted = filter.as_ref().is_none_or(|f| f.matches(path));
                    if wanted && scratch.judge(path, false, false) != Judgement::Scratch {
                        run.file(path);
                    }
                    false
                }
                _ => false,
            }
        });
        if let Err(e) = walked {
            return error(format!("`{}` cannot be read: {e}", top.shown()));
        }
    } else {
        run.file(&top.path);
    }
    let mut text = run.text;
    if text.is_empty() {
        let _ = writeln!(text, "no match for `{pattern}` in {} files", run.files);
    }
    if run.skipped > 0 {
        let _ = writeln!(text, "[{} binary or large files were not searched]", run.skipped);
    }
    if let Some(why) = run.stopped {
        let _ = writeln!(text, "[stopped: {why}; narrow it with path, glob or a longer pattern]");
    }
    said(text)
}

/// Smart case: a pattern without capital letters matches both.
fn compile(pattern: &str) -> Result<Regex, Refusal> {
    let mut escaped = false;
    let capital = pattern.chars().any(|c| {
        let counts = c.is_uppercase() && !escaped;
        escaped = c == '\\' && !escaped;
        counts
    });
    RegexBuilder::new(pattern)
        .case_insensitive(!capital)
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_PATTERN)
        .build()
        .map_err(|e| {
            Refusal::Error(format!(
                "the pattern is no regular expression: {e}. Put a backslash before ( ) [ ] {{ }} . * + ? | to mean the \
                 characters themselves"
            ))
        })
}

/// A glob without `/` means names at any depth.
struct Filter {
    glob: Glob,
    name_only: bool,
}

impl Filter {
    fn new(text: &str) -> Result<Self, Refusal> {
        let text = text.strip_prefix("./").unwrap_or(text);
        let glob = Glob::new(text).map_err(|e| Refusal::Error(e.to_string()))?;
        Ok(Self { glob, name_only: !text.contains('/') && text != "**" })
    }

    fn matches(&self, path: &[u8]) -> bool {
        self.glob.matches(if self.name_only { split(path).1 } else { path })
    }
}

struct Run<'a> {
    guest: &'a Guest,
    regex: Regex,
    started: Instant,
    limit: usize,
    matches_left: u64,
    text: String,
    files: u64,
    skipped: u64,
    stopped: Option<&'static str>,
}

impl Run<'_> {
    fn file(&mut self, path: &[u8]) {
        if self.started.elapsed() > MAX_TIME {
            self.stopped = Some("it took too long");
            return;
        }
        let Ok((mut file, stat)) = self.guest.root.file(path) else {
            self.skipped += 1;
            return;
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > MAX_FILE {
            self.skipped += 1;
            return;
        }
        let Ok(bytes) = read_all(&mut file, size) else {
            self.skipped += 1;
            return;
        };
        if is_binary(&bytes) {
            self.skipped += 1;
            return;
        }
        self.files += 1;
        let (mut from, mut number, mut counted) = (0, 1_u64, 0);
        while from <= bytes.len() {
            let Some(found) = self.regex.find_at(&bytes, from) else { return };
            let start = memchr::memrchr(b'\n', &bytes[..found.start()]).map_or(0, |at| at + 1);
            let end =
                memchr::memchr(b'\n', &bytes[found.start()..]).map_or(bytes.len(), |at| found.start() + at);
            if start == bytes.len() && !bytes.is_empty() {
                return;
            }
            if self.matches_left == 0 || self.text.len() >= self.limit {
                self.stopped = Some("there are more matches than fit");
                return;
            }
            self.matches_left -= 1;
            number += memchr::memchr_iter(b'\n', &bytes[counted..start]).count() as u64;
            counted = start;
            self.show(path, number, &bytes[start..end]);
            from = end + 1;
        }
    }

    fn show(&mut self, path: &[u8], number: u64, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let cut = line.len() > MAX_LINE;
        let (text, _) = readable(&line[..line.len().min(MAX_LINE)]);
        let dots = if cut { "…" } else { "" };
        let _ = writeln!(self.text, "{}:{number}: {text}{dots}", shown_bytes(path));
    }
}
