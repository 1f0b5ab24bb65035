//! What people ask while a turn goes on: approve, pause, cancel, revoke. Decided from values alone, in every order.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use countersign_kernel::contract::*;
use countersign_kernel::*;
use countersign_types::*;

fn digest(n: u64) -> Digest {
    Digest::of(&n.to_le_bytes())
}

/// A question: base, cell, model calls, tools, and the plan of a claim without a check.
fn contract() -> Contract {
    let text = serde_json::json!({
        "schema": CONTRACT_SCHEMA,
        "preset": { "name": "coding@1", "digest": digest(0), "canonical": true },
        "model": { "reference": "scripted:x", "endpoint": null, "max_output_tokens": null },
        "trust": "trusted-local",
        "sandbox": "native",
        "floor": [],
        "network": "none",
        "source": { "kind": "directory", "path": "/src" },
        "environment": { "setup": null, "probe": null, "layers": [], "path": [], "env": {} },
        "checks": [],
        "scope": [],
        "protect": [],
        "change_required": false,
        "require_verified": false,
        "min_strength": null,
        "attempts": 1,
        "limits": {
            "turns": 20, "tokens": null, "cost": null, "deadline": 1_000_000, "tool_actions": 100,
            "output_bytes": 100_000, "command_timeout": 100, "model_retries": 2,
        },
        "repository_instructions": true,
    });
    serde_json::from_value(text).unwrap()
}

struct Story {
    session: Session,
    now: Millis,
    kinds: Vec<&'static str>,
}

impl Story {
    fn new(contract: Contract) -> Self {
        let mut story = Self { session: Session::new(contract), now: Millis(1000), kinds: Vec::new() };
        story.person(&Command::Open { contract: digest(1) }).unwrap();
        story.person(&Command::Queue { input: digest(2), bytes: 1 }).unwrap();
        story
    }

    fn approved(contract: Contract) -> Self {
        let mut story = Self::new(contract);
        story.person(&Command::Approve).unwrap();
        story
    }

    fn send(&mut self, authority: Authority, command: &Command) -> Result<Vec<Event>, Refusal> {
        self.now = self.now.saturating_add(Millis(1));
        let events = decide(&self.session, authority, command, self.now)?;
        for event in &events {
            apply(&mut self.session, self.now, event);
            self.kinds.push(event.kind());
        }
        Ok(events)
    }

    fn person(&mut self, command: &Command) -> Result<Vec<Event>, Refusal> {
        self.send(Authority::External, command)
    }

    fn turn(&self) -> &Turn {
        self.session.turn.as_ref().unwrap()
    }

    fn ending(&self) -> Option<Reason> {
        self.turn().ending.map(|ending| ending.reason)
    }

    /// Intends what is due.
    fn intend(&mut self) -> Vec<Event> {
        let Work::Intend(steps) = work(&self.session, self.now) else {
            panic!("nothing is to be intended: {:?}", work(&self.session, self.now))
        };
        let intents = steps.iter().map(|step| Intent {
            effect: step.effect,
            kind: step.kind,
            request: digest(3),
            reserve: Reservation::default(),
        });
        let intents = Command::Intend(intents.collect());
        self.send(Authority::Driver, &intents).unwrap()
    }

    fn under_way(&self) -> (EffectId, EffectKind) {
        let (effect, outstanding) = self.turn().outstanding.iter().next().unwrap();
        (*effect, outstanding.kind)
    }

    fn receive(&mut self, body: ReceiptBody) -> Vec<Event> {
        let (effect, _) = self.under_way();
        self.send(Authority::Driver, &Command::Receipts(vec![Receipt { effect, body }])).unwrap()
    }

    fn result(&self, calls: &[ToolName]) -> ReceiptBody {
        ReceiptBody::Done(match self.under_way().1 {
            EffectKind::Import => {
                EffectResult::Import { tree: digest(4), commit: None, entries: 1, dirty: 0 }
            }
            EffectKind::Open => EffectResult::Open { tier: Tier::Native, observed: TierProperties::new() },
            EffectKind::ModelCall => EffectResult::ModelCall {
                usage: Usage::default(),
                cost: None,
                stop: ModelStop::Ordinary,
                calls: calls
                    .iter()
                    .map(|tool| PlannedCall { tool: *tool, arguments: digest(5), blank: false })
                    .collect(),
                text_bytes: 4,
                reasoning: None,
            },
            EffectKind::Tool { .. } => EffectResult::Tool {
                ok: true,
                refused: false,
                tree: Some(digest(6)),
                output_bytes: 1,
                job: None,
                said: None,
                repro: None,
            },
            EffectKind::Seal => EffectResult::Seal { tree: digest(6), unsealable: 0 },
            kind => panic!("no result for {kind:?}"),
        })
    }

