//! Tool by tampering: stock tools take what we write, and each refuses what was touched as far as it looks. The table is
//! `docs/matrix.md`, word for word: a cell that changes is a test that fails. `COUNTERSIGN_WRITE_MATRIX=1` writes it anew.
//!
//! Verifiers of the Sigstore and in-toto world are not on every machine: the directory that `COUNTERSIGN_MATERIALS` names
//! may hold them, as `cargo xtask setup` puts them there. What is not there is skipped by name, and its column not compared.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_proof::verify::Policy;
use countersign_proof::{Role, TrustFile, dsse};
use support::fixture::{self, Fixture};
use support::{python_with_securesystemslib, run, tamper};

/// A bundle as somebody finds it, and the keys that they trust.
struct Case {
    bundle: PathBuf,
    trust: TrustFile,
    _keep: tempfile::TempDir,
}

/// A tool as a person would use it, with the runner's and the verifier's public keys at hand.
struct Tool {
    name: &'static str,
    /// Where it lies below the materials, or on the machine when none is said.
    found: fn() -> bool,
    takes: fn(&Case) -> bool,
}

const TOOLS: &[Tool] = &[
    Tool { name: "countersign verify", found: || true, takes: ours },
    Tool { name: "check.py", found: || python_with_securesystemslib().is_some(), takes: check_py },
    Tool { name: "sha256sum -c", found: || on_path("sha256sum", "--version"), takes: sha256sum },
    Tool { name: "ssh-keygen -Y verify", found: || on_path("ssh-keygen", "-?"), takes: ssh_keygen },
    Tool { name: "openssl pkeyutl", found: || on_path("openssl", "version"), takes: openssl },
    Tool { name: "Node crypto", found: || on_path("node", "--version"), takes: node },
    Tool { name: "git apply", found: || on_path("git", "--version"), takes: git_apply },
    Tool {
        name: "securesystemslib",
        found: || python_with_securesystemslib().is_some(),
        takes: securesystemslib,
    },
    Tool {
        name: "@sigstore/verify",
        found: || material("sigstore/node_modules/@sigstore/verify").is_some(),
        takes: sigstore,
    },
    Tool { name: "cosign", found: || material("cosign/usr/bin/cosign").is_some(), takes: cosign },
];

fn on_path(program: &str, arg: &str) -> bool {
    Command::new(program).arg(arg).output().is_ok()
}

fn material(path: &str) -> Option<PathBuf> {
    let at = Path::new(&std::env::var_os("COUNTERSIGN_MATERIALS")?).join(path);
    at.exists().then_some(at)
}

fn ours(case: &Case) -> bool {
    fixture::verify_with(&case.bundle, &case.trust, &Policy::default()).accepted()
}

/// The short verifier, with the two keys.
fn check_py(case: &Case) -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("verifiers/check.py");
    let mut command = Command::new(python_with_securesystemslib().unwrap());
    command.arg("-I").arg(script).arg(&case.bundle);
    // A key in each of the forms that it reads.
    let (runner, verifier) =
        (fixture::key(fixture::RUNNER).public(), fixture::key(fixture::VERIFIER).public());
    for (flag, key) in [("--runner", runner.to_openssh()), ("--verifier", verifier.to_pem())] {
        let file = case.bundle.with_extension(flag);
        std::fs::write(&file, key).unwrap();
        command.arg(flag).arg(file);
    }
    let output = run(&mut command, b"");
    let words = String::from_utf8_lossy(&output.stderr);
    // It refuses in its own words: no trace of Python's.
    assert!(output.status.success() || words.starts_with("refused: "), "{words}");
    output.status.success()
}

fn sha256sum(case: &Case) -> bool {
    let mut command = Command::new("sha256sum");
    command.current_dir(&case.bundle).args(["--strict", "--quiet", "-c", "SHA256SUMS"]);
    run(&mut command, b"").status.success()
}

