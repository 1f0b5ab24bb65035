//! Exit codes of commands that end no turn. Those of turns are [`countersign_types::Outcome::exit_code`].

/// Done.
pub(crate) const DONE: u8 = 0;
/// The command worked and its finding is negative: the patch does not apply.
pub(crate) const NEGATIVE: u8 = 2;
