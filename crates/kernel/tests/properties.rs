//! Random turns, driven to their end by a driver that lies, stalls, fails and is interrupted. Whatever happens:
//! replaying the events gives the state, every state has work or a wait or an end, an ended turn refuses everything,
//! and a success was earned.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use countersign_kernel::contract::*;
use countersign_kernel::*;
use countersign_types::*;
use proptest::prelude::*;

/// Choices read off random bytes; zeros when they run out, so that every run ends.
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
    fn one_in(&mut self, sides: u8) -> bool {
        self.at < self.bytes.len() && self.roll(sides) == sides - 1
    }
}

fn contract(dice: &mut Dice<'_>) -> Contract {
    let checks = (0..dice.roll(3))
        .map(|n| {
            let expect = if dice.one_in(3) { Expect::Guard } else { Expect::Fix };
            CheckTerms::new(vec![format!("check{n}")], expect, Millis(1000))
        })
        .collect::<Vec<_>>();
    let question = dice.one_in(4);
    let patient = dice.one_in(3);
    let candidate = (!question && dice.one_in(3)).then(|| Candidate::Head { rev: "x".to_owned() });
    Contract {
        schema: CONTRACT_SCHEMA.to_owned(),
        preset: PresetRef {
            name: if question { "question@1" } else { "coding@1" }.to_owned(),
            digest: Digest::of(b"preset"),
            canonical: true,
        },
        model: candidate.is_none().then(|| ModelTerms::new("scripted:x", None)),
        trust: Trust::TrustedLocal,
        sandbox: Tier::Native,
        floor: TierProperties::new(),
        network: if dice.one_in(3) { Network::Host } else { Network::None },
        source: Source::Directory { path: "/src".to_owned() },
        environment: EnvironmentTerms {
            setup: dice.one_in(3).then(|| vec!["setup".to_owned()]),
            probe: dice.one_in(3).then(|| vec!["probe".to_owned()]),
            ..EnvironmentTerms::default()
        },
        change_required: !checks.is_empty() && !dice.one_in(4),
        profile: None,
        checks: if question { Vec::new() } else { checks },
        scope: if dice.one_in(3) { vec!["src/**".to_owned()] } else { Vec::new() },
        protect: Vec::new(),
        allow: Vec::new(),
        unfenced: dice.one_in(8),
        require_verified: false,
        out_of_process: dice.one_in(8),
        min_strength: dice.one_in(4).then_some(StrengthLevel::Ids),
        mutants: u32::from(dice.one_in(3)),
        attempts: 1 + u32::from(dice.roll(3)),
        limits: Limits {
            turns: 1 + u32::from(dice.roll(6)) + if patient { 40 } else { 0 },
            tokens: dice.one_in(3).then_some(50),
            cost: None,
            deadline: Millis(500),
            tool_actions: 1 + u32::from(dice.roll(8)) + if patient { 100 } else { 0 },
            output_bytes: 100,
            command_timeout: Millis(100),
            model_retries: 2,
        },
        detectors: if dice.one_in(4) { Detectors::Off } else { Detectors::V1 },
        repository_instructions: true,
        deps: countersign_kernel::contract::Deps::default(),
        candidate,
        review: dice.one_in(2).then(|| ReviewTerms {
            model: ModelTerms::new("scripted:reviewer", None),
            rounds: 1 + u32::from(dice.roll(2)),
            required: dice.one_in(3),
        }),
        repro_first: dice.one_in(3),
        pinned: None,
        tools: Vec::new(),
    }
}

fn tree(n: u8) -> Digest {
    Digest::of(&[n])
}

