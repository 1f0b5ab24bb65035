//! Traces as lines of text.

use std::collections::BTreeMap;

use countersign_engine::Trace;
use countersign_kernel::{
    BaseVerdict, EffectKind, EffectResult, Event, JobSummary, RedCause, ReviewAnswer, ReviewCall, Session,
    StopHow, ToolName,
};
use countersign_types::{CheckIndex, EffectId, GateStatus, Millis, Tier};

use crate::text;

/// How a line is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    /// Worth a look.
    Care,
}

/// One line: safe to print, bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// To say how long an effect took.
    effects: BTreeMap<EffectId, (EffectKind, Millis)>,
    /// What calls were asked to do.
    calls: BTreeMap<EffectId, String>,
}

pub(super) fn note(words: &str) -> Line {
    let tone = if words.contains("NOT ISOLATED") { Tone::Care } else { Tone::Plain };
    plain(tone, words)
}

/// The line with colours, where they are wanted.
pub(crate) fn dressed(line: &Line, colour: bool) -> String {
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

impl Begun {
    /// What has been under way for the longest, with when it began.
    pub(super) fn longest(&self) -> Option<(EffectKind, Millis)> {
        self.effects.values().min_by_key(|(_, from)| *from).copied()
    }
}

/// What a trace looks like; None for what is not worth a line.
pub(super) fn line(session: &Session, trace: &Trace<'_>, begun: &mut Begun) -> Option<Line> {
    match trace {
        Trace::Committed { at, event, .. } => committed(session, *at, event, begun),
        Trace::Said { step, text: said } => {
            let first = text::one_line(said, text::LINE);
            (!first.is_empty()).then(|| plain(Tone::Plain, &format!("step {step}  model: {first}")))
        }
        // Its line comes with the result.
        Trace::Call { effect, summary, .. } => {
            begun.calls.insert(*effect, text::one_line(summary, text::LINE));
            None
        }
        Trace::Result { effect, tool, ok, text: result, wall } => {
            let summary = result.lines().next().unwrap_or_default();
            let tone = if *ok { Tone::Plain } else { Tone::Care };
            let said = text::one_line(summary, text::LINE / 2);
            let told = *tool == ToolName::Run || !ok;
            let end =
                if told && !said.is_empty() { format!("  {said}  {wall}") } else { format!("  {wall}") };
            let asked = begun.calls.remove(effect).unwrap_or_default();
            // The end of the line stays readable however long the call is.
            let begin = format!("step {}  {tool}: {asked}", effect.step);
            let room = text::LINE.saturating_sub(end.chars().count());
            Some(Line { tone, text: format!("{}{end}", text::one_line(&begin, room)) })
        }
        Trace::Note { text } => Some(note(text)),
    }
}

fn committed(session: &Session, at: Millis, event: &Event, begun: &mut Begun) -> Option<Line> {
    match event {
        Event::EffectIntended { effect, kind, .. } => {
            begun.effects.insert(*effect, (*kind, at));
            let words = begins(session, *kind)?;
            Some(plain(Tone::Plain, &words))
        }
        Event::EffectCompleted { effect, result } => {
            let took = begun.effects.remove(effect).map(|(_, from)| at.saturating_sub(from));
            completed(result, took)
        }
        Event::EffectFailed { effect, failure } => {
            let what = begun.effects.remove(effect).map_or("an effect", |(kind, _)| name(kind));
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
        Event::Nudged { finding } => {
            let words = format!("step {}  the agent was told that it goes round in circles", finding.last);
            Some(plain(Tone::Care, &format!("{words}: {} since step {}", finding.reason, finding.first)))
        }
        Event::CancelRequested { .. } => {
            Some(plain(Tone::Care, "canceling: everything that runs is stopped"))
        }
        Event::DrainRequested { how: StopHow::Request } => Some(plain(
            Tone::Care,
            "pausing: what is under way ends first, then `countersign resume` goes on",
        )),
        Event::DrainRequested { how: StopHow::Signal } => {
            Some(plain(Tone::Care, "parking: `countersign resume` goes on"))
        }
        Event::CapabilitiesRevoked { capabilities } => {
            let names: Vec<&str> = capabilities.iter().map(|capability| capability.as_str()).collect();
            Some(plain(Tone::Care, &format!("revoked: {}", names.join(", "))))
        }
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
        EffectKind::Probe => {
            let argv = session.contract.environment.probe.as_deref().unwrap_or_default();
            Some(format!("probe: {} …", text::command(argv)))
        }
        EffectKind::BaseRun { check } => Some(format!("base: {} …", command(check))),
        EffectKind::Room { check } => Some(format!("room: {} …", command(check))),
        EffectKind::Mutants => Some("mutants: the checks on small faults …".to_owned()),
        EffectKind::Repro => Some("repro: the agent's own reproduction …".to_owned()),
        EffectKind::ReviewCall { call } => {
            let model = session.contract.review.as_ref().map(|terms| terms.model.reference.as_str());
            let model = text::one_line(model.unwrap_or_default(), text::LINE / 2);
            Some(match call {
                ReviewCall::Findings => format!("review: asking {model} …"),
                ReviewCall::Repros => format!("review: asking {model} for commands that show its findings …"),
            })
        }
        EffectKind::ReviewRecheck => Some("review: the commands of earlier findings again …".to_owned()),
        _ => None,
    }
}

/// What is being done, in words.
pub(crate) const fn name(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::Import => "reading the base",
        EffectKind::Setup => "setup",
        EffectKind::Probe => "probe",
        EffectKind::BaseRun { .. } => "the check on the base",
        EffectKind::Candidate => "reading the work",
        EffectKind::Open => "making the sandbox",
        EffectKind::ModelCall => "the model call",
        EffectKind::Tool { .. } => "the tool",
        EffectKind::Seal => "sealing the tree",
        EffectKind::Inspect => "comparing the trees",
        EffectKind::Room { .. } => "the check",
        EffectKind::Mutants => "trying the checks on mutants",
        EffectKind::Patch => "making the patch",
        EffectKind::Repro => "the reproduction",
        EffectKind::ReviewBrief => "gathering the change for the reviewer",
        EffectKind::ReviewCall { .. } => "asking the reviewer",
        EffectKind::ReviewJudge { .. } => "judging the findings",
        EffectKind::ReviewRecheck => "trying earlier findings again",
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
        EffectResult::Candidate { commit, entries, unsealable, .. } => {
            let from = commit.as_deref().map_or_else(String::new, |c| format!(" from commit {c:.12}"));
            let (tone, odd) = match unsealable {
                0 => (Tone::Plain, String::new()),
                odd => (Tone::Bad, format!(", {odd} paths that no patch can carry")),
            };
            Some(plain(tone, &format!("work: {entries} files{from}{odd}{took}")))
        }
        EffectResult::Setup { job, cached, .. } => {
            let cached = if *cached { ", known from an earlier run" } else { "" };
            Some(plain(tone(*job), &format!("setup: {}{cached}{took}", ended(*job))))
        }
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
        EffectResult::Mutants { tried, killed, survived } => {
            let tone = if *survived > 0 { Tone::Care } else { Tone::Plain };
            let words = format!("mutants: {killed} of {tried} killed, {survived} survived{took}");
            Some(plain(tone, &words))
        }
        EffectResult::Patch { bytes, .. } => {
            Some(plain(Tone::Plain, &format!("patch: {bytes} bytes, proven to lead from base to result")))
        }
        EffectResult::ReviewBrief { cut: true, bytes } => Some(plain(
            Tone::Care,
            &format!("review: the change is too large to show whole; {bytes} bytes are shown"),
        )),
        EffectResult::ReviewCall { answer, findings, .. } => Some(match answer {
            ReviewAnswer::Findings => plain(Tone::Plain, &format!("review: {findings} in the answer{took}")),
            ReviewAnswer::Declined => plain(Tone::Care, &format!("review: the reviewer declined{took}")),
            ReviewAnswer::Junk => {
                plain(Tone::Care, &format!("review: the reviewer's answer is of no use{took}"))
            }
        }),
        EffectResult::ReviewJudge { confirmed, advised, refuted, dropped, noted, .. } => {
            let tone = if *confirmed > 0 { Tone::Bad } else { Tone::Plain };
            let words = format!(
                "review: {confirmed} confirmed, {advised} advised, {refuted} refuted, {dropped} dropped, {noted} \
                 noted{took}"
            );
            Some(plain(tone, &words))
        }
        EffectResult::ReviewRecheck { repaired, red, unknown } => {
            let tone = if red + unknown > 0 { Tone::Bad } else { Tone::Good };
            let words = format!("review: {repaired} repaired, {red} still failing, {unknown} unclear{took}");
            Some(plain(tone, &words))
        }
        EffectResult::ModelCall { .. }
        | EffectResult::Tool { .. }
        | EffectResult::Seal { .. }
        | EffectResult::Repro { .. }
        | EffectResult::ReviewBrief { .. } => None,
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use countersign_config::CODING;
    use countersign_kernel::contract::{
        CONTRACT_SCHEMA, CheckTerms, Contract, Detectors, EnvironmentTerms, Expect, Limits, ModelTerms,
        Network, PresetRef, Source,
    };
    use countersign_kernel::{Class, EffectFailure, Reservation, WorkPermit};
    use countersign_types::{Digest, GateKey, Reason, Strength, StrengthLevel, TierProperty, Trust, TurnId};

    pub(in crate::trace) fn session() -> Session {
        Session::new(Contract {
            schema: CONTRACT_SCHEMA.to_owned(),
            preset: PresetRef { name: CODING.name.to_owned(), digest: CODING.digest(), canonical: true },
            model: Some(ModelTerms::new("scripted:m", None)),
            trust: Trust::TrustedLocal,
            sandbox: Tier::Native,
            floor: Default::default(),
            network: Network::None,
            source: Source::Directory { path: "/p".to_owned() },
            environment: EnvironmentTerms {
                setup: Some(vec!["make".into(), "deps".into()]),
                ..Default::default()
            },
            profile: None,
            checks: vec![CheckTerms::new(
                ["sh", "-c", "a | b"].map(str::to_owned).to_vec(),
                Expect::Fix,
                Millis(1),
            )],
            scope: Vec::new(),
            protect: Vec::new(),
            allow: Vec::new(),
            unfenced: false,
            out_of_process: false,
            change_required: true,
            require_verified: false,
            min_strength: None,
            mutants: 0,
            attempts: 1,
            limits: Limits {
                turns: 40,
                tokens: None,
                cost: None,
                deadline: Millis(1),
                tool_actions: 1,
                output_bytes: 1,
                command_timeout: Millis(1),
                model_retries: 1,
            },
            detectors: Detectors::V1,
            repository_instructions: true,
            deps: countersign_kernel::contract::Deps::default(),
            candidate: None,
            review: None,
            repro_first: false,
            pinned: None,
            tools: Vec::new(),
        })
    }

    /// Every kind of line, as a person sees it.
    #[test]
    fn a_whole_turn_in_lines() {
        let (session, mut begun, mut out) = (session(), Begun::default(), String::new());
        let effect = |step, slot| EffectId { turn: TurnId(1), step, slot, attempt: 0 };
        let permit = WorkPermit { request: Digest::of(b""), class: Class::Replay };
        let reserve = Reservation::default();
        let begin = |effect, kind| Event::EffectIntended { effect, kind, permit, reserve };
        let done = |effect, result| Event::EffectCompleted { effect, result };
        let check = CheckIndex(0);
        let tree = Digest::of(b"tree");
        let red = BaseVerdict::Red { cause: RedCause::Test };
        let exit = |code| JobSummary::Exited { code };
        let failure = EffectFailure {
            reason: Reason::Overloaded,
            retry_after: Some(Millis(2000)),
            reset_at: None,
            billed: false,
        };
        let gate = |gate, status, reason, strength| Event::GateDecided {
            attempt: 1,
            gate,
            status,
            reason,
            strength,
            by: None,
        };
        let finding = countersign_kernel::Finding { reason: Reason::Stagnant, first: 3, last: 9 };
        let strength = Strength { level: StrengthLevel::RedBefore, in_process: true };
        let observed: countersign_types::TierProperties = [TierProperty::Userns, TierProperty::Netns].into();
        let events = [
            (0, begin(effect(0, 0), EffectKind::Import)),
            (
                120,
                done(
                    effect(0, 0),
                    EffectResult::Import {
                        tree,
                        commit: Some("0123456789abcdef".into()),
                        entries: 12,
                        dirty: 1,
                    },
                ),
            ),
            (120, begin(effect(0, 1), EffectKind::Setup)),
            (
                1500,
                done(effect(0, 1), EffectResult::Setup { environment: tree, job: exit(0), cached: false }),
            ),
            (1500, begin(effect(0, 2), EffectKind::BaseRun { check })),
            (
                3700,
                done(
                    effect(0, 2),
                    EffectResult::BaseRun { verdict: red, job: exit(1), cached: false, drift: None },
                ),
            ),
            (
                3700,
                done(
                    effect(0, 3),
                    EffectResult::BaseRun {
                        verdict: BaseVerdict::AlreadyGreen,
                        job: exit(0),
                        cached: true,
                        drift: None,
                    },
                ),
            ),
            (3700, done(effect(0, 4), EffectResult::Open { tier: Tier::Native, observed })),
            (3700, done(effect(0, 4), EffectResult::Open { tier: Tier::Host, observed: Default::default() })),
            (3700, begin(effect(1, 0), EffectKind::ModelCall)),
            (3800, Event::EffectFailed { effect: effect(1, 0), failure }),
            (3800, Event::RetryScheduled { effect: effect(1, 0), not_before: Millis(5800) }),
            (
                9000,
                done(
                    effect(9, 0),
                    EffectResult::Inspect {
                        fence: GateStatus::Passed,
                        fence_reason: None,
                        scope: GateStatus::Passed,
                        findings: 0,
                        allowed: 0,
                        out_of_scope: 0,
                        changed: 1,
                    },
                ),
            ),
            (9000, gate(GateKey::Fence, GateStatus::Passed, None, None)),
            (9000, begin(effect(9, 1), EffectKind::Room { check })),
            (
                9900,
                done(
                    effect(9, 1),
                    EffectResult::Room {
                        status: GateStatus::Failed,
                        reason: None,
                        strength: None,
                        job: JobSummary::Signaled { signal: 9 },
                        observed: Default::default(),
                    },
                ),
            ),
            (9900, gate(GateKey::Check, GateStatus::Failed, Some(Reason::CheckFailed), None)),
            (9900, Event::AttemptReturned { attempt: 1, gate: GateKey::Check }),
            (9900, gate(GateKey::Check, GateStatus::Passed, None, Some(strength))),
            (9900, done(effect(9, 2), EffectResult::Patch { patch: tree, bytes: 359 })),
            (9900, Event::Nudged { finding }),
            (9900, Event::CancelRequested { how: StopHow::Signal }),
            (9900, Event::DrainRequested { how: StopHow::Signal }),
            (9900, Event::Resumed),
        ];
        let mut show = |trace: &Trace<'_>| {
            if let Some(line) = line(&session, trace, &mut begun) {
                assert!(line.text.chars().count() <= text::LINE, "{line:?}");
                out.push_str(&format!("{:<6} {}\n", format!("{:?}", line.tone), line.text));
            }
        };
        for (at, event) in &events {
            show(&Trace::Committed { seq: 1, at: Millis(*at), event });
        }
        show(&Trace::Note { text: "sandbox host: NOT ISOLATED" });
        show(&Trace::Said { step: 3, text: "\n I look \u{1b}[2J at it\nand more" });
        show(&Trace::Said { step: 3, text: " \n" });
        let long = "cargo test ".repeat(40);
        for (tool, ok, asked, summary) in [
            (ToolName::Run, true, "cargo test", "exit 0"),
            (ToolName::Run, false, long.as_str(), "exit 101"),
            (ToolName::EditFile, true, "src/lib.rs", "edited `src/lib.rs` (line 1)"),
            (ToolName::ReadFile, false, "a\u{202e}b\u{1b}[31m", "there is no `a\u{202e}b`"),
        ] {
            let effect = effect(3, 1);
            show(&Trace::Call { effect, tool, summary: asked, arguments: "{}" });
            show(&Trace::Result { effect, tool, ok, text: summary, wall: Millis(1234) });
        }
        insta::assert_snapshot!(out);
    }

    #[test]
    fn colour_is_only_added_where_it_is_wanted() {
        let line = Line { tone: Tone::Good, text: "x".to_owned() };
        assert_eq!(dressed(&line, false), "x");
        assert_eq!(dressed(&line, true), "\u{1b}[32mx\u{1b}[0m");
    }
}
