//! Traces as lines of text.

use std::collections::BTreeMap;

use countersign_engine::Trace;
use countersign_kernel::{BaseVerdict, EffectKind, EffectResult, Event, JobSummary, RedCause, Session};
use countersign_types::{CheckIndex, EffectId, GateStatus, Millis, Tier};

use crate::text;

/// How a line is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    /// Worth a look.
    Care,
}

/// One line: safe to print, bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// Effects under way.
pub(super) type Begun = BTreeMap<EffectId, (EffectKind, Millis)>;

pub(super) fn note(words: &str) -> Line {
    let tone = if words.contains("NOT ISOLATED") { Tone::Care } else { Tone::Plain };
    plain(tone, words)
}

/// The line with colours, where they are wanted.
pub(super) fn dressed(line: &Line, colour: bool) -> String {
    let code = match line.tone {
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Care => "33",
        Tone::Plain => return line.text.clone(),
    };
    if colour { format!("\u{1b}[{code}m{}\u{1b}[0m", line.text) } else { line.text.clone() }
}

fn plain(tone: Tone, words: &str) -> Line {
    Line { tone, text: text::one_line(words, text::LINE) }
}

/// What a trace looks like; None for what is not worth a line.
pub(super) fn line(session: &Session, trace: &Trace<'_>, begun: &mut Begun) -> Option<Line> {
    match trace {
        Trace::Committed { at, event, .. } => committed(session, *at, event, begun),
        Trace::Said { step, text: said } => {
            let first = text::one_line(said, text::LINE);
            (!first.is_empty()).then(|| plain(Tone::Plain, &format!("step {step}  model: {first}")))
        }
        // Its line comes with the result; a command may take long, and so says when it begins.
        Trace::Call { .. } => None,
        Trace::Result { effect, tool, ok, summary, wall } => {
            let tone = if *ok { Tone::Plain } else { Tone::Care };
            // The end of the line stays readable however long the summary is.
            let end = format!("  {wall}");
            let begin = format!("step {}  {tool}: {}", effect.step, text::one_line(summary, text::LINE));
            let room = text::LINE.saturating_sub(end.chars().count());
            Some(Line { tone, text: format!("{}{end}", text::one_line(&begin, room)) })
        }
        Trace::Note { text } => Some(note(text)),
    }
}

fn committed(session: &Session, at: Millis, event: &Event, begun: &mut Begun) -> Option<Line> {
    match event {
        Event::EffectIntended { effect, kind, .. } => {
            begun.insert(*effect, (*kind, at));
            let words = begins(session, *kind)?;
            Some(plain(Tone::Plain, &words))
        }
        Event::EffectCompleted { effect, result } => {
            let took = begun.remove(effect).map(|(_, from)| at.saturating_sub(from));
            completed(result, took)
        }
        Event::EffectFailed { effect, failure } => {
            let what = begun.remove(effect).map_or("an effect", |(kind, _)| name(kind));
            let again = if failure.retry_after.is_some() { "; it is tried again" } else { "" };
            Some(plain(Tone::Bad, &format!("{what} failed: {}{again}", failure.reason)))
        }
        Event::EffectDenied { capability, .. } => {
            Some(plain(Tone::Care, &format!("denied: the session may not {}", capability.as_str())))
        }
        Event::EffectUnknown { .. } => {
            Some(plain(Tone::Bad, "an effect was lost: nobody can say whether it happened"))
        }
        Event::RetryScheduled { not_before, .. } => {
            let wait = not_before.saturating_sub(at);
            Some(plain(Tone::Care, &format!("model: waits {wait}, then asks again")))
        }
        Event::GateDecided { gate, status, reason, strength, .. } => {
            let tone = match status {
                GateStatus::Passed => Tone::Good,
                GateStatus::Failed | GateStatus::Unverifiable => Tone::Bad,
                GateStatus::Absent | GateStatus::NotReached => Tone::Plain,
            };
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let strength = strength.map(|s| format!(", strength {}", s.level)).unwrap_or_default();
            Some(plain(tone, &format!("gate {gate} {}{why}{strength}", status.as_str())))
        }
        Event::AttemptReturned { attempt, gate } => {
            Some(plain(Tone::Care, &format!("attempt {attempt} did not pass {gate}; the agent works on")))
        }
        Event::CancelRequested { .. } => {
            Some(plain(Tone::Care, "canceling: everything that runs is stopped"))
        }
        Event::DrainRequested => Some(plain(Tone::Care, "parking: `countersign resume` goes on")),
        Event::Resumed => Some(plain(Tone::Plain, "resumed")),
        _ => None,
    }
}

