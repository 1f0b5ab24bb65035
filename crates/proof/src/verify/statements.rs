use std::collections::{BTreeMap, BTreeSet};

use countersign_types::{Digest, GateKey, GateStatus, Outcome, Tier};

use super::plain::Spoken;
use super::signatures::{Keys, open_statement};
use super::{Bundle, Finding, plain};
use crate::layout::{
    BASE_MANIFEST, FINAL_MANIFEST, HEADER, JOURNAL, MAX_STATEMENTS, PATCH, Part, SUMS, SUMS_SIGNATURE,
    StatementPart, TRANSCRIPT, part,
};
use crate::statement::{
    BUILD_TYPE, Predicate, Provenance, Resource, RoomPurpose, Statement, StatementError, TestOutcome,
    TestResult, Turn, VERIFIER, Verdict, VerdictResult, level, turn_urn,
};
use crate::strict::shown;
use crate::time::parse_rfc3339;

type Read<P> = Option<(String, Statement<P>)>;

/// The statements that could be read, each with its path.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) provenance: Read<Provenance>,
    pub(super) turn: Read<Turn>,
    pub(super) verdict: Read<Verdict>,
    pub(super) rooms: Vec<(String, Statement<TestResult>)>,
    /// Whether each statement file was opened, and the three that every bundle has are among them.
    pub(super) all_opened: bool,
}

/// Opens every statement of the bundle.
pub(super) fn read(
    bundle: &Bundle,
    keys: Option<&Keys>,
    buffer: &mut Vec<u8>,
    findings: &mut Vec<Finding>,
) -> Statements {
    let mut out = Statements::default();
    let paths: Vec<(String, StatementPart)> = bundle
        .files
        .sizes
        .keys()
        .filter_map(|path| match part(path, bundle.signed) {
            Some(Part::Statement(statement)) => Some((path.clone(), statement)),
            _ => None,
        })
        .collect();
    let together: u64 = paths.iter().filter_map(|(path, _)| bundle.files.sizes.get(path)).sum();
    if together > MAX_STATEMENTS.as_u64() {
        findings.push(Finding::TooLarge { path: "statements".to_owned(), limit: MAX_STATEMENTS.as_u64() });
        return out;
    }
    let mut missing =
        BTreeSet::from([StatementPart::Provenance, StatementPart::Turn, StatementPart::Verdict]);
    let mut unopened = 0;
    for (path, statement) in paths {
        unopened += 1;
        let Some(bytes) = bundle.load(&path, buffer, findings) else { continue };
        let payload = match keys {
            None => Some(bytes),
            Some(keys) => {
                let verdict = statement == StatementPart::Verdict;
                let key = if verdict { &keys.verifier } else { &keys.runner };
                open_statement(&path, &bytes, key, findings)
            }
        };
        let Some(payload) = payload else { continue };
        unopened -= 1;
        missing.remove(&statement);
        match statement {
            StatementPart::Provenance => out.provenance = parsed(path, &payload, findings),
            StatementPart::Turn => out.turn = parsed(path, &payload, findings),
            StatementPart::Verdict => out.verdict = parsed(path, &payload, findings),
            StatementPart::TestResult(_) => out.rooms.extend(parsed(path, &payload, findings)),
        }
    }
    out.all_opened = unopened == 0 && missing.is_empty();
    out
}

fn parsed<P: Predicate>(path: String, payload: &[u8], findings: &mut Vec<Finding>) -> Read<P> {
    match Statement::read(payload) {
        Ok(statement) => Some((path, statement)),
        Err(StatementError::Json(e)) => {
            findings.push(Finding::Json { path, why: e.to_string() });
            None
        }
        Err(other) => {
            findings.push(Finding::Statement { path, why: other.to_string() });
            None
        }
    }
}

/// Holds the statements against each other and against the files. `tells`: whether the journal tells a turn; `spoken`: what
/// the transcript says that is signed elsewhere.
pub(super) fn check(
    bundle: &Bundle,
    read: &Statements,
    tells: bool,
    spoken: &Spoken,
    buffer: &mut Vec<u8>,
    findings: &mut Vec<Finding>,
) {
    let urn = turn_urn(&bundle.header.session, bundle.header.turn);
    let subject = subject(bundle);
    let mut about = |path: &str, is: Option<&str>, own: &[Resource]| {
        if is != Some(urn.as_str()) {
            findings.push(Finding::OtherTurn { path: path.to_owned() });
        } else if own != subject {
            findings.push(Finding::Subject { path: path.to_owned() });
        }
    };
    if let Some((path, statement)) = &read.provenance {
        let is = &statement.predicate.run_details.metadata.invocation_id;
        about(path, Some(is), &statement.subject);
    }
    if let Some((path, statement)) = &read.turn {
        let is = turn_urn(&statement.predicate.session, statement.predicate.turn);
        about(path, Some(&is), &statement.subject);
    }
    if let Some((path, statement)) = &read.verdict {
        about(path, Some(&statement.predicate.resource_uri), &statement.subject);
    }
    for (path, statement) in &read.rooms {
        // Of an earlier attempt it is about a tree that is not here; what decides is compared below.
        about(path, statement.predicate.turn(), &subject);
    }
    complete(bundle, read, findings);
    if let Some((path, turn)) = &read.turn {
        turn_fits(bundle, path, &turn.predicate, findings);
        parts(bundle, &turn.predicate, read.provenance.as_ref().map(|(_, said)| &said.predicate), findings);
        rooms(&turn.predicate, read, findings);
        plain::result(bundle, &turn.predicate, tells, buffer, findings);
        plain::config(bundle, &turn.predicate, tells, buffer, findings);
        if let Some((path, provenance)) = &read.provenance {
            provenance_fits(path, &provenance.predicate, &turn.predicate, spoken, findings);
        }
        if let Some((path, verdict)) = &read.verdict {
            verdict_fits(path, &verdict.predicate, &turn.predicate, findings);
        }
    }
}

