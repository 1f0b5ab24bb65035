//! What all processes of one simulation share, and what an onlooker who misses nothing has seen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use countersign_cell::CellError;
use countersign_engine::{Artifacts, Ids, Interrupt, Interrupts, Observer, Profiles, Trace};
use countersign_gates::profile::ProfileFiles;
use countersign_kernel::Session;
use countersign_kernel::contract::ProfileRef;
use countersign_store::{Fence, Lease, MemoryStore};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;

use super::story::Story;
use super::time::{Dice, Time, lock};

#[derive(Debug)]
pub struct World {
    pub story: Story,
    pub time: Time,
    pub dice: Dice,
    pub store: MemoryStore,
    seen: Mutex<Seen>,
}

/// A command of the agent's that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    pub times: u32,
    /// It could reach the network, so nobody may run it twice.
    pub network: bool,
}

#[derive(Debug, Default)]
struct Seen {
    cell_uses: u64,
    appends: u64,
    /// Model requests that left a process.
    sent: u64,
    began: BTreeMap<String, Began>,
    /// By process.
    open_cells: BTreeMap<usize, i64>,
    /// The last lease, and which process has it.
    fence: Fence,
    driver: usize,
    messages: Vec<Value>,
    left_behind: Vec<Lease>,
    wrong: Vec<String>,
}

impl World {
    pub fn new(story: Story) -> Self {
        let store = MemoryStore::new();
        let store = match story.term {
            Some(ms) => store.leasing_for(Duration::from_millis(ms)),
            None => store,
        };
        let dice = Dice::new(story.seed ^ 0x5EED);
        Self { story, time: Time::default(), dice, store, seen: Mutex::default() }
    }

    /// Lets at most so many milliseconds pass; others may run meanwhile, and a process may die here.
    pub async fn pause(&self, at_most: u64) {
        self.time.wait(1 + self.dice.below(at_most)).await;
    }

    /// Goes on to a time; the store's clock goes with it.
    pub fn advance(&self, to: u64) {
        let by = to.saturating_sub(self.time.at());
        self.store.pass(Duration::from_millis(by));
        self.time.advance(to);
    }

    pub fn use_a_cell(&self) -> Result<(), CellError> {
        let mut seen = lock(&self.seen);
        seen.cell_uses += 1;
        if self.story.cell_deaths.contains(&seen.cell_uses) {
            return Err(CellError::Died("a simulated death".to_owned()));
        }
        Ok(())
    }

    pub fn loses_the_answer(&self) -> bool {
        let mut seen = lock(&self.seen);
        seen.appends += 1;
        self.story.lost_answers.contains(&seen.appends)
    }

    pub fn began(&self, command: &str, network: bool) {
        let mut seen = lock(&self.seen);
        let began = seen.began.entry(command.to_owned()).or_insert(Began { times: 0, network });
        began.times += 1;
    }

    pub fn opened(&self, process: &Process) {
        *lock(&self.seen).open_cells.entry(process.number).or_default() += 1;
    }

    pub fn left(&self, process: &Process) {
        *lock(&self.seen).open_cells.entry(process.number).or_default() -= 1;
    }

    /// A request leaves a process. Every request of a conversation begins as the one before it; one that a process had
    /// ready before it lost its lease may come late.
    pub fn sent(&self, process: &Process, messages: &[Value]) {
        let mut seen = lock(&self.seen);
        seen.sent += 1;
        if process.number != seen.driver {
            return;
        }
        if !messages.starts_with(&seen.messages) {
            let wrong = format!("request {} does not extend the one before it", seen.sent);
            seen.wrong.push(wrong);
        }
        seen.messages = messages.to_vec();
    }

    pub fn granted(&self, process: &Process, fence: Fence) {
        let mut seen = lock(&self.seen);
        if fence <= seen.fence {
            let wrong = format!("lease {fence:?} was given after {:?}", seen.fence);
            seen.wrong.push(wrong);
        }
        (seen.fence, seen.driver) = (seen.fence.max(fence), process.number);
    }

    /// The last lease that was given.
    pub fn fence(&self) -> Fence {
        lock(&self.seen).fence
    }

    /// An append by a lease's holder was taken.
    pub fn appended(&self, fence: Fence) {
        let mut seen = lock(&self.seen);
        if fence < seen.fence {
            let wrong = format!("the holder of {fence:?} appended after {:?} was given", seen.fence);
            seen.wrong.push(wrong);
        }
    }

    pub fn leave_behind(&self, lease: Lease) {
        lock(&self.seen).left_behind.push(lease);
    }

    /// What must not happen and did.
    pub fn wrong(&self) -> Vec<String> {
        lock(&self.seen).wrong.clone()
    }

    pub fn commands(&self) -> BTreeMap<String, Began> {
        lock(&self.seen).began.clone()
    }

    pub fn requests_sent(&self) -> u64 {
        lock(&self.seen).sent
    }

    pub fn cells_left_open(&self) -> i64 {
        lock(&self.seen).open_cells.values().sum()
    }
}

/// One controller process.
#[derive(Debug)]
pub struct Process {
    pub number: usize,
    alive: AtomicBool,
    interrupt: Mutex<(Option<Interrupt>, Option<Waker>)>,
}

impl Process {
    pub fn new(number: usize) -> Self {
        Self { number, alive: AtomicBool::new(true), interrupt: Mutex::default() }
    }

    pub fn lives(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    pub fn die(&self) {
        self.alive.store(false, Ordering::SeqCst);
    }

    pub fn interrupt(&self, interrupt: Interrupt) {
        let mut waits = lock(&self.interrupt);
        waits.0 = Some(interrupt);
        if let Some(waker) = waits.1.take() {
            waker.wake();
        }
    }
}

/// The interrupts of one process.
#[derive(Debug)]
pub struct Signals(pub Arc<Process>);

impl Interrupts for Signals {
    fn next(&self) -> BoxFuture<'_, Interrupt> {
        futures::future::poll_fn(|context: &mut Context<'_>| {
            let mut waits = lock(&self.0.interrupt);
            match waits.0.take() {
                Some(interrupt) => Poll::Ready(interrupt),
                None => {
                    waits.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .boxed()
    }
}

/// Ids drawn from the seed.
#[derive(Debug)]
pub struct SimIds(pub Arc<World>);

impl Ids for SimIds {
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let (first, second) = bytes.split_at_mut(8);
        first.copy_from_slice(&self.0.dice.roll().to_le_bytes());
        second.copy_from_slice(&self.0.dice.roll().to_le_bytes());
        bytes
    }
}

/// Nobody watches, keeps files, or has profiles.
#[derive(Debug)]
pub struct Nobody;

impl Observer for Nobody {
    fn see(&self, _session: &Session, _trace: Trace<'_>) {}
}

impl Artifacts for Nobody {
    fn write(&self, _name: &'static str, _bytes: Vec<u8>) -> BoxFuture<'_, Result<(), String>> {
        ready(Ok(())).boxed()
    }
}

impl Profiles for Nobody {
    fn read(&self, _profile: &ProfileRef) -> Result<ProfileFiles, String> {
        Err("there are no profiles here".to_owned())
    }
}
