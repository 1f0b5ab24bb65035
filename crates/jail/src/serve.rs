//! The launcher's one loop: requests of the controller, output and reports of jobs, notices of the supervisor,
//! deadlines. It stays outside of the cell, holds no secret of the controller, and ends when the controller does.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use countersign_types::{
    CellRequest, CellResponse, JobEnd, JobLimits, JobReceipt, LimitHit, Millis, Observation, Tier,
    TierProperty,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::canary::CanaryPlan;
use crate::capture::Capture;
use crate::cgroup::{Groups, Places};
use crate::error::{Context, JailError, Result};
use crate::job::Work;
use crate::launch::Standing;
use crate::running::{Errand, Job, Stream};
use crate::supervisor::{Notice, Order};
use crate::wire::{self, Fill, Receiver};

const READ_CHUNK: usize = 256 * 1024;
/// Bytes that a pipe may hold; fewer system calls for jobs that write much.
const PIPE_SIZE: usize = 256 * 1024;
/// Reads of one pipe after the job is dead: what it can still hold, and not what a descriptor that was handed to
/// another job may add for ever.
const DRAIN_READS: usize = 8;
/// Bytes of the guest's standard error that are kept.
const LAST_WORDS: u64 = 2048;
/// The canary's own limits; it needs a few kilobytes and milliseconds. Without limits it joins no control group.
const CANARY_LIMITS: JobLimits = JobLimits {
    wall: Millis::from_secs(10),
    output_head: 64 * 1024,
    output_tail: 0,
    output_total: None,
    memory: None,
    processes: None,
};

/// What the loop returns with.
#[derive(Debug, PartialEq, Eq)]
pub enum Over {
    /// The controller closed the socket or died.
    ControllerGone,
    /// `End` was served.
    Ended,
    /// The supervisor died, or the canary did not see what the tier promises.
    CellLost,
}

#[derive(Debug)]
pub struct Launcher {
    tier: Tier,
    standing: Standing,
    control: OwnedFd,
    receiver: Receiver,
    outgoing: Vec<u8>,
    sent: usize,
    jobs: BTreeMap<u64, Job>,
    next: u64,
    places: Places,
    state_dir: PathBuf,
    host_network: bool,
    over: Option<Over>,
    guest_errors: Stream,
    /// What the canary saw, until it has looked at the limits too.
    observed: Option<Observation>,
}

impl Launcher {
    pub fn new(
        tier: Tier,
        mut standing: Standing,
        control: OwnedFd,
        receiver: Receiver,
        state_dir: PathBuf,
        host_network: bool,
    ) -> Result<Self> {
        rustix::io::ioctl_fionbio(&control, true).context(|| "preparing the control socket".to_owned())?;
        let places = Places::find();
        let guest_errors = Stream { fd: standing.guest_errors.take(), capture: Capture::new(0, LAST_WORDS) };
        if let Some(fd) = &guest_errors.fd {
            rustix::io::ioctl_fionbio(fd, true).context(|| "preparing a pipe".to_owned())?;
        }
        let (outgoing, jobs) = (vec![], BTreeMap::new());
        Ok(Self {
            tier,
            standing,
            control,
            receiver,
            outgoing,
            sent: 0,
            jobs,
            next: 0,
            places,
            state_dir,
            host_network,
            over: None,
            guest_errors,
            observed: None,
        })
    }

    /// Has the canary look, says `Ready`, serves.
    pub fn run(mut self) -> Over {
        let begun = match &self.standing.native {
            Some(native) => {
                let secret =
                    native.secret.as_ref().map(|s| s.0.to_string_lossy().into_owned()).unwrap_or_default();
                let runner_uid = rustix::process::geteuid().as_raw();
                let plan = CanaryPlan { runner_uid, secret, memory_held: false, pids_held: false };
                self.start(Errand::Look, CANARY_LIMITS, |_| Work::Canary(plan))
            }
            None => {
                let observation = crate::canary::nothing();
                self.respond(&CellResponse::Ready { observation: observation.clone() });
                self.respond(&CellResponse::Limits { observation });
                Ok(())
            }
        };
        let served = begun.and_then(|()| self.serve());
        let over = match served {
            Ok(over) => over,
            Err(error) => {
                self.respond(&CellResponse::Failed { what: error.to_string() });
                Over::CellLost
            }
        };
        if over != Over::Ended {
            self.standing.end();
        }
        self.flush();
        over
    }

