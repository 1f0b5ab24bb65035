//! What the launcher takes from the host for a cell: detached copies of mounts, made where the launcher may read and
//! handed to the supervisor as descriptors. The cell never needs a path of the host.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use countersign_types::{CellLaunch, MountKind};
use rustix::fs::CWD;
use rustix::mount::OpenTreeFlags;
use serde::{Deserialize, Serialize};

use crate::error::{Context, JailError, Result};
use crate::ids::{AGENT, Ids};
use crate::sys::{self, MountAttr};

pub const WORKSPACE: &str = "/workspace";
pub const HOME: &str = "/home/agent";

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const WRITABLE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Top-level names that are part of the system layer when the host has them.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// What of /etc programs of the system layer need to work at all; nothing in it is secret.
const ETC: [&str; 11] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "pki",
    "protocols",
    "services",
];

/// Where something goes in the new root.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Item {
    /// A detached mount, sent along as a descriptor.
    Mount { target: PathBuf, is_dir: bool, private_parent: bool },
    /// A symbolic link as on the host.
    Link { target: PathBuf, to: PathBuf },
    /// A small file that we write.
    File { target: PathBuf, content: String },
}

/// An item and, for a mount, its tree.
pub type Placed = (Item, Option<OwnedFd>);

/// Opens everything that the cell will see.
pub fn collect(launch: &CellLaunch, ids: Ids, userns: BorrowedFd<'_>) -> Result<Vec<Placed>> {
    let mut placed = vec![];
    for name in SYSTEM {
        host_entry(&Path::new("/").join(name), READ_ONLY, &mut placed)?;
    }
    for name in ETC {
        host_entry(&Path::new("/etc").join(name), READ_ONLY, &mut placed)?;
    }
    host_entry(Path::new("/etc/ssl"), READ_ONLY, &mut placed)?;
    for name in DEVICES {
        host_entry(&Path::new("/dev").join(name), DEVICE, &mut placed)?;
    }
    for (target, content) in etc_files(launch.host_network) {
        placed.push((Item::File { target: target.into(), content }, None));
    }
    for (name, target) in [("workspace", WORKSPACE), ("home", HOME)] {
        let source = launch.state_dir.join(name);
        own_directory(&source, ids)?;
        placed.push(mount_item(detached(&source, WRITABLE)?, target.into(), true, false));
    }
    for mount in &launch.mounts {
        let target = checked_target(&mount.target)?;
        // Never through a link: what a setup left behind may be one that leads anywhere on the host.
        let meta = fs::symlink_metadata(&mount.source)
            .context(|| format!("reading mount source {}", mount.source.display()))?;
        if meta.is_symlink() {
            let what = format!("mount source {} is a symbolic link", mount.source.display());
            return Err(JailError::Protocol(what));
        }
        let tree = match mount.kind {
            MountKind::ReadOnly => detached(&mount.source, READ_ONLY)?,
            MountKind::RootOnly => root_only(&mount.source, ids, userns)?,
        };
        placed.push(mount_item(tree, target, meta.is_dir(), mount.kind == MountKind::RootOnly));
    }
    Ok(placed)
}

fn mount_item(tree: OwnedFd, target: PathBuf, is_dir: bool, private_parent: bool) -> Placed {
    (Item::Mount { target, is_dir, private_parent }, Some(tree))
}

/// A target must be a plain absolute path, so that nothing about it depends on what the tree holds.
fn checked_target(target: &Path) -> Result<PathBuf> {
    use std::path::Component;
    let mut parts = target.components();
    let plain = parts.next() == Some(Component::RootDir) && parts.all(|c| matches!(c, Component::Normal(_)));
    if plain && target.parent().is_some() {
        return Ok(target.to_owned());
    }
    Err(JailError::Protocol(format!("mount target {} is not a plain absolute path", target.display())))
}

/// Links are repeated, everything else is mounted; what the host lacks is left out.
fn host_entry(path: &Path, attr: u64, placed: &mut Vec<Placed>) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if meta.is_symlink() {
        let to = fs::read_link(path).context(|| format!("reading link {}", path.display()))?;
        placed.push((Item::Link { target: path.to_owned(), to }, None));
    } else {
        placed.push(mount_item(detached(path, attr)?, path.to_owned(), meta.is_dir(), false));
    }
    Ok(())
}

/// A private copy of the mounts at and below `path`, with attributes that nobody in the cell can take off.
fn detached(path: &Path, attr: u64) -> Result<OwnedFd> {
    let tree = open_tree(path)?;
    sys::mount_setattr(tree.as_fd(), &MountAttr { set: attr, idmap: None })
        .context(|| format!("restricting the mount of {}", path.display()))?;
    Ok(tree)
}

fn open_tree(path: &Path) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    rustix::mount::open_tree(CWD, path, flags).context(|| format!("copying the mount of {}", path.display()))
}

/// Owners are shifted into the cell, so that the cell's root may read what only its owner may. File systems that
/// cannot do that, and launchers that may not, show the host's permissions; the reader then says what it cannot read.
fn root_only(path: &Path, ids: Ids, userns: BorrowedFd<'_>) -> Result<OwnedFd> {
    let tree = open_tree(path)?;
    let mapped = MountAttr { set: READ_ONLY, idmap: ids.real_root.then_some(userns) };
    if sys::mount_setattr(tree.as_fd(), &mapped).is_ok() {
        return Ok(tree);
    }
    detached(path, READ_ONLY)
}

/// The cell's user owns it. A directory of another owner is refused: it belongs to another range of ids.
fn own_directory(path: &Path, ids: Ids) -> Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => {
            std::os::unix::fs::lchown(path, Some(ids.uid(AGENT)), Some(ids.gid(AGENT)))
                .context(|| format!("giving {} to the cell's user", path.display()))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).context(|| format!("making {}", path.display())),
    }
    let meta = fs::symlink_metadata(path).context(|| format!("reading {}", path.display()))?;
    if meta.is_dir() && meta.uid() == ids.uid(AGENT) {
        return Ok(());
    }
    Err(JailError::Unavailable {
        why: format!(
            "{} belongs to uid {} and not to the cell's user {}",
            path.display(),
            meta.uid(),
            ids.uid(AGENT)
        ),
        fix: "the ranges in /etc/subuid have changed since this cell was made; start a new session"
            .to_owned(),
    })
}

fn etc_files(host_network: bool) -> Vec<(&'static str, String)> {
    let passwd = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n\
                  nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    let mut files = vec![
        ("/etc/passwd", passwd.to_owned()),
        ("/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n".to_owned()),
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n".to_owned(),
        ),
        ("/etc/hosts", "127.0.0.1 localhost cell\n::1 localhost\n".to_owned()),
        ("/etc/hostname", "cell\n".to_owned()),
    ];
    if host_network && let Ok(resolver) = fs::read_to_string("/etc/resolv.conf") {
        files.push(("/etc/resolv.conf", resolver));
    }
    files
}
