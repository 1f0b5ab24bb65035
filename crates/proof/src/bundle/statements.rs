//! From facts to statements. Pure.

use std::collections::BTreeMap;

use countersign_types::{Digest, GateKey, GateStatus};

use super::{BundleInput, Room, TurnFacts};
use crate::layout::{BASE_MANIFEST, CONFIG, FINAL_MANIFEST, JOURNAL, PATCH, is_without_texts};
use crate::statement::{
    BUILD_TYPE, BUILDER, BuildDefinition, Builder, ExternalParameters, GateFacts, InternalParameters,
    JournalHead, Metadata, Provenance, Resource, RunDetails, Statement, TestResult, Turn, VERIFIER, Verdict,
    VerdictResult, Verifier, level, turn_urn,
};
use crate::time::rfc3339;

/// What the writer has learnt while it copied the files.
#[derive(Debug)]
pub(super) struct Copied {
    /// Every file but statements, by path.
    pub(super) files: BTreeMap<String, Digest>,
    pub(super) journal: JournalHead,
}

impl Copied {
    fn resource(&self, path: &str) -> Option<Resource> {
        self.files.get(path).map(|digest| Resource::named(path, *digest))
    }

    /// What is spoken of: the final tree and the patch, or the journal where nothing was sealed.
    pub(super) fn subject(&self) -> Vec<Resource> {
        let sealed: Vec<Resource> =
            [FINAL_MANIFEST, PATCH].iter().filter_map(|path| self.resource(path)).collect();
        if sealed.is_empty() { self.resource(JOURNAL).into_iter().collect() } else { sealed }
    }
}

fn urn(turn: &TurnFacts) -> String {
    turn_urn(&turn.session, turn.turn)
}

pub(super) fn provenance(input: &BundleInput<'_>, copied: &Copied) -> Statement<Provenance> {
    let (turn, ran) = (&input.turn, &input.ran);
    let inputs = [("contract", turn.contract), ("task", turn.task)];
    let base_commit = turn.base_commit.as_ref().map(|commit| Resource {
        name: Some("base commit".to_owned()),
        digest: BTreeMap::from([("gitCommit".to_owned(), commit.clone())]),
        ..Resource::default()
    });
    let dependencies =
        base_commit.into_iter().chain(copied.resource(BASE_MANIFEST)).chain(ran.materials.clone());
    let is_byproduct = |path: &str| ![CONFIG, BASE_MANIFEST, FINAL_MANIFEST, PATCH].contains(&path);
    let byproducts = copied.files.iter().filter(|(path, _)| is_byproduct(path));
    Statement::new(
        copied.subject(),
        Provenance {
            build_definition: BuildDefinition {
                build_type: BUILD_TYPE.to_owned(),
                external_parameters: ExternalParameters {
                    inputs: inputs
                        .into_iter()
                        .filter_map(|(name, digest)| digest.map(|digest| Resource::named(name, digest)))
                        .collect(),
                },
                internal_parameters: InternalParameters {
                    models: ran.models.clone(),
                    config: copied.resource(CONFIG).unwrap_or_default(),
                    facts: ran.facts.clone(),
                },
                resolved_dependencies: dependencies.collect(),
            },
            run_details: RunDetails {
                builder: Builder { id: BUILDER.to_owned(), version: ran.versions.clone() },
                metadata: Metadata {
                    invocation_id: urn(turn),
                    started_on: rfc3339(turn.created_at),
                    finished_on: rfc3339(turn.ended_at),
                },
                byproducts: byproducts.map(|(path, digest)| Resource::named(path, *digest)).collect(),
            },
        },
    )
}

pub(super) fn test_result(
    turn: &TurnFacts,
    room: &Room<'_>,
) -> Result<Statement<TestResult>, serde_json::Error> {
    Ok(Statement::new(
        vec![Resource::named("tree", room.tree)],
        TestResult {
            result: room.result,
            configuration: TestResult::configuration(&urn(turn), turn.contract, &room.facts)?,
            passed_tests: room.passed.clone(),
            warned_tests: room.warned.clone(),
            failed_tests: room.failed.clone(),
        },
    ))
}

pub(super) fn turn(input: &BundleInput<'_>, copied: &Copied) -> Statement<Turn> {
    let facts = &input.turn;
    let absent = GateFacts { status: GateStatus::Absent, reason: None };
    let gate = |key: &GateKey| (*key, facts.gates.get(key).copied().unwrap_or(absent));
    let digest_of = |path: &str| copied.files.get(path).copied();
    Statement::new(
        copied.subject(),
        Turn {
            session: facts.session.clone(),
            turn: facts.turn,
            created_at: rfc3339(facts.created_at),
            ended_at: rfc3339(facts.ended_at),
            outcome: facts.outcome,
            reason: facts.reason,
            exit_code: facts.outcome.exit_code(),
            rescued_from: facts.rescued_from,
            strength: facts.strength,
            gates: GateKey::ALL.iter().map(gate).collect(),
            contract: facts.contract,
            task: facts.queued,
            base_commit: facts.base_commit.clone(),
            base_tree: digest_of(BASE_MANIFEST),
            final_tree: digest_of(FINAL_MANIFEST),
            patch: digest_of(PATCH),
            journal: copied.journal,
            trust: facts.trust,
            network: facts.network.clone(),
            tier: facts.tier,
            observed: facts.observed.clone(),
            models: input.ran.models.clone(),
            usage: facts.usage.clone(),
            degraded: facts.degraded.clone(),
            parts: copied
                .files
                .iter()
                .filter(|(path, _)| is_without_texts(path))
                .map(|(path, digest)| (path.clone(), *digest))
                .collect(),
        },
    )
}

/// The verdict over the statement files that are written already.
pub(super) fn verdict(
    input: &BundleInput<'_>,
    copied: &Copied,
    statements: &BTreeMap<String, Digest>,
) -> Statement<Verdict> {
    let turn = &input.turn;
    let result = VerdictResult::of(turn.outcome);
    Statement::new(
        copied.subject(),
        Verdict {
            verifier: Verifier { id: VERIFIER.to_owned(), version: input.ran.versions.clone() },
            time_verified: rfc3339(turn.ended_at),
            resource_uri: urn(turn),
            policy: Verdict::policy(turn.contract),
            input_attestations: statements
                .iter()
                .map(|(path, digest)| Resource::file(path, *digest))
                .collect(),
            verification_result: result,
            verified_levels: level(result, turn.strength),
        },
    )
}
