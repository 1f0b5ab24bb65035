//! Exit codes of commands that end no turn. Those of turns are [`countersign_types::Outcome::exit_code`].

/// Done.
pub(crate) const DONE: u8 = 0;
/// The command worked and its finding is negative: the patch does not apply.
pub(crate) const NEGATIVE: u8 = 2;
/// What the command writes is all there is of it, and it could not be written.
pub(crate) const UNWRITTEN: u8 = 1;

/// The exit code of a command whose output is what it is for.
pub(crate) fn of_writing(code: u8) -> u8 {
    if code == DONE && crate::terminal::output_lost() { UNWRITTEN } else { code }
}
