//! One job: a first process of its own pid namespace that reaps, and the command below it.
//!
//! The first process (`init`) stays outside of the job's cgroup, so that running out of memory cannot take it, and is
//! the parent that every orphan falls back to: the job is over when it has no child left.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::Write;
use std::os::fd::OwnedFd;

use countersign_types::{JobSpec, RunAs, Tier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, WaitStatus, pidfd_open, wait};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};
use serde::{Deserialize, Serialize};

use crate::canary::{self, CanaryPlan};
use crate::ids::AGENT;
use crate::root;
use crate::seccomp::Filters;
use crate::sys::{self, Forked};

/// How often orphans that died while nothing else happened are reaped.
const REAP_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Open files that a job starts with; it may raise this up to the hard limit, which is never changed.
const OPEN_FILES: u64 = 4096;
/// Exit code of the child when it could not become the command; the report says why.
const NOT_STARTED: i32 = 127;
/// Where programs are looked for when the job has no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What mapped root may do in its jobs: read and change any file of the cell.
pub const ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER);

/// What runs: a command, or the canary that looks around instead.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    Command(JobSpec),
    Canary(CanaryPlan),
}

/// The descriptors of a job, in the order in which they are sent.
#[derive(Debug)]
pub struct Channels {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// Where `Report`s go.
    pub report: OwnedFd,
    /// Closed by the supervisor (or by its death) when the job has to end.
    pub lifeline: OwnedFd,
    /// `cgroup.procs` files, opened by somebody who may move processes.
    pub cgroups: Vec<OwnedFd>,
    /// Processes that the cell's user may have in all, where no cgroup holds the job's own limit.
    pub processes: Option<u32>,
}

/// Lines that the job's processes write to the launcher.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    NotStarted {
        errno: i32,
        what: String,
    },
    Exited {
        code: i32,
        killed: u32,
    },
    Signaled {
        signal: i32,
        killed: u32,
    },
    /// Ended because the lifeline was cut.
    Cut {
        killed: u32,
    },
}

impl Report {
    pub fn send(&self, to: &OwnedFd) {
        let Ok(mut line) = serde_json::to_vec(self) else { return };
        line.push(b'\n');
        // The launcher is the only reader; when it is gone nobody needs the report.
        let sent = to.try_clone().map(|fd| std::fs::File::from(fd).write_all(&line));
        drop(sent);
    }
}

/// Runs a job to its end in the freshly forked first process.
pub fn run_init(tier: Tier, work: &Work, channels: Channels, filters: Option<&Filters>) -> ! {
    let native = tier != Tier::Host;
    if native {
        if let Err(error) = root::mount_proc() {
            Report::NotStarted { errno: error.raw_os_error(), what: "mounting /proc".to_owned() }
                .send(&channels.report);
            sys::exit_now(NOT_STARTED);
        }
    } else {
        // Orphans of this job come here, not to the supervisor.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    sys::wake_on_child_death();
    let command = match sys::fork(0) {
        Ok(Forked::Parent(pid)) => pid,
        Ok(Forked::Child) => become_command(native, work, channels, filters),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or_default();
            Report::NotStarted { errno, what: "forking".to_owned() }.send(&channels.report);
            sys::exit_now(NOT_STARTED);
        }
    };
    let Channels { stdout, stderr, report, lifeline, cgroups, processes: _ } = channels;
    drop((stdout, stderr, cgroups));
    let ended = wait_for(command, &lifeline);
    let killed = kill_rest(native);
    match ended {
        Some(status) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Report::Exited { code, killed },
            (None, signal) => Report::Signaled { signal: signal.unwrap_or_default(), killed },
        },
        None => Report::Cut { killed },
    }
    .send(&report);
    sys::exit_now(0);
}

/// Reaps until the command has ended (its status) or the lifeline is cut (None).
fn wait_for(command: Pid, lifeline: &OwnedFd) -> Option<WaitStatus> {
    let pidfd = pidfd_open(command, PidfdFlags::empty());
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == command {
                return Some(status);
            }
        }
        let mut fds = vec![PollFd::new(lifeline, PollFlags::IN)];
        if let Ok(pidfd) = &pidfd {
            fds.push(PollFd::new(pidfd, PollFlags::IN));
        }
        let polled = poll(&mut fds, Some(&REAP_EVERY));
        let cut = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        if cut && polled.is_ok() {
            return None;
        }
    }
}

