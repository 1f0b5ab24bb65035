//! Lockfiles: what an environment is made from. A tree that brings others asks for another environment.

use countersign_kernel::contract::Deps;
use countersign_tree::{LOCKFILES, Manifest, TreePath};

use crate::check::CheckDecision;
use crate::evidence::Cause;

/// Files that pin what a package manager installs, beside the ones that are scratch where the base has none.
const MORE: &[&str] =
    &["go.sum", "npm-shrinkwrap.json", "bun.lock", "bun.lockb", "composer.lock", "Gemfile.lock"];

/// Lockfiles and, where a setup makes the environment, pip's lists that are not the same in both trees. They name what is
/// installed; a second environment is made from them.
#[must_use]
pub fn changed_lockfiles(base: &Manifest, tree: &Manifest, has_setup: bool) -> Vec<TreePath> {
    let is_lock = |path: &TreePath| {
        let name = path.file_name();
        LOCKFILES.iter().chain(MORE).any(|lock| name == lock.as_bytes()) || (has_setup && is_list(name))
    };
    base.changes_to(tree).into_iter().map(|change| change.path).filter(is_lock).collect()
}

/// The same and whatever else the setup's command names: the environment was made from the base's. None of that is ever given
/// to a setup, which runs with the operator's authority and may be a script of the tree.
#[must_use]
pub fn changed_sources(base: &Manifest, tree: &Manifest, setup: Option<&[String]>) -> Vec<TreePath> {
    let mut sources = changed_lockfiles(base, tree, setup.is_some());
    if let Some(argv) = setup {
        let named = base.changes_to(tree).into_iter().map(|change| change.path);
        sources.extend(named.filter(|path| is_named(path, argv)));
        sources.sort();
        sources.dedup();
    }
    sources
}

/// `requirements.txt`, `requirements-dev.txt`: pip's lists, pinned or not.
fn is_list(name: &[u8]) -> bool {
    name.starts_with(b"requirements") && (name.ends_with(b".txt") || name.ends_with(b".in"))
}

/// Whether a word of the command, or of a script in it, is the path.
fn is_named(path: &TreePath, argv: &[String]) -> bool {
    let path = path.to_string();
    let is_word = |word: &str| word.strip_prefix("./").unwrap_or(word) == path;
    let ends = |c: char| c.is_whitespace() || "'\"=;|&()<>,".contains(c);
    argv.iter().flat_map(|part| part.split(ends)).any(is_word)
}

/// What the contract makes of them. None: the check goes on.
#[must_use]
pub fn judge_deps(deps: Deps, changed: &[TreePath]) -> Option<CheckDecision> {
    let first = changed.first()?;
    let more = changed.len() - 1;
    let named = if more == 0 { format!("`{first}`") } else { format!("`{first}` (and {more} more)") };
    let what = format!("{named} is not the base's, and the environment was made from the base's");
    let decision = match deps {
        Deps::Fetch => return None,
        Deps::Deny => CheckDecision::inconclusive(format!("{what}; `--deps fetch` allows it")),
        Deps::Ask => {
            CheckDecision::blocked(format!("{what}, and nobody can be asked here; `--deps fetch` allows it"))
        }
    };
    Some(decision.because(Cause::Dependencies))
}

#[cfg(test)]
mod tests {
    use countersign_tree::{Entry, EntryMode};
    use countersign_types::Digest;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> Manifest {
        let entry = |(path, content): &(&str, &str)| Entry {
            path: TreePath::new(*path).unwrap(),
            mode: EntryMode::File,
            size: content.len() as u64,
            digest: Digest::of(content.as_bytes()),
        };
        Manifest::new(files.iter().map(entry).collect())
    }

    #[test]
    fn what_an_environment_is_made_from_is_told_and_nothing_else() {
        let names = [
            "requirements.txt",
            "tools/deps.list",
            "Cargo.lock",
            "src/a.py",
            "notes.txt",
            "docs/requirements.md",
        ];
        let base = tree(&names.map(|name| (name, "old")));
        let after = tree(&names.map(|name| (name, "new")));
        let told = |setup: Option<&[&str]>| -> Vec<String> {
            let setup: Option<Vec<String>> =
                setup.map(|argv| argv.iter().map(|word| (*word).to_owned()).collect());
            changed_sources(&base, &after, setup.as_deref()).iter().map(ToString::to_string).collect()
        };
        // Without a setup nothing was made from a list.
        assert_eq!(told(None), ["Cargo.lock"]);
        let pip = ["pip", "install", "-r", "requirements.txt"];
        assert_eq!(told(Some(&pip)), ["Cargo.lock", "requirements.txt"]);
        let script = ["sh", "-c", "python3 -m venv .venv && .venv/bin/pip install -r ./tools/deps.list"];
        assert_eq!(told(Some(&script)), ["Cargo.lock", "requirements.txt", "tools/deps.list"]);
        // What a setup is run on is no more than what names packages.
        let given: Vec<String> =
            changed_lockfiles(&base, &after, true).iter().map(ToString::to_string).collect();
        assert_eq!(given, ["Cargo.lock", "requirements.txt"]);
    }
}
