//! What a journal tells of its turn, held against the signed statement: each line of the input is an event, chained and signed
//! here, so that whatever an event says gets as far as the comparison.
#![no_main]

use std::sync::LazyLock;

use countersign_proof::journal::Chain;
use countersign_proof::statement::{JournalHead, Statement, Turn};
use countersign_proof::time::parse_rfc3339;
use countersign_proof::verify::{Options, Policy, excerpt};
use countersign_proof::{SecretKey, TrustFile, dsse};
use countersign_types::{Digest, canonical_json};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// A turn as it was signed once, by a key that is trusted here.
struct Signed {
    key: SecretKey,
    trust: TrustFile,
    turn: Statement<Turn>,
}

static SIGNED: LazyLock<Option<Signed>> = LazyLock::new(|| {
    let golden = include_bytes!("../../crates/proof/tests/golden/v2.bundle/statements/turn.sigstore.json");
    let turn = Statement::<Turn>::read(&dsse::open(golden).ok()?.payload).ok()?;
    let key = SecretKey::from_seed(&[7; 32]);
    let trust = format!(
        "version = 1\n[[key]]\nname = \"a\"\nroles = [\"runner\"]\npublic = \"{}\"\n",
        key.public().to_openssh()
    );
    Some(Signed { trust: TrustFile::read(&trust).ok()?, key, turn })
});

fuzz_target!(|bytes: &[u8]| {
    let Some(signed) = SIGNED.as_ref() else { panic!("the golden statement cannot be read") };
    let mut turn = signed.turn.clone();
    let session = turn.predicate.session.clone();
    let Ok(start) = Chain::new(&session).finish() else { return };
    let (mut head, mut journal) = (start.head, Vec::new());
    let mut seq = 0;
    for line in bytes.split(|byte| *byte == b'\n').take(64) {
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else { continue };
        let Some(fields) = event.as_object_mut() else { continue };
        seq += 1;
        for (name, value) in [("session", json!(session)), ("seq", json!(seq)), ("prev", json!(head))] {
            fields.insert(name.to_owned(), value);
        }
        // What has no canonical form is an event all the same.
        let line = canonical_json(&event).or_else(|_| serde_json::to_vec(&event)).unwrap_or_default();
        head = Digest::of(&line);
        journal.extend_from_slice(&line);
        journal.push(b'\n');
    }
    turn.predicate.journal = JournalHead { seq, head };
    let Ok(statement) = turn.to_bytes() else { return };
    let Ok(envelope) = dsse::seal(&signed.key, &statement) else { return };
    let policy = Policy::default();
    let now = parse_rfc3339("2027-01-01T00:00:00Z").unwrap_or_default();
    let options = Options { trust: &signed.trust, policy: &policy, now, verdicts: &[] };
    let report = excerpt("turn.sigstore.json", &envelope, &journal, &options);
    assert_eq!(report.events, Some(seq), "chained and signed: {:?}", report.findings);
});
