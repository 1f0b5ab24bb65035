//! One pass over everything that is large, on several threads: each file is read once, hashed while it is read, and what
//! the patch makes of it is hashed in the same go.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_types::Digest;

use super::account::Account;
use super::plain::Spoken;
use super::tree::{Applied, Plan};
use super::{Bundle, Finding, plain, tree};
use crate::journal::Chain;
use crate::layout::{
    BASE_MANIFEST, FINAL_MANIFEST, HEADER, JOURNAL, PATCH, Part, SUMS, SUMS_SIGNATURE, part,
};
use crate::patch::{Patch, Sink};
use crate::statement::JournalHead;

/// Threads at most. Hashing is soon as fast as memory.
const MAX_THREADS: usize = 4;

struct Shared<'a> {
    bundle: &'a Bundle,
    plan: Option<&'a Plan<'a>>,
    findings: Mutex<Vec<Finding>>,
    applied: Mutex<Vec<Applied>>,
    journal: Mutex<Option<(JournalHead, Account)>>,
    spoken: Mutex<Spoken>,
}

/// Something to be read, or a new file to be made from the patch alone.
enum Job<'a> {
    File(&'a str, Part),
    New(usize),
}

/// What was learnt of the large files.
pub(super) struct Learnt {
    /// The end of the journal and what it tells; None: its chain is not whole.
    pub(super) journal: Option<(JournalHead, Account)>,
    pub(super) spoken: Spoken,
}

