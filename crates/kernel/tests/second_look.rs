//! Turns in which everything but the review and the reproduction goes well, so that random choices reach far into both. The
//! reviewer and the rooms lie, fail and come back; whatever they do, a success was earned.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

use countersign_kernel::contract::*;
use countersign_kernel::*;
use countersign_types::*;
use proptest::prelude::*;

/// Choices read off random bytes; zeros when they run out.
struct Dice<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Dice<'_> {
    fn roll(&mut self, sides: u8) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte % sides
    }
}

fn tree(n: u8) -> Digest {
    Digest::of(&[n])
}

fn contract(dice: &mut Dice<'_>) -> Contract {
    let model = |name: &str| ModelTerms::new(&format!("scripted:{name}"), None);
    Contract {
        schema: CONTRACT_SCHEMA.to_owned(),
        preset: PresetRef { name: "coding@1".to_owned(), digest: tree(90), canonical: true },
        model: Some(model("agent")),
        trust: Trust::TrustedLocal,
        sandbox: Tier::Native,
        floor: TierProperties::new(),
        network: Network::None,
        source: Source::Directory { path: "/src".to_owned() },
        environment: EnvironmentTerms::default(),
        checks: vec![CheckTerms::new(vec!["check".to_owned()], Expect::Fix, Millis(1000))],
        scope: Vec::new(),
        protect: Vec::new(),
        allow: Vec::new(),
        unfenced: false,
        out_of_process: false,
        profile: None,
        change_required: true,
        require_verified: false,
        min_strength: None,
        mutants: 0,
        attempts: 1 + u32::from(dice.roll(4)),
        limits: Limits {
            turns: 20,
            tokens: (dice.roll(4) == 3).then_some(60),
            cost: None,
            deadline: Millis(1_000_000),
            tool_actions: 100,
            output_bytes: 10_000,
            command_timeout: Millis(100),
            model_retries: 1,
        },
        detectors: Detectors::Off,
        repository_instructions: true,
        deps: Deps::default(),
        candidate: None,
        review: (dice.roll(8) < 7).then(|| ReviewTerms {
            model: model("reviewer"),
            rounds: 1 + u32::from(dice.roll(3)),
            required: dice.roll(2) == 1,
        }),
        repro_first: dice.roll(3) == 2,
        pinned: None,
        tools: Vec::new(),
    }
}

