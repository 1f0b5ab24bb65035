//! A bundle: what goes into it, and how it is written.

mod header;
mod statements;
mod write;

use std::collections::BTreeMap;
use std::io::{self, Read};

use countersign_tree::{Manifest, ObjectStore};
use countersign_types::{
    Digest, GateKey, Millis, Outcome, Reason, SessionId, Strength, Tier, TierProperty, Trust,
};
use serde_json::Value;

pub use header::{EARLIER_FORMATS, FORMAT, Header, SignerName, Signing as SigningNote, UnsignedReason};
pub use write::{WriteError, Written, write};

use crate::sign::Signer;
use crate::statement::{GateFacts, ModelUsed, Resource, RoleUsage, RoomFacts, TestOutcome};

/// Bytes that are there when they are asked for. They are read once.
pub trait Source {
    fn open(&self) -> io::Result<Box<dyn Read + '_>>;
}

impl Source for [u8] {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self))
    }
}

impl Source for Vec<u8> {
    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.as_slice()))
    }
}

/// Contents by their sha256.
pub trait Blobs {
    fn open(&self, digest: &Digest) -> io::Result<Box<dyn Read + '_>>;
}

impl Blobs for BTreeMap<Digest, Vec<u8>> {
    fn open(&self, digest: &Digest) -> io::Result<Box<dyn Read + '_>> {
        match self.get(digest) {
            Some(bytes) => Ok(Box::new(bytes.as_slice())),
            None => Err(io::Error::new(io::ErrorKind::NotFound, format!("no content {digest}"))),
        }
    }
}

/// Each content is read as a whole, and is at most [`crate::layout::MAX_FILE`] in a bundle.
impl Blobs for ObjectStore {
    fn open(&self, digest: &Digest) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(io::Cursor::new(self.read(digest).map_err(io::Error::other)?)))
    }
}

/// All that a bundle is made of. Whatever could hold a secret was redacted before; nothing is looked through here.
pub struct BundleInput<'a> {
    pub turn: TurnFacts,
    pub ran: RanFacts,
    /// Every room of every attempt, in the order in which they ran. Names are unique.
    pub rooms: Vec<Room<'a>>,
    /// The result object.
    pub result: &'a [u8],
    /// Each setting with its source and floor, prices included: one JSON value.
    pub config: &'a [u8],
    /// The session's lines from the first to the one that ended the turn, each with a newline behind it.
    pub journal: &'a dyn Source,
    /// The redacted transcript, the session's blind in it; None where nothing was said.
    pub transcript: Option<&'a dyn Source>,
    /// None where nothing was sealed.
    pub tree: Option<TreeInput<'a>>,
    pub signing: Signing<'a>,
}

impl std::fmt::Debug for BundleInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BundleInput({} turn {})", self.turn.session, self.turn.turn)
    }
}

/// Base, final tree, and what leads from one to the other.
#[derive(Clone, Copy)]
pub struct TreeInput<'a> {
    pub base: &'a Manifest,
    pub last: &'a Manifest,
    pub patch: &'a dyn Source,
    /// Holds the base's content of every path that differs.
    pub pre_images: &'a dyn Blobs,
}

impl std::fmt::Debug for TreeInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TreeInput({:?} to {:?})", self.base, self.last)
    }
}

/// How the turn ended; see [`crate::statement::Turn`] for the fields.
#[derive(Clone, Debug)]
pub struct TurnFacts {
    pub session: SessionId,
    pub turn: u32,
    pub created_at: Millis,
    pub ended_at: Millis,
    pub outcome: Outcome,
    pub reason: Reason,
    pub rescued_from: Option<Reason>,
    pub strength: Option<Strength>,
    /// Gates that are missing here are `absent`.
    pub gates: BTreeMap<GateKey, GateFacts>,
    pub contract: Option<Digest>,
    /// The sha256 of the task.
    pub task: Option<Digest>,
    /// The task as the journal's `turn_queued` names it; None where the journal names none.
    pub queued: Option<Digest>,
    pub base_commit: Option<String>,
    pub trust: Option<Trust>,
    pub network: Option<String>,
    pub tier: Option<Tier>,
    pub observed: Vec<TierProperty>,
    pub usage: Vec<RoleUsage>,
    pub degraded: Vec<String>,
}

/// What ran.
#[derive(Clone, Debug, Default)]
pub struct RanFacts {
    /// Programs and their versions; `countersign` should be there.
    pub versions: BTreeMap<String, String>,
    pub models: Vec<ModelUsed>,
    /// Layers and whatever else it ran on, besides the base.
    pub materials: Vec<Resource>,
    /// Anything else worth recording; no floating numbers.
    pub facts: BTreeMap<String, Value>,
}

/// One room and what it showed.
pub struct Room<'a> {
    pub facts: RoomFacts,
    pub result: TestOutcome,
    /// The tree that it judged.
    pub tree: Digest,
    pub passed: Vec<String>,
    pub warned: Vec<String>,
    pub failed: Vec<String>,
    pub stdout: Option<&'a dyn Source>,
    pub stderr: Option<&'a dyn Source>,
    /// What the verifier's own reporter wrote.
    pub report: Option<&'a dyn Source>,
}

impl std::fmt::Debug for Room<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Room({}: {:?})", self.facts.name, self.result)
    }
}

/// Who signs, or why nobody does.
#[derive(Clone, Copy, Debug)]
pub enum Signing<'a> {
    /// One key may be both.
    Keys {
        runner: &'a dyn Signer,
        verifier: &'a dyn Signer,
    },
    Unsigned {
        reason: UnsignedReason,
        detail: &'a str,
    },
}
