//! The real binary under a pseudo-terminal that controls it, or under none at all.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The other end of a terminal.
pub struct Pty {
    master: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Pty {
    /// Starts `command` in a session of its own that a new terminal controls. Standard input is what it was: the
    /// terminal is reached as /dev/tty. Needs `setsid` of util-linux.
    pub fn start(command: &Command) -> (Self, Child) {
        Self::with(command, false)
    }

    /// The same with standard output and error on the terminal too.
    pub fn whole(command: &Command) -> (Self, Child) {
        Self::with(command, true)
    }

    fn with(command: &Command, whole: bool) -> (Self, Child) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = || -> OwnedFd {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
            rustix::fs::open(name.as_str(), flags, rustix::fs::Mode::empty()).unwrap()
        };
        // setsid takes the terminal from its standard input, which the program then does not get.
        let mut wrapped = Command::new("setsid");
        wrapped.args(["--ctty", "--wait", "sh", "-c", "exec \"$@\" </dev/null", "sh"]);
        wrapped.arg(command.get_program()).args(command.get_args());
        copy_surroundings(command, &mut wrapped);
        wrapped.stdin(slave());
        if whole {
            wrapped.stdout(slave()).stderr(slave());
        } else {
            wrapped.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let child = wrapped.spawn().unwrap();
        drop(wrapped);
        let master = File::from(master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, shared) = (master.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Ends with an error once nobody has the terminal open.
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        (Self { master, seen }, child)
    }

    /// What the terminal has shown so far.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Does the terminal show what is typed?
    pub fn echoes(&self) -> bool {
        rustix::termios::tcgetattr(&self.master)
            .unwrap()
            .local_modes
            .contains(rustix::termios::LocalModes::ECHO)
    }

    pub fn type_in(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }
}

/// `command` in a session of its own without a terminal, as in CI. The one that runs the tests may have one.
pub fn without_terminal(command: &Command) -> Command {
    let mut wrapped = Command::new("setsid");
    wrapped.args(["--wait"]).arg(command.get_program()).args(command.get_args());
    copy_surroundings(command, &mut wrapped);
    wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wrapped
}

fn copy_surroundings(from: &Command, to: &mut Command) {
    to.env_clear();
    for (name, value) in from.get_envs() {
        if let Some(value) = value {
            to.env(name, value);
        }
    }
    if let Some(dir) = from.get_current_dir() {
        to.current_dir(dir);
    }
}

// Every suite compiles this file, and none uses all of it.
const _: () = {
    let _ = (Pty::start, Pty::whole, Pty::shown, Pty::echoes, Pty::type_in, without_terminal);
};
