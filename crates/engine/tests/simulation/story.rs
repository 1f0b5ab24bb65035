//! What a seed stands for: the terms, what the model says, and what goes wrong and when.

use std::collections::BTreeMap;

use countersign_kernel::contract::{
    CONTRACT_SCHEMA, CheckTerms, Contract, Deps, Detectors, EnvironmentTerms, Expect, Limits, ModelTerms,
    Network, PresetRef, Source,
};
use countersign_kernel::{Capability, StopHow};
use countersign_llm::ErrorClass;
use countersign_types::{Digest, Millis, Tier, TierProperties, Trust};

use super::time::Dice;

/// One call of a reply: a tool's name and its arguments.
#[derive(Clone, Debug)]
pub struct Said {
    pub text: Option<String>,
    pub calls: Vec<(&'static str, serde_json::Value)>,
}

/// What happens to the controller that drives, counted in steps of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Kill,
    /// It stands still so long, and goes on.
    Stall(u64),
    Cancel(StopHow),
    Drain,
    /// Somebody asks, from a process of their own.
    Ask(Asked),
}

/// What somebody outside may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Cancel,
    Pause,
    Revoke(Option<Capability>),
}

#[derive(Clone, Debug)]
pub struct Story {
    pub seed: u64,
    pub contract: Contract,
    pub replies: Vec<Said>,
    /// By the number of the model's call.
    pub model_errors: BTreeMap<u64, ErrorClass>,
    pub blows: BTreeMap<u64, Blow>,
    /// The how manieth use of a cell kills it.
    pub cell_deaths: Vec<u64>,
    /// The how manieth append is made and its answer lost.
    pub lost_answers: Vec<u64>,
    /// Leases end after so long by the store's clock, or with their holder's process.
    pub term: Option<u64>,
    /// Milliseconds within which the next process comes when one is gone or was refused.
    pub restart: u64,
    /// The store takes an append from anybody who ever had the lease.
    pub unfenced_store: bool,
}

/// Files of the base.
pub const BASE: [(&str, &str); 4] =
    [("answer", "wrong\n"), ("guarded", "do not touch\n"), ("log", "first\n"), ("notes/readme", "hello\n")];

impl Story {
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let (contract, replies) = (contract(&dice), replies(&dice));
        let mut model_errors = BTreeMap::new();
        if dice.chance(40) {
            for _ in 0..=dice.below(3) {
                let class = match dice.below(12) {
                    0 => ErrorClass::Auth,
                    1 => ErrorClass::BadResponse,
                    2 => ErrorClass::Refused,
                    3..=5 => ErrorClass::Transport,
                    6..=8 => ErrorClass::RateLimit,
                    _ => ErrorClass::Overloaded,
                };
                model_errors.insert(dice.below(6), class);
            }
        }
        let mut blows = BTreeMap::new();
        let when = |dice: &Dice| 1 + dice.below(400);
        for _ in 0..dice.below(4) {
            blows.insert(when(&dice), Blow::Kill);
        }
        if dice.chance(25) {
            blows.insert(when(&dice), Blow::Stall(1_000 + dice.below(60_000)));
        }
        if dice.chance(30) {
            blows.insert(when(&dice), Blow::Drain);
        }
        if dice.chance(25) {
            let asked = match dice.below(5) {
                0 | 1 => Asked::Cancel,
                2 => Asked::Pause,
                3 => Asked::Revoke(Some(Capability::CommandRun)),
                _ => Asked::Revoke(None),
            };
            blows.insert(when(&dice), Blow::Ask(asked));
        }
        if dice.chance(15) {
            let how = if dice.chance(50) { StopHow::Signal } else { StopHow::Request };
            blows.insert(when(&dice), Blow::Cancel(how));
        }
        let some = |dice: &Dice, percent, most| -> Vec<u64> {
            let many = if dice.chance(percent) { 1 + dice.below(2) } else { 0 };
            (0..many).map(|_| 1 + dice.below(most)).collect()
        };
        let cell_deaths = some(&dice, 15, 40);
        let lost_answers = some(&dice, 15, 25);
        let term = dice.chance(50).then(|| 5_000 + dice.below(20_000));
        Self {
            seed,
            contract,
            replies,
            model_errors,
            blows,
            cell_deaths,
            lost_answers,
            term,
            restart: 3_000,
            unfenced_store: false,
        }
    }

    /// The driver stands still for about as long as its lease lasts, somebody takes the session over, and the store lets
    /// both of them write.
    pub fn overtaken(seed: u64) -> Self {
        let dice = Dice::new(seed ^ 0x000F_E2CE);
        let blows = [(20 + dice.below(150), Blow::Stall(3_300 + dice.below(2_000)))].into();
        Self { blows, term: Some(5_000), restart: 100, unfenced_store: true, ..Self::of(seed).undisturbed() }
    }

    /// The same terms and the same model where nothing goes wrong on our side.
    pub fn undisturbed(&self) -> Self {
        Self { blows: BTreeMap::new(), cell_deaths: Vec::new(), lost_answers: Vec::new(), ..self.clone() }
    }
}

