//! `show`: a session's result and what was said and done in it.

use countersign_engine::{Survivor, TranscriptEntry};
use countersign_store::Store as _;
use countersign_types::SessionId;
use serde::Serialize;

use crate::args::{Format, ShowArgs, ShowFormat};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::result::{ErrorResult, RunResult};
use crate::run::{self, session};
use crate::{exit, lease, ports, render, report, terminal, text};

/// Characters of one entry of the transcript on a terminal.
const ENTRY: usize = 4000;

#[derive(Debug, Serialize)]
struct Shown {
    result: RunResult,
    transcript: Vec<Entry>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    seq: u64,
    at: u64,
    role: &'static str,
    effect: Option<String>,
    text: String,
}

impl From<TranscriptEntry> for Entry {
    fn from(entry: TranscriptEntry) -> Self {
        let TranscriptEntry { seq, at, role, effect, text } = entry;
        Self { seq, at: at.0, role, effect: effect.map(|effect| effect.to_string()), text }
    }
}

pub(crate) fn show(args: &ShowArgs) -> u8 {
    let format = match args.format {
        ShowFormat::Text => Format::Text,
        ShowFormat::Json => Format::Json,
        ShowFormat::Markdown => Format::Markdown,
    };
    if let Some(what) = &args.reveal {
        let shown = match &args.out {
            Some(dir) => crate::evidence::hand_over(&args.id, what, dir),
            None => crate::evidence::reveal(&args.id, what),
        };
        return match shown {
            Ok(line) => {
                terminal::out_line(&line);
                exit::DONE
            }
            Err(refusal) => render::refused(format, &refusal),
        };
    }
    match look(&args.id) {
        Ok(shown) => {
            match args.format {
                ShowFormat::Json => match serde_json::to_string(&shown) {
                    Ok(line) => terminal::out_line(&line),
                    Err(error) => return render::refused(format, &Refusal::bug(error.to_string())),
                },
                ShowFormat::Markdown => terminal::out_bytes(report::whole(&shown.result).as_bytes()),
                ShowFormat::Text => terminal::out_bytes(for_people(&shown).as_bytes()),
            }
            exit::DONE
        }
        Err(refusal) => render::refused(format, &refusal),
    }
}

/// `report`: the same as `show --format markdown`.
pub(crate) fn report(id: &SessionId) -> u8 {
    match look(id) {
        Ok(shown) => {
            terminal::out_bytes(report::whole(&shown.result).as_bytes());
            exit::DONE
        }
        Err(refusal) => render::refused(Format::Text, &refusal),
    }
}

fn look(id: &SessionId) -> Result<Shown, Refusal> {
    let home = Home::open()?;
    run::runtime()?.block_on(async {
        session::known(&home, id).await?;
        let mut result = session::shown(&home, id).await;
        if result.outcome.is_none() && result.error.is_none() && !lease::held(&home, id) {
            let row = home.store.session(id).await?;
            let (kind, message) = lease::idle(id, lease::status(&row));
            result.error = Some(ErrorResult { kind, message });
        }
        let transcript = countersign_engine::transcript(home.store.as_ref(), id).await?;
        Ok(Shown { result, transcript: transcript.into_iter().map(Entry::from).collect() })
    })
}

/// What was said and done, for people. Of one entry `limit` characters are shown at most.
pub(crate) fn transcript(entries: &[Entry], limit: usize) -> String {
    let mut out = String::new();
    for entry in entries {
        let effect = entry.effect.as_deref().unwrap_or("-");
        out.push_str(&format!(
            "── {} {effect} {}\n",
            entry.role,
            ports::time(countersign_types::Millis(entry.at))
        ));
        let safe = text::safe(entry.text.trim_end());
        let cut: String = safe.chars().take(limit).collect();
        out.push_str(&cut);
        if cut.len() < safe.len() {
            out.push_str("\n[cut here; --format json has all of it]");
        }
        out.push_str("\n\n");
    }
    out
}

fn for_people(shown: &Shown) -> String {
    let mut out = transcript(&shown.transcript, ENTRY);
    if let Some(error) = &shown.result.error {
        out.push_str(&format!("error: {}\n", text::safe(&error.message)));
    }
    for attempt in shown.result.attempts.iter().filter(|attempt| attempt.returned) {
        let gate = attempt.gate.map_or("", |gate| gate.as_str());
        let reason = attempt.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        out.push_str(&format!("attempt {} went back to work: {gate}{reason}\n", attempt.attempt));
        if let Some(detail) = attempt.detail.as_deref().filter(|detail| !detail.is_empty()) {
            out.push_str(&format!("     {}\n", text::safe(detail).replace('\n', "\n     ")));
        }
    }
    for (key, gate) in &shown.result.gates {
        if gate.status == countersign_types::GateStatus::Absent {
            continue;
        }
        let reason = gate.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        out.push_str(&format!("gate {:<7} {}{reason}\n", key.as_str(), gate.status.as_str()));
        if let Some(detail) = gate.detail.as_deref().filter(|detail| !detail.is_empty()) {
            out.push_str(&format!("     {}\n", text::safe(detail).replace('\n', "\n     ")));
        }
    }
    for survivor in shown.result.mutants.iter().flat_map(|mutants| &mutants.survived) {
        let Survivor { path, line, kind } = survivor;
        let words = format!("mutant survived: {path}:{line} ({})", kind.as_str());
        out.push_str(&text::safe(&words));
        out.push('\n');
    }
    for claim in &shown.result.claims {
        out.push_str(&text::safe(&render::claimed(claim)));
        out.push('\n');
    }
    out.push_str(&report::findings(&shown.result));
    out.push_str(&report::review(&shown.result));
    out.push_str(&render::summary(&shown.result));
    out.push('\n');
    out
}
