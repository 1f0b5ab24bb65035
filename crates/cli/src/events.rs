//! `events`: a session's journal, line by line as it is hashed.

use countersign_store::Store as _;
use countersign_types::SessionId;

use crate::args::{EventsArgs, Format, TextOrNdjson};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, session};
use crate::{exit, lease, ports, render, terminal, text};

/// Events that are read at a time.
const PAGE: u32 = 500;

pub(crate) fn events(args: &EventsArgs) -> u8 {
    match write(args) {
        Ok(code) => code,
        Err(refusal) => {
            let format = if args.format == TextOrNdjson::Ndjson { Format::Ndjson } else { Format::Text };
            render::refused(format, &refusal)
        }
    }
}

fn write(args: &EventsArgs) -> Result<u8, Refusal> {
    let (id, home) = (&args.id, Home::open()?);
    run::runtime()?.block_on(async {
        session::known(&home, id).await?;
        // Checks the whole chain before a line is shown.
        home.store.load(id).await?;
        let (mut after, mut waiting) = (0, lease::Waiting::default());
        loop {
            let driven = args.follow && lease::held(&home, id);
            let row = home.store.session(id).await?;
            after = all(&home, id, args.format, after, row.seq).await?;
            // A session's row is written with its events.
            if !args.follow || row.summary.get("outcome").is_some_and(|outcome| !outcome.is_null()) {
                return Ok(exit::DONE);
            }
            let (word, idle) = lease::idle(id, lease::status(&row));
            // It waits for a person, who may take their time.
            let rests = !driven && matches!(word, "ready" | "parked");
            if rests || !waiting.goes_on(driven).await {
                terminal::err_line(&idle);
                return Ok(if word == lease::LOST { exit::NEGATIVE } else { exit::DONE });
            }
        }
    })
}

/// Writes the events behind `after` up to `last`, and gives the number of the last one.
async fn all(
    home: &Home,
    id: &SessionId,
    format: TextOrNdjson,
    mut after: u64,
    last: u64,
) -> Result<u64, Refusal> {
    while after < last {
        let page = home.store.events(id, after, PAGE).await?;
        let Some(end) = page.events.last().map(|event| event.seq) else { break };
        for event in page.events.iter().filter(|event| event.seq <= last) {
            match format {
                // The canonical bytes: `sha256` of a line is the next line's `prev`.
                TextOrNdjson::Ndjson => terminal::out_line(&event.line),
                TextOrNdjson::Text => {
                    let (at, data) = (ports::time(event.at), short(&event.data));
                    let line = format!("{:>5}  {at}  {}  {data}", event.seq, event.kind);
                    terminal::out_line(&text::one_line(&line, 2 * text::LINE));
                }
            }
        }
        after = end.min(last);
    }
    Ok(after)
}

/// The fields of an event without its kind, which stands before them.
fn short(data: &serde_json::Value) -> String {
    let serde_json::Value::Object(fields) = data else { return data.to_string() };
    let fields = fields.iter().filter(|(name, value)| *name != "event" && !value.is_null());
    fields
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => {
                format!("{name}={}", text.chars().take(24).collect::<String>())
            }
            other => format!("{name}={other}"),
        })
        .collect::<Vec<_>>()
        .join(" ")
}
