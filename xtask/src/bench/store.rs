//! What an append costs beside what the disk and the server cost anyway: the store's own measuring programs, each of which
//! measures both sides in turns within one run.

use std::path::Path;

use serde_json::Value;

use super::{Measure, Place};
use crate::report::SKIP_PREFIX;
use crate::sh::{self, Context as _, Error, Result};
use crate::suite::Size;
use crate::workspace::Workspace;

/// One durable event with projection and outbox, of raw append + fdatasync.
const APPEND: f64 = 0.60;
/// Sixteen events in one commit, of sixteen lines in one raw append + fdatasync: in turns with it, and by itself.
const GROUP: f64 = 0.35;
const GROUP_ALONE: f64 = 0.45;
/// Of bare insert and commit by the same client at sixteen connections.
const POSTGRES: f64 = 0.7;
/// The slowest of eight writers, of the fastest.
const FAIRNESS: f64 = 0.6;

pub(super) fn measure(place: &Place, workspace: &Workspace) -> Result<Vec<Measure>> {
    let (appends, seconds) = match place.size {
        Size::Small => ("1000", "3"),
        Size::Full => ("4000", "10"),
    };
    let append =
        program(workspace, "countersign-store", "bench_append", &[appends.as_ref(), place.dir.as_ref()])?;
    let fair =
        program(workspace, "countersign-store", "bench_fairness", &[seconds.as_ref(), place.dir.as_ref()])?;
    let raw = format!("raw {} us, append {} us", append["raw_us"], append["append_us"]);
    let group = format!("raw {} us, append {} us", append["raw_16_us"], append["append_16_us"]);
    Ok(vec![
        cost("store/append", &append["ratio"], APPEND, &raw),
        cost("store/group-of-16", &append["ratio_16"], GROUP, &group),
        cost("store/group-of-16-alone", &append["ratio_16_alone"], GROUP_ALONE, "each side by itself"),
        fairness(&fair),
    ])
}

/// The store of several machines, with a server of its own.
pub(super) fn postgres(place: &Place, workspace: &Workspace) -> Result<Vec<Measure>> {
    let rounds = match place.size {
        Size::Small => "3",
        Size::Full => "9",
    };
    let postgres = program(workspace, "countersign-store-postgres", "bench_postgres", &[rounds.as_ref()])?;
    let mut measures = Vec::new();
    match postgres["skipped"].as_str() {
        Some(why) => sh::say(&format!("{SKIP_PREFIX}bench store/postgres: {why}")),
        None => measures.push(cost(
            "store/postgres-16",
            &postgres["ratio"],
            POSTGRES,
            &format!(
                "{} appends/s, {} insert and commit/s, {} single inserts/s",
                postgres["appends_per_s"],
                postgres["insert_and_commit_per_s"],
                postgres["insert_alone_per_s"]
            ),
        )),
    }
    Ok(measures)
}

/// "At least so much of the other side's speed" is "at most so many times its cost".
fn cost(name: &'static str, ratio: &Value, least: f64, detail: &str) -> Measure {
    let ratio = ratio.as_f64().unwrap_or(f64::NAN);
    Measure {
        name,
        value: 1.0 / ratio,
        target: 1.0 / least,
        unit: "x",
        detail: format!("{ratio:.2} of the other side's speed, at least {least}; {detail}"),
    }
}

/// A writer that failed is no slow one.
fn fairness(fair: &Value) -> Measure {
    let none = Value::Null;
    let ratio = if fair["failed"] == 0 { &fair["ratio"] } else { &none };
    let detail = format!("{} failed, appends {}", fair["failed"], fair["appends"]);
    cost("store/fairness-of-8", ratio, FAIRNESS, &detail)
}

fn program(workspace: &Workspace, package: &str, example: &str, args: &[&Path]) -> Result<Value> {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--release", "--quiet", "-p", package, "--example", example, "--"]).args(args);
    let text = sh::capture(&mut cargo)?;
    let last =
        text.lines().last().ok_or_else(|| Error::new(format!("{example} of {package} printed nothing")))?;
    serde_json::from_str(last).context(example)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn slower_than_the_target_unmeasured_or_failed_does_not_hold() {
        assert!(cost("m", &json!(0.61), 0.6, "").holds(1.0));
        assert!(!cost("m", &json!(0.59), 0.6, "").holds(1.0));
        assert!(cost("m", &json!(0.31), 0.6, "").holds(2.0));
        assert!(!cost("m", &Value::Null, 0.6, "").holds(2.0));
        assert!(!cost("m", &json!(0.0), 0.6, "").holds(2.0));
        assert!(fairness(&json!({ "failed": 0, "ratio": 0.9 })).holds(1.0));
        assert!(!fairness(&json!({ "failed": 1, "ratio": 0.9 })).holds(2.0));
    }
}
