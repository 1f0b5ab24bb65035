//! The cell's first process. It builds the root file system, starts the guest and each job's first process, and tells
//! the launcher when one is gone. In the native tier its death is the death of everything in the cell.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use countersign_types::Tier;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, wait, waitpid};
use rustix::thread::{Gid, Uid};
use serde::{Deserialize, Serialize};

use crate::error::{Context, JailError, Result};
use crate::job::{self, Channels, ROOT_CAPABILITIES, Report, Work};
use crate::layout::Item;
use crate::root;
use crate::seccomp::Filters;
use crate::sys::{self, Forked};
use crate::wire::{self, Fill, Receiver};

/// From the launcher. Descriptors ride along in the order that is named here.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// One descriptor for each `Item::Mount`.
    Place { items: Vec<Item> },
    /// The guest's program, its channel and its standard error. Enters the cell and starts the guest.
    Enter { tmp_limit: u64, network: bool },
    /// stdout, stderr, report, then `cgroups` many `cgroup.procs`.
    Start { index: u64, work: Box<Work>, cgroups: usize, processes: Option<u32> },
    /// Ask the job's first process to kill the job and report.
    Cut { index: u64 },
    /// Kill the job's first process, and with its namespace the job.
    Kill { index: u64 },
}

/// To the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub enum Notice {
    Entered,
    Failed {
        why: String,
    },
    /// No process of the job exists any more.
    Gone {
        index: u64,
    },
    GuestGone {
        how: String,
    },
}

/// Paths and arguments that the guest gets.
#[derive(Clone, Debug)]
pub struct GuestPlan {
    pub workspace: String,
    pub home: String,
    /// Whom the files that it makes belong to; 0: itself.
    pub user: u32,
}

#[derive(Debug)]
struct Running {
    init: Pid,
    pidfd: OwnedFd,
    lifeline: Option<OwnedFd>,
}

#[derive(Debug)]
struct Supervisor {
    tier: Tier,
    control: Option<OwnedFd>,
    receiver: Receiver,
    filters: Option<Filters>,
    guest: GuestPlan,
    running_guest: Option<(Pid, OwnedFd)>,
    jobs: BTreeMap<u64, Running>,
    placed: Vec<(Item, Option<OwnedFd>)>,
}

/// Runs until the launcher is gone, then ends with everything below it. The exit code is the number of survivors.
pub fn run(tier: Tier, control: OwnedFd, filters: Option<Filters>, guest: GuestPlan) -> ! {
    let mut supervisor = Supervisor {
        tier,
        control: Some(control),
        receiver: Receiver::default(),
        filters,
        guest,
        running_guest: None,
        jobs: BTreeMap::new(),
        placed: vec![],
    };
    if let Err(error) = supervisor.serve() {
        supervisor.tell(&Notice::Failed { why: error.to_string() });
    }
    if tier == Tier::Host {
        // Cutting every lifeline makes each job kill itself; what is left then is the guest and what it started.
        supervisor.jobs.values_mut().for_each(|running| running.lifeline = None);
        for running in supervisor.jobs.values() {
            let _ = waitpid(Some(running.init), WaitOptions::empty());
        }
        job::kill_rest(false);
    }
    sys::exit_now(0);
}

impl Supervisor {
    fn tell(&self, notice: &Notice) {
        // When the launcher is gone there is nobody to tell, and the next read ends this process.
        if let Some(control) = &self.control {
            drop(wire::send(control.as_fd(), notice, &[]));
        }
    }

