//! The canary: it runs where a job would run and looks around. What it does not see to be so is not claimed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use countersign_types::{Observation, TierProperty as P};
use serde::{Deserialize, Serialize};

use crate::sys;

const NO_GROUP: &str = "no writable cgroup with this controller; as a user: systemd-run --user --scope -p Delegate=yes; \
                        in a container: mount cgroups writable (--cgroupns=private -v /sys/fs/cgroup:/sys/fs/cgroup:rw)";

/// What the canary has to know to judge what it sees.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CanaryPlan {
    /// The launcher's own uid, in the ids in which the cell's map is written.
    pub runner_uid: u32,
    /// A file that any user of the host may read.
    pub secret: String,
    /// Limits that the launcher read back from the kernel.
    pub memory_held: bool,
    pub pids_held: bool,
}

/// Observes every property from inside, by system calls only.
pub fn look(plan: &CanaryPlan) -> Observation {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let mut seen = Observation::default();
    let mut note = |property: P, holds: bool, what: String| {
        if holds {
            seen.properties.insert(property);
        }
        seen.notes.insert(property, what);
    };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let (foreign, shown) = judge_map(&map, plan.runner_uid);
    note(P::Userns, foreign, format!("uid map {shown}"));
    let uid = rustix::process::getuid().as_raw();
    note(P::OtherUid, foreign && uid != 0, format!("uid {uid} of the cell"));
    let (others, me) = (visible_processes(), std::process::id());
    note(P::Pidns, others == 2 && me == 2, format!("{others} processes visible, own pid {me}"));
    let devices = network_devices();
    note(P::Netns, devices == ["lo"], format!("devices: {}", devices.join(" ")));
    let leaks = [
        (plan.secret.as_str(), errno_of_open(&plan.secret)),
        ("/sys", errno_of_open("/sys")),
        ("/boot", errno_of_open("/boot")),
    ];
    let leaked = leaks.iter().find(|(_, errno)| *errno != Some(libc::ENOENT));
    let core = errno_of_write_open("/proc/sys/kernel/core_pattern");
    let core_closed = matches!(core, Some(libc::EACCES | libc::EROFS | libc::EPERM));
    let confined = leaked.is_none() && core_closed;
    let what = leaked.map_or_else(
        || format!("host paths absent; core_pattern {}", name(core)),
        |(p, e)| format!("{p}: {}", name(*e)),
    );
    note(P::FsConfined, confined, what);
    let calls = [
        ("mode", (field("Seccomp") != "2").then_some(0)),
        ("AF_VSOCK", wrong(sys::socket_errno(libc::AF_VSOCK))),
        ("AF_PACKET", wrong(sys::socket_errno(libc::AF_PACKET))),
        ("unshare(NEWUSER)", wrong(sys::unshare(libc::CLONE_NEWUSER).err().and_then(|e| e.raw_os_error()))),
    ];
    let open = calls.iter().find(|(_, wrong)| wrong.is_some());
    note(
        P::Seccomp,
        open.is_none(),
        open.map_or_else(|| "filter on, probes denied".to_owned(), |(c, e)| format!("{c}: {}", name(*e))),
    );
    let (nnp, caps) = (field("NoNewPrivs"), field("CapEff"));
    let capless = caps.chars().all(|c| c == '0') && field("CapBnd").chars().all(|c| c == '0');
    note(P::NoNewPrivs, nnp == "1" && capless, format!("NoNewPrivs {nnp}, CapEff {caps}"));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let joined = |controller: &str| {
        groups.lines().any(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let names = parts.next().unwrap_or_default();
            let here = names.is_empty() || names.split(',').any(|n| n == controller);
            here && parts.next().is_some_and(|path| path.contains("countersign-"))
        })
    };
    for (property, held, controller) in
        [(P::MemoryLimit, plan.memory_held, "memory"), (P::PidsLimit, plan.pids_held, "pids")]
    {
        let holds = held && joined(controller);
        let what = if holds { "cgroup joined, limit read back" } else { NO_GROUP };
        note(property, holds, what.to_owned());
    }
    note(P::DiskLimit, false, "only /tmp and /dev/shm are bounded".to_owned());
    note(P::SeparateKernel, false, "the host's kernel".to_owned());
    note(P::HardwareVirtualised, false, "no virtual machine".to_owned());
    seen
}

/// True when the map has entries and none of them covers host root or the runner.
fn judge_map(map: &str, runner: u32) -> (bool, String) {
    let extents: Vec<Option<(u64, u64)>> = map
        .lines()
        .map(|line| {
            let mut numbers = line.split_ascii_whitespace().skip(1).map(|n| n.parse::<u64>().ok());
            Some((numbers.next()??, numbers.next()??))
        })
        .collect();
    let covers =
        |id: u64| extents.iter().any(|e| e.is_none_or(|(first, count)| (first..first + count).contains(&id)));
    let shown = map.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    (!extents.is_empty() && !covers(0) && !covers(runner.into()), shown)
}

fn visible_processes() -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok())).count()
}

fn network_devices() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    text.lines().skip(2).filter_map(|l| l.split_once(':').map(|(name, _)| name.trim().to_owned())).collect()
}

fn errno_of_open(path: impl AsRef<Path>) -> Option<i32> {
    fs::File::open(path).err().and_then(|e| e.raw_os_error())
}

fn errno_of_write_open(path: &str) -> Option<i32> {
    fs::OpenOptions::new().write(true).open(path).err().and_then(|e| e.raw_os_error())
}

/// None when the call was denied as the filter denies; else what happened (0: it worked).
fn wrong(errno: Option<i32>) -> Option<i32> {
    if errno == Some(libc::EPERM) { None } else { Some(errno.unwrap_or_default()) }
}

fn name(errno: Option<i32>) -> String {
    errno
        .filter(|e| *e != 0)
        .map_or_else(|| "allowed".to_owned(), |e| std::io::Error::from_raw_os_error(e).to_string())
}

/// For a tier that promises nothing: says so for every property.
pub fn nothing() -> Observation {
    let notes: BTreeMap<P, String> =
        P::ALL.iter().map(|p| (*p, "not isolated: the host tier runs on the host".to_owned())).collect();
    Observation { notes, ..Observation::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_covers_host_root_or_the_runner_is_not_foreign() {
        assert!(judge_map("         0     131072      65536\n", 1000).0);
        for bad in ["0 0 65536", "0 1000 1", "0 131072 65536\n1 0 1", "", "x y z"] {
            assert!(!judge_map(bad, 1000).0, "{bad}");
        }
    }
}