fn contract(dice: &Dice) -> Contract {
    let model = ModelTerms::new("scripted:simulated", None);
    let check = CheckTerms::new(vec!["judge".to_owned()], Expect::Fix, Millis::from_secs(60));
    let checks = if dice.chance(90) { vec![check; 1 + usize::from(dice.chance(20))] } else { Vec::new() };
    let environment = EnvironmentTerms {
        setup: dice.chance(15).then(|| vec!["prepare".to_owned()]),
        probe: dice.chance(15).then(|| vec!["probe".to_owned()]),
        ..EnvironmentTerms::default()
    };
    Contract {
        schema: CONTRACT_SCHEMA.to_owned(),
        preset: PresetRef { name: "coding@1".to_owned(), digest: Digest::of(b"coding@1"), canonical: true },
        model: Some(model),
        trust: Trust::TrustedLocal,
        sandbox: Tier::Native,
        floor: TierProperties::default(),
        network: if dice.chance(25) { Network::Host } else { Network::None },
        source: Source::Git {
            repository: "/repository".to_owned(),
            rev: "HEAD".to_owned(),
            include_dirty: false,
        },
        pinned: None,
        environment,
        profile: None,
        scope: if dice.chance(20) { vec!["answer".to_owned(), "log".to_owned()] } else { Vec::new() },
        protect: if checks.is_empty() { Vec::new() } else { vec!["guarded".to_owned()] },
        checks,
        allow: Vec::new(),
        unfenced: false,
        change_required: dice.chance(80),
        require_verified: false,
        min_strength: None,
        out_of_process: false,
        mutants: 0,
        attempts: 1 + u32::try_from(dice.below(3)).unwrap_or(0),
        limits: Limits {
            turns: if dice.chance(15) { 2 } else { 12 },
            tokens: dice.chance(10).then_some(30_000),
            cost: None,
            deadline: Millis(if dice.chance(20) { 300 + dice.below(1_500) } else { 3_600_000 }),
            tool_actions: if dice.chance(10) { 3 } else { 100 },
            output_bytes: 1 << 20,
            command_timeout: Millis(2_000),
            model_retries: 3,
        },
        detectors: Detectors::V1,
        tools: Vec::new(),
        repository_instructions: false,
        deps: Deps::Deny,
        candidate: None,
        review: None,
        repro_first: false,
    }
}

fn replies(dice: &Dice) -> Vec<Said> {
    let steps = 1 + dice.below(5);
    let mends_at = dice.below(steps + 1);
    let mut replies = Vec::new();
    for step in 0..steps {
        let mut calls = Vec::new();
        for slot in 0..=dice.below(3) {
            calls.push(call(dice, step, slot));
        }
        if step == mends_at {
            calls.push(("write_file", serde_json::json!({ "path": "answer", "content": "right\n" })));
        }
        replies.push(Said { text: dice.chance(30).then(|| format!("Step {step}.")), calls });
    }
    replies.push(if dice.chance(50) {
        Said { text: None, calls: vec![("finish", serde_json::json!({ "summary": "It is done." }))] }
    } else {
        Said { text: Some("It is done.".to_owned()), calls: Vec::new() }
    });
    replies
}

/// Every command of a story has a text of its own, so that its effects can be counted.
fn call(dice: &Dice, step: u64, slot: u64) -> (&'static str, serde_json::Value) {
    let run = |command: String| ("run", serde_json::json!({ "command": command }));
    match dice.below(20) {
        0..=2 => ("read_file", serde_json::json!({ "path": "log" })),
        3 => ("list_files", serde_json::json!({})),
        4 => (
            "write_file",
            serde_json::json!({ "path": format!("notes/{step}-{slot}"), "content": "a note\n" }),
        ),
        5 => run(format!("add guarded {step}-{slot}")),
        6 => run(format!("add elsewhere {step}-{slot}; wait 10")),
        7 => run(format!("add log {step}-{slot}; wait 5; exit 3")),
        8 => run(format!("wait {}; add log {step}-{slot}", 1_500 + dice.below(1_000))),
        9 => ("unheard_of", serde_json::json!({})),
        10 => ("check", serde_json::json!({})),
        _ => run(format!("wait {}; add log {step}-{slot}; wait {}", dice.below(50), dice.below(300))),
    }
}
