//! The two streams. A reader that went away is no reason to end differently: writing then does nothing. A disk that is
//! full is said; where there was nothing to do but to write, that has failed.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Was something meant for standard output lost, other than to a reader that went away?
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes one line of data to standard output.
pub(crate) fn out_line(line: &str) {
    let mut out = std::io::stdout().lock();
    written(out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()));
}

/// Writes bytes to standard output as they are.
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    written(out.write_all(bytes).and_then(|()| out.flush()));
}

fn written(result: std::io::Result<()>) {
    if let Err(error) = result
        && error.kind() != std::io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::SeqCst)
    {
        err_line(&format!("error: standard output cannot be written: {error}"));
    }
}

/// Was something meant for standard output lost, other than to a reader that went away? It was said.
pub(crate) fn output_lost() -> bool {
    LOST.load(Ordering::SeqCst)
}

/// Writes one line for people to standard error.
pub(crate) fn err_line(line: &str) {
    let mut err = std::io::stderr().lock();
    let _gone = err.write_all(format!("{line}\n").as_bytes());
}

/// Colour only where a person looks and did not object (no-color.org).
pub(crate) fn colour() -> bool {
    std::io::stderr().is_terminal() && wants_colour()
}

/// Did nobody object to colour, wherever it is shown?
pub(crate) fn wants_colour() -> bool {
    let objects = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !objects && !dumb
}
