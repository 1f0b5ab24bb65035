use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Predicate, Resource};

/// What kind of build a turn is; `docs/format.md` says what its parameters mean.
pub const BUILD_TYPE: &str = "urn:countersign:build-type:turn:1";

/// Who ran it: a controller on the operator's own machine. It says nothing about how well that machine is kept.
pub const BUILDER: &str = "urn:countersign:builder:self-hosted:1";

/// SLSA provenance, version 1 (slsa.dev/spec/v1.0/provenance): what ran, and on what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    pub build_definition: BuildDefinition,
    pub run_details: RunDetails,
}

impl Predicate for Provenance {
    const TYPE: &'static str = "https://slsa.dev/provenance/v1";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildDefinition {
    /// [`BUILD_TYPE`].
    pub build_type: String,
    pub external_parameters: ExternalParameters,
    pub internal_parameters: InternalParameters,
    /// Base tree, its commit, layers of the environment.
    pub resolved_dependencies: Vec<Resource>,
}

/// What the operator gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalParameters {
    /// `contract` and, where there was one, `task`, by digest. None of a run that was refused before it had a contract.
    pub inputs: Vec<Resource>,
}

/// What was chosen from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InternalParameters {
    pub models: Vec<ModelUsed>,
    /// `config.json`: each setting with its source.
    pub config: Resource,
    /// Whatever else the engine says of the run; integers, strings, and what is made of them.
    pub facts: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelUsed {
    /// `agent`, `reviewer`, ….
    pub role: String,
    /// `provider:model` or `scripted:FILE`.
    pub reference: String,
    /// The origin of its requests; null for a script.
    pub endpoint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunDetails {
    pub builder: Builder,
    pub metadata: Metadata,
    /// Journal, transcript, outputs of rooms.
    pub byproducts: Vec<Resource>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Builder {
    /// [`BUILDER`].
    pub id: String,
    /// Programs and their versions, `countersign` first among them.
    pub version: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// [`super::turn_urn`].
    pub invocation_id: String,
    pub started_on: String,
    pub finished_on: String,
}
