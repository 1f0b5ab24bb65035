//! Which sandboxes this machine has, and which of them a run uses.

use std::path::Path;
use std::sync::Arc;

use countersign_cell::{Binaries, CellError, CellSpec, Cells, Host, Native};
use countersign_config::{Network, Resolved, Setting};
use countersign_engine::CellChoice;
use countersign_types::{CellId, Reason, Tier, Trust};

use crate::home::Home;
use crate::refusal::Refusal;

/// The tiers of one run.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) working: Arc<dyn Cells>,
    rooms: Option<Arc<dyn Cells>>,
    /// What people should know about the choice.
    pub(crate) notes: Vec<String>,
    /// What was not asked for and is less than could be had elsewhere; also among the notes.
    pub(crate) degraded: Vec<String>,
}

impl Chosen {
    pub(crate) fn choice(&self) -> CellChoice {
        CellChoice { working: Arc::clone(&self.working), rooms: self.rooms.clone() }
    }
}

/// The launcher and the guest, which are installed beside this program.
pub(crate) fn binaries() -> Result<Binaries, CellError> {
    let exe = std::env::current_exe()
        .map_err(|source| CellError::Io { what: "finding this program".to_owned(), source })?;
    Binaries::beside(&exe)
}

/// Decides the tiers. What is asked for and cannot be had is refused here, never weakened.
pub(crate) async fn choose(resolved: &Resolved, checked: bool, home: &Home) -> Result<Chosen, Refusal> {
    let binaries = binaries()?;
    let asked = resolved.sandbox.map(|sandbox| sandbox.value);
    if let Some(tier @ (Tier::Container | Tier::Gvisor | Tier::Vm)) = asked {
        return Err(not_built(tier, resolved.trust));
    }
    let native: Arc<dyn Cells> = Arc::new(Native::new(binaries.clone()));
    let host: Arc<dyn Cells> = Arc::new(Host::new(binaries));
    let (mut notes, mut degraded) = (Vec::new(), Vec::new());
    if resolved.network.value == Network::Host {
        notes.push("network host: commands of the agent reach whatever this machine reaches".to_owned());
    }
    // Where only native will do, the first cell of the run shows whether it works, before any model is called. It is
    // tried out here only where something else may be used instead.
    let works = if checked || asked == Some(Tier::Native) {
        Ok(())
    } else {
        try_out(native.as_ref(), home.root()).await
    };
    let rooms = works.is_ok().then(|| Arc::clone(&native));
    let working = match (asked, works) {
        (Some(Tier::Host), _) => host,
        (_, Ok(())) => native,
        (_, Err(error)) => {
            let note = format!(
                "the native sandbox does not work here ({error}), and the agent's commands ran as you, not isolated; \
                 `countersign doctor` says how to fix it"
            );
            notes.push(note.clone());
            degraded.push(note);
            host
        }
    };
    if working.tier() == Tier::Host {
        notes.push("sandbox host: NOT ISOLATED. The agent's commands run as you, on your files".to_owned());
    }
    Ok(Chosen { working, rooms, notes, degraded })
}

/// The tiers of a recorded session.
pub(crate) fn again(sandbox: Tier) -> Result<CellChoice, Refusal> {
    let binaries = binaries()?;
    let native: Arc<dyn Cells> = Arc::new(Native::new(binaries.clone()));
    let working = if sandbox == Tier::Host { Arc::new(Host::new(binaries)) } else { Arc::clone(&native) };
    Ok(CellChoice { working, rooms: Some(native) })
}

fn not_built(tier: Tier, trust: Setting<Trust>) -> Refusal {
    let (why, way) = if trust.value == Trust::Untrusted {
        (
            format!("trust untrusted needs a separate kernel, which is the {tier} sandbox or stronger"),
            "look at the repository and task yourself and say --trust reviewed",
        )
    } else {
        (format!("--sandbox {tier} was asked for"), "leave --sandbox out, or choose native")
    };
    Refusal::new(
        Reason::SandboxUnavailable,
        format!(
            "{why}, and this version has the host and native sandboxes. To go on, {way}; `countersign doctor` shows \
             what works here"
        ),
    )
}

/// Makes one cell and ends it.
async fn try_out(cells: &dyn Cells, home: &Path) -> Result<(), CellError> {
    let io = |source| CellError::Io { what: format!("making a directory in {}", home.display()), source };
    let dir = tempfile::Builder::new().prefix("probe-").tempdir_in(home).map_err(io)?;
    #[expect(clippy::expect_used, reason = "a constant that ids allow")]
    let id = CellId::new("probe").expect("an id");
    let spec = CellSpec { id, state_dir: dir.path().to_owned(), mounts: Vec::new(), host_network: false };
    cells.open(spec).await?.end(true).await
}
