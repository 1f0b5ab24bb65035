//! The bundle of an ended turn. Failing to write one never changes an outcome and is always said.

use std::collections::BTreeMap;

use countersign_engine::{Records, RoomRecord, TranscriptEntry, View};
use countersign_gates::RoomRole;
use countersign_proof::bundle::{
    BundleInput, RanFacts, Room, Signing, Source, TreeInput, TurnFacts, UnsignedReason, WriteError, Written,
    write,
};
use countersign_proof::statement::{GateFacts, ModelUsed, RoleUsage, RoomFacts, RoomPurpose, TestOutcome};
use countersign_tree::Manifest;
use countersign_types::{Digest, JobEnd, Tier};
use serde_json::{Value, json};

use super::keys;
use crate::home::Home;
use crate::result::RunResult;

/// Writes the bundle of a turn that has ended, and says where. A turn that goes on gets none.
pub(crate) async fn attach(home: &Home, result: &mut RunResult) {
    let Some(id) = result.session.clone() else { return };
    match made(home, result).await {
        Ok(Some(written)) => result.bundle = Some(written.path.to_string_lossy().into_owned()),
        Ok(None) => {}
        Err(why) => result.degraded.push(format!("no bundle was written for {id}: {why}")),
    }
}

async fn made(home: &Home, result: &mut RunResult) -> Result<Option<Written>, String> {
    let Some(id) = &result.session.clone() else { return Ok(None) };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let records = countersign_engine::records(home.store.as_ref(), id).await.map_err(|e| text(&e))?;
    let Some(ended_at) = records.ended_at else { return Ok(None) };
    let parent = home.session(id);
    let name = format!("{id}.bundle");
    if crate::files::exists(&parent.join(&name)) {
        // It ended before; what stands is its evidence.
        return Ok(None);
    }
    std::fs::create_dir_all(&parent).map_err(|e| text(&e))?;
    let view = countersign_engine::view(home.store.as_ref(), id).await.map_err(|e| text(&e))?;
    let transcript = countersign_engine::transcript(home.store.as_ref(), id).await.map_err(|e| text(&e))?;
    let tree = trees(home, &view, records.patch.as_deref())?;
    let signer = keys::signer(home).map_err(|e| text(&e));
    let isolated = view.tier != Some(Tier::Host);
    match &signer {
        Ok((_, Some(note))) if isolated => result.degraded.push(note.clone()),
        Err(why) if isolated => result.degraded.push(format!("the bundle of {id} is not signed: {why}")),
        _ => {}
    }
    let signing = match (&signer, view.tier) {
        (_, Some(Tier::Host)) => Signing::Unsigned {
            reason: UnsignedReason::HostTier,
            detail: "the host tier does not isolate: what ran there could have changed what would be signed",
        },
        (Ok((signer, _)), _) => Signing::Keys { runner: signer.as_ref(), verifier: signer.as_ref() },
        (Err(why), _) => Signing::Unsigned { reason: UnsignedReason::SignerFailed, detail: why },
    };
    let lines: Vec<u8> = records.lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
    // With it the transcript can be held against the journal; who has the journal alone can guess nothing by it.
    let blind = records.blind.as_ref().map(|blind| TranscriptEntry {
        seq: 1,
        at: view.created_at,
        role: "blind",
        effect: None,
        text: blind.hex(),
    });
    let mut spoken = Vec::new();
    for entry in blind.into_iter().chain(transcript).map(crate::show::Entry::from) {
        serde_json::to_writer(&mut spoken, &entry).map_err(|e| text(&e))?;
        spoken.push(b'\n');
    }
    let settings = countersign_engine::settings(home.store.as_ref(), id).await.map_err(|e| text(&e))?;
    let contract = view.session.as_ref().map(|session| &session.contract);
    let config = json!({ "settings": settings, "contract": contract }).to_string();
    let shown = serde_json::to_vec(result).map_err(|e| text(&e))?;
    let input = BundleInput {
        turn: turn_facts(&view, result, ended_at, records.task),
        ran: ran_facts(&view),
        rooms: rooms(&view, &records),
        result: &shown,
        config: config.as_bytes(),
        journal: &lines,
        transcript: (!spoken.is_empty()).then_some(&spoken as &dyn Source),
        tree: tree.as_ref().map(|(base, last, patch)| TreeInput {
            base,
            last,
            patch: patch as &dyn Source,
            pre_images: home.objects.as_ref(),
        }),
        signing,
    };
    let refused = match write(&parent, &name, &input) {
        Err(WriteError::Sign(why)) => why.to_string(),
        written => return written.map(Some).map_err(|e| text(&e)),
    };
    // A signer that does not sign takes no evidence away: it is written unsigned, and says why.
    result.degraded.push(format!("the bundle of {id} is not signed: {refused}"));
    let shown = serde_json::to_vec(result).map_err(|e| text(&e))?;
    let signing = Signing::Unsigned { reason: UnsignedReason::SignerFailed, detail: &refused };
    write(&parent, &name, &BundleInput { result: &shown, signing, ..input }).map(Some).map_err(|e| text(&e))
}

