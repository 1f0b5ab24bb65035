//! The payloads of statements: of each kind, and in one spelling only.
#![no_main]

use countersign_proof::dsse;
use countersign_proof::statement::{Predicate, Provenance, Statement, TestResult, Turn, Verdict};
use libfuzzer_sys::fuzz_target;

fn one<P: Predicate>(bytes: &[u8]) -> Option<Statement<P>> {
    let statement = Statement::<P>::read(bytes).ok()?;
    assert_eq!(statement.to_bytes().ok().as_deref(), Some(bytes));
    Some(statement)
}

fuzz_target!(|bytes: &[u8]| {
    // A whole envelope serves as well: what it holds is what is read of it.
    let opened = dsse::open(bytes).map(|sealed| sealed.payload);
    let bytes = opened.as_deref().unwrap_or(bytes);
    one::<Provenance>(bytes);
    one::<Turn>(bytes);
    one::<Verdict>(bytes);
    if let Some(result) = one::<TestResult>(bytes) {
        let _ = result.predicate.facts();
    }
});
