//! `cargo xtask docs`: writes what is made from the program's types into the repository, and manual pages into the target
//! directory.

use std::process::Command;

use crate::build;
use crate::sh::{self, Context, Result};
use crate::workspace::Workspace;

/// The page of the command line, below the root.
pub const CLI_PAGE: &str = "docs/cli.md";

/// # Errors
/// When the build fails or a file cannot be written.
pub fn docs(workspace: &Workspace) -> Result<()> {
    let program = build::build(workspace, false)?.join("countersign");
    let page = sh::capture(Command::new(&program).args(["generate", "cli-docs"]))?;
    let path = workspace.root.join(CLI_PAGE);
    std::fs::write(&path, page).context(path.display())?;
    let man = workspace.target.join("man");
    sh::run(Command::new(&program).args(["generate", "man"]).arg(&man))?;
    sh::print(&format!("{}\n{}", path.display(), man.display()))
}
