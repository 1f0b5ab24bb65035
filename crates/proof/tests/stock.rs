//! Keys and signatures of the machine's own tools are read, and ours by them.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::process::Command;

use countersign_proof::{PublicKey, SecretKey, sshsig};
use support::{fixture, program_is_here, run};

#[test]
fn keys_of_ssh_keygen_and_openssl_are_read_and_ours_by_them() {
    let test = "keys_of_ssh_keygen_and_openssl_are_read_and_ours_by_them";
    if !(program_is_here("ssh-keygen", "-?", test) && program_is_here("openssl", "version", test)) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    let tool = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let output = run(command.current_dir(dir.path()).args(args), b"");
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // Theirs.
    tool("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "me@box", "-f", "ssh"]);
    let ssh = SecretKey::read(&read("ssh")).unwrap();
    assert_eq!((ssh.comment(), PublicKey::read(&read("ssh.pub"))), ("me@box", Ok(ssh.public())));
    tool("ssh-keygen", &["-q", "-t", "ed25519", "-N", "secret", "-f", "locked"]);
    assert_eq!(SecretKey::read(&read("locked")).unwrap_err(), countersign_proof::KeyError::Encrypted);
    tool("ssh-keygen", &["-q", "-t", "ecdsa", "-N", "", "-f", "ecdsa"]);
    assert!(matches!(SecretKey::read(&read("ecdsa")), Err(countersign_proof::KeyError::Algorithm(_))));
    tool("openssl", &["genpkey", "-algorithm", "ed25519", "-out", "pkcs8"]);
    tool("openssl", &["pkey", "-in", "pkcs8", "-pubout", "-out", "pkcs8.pub"]);
    let pkcs8 = SecretKey::read(&read("pkcs8")).unwrap();
    assert_eq!(PublicKey::read(&read("pkcs8.pub")), Ok(pkcs8.public()));
    assert_eq!(pkcs8.to_pkcs8_pem().as_str(), read("pkcs8"), "byte for byte");
    // Ours.
    let ours = SecretKey::generate("ours").unwrap();
    let private = |name: &str, text: &str| {
        std::fs::write(at(name), text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(at(name), mode).unwrap();
    };
    private("ours", &ours.to_openssh().unwrap());
    let line = tool("ssh-keygen", &["-y", "-f", "ours"]);
    assert_eq!(PublicKey::read(&line), Ok(ours.public()));
    private("ours.pem", &ours.to_pkcs8_pem());
    assert_eq!(tool("openssl", &["pkey", "-in", "ours.pem", "-pubout"]), ours.public().to_pem());
    // The key id, as anybody computes it.
    tool("openssl", &["pkey", "-in", "ours.pem", "-pubout", "-outform", "DER", "-out", "der"]);
    assert!(tool("openssl", &["dgst", "-sha256", "-r", "der"]).starts_with(ours.public().id().as_str()));
}

#[test]
fn signatures_of_ssh_keygen_are_read_and_are_the_same_as_ours() {
    let test = "signatures_of_ssh_keygen_are_read_and_are_the_same_as_ours";
    if !program_is_here("ssh-keygen", "-?", test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let key = fixture::key(7);
    let at = dir.path().join("key");
    std::fs::write(&at, key.to_openssh().unwrap().as_bytes()).unwrap();
    std::fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let sign = |hash: &str| {
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", "sign", "-n", "countersign", "-O", &format!("hashalg={hash}"), "-f"]).arg(&at);
        let output = run(&mut command, b"sums\n");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(String::from_utf8(sign("sha512")).unwrap(), sshsig::sign(&key, b"sums\n").unwrap());
    assert_eq!(sshsig::verify(&sign("sha256"), b"sums\n"), Ok(key.public()));
}
