//! One bundle of each kind, from fixed keys and times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use countersign_proof::bundle::{
    BundleInput, RanFacts, Room, Signing, Source, TreeInput, TurnFacts, UnsignedReason, WriteError, Written,
    write,
};
use countersign_proof::statement::{
    GateFacts, ModelUsed, Resource, RoleUsage, RoomFacts, RoomPurpose, TestOutcome,
};
use countersign_proof::verify::{Options, Policy, Report, verify};
use countersign_proof::{Role, SecretKey, TrustFile, TrustedKey, time::parse_rfc3339};
use countersign_tree::{Entry, EntryMode, Manifest, TreePath};
use countersign_types::{
    Blind, Digest, GateKey, GateStatus, Millis, Reason, SessionId, Strength, StrengthLevel, Tier,
    TierProperty, Trust,
};
use serde_json::{Value, json};

use super::Files;

pub const SESSION: &str = "s-20261130-fixture";
pub const PATCH: &[u8] = include_bytes!("../golden/fixture.diff");
pub const ENDED: &str = "2026-11-30T12:05:00Z";

/// Seeds of the test keys; nothing real is signed with them.
pub const RUNNER: u8 = 1;
pub const VERIFIER: u8 = 2;
pub const STRANGER: u8 = 3;

pub fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

/// What hides the texts of the fixture's session.
pub fn blind() -> Blind {
    Blind::from_bytes([9; 32])
}

pub fn at(text: &str) -> Millis {
    parse_rfc3339(text).unwrap()
}

pub fn base() -> Files {
    let file = |text: &str| (EntryMode::File, text.as_bytes().to_vec());
    Files::from([
        (b"src/lib.rs".to_vec(), file("pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n")),
        (b"old.txt".to_vec(), file("goes away\n")),
        (b"run.sh".to_vec(), file("#!/bin/sh\necho hi\n")),
        (b"data.bin".to_vec(), (EntryMode::File, blob(0))),
        (b"link".to_vec(), (EntryMode::Symlink, b"src/lib.rs".to_vec())),
        (b"kind".to_vec(), file("a file\n")),
        (b"same.txt".to_vec(), file("stays")),
    ])
}

pub fn last() -> Files {
    let mut files = base();
    let file = |text: &str| (EntryMode::File, text.as_bytes().to_vec());
    files.insert(b"src/lib.rs".to_vec(), file("pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n"));
    files.remove(&b"old.txt"[..]);
    files.insert(b"run.sh".to_vec(), (EntryMode::Executable, b"#!/bin/sh\necho hi\n".to_vec()));
    files.insert(b"data.bin".to_vec(), (EntryMode::File, blob(1)));
    files.insert(b"link".to_vec(), (EntryMode::Symlink, b"same.txt".to_vec()));
    files.insert(b"kind".to_vec(), (EntryMode::Symlink, b"same.txt".to_vec()));
    files.insert("new dir/n\u{e9}w.txt".as_bytes().to_vec(), file("new\nwithout newline"));
    files.insert(b"empty".to_vec(), file(""));
    files
}

/// Binary for git, because of its first byte, and text for whoever reads this repository.
fn blob(change: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..3000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8 & 0x7f).collect();
    bytes[0] = 0;
    bytes[1500] ^= change;
    bytes
}

pub fn manifest(files: &Files) -> Manifest {
    let entry = |(path, (mode, bytes)): (&Vec<u8>, &(EntryMode, Vec<u8>))| Entry {
        path: TreePath::new(path.clone()).unwrap(),
        mode: *mode,
        size: bytes.len() as u64,
        digest: Digest::of(bytes),
    };
    Manifest::new(files.iter().map(entry).collect())
}

pub fn blobs(files: &Files) -> BTreeMap<Digest, Vec<u8>> {
    files.values().map(|(_, bytes)| (Digest::of(bytes), bytes.clone())).collect()
}

/// A chain of events of the right form that tells nothing of a turn, as in the first golden bundle.
pub fn journal(session: &str, events: u64) -> Vec<u8> {
    let event = |seq| (1_796_040_000_000 + seq, "effect_completed".to_owned(), json!({"n": seq}));
    chained(session, (1..=events).map(event))
}

