//! What happens to judged entries while a check runs, beyond what is left of it in the end: an entry that was changed
//! and put back has the bytes that it had, and still was not what the check saw (66).
//!
//! A file shows it by its inode and its change time, which no job can set. A directory's own times change with
//! everything that a build makes inside it, so a directory that is moved away and back is caught by a watch on it.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use countersign_tree::TreePath;
use rustix::fs::{Stat, inotify};

use crate::fault::Outcome;
use crate::protocol::{Fault, Reply};
use crate::state::{Guest, Key, now};

/// Paths that a reply names.
const MAX_TOUCHED: usize = 10_000;
/// Directories that are watched; the kernel holds about a kilobyte for each.
const MAX_WATCHES: usize = 65_536;
/// Longer than the clock by which files are stamped stands still.
const TICK: Duration = Duration::from_millis(1);
/// Times that a tick is waited for: no clock that stands still for a second is one.
const MAX_TICKS: usize = 1000;

/// What judged entries looked like before anybody could touch them.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    entries: HashMap<TreePath, Key>,
    /// None: the kernel gave none, and directories are not watched.
    events: Option<OwnedFd>,
    directories: HashMap<i32, TreePath>,
}

/// Remembers every entry of the workspace as it is now. No job is alive.
pub(crate) fn watch(guest: &mut Guest) -> Outcome<Reply> {
    let mut watch = Watch::default();
    let mut latest = 0;
    let mut directories: BTreeSet<&[u8]> = BTreeSet::new();
    for entry in guest.known.entries() {
        let path = entry.path.as_bytes();
        let stat =
            guest.root.stat(path).map_err(|e| Fault::io(format!("looking at `{}`", entry.path), &e))?;
        latest = latest.max(changed_at(&stat));
        watch.entries.insert(entry.path.clone(), Key::of(&stat));
        let slashes = path.iter().enumerate().rev().filter(|(_, b)| **b == b'/');
        for dir in slashes.map(|(at, _)| &path[..at]) {
            if !directories.insert(dir) {
                break;
            }
        }
    }
    watch.events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok();
    if let Some(events) = &watch.events {
        let flags = inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::ONLYDIR
            | inotify::WatchFlags::DONT_FOLLOW;
        for dir in directories.into_iter().take(MAX_WATCHES) {
            let place = [guest.workspace.as_os_str().as_encoded_bytes(), b"/", dir].concat();
            let (Ok(wd), Ok(path)) =
                (inotify::add_watch(events, place.as_slice(), flags), TreePath::new(dir))
            else {
                break;
            };
            watch.directories.insert(wd, path);
        }
    }
    // A change within the tick in which a file was written would leave the time that it has.
    for _ in 0..MAX_TICKS {
        if now() > latest {
            break;
        }
        std::thread::sleep(TICK);
    }
    guest.watch = Some(watch);
    Ok(Reply::Done)
}

impl Watch {
    /// Entries that are there with the content that they had and were touched all the same, and directories that were
    /// moved. `seen` is what a seal saw. Sorted; bounded.
    pub(crate) fn touched<'a>(&self, seen: impl Iterator<Item = (&'a TreePath, &'a Stat)>) -> Vec<TreePath> {
        let touched =
            seen.filter(|(path, stat)| self.entries.get(*path).is_some_and(|key| *key != Key::of(stat)));
        let mut out: BTreeSet<TreePath> = touched.map(|(path, _)| path.clone()).collect();
        out.extend(self.moved());
        out.into_iter().take(MAX_TOUCHED).collect()
    }

    fn moved(&self) -> Vec<TreePath> {
        let mut out = Vec::new();
        let Some(events) = &self.events else { return out };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                // More moves than the kernel could tell: any of them may have been.
                out.extend(self.directories.values().cloned());
                break;
            }
            out.extend(self.directories.get(&event.wd()).cloned());
        }
        out
    }
}

fn changed_at(stat: &Stat) -> i128 {
    i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec)
}
