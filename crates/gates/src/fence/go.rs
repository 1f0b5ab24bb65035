//! New files that change which packages `go` builds, or from what: nested modules and vendored packages.

use countersign_guest::protocol::FenceVerdict;
use countersign_tree::{Change, TreePath};

use super::{Fence, is_below};
use crate::programs::{Links, escaped, parent};

impl Fence {
    /// A new `go.mod` above existing packages takes them out of `./...` (39).
    pub(super) fn takes_packages(&self, path: &[u8]) -> bool {
        let (Some(dir), false) = (path.strip_suffix(b"/go.mod"), path == b"go.mod") else { return false };
        let files = self.base.entries().iter().map(|entry| entry.path.as_bytes());
        let mut packages =
            files.filter(|file| file.ends_with(b".go") && (parent(file) == dir || is_below(file, dir)));
        packages.any(|file| {
            !self.module_dirs.iter().any(|module| {
                (module == dir || is_below(module, dir))
                    && (parent(file) == module.as_slice() || is_below(file, module))
            })
        })
    }

    /// Everything below the directories from which `go` builds modules of others.
    pub(super) fn vendor_globs(&self) -> impl Iterator<Item = String> {
        let vendored = self.module_dirs.iter().filter(|dir| self.is_vendored(dir));
        vendored.filter_map(|dir| {
            let dir = std::str::from_utf8(dir).ok()?;
            Some(if dir.is_empty() { "vendor/**".to_owned() } else { format!("{}/vendor/**", escaped(dir)) })
        })
    }

    fn is_vendored(&self, module: &[u8]) -> bool {
        TreePath::new(module_list(module)).is_ok_and(|list| self.base.get(&list).is_some())
    }

    /// What `go` would build in place of a module that is downloaded (69). A vendored module that is new is ordinary.
    pub(super) fn vendored(&self, change: &Change) -> Option<(FenceVerdict, &'static str)> {
        let path = change.path.as_bytes();
        let module = self.module_dirs.iter().find(|dir| {
            let rest = if dir.is_empty() {
                Some(path)
            } else {
                path.strip_prefix(dir.as_slice()).and_then(|p| p.strip_prefix(b"/"))
            };
            rest.is_some_and(|rest| rest.starts_with(b"vendor/"))
        })?;
        let (list, is_vendored) = (module_list(module), self.is_vendored(module));
        if path == list {
            return match (is_vendored, change.after.is_some()) {
                (false, _) => Some((
                    FenceVerdict::Planted,
                    "go would build from this directory in place of the modules that it names",
                )),
                (true, false) => Some((FenceVerdict::Tampered, "go would build from elsewhere")),
                (true, true) => Some((FenceVerdict::Note, "it lists the vendored modules")),
            };
        }
        if !is_vendored {
            return None;
        }
        if change.before.is_some() {
            return Some((FenceVerdict::Tampered, "it is a part of a vendored module"));
        }
        let is_known = (Links { base: &self.base }).is_dir(parent(path));
        is_known.then_some((FenceVerdict::Planted, "it would be built as a part of a vendored module"))
    }
}

/// Where the vendored modules of the module in a directory are listed.
fn module_list(module: &[u8]) -> Vec<u8> {
    [module, if module.is_empty() { b"" } else { b"/" }, b"vendor/modules.txt"].concat()
}
