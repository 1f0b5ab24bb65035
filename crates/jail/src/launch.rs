//! Makes a cell: ids, namespaces, mounts, supervisor. What cannot be had is said with its fix.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use countersign_types::{CellLaunch, Tier};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::delete;
use crate::error::{Context, JailError, Result};
use crate::ids::{self, Ids};
use crate::layout::{self, HOME, Item, Placed, WORKSPACE};
use crate::seccomp::Filters;
use crate::supervisor::{self, GuestPlan, Notice, Order};
use crate::sys::{self, Forked};
use crate::wire::{self, Fill, MAX_FDS, Receiver};

/// A cell that stands: its supervisor runs and its guest was started.
#[derive(Debug)]
pub struct Standing {
    pub supervisor: Pid,
    pub socket: OwnedFd,
    pub receiver: Receiver,
    pub native: Option<Native>,
    /// What the guest writes to standard error: its last words, should it die.
    pub guest_errors: Option<OwnedFd>,
}

/// What only the native tier has.
#[derive(Debug)]
pub struct Native {
    userns: OwnedFd,
    /// Removed when the canary has looked.
    pub secret: Option<Secret>,
}

/// A file outside of the cell that every user of the host may read: the canary must not find it.
#[derive(Debug)]
pub struct Secret(pub PathBuf);

impl Drop for Secret {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// Makes the cell up to the point where jobs can be started.
pub fn launch(tier: Tier, launch: &CellLaunch, channel: &OwnedFd) -> Result<Standing> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let guest = rustix::fs::openat(CWD, &launch.guest, flags, Mode::empty())
        .context(|| format!("opening the guest {}", launch.guest.display()))?;
    let mut standing = if tier == Tier::Host { host(launch)? } else { native(launch)? };
    let enter = Order::Enter { tmp_limit: launch.tmp_limit, network: !launch.host_network };
    let (errors, written) = pipe_with(PipeFlags::CLOEXEC).context(|| "making a pipe".to_owned())?;
    wire::send(standing.socket.as_fd(), &enter, &[guest.as_fd(), channel.as_fd(), written.as_fd()])?;
    standing.guest_errors = Some(errors);
    match answer(&mut standing)? {
        Notice::Entered => Ok(standing),
        Notice::Failed { why } => Err(JailError::Unavailable { why, fix: ids::userns_fix() }),
        Notice::Gone { .. } | Notice::GuestGone { .. } => {
            Err(JailError::Protocol("the supervisor spoke out of turn".to_owned()))
        }
    }
}

fn answer(standing: &mut Standing) -> Result<Notice> {
    loop {
        if let Some(frame) = standing.receiver.next_frame()? {
            return serde_json::from_slice(&frame).map_err(|e| JailError::Protocol(e.to_string()));
        }
        if standing.receiver.fill(standing.socket.as_fd())? == Fill::Eof {
            return Err(JailError::Protocol("the supervisor died while the cell was made".to_owned()));
        }
    }
}

fn host(launch: &CellLaunch) -> Result<Standing> {
    let (workspace, home) = (launch.state_dir.join("workspace"), launch.state_dir.join("home"));
    for path in [&workspace, &home] {
        fs::create_dir_all(path).context(|| format!("making {}", path.display()))?;
    }
    let plan = GuestPlan { workspace: text(&workspace)?, home: text(&home)?, user: 0 };
    let (pid, socket) = fork_supervisor(Tier::Host, 0, None, plan)?;
    Ok(Standing { supervisor: pid, socket, receiver: Receiver::default(), native: None, guest_errors: None })
}

fn text(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| JailError::Protocol(format!("{} is not UTF-8", path.display())))
}

