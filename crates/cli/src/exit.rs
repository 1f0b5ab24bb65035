//! Exit codes of commands that end no turn. Those of turns are [`countersign_types::Outcome::exit_code`].

/// Done.
pub(crate) const DONE: u8 = 0;
/// The command worked and its finding is negative: the patch does not apply.
pub(crate) const NEGATIVE: u8 = 2;
/// What the command writes is all there is of it, and it could not be written.
pub(crate) const UNWRITTEN: u8 = 1;

/// A crash that was asked for (`--crash-at`).
pub(crate) const CRASHED: u8 = 75;

/// Ends the process where it stands: no destructor runs and no other thread is waited for.
pub(crate) fn at_once(code: u8) {
    std::process::exit(i32::from(code));
}

/// The exit code of a command whose output is what it is for.
pub(crate) fn of_writing(code: u8) -> u8 {
    if code == DONE && crate::terminal::output_lost() { UNWRITTEN } else { code }
}
