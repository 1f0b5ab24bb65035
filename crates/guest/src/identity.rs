//! What jobs of this cell can see and nobody in it can change: the system, toolchains and caches. Their contents are too
//! many to be read for each verdict; what the kernel says of each file tells whether any of them is another one now.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use countersign_types::{Hasher, Millis};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::confined::entries;
use crate::fault::Outcome;
use crate::protocol::{EnvironmentSeen, Fault, Reply};

/// What every cell has anew, below its root.
const MADE_NEW: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];

/// Looks at everything outside `own` (the workspace and HOME), and at the layers inside. None: `within` was not enough.
///
/// # Errors
/// Something that jobs may read cannot be looked at.
pub(crate) fn see(own: [&Path; 2], layers: &[String], within: Millis) -> Outcome<Reply> {
    let root = Path::new("/");
    let skipped: BTreeSet<PathBuf> = MADE_NEW.iter().map(Path::new).chain(own).map(PathBuf::from).collect();
    let hidden = |layer: &&String| skipped.iter().any(|skipped| Path::new(layer).starts_with(skipped));
    let mut tops: BTreeSet<PathBuf> = layers.iter().filter(hidden).map(PathBuf::from).collect();
    tops.insert(root.to_owned());
    let made_with = device_of(root).map_err(|e| Fault::io("reading the root", &e))?;
    let mut look = Look::new(Some(made_with), skipped, Duration::from_millis(within.0));
    for top in &tops {
        match look.below(top) {
            Ok(true) => {}
            Ok(false) => return Ok(Reply::Environment { seen: None }),
            Err(e) => return Err(Fault::io(format!("looking at {}", top.display()), &e)),
        }
    }
    Ok(Reply::Environment { seen: Some(look.finish()) })
}

/// The digest is sha256 over `countersign.environment/1\n`, the kernel's names, and one record for each thing found: its
/// path and what `stat` says of it but for the time of its last reading. Any writing of a file, also one that puts length
/// and times back, gives it a new time of change, which only the clock sets. Of what was made for this cell (mount
/// points, small files of our own) only the name is taken.
struct Look {
    hasher: Hasher,
    /// Milliseconds since the epoch.
    newest: u64,
    files: u64,
    until: Instant,
    /// The device of everything that was made for this cell.
    made_with: Option<u64>,
    skipped: BTreeSet<PathBuf>,
}

