//! Events: what the journal holds. Typed fields only.

use countersign_types::{Digest, EffectId, GateKey, GateStatus, Millis, Outcome, Reason, Strength, TurnId};
use serde::{Deserialize, Serialize};

use crate::{Capability, EffectFailure, EffectKind, EffectResult, Finding, Reservation, WorkPermit};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// Payload `contract`.
    SessionOpened {
        contract: Digest,
    },
    /// Payload `input`. `bytes` is its length.
    TurnQueued {
        turn: TurnId,
        input: Digest,
        bytes: u64,
    },
    /// Issues the capabilities and starts active time.
    TurnApproved {
        turn: TurnId,
        capabilities: Vec<Capability>,
    },
    /// Payload `request` where the request has bytes of its own.
    EffectIntended {
        effect: EffectId,
        #[serde(flatten)]
        kind: EffectKind,
        permit: WorkPermit,
        reserve: Reservation,
    },
    EffectDispatched {
        effect: EffectId,
    },
    /// Payloads by kind: `reply`, `text`, `detail`, `stdout`, `stderr`, …
    EffectCompleted {
        effect: EffectId,
        #[serde(flatten)]
        result: EffectResult,
    },
    /// Payload `message`.
    EffectFailed {
        effect: EffectId,
        failure: EffectFailure,
    },
    /// It was interrupted or lost and is of a class that may be done again.
    EffectAbandoned {
        effect: EffectId,
    },
    /// A model call that was interrupted or lost. Its reservation counts for ever.
    EffectForfeited {
        effect: EffectId,
    },
    /// Nobody can say whether it happened.
    EffectUnknown {
        effect: EffectId,
    },
    /// The session holds no such capability. Nothing was sent; the model is told.
    EffectDenied {
        effect: EffectId,
        #[serde(flatten)]
        kind: EffectKind,
        capability: Capability,
    },
    RetryScheduled {
        effect: EffectId,
        not_before: Millis,
    },
    /// The turn tries to end; the gate plan begins.
    AttemptBegun {
        attempt: u32,
        path: EndPath,
    },
    GateDecided {
        attempt: u32,
        gate: GateKey,
        status: GateStatus,
        reason: Option<Reason>,
        strength: Option<Strength>,
        /// The effect whose payload `detail` says more.
        by: Option<EffectId>,
    },
    /// The attempt failed and goes back to the agent as work.
    AttemptReturned {
        attempt: u32,
        gate: GateKey,
    },
    /// A detector struck: the agent is told that it goes round in circles. Payload `nudge`.
    Nudged {
        finding: Finding,
    },
    CancelRequested {
        how: StopHow,
    },
    /// The process is to stop, or the turn to rest; it is not over.
    DrainRequested {
        #[serde(default, skip_serializing_if = "StopHow::is_signal")]
        how: StopHow,
    },
    /// They are gone for the rest of the turn: checked at intent and at dispatch, and what is under way by one of them is
    /// interrupted.
    CapabilitiesRevoked {
        capabilities: Vec<Capability>,
    },
    Resumed,
    /// A driver died, or a cell did, and what was under way is decided.
    Recovered {
        decision: RecoverDecision,
    },
    TurnEnded {
        turn: TurnId,
        outcome: Outcome,
        reason: Reason,
        strength: Option<Strength>,
        rescued_from: Option<Reason>,
        reset_at: Option<Millis>,
    },
    SessionClosed,
}

/// Which way a turn came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "path")]
pub enum EndPath {
    /// Text without calls.
    Claim { empty: bool },
    /// The `finish` tool.
    Finish { empty: bool },
    /// Nobody worked here: the work came finished, and its first judgement is its last.
    Candidate,
    /// A cap or the deadline.
    Cap { reason: Reason },
    /// A detector, after the agent was told.
    Stuck { finding: Finding },
}

impl EndPath {
    /// Why the agent was stopped, where it did not stop by itself. Such a turn may be rescued, never tried again.
    #[must_use]
    pub const fn cut_short(self) -> Option<Reason> {
        match self {
            Self::Claim { .. } | Self::Finish { .. } | Self::Candidate => None,
            Self::Cap { reason } => Some(reason),
            Self::Stuck { finding } => Some(finding.reason),
        }
    }
}

/// Who asked a turn to stop: the terminal or service manager of its driver, or a person by a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopHow {
    #[default]
    Signal,
    Request,
}

impl StopHow {
    // The signature that serde wants.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_signal(&self) -> bool {
        matches!(self, Self::Signal)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoverDecision {
    /// The last driver died in the middle of something of which nobody can say whether it happened.
    Interrupt,
    /// Everything that was under way is done again or forfeited; the turn goes on from its last checkpoint.
    Continue,
}

impl Event {
    /// The stable name of the kind in the journal.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::SessionOpened { .. } => "session_opened",
            Self::TurnQueued { .. } => "turn_queued",
            Self::TurnApproved { .. } => "turn_approved",
            Self::EffectIntended { .. } => "effect_intended",
            Self::EffectDispatched { .. } => "effect_dispatched",
            Self::EffectCompleted { .. } => "effect_completed",
            Self::EffectFailed { .. } => "effect_failed",
            Self::EffectAbandoned { .. } => "effect_abandoned",
            Self::EffectForfeited { .. } => "effect_forfeited",
            Self::EffectUnknown { .. } => "effect_unknown",
            Self::EffectDenied { .. } => "effect_denied",
            Self::RetryScheduled { .. } => "retry_scheduled",
            Self::AttemptBegun { .. } => "attempt_begun",
            Self::GateDecided { .. } => "gate_decided",
            Self::AttemptReturned { .. } => "attempt_returned",
            Self::Nudged { .. } => "nudged",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::DrainRequested { .. } => "drain_requested",
            Self::CapabilitiesRevoked { .. } => "capabilities_revoked",
            Self::Resumed => "resumed",
            Self::Recovered { .. } => "recovered",
            Self::TurnEnded { .. } => "turn_ended",
            Self::SessionClosed => "session_closed",
        }
    }

    /// Every kind that this version knows. A session with another kind is read-only.
    pub const KINDS: &[&str] = &[
        "session_opened",
        "turn_queued",
        "turn_approved",
        "effect_intended",
        "effect_dispatched",
        "effect_completed",
        "effect_failed",
        "effect_abandoned",
        "effect_forfeited",
        "effect_unknown",
        "effect_denied",
        "retry_scheduled",
        "attempt_begun",
        "gate_decided",
        "attempt_returned",
        "nudged",
        "cancel_requested",
        "drain_requested",
        "capabilities_revoked",
        "resumed",
        "recovered",
        "turn_ended",
        "session_closed",
    ];

    /// The effect that the event is about, if it is about one.
    #[must_use]
    pub const fn effect(&self) -> Option<EffectId> {
        match self {
            Self::EffectIntended { effect, .. }
            | Self::EffectDispatched { effect }
            | Self::EffectCompleted { effect, .. }
            | Self::EffectFailed { effect, .. }
            | Self::EffectAbandoned { effect }
            | Self::EffectForfeited { effect }
            | Self::EffectUnknown { effect }
            | Self::EffectDenied { effect, .. }
            | Self::RetryScheduled { effect, .. } => Some(*effect),
            _ => None,
        }
    }
}
