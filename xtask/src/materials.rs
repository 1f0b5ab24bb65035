//! The real-input materials: released sources of real projects in a version whose next release fixed a bug, with all
//! that their checks need offline. `materials/materials.json` says which; nothing of theirs is kept in this repository
//! beyond the few lines of an edit.
//!
//! ```text
//! <target>/real-input/materials.json            the table, as in the repository
//! <target>/real-input/NAME/repo                 a git repository with one commit: the old version and our test
//! <target>/real-input/globset/cargo-home        a CARGO_HOME whose `registry` is complete, unpacked sources included
//! <target>/real-input/httpx/wheelhouse          wheels of every locked dependency
//! <target>/real-input/aimock/node_modules       an independent model server
//! <target>/real-input/npm-cache                 an npm cache with what the lockfiles below `bench/gate` name
//! <target>/real-input/{sigstore,cosign}         stock verifiers of evidence
//! <target>/real-input/python                    a Python with the vendors' SDKs and one more stock verifier
//! <target>/real-input/node/node_modules         a Node for it, only where the machine's own is too old
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::node;
use crate::sh::{self, Context, Error, Result};
use crate::stock;
use crate::workspace::Workspace;

const TABLE: &str = "materials.json";
/// Its text is what was prepared; a difference means: prepare again.
const STAMP: &str = ".prepared";

/// Downloads and prepares what is not there yet.
///
/// # Errors
/// When a download fails, or its bytes are not the pinned ones.
pub fn prepare(workspace: &Workspace) -> Result<()> {
    let all = Materials::open(workspace)?;
    std::fs::create_dir_all(&all.dir).context(all.dir.display())?;
    for project in &all.projects {
        let stamp = all.stamp(project)?;
        all.once(project.name, &stamp, |dir| match project.kind {
            Kind::Crate => all.prepare_crate(project, dir),
            Kind::Sdist => all.prepare_sdist(project, dir),
        })?;
    }
    all.once("aimock", &all.npm_stamp("aimock")?, |dir| all.npm_ci("aimock", dir))?;
    all.once("npm-cache", &all.npm_cache_stamp()?, |dir| all.npm_cache(dir))?;
    if let Err(why) = node::of_machine() {
        sh::say(&format!("{why}: a pinned Node comes from the npm registry"));
        all.once("node", &all.npm_stamp("node")?, |dir| {
            all.npm_ci("node", dir)?;
            node::usable(&dir.join(node::PROGRAM)).map_err(Error::new)
        })?;
    }
    stock::prepare(&all)?;
    std::fs::write(all.dir.join(TABLE), &all.text).context(TABLE)
}

/// Runs every check as the table promises: red on the old sources, green with the fix, red with the wrong edit.
///
/// # Errors
/// When one of them shows something else.
pub fn verify(workspace: &Workspace) -> Result<()> {
    let all = Materials::open(workspace)?;
    for project in &all.projects {
        let at = std::env::temp_dir().join(format!(
            "countersign-materials-{}-{}",
            std::process::id(),
            project.name
        ));
        sh::remove_tree(&at)?;
        let result = all.verify_in(project, &at);
        sh::remove_tree(&at)?;
        result?;
        sh::say(&format!(
            "{} {}: red before, green with the fix, red with the wrong edit",
            project.name, project.version
        ));
    }
    Ok(())
}

/// Copies a prepared project to `to`, with its fix applied or without.
///
/// # Errors
/// When it is not prepared, or cannot be copied.
pub fn copy(workspace: &Workspace, name: &str, to: &Path, fixed: bool) -> Result<()> {
    let all = Materials::open(workspace)?;
    let project = all.projects.iter().find(|project| project.name == name);
    let project = project.ok_or_else(|| Error::new(format!("materials.json has no project {name}")))?;
    let from = all.dir.join(name);
    if !from.join(STAMP).is_file() {
        return Err(Error::new(format!("{name} is not prepared; run cargo xtask setup")));
    }
    sh::remove_tree(to)?;
    sh::copy_tree(&from.join("repo"), to)?;
    if fixed { apply(to, &project.edits("true_fix")?) } else { Ok(()) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Crate,
    Sdist,
}

/// One row of the table.
#[derive(Debug)]
struct Project<'a> {
    name: &'a str,
    version: &'a str,
    kind: Kind,
    sha256: &'a str,
    row: &'a Value,
}

/// One replacement in one file.
#[derive(Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    pub path: &'a str,
    pub old: &'a str,
    pub new: &'a str,
}

