//! One running job as the launcher sees it: its output, its reports, its deadline, and how it ended.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use countersign_types::{JobEnd, JobId, JobLimits, LimitHit};
use rustix::io::Errno;

use crate::capture::Capture;
use crate::cgroup::Groups;
use crate::job::{self, Report};

/// How long the job's first process may take to kill the job before it is killed itself.
const CUT_GRACE: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub struct Stream {
    pub fd: Option<OwnedFd>,
    pub capture: Capture,
}

/// For whom a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// The controller asked for it.
    Command(JobId),
    /// The canary looks at the cell. It joins no control group: that can take longer than everything else together.
    Look,
    /// The canary looks at the limits that jobs have.
    LookAtLimits,
}

#[derive(Debug)]
pub struct Job {
    pub errand: Errand,
    pub limits: JobLimits,
    pub started: Instant,
    pub streams: [Stream; 2],
    pub report_fd: Option<OwnedFd>,
    pub report: Vec<u8>,
    pub groups: Groups,
    /// Why it is being killed. The first reason stays.
    pub reason: Option<JobEnd>,
    pub cut_at: Option<Instant>,
    pub killed_hard: bool,
}

impl Stream {
    /// One read. False when there is nothing to read now or ever.
    pub fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Some(fd) = &self.fd else { return false };
        match rustix::io::read(fd, &mut *buffer) {
            Ok(0) => {
                self.fd = None;
                false
            }
            Ok(count) => {
                self.capture.push(buffer.get(..count).unwrap_or_default());
                true
            }
            Err(Errno::INTR) => true,
            Err(_) => false,
        }
    }
}

impl Job {
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.cut_at {
            None => self.started.checked_add(self.limits.wall.duration()),
            Some(_) if self.killed_hard => None,
            Some(at) => Some(at + CUT_GRACE),
        }
    }

    pub fn read_report(&mut self, buffer: &mut [u8]) -> bool {
        /// Reports are a few lines of ours.
        const MOST: usize = 64 * 1024;
        let Some(fd) = &self.report_fd else { return false };
        match rustix::io::read(fd, &mut *buffer) {
            Ok(count) if count > 0 && self.report.len() + count <= MOST => {
                self.report.extend_from_slice(buffer.get(..count).unwrap_or_default());
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            _ => {
                self.report_fd = None;
                false
            }
        }
    }

    /// How it ended, and how many processes were killed after that.
    pub fn end(&self) -> (JobEnd, u32) {
        let mut end = None;
        let mut killed = 0;
        for report in job::parse_reports(&self.report) {
            match report {
                Report::NotStarted { errno, what } => end = Some(JobEnd::NotStarted { errno, what }),
                Report::Exited { code, killed: n } => {
                    killed = n;
                    end.get_or_insert(JobEnd::Exited { code });
                }
                Report::Signaled { signal, killed: n } => {
                    killed = n;
                    end.get_or_insert(JobEnd::Signaled { signal });
                }
                Report::Cut { killed: n } => killed = n,
            }
        }
        if self.groups.oom_kills() > 0 {
            // Also when the first process coped with it: a result from a run that lost processes is no result.
            return (JobEnd::Limit { which: LimitHit::Oom }, killed);
        }
        let failed = !matches!(end, Some(JobEnd::Exited { code: 0 } | JobEnd::NotStarted { .. }));
        if failed && self.reason.is_none() && self.groups.refused_forks() > 0 {
            return (JobEnd::Limit { which: LimitHit::Pids }, killed);
        }
        let killed_init = JobEnd::Signaled { signal: libc::SIGKILL };
        (end.or_else(|| self.reason.clone()).unwrap_or(killed_init), killed)
    }
}
