//! Repositories of a given size, the same bytes on every machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::sh::{self, Context, Result};

/// Files in one directory.
const FILES_PER_DIRECTORY: usize = 100;
/// Length of every file, bytes, give or take a line: 20,000 of them are 110 MB.
const FILE_SIZE: usize = 5_500;

/// A repository with `files` files and one commit below `dir`, made once.
///
/// # Errors
/// When it cannot be written or git fails.
pub fn make(dir: &Path, files: usize) -> Result<PathBuf> {
    let ready = dir.join(format!("repo-{files}"));
    if ready.join(".git").is_dir() {
        return Ok(ready);
    }
    let partial = dir.join(format!(".repo-{files}.partial"));
    sh::remove_tree(&partial)?;
    for index in 0..files {
        let path = partial.join(name(index));
        if index % FILES_PER_DIRECTORY == 0
            && let Some(parent) = path.parent()
        {
            std::fs::create_dir_all(parent).context(parent.display())?;
        }
        std::fs::write(&path, content(index)).context(path.display())?;
    }
    sh::commit_all(&partial, &format!("{files} files"))?;
    std::fs::rename(&partial, &ready).context(ready.display())?;
    Ok(ready)
}

/// The path of a file.
#[must_use]
pub fn name(index: usize) -> String {
    format!("part-{:03}/module_{index:05}.txt", index / FILES_PER_DIRECTORY)
}

fn content(index: usize) -> String {
    // xorshift64: words that compress like source text does, and differ in every file.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (index as u64 + 1);
    let mut text = String::with_capacity(FILE_SIZE + 80);
    while text.len() < FILE_SIZE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let _ = writeln!(
            text,
            "let value_{:04x} = compute({:08x}, {});",
            state & 0xffff,
            state >> 32,
            state % 97
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_every_time_and_other_bytes_in_every_file() {
        assert_eq!(content(7), content(7));
        assert_ne!(content(7), content(8));
        let total: usize = (0..200).map(|index| content(index).len()).sum();
        assert!((1_090_000..1_150_000).contains(&total), "{total}");
    }

    #[test]
    fn a_repository_has_as_many_files_as_asked() {
        let dir = std::env::temp_dir().join(format!("countersign-bench-repo-{}", std::process::id()));
        sh::remove_tree(&dir).unwrap();
        let repo = make(&dir, 130).unwrap();
        let listed =
            sh::capture(sh::plain_git(&repo).args(["ls-tree", "-r", "--name-only", "HEAD"])).unwrap();
        assert_eq!(listed.lines().count(), 130);
        let head = sh::capture(sh::plain_git(&repo).args(["rev-parse", "HEAD"])).unwrap();
        sh::remove_tree(&repo).unwrap();
        let again = make(&dir, 130).unwrap();
        assert_eq!(sh::capture(sh::plain_git(&again).args(["rev-parse", "HEAD"])).unwrap(), head);
        sh::remove_tree(&dir).unwrap();
    }
}
