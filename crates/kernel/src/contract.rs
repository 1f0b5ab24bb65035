//! The contract: the immutable terms of a session. It names the agent, the checks and what each must show, what may be
//! edited, and every limit. It has no goal: the task is a turn's input.

use countersign_types::{Digest, Millis, Money, StrengthLevel, Tier, TierProperties, Trust, canonical_json};
use serde::{Deserialize, Serialize};

use crate::ToolName;

pub const CONTRACT_SCHEMA: &str = "countersign.contract/1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// [`CONTRACT_SCHEMA`].
    pub schema: String,
    pub preset: PresetRef,
    /// None: no agent works in this session; it judges [`Contract::candidate`].
    pub model: Option<ModelTerms>,
    pub trust: Trust,
    /// The working cell's tier. Rooms are native or stronger whatever this says.
    pub sandbox: Tier,
    /// Properties that every cell must show.
    pub floor: TierProperties,
    pub network: Network,
    pub source: Source,
    /// The base tree as it was at submission. Another one is refused when the turn begins. None: whatever is there then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Digest>,
    pub environment: EnvironmentTerms,
    /// The registered profile that checks, environment and rules were taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileRef>,
    /// Empty only with `--no-check` or `ask`.
    pub checks: Vec<CheckTerms>,
    /// Globs anchored at the tree root. Empty: all but protected.
    pub scope: Vec<String>,
    /// Protected in addition to the languages' rules.
    pub protect: Vec<String>,
    /// Rules of the fence that may be broken. Each one that was used makes a pass prove less.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowance>,
    /// Nothing is protected: tests and what runs them may be changed. A pass then proves no more than that something was red.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfenced: bool,
    /// A success needs a tree that differs from its base.
    pub change_required: bool,
    /// `--require verified`.
    pub require_verified: bool,
    pub min_strength: Option<StrengthLevel>,
    /// A pass that was reported from within the process of the code under test is too weak.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_process: bool,
    /// Mutants of the changed lines that the checks are tried on after they passed. 0: none.
    #[serde(default)]
    pub mutants: u32,
    /// How many claims are judged before a red one ends the turn. At least 1.
    pub attempts: u32,
    pub limits: Limits,
    /// What ends a turn that goes round in circles. A contract from before there was any has none.
    #[serde(default)]
    pub detectors: Detectors,
    /// The tools that the agent has. Empty: all that the program offers for such a session, in a contract of before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolName>,
    /// Instruction files of the repository are read as data at the start.
    pub repository_instructions: bool,
    #[serde(default)]
    pub deps: Deps,
    /// Somebody's finished work, which is judged as it is. No model is called and no tool runs. None: an agent works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// A second model looks over what the checks passed. None: nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewTerms>,
    /// The agent shows with a failing test of its own that there is something to mend, or says why not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repro_first: bool,
}

impl Contract {
    /// The digest of the canonical bytes.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Ok(Digest::of(&canonical_json(self)?))
    }

    /// Protection arms itself with a check.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        !self.unfenced && (!self.checks.is_empty() || !self.protect.is_empty())
    }

    /// The reviewer is the agent's own model: what one overlooks, the other does.
    #[must_use]
    pub fn reviews_itself(&self) -> bool {
        let agent = self.model.as_ref().map(|model| &model.reference);
        agent.is_some() && agent == self.review.as_ref().map(|terms| &terms.model.reference)
    }

    /// The agent may look and ask, nothing else.
    #[must_use]
    pub fn looks_only(&self) -> bool {
        self.preset.name.starts_with("question")
    }
}

/// Which set of detectors watches the steps. A set's rules never change; other rules are a set of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detectors {
    #[default]
    #[serde(rename = "off")]
    Off,
    #[serde(rename = "detectors@1")]
    V1,
}

impl Detectors {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::V1 => "detectors@1",
        }
    }
}

/// Work that was done elsewhere, by anyone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Candidate {
    /// A patch to the base tree; its bytes lie in the object store.
    Patch { digest: Digest },
    /// A directory as it is on disk: an absolute path as text with odd bytes escaped.
    Tree { path: String },
    /// A revision of the source's repository, as given; the commit that it named is in the effect's result.
    Head { rev: String },
}

