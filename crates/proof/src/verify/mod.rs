//! Verification of a bundle: offline, of hostile input, without starting anything.
//!
//! Three questions are answered apart from each other. Is it intact: does everything that it holds fit together, down to
//! base + patch = final? Who signed it: nobody, somebody unknown, or a key of the trust file? And does it show what a
//! [`Policy`] asks for? What a signature does not say is in [`LIMITS`].

mod account;
mod contents;
mod excerpt;
mod extra;
mod files;
mod finding;
mod plain;
mod policy;
mod report;
mod signatures;
mod statements;
mod stream;
mod sums;
mod tree;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use countersign_types::{Digest, Millis};

pub use contents::{ContentsError, contents};
pub use excerpt::{EXCERPT_LIMIT, ExcerptReport, excerpt};
pub use extra::{CountersignError, countersign};
pub use finding::Finding;
pub use policy::{KeysAt, Policy, PolicyError, PolicyFailure, SignatureDemand};
pub use report::{BadVerdict, Claims, Report, SignatureState, SignerSeen};
pub use sums::read as read_sums;

use crate::bundle::{EARLIER_FORMATS, FORMAT, Header, SigningNote};
use crate::key::TrustFile;
use crate::layout::{
    BASE_MANIFEST, CONFIG, FINAL_MANIFEST, HEADER, JOURNAL, PATCH, Part, RESULT, SUMS, SUMS_SIGNATURE,
    StatementPart, max_size, part,
};
use crate::strict::{read_exact, shown};
use files::Files;

/// What a good answer of [`verify`] does not say; to be shown beside it.
pub const LIMITS: &[&str] = &[
    "A signature says who vouches for the record, not that the machine which made it was honest: its kernel, its operator and its key are trusted with it.",
    "A passed check shows what the check shows, at the strength that is said; it is no proof that the program is right.",
    "Times are the signer's own words; no independent clock was asked.",
    "What the model's vendor did with its requests is not in the record.",
];

/// How many findings a report holds. A hostile list could name a million files that are not there.
pub const MAX_FINDINGS: usize = 1000;

/// How to verify.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Keys whose signatures count. Empty: every signer is unknown.
    pub trust: &'a TrustFile,
    pub policy: &'a Policy,
    /// The time by which validity and age are judged.
    pub now: Millis,
    /// Verdicts of other verifiers that came beside the bundle; see [`countersign`].
    pub verdicts: &'a [Vec<u8>],
}

/// Verifies the bundle in `dir`. Fails only when the directory cannot be listed; whatever is wrong with what lies in it
/// is in the report. Reads at most what [`crate::layout`] allows and keeps at most a few files in memory.
pub fn verify(dir: &Path, options: &Options<'_>) -> std::io::Result<Report> {
    let mut findings = Vec::new();
    let mut report = match Files::list(dir, &mut findings)? {
        Some(files) => check(files, options, &mut findings),
        None => Report::default(),
    };
    findings.sort();
    findings.dedup();
    report.untold = findings.len().saturating_sub(MAX_FINDINGS) as u64;
    findings.truncate(MAX_FINDINGS);
    report.findings = findings;
    if report.findings.iter().any(report::is_about_signature) && report.signature != SignatureState::Absent {
        report.signature = SignatureState::Broken;
    }
    if report.digest.is_none() {
        // It could not be read far enough to see whether anybody signed it.
        report.signature = SignatureState::Broken;
    }
    if !report.findings.is_empty() {
        // Nobody has said PASSED of what lies here now.
        report.passed_by.clear();
        report.passed_strength.clear();
    }
    report.failures = options.policy.judge(&report, options.now);
    Ok(report)
}

/// A listed bundle with what `SHA256SUMS` says of it.
struct Bundle {
    files: Files,
    sums: BTreeMap<String, Digest>,
    header: Header,
    signed: bool,
}

impl Bundle {
    /// The contents of a file, if it is there, listed, and what the list says.
    fn load(&self, path: &str, buffer: &mut Vec<u8>, findings: &mut Vec<Finding>) -> Option<Vec<u8>> {
        let wanted = self.digest(path)?;
        match self.files.read(path, buffer) {
            Ok((bytes, digest)) if digest == wanted => Some(bytes),
            Ok(_) => {
                findings.push(Finding::Digest { path: path.to_owned() });
                None
            }
            Err(finding) => {
                findings.push(finding);
                None
            }
        }
    }

    /// What the list says of a file that is there.
    fn digest(&self, path: &str) -> Option<Digest> {
        self.files.sizes.get(path)?;
        self.sums.get(path).copied()
    }

    fn is_sealed(&self) -> bool {
        [BASE_MANIFEST, FINAL_MANIFEST, PATCH].iter().any(|path| self.files.sizes.contains_key(*path))
    }
}

