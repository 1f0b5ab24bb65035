//! The detectors, held against turns that go round in circles and against honest ones that only look like it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use countersign_kernel::contract::*;
use countersign_kernel::*;
use countersign_types::*;
use proptest::prelude::*;

fn digest(n: u64) -> Digest {
    Digest::of(&n.to_le_bytes())
}

fn contract(preset: &str, turns: u32) -> Contract {
    Contract {
        schema: CONTRACT_SCHEMA.to_owned(),
        preset: PresetRef { name: preset.to_owned(), digest: digest(0), canonical: true },
        model: Some(ModelTerms::new("scripted:x", None)),
        trust: Trust::TrustedLocal,
        sandbox: Tier::Native,
        floor: TierProperties::new(),
        network: Network::None,
        source: Source::Directory { path: "/src".to_owned() },
        environment: EnvironmentTerms::default(),
        profile: None,
        checks: Vec::new(),
        scope: Vec::new(),
        protect: Vec::new(),
        allow: Vec::new(),
        unfenced: false,
        out_of_process: false,
        change_required: false,
        require_verified: false,
        min_strength: None,
        mutants: 0,
        attempts: 1,
        limits: Limits {
            turns,
            tokens: None,
            cost: None,
            deadline: Millis(1_000_000_000),
            tool_actions: 1_000_000,
            output_bytes: 1_000_000,
            command_timeout: Millis(100),
            model_retries: 2,
        },
        detectors: Detectors::V1,
        repository_instructions: true,
        deps: countersign_kernel::contract::Deps::default(),
        candidate: None,
        review: None,
        repro_first: false,
        pinned: None,
        tools: Vec::new(),
    }
}

/// One call and what comes of it.
#[derive(Clone, Copy, Debug)]
struct Call {
    tool: ToolName,
    arguments: u64,
    ok: bool,
    said: Option<u64>,
    /// What the tree is after it.
    tree: Option<u64>,
}

/// One message.
#[derive(Clone, Debug)]
struct Message {
    calls: Vec<Call>,
    /// The opaque reasoning that comes with it.
    reasoning: Option<u64>,
    /// Milliseconds that its calls take together.
    takes: u64,
}

fn one(tool: ToolName, arguments: u64, ok: bool, said: Option<u64>, tree: Option<u64>) -> Message {
    Message { calls: vec![Call { tool, arguments, ok, said, tree }], reasoning: None, takes: 5 }
}

fn read(path: u64) -> Message {
    one(ToolName::ReadFile, path, true, Some(path), None)
}

fn search(pattern: u64) -> Message {
    one(ToolName::Search, pattern, true, Some(pattern), None)
}

fn edit(arguments: u64, tree: u64) -> Message {
    one(ToolName::EditFile, arguments, true, Some(1), Some(tree))
}

/// A command that changes nothing.
fn run(command: u64, ok: bool, said: u64) -> Message {
    one(ToolName::Run, command, ok, Some(said), None)
}

fn thinking(mut message: Message, reasoning: u64) -> Message {
    message.reasoning = Some(reasoning);
    message
}

fn slow(mut message: Message) -> Message {
    message.takes = 2000;
    message
}

/// What became of a turn, and which steps it was told about.
#[derive(Debug)]
struct Told {
    steps: u32,
    nudges: Vec<Finding>,
    stuck: Option<Finding>,
    reason: Reason,
}

