//! Which ids of the host the cell's ids 0..65536 stand for.
//!
//! With mount privileges (root) the launcher stays where it is and takes a range above every range that anybody was
//! given. Without them it first enters a user namespace of its own in which it may mount: id 0 there is the caller,
//! 1..65537 is the caller's sub-range, and the cell's namespace below it maps only the latter. Neither host uid 0 nor
//! the caller's uid is ever mapped into a cell: a mapped host root may open /proc/sys/kernel/core_pattern for writing
//! even without a single capability.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, WaitOptions};
use rustix::thread::CapabilitySet;

use crate::error::{Context, JailError, Result};
use crate::sys::{self, Forked};

/// Ids in a cell.
pub const RANGE: u32 = 65_536;
/// The lowest range that root takes: above the host's own users and their first two ranges.
const ROOT_FLOOR: u32 = RANGE * 2;
/// The cell's user for everything that an agent or a check asks for.
pub const AGENT: u32 = 1000;

/// The chosen range, in ids of the namespace that the launcher is in now.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    pub uid_base: u32,
    pub gid_base: u32,
    /// The launcher may make id-mapped mounts of ordinary file systems.
    pub real_root: bool,
}

impl Ids {
    /// Chooses the range, entering the intermediate namespace where that is needed.
    pub fn prepare() -> Result<Self> {
        let effective =
            rustix::thread::capabilities(None).context(|| "reading capabilities".to_owned())?.effective;
        let root = rustix::process::geteuid().is_root();
        if root
            && effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID)
        {
            let (uid_base, gid_base) = (free_range("/proc/self/uid_map")?, free_range("/proc/self/gid_map")?);
            return Ok(Self { uid_base, gid_base, real_root: true });
        }
        let maps = if root { Maps::direct()? } else { Maps::by_helper()? };
        enter_own_namespace(&maps)?;
        Ok(Self { uid_base: 1, gid_base: 1, real_root: false })
    }

    /// The host's id (as the launcher sees it) of an id in the cell.
    pub const fn uid(self, inside: u32) -> u32 {
        self.uid_base + inside
    }
    pub const fn gid(self, inside: u32) -> u32 {
        self.gid_base + inside
    }

    /// Writes the maps of `child`'s new user namespace.
    pub fn write_maps(self, child: Pid) -> Result<()> {
        let pid = child.as_raw_nonzero();
        for (file, base) in [("uid_map", self.uid_base), ("gid_map", self.gid_base)] {
            let path = format!("/proc/{pid}/{file}");
            fs::write(&path, format!("0 {base} {RANGE}\n")).context(|| format!("writing {path}"))?;
        }
        Ok(())
    }
}

/// The first range of 65,536 ids that belongs to nobody, within the ids that this namespace has.
fn free_range(map: &str) -> Result<u32> {
    let text = fs::read_to_string(map).context(|| format!("reading {map}"))?;
    range_in(&text, taken_end()).ok_or_else(|| JailError::Unavailable {
        why: format!(
            "this user namespace has no {RANGE} free ids ({map}: {})",
            text.trim().replace('\n', ", ")
        ),
        fix: "run outside of this container, or give it at least 65537 ids (podman --uidmap / --userns)"
            .to_owned(),
    })
}

/// Above every range that is taken and above the ids of ordinary users, or nowhere: a cell shares ids with nobody.
fn range_in(map: &str, taken_end: u32) -> Option<u32> {
    let extents = map.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|n| n.parse::<u64>().ok());
        Some((numbers.next()??, numbers.nth(1)??))
    });
    let extents: Vec<(u64, u64)> = extents.collect();
    let fits = |start: u32| {
        let (start, end) = (u64::from(start), u64::from(start) + u64::from(RANGE));
        extents.iter().any(|(first, count)| *first <= start && end <= first + count)
    };
    Some(taken_end.div_ceil(RANGE).saturating_mul(RANGE)).filter(|start| fits(*start))
}

