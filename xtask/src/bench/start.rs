//! From the start of `countersign run` to the first model request, with the check's base result known already.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::server::{Reply, Server};
use super::{Home, Measure, Place, claimed_without_change, median, millis, repository};
use crate::sh::{self, Context, Error, Result};
use crate::suite::Size;

const SMALL_REPOSITORY: usize = 100;
const LARGE_REPOSITORY: usize = 20_000;
/// Milliseconds to the first request with 100 files.
const START_TARGET_MS: f64 = 30.0;
/// Resident memory of the controller at its first request, MB (10^6 bytes).
const RSS_TARGET_MB: f64 = 30.0;
/// Start with 20,000 files over `git worktree add` of the same commit.
const WORKTREE_TARGET: f64 = 1.0;

pub(super) fn measure(place: &Place) -> Result<Vec<Measure>> {
    let (small_runs, pairs) = match place.size {
        Size::Small => (11, 3),
        Size::Full => (31, 9),
    };
    let mut measures = small(place, small_runs)?;
    measures.push(large(place, pairs)?);
    Ok(measures)
}

fn small(place: &Place, runs: usize) -> Result<Vec<Measure>> {
    let repo = repository::make(&place.dir, SMALL_REPOSITORY)?;
    let home = place.fresh_home(&place.dir)?;
    one(place, &home, &repo)?; // fills the caches
    let mut times = Vec::new();
    let mut memory: f64 = 0.0;
    for _ in 0..runs {
        let (time, rss) = one(place, &home, &repo)?;
        times.push(millis(time));
        memory = memory.max(rss);
    }
    let detail = format!("median of {runs}, {SMALL_REPOSITORY} files, check cached");
    Ok(vec![
        Measure {
            name: "start/first-request",
            value: median(times).unwrap_or(f64::NAN),
            target: START_TARGET_MS,
            unit: "ms",
            detail,
        },
        Measure {
            name: "start/resident-memory",
            value: memory,
            target: RSS_TARGET_MB,
            unit: "MB",
            detail: format!("largest of {runs}, at the first request"),
        },
    ])
}

fn large(place: &Place, pairs: usize) -> Result<Measure> {
    let repo = repository::make(&place.dir, LARGE_REPOSITORY)?;
    let home = place.fresh_home(&place.dir)?;
    one(place, &home, &repo)?;
    worktree(place, &repo)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        theirs.push(millis(worktree(place, &repo)?));
        ours.push(millis(one(place, &home, &repo)?.0));
    }
    let (ours, theirs) = (median(ours).unwrap_or(f64::NAN), median(theirs).unwrap_or(f64::NAN));
    Ok(Measure {
        name: "start/worktree-ratio",
        value: ours / theirs,
        target: WORKTREE_TARGET,
        unit: "x",
        detail: format!(
            "{ours:.0} ms over `git worktree add` {theirs:.0} ms, {pairs} pairs, {LARGE_REPOSITORY} files"
        ),
    })
}

/// One run: the time to its first request, and the controller's peak memory until then in MB.
fn one(place: &Place, home: &Home, repo: &Path) -> Result<(Duration, f64)> {
    let pid = Arc::new(OnceLock::new());
    let memory = Arc::new(Mutex::new(None));
    let server = {
        let (pid, memory) = (Arc::clone(&pid), Arc::clone(&memory));
        Server::start(move |index| {
            if index == 0
                && let Some(pid) = pid.get()
                && let Ok(mut memory) = memory.lock()
            {
                *memory = peak_memory(*pid);
            }
            Reply::Text("done")
        })?
    };
    let mut command = place.run_command(home, repo, server.port)?;
    let start = Instant::now();
    let child = command.spawn().context(sh::shown(&command))?;
    let _ = pid.set(child.id());
    let output = child.wait_with_output().context(sh::shown(&command))?;
    claimed_without_change(&output)?;
    let first = server.exchanges.try_recv().map_err(|_| Error::new("the run asked no model"))?;
    let memory = memory.lock().ok().and_then(|memory| *memory);
    let memory = memory.ok_or_else(|| Error::new("the controller's memory could not be read in /proc"))?;
    Ok((first.arrived.duration_since(start), memory))
}

/// `VmHWM` of a process in MB.
fn peak_memory(pid: u32) -> Option<f64> {
    vm_hwm(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn vm_hwm(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

/// The field's way to get a fresh copy of a commit.
fn worktree(place: &Place, repo: &Path) -> Result<Duration> {
    let tree = place.dir.join("worktree");
    sh::remove_tree(&tree)?;
    sh::run(sh::plain_git(repo).args(["worktree", "prune"]))?;
    let start = Instant::now();
    sh::run(sh::plain_git(repo).args(["worktree", "add", "--quiet", "--detach"]).arg(&tree).arg("HEAD"))?;
    let time = start.elapsed();
    sh::remove_tree(&tree)?;
    sh::run(sh::plain_git(repo).args(["worktree", "prune"]))?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_is_read_in_megabytes() {
        assert_eq!(vm_hwm("Name:\tx\nVmHWM:\t   10000 kB\n"), Some(10.24));
        assert_eq!(vm_hwm("Name:\tx\n"), None);
        assert!(peak_memory(std::process::id()).is_some_and(|megabytes| megabytes > 0.5));
    }
}
