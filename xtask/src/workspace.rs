//! Where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of the static build; the only one whose system call table is tested.
pub const STATIC_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The checkout and its build directory.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The root of the repository.
    pub root: PathBuf,
    /// cargo's target directory: `$CARGO_TARGET_DIR`, else `target` below the root.
    pub target: PathBuf,
}

impl Workspace {
    /// The workspace that this program was compiled in.
    #[must_use]
    pub fn find() -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().unwrap_or(manifest).to_path_buf();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) if !dir.is_empty() => {
                let dir = PathBuf::from(dir);
                if dir.is_absolute() { dir } else { std::env::current_dir().unwrap_or_default().join(dir) }
            }
            _ => root.join("target"),
        };
        Self { root, target }
    }

    /// The real-input materials that `setup` downloads.
    #[must_use]
    pub fn materials(&self) -> PathBuf {
        self.target.join("real-input")
    }

    /// The directory with the finished set of binaries. It is not `target/debug`: a build of the whole workspace puts
    /// a dynamic `countersign-jail` there, and a set that changes under a running test is no set.
    #[must_use]
    pub fn bin_dir(&self, release: bool) -> PathBuf {
        self.target.join("countersign").join(profile_dir(release))
    }

    /// cargo in this workspace.
    #[must_use]
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}

/// The directory name of cargo's profile.
#[must_use]
pub const fn profile_dir(release: bool) -> &'static str {
    if release { "release" } else { "debug" }
}
