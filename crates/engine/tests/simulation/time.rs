//! Simulated time and the tasks that live in it: one thread, and what runs next is drawn from the seed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use countersign_engine::Clock;
use countersign_types::Millis;
use futures::future::{BoxFuture, FutureExt as _, LocalBoxFuture};
use futures::task::ArcWake;

/// Milliseconds since the epoch at which every simulation begins.
pub const START: u64 = 1_800_000_000_000;

/// Pseudo-random numbers (SplitMix64): the same seed gives the same run on every machine.
#[derive(Debug)]
pub struct Dice(Mutex<u64>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    pub fn roll(&self) -> u64 {
        let mut state = lock(&self.0);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `sides`; 0 for 0.
    pub fn below(&self, sides: u64) -> u64 {
        if sides == 0 { 0 } else { self.roll() % sides }
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of the whole world, and who waits for it.
#[derive(Clone, Debug, Default)]
pub struct Time(Arc<Mutex<Timers>>);

#[derive(Debug, Default)]
struct Timers {
    now: u64,
    last: u64,
    due: BTreeMap<(u64, u64), Waker>,
}

impl Time {
    pub fn at(&self) -> u64 {
        lock(&self.0).now
    }

    pub fn wait(&self, ms: u64) -> Wait {
        Wait { time: self.clone(), until: self.at().saturating_add(ms), waits: None }
    }

    /// When somebody wants to be woken next.
    pub fn next(&self) -> Option<u64> {
        lock(&self.0).due.keys().next().map(|(at, _)| *at)
    }

    /// Lets time go on and wakes whoever waited for it.
    pub fn advance(&self, to: u64) {
        let mut timers = lock(&self.0);
        timers.now = timers.now.max(to);
        let now = timers.now;
        let rest = timers.due.split_off(&(now.saturating_add(1), 0));
        let due = std::mem::replace(&mut timers.due, rest);
        drop(timers);
        due.into_values().for_each(Waker::wake);
    }
}

#[derive(Debug)]
pub struct Wait {
    time: Time,
    until: u64,
    waits: Option<(u64, u64)>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timers = lock(&self.time.0);
        if timers.now >= self.until {
            return Poll::Ready(());
        }
        let key = self.waits.unwrap_or_else(|| {
            timers.last += 1;
            (self.until, timers.last)
        });
        timers.due.insert(key, context.waker().clone());
        drop(timers);
        self.waits = Some(key);
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(key) = self.waits {
            lock(&self.time.0).due.remove(&key);
        }
    }
}

impl Clock for Time {
    fn now(&self) -> Millis {
        Millis(START + self.at())
    }

    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()> {
        self.wait(wait.0).boxed()
    }
}

struct Woken(AtomicBool);

impl ArcWake for Woken {
    fn wake_by_ref(this: &Arc<Self>) {
        this.0.store(true, Ordering::SeqCst);
    }
}

/// One controller's driver as the scheduler sees it.
pub struct Task {
    future: Option<LocalBoxFuture<'static, ()>>,
    woken: Arc<Woken>,
    /// Nothing of it runs before then, as in a process that is stopped and goes on.
    pub stalled_until: u64,
}

impl Task {
    pub fn new(future: LocalBoxFuture<'static, ()>) -> Self {
        Self { future: Some(future), woken: Arc::new(Woken(AtomicBool::new(true))), stalled_until: 0 }
    }

    pub fn lives(&self) -> bool {
        self.future.is_some()
    }

    pub fn can_run(&self, now: u64) -> bool {
        self.lives() && self.stalled_until <= now && self.woken.0.load(Ordering::SeqCst)
    }

    /// `kill -9`: nothing of it happens any more.
    pub fn kill(&mut self) {
        self.future = None;
    }

    pub fn run(&mut self) {
        let Some(future) = &mut self.future else { return };
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = futures::task::waker(Arc::clone(&self.woken));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.future = None;
        }
    }
}