/// Named, versioned behaviour defaults, pinned by digest. `canonical` is false when a flag changed one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetRef {
    pub name: String,
    pub digest: Digest,
    pub canonical: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTerms {
    /// `provider:model` or `scripted:FILE`.
    pub reference: String,
    /// The origin that keys are bound to; None for `scripted:`.
    pub endpoint: Option<String>,
    pub max_output_tokens: Option<u32>,
    /// Who named the model: a flag, a variable, a file, or the key that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The answers come from a recording with this digest, and no model is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Digest>,
}

impl ModelTerms {
    /// A model that nobody limits.
    #[must_use]
    pub fn new(reference: &str, endpoint: Option<&str>) -> Self {
        Self {
            reference: reference.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            max_output_tokens: None,
            source: None,
            replayed: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    None,
    Host,
}

/// Who reviews, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewTerms {
    pub model: ModelTerms,
    /// Reviews of one turn. At least 1. A blocker that the last one confirms is final.
    pub rounds: u32,
    /// Without a review there is no success.
    pub required: bool,
}

/// Where the base tree comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Source {
    Git {
        /// The absolute path that `--repo` named, as text with odd bytes escaped.
        repository: String,
        /// As given; the commit that it named is in the import's receipt.
        rev: String,
        include_dirty: bool,
    },
    Directory {
        path: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentTerms {
    pub setup: Option<Vec<String>>,
    pub probe: Option<Vec<String>>,
    /// Toolchains and declared caches of the host, mounted read-only.
    pub layers: Vec<LayerTerms>,
    /// `PATH` entries in front of the system's.
    pub path: Vec<String>,
    /// Further variables of every job: names and values that are no secrets.
    pub env: std::collections::BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerTerms {
    /// A path of the host.
    pub source: String,
    /// An absolute path in the cell.
    pub target: String,
    pub kind: LayerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    Toolchain,
    Cache,
}

/// A rule of the fence that this contract lifts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// A name of the fence's table.
    pub rule: String,
    /// Where; None: everywhere.
    pub glob: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckTerms {
    pub argv: Vec<String>,
    pub expect: Expect,
    pub timeout: Millis,
    /// How often it is run on the base and on the final tree. Green is all of them. At least 1.
    #[serde(default = "once")]
    pub repeats: u32,
    /// The runner that has to be seen at work, by its adapter's name. None: whatever the command is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// Tests that have to run and pass on the final tree, by the runner's ids, besides those that the base shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Inputs that no agent sees. They lie in the profile; here stands what pins them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOutTerms>,
}

impl CheckTerms {
    /// A command that is run once, of which nothing else is known.
    #[must_use]
    pub const fn new(argv: Vec<String>, expect: Expect, timeout: Millis) -> Self {
        Self { argv, expect, timeout, repeats: 1, runner: None, ids: Vec::new(), held_out: None }
    }
}

/// A program that is called with held-out inputs, in a room of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOutTerms {
    /// Called once for each case.
    pub argv: Vec<String>,
    /// Runs once before the first case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Vec<String>>,
    pub compare: Compare,
    /// For one case; without an answer by then nothing is known.
    pub timeout: Millis,
    /// A right answer comes within this time. None: whenever it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Millis>,
    pub cases: u32,
    /// Of the inputs and what is right for them.
    pub digest: Digest,
}

/// When an answer is the right one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Byte for byte.
    #[default]
    Exact,
    /// Line by line, without white space at the end of lines and empty lines at the end.
    Lines,
}

/// A registered profile, pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileRef {
    pub name: String,
    /// Of the whole directory.
    pub digest: Digest,
}

const fn once() -> u32 {
    1
}

/// What a lockfile of the final tree that differs from the base's means: the environment was made from the base's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deps {
    /// The check cannot be concluded.
    #[default]
    Deny,
    /// A person decides.
    Ask,
    /// The environment holds what the final tree's lockfiles name.
    Fetch,
}

/// What a check must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Red on the base for a test reason, green on the final tree.
    Fix,
    /// The change's own tests: red against the base's product, green on the final tree.
    New,
    /// Green on both.
    Guard,
}

/// Every limit is reserved before use. None: not limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Steps: model calls with what they asked for.
    pub turns: u32,
    /// Input and output tokens together.
    pub tokens: Option<u64>,
    pub cost: Option<Money>,
    /// Active time from approval to the first attempt to end; the final check has `check_timeout`.
    pub deadline: Millis,
    pub tool_actions: u32,
    /// Bytes of tool output over the whole turn.
    pub output_bytes: u64,
    /// One `run` of the agent at most.
    pub command_timeout: Millis,
    /// Retries of one model call.
    pub model_retries: u32,
}
