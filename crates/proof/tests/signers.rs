//! Signers outside of this process, against the real ssh-agent and against liars.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use countersign_proof::bundle::{Signing, UnsignedReason};
use countersign_proof::{AgentSigner, CommandSigner, SecretKey, SignError, Signer, dsse, sshsig};
use support::program_is_here;

/// For what never answers.
const SHORT: Duration = Duration::from_millis(300);

/// For what answers at once, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn key() -> SecretKey {
    SecretKey::from_seed(&[42; 32])
}

fn shell(script: &str) -> CommandSigner {
    CommandSigner::new(vec!["sh".into(), "-c".into(), script.into()], key().public())
}

/// A file with the signature of `message`, for commands that only print it.
fn answer(dir: &Path, message: &[u8]) -> PathBuf {
    let at = dir.join("answer");
    std::fs::write(&at, key().sign(message)).unwrap();
    at
}

#[test]
fn a_command_signs_raw_or_in_base64() {
    let dir = tempfile::tempdir().unwrap();
    let at = answer(dir.path(), b"message");
    for script in [
        format!("cat >/dev/null; cat {}", at.display()),
        format!("cat >/dev/null; base64 -w0 {}", at.display()),
        // It need not read what it gets.
        format!("cat {}", at.display()),
    ] {
        assert_eq!(shell(&script).sign(b"message").unwrap(), key().sign(b"message"), "{script}");
    }
}

#[test]
fn openssl_signs_as_a_command_and_its_envelope_verifies() {
    if !program_is_here("openssl", "version", "openssl_signs_as_a_command_and_its_envelope_verifies") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("key.pem");
    std::fs::write(&pem, key().to_pkcs8_pem().as_bytes()).unwrap();
    let message = dir.path().join("message");
    let script = format!(
        "cat >{m}; openssl pkeyutl -sign -inkey {k} -rawin -in {m}",
        m = message.display(),
        k = pem.display()
    );
    let sealed = dsse::seal(&shell(&script), b"{}").unwrap();
    assert!(dsse::open(&sealed).unwrap().is_by(&key().public()));
}

#[test]
fn a_command_that_does_not_sign_is_told_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let other = answer(dir.path(), b"another message");
    let within =
        |script: &str, time: Duration| shell(script).with_timeout(time).sign(b"message").unwrap_err();
    let error = |script: &str| within(script, PATIENCE);
    assert!(matches!(error(&format!("cat {}", other.display())), SignError::WrongKey { .. }));
    assert!(matches!(error("echo hello"), SignError::Answer { .. }));
    assert!(matches!(error("true"), SignError::Answer { .. }));
    assert!(matches!(
        error("head -c 100000 /dev/zero"),
        SignError::Answer { .. } | SignError::Refused { .. }
    ));
    assert!(matches!(within("sleep 60", SHORT), SignError::Timeout { .. }));
    assert!(matches!(within("exec >&-; sleep 60", SHORT), SignError::Timeout { .. }));
    let refused = error("echo 'no token' >&2; exit 3").to_string();
    assert!(refused.contains("no token") && refused.contains('3'), "{refused}");
    let missing = CommandSigner::new(vec!["./no-such-signer".into()], key().public());
    assert!(matches!(missing.sign(b"x"), Err(SignError::Unreachable { .. })));
    assert!(matches!(
        CommandSigner::new(vec![], key().public()).sign(b"x"),
        Err(SignError::Unreachable { .. })
    ));
}

struct Agent {
    child: Child,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent");
        let mut child = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Its first line comes when it listens.
        let mut first = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        Self { child, socket, _dir: dir }
    }

    fn add(&self, key: &SecretKey) {
        let at = self.socket.with_extension("key");
        let mut options = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create(true).truncate(true), 0o600);
        options.open(&at).unwrap().write_all(key.to_openssh().unwrap().as_bytes()).unwrap();
        let mut command = Command::new("ssh-add");
        command.arg(&at).env("SSH_AUTH_SOCK", &self.socket);
        let output = support::run(&mut command, b"");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ssh_agent_makes_the_same_signatures_as_the_key() {
    if !program_is_here("ssh-agent", "-h", "ssh_agent_makes_the_same_signatures_as_the_key") {
        return;
    }
    let agent = Agent::start();
    assert_eq!(AgentSigner::identities(&agent.socket).unwrap(), []);
    let absent = AgentSigner::new(&agent.socket, key().public()).unwrap_err();
    assert!(absent.to_string().contains("ssh-add"), "{absent}");
    agent.add(&SecretKey::from_seed(&[1; 32]));
    agent.add(&key());
    assert_eq!(AgentSigner::identities(&agent.socket).unwrap().len(), 2);
    let signer = AgentSigner::new(&agent.socket, key().public()).unwrap();
    // Ed25519 is deterministic, so the very same bytes come from both.
    assert_eq!(dsse::seal(&signer, b"{}").unwrap(), dsse::seal(&key(), b"{}").unwrap());
    assert_eq!(sshsig::sign(&signer, b"sums\n").unwrap(), sshsig::sign(&key(), b"sums\n").unwrap());
}