/// Plays a turn whose step `n`, from 1, is what `next` says. None: it finishes.
fn play(contract: Contract, mut next: impl FnMut(u64) -> Option<Message>) -> Told {
    let mut session = Session::new(contract);
    let mut now = Millis(1000);
    let mut nudges = Vec::new();
    let mut stuck = None;
    let mut commit = |session: &mut Session, now: Millis, authority, command: &Command| {
        for event in decide(session, authority, command, now).unwrap() {
            match &event {
                Event::Nudged { finding } => nudges.push(*finding),
                Event::AttemptBegun { path: EndPath::Stuck { finding }, .. } => stuck = Some(*finding),
                _ => {}
            }
            apply(session, now, &event);
        }
    };
    commit(&mut session, now, Authority::External, &Command::Open { contract: digest(1) });
    commit(&mut session, now, Authority::External, &Command::Queue { input: digest(2), bytes: 1 });
    commit(&mut session, now, Authority::External, &Command::Approve);
    let mut message: Option<Message> = None;
    let ending = loop {
        match work(&session, now) {
            Work::Done(ending) => break ending,
            Work::Intend(steps) => {
                let intents = steps
                    .iter()
                    .map(|step| Intent {
                        effect: step.effect,
                        kind: step.kind,
                        request: digest(3),
                        reserve: Reservation::default(),
                    })
                    .collect();
                commit(&mut session, now, Authority::Driver, &Command::Intend(intents));
            }
            Work::Perform { effects, .. } => {
                let turn = session.turn.clone().unwrap();
                now = now.saturating_add(Millis(message.as_ref().map_or(1, |message| message.takes)));
                let receipts = effects
                    .iter()
                    .map(|effect| {
                        let result = match turn.outstanding[effect].kind {
                            EffectKind::Import => {
                                EffectResult::Import { tree: digest(100), commit: None, entries: 1, dirty: 0 }
                            }
                            EffectKind::Open => {
                                EffectResult::Open { tier: Tier::Native, observed: TierProperties::new() }
                            }
                            EffectKind::ModelCall => {
                                message = next(u64::from(turn.step));
                                said(message.as_ref())
                            }
                            EffectKind::Tool { .. } => {
                                let at = usize::try_from(effect.slot - 1).unwrap();
                                result(message.as_ref().map(|message| message.calls[at]))
                            }
                            EffectKind::Seal => {
                                EffectResult::Seal { tree: turn.head.unwrap(), unsealable: 0 }
                            }
                            EffectKind::Inspect => EffectResult::Inspect {
                                fence: GateStatus::Absent,
                                fence_reason: None,
                                scope: GateStatus::Absent,
                                findings: 0,
                                allowed: 0,
                                out_of_scope: 0,
                                changed: u64::from(turn.head != turn.base.as_ref().map(|base| base.tree)),
                            },
                            EffectKind::Patch => EffectResult::Patch { patch: digest(9), bytes: 1 },
                            other => panic!("{other:?} is not part of this contract"),
                        };
                        Receipt { effect: *effect, body: ReceiptBody::Done(result) }
                    })
                    .collect();
                commit(&mut session, now, Authority::Driver, &Command::Receipts(receipts));
            }
            other => panic!("{other:?}"),
        }
    };
    Told { steps: session.turn.unwrap().step, nudges, stuck, reason: ending.reason }
}

fn said(message: Option<&Message>) -> EffectResult {
    let planned =
        |call: &Call| PlannedCall { tool: call.tool, arguments: digest(call.arguments), blank: false };
    let finish = PlannedCall { tool: ToolName::Finish, arguments: digest(0), blank: false };
    EffectResult::ModelCall {
        usage: Usage::default(),
        cost: None,
        stop: ModelStop::Ordinary,
        calls: message.map_or(vec![finish], |message| message.calls.iter().map(planned).collect()),
        text_bytes: 0,
        reasoning: message.and_then(|message| message.reasoning).map(digest),
    }
}

fn result(call: Option<Call>) -> EffectResult {
    let job = |call: &Call| {
        (call.tool == ToolName::Run).then_some(JobSummary::Exited { code: i32::from(!call.ok) })
    };
    EffectResult::Tool {
        ok: call.is_none_or(|call| call.ok),
        refused: call.is_some_and(|call| call.tool == ToolName::Invalid),
        tree: call.and_then(|call| call.tree).map(digest),
        output_bytes: 1,
        job: call.as_ref().and_then(job),
        said: call.and_then(|call| call.said).map(digest),
        repro: None,
    }
}