impl Look {
    fn new(made_with: Option<u64>, skipped: BTreeSet<PathBuf>, within: Duration) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(b"countersign.environment/1\n");
        let uname = rustix::system::uname();
        for name in [uname.sysname(), uname.release(), uname.version(), uname.machine()] {
            hasher.update(name.to_bytes_with_nul());
        }
        Self { hasher, newest: 0, files: 0, until: Instant::now() + within, made_with, skipped }
    }

    fn finish(self) -> EnvironmentSeen {
        EnvironmentSeen { digest: self.hasher.finish(), newest: Millis(self.newest), files: self.files }
    }

    /// False: the time is over.
    fn below(&mut self, top: &Path) -> io::Result<bool> {
        let mut waiting = vec![top.to_owned()];
        while let Some(dir) = waiting.pop() {
            if Instant::now() >= self.until {
                return Ok(false);
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let listed = rustix::fs::openat(CWD, &dir, flags, Mode::empty())
                .map_err(io::Error::from)
                .and_then(|fd| Ok((rustix::fs::fstat(&fd)?, entries(&fd)?, fd)));
            let (stat, names, fd) = match listed {
                Ok(listed) => listed,
                // What we may not read, jobs may not either.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied && dir != top => {
                    self.hasher.update(b"closed\0");
                    continue;
                }
                Err(e) => return Err(e),
            };
            self.add(&dir, &stat);
            let mut below = Vec::new();
            for (name, kind) in names {
                let path = dir.join(std::ffi::OsStr::from_bytes(&name));
                if kind == FileType::Directory {
                    if !self.skipped.contains(&path) {
                        below.push(path);
                    }
                    continue;
                }
                match rustix::fs::statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => self.add(&path, &stat),
                    // The host's package manager is at work; the directory's own times tell it.
                    Err(Errno::NOENT) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(true)
    }

    fn add(&mut self, path: &Path, stat: &Stat) {
        self.files += 1;
        self.hasher.update(path.as_os_str().as_bytes());
        self.hasher.update(b"\0");
        if Some(stat.st_dev) == self.made_with {
            return;
        }
        let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
        let nanos = stat.st_ctime_nsec;
        self.newest = self.newest.max(seconds.saturating_mul(1000).saturating_add(nanos.div_ceil(1_000_000)));
        // A directory's size and links say nothing that its entries and times do not, and differ between file systems.
        let size =
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory { 0 } else { stat.st_size };
        let mut record = [0_u8; 64];
        let fields = [
            u64::from(stat.st_mode),
            u64::try_from(size).unwrap_or(0),
            stat.st_ino,
            u64::try_from(stat.st_mtime).unwrap_or(0),
            stat.st_mtime_nsec,
            seconds,
            nanos,
            (u64::from(stat.st_uid) << 32) | u64::from(stat.st_gid),
        ];
        for (bytes, field) in record.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        self.hasher.update(&record);
    }
}

fn device_of(path: &Path) -> io::Result<u64> {
    Ok(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?.st_dev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn below(layer: &Path) -> EnvironmentSeen {
        let mut look = Look::new(None, BTreeSet::new(), Duration::from_secs(600));
        assert!(look.below(layer).unwrap());
        look.finish()
    }

    #[test]
    fn any_change_below_a_layer_is_seen_also_one_that_puts_length_and_time_back() {
        let dir = tempfile::tempdir().unwrap();
        let layer = dir.path().join("home/layer");
        fs::create_dir_all(layer.join("bin/deep")).unwrap();
        let tool = layer.join("bin/deep/tool");
        fs::write(&tool, "one").unwrap();
        std::os::unix::fs::symlink("deep/tool", layer.join("bin/link")).unwrap();
        let first = below(&layer);
        assert_eq!(below(&layer), first);
        let time = fs::metadata(&tool).unwrap().modified().unwrap();
        let changes: [&dyn Fn(); 6] = [
            &|| {
                fs::write(&tool, "two").unwrap();
                let file = fs::File::options().write(true).open(&tool).unwrap();
                file.set_modified(time).unwrap();
            },
            &|| fs::write(layer.join("bin/new"), "").unwrap(),
            &|| fs::rename(layer.join("bin/new"), layer.join("bin/other")).unwrap(),
            &|| fs::remove_file(layer.join("bin/other")).unwrap(),
            &|| {
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
            },
            &|| {
                fs::remove_file(layer.join("bin/link")).unwrap();
                std::os::unix::fs::symlink("deep/lool", layer.join("bin/link")).unwrap();
            },
        ];
        let mut before = first;
        for (index, change) in changes.iter().enumerate() {
            let start = std::time::SystemTime::now();
            change();
            let after = below(&layer);
            assert_ne!(after.digest, before.digest, "{index}");
            // The clock that files are stamped with ticks up to 10 ms behind.
            let since = start.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
            assert!(u128::from(after.newest.0) + 10 >= since, "{index}");
            before = after;
        }
    }

    #[test]
    fn what_is_made_for_the_cell_counts_by_its_name_and_a_look_ends_in_time() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("own"), "one").unwrap();
        let look = |within| {
            let device = device_of(dir.path()).unwrap();
            let mut look = Look::new(Some(device), BTreeSet::new(), within);
            look.below(dir.path()).unwrap().then(|| look.finish())
        };
        let long = Duration::from_secs(600);
        let first = look(long).unwrap();
        assert_eq!((first.newest, first.files), (Millis(0), 2));
        fs::write(dir.path().join("own"), "another").unwrap();
        assert_eq!(look(long), Some(first.clone()));
        fs::write(dir.path().join("new"), "").unwrap();
        assert_ne!(look(long), Some(first));
        assert_eq!(look(Duration::ZERO), None);
    }
}
