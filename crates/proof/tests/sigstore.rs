//! Verifiers of the Sigstore and in-toto world take our statements. They are not on every machine: the directory that
//! `COUNTERSIGN_STOCK_DIR` names may hold `cosign`, `node_modules/@sigstore/{bundle,verify}` and
//! `python/securesystemslib`. What is not there is skipped by name.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::fixture::{self, Fixture};
use support::{run, tamper};

fn stock(name: &str, test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("COUNTERSIGN_STOCK_DIR").map(|dir| Path::new(&dir).join(name));
    let found = found.filter(|at| at.exists());
    if found.is_none() {
        eprintln!("SKIPPED: {test}: no {name} in COUNTERSIGN_STOCK_DIR");
    }
    found
}

const STATEMENTS: [&str; 4] = ["provenance", "turn", "verdict", "test-result.a2-final-0"];

fn path(bundle: &Path, statement: &str) -> PathBuf {
    bundle.join(format!("statements/{statement}.sigstore.json"))
}

fn pem(bundle: &Path, statement: &str) -> PathBuf {
    let seed = if statement == "verdict" { fixture::VERIFIER } else { fixture::RUNNER };
    let at = bundle.with_extension(format!("{seed}.pem"));
    std::fs::write(&at, fixture::key(seed).public().to_pem()).unwrap();
    at
}

/// Holds a tool against good statements, a damaged one, and one of another signer.
fn hold(takes: &dyn Fn(&Path, &str) -> bool) {
    let dir = tempfile::tempdir().unwrap();
    let good = Fixture::default().write(dir.path()).path;
    for statement in STATEMENTS {
        assert!(takes(&good, statement), "{statement} is good");
    }
    let refused =
        ["signatures of two statements swapped, insider", "a statement signed by a stranger, insider"];
    for name in refused {
        let dir = tempfile::tempdir().unwrap();
        let bundle = Fixture::default().write(dir.path()).path;
        (tamper::ALL.iter().find(|tamper| tamper.name == name).unwrap().apply)(&bundle);
        assert!(!takes(&bundle, "turn"), "{name}");
    }
}

#[test]
fn cosign_takes_our_statements_and_only_about_their_files() {
    let test = "cosign_takes_our_statements_and_only_about_their_files";
    let Some(cosign) = stock("cosign", test) else { return };
    let about = |bundle: &Path, statement: &str, blob: &Path| {
        // Nothing of Sigstore's public services is trusted, or asked.
        let root = bundle.with_extension("root.json");
        let empty = r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#;
        std::fs::write(&root, empty).unwrap();
        let mut command = Command::new(&cosign);
        command.args(["verify-blob-attestation", "--new-bundle-format", "--insecure-ignore-tlog"]);
        command.arg("--trusted-root").arg(&root).arg("--key").arg(pem(bundle, statement));
        command.arg("--bundle").arg(path(bundle, statement)).arg(blob).env("HOME", bundle.parent().unwrap());
        run(&mut command, b"").status.success()
    };
    hold(&|bundle, statement| about(bundle, statement, &bundle.join("tree/final.manifest")));
    let dir = tempfile::tempdir().unwrap();
    let good = Fixture::default().write(dir.path()).path;
    assert!(about(&good, "verdict", &good.join("patch.diff")));
    assert!(!about(&good, "verdict", &good.join("tree/base.manifest")));
}

#[test]
fn sigstores_verifier_for_node_takes_our_statements() {
    let test = "sigstores_verifier_for_node_takes_our_statements";
    let Some(modules) = stock("node_modules/@sigstore/verify", test) else { return };
    let script = "const[m,b,k]=process.argv.slice(1),r=n=>require(m+'/../'+n),f=require('fs');\
        const{bundleFromJSON}=r('bundle'),{Verifier,toSignedEntity}=r('verify');\
        const key={publicKey:require('crypto').createPublicKey(f.readFileSync(k)),validFor:()=>true};\
        const trust={certificateAuthorities:[],timestampAuthorities:[],tlogs:[],ctlogs:[],publicKey:()=>key};\
        new Verifier(trust,{tlogThreshold:0,ctlogThreshold:0,timestampThreshold:0})\
        .verify(toSignedEntity(bundleFromJSON(JSON.parse(f.readFileSync(b)))))";
    hold(&|bundle, statement| {
        let mut command = Command::new("node");
        command.args(["-e", script]).arg(&modules).arg(path(bundle, statement)).arg(pem(bundle, statement));
        run(&mut command, b"").status.success()
    });
}

#[test]
fn securesystemslib_takes_our_envelopes() {
    let Some(library) = stock("python/securesystemslib", "securesystemslib_takes_our_envelopes") else {
        return;
    };
    let script = "import json,sys\nsys.path.insert(0,sys.argv[1])\n\
        from securesystemslib.dsse import Envelope\nfrom securesystemslib.signer import SSlibKey\n\
        from cryptography.hazmat.primitives.serialization import load_pem_public_key as load\n\
        e=json.load(open(sys.argv[2]))['dsseEnvelope'];i=e['signatures'][0]['keyid']\n\
        k=SSlibKey.from_crypto(load(open(sys.argv[3],'rb').read()))\n\
        Envelope.from_dict(e).verify([SSlibKey(i,k.keytype,k.scheme,k.keyval)],1)";
    hold(&|bundle, statement| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(library.parent().unwrap());
        command.arg(path(bundle, statement)).arg(pem(bundle, statement));
        run(&mut command, b"").status.success()
    });
}
