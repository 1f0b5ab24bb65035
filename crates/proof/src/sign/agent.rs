//! ssh-agent (draft-miller-ssh-agent) over its unix socket. The agent signs the bytes as they are, so an `ssh-ed25519`
//! key in it makes the same signatures as one in a file.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{SignError, Signer, checked};
use crate::key::{PublicKey, SIGNATURE_LEN};
use crate::wire::{Reader, put_string, put_u32};

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// The largest answer that is read, bytes; OpenSSH's own limit.
const MAX_ANSWER: usize = 256 * 1024;

/// How many keys of an agent are looked at.
const MAX_IDENTITIES: u32 = 2048;

/// An agent may ask its user first, so it gets time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A key that an agent holds.
#[derive(Debug)]
pub struct AgentSigner {
    socket: PathBuf,
    public: PublicKey,
    timeout: Duration,
}

impl AgentSigner {
    /// The Ed25519 keys of the agent at `socket`, each with its comment.
    pub fn identities(socket: &Path) -> Result<Vec<(PublicKey, String)>, SignError> {
        let answer = ask(socket, TIMEOUT, &[REQUEST_IDENTITIES], IDENTITIES_ANSWER)?;
        let bad = || SignError::Answer { signer: name(socket), why: "its list of keys cannot be read" };
        let mut reader = Reader::new(&answer);
        let count = reader.u32().filter(|count| *count <= MAX_IDENTITIES).ok_or_else(bad)?;
        let mut out = Vec::new();
        for _ in 0..count {
            let blob = reader.string().ok_or_else(bad)?;
            let comment = String::from_utf8_lossy(reader.string().ok_or_else(bad)?).into_owned();
            // Keys of other kinds are not ours to judge.
            if let Ok(public) = PublicKey::from_ssh_blob(blob) {
                out.push((public, comment));
            }
        }
        Ok(out)
    }

    /// The key `public` of the agent at `socket`; it must hold it now.
    pub fn new(socket: &Path, public: PublicKey) -> Result<Self, SignError> {
        if Self::identities(socket)?.iter().any(|(held, _)| *held == public) {
            return Ok(Self { socket: socket.to_owned(), public, timeout: TIMEOUT });
        }
        let why = format!("it does not hold key {}; add it with `ssh-add`", public.id());
        Err(SignError::Refused { signer: name(socket), why })
    }

    /// How long one answer may take; 60 s when it is not said.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

impl Signer for AgentSigner {
    fn public(&self) -> PublicKey {
        self.public.clone()
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LEN], SignError> {
        let mut request = vec![SIGN_REQUEST];
        put_string(&mut request, &self.public.ssh_blob());
        put_string(&mut request, message);
        put_u32(&mut request, 0);
        let answer = ask(&self.socket, self.timeout, &request, SIGN_RESPONSE)?;
        let mut outer = Reader::new(&answer);
        let raw = outer.string().and_then(|signature| {
            let mut inner = Reader::new(signature);
            inner.string().filter(|kind| *kind == b"ssh-ed25519")?;
            inner.string()
        });
        let signer = name(&self.socket);
        match raw {
            Some(raw) => checked(&signer, &self.public, message, raw),
            None => Err(SignError::Answer { signer, why: "it is no ssh-ed25519 signature" }),
        }
    }
}

fn name(socket: &Path) -> String {
    format!("ssh-agent at {}", socket.display())
}

/// Sends one request and reads one answer of the wanted kind, without its kind byte.
fn ask(socket: &Path, timeout: Duration, request: &[u8], wanted: u8) -> Result<Vec<u8>, SignError> {
    let signer = name(socket);
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            SignError::Timeout { signer: signer.clone(), seconds: timeout.as_secs() }
        }
        _ => SignError::Unreachable { signer: signer.clone(), why: e.to_string() },
    };
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    let end = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout)).map_err(failed)?;
    let mut framed = Vec::new();
    put_string(&mut framed, request);
    stream.write_all(&framed).map_err(failed)?;
    let mut len = [0; 4];
    read_until(&mut stream, &mut len, end).map_err(failed)?;
    let len = u32::from_be_bytes(len) as usize;
    if len == 0 || len > MAX_ANSWER {
        return Err(SignError::Answer { signer: name(socket), why: "its length is out of bounds" });
    }
    let mut answer = vec![0; len];
    read_until(&mut stream, &mut answer, end).map_err(failed)?;
    if answer.remove(0) == wanted {
        return Ok(answer);
    }
    let why = "it is locked, does not hold the key, or its user said no".to_owned();
    Err(SignError::Refused { signer: name(socket), why })
}

/// Fills the buffer, in one span of time however small the pieces are that come.
fn read_until(stream: &mut UnixStream, mut buffer: &mut [u8], end: Instant) -> std::io::Result<()> {
    while !buffer.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => buffer = &mut buffer[got..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
