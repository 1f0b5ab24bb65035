//! Running other programs, and talking to the person at the terminal.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What went wrong and what to do about it, as one text for a person.
#[derive(Debug)]
pub struct Error(String);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Adds where an I/O error happened.
pub trait Context<T> {
    /// # Errors
    /// The same error with `what` in front of it.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Error(format!("{what}: {error}")))
    }
}

/// One line for a person, on stderr. A closed stderr is not an error here: there is nobody left to tell.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// One line of data, on stdout.
///
/// # Errors
/// When stdout is closed or full.
pub fn print(line: &str) -> Result<()> {
    writeln!(io::stdout().lock(), "{line}").context("writing to stdout")
}

/// A command line as a person would type it (for messages only; never given to a shell).
#[must_use]
pub fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        let arg = arg.to_string_lossy();
        if arg.is_empty() || arg.contains(|c: char| c.is_whitespace() || "'\"$&|;<>*?()".contains(c)) {
            text.push_str(&format!("'{}'", arg.replace('\'', "'\\''")));
        } else {
            text.push_str(&arg);
        }
    }
    text
}

/// Runs to the end with our terminal.
///
/// # Errors
/// When the program cannot be started or does not exit with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(Error(format!("`{}` ended with {status}", shown(command)))) }
}

/// Runs to the end and gives its stdout.
///
/// # Errors
/// When the program cannot be started, does not exit with 0 (its stderr is in the text), or prints no UTF-8.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(Error(format!(
            "`{}` ended with {}\n{}",
            shown(command),
            output.status,
            stderr.trim_end()
        )));
    }
    String::from_utf8(output.stdout).context(format!("output of `{}`", shown(command)))
}

/// True when the program starts and exits with 0; its output is thrown away.
#[must_use]
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn not_started(command: &Command, error: &io::Error) -> Error {
    Error(format!("`{}` could not be started: {error}", shown(command)))
}

/// The first file of this name on `PATH`.
#[must_use]
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Removes a directory tree if it is there.
///
/// # Errors
/// When something of it cannot be removed.
pub fn remove_tree(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error(format!("removing {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Copies a directory tree of files, directories and symlinks.
///
/// # Errors
/// On the first entry that cannot be read or written.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).context(to.display())?;
    for entry in std::fs::read_dir(from).context(from.display())? {
        let entry = entry.context(from.display())?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().context(source.display())?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            let link = std::fs::read_link(&source).context(source.display())?;
            std::os::unix::fs::symlink(link, &target).context(target.display())?;
        } else {
            std::fs::copy(&source, &target).context(source.display())?;
        }
    }
    Ok(())
}

/// git without the user's and the system's configuration, hooks or prompts, with a fixed identity and clock: the same
/// content gives the same commit everywhere.
#[must_use]
pub fn plain_git(dir: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .args(["-c", "user.name=Countersign set-up", "-c", "user.email=setup@localhost"])
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "core.autocrlf=false",
        ]);
    git
}

/// Makes `dir` a repository with everything in it as one commit.
///
/// # Errors
/// When git fails.
pub fn commit_all(dir: &Path, message: &str) -> Result<()> {
    run(plain_git(dir).args(["init", "--quiet"]))?;
    run(plain_git(dir).args(["add", "--all", "--force"]))?;
    run(plain_git(dir).args(["commit", "--quiet", "--no-gpg-sign", "-m", message]))
}

/// A child that is killed by its id and awaited when this goes out of scope.
#[derive(Debug)]
pub struct Owned(pub std::process::Child);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `KEY=VALUE` settings given to every stage.
pub type Env = Vec<(&'static str, PathBuf)>;

/// A command with settings applied.
pub fn with_env(program: impl AsRef<OsStr>, env: &Env) -> Command {
    let mut command = Command::new(program);
    command.envs(env.iter().map(|(key, value)| (*key, value)));
    command
}

/// Every file below a directory, by its path from there, sorted. Links are files.
///
/// # Errors
/// When a directory cannot be read.
pub fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(root.join(&dir)).context(dir.display())? {
            let entry = entry.context(dir.display())?;
            let path = dir.join(entry.file_name());
            if entry.file_type().context(path.display())?.is_dir() {
                todo.push(path);
            } else {
                out.push(path);
            }
        }
    }
    out.sort();
    Ok(out)
}
