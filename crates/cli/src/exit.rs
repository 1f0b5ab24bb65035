//! Exit codes of commands that end no turn. Those of turns are [`countersign_types::Outcome::exit_code`].

/// Done.
pub(crate) const DONE: u8 = 0;
/// A usage or set-up error.
pub(crate) const REFUSED: u8 = 1;
/// The command worked and its finding is negative: the patch does not apply.
pub(crate) const NEGATIVE: u8 = 2;
