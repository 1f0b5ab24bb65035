//! What a turn's rooms wrote, and when it ended: for bundles.

use std::collections::BTreeSet;

use countersign_gates::{CheckEvidence, RoomEvidence};
use countersign_kernel::{EffectResult, Event};
use countersign_store::{Loaded, Store, StoreError};
use countersign_types::{Blind, Digest, EffectId, GateStatus, Millis, SessionId};

use crate::checks::BaseSeen;
use crate::error::EngineError;
use crate::journal::{blind, read_event, replay};
use crate::repro::ReproRoom;
use crate::test_names::TestNames;

/// One room of a turn.
#[derive(Clone, Debug)]
pub struct RoomRecord {
    /// The check of the contract, from 0.
    pub check: u32,
    /// Which try to end it belongs to, from 1; None for the base before the agent started.
    pub attempt: Option<u32>,
    pub room: RoomEvidence,
    /// Of the check that this room was used for; None for the base.
    pub evidence: Option<CheckEvidence>,
    /// What the run that decided wrote, of that room only. Redacted and cut.
    pub stdout: Option<Vec<u8>>,
    pub stderr: Option<Vec<u8>>,
    /// Its tests by name, of the run that decided.
    pub tests: Option<TestNames>,
    /// The reproduction that the agent declared, with its command and what the gate said of it.
    pub repro: Option<(Vec<String>, GateStatus)>,
}

/// Everything that a bundle needs besides the view of a session.
#[derive(Clone, Debug)]
pub struct Records {
    /// When the turn ended; None: it has not.
    pub ended_at: Option<Millis>,
    /// The journal's lines from the first to the one that ended the turn, without newlines.
    pub lines: Vec<String>,
    /// What the digests of texts in `lines` are hidden with; None: they are plain, or there are none.
    pub blind: Option<Blind>,
    /// The digest of the task as `lines` name it.
    pub task: Option<Digest>,
    pub rooms: Vec<RoomRecord>,
    /// The patch from base to sealed tree, where one was made.
    pub patch: Option<Vec<u8>>,
}

/// Reads a session's records.
pub async fn records(store: &dyn Store, id: &SessionId) -> Result<Records, EngineError> {
    let loaded = store.load(id).await?;
    let mut records = Records {
        ended_at: None,
        lines: Vec::new(),
        blind: blind(store, id, loaded.events.first()).await?,
        task: None,
        rooms: Vec::new(),
        patch: None,
    };
    for event in &loaded.events {
        records.lines.push(event.line.clone());
        match read_event(event)? {
            Event::TurnQueued { input, .. } => records.task = Some(input),
            Event::EffectCompleted { result: EffectResult::Patch { .. }, .. } => {
                records.patch = match store.payload(id, event.seq, "patch").await {
                    Ok(patch) => Some(patch),
                    Err(StoreError::PayloadDropped { .. }) => None,
                    Err(error) => return Err(error.into()),
                };
            }
            Event::TurnEnded { .. } => {
                records.ended_at = Some(event.at);
                break;
            }
            _ => {}
        }
    }
    // A run that was refused before it had a contract has no rooms and nothing to replay.
    let refused = loaded.events.first().map(read_event).transpose()?;
    if !matches!(refused, Some(Event::TurnEnded { .. })) {
        records.rooms = rooms(store, id, &loaded).await?;
    }
    Ok(records)
}

async fn rooms(store: &dyn Store, id: &SessionId, loaded: &Loaded) -> Result<Vec<RoomRecord>, EngineError> {
    let (_, _, events) = replay(store, id, &loaded.events).await?;
    let mut rooms = Vec::new();
    let (mut attempt, mut base_checks) = (0, 0_u32);
    let mut seen: BTreeSet<EffectId> = BTreeSet::new();
    let mut bases: BTreeSet<Digest> = BTreeSet::new();
    for (seq, event) in &events {
        match event {
            Event::AttemptBegun { attempt: begun, .. } => attempt = *begun,
            Event::EffectCompleted { result: EffectResult::BaseRun { .. }, .. } => {
                let bytes = store.payload(id, *seq, "seen").await?;
                let base: BaseSeen =
                    serde_json::from_slice(&bytes).map_err(|error| EngineError::Bug(error.to_string()))?;
                for room in base.rooms() {
                    bases.insert(room.tree);
                    rooms.push(RoomRecord {
                        check: base_checks,
                        attempt: None,
                        room: room.clone(),
                        evidence: None,
                        stdout: None,
                        stderr: None,
                        tests: None,
                        repro: None,
                    });
                }
                base_checks += 1;
            }
            Event::EffectCompleted { effect, result: EffectResult::Room { .. } } if seen.insert(*effect) => {
                let bytes = store.payload(id, *seq, "evidence").await?;
                let evidence: CheckEvidence =
                    serde_json::from_slice(&bytes).map_err(|error| EngineError::Bug(error.to_string()))?;
                // The base's own rooms stand there already.
                let after = evidence
                    .rooms
                    .iter()
                    .filter(|room| room.is_of_attempt() && !bases.contains(&room.tree))
                    .cloned();
                let mut streams = Some((
                    store.payload(id, *seq, "stdout").await.ok(),
                    store.payload(id, *seq, "stderr").await.ok(),
                    store
                        .payload(id, *seq, "tests")
                        .await
                        .ok()
                        .and_then(|tests| serde_json::from_slice::<TestNames>(&tests).ok()),
                ));
                for room in after {
                    let (stdout, stderr, tests) = streams.take().unwrap_or_default();
                    rooms.push(RoomRecord {
                        check: evidence.check,
                        attempt: Some(attempt),
                        room,
                        evidence: Some(evidence.clone()),
                        stdout,
                        stderr,
                        tests,
                        repro: None,
                    });
                }
            }
            Event::EffectCompleted { effect, result: EffectResult::Repro { status, .. } }
                if seen.insert(*effect) =>
            {
                // Without a room nothing was run: nothing was declared, or it was changed.
                let Ok(bytes) = store.payload(id, *seq, "room").await else { continue };
                let ran: ReproRoom =
                    serde_json::from_slice(&bytes).map_err(|error| EngineError::Bug(error.to_string()))?;
                rooms.push(RoomRecord {
                    check: 0,
                    attempt: Some(attempt),
                    room: ran.room,
                    evidence: None,
                    stdout: store.payload(id, *seq, "stdout").await.ok(),
                    stderr: store.payload(id, *seq, "stderr").await.ok(),
                    tests: None,
                    repro: Some((ran.argv, *status)),
                });
            }
            _ => {}
        }
    }
    Ok(rooms)
}