    /// One effect from intent to result.
    fn step(&mut self, calls: &[ToolName]) {
        self.intend();
        let result = self.result(calls);
        self.receive(result);
    }

    /// Into the middle of a command.
    fn in_command(network: Network) -> Self {
        let mut story = Self::approved(Contract { network, ..contract() });
        story.step(&[]);
        story.step(&[]);
        story.step(&[ToolName::Run]);
        story.intend();
        assert_eq!(story.under_way().1, EffectKind::Tool { tool: ToolName::Run });
        story
    }
}

#[test]
fn nothing_is_due_before_the_approval_and_it_is_given_once() {
    let mut story = Story::new(contract());
    assert_eq!(work(&story.session, story.now), Work::Idle);
    assert_eq!(story.turn().status(), TurnStatus::Queued);
    for early in [Command::Drain(StopHow::Request), Command::Revoke(None)] {
        assert!(matches!(story.person(&early), Err(Refusal::NotNow(_))), "{early:?}");
    }
    story.person(&Command::Approve).unwrap();
    assert_eq!(story.person(&Command::Approve), Err(Refusal::NothingDue));
    assert_eq!(story.turn().status(), TurnStatus::Approved);
    assert!(matches!(work(&story.session, story.now), Work::Intend(_)));
    // Whoever may ask may not act.
    let recover = story.person(&Command::Recover);
    assert_eq!(recover, Err(Refusal::NotTheDriver));
}

#[test]
fn a_turn_that_nobody_approved_can_be_canceled_and_not_be_approved_then() {
    let mut story = Story::new(contract());
    story.person(&Command::Cancel(StopHow::Request)).unwrap();
    assert_eq!(story.ending(), Some(Reason::Request));
    assert_eq!(story.person(&Command::Approve), Err(Refusal::Ended));
}

#[test]
fn a_cancel_wins_over_whatever_the_receipt_says() {
    // Between any two commits of a turn that would end well: the commit that would have ended it ends it as canceled.
    for at in 0..10 {
        let mut story = Story::approved(contract());
        let mut canceled = false;
        for commit in 0.. {
            if commit == at {
                // The last of them comes after the end.
                canceled = story.person(&Command::Cancel(StopHow::Request)).is_ok();
            }
            match work(&story.session, story.now) {
                Work::Done(_) => break,
                Work::Intend(_) => drop(story.intend()),
                Work::Perform { .. } => {
                    assert_eq!(story.turn().must_stop(&story.session.contract), canceled);
                    let result = match story.under_way().1 {
                        EffectKind::Patch => {
                            ReceiptBody::Done(EffectResult::Patch { patch: digest(7), bytes: 1 })
                        }
                        EffectKind::Inspect => ReceiptBody::Done(EffectResult::Inspect {
                            fence: GateStatus::Absent,
                            fence_reason: None,
                            scope: GateStatus::Absent,
                            allowed: 0,
                            changed: 1,
                            findings: 0,
                            out_of_scope: 0,
                        }),
                        _ => story.result(&[]),
                    };
                    story.receive(result);
                }
                other => panic!("{other:?}"),
            }
        }
        let expected = if canceled { Reason::Request } else { Reason::NoClaim };
        assert_eq!(story.ending(), Some(expected), "{at}: {:?}", story.kinds);
    }
}

