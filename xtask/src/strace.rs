//! What a run of `countersign` asks of the kernel, seen by strace: the controller executes nothing but our launcher, and opens
//! nothing that the agent made. What happens inside cells is not the controller's; who is who is told by descent: every thread and
//! child of the first process is the controller's until it executes the launcher.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sh::{self, Context, Error, Result};

/// Calls that start programs, make processes or open files.
const CALLS: &str = "trace=execve,execveat,open,openat,openat2,creat,clone,clone3,fork,vfork";

/// Why no run can be traced here, if none can.
#[must_use]
pub fn why_not() -> Option<String> {
    let Some(program) = sh::which("strace") else {
        return Some("strace is not here: run `cargo xtask setup`".to_owned());
    };
    let mut probe = Command::new(program);
    probe
        .args(["-f", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (!sh::succeeds(&mut probe)).then(|| "this machine does not let strace trace".to_owned())
}

/// The same command under strace, one file for each thread in `dir`, which is made.
///
/// # Errors
/// When `dir` cannot be made.
pub fn traced(command: &Command, dir: &Path) -> Result<Command> {
    std::fs::create_dir_all(dir).context(dir.display())?;
    let mut traced = Command::new("strace");
    // Paths are printed whole whatever -s says; -y shows where a descriptor really leads.
    traced.args(["-ff", "-qq", "-y", "-e", CALLS, "-e", "signal=none", "-o"]).arg(dir.join("t"));
    traced.arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        traced.current_dir(dir);
    }
    Ok(traced)
}

/// What the controller may do.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The program that was traced.
    pub program: PathBuf,
    /// The launcher.
    pub launcher: PathBuf,
    /// Files and directories of the agent. A directory may be opened as such, to mount it; nothing below it may be.
    pub agents: Vec<PathBuf>,
}

/// What was seen. `wrong` is empty when the rules were kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Threads and children of the controller.
    pub threads: usize,
    /// Times that it executed the launcher.
    pub launches: usize,
    /// Files that it opened.
    pub opened: usize,
    /// Files that were opened below `/workspace` by anybody: by the guest and by jobs.
    pub in_cells: usize,
    pub wrong: Vec<String>,
}

/// One call of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Execute {
        path: PathBuf,
        done: bool,
    },
    /// `place`: it can only be used to look below it or to mount it, not to be read.
    Open {
        path: PathBuf,
        resolved: Option<PathBuf>,
        place: bool,
    },
    /// A new thread or process, by its number.
    Child(u32),
}

/// Reads what [`traced`] wrote.
///
/// # Errors
/// When the files cannot be read, or none begins with the program that was traced.
pub fn seen(dir: &Path, rules: &Rules) -> Result<Seen> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(dir).context(dir.display())? {
        let path = entry.context(dir.display())?.path();
        let Some(number) = path.extension().and_then(|end| end.to_str()?.parse::<u32>().ok()) else {
            continue;
        };
        let bytes = std::fs::read(&path).context(path.display())?;
        let calls: Vec<Call> = String::from_utf8_lossy(&bytes).lines().filter_map(call).collect();
        threads.insert(number, calls);
    }
    judged(&threads, rules)
}

fn judged(threads: &BTreeMap<u32, Vec<Call>>, rules: &Rules) -> Result<Seen> {
    let starts = |calls: &Vec<Call>| matches!(calls.first(), Some(Call::Execute { path, done: true }) if *path == rules.program);
    let roots: Vec<u32> =
        threads.iter().filter(|(_, calls)| starts(calls)).map(|(number, _)| *number).collect();
    let [root] = roots.as_slice() else {
        return Err(Error::new(format!("{} traced processes are {}", roots.len(), rules.program.display())));
    };
    let mut seen = Seen::default();
    let mut known = BTreeSet::from([*root]);
    let mut open = vec![*root];
    while let Some(thread) = open.pop() {
        seen.threads += 1;
        // The first call of the first process is the one that began it.
        let skipped = usize::from(thread == *root);
        for call in threads.get(&thread).into_iter().flatten().skip(skipped) {
            match call {
                Call::Child(child) => {
                    if known.insert(*child) {
                        open.push(*child);
                    }
                }
                Call::Execute { path, done } => {
                    if *path != rules.launcher {
                        seen.wrong.push(format!("it executed {}", path.display()));
                    }
                    if *done {
                        seen.launches += 1;
                        break;
                    }
                }
                Call::Open { path, resolved, place } => {
                    seen.opened += usize::from(resolved.is_some());
                    // A name that was not there would have been opened too.
                    for path in std::iter::once(path).chain(resolved) {
                        if agents(path, *place, rules) {
                            seen.wrong.push(format!("it opened {}", path.display()));
                        }
                    }
                }
            }
        }
    }
    let inside = |call: &&Call| matches!(call, Call::Open { resolved: Some(path), .. } if path.starts_with("/workspace/"));
    seen.in_cells = threads.values().flatten().filter(inside).count();
    Ok(seen)
}

