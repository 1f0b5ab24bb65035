use countersign_tree::TreePath;
use rustix::fs::{FileType, Mode};

use super::{Answer, Done, Refusal, Rules, error, resolve};
use crate::confined::{read_all, type_name};
use crate::protocol::ToolBounds;
use crate::state::Guest;

/// Writes a whole file; its directories are made.
pub(super) fn write(
    guest: &Guest,
    path: &str,
    content: &str,
    bounds: &ToolBounds,
    rules: &Rules<'_>,
) -> Answer {
    let found = resolve::resolve(guest, path)?;
    let name = found.shown();
    if content.len() as u64 > bounds.write_bytes {
        return error(format!(
            "the content has {} bytes; one call may write {}. Write it in parts with `edit_file`",
            content.len(),
            bounds.write_bytes
        ));
    }
    if found.path.is_empty() || path.ends_with('/') {
        return error(format!("`{path}` names a directory. Give the path of a file"));
    }
    if let Err(why) = TreePath::new(found.path.as_slice()) {
        return error(format!("`{name}` cannot be a file of the tree: {why}"));
    }
    rules.check_place(&found.path)?;
    let bytes = content.as_bytes();
    let (mode, made) = match found.kind() {
        None if found.through_link => {
            return error(format!(
                "`{path}` is a link to `{name}`, which does not exist. Write `{name}` itself, or remove the link"
            ));
        }
        None => {
            rules.check_change(&found, None, bytes)?;
            (Mode::from_raw_mode(0o644), "made")
        }
        Some(FileType::RegularFile) => {
            let (before, mode) = read(guest, &found.path, &name)?;
            if before == bytes {
                let text = format!("`{name}` already holds exactly this; nothing was written");
                return Ok(Done { text, wrote: false });
            }
            rules.check_change(&found, Some(&before), bytes)?;
            (mode, "replaced")
        }
        Some(FileType::Directory) => {
            return error(format!("`{name}` is a directory and stays. Give the path of a file in it"));
        }
        Some(other) => return error(format!("`{name}` is {} and stays", type_name(other))),
    };
    save(guest, &found.path, mode, bytes)?;
    let lines = content.lines().count();
    Ok(Done { text: format!("{made} `{name}`: {} bytes, {lines} lines", bytes.len()), wrote: true })
}

/// The bytes and permission bits of an existing file.
pub(super) fn read(guest: &Guest, path: &[u8], name: &str) -> Result<(Vec<u8>, Mode), Refusal> {
    let fail = |e: std::io::Error| Refusal::Error(format!("`{name}` cannot be read: {e}. Try again"));
    let (mut file, stat) = guest.root.file(path).map_err(fail)?;
    let bytes = read_all(&mut file, u64::try_from(stat.st_size).unwrap_or(0)).map_err(fail)?;
    let now = file.metadata().map_err(fail)?.len();
    if bytes.len() as u64 != now {
        return Err(Refusal::Error(format!(
            "`{name}` changes while it is read. Try again when nothing writes it"
        )));
    }
    Ok((bytes, Mode::from_raw_mode(stat.st_mode & 0o777)))
}

pub(super) fn save(guest: &Guest, path: &[u8], mode: Mode, bytes: &[u8]) -> Result<(), Refusal> {
    guest.root.replace(path, mode, bytes).map_err(|e| {
        let name = resolve::shown_path(path);
        Refusal::Error(format!(
            "`{name}` was not written: {e}. The file is as it was; `list_files` shows the place"
        ))
    })
}
