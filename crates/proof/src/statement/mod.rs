//! in-toto Statements, version 1 (in-toto/attestation, `spec/v1/statement.md`), with the predicates of a bundle. Their
//! bytes are canonical JSON, and only canonical JSON of exactly these fields is read.

mod provenance;
mod test_result;
mod turn;
mod verdict;

use std::collections::BTreeMap;

use countersign_types::{Digest, SessionId, canonical_json};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use provenance::{
    BUILD_TYPE, BUILDER, BuildDefinition, Builder, ExternalParameters, InternalParameters, Metadata,
    ModelUsed, Provenance, RunDetails,
};
pub use test_result::{RoomFacts, RoomPurpose, TestOutcome, TestResult};
pub use turn::{GateFacts, JournalHead, RoleUsage, Turn};
pub use verdict::{POLICY, VERIFIER, Verdict, VerdictResult, Verifier, level, strength_of};

use crate::strict::{JsonError, read_canonical, read_exact};

pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// What a statement says of its subject.
pub trait Predicate: Serialize + DeserializeOwned {
    /// The `predicateType` that is written.
    const TYPE: &'static str;
    /// Those that were written once, and are read for ever.
    const EARLIER: &'static [&'static str] = &[];
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement<P> {
    #[serde(rename = "_type")]
    pub kind: String,
    /// Never empty.
    pub subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    pub predicate: P,
}

/// Why bytes are no statement of the kind that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    #[error("{0}")]
    Json(#[from] JsonError),
    #[error("it is no in-toto Statement v1")]
    Type,
    #[error("its predicate is of type `{0}`")]
    Predicate(String),
    #[error("it has no subject, or one without a name and a sha256 digest, or two of one name")]
    Subject,
}

impl<P: Predicate> Statement<P> {
    #[must_use]
    pub fn new(subject: Vec<Resource>, predicate: P) -> Self {
        Self { kind: STATEMENT_TYPE.to_owned(), subject, predicate_type: P::TYPE.to_owned(), predicate }
    }

    /// Canonical JSON. Fails only when a floating number was put into an annotation.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        canonical_json(self)
    }

    pub fn read(bytes: &[u8]) -> Result<Self, StatementError> {
        /// Told apart first, so that another kind of statement is named and not only "a field is missing".
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "_type")]
            kind: String,
            #[serde(rename = "predicateType")]
            predicate_type: String,
        }
        let kind: Kind = read_canonical(bytes)?;
        if kind.kind != STATEMENT_TYPE {
            return Err(StatementError::Type);
        }
        let known = kind.predicate_type == P::TYPE || P::EARLIER.contains(&kind.predicate_type.as_str());
        if !known {
            return Err(StatementError::Predicate(crate::strict::shown(&kind.predicate_type)));
        }
        let statement: Self = read_exact(bytes)?;
        let mut names = std::collections::BTreeSet::new();
        let good = |resource: &Resource| {
            resource.sha256().is_some() && resource.name.as_deref().is_some_and(|name| !name.is_empty())
        };
        let unique = statement.subject.iter().all(|resource| names.insert(resource.name.clone()));
        if statement.subject.is_empty() || !unique || !statement.subject.iter().all(good) {
            return Err(StatementError::Subject);
        }
        Ok(statement)
    }
}

/// in-toto's ResourceDescriptor (`spec/v1/resource_descriptor.md`), the fields that are used here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Algorithm (`sha256`, `gitCommit`) to lowercase hex.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Value>,
}

impl Resource {
    /// A named thing with its sha256.
    #[must_use]
    pub fn named(name: &str, digest: Digest) -> Self {
        Self { name: Some(name.to_owned()), digest: sha256_set(digest), ..Self::default() }
    }

    /// A file of the bundle, as the verdict lists statements.
    #[must_use]
    pub fn file(path: &str, digest: Digest) -> Self {
        Self { uri: Some(path.to_owned()), digest: sha256_set(digest), ..Self::default() }
    }

    #[must_use]
    pub fn sha256(&self) -> Option<Digest> {
        self.digest.get("sha256").and_then(|hex| Digest::from_hex(hex).ok())
    }
}

fn sha256_set(digest: Digest) -> BTreeMap<String, String> {
    BTreeMap::from([("sha256".to_owned(), digest.hex())])
}

/// Names one turn of one session. Every statement holds it, so none can stand in another bundle.
#[must_use]
pub fn turn_urn(session: &SessionId, turn: u32) -> String {
    format!("urn:countersign:turn:{session}:{turn}")
}
