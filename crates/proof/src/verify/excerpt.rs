//! An excerpt of the evidence: a journal's lines, which hold no text, and the signed statement that names their head. Who
//! is given one and a payload with its salt learns that payload and no other.

use serde::Serialize;

use super::account::Account;
use super::report::{Claims, SignatureState, SignerSeen, is_about_signature};
use super::signatures::{RoleKey, open_statement, trusted};
use super::{Finding, Options};
use crate::dsse;
use crate::journal::Chain;
use crate::key::Role;
use crate::statement::{Statement, Turn};
use crate::time::parse_rfc3339;

/// What the check of an excerpt does not say; to be shown beside it.
pub const EXCERPT_LIMIT: &str = "This is a part of the evidence: no tree, patch, room or verdict was looked at, and what the turn is said to have \
     come to is its signer's word.";

/// What an excerpt shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExcerptReport {
    pub signature: SignatureState,
    pub signer: Option<SignerSeen>,
    /// What the statement says; only where a trusted key signed it.
    pub claims: Option<Claims>,
    /// Events of the journal up to the signed head; null where the journal is not the one that was signed.
    pub events: Option<u64>,
    pub findings: Vec<Finding>,
}

impl ExcerptReport {
    /// A trusted runner vouches for exactly this journal.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.signature == SignatureState::Trusted && self.events.is_some() && self.findings.is_empty()
    }
}

/// Checks a journal against the turn's signed statement, by the trust file alone: no key comes with an excerpt. `path` is
/// what the statement's file is called.
#[must_use]
pub fn excerpt(path: &str, statement: &[u8], journal: &[u8], options: &Options<'_>) -> ExcerptReport {
    let mut report = ExcerptReport { signature: SignatureState::Broken, ..ExcerptReport::default() };
    let Some(turn) = signed(path, statement, options, &mut report) else { return report };
    report.claims = Some(Claims::of(&turn));
    let mut chain = Chain::new(&turn.session);
    let mut account = Account::default();
    let walked = chain.feed_each(journal, |line| account.see(line)).and_then(|()| chain.finish());
    match walked {
        Err(e) => report.findings.push(Finding::Journal { seq: e.seq, why: e.why.to_owned() }),
        Ok(head) if head != turn.journal => {
            report.findings.push(Finding::JournalHead { seq: head.seq, signed: turn.journal.seq });
        }
        Ok(head) => {
            account.hold_against(&turn, &[], &mut report.findings);
            report.events = Some(head.seq);
        }
    }
    report
}

/// The statement, where a key of the trust file that may sign as runner signed it.
fn signed(path: &str, bytes: &[u8], options: &Options<'_>, report: &mut ExcerptReport) -> Option<Turn> {
    let sealed = match dsse::open(bytes) {
        Ok(sealed) => sealed,
        Err(e) => {
            report.findings.push(Finding::SignatureFormat { path: path.to_owned(), why: e.to_string() });
            return None;
        }
    };
    let (role, id) = (Role::Runner, sealed.key_id.clone());
    let Some(key) = options.trust.by_id(&id) else {
        report.signature = SignatureState::UnknownSigner;
        report.signer = Some(SignerSeen { role, key_id: id, name: None });
        return None;
    };
    let name = Some(key.name.clone());
    report.signer = Some(SignerSeen { role, key_id: id.clone(), name: name.clone() });
    let key = RoleKey { role, id, public: key.public.clone(), name };
    let payload = open_statement(path, bytes, &key, &mut report.findings)?;
    let statement: Statement<Turn> = match Statement::read(&payload) {
        Ok(statement) => statement,
        Err(e) => {
            report.findings.push(Finding::Statement { path: path.to_owned(), why: e.to_string() });
            return None;
        }
    };
    let claimed = parse_rfc3339(&statement.predicate.ended_at);
    trusted(&key.public, role, claimed, options, path, &mut report.findings);
    if report.findings.iter().any(is_about_signature) {
        return None;
    }
    report.signature = SignatureState::Trusted;
    Some(statement.predicate)
}