/// Bases of the benchmark of gates whose runner comes from npm.
const BENCH_RUNNERS: [&str; 3] = ["jest", "mocha", "vitest"];

pub(crate) struct Materials<'a> {
    data: PathBuf,
    /// `bench/gate/bases`.
    bases: PathBuf,
    dir: PathBuf,
    text: String,
    projects: Vec<Project<'a>>,
}

impl Materials<'static> {
    fn open(workspace: &Workspace) -> Result<Self> {
        let data = workspace.root.join("xtask").join("materials");
        let path = data.join(TABLE);
        let text = std::fs::read_to_string(&path).context(path.display())?;
        // One small table for the life of the process.
        let table: &'static Value = Box::leak(Box::new(serde_json::from_str(&text).context(path.display())?));
        let projects = projects(table)?;
        let bases = workspace.root.join("bench").join("gate").join("bases");
        Ok(Self { data, bases, dir: workspace.materials(), text, projects })
    }
}

fn projects(table: &Value) -> Result<Vec<Project<'_>>> {
    let rows = table["projects"].as_array().ok_or_else(|| Error::new("materials.json has no projects"))?;
    rows.iter()
        .map(|row| {
            let kind = match text(row, "/source/kind")? {
                "crate" => Kind::Crate,
                "sdist" => Kind::Sdist,
                other => return Err(Error::new(format!("materials.json: unknown source kind {other}"))),
            };
            Ok(Project {
                name: text(row, "/name")?,
                version: text(row, "/version")?,
                kind,
                sha256: text(row, "/source/sha256")?,
                row,
            })
        })
        .collect()
}

fn text<'a>(row: &'a Value, pointer: &str) -> Result<&'a str> {
    row.pointer(pointer)
        .and_then(Value::as_str)
        .ok_or_else(|| Error::new(format!("materials.json: {pointer} is missing or no text")))
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Project<'_> {
    fn edits(&self, key: &str) -> Result<Vec<Edit<'_>>> {
        self.row[key]
            .as_array()
            .into_iter()
            .flatten()
            .map(|edit| {
                Ok(Edit { path: text(edit, "/path")?, old: text(edit, "/old")?, new: text(edit, "/new")? })
            })
            .collect()
    }
}

