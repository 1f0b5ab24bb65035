//! The system calls that no safe crate offers. Everything `unsafe` of the project is in this file, each call behind a
//! function that is safe for every caller.
#![expect(
    unsafe_code,
    reason = "fork, exec, mount_setattr and signal resets have no safe wrapper; this is their only home"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::Pid;

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Forked {
    Child,
    Parent(Pid),
}

/// `fork` with `CLONE_NEW*` flags. Neither `CLONE_VM` nor `CLONE_FILES` can be asked for.
///
/// The launcher has one thread, so the child may allocate and run ordinary code.
pub fn fork(namespaces: libc::c_int) -> io::Result<Forked> {
    let sharing =
        libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    let flags = (namespaces & !sharing) | libc::SIGCHLD;
    // JUSTIFICATION: libc's fork cannot create namespaces; unshare + fork would put the launcher itself into them.
    // SAFETY: without CLONE_VM and with a null stack the child continues on a copy of this stack, exactly as fork
    // does. The process is single-threaded (no crate here starts threads), so no lock can be held by another thread.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(flags),
            0 as libc::c_long,
            0 as libc::c_long,
            0 as libc::c_long,
            0 as libc::c_long,
        )
    };
    match i32::try_from(pid) {
        Ok(0) => Ok(Forked::Child),
        Ok(pid) => {
            Pid::from_raw(pid).filter(|_| pid > 0).map(Forked::Parent).ok_or_else(io::Error::last_os_error)
        }
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Moves this process (and its future children, for a pid namespace) into new namespaces.
pub fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // JUSTIFICATION: rustix marks its `unshare` as deprecated because of CLONE_FILES, which is masked here.
    // SAFETY: no memory is passed; without CLONE_FILES no file descriptor changes its meaning.
    check(unsafe { libc::unshare(namespaces & !libc::CLONE_FILES) })
}

/// Ends the process at once: no destructors, no flushing of buffers that the parent also holds.
pub fn exit_now(code: i32) -> ! {
    // JUSTIFICATION: std::process::exit runs the exit handlers of a process that this is only a fork of.
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Kills every process of this pid namespace but its first one, which must be the caller.
pub fn kill_everybody() -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // JUSTIFICATION: rustix has no name for pid -1.
    // SAFETY: kill takes integers. Being pid 1 of a namespace is checked above, so nothing outside of it is reached.
    check(unsafe { libc::kill(-1, libc::SIGKILL) })
}

/// The kernel's last signal number.
const LAST_SIGNAL: libc::c_int = 64;

