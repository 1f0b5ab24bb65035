//! The agent's machine: a directory that is the root of a sandbox without a network. What the agent left in its workspace, its home,
//! its caches and its start-up files stays there, and the naive gate runs in the middle of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::sh::{self, Context, Error, Result};

/// Where the workspace and the home are in the agent's machine, as in a cell.
pub const WORKSPACE: &str = "/workspace";
pub const HOME: &str = "/home/agent";

/// Where scripts find the base's fix.
pub const FIX: &str = "/run/bench/fix.sh";

/// Nothing here takes that long; a watchdog, no promise of speed.
const WATCHDOG: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);

/// The directories of the host that an agent's machine can read.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// Toolchains at their own paths, with a `bin`.
    pub toolchains: Vec<PathBuf>,
    /// Download caches: on the host, in the machine.
    pub caches: Vec<(PathBuf, String)>,
}

/// One agent's machine.
#[derive(Debug)]
pub struct Container {
    root: PathBuf,
    tools: Tools,
    /// Directories of the host that stand read-only in the workspace: nobody copies thousands of files that nobody changes.
    shared: Vec<(PathBuf, String)>,
}

impl Container {
    /// Makes an empty machine at `root`.
    pub fn new(root: &Path, tools: &Tools) -> Result<Self> {
        sh::remove_tree(root)?;
        for dir in ["workspace", "home/agent", "tmp", "run/bench"] {
            std::fs::create_dir_all(root.join(dir)).context(root.display())?;
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)).context(root.display())?;
        }
        Ok(Self { root: root.to_path_buf(), tools: tools.clone(), shared: Vec::new() })
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// The environment that a set-up has made, for a workspace that does not write into it.
    pub fn share(&mut self, host: PathBuf, name: &str) {
        self.shared.push((host, format!("{WORKSPACE}/{name}")));
    }

    /// The base's true fix, for scripts that do more than that.
    pub fn add_fix(&self, fix: &Path) -> Result<()> {
        std::fs::copy(fix, self.root.join(FIX.trim_start_matches('/'))).context(fix.display())?;
        Ok(())
    }

    /// Runs `script` as the agent would, in the workspace.
    ///
    /// # Errors
    /// When it does not exit with 0.
    pub fn script(&self, script: &Path, log: &Path) -> Result<()> {
        std::fs::copy(script, self.root.join("run/bench/agent.sh")).context(script.display())?;
        match self.run(&["sh", "-eu", "/run/bench/agent.sh"], log)? {
            Some(0) => Ok(()),
            code => {
                Err(Error::new(format!("{} ended with {code:?}: see {}", script.display(), log.display())))
            }
        }
    }

    /// The naive gate: the check where the agent worked, in a shell that reads the agent's start-up file. True: exit code 0.
    pub fn naive(&self, check: &[String], log: &Path) -> Result<bool> {
        let mut argv = vec!["sh", "-c", "[ ! -f ~/.profile ] || . ~/.profile; exec \"$@\"", "naive"];
        argv.extend(check.iter().map(String::as_str));
        Ok(self.run(&argv, log)? == Some(0))
    }

    /// The same with the agent's processes alive: one sandbox for both, and a while for what they still do.
    pub fn live(&self, script: &Path, check: &[String], log: &Path) -> Result<bool> {
        std::fs::copy(script, self.root.join("run/bench/agent.sh")).context(script.display())?;
        let both = "sh -eu /run/bench/agent.sh || exit 99; \"$@\"; code=$?; sleep 2; exit $code";
        let mut argv = vec!["sh", "-c", both, "naive"];
        argv.extend(check.iter().map(String::as_str));
        match self.run(&argv, log)? {
            Some(99) => Err(Error::new(format!("{} failed: see {}", script.display(), log.display()))),
            code => Ok(code == Some(0)),
        }
    }

    /// Runs to the end in a sandbox of its own. None: killed, by a signal or by the watchdog.
    pub fn run(&self, argv: &[&str], log: &Path) -> Result<Option<i32>> {
        let mut command = Command::new("bwrap");
        command
            .args(["--unshare-all", "--die-with-parent", "--new-session", "--bind"])
            .arg(&self.root)
            .args(["/", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"])
            .args(["--proc", "/proc", "--dev", "/dev"]);
        let mut path = format!("{HOME}/.local/bin");
        for toolchain in &self.tools.toolchains {
            command.arg("--ro-bind").arg(toolchain).arg(toolchain);
            path.push_str(&format!(":{}/bin", toolchain.display()));
        }
        for (host, inside) in self.tools.caches.iter().chain(&self.shared) {
            command.arg("--ro-bind").arg(host).arg(inside);
        }
        path.push_str(":/usr/local/bin:/usr/bin:/bin");
        command.args(["--clearenv", "--setenv", "HOME", HOME, "--setenv", "PATH", &path]);
        for (key, value) in [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("USER", "agent")] {
            command.args(["--setenv", key, value]);
        }
        command.args(["--chdir", WORKSPACE]).args(argv);
        let file = || File::options().create(true).append(true).open(log).context(log.display());
        command.stdin(Stdio::null()).stdout(file()?).stderr(file()?);
        wait(&mut command)
    }
}

/// Runs a command to its end or to the watchdog's. None: it was killed.
pub fn wait(command: &mut Command) -> Result<Option<i32>> {
    let mut child = sh::Owned(command.spawn().context(command.get_program().display())?);
    let begun = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait().context("waiting for a child")? {
            return Ok(status.code());
        }
        if begun.elapsed() > WATCHDOG {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Copies a directory as it is: modes, links and times, which some cheats rest on.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    sh::run(
        Command::new("cp")
            .arg("--archive")
            .arg("--reflink=auto")
            .arg("--no-target-directory")
            .arg(from)
            .arg(to),
    )
}
