//! The words of Countersign as Rust types, shared by every other crate. No logic and no I/O: what a value *is*,
//! how it is written down, and how it is read back.
//!
//! Architecture invariants: this crate depends on no other crate of the project; nothing here reads a clock, a file
//! or the environment; every type that is written to disk or wire says so and has one textual form.
#![forbid(unsafe_code)]

mod blind;
mod canonical;
mod cell;
mod digest;
mod gate;
mod id;
mod outcome;
mod tier;
mod units;

pub use blind::Blind;
pub use canonical::canonical_json;
pub use cell::{
    CELL_PROTOCOL, Captured, CellLaunch, CellRequest, CellResponse, JobEnd, JobLimits, JobReceipt, JobSpec,
    LimitHit, MAX_FRAME, Mount, MountKind, Observation, RunAs,
};
pub use digest::{Digest, DigestError, Hasher};
pub use gate::{GateKey, GateStatus, Strength, StrengthLevel};
pub use id::{CellId, CheckIndex, EffectId, IdError, JobId, PrincipalId, SessionId, TenantId, TurnId};
pub use outcome::{Outcome, Reason};
pub use tier::{Tier, TierProperties, TierProperty, Trust};
pub use units::{ByteSize, Millis, Money, UnitError};