/// Applies edits as the agent's tool would: each `old` must be there exactly once.
///
/// # Errors
/// When a file cannot be read or written, or `old` is not there exactly once.
pub fn apply(repo: &Path, edits: &[Edit<'_>]) -> Result<()> {
    for edit in edits {
        let path = repo.join(edit.path);
        let before = std::fs::read_to_string(&path).context(path.display())?;
        if before.matches(edit.old).count() != 1 {
            return Err(Error::new(format!(
                "{}: the text to replace is not there exactly once",
                path.display()
            )));
        }
        std::fs::write(&path, before.replacen(edit.old, edit.new, 1)).context(path.display())?;
    }
    Ok(())
}

impl Materials<'_> {
    /// What this repository keeps of a material.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// Runs `work` in an empty directory that gets its name only when all went well.
    pub(crate) fn once(&self, name: &str, stamp: &str, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let ready = self.dir.join(name);
        if std::fs::read_to_string(ready.join(STAMP)).is_ok_and(|old| old == stamp) {
            return Ok(());
        }
        sh::say(&format!("preparing {name}"));
        let partial = self.dir.join(format!(".{name}.partial"));
        sh::remove_tree(&partial)?;
        std::fs::create_dir_all(&partial).context(partial.display())?;
        work(&partial).map_err(|error| {
            Error::new(format!(
                "{error}\npreparing {name} needs the package registries once; is there a network?"
            ))
        })?;
        std::fs::write(partial.join(STAMP), stamp).context(partial.display())?;
        sh::remove_tree(&ready)?;
        std::fs::rename(&partial, &ready).context(ready.display())
    }

    fn stamp(&self, project: &Project<'_>) -> Result<String> {
        let mut stamp = project.row.to_string();
        for file in words(&project.row["add"]) {
            let path = self.data.join(project.name).join(file);
            stamp.push_str(&std::fs::read_to_string(&path).context(path.display())?);
        }
        Ok(stamp)
    }

    /// The source release comes as a dependency of an empty crate, so that cargo checks it against the index.
    fn prepare_crate(&self, project: &Project<'_>, dir: &Path) -> Result<()> {
        let (name, version) = (project.name, project.version);
        let scratch = Scratch::new(name)?;
        let wrapper = scratch.0.join("wrapper");
        std::fs::create_dir_all(wrapper.join("src")).context(wrapper.display())?;
        std::fs::write(wrapper.join("src/lib.rs"), "").context("src/lib.rs")?;
        let manifest = format!(
            "[package]\nname = \"wrapper\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\n{name} = \"={version}\"\n"
        );
        std::fs::write(wrapper.join("Cargo.toml"), manifest).context("Cargo.toml")?;
        let source_home = scratch.0.join("cargo-home");
        fetch(&wrapper, &source_home, false)?;
        check_sha256(
            &below_registry(&source_home, "cache", &format!("{name}-{version}.crate"))?,
            project.sha256,
        )?;

        // The project is fetched outside of this workspace, else cargo takes it for a forgotten member.
        let repo = scratch.0.join("repo");
        sh::copy_tree(&below_registry(&source_home, "src", &format!("{name}-{version}"))?, &repo)?;
        self.finish_repo(project, &repo)?;
        let home = scratch.0.join("home");
        fetch(&repo, &home, true)?;
        // Its index cache holds what cargo needs offline; locks and the usage database are not part of it.
        sh::copy_tree(&home.join("registry"), &dir.join("cargo-home").join("registry"))?;
        sh::copy_tree(&repo, &dir.join("repo"))
    }

    fn prepare_sdist(&self, project: &Project<'_>, dir: &Path) -> Result<()> {
        let (name, version) = (project.name, project.version);
        let scratch = Scratch::new(name)?;
        let pip = || {
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--require-hashes",
            ]);
            pip
        };
        let source = scratch.0.join("source.lock");
        std::fs::write(&source, format!("{name}=={version} --hash=sha256:{}\n", project.sha256))
            .context("source.lock")?;
        // pip asks the source for its metadata, for which it needs the build system: as wheels. With `:all:` it would
        // build that from source too, and what that is built with, for many minutes.
        sh::run(pip().args(["--no-binary", name, "-d"]).arg(&scratch.0).arg("-r").arg(&source))?;
        let archive = scratch.0.join(format!("{name}-{version}.tar.gz"));
        check_sha256(&archive, project.sha256)?;
        sh::run(
            Command::new("tar")
                .args(["--no-same-owner", "--no-same-permissions", "-xzf"])
                .arg(&archive)
                .arg("-C")
                .arg(&scratch.0),
        )?;
        let repo = dir.join("repo");
        sh::copy_tree(&scratch.0.join(format!("{name}-{version}")), &repo)?;
        self.finish_repo(project, &repo)?;

        let lock = self.data.join(name).join("requirements.lock");
        let wheels = without_markers(&std::fs::read_to_string(&lock).context(lock.display())?);
        let all_wheels = scratch.0.join("wheels.lock");
        std::fs::write(&all_wheels, wheels).context("wheels.lock")?;
        sh::run(
            pip()
                .args(["--only-binary", ":all:", "-d"])
                .arg(dir.join("wheelhouse"))
                .arg("-r")
                .arg(&all_wheels),
        )
    }

    pub(crate) fn npm_stamp(&self, name: &str) -> Result<String> {
        let lock = self.data.join(name).join("package-lock.json");
        std::fs::read_to_string(&lock).context(lock.display())
    }

    /// Exactly what the lock says, by hash; no package runs a script of its own.
    pub(crate) fn npm_ci(&self, name: &str, dir: &Path) -> Result<()> {
        for file in ["package.json", "package-lock.json"] {
            let from = self.data.join(name).join(file);
            std::fs::copy(&from, dir.join(file)).context(from.display())?;
        }
        sh::run(Command::new("npm").current_dir(dir).args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
        ]))
    }

    fn npm_cache_stamp(&self) -> Result<String> {
        BENCH_RUNNERS.iter().try_fold(String::new(), |stamp, name| {
            let lock = self.bench_base(name).join("package-lock.json");
            Ok(stamp + &std::fs::read_to_string(&lock).context(lock.display())?)
        })
    }

    fn bench_base(&self, name: &str) -> PathBuf {
        self.bases.join(name).join("repo")
    }

    /// Fills npm's own cache with the test runners of the benchmark, so that `npm ci --offline` works from it.
    fn npm_cache(&self, dir: &Path) -> Result<()> {
        for name in BENCH_RUNNERS {
            let scratch = Scratch::new(&format!("npm-{name}"))?;
            for file in ["package.json", "package-lock.json"] {
                let from = self.bench_base(name).join(file);
                std::fs::copy(&from, scratch.0.join(file)).context(from.display())?;
            }
            let mut npm = Command::new("npm");
            npm.current_dir(&scratch.0).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
            sh::run(npm.args(["--loglevel", "error", "--logs-max", "0", "--cache"]).arg(dir))?;
        }
        Ok(())
    }

    fn finish_repo(&self, project: &Project<'_>, repo: &Path) -> Result<()> {
        for file in words(&project.row["remove"]) {
            let path = repo.join(file);
            std::fs::remove_file(&path).context(path.display())?;
        }
        for file in words(&project.row["add"]) {
            let (from, to) = (self.data.join(project.name).join(file), repo.join(file));
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent).context(parent.display())?;
            }
            std::fs::copy(&from, &to).context(from.display())?;
        }
        for (file, more) in project.row["append"].as_object().into_iter().flatten() {
            let path = repo.join(file);
            let mut content = std::fs::read_to_string(&path).unwrap_or_default();
            content.push_str(more.as_str().unwrap_or_default());
            std::fs::write(&path, content).context(path.display())?;
        }
        sh::commit_all(repo, &format!("{} {}", project.name, project.version))
    }

    fn verify_in(&self, project: &Project<'_>, at: &Path) -> Result<()> {
        let ready = self.dir.join(project.name);
        let wheelhouse = ready.join("wheelhouse").display().to_string();
        for (key, want_green) in
            [("", false), ("wrong_edit", false), ("true_fix", true), ("edited_test", true)]
        {
            sh::remove_tree(at)?;
            let repo = at.join("repo");
            sh::copy_tree(&ready.join("repo"), &repo)?;
            apply(&repo, &project.edits(key)?)?;
            for argv in project.row["setup"].as_array().into_iter().flatten() {
                let argv: Vec<String> =
                    words(argv).iter().map(|word| word.replace("{wheelhouse}", &wheelhouse)).collect();
                sh::run(&mut self.offline(&ready, &repo, &argv)?)?;
            }
            let argv = |key: &str| {
                words(&project.row[key]).iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()
            };
            if !sh::succeeds(&mut self.offline(&ready, &repo, &argv("probe"))?) {
                return Err(Error::new(format!("{}: the probe fails", project.name)));
            }
            if sh::succeeds(&mut self.offline(&ready, &repo, &argv("check"))?) != want_green {
                let wanted = if want_green { "green" } else { "red" };
                return Err(Error::new(format!("{}: the check is not {wanted} with {key:?}", project.name)));
            }
            if !sh::succeeds(&mut self.offline(&ready, &repo, &argv("green_check"))?) {
                return Err(Error::new(format!(
                    "{}: the guard check is not green with {key:?}",
                    project.name
                )));
            }
        }
        Ok(())
    }

    fn offline(&self, ready: &Path, repo: &Path, argv: &[String]) -> Result<Command> {
        let (program, args) =
            argv.split_first().ok_or_else(|| Error::new("materials.json: an empty command"))?;
        // A relative program is meant relative to the repository, and `Command` does not promise that.
        let program = if program.contains('/') { repo.join(program) } else { PathBuf::from(program) };
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(repo)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_HOME", ready.join("cargo-home"))
            .env("CARGO_TARGET_DIR", repo.join("target"));
        Ok(command)
    }
}