    fn serve(&mut self) -> Result<Over> {
        let mut buffer = vec![0_u8; READ_CHUNK];
        loop {
            if let Some(over) = self.over.take() {
                return Ok(over);
            }
            let ready = self.wait();
            self.enforce_deadlines()?;
            for source in ready {
                match source {
                    Source::ControlIn => {
                        if self.receiver.fill(self.control.as_fd())? == Fill::Eof {
                            return Ok(Over::ControllerGone);
                        }
                        while let Some(frame) = self.receiver.next_frame()? {
                            self.request(&frame)?;
                        }
                    }
                    Source::ControlOut => self.write_some()?,
                    Source::Supervisor => {
                        if self.standing.receiver.fill(self.standing.socket.as_fd())? == Fill::Eof {
                            self.respond(&CellResponse::Failed {
                                what: "the cell's supervisor died".to_owned(),
                            });
                            return Ok(Over::CellLost);
                        }
                        while let Some(frame) = self.standing.receiver.next_frame()? {
                            self.notice(&frame)?;
                        }
                    }
                    Source::GuestErrors => {
                        self.guest_errors.read(&mut buffer);
                    }
                    Source::Output(index, which) => self.read_output(index, which, &mut buffer)?,
                    Source::Report(index) => {
                        if let Some(job) = self.jobs.get_mut(&index) {
                            job.read_report(&mut buffer);
                        }
                    }
                }
            }
        }
    }

