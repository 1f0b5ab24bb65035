//! `events`: a session's journal, line by line as it is hashed.

use countersign_store::Store as _;
use countersign_types::SessionId;

use crate::args::{EventsArgs, Format, TextOrNdjson};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, session};
use crate::{exit, ports, render, terminal, text};

/// Events that are read at a time.
const PAGE: u32 = 500;

pub(crate) fn events(args: &EventsArgs) -> u8 {
    match write(&args.id, args.format) {
        Ok(()) => exit::DONE,
        Err(refusal) => {
            let format = if args.format == TextOrNdjson::Ndjson { Format::Ndjson } else { Format::Text };
            render::refused(format, &refusal)
        }
    }
}

fn write(id: &SessionId, format: TextOrNdjson) -> Result<(), Refusal> {
    let home = Home::open()?;
    run::runtime()?.block_on(async {
        session::known(&home, id).await?;
        // Checks the whole chain before a line is shown.
        let last = home.store.load(id).await?.seq;
        let mut after = 0;
        while after < last {
            let page = home.store.events(id, after, PAGE).await?;
            let Some(end) = page.events.last().map(|event| event.seq) else { break };
            for event in &page.events {
                match format {
                    // The canonical bytes: `sha256` of a line is the next line's `prev`.
                    TextOrNdjson::Ndjson => terminal::out_line(&event.line),
                    TextOrNdjson::Text => {
                        let line = format!(
                            "{:>5}  {}  {}  {}",
                            event.seq,
                            ports::time(event.at),
                            event.kind,
                            short(&event.data)
                        );
                        terminal::out_line(&text::one_line(&line, 2 * text::LINE));
                    }
                }
            }
            after = end;
        }
        Ok(())
    })
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