/// Is it the agent's: below one of its directories, or in a working directory or home of a cell?
fn agents(path: &Path, place: bool, rules: &Rules) -> bool {
    let own = |agents: &PathBuf| path.starts_with(agents) && !(place && path == agents);
    if rules.agents.iter().any(own) || path.starts_with("/workspace") {
        return true;
    }
    let names: Vec<&str> = path
        .components()
        .filter_map(|part| if let Component::Normal(name) = part { name.to_str() } else { None })
        .collect();
    names.windows(4).any(|four| matches!(four, ["cells", _, "workspace" | "home", _]))
}

/// One line of a trace; None for what says nothing of interest (an exit, a call that failed to make a process).
fn call(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (_, result) = rest.rsplit_once(" = ").unwrap_or((rest, "?"));
    let number: Option<u32> = result.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    match name {
        "clone" | "clone3" | "fork" | "vfork" => number.filter(|number| *number > 0).map(Call::Child),
        "execve" | "execveat" => Some(Call::Execute { path: path(rest)?, done: number == Some(0) }),
        "open" | "openat" | "openat2" | "creat" => {
            let resolved = number.and(result.split_once('<')).and_then(|(_, to)| to.rsplit_once('>'));
            let place = rest.contains("O_DIRECTORY") || rest.contains("O_PATH");
            Some(Call::Open { path: path(rest)?, resolved: resolved.map(|(to, _)| unescaped(to)), place })
        }
        _ => None,
    }
}

