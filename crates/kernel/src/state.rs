//! What is known of a session: references and counters, never transcript text.

use std::collections::{BTreeMap, BTreeSet};

use countersign_types::{
    CheckIndex, Digest, EffectId, GateKey, GateStatus, Millis, Outcome, Reason, Strength, Tier,
    TierProperties, TurnId,
};

use crate::budget::{Budget, Reservation};
use crate::contract::{Contract, Expect, Network};
use crate::effect::{
    BaseVerdict, EffectFailure, EffectKind, EffectState, JobSummary, PlannedCall, ToolName, WorkPermit,
};
use crate::event::{EndPath, StopHow};
use crate::review::ReviewState;
use crate::{Capability, Gate, ReproMark, Watch};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub contract: Contract,
    /// Events applied so far.
    pub seq: u64,
    pub opened: bool,
    pub closed: bool,
    pub turn: Option<Turn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    Ready,
    Open,
    Paused,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStatus {
    /// Nobody approved it.
    Queued,
    /// Nobody has driven it yet.
    Approved,
    Preparing,
    Running,
    WaitingRetry,
    Checking,
    Parked,
    Ended,
}

impl TurnStatus {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "ready",
            Self::Approved => "approved",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::WaitingRetry => "waiting_retry",
            Self::Checking => "checking",
            Self::Parked => "parked",
            Self::Ended => "ended",
        }
    }
}