fn native(launch: &CellLaunch) -> Result<Standing> {
    let ids = Ids::prepare()?;
    let secret = secret(launch)?;
    let network = if launch.host_network { 0 } else { libc::CLONE_NEWNET };
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | network;
    let plan = GuestPlan { workspace: WORKSPACE.to_owned(), home: HOME.to_owned(), user: ids::AGENT };
    let forked =
        fork_supervisor(Tier::Native, namespaces, Some(Filters::compile(launch.host_network)?), plan);
    let (supervisor, socket) = forked.map_err(|error| match error {
        JailError::Io { source, .. } => JailError::Unavailable {
            why: format!("namespaces cannot be created: {source}"),
            fix: ids::userns_fix(),
        },
        other => other,
    })?;
    ids.write_maps(supervisor)?;
    let path = format!("/proc/{}/ns/user", supervisor.as_raw_nonzero());
    let userns = rustix::fs::openat(CWD, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .context(|| format!("opening {path}"))?;
    send_items(&socket, layout::collect(launch, ids, userns.as_fd())?)?;
    let native = Some(Native { userns, secret: Some(secret) });
    Ok(Standing { supervisor, socket, receiver: Receiver::default(), native, guest_errors: None })
}

fn send_items(socket: &OwnedFd, placed: Vec<Placed>) -> Result<()> {
    let mut rest = placed.into_iter().peekable();
    while rest.peek().is_some() {
        let chunk: Vec<Placed> = rest.by_ref().take(MAX_FDS).collect();
        let (items, trees): (Vec<Item>, Vec<Option<OwnedFd>>) = chunk.into_iter().unzip();
        let fds: Vec<BorrowedFd<'_>> = trees.iter().flatten().map(AsFd::as_fd).collect();
        wire::send(socket.as_fd(), &Order::Place { items }, &fds)?;
    }
    Ok(())
}

fn fork_supervisor(
    tier: Tier,
    namespaces: i32,
    filters: Option<Filters>,
    plan: GuestPlan,
) -> Result<(Pid, OwnedFd)> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.context(|| "making a socket pair".to_owned())?;
    match sys::fork(namespaces).context(|| "forking the supervisor".to_owned())? {
        Forked::Parent(pid) => Ok((pid, ours)),
        Forked::Child => match sys::keep_only(theirs) {
            Ok(control) => supervisor::run(tier, control, filters, plan),
            Err(_) => sys::exit_now(1),
        },
    }
}

/// In /tmp where that is possible, because everybody may look there: only a mount namespace can hide it.
fn secret(launch: &CellLaunch) -> Result<Secret> {
    let name = format!("countersign-canary-{}-{}", std::process::id(), launch.cell);
    let mut last = None;
    for directory in [Path::new("/tmp"), Path::new("/var/tmp"), launch.state_dir.as_path()] {
        let path = directory.join(&name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => return Ok(Secret(path)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()))
        .context(|| "making the canary's file".to_owned())
}

impl Standing {
    /// Kills everything and waits until nothing is left. Returns the number of survivors.
    pub fn end(&mut self) -> u32 {
        if self.native.is_some() {
            // The first process of the namespace: when it has been reaped, the kernel has killed all others.
            let _ = rustix::process::kill_process(self.supervisor, rustix::process::Signal::KILL);
        } else {
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
        loop {
            match waitpid(Some(self.supervisor), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(Some(_)) => return 0,
                _ => return 1,
            }
        }
    }

    /// Removes everything in the state directory: the cell's own files as the cell's root, the rest as ourselves.
    pub fn delete(&self, state_dir: &Path) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |path: &Path| rustix::fs::openat(CWD, path, flags, Mode::empty());
        if let Some(native) = &self.native {
            for name in ["workspace", "home"] {
                let path = state_dir.join(name);
                let directory = match open(&path) {
                    Ok(directory) => directory,
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(error) => return Err(error).context(|| format!("opening {}", path.display())),
                };
                native.empty_as_root(&directory).context(|| format!("removing {}", path.display()))?;
            }
        }
        let top = open(state_dir).context(|| format!("opening {}", state_dir.display()))?;
        delete::empty(top.as_fd()).context(|| format!("removing {}", state_dir.display()))
    }
}

impl Native {
    /// In a child that has become root of the cell, so that nothing but the cell's own files can be touched.
    fn empty_as_root(&self, directory: &OwnedFd) -> std::io::Result<()> {
        let child = match sys::fork(0)? {
            Forked::Parent(child) => child,
            Forked::Child => {
                let kind = Some(rustix::thread::LinkNameSpaceType::User);
                let done = rustix::thread::move_into_link_name_space(self.userns.as_fd(), kind)
                    .and_then(|()| rustix::thread::set_thread_groups(&[]))
                    .and_then(|()| {
                        rustix::thread::set_thread_res_gid(
                            rustix::thread::Gid::ROOT,
                            rustix::thread::Gid::ROOT,
                            rustix::thread::Gid::ROOT,
                        )
                    })
                    .and_then(|()| {
                        rustix::thread::set_thread_res_uid(
                            rustix::thread::Uid::ROOT,
                            rustix::thread::Uid::ROOT,
                            rustix::thread::Uid::ROOT,
                        )
                    })
                    .and_then(|()| delete::empty(directory.as_fd()));
                sys::exit_now(done.err().map_or(0, |error| error.raw_os_error()));
            }
        };
        loop {
            match waitpid(Some(child), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(Some((_, status))) => {
                    return match status.exit_status() {
                        Some(0) => Ok(()),
                        Some(errno) => Err(std::io::Error::from_raw_os_error(errno)),
                        None => Err(std::io::Error::other("the remover was killed")),
                    };
                }
                Ok(None) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
