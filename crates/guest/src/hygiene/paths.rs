//! What the name of a changed file says.

use countersign_tree::TreePath;

use super::finding;
use crate::protocol::{HygieneFinding, HygieneKind, PatchChange};

const LOCKFILES: &[&str] = &[
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "poetry.lock",
    "uv.lock",
    "pipfile.lock",
    "pdm.lock",
    "go.sum",
    "gemfile.lock",
    "composer.lock",
    "mix.lock",
    "pubspec.lock",
    "packages.lock.json",
    "gradle.lockfile",
    "podfile.lock",
    "flake.lock",
    "module.bazel.lock",
];

/// Files of a service that runs a project's own commands, by a directory anywhere (ending in `/`) or by name.
const CI: &[&str] = &[
    ".github/workflows/",
    ".github/actions/",
    ".gitea/workflows/",
    ".forgejo/workflows/",
    ".circleci/",
    ".buildkite/",
    ".woodpecker/",
    ".gitlab/ci/",
    ".gitlab-ci.yml",
    ".travis.yml",
    ".drone.yml",
    ".cirrus.yml",
    ".woodpecker.yml",
    "appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "cloudbuild.yaml",
    "jenkinsfile",
    "action.yml",
    "action.yaml",
];

/// Files that something starts by itself, the same way, with who starts them.
const SELF_STARTING: &[(&str, &str)] = &[
    (".githooks/", "git starts hooks"),
    (".husky/", "git starts hooks"),
    (".pre-commit-config.yaml", "git starts hooks"),
    ("lefthook.yml", "git starts hooks"),
    (".gitattributes", "git reads filters and merge drivers from it"),
    (".gitmodules", "git fetches what it names"),
    (".vscode/tasks.json", "an editor may start it when the folder is opened"),
    (".vscode/launch.json", "an editor may start it when the folder is opened"),
    (".vscode/settings.json", "an editor takes programs and arguments from it"),
    (".idea/", "an editor may start it when the folder is opened"),
    (".devcontainer/", "an editor may start it when the folder is opened"),
    (".gitpod.yml", "a workspace starts it"),
    (".claude/", "a coding agent takes commands from it"),
    (".cursor/", "a coding agent takes commands from it"),
    (".mcp.json", "a coding agent starts what it names"),
    (".envrc", "a shell loads it on entering the folder"),
    (".bashrc", "a shell loads it"),
    (".cargo/config.toml", "cargo takes programs from it"),
    (".cargo/config", "cargo takes programs from it"),
    ("build.rs", "cargo runs it on every build"),
    ("rust-toolchain.toml", "rustup installs what it names"),
    ("rust-toolchain", "rustup installs what it names"),
    ("conftest.py", "pytest loads it"),
    ("sitecustomize.py", "Python loads it at start"),
    ("usercustomize.py", "Python loads it at start"),
    ("setup.py", "pip runs it on an install"),
    ("binding.gyp", "npm builds what it names on an install"),
    (".npmrc", "npm takes registries and programs from it"),
    (".yarnrc", "yarn takes programs from it"),
    (".yarnrc.yml", "yarn takes programs from it"),
    (".pnpmfile.cjs", "pnpm runs it on an install"),
];

/// Endings of names that Python loads at its start.
const PYTHON_START: &str = ".pth";

pub(super) fn is_lockfile(path: &TreePath) -> bool {
    LOCKFILES.contains(&name(&lower(path)))
}

/// Who starts a file of this name, or takes programs from it, without being asked for that file. None: nobody we know of.
#[must_use]
pub fn started_by(path: &TreePath) -> Option<&'static str> {
    let low = lower(path);
    self_starting(&low).or_else(|| is_ci(&low).then_some(CI_READS))
}

fn self_starting(low: &str) -> Option<&'static str> {
    let starts = SELF_STARTING.iter().find(|(rule, _)| stands_at(low, rule)).map(|(_, who)| *who);
    starts.or_else(|| low.ends_with(PYTHON_START).then_some("Python loads it at start"))
}

/// Who reads the files of [`CI`].
const CI_READS: &str = "a CI service reads it";

fn is_ci(low: &str) -> bool {
    CI.iter().any(|rule| stands_at(low, rule))
}

pub(super) fn findings(change: &PatchChange) -> Vec<HygieneFinding> {
    let path = &change.path;
    let low = lower(path);
    let what = match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    let mut out = Vec::new();
    if is_lockfile(path) {
        out.push(finding(
            HygieneKind::Lockfile,
            path,
            None,
            format!("{what}: other dependencies may be installed"),
        ));
    }
    if is_ci(&low) {
        out.push(finding(HygieneKind::Ci, path, None, format!("{what}: {CI_READS}")));
    }
    if let Some(who) = self_starting(&low) {
        out.push(finding(HygieneKind::SelfStarting, path, None, format!("{what}: {who}")));
    }
    out
}

/// A link whose target lies outside of the tree.
pub(super) fn link(path: &TreePath, target: &[u8]) -> Option<HygieneFinding> {
    let mut depth = path.as_bytes().iter().filter(|b| **b == b'/').count();
    let mut out = target.starts_with(b"/");
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if depth == 0 => out = true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    out.then(|| finding(HygieneKind::LinkOutside, path, None, "a symbolic link that leads out of the tree"))
}

/// On a file system that ignores case another spelling is the same file.
fn lower(path: &TreePath) -> String {
    String::from_utf8_lossy(path.as_bytes()).to_lowercase()
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `rule`: the end of a path, or, ending in `/`, a directory anywhere in it.
fn stands_at(path: &str, rule: &str) -> bool {
    if rule.ends_with('/') {
        return path.starts_with(rule) || path.contains(&format!("/{rule}"));
    }
    path.strip_suffix(rule).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