#[test]
fn a_pause_keeps_what_is_under_way_and_starts_nothing() {
    let mut story = Story::in_command(Network::None);
    story.person(&Command::Drain(StopHow::Request)).unwrap();
    assert!(!story.turn().must_stop(&story.session.contract), "it may end by itself");
    assert_eq!(story.person(&Command::Drain(StopHow::Request)), Err(Refusal::NothingDue));
    let result = story.result(&[]);
    story.receive(result);
    assert_eq!(work(&story.session, story.now), Work::Park);
    assert_eq!((story.turn().status(), story.turn().head), (TurnStatus::Parked, Some(digest(6))));
    // Nothing is begun, whatever a driver thinks is due.
    let effect = EffectId { turn: TurnId(1), step: 2, slot: 0, attempt: 0 };
    let intent =
        Intent { effect, kind: EffectKind::ModelCall, request: digest(3), reserve: Reservation::default() };
    let refused = story.send(Authority::Driver, &Command::Intend(vec![intent]));
    assert!(matches!(refused, Err(Refusal::NotNow(_))), "{refused:?}");
    // The time at rest counts nowhere.
    let before = story.turn().deadline_at(&story.session.contract).unwrap();
    story.now = story.now.saturating_add(Millis(500_000));
    story.person(&Command::Resume).unwrap();
    let after = story.turn().deadline_at(&story.session.contract).unwrap();
    assert!(after.saturating_sub(before) >= Millis(500_000));
    assert_eq!(story.send(Authority::Driver, &Command::Recover), Err(Refusal::NothingDue));
}

#[test]
fn a_pause_by_a_person_and_one_by_a_signal_are_told_apart_and_old_journals_are_signals() {
    for (how, text) in [
        (StopHow::Signal, r#"{"event":"drain_requested"}"#),
        (StopHow::Request, r#"{"event":"drain_requested","how":"request"}"#),
    ] {
        let event = Event::DrainRequested { how };
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        assert_eq!(serde_json::from_str::<Event>(text).unwrap(), event);
    }
}

#[test]
fn what_runs_by_a_revoked_capability_has_to_stop_and_is_denied_when_it_is_wanted_again() {
    let mut story = Story::in_command(Network::None);
    story.person(&Command::Revoke(Some(Capability::CommandRun))).unwrap();
    let gone = story.person(&Command::Revoke(Some(Capability::CommandRun)));
    assert_eq!(gone, Err(Refusal::NothingDue));
    assert!(story.turn().must_stop(&story.session.contract));
    story.receive(ReceiptBody::Interrupted);
    // What it wrote is no checkpoint: the next cell is filled from the last one.
    assert!(story.turn().cell.is_none());
    story.step(&[]);
    let denied = story.intend();
    assert!(
        matches!(denied[0], Event::EffectDenied { capability: Capability::CommandRun, .. }),
        "{denied:?}"
    );
    // The model is told and goes on.
    assert_eq!(story.ending(), None);
    story.step(&[ToolName::ListFiles]);
    assert!(story.intend().iter().all(|event| !matches!(event, Event::EffectDenied { .. })));
}

#[test]
fn another_capability_stops_nothing_that_does_not_need_it() {
    let mut story = Story::in_command(Network::None);
    story.person(&Command::Revoke(Some(Capability::TreeWrite))).unwrap();
    assert!(!story.turn().must_stop(&story.session.contract));
}

#[test]
fn a_command_that_can_reach_the_network_needs_that_capability_too() {
    let mut story = Story::in_command(Network::Host);
    story.person(&Command::Revoke(Some(Capability::NetworkUse))).unwrap();
    assert!(story.turn().must_stop(&story.session.contract));
    // What it sent cannot be taken back.
    story.receive(ReceiptBody::Interrupted);
    assert_eq!(story.ending(), Some(Reason::EffectUnknown));
}

#[test]
fn what_the_plan_cannot_do_without_ends_the_turn_with_the_denial_on_record() {
    for (capability, kind) in
        [(Capability::TreeRead, EffectKind::Import), (Capability::ModelCall, EffectKind::ModelCall)]
    {
        let mut story = Story::approved(contract());
        if kind == EffectKind::ModelCall {
            story.step(&[]);
            story.step(&[]);
        }
        story.person(&Command::Revoke(Some(capability))).unwrap();
        let events = story.intend();
        let [Event::EffectDenied { kind: denied, capability: lacked, .. }, Event::TurnEnded { reason, .. }] =
            events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!((*denied, *lacked, *reason), (kind, capability, Reason::Request));
    }
}

#[test]
fn the_golden_contract_keeps_its_digest() {
    // A field that is added is left out where it says nothing: an old contract keeps the digest that people approved.
    let digest = contract().digest().unwrap();
    assert_eq!(digest.hex(), "f4c850211dc73f20deb04bcceb5b3a18b9679831c416bf30ab4b5b85eaaa13eb");
}
