use countersign_types::{Digest, TierProperty};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Predicate, Resource};
use crate::strict::JsonError;

/// in-toto's test result, version 0.1 (`spec/predicates/test-result.md`): what one room showed of the tree that is its
/// subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestResult {
    pub result: TestOutcome,
    /// Which turn, contract, and room; see [`RoomFacts`].
    pub configuration: Vec<Resource>,
    pub passed_tests: Vec<String>,
    pub warned_tests: Vec<String>,
    pub failed_tests: Vec<String>,
}

impl Predicate for TestResult {
    const TYPE: &'static str = "https://in-toto.io/attestation/test-result/v0.1";
}

/// The specification's words. What could not be concluded is FAILED here, and `cause` says so: it is no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TestOutcome {
    Passed,
    Warned,
    Failed,
}

/// Why a room was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoomPurpose {
    /// The check on the base, before the agent starts.
    Base,
    /// The check on the sealed tree.
    Final,
    /// The change's tests against the base's product.
    Control,
    /// Inputs that the agent never saw, on the sealed tree.
    HeldOut,
    /// A reproduction, on the base or the sealed tree.
    Repro,
    /// The agent asked for the check while it worked; such a room decides nothing.
    Asked,
}

/// What a room was, as it stands in the annotations of the configuration's resource `room`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoomFacts {
    /// Also a part of the statement's file name: 1 to 64 of a-z, 0-9 and `-`.
    pub name: String,
    pub purpose: RoomPurpose,
    /// The check of the contract, from 0.
    pub check: u32,
    /// Which try to end it belongs to, from 1; null for the base.
    pub attempt: Option<u32>,
    /// Whether the verdict rests on it. A room that decides judged the final tree.
    pub decides: bool,
    /// How the command ended, in the engine's words: `exit 0`, `signal 9`, `timeout`.
    pub ended: String,
    /// Why nothing could be concluded; null where something was.
    pub cause: Option<String>,
    pub argv: Vec<String>,
    /// What the cell was seen to have.
    pub observed: Vec<TierProperty>,
    /// What the verifier added to the tree as an overlay.
    pub overlay: Option<Digest>,
    /// The layers it ran on.
    pub environment: Option<Digest>,
}

impl TestResult {
    /// Configuration of a room: the turn, the contract, and the facts.
    pub fn configuration(
        turn: &str,
        contract: Option<Digest>,
        facts: &RoomFacts,
    ) -> Result<Vec<Resource>, serde_json::Error> {
        let named = |name: &str| Resource { name: Some(name.to_owned()), ..Resource::default() };
        let turn = Resource { uri: Some(turn.to_owned()), ..named("turn") };
        let Value::Object(annotations) = serde_json::to_value(facts)? else { return Ok(vec![turn]) };
        let room = Resource { annotations: annotations.into_iter().collect(), ..named("room") };
        Ok([turn].into_iter().chain(contract.map(|d| Resource::named("contract", d))).chain([room]).collect())
    }

    fn find(&self, name: &str) -> Option<&Resource> {
        self.configuration.iter().find(|resource| resource.name.as_deref() == Some(name))
    }

    /// The turn that it says it belongs to.
    #[must_use]
    pub fn turn(&self) -> Option<&str> {
        self.find("turn").and_then(|resource| resource.uri.as_deref())
    }

    #[must_use]
    pub fn contract(&self) -> Option<Digest> {
        self.find("contract").and_then(Resource::sha256)
    }

    pub fn facts(&self) -> Result<RoomFacts, JsonError> {
        let annotations = self.find("room").map(|room| json!(room.annotations)).unwrap_or_default();
        let facts: RoomFacts = serde_json::from_value(annotations.clone())
            .map_err(|e| JsonError::Shape(crate::strict::shown(&e.to_string())))?;
        let whole = json!(facts) == annotations;
        whole.then_some(facts).ok_or_else(|| JsonError::Shape("a key is missing".to_owned()))
    }
}
