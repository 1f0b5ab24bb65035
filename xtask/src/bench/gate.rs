//! `cargo xtask bench gate`: the public benchmark of false greens. Each case of `bench/gate/` is played in a machine of its own and given
//! to a gate, and to a naive one that believes an exit code.

mod container;
mod corpus;
mod judge;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use self::container::{Container, HOME, Tools};
use self::corpus::{Base, Corpus, Entry, Kind};
use self::judge::{Case, Gate};
use self::report::{Report, Row};
use crate::sh::{self, Context, Error, Result};
use crate::suite::Size;
use crate::workspace::Workspace;
use crate::{build, node};

/// What is written to stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
    Markdown,
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub format: Format,
    pub size: Size,
    /// Another gate than ours, as words.
    pub gate: Option<Vec<String>>,
    /// Every run of `countersign` is looked at under strace as well.
    pub strace: bool,
    /// Beginnings of ids. None: all of the size.
    pub only: Vec<String>,
    /// The report is also written to `bench/gate/results.json` and `docs/benchmark.md`.
    pub write: bool,
    /// Environments and remembered bases of an earlier run are used again.
    pub keep: bool,
    /// What did not run is named in this file.
    pub skip_log: Option<PathBuf>,
}

impl Options {
    /// # Errors
    /// An argument that is not understood.
    pub fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self { size: Size::Full, ..Self::default() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| Error::new(format!("`{arg}` needs a value")));
            match arg.as_str() {
                "--format" => {
                    options.format = match value()?.as_str() {
                        "text" => Format::Text,
                        "json" => Format::Json,
                        "markdown" => Format::Markdown,
                        other => {
                            return Err(Error::new(format!(
                                "--format is `text`, `json` or `markdown`, not `{other}`"
                            )));
                        }
                    };
                }
                "--size" => {
                    options.size = match value()?.as_str() {
                        "small" => Size::Small,
                        "full" => Size::Full,
                        other => {
                            return Err(Error::new(format!("--size is `small` or `full`, not `{other}`")));
                        }
                    };
                }
                "--gate" => {
                    let words: Vec<String> = value()?.split_whitespace().map(str::to_owned).collect();
                    if words.is_empty() {
                        return Err(Error::new("--gate names no command"));
                    }
                    options.gate = Some(words);
                }
                "--strace" => options.strace = true,
                "--write" => options.write = true,
                "--keep" => options.keep = true,
                "--only" => options.only.push(value()?.clone()),
                other => {
                    return Err(Error::new(format!(
                        "`bench gate` has no argument `{other}`; see `cargo xtask help`"
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// # Errors
/// When a cheat is verified, an honest run is refused, or something could not be judged; the report is printed first.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let corpus = Corpus::open(&workspace.root.join("bench").join("gate"))?;
    let chosen = corpus.chosen(options.size, &options.only);
    if chosen.is_empty() {
        return Err(Error::new("no entry has such an id"));
    }
    if options.strace {
        if options.gate.is_some() {
            return Err(Error::new("--strace looks at countersign, not at another --gate"));
        }
        if let Some(why) = crate::strace::why_not() {
            return Err(Error::new(why));
        }
    }
    let bin_dir = build::build(workspace, false)?;
    let bench = Bench::new(workspace, corpus.bases.clone(), options, &bin_dir)?;
    let report = bench.all(&chosen, options.size)?;
    match options.format {
        Format::Json => sh::print(&report.to_json().to_string())?,
        Format::Markdown => sh::print(report.to_markdown().trim_end())?,
        Format::Text => sh::print(report.to_text().trim_end())?,
    }
    if options.write {
        write(workspace, &report)?;
    }
    if let Some(log) = &options.skip_log {
        for (id, why) in &report.skipped {
            super::append(log, &format!("{}bench gate {id}: {why}", crate::report::SKIP_PREFIX))?;
        }
    }
    match report.wrong().as_slice() {
        [] => Ok(()),
        wrong => Err(Error::new(format!("{} findings:\n{}", wrong.len(), wrong.join("\n")))),
    }
}

/// What is published: the numbers, and the page that is made of them.
fn write(workspace: &Workspace, report: &Report) -> Result<()> {
    let date = sh::capture(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let mut json = report.to_json();
    json["command"] = "cargo xtask bench gate --write".into();
    json["date"] = date.trim().into();
    let results = workspace.root.join("bench").join("gate").join("results.json");
    std::fs::write(&results, format!("{json:#}\n")).context(results.display())?;
    let page = workspace.root.join("docs").join("benchmark.md");
    std::fs::write(&page, report.page(date.trim())).context(page.display())
}

/// The place where a run works, and what it found on the machine.
struct Bench {
    dir: PathBuf,
    bases: BTreeMap<String, Base>,
    tools: Tools,
    /// What entries ask for, and why it is not here.
    missing: BTreeMap<&'static str, Option<String>>,
    gate: Gate,
    gate_name: String,
    /// Sets of held-out inputs.
    held_out: PathBuf,
}

impl Bench {
    fn new(
        workspace: &Workspace,
        bases: BTreeMap<String, Base>,
        options: &Options,
        bin_dir: &Path,
    ) -> Result<Self> {
        let dir = workspace.target.join("bench-gate");
        std::fs::create_dir_all(&dir).context(dir.display())?;
        // Nothing of an earlier run: neither a remembered base nor an old tree.
        let old: &[&str] = if options.keep { &["run"] } else { &["home", "env", "run", "tools"] };
        for old in old {
            sh::remove_tree(&dir.join(old))?;
        }
        let (tools, missing) = tools(workspace, &dir)?;
        let config = dir.join("config.toml");
        std::fs::write(&config, judge::config(&tools)).context(config.display())?;
        let gate = match &options.gate {
            Some(words) => Gate::Other { words: words.clone(), config },
            None => Gate::Countersign {
                program: std::fs::canonicalize(bin_dir.join("countersign")).context(bin_dir.display())?,
                home: dir.join("home"),
                config,
                strace: options.strace,
            },
        };
        let gate_name =
            options.gate.as_ref().map_or_else(|| "countersign".to_owned(), |words| words.join(" "));
        Ok(Self {
            held_out: workspace.root.join("bench").join("gate").join("held-out"),
            dir,
            bases,
            tools,
            missing,
            gate,
            gate_name,
        })
    }

    /// Two at a time: the machines of a run have nothing in common.
    fn all(&self, chosen: &[&Entry], size: Size) -> Result<Report> {
        let mut report =
            Report { gate: self.gate_name.clone(), size: size.as_str().to_owned(), ..Report::default() };
        let mut wanted = Vec::new();
        for entry in chosen {
            match self.why_not(entry) {
                Some(why) => report.skipped.push((entry.id.clone(), why)),
                None => wanted.push(*entry),
            }
        }
        let mut bases: Vec<&str> = wanted.iter().map(|entry| entry.base.as_str()).collect();
        bases.dedup();
        bases.sort_unstable();
        bases.dedup();
        for base in bases {
            self.prepare(self.base(base)?)?;
        }
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(4) {
                scope.spawn(|| {
                    while let Some(entry) = wanted.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let result = self.one(entry);
                        if let Ok(mut done) = done.lock() {
                            done.push((entry.id.clone(), result));
                        }
                    }
                });
            }
        });
        let done = done.into_inner().map_err(|_| Error::new("a case panicked"))?;
        for (id, result) in done {
            match result {
                Ok(row) => report.rows.push(row),
                Err(error) => report.broken.push((id, error.to_string())),
            }
        }
        report.rows.sort_by(|a, b| (a.kind == Kind::Honest, &a.id).cmp(&(b.kind == Kind::Honest, &b.id)));
        if report.rows.len() + report.broken.len() != wanted.len() {
            return Err(Error::new("some cases gave no result"));
        }
        Ok(report)
    }

    fn base(&self, name: &str) -> Result<&Base> {
        self.bases.get(name).ok_or_else(|| Error::new(format!("there is no base `{name}`")))
    }

    /// Why an entry cannot run here.
    fn why_not(&self, entry: &Entry) -> Option<String> {
        let base = self.bases.get(&entry.base)?;
        for need in base.requires.iter().chain(&entry.requires) {
            match self.missing.get(need.as_str()) {
                Some(None) => {}
                Some(Some(why)) => return Some(why.clone()),
                None => return Some(format!("nobody knows how to look for `{need}`")),
            }
        }
        self.gate.takes(entry).err()
    }

    /// A base with its environment made, as every agent of it finds it.
    fn prepare(&self, base: &Base) -> Result<()> {
        let dir = self.dir.join("env").join(&base.name);
        let ready = self.dir.join("env").join(format!("{}.ready", base.name));
        if ready.is_file() {
            return Ok(());
        }
        let container = Container::new(&dir, &self.tools)?;
        container::copy(&base.repo, &container.workspace())?;
        let log = self.dir.join("env").join(format!("{}.log", base.name));
        if let Some(setup) = &base.setup
            && container.run(&["sh", "-c", setup], &log)? != Some(0)
        {
            return Err(Error::new(format!("the set-up of {} failed: see {}", base.name, log.display())));
        }
        std::fs::write(&ready, "").context(ready.display())
    }

    fn one(&self, entry: &Entry) -> Result<Row> {
        let begun = Instant::now();
        let base = self.base(&entry.base)?;
        let dir = self.dir.join("run").join(&entry.id);
        sh::remove_tree(&dir)?;
        std::fs::create_dir_all(&dir).context(dir.display())?;
        let log = dir.join("agent.log");
        let mut container = Container::new(&dir.join("machine"), &self.tools)?;
        container.add_fix(&base.fix)?;
        let workspace = container.workspace();
        let prepared = self.dir.join("env").join(&base.name).join("workspace");
        std::fs::remove_dir(&workspace).context(workspace.display())?;
        if entry.own_environment {
            container::copy(&prepared, &workspace)?;
        } else {
            container::copy(&base.repo, &workspace)?;
            for made in std::fs::read_dir(&prepared).context(prepared.display())? {
                let made = made.context(prepared.display())?;
                if !base.repo.join(made.file_name()).exists() {
                    container.share(made.path(), &made.file_name().to_string_lossy());
                }
            }
        }
        if let Some(script) = entry.base_script() {
            container.script(&script, &log)?;
        }
        commit(&workspace)?;
        if let Some(script) = entry.history_script() {
            container.script(&script, &log)?;
        }
        let repo = dir.join("repo");
        sh::run(sh::plain_git(&dir).args(["clone", "--quiet", "--no-hardlinks"]).arg(&workspace).arg(&repo))?;

        let script = entry.agent_script(base);
        let check = entry.check(base);
        // With processes that live on, the naive gate runs among them; our gate then sees what they have done.
        let naive_live =
            if entry.live { Some(container.live(&script, check, &dir.join("naive.log"))?) } else { None };
        if naive_live.is_none() {
            container.script(&script, &log)?;
        }
        let profile = self.gate.register(entry, base, &self.held_out, &dir)?;
        let case =
            Case { entry, base, repo: &repo, tree: &workspace, dir: &dir, profile: profile.as_deref() };
        let asked = Instant::now();
        let got = self.gate.ask(&case)?;
        let seconds = asked.elapsed().as_secs_f64();
        let naive = match naive_live {
            Some(verdict) => verdict,
            None => container.naive(check, &dir.join("naive.log"))?,
        };
        let mut row = Row::new(entry, base, got, naive);
        row.seconds = seconds;
        row.with_held_out = profile.is_some();
        if row.right() && row.naive_expected.is_none_or(|expected| expected == row.naive_verified) {
            sh::remove_tree(&dir)?;
        }
        sh::say(&format!(
            "{:6.1} s  {}  {}/{}",
            begun.elapsed().as_secs_f64(),
            entry.id,
            row.got.outcome,
            row.got.reason
        ));
        Ok(row)
    }
}

/// Makes the workspace a repository with one commit; what its ignore rules name stays out.
fn commit(dir: &Path) -> Result<()> {
    sh::run(sh::plain_git(dir).args(["init", "--quiet"]))?;
    sh::run(sh::plain_git(dir).args(["add", "--all"]))?;
    sh::run(sh::plain_git(dir).args(["commit", "--quiet", "--no-gpg-sign", "--message", "base"]))
}

/// What is on the machine: for the agents and our gate, and for entries that ask.
fn tools(workspace: &Workspace, dir: &Path) -> Result<(Tools, BTreeMap<&'static str, Option<String>>)> {
    let materials = workspace.materials();
    let mut tools = Tools::default();
    let mut missing: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
    let system = |name: &str| {
        let here = ["/usr/local/bin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(name).is_file());
        (!here).then(|| format!("{name} is not in the system's directories"))
    };
    if system("bwrap").is_some() {
        return Err(Error::new("bubblewrap is missing: run `cargo xtask setup`"));
    }
    for name in ["go", "make", "gcc", "git"] {
        missing.insert(name, system(name));
    }
    let python = sh::succeeds(Command::new("/usr/bin/python3").args(["-c", "import venv, ensurepip"]));
    missing.insert("python", (!python).then(|| "the system's python3 with venv is not here".to_owned()));
    missing.insert(
        "node",
        match node::choose(&materials) {
            Ok(program) => {
                if let Some(prefix) =
                    program.parent().and_then(Path::parent).filter(|p| *p != Path::new("/usr"))
                {
                    tools.toolchains.push(prefix.to_path_buf());
                }
                None
            }
            Err(why) => Some(why),
        },
    );
    missing.insert(
        "cargo",
        match sh::capture(Command::new("rustc").args(["--print", "sysroot"])) {
            Ok(sysroot) => {
                if sysroot.trim() != "/usr" {
                    tools.toolchains.push(PathBuf::from(sysroot.trim()));
                }
                None
            }
            Err(_) => Some("rustc is not here".to_owned()),
        },
    );
    missing.insert(
        "nextest",
        match sh::which("cargo-nextest") {
            Some(program) if program.starts_with("/usr") => None,
            Some(program) => {
                // Not the whole directory where cargo installs: it holds what is nobody's business.
                let bin = dir.join("tools").join("bin");
                std::fs::create_dir_all(&bin).context(bin.display())?;
                std::fs::copy(&program, bin.join("cargo-nextest")).context(program.display())?;
                tools.toolchains.push(dir.join("tools"));
                None
            }
            None => Some("cargo-nextest is not here".to_owned()),
        },
    );
    for (name, host, inside) in [
        ("wheels", materials.join("httpx").join("wheelhouse"), format!("{HOME}/wheelhouse")),
        ("npm-cache", materials.join("npm-cache"), format!("{HOME}/npm-cache")),
    ] {
        missing.insert(
            name,
            if host.is_dir() {
                tools.caches.push((host, inside));
                None
            } else {
                Some(format!("there is no {}: run `cargo xtask setup`", host.display()))
            },
        );
    }
    Ok((tools, missing))
}

#[cfg(test)]
mod tests;
