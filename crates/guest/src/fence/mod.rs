//! Compares what an edit must leave alone in files that may otherwise change: test items and runner keys.
//!
//! Everything read here was written by a hostile hand: each file has a size limit, each structure a depth limit, every
//! pass is linear in the bytes, and what cannot be read is `Unverifiable`.

mod attrs;
mod called;
mod canon;
mod depends;
mod go;
mod ini;
mod items;
mod javascript;
mod keys;
mod lexer;
#[cfg(test)]
mod runner_tests;
mod rust;
#[cfg(test)]
mod tests;

use std::io;

use countersign_tree::TreePath;
use countersign_types::Digest;

use crate::protocol::{AllowedRule, FenceFile, FenceFinding, FenceKind, FenceKindGuard, FenceVerdict};

pub use called::called;

/// A larger file is not parsed: its change is unverifiable.
pub const MAX_FILE: usize = 8 * 1024 * 1024;

/// Bytes that one scan holds at once.
const MAX_TOTAL: usize = 512 * 1024 * 1024;

/// Findings of one scan at most; one more says that there are others.
const MAX_FINDINGS: usize = 1000;

/// Bytes of a finding's detail at most.
const MAX_DETAIL: usize = 200;

/// A Rust source that waits for the others.
struct Contents<'a> {
    path: &'a TreePath,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

/// Compares each file before and after. A file that cannot be read or parsed is `Unverifiable`, never fine. Rust
/// sources are compared together: pass all changed ones in one call.
pub fn scan(files: &[FenceFile], open: &dyn Fn(&Digest) -> io::Result<Vec<u8>>) -> Vec<FenceFinding> {
    let mut findings = Vec::new();
    let mut sources: Vec<Contents<'_>> = Vec::new();
    let mut held = 0_usize;
    for file in files {
        let fetch = |digest: &Option<Digest>| match digest {
            None => Ok(None),
            Some(digest) => match open(digest) {
                Ok(bytes) if bytes.len() > MAX_FILE => {
                    Err(format!("the file is larger than {} MiB", MAX_FILE / (1024 * 1024)))
                }
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) => Err(format!("the file could not be read: {}", error.kind())),
            },
        };
        let (before, after) = match (fetch(&file.before), fetch(&file.after)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(why), _) | (_, Err(why)) => {
                findings.push(finding(&file.path, FenceVerdict::Unverifiable, "fence.not_read", &why));
                continue;
            }
        };
        if file.kind == FenceKind::RustItems {
            held += before.as_ref().map_or(0, Vec::len) + after.as_ref().map_or(0, Vec::len);
            if held > MAX_TOTAL {
                let why = "the changed Rust sources together are too large";
                findings.push(finding(&file.path, FenceVerdict::Unverifiable, "fence.not_read", why));
                break;
            }
            sources.push(Contents { path: &file.path, before, after });
        } else {
            findings.extend(keys::compare(
                &file.path,
                (file.kind, &file.words),
                before.as_deref(),
                after.as_deref(),
            ));
        }
    }
    let pairs: Vec<rust::Pair<'_>> = sources
        .iter()
        .map(|c| rust::Pair { path: c.path, before: c.before.as_deref(), after: c.after.as_deref() })
        .collect();
    findings.extend(rust::compare(&pairs, true));
    if findings.len() > MAX_FINDINGS {
        // What stops must not be lost behind notes.
        findings.sort_by_key(|finding| finding.verdict == FenceVerdict::Note);
        findings.truncate(MAX_FINDINGS);
    }
    findings
}

/// Why an edit from `before` to `after` would change protected items or keys; None when it leaves them alone.
///
/// `before` is the file as the base has it, or as it lies on disk; an empty slice for a file that is not there.
#[must_use]
pub fn guard(
    rule: &FenceKindGuard,
    path: &[u8],
    before: &[u8],
    after: &[u8],
    allow: &[AllowedRule],
) -> Option<String> {
    if before.len() > MAX_FILE || after.len() > MAX_FILE {
        return None;
    }
    let kind = rule.kind;
    // Whether a new Go test stands beside tests of the base only the fence knows.
    if kind == FenceKind::GoItems && path.ends_with(b"_test.go") {
        return None;
    }
    let path = TreePath::new(path).ok()?;
    let existed = !before.is_empty();
    let findings = match kind {
        FenceKind::RustItems => {
            let pair = rust::Pair { path: &path, before: existed.then_some(before), after: Some(after) };
            rust::compare(&[pair], false)
        }
        _ => keys::compare(&path, (rule.kind, &rule.words), existed.then_some(before), Some(after)),
    };
    // A file that does not parse in the middle of an edit is the agent's to repair; the fence looks again at the end.
    let stops = findings.iter().find(|f| {
        matches!(f.verdict, FenceVerdict::Tampered | FenceVerdict::Planted)
            && !allow.iter().any(|one| one.allows(&f.rule, path.as_bytes()))
    })?;
    let advice = match kind {
        FenceKind::RustItems => {
            "existing tests and `#[cfg(test)]` items must stay as they are; add new tests under names of their own, best \
             in a new test module"
        }
        FenceKind::GoItems => {
            "a package must not declare what its existing tests rely on; add `Test…` functions and other names"
        }
        _ => "keys that the test runner reads must stay as they are; other keys may change",
    };
    Some(format!("{} ({}): {advice}", stops.rule, stops.detail))
}

fn finding(path: &TreePath, verdict: FenceVerdict, rule: &str, detail: &str) -> FenceFinding {
    FenceFinding { path: path.clone(), verdict, rule: rule.to_owned(), detail: shown(detail) }
}

/// Names joined for people; the first few.
fn shown_list(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// Control and hidden characters escaped, at most [`MAX_DETAIL`] bytes.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        let piece = if c.is_control() || hidden { c.escape_unicode().to_string() } else { c.to_string() };
        if out.len() + piece.len() > MAX_DETAIL {
            break;
        }
        out.push_str(&piece);
    }
    out
}
