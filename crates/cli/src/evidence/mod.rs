//! Evidence on this machine: keys, the bundle that every ended turn leaves, and its verification.

mod bundle;
mod keys;
mod verify;

pub(crate) use self::bundle::attach;
pub(crate) use self::keys::key;
pub(crate) use self::verify::verify;
