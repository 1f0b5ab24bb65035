//! Memory and process limits by cgroup, v1, v2 or both side by side, wherever the host lets us: best effort, read back.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_types::JobLimits;

const NAME: &str = "countersign-";

/// Where groups can be made.
#[derive(Clone, Debug, Default)]
pub struct Places {
    memory: Option<Place>,
    pids: Option<Place>,
    prefix: String,
}

#[derive(Clone, Debug)]
struct Place {
    parent: PathBuf,
    v2: bool,
}

/// The groups of one job. Removed when it is dropped, by when its processes must be dead.
#[derive(Debug)]
pub struct Groups {
    memory: Option<(PathBuf, bool)>,
    pids: Option<(PathBuf, bool)>,
}

impl Places {
    /// Looks for writable hierarchies and removes what dead launchers of this pid namespace left behind.
    pub fn find() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let namespace = fs::metadata("/proc/self/ns/pid").map(|m| m.ino()).unwrap_or_default();
        let family = format!("{NAME}{namespace}-");
        let find = |controller: &str, file_v2: &str| {
            let v1 = mount_of(&mounts, Some(controller)).zip(own_path(&own, Some(controller)));
            let v1 = v1.map(|(mount, path)| vec![Place { parent: join(&mount, &path), v2: false }]);
            let v2 = mount_of(&mounts, None).zip(own_path(&own, None)).map(|(mount, path)| {
                let here = join(&mount, &path);
                // Processes live only in leaves, so a sibling of our own group is the usual place; root is an exception.
                let parent = here.parent().filter(|p| p.starts_with(&mount)).map(Path::to_owned);
                [Some(here), parent, Some(mount)]
                    .into_iter()
                    .flatten()
                    .map(|parent| Place { parent, v2: true })
                    .collect::<Vec<_>>()
            });
            let usable = |place: &Place| {
                sweep(&place.parent, &family);
                place.works(&family, if place.v2 { file_v2 } else { "cgroup.procs" })
            };
            v1.into_iter().chain(v2).flatten().find(usable)
        };
        let prefix = format!("{family}{}-", std::process::id());
        Self { memory: find("memory", "memory.max"), pids: find("pids", "pids.max"), prefix }
    }

    /// Makes the groups that the limits need. What could not be made is absent.
    pub fn make(&self, limits: &JobLimits) -> Groups {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}{}", self.prefix, NEXT.fetch_add(1, Ordering::Relaxed));
        let memory = limits.memory.and_then(|bytes| {
            let place = self.memory.as_ref()?;
            let dir = place.make(
                &name,
                if place.v2 { "memory.max" } else { "memory.limit_in_bytes" },
                &bytes.to_string(),
            )?;
            // Swap would only delay the end; not every kernel counts it.
            drop(if place.v2 {
                fs::write(dir.join("memory.swap.max"), "0")
            } else {
                fs::write(dir.join("memory.memsw.limit_in_bytes"), bytes.to_string())
            });
            Some((dir, place.v2))
        });
        let pids = limits.processes.and_then(|count| {
            let place = self.pids.as_ref()?;
            Some((place.make(&name, "pids.max", &count.to_string())?, place.v2))
        });
        Groups { memory, pids }
    }
}

impl Place {
    fn works(&self, family: &str, needs: &str) -> bool {
        let dir = self.parent.join(format!("{family}{}-probe", std::process::id()));
        if fs::create_dir(&dir).is_err() && !dir.is_dir() {
            return false;
        }
        let works = dir.join(needs).exists()
            && fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs")).is_ok();
        drop(fs::remove_dir(&dir));
        works
    }

    fn make(&self, name: &str, file: &str, value: &str) -> Option<PathBuf> {
        let dir = self.parent.join(name);
        if fs::create_dir(&dir).is_err() && !dir.is_dir() {
            return None;
        }
        if fs::write(dir.join(file), value).is_ok() {
            return Some(dir);
        }
        drop(fs::remove_dir(&dir));
        None
    }
}

impl Groups {
    /// The files through which a process joins by writing `0`.
    pub fn entrances(&self) -> Vec<OwnedFd> {
        let open = |(dir, _): &(PathBuf, bool)| {
            fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs")).ok()
        };
        let mut dirs: Vec<_> = self.memory.iter().chain(&self.pids).collect();
        dirs.dedup();
        dirs.into_iter().filter_map(open).map(OwnedFd::from).collect()
    }