fn ssh_keygen(case: &Case) -> bool {
    let allowed = case.bundle.with_extension("allowed");
    std::fs::write(&allowed, case.trust.to_allowed_signers()).unwrap();
    let Ok(sums) = std::fs::read(case.bundle.join("SHA256SUMS")) else { return false };
    let now = countersign_proof::time::rfc3339(fixture::now());
    let digits: String = now.chars().filter(char::is_ascii_digit).collect();
    let mut command = Command::new("ssh-keygen");
    command.args([
        "-Y",
        "verify",
        "-O",
        &format!("verify-time={digits}Z"),
        "-I",
        "ci",
        "-n",
        "countersign",
        "-f",
    ]);
    command.arg(&allowed).arg("-s").arg(case.bundle.join("SHA256SUMS.sig"));
    run(&mut command, &sums).status.success()
}

/// The three statements that every bundle has, and one room's.
const STATEMENTS: [&str; 4] = ["provenance", "turn", "verdict", "test-result.a2-final-0"];

/// Whether a tool takes each of them, by the key of its role.
fn each(case: &Case, takes: impl Fn(&Path, &Path) -> bool) -> bool {
    STATEMENTS.iter().all(|statement| {
        let file = case.bundle.join(format!("statements/{statement}.sigstore.json"));
        let seed = if *statement == "verdict" { fixture::VERIFIER } else { fixture::RUNNER };
        let pem = case.bundle.with_extension(format!("{seed}.pem"));
        std::fs::write(&pem, fixture::key(seed).public().to_pem()).unwrap();
        file.exists() && takes(&file, &pem)
    })
}

/// The bytes that are signed and the signature, put together by hand.
fn envelope(file: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let envelope = &value["dsseEnvelope"];
    let payload = STANDARD.decode(envelope["payload"].as_str()?).ok()?;
    let signature = STANDARD.decode(envelope["signatures"][0]["sig"].as_str()?).ok()?;
    Some((dsse::pae(envelope["payloadType"].as_str()?, &payload), signature))
}

fn openssl(case: &Case) -> bool {
    each(case, |file, pem| {
        let Some((message, signature)) = envelope(file) else { return false };
        let at = |name: &str| case.bundle.with_extension(name);
        std::fs::write(at("message"), message).unwrap();
        std::fs::write(at("signature"), signature).unwrap();
        let mut command = Command::new("openssl");
        command.args(["pkeyutl", "-verify", "-pubin", "-rawin", "-inkey"]).arg(pem);
        command.arg("-in").arg(at("message")).arg("-sigfile").arg(at("signature"));
        run(&mut command, b"").status.success()
    })
}

fn node(case: &Case) -> bool {
    let script = "const c=require('crypto'),f=require('fs'),b=JSON.parse(f.readFileSync(process.argv[1])).dsseEnvelope,\
        p=Buffer.from(b.payload,'base64'),t=b.payloadType,\
        m=Buffer.concat([Buffer.from(`DSSEv1 ${t.length} ${t} ${p.length} `),p]);\
        process.exit(c.verify(null,m,f.readFileSync(process.argv[2]),Buffer.from(b.signatures[0].sig,'base64'))?0:1)";
    each(case, |file, pem| {
        let mut command = Command::new("node");
        run(command.args(["-e", script]).arg(file).arg(pem), b"").status.success()
    })
}

/// The patch over the fixture's base gives the fixture's final tree.
fn git_apply(case: &Case) -> bool {
    let Ok(patch) = std::fs::read(case.bundle.join("patch.diff")) else { return false };
    support::Repo::new().apply(&fixture::base(), &patch).is_ok_and(|files| files == fixture::last())
}

fn securesystemslib(case: &Case) -> bool {
    let script = "import json,sys\n\
        from securesystemslib.dsse import Envelope\nfrom securesystemslib.signer import SSlibKey\n\
        from cryptography.hazmat.primitives.serialization import load_pem_public_key as load\n\
        e=json.load(open(sys.argv[1]))['dsseEnvelope'];i=e['signatures'][0]['keyid']\n\
        k=SSlibKey.from_crypto(load(open(sys.argv[2],'rb').read()))\n\
        Envelope.from_dict(e).verify([SSlibKey(i,k.keytype,k.scheme,k.keyval)],1)";
    let python = python_with_securesystemslib().unwrap();
    each(case, |file, pem| {
        let mut command = Command::new(&python);
        run(command.args(["-I", "-c", script]).arg(file).arg(pem), b"").status.success()
    })
}