const CODING: &str = "coding@1";

/// Circles without an end: told once, then stopped at these steps.
#[track_caller]
fn stops(reason: Reason, told_at: u32, stopped_at: u32, next: impl FnMut(u64) -> Message) {
    let mut next = next;
    let told = play(contract(CODING, 1000), |n| Some(next(n)));
    assert_eq!(told.reason, reason, "{told:?}");
    assert_eq!(told.nudges.len(), 1, "{told:?}");
    assert_eq!((told.nudges[0].reason, told.nudges[0].last), (reason, told_at), "{told:?}");
    let stuck = told.stuck.unwrap();
    assert_eq!((stuck.reason, stuck.last, told.steps), (reason, stopped_at, stopped_at), "{told:?}");
    assert!(stuck.first < stuck.last, "the steps that show it: {told:?}");
}

/// An honest turn of so many steps, which then finishes: it is not stopped.
#[track_caller]
fn goes_on(steps: u64, nudges: usize, next: impl FnMut(u64) -> Message) {
    let mut next = next;
    let told = play(contract(CODING, 1000), |n| (n <= steps).then(|| next(n)));
    assert_eq!(told.reason, Reason::NoClaim, "{told:?}");
    assert_eq!(told.nudges.len(), nudges, "{told:?}");
}

#[test]
fn the_same_step_again_and_again_is_a_repeat() {
    stops(Reason::Repeat, 3, 6, |_| read(1));
    stops(Reason::Repeat, 3, 6, |_| run(1, true, 1));
    stops(Reason::Repeat, 3, 6, |_| run(1, false, 1));
    stops(Reason::Repeat, 3, 6, |_| edit(1, 5));
    // Reads side by side are one step: told at the third message, not at the third call.
    stops(Reason::Repeat, 3, 6, |_| Message {
        calls: [1, 1, 1, 1].map(|_| read(1).calls[0]).to_vec(),
        reasoning: None,
        takes: 5,
    });
    // An append that changes the tree each time is news, for a while.
    stops(Reason::Repeat, 25, 61, |n| edit(1, 1000 + n));
}

#[test]
fn a_model_that_thinks_and_a_command_that_waits_get_more_patience() {
    stops(Reason::Repeat, 7, 16, |n| thinking(run(1, true, 1), n));
    stops(Reason::Repeat, 7, 16, |_| slow(run(1, true, 1)));
    stops(Reason::Repeat, 19, 46, |n| slow(thinking(run(1, true, 1), n)));
    // The same words of reasoning each time are no thought.
    stops(Reason::Repeat, 3, 6, |_| thinking(run(1, true, 1), 7));
    // A read does not wait, however slow the machine is.
    stops(Reason::Repeat, 3, 6, |_| slow(read(1)));
    stops(Reason::Discovery, 12, 20, |n| thinking(search(n), n));
    stops(Reason::ToolFormat, 6, 12, |n| thinking(one(ToolName::Invalid, n, false, Some(n), None), n));
}

#[test]
fn steps_that_take_turns_are_an_alternation() {
    stops(Reason::Alternate, 6, 10, |n| if n % 2 == 0 { edit(1, 5) } else { edit(2, 6) });
    stops(Reason::Alternate, 9, 15, |n| match n % 3 {
        0 => run(1, true, 1),
        1 => read(1),
        _ => read(2),
    });
    // A round of four in which one step stands twice.
    stops(Reason::Alternate, 12, 20, |n| if n % 4 < 2 { run(1, true, 1) } else { run(2 + n % 2, true, 2) });
}

