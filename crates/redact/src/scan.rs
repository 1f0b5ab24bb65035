use std::collections::VecDeque;

use crate::Redactor;
use crate::matcher::{Matcher, State};

/// The longest gap in bytes between two letters of a wrapped encoding: a line end and the next line's indentation.
const MAX_GAP: u8 = 32;

/// How many bytes of gaps are remembered before the first look at which of them still matter.
const FIRST_PRUNE: usize = 64;

/// Walks a text byte by byte and says where secrets lie. Positions count from the start of the text.
#[derive(Clone)]
pub(crate) struct Scanner {
    exact: Option<Walk>,
    wrapped: Option<Walk>,
    /// Bytes read so far.
    position: u64,
    /// Where the wrapped walk passed over a byte of a gap, oldest first.
    gaps: VecDeque<u64>,
    /// The number of gap bytes at which to look again; it doubles with what must be kept, so that hostile gaps cost
    /// constant time each.
    prune_at: usize,
    /// Bytes of the gap that is being read.
    run: u8,
}

#[derive(Clone)]
struct Walk {
    matcher: Matcher,
    state: State,
}

impl Walk {
    fn new(matcher: &Matcher) -> Self {
        Self { state: matcher.start(), matcher: matcher.clone() }
    }

    fn step(&mut self, byte: u8) -> Option<usize> {
        self.state = self.matcher.step(self.state, byte);
        self.matcher.longest_match(self.state)
    }

    fn depth(&self) -> usize {
        self.matcher.depth(self.state)
    }

    fn is_open(&self) -> bool {
        self.state != self.matcher.start()
    }
}

impl Scanner {
    pub(crate) fn new(redactor: &Redactor) -> Self {
        Self {
            exact: redactor.exact.as_ref().map(Walk::new),
            wrapped: redactor.wrapped.as_ref().map(Walk::new),
            position: 0,
            gaps: VecDeque::new(),
            prune_at: FIRST_PRUNE,
            run: 0,
        }
    }

    /// Says whether the text holds a secret.
    pub(crate) fn finds(mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|byte| self.step(*byte).is_some())
    }

    /// Reads one byte; gives the start of the longest secret that ends with it.
    pub(crate) fn step(&mut self, byte: u8) -> Option<u64> {
        let end = self.position + 1;
        self.position = end;
        let exact = self.exact.as_mut().and_then(|walk| walk.step(byte)).map(|len| back(end, len));
        let wrapped = self.step_wrapped(byte, end);
        match (exact, wrapped) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    fn step_wrapped(&mut self, byte: u8, end: u64) -> Option<u64> {
        let walk = self.wrapped.as_mut()?;
        if matches!(byte, b'\n' | b'\r') || (self.run > 0 && matches!(byte, b' ' | b'\t')) {
            if self.run < MAX_GAP && walk.is_open() {
                self.run += 1;
                self.gaps.push_back(end - 1);
            } else {
                walk.state = walk.matcher.start();
                self.gaps.clear();
            }
            return None;
        }
        self.run = 0;
        let found = walk.step(byte);
        if self.gaps.len() >= self.prune_at {
            let open = self.wrapped_start(end, self.wrapped.as_ref().map_or(0, Walk::depth));
            self.gaps.drain(..self.gaps.partition_point(|at| *at < open));
            self.prune_at = FIRST_PRUNE.max(self.gaps.len() * 2);
        }
        found.map(|len| self.wrapped_start(end, len))
    }

    /// Where the last `len` bytes that the wrapped walk read begin.
    fn wrapped_start(&self, end: u64, len: usize) -> u64 {
        let mut start = back(end, len);
        for at in self.gaps.iter().rev() {
            if *at < start {
                break;
            }
            start -= 1;
        }
        start
    }

    /// Nothing before this position can belong to a secret that is not complete.
    pub(crate) fn settled(&self) -> u64 {
        let exact = self.exact.as_ref().map_or(0, Walk::depth);
        let wrapped = self.wrapped.as_ref().map_or(0, Walk::depth);
        back(self.position, exact).min(self.wrapped_start(self.position, wrapped))
    }
}

fn back(end: u64, len: usize) -> u64 {
    end.saturating_sub(len as u64)
}
