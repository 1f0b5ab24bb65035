//! From a path as a model wrote it to one inside the workspace that no link is part of. What is done with the result
//! is opened through no link either, so a link that is swapped in afterwards can only make the call fail.

use std::collections::VecDeque;
use std::io;

use countersign_tree::TreePath;
use rustix::fs::{FileType, Stat};

use super::{Refusal, error};
use crate::fault::shown_bytes;
use crate::state::Guest;

/// Links that one path may lead through, as in the kernel.
const MAX_LINKS: usize = 40;
/// Where the workspace lies in a cell, whatever it is called on the host.
const WORKSPACE: &str = "/workspace";

#[derive(Debug)]
pub(super) struct Resolved {
    /// Relative to the workspace; empty for the workspace itself.
    pub(super) path: Vec<u8>,
    /// None: nothing is there.
    pub(super) stat: Option<Stat>,
    pub(super) through_link: bool,
}

impl Resolved {
    pub(super) fn kind(&self) -> Option<FileType> {
        self.stat.as_ref().map(|s| FileType::from_raw_mode(s.st_mode))
    }

    pub(super) fn shown(&self) -> String {
        shown_path(&self.path)
    }
}

pub(super) fn shown_path(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { shown_bytes(path) }
}

pub(super) fn resolve(guest: &Guest, text: &str) -> Result<Resolved, Refusal> {
    let shown = crate::fault::shown(text, 300);
    if text.contains('\0') {
        return error(format!("`{shown}` has a NUL byte, which no path can have"));
    }
    let relative = match text.strip_prefix('/') {
        None => text,
        Some(_) => match below(text, WORKSPACE).or_else(|| below(text, guest.workspace.to_str()?)) {
            Some(rest) => rest,
            None => {
                return error(format!(
                    "`{shown}` lies outside the workspace. Give a path relative to {WORKSPACE}, or below it"
                ));
            }
        },
    };
    let mut waiting: VecDeque<Vec<u8>> = parts(relative.as_bytes());
    let mut path: Vec<u8> = Vec::new();
    let mut links = 0;
    while let Some(part) = waiting.pop_front() {
        if part == b".." {
            if path.is_empty() {
                return error(format!(
                    "`{shown}` leads out of the workspace. Only paths below {WORKSPACE} can be reached"
                ));
            }
            path.truncate(path.iter().rposition(|b| *b == b'/').unwrap_or(0));
            continue;
        }
        if TreePath::is_dot_git(&part) {
            return error(format!(
                "`{shown}` lies in a `.git` directory, which is not part of the tree. Use `run` with a git command \
                 to look at the repository"
            ));
        }
        let mut next = path.clone();
        if !next.is_empty() {
            next.push(b'/');
        }
        next.extend_from_slice(&part);
        let stat = match guest.root.stat(&next) {
            Ok(stat) => stat,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return missing(next, waiting, links > 0, &shown);
            }
            Err(e) => return error(format!("`{shown}` cannot be looked at: {e}")),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                links += 1;
                if links > MAX_LINKS {
                    return error(format!(
                        "`{shown}` leads through more than {MAX_LINKS} links, or in a circle"
                    ));
                }
                let target = match guest.root.read_link(&next) {
                    Ok(target) => target,
                    Err(e) => return error(format!("the link `{}` cannot be read: {e}", shown_bytes(&next))),
                };
                if target.first() == Some(&b'/') {
                    return error(format!(
                        "`{}` is a link to the absolute path `{}`, which file tools do not follow. Name the file \
                         itself",
                        shown_bytes(&next),
                        shown_bytes(&target)
                    ));
                }
                for part in parts(&target).into_iter().rev() {
                    waiting.push_front(part);
                }
            }
            FileType::Directory => path = next,
            _ if waiting.is_empty() => {
                return Ok(Resolved { path: next, stat: Some(stat), through_link: links > 0 });
            }
            _ => return error(format!("`{}` is a file, so nothing lies below it", shown_bytes(&next))),
        }
    }
    let stat = guest.root.stat(&path).ok();
    Ok(Resolved { path, stat, through_link: links > 0 })
}

/// The rest of a path of which nothing exists from here on.
fn missing(
    mut path: Vec<u8>,
    rest: VecDeque<Vec<u8>>,
    through_link: bool,
    shown: &str,
) -> Result<Resolved, Refusal> {
    for part in rest {
        if part == b".." || TreePath::is_dot_git(&part) {
            return error(format!("`{shown}` does not exist"));
        }
        path.push(b'/');
        path.extend_from_slice(&part);
    }
    Ok(Resolved { path, stat: None, through_link })
}

fn parts(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|b| *b == b'/').filter(|p| !p.is_empty() && *p != b".").map(<[u8]>::to_vec).collect()
}

fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Something that must exist.
pub(super) fn existing(guest: &Guest, text: &str) -> Result<Resolved, Refusal> {
    let found = resolve(guest, text)?;
    if found.stat.is_some() {
        return Ok(found);
    }
    let (dir, _) = crate::confined::split(&found.path);
    error(format!(
        "`{}` does not exist. `list_files` with path `{}` shows what does",
        found.shown(),
        shown_path(if guest.root.stat(dir).is_ok() { dir } else { b"" })
    ))
}

/// A regular file that must exist.
pub(super) fn existing_file(guest: &Guest, text: &str) -> Result<Resolved, Refusal> {
    let found = existing(guest, text)?;
    match found.kind() {
        Some(FileType::RegularFile) => Ok(found),
        Some(FileType::Directory) => {
            error(format!("`{}` is a directory. `list_files` shows what is in it", found.shown()))
        }
        Some(other) => error(format!(
            "`{}` is {}, not a file with text",
            found.shown(),
            crate::confined::type_name(other)
        )),
        None => error(format!("`{}` does not exist", found.shown())),
    }
}