fn sigstore(case: &Case) -> bool {
    let script = "const[m,b,k]=process.argv.slice(1),r=n=>require(m+'/../'+n),f=require('fs');\
        const{bundleFromJSON}=r('bundle'),{Verifier,toSignedEntity}=r('verify');\
        const key={publicKey:require('crypto').createPublicKey(f.readFileSync(k)),validFor:()=>true};\
        const trust={certificateAuthorities:[],timestampAuthorities:[],tlogs:[],ctlogs:[],publicKey:()=>key};\
        new Verifier(trust,{tlogThreshold:0,ctlogThreshold:0,timestampThreshold:0})\
        .verify(toSignedEntity(bundleFromJSON(JSON.parse(f.readFileSync(b)))))";
    let modules = material("sigstore/node_modules/@sigstore/verify").unwrap();
    each(case, |file, pem| {
        let mut command = Command::new("node");
        run(command.args(["-e", script]).arg(&modules).arg(file).arg(pem), b"").status.success()
    })
}

fn cosign(case: &Case) -> bool {
    each(case, |file, pem| cosign_about(case, file, pem, "tree/final.manifest"))
}

/// Whether cosign takes a statement as one about a file of the bundle.
fn cosign_about(case: &Case, file: &Path, pem: &Path, about: &str) -> bool {
    // Nothing of Sigstore's public services is trusted, or asked.
    let root = case.bundle.with_extension("root.json");
    let empty = r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#;
    std::fs::write(&root, empty).unwrap();
    let mut command = Command::new(material("cosign/usr/bin/cosign").unwrap());
    command.args(["verify-blob-attestation", "--new-bundle-format", "--insecure-ignore-tlog"]);
    command.arg("--trusted-root").arg(&root).arg("--key").arg(pem).arg("--bundle").arg(file);
    command.arg(case.bundle.join(about)).env("HOME", case.bundle.parent().unwrap());
    run(&mut command, b"").status.success()
}

/// The rows: what is done to a bundle, by the name in `tamper::ALL` or one of the two below.
const ROWS: &[&str] = &[
    "a byte of the patch flipped",
    "a byte of a statement flipped",
    "a byte of the list flipped",
    "the list edited after a file",
    "the list signed by a stranger",
    "the list's signature stripped",
    "the list's signature of another list",
    "a second signature, insider",
    "the key id swapped, insider",
    "signatures of two statements swapped, insider",
    "a statement signed by a stranger, insider",
    "a statement dropped",
    "a statement dropped, the list edited",
    "a statement dropped, insider",
    "a turn and provenance of a foreign run, insider",
    "a replayed verdict of another turn, insider",
    "a failure's result shown as success, insider",
    "a turn turned to verified over a failed room, by all keys",
    "everything but the journal turned to verified, by all keys",
    "a file added",
    "a link in a file's place",
    "the journal cut at an event, insider",
    "an event changed, insider",
    "a pre-image changed",
    "the patch damaged, insider",
    "the final tree changed, insider",
    STRANGER,
    EXPIRED,
];

/// Whole and good, by a key that nobody trusts.
const STRANGER: &str = "signed anew by a stranger";
/// Whole and good, by a key that was not valid any more when it signed.
const EXPIRED: &str = "a key that had expired";