/// Kills everything that is left of the job, reaps it, and returns how many living processes that were.
pub fn kill_rest(native: bool) -> u32 {
    let me = rustix::process::getpid();
    if reap_dead() {
        return 0;
    }
    if native {
        // The namespace holds this job and nothing else. kill(-1) is atomic: nothing forks its way out of it.
        let killed = processes(|_| true, me).len();
        drop(sys::kill_everybody());
        while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
        return u32::try_from(killed).unwrap_or(u32::MAX);
    }
    let mut killed = BTreeSet::new();
    loop {
        // Only our own children: their pids cannot be reused before we reap them. Their children come to us next.
        for pid in processes(|parent| parent == me.as_raw_nonzero().get(), me) {
            if rustix::process::kill_process(pid, Signal::KILL).is_ok() {
                killed.insert(pid.as_raw_nonzero().get());
            }
        }
        if matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) || reap_dead() {
            return u32::try_from(killed.len()).unwrap_or(u32::MAX);
        }
    }
}

/// Reaps what is dead. True when no child is left.
pub fn reap_dead() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return true,
            Ok(Some(_)) | Err(Errno::INTR) => {}
            _ => return false,
        }
    }
}

/// Processes that /proc shows, other than this one and zombies.
fn processes(of_parent: impl Fn(i32) -> bool, me: Pid) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name in parentheses may hold anything; the fields after the last one are the kernel's.
        let fields: Vec<&str> =
            stat.rsplit_once(") ").map(|(_, f)| f.split(' ').collect()).unwrap_or_default();
        let alive = fields.first().is_some_and(|state| *state != "Z" && *state != "X");
        alive && fields.get(1).and_then(|p| p.parse().ok()).is_some_and(&of_parent)
    })
    .filter_map(Pid::from_raw)
    .filter(|pid| *pid != me)
    .collect()
}

/// In the child: takes on the job's identity step by step and becomes the command.
fn become_command(native: bool, work: &Work, channels: Channels, filters: Option<&Filters>) -> ! {
    let report = match channels.report.try_clone() {
        Ok(report) => report,
        Err(_) => sys::exit_now(NOT_STARTED),
    };
    let failed = try_become(native, work, channels, filters);
    if let Some((error, what)) = failed {
        Report::NotStarted { errno: error.raw_os_error().unwrap_or_default(), what }.send(&report);
        sys::exit_now(NOT_STARTED);
    }
    sys::exit_now(0);
}

/// None: the canary has looked around and written what it saw. A command that was started never returns.
fn try_become(
    native: bool,
    work: &Work,
    channels: Channels,
    filters: Option<&Filters>,
) -> Option<(std::io::Error, String)> {
    let run_as = match work {
        Work::Command(spec) => spec.run_as,
        Work::Canary(_) => RunAs::User,
    };
    let stdin = match work {
        Work::Command(spec) => spec.stdin.as_slice(),
        Work::Canary(_) => &[],
    };
    if let Err((error, step)) = confine(native, run_as, stdin, &channels, filters) {
        return Some((error, step.to_owned()));
    }
    match work {
        Work::Canary(plan) => {
            let seen = serde_json::to_vec(&canary::look(plan)).unwrap_or_default();
            std::fs::File::from(channels.stdout).write_all(&seen).err().map(|e| (e, "reporting".to_owned()))
        }
        Work::Command(spec) => Some(exec_command(spec)),
    }
}