fn result(dice: &mut Dice<'_>, kind: EffectKind, expect: impl Fn(CheckIndex) -> Expect) -> EffectResult {
    let job = match dice.roll(6) {
        0..=3 => JobSummary::Exited { code: 0 },
        4 => JobSummary::Exited { code: 1 },
        _ => JobSummary::Limited,
    };
    match kind {
        EffectKind::Import => EffectResult::Import { tree: tree(0), commit: None, entries: 1, dirty: 0 },
        EffectKind::Setup => EffectResult::Setup { environment: tree(200), job, cached: false },
        EffectKind::Probe => EffectResult::Probe { job },
        EffectKind::BaseRun { check } => {
            let verdict = match (dice.roll(8), expect(check)) {
                (0, _) => BaseVerdict::Environment,
                (1, Expect::Fix) => BaseVerdict::AlreadyGreen,
                (2, Expect::Fix) => BaseVerdict::Red { cause: RedCause::Unknown },
                (_, Expect::Fix) => BaseVerdict::Red { cause: RedCause::Test },
                (_, Expect::Guard | Expect::New) => BaseVerdict::Green,
            };
            EffectResult::BaseRun { verdict, job, cached: false, drift: None }
        }
        EffectKind::Candidate => EffectResult::Candidate {
            tree: tree(dice.roll(3)),
            commit: None,
            entries: 1,
            unsealable: u64::from(dice.one_in(5)),
            tier: Tier::Native,
            observed: TierProperties::new(),
        },
        EffectKind::Open => EffectResult::Open { tier: Tier::Native, observed: TierProperties::new() },
        EffectKind::ModelCall => {
            let calls = (0..dice.roll(4))
                .map(|_| {
                    let all = [
                        ToolName::ReadFile,
                        ToolName::Search,
                        ToolName::EditFile,
                        ToolName::Run,
                        ToolName::Check,
                        ToolName::DeclareRepro,
                        ToolName::SkipRepro,
                        ToolName::Finish,
                        ToolName::Invalid,
                    ];
                    PlannedCall {
                        tool: all[usize::from(dice.roll(9))],
                        arguments: tree(1),
                        blank: dice.one_in(4),
                    }
                })
                .collect();
            EffectResult::ModelCall {
                usage: Usage { input: dice.one_in(2).then_some(5), output: Some(5), ..Usage::default() },
                cost: None,
                stop: match dice.roll(10) {
                    7 => ModelStop::Paused,
                    8 => ModelStop::Declined,
                    9 => ModelStop::Length,
                    _ => ModelStop::Ordinary,
                },
                calls,
                text_bytes: u64::from(dice.roll(2)),
                reasoning: dice.one_in(3).then(|| tree(dice.roll(3))),
            }
        }
        EffectKind::Tool { tool } => EffectResult::Tool {
            ok: !dice.one_in(3),
            refused: dice.one_in(5),
            tree: tool.may_write().then(|| tree(dice.roll(3))),
            output_bytes: u64::from(dice.roll(30)),
            job: None,
            said: dice.one_in(2).then(|| tree(dice.roll(3))),
            repro: match tool {
                ToolName::DeclareRepro => {
                    dice.one_in(2).then(|| ReproMark::Declared { lock: tree(dice.roll(3)) })
                }
                ToolName::SkipRepro => Some(ReproMark::Skipped),
                _ => None,
            },
        },
        EffectKind::Seal => {
            EffectResult::Seal { tree: tree(dice.roll(3)), unsealable: u64::from(dice.one_in(5)) }
        }
        EffectKind::Inspect => {
            let (fence, fence_reason) = match dice.roll(6) {
                4 => (GateStatus::Failed, Some(Reason::ProtectedFiles)),
                5 => (GateStatus::Unverifiable, Some(Reason::GateUnverifiable)),
                _ => (GateStatus::Passed, None),
            };
            let scope = if dice.one_in(6) { GateStatus::Failed } else { GateStatus::Passed };
            EffectResult::Inspect {
                fence,
                fence_reason,
                scope,
                findings: 0,
                allowed: 0,
                out_of_scope: 0,
                changed: u64::from(dice.roll(3)),
            }
        }
        EffectKind::Room { .. } => {
            let (status, reason, strength) = match dice.roll(5) {
                0 => (GateStatus::Failed, Some(Reason::CheckFailed), None),
                1 => (GateStatus::Unverifiable, Some(Reason::CheckInconclusive), None),
                _ => {
                    let level = StrengthLevel::ALL[usize::from(dice.roll(3))];
                    (GateStatus::Passed, None, Some(Strength { level, in_process: true }))
                }
            };
            EffectResult::Room { status, reason, strength, job, observed: TierProperties::new() }
        }
        EffectKind::Mutants => EffectResult::Mutants { tried: 2, killed: 1, survived: 1 },
        EffectKind::Patch => EffectResult::Patch { patch: tree(9), bytes: 1 },
        EffectKind::Repro => {
            // Whatever an engine says, whether or not it fits what the agent settled.
            let (status, reason) = match dice.roll(6) {
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
            usage: Usage { input: dice.one_in(2).then_some(5), output: Some(5), ..Usage::default() },
            cost: None,
            answer: match dice.roll(6) {
                4 => ReviewAnswer::Declined,
                5 => ReviewAnswer::Junk,
                _ => ReviewAnswer::Findings,
            },
            findings: 1,
        },
        EffectKind::ReviewJudge { .. } => EffectResult::ReviewJudge {
            confirmed: u32::from(dice.one_in(2)),
            advised: 1,
            refuted: 0,
            dropped: 0,
            noted: 0,
            solicit: u32::from(dice.one_in(2)),
        },
        EffectKind::ReviewRecheck => EffectResult::ReviewRecheck {
            repaired: 1,
            red: u32::from(dice.one_in(3)),
            unknown: u32::from(dice.one_in(3)),
        },
    }
}

fn failure(dice: &mut Dice<'_>, kind: EffectKind) -> EffectFailure {
    let reason = match kind {
        EffectKind::ModelCall | EffectKind::ReviewCall { .. } => {
            [Reason::Overloaded, Reason::RateLimit, Reason::Auth, Reason::Context][usize::from(dice.roll(4))]
        }
        EffectKind::Import => Reason::Repository,
        _ => [Reason::CellDied, Reason::DiskFull][usize::from(dice.roll(2))],
    };
    EffectFailure {
        reason,
        retry_after: dice.one_in(2).then_some(Millis(10)),
        reset_at: None,
        billed: dice.one_in(2),
    }
}

/// What a whole run did.
struct Story {
    session: Session,
    events: Vec<(Millis, Event)>,
    canceled_before_the_end: bool,
}

fn run(bytes: &[u8]) -> Story {
    let mut dice = Dice { bytes, at: 0 };
    let contract = contract(&mut dice);
    let mut session = Session::new(contract);
    let mut events: Vec<(Millis, Event)> = Vec::new();
    let mut now = Millis(1000);
    let mut commit = |session: &mut Session, now: Millis, authority, command: &Command| {
        let decided = decide(session, authority, command, now)?;
        for event in decided {
            apply(session, now, &event);
            events.push((now, event));
        }
        Ok::<(), Refusal>(())
    };
    let person = Authority::External;
    let driver = Authority::Driver;
    commit(&mut session, now, person, &Command::Open { contract: tree(77) }).unwrap();
    commit(&mut session, now, person, &Command::Queue { input: tree(78), bytes: 1 }).unwrap();
    assert_eq!(work(&session, now), Work::Idle, "nothing runs before approval");
    commit(&mut session, now, person, &Command::Approve).unwrap();
    let mut canceled = false;
    for round in 0.. {
        assert!(round < 2000, "the turn does not end: {:?}", session.turn);
        now = now.saturating_add(Millis(u64::from(dice.roll(20))));
        if dice.one_in(40) {
            let ended = session.turn.as_ref().unwrap().ending.is_some();
            let taken = commit(&mut session, now, person, &Command::Cancel(StopHow::Signal)).is_ok();
            canceled |= taken && !ended;
        }
        if dice.one_in(40) {
            let _ = commit(&mut session, now, person, &Command::Drain(StopHow::Signal));
        }
        // The driver dies here, and another takes over: what it finds is decided once.
        if dice.one_in(30) && commit(&mut session, now, driver, &Command::Recover).is_ok() {
            let again = decide(&session, driver, &Command::Recover, now);
            assert!(matches!(again, Err(Refusal::NothingDue | Refusal::Ended)), "{again:?}");
        }
        match work(&session, now) {
            Work::Done(_) => break,
            Work::Idle => panic!("an approved turn is never idle"),
            Work::Park => commit(&mut session, now, person, &Command::Resume).unwrap(),
            Work::Tick => commit(&mut session, now, driver, &Command::Tick).unwrap(),
            Work::Wait { until } => {
                assert!(until > now, "a wait lies in the future");
                now = until;
            }
            Work::Intend(steps) => {
                assert!(!steps.is_empty(), "the plan always wants something: {:?}", session.turn);
                let intents: Vec<Intent> = steps
                    .iter()
                    .map(|step| Intent {
                        effect: step.effect,
                        kind: step.kind,
                        request: tree(5),
                        reserve: if matches!(step.kind, EffectKind::ModelCall | EffectKind::ReviewCall { .. })
                        {
                            Reservation { tokens: 10 }
                        } else {
                            Reservation::default()
                        },
                    })
                    .collect();
                let stranger = decide(&session, person, &Command::Intend(intents.clone()), now);
                assert_eq!(stranger, Err(Refusal::NotTheDriver));
                commit(&mut session, now, driver, &Command::Intend(intents)).unwrap();
            }
            Work::Perform { effects, .. } => {
                let turn = session.turn.clone().unwrap();
                let terms = session.contract.clone();
                let expect = |check: CheckIndex| terms.checks[check.0 as usize].expect;
                let receipts: Vec<Receipt> = effects
                    .iter()
                    .map(|effect| {
                        let kind = turn.outstanding[effect].kind;
                        let interrupted = turn.cancel.is_some() || turn.drain.is_some();
                        let body = match dice.roll(20) {
                            19 => ReceiptBody::Failed(failure(&mut dice, kind)),
                            18 if interrupted => ReceiptBody::Interrupted,
                            17 if interrupted => ReceiptBody::Unknown,
                            _ => ReceiptBody::Done(result(&mut dice, kind, expect)),
                        };
                        Receipt { effect: *effect, body }
                    })
                    .collect();
                commit(&mut session, now, driver, &Command::Receipts(receipts.clone())).unwrap();
                let again = decide(&session, driver, &Command::Receipts(receipts), now);
                assert!(again.is_err(), "a receipt counts once");
            }
        }
    }
    Story { session, events, canceled_before_the_end: canceled }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn replay_equals_state(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let story = run(&bytes);
        let mut again = Session::new(story.session.contract.clone());
        for (at, event) in &story.events {
            let line = serde_json::to_string(event).unwrap();
            let read: Event = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read, event);
            prop_assert!(Event::KINDS.contains(&event.kind()));
            // What goes into the journal is canonical: no floating number anywhere.
            canonical_json(event).unwrap();
            apply(&mut again, *at, &read);
        }
        prop_assert_eq!(again, story.session);
    }

    #[test]
    fn an_ended_turn_refuses_everything(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let story = run(&bytes);
        let turn = story.session.turn.clone().unwrap();
        let effect = EffectId { turn: turn.id, step: 1, slot: 0, attempt: 0 };
        let intent = Intent {
            effect, kind: EffectKind::ModelCall, request: tree(1), reserve: Reservation::default(),
        };
        let commands = [
            Command::Approve,
            Command::Intend(vec![intent]),
            Command::Receipts(vec![Receipt { effect, body: ReceiptBody::Interrupted }]),
            Command::Tick,
            Command::Cancel(StopHow::Request),
            Command::Drain(StopHow::Request),
            Command::Revoke(None),
            Command::Resume,
            Command::Recover,
        ];
        for command in commands {
            let answer = decide(&story.session, Authority::Driver, &command, Millis(9_999_999));
            prop_assert_eq!(answer, Err(Refusal::Ended), "{:?}", command);
        }
    }

    /// Finished work is read once and judged once: nobody is asked, no tool runs, nothing is sealed a second time.
    #[test]
    fn finished_work_is_judged_and_nothing_else(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let story = run(&bytes);
        let turn = story.session.turn.as_ref().unwrap();
        let judged = story.session.contract.candidate.is_some();
        let mut read = 0;
        for (_, event) in &story.events {
            match event {
                Event::EffectIntended { kind, .. } => {
                    let of_agents = matches!(
                        kind,
                        EffectKind::Open | EffectKind::ModelCall | EffectKind::Tool { .. } | EffectKind::Seal
                    );
                    prop_assert!(!(judged && of_agents), "{kind:?}");
                    prop_assert!(judged || *kind != EffectKind::Candidate);
                }
                Event::EffectCompleted { result: EffectResult::Candidate { tree, unsealable, .. }, .. } => {
                    read += 1;
                    prop_assert_eq!(turn.sealed.map(|sealed| sealed.tree), (*unsealable == 0).then_some(*tree));
                }
                Event::AttemptBegun { path, .. } => prop_assert_eq!(judged, *path == EndPath::Candidate),
                Event::AttemptReturned { .. } => prop_assert!(!judged, "nobody is there to try again"),
                _ => {}
            }
        }
        prop_assert!(read <= 1);
        let agents = [Capability::ModelCall, Capability::TreeWrite, Capability::CommandRun];
        prop_assert!(!judged || agents.iter().all(|capability| !turn.capabilities.contains(capability)));
        if judged {
            let outcome = turn.ending.unwrap().outcome;
            let possible = [
                Outcome::Verified, Outcome::Answered, Outcome::Unverified, Outcome::Tampered, Outcome::ScopeViolation,
                Outcome::SetupError, Outcome::Canceled, Outcome::Interrupted, Outcome::HostFailure,
            ];
            prop_assert!(possible.contains(&outcome), "{outcome:?}");
        }
    }

    /// A reviewer is asked what the contract says and no more, on what the checks passed, and its outage, refusal or nonsense
    /// is never a pass and never another outcome than the review's own.
    #[test]
    fn a_review_is_bounded_and_its_outage_is_its_own(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let story = run(&bytes);
        let turn = story.session.turn.as_ref().unwrap();
        let contract = &story.session.contract;
        let armed = contract.review.is_some() && !contract.checks.is_empty();
        let (mut briefs, mut solicited, mut answered, mut gone) = (0, 0, false, false);
        let (mut briefed, mut confirmed, mut before) = (false, 0, 0);
        for (_, event) in &story.events {
            match event {
                Event::EffectCompleted { result: EffectResult::ReviewBrief { .. }, .. } => {
                    prop_assert!(armed);
                    briefed = true;
                    (briefs, solicited, answered) = (briefs + 1, 0, false);
                }
                Event::EffectCompleted { result: EffectResult::ReviewCall { answer, .. }, effect } => {
                    answered |= *answer == ReviewAnswer::Findings;
                    // The second question has a slot of its own.
                    solicited += u32::from(effect.slot == 10_014);
                    prop_assert!(solicited <= 1, "asked for a reproduction twice");
                }
                Event::AttemptBegun { .. } => (briefed, confirmed) = (false, 0),
                Event::EffectCompleted { result: EffectResult::ReviewRecheck { .. }, .. } => {
                    prop_assert!(before > 0 && !briefed, "what was just confirmed is not tried again");
                }
                Event::EffectCompleted { result: EffectResult::ReviewJudge { confirmed: found, .. }, .. } => {
                    prop_assert!(briefed);
                    confirmed += found;
                    before += found;
                }
                Event::GateDecided { gate: GateKey::Review, status, .. } => {
                    prop_assert!(confirmed == 0 || *status != GateStatus::Passed, "passed over a confirmed finding");
                    prop_assert!(*status != GateStatus::Passed || answered, "passed without an answer");
                    gone = *status == GateStatus::Unverifiable;
                }
                Event::AttemptReturned { gate: GateKey::Review, .. } => {
                    let rounds = contract.review.as_ref().unwrap().rounds;
                    prop_assert!(briefs < rounds, "the last round is final");
                }
                _ => {}
            }
        }
        prop_assert!(briefs <= contract.review.as_ref().map_or(0, |terms| terms.rounds));
        let ending = turn.ending.unwrap();
        if gone && ending.rescued_from.is_none() && !story.canceled_before_the_end {
            let own = matches!(ending.reason, Reason::ChecksPassed | Reason::GateUnverifiable);
            // A cell that dies under a later effect is a cause of its own.
            let host = matches!(ending.outcome, Outcome::HostFailure | Outcome::Interrupted);
            prop_assert!(own || host || turn.path.unwrap().cut_short().is_some(), "{:?}", ending);
        }
    }

    #[test]
    fn a_success_was_earned(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let story = run(&bytes);
        let turn = story.session.turn.as_ref().unwrap();
        let contract = &story.session.contract;
        let ending = turn.ending.unwrap();
        prop_assert_eq!(ending.reason.outcome(), ending.outcome);
        if story.canceled_before_the_end {
            prop_assert_eq!(ending.outcome, Outcome::Canceled, "a cancel wins over everything");
        }
        if ending.outcome == Outcome::Verified {
            prop_assert!(!contract.checks.is_empty());
            prop_assert_eq!(turn.rooms.len(), contract.checks.len());
            prop_assert!(turn.rooms.iter().all(|room| room.status == GateStatus::Passed));
            if contract.is_fenced() {
                prop_assert_eq!(turn.gates[&GateKey::Fence].status, GateStatus::Passed);
            }
            prop_assert!(contract.scope.is_empty() || turn.gates[&GateKey::Scope].status == GateStatus::Passed);
            let strength = ending.strength.unwrap();
            prop_assert!(contract.min_strength.is_none_or(|floor| strength.level >= floor));
            prop_assert!(!(contract.out_of_process && strength.in_process));
            let by_tests = matches!(strength.level, StrengthLevel::Ids | StrengthLevel::Canary);
            prop_assert!(!(contract.unfenced && by_tests), "tests that the agent may have made say less");
            let fit = |run: &BaseRun| matches!(run.verdict, BaseVerdict::Red { .. } | BaseVerdict::Green);
            prop_assert!(turn.base_runs.iter().all(fit));
            if contract.repro_first && contract.candidate.is_none() {
                let gate = turn.gates[&GateKey::Repro].status;
                match turn.repro {
                    Some(ReproMark::Declared { .. }) => prop_assert_eq!(gate, GateStatus::Passed),
                    Some(ReproMark::Skipped) => prop_assert_eq!(gate, GateStatus::Absent),
                    None => prop_assert!(false, "a reproduction was asked for, and nothing was said of one"),
                }
            }
            if let Some(terms) = &contract.review {
                let gate = turn.gates[&GateKey::Review].status;
                let out = gate == GateStatus::Unverifiable && !terms.required;
                prop_assert!(gate == GateStatus::Passed || out, "{gate:?}");
                prop_assert_eq!(turn.review.open, 0, "a confirmed finding was left open");
                prop_assert!(gate != GateStatus::Passed || !turn.review.now.judged.is_empty(), "nobody looked");
            }
            if ending.rescued_from.is_some() {
                prop_assert!(turn.sealed.unwrap().tree != turn.base.as_ref().unwrap().tree, "never an unchanged tree");
            }
        }
        if ending.outcome == Outcome::Answered {
            prop_assert!(contract.checks.is_empty());
        }
        prop_assert!(turn.budget.tool_actions <= contract.limits.tool_actions, "also for calls side by side");
        prop_assert!(turn.step <= contract.limits.turns);
        let completed = story.events.iter().filter(|(_, e)| matches!(e, Event::EffectCompleted { .. }));
        let mut ids: Vec<_> = completed.filter_map(|(_, e)| e.effect()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), all, "one completion per effect");
    }
}

