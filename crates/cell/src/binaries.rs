use std::path::{Path, PathBuf};
use std::process::Stdio;

use countersign_types::{CELL_PROTOCOL, Tier};
use tokio::process::Command;

use crate::CellError;

/// The two static programs that cells need. They are installed beside `countersign`.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub jail: PathBuf,
    pub guest: PathBuf,
}

const FIX: &str = "build and install all three programs together: cargo xtask setup";

impl Binaries {
    /// Finds `countersign-jail` and `countersign-guest` beside `exe`.
    ///
    /// # Errors
    /// `Unavailable` that names the missing program and says what to do.
    pub fn beside(exe: &Path) -> Result<Self, CellError> {
        let find = |name: &str| {
            let path = exe.with_file_name(name);
            if path.is_file() {
                return Ok(path);
            }
            Err(unavailable(format!("{} is missing", path.display())))
        };
        Ok(Self { jail: find("countersign-jail")?, guest: find("countersign-guest")? })
    }

    /// Runs the launcher's `--version` and refuses one of another protocol. Opening a cell checks the protocol again,
    /// in the handshake.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be run or is another version.
    pub async fn check(&self) -> Result<(), CellError> {
        let command =
            Command::new(&self.jail).arg("--version").env_clear().stdin(Stdio::null()).output().await;
        let output = command
            .map_err(|error| unavailable(format!("{} cannot be run: {error}", self.jail.display())))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let wanted = format!("countersign-jail {} protocol {CELL_PROTOCOL}", env!("CARGO_PKG_VERSION"));
        if said.trim() == wanted {
            return Ok(());
        }
        let shown: String = said.trim().escape_debug().take(200).collect();
        Err(unavailable(format!(
            "{} is another version: it says `{shown}`, expected `{wanted}`",
            self.jail.display()
        )))
    }
}

fn unavailable(why: String) -> CellError {
    CellError::Unavailable { tier: Tier::Native, why, fix: FIX.to_owned(), missing: Tier::Native.demands() }
}
