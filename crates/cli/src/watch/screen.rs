//! The live view on a terminal: a few lines that are drawn again in place. No other screen is entered and the cursor is never
//! hidden, so that a view that is killed leaves nothing to be repaired but the echo of keys.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_engine::View;
use countersign_types::{GateStatus, Millis};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::trace::{self, Line, Story};
use crate::{terminal, text};

/// Lines of the trace that are kept.
const KEPT: usize = 200;

/// Lines of the trace that are shown at most.
const SHOWN: usize = 16;

/// A terminal that is drawn on.
#[derive(Debug)]
pub(super) struct Screen {
    keys: File,
    before: Termios,
    asked_to_leave: Arc<AtomicBool>,
    lines: VecDeque<Line>,
    /// Lines that the last drawing took.
    drawn: usize,
    colour: bool,
}

impl Screen {
    /// None where standard output is no terminal that can be drawn on.
    pub(super) fn open() -> Option<Self> {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if dumb || !std::io::stdout().is_terminal() {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let keys = File::from(rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?);
        let before = tcgetattr(&keys).ok()?;
        let mut quiet = before.clone();
        // Keys come one by one and are not shown. Signals still come from the terminal.
        quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&keys, OptionalActions::Now, &quiet).ok()?;
        let asked_to_leave = Arc::new(AtomicBool::new(false));
        let (mut reader, told) = (keys.try_clone().ok()?, Arc::clone(&asked_to_leave));
        std::thread::spawn(move || {
            let mut key = [0];
            while matches!(reader.read(&mut key), Ok(1)) {
                if matches!(key[0], b'q' | b'Q') {
                    told.store(true, Ordering::SeqCst);
                }
            }
        });
        let colour = terminal::wants_colour();
        Some(Self { keys, before, asked_to_leave, lines: VecDeque::new(), drawn: 0, colour })
    }

    pub(super) fn add(&mut self, line: Line) {
        self.lines.push_back(line);
        if self.lines.len() > KEPT {
            self.lines.pop_front();
        }
    }

    /// Draws. True: a person asked to leave.
    pub(super) fn show(&mut self, view: &View, story: &Story, now: Millis) -> bool {
        // A terminal that does not know its size says 0.
        let size = tcgetwinsize(&self.keys).ok();
        let columns = size.map_or(0, |size| usize::from(size.ws_col));
        let rows = size.map_or(0, |size| usize::from(size.ws_row));
        let columns = if columns == 0 { 80 } else { columns };
        let rows = if rows == 0 { 24 } else { rows };
        let mut lines = head(view, story, now);
        let room = rows.saturating_sub(lines.len() + 2).min(SHOWN);
        let from = self.lines.len().saturating_sub(room);
        let mut out = String::new();
        if self.drawn > 0 {
            out.push_str(&format!("\u{1b}[{}F", self.drawn));
        }
        lines.push("q leaves; the session goes on".to_owned());
        // The trace stands above what changes in place.
        let traced: Vec<String> = self.lines.range(from..).map(|line| self.dressed(line, columns)).collect();
        let all: Vec<String> =
            traced.into_iter().chain(lines.iter().map(|line| fits(line, columns))).collect();
        for line in &all {
            out.push_str(&format!("\u{1b}[2K{line}\n"));
        }
        out.push_str("\u{1b}[0J");
        self.drawn = all.len();
        terminal::out_bytes(out.as_bytes());
        self.asked_to_leave.load(Ordering::SeqCst)
    }

    fn dressed(&self, line: &Line, columns: usize) -> String {
        let cut = Line { text: fits(&line.text, columns), ..line.clone() };
        trace::dressed(&cut, self.colour)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that went away has nothing to be put back.
        let _gone = tcsetattr(&self.keys, OptionalActions::Now, &self.before);
    }
}

/// What is known of the turn, in lines without anything that moves a cursor.
fn head(view: &View, story: &Story, now: Millis) -> Vec<String> {
    let mut lines = vec![format!("{} · {}", view.id, text::one_line(&view.input, text::LINE))];
    let mut parts = Vec::new();
    if let Some(session) = &view.session {
        let limits = &session.contract.limits;
        parts.push(format!("step {} of {}", view.steps, limits.turns));
        let tokens = view.usage.input.zip(view.usage.output).map(|(input, output)| input + output);
        let tokens = tokens.map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string());
        parts.push(match limits.tokens {
            Some(limit) => format!("{tokens} of {limit} tokens"),
            None => format!("{tokens} tokens"),
        });
        if let (Some(cost), Some(limit)) = (view.cost, limits.cost) {
            parts.push(format!("${:.4} of ${:.4}", cost.usd(), limit.usd()));
        }
        parts.push(format!("{} of {} active", view.active_ms, limits.deadline));
    }
    parts.push(format!("{} elapsed", now.saturating_sub(view.created_at)));
    lines.push(parts.join(" · "));
    let doing = story.now().map_or_else(
        || "between two steps".to_owned(),
        |(kind, from)| format!("{}, for {}", trace::name(kind), now.saturating_sub(from)),
    );
    lines.push(format!("now: {doing}"));
    let gates: Vec<String> = view
        .gates
        .iter()
        .filter(|(_, gate)| !matches!(gate.status, GateStatus::Absent | GateStatus::NotReached))
        .map(|(key, gate)| format!("{key} {}", gate.status.as_str()))
        .collect();
    let waiting = view.gates.values().filter(|gate| gate.status == GateStatus::NotReached).count();
    let waiting = if waiting > 0 { format!("{waiting} to come") } else { String::new() };
    let gates = gates.into_iter().chain(Some(waiting).filter(|waiting| !waiting.is_empty()));
    lines.push(format!("gates: {}", gates.collect::<Vec<_>>().join(" · ")));
    lines
}

/// `line` in at most `columns` columns of a terminal. What is not ASCII counts as two: some of it is that wide.
fn fits(line: &str, columns: usize) -> String {
    let mut room = columns.saturating_sub(1);
    let mut out = String::new();
    for c in line.chars() {
        let width = if c.is_ascii() { 1 } else { 2 };
        if width > room {
            break;
        }
        room -= width;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_wraps() {
        assert_eq!(fits("abcdef", 4), "abc");
        assert_eq!(fits("漢字漢字", 6), "漢字");
        assert_eq!(fits("a", 0), "");
        assert_eq!(fits("abc", 80), "abc");
    }
}