/// One past the highest id of /etc/subuid and /etc/subgid, and at least `ROOT_FLOOR`.
fn taken_end() -> u32 {
    let ends = ["/etc/subuid", "/etc/subgid"].into_iter().flat_map(|file| {
        fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .filter_map(range_of_line)
            .map(|(_, s, n)| s.saturating_add(n))
            .collect::<Vec<_>>()
    });
    ends.chain([ROOT_FLOOR]).max().unwrap_or(ROOT_FLOOR)
}

fn range_of_line(line: &str) -> Option<(String, u32, u32)> {
    let mut parts = line.trim().split(':');
    Some((parts.next()?.to_owned(), parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// How the intermediate namespace gets its maps.
#[derive(Debug)]
enum Maps {
    /// Written by a helper process that is root in the parent namespace.
    Direct { uid_base: u32, gid_base: u32 },
    /// Written by newuidmap and newgidmap.
    Helper { uid_start: u32, gid_start: u32, newuidmap: String, newgidmap: String },
}

impl Maps {
    fn direct() -> Result<Self> {
        Ok(Self::Direct {
            uid_base: free_range("/proc/self/uid_map")?,
            gid_base: free_range("/proc/self/gid_map")?,
        })
    }

    fn by_helper() -> Result<Self> {
        let uid = rustix::process::getuid().as_raw();
        let user = user_name(uid);
        let find = |name: &str| {
            let found =
                ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"].iter().map(|d| format!("{d}/{name}"));
            found.into_iter().find(|path| Path::new(path).exists()).ok_or_else(|| JailError::Unavailable {
                why: format!(
                    "{name} is not installed, and a user without root privileges needs it to map ids"
                ),
                fix: "sudo apt-get install -y uidmap".to_owned(),
            })
        };
        let (newuidmap, newgidmap) = (find("newuidmap")?, find("newgidmap")?);
        let own = |file: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let numeric = uid.to_string();
            let mine = |(name, _, count): &(String, u32, u32)| {
                (*name == user || *name == numeric) && *count >= RANGE
            };
            let line = text.lines().filter_map(range_of_line).find(mine);
            line.map(|(_, start, _)| start).ok_or_else(|| {
                let start = taken_end().div_ceil(RANGE) * RANGE;
                let end = start + RANGE - 1;
                JailError::Unavailable {
                    why: format!("{file} gives `{user}` no range of {RANGE} ids"),
                    fix: format!(
                        "sudo usermod --add-subuids {start}-{end} --add-subgids {start}-{end} {user}"
                    ),
                }
            })
        };
        Ok(Self::Helper {
            uid_start: own("/etc/subuid")?,
            gid_start: own("/etc/subgid")?,
            newuidmap,
            newgidmap,
        })
    }
}

fn user_name(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = passwd
        .lines()
        .map(|l| l.split(':').collect::<Vec<_>>())
        .find(|f| f.get(2) == Some(&uid.to_string().as_str()));
    line.and_then(|f| f.first().map(|n| (*n).to_owned())).unwrap_or_else(|| uid.to_string())
}

/// Why user namespaces may be refused, and what to do about each cause.
pub fn userns_fix() -> String {
    let read = |path: &str| fs::read_to_string(path).map(|t| t.trim().to_owned()).unwrap_or_default();
    let mut fixes = vec![];
    if read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        fixes.push("sudo sysctl -w kernel.unprivileged_userns_clone=1");
    }
    if read("/proc/sys/user/max_user_namespaces") == "0" {
        fixes.push("sudo sysctl -w user.max_user_namespaces=15000");
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        fixes.push("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
    }
    if fixes.is_empty() {
        fixes.push(
            "in a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined --cap-add SYS_ADMIN`; else run as root or on a host with user namespaces",
        );
    }
    fixes.join(" && ")
}

/// Enters a user and mount namespace in which this process may mount. The maps come from a child that stayed outside.
fn enter_own_namespace(maps: &Maps) -> Result<()> {
    let (ready_read, ready_write) = rustix::pipe::pipe().context(|| "making a pipe".to_owned())?;
    let (done_read, done_write) = rustix::pipe::pipe().context(|| "making a pipe".to_owned())?;
    let me = rustix::process::getpid();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let child = match sys::fork(0).context(|| "forking".to_owned())? {
        Forked::Parent(child) => child,
        Forked::Child => {
            drop(ready_write);
            drop(done_read);
            let mut byte = [0_u8];
            let told = fs::File::from(ready_read).read_exact(&mut byte).is_ok();
            let said = if told {
                write_outer_maps(maps, me, uid, gid)
            } else {
                Err("the launcher ended".to_owned())
            };
            let mut out = fs::File::from(done_write);
            let sent = out.write_all(said.err().unwrap_or_else(|| "ok".to_owned()).as_bytes());
            sys::exit_now(i32::from(sent.is_err()));
        }
    };
    drop(ready_read);
    drop(done_write);
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(|error| JailError::Unavailable {
        why: format!("user namespaces cannot be created: {error}"),
        fix: userns_fix(),
    })?;
    fs::File::from(ready_write).write_all(b"m").context(|| "waking the map writer".to_owned())?;
    let mut answer = String::new();
    fs::File::from(done_read)
        .read_to_string(&mut answer)
        .context(|| "waiting for the map writer".to_owned())?;
    rustix::process::waitpid(Some(child), WaitOptions::empty())
        .context(|| "reaping the map writer".to_owned())?;
    if answer != "ok" {
        return Err(JailError::Unavailable {
            why: format!("the id maps were refused: {answer}"),
            fix: userns_fix(),
        });
    }
    Ok(())
}

fn write_outer_maps(maps: &Maps, target: Pid, uid: u32, gid: u32) -> std::result::Result<(), String> {
    let pid = target.as_raw_nonzero().to_string();
    match maps {
        Maps::Direct { uid_base, gid_base } => {
            for (file, own, base) in [("uid_map", uid, uid_base), ("gid_map", gid, gid_base)] {
                let text = format!("0 {own} 1\n1 {base} {RANGE}\n");
                fs::write(format!("/proc/{pid}/{file}"), text).map_err(|e| format!("{file}: {e}"))?;
            }
            Ok(())
        }
        Maps::Helper { uid_start, gid_start, newuidmap, newgidmap } => {
            for (program, own, start) in [(newuidmap, uid, uid_start), (newgidmap, gid, gid_start)] {
                let arguments =
                    [pid.as_str(), "0", &own.to_string(), "1", "1", &start.to_string(), &RANGE.to_string()];
                // A fresh process group, so that a terminal's Ctrl-C does not leave half a map.
                let ran = Command::new(program).args(arguments).process_group(0).env_clear().output();
                let ran = ran.map_err(|e| format!("{program}: {e}"))?;
                if !ran.status.success() {
                    return Err(format!("{program}: {}", String::from_utf8_lossy(&ran.stderr).trim()));
                }
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_host_gives_the_first_range_above_all_that_are_taken() {
        let host = "         0          0 4294967295\n";
        assert_eq!(range_in(host, ROOT_FLOOR), Some(131_072));
        assert_eq!(range_in(host, 165_536), Some(196_608));
    }

    #[test]
    fn a_container_with_too_few_ids_gives_none_rather_than_shared_ones() {
        assert_eq!(range_in("0 100000 196608", ROOT_FLOOR), Some(131_072));
        for short in ["0 100000 196607", "0 100000 65537", "0 0 1", "", "nonsense"] {
            assert_eq!(range_in(short, ROOT_FLOOR), None, "{short}");
        }
    }

    #[test]
    fn lines_of_subuid_are_read_and_nonsense_is_skipped() {
        assert_eq!(range_of_line("ann:100000:65536"), Some(("ann".to_owned(), 100_000, 65_536)));
        for bad in ["", "# comment", "ann:x:1", "ann:1"] {
            assert_eq!(range_of_line(bad), None, "{bad}");
        }
    }
}
