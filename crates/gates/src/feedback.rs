//! What the agent is told after a red attempt.

use countersign_kernel::contract::CheckTerms;
use countersign_types::{Captured, GateStatus, JobReceipt};

use crate::check::{CheckDecision, how_it_ended};

/// Bytes of one feedback text at most.
pub const FEEDBACK_LIMIT: usize = 16 * 1024;

/// Bytes for one stream when several checks share the text.
const LEAST_STREAM: usize = 512;

/// One judged check.
#[derive(Clone, Copy, Debug)]
pub struct FeedbackItem<'a> {
    pub terms: &'a CheckTerms,
    pub decision: &'a CheckDecision,
    pub receipt: &'a JobReceipt,
}

/// Says which checks passed, and for each other one its command, how it ended, and head and tail of what it wrote.
/// At most [`FEEDBACK_LIMIT`] bytes; control characters are replaced, so that a check's output cannot pose as ours.
/// The receipts must already be redacted.
#[must_use]
pub fn feedback(items: &[FeedbackItem<'_>]) -> String {
    let red = items.iter().filter(|i| i.decision.status != GateStatus::Passed).count();
    let mut out = format!(
        "The checks ran on exactly the files as they are now, in a clean room without your scratch files: {} of {} \
         passed.\n",
        items.len() - red,
        items.len()
    );
    let share = FEEDBACK_LIMIT.saturating_sub(out.len()) / red.max(1);
    for item in items.iter().filter(|i| i.decision.status != GateStatus::Passed) {
        let ending = how_it_ended(&item.receipt.end);
        let detail = item.decision.told();
        let mut head = format!("\n$ {}\n{ending}", shown_argv(&item.terms.argv));
        if detail != ending {
            head.push_str(": ");
            head.push_str(&line(detail.strip_prefix(&format!("{ending}: ")).unwrap_or(detail)));
        }
        head.push('\n');
        let stream = share.saturating_sub(head.len()) / 2;
        out.push_str(&head);
        push_stream(&mut out, "stdout", &item.receipt.stdout, stream.max(LEAST_STREAM));
        push_stream(&mut out, "stderr", &item.receipt.stderr, stream.max(LEAST_STREAM));
    }
    clip(&mut out, FEEDBACK_LIMIT);
    out
}

/// argv as a person would type it.
pub(crate) fn shown_argv(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let words: Vec<String> = argv
        .iter()
        .map(|word| {
            let word = line(word);
            if !word.is_empty() && word.chars().all(plain) {
                word
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect();
    let mut text = words.join(" ");
    clip(&mut text, 500);
    text
}

pub(crate) fn push_stream(out: &mut String, name: &str, captured: &Captured, limit: usize) {
    if captured.total == 0 {
        return;
    }
    // What failed stands at the end of most runners' output: the tail gets two thirds.
    let mut bytes = captured.head.clone();
    let mut omitted = captured.omitted;
    let (head, tail): (&[u8], &[u8]) = if captured.tail.is_empty() && omitted == 0 {
        let whole = bytes.as_slice();
        if whole.len() <= limit {
            (whole, &[])
        } else {
            let (first, last) = (limit / 3, limit - limit / 3);
            omitted = (whole.len() - limit) as u64;
            (&whole[..first], &whole[whole.len() - last..])
        }
    } else {
        let first = bytes.len().min(limit / 3);
        omitted += (bytes.len() - first) as u64;
        bytes.truncate(first);
        let last = captured.tail.len().min(limit - limit / 3);
        omitted += (captured.tail.len() - last) as u64;
        (bytes.as_slice(), &captured.tail[captured.tail.len() - last..])
    };
    out.push_str(&format!("--- {name} ({} bytes)\n", captured.total));
    push_clean(out, head);
    if omitted > 0 {
        out.push_str(&format!("\n[… {omitted} bytes left out …]\n"));
    }
    push_clean(out, tail);
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

fn push_clean(out: &mut String, bytes: &[u8]) {
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' => {}
            c if is_hidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// One line of text without control characters.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// A name of hostile origin in a sentence of ours.
pub(crate) fn short(name: &str) -> String {
    let mut text = line(name);
    clip(&mut text, 200);
    text
}

/// Characters that move a cursor, hide text or change reading direction.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(crate) fn clip(text: &mut String, limit: usize) {
    const MARK: &str = "…";
    if text.len() > limit {
        let mut end = limit.saturating_sub(MARK.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
}
