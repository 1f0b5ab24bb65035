//! One payload of a journal, shown with the salt of its commitment: what an event committed to is proven, and everything
//! else stays hidden.

use countersign_proof::Revealed;
use countersign_store::Store as _;
use countersign_types::SessionId;

use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, session};

/// What hides every text that the journal names. Shown, it would let all of them be guessed.
const BLIND: &str = "blind";

/// One JSON line: the payload `what`, a number or `NUMBER:NAME`, of a session of this home.
pub(crate) fn reveal(id: &SessionId, what: &str) -> Result<String, Refusal> {
    let (seq, name) = what.split_once(':').map_or((what, None), |(seq, name)| (seq, Some(name)));
    let Some(seq) = seq.parse().ok().filter(|seq| *seq > 0) else {
        return Err(Refusal::usage(format!(
            "--reveal `{}` names no event: give its number, as `countersign events {id}` shows it, and `:NAME` for one \
             of several payloads",
            crate::text::one_line(what, crate::text::LINE)
        )));
    };
    let home = Home::open()?;
    run::runtime()?.block_on(async {
        session::known(&home, id).await?;
        let page = home.store.events(id, seq - 1, 1).await?;
        let Some(event) = page.events.first().filter(|event| event.seq == seq) else {
            return Err(Refusal::usage(format!(
                "session {id} has no event {seq}: `countersign events {id}` lists them"
            )));
        };
        if name == Some(BLIND) {
            return Err(Refusal::usage(format!(
                "the payload `{BLIND}` of event {seq} is not shown: it hides all other texts of session {id}"
            )));
        }
        let names: Vec<&str> = event.payloads.keys().map(String::as_str).filter(|name| *name != BLIND).collect();
        let name = match (name, names.as_slice()) {
            (Some(name), _) if names.contains(&name) => name,
            (None, [only]) => only,
            (_, []) => {
                return Err(Refusal::usage(format!(
                    "event {seq} ({}) has no payload: all of it is in its line, which `countersign events {id} --format \
                     ndjson` shows",
                    event.kind
                )));
            }
            (_, several) => {
                return Err(Refusal::usage(format!(
                    "say which payload of event {seq} ({}): --reveal {seq}:NAME with one of {}",
                    event.kind,
                    several.join(", ")
                )));
            }
        };
        let revealed = home.store.reveal(id, seq, name).await?;
        let payload = event.payloads.get(name).ok_or_else(|| Refusal::bug("the payload is gone".to_owned()))?;
        let (place, line) = ((id, seq, name), (event.line.as_str(), payload.commitment));
        let shown = Revealed::new(place, line, &revealed.salt, revealed.bytes);
        let text = shown.map_err(|error| error.to_string()).and_then(|shown| shown.to_json().map_err(|e| e.to_string()));
        text.map_err(Refusal::bug)
    })
}

/// Holds what was revealed against the journal of a session: which payload it is, or why it is not of it.
pub(super) fn check(file: &[u8], journal: &[u8], session: &SessionId) -> Result<String, String> {
    Revealed::read(file).and_then(|shown| shown.check(journal, session)).map_err(|why| why.to_string())
}
