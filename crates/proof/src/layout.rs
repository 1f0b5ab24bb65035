//! Which files a bundle may hold, where, and how large.

use countersign_types::{ByteSize, Digest};

pub const SUMS: &str = "SHA256SUMS";
pub const SUMS_SIGNATURE: &str = "SHA256SUMS.sig";
pub const HEADER: &str = "bundle.json";
pub const RESULT: &str = "result.json";
pub const CONFIG: &str = "config.json";
pub const JOURNAL: &str = "journal.jsonl";
pub const TRANSCRIPT: &str = "transcript.jsonl";
pub const PATCH: &str = "patch.diff";
pub const BASE_MANIFEST: &str = "tree/base.manifest";
pub const FINAL_MANIFEST: &str = "tree/final.manifest";

/// Pre-images of touched files, by the sha256 of their bytes.
pub const PRE_IMAGES: &str = "tree/pre/";
const STATEMENTS: &str = "statements/";
const ROOMS: &str = "rooms/";

/// The most that a bundle may hold, files together. A writer refuses to make more, a verifier to read more.
pub const MAX_BUNDLE: ByteSize = ByteSize::mib(2048);

/// The largest single file: pre-image, patch, journal, output.
pub const MAX_FILE: ByteSize = ByteSize::mib(512);

/// The largest file that is read as a whole and parsed as JSON: statements, header, result, config.
pub const MAX_JSON: ByteSize = ByteSize::mib(32);

/// The largest patch, and the largest manifest. Both are kept in memory as a whole while a bundle is verified.
pub const MAX_TREE_FILE: ByteSize = ByteSize::mib(256);

/// All statements together: they are kept in memory, parsed, to be held against each other.
pub const MAX_STATEMENTS: ByteSize = ByteSize::mib(64);

/// The contents before and after all changes together, and all that is inflated for them: a small patch may name large
/// contents again and again.
pub const MAX_CHANGED: ByteSize = ByteSize::mib(8192);

/// The most files, `SHA256SUMS` among them.
pub const MAX_FILES: usize = 100_000;

/// The deepest that a file may lie: `tree/pre/DIGEST` has three components.
pub const MAX_DEPTH: usize = 3;

/// Whether nothing in this file was said or written in the run, so that its digest can be shown to anybody.
#[must_use]
pub fn is_without_texts(path: &str) -> bool {
    [HEADER, JOURNAL, BASE_MANIFEST, FINAL_MANIFEST, PATCH].contains(&path)
}

/// What a file is for. What has no role does not belong into a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Sums,
    SumsSignature,
    Header,
    Result,
    Config,
    Journal,
    Transcript,
    Patch,
    BaseManifest,
    FinalManifest,
    PreImage(Digest),
    Statement(StatementPart),
    /// What a command in a room wrote: room and stream.
    RoomOutput(String, &'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementPart {
    Provenance,
    /// Of the room of this name.
    TestResult(String),
    Turn,
    Verdict,
}

const STREAMS: [&str; 3] = ["stdout", "stderr", "report"];

impl StatementPart {
    /// The path of this statement: a Sigstore bundle when it is signed, else the bare statement.
    #[must_use]
    pub fn path(&self, signed: bool) -> String {
        let suffix = if signed { ".sigstore.json" } else { ".json" };
        match self {
            Self::Provenance => format!("{STATEMENTS}provenance{suffix}"),
            Self::TestResult(room) => format!("{STATEMENTS}test-result.{room}{suffix}"),
            Self::Turn => format!("{STATEMENTS}turn{suffix}"),
            Self::Verdict => format!("{STATEMENTS}verdict{suffix}"),
        }
    }
}

