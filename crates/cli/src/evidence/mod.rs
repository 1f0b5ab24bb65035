//! Evidence on this machine: keys, the bundle that every ended turn leaves, its verification, and judging its work again.

mod bundle;
mod compared;
mod excerpt;
mod keys;
mod place;
mod replay;
mod reveal;
mod verify;

pub(crate) use self::bundle::{attach, named};
pub(crate) use self::excerpt::hand_over;
pub(crate) use self::keys::{can_sign, key, signing_secrets};
pub(crate) use self::replay::replay_check;
pub(crate) use self::reveal::reveal;
pub(crate) use self::verify::{is_intact, verify};
