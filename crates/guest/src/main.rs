//! `countersign-guest [--workspace DIR] [--home DIR] [--user UID] | --version`: serves requests on descriptor 0.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use countersign_guest::protocol::GUEST_PROTOCOL;
use countersign_guest::{Channel, Guest};

/// The uid of the cell's job user.
const JOB_USER: u32 = 1000;

enum Ask {
    Version,
    Serve { workspace: PathBuf, home: PathBuf, owner: Option<u32> },
}

fn parse(args: impl Iterator<Item = std::ffi::OsString>) -> Result<Ask, String> {
    let (mut workspace, mut home) = (PathBuf::from("/workspace"), PathBuf::from("/home/agent"));
    let mut owner = Some(JOB_USER);
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{} needs a value", arg.display()));
        match arg.to_str() {
            Some("--version") => return Ok(Ask::Version),
            Some("--workspace") => workspace = value()?.into(),
            Some("--home") => home = value()?.into(),
            Some("--user") => {
                let text = value()?;
                let id: Option<u32> = text.to_str().and_then(|t| t.parse().ok());
                owner = match id {
                    Some(0) => None,
                    Some(id) => Some(id),
                    None => return Err(format!("--user {} is no uid", text.display())),
                };
            }
            _ => return Err(format!("unknown argument {}", arg.display())),
        }
    }
    Ok(Ask::Serve { workspace, home, owner })
}

fn serve(workspace: &std::path::Path, home: &std::path::Path, owner: Option<u32>) -> io::Result<()> {
    // What is made here has the modes that the tree says, whatever the launcher's mask was.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let mut guest = Guest::new(workspace, home, owner)?;
    guest.serve(&mut Channel::new(UnixStream::from(socket)))
}

fn main() -> ExitCode {
    let told = match parse(std::env::args_os().skip(1)) {
        Ok(Ask::Version) => {
            let line = format!("countersign-guest {} protocol {GUEST_PROTOCOL}\n", env!("CARGO_PKG_VERSION"));
            return match io::stdout().write_all(line.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            };
        }
        Ok(Ask::Serve { workspace, home, owner }) => match serve(&workspace, &home, owner) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(e) => e.to_string(),
        },
        Err(text) => text,
    };
    // The launcher keeps what the guest says last; there is nobody else to tell.
    drop(writeln!(io::stderr(), "countersign-guest: {told}"));
    ExitCode::FAILURE
}