/// Every signal back to its default action, none blocked, so that the started program sees an ordinary process.
pub fn reset_signals() {
    // The kernel's struct sigaction: handler (SIG_DFL), flags, restorer, mask.
    let default = [0_u64; 4];
    for signal in 1..=LAST_SIGNAL {
        // JUSTIFICATION: ignored signals survive exec (Rust ignores SIGPIPE, nohup ignores SIGHUP), and libc refuses to
        // touch the two that it keeps for itself, which a parent may have ignored too.
        // SAFETY: the array has the size and layout of the kernel's struct on x86_64 and outlives the call; a null old
        // action is allowed; signals that cannot be changed fail with EINVAL, which is harmless.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    // JUSTIFICATION: std has no way to change the signal mask.
    // SAFETY: the set is initialised by sigemptyset before it is read; a null old set is allowed.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Installs a handler for SIGCHLD that does nothing, so that a death interrupts `poll`.
pub fn wake_on_child_death() {
    extern "C" fn nothing(_: libc::c_int) {}
    // JUSTIFICATION: SIGCHLD is discarded by default and would not interrupt poll, and orphans would stay unreaped.
    // SAFETY: the handler touches nothing and is therefore async-signal-safe; it lives for the whole program.
    unsafe { libc::signal(libc::SIGCHLD, nothing as extern "C" fn(libc::c_int) as libc::sighandler_t) };
}

/// Marks every descriptor from `first` on so that exec closes it.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // JUSTIFICATION: std and rustix do not offer close_range.
    // SAFETY: with CLOSE_RANGE_CLOEXEC no descriptor is closed now, so no owner in this process is invalidated.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check_long(done)
}

/// Number of the one descriptor that `keep_only` keeps.
const KEPT: libc::c_int = 3;

/// Closes every descriptor but `kept`, which becomes number 3, and puts `/dev/null` on the standard three.
///
/// For a fork that shares nothing with its parent's plans and never returns into them: owners on the stack of the
/// parent's functions exist here as copies and are never dropped, because the caller ends by `exit_now`.
pub fn keep_only(kept: OwnedFd) -> io::Result<OwnedFd> {
    let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // JUSTIFICATION: descriptors inherited by fork have no owner that could be asked to close them.
    // SAFETY: dup2 and close_range take integers. Owners of the closed numbers are unreachable: `kept` and `null` are
    // forgotten below, and all others belong to frames that this process never returns to.
    unsafe {
        if kept.as_raw_fd() != KEPT && libc::dup2(kept.as_raw_fd(), KEPT) < 0 {
            return Err(io::Error::last_os_error());
        }
        std::mem::forget((kept, null));
        check_long(libc::syscall(libc::SYS_close_range, KEPT + 1, u32::MAX, 0))?;
        libc::fcntl(KEPT, libc::F_SETFD, libc::FD_CLOEXEC);
        Ok(OwnedFd::from_raw_fd(KEPT))
    }
}

/// Replaces this process by the program `path`. Returns only on failure.
pub fn exec(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let (argv, env) = (pointers(argv), pointers(env));
    // JUSTIFICATION: std's exec searches PATH and falls back to a shell for files without a header; argv must be verbatim.
    // SAFETY: both arrays are null-terminated and point to NUL-terminated strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Replaces this process by the program behind a descriptor, which no path of the cell leads to.
pub fn exec_fd(program: BorrowedFd<'_>, argv: &[CString], env: &[CString]) -> io::Error {
    let (argv, env) = (pointers(argv), pointers(env));
    // JUSTIFICATION: neither std nor rustix offers execveat.
    // SAFETY: as for `exec`; the empty path with AT_EMPTY_PATH makes the kernel use the descriptor, which is open.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

/// What `mount_setattr` sets on a detached mount and everything below it.
#[derive(Debug, Default)]
pub struct MountAttr<'a> {
    pub set: u64,
    /// Translate owners through this user namespace.
    pub idmap: Option<BorrowedFd<'a>>,
}

/// Changes a whole detached mount tree at once.
pub fn mount_setattr(tree: BorrowedFd<'_>, attr: &MountAttr<'_>) -> io::Result<()> {
    let idmap = if attr.idmap.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let raw = libc::mount_attr {
        attr_set: attr.set | idmap,
        attr_clr: 0,
        propagation: 0,
        userns_fd: attr.idmap.map_or(0, |fd| fd.as_raw_fd().unsigned_abs().into()),
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // JUSTIFICATION: rustix has no mount_setattr; a remount cannot be recursive and cannot map ids.
    // SAFETY: `raw` is a complete mount_attr of the size that is passed, read only during the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const raw,
            size_of::<libc::mount_attr>(),
        )
    };
    check_long(done)
}

/// The descriptor with this number as an owned one, once; None when it is not open.
pub fn adopt(number: i32) -> Option<OwnedFd> {
    // JUSTIFICATION: standard input is a number that the parent chose; there is no other way to own it.
    // SAFETY: F_GETFD only asks; the number is adopted only if it is open, and the only caller does so once at start,
    // before anything else could own it (std's stdin handle borrows and never closes it).
    unsafe { (libc::fcntl(number, libc::F_GETFD) >= 0).then(|| OwnedFd::from_raw_fd(number)) }
}

/// Turns the loopback device of this network namespace on.
pub fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // JUSTIFICATION: interface flags have no safe wrapper.
    // SAFETY: an all-zero ifreq is valid; the name is shorter than the field and stays NUL-terminated; the union field
    // that SIOCSIFFLAGS reads is the one written here; the descriptor is open.
    let done = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    };
    check(done)
}

/// The errno of creating a socket of this family (closed again at once), or None when it could be created.
pub fn socket_errno(family: libc::c_int) -> Option<i32> {
    // JUSTIFICATION: the canary must try families that rustix has no name for.
    // SAFETY: socket takes integers; the result is owned here if it is a descriptor.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return io::Error::last_os_error().raw_os_error();
    }
    // JUSTIFICATION: closes the socket that was just made.
    // SAFETY: fd is open and nobody else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    None
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
