//! A socket between the store and its server that breaks off at chosen moments of a commit.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;

const SOCKET: &str = ".s.PGSQL.5432";

/// How the client sends a commit, and how the server says that it waits for the next question outside a transaction.
const COMMIT: &[u8] = b"COMMIT\0";
const IDLE: &[u8] = b"Z\0\0\0\x05I";

/// For how long the server's side stays open when only the client's was cut.
const LINGER: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The commit never arrives.
    BeforeCommit,
    /// The commit arrives, and the client is cut while the server still works on it.
    WhileCommitting,
    /// The commit is answered, and the answer never arrives.
    AfterCommit,
    /// As `AfterCommit`, and no connection is made from then on.
    AfterCommitForGood,
    /// No connection is made.
    Dead,
}

#[derive(Debug)]
pub struct Proxy {
    dir: tempfile::TempDir,
    fault: Arc<Mutex<Fault>>,
}

impl Proxy {
    pub fn start(server: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        let fault = Arc::new(Mutex::new(Fault::None));
        let (server, shared) = (server.join(SOCKET), Arc::clone(&fault));
        spawn(move || {
            for client in listener.incoming() {
                let (server, fault) = (server.clone(), Arc::clone(&shared));
                if *fault.lock().unwrap() != Fault::Dead {
                    spawn(move || forward(client.unwrap(), &server, &fault));
                }
            }
        });
        Self { dir, fault }
    }

    pub fn socket_dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// What happens at the next commit; once.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }
}

fn forward(mut client: UnixStream, server: &Path, fault: &Mutex<Fault>) {
    let Ok(mut server) = UnixStream::connect(server) else { return };
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    // The answers to what came after the commit are held back from the client.
    let swallow = Arc::new(Mutex::new(false));
    let swallowing = Arc::clone(&swallow);
    let answering = spawn(move || -> io::Result<()> {
        let mut seen = Vec::new();
        let mut chunk = [0; 65_536];
        loop {
            let len = answers.read(&mut chunk)?;
            if len == 0 {
                return to_client.shutdown(Shutdown::Both);
            }
            if *swallowing.lock().unwrap() {
                seen.extend_from_slice(&chunk[..len]);
                // The write and the commit are each answered with it; in between the transaction is open.
                if seen.ends_with(IDLE) {
                    return to_client.shutdown(Shutdown::Both);
                }
            } else {
                to_client.write_all(&chunk[..len])?;
            }
        }
    });
    let mut chunk = [0; 65_536];
    loop {
        let len = client.read(&mut chunk).unwrap_or(0);
        if len == 0 {
            break;
        }
        let sent = &chunk[..len];
        let mut now = Fault::None;
        if sent.windows(COMMIT.len()).any(|w| w == COMMIT) {
            let mut fault = fault.lock().unwrap();
            now = *fault;
            *fault = if now == Fault::AfterCommitForGood { Fault::Dead } else { Fault::None };
        }
        match now {
            Fault::None | Fault::Dead => {
                if server.write_all(sent).is_err() {
                    break;
                }
            }
            Fault::BeforeCommit => break,
            Fault::WhileCommitting => {
                *swallow.lock().unwrap() = true;
                server.write_all(sent).unwrap();
                client.shutdown(Shutdown::Both).unwrap();
                sleep(LINGER);
                break;
            }
            Fault::AfterCommit | Fault::AfterCommitForGood => {
                *swallow.lock().unwrap() = true;
                server.write_all(sent).unwrap();
                let _ = answering.join();
                break;
            }
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}