/// A journal of these events: time, kind and data.
pub fn chained(session: &str, events: impl IntoIterator<Item = (u64, String, Value)>) -> Vec<u8> {
    let mut prev = Digest::of(format!("countersign journal genesis 1\n{session}\n").as_bytes());
    let mut out = Vec::new();
    for (seq, (at, kind, data)) in (1_u64..).zip(events) {
        let line = json!({
            "v": 1, "session": session, "tenant": "local", "authority": {"external": "cli"}, "seq": seq,
            "at": at, "kind": kind, "data": data, "payloads": {}, "prev": prev,
        })
        .to_string();
        prev = Digest::of(line.as_bytes());
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out
}

/// serde_json writes keys sorted, so this is canonical.
fn contract() -> Value {
    json!({
        "schema": "countersign.contract/1",
        "model": {"reference": "scripted:fix.json", "endpoint": null, "max_output_tokens": null},
        "review": null,
    })
}

fn gate(status: GateStatus, reason: Option<Reason>) -> GateFacts {
    GateFacts { status, reason }
}

fn room(name: &str, purpose: RoomPurpose, attempt: Option<u32>, decides: bool, ended: &str) -> RoomFacts {
    RoomFacts {
        name: name.to_owned(),
        purpose,
        check: 0,
        attempt,
        decides,
        ended: ended.to_owned(),
        cause: None,
        argv: vec!["cargo".to_owned(), "test".to_owned()],
        observed: vec![TierProperty::Userns, TierProperty::Netns],
        overlay: None,
        environment: Some(Digest::of(b"environment")),
    }
}

/// What the parts of the fixture's bundle are made of; a test changes it before it writes.
pub struct Fixture {
    pub session: String,
    pub turn: u32,
    pub reason: Reason,
    pub base: Files,
    pub last: Files,
    pub patch: Vec<u8>,
    /// None: what [`Fixture::events`] tells.
    pub journal: Option<Vec<u8>>,
    pub sealed: bool,
    pub signed: bool,
    pub runner: SecretKey,
    pub verifier: SecretKey,
    pub result_more: usize,
    pub tier: Tier,
    /// The session has a blind. One of before, which a later program ends, has none.
    pub hides: bool,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            session: SESSION.to_owned(),
            turn: 1,
            reason: Reason::ChecksPassed,
            base: base(),
            last: last(),
            patch: PATCH.to_vec(),
            journal: None,
            sealed: true,
            signed: true,
            runner: key(RUNNER),
            verifier: key(VERIFIER),
            result_more: 0,
            tier: Tier::Native,
            hides: true,
        }
    }
}

impl Fixture {
    fn facts(&self) -> TurnFacts {
        let outcome = self.reason.outcome();
        let passed = outcome == countersign_types::Outcome::Verified;
        let check =
            if passed { gate(GateStatus::Passed, None) } else { gate(GateStatus::Failed, Some(self.reason)) };
        TurnFacts {
            session: SessionId::new(self.session.clone()).unwrap(),
            turn: self.turn,
            created_at: at("2026-11-30T12:00:00Z"),
            ended_at: at(ENDED),
            outcome,
            reason: self.reason,
            rescued_from: None,
            strength: passed.then_some(Strength { level: StrengthLevel::Ids, in_process: true }),
            gates: BTreeMap::from([
                (GateKey::Seal, gate(GateStatus::Passed, None)),
                (GateKey::Fence, gate(GateStatus::Passed, None)),
                (GateKey::Check, check),
            ]),
            contract: Some(Digest::of(contract().to_string().as_bytes())),
            task: Some(Digest::of(b"task")),
            queued: Some(if self.hides { blind().hide(Digest::of(b"task")) } else { Digest::of(b"task") }),
            base_commit: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
            trust: Some(Trust::Reviewed),
            network: Some("none".to_owned()),
            tier: Some(self.tier),
            observed: vec![TierProperty::Userns, TierProperty::Netns, TierProperty::Seccomp],
            usage: vec![RoleUsage {
                role: "agent".to_owned(),
                calls: 3,
                input: Some(1200),
                output: Some(340),
                micro_usd: None,
            }],
            degraded: Vec::new(),
        }
    }

    fn ran() -> RanFacts {
        RanFacts {
            versions: BTreeMap::from([
                ("countersign".to_owned(), "0.1.0".to_owned()),
                ("git".to_owned(), "2.47.3".to_owned()),
            ]),
            models: vec![ModelUsed {
                role: "agent".to_owned(),
                reference: "scripted:fix.json".to_owned(),
                endpoint: None,
            }],
            materials: vec![Resource::named("layer /opt/toolchain", Digest::of(b"toolchain"))],
            facts: BTreeMap::from([("preset".to_owned(), json!("coding@1"))]),
        }
    }