/// Every wheel is wanted whatever this machine's Python is, so environment markers go.
fn without_markers(lock: &str) -> String {
    lock.lines()
        .map(|line| match (line.split_once(" ; "), line.split_once(" --hash")) {
            (Some((pin, _)), Some((_, hash))) => format!("{pin} --hash{hash}\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

fn fetch(project: &Path, home: &Path, locked: bool) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(project)
        .args(["fetch", "--quiet"])
        .env("CARGO_HOME", home)
        .env_remove("CARGO_NET_OFFLINE");
    if locked {
        cargo.arg("--locked");
    }
    sh::run(&mut cargo)
}

/// `registry/KIND/<one directory>/NAME` below a CARGO_HOME.
fn below_registry(home: &Path, kind: &str, name: &str) -> Result<PathBuf> {
    let dir = home.join("registry").join(kind);
    for entry in std::fs::read_dir(&dir).context(dir.display())? {
        let path = entry.context(dir.display())?.path().join(name);
        if path.exists() {
            return Ok(path);
        }
    }
    Err(Error::new(format!("cargo fetched no {name} into {}", dir.display())))
}

fn check_sha256(file: &Path, wanted: &str) -> Result<()> {
    let said = sh::capture(Command::new("sha256sum").arg("--").arg(file))?;
    let found = said.trim_start_matches('\\').split_whitespace().next().unwrap_or_default();
    if found == wanted {
        return Ok(());
    }
    Err(Error::new(format!("{} has sha256 {found}, not the pinned {wanted}; it is not used", file.display())))
}

/// A directory for the time of one preparation.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("countersign-setup-{}-{name}", std::process::id()));
        sh::remove_tree(&dir)?;
        std::fs::create_dir_all(&dir).context(dir.display())?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let all = Materials::open(&Workspace::find()).unwrap();
        for project in &all.projects {
            let row = project.row;
            assert_eq!(project.sha256.len(), 64);
            assert!(row["locked_dependencies"].as_u64().unwrap() >= 5, "{}", project.name);
            for key in ["true_fix", "wrong_edit", "edited_test"] {
                assert!(!project.edits(key).unwrap().is_empty(), "{} {key}", project.name);
            }
            for key in ["check", "green_check", "probe"] {
                assert!(!words(&row[key]).is_empty(), "{} {key}", project.name);
            }
            assert_ne!(project.edits("true_fix").unwrap(), project.edits("wrong_edit").unwrap());
            for file in words(&row["add"]) {
                assert!(all.data.join(project.name).join(file).is_file(), "{file}");
            }
        }
    }

    #[test]
    fn locks_are_pinned_by_hash() {
        let all = Materials::open(&Workspace::find()).unwrap();
        let python = std::fs::read_to_string(all.data.join("httpx/requirements.lock")).unwrap();
        let stock = all.data("python").join("requirements.lock");
        let stock = std::fs::read_to_string(stock).unwrap();
        for line in python.lines().chain(stock.lines()) {
            assert!(line.contains("==") && line.contains("--hash=sha256:"), "{line}");
        }
        assert!(!without_markers(&python).contains("python_version"));
        let rust = std::fs::read_to_string(all.data.join("globset/Cargo.lock")).unwrap();
        assert_eq!(rust.matches("checksum = ").count() + 1, rust.matches("[[package]]").count());
        let runners = BENCH_RUNNERS.map(|name| all.bench_base(name).join("package-lock.json"));
        let runners = runners.map(|lock| std::fs::read_to_string(lock).unwrap());
        let ours = ["aimock", "node", "sigstore"].map(|name| all.npm_stamp(name).unwrap());
        for lock in ours.into_iter().chain(runners) {
            let lock: Value = serde_json::from_str(&lock).unwrap();
            let packages = lock["packages"].as_object().unwrap();
            assert!(packages.len() > 1);
            for (path, package) in packages.iter().filter(|(path, _)| !path.is_empty()) {
                assert!(package["integrity"].as_str().unwrap().starts_with("sha512-"), "{path}");
            }
        }
    }

    #[test]
    fn the_pinned_node_and_the_oldest_one_are_what_the_model_server_asks_for() {
        let all = Materials::open(&Workspace::find()).unwrap();
        let lock = |name| serde_json::from_str::<Value>(&all.npm_stamp(name).unwrap()).unwrap();
        let (major, minor, patch) = node::OLDEST;
        let asked = &lock("aimock")["packages"]["node_modules/@copilotkit/aimock"]["engines"]["node"];
        assert_eq!(asked, &format!(">={major}.{minor}.{patch}"));
        let (package, program) = node::PROGRAM.split_once("/bin/").unwrap();
        let node = &lock("node")["packages"][package];
        assert_eq!(node["bin"]["node"], format!("bin/{program}"));
        assert!(node["version"].as_str().unwrap().starts_with("20."));
    }

    #[test]
    fn an_edit_must_find_its_text_exactly_once() {
        let scratch = Scratch::new("edit-test").unwrap();
        std::fs::write(scratch.0.join("f"), "a b a").unwrap();
        assert!(apply(&scratch.0, &[Edit { path: "f", old: "a", new: "c" }]).is_err());
        assert!(apply(&scratch.0, &[Edit { path: "f", old: "z", new: "c" }]).is_err());
        apply(&scratch.0, &[Edit { path: "f", old: "b", new: "c" }]).unwrap();
        assert_eq!(std::fs::read_to_string(scratch.0.join("f")).unwrap(), "a c a");
    }

    #[test]
    fn other_bytes_than_the_pinned_are_refused() {
        let scratch = Scratch::new("sha-test").unwrap();
        let file = scratch.0.join("f");
        std::fs::write(&file, "").unwrap();
        check_sha256(&file, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855").unwrap();
        std::fs::write(&file, "x").unwrap();
        let error = check_sha256(&file, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
            .unwrap_err();
        assert!(error.to_string().contains("not used"));
    }
}
