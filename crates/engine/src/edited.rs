//! The base's side of an edit: what the guest holds a change of a mixed file against, so that an agent may correct the
//! tests that it added and may not touch those of the base.

use std::os::fd::OwnedFd;

use countersign_guest::protocol::{BaseFile, MAX_FDS, ToolCall, WriteGuard};
use countersign_tree::{EntryMode, Glob, Located, Manifest, ObjectStore, TreePath};

use crate::cells::Fail;

/// Where the workspace lies in a cell, whatever it is called on the host.
const WORKSPACE: &str = "/workspace";

/// What goes with a call of a file tool.
#[derive(Debug, Default)]
pub(crate) struct Side {
    pub(crate) base: Option<BaseFile>,
    pub(crate) located: Vec<Located>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Side {
    /// Nothing for calls that edit no mixed file. The guest looks where the path really leads: when that is another
    /// file, it takes nothing of this.
    pub(crate) fn of(
        call: &ToolCall,
        workspace: &str,
        guard: &WriteGuard,
        base: &Manifest,
        objects: &ObjectStore,
    ) -> Result<Self, Fail> {
        let Some(base) =
            named(call, workspace).filter(|path| mixed(path, guard)).and_then(|path| in_base(base, path))
        else {
            return Ok(Self::default());
        };
        let digests: Vec<_> = base.content.into_iter().collect();
        let batch = objects.gather(&digests, MAX_FDS)?;
        let fds = batch.files.into_iter().map(OwnedFd::from).collect();
        Ok(Self { base: Some(base), located: batch.located, fds })
    }
}

/// The file that an editing call names, links not followed.
fn named(call: &ToolCall, workspace: &str) -> Option<TreePath> {
    let (ToolCall::EditFile { path, .. } | ToolCall::WriteFile { path, .. }) = call else { return None };
    let below = |root: &str| path.strip_prefix(root).filter(|rest| rest.starts_with('/'));
    let relative = if path.starts_with('/') { below(WORKSPACE).or_else(|| below(workspace))? } else { path };
    let mut parts: Vec<&str> = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    TreePath::new(parts.join("/")).ok()
}

fn mixed(path: &TreePath, guard: &WriteGuard) -> bool {
    // A broken glob is the guest's to report: it refuses the edit.
    guard.fence.iter().any(|rule| Glob::new(&rule.glob).is_ok_and(|glob| glob.matches(path.as_bytes())))
}

/// None when the base has something there that is no file: then only the disk is known.
fn in_base(base: &Manifest, path: TreePath) -> Option<BaseFile> {
    let content = match base.get(&path) {
        None => None,
        Some(entry) if matches!(entry.mode, EntryMode::File | EntryMode::Executable) => Some(entry.digest),
        Some(_) => return None,
    };
    Some(BaseFile { path, content })
}

#[cfg(test)]
mod tests {
    use countersign_guest::protocol::{FenceKind, FenceKindGuard};
    use countersign_tree::Entry;
    use countersign_types::Digest;

    use super::*;

    fn write(path: &str) -> ToolCall {
        ToolCall::WriteFile { path: path.to_owned(), content: String::new() }
    }

    #[test]
    fn a_path_is_read_as_the_guest_reads_it() {
        let named = |path| named(&write(path), "/cells/c1/workspace").map(|path| path.to_string());
        for path in [
            "src/a.rs",
            "./src//a.rs",
            "src/x/../a.rs",
            "/workspace/src/a.rs",
            "/workspace/./src/a.rs",
            "/cells/c1/workspace/src/a.rs",
        ] {
            assert_eq!(named(path).as_deref(), Some("src/a.rs"), "{path}");
        }
        for path in ["", ".", "..", "../src/a.rs", "/etc/passwd", "/workspaces/a.rs", "a/.git/b", "a\0b"] {
            assert_eq!(named(path), None, "{path}");
        }
        let read = ToolCall::ReadFile { path: "src/a.rs".to_owned(), from: None, to: None };
        assert_eq!(super::named(&read, "/workspace"), None);
    }

    #[test]
    fn only_mixed_files_bring_their_base_and_a_link_is_no_file() {
        let path = |text: &str| TreePath::new(text.as_bytes()).unwrap();
        let entry = |text: &str, mode| Entry { path: path(text), mode, size: 1, digest: Digest::of(b"x") };
        let base =
            Manifest::new(vec![entry("a.rs", EntryMode::Executable), entry("l.rs", EntryMode::Symlink)]);
        assert_eq!(in_base(&base, path("a.rs")).unwrap().content, Some(Digest::of(b"x")));
        assert_eq!(in_base(&base, path("new.rs")).unwrap().content, None);
        assert_eq!(in_base(&base, path("l.rs")), None);
        let fence = vec![FenceKindGuard {
            glob: "**/*.rs".to_owned(),
            kind: FenceKind::RustItems,
            words: Vec::new(),
        }];
        let guard = WriteGuard { fence, ..WriteGuard::default() };
        assert!(mixed(&path("d/a.rs"), &guard));
        assert!(!mixed(&path("d/a.py"), &guard));
        assert!(!mixed(&path("a.rs"), &WriteGuard::default()));
    }
}