type Step = std::result::Result<(), (std::io::Error, &'static str)>;

trait Named {
    fn named(self, step: &'static str) -> Step;
}

impl<E: Into<std::io::Error>> Named for std::result::Result<(), E> {
    fn named(self, step: &'static str) -> Step {
        self.map_err(|e| (e.into(), step))
    }
}

fn confine(
    native: bool,
    run_as: RunAs,
    stdin: &[u8],
    channels: &Channels,
    filters: Option<&Filters>,
) -> Step {
    for group in &channels.cgroups {
        // Best effort: what holds is observed by the canary and read back by the launcher.
        let _ = rustix::io::write(group, b"0");
    }
    rustix::process::setsid().map(drop).named("making a session")?;
    let input = if stdin.is_empty() {
        root::null().map_err(|e| (e.into(), "opening /dev/null"))?
    } else {
        sealed(stdin).map_err(|e| (e.into(), "writing standard input"))?
    };
    rustix::stdio::dup2_stdin(&input).named("setting standard input")?;
    rustix::stdio::dup2_stdout(&channels.stdout).named("setting standard output")?;
    rustix::stdio::dup2_stderr(&channels.stderr).named("setting standard error")?;
    limits(channels.processes.filter(|_| native)).named("setting limits")?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    if native {
        let (id, capabilities) = match run_as {
            RunAs::User => (AGENT, CapabilitySet::empty()),
            RunAs::Root => (0, ROOT_CAPABILITIES),
        };
        become_user(id, capabilities).named("changing the user")?;
    } else {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .named("binding to the supervisor")?;
    }
    if let Some(filters) = filters {
        filters.apply().named("filtering system calls")?;
    }
    sys::close_on_exec_from(3).named("closing descriptors")?;
    sys::reset_signals();
    Ok(())
}

/// A file without a name that holds exactly these bytes, and that nobody can change.
fn sealed(bytes: &[u8]) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let file = rustix::fs::memfd_create(c"stdin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file)
}

/// Core dumps off; open files at a sane soft limit. Hard limits are only ever left as they are.
fn limits(processes: Option<u32>) -> rustix::io::Result<()> {
    if let Some(most) = processes.map(u64::from) {
        let most = rustix::process::getrlimit(Resource::Nproc).maximum.map_or(most, |hard| hard.min(most));
        rustix::process::setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let files = rustix::process::getrlimit(Resource::Nofile);
    let current = Some(files.maximum.map_or(OPEN_FILES, |hard| hard.min(OPEN_FILES)));
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current, maximum: files.maximum })
}

/// Becomes `id` with exactly these capabilities, in the bounding set too, so that no exec can give more.
pub fn become_user(id: u32, capabilities: CapabilitySet) -> rustix::io::Result<()> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1_u64 << number);
        if capabilities.contains(one) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Above the kernel's last capability.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    rustix::thread::set_thread_groups(&[])?;
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets {
        effective: capabilities,
        permitted: capabilities,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)
}

fn exec_command(spec: &JobSpec) -> (std::io::Error, String) {
    if let Err(error) = rustix::process::chdir(spec.cwd.as_str()) {
        return (error.into(), format!("entering the directory {}", spec.cwd));
    }
    let Some(program) = spec.argv.first() else {
        return (Errno::INVAL.into(), "an empty command line".to_owned());
    };
    let strings = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(CString::new).collect::<std::result::Result<Vec<_>, _>>()
    };
    let argv = strings(&mut spec.argv.iter().cloned());
    let env = strings(&mut spec.env.iter().map(|(k, v)| format!("{k}={v}")));
    let (Ok(argv), Ok(env)) = (argv, env) else {
        return (Errno::INVAL.into(), "a NUL byte in the command line or environment".to_owned());
    };
    // EACCES of one candidate is remembered, as execvp does: a later candidate may still work.
    let mut failure = std::io::Error::from(Errno::NOENT);
    for candidate in candidates(program, spec.env.get("PATH").map(String::as_str)) {
        let Ok(path) = CString::new(candidate) else { continue };
        let error = sys::exec(&path, &argv, &env);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => failure = error,
            _ => return (error, format!("starting {program}")),
        }
    }
    (failure, format!("starting {program}"))
}

fn candidates(program: &str, path: Option<&str>) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    let directories = path.unwrap_or(DEFAULT_PATH).split(':');
    directories
        .map(|d| if d.is_empty() { format!("./{program}") } else { format!("{d}/{program}") })
        .collect()
}

/// Reads the reports that have arrived.
pub fn parse_reports(bytes: &[u8]) -> Vec<Report> {
    bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_without_a_slash_are_looked_up_in_the_jobs_own_path() {
        assert_eq!(candidates("a", Some("/x::/y")), ["/x/a", "./a", "/y/a"]);
        assert_eq!(candidates("./a", Some("/x")), ["./a"]);
        assert_eq!(candidates("a", None), ["/usr/local/bin/a", "/usr/bin/a", "/bin/a"]);
    }

    #[test]
    fn reports_survive_the_pipe() {
        let all =
            [Report::NotStarted { errno: 2, what: "x\ny".to_owned() }, Report::Exited { code: 3, killed: 1 }];
        let text: Vec<u8> =
            all.iter().flat_map(|r| [serde_json::to_vec(r).unwrap(), b"\n".to_vec()].concat()).collect();
        assert_eq!(parse_reports(&text), all);
    }
}
