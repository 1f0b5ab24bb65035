//! The home directory: made private, refused on file systems where locks cannot be trusted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use countersign_types::SessionId;
use rustix::fs::IFlags;

use crate::StoreError;
use crate::files::{fault, make_durable};

/// The names of everything in a home. Others ask here and build no path themselves.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Makes what is missing, private to the user. An existing directory keeps its mode.
    pub(super) fn prepare(root: &Path) -> Result<Self, StoreError> {
        make_durable(root)?;
        let root = fs::canonicalize(root).map_err(|e| fault("resolve", root, e))?;
        refuse_network(&root)?;
        let home = Self { root };
        for dir in [home.blobs(), home.sessions()] {
            make_durable(&dir)?;
        }
        spread(&home.sessions());
        Ok(home)
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("countersign.db")
    }

    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// One directory: cells, caches and the lock of one session. It exists once the session was created.
    #[must_use]
    pub fn session(&self, session: &SessionId) -> PathBuf {
        self.sessions().join(session.as_str())
    }

    fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(super) fn lease_lock(&self, session: &SessionId) -> PathBuf {
        self.session(session).join("lock")
    }

    pub(super) fn writer_lock(&self) -> PathBuf {
        self.root.join("writer.lock")
    }
}

/// Lets ext4 put each directory made in `dir` into a block group of its own (`chattr +T`; ext4(5), "Orlov allocator").
///
/// ext4 does not give a freed inode away again for a while and walks past all such inodes of the group for each new file,
/// so that a workspace which is made where others were just removed takes several times as long. Other file systems do
/// not know the flag, and a directory without it works all the same.
fn spread(dir: &Path) {
    let Ok(dir) = File::open(dir) else { return };
    if let Ok(flags) = rustix::fs::ioctl_getflags(&dir)
        && !flags.contains(IFlags::TOPDIR)
    {
        let _ = rustix::fs::ioctl_setflags(&dir, flags | IFlags::TOPDIR);
    }
}

/// Magic numbers of statfs(2) whose file systems live on another machine. (linux/magic.h; SMB2 and the like from the
/// drivers themselves.)
const NETWORK_MAGIC: &[(u32, &str)] = &[
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "afs"),
    (0x6B41_4653, "kafs"),
    (0x7375_7245, "coda"),
    (0x00C3_6400, "ceph"),
    (0x0BD0_0BD0, "lustre"),
    (0x564C, "ncp"),
    (0x0116_1970, "gfs2"),
    (0x7461_636F, "ocfs2"),
];

const FUSE_MAGIC: u32 = 0x6573_5546;

/// FUSE file systems say what they are only in the mount table. Local ones (ntfs3, bindfs, mergerfs) are fine.
const NETWORK_FUSE: &[&str] = &[
    "sshfs",
    "s3fs",
    "rclone",
    "gcsfuse",
    "goofys",
    "glusterfs",
    "davfs",
    "davfs2",
    "curlftpfs",
    "smbnetfs",
    "ceph",
    "cephfs",
    "juicefs",
    "seaweedfs",
    "blobfuse",
    "blobfuse2",
    "moosefs",
    "mfs",
];

fn refuse_network(root: &Path) -> Result<(), StoreError> {
    let stat = rustix::fs::statfs(root).map_err(|e| fault("inspect", root, e.into()))?;
    // The field's width differs between architectures; every magic number has 32 bits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "magic numbers have 32 bits")]
    let magic = stat.f_type as u32;
    // Read only where it decides.
    let table =
        if magic == FUSE_MAGIC { fs::read_to_string("/proc/self/mountinfo") } else { Ok(String::new()) };
    match network_kind(magic, &table.unwrap_or_default(), root) {
        Some(kind) => Err(StoreError::NetworkFileSystem { path: root.to_owned(), kind }),
        None => Ok(()),
    }
}

fn network_kind(magic: u32, table: &str, root: &Path) -> Option<String> {
    if magic == FUSE_MAGIC {
        return mount_type(table, root).filter(|name| is_network_fuse(name));
    }
    NETWORK_MAGIC.iter().find(|(number, _)| *number == magic).map(|(_, name)| (*name).to_owned())
}

fn is_network_fuse(fs_type: &str) -> bool {
    fs_type.strip_prefix("fuse.").is_some_and(|name| NETWORK_FUSE.contains(&name))
}

/// The type of the mount that `path` is on, from the text of `/proc/self/mountinfo` (proc(5)).
fn mount_type(table: &str, path: &Path) -> Option<String> {
    let mounts = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = unescape(left.split(' ').nth(4)?);
        path.starts_with(&point).then(|| (point.len(), right.split(' ').next().unwrap_or("").to_owned()))
    });
    // The last of equally long mount points lies on top.
    mounts.max_by_key(|(len, _)| *len).map(|(_, fs_type)| fs_type)
}

/// Mount points have space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        const EXT4: u32 = 0xEF53;
        let kind = |magic| network_kind(magic, "1 0 8:1 / / rw - fuse.sshfs a:/ rw", Path::new("/x"));
        assert_eq!(kind(0x6969).as_deref(), Some("nfs"));
        assert_eq!(kind(0xFE53_4D42).as_deref(), Some("smb2"));
        assert_eq!(kind(FUSE_MAGIC).as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind(EXT4), None);
    }

    #[test]
    fn on_ext4_sessions_lie_in_block_groups_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::prepare(dir.path()).unwrap();
        let sessions = File::open(home.sessions()).unwrap();
        // Another file system has no such flag, and the home is as good without it.
        if let Ok(flags) = rustix::fs::ioctl_getflags(&sessions)
            && rustix::fs::fstatfs(&sessions).unwrap().f_type == 0xEF53
        {
            assert!(flags.contains(IFlags::TOPDIR));
        }
        spread(dir.path().join("missing").as_path());
    }

    #[test]
    fn the_innermost_mount_decides_and_remote_fuse_is_told_from_local() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     40 22 0:41 / /mnt/my\\040disk rw shared:1 - fuse.sshfs me@host:/ rw\n\
                     41 22 0:42 / /mnt rw - fuse.mergerfs a:b rw\n";
        let of = |p: &str| mount_type(table, Path::new(p)).unwrap();
        assert_eq!(of("/mnt/my disk/home"), "fuse.sshfs");
        assert_eq!(of("/mnt/other"), "fuse.mergerfs");
        assert_eq!(of("/home/me"), "ext4");
        assert!(
            is_network_fuse("fuse.sshfs") && !is_network_fuse("fuse.mergerfs") && !is_network_fuse("ext4")
        );
    }
}