/// Where in the turn's story the next work lies; for people and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Prepare,
    Work,
    Judge,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub id: TurnId,
    pub input: Digest,
    pub approved_at: Option<Millis>,
    /// Time that does not count as active: while parked.
    pub idle: Millis,
    pub parked_at: Option<Millis>,
    /// When the last event of this turn was recorded.
    pub last_at: Millis,
    pub capabilities: BTreeSet<Capability>,

    pub base: Option<Base>,
    pub environment: Option<Digest>,
    pub setup: Option<JobSummary>,
    pub probe: Option<JobSummary>,
    pub base_runs: Vec<BaseRun>,
    /// The working cell, while there is one.
    pub cell: Option<OpenCell>,
    /// The last working cell that was seen, for the record.
    pub last_cell: Option<OpenCell>,
    /// The latest checkpoint.
    pub head: Option<Digest>,

    /// The current step; 0 before the first model call.
    pub step: u32,
    /// The model call of the current step has answered.
    pub model_done: bool,
    /// The reply of this step has not been acted on to its end.
    pub reply_open: bool,
    pub declined: bool,
    pub cut_off: bool,
    pub paused: bool,
    pub text_bytes: u64,
    pub calls: Vec<PlannedCall>,
    /// Calls of this step that are decided (completed or denied).
    pub calls_done: BTreeSet<u32>,

    /// Attempts begun so far.
    pub attempt: u32,
    pub path: Option<EndPath>,
    pub sealed: Option<Sealed>,
    pub unsealable: Option<EffectId>,
    pub unsealable_offered: bool,
    pub inspected: Option<Inspected>,
    pub rooms: Vec<RoomRun>,
    /// The checks were tried on mutants, or could not be.
    pub mutants_done: bool,
    pub patch: PatchState,
    pub gates: BTreeMap<GateKey, Gate>,
    /// What the agent settled about a failing test of its own. Once declared it stays.
    pub repro: Option<ReproMark>,
    pub repro_run: Option<ReproRun>,
    pub review: ReviewState,

    pub outstanding: BTreeMap<EffectId, Outstanding>,
    /// How often each (step, slot) was intended.
    pub tries: BTreeMap<(u32, u32), u32>,
    /// Model retries used in the current step.
    pub retries: u32,
    pub not_before: Option<Millis>,
    pub failure: Option<(EffectId, EffectKind, EffectFailure)>,
    pub cancel: Option<StopHow>,
    /// It rests until somebody resumes it.
    pub drain: Option<StopHow>,
    /// Granted at approval and taken away since.
    pub revoked: BTreeSet<Capability>,
    /// Queued, resumed or recovered, and no driver has acted since: there is nothing to recover.
    pub fresh: bool,
    pub lost: bool,
    pub budget: Budget,
    /// What the detectors remember of the steps.
    pub watch: Watch,
    pub ending: Option<Ending>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    pub tree: Digest,
    pub commit: Option<String>,
    pub entries: u64,
    pub dirty: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseRun {
    pub verdict: BaseVerdict,
    pub job: JobSummary,
    pub cached: bool,
    pub drift: Option<Digest>,
    pub by: EffectId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCell {
    pub tier: Tier,
    pub observed: TierProperties,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub tree: Digest,
    pub by: EffectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspected {
    pub fence: GateStatus,
    pub fence_reason: Option<Reason>,
    pub scope: GateStatus,
    /// Changes that only an allowance of the contract let through the fence.
    pub allowed: u64,
    pub changed: u64,
    pub by: EffectId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRun {
    pub status: GateStatus,
    pub reason: Option<Reason>,
    pub strength: Option<Strength>,
    pub job: JobSummary,
    pub observed: TierProperties,
    pub by: EffectId,
}

/// What the agent's own reproduction showed on the sealed tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReproRun {
    pub status: GateStatus,
    pub reason: Option<Reason>,
    pub by: EffectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchState {
    /// Not made yet.
    Due,
    Made {
        digest: Digest,
        bytes: u64,
        by: EffectId,
    },
    /// It could not be made. The outcome stays; the result says `degraded`.
    Failed {
        by: EffectId,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    pub kind: EffectKind,
    pub permit: WorkPermit,
    pub reserve: Reservation,
    pub state: EffectState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub outcome: Outcome,
    pub reason: Reason,
    pub strength: Option<Strength>,
    pub rescued_from: Option<Reason>,
    pub reset_at: Option<Millis>,
}

impl Session {
    /// A session that nothing has happened to. The contract is the payload of its first event.
    #[must_use]
    pub const fn new(contract: Contract) -> Self {
        Self { contract, seq: 0, opened: false, closed: false, turn: None }
    }

    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match &self.turn {
            _ if self.closed => SessionStatus::Closed,
            None => SessionStatus::Ready,
            Some(turn) if turn.drain.is_some() && turn.ending.is_none() => SessionStatus::Paused,
            Some(_) => SessionStatus::Open,
        }
    }
}

impl Turn {
    #[must_use]
    pub fn new(id: TurnId, input: Digest) -> Self {
        Self {
            id,
            input,
            approved_at: None,
            idle: Millis(0),
            parked_at: None,
            last_at: Millis(0),
            capabilities: BTreeSet::new(),
            base: None,
            environment: None,
            setup: None,
            probe: None,
            base_runs: Vec::new(),
            cell: None,
            last_cell: None,
            head: None,
            step: 0,
            model_done: true,
            reply_open: false,
            declined: false,
            cut_off: false,
            paused: false,
            text_bytes: 0,
            calls: Vec::new(),
            calls_done: BTreeSet::new(),
            attempt: 0,
            path: None,
            sealed: None,
            unsealable: None,
            unsealable_offered: false,
            inspected: None,
            rooms: Vec::new(),
            mutants_done: false,
            patch: PatchState::Due,
            gates: BTreeMap::new(),
            repro: None,
            repro_run: None,
            review: ReviewState::default(),
            outstanding: BTreeMap::new(),
            tries: BTreeMap::new(),
            retries: 0,
            not_before: None,
            failure: None,
            cancel: None,
            drain: None,
            revoked: BTreeSet::new(),
            fresh: true,
            lost: false,
            budget: Budget::default(),
            watch: Watch::default(),
            ending: None,
        }
    }

    #[must_use]
    pub fn status(&self) -> TurnStatus {
        match self.phase() {
            Phase::Over => TurnStatus::Ended,
            _ if self.approved_at.is_none() => TurnStatus::Queued,
            _ if self.drain.is_some() && self.outstanding.is_empty() => TurnStatus::Parked,
            Phase::Prepare if self.tries.is_empty() => TurnStatus::Approved,
            Phase::Prepare => TurnStatus::Preparing,
            Phase::Judge => TurnStatus::Checking,
            Phase::Work if self.not_before.is_some() => TurnStatus::WaitingRetry,
            Phase::Work => TurnStatus::Running,
        }
    }

    #[must_use]
    pub const fn phase(&self) -> Phase {
        if self.ending.is_some() {
            Phase::Over
        } else if self.path.is_some() {
            Phase::Judge
        } else if self.step == 0 && self.last_cell.is_none() {
            Phase::Prepare
        } else {
            Phase::Work
        }
    }

    /// What is under way has to end now: it was canceled, or what it is done by was taken away. A pause lets it end by itself.
    #[must_use]
    pub fn must_stop(&self, contract: &Contract) -> bool {
        self.cancel.is_some()
            || self.outstanding.values().any(|o| self.lacks(o.kind, contract.network).is_some())
    }

    /// The first capability that an effect of this kind needs and the turn does not hold.
    pub(crate) fn lacks(&self, kind: EffectKind, network: Network) -> Option<Capability> {
        let reaches = network == Network::Host
            && matches!(kind, EffectKind::Setup | EffectKind::Tool { tool: ToolName::Run });
        let needed = [Some(kind.capability()), reaches.then_some(Capability::NetworkUse)];
        needed.into_iter().flatten().find(|needed| !self.capabilities.contains(needed))
    }

    /// When the deadline strikes, if the turn stays active until then.
    #[must_use]
    pub fn deadline_at(&self, contract: &Contract) -> Option<Millis> {
        self.approved_at.map(|at| at.saturating_add(contract.limits.deadline).saturating_add(self.idle))
    }

    /// Checks of the contract whose base run is still due.
    pub(crate) fn next_base(&self, contract: &Contract) -> Option<CheckIndex> {
        let next = self.base_runs.len();
        (next < contract.checks.len()).then(|| CheckIndex(u32::try_from(next).unwrap_or(u32::MAX)))
    }

    pub(crate) fn next_room(&self, contract: &Contract) -> Option<CheckIndex> {
        let next = self.rooms.len();
        (next < contract.checks.len()).then(|| CheckIndex(u32::try_from(next).unwrap_or(u32::MAX)))
    }

    /// The status of a gate as the result shows it: decided, not reached although armed, or absent.
    #[must_use]
    pub fn gate(&self, key: GateKey, contract: &Contract) -> Gate {
        self.gates.get(&key).copied().unwrap_or_else(|| Gate {
            status: if crate::gates::armed(key, contract) {
                GateStatus::NotReached
            } else {
                GateStatus::Absent
            },
            reason: None,
            strength: None,
            by: None,
        })
    }
}

impl Expect {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fix => "fix",
            Self::New => "new",
            Self::Guard => "guard",
        }
    }
}
