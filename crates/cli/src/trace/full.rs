//! Traces that leave out little: the compact lines with the time, and below them what the model said, what its calls were
//! asked and what they answered, each cut where it is long.

use countersign_engine::Trace;
use countersign_kernel::Session;
use countersign_types::Millis;

use super::compact::{self, Begun, Line, Tone};
use crate::text;

/// Lines of one text that are shown.
const MAX_LINES: usize = 40;

/// Characters of one line that are shown.
const MAX_COLUMNS: usize = 400;

/// What a trace looks like, a line or more; none for what is not worth one.
pub(super) fn lines(session: &Session, trace: &Trace<'_>, begun: &mut Begun, now: Millis) -> Vec<Line> {
    let at = match trace {
        Trace::Committed { at, .. } => *at,
        _ => now,
    };
    let head = compact::line(session, trace, begun);
    let below = match trace {
        Trace::Said { text, .. } => below(text),
        Trace::Result { text, .. } => below(text),
        Trace::Call { effect, tool, arguments, .. } => {
            let words = format!("step {}  {tool} begins", effect.step);
            let mut lines = vec![Line { tone: Tone::Plain, text: timed(at, &words) }];
            lines.extend(below(arguments));
            return lines;
        }
        Trace::Committed { .. } | Trace::Note { .. } => Vec::new(),
    };
    let head = head.map(|line| Line { text: timed(at, &line.text), ..line });
    head.into_iter().chain(below).collect()
}

fn timed(at: Millis, words: &str) -> String {
    let second = at.0 / 1000 % 86_400;
    let (hours, minutes, seconds, millis) = (second / 3600, second / 60 % 60, second % 60, at.0 % 1000);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03} {words}")
}

/// The lines of somebody else's text, safe to print and bounded.
fn below(said: &str) -> Vec<Line> {
    let said = said.trim_end();
    let plain = |text: String| Line { tone: Tone::Plain, text };
    let mut out: Vec<Line> = said
        .lines()
        .take(MAX_LINES)
        .map(|line| {
            let safe = text::safe(line);
            let cut: String = safe.chars().take(MAX_COLUMNS).collect();
            let more = if cut.len() < safe.len() { "…" } else { "" };
            plain(format!("    │ {cut}{more}").trim_end().to_owned())
        })
        .collect();
    let more = said.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        out.push(plain(format!("    │ … {more} more lines")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_in_both_directions_and_moves_no_cursor() {
        let lines = below(&format!("{}\n", "x\u{1b}[2J".repeat(1000)).repeat(100));
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[MAX_LINES].text, "    │ … 60 more lines");
        for line in &lines {
            assert!(
                line.text.chars().count() <= MAX_COLUMNS + 10 && !line.text.contains('\u{1b}'),
                "{line:?}"
            );
        }
        assert!(below(" \n\n").is_empty());
        assert_eq!(timed(Millis(1_796_000_000_123), "x"), "00:53:20.123 x");
    }
}