/// Base, sealed tree and patch; None where nothing was sealed or the patch could not be made.
fn trees(
    home: &Home,
    view: &View,
    patch: Option<&[u8]>,
) -> Result<Option<(Manifest, Manifest, Vec<u8>)>, String> {
    let turn = view.session.as_ref().and_then(|session| session.turn.as_ref());
    let Some((base, sealed)) = turn.and_then(|turn| Some((turn.base.as_ref()?.tree, turn.sealed?.tree)))
    else {
        return Ok(None);
    };
    let read = |digest: &Digest| home.objects.manifest(digest).map_err(|error| error.to_string());
    let patch = match patch {
        Some(patch) => patch.to_owned(),
        None if base == sealed => Vec::new(),
        None => return Ok(None),
    };
    Ok(Some((read(&base)?, read(&sealed)?, patch)))
}

fn turn_facts(
    view: &View,
    result: &RunResult,
    ended_at: countersign_types::Millis,
    queued: Option<Digest>,
) -> TurnFacts {
    use countersign_types::{Outcome, Reason};
    let contract = view.session.as_ref().map(|session| &session.contract);
    let (outcome, reason) = view.outcome.unwrap_or((Outcome::HostFailure, Reason::Store));
    let turn = view.session.as_ref().and_then(|session| session.turn.as_ref());
    let spent = turn.and_then(|turn| turn.budget.cost.total());
    let usage = contract.and_then(|contract| contract.model.as_ref()).map(|_| RoleUsage {
        role: "agent".to_owned(),
        calls: view.model_calls,
        input: view.usage.input,
        output: view.usage.output,
        // The view's sum holds the reviewer's share.
        micro_usd: spent.map(countersign_types::Money::micro_usd),
    });
    let reviewer = view.review.as_ref().map(|review| RoleUsage {
        role: "reviewer".to_owned(),
        calls: review.model_calls,
        input: review.usage.input,
        output: review.usage.output,
        micro_usd: review.cost.map(countersign_types::Money::micro_usd),
    });
    TurnFacts {
        session: view.id.clone(),
        turn: view.turn.0,
        created_at: view.created_at,
        ended_at,
        outcome,
        reason,
        rescued_from: view.rescued_from,
        strength: view.strength,
        // What was shown; of a run that was refused before it had a contract, the journal knows no gate.
        gates: result
            .gates
            .iter()
            .map(|(key, gate)| (*key, GateFacts { status: gate.status, reason: gate.reason }))
            .collect(),
        contract: result.contract,
        task: result.task_digest,
        queued: queued.filter(|_| result.task_digest.is_some()),
        base_commit: view.base_commit.clone(),
        trust: contract.map(|contract| contract.trust),
        network: contract.map(|contract| {
            match contract.network {
                countersign_kernel::contract::Network::None => "none",
                countersign_kernel::contract::Network::Host => "host",
            }
            .to_owned()
        }),
        tier: view.tier,
        observed: view.observed.iter().copied().collect(),
        usage: usage.into_iter().chain(reviewer).collect(),
        // Their words may be the run's.
        degraded: match view.degraded.len() {
            0 => Vec::new(),
            notes => vec![format!("{notes} told in result.json")],
        },
    }
}