/// What the statements of this bundle must speak of.
fn subject(bundle: &Bundle) -> Vec<Resource> {
    let named = |path: &&str| bundle.sums.get(*path).map(|digest| Resource::named(path, *digest));
    if bundle.is_sealed() {
        [FINAL_MANIFEST, PATCH].iter().filter_map(named).collect()
    } else {
        [JOURNAL].iter().filter_map(named).collect()
    }
}

/// Every statement is in the verdict's list, and every one of the list is here.
fn complete(bundle: &Bundle, read: &Statements, findings: &mut Vec<Finding>) {
    let Some((own, verdict)) = &read.verdict else { return };
    let mut listed: BTreeMap<&str, Option<Digest>> = BTreeMap::new();
    for named in &verdict.predicate.input_attestations {
        let path = named.uri.as_deref().unwrap_or_default();
        if listed.insert(path, named.sha256()).is_some() || path == own {
            let why = "it lists a statement twice, or itself".to_owned();
            findings.push(Finding::Contradiction { path: own.clone(), why });
        }
    }
    for (path, digest) in &listed {
        match bundle.digest(path) {
            None => findings.push(Finding::StatementMissing { path: shown(path) }),
            is if is != *digest => findings.push(Finding::StatementChanged { path: shown(path) }),
            Some(_) => {}
        }
    }
    for path in bundle.files.sizes.keys() {
        let is_statement = matches!(part(path, bundle.signed), Some(Part::Statement(_)));
        if is_statement && path != own && !listed.contains_key(path.as_str()) {
            findings.push(Finding::StatementUnlisted { path: path.clone() });
        }
    }
}

/// Every file is named by the turn's statement or by the provenance, and is what they say.
fn parts(bundle: &Bundle, turn: &Turn, provenance: Option<&Provenance>, findings: &mut Vec<Finding>) {
    let mut hold = |path: &str, digest: Option<Digest>| match bundle.digest(path) {
        None => findings.push(Finding::PartMissing { path: shown(path) }),
        is if is != digest => findings.push(Finding::PartChanged { path: shown(path) }),
        Some(_) => {}
    };
    for (path, digest) in &turn.parts {
        hold(path, Some(*digest));
    }
    // Without it nothing more can be said; that it cannot be read was told.
    let Some(provenance) = provenance else { return };
    let config = &provenance.build_definition.internal_parameters.config;
    let mut also: BTreeSet<&str> = BTreeSet::new();
    for named in provenance.run_details.byproducts.iter().chain([config]) {
        let Some(path) = named.name.as_deref() else { continue };
        hold(path, named.sha256());
        also.insert(path);
    }
    for path in bundle.files.sizes.keys() {
        let elsewhere = matches!(part(path, bundle.signed), Some(Part::Statement(_) | Part::PreImage(_)));
        let outside = elsewhere || path == SUMS || path == SUMS_SIGNATURE;
        if !outside && !turn.parts.contains_key(path) && !also.contains(path.as_str()) {
            findings.push(Finding::PartUnlisted { path: path.clone() });
        }
    }
}