fn check(files: Files, options: &Options<'_>, findings: &mut Vec<Finding>) -> Report {
    let mut buffer = Vec::new();
    let Some((bundle, sums_bytes)) = open(files, &mut buffer, findings) else { return Report::default() };
    let mut report = Report {
        digest: Some(Digest::of(&sums_bytes)),
        files: bundle.files.sizes.len() as u64,
        bytes: bundle.files.sizes.values().sum(),
        unsigned: match &bundle.header.signing {
            SigningNote::Unsigned { reason, .. } => Some(*reason),
            SigningNote::Signed { .. } => None,
        },
        ..Report::default()
    };
    let keys = signatures::Keys::of(&bundle.header, options, findings);
    if let Some(keys) = &keys {
        signatures::check_sums(&bundle, keys, &sums_bytes, &mut buffer, findings);
    }
    let read = statements::read(&bundle, keys.as_ref(), &mut buffer, findings);
    report.signature = signatures::state(&bundle, keys.as_ref(), read.all_opened, findings);
    report.signers = keys.as_ref().map(signatures::Keys::seen).unwrap_or_default();
    report.claims = read.turn.as_ref().map(|(_, turn)| Claims::of(&turn.predicate));
    report.verdict = read.verdict.as_ref().map(|(_, verdict)| verdict.clone());
    let stream::Learnt { journal, spoken } = stream::all(&bundle, &mut buffer, findings);
    let tells = journal.as_ref().is_some_and(|(_, account)| account.tells());
    statements::check(&bundle, &read, tells, &spoken, &mut buffer, findings);
    if let (Some((head, account)), Some((_, turn))) = (journal, &read.turn) {
        let signed = turn.predicate.journal;
        if head != signed {
            findings.push(Finding::JournalHead { seq: head.seq, signed: signed.seq });
        }
        let rooms: Vec<_> = read.rooms.iter().filter_map(|(_, room)| room.predicate.facts().ok()).collect();
        account.hold_against(&turn.predicate, &rooms, findings);
    }
    let said = extra::said(&bundle, &read, keys.as_ref(), report.digest, options);
    report.passed_by = said.passed.keys().cloned().collect();
    report.passed_strength =
        said.passed.into_iter().filter_map(|(name, strength)| Some((name, strength?))).collect();
    report.failed_by = said.failed.into_iter().collect();
    report.unknown_verdicts = said.unknown;
    report.bad_verdicts = said.bad;
    report
}

/// Reads `SHA256SUMS` and the header, and holds the file set against both. None: there is nothing to go on with.
fn open(files: Files, buffer: &mut Vec<u8>, findings: &mut Vec<Finding>) -> Option<(Bundle, Vec<u8>)> {
    let all: BTreeSet<String> = files.sizes.keys().cloned().collect();
    let first = |path: &str, part: Part, buffer: &mut Vec<u8>| {
        let limit = max_size(&part).as_u64();
        if files.sizes.get(path).is_some_and(|size| *size > limit) {
            return Err(Finding::TooLarge { path: path.to_owned(), limit });
        }
        files.read(path, buffer)
    };
    let sums_bytes = first(SUMS, Part::Sums, buffer).map(|(bytes, _)| bytes);
    let header = first(HEADER, Part::Header, buffer).map(|(bytes, digest)| {
        let json = |e: crate::JsonError| Finding::Json { path: HEADER.to_owned(), why: e.to_string() };
        (read_exact::<Header>(&bytes).map_err(json), digest)
    });
    let (sums_bytes, (header, header_digest)) = match (sums_bytes, header) {
        (Ok(sums), Ok(header)) => (sums, header),
        (sums, header) => {
            findings.extend(sums.err());
            findings.extend(header.err());
            return None;
        }
    };
    let sums = sums::read(&sums_bytes).map_err(|finding| findings.push(finding)).ok()?;
    // A header that is not the listed one is told, and still says how the rest is to be read. One that is not listed at
    // all is told with the file set.
    if sums.get(HEADER).is_some_and(|digest| *digest != header_digest) {
        findings.push(Finding::Digest { path: HEADER.to_owned() });
    }
    let header = header.map_err(|finding| findings.push(finding)).ok()?;
    let format = header.format.as_str();
    if format != FORMAT && !EARLIER_FORMATS.contains(&format) {
        let why = format!(
            "format `{}` is not known; this program reads `{FORMAT}` and earlier ones",
            shown(format)
        );
        findings.push(Finding::Json { path: HEADER.to_owned(), why });
        return None;
    }
    let signed = matches!(header.signing, SigningNote::Signed { .. });
    let files = files.keep_roles(signed, findings)?;
    let bundle = Bundle { files, sums, header, signed };
    file_set(&bundle, &all, findings);
    Some((bundle, sums_bytes))
}

/// Every file that is there is listed, every listed one is there, and none that a bundle needs is missing.
fn file_set(bundle: &Bundle, all: &BTreeSet<String>, findings: &mut Vec<Finding>) {
    let unlisted =
        bundle.files.sizes.keys().filter(|path| {
            ![SUMS, SUMS_SIGNATURE].contains(&path.as_str()) && !bundle.sums.contains_key(*path)
        });
    findings.extend(unlisted.map(|path| Finding::UnlistedFile { path: path.clone() }));
    let mut needed: Vec<String> = [RESULT, CONFIG, JOURNAL].map(str::to_owned).into();
    needed.extend(
        [StatementPart::Provenance, StatementPart::Turn, StatementPart::Verdict]
            .map(|statement| statement.path(bundle.signed)),
    );
    if bundle.signed {
        needed.push(SUMS_SIGNATURE.to_owned());
    }
    if bundle.is_sealed() {
        needed.extend([BASE_MANIFEST, FINAL_MANIFEST, PATCH].map(str::to_owned));
    }
    // A link in a file's place was told already.
    let told: BTreeSet<&str> = findings
        .iter()
        .filter_map(
            |finding| if let Finding::NotAFile { path } = finding { Some(path.as_str()) } else { None },
        )
        .collect();
    let missing: Vec<Finding> = needed
        .iter()
        .chain(bundle.sums.keys())
        .filter(|path| !all.contains(*path) && !told.contains(path.as_str()))
        .map(|path| Finding::MissingFile { path: shown(path) })
        .collect();
    findings.extend(missing);
    // A name that is listed and has no role.
    let odd = bundle.sums.keys().filter(|path| part(path, bundle.signed).is_none());
    findings.extend(odd.map(|path| Finding::UnexpectedFile { path: shown(path) }));
}
