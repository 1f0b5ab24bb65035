use countersign_kernel::Capability;
use countersign_types::{Captured, JobEnd, JobReceipt, LimitHit};

/// One line of at most `width` characters; control, bidi and other hidden characters are escaped.
#[must_use]
pub fn one_line(text: &str, width: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count >= width {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push(' '),
            c if hidden(c) => out.push_str(&escape(c)),
            c => out.push(c),
        }
    }
    out
}

fn hidden(c: char) -> bool {
    let bidi =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || bidi
}

fn escape(c: char) -> String {
    let code = u32::from(c);
    if code < 0x100 { format!("\\x{code:02x}") } else { format!("\\u{{{code:x}}}") }
}

/// The result of a command as the model reads it: how it ended, then its output with what was left out counted. How long
/// it took is not in it: the same work gives the same transcript, so that a recording can be played again.
#[must_use]
pub fn job_result(receipt: &JobReceipt) -> String {
    described(receipt, "pass a larger timeout_s, or run less", "")
}

/// The same for the person whose command it was: a set-up, a probe or a check.
#[must_use]
pub fn operator_result(receipt: &JobReceipt) -> String {
    let advice = "raise --check-timeout (a set-up has 10 minutes at the most)";
    described(receipt, advice, &format!(" ({})", receipt.wall))
}

/// E2BIG of exec.
const TOO_LONG: i32 = 7;

fn described(receipt: &JobReceipt, advice: &str, took: &str) -> String {
    let how = match &receipt.end {
        JobEnd::Exited { code } => format!("exit {code}"),
        JobEnd::Signaled { signal } => format!("killed by signal {signal}"),
        JobEnd::Limit { which: LimitHit::Timeout } => format!("ended by the time limit; {advice}"),
        JobEnd::Limit { which: LimitHit::Oom } => "ended: out of memory".to_owned(),
        JobEnd::Limit { which: LimitHit::Pids } => "ended: too many processes".to_owned(),
        JobEnd::Limit { which: LimitHit::Output } => "ended: too much output".to_owned(),
        JobEnd::Limit { which: LimitHit::Disk } => "ended: the disk limit was reached".to_owned(),
        JobEnd::Canceled => "interrupted".to_owned(),
        JobEnd::NotStarted { errno: TOO_LONG, .. } => {
            "could not be started: the command is too long, Linux takes 128 KiB: write it into a file and run that"
                .to_owned()
        }
        JobEnd::NotStarted { errno, what } => format!("could not be started: {what} (errno {errno})"),
    };
    let mut out = format!("{how}{took}\n");
    if receipt.killed > 0 {
        out.push_str(&format!(
            "{} process(es) that it left running were ended: nothing outlives a command here.\n",
            receipt.killed
        ));
    }
    stream(&mut out, "stdout", &receipt.stdout);
    stream(&mut out, "stderr", &receipt.stderr);
    out
}

fn stream(out: &mut String, name: &str, captured: &Captured) {
    if captured.total == 0 {
        return;
    }
    out.push_str(&format!("--- {name}\n"));
    out.push_str(&String::from_utf8_lossy(&captured.head));
    if captured.omitted > 0 {
        out.push_str(&format!("\n[… {} bytes left out of {} …]\n", captured.omitted, captured.total));
    }
    out.push_str(&String::from_utf8_lossy(&captured.tail));
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

/// What a model reads when the session holds no capability for its call.
#[must_use]
pub fn denied(capability: Capability) -> String {
    format!("refused: this session does not hold `{}`. Nothing was done.", capability.as_str())
}

/// What a model reads when there is no check to run.
#[must_use]
pub fn check_refused() -> String {
    "this session has no check. Nothing was run.".to_owned()
}

/// What a model reads in place of a result whose stored bytes are gone.
#[must_use]
pub fn not_stored() -> String {
    "[this result is no longer stored]".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_types::{JobId, Millis};

    #[test]
    fn hidden_characters_are_shown_and_never_sent() {
        assert_eq!(one_line("a\u{1b}[31mb\u{202e}c\nd\te", 80), "a\\x1b[31mb\\u{202e}c\\nd e");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }

    #[test]
    fn a_result_says_how_it_ended_and_what_was_left_out() {
        let receipt = JobReceipt {
            job: JobId::new("j1").unwrap(),
            end: JobEnd::Exited { code: 101 },
            stdout: Captured { head: b"first".to_vec(), tail: b"last\n".to_vec(), omitted: 10, total: 20 },
            stderr: Captured::default(),
            wall: Millis(1234),
            killed: 1,
        };
        let text = job_result(&receipt);
        assert!(text.starts_with("exit 101\n1 process(es)"), "{text}");
        assert!(operator_result(&receipt).starts_with("exit 101 (1.2s)\n1 process(es)"));
        let slower = JobReceipt { wall: Millis(4321), ..receipt.clone() };
        assert_eq!(job_result(&slower), text, "the clock is no part of what the model reads");
        let end = JobEnd::NotStarted { errno: TOO_LONG, what: "exec sh".to_owned() };
        let long = job_result(&JobReceipt { end, ..receipt.clone() });
        assert!(long.contains("too long") && !long.contains("errno"), "{long}");
        assert!(text.ends_with("--- stdout\nfirst\n[… 10 bytes left out of 20 …]\nlast\n"), "{text}");
    }
}
