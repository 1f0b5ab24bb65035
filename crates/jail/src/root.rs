//! Inside the cell's namespaces: the new root file system, built from nothing.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount, mount_change, mount_remount,
    move_mount, unmount,
};

use crate::error::{Context, Result};
use crate::ids::AGENT;
use crate::layout::{HOME, Item, Placed, WORKSPACE};

/// Any directory that exists everywhere will do: it is covered and then left behind.
const STAGE: &str = "/proc";
/// Bytes of the root itself, which holds only mount points and a few small files.
const ROOT_OPTIONS: &str = "mode=0755,size=4m,nr_inodes=4096";
/// Where the verifier's files and the reports of runners lie: the cell's root owns it, and only the guest writes there.
const VERIFIER: &str = "run/countersign";
/// In memory, so bounded: a report that fills it is cut.
const VERIFIER_OPTIONS: &str = "mode=0755,size=128m,nr_inodes=20000";
/// Inodes of /tmp and /dev/shm, each.
const TMP_INODES: u64 = 200_000;

/// Builds the new root, enters it and leaves the host's behind.
pub fn enter(items: Vec<Placed>, tmp_limit: u64) -> Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).context(|| "making mounts private".to_owned())?;
    // The old /proc must stay in sight until ours is mounted, or the kernel refuses a new one.
    let stage = pick_stage();
    tmpfs(stage, ROOT_OPTIONS, MountFlags::NOSUID | MountFlags::NODEV)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(stage, flags, Mode::empty()).context(|| format!("opening {stage}"))?;
    for (name, mode) in
        [("proc", 0o555), ("tmp", 0o1777), ("dev", 0o755), ("root", 0o755), ("run", 0o755), ("etc", 0o755)]
    {
        make_dir(&root, name, mode)?;
    }
    let at = |path: &str| format!("{stage}/{path}");
    make_dir(&root, VERIFIER, 0o755)?;
    tmpfs(&at(VERIFIER), VERIFIER_OPTIONS, MountFlags::NOSUID | MountFlags::NODEV)?;
    let memory = format!("mode=1777,size={tmp_limit},nr_inodes={TMP_INODES}");
    tmpfs(&at("tmp"), &memory, MountFlags::NOSUID | MountFlags::NODEV)?;
    make_dir(&root, "dev/shm", 0o1777)?;
    tmpfs(&at("dev/shm"), &memory, MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC)?;
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        rustix::fs::symlinkat(to, &root, format!("dev/{name}")).context(|| format!("linking /dev/{name}"))?;
    }
    mount("proc", at("proc"), "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
        .context(|| "mounting /proc (a container that masks parts of /proc forbids it)".to_owned())?;
    for (item, tree) in items {
        place(&root, &item, tree)?;
    }
    rustix::process::fchdir(&root).context(|| "entering the new root".to_owned())?;
    rustix::process::pivot_root(".", ".").context(|| "changing the root".to_owned())?;
    unmount(".", UnmountFlags::DETACH).context(|| "leaving the old root".to_owned())?;
    rustix::process::chdir("/").context(|| "entering /".to_owned())?;
    let sealed = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount("/", sealed, "").context(|| "making / read-only".to_owned())
}

/// A directory of the host to build on. Not /proc itself where that has to stay visible.
fn pick_stage() -> &'static str {
    ["/tmp", "/mnt", "/srv", "/var", "/home"].into_iter().find(|p| Path::new(p).is_dir()).unwrap_or(STAGE)
}

fn tmpfs(target: &str, options: &str, flags: MountFlags) -> Result<()> {
    let options =
        CString::new(options).map_err(std::io::Error::from).context(|| "naming tmpfs options".to_owned())?;
    mount("tmpfs", target, "tmpfs", flags, options.as_c_str())
        .context(|| format!("mounting a tmpfs for {target}"))
}

/// Attaches one item at its place in the new root, without following any link on the way.
fn place(root: &OwnedFd, item: &Item, tree: Option<OwnedFd>) -> Result<()> {
    match (item, tree) {
        (Item::Link { target, to }, _) => rustix::fs::symlinkat(to, root, relative(target))
            .context(|| format!("linking {}", target.display())),
        (Item::File { target, content }, _) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(root, relative(target), flags, Mode::from_raw_mode(0o644))
                .context(|| format!("making {}", target.display()))?;
            std::io::Write::write_all(&mut std::fs::File::from(file), content.as_bytes())
                .context(|| format!("writing {}", target.display()))
        }
        (Item::Mount { target, is_dir, private_parent }, Some(tree)) => {
            let point = mount_point(root, target, *is_dir, *private_parent)?;
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(tree.as_fd(), "", point.as_fd(), "", flags)
                .context(|| format!("mounting {}", target.display()))
        }
        (Item::Mount { .. }, None) => Err(Errno::BADF).context(|| "a mount came without its tree".to_owned()),
    }
}