    /// Blocks until something can be done or a deadline has come.
    fn wait(&self) -> Vec<Source> {
        let out = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = vec![
            PollFd::new(&self.control, PollFlags::IN | out),
            PollFd::new(&self.standing.socket, PollFlags::IN),
        ];
        let mut sources = vec![Source::ControlIn, Source::Supervisor];
        if let Some(fd) = &self.guest_errors.fd {
            fds.push(PollFd::new(fd, PollFlags::IN));
            sources.push(Source::GuestErrors);
        }
        for (index, job) in &self.jobs {
            for (which, stream) in job.streams.iter().enumerate() {
                if let Some(fd) = &stream.fd {
                    fds.push(PollFd::new(fd, PollFlags::IN));
                    sources.push(Source::Output(*index, which));
                }
            }
            if let Some(fd) = &job.report_fd {
                fds.push(PollFd::new(fd, PollFlags::IN));
                sources.push(Source::Report(*index));
            }
        }
        let due = self.jobs.values().filter_map(Job::next_deadline).min();
        // Rounded up: waking before the deadline would only mean another round.
        let timeout = due.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_micros(50));
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return vec![];
        }
        let mut ready = vec![];
        for (fd, source) in fds.iter().zip(sources) {
            let events = fd.revents();
            if source == Source::ControlIn && events.contains(PollFlags::OUT) {
                ready.push(Source::ControlOut);
            }
            if events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                ready.push(source);
            }
        }
        ready
    }

    fn request(&mut self, frame: &[u8]) -> Result<()> {
        match serde_json::from_slice(frame) {
            Ok(CellRequest::Run(spec)) => {
                if self.jobs.values().any(|job| job.errand == Errand::Command(spec.job.clone())) {
                    self.respond(&CellResponse::Failed { what: format!("job {} runs already", spec.job) });
                    return Ok(());
                }
                let (job, limits) = (spec.job.clone(), spec.limits);
                self.start(Errand::Command(job), limits, |_| Work::Command(spec))
            }
            Ok(CellRequest::Cancel { job }) => {
                let wanted = Errand::Command(job);
                let found = self.jobs.iter().find(|(_, running)| running.errand == wanted).map(|(i, _)| *i);
                // A job that has just ended needs no cancelling: its receipt is on its way.
                found.map_or(Ok(()), |index| self.cut(index, JobEnd::Canceled))
            }
            Ok(CellRequest::End { delete }) => {
                self.end(delete);
                Ok(())
            }
            Err(error) => {
                self.respond(&CellResponse::Failed {
                    what: format!("a request that cannot be read: {error}"),
                });
                Ok(())
            }
        }
    }

    fn start(&mut self, errand: Errand, limits: JobLimits, work: impl FnOnce(&Groups) -> Work) -> Result<()> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context(|| "making a pipe".to_owned());
        let ((out_read, out_write), (err_read, err_write), (report_read, report_write)) =
            (pipe()?, pipe()?, pipe()?);
        for fd in [&out_read, &err_read, &report_read] {
            rustix::io::ioctl_fionbio(fd, true).context(|| "preparing a pipe".to_owned())?;
        }
        for fd in [&out_read, &err_read] {
            // Only speed depends on it; the per-user bound on pipe memory may refuse.
            let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE_SIZE);
        }
        let groups = self.places.make(&limits);
        let entrances = groups.entrances();
        let processes = limits.processes.filter(|_| !groups.held().1);
        let index = self.next;
        self.next += 1;
        let order =
            Order::Start { index, work: Box::new(work(&groups)), cgroups: entrances.len(), processes };
        let mut fds = vec![out_write.as_fd(), err_write.as_fd(), report_write.as_fd()];
        fds.extend(entrances.iter().map(AsFd::as_fd));
        let stream =
            |fd| Stream { fd: Some(fd), capture: Capture::new(limits.output_head, limits.output_tail) };
        let job = Job {
            errand,
            limits,
            started: Instant::now(),
            streams: [stream(out_read), stream(err_read)],
            report_fd: Some(report_read),
            report: vec![],
            groups,
            reason: None,
            cut_at: None,
            killed_hard: false,
        };
        wire::send(self.standing.socket.as_fd(), &order, &fds)?;
        self.jobs.insert(index, job);
        Ok(())
    }

    fn cut(&mut self, index: u64, reason: JobEnd) -> Result<()> {
        let Some(job) = self.jobs.get_mut(&index) else { return Ok(()) };
        if job.reason.is_some() {
            return Ok(());
        }
        job.reason = Some(reason);
        job.cut_at = Some(Instant::now());
        wire::send(self.standing.socket.as_fd(), &Order::Cut { index }, &[])
    }

    fn enforce_deadlines(&mut self) -> Result<()> {
        let now = Instant::now();
        let due: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.next_deadline().is_some_and(|at| at <= now))
            .map(|(i, _)| *i)
            .collect();
        for index in due {
            let Some(job) = self.jobs.get_mut(&index) else { continue };
            if job.cut_at.is_none() {
                self.cut(index, JobEnd::Limit { which: LimitHit::Timeout })?;
            } else {
                job.killed_hard = true;
                // On the host a job's first process is what knows the job's processes; it must not be killed.
                if self.tier != Tier::Host {
                    wire::send(self.standing.socket.as_fd(), &Order::Kill { index }, &[])?;
                }
            }
        }
        Ok(())
    }

    fn read_output(&mut self, index: u64, which: usize, buffer: &mut [u8]) -> Result<()> {
        let Some(job) = self.jobs.get_mut(&index) else { return Ok(()) };
        if let Some(stream) = job.streams.get_mut(which) {
            stream.read(buffer);
        }
        let total: u64 = job.streams.iter().map(|s| s.capture.total()).sum();
        if job.limits.output_total.is_some_and(|most| total > most) {
            return self.cut(index, JobEnd::Limit { which: LimitHit::Output });
        }
        Ok(())
    }

    fn notice(&mut self, frame: &[u8]) -> Result<()> {
        match serde_json::from_slice(frame).map_err(|e| JailError::Protocol(e.to_string()))? {
            Notice::Gone { index } => {
                if let Some(job) = self.jobs.remove(&index) {
                    self.finish(job);
                }
                Ok(())
            }
            Notice::GuestGone { how } => {
                let mut buffer = vec![0_u8; READ_CHUNK];
                for _ in 0..DRAIN_READS {
                    if !self.guest_errors.read(&mut buffer) {
                        break;
                    }
                }
                let words =
                    std::mem::replace(&mut self.guest_errors.capture, Capture::new(0, LAST_WORDS)).finish();
                // A guest may have been taken over: its words are shown, not sent to a terminal.
                let words = String::from_utf8_lossy(&words.tail).trim().escape_debug().to_string();
                self.respond(&CellResponse::GuestDied { what: format!("{how}: {words}") });
                Ok(())
            }
            Notice::Failed { why } => Err(JailError::Protocol(why)),
            Notice::Entered => Ok(()),
        }
    }

    /// Every process of the job is dead.
    fn finish(&mut self, mut job: Job) {
        let mut buffer = vec![0_u8; READ_CHUNK];
        for stream in &mut job.streams {
            for _ in 0..DRAIN_READS {
                if !stream.read(&mut buffer) {
                    break;
                }
            }
        }
        while job.read_report(&mut buffer) {}
        let wall = Millis(u64::try_from(job.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        let (end, killed) = job.end();
        let [stdout, stderr] = job.streams.map(|stream| stream.capture.finish());
        match job.errand {
            Errand::Command(job) => {
                let receipt = JobReceipt { job, end, stdout, stderr, wall, killed };
                self.respond(&CellResponse::Finished { receipt });
            }
            Errand::Look => self.judge(&end, &stdout.head),
            Errand::LookAtLimits => self.tell_limits(&end, &stdout.head),
        }
    }

    /// Has the canary look once more, as a job with limits.
    fn look_at_limits(&mut self) -> Result<()> {
        let limits = JobLimits { memory: Some(64 * 1024 * 1024), processes: Some(16), ..CANARY_LIMITS };
        let runner_uid = rustix::process::geteuid().as_raw();
        self.start(Errand::LookAtLimits, limits, |groups| {
            let (memory_held, pids_held) = groups.held();
            Work::Canary(CanaryPlan { runner_uid, secret: String::new(), memory_held, pids_held })
        })
    }

    /// What the first look could not see. A second look that failed adds nothing.
    fn tell_limits(&mut self, end: &JobEnd, output: &[u8]) {
        let Some(mut observation) = self.observed.take() else { return };
        let seen: Option<Observation> = serde_json::from_slice(output).ok();
        if let Some(mut seen) = seen.filter(|_| *end == JobEnd::Exited { code: 0 }) {
            for property in [TierProperty::MemoryLimit, TierProperty::PidsLimit] {
                if seen.properties.contains(&property) {
                    observation.properties.insert(property);
                }
                if let Some(note) = seen.notes.remove(&property) {
                    observation.notes.insert(property, note);
                }
            }
        }
        self.respond(&CellResponse::Limits { observation });
    }

    /// `Ready` only if the canary saw everything that the tier demands.
    fn judge(&mut self, end: &JobEnd, output: &[u8]) {
        if let Some(native) = &mut self.standing.native {
            native.secret = None;
        }
        let seen: Option<Observation> = serde_json::from_slice(output).ok();
        let Some(mut observation) = seen.filter(|_| *end == JobEnd::Exited { code: 0 }) else {
            let why = format!("the canary could not look around: {end:?}");
            let missing = self.tier.demands();
            self.respond(&CellResponse::Unavailable { why, fix: crate::ids::userns_fix(), missing });
            self.over = Some(Over::CellLost);
            return;
        };
        observation.landlock_abi = landlock_abi();
        let mut missing = self.tier.demands();
        missing.retain(|p| !observation.properties.contains(p));
        if self.host_network {
            missing.remove(&TierProperty::Netns);
        }
        if missing.is_empty() {
            self.respond(&CellResponse::Ready { observation: observation.clone() });
            self.observed = Some(observation);
            if self.look_at_limits().is_err() {
                self.tell_limits(&JobEnd::Canceled, &[]);
            }
            return;
        }
        let said = missing
            .iter()
            .map(|p| format!("{p} ({})", observation.notes.get(p).map_or("not observed", String::as_str)));
        let why = format!("missing: {}", said.collect::<Vec<_>>().join(", "));
        self.respond(&CellResponse::Unavailable { why, fix: crate::ids::userns_fix(), missing });
        self.over = Some(Over::CellLost);
    }

    fn end(&mut self, delete: bool) {
        let survivors = self.standing.end();
        for (_, mut job) in std::mem::take(&mut self.jobs) {
            job.reason.get_or_insert(JobEnd::Canceled);
            self.finish(job);
        }
        let deleted = if delete { self.standing.delete(&self.state_dir) } else { Ok(()) };
        match deleted {
            Ok(()) => self.respond(&CellResponse::Ended { survivors }),
            Err(error) => self.respond(&CellResponse::Failed { what: error.to_string() }),
        }
        self.over = Some(Over::Ended);
    }

    fn respond(&mut self, response: &CellResponse) {
        match wire::frame(response) {
            Ok(bytes) => self.outgoing.extend(bytes),
            Err(error) => {
                let told = wire::frame(&CellResponse::Failed { what: error.to_string() });
                self.outgoing.extend(told.unwrap_or_default());
            }
        }
        // Usually there is room, and the next round of the loop is saved.
        drop(self.write_some());
    }

    fn write_some(&mut self) -> Result<()> {
        while let Some(rest) = self.outgoing.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match rustix::net::send(&self.control, rest, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                // The controller is gone; reading will say so.
                Err(_) => break,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }

    /// Sends what is left, blocking: the cell is over and nothing else has to be done.
    fn flush(&mut self) {
        let _ = rustix::io::ioctl_fionbio(&self.control, false);
        drop(self.write_some());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    ControlIn,
    ControlOut,
    Supervisor,
    GuestErrors,
    Output(u64, usize),
    Report(u64),
}

fn landlock_abi() -> Option<u32> {
    use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let newest = [ABI::V7, ABI::V6, ABI::V5, ABI::V4, ABI::V3, ABI::V2, ABI::V1];
    newest.into_iter().zip((1..=7_u32).rev()).find_map(|(abi, number)| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let made = ruleset.handle_access(AccessFs::from_all(abi)).and_then(Ruleset::create);
        made.ok().map(|_| number)
    })
}
