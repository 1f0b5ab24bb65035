use std::fmt;

use countersign_tree::TreePath;
use serde::Serialize;

use crate::key::{KeyId, Role};

/// Something that is wrong with a bundle. Any of them makes it worthless as evidence; each says where and what.
///
/// Texts in it that come from the bundle are shortened and hold no control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub enum Finding {
    // The files.
    /// A link, a device, a pipe, or a directory without files.
    NotAFile {
        path: String,
    },
    /// A name that no file of a bundle has.
    UnexpectedFile {
        path: String,
    },
    TooManyFiles {
        limit: u64,
    },
    TooLarge {
        path: String,
        limit: u64,
    },
    Unreadable {
        path: String,
        why: String,
    },
    /// It is named or needed, and not there.
    MissingFile {
        path: String,
    },
    /// It is there and not in `SHA256SUMS`.
    UnlistedFile {
        path: String,
    },
    /// `SHA256SUMS` is not sorted, not unique, or no such list.
    SumsFormat {
        line: u64,
    },
    /// Other bytes than `SHA256SUMS` says.
    Digest {
        path: String,
    },
    /// JSON that is damaged, not canonical, has a key twice, or other fields than it should.
    Json {
        path: String,
        why: String,
    },

    // Signatures.
    SignatureFormat {
        path: String,
        why: String,
    },
    /// It is not the signature of the key that the header names, over these bytes.
    BadSignature {
        path: String,
    },
    /// The signature is good, and the key id beside it is another key's.
    KeyIdSwapped {
        path: String,
    },
    /// Another key than the header's is named.
    OtherSigner {
        path: String,
        key: KeyId,
    },
    /// The key is trusted, for something else.
    WrongRole {
        path: String,
        key: String,
        needs: Role,
    },
    /// The key is trusted, at another time.
    KeyNotValid {
        path: String,
        key: String,
    },

    // Statements.
    Statement {
        path: String,
        why: String,
    },
    /// It is about another turn: a statement of another bundle.
    OtherTurn {
        path: String,
    },
    /// It is about other files.
    Subject {
        path: String,
    },
    /// The verdict lists it, and it is not there.
    StatementMissing {
        path: String,
    },
    /// It is there, and the verdict does not list it.
    StatementUnlisted {
        path: String,
    },
    /// The verdict lists another one of this name.
    StatementChanged {
        path: String,
    },
    /// The turn lists the file, and it is not there.
    PartMissing {
        path: String,
    },
    /// The file is there, and the turn does not list it.
    PartUnlisted {
        path: String,
    },
    /// The turn lists another content.
    PartChanged {
        path: String,
    },
    /// Two things that the bundle says cannot both be true.
    Contradiction {
        path: String,
        why: String,
    },

    // The journal.
    Journal {
        seq: u64,
        why: String,
    },
    /// The chain is whole and does not end where the turn says: a cut or grown tail.
    JournalHead {
        seq: u64,
        signed: u64,
    },

    /// The journal tells another turn than the one that is signed.
    JournalTurn {
        why: String,
    },

    // The tree.
    Manifest {
        path: String,
    },
    Patch {
        line: u64,
        why: String,
    },
    /// The patch does not begin at what the base holds.
    PatchBase {
        path: TreePath,
    },
    PreImageMissing {
        path: TreePath,
    },
    PreImageUnused {
        path: String,
    },
    /// Base and patch give something else here than the final manifest says.
    FinalTree {
        path: TreePath,
    },
}

impl Finding {
    /// The word by which a program knows it; the `finding` of its JSON.
    #[must_use]
    pub fn code(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json["finding"].as_str().unwrap_or_default().to_owned()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFile { path } => write!(f, "`{path}` is not a regular file"),
            Self::UnexpectedFile { path } => write!(f, "`{path}` does not belong into a bundle"),
            Self::TooManyFiles { limit } => write!(f, "it holds more than {limit} files"),
            Self::TooLarge { path, limit } => write!(f, "`{path}` is larger than {limit} bytes"),
            Self::Unreadable { path, why } => write!(f, "`{path}` cannot be read: {why}"),
            Self::MissingFile { path } => write!(f, "`{path}` is missing"),
            Self::UnlistedFile { path } => write!(f, "`{path}` is not in SHA256SUMS"),
            Self::SumsFormat { line } => {
                write!(
                    f,
                    "SHA256SUMS, line {line}: expected a digest, two spaces and a path, sorted and unique"
                )
            }
            Self::Digest { path } => write!(f, "`{path}` has other bytes than SHA256SUMS says"),
            Self::Json { path, why } => write!(f, "`{path}`: {why}"),
            Self::SignatureFormat { path, why } => write!(f, "`{path}`: {why}"),
            Self::BadSignature { path } => {
                write!(f, "`{path}`: the signature is not that of the bundle's key over these bytes")
            }
            Self::KeyIdSwapped { path } => {
                write!(f, "`{path}`: its key id is not that of the key that signed it")
            }
            Self::OtherSigner { path, key } => {
                write!(f, "`{path}` is signed by key {key}, which the bundle does not name for it")
            }
            Self::WrongRole { path, key, needs } => {
                write!(f, "`{path}`: the trust file does not let key `{key}` sign as {}", needs.as_str())
            }
            Self::KeyNotValid { path, key } => {
                write!(f, "`{path}`: key `{key}` is not valid at that time, says the trust file")
            }
            Self::Statement { path, why } => write!(f, "`{path}`: {why}"),
            Self::OtherTurn { path } => write!(f, "`{path}` is about another turn"),
            Self::Subject { path } => write!(f, "`{path}` is about other files than this bundle's"),
            Self::StatementMissing { path } => write!(f, "the verdict rests on `{path}`, which is missing"),
            Self::StatementUnlisted { path } => write!(f, "the verdict does not know `{path}`"),
            Self::StatementChanged { path } => write!(f, "the verdict rests on another `{path}`"),
            Self::PartMissing { path } => write!(f, "a signed statement names `{path}`, which is missing"),
            Self::PartUnlisted { path } => write!(f, "no signed statement knows `{path}`"),
            Self::PartChanged { path } => write!(f, "a signed statement names other bytes of `{path}`"),
            Self::Contradiction { path, why } => write!(f, "`{path}` contradicts the rest: {why}"),
            Self::Journal { seq, why } => write!(f, "the journal is broken at event {seq}: {why}"),
            Self::JournalHead { seq, signed } => {
                write!(
                    f,
                    "the journal ends with event {seq}; the signed head is another one, of event {signed}"
                )
            }
            Self::JournalTurn { why } => write!(f, "the journal tells another turn: {why}"),
            Self::Manifest { path } => write!(f, "`{path}` is no manifest"),
            Self::Patch { line, why } => write!(f, "line {line} of the patch: {why}"),
            Self::PatchBase { path } => write!(f, "the patch does not fit the base at `{path}`"),
            Self::PreImageMissing { path } => {
                write!(f, "the content of `{path}` before the change is missing")
            }
            Self::PreImageUnused { path } => write!(f, "`{path}` is the content of nothing that was changed"),
            Self::FinalTree { path } => write!(f, "base and patch do not give the final tree at `{path}`"),
        }
    }
}