#[test]
fn looking_around_without_an_end_is_discovery() {
    stops(Reason::Discovery, 6, 10, |n| {
        if n % 3 == 0 { one(ToolName::ListFiles, n, true, Some(n), None) } else { search(n) }
    });
    // Files that were read already, in an order that never comes back.
    let seen = 8;
    let mut dice = 1_u64;
    let told = play(contract(CODING, 1000), |n| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some(read(if n <= seen { n } else { 1 + (dice >> 33) % seen }))
    });
    assert_eq!((told.reason, told.nudges.len()), (Reason::Discovery, 1), "{told:?}");
    assert!(told.steps <= 30, "{told:?}");
    // Every file of a large project, and nothing done.
    stops(Reason::Discovery, 32, 64, read);
    // Who may only look has twice the patience.
    let told = play(contract("question@1", 1000), |n| Some(search(n)));
    assert_eq!((told.reason, told.nudges[0].last, told.steps), (Reason::Discovery, 12, 20), "{told:?}");
}

#[test]
fn one_failure_whatever_is_done_is_stagnation() {
    // Another command each time, the same failure.
    stops(Reason::Stagnant, 4, 7, |n| run(n, false, 1));
    // A changed tree each time deserves more: edit, run, edit, run, …
    let told =
        play(contract(CODING, 1000), |n| Some(if n % 2 == 1 { edit(n, 1000 + n) } else { run(1, false, 1) }));
    assert_eq!((told.reason, told.nudges[0].last, told.steps), (Reason::Stagnant, 12, 20), "{told:?}");
    // Other failures in between do not hide it.
    let told = play(contract(CODING, 1000), |n| {
        Some(if n % 2 == 1 {
            one(ToolName::EditFile, n, false, Some(1000 + n), None)
        } else {
            run(n, false, 1)
        })
    });
    assert_eq!((told.reason, told.nudges[0].last, told.steps), (Reason::Stagnant, 8, 14), "{told:?}");
}

#[test]
fn calls_that_nobody_can_read_are_a_matter_of_format() {
    stops(Reason::ToolFormat, 3, 6, |n| one(ToolName::Invalid, n, false, Some(n), None));
    stops(Reason::ToolFormat, 3, 6, |_| one(ToolName::Invalid, 1, false, Some(1), None));
}

#[test]
fn honest_work_is_not_stopped() {
    // Polls a long job whose output grows; it waits, or it does not.
    goes_on(20, 0, |n| run(1, true, n));
    goes_on(39, 0, |n| slow(run(1, true, n)));
    // The same word until it is there, each time after a while.
    goes_on(6, 0, |n| slow(run(1, n == 6, u64::from(n == 6))));
    goes_on(12, 1, |n| slow(run(1, n == 12, u64::from(n == 12))));
    // Reads many different files at first, with a search between them.
    goes_on(30, 0, read);
    goes_on(30, 0, |n| if n % 3 == 0 { search(n) } else { read(n) });
    // Forty edits in a row.
    goes_on(40, 0, |n| edit(n, 1000 + n));
    // The same test command after different edits: other results, then the same one for a while.
    goes_on(40, 0, |n| if n % 2 == 1 { edit(n, 1000 + n) } else { run(1, n == 40, n) });
    goes_on(10, 0, |n| if n % 2 == 1 { edit(n, 1000 + n) } else { run(1, n == 10, u64::from(n == 10)) });
    goes_on(18, 1, |n| if n % 2 == 1 { edit(n, 1000 + n) } else { run(1, n == 18, u64::from(n == 18)) });
    // A green test again and again, with work between.
    goes_on(40, 0, |n| if n % 2 == 1 { edit(n, 1000 + n) } else { run(1, true, 1) });
    // Fans out: twelve looks side by side, a few times.
    let fan = |n: u64| Message {
        calls: (0..12).map(|i| search(100 * n + i).calls[0]).collect(),
        reasoning: None,
        takes: 5,
    };
    goes_on(5, 0, fan);
    goes_on(30, 0, |n| {
        let mut fan = fan(n);
        fan.calls.extend(read(n).calls);
        fan
    });
    // Commands that find nothing and say nothing have no failure in common.
    goes_on(20, 0, |n| one(ToolName::Run, n, false, None, None));
    // A slip of the format now and then.
    goes_on(20, 0, |n| {
        if n % 3 == 0 { run(n, true, n) } else { one(ToolName::Invalid, n, false, Some(n), None) }
    });
}