    /// The turn as a session's journal tells it: a first attempt that failed, and the one that the facts are of.
    fn events(&self, facts: &TurnFacts) -> Vec<(u64, String, Value)> {
        let sealed = |tree: Digest| json!({"event": "effect_completed", "result": "seal", "tree": tree, "unsealable": 0});
        let gate = |attempt: u32, gate: &GateKey, said: &GateFacts| {
            json!({"event": "gate_decided", "attempt": attempt, "gate": gate, "status": said.status,
                   "reason": said.reason, "strength": null, "by": null})
        };
        let call = |event: &str, step: u32, more: &Value| {
            let mut data = json!({"event": event, "effect": format!("1.{step}.0.1")});
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            data
        };
        let answered = |input: u64, output: u64| json!({"result": "model_call", "usage": {"input": input, "output": output}, "cost": null});
        let failed = GateFacts { status: GateStatus::Failed, reason: Some(Reason::CheckFailed) };
        let mut all = vec![
            json!({"event": "session_opened", "contract": facts.contract}),
            json!({"event": "turn_queued", "turn": 1, "input": facts.queued, "bytes": 4}),
            json!({"event": "effect_completed", "result": "import", "tree": manifest(&self.base).digest(),
                   "commit": facts.base_commit, "entries": self.base.len(), "dirty": 0}),
            json!({"event": "effect_completed", "effect": "1.0.0.1", "result": "open", "tier": facts.tier,
                   "observed": facts.observed}),
            call("effect_intended", 1, &json!({"kind": "model_call"})),
            call("effect_completed", 1, &answered(400, 100)),
            // Not answered, and nobody was billed.
            call("effect_intended", 2, &json!({"kind": "model_call"})),
            call("effect_failed", 2, &json!({"failure": {"reason": "overloaded", "billed": false}})),
            json!({"event": "attempt_begun", "attempt": 1, "path": {"path": "finish", "empty": false}}),
            sealed(Digest::of(b"the first attempt's tree")),
            gate(1, &GateKey::Check, &failed),
            json!({"event": "attempt_returned", "attempt": 1, "gate": "check"}),
            call("effect_intended", 3, &json!({"kind": "model_call"})),
            call("effect_completed", 3, &answered(800, 240)),
            json!({"event": "attempt_begun", "attempt": 2, "path": {"path": "finish", "empty": false}}),
        ];
        if self.sealed {
            all.push(sealed(manifest(&self.last).digest()));
        }
        all.extend(facts.gates.iter().map(|(key, said)| gate(2, key, said)));
        if self.sealed {
            let (patch, bytes) = (Digest::of(&self.patch), self.patch.len());
            all.push(json!({"event": "effect_completed", "result": "patch", "patch": patch, "bytes": bytes}));
        }
        all.push(json!({
            "event": "turn_ended", "turn": self.turn, "outcome": facts.outcome, "reason": facts.reason,
            "strength": facts.strength, "rescued_from": facts.rescued_from, "reset_at": null,
        }));
        let kind = |data: &Value| data["event"].as_str().unwrap().to_owned();
        all.into_iter().map(|data| (facts.ended_at.0 + 7, kind(&data), data)).collect()
    }

    /// Writes `parent/run.bundle`.
    pub fn write(&self, parent: &Path) -> Written {
        self.try_write(parent, "run.bundle").unwrap()
    }

    pub fn try_write(&self, parent: &Path, name: &str) -> Result<Written, WriteError> {
        if self.signed {
            self.write_as(parent, name, Signing::Keys { runner: &self.runner, verifier: &self.verifier })
        } else {
            let detail = "nothing is isolated there";
            self.write_as(parent, name, Signing::Unsigned { reason: UnsignedReason::HostTier, detail })
        }
    }

    pub fn write_signed_by(&self, parent: &Path, signing: Signing<'_>) -> Result<Written, WriteError> {
        self.write_as(parent, "run.bundle", signing)
    }