/// What takes a while and would be silent until its end.
fn begins(session: &Session, kind: EffectKind) -> Option<String> {
    let command = |check: CheckIndex| {
        let index = usize::try_from(check.0).unwrap_or(usize::MAX);
        session.contract.checks.get(index).map(|check| text::command(&check.argv)).unwrap_or_default()
    };
    match kind {
        EffectKind::Setup => {
            let argv = session.contract.environment.setup.as_deref().unwrap_or_default();
            Some(format!("setup: {} …", text::command(argv)))
        }
        EffectKind::BaseRun { check } => Some(format!("base: {} …", command(check))),
        EffectKind::Room { check } => Some(format!("room: {} …", command(check))),
        _ => None,
    }
}

const fn name(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::Import => "reading the base",
        EffectKind::Setup => "setup",
        EffectKind::Probe => "probe",
        EffectKind::BaseRun { .. } => "the check on the base",
        EffectKind::Open => "making the sandbox",
        EffectKind::ModelCall => "the model call",
        EffectKind::Tool { .. } => "the tool",
        EffectKind::Seal => "sealing the tree",
        EffectKind::Inspect => "comparing the trees",
        EffectKind::Room { .. } => "the check",
        EffectKind::Patch => "making the patch",
    }
}

fn completed(result: &EffectResult, took: Option<Millis>) -> Option<Line> {
    let took = took.map(|took| format!("  {took}")).unwrap_or_default();
    match result {
        EffectResult::Import { commit, entries, dirty, .. } => {
            let from =
                commit.as_deref().map_or_else(|| "directory".to_owned(), |c| format!("commit {c:.12}"));
            let dirty = if *dirty > 0 { format!(", {dirty} not committed") } else { String::new() };
            Some(plain(Tone::Plain, &format!("base: {entries} files from {from}{dirty}{took}")))
        }
        EffectResult::Setup { job, .. } => Some(plain(tone(*job), &format!("setup: {}{took}", ended(*job)))),
        EffectResult::Probe { job } => Some(plain(tone(*job), &format!("probe: {}{took}", ended(*job)))),
        EffectResult::BaseRun { verdict, job, cached, .. } => {
            let (tone, words) = match verdict {
                BaseVerdict::Red { cause: RedCause::Test } => {
                    (Tone::Good, "red, as it should be before a fix")
                }
                BaseVerdict::Red { cause: RedCause::Unknown } => (Tone::Good, "red, cause unknown"),
                BaseVerdict::Green => (Tone::Good, "green, as it should be"),
                BaseVerdict::AlreadyGreen => (Tone::Bad, "green already: there is nothing to fix"),
                BaseVerdict::Environment => (Tone::Bad, "the check cannot judge here"),
            };
            let cached = if *cached { ", known from an earlier run" } else { "" };
            Some(plain(tone, &format!("base: {words} ({}{cached}){took}", ended(*job))))
        }
        EffectResult::Open { tier, observed } => {
            if *tier == Tier::Host {
                return Some(plain(Tone::Care, "sandbox host: NOT ISOLATED"));
            }
            let seen: Vec<_> = observed.iter().map(|property| property.as_str()).collect();
            Some(plain(Tone::Plain, &format!("sandbox {tier}: {}", seen.join(", "))))
        }
        EffectResult::Seal { unsealable, .. } if *unsealable > 0 => {
            Some(plain(Tone::Care, &format!("seal: {unsealable} entries that no patch can carry")))
        }
        EffectResult::Inspect { changed, .. } => Some(plain(
            Tone::Plain,
            &format!("sealed: {changed} changed {}", if *changed == 1 { "path" } else { "paths" }),
        )),
        EffectResult::Room { job, .. } => Some(plain(Tone::Plain, &format!("room: {}{took}", ended(*job)))),
        EffectResult::Patch { bytes, .. } => {
            Some(plain(Tone::Plain, &format!("patch: {bytes} bytes, proven to lead from base to result")))
        }
        EffectResult::ModelCall { .. } | EffectResult::Tool { .. } | EffectResult::Seal { .. } => None,
    }
}

const fn tone(job: JobSummary) -> Tone {
    match job {
        JobSummary::Exited { code: 0 } => Tone::Good,
        _ => Tone::Bad,
    }
}

fn ended(job: JobSummary) -> String {
    match job {
        JobSummary::Exited { code } => format!("exit {code}"),
        JobSummary::Signaled { signal } => format!("signal {signal}"),
        JobSummary::Limited => "a limit was hit".to_owned(),
        JobSummary::Canceled => "canceled".to_owned(),
        JobSummary::NotStarted => "could not be started".to_owned(),
    }
}