#[test]
fn a_nudge_that_helps_leaves_the_turn_alone() {
    goes_on(30, 1, |n| if n <= 3 { read(1) } else { edit(n, 1000 + n) });
    // It is told once in a turn; the second circle meets the limit that ends the turn.
    let told = play(contract(CODING, 1000), |n| {
        Some(match n {
            1..=3 => read(1),
            4..=20 => edit(n, 1000 + n),
            _ => read(2),
        })
    });
    assert_eq!((told.nudges.len(), told.steps), (1, 26), "{told:?}");
    assert_eq!(told.stuck, Some(Finding { reason: Reason::Repeat, first: 21, last: 26 }));
}

#[test]
fn a_contract_without_detectors_is_left_alone() {
    let off = Contract { detectors: Detectors::Off, ..contract(CODING, 50) };
    assert_eq!(play(off, |_| Some(read(1))).reason, Reason::Turns);
    // An older contract names none.
    let mut old = serde_json::to_value(contract(CODING, 50)).unwrap();
    assert_eq!(old.as_object_mut().unwrap().remove("detectors"), Some("detectors@1".into()));
    assert_eq!(serde_json::from_value::<Contract>(old.clone()).unwrap().detectors, Detectors::Off);
    old["detectors"] = "detectors@2".into();
    assert!(serde_json::from_value::<Contract>(old).is_err(), "a set that is not known is refused");
}

fn any_message() -> impl Strategy<Value = Message> {
    let tool = prop_oneof![
        Just(ToolName::ListFiles),
        Just(ToolName::ReadFile),
        Just(ToolName::Search),
        Just(ToolName::EditFile),
        Just(ToolName::Run),
        Just(ToolName::Check),
        Just(ToolName::Invalid),
    ];
    let call = (tool, 0_u64..3, any::<bool>(), proptest::option::of(0_u64..3), 0_u64..3).prop_map(
        |(tool, arguments, ok, said, tree)| Call {
            tool,
            arguments,
            ok,
            said,
            tree: tool.may_write().then_some(tree),
        },
    );
    let calls = proptest::collection::vec(call, 1..4);
    (calls, proptest::option::of(0_u64..3), prop_oneof![Just(5_u64), Just(2000)])
        .prop_map(|(calls, reasoning, takes)| Message { calls, reasoning, takes })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever a model does: it is told at most once, never stopped before that, and a stop names steps that were.
    #[test]
    fn nobody_is_stopped_without_a_word(messages in proptest::collection::vec(any_message(), 0..60)) {
        let told = play(contract(CODING, 1000), |n| messages.get(usize::try_from(n).unwrap() - 1).cloned());
        prop_assert!(told.nudges.len() <= 1);
        if let Some(stuck) = told.stuck {
            prop_assert_eq!(told.reason, stuck.reason);
            prop_assert!(told.nudges[0].last < stuck.last);
            prop_assert!(stuck.first >= 1 && stuck.first < stuck.last && stuck.last == told.steps);
        } else {
            prop_assert_eq!(told.reason, Reason::NoClaim);
        }
    }

    /// A finite set of steps cannot go on for ever: whatever round it is, somebody strikes.
    #[test]
    fn every_round_is_found(round in proptest::collection::vec(any_message(), 1..=4)) {
        // What comes of a step depends on nothing but the step: that is what a circle is.
        let round: Vec<Message> = round.into_iter().map(|message| Message { reasoning: None, takes: 5, ..message }).collect();
        let told = play(contract(CODING, 1000), |n| {
            Some(round[usize::try_from(n).unwrap() % round.len()].clone())
        });
        prop_assert!(told.stuck.is_some(), "{:?}", told);
        prop_assert!(told.steps <= 30, "{:?}", told);
    }
}
