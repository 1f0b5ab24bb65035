//! Facts about a change that make a reviewer look twice: tests that are skipped, assertions that are gone. By words, not by
//! parsing; they inform and nothing else.

use std::collections::BTreeMap;
use std::io;

use countersign_tree::EntryMode;

use crate::protocol::{PatchChange, Signal, SignalKind};
use crate::segment::Segments;

/// Signals of one change.
const MAX_SIGNALS: usize = 50;
/// A larger file is not looked into.
const MAX_TEXT: u64 = 4 << 20;

/// Words that switch a test off.
const SKIPS: &[&str] = &[
    "#[ignore",
    "@pytest.mark.skip",
    "@pytest.mark.xfail",
    "@unittest.skip",
    "pytest.skip(",
    "self.skipTest(",
    "it.skip(",
    "test.skip(",
    "describe.skip(",
    "xit(",
    "xdescribe(",
    "t.Skip(",
    "t.Skipf(",
    "t.SkipNow(",
    "//go:build ignore",
];

/// Words that state what must hold.
const ASSERTIONS: &[&str] = &["assert", "expect(", "t.Error", "t.Fatal", "require.", "should."];

pub(super) fn of(changes: &[PatchChange], segments: &Segments<'_>) -> io::Result<Vec<Signal>> {
    let mut signals = Vec::new();
    for change in changes {
        let read = |entry: &Option<countersign_tree::Entry>| match entry {
            Some(entry) if entry.mode != EntryMode::Symlink && entry.size <= MAX_TEXT => {
                segments.read(&entry.digest)
            }
            _ => Ok(Vec::new()),
        };
        let (before, after) = (read(&change.before)?, read(&change.after)?);
        let added =
            lines_beyond(&after, &before, SKIPS).into_iter().map(|line| (SignalKind::AddedSkip, line));
        let removed = lines_beyond(&before, &after, ASSERTIONS)
            .into_iter()
            .map(|line| (SignalKind::RemovedAssertion, line));
        for (kind, line) in added.chain(removed) {
            if signals.len() >= MAX_SIGNALS {
                return Ok(signals);
            }
            signals.push(Signal { kind, path: change.path.clone(), line });
        }
    }
    Ok(signals)
}

/// Lines with one of the words that `text` has more often than `other`, counted from 1.
fn lines_beyond(text: &[u8], other: &[u8], words: &[&str]) -> Vec<u64> {
    let mut known: BTreeMap<&[u8], usize> = BTreeMap::new();
    for line in other.split(|byte| *byte == b'\n') {
        *known.entry(line.trim_ascii()).or_default() += 1;
    }
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        match known.get_mut(line).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None if words.iter().any(|word| holds(line, word.as_bytes())) => found.push(number),
            None => {}
        }
    }
    found
}

fn holds(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|window| window == word)
}
