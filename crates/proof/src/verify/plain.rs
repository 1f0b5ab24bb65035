//! The files that programs and people read without a signature's help, held against what is signed of the turn.

use countersign_types::{Blind, Digest, canonical_json};
use serde_json::{Value, json};

use super::{Bundle, Finding};
use crate::layout::{CONFIG, RESULT};
use crate::statement::{ModelUsed, Turn};
use crate::strict::read_unique;

fn read(bundle: &Bundle, path: &str, buffer: &mut Vec<u8>, findings: &mut Vec<Finding>) -> Option<Value> {
    let bytes = bundle.load(path, buffer, findings)?;
    match read_unique(&bytes) {
        Ok(value) => Some(value),
        Err(e) => {
            findings.push(Finding::Json { path: path.to_owned(), why: e.to_string() });
            None
        }
    }
}

/// The result object that programs read must say what was signed; all of it, where the journal `tells` a turn.
pub(super) fn result(
    bundle: &Bundle,
    turn: &Turn,
    tells: bool,
    buffer: &mut Vec<u8>,
    findings: &mut Vec<Finding>,
) {
    let Some(value) = read(bundle, RESULT, buffer, findings) else { return };
    let mut wrong = |field: &str| {
        let why = format!("its `{field}` is not the one that was signed");
        findings.push(Finding::Contradiction { path: RESULT.to_owned(), why });
    };
    // A run that was refused before it had a session names neither session nor turn.
    let fields: [(&str, Value, bool); 6] = [
        ("session", json!(turn.session), true),
        ("turn", json!(turn.turn), true),
        ("outcome", json!(turn.outcome), false),
        ("reason", json!(turn.reason), false),
        ("exit_code", json!(turn.exit_code), false),
        // Where nothing was sealed, it names the last checkpoint, which nobody judged.
        ("tree", turn.final_tree.map_or_else(|| value["tree"].clone(), |tree| json!(tree)), false),
    ];
    for (field, wanted, may_be_null) in fields {
        let is = value.get(field);
        if is != Some(&wanted) && !(may_be_null && is == Some(&Value::Null)) {
            wrong(field);
        }
    }
    // The first golden bundle has none of these.
    let more = [
        ("strength", json!(turn.strength)),
        ("contract", json!(turn.contract)),
        ("rescued_from", json!(turn.rescued_from)),
    ];
    for (field, _) in more.iter().filter(|(field, signed)| value.get(field).map_or(tells, |is| is != signed))
    {
        wrong(field);
    }
    if let Some(base) = value.get("base") {
        // Where nothing was sealed, the base tree is not signed.
        let tree = turn.base_tree.map_or_else(|| base["tree"].clone(), |tree| json!(tree));
        if base["commit"] != json!(turn.base_commit) || base["tree"] != tree {
            wrong("base");
        }
    } else if tells {
        wrong("base");
    }
}

/// The contract that is shown must be the one that was signed, and the models those that it names. It is shown where the
/// journal `tells` a turn.
pub(super) fn config(
    bundle: &Bundle,
    turn: &Turn,
    tells: bool,
    buffer: &mut Vec<u8>,
    findings: &mut Vec<Finding>,
) {
    let Some(value) = read(bundle, CONFIG, buffer, findings) else { return };
    let contract = match value.get("contract") {
        None if !tells => return,
        contract => contract.unwrap_or(&Value::Null),
    };
    let mut wrong = |why: &str| {
        findings.push(Finding::Contradiction { path: CONFIG.to_owned(), why: why.to_owned() });
    };
    if contract.is_null() && turn.contract.is_none() {
        return;
    }
    let digest = canonical_json(contract).ok().map(|bytes| Digest::of(&bytes));
    if contract.is_null() || digest != turn.contract {
        return wrong("its contract is not the one that was signed");
    }
    let roles = [("agent", &contract["model"]), ("reviewer", &contract["review"]["model"])];
    let named = |model: &ModelUsed| json!([model.role, model.reference, model.endpoint]);
    let used: Vec<Value> = turn.models.iter().map(named).collect();
    let meant: Vec<Value> = roles
        .iter()
        .filter(|(_, model)| !model.is_null())
        .map(|(role, model)| json!([role, model["reference"], model["endpoint"]]))
        .collect();
    if used != meant {
        wrong("the models that were used are not those of its contract");
    }
}

/// What a transcript says that is signed elsewhere.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    /// What hides the texts that the journal names.
    pub(super) blind: Option<Blind>,
    /// The sha256 of the first task.
    pub(super) task: Option<Digest>,
}

/// Every line of a transcript is a JSON object; two of them are remembered.
pub(super) fn transcript(path: &str, bytes: &[u8]) -> Result<Spoken, Finding> {
    let mut spoken = Spoken::default();
    for (number, line) in (1_u64..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let value =
            read_unique::<Value>(line).ok().filter(|value| line.ends_with(b"\n") && value.is_object());
        let Some(value) = value else {
            let why = format!("line {number} is no JSON object");
            return Err(Finding::Json { path: path.to_owned(), why });
        };
        match (value["role"].as_str(), value["text"].as_str()) {
            (Some("blind"), Some(text)) if spoken.blind.is_none() => {
                spoken.blind = Blind::from_hex(text).ok();
            }
            (Some("task"), Some(text)) if spoken.task.is_none() => {
                spoken.task = Some(Digest::of(text.as_bytes()));
            }
            _ => {}
        }
    }
    Ok(spoken)
}