    fn write_as(&self, parent: &Path, name: &str, signing: Signing<'_>) -> Result<Written, WriteError> {
        let facts = self.facts();
        let journal = self.journal.clone().unwrap_or_else(|| chained(&self.session, self.events(&facts)));
        let (base, last) = (manifest(&self.base), manifest(&self.last));
        let passed = facts.outcome == countersign_types::Outcome::Verified;
        let mut result = json!({
            "schema": "countersign.result/1",
            "session": self.session,
            "turn": self.turn,
            "outcome": facts.outcome,
            "reason": facts.reason,
            "exit_code": facts.outcome.exit_code(),
            "tree": self.sealed.then(|| last.digest()),
            "answer": "x".repeat(self.result_more),
        });
        let mut config = json!({"settings": [{"name": "network", "source": "flag", "value": "none"}]});
        result["strength"] = json!(facts.strength);
        result["contract"] = json!(facts.contract);
        result["rescued_from"] = json!(facts.rescued_from);
        result["base"] = json!({"commit": facts.base_commit, "tree": base.digest()});
        config["contract"] = contract();
        let (result, config) = (result.to_string(), config.to_string());
        let output = b"running 2 tests\n".to_vec();
        let mut transcript = Vec::new();
        if self.hides {
            let line = json!({"role": "blind", "text": blind().hex()});
            transcript.extend(format!("{line}\n").into_bytes());
        }
        for (role, text) in [("task", "task"), ("model", "[redacted]")] {
            transcript.extend(format!("{}\n", json!({"role": role, "text": text})).into_bytes());
        }
        let end = if passed { ("exit 0", TestOutcome::Passed) } else { ("exit 101", TestOutcome::Failed) };
        let rooms = [
            (room("base-0", RoomPurpose::Base, None, false, "exit 101"), TestOutcome::Failed, base.digest()),
            (
                room("a1-final-0", RoomPurpose::Final, Some(1), false, "exit 101"),
                TestOutcome::Failed,
                Digest::of(b"the first attempt's tree"),
            ),
            (room("a2-final-0", RoomPurpose::Final, Some(2), true, end.0), end.1, last.digest()),
        ];
        let rooms = rooms.into_iter().map(|(facts, result, tree)| {
            let tests = vec!["adds".to_owned(), "adds_nothing".to_owned()];
            let (passed, failed) =
                if result == TestOutcome::Passed { (tests, Vec::new()) } else { (Vec::new(), tests) };
            let stdout = Some(&output as &dyn Source);
            Room {
                facts,
                result,
                tree,
                passed,
                warned: Vec::new(),
                failed,
                stdout,
                stderr: None,
                report: None,
            }
        });
        let pre_images = blobs(&self.base);
        let input = BundleInput {
            turn: facts,
            ran: Self::ran(),
            rooms: if self.sealed { rooms.collect() } else { Vec::new() },
            result: result.as_bytes(),
            config: config.as_bytes(),
            journal: &journal,
            transcript: Some(&transcript),
            tree: self.sealed.then_some(TreeInput {
                base: &base,
                last: &last,
                patch: &self.patch,
                pre_images: &pre_images,
            }),
            signing,
        };
        write(parent, name, &input)
    }
}

pub fn trusted(name: &str, seed: u8, roles: &[Role]) -> TrustedKey {
    TrustedKey {
        name: name.to_owned(),
        public: key(seed).public(),
        roles: roles.iter().copied().collect(),
        not_before: None,
        not_after: None,
    }
}

/// Trusts runner and verifier.
pub fn trust() -> TrustFile {
    let mut trust = TrustFile::default();
    trust.add(trusted("ci", RUNNER, &[Role::Runner])).unwrap();
    trust.add(trusted("desk", VERIFIER, &[Role::Verifier])).unwrap();
    trust
}

pub fn now() -> Millis {
    at("2026-12-01T00:00:00Z")
}

pub fn verify_with(dir: &Path, trust: &TrustFile, policy: &Policy) -> Report {
    verify(dir, &Options { trust, policy, now: now(), verdicts: &[] }).unwrap()
}

pub fn verify_it(dir: &Path) -> Report {
    verify_with(dir, &trust(), &Policy::default())
}

/// Every regular file below a directory, by path.
pub fn files_of(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(dir.join(&at)).unwrap() {
            let entry = entry.unwrap();
            let path = at.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                todo.push(path);
            } else {
                out.insert(path.to_str().unwrap().to_owned(), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    out
}
