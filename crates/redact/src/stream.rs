use std::collections::VecDeque;
use std::fmt;

use crate::scan::Scanner;
use crate::{REPLACEMENT, Redactor};

/// Redacts one stream whose chunks may end anywhere. It holds back only what may turn out to be a secret's beginning.
#[derive(Clone)]
pub struct RedactStream {
    scanner: Scanner,
    nothing_to_find: bool,
    /// Bytes read and not yet passed on; the first is at `passed`.
    held: Vec<u8>,
    passed: u64,
    /// Secrets not yet passed, by position, without overlaps.
    secrets: VecDeque<Secret>,
}

#[derive(Clone, Copy)]
struct Secret {
    start: u64,
    end: u64,
    /// Its replacement is already in the output.
    replaced: bool,
}

impl RedactStream {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            scanner: Scanner::new(&redactor),
            nothing_to_find: redactor.is_empty(),
            held: Vec::new(),
            passed: 0,
            secrets: VecDeque::new(),
        }
    }

    /// Reads a chunk and appends to `out` what is certain by now.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        if self.nothing_to_find {
            out.extend_from_slice(chunk);
            return;
        }
        let read = self.passed + self.held.len() as u64;
        self.held.extend_from_slice(chunk);
        for (end, byte) in (read + 1..).zip(chunk) {
            if let Some(start) = self.scanner.step(*byte) {
                self.add(start, end);
            }
        }
        self.pass(self.scanner.settled(), out);
    }

    /// Ends the stream: appends what was held back.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let end = self.passed + self.held.len() as u64;
        self.pass(end, out);
    }

    /// Secrets that overlap are one, so that no end of either stays behind.
    fn add(&mut self, start: u64, end: u64) {
        let mut secret = Secret { start, end, replaced: false };
        while let Some(last) = self.secrets.pop_back_if(|last| last.end > secret.start) {
            secret.start = secret.start.min(last.start);
            secret.replaced |= last.replaced;
        }
        self.secrets.push_back(secret);
    }

    /// Passes on everything before `limit`.
    fn pass(&mut self, limit: u64, out: &mut Vec<u8>) {
        let mut at = self.passed;
        while let Some(secret) = self.secrets.front_mut() {
            if secret.start >= limit {
                break;
            }
            if !secret.replaced {
                out.extend_from_slice(between(&self.held, self.passed, at, secret.start));
                out.extend_from_slice(REPLACEMENT.as_bytes());
                secret.replaced = true;
            }
            at = secret.end.min(limit);
            if secret.end > limit {
                break;
            }
            self.secrets.pop_front();
        }
        let next = self.secrets.front().map_or(limit, |secret| secret.start.max(at).min(limit));
        out.extend_from_slice(between(&self.held, self.passed, at, next));
        let done = usize::try_from(limit - self.passed).unwrap_or(self.held.len());
        self.held.drain(..done);
        self.passed = limit;
    }
}

/// The held bytes from one position to another.
fn between(held: &[u8], first: u64, from: u64, to: u64) -> &[u8] {
    let index = |position: u64| usize::try_from(position - first).unwrap_or(usize::MAX).min(held.len());
    &held[index(from)..index(to).max(index(from))]
}

impl fmt::Debug for RedactStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is held back may be a secret.
        f.debug_struct("RedactStream").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