fn turn_fits(bundle: &Bundle, path: &str, turn: &Turn, findings: &mut Vec<Finding>) {
    let mut wrong = |path: &str, why: &str| {
        findings.push(Finding::Contradiction { path: path.to_owned(), why: why.to_owned() });
    };
    if turn.reason.outcome() != turn.outcome || turn.exit_code != turn.outcome.exit_code() {
        wrong(path, "outcome, reason and exit code are not of one ending");
    }
    if turn.gates.len() != GateKey::ALL.len() {
        wrong(path, "it does not name every gate");
    }
    if turn.outcome == Outcome::Verified {
        let stops = |(key, gate): (&GateKey, &crate::statement::GateFacts)| match gate.status {
            GateStatus::Passed | GateStatus::Absent => false,
            // A reviewer advises; one that did not answer stops nothing.
            GateStatus::Unverifiable => *key != GateKey::Review,
            GateStatus::Failed | GateStatus::NotReached => true,
        };
        let passed = |key| turn.gates.get(&key).is_some_and(|gate| gate.status == GateStatus::Passed);
        let checked = passed(GateKey::Seal) && passed(GateKey::Check);
        if !checked || turn.gates.iter().any(stops) || turn.strength.is_none() || turn.final_tree.is_none() {
            wrong(path, "it says verified, and a gate did not pass, or there is no strength or no tree");
        }
    }
    let object_id = |id: &String| {
        [40, 64].contains(&id.len()) && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if !turn.base_commit.as_ref().is_none_or(object_id) {
        wrong(path, "its base commit is no object id");
    }
    if !matches!(turn.network.as_deref(), None | Some("none" | "host")) {
        wrong(path, "its network is not known");
    }
    if bundle.signed && turn.tier == Some(Tier::Host) {
        wrong(path, "a turn of the host tier is never signed");
    }
    let there = |path: &str| bundle.digest(path);
    let trees = [(BASE_MANIFEST, turn.base_tree), (FINAL_MANIFEST, turn.final_tree), (PATCH, turn.patch)];
    if trees.iter().any(|(path, digest)| there(path) != *digest) {
        wrong(path, "it names other trees or another patch than those that are here");
    }
    if parse_rfc3339(&turn.ended_at).is_none() || bundle.header.created_at != turn.ended_at {
        wrong(HEADER, "its time is not the one at which the turn ended");
    }
}

/// Each room says what it judged; those that decide judged the final tree, and passed where the turn was verified.
fn rooms(turn: &Turn, read: &Statements, findings: &mut Vec<Finding>) {
    let mut deciding = 0;
    for (path, statement) in &read.rooms {
        let mut wrong = |why: String| findings.push(Finding::Contradiction { path: path.clone(), why });
        let facts = match statement.predicate.facts() {
            Ok(facts) => facts,
            Err(e) => {
                wrong(format!("its room cannot be read: {e}"));
                continue;
            }
        };
        let named = StatementPart::TestResult(facts.name.clone());
        if named.path(true) != *path && named.path(false) != *path {
            wrong("its room has another name".to_owned());
        }
        if statement.predicate.contract() != turn.contract {
            wrong("it is of another contract".to_owned());
        }
        let tree = statement.subject.first().and_then(Resource::sha256);
        let wanted = match facts.purpose {
            RoomPurpose::Base => turn.base_tree,
            _ if facts.decides => turn.final_tree,
            _ => tree,
        };
        if statement.subject.len() != 1 || (tree != wanted && (facts.decides || wanted.is_some())) {
            wrong("it judged another tree".to_owned());
        }
        if facts.decides {
            deciding += 1;
            let passed = statement.predicate.result == TestOutcome::Passed;
            if passed && !statement.predicate.failed_tests.is_empty() {
                wrong("this room decides and passed, and tests failed in it".to_owned());
            }
            if turn.outcome == Outcome::Verified && statement.predicate.result != TestOutcome::Passed {
                wrong("the turn is said to be verified, and this room decides and did not pass".to_owned());
            }
        }
    }
    if turn.outcome == Outcome::Verified && deciding == 0 {
        let why = "the turn is said to be verified, and no room decides".to_owned();
        let path = read.turn.as_ref().map_or_else(String::new, |(path, _)| path.clone());
        findings.push(Finding::Contradiction { path, why });
    }
}

fn provenance_fits(
    path: &str,
    provenance: &Provenance,
    turn: &Turn,
    spoken: &Spoken,
    findings: &mut Vec<Finding>,
) {
    let definition = &provenance.build_definition;
    let named = |resources: &[Resource], name: &str| {
        resources.iter().find(|resource| resource.name.as_deref() == Some(name)).and_then(Resource::sha256)
    };
    let inputs = &definition.external_parameters.inputs;
    let task = named(inputs, "task");
    // The turn names the task as the journal does; a journal of before, or of a run that was refused, hides nothing.
    let hidden = task.zip(spoken.blind.as_ref()).map(|(plain, blind)| blind.hide(plain));
    let same = definition.build_type == BUILD_TYPE
        && named(inputs, "contract") == turn.contract
        && (turn.task.is_none() || turn.task == task || turn.task == hidden)
        && named(&definition.resolved_dependencies, BASE_MANIFEST) == turn.base_tree
        && definition.internal_parameters.models == turn.models;
    if !same {
        let why = "contract, task, base or models are not those of the turn".to_owned();
        findings.push(Finding::Contradiction { path: path.to_owned(), why });
    }
    if spoken.blind.is_some() && task.is_some() && spoken.task != task {
        let why = "its task is not the one that was signed".to_owned();
        findings.push(Finding::Contradiction { path: TRANSCRIPT.to_owned(), why });
    }
}

fn verdict_fits(path: &str, verdict: &Verdict, turn: &Turn, findings: &mut Vec<Finding>) {
    let mut wrong = |why: &str| {
        findings.push(Finding::Contradiction { path: path.to_owned(), why: why.to_owned() });
    };
    let result = VerdictResult::of(turn.outcome);
    if verdict.verification_result != result || verdict.verified_levels != level(result, turn.strength) {
        wrong("it does not say what follows from the outcome");
    }
    if verdict.policy != Verdict::policy(turn.contract) {
        wrong("it is by another contract");
    }
    if verdict.verifier.id != VERIFIER || parse_rfc3339(&verdict.time_verified).is_none() {
        wrong("its verifier or its time is not known");
    }
}
