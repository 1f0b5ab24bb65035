//! Stock tools take what we write, and refuse what was touched as far as they look. What a tool cannot see is said.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_proof::{PublicKey, SecretKey, dsse, sshsig};
use support::fixture::{self, Fixture};
use support::{program_is_here, run, tamper};

/// Whether a tool takes the bundle, as a person would use it with the runner's key at hand.
type Tool = fn(&Path) -> bool;

const TOOLS: &[(&str, &str, &str, Tool)] = &[
    ("sha256sum -c", "sha256sum", "--version", sha256sum),
    ("ssh-keygen -Y verify", "ssh-keygen", "-?", ssh_keygen),
    ("openssl pkeyutl", "openssl", "version", openssl),
    ("node crypto", "node", "--version", node),
    ("git apply", "git", "--version", git_apply),
];

fn sha256sum(bundle: &Path) -> bool {
    let mut command = Command::new("sha256sum");
    command.current_dir(bundle).args(["--strict", "--quiet", "-c", "SHA256SUMS"]);
    run(&mut command, b"").status.success()
}

fn ssh_keygen(bundle: &Path) -> bool {
    let allowed = bundle.with_extension("allowed");
    std::fs::write(&allowed, fixture::trust().to_allowed_signers()).unwrap();
    let Ok(sums) = std::fs::read(bundle.join("SHA256SUMS")) else { return false };
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "verify", "-I", "ci", "-n", "countersign", "-f"]).arg(&allowed);
    command.arg("-s").arg(bundle.join("SHA256SUMS.sig"));
    run(&mut command, &sums).status.success()
}

/// The bytes that are signed, the signature and the key of the turn's statement, put together by hand.
fn envelope(bundle: &Path) -> Option<(Vec<u8>, Vec<u8>, PublicKey)> {
    let file = std::fs::read(bundle.join("statements/turn.sigstore.json")).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&file).ok()?;
    let envelope = &value["dsseEnvelope"];
    let payload = STANDARD.decode(envelope["payload"].as_str()?).ok()?;
    let signature = STANDARD.decode(envelope["signatures"][0]["sig"].as_str()?).ok()?;
    Some((
        dsse::pae(envelope["payloadType"].as_str()?, &payload),
        signature,
        fixture::key(fixture::RUNNER).public(),
    ))
}

fn openssl(bundle: &Path) -> bool {
    let Some((message, signature, key)) = envelope(bundle) else { return false };
    let at = |name: &str| bundle.with_extension(name);
    std::fs::write(at("message"), message).unwrap();
    std::fs::write(at("signature"), signature).unwrap();
    std::fs::write(at("pem"), key.to_pem()).unwrap();
    let mut command = Command::new("openssl");
    command.args(["pkeyutl", "-verify", "-pubin", "-rawin", "-inkey"]).arg(at("pem"));
    command.arg("-in").arg(at("message")).arg("-sigfile").arg(at("signature"));
    run(&mut command, b"").status.success()
}

fn node(bundle: &Path) -> bool {
    let script = "const c=require('crypto'),f=require('fs'),b=JSON.parse(f.readFileSync(process.argv[1])).dsseEnvelope,\
        p=Buffer.from(b.payload,'base64'),t=b.payloadType,\
        m=Buffer.concat([Buffer.from(`DSSEv1 ${t.length} ${t} ${p.length} `),p]);\
        process.exit(c.verify(null,m,process.argv[2],Buffer.from(b.signatures[0].sig,'base64'))?0:1)";
    let mut command = Command::new("node");
    command.args(["-e", script]).arg(bundle.join("statements/turn.sigstore.json"));
    command.arg(fixture::key(fixture::RUNNER).public().to_pem());
    run(&mut command, b"").status.success()
}

/// The patch over the fixture's base gives the fixture's final tree.
fn git_apply(bundle: &Path) -> bool {
    let Ok(patch) = std::fs::read(bundle.join("patch.diff")) else { return false };
    support::Repo::new().apply(&fixture::base(), &patch).is_ok_and(|files| files == fixture::last())
}

/// These names of [`tamper::ALL`] stand for the kinds of tampering that a stock tool could see.
const SHOWN: &[&str] = &[
    "a byte of the patch flipped",
    "a byte of a statement flipped",
    "a byte of the list flipped",
    "the list edited after a file",
    "a statement dropped",
    "a statement dropped, the list edited",
    "a statement dropped, insider",
    "signatures of two statements swapped, insider",
    "a second signature, insider",
    "the key id swapped, insider",
    "a statement signed by a stranger, insider",
    "the list signed by a stranger",
    "the list's signature stripped",
    "a replayed verdict of another turn, insider",
    "a failure's result shown as success, insider",
    "the journal cut at an event, insider",
    "a pre-image changed",
    "the patch damaged, insider",
    "a file added",
];

#[test]
fn stock_tools_take_a_good_bundle_and_refuse_what_they_can_see() {
    let test = "stock_tools_take_a_good_bundle_and_refuse_what_they_can_see";
    if !TOOLS.iter().all(|(_, program, arg, _)| program_is_here(program, arg, test)) {
        return;
    }
    let names: Vec<&str> = TOOLS.iter().map(|(name, ..)| *name).collect();
    let mut table = format!("| tampering | countersign verify | {} |\n", names.join(" | "));
    writeln!(table, "|---|---|{}", "---|".repeat(TOOLS.len())).unwrap();
    let mut row = |name: &str, bundle: &Path| {
        let ours = fixture::verify_it(bundle).accepted();
        let word = |takes: bool| if takes { "cannot see" } else { "refuses" };
        let cells: Vec<&str> = TOOLS.iter().map(|(.., tool)| word(tool(bundle))).collect();
        writeln!(table, "| {name} | {} | {} |", word(ours), cells.join(" | ")).unwrap();
        ours
    };
    let dir = tempfile::tempdir().unwrap();
    let good = Fixture::default().write(dir.path()).path;
    for (name, .., tool) in TOOLS {
        assert!(tool(&good), "{name} refuses a good bundle");
    }
    for name in SHOWN {
        let tamper = tamper::ALL.iter().find(|tamper| tamper.name == *name).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let bundle = Fixture::default().write(dir.path()).path;
        (tamper.apply)(&bundle);
        assert!(!row(name, &bundle), "{name}");
    }
    insta::assert_snapshot!(table);
}

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