fn ran_facts(view: &View) -> RanFacts {
    let contract = view.session.as_ref().map(|session| &session.contract);
    let agent = contract.and_then(|contract| contract.model.as_ref()).map(|model| ("agent", model));
    let reviewer =
        contract.and_then(|contract| contract.review.as_ref()).map(|terms| ("reviewer", &terms.model));
    let mut facts: BTreeMap<String, Value> = BTreeMap::new();
    if let Some(profile) = contract.and_then(|contract| contract.profile.as_ref()) {
        facts.insert("profile".to_owned(), json!({ "name": profile.name, "digest": profile.digest }));
    }
    RanFacts {
        versions: [("countersign".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into(),
        models: agent
            .into_iter()
            .chain(reviewer)
            .map(|(role, model)| ModelUsed {
                role: role.to_owned(),
                reference: model.reference.clone(),
                endpoint: model.endpoint.clone(),
            })
            .collect(),
        materials: Vec::new(),
        facts,
    }
}

fn rooms<'a>(view: &View, records: &'a Records) -> Vec<Room<'a>> {
    let last = records.rooms.iter().filter_map(|record| record.attempt).max();
    let turn = view.session.as_ref().and_then(|session| session.turn.as_ref());
    let sealed = turn.and_then(|turn| turn.sealed).map(|sealed| sealed.tree);
    named(&records.rooms)
        .into_iter()
        .map(|(name, record)| {
            let judged = matches!(record.room.role, RoomRole::Final | RoomRole::HeldOut);
            let decides =
                judged && record.attempt == last && last.is_some() && Some(record.room.tree) == sealed;
            let check = usize::try_from(record.check).ok();
            let terms = view.session.as_ref().and_then(|session| session.contract.checks.get(check?));
            let argv = match (record.room.role, terms) {
                (_, None) => Vec::new(),
                _ if record.repro.is_some() => {
                    record.repro.as_ref().map(|(argv, _)| argv.clone()).unwrap_or_default()
                }
                (RoomRole::HeldOut, Some(terms)) => {
                    terms.held_out.as_ref().map(|held_out| held_out.argv.clone()).unwrap_or_default()
                }
                (_, Some(terms)) => terms.argv.clone(),
            };
            let cause = record.evidence.as_ref().filter(|_| decides).and_then(|evidence| evidence.cause);
            Room {
                result: outcome(record, decides),
                tree: record.room.tree,
                passed: record.tests.as_ref().map(|tests| tests.passed.clone()).unwrap_or_default(),
                warned: record.tests.as_ref().map(|tests| tests.skipped.clone()).unwrap_or_default(),
                failed: record.tests.as_ref().map(|tests| tests.failed.clone()).unwrap_or_default(),
                stdout: record.stdout.as_ref().map(|bytes| bytes as &dyn Source),
                stderr: record.stderr.as_ref().map(|bytes| bytes as &dyn Source),
                report: None,
                facts: RoomFacts {
                    name,
                    purpose: purpose(record),
                    check: record.check,
                    attempt: record.attempt,
                    decides,
                    ended: countersign_gates::how_it_ended(&record.room.end),
                    cause: cause
                        .and_then(|cause| serde_json::to_value(cause).ok())
                        .and_then(|cause| cause.as_str().map(str::to_owned)),
                    argv,
                    observed: view.observed.iter().copied().collect(),
                    overlay: record.room.overlay,
                    environment: turn.and_then(|turn| turn.environment),
                },
            }
        })
        .collect()
}

/// Each room with its name: `base-check0`, `try1-check0-final`, with a number behind the second of one name.
pub(crate) fn named(rooms: &[RoomRecord]) -> Vec<(String, &RoomRecord)> {
    let mut names = BTreeMap::new();
    rooms.iter().map(|record| (name(record, &mut names), record)).collect()
}

fn name(record: &RoomRecord, names: &mut BTreeMap<String, u32>) -> String {
    let role = match record.room.role {
        _ if record.repro.is_some() => "repro",
        RoomRole::Base => "base",
        RoomRole::Final => "final",
        RoomRole::Control => "control",
        RoomRole::HeldOut => "held-out",
    };
    let attempt = record.attempt.map_or_else(String::new, |attempt| format!("try{attempt}-"));
    let name = format!("{attempt}check{}-{role}", record.check);
    let count = names.entry(name.clone()).or_default();
    *count += 1;
    if *count == 1 { name } else { format!("{name}-{count}") }
}

const fn purpose(record: &RoomRecord) -> RoomPurpose {
    if record.attempt.is_none() {
        return RoomPurpose::Base;
    }
    if record.repro.is_some() {
        return RoomPurpose::Repro;
    }
    match record.room.role {
        RoomRole::Base => RoomPurpose::Base,
        RoomRole::Final => RoomPurpose::Final,
        RoomRole::Control => RoomPurpose::Control,
        RoomRole::HeldOut => RoomPurpose::HeldOut,
    }
}

/// What decides passed if and only if its check did; of the others an exit code is all that is said.
fn outcome(record: &RoomRecord, decides: bool) -> TestOutcome {
    if let Some((_, status)) = &record.repro {
        let passed = *status == countersign_types::GateStatus::Passed;
        return if passed { TestOutcome::Passed } else { TestOutcome::Failed };
    }
    let green = match (&record.evidence, decides) {
        (Some(evidence), true) => evidence.cause.is_none(),
        _ => record.room.end == (JobEnd::Exited { code: 0 }),
    };
    if green { TestOutcome::Passed } else { TestOutcome::Failed }
}