    fn serve(&mut self) -> Result<()> {
        sys::wake_on_child_death();
        loop {
            let Some(control) = &self.control else { return Ok(()) };
            let mut fds = vec![PollFd::new(control, PollFlags::IN)];
            fds.extend(self.jobs.values().map(|running| PollFd::new(&running.pidfd, PollFlags::IN)));
            fds.extend(self.running_guest.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)));
            let polled = poll(&mut fds, None);
            let readable = polled.is_ok() && fds.first().is_some_and(|fd| !fd.revents().is_empty());
            drop(fds);
            self.reap();
            if readable {
                let Some(control) = &self.control else { return Ok(()) };
                if self.receiver.fill(control.as_fd())? == Fill::Eof {
                    return Ok(());
                }
                while let Some(frame) = self.receiver.next_frame()? {
                    let order =
                        serde_json::from_slice(&frame).map_err(|e| JailError::Protocol(e.to_string()))?;
                    self.obey(order)?;
                }
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if self.running_guest.as_ref().is_some_and(|(guest, _)| *guest == pid) {
                self.running_guest = None;
                let how = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, signal) => format!("signal {}", signal.unwrap_or_default()),
                };
                self.tell(&Notice::GuestGone { how });
            }
            let index = self.jobs.iter().find(|(_, running)| running.init == pid).map(|(index, _)| *index);
            if let Some(index) = index {
                self.jobs.remove(&index);
                self.tell(&Notice::Gone { index });
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Place { items } => {
                for item in items {
                    let tree =
                        matches!(item, Item::Mount { .. }).then(|| self.receiver.next_fd()).transpose()?;
                    self.placed.push((item, tree));
                }
            }
            Order::Enter { tmp_limit, network } => {
                let (program, channel) = (self.receiver.next_fd()?, self.receiver.next_fd()?);
                let errors = self.receiver.next_fd()?;
                if self.tier == Tier::Host {
                    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                        .context(|| "becoming the parent of orphans".to_owned())?;
                } else {
                    self.enter(tmp_limit, network)?;
                }
                self.start_guest(&program, [&channel, &errors])?;
                self.tell(&Notice::Entered);
            }
            Order::Start { index, work, cgroups, processes } => {
                let (stdout, stderr) = (self.receiver.next_fd()?, self.receiver.next_fd()?);
                let report = self.receiver.next_fd()?;
                let cgroups = (0..cgroups).map(|_| self.receiver.next_fd()).collect::<Result<Vec<_>>>()?;
                let (lifeline, held) =
                    pipe_with(PipeFlags::CLOEXEC).context(|| "making a pipe".to_owned())?;
                let channels = Channels { stdout, stderr, report, lifeline, cgroups, processes };
                self.start_job(index, &work, channels, held)?;
            }
            Order::Cut { index } => {
                if let Some(running) = self.jobs.get_mut(&index) {
                    running.lifeline = None;
                }
            }
            Order::Kill { index } => {
                if let Some(running) = self.jobs.get(&index) {
                    let _ = rustix::process::pidfd_send_signal(&running.pidfd, Signal::KILL);
                }
            }
        }
        Ok(())
    }

    /// Becomes root of the cell and builds the cell's file system.
    fn enter(&mut self, tmp_limit: u64, network: bool) -> Result<()> {
        let (uid, gid) = (Uid::ROOT, Gid::ROOT);
        rustix::thread::set_thread_groups(&[]).context(|| "dropping groups".to_owned())?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)
            .context(|| "becoming the cell's root group".to_owned())?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
            .context(|| "becoming the cell's root".to_owned())?;
        // After the change of ids, which clears it. A launcher that died before shows as the end of its socket.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .context(|| "binding to the launcher".to_owned())?;
        rustix::system::sethostname(b"cell").context(|| "naming the cell".to_owned())?;
        if network {
            sys::loopback_up().context(|| "turning the loopback device on".to_owned())?;
        }
        root::enter(std::mem::take(&mut self.placed), tmp_limit)
    }

    fn start_guest(&mut self, program: &OwnedFd, streams: [&OwnedFd; 2]) -> Result<()> {
        let strings = |texts: &[String]| {
            texts.iter().map(|t| CString::new(t.as_str())).collect::<std::result::Result<Vec<_>, _>>()
        };
        let argv = strings(&[
            "countersign-guest".to_owned(),
            "--workspace".to_owned(),
            self.guest.workspace.clone(),
            "--home".to_owned(),
            self.guest.home.clone(),
            "--user".to_owned(),
            self.guest.user.to_string(),
        ]);
        let env = strings(&[
            "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
            // What it runs must not read settings from a directory that jobs write to.
            "HOME=/nonexistent".to_owned(),
            "LC_ALL=C.UTF-8".to_owned(),
        ]);
        let (Ok(argv), Ok(env)) = (argv, env) else {
            return Err(JailError::Protocol("a NUL byte in a path".to_owned()));
        };
        // A pipe that exec closes tells whether the guest was started.
        let (failure, told) = pipe_with(PipeFlags::CLOEXEC).context(|| "making a pipe".to_owned())?;
        match sys::fork(0).context(|| "forking for the guest".to_owned())? {
            Forked::Child => {
                let error = self.become_guest(program, streams, &argv, &env);
                let _ = rustix::io::write(&told, error.to_string().as_bytes());
                sys::exit_now(1);
            }
            Forked::Parent(pid) => {
                let pidfd =
                    pidfd_open(pid, PidfdFlags::empty()).context(|| "watching the guest".to_owned())?;
                self.running_guest = Some((pid, pidfd));
            }
        }
        drop(told);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::fs::File::from(failure), &mut text)
            .context(|| "waiting for the guest".to_owned())?;
        if text.is_empty() {
            Ok(())
        } else {
            Err(JailError::Protocol(format!("the guest cannot be started: {text}")))
        }
    }

    fn become_guest(
        &self,
        program: &OwnedFd,
        [channel, errors]: [&OwnedFd; 2],
        argv: &[CString],
        env: &[CString],
    ) -> std::io::Error {
        let ready = || -> std::io::Result<()> {
            let null = root::null().map_err(root::about_null)?;
            rustix::stdio::dup2_stdin(channel)?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(errors)?;
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
            if self.tier == Tier::Host {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            } else {
                job::become_user(0, ROOT_CAPABILITIES)?;
            }
            if let Some(filters) = &self.filters {
                filters.apply()?;
            }
            sys::close_on_exec_from(3)?;
            sys::reset_signals();
            Ok(())
        };
        match ready() {
            Ok(()) => sys::exec_fd(program.as_fd(), argv, env),
            Err(error) => error,
        }
    }

    fn start_job(&mut self, index: u64, work: &Work, channels: Channels, held: OwnedFd) -> Result<()> {
        let namespaces = if self.tier == Tier::Host { 0 } else { libc::CLONE_NEWPID | libc::CLONE_NEWNS };
        match sys::fork(namespaces) {
            Ok(Forked::Child) => {
                // A job must hold neither its own lifeline nor anybody else's, nor the way to the launcher.
                drop(held);
                self.jobs.clear();
                self.control = None;
                job::run_init(self.tier, work, channels, self.filters.as_ref())
            }
            Ok(Forked::Parent(init)) => {
                let pidfd = pidfd_open(init, PidfdFlags::empty()).context(|| "watching a job".to_owned())?;
                self.jobs.insert(index, Running { init, pidfd, lifeline: Some(held) });
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or_default();
                Report::NotStarted { errno, what: "forking".to_owned() }.send(&channels.report);
                self.tell(&Notice::Gone { index });
            }
        }
        Ok(())
    }
}
