//! What a patch changes that something starts by itself: a person looks at it before it lies in the work tree.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use countersign_engine::{HygieneKind, View};
use countersign_guest::hygiene::started_by;
use countersign_proof::patch::Patch;
use countersign_tree::TreePath;

use super::git::Git;
use crate::refusal::Refusal;

/// Files that a build tool runs whatever it was asked for, by name, in lower case.
const BUILD: &[&str] =
    &["makefile", "gnumakefile", "bsdmakefile", "justfile", ".justfile", "taskfile.yml", "taskfile.yaml"];

/// Keys of git's configuration whose value is a command, or a directory of commands.
const COMMANDS: &[&str] = &[
    ".clean",
    ".smudge",
    ".process",
    ".textconv",
    ".command",
    ".driver",
    ".program",
    ".hookspath",
    ".fsmonitor",
    ".sshcommand",
    ".editor",
    ".pager",
    ".external",
    ".helper",
    ".askpass",
    ".cmd",
];

/// Paths of the patch with who starts them, in the order of the paths. Paths are escaped.
pub(super) fn paths(
    patch: &Patch<'_>,
    view: &View,
    git: Option<&Git>,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut found = BTreeMap::new();
    for file in &patch.files {
        let name = String::from_utf8_lossy(file.path.file_name()).to_ascii_lowercase();
        let who = started_by(&file.path)
            .or_else(|| BUILD.contains(&name.as_str()).then_some("a build tool runs what it says"))
            // Where nobody looked into it, it may have scripts that run on an install.
            .or_else(|| {
                (view.findings.is_none() && name == "package.json").then_some("npm may run its scripts")
            });
        if let Some(who) = who {
            found.insert(file.path.to_string(), who.to_owned());
        }
    }
    for finding in view.findings.iter().flatten() {
        if matches!(finding.kind, HygieneKind::SelfStarting | HygieneKind::Ci) {
            found.entry(finding.path.to_string()).or_insert_with(|| finding.detail.clone());
        }
    }
    if let Some(git) = git {
        let configuration = git.configuration()?;
        for file in &patch.files {
            if let Some(key) = named_by(&configuration, &file.path) {
                let who = format!("your git configuration starts it ({key})");
                found.entry(file.path.to_string()).or_insert(who);
            } else if is_hook(git, &file.path) {
                let who = "a link in your git directory makes it a hook".to_owned();
                found.entry(file.path.to_string()).or_insert(who);
            }
        }
    }
    Ok(found)
}

/// The key of the configuration whose command names this path or a directory above it.
fn named_by<'a>(configuration: &'a [(String, String)], path: &TreePath) -> Option<&'a str> {
    let path = String::from_utf8_lossy(path.as_bytes());
    configuration.iter().find_map(|(key, value)| {
        let low = key.to_ascii_lowercase();
        let runs = COMMANDS.iter().any(|end| low.ends_with(end))
            || low.starts_with("alias.") && value.trim_start().starts_with('!');
        let names = |word: &str| {
            let word = word.trim_matches(['!', '"', '\'', ';', '(', ')']);
            let word = word.strip_prefix("./").unwrap_or(word).trim_end_matches('/');
            !word.is_empty()
                && (word.ends_with(path.as_ref())
                    || path.strip_prefix(word).is_some_and(|rest| rest.starts_with('/')))
        };
        (runs && value.split_whitespace().any(names)).then_some(key.as_str())
    })
}

/// Does a link among the git directory's hooks lead to this path of the work tree?
fn is_hook(git: &Git, path: &TreePath) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(Ok(common)) = git.run(&["rev-parse", "--git-common-dir"], b"") else { return false };
    let hooks = git.dir().join(common.trim_end_matches('\n')).join("hooks");
    let wanted = git.dir().join(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())));
    let Ok(entries) = std::fs::read_dir(hooks) else { return false };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_symlink()).any(|hook| {
        let Ok(target) = std::fs::read_link(&hook) else { return false };
        let target = hook.parent().map_or_else(|| target.clone(), |dir| dir.join(&target));
        // What it leads to may not exist yet.
        plain(&target) == plain(&wanted)
            || std::fs::canonicalize(&target).is_ok_and(|target| target == wanted)
    })
}

/// The path without `.` and `..`, as if no directory in it were a link.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_configuration_is_found_by_the_path_that_it_names() {
        let configuration = [
            ("user.name", "tools/clean.sh"),
            ("filter.fmt.clean", "sh ./tools/clean.sh %f"),
            ("core.hookspath", "ci/hooks/"),
            ("alias.x", "!bin/x"),
            ("alias.y", "log bin/y"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
        for (path, key) in [
            ("tools/clean.sh", Some("filter.fmt.clean")),
            ("ci/hooks/pre-commit", Some("core.hookspath")),
            ("ci/hooks2/pre-commit", None),
            ("bin/x", Some("alias.x")),
            ("bin/y", None),
            ("src/lib.rs", None),
        ] {
            assert_eq!(named_by(&configuration, &TreePath::new(path).unwrap()), key, "{path}");
        }
    }
}