fn case(row: &str) -> Case {
    let keep = tempfile::tempdir().unwrap();
    let stranger = || fixture::key(fixture::STRANGER);
    let fixture = match row {
        STRANGER => Fixture { runner: stranger(), verifier: stranger(), ..Fixture::default() },
        _ => Fixture::default(),
    };
    let bundle = fixture.write(keep.path()).path;
    if let Some(tamper) = tamper::ALL.iter().find(|tamper| tamper.name == row) {
        (tamper.apply)(&bundle);
    }
    let mut trust = fixture::trust();
    if row == EXPIRED {
        trust = TrustFile::default();
        for (name, seed, role) in
            [("ci", fixture::RUNNER, Role::Runner), ("desk", fixture::VERIFIER, Role::Verifier)]
        {
            let mut key = fixture::trusted(name, seed, &[role]);
            key.not_after = Some(fixture::at("2026-11-29T00:00:00Z"));
            trust.add(key).unwrap();
        }
    }
    Case { bundle, trust, _keep: keep }
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/matrix.md")
}

/// The rows of the page's table, cell by cell.
fn written(page: &str) -> Vec<Vec<&str>> {
    page.lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn stock_tools_take_a_good_bundle_and_refuse_what_they_can_see() {
    let test = "stock_tools_take_a_good_bundle_and_refuse_what_they_can_see";
    for row in ROWS {
        let known = [STRANGER, EXPIRED].contains(row) || tamper::ALL.iter().any(|tamper| tamper.name == *row);
        assert!(known, "{row}");
    }
    let here: Vec<bool> = TOOLS
        .iter()
        .map(|tool| {
            let found = (tool.found)();
            if !found {
                eprintln!("SKIPPED: {test}: {} is not here", tool.name);
            }
            found
        })
        .collect();
    let good = case("");
    for (tool, here) in TOOLS.iter().zip(&here) {
        assert!(!here || (tool.takes)(&good), "{} refuses a good bundle", tool.name);
    }
    // Most of the time goes to starting programs.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let cells = std::sync::Mutex::new(std::collections::BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(row) = ROWS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let case = case(row);
                    let word = |(tool, here): (&Tool, &bool)| match here {
                        false => "skipped",
                        true if (tool.takes)(&case) => "cannot see",
                        true => "refuses",
                    };
                    let found: Vec<&str> = TOOLS.iter().zip(&here).map(word).collect();
                    cells.lock().unwrap().insert(*row, found);
                }
            });
        }
    });
    let cells = cells.into_inner().unwrap();
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let mut table =
        format!("| what was done | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(TOOLS.len()));
    for row in ROWS {
        assert_eq!(cells[row][0], "refuses", "{row}");
        writeln!(table, "| {row} | {} |", cells[row].join(" | ")).unwrap();
    }
    let old = std::fs::read_to_string(page()).unwrap();
    if std::env::var_os("COUNTERSIGN_WRITE_MATRIX").is_some() {
        let head = old.find("| what was done").map_or(old.as_str(), |at| &old[..at]);
        let tail = old.rfind("|\n").map_or("", |at| &old[at + 2..]);
        std::fs::write(page(), format!("{head}{table}{tail}")).unwrap();
    }
    let page = std::fs::read_to_string(page()).unwrap();
    let (is, wanted) = (written(&table), written(&page));
    assert_eq!(is.len(), wanted.len(), "docs/matrix.md has other rows:\n{table}");
    for (is, wanted) in is.iter().zip(&wanted) {
        for (is_cell, wanted_cell) in is.iter().zip(wanted) {
            assert!(*is_cell == "skipped" || is_cell == wanted_cell, "{}: {is:?}, not {wanted:?}", is[0]);
        }
        assert_eq!(is.len(), wanted.len(), "{}", is[0]);
    }
}

#[test]
fn cosign_takes_a_statement_only_about_its_files() {
    let test = "cosign_takes_a_statement_only_about_its_files";
    if material("cosign/usr/bin/cosign").is_none() {
        eprintln!("SKIPPED: {test}: cosign is not here");
        return;
    }
    let case = case("");
    let pem = case.bundle.with_extension("pem");
    std::fs::write(&pem, fixture::key(fixture::VERIFIER).public().to_pem()).unwrap();
    let verdict = case.bundle.join("statements/verdict.sigstore.json");
    assert!(cosign_about(&case, &verdict, &pem, "patch.diff"));
    assert!(!cosign_about(&case, &verdict, &pem, "tree/base.manifest"));
}
