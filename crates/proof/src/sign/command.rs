//! A command that signs: bytes on stdin, the signature on stdout. For keys in a hardware token or a key service.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{SignError, Signer, checked};
use crate::key::{PublicKey, SIGNATURE_LEN};

/// The most that is read of the command's answer and of its complaint, bytes each.
const MAX_OUTPUT: u64 = 4096;

/// A person may have to touch a token.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the complaint of a command that has ended is waited for.
const COMPLAINT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs `argv` for each signature. It gets the bytes to be signed on stdin and answers with the 64 bytes of the
/// signature, raw or as one line of base64.
#[derive(Debug)]
pub struct CommandSigner {
    argv: Vec<String>,
    public: PublicKey,
    timeout: Duration,
}

impl CommandSigner {
    #[must_use]
    pub fn new(argv: Vec<String>, public: PublicKey) -> Self {
        Self { argv, public, timeout: TIMEOUT }
    }

    /// How long one signature may take; 60 s when it is not said. The command is killed then.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn name(&self) -> String {
        self.argv.first().cloned().unwrap_or_default()
    }
}

impl Signer for CommandSigner {
    fn public(&self) -> PublicKey {
        self.public.clone()
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; SIGNATURE_LEN], SignError> {
        let signer = self.name();
        let unreachable =
            |e: std::io::Error| SignError::Unreachable { signer: signer.clone(), why: e.to_string() };
        let (program, args) = self.argv.split_first().ok_or_else(|| SignError::Unreachable {
            signer: signer.clone(),
            why: "its command line is empty".to_owned(),
        })?;
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = Running(command.spawn().map_err(unreachable)?);
        let (sender, ended) = mpsc::channel();
        let (stdin, stdout, stderr) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let bytes = message.to_vec();
        // A command that answers without reading everything is judged by its answer.
        std::thread::spawn(move || stdin.map(|mut pipe| pipe.write_all(&bytes)));
        let (complain, complaint) = mpsc::channel();
        std::thread::spawn(move || complain.send(read_some(stderr)));
        std::thread::spawn(move || sender.send(read_some(stdout)));
        let timeout = || SignError::Timeout { signer: signer.clone(), seconds: self.timeout.as_secs() };
        let output = ended.recv_timeout(self.timeout).map_err(|_| timeout())?.map_err(unreachable)?;
        let status = child.wait(self.timeout).map_err(unreachable)?.ok_or_else(timeout)?;
        if !status.success() {
            // What it left running may hold the pipe open.
            let words =
                complaint.recv_timeout(COMPLAINT_TIMEOUT).ok().and_then(Result::ok).unwrap_or_default();
            let words = crate::strict::shown(String::from_utf8_lossy(&words).trim());
            return Err(SignError::Refused { signer, why: format!("{status}: {words}") });
        }
        if output.len() == SIGNATURE_LEN {
            return checked(&signer, &self.public, message, &output);
        }
        match STANDARD.decode(output.trim_ascii()) {
            Ok(raw) => checked(&signer, &self.public, message, &raw),
            Err(_) => Err(SignError::Answer { signer, why: "it is neither 64 raw bytes nor base64" }),
        }
    }
}

fn read_some(pipe: Option<impl std::io::Read>) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT).read_to_end(&mut out)?;
    }
    Ok(out)
}

/// Killed with its whole process group unless it was waited for.
struct Running(Child);

impl Running {
    /// How often a child that has closed its output is asked whether it is gone.
    const POLL: Duration = Duration::from_millis(5);

    fn wait(&mut self, timeout: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
        let mut left = timeout;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if left.is_zero() {
                return Ok(None);
            }
            let pause = left.min(Self::POLL);
            std::thread::sleep(pause);
            left -= pause;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}