/// Checks every file that was not read before, and the tree.
pub(super) fn all(bundle: &Bundle, buffer: &mut Vec<u8>, findings: &mut Vec<Finding>) -> Learnt {
    let sealed = bundle.is_sealed();
    let patch_bytes = if sealed { bundle.load(PATCH, buffer, findings) } else { None };
    let manifest = |path: &str, buffer: &mut Vec<u8>, findings: &mut Vec<Finding>| {
        let bytes = bundle.load(path, buffer, findings)?;
        tree::manifest(path, &bytes, findings)
    };
    let base = if sealed { manifest(BASE_MANIFEST, buffer, findings) } else { None };
    let last = if sealed { manifest(FINAL_MANIFEST, buffer, findings) } else { None };
    let patch = patch_bytes.as_deref().and_then(|bytes| {
        Patch::parse(bytes)
            .map_err(|e| findings.push(Finding::Patch { line: e.line as u64, why: e.why.to_owned() }))
            .ok()
    });
    let plan = match (&base, &last, &patch) {
        (Some(base), Some(last), Some(patch)) => Plan::new(base, last, patch, findings),
        _ => None,
    };
    if let Some(plan) = &plan {
        plan.pre_images_are_there(bundle, findings);
    }

    let mut jobs: Vec<(u64, Job<'_>)> = Vec::new();
    for (path, size) in &bundle.files.sizes {
        // Read before, each with its own eyes.
        let before =
            [SUMS, SUMS_SIGNATURE, HEADER, PATCH, BASE_MANIFEST, FINAL_MANIFEST].contains(&path.as_str());
        match part(path, bundle.signed) {
            Some(role)
                if !before && !matches!(role, Part::Statement(_)) && bundle.sums.contains_key(path) =>
            {
                jobs.push((*size, Job::File(path, role)));
            }
            _ => {}
        }
    }
    if let Some(plan) = &plan {
        jobs.extend(plan.new_files().map(|(at, size)| (size, Job::New(at))));
    }
    // The largest first: the last thread to end has little left.
    jobs.sort_by_key(|(size, _)| std::cmp::Reverse(*size));

    let shared = Shared {
        bundle,
        plan: plan.as_ref(),
        findings: Mutex::default(),
        applied: Mutex::default(),
        journal: Mutex::default(),
        spoken: Mutex::default(),
    };
    let next = AtomicUsize::new(0);
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(jobs.len().max(1));
    std::thread::scope(|scope| {
        let work = || {
            let mut buffer = Vec::new();
            while let Some((_, job)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                shared.run(job, &mut buffer);
            }
        };
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    findings.extend(inner(shared.findings));
    if let Some(plan) = &plan {
        plan.compare(inner(shared.applied), findings);
    }
    Learnt { journal: inner(shared.journal), spoken: inner(shared.spoken) }
}

/// A thread that panicked would have ended the scope already.
fn inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared<'_> {
    fn tell(&self, finding: Finding) {
        lock(&self.findings).push(finding);
    }

    fn run(&self, job: &Job<'_>, buffer: &mut Vec<u8>) {
        match job {
            Job::New(at) => self.apply(*at, b""),
            Job::File(path, Part::Journal) => self.journal(path, buffer),
            Job::File(path, Part::PreImage(digest)) => self.pre_image(path, *digest, buffer),
            Job::File(path, Part::Transcript) => self.transcript(path, buffer),
            Job::File(path, _) => match self.bundle.files.stream(path, buffer, |_| ()) {
                Ok(digest) => self.compare(path, digest),
                Err(finding) => self.tell(finding),
            },
        }
    }

    fn compare(&self, path: &str, digest: Digest) {
        if self.bundle.sums.get(path) != Some(&digest) {
            self.tell(Finding::Digest { path: path.to_owned() });
        }
    }

    fn journal(&self, path: &str, buffer: &mut Vec<u8>) {
        debug_assert_eq!(path, JOURNAL);
        let mut chain = Chain::new(&self.bundle.header.session);
        let mut account = Account::default();
        let mut walked = Ok(());
        let read = self.bundle.files.stream(path, buffer, |piece| {
            if walked.is_ok() {
                walked = chain.feed_each(piece, |line| account.see(line));
            }
        });
        match read {
            Err(finding) => self.tell(finding),
            // Other bytes: what is wrong inside of them says nothing more.
            Ok(digest) if self.bundle.sums.get(path) != Some(&digest) => self.compare(path, digest),
            Ok(_) => match walked.and_then(|()| chain.finish()) {
                Ok(head) => *lock(&self.journal) = Some((head, account)),
                Err(e) => self.tell(Finding::Journal { seq: e.seq, why: e.why.to_owned() }),
            },
        }
    }

    fn transcript(&self, path: &str, buffer: &mut Vec<u8>) {
        match self.bundle.files.read(path, buffer) {
            Err(finding) => self.tell(finding),
            Ok((_, digest)) if self.bundle.sums.get(path) != Some(&digest) => self.compare(path, digest),
            Ok((bytes, _)) => match plain::transcript(path, &bytes) {
                Ok(spoken) => *lock(&self.spoken) = spoken,
                Err(finding) => self.tell(finding),
            },
        }
    }

    fn pre_image(&self, path: &str, named: Digest, buffer: &mut Vec<u8>) {
        let users = self.plan.map(|plan| plan.users(&named)).unwrap_or_default();
        let read = if users.is_empty() {
            self.bundle.files.stream(path, buffer, |_| ()).map(|digest| (Vec::new(), digest))
        } else {
            self.bundle.files.read(path, buffer)
        };
        match read {
            Err(finding) => self.tell(finding),
            Ok((_, digest)) if digest != named || self.bundle.sums.get(path) != Some(&digest) => {
                self.tell(Finding::Digest { path: path.to_owned() });
            }
            Ok((bytes, _)) => {
                for at in users {
                    self.apply(*at, &bytes);
                }
            }
        }
    }

    fn apply(&self, at: usize, before: &[u8]) {
        let Some(plan) = self.plan else { return };
        let Some(change) = plan.change(at) else { return };
        let mut sink = Sink::new(plan.size_after(change));
        let result = match change.apply(before, &mut sink) {
            Ok(()) => {
                let (digest, size, _) = sink.finish();
                Ok((digest, size))
            }
            Err(e) => {
                self.tell(Finding::Patch { line: e.line as u64, why: e.why.to_owned() });
                Err(())
            }
        };
        lock(&self.applied).push(Applied { at, result });
    }
}
