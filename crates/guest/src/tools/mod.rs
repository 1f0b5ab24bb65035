//! The file tools. Arguments come from a model and paths from the agent's tree: every answer is text with a reason and
//! a next step, never a failure of the guest.

mod edit;
mod list;
mod read;
mod resolve;
mod rules;
mod search;
mod write;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

pub(crate) use rules::{KnownBase, Rules};

use crate::confined::Root;
use crate::fault::Outcome;
use crate::protocol::{Fault, ToolBounds, ToolCall, ToolReply};
use crate::state::Guest;

/// Files that one report may be made of.
const MAX_REPORT_FILES: usize = 20_000;

/// What a tool answers instead of its result.
#[derive(Debug)]
enum Refusal {
    /// The call cannot be served as it is.
    Error(String),
    /// Scope or protection forbids it.
    Refused(String),
}

type Answer = Result<Done, Refusal>;

#[derive(Debug)]
struct Done {
    text: String,
    wrote: bool,
}

fn said(text: impl Into<String>) -> Answer {
    Ok(Done { text: text.into(), wrote: false })
}

fn error<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Error(text.into()))
}

/// Serves one call.
pub(crate) fn call(guest: &Guest, call: &ToolCall, bounds: &ToolBounds, rules: &Rules<'_>) -> ToolReply {
    let answer = match call {
        ToolCall::ListFiles { path, depth } => list::list(guest, path.as_deref(), *depth, bounds),
        ToolCall::ReadFile { path, from, to } => read::read(guest, path, *from, *to, bounds),
        ToolCall::Search { pattern, path, glob } => {
            search::search(guest, pattern, path.as_deref(), glob.as_deref(), bounds)
        }
        ToolCall::EditFile { path, old, new, count } => {
            edit::edit(guest, path, (old, new), count.unwrap_or(1), bounds, rules)
        }
        ToolCall::WriteFile { path, content } => write::write(guest, path, content, bounds, rules),
    };
    let (ok, text, wrote, refused) = match answer {
        Ok(done) => (true, done.text, done.wrote, false),
        Err(Refusal::Error(text)) => (false, text, false, false),
        Err(Refusal::Refused(text)) => (false, text, false, true),
    };
    ToolReply { ok, text: clipped(text, bounds.result_bytes), wrote, refused }
}

/// The bounds of each tool keep results short; this is the last one.
fn clipped(mut text: String, limit: u64) -> String {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if text.len() > limit {
        let mut end = limit;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n[cut here: the result is longer than allowed]");
    }
    text
}

/// Bytes as text: what is not UTF-8 is written `\xNN`. The second value tells whether there was any.
fn readable(bytes: &[u8]) -> (String, bool) {
    let mut out = String::with_capacity(bytes.len());
    let mut escaped = false;
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
            escaped = true;
        }
    }
    (out, escaped)
}

/// A NUL among the first bytes means binary, as git and grep see it.
fn is_binary(bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 8000;
    memchr::memchr(0, &bytes[..bytes.len().min(LOOKED_AT)]).is_some()
}

/// Reads a report at an absolute path of the cell, or relative to the workspace. No link is followed. None: there is no
/// regular file, or it is longer than `limit`.
pub(crate) fn read_report(guest: &Guest, path: &str, limit: u64) -> Outcome<Option<Vec<u8>>> {
    let fail = |e: &std::io::Error| Fault::io(format!("reading the report `{path}`"), e);
    let full = guest.workspace.join(path);
    let relative = full.strip_prefix("/").unwrap_or(Path::new(path));
    let root = Root::open(Path::new("/"), None).map_err(|e| fail(&e))?;
    let Ok((file, _)) = root.file(relative.as_os_str().as_encoded_bytes()) else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// The regular files directly in a directory of the cell, each at most `limit` bytes long. None: it cannot be read. A file
/// that is longer, or no regular file, has no content.
pub(crate) fn read_report_dir(path: &str, limit: u64) -> Option<BTreeMap<String, Option<Vec<u8>>>> {
    let root = Root::open(Path::new("/"), None).ok()?;
    let dir = root.dir(path.trim_start_matches('/').as_bytes()).ok()?;
    let mut files = BTreeMap::new();
    let mut left = limit;
    for (name, _) in crate::confined::entries(&dir).ok()? {
        let full = [path.trim_start_matches('/').as_bytes(), b"/", &name].concat();
        let mut bytes = Vec::new();
        let read = root.file(&full).and_then(|(file, _)| file.take(left + 1).read_to_end(&mut bytes));
        let whole = read.is_ok() && bytes.len() as u64 <= left;
        left = left.saturating_sub(bytes.len() as u64);
        files.insert(String::from_utf8(name).ok()?, whole.then_some(bytes));
        if files.len() > MAX_REPORT_FILES {
            return None;
        }
    }
    Some(files)
}
