//! `cargo xtask demo`: build, then `countersign demo` with the arguments given.

use std::process::{Command, Stdio};

use crate::sh::{self, Context, Error, Result};
use crate::workspace::Workspace;
use crate::{build, setup};

/// # Errors
/// When set-up, build or the demo itself fails.
pub fn demo(workspace: &Workspace, args: &[String]) -> Result<()> {
    setup::setup(workspace, setup::For::Demo)?;
    let bin_dir = build::build(workspace, false)?;
    let mut command = Command::new(bin_dir.join("countersign"));
    command.arg("demo").args(args);
    let status = command.stdin(Stdio::null()).status().context(sh::shown(&command))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Error::new(format!("the demo ended with exit code {code}; see above"))),
        None => Err(Error::new(format!("the demo ended with {status}"))),
    }
}
