//! What a journal tells of model calls, counted again: how many, and what they used as far as it is known.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::statement::RoleUsage;

/// A sum that is unknown as soon as a part of it is.
#[derive(Debug)]
struct Sum(Option<u64>);

impl Default for Sum {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl Sum {
    fn add(&mut self, part: &Value) {
        self.0 = self.0.zip(part.as_u64()).map(|(sum, part)| sum.saturating_add(part));
    }
}

/// Of one role.
#[derive(Debug, Default)]
struct Tally {
    calls: u64,
    input: Sum,
    output: Sum,
    micro_usd: Sum,
}

impl Tally {
    fn add(&mut self, usage: &Value, cost: &Value) {
        self.input.add(&usage["input"]);
        self.output.add(&usage["output"]);
        self.micro_usd.add(cost);
    }

    fn as_role(&self, role: &str) -> RoleUsage {
        RoleUsage {
            role: role.to_owned(),
            calls: self.calls,
            input: self.input.0,
            output: self.output.0,
            micro_usd: self.micro_usd.0,
        }
    }
}

/// Who asks by an effect of this kind.
fn role_of(kind: &Value) -> Option<&'static str> {
    match kind.as_str() {
        Some("model_call") => Some("agent"),
        Some("review_call") => Some("reviewer"),
        _ => None,
    }
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Calls whose end was not told yet, by the name of their effect.
    open: BTreeMap<String, &'static str>,
    roles: BTreeMap<&'static str, Tally>,
}

impl Calls {
    pub(super) fn see(&mut self, event: &str, data: &Value) {
        let Some(effect) = data["effect"].as_str() else { return };
        if event == "effect_intended" {
            if let Some(role) = role_of(&data["kind"]) {
                self.roles.entry(role).or_default().calls += 1;
                self.open.insert(effect.to_owned(), role);
            }
            return;
        }
        let ends =
            ["effect_completed", "effect_failed", "effect_forfeited", "effect_abandoned", "effect_unknown"];
        let Some(role) = ends.contains(&event).then(|| self.open.remove(effect)).flatten() else { return };
        let tally = self.roles.entry(role).or_default();
        match event {
            "effect_completed" => tally.add(&data["usage"], &data["cost"]),
            // It may have been billed, and nobody knows for what.
            "effect_forfeited" => tally.add(&Value::Null, &Value::Null),
            "effect_failed" if data["failure"]["billed"] == json!(true) => {
                tally.add(&Value::Null, &Value::Null)
            }
            _ => {}
        }
    }

    /// Whether this is what is signed: every role that asked, and of no role anything else.
    pub(super) fn fit(&self, signed: &[RoleUsage]) -> bool {
        let untold = Tally::default();
        let as_told = |role: &RoleUsage| {
            *role == self.roles.get(role.role.as_str()).unwrap_or(&untold).as_role(&role.role)
        };
        let names: Vec<&str> = signed.iter().map(|role| role.role.as_str()).collect();
        signed.iter().all(as_told)
            && self.roles.keys().all(|role| names.iter().filter(|name| *name == role).count() == 1)
    }
}