/// A session with an approved turn, and a hand to commit commands to it.
fn approved(contract: Contract) -> (Session, impl Fn(&mut Session, Authority, &Command)) {
    let commit = |session: &mut Session, authority, command: &Command| {
        for event in decide(session, authority, command, Millis(1)).unwrap() {
            apply(session, Millis(1), &event);
        }
    };
    let mut session = Session::new(contract);
    commit(&mut session, Authority::External, &Command::Open { contract: tree(1) });
    commit(&mut session, Authority::External, &Command::Queue { input: tree(2), bytes: 1 });
    commit(&mut session, Authority::External, &Command::Approve);
    (session, commit)
}

/// Intends the next effect, and says which.
fn intend_next(session: &mut Session, commit: &impl Fn(&mut Session, Authority, &Command)) -> Step {
    let Work::Intend(steps) = work(session, Millis(1)) else { panic!("{:?}", work(session, Millis(1))) };
    let Step { effect, kind } = steps[0];
    let intent = Intent { effect, kind, request: tree(1), reserve: Reservation::default() };
    commit(session, Authority::Driver, &Command::Intend(vec![intent]));
    steps[0]
}

/// What only reads or judges is begun anew by the next driver, under a new id, and the decision is made once.
#[test]
fn a_turn_whose_driver_died_goes_on() {
    let (mut session, commit) = approved(contract(&mut Dice { bytes: &[], at: 0 }));
    let nothing = decide(&session, Authority::Driver, &Command::Recover, Millis(1));
    assert_eq!(nothing, Err(Refusal::NothingDue), "nothing had begun: the turn goes on");
    let first = intend_next(&mut session, &commit);
    commit(&mut session, Authority::Driver, &Command::Recover);
    let again = decide(&session, Authority::Driver, &Command::Recover, Millis(1));
    assert_eq!(again, Err(Refusal::NothingDue), "a second recovery changes nothing");
    let second = intend_next(&mut session, &commit);
    assert_eq!((second.kind, second.effect.attempt), (first.kind, first.effect.attempt + 1));
    let late = decide(
        &session,
        Authority::Driver,
        &Command::Receipts(vec![Receipt { effect: first.effect, body: ReceiptBody::Interrupted }]),
        Millis(1),
    );
    assert_eq!(late, Err(Refusal::NotUnderWay(first.effect)), "what was given up has no result");
}