/// The path that a call names: its first string, below the directory of the descriptor in front of it. With an empty string it is
/// the descriptor's own.
fn path(arguments: &str) -> Option<PathBuf> {
    let (before, from) = arguments.split_once('"')?;
    let mut escaped = false;
    let end = from.find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    let named = unescaped(from.get(..end)?);
    let dir = before.split_once('<').and_then(|(_, dir)| dir.rsplit_once('>')).map(|(dir, _)| unescaped(dir));
    let whole = dir.unwrap_or_default().join(&named);
    // Without the slash that joining an empty name leaves, and without `.` and `..`, which no link is resolved for here.
    let mut plain = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

/// strace's spelling of bytes: C escapes, octal or hexadecimal.
fn unescaped(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let Some((kind, after)) = rest.split_first() else { break };
        let (byte, used) = match kind {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'v' => (0x0b, 1),
            b'f' => (0x0c, 1),
            b'x' => number(after, 16, 2, 1),
            b'0'..=b'7' => number(rest, 8, 3, 0),
            other => (*other, 1),
        };
        bytes.push(byte);
        rest = rest.get(used..).unwrap_or_default();
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// At most so many digits, and how many bytes they and `before` are.
fn number(digits: &[u8], radix: u32, most: usize, before: usize) -> (u8, usize) {
    let values: Vec<u32> =
        digits.iter().take(most).map_while(|digit| char::from(*digit).to_digit(radix)).collect();
    let value = values.iter().fold(0, |value, digit| value * radix + digit);
    (u8::try_from(value & 0xff).unwrap_or_default(), before + values.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            program: "/b/countersign".into(),
            launcher: "/b/countersign-jail".into(),
            agents: vec!["/agent/tree".into()],
        }
    }

    fn judge(threads: &[(u32, &str)]) -> Seen {
        let threads =
            threads.iter().map(|(number, text)| (*number, text.lines().filter_map(call).collect())).collect();
        judged(&threads, &rules()).unwrap()
    }

    const ROOT: &str = "execve(\"/b/countersign\", [\"countersign\", \"run\"], 0x7 /* 9 vars */) = 0\n\
        clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0}, 88) = 11\n\
        clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 12\n\
        openat(AT_FDCWD</w>, \"home/db\", O_RDWR|O_CREAT, 0600) = 9</w/home/db>\n";
    const LAUNCH: &str = "execve(\"/b/countersign-jail\", [\"countersign-jail\"], 0x5 /* 0 vars */) = 0\n\
        clone(child_stack=NULL, flags=CLONE_NEWPID|SIGCHLD) = 13\n\
        openat(AT_FDCWD</>, \"/agent/tree/x\", O_RDONLY) = 3</agent/tree/x>\n";
    const INSIDE: &str = "execveat(26</b/countersign-guest>, \"\", [\"countersign-guest\"], 0x2, AT_EMPTY_PATH) = 0\n\
        openat(6</workspace>, \"answer\", O_RDONLY) = 9</workspace/answer>\n\
        execve(\"/usr/bin/git\", [\"git\"], 0x3 /* 2 vars */) = 0\n";

    #[test]
    fn cells_are_told_from_the_controller_by_descent() {
        let seen = judge(&[(10, ROOT), (11, ""), (12, LAUNCH), (13, INSIDE)]);
        assert_eq!(seen.wrong, Vec::<String>::new());
        assert_eq!((seen.threads, seen.launches, seen.opened, seen.in_cells), (3, 1, 1, 1));
    }

    #[test]
    fn every_breach_of_the_controller_is_found() {
        for (breach, told) in [
            ("execve(\"/usr/bin/git\", [\"git\"], 0x3 /* 2 vars */) = 0", "executed /usr/bin/git"),
            // A program that was tried and not found would have been executed elsewhere.
            (
                "execve(\"/opt/git\", [\"git\"], 0x3) = -1 ENOENT (No such file or directory)",
                "executed /opt/git",
            ),
            ("execveat(5</agent/tree/x>, \"\", [\"x\"], 0x3, AT_EMPTY_PATH) = 0", "executed /agent/tree/x"),
            ("openat(AT_FDCWD</w>, \"/agent/tree/a\", O_RDONLY) = 3</agent/tree/a>", "opened /agent/tree/a"),
            (
                "openat(AT_FDCWD</agent/tree>, \"a\", O_RDONLY) = -1 ENOENT (No such file)",
                "opened /agent/tree/a",
            ),
            ("openat(7</agent/tree/d>, \"a\", O_RDONLY) = 3</agent/tree/d/a>", "opened /agent/tree/d/a"),
            (
                "openat(AT_FDCWD</w>, \"../agent/tree/a\", O_RDONLY) = 3</agent/tree/a>",
                "opened /agent/tree/a",
            ),
            // A name of ours that leads to the agent's.
            ("open(\"/w/link\", O_RDONLY) = 3</agent/tree/a>", "opened /agent/tree/a"),
            (
                "openat(AT_FDCWD</w>, \"/agent/tr\\145e/\\\"\", O_RDONLY) = 3</agent/tree/\\42>",
                "opened /agent/tree/\"",
            ),
            (
                "openat2(4</h/cells/c1>, \"workspace/x\", {flags=O_RDONLY}, 24) = 5</h/cells/c1/workspace/x>",
                "opened /h/cells/c1/workspace/x",
            ),
            (
                "creat(\"/h/cells/c1/home/.bashrc\", 0644) = 5</h/cells/c1/home/.bashrc>",
                "cells/c1/home/.bashrc",
            ),
            (
                "open(\"/workspace/x\", O_RDONLY) = -1 ENOENT (No such file or directory)",
                "opened /workspace/x",
            ),
        ] {
            // In a thread, and in a child before it becomes the launcher.
            let early = format!("{breach}\n{LAUNCH}");
            for threads in
                [[(10, ROOT), (11, breach), (12, LAUNCH)], [(10, ROOT), (11, ""), (12, early.as_str())]]
            {
                let seen = judge(&threads);
                assert!(seen.wrong.iter().any(|wrong| wrong.contains(told)), "{breach}: {seen:?}");
            }
            let seen = judge(&[(10, ROOT), (11, ""), (12, LAUNCH), (13, breach)]);
            assert_eq!(seen.wrong, Vec::<String>::new(), "a cell may do it: {breach}");
        }
        let dir = "openat(AT_FDCWD</w>, \"/agent/tree\", O_RDONLY|O_DIRECTORY) = 3</agent/tree>";
        assert_eq!(judge(&[(10, ROOT), (11, dir), (12, LAUNCH)]).wrong, Vec::<String>::new(), "to mount it");
    }

    #[test]
    fn a_trace_of_something_else_proves_nothing() {
        let other = BTreeMap::from([(10, LAUNCH.lines().filter_map(call).collect())]);
        assert!(judged(&other, &rules()).is_err());
    }
}