/// An agent that answers every request with these bytes.
fn liar(answers: Vec<Vec<u8>>) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for (answer, stream) in answers.into_iter().zip(listener.incoming()) {
            let mut stream = stream.unwrap();
            let mut len = [0; 4];
            let _ = stream.read_exact(&mut len);
            let mut request = vec![0; u32::from_be_bytes(len) as usize];
            let _ = stream.read_exact(&mut request);
            // A long answer comes byte by byte, for ever.
            let pause = Duration::from_millis(if answer.len() > 1000 { 20 } else { 0 });
            for byte in &answer {
                std::thread::sleep(pause);
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
            }
            // An empty answer is silence.
            if answer.is_empty() {
                std::thread::park();
            }
        }
    });
    (dir, socket)
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(body.len() + 1).unwrap().to_be_bytes().to_vec();
    out.push(kind);
    out.extend_from_slice(body);
    out
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

#[test]
fn an_agent_that_lies_is_told_and_never_waited_for() {
    let blob = [string(b"ssh-ed25519"), string(key().public().as_bytes())].concat();
    let list = framed(12, &[&[0, 0, 0, 1][..], &string(&blob), &string(b"comment")].concat());
    let signature = |bytes: &[u8]| framed(14, &string(&[string(b"ssh-ed25519"), string(bytes)].concat()));
    let answers = [
        (signature(&[7; 64]), "another key"),
        (signature(&[7; 63]), "64 bytes"),
        (signature(&key().sign(b"another message")), "another key"),
        (framed(14, &string(&[string(b"ssh-rsa"), string(&[7; 64])].concat())), "no ssh-ed25519"),
        (framed(14, b"\xff\xff\xff\xff"), "no ssh-ed25519"),
        (framed(5, b""), "does not hold the key"),
        (vec![0, 0, 0, 0], "out of bounds"),
        (vec![0xff; 4], "out of bounds"),
        (vec![0, 0, 0, 9, 14], "could not be reached"),
        (Vec::new(), "did not answer"),
        (framed(14, &vec![0; 100_000]), "did not answer"),
    ];
    for (answer, says) in answers {
        let time = if says == "did not answer" { SHORT } else { PATIENCE };
        let (_dir, socket) = liar(vec![list.clone(), answer]);
        let signer = AgentSigner::new(&socket, key().public()).unwrap();
        let error = signer.with_timeout(time).sign(b"message").unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    for list in [framed(12, b"\xff\xff\xff\xff"), framed(12, &[0, 0, 0, 9]), framed(99, b""), framed(12, b"")]
    {
        let (_dir, socket) = liar(vec![list]);
        assert!(AgentSigner::identities(&socket).is_err());
    }
    let nobody = Path::new("/nonexistent/agent");
    assert!(matches!(AgentSigner::identities(nobody), Err(SignError::Unreachable { .. })));
}

#[test]
fn a_signer_that_fails_leaves_no_bundle_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let failing = shell("exit 1");
    let signing = Signing::Keys { runner: &failing, verifier: &failing };
    let shown = format!("{signing:?}");
    assert!(!shown.contains("KEY-----"), "{shown}");
    let written = support::fixture::Fixture::default().write_signed_by(dir.path(), signing);
    assert!(written.unwrap_err().to_string().contains("refused"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // The caller may then write it unsigned, which says so.
    let unsigned = Signing::Unsigned { reason: UnsignedReason::SignerFailed, detail: "exit 1" };
    let written = support::fixture::Fixture::default().write_signed_by(dir.path(), unsigned).unwrap();
    let report = support::fixture::verify_it(&written.path);
    assert_eq!((report.findings.len(), report.unsigned), (0, Some(UnsignedReason::SignerFailed)));
}