/// The role of a path in a bundle that is signed or not; None: no file of a bundle has this name.
#[must_use]
pub fn part(path: &str, signed: bool) -> Option<Part> {
    let fixed = match path {
        SUMS => Some(Part::Sums),
        SUMS_SIGNATURE if signed => Some(Part::SumsSignature),
        HEADER => Some(Part::Header),
        RESULT => Some(Part::Result),
        CONFIG => Some(Part::Config),
        JOURNAL => Some(Part::Journal),
        TRANSCRIPT => Some(Part::Transcript),
        PATCH => Some(Part::Patch),
        BASE_MANIFEST => Some(Part::BaseManifest),
        FINAL_MANIFEST => Some(Part::FinalManifest),
        _ => None,
    };
    if fixed.is_some() {
        return fixed;
    }
    if let Some(hex) = path.strip_prefix(PRE_IMAGES) {
        return Digest::from_hex(hex).ok().map(Part::PreImage);
    }
    if let Some(rest) = path.strip_prefix(ROOMS) {
        let (room, stream) = rest.split_once('/')?;
        let stream = STREAMS.into_iter().find(|known| *known == stream)?;
        return is_room_name(room).then(|| Part::RoomOutput(room.to_owned(), stream));
    }
    let name = path.strip_prefix(STATEMENTS)?.strip_suffix(".json")?;
    let name = match name.strip_suffix(".sigstore") {
        Some(name) if signed => name,
        None if !signed => name,
        _ => return None,
    };
    let statement = match name {
        "provenance" => StatementPart::Provenance,
        "turn" => StatementPart::Turn,
        "verdict" => StatementPart::Verdict,
        _ => StatementPart::TestResult(
            name.strip_prefix("test-result.").filter(|room| is_room_name(room))?.to_owned(),
        ),
    };
    Some(Part::Statement(statement))
}

/// 1 to 64 of a-z, 0-9 and `-`, beginning with a letter or digit.
#[must_use]
pub fn is_room_name(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(letter) && !name.starts_with('-')
}

/// Where a room's output lies. `stream` is `stdout`, `stderr` or `report`.
#[must_use]
pub fn room_output(room: &str, stream: &str) -> String {
    format!("{ROOMS}{room}/{stream}")
}

/// The largest that the file at this path may be.
#[must_use]
pub fn max_size(part: &Part) -> ByteSize {
    match part {
        Part::Header | Part::Result | Part::Config | Part::Statement(_) | Part::Sums => MAX_JSON,
        Part::Patch | Part::BaseManifest | Part::FinalManifest => MAX_TREE_FILE,
        Part::SumsSignature => ByteSize::bytes(crate::sshsig::MAX_SIGNATURE_TEXT as u64),
        _ => MAX_FILE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_bundle_have_a_role() {
        let digest = Digest::of(b"x").hex();
        for path in [
            &format!("tree/pre/{digest}"),
            "tree/base.manifest",
            "rooms/a1-final-0/stdout",
            "statements/test-result.base-0.sigstore.json",
            "statements/verdict.sigstore.json",
            "SHA256SUMS.sig",
        ] {
            assert!(part(path, true).is_some(), "{path}");
        }
        for path in [
            "",
            "x",
            "SHA256SUMS.sig2",
            "tree/pre/",
            "tree/pre/AB",
            &format!("tree/pre/{}", digest.to_uppercase()),
            "tree/other.manifest",
            "rooms/a/../stdout",
            "rooms/../stdout",
            "rooms/a/stdout/x",
            "rooms/a/env",
            "rooms/A/stdout",
            "statements/turn.json",
            "statements/test-result.-a.sigstore.json",
            "statements/test-result..sigstore.json",
            "statements/other.sigstore.json",
            "statements/sub/turn.sigstore.json",
            "./result.json",
            "/result.json",
        ] {
            assert_eq!(part(path, true), None, "{path}");
        }
        assert_eq!(part("SHA256SUMS.sig", false), None);
        assert_eq!(part("statements/turn.json", false), Some(Part::Statement(StatementPart::Turn)));
        assert_eq!(part("statements/turn.sigstore.json", false), None);
    }
}