/// What goes well, and what a reviewer and rooms say.
fn result(dice: &mut Dice<'_>, kind: EffectKind) -> EffectResult {
    let job = JobSummary::Exited { code: 0 };
    let observed = TierProperties::new();
    let strength = Some(Strength { level: StrengthLevel::Ids, in_process: true });
    match kind {
        EffectKind::Import => EffectResult::Import { tree: tree(0), commit: None, entries: 1, dirty: 0 },
        EffectKind::BaseRun { .. } => EffectResult::BaseRun {
            verdict: BaseVerdict::Red { cause: RedCause::Test },
            job,
            cached: false,
            drift: None,
        },
        EffectKind::Open => EffectResult::Open { tier: Tier::Native, observed },
        EffectKind::ModelCall => {
            let call = |tool| PlannedCall { tool, arguments: tree(1), blank: false };
            let calls = match dice.roll(4) {
                0 => vec![call(ToolName::Finish)],
                1 => vec![call(ToolName::SkipRepro), call(ToolName::Finish)],
                _ => vec![call(ToolName::DeclareRepro), call(ToolName::Finish)],
            };
            EffectResult::ModelCall {
                usage: Usage { input: Some(1), output: Some(1), ..Usage::default() },
                cost: None,
                stop: ModelStop::Ordinary,
                calls,
                text_bytes: 1,
                reasoning: None,
            }
        }
        EffectKind::Tool { tool } => EffectResult::Tool {
            ok: true,
            refused: false,
            tree: None,
            output_bytes: 1,
            job: None,
            said: None,
            repro: match tool {
                ToolName::DeclareRepro if dice.roll(3) > 0 => {
                    Some(ReproMark::Declared { lock: tree(dice.roll(3)) })
                }
                ToolName::SkipRepro => Some(ReproMark::Skipped),
                _ => None,
            },
        },
        EffectKind::Seal => EffectResult::Seal { tree: tree(1), unsealable: 0 },
        EffectKind::Inspect => EffectResult::Inspect {
            fence: GateStatus::Passed,
            fence_reason: None,
            scope: GateStatus::Absent,
            findings: 0,
            allowed: 0,
            out_of_scope: 0,
            changed: 1,
        },
        EffectKind::Room { .. } => {
            EffectResult::Room { status: GateStatus::Passed, reason: None, strength, job, observed }
        }
        EffectKind::Patch => EffectResult::Patch { patch: tree(9), bytes: 1 },
        EffectKind::Repro => {
            // Whatever an engine says, whether or not it fits what the agent settled.
            let (status, reason) = match dice.roll(8) {
                0 => (GateStatus::Failed, Some(Reason::CheckFailed)),
                1 => (GateStatus::Failed, Some(Reason::ProtectedFiles)),
                2 => (GateStatus::Unverifiable, Some(Reason::CheckInconclusive)),
                3 => (GateStatus::Absent, None),
                _ => (GateStatus::Passed, None),
            };
            EffectResult::Repro { status, reason }
        }
        EffectKind::ReviewBrief => EffectResult::ReviewBrief { bytes: 1, cut: false },
        EffectKind::ReviewCall { .. } => EffectResult::ReviewCall {
            usage: Usage { input: Some(1), output: Some(1), ..Usage::default() },
            cost: None,
            answer: match dice.roll(6) {
                4 => ReviewAnswer::Declined,
                5 => ReviewAnswer::Junk,
                _ => ReviewAnswer::Findings,
            },
            findings: 1,
        },
        EffectKind::ReviewJudge { .. } => EffectResult::ReviewJudge {
            confirmed: u32::from(dice.roll(3) == 2),
            advised: 1,
            refuted: 0,
            dropped: 0,
            noted: 0,
            solicit: u32::from(dice.roll(2)),
        },
        EffectKind::ReviewRecheck => EffectResult::ReviewRecheck {
            repaired: 1,
            red: u32::from(dice.roll(4) == 3),
            unknown: u32::from(dice.roll(4) == 3),
        },
        other => {
            EffectResult::Probe { job: if other == EffectKind::Probe { job } else { JobSummary::Limited } }
        }
    }
}

fn body(dice: &mut Dice<'_>, kind: EffectKind) -> ReceiptBody {
    if kind.reviews() && dice.roll(8) == 7 {
        let retry_after = (dice.roll(2) == 1).then_some(Millis(1));
        let reason = if dice.roll(2) == 1 { Reason::Context } else { Reason::CellDied };
        return ReceiptBody::Failed(EffectFailure { reason, retry_after, reset_at: None, billed: false });
    }
    ReceiptBody::Done(result(dice, kind))
}