/// A setup that could reach the network may have told somebody something: it is not repeated, and nobody pretends to know.
#[test]
fn a_turn_whose_driver_died_on_the_network_ends_interrupted() {
    let mut terms = contract(&mut Dice { bytes: &[], at: 0 });
    terms.network = Network::Host;
    terms.environment.setup = Some(vec!["fetch".to_owned()]);
    let (mut session, commit) = approved(terms);
    let import = intend_next(&mut session, &commit);
    let body = ReceiptBody::Done(EffectResult::Import { tree: tree(0), commit: None, entries: 1, dirty: 0 });
    commit(
        &mut session,
        Authority::Driver,
        &Command::Receipts(vec![Receipt { effect: import.effect, body }]),
    );
    assert_eq!(intend_next(&mut session, &commit).kind, EffectKind::Setup);
    commit(&mut session, Authority::Driver, &Command::Recover);
    let Work::Done(ending) = work(&session, Millis(1)) else { panic!() };
    assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::EffectUnknown));
}

/// On the host tier a command is confined by nothing: what it did beside the tree is not known, and it is not repeated.
#[test]
fn a_command_on_the_host_is_not_repeated_after_its_driver_died() {
    let mut terms = contract(&mut Dice { bytes: &[], at: 0 });
    (terms.sandbox, terms.network) = (Tier::Host, Network::None);
    (terms.checks, terms.candidate) = (Vec::new(), None);
    terms.environment = EnvironmentTerms::default();
    let (mut session, commit) = approved(terms);
    let run = PlannedCall { tool: ToolName::Run, arguments: tree(1), blank: false };
    for _ in 0..8 {
        let step = intend_next(&mut session, &commit);
        let result = match step.kind {
            EffectKind::Import => EffectResult::Import { tree: tree(0), commit: None, entries: 1, dirty: 0 },
            EffectKind::Open => EffectResult::Open { tier: Tier::Host, observed: TierProperties::new() },
            EffectKind::ModelCall => EffectResult::ModelCall {
                usage: Usage::default(),
                cost: None,
                stop: ModelStop::Ordinary,
                calls: vec![run],
                text_bytes: 0,
                reasoning: None,
            },
            EffectKind::Tool { tool: ToolName::Run } => break,
            other => panic!("{other:?}"),
        };
        let receipt = Receipt { effect: step.effect, body: ReceiptBody::Done(result) };
        commit(&mut session, Authority::Driver, &Command::Receipts(vec![receipt]));
    }
    commit(&mut session, Authority::Driver, &Command::Recover);
    let Work::Done(ending) = work(&session, Millis(1)) else { panic!() };
    assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::EffectUnknown));
}