fn relative(target: &Path) -> &Path {
    target.strip_prefix("/").unwrap_or(target)
}

/// Walks to `target`, creating what is missing. A link on the way is an error: the agent may have put it there.
fn mount_point(root: &OwnedFd, target: &Path, is_dir: bool, private_parent: bool) -> Result<OwnedFd> {
    let names: Vec<_> = relative(target)
        .components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    // What is created below the agent's directories belongs to the agent, like anything else there.
    let agents = target.starts_with(WORKSPACE) || target.starts_with(HOME);
    let mut here = step(root, ".".as_ref(), true).context(|| "opening the new root".to_owned())?;
    if private_parent && names.len() < 2 {
        return Err(Errno::INVAL)
            .context(|| format!("{} has no parent that could be private", target.display()));
    }
    for (index, name) in names.iter().enumerate() {
        let last = index + 1 == names.len();
        let directory = !last || is_dir;
        let what = || format!("making the mount point {}", target.display());
        if last && private_parent {
            let stat = rustix::fs::statat(&here, "", rustix::fs::AtFlags::EMPTY_PATH).context(what)?;
            if stat.st_uid != 0 || stat.st_mode & 0o077 != 0 {
                return Err(Errno::ACCESS)
                    .context(|| format!("the parent of {} is not private", target.display()));
            }
        }
        here = match step(&here, name, directory) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                if directory {
                    let private = private_parent && index + 2 == names.len();
                    let mode = if private { 0o700 } else { 0o755 };
                    rustix::fs::mkdirat(&here, *name, Mode::from_raw_mode(mode)).context(what)?;
                } else {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    rustix::fs::openat(&here, *name, flags, Mode::from_raw_mode(0o644)).context(what)?;
                }
                if agents {
                    let (uid, gid) = (Uid::from_raw(AGENT), Gid::from_raw(AGENT));
                    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::chownat(&here, *name, Some(uid), Some(gid), flags).context(what)?;
                }
                step(&here, name, directory).context(what)?
            }
            Err(error) => return Err(error).context(what),
        };
    }
    Ok(here)
}

fn step(at: &OwnedFd, name: &std::ffi::OsStr, directory: bool) -> rustix::io::Result<OwnedFd> {
    let kind = if directory { OFlags::DIRECTORY } else { OFlags::empty() };
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | kind;
    rustix::fs::openat2(
        at,
        name,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn make_dir(root: &OwnedFd, name: &str, mode: u32) -> Result<()> {
    rustix::fs::mkdirat(root, name, Mode::from_raw_mode(mode)).context(|| format!("making /{name}"))?;
    // The umask of the launcher must not decide what the cell looks like.
    rustix::fs::chmodat(root, name, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty())
        .context(|| format!("setting the mode of /{name}"))
}

/// A fresh /proc for the calling process's pid namespace, over the cell's.
pub fn mount_proc() -> rustix::io::Result<()> {
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
}

const NULL: &str = "/dev/null";

/// Opens `/dev/null` of the cell, which is the host's.
pub fn null() -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, NULL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// What a person can do about a [`null`] that failed.
pub fn about_null(error: rustix::io::Errno) -> std::io::Error {
    let mut text = format!("{NULL}: {error}");
    if error == rustix::io::Errno::ACCESS {
        text.push_str("; everybody must be able to read and write it: chmod 666 /dev/null");
    }
    std::io::Error::new(std::io::Error::from(error).kind(), text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_null_device_that_may_not_be_opened_is_named_with_what_to_do() {
        let said = super::about_null(rustix::io::Errno::ACCESS);
        assert_eq!(said.kind(), std::io::ErrorKind::PermissionDenied);
        let said = said.to_string();
        assert!(said.starts_with("/dev/null: Permission denied"), "{said}");
        assert!(said.ends_with("chmod 666 /dev/null"), "{said}");
        assert!(!super::about_null(rustix::io::Errno::MFILE).to_string().contains("chmod"));
    }
}