/// A whole turn, and its events in order.
fn run(bytes: &[u8]) -> (Session, Vec<Event>) {
    let mut dice = Dice { bytes, at: 0 };
    let mut session = Session::new(contract(&mut dice));
    let mut events = Vec::new();
    let mut now = Millis(1);
    let mut commit = |session: &mut Session, now: Millis, authority, command: &Command| {
        for event in decide(session, authority, command, now).unwrap() {
            apply(session, now, &event);
            events.push(event);
        }
    };
    for command in
        [Command::Open { contract: tree(77) }, Command::Queue { input: tree(78), bytes: 1 }, Command::Approve]
    {
        commit(&mut session, now, Authority::External, &command);
    }
    for round in 0.. {
        assert!(round < 1000, "the turn does not end: {:?}", session.turn);
        match work(&session, now) {
            Work::Done(_) => break,
            Work::Tick => commit(&mut session, now, Authority::Driver, &Command::Tick),
            Work::Wait { until } => {
                assert!(until > now, "a wait lies in the future");
                now = until;
            }
            Work::Intend(steps) => {
                let intents = steps.iter().map(|step| Intent {
                    effect: step.effect,
                    kind: step.kind,
                    request: tree(5),
                    reserve: match step.kind {
                        EffectKind::ModelCall | EffectKind::ReviewCall { .. } => Reservation { tokens: 45 },
                        _ => Reservation::default(),
                    },
                });
                commit(&mut session, now, Authority::Driver, &Command::Intend(intents.collect()));
            }
            Work::Perform { effects, .. } => {
                let turn = session.turn.clone().unwrap();
                let receipts = effects.iter().map(|effect| Receipt {
                    effect: *effect,
                    body: body(&mut dice, turn.outstanding[effect].kind),
                });
                let receipts = receipts.collect();
                commit(&mut session, now, Authority::Driver, &Command::Receipts(receipts));
            }
            other => unreachable!("{other:?}"),
        }
    }
    (session, events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_success_behind_a_review_and_a_reproduction_was_earned(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let (session, events) = run(&bytes);
        let (turn, contract) = (session.turn.as_ref().unwrap(), &session.contract);
        let ending = turn.ending.unwrap();
        let said = |key| turn.gates.get(&key).map(|gate| gate.status);
        let (repro, review) = (said(GateKey::Repro), said(GateKey::Review));
        let earned_repro = match turn.repro {
            _ if !contract.repro_first => true,
            Some(ReproMark::Declared { .. }) => repro == Some(GateStatus::Passed),
            Some(ReproMark::Skipped) => repro == Some(GateStatus::Absent),
            None => false,
        };
        let earned_review = match &contract.review {
            None => true,
            Some(terms) => {
                let passed = review == Some(GateStatus::Passed) && turn.review.now.confirmed == 0;
                let out = review == Some(GateStatus::Unverifiable) && !terms.required;
                (passed || out) && turn.review.open == 0
            }
        };
        let earned = earned_repro && earned_review;
        // Nothing else can go wrong here but a budget that is used up by the agent's own next step.
        let cut_short = turn.path.unwrap().cut_short().is_some();
        prop_assert!(cut_short || (ending.outcome == Outcome::Verified) == earned, "{ending:?} {repro:?} {review:?}");
        let possible = [Outcome::Verified, Outcome::Unverified, Outcome::Tampered];
        prop_assert!(cut_short || possible.contains(&ending.outcome), "{ending:?}");
        if ending.outcome == Outcome::Tampered {
            prop_assert_eq!(ending.reason, Reason::ProtectedFiles);
            let declared = matches!(turn.repro, Some(ReproMark::Declared { .. }));
            prop_assert!(declared);
        }
        if review == Some(GateStatus::Unverifiable) && ending.outcome == Outcome::Unverified && earned_repro {
            prop_assert_eq!(ending.reason, Reason::GateUnverifiable);
        }
        // What was declared first is what counts.
        let first = events.iter().find_map(|event| match event {
            Event::EffectCompleted { result: EffectResult::Tool { repro: Some(mark @ ReproMark::Declared { .. }), .. }, .. } => Some(*mark),
            _ => None,
        });
        prop_assert!(first.is_none() || turn.repro == first);
    }

    #[test]
    fn a_confirmed_finding_is_closed_by_a_later_run_only(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let (session, events) = run(&bytes);
        let turn = session.turn.as_ref().unwrap();
        let (mut open, mut returned, mut questions) = (0, false, 0);
        for event in &events {
            match event {
                Event::AttemptBegun { .. } => (returned, questions) = (false, 0),
                Event::EffectCompleted { result: EffectResult::ReviewCall { .. }, .. } => questions += 1,
                Event::EffectCompleted { result: EffectResult::ReviewJudge { confirmed, .. }, .. } => open += confirmed,
                Event::EffectCompleted { result: EffectResult::ReviewRecheck { red, unknown, .. }, .. } => {
                    prop_assert!(open > 0 || turn.review.confirmed > 0);
                    prop_assert!(questions == 0, "tried again before anybody is asked");
                    open = red + unknown;
                }
                Event::GateDecided { gate: GateKey::Review, status: GateStatus::Passed, .. } => prop_assert_eq!(open, 0),
                Event::AttemptReturned { gate: GateKey::Review, .. } => {
                    prop_assert!(open > 0 && !returned);
                    returned = true;
                }
                _ => {}
            }
            prop_assert!(questions <= 2, "one question, and one for commands");
        }
        prop_assert!(open == 0 || turn.ending.unwrap().outcome != Outcome::Verified);
    }
}