/// The time between a driver's last word and the next driver's first is nobody's: it does not bring the deadline nearer.
#[test]
fn time_without_a_driver_is_not_active() {
    let (mut session, commit) = approved(contract(&mut Dice { bytes: &[], at: 0 }));
    intend_next(&mut session, &commit);
    let deadline = |session: &Session| session.turn.as_ref().unwrap().deadline_at(&session.contract).unwrap();
    let before = deadline(&session);
    for event in decide(&session, Authority::Driver, &Command::Recover, Millis(5001)).unwrap() {
        apply(&mut session, Millis(5001), &event);
    }
    assert_eq!(deadline(&session), before.saturating_add(Millis(5000)));
}

/// A cell that dies under an effect is replaced twice; the third death is the machine's.
#[test]
fn an_effect_whose_cell_died_is_done_again_a_few_times() {
    let (mut session, commit) = approved(contract(&mut Dice { bytes: &[], at: 0 }));
    for attempt in 0..3 {
        let step = intend_next(&mut session, &commit);
        assert_eq!(step.effect.attempt, attempt);
        let reason = Reason::CellDied;
        let failure = EffectFailure { reason, retry_after: None, reset_at: None, billed: false };
        let receipt = Receipt { effect: step.effect, body: ReceiptBody::Failed(failure) };
        commit(&mut session, Authority::Driver, &Command::Receipts(vec![receipt]));
    }
    let Work::Done(ending) = work(&session, Millis(1)) else { panic!() };
    assert_eq!((ending.outcome, ending.reason), (Outcome::HostFailure, Reason::CellDied));
}

