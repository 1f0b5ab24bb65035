//! For the tests of this crate only: a controller that opens a cell, starts a job with a daemon in it, says so, and
//! waits to be killed. Arguments: tier, launcher, guest, state directory, command for `sh -c`.

use std::io::Write;
use std::path::PathBuf;

use countersign_cell::{Binaries, CellSpec, Cells, Host, Native};
use countersign_types::{CellId, JobId, JobLimits, JobSpec, Millis, RunAs};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tier, jail, guest, state_dir, command] = arguments.as_slice() else {
        return Err("five arguments".into());
    };
    let binaries = Binaries { jail: jail.into(), guest: guest.into() };
    let cells: Box<dyn Cells> =
        if tier == "host" { Box::new(Host::new(binaries)) } else { Box::new(Native::new(binaries)) };
    let spec = CellSpec {
        id: CellId::new("kill")?,
        state_dir: PathBuf::from(state_dir),
        mounts: vec![],
        host_network: false,
    };
    let cell = cells.open(spec).await?;
    let limits = JobLimits {
        wall: Millis::from_secs(600),
        output_head: 100,
        output_tail: 100,
        output_total: None,
        memory: None,
        processes: None,
    };
    let job = JobSpec {
        job: JobId::new("j")?,
        argv: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
        cwd: cell.workspace().display().to_string(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        run_as: RunAs::User,
        limits,
        stdin: Vec::new(),
    };
    let running = cell.run(job);
    writeln!(std::io::stdout(), "open")?;
    running.await?;
    Ok(())
}
