//! The launcher: a small static program that makes one cell, runs jobs in it, and takes everything down when its
//! controller goes away. All `unsafe` of the project is here, in `sys`.
//!
//! ```text
//!  host                          │ cell: user, pid, mount, net, ipc, uts, cgroup namespaces; own root file system
//!                                │
//!  controller ──socket── launcher ──socket── supervisor (pid 1, root of the cell = a sub-uid of the host)
//!  (never in a cell)     │  │    │               │
//!                 cgroups│  │pipes              ├── guest (cell root; 4 capabilities, no_new_privs, seccomp)
//!                        │  │    │              │     ▲ channel: controller ⇄ guest, frames + descriptors
//!                        ▼  ▼    │              └── first process of a job (pid 1 of the job's pid namespace)
//!                    [ job's cgroup: memory, pids ]         │
//!                                │                          └── command (uid 1000 of the cell, no capabilities,
//!                                │                                no_new_privs, seccomp, own /proc, no inherited fds)
//! ```
//!
//! Who trusts whom: a command may be hostile; it sees only its own processes and the cell's files, reaches neither the
//! guest nor the supervisor by signal, ptrace or /proc, and no service of the host by any socket family. The guest
//! parses what commands left behind and is expected to be taken over one day: it has no more than root of the cell's
//! files. Receipts are made by the launcher, outside. Death runs downwards: the controller's end closes the launcher's
//! socket; the launcher's end kills the supervisor (`PDEATHSIG`, and the end of its socket); the supervisor is pid 1
//! of the cell, so the kernel kills the rest.

mod canary;
mod capture;
mod cgroup;
mod delete;
mod error;
mod ids;
mod job;
mod launch;
mod layout;
mod root;
mod running;
mod seccomp;
mod serve;
mod supervisor;
mod sys;
mod wire;

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use countersign_types::{CELL_PROTOCOL, CellLaunch, CellResponse, Tier};

use crate::error::{Context, JailError, Result};
use crate::serve::{Launcher, Over};
use crate::wire::{Fill, Receiver};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the system-call filter is written and tested for Linux on x86_64 only");

const USAGE: &str = "countersign-jail is started by countersign and speaks its protocol on standard input.\n\
                     usage: countersign-jail --version | --tier native | --tier host\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let tier = match words.as_slice() {
        ["--version"] => {
            let text = format!("countersign-jail {} protocol {CELL_PROTOCOL}\n", env!("CARGO_PKG_VERSION"));
            let written = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::from(u8::from(written.is_err()));
        }
        ["--tier", "native"] => Tier::Native,
        ["--tier", "host"] => Tier::Host,
        _ => {
            drop(std::io::stderr().write_all(USAGE.as_bytes()));
            return ExitCode::from(2);
        }
    };
    match serve(tier) {
        Ok(Over::Ended | Over::ControllerGone) => ExitCode::SUCCESS,
        Ok(Over::CellLost) => ExitCode::FAILURE,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "countersign-jail: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves one controller on standard input.
fn serve(tier: Tier) -> Result<Over> {
    let control = take_control()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut receiver = Receiver::default();
    let frame = loop {
        if let Some(frame) = receiver.next_frame()? {
            break frame;
        }
        if receiver.fill(control.as_fd())? == Fill::Eof {
            return Ok(Over::ControllerGone);
        }
    };
    let launched = first_request(&frame).and_then(|request| {
        let channel = receiver.next_fd()?;
        let standing = launch::launch(tier, &request, &channel)?;
        Ok((request, standing))
    });
    match launched {
        Ok((request, standing)) => {
            let launcher =
                Launcher::new(tier, standing, control, receiver, request.state_dir, request.host_network)?;
            Ok(launcher.run())
        }
        Err(error) => {
            let (why, fix) = match error {
                JailError::Unavailable { why, fix } => (why, fix),
                JailError::Protocol(what) => {
                    (what, "install countersign again: its programs do not fit together".to_owned())
                }
                other @ JailError::Io { .. } => (other.to_string(), ids::userns_fix()),
            };
            let missing = tier.demands();
            wire::send(control.as_fd(), &CellResponse::Unavailable { why, fix, missing }, &[])?;
            Ok(Over::CellLost)
        }
    }
}

fn first_request(frame: &[u8]) -> Result<CellLaunch> {
    #[derive(serde::Deserialize)]
    struct Version {
        protocol: u32,
    }
    // Read by itself first: another protocol may have other fields.
    let version: Version = serde_json::from_slice(frame).map_err(|e| JailError::Protocol(e.to_string()))?;
    if version.protocol != CELL_PROTOCOL {
        let theirs = version.protocol;
        return Err(JailError::Protocol(format!(
            "countersign speaks protocol {theirs}, this launcher {CELL_PROTOCOL}"
        )));
    }
    serde_json::from_slice(frame).map_err(|e| JailError::Protocol(e.to_string()))
}

/// Takes the control socket away from standard input, so that no child can inherit it there.
fn take_control() -> Result<OwnedFd> {
    let given = sys::adopt(0).ok_or_else(|| JailError::Protocol("standard input is closed".to_owned()))?;
    let control =
        rustix::io::fcntl_dupfd_cloexec(&given, 3).context(|| "taking the control socket".to_owned())?;
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .context(|| "opening /dev/null".to_owned())?;
    rustix::stdio::dup2_stdin(&null).context(|| "leaving standard input".to_owned())?;
    // Number 0 is /dev/null now and stays open for the life of the process.
    std::mem::forget(given);
    Ok(control)
}