/// A turn that was parked and resumed goes on: there is nothing to recover, and the interrupted effect is tried again
/// under a new id.
#[test]
fn a_parked_turn_goes_on_after_resume() {
    let mut dice = Dice { bytes: &[], at: 0 };
    let mut session = Session::new(contract(&mut dice));
    let now = Millis(1);
    let commit = |session: &mut Session, authority, command: &Command| {
        for event in decide(session, authority, command, now).unwrap() {
            apply(session, now, &event);
        }
    };
    commit(&mut session, Authority::External, &Command::Open { contract: tree(1) });
    commit(&mut session, Authority::External, &Command::Queue { input: tree(2), bytes: 1 });
    commit(&mut session, Authority::External, &Command::Approve);
    let Work::Intend(steps) = work(&session, now) else { panic!() };
    let first = steps[0];
    let intent =
        Intent { effect: first.effect, kind: first.kind, request: tree(1), reserve: Reservation::default() };
    commit(&mut session, Authority::Driver, &Command::Intend(vec![intent]));
    commit(&mut session, Authority::External, &Command::Drain(StopHow::Signal));
    let receipt = Receipt { effect: first.effect, body: ReceiptBody::Interrupted };
    commit(&mut session, Authority::Driver, &Command::Receipts(vec![receipt]));
    assert_eq!(work(&session, now), Work::Park);
    commit(&mut session, Authority::External, &Command::Resume);
    let recover = decide(&session, Authority::Driver, &Command::Recover, now);
    assert_eq!(recover, Err(Refusal::NothingDue));
    let Work::Intend(steps) = work(&session, now) else { panic!() };
    assert_eq!((steps[0].kind, steps[0].effect.attempt), (first.kind, first.effect.attempt + 1));
}