    /// Limits that stand in the kernel now: memory, processes.
    pub fn held(&self) -> (bool, bool) {
        let set = |group: &Option<(PathBuf, bool)>, v1: &str, v2: &str| {
            group.as_ref().is_some_and(|(dir, is_v2)| {
                let text = fs::read_to_string(dir.join(if *is_v2 { v2 } else { v1 })).unwrap_or_default();
                text.trim().parse::<u64>().is_ok()
            })
        };
        (set(&self.memory, "memory.limit_in_bytes", "memory.max"), set(&self.pids, "pids.max", "pids.max"))
    }

    /// Processes that the kernel killed because the memory limit was reached.
    pub fn oom_kills(&self) -> u64 {
        self.memory.as_ref().map_or(0, |(dir, v2)| {
            counter(&dir.join(if *v2 { "memory.events" } else { "memory.oom_control" }), "oom_kill")
        })
    }

    /// Forks that failed because the process limit was reached.
    pub fn refused_forks(&self) -> u64 {
        self.pids.as_ref().map_or(0, |(dir, _)| counter(&dir.join("pids.events"), "max"))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for (dir, _) in self.memory.iter().chain(&self.pids) {
            drop(fs::remove_dir(dir));
        }
    }
}

fn counter(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|v| v.trim().parse().ok()).unwrap_or_default()
}

/// The mount point of a v1 controller, or of v2.
fn mount_of(mounts: &str, controller: Option<&str>) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (point, kind, options) = (fields.get(1)?, fields.get(2)?, fields.get(3)?);
        let matches = match controller {
            Some(name) => *kind == "cgroup" && options.split(',').any(|o| o == name),
            None => *kind == "cgroup2",
        };
        matches.then(|| PathBuf::from(point))
    })
}

fn own_path(own: &str, controller: Option<&str>) -> Option<String> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        let matches = match controller {
            Some(name) => names.split(',').any(|n| n == name),
            None => names.is_empty(),
        };
        matches.then(|| path.to_owned())
    })
}

fn join(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// Groups of launchers that are gone. Removal fails for a group that still holds a process, which is as it should be.
fn sweep(parent: &Path, family: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(|n| n.strip_prefix(family)).and_then(|n| n.split('-').next());
        if launcher.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            drop(fs::remove_dir(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                          cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n\
                          cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n";

    #[test]
    fn hierarchies_are_found_by_controller() {
        assert_eq!(mount_of(HYBRID, Some("memory")), Some("/sys/fs/cgroup/memory".into()));
        assert_eq!(mount_of(HYBRID, Some("cpuacct")), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(mount_of(HYBRID, Some("pids")), None);
        assert_eq!(mount_of(HYBRID, None), Some("/sys/fs/cgroup/unified".into()));
        let own = "4:memory:/a\n1:cpu,cpuacct:/\n0::/user.slice/b:c\n";
        assert_eq!(own_path(own, Some("memory")).as_deref(), Some("/a"));
        assert_eq!(own_path(own, None).as_deref(), Some("/user.slice/b:c"));
        assert_eq!(own_path(own, Some("pids")), None);
    }

    #[test]
    fn counters_are_read_by_their_whole_name() {
        let file = std::env::temp_dir().join(format!("countersign-counter-{}", std::process::id()));
        fs::write(&file, "low 0\noom 7\noom_kill 2\noom_group_kill 9\n").unwrap();
        let read = (counter(&file, "oom"), counter(&file, "oom_kill"), counter(&file, "absent"));
        fs::remove_file(&file).unwrap();
        assert_eq!(read, (7, 2, 0));
    }

    #[test]
    fn groups_of_dead_launchers_are_swept_and_others_stay() {
        let parent = std::env::temp_dir().join(format!("countersign-sweep-{}", std::process::id()));
        // Above the kernel's highest pid.
        let (dead, alive) = (parent.join("f-4194305-0"), parent.join(format!("f-{}-0", std::process::id())));
        let other = parent.join("else");
        for directory in [&dead, &alive, &other] {
            fs::create_dir_all(directory).unwrap();
        }
        sweep(&parent, "f-");
        let left = [dead.exists(), alive.exists(), other.exists()];
        fs::remove_dir_all(&parent).unwrap();
        assert_eq!(left, [false, true, true]);
    }
}
