//! What a journal tells of its turn, held against what is signed of it. The chain shows that no line was changed; this
//! shows that the statements say what the lines say.

use std::collections::BTreeMap;

use countersign_types::{GateKey, GateStatus, Millis};
use serde_json::{Value, json};

use super::Finding;
use super::usage::Calls;
use crate::statement::{RoomFacts, Turn};
use crate::strict::read_canonical;
use crate::time::rfc3339;

/// What is remembered of a journal while it is read. Only events count whose `data` names them as their line does; a
/// journal without any such event tells nothing that could be compared.
#[derive(Debug, Default)]
pub(super) struct Account {
    lines: u64,
    /// The first line that is not canonical JSON.
    spelled: Option<u64>,
    /// The first line whose kind is not that of its data.
    mixed: Option<u64>,
    tells: bool,
    contract: Value,
    task: Value,
    import: Value,
    sealed: Value,
    patch: Value,
    /// The last cell that was opened, or that read a candidate.
    cell: Value,
    calls: Calls,
    /// The last attempt that began.
    attempt: u64,
    /// Status and reason, of the last attempt.
    gates: BTreeMap<GateKey, (Value, Value)>,
    /// The numbers of the first and of the last end, when the last was written, and what it says.
    ended: Option<(u64, u64, Value, Value)>,
}

impl Account {
    /// The next line, without its newline.
    pub(super) fn see(&mut self, line: &[u8]) {
        self.lines += 1;
        let Some(mut event) = read_canonical::<Value>(line).ok().filter(Value::is_object) else {
            self.spelled.get_or_insert(self.lines);
            return;
        };
        let mut data = event["data"].take();
        let Some(kind) = data["event"].as_str().map(str::to_owned) else { return };
        if event["kind"].as_str() != Some(&kind) {
            self.mixed.get_or_insert(self.lines);
            return;
        }
        self.tells = true;
        self.calls.see(&kind, &data);
        match kind.as_str() {
            "session_opened" => self.contract = data["contract"].take(),
            "turn_queued" => self.task = data["input"].take(),
            "effect_completed" => self.completed(data),
            "attempt_begun" => {
                self.gates.clear();
                self.attempt = data["attempt"].as_u64().unwrap_or_default();
            }
            "attempt_returned" => {
                self.gates.clear();
                (self.sealed, self.patch) = (Value::Null, Value::Null);
            }
            "gate_decided" => {
                if let Ok(gate) = serde_json::from_value::<GateKey>(data["gate"].take()) {
                    self.gates.insert(gate, (data["status"].take(), data["reason"].take()));
                }
            }
            "turn_ended" => {
                let first = self.ended.as_ref().map_or(self.lines, |(first, ..)| *first);
                self.ended = Some((first, self.lines, event["at"].take(), data));
            }
            _ => {}
        }
    }

    fn completed(&mut self, mut data: Value) {
        if let Some("open" | "candidate") = data["result"].as_str() {
            self.cell = json!({ "tier": data["tier"], "observed": data["observed"] });
        }
        match data["result"].as_str() {
            Some("import") => self.import = data,
            Some("seal" | "candidate") if data["unsealable"] == json!(0) => self.sealed = data["tree"].take(),
            Some("patch") => self.patch = data["patch"].take(),
            _ => {}
        }
    }

    /// Whether there is anything in it that could be compared.
    pub(super) fn tells(&self) -> bool {
        self.tells
    }

    /// Whether the last cell was seen to have exactly these properties. Without a cell none was seen.
    fn saw(&self, signed: &Value) -> bool {
        *self.cell.get("observed").unwrap_or(&json!([])) == *signed
    }

    /// Whether a room is of an attempt that began, and of the last one where it decides.
    fn has(&self, room: &RoomFacts) -> bool {
        let attempt = room.attempt.map(u64::from);
        let begun = attempt.is_none_or(|attempt| (1..=self.attempt).contains(&attempt));
        begun && (!room.decides || attempt == Some(self.attempt))
    }

    /// Tells every way in which the turn's statement is not what the journal tells.
    pub(super) fn hold_against(&self, turn: &Turn, rooms: &[RoomFacts], findings: &mut Vec<Finding>) {
        let broken = [
            (self.spelled, "its line is not canonical JSON"),
            (self.mixed, "its kind is not the one that its data names"),
        ];
        for (seq, why) in broken {
            findings.extend(seq.map(|seq| Finding::Journal { seq, why: why.to_owned() }));
        }
        if !self.tells {
            return;
        }
        let mut wrong = |why: String| findings.push(Finding::JournalTurn { why });
        match &self.ended {
            None => wrong("it does not tell how the turn ended".to_owned()),
            Some((first, last, at, said)) => {
                if (*first, *last) != (self.lines, self.lines) {
                    wrong(format!("the turn ends at event {first}, and {} follow", self.lines - first));
                }
                let fields = [
                    ("turn", json!(turn.turn)),
                    ("outcome", json!(turn.outcome)),
                    ("reason", json!(turn.reason)),
                    ("strength", json!(turn.strength)),
                    ("rescued_from", json!(turn.rescued_from)),
                ];
                for (name, _) in fields.iter().filter(|(name, signed)| said[name] != *signed) {
                    wrong(format!("its last event has another `{name}`"));
                }
                if at.as_u64().map(|at| rfc3339(Millis(at))).as_ref() != Some(&turn.ended_at) {
                    wrong("its last event is of another time".to_owned());
                }
            }
        }
        for (gate, signed) in &turn.gates {
            let same = match self.gates.get(gate) {
                Some((status, reason)) => (status, reason) == (&json!(signed.status), &json!(signed.reason)),
                // What was never decided is not armed, or the turn ended before it.
                None => matches!(signed.status, GateStatus::Absent | GateStatus::NotReached),
            };
            if !same {
                wrong(format!("its last attempt says otherwise of the gate `{}`", gate.as_str()));
            }
        }
        let told = |told: &Value, signed: Value| *told == signed;
        // A field that is null in the turn's statement is not there, though the journal may tell it.
        let kept = |told: &Value, signed: Value| signed.is_null() || *told == signed;
        let unless_null = |told: &Value, signed: Value| told.is_null() || kept(told, signed);
        for (same, what) in [
            (told(&self.contract, json!(turn.contract)), "was opened with another contract"),
            (unless_null(&self.task, json!(turn.task)), "was given another task"),
            (told(&self.import["commit"], json!(turn.base_commit)), "began at another commit"),
            (kept(&self.import["tree"], json!(turn.base_tree)), "began with another base"),
            (kept(&self.sealed, json!(turn.final_tree)), "sealed another tree, or none"),
            (unless_null(&self.patch, json!(turn.patch)), "made another patch"),
            (told(&self.cell["tier"], json!(turn.tier)), "worked in a cell of another tier"),
            (self.saw(&json!(turn.observed)), "observed other properties of its cell"),
            (self.calls.fit(&turn.usage), "made other model calls, or used something else"),
            (rooms.iter().all(|room| self.has(room)), "had no such attempt as its rooms say"),
        ] {
            if !same {
                wrong(format!("its session {what}"));
            }
        }
    }
}
