//! Writing: into a directory of its own beside the target, everything on disk before the target's name exists, and never
//! over anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use countersign_types::{Digest, Hasher, Tier, canonical_json};
use serde_json::Value;

use super::header::{FORMAT, Header, SignerName, Signing as Note};
use super::statements::{self, Copied};
use super::{BundleInput, Room, Signing, Source, TreeInput};
use crate::journal::{Chain, JournalError};
use crate::layout::{
    BASE_MANIFEST, CONFIG, FINAL_MANIFEST, HEADER, JOURNAL, MAX_BUNDLE, MAX_FILES, MAX_STATEMENTS, PATCH,
    PRE_IMAGES, RESULT, SUMS, SUMS_SIGNATURE, StatementPart, TRANSCRIPT, is_room_name, max_size, part,
    room_output,
};
use crate::sign::{SignError, Signer};
use crate::statement::{JournalHead, Predicate, Statement};
use crate::time::rfc3339;
use crate::{dsse, sshsig};

/// Why no bundle was written. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("`{0}` exists already; a bundle is never written over anything")]
    Exists(PathBuf),
    #[error("`{path}`: {why}")]
    Io { path: PathBuf, why: io::Error },
    /// A source could not be read.
    #[error("the input for `{path}` cannot be read: {why}")]
    Input { path: String, why: io::Error },
    #[error("`{path}` would be larger than {limit} bytes")]
    TooLarge { path: String, limit: u64 },
    #[error("the bundle would hold more than {MAX_FILES} files")]
    TooManyFiles,
    #[error("the journal cannot be vouched for: {0}")]
    Journal(#[from] JournalError),
    /// The store gave other bytes than the manifest names.
    #[error("the content of `{0}` before the change is not what the base says")]
    PreImage(String),
    #[error("the input contradicts itself: {0}")]
    Facts(String),
    #[error("{0}")]
    Sign(#[from] SignError),
}

/// A bundle that is on disk for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub path: PathBuf,
    /// sha256 of `SHA256SUMS`: the bundle's name in words.
    pub digest: Digest,
    pub files: usize,
    pub bytes: u64,
    pub signed: bool,
}

/// Writes `parent/name`. `parent` must exist. The files of a bundle are at most [`MAX_BUNDLE`] together.
pub fn write(parent: &Path, name: &str, input: &BundleInput<'_>) -> Result<Written, WriteError> {
    let target = parent.join(name);
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(WriteError::Facts(format!("`{}` is no name of a directory", name.escape_debug())));
    }
    if target.symlink_metadata().is_ok() {
        return Err(WriteError::Exists(target));
    }
    check(input)?;
    let mut out = Out::new(parent, name)?;
    let header = header(input);
    out.bytes(HEADER, &json(&header)?)?;
    out.bytes(RESULT, input.result)?;
    out.bytes(CONFIG, input.config)?;
    let journal = out.journal(input)?;
    if let Some(transcript) = input.transcript {
        out.source(TRANSCRIPT, transcript)?;
    }
    for room in &input.rooms {
        for (stream, source) in [("stdout", room.stdout), ("stderr", room.stderr), ("report", room.report)] {
            if let Some(source) = source {
                out.source(&room_output(&room.facts.name, stream), source)?;
            }
        }
    }
    if let Some(tree) = input.tree {
        out.bytes(BASE_MANIFEST, &tree.base.encode())?;
        out.bytes(FINAL_MANIFEST, &tree.last.encode())?;
        out.source(PATCH, tree.patch)?;
    }
    let copied = Copied { files: out.files.clone(), journal };
    if let Some(tree) = input.tree {
        out.pre_images(&tree)?;
    }
    out.statements(input, &copied)?;
    let sums = sums(&out.files);
    out.bytes(SUMS, sums.as_bytes())?;
    if let Signing::Keys { runner, .. } = input.signing {
        out.bytes(SUMS_SIGNATURE, sshsig::sign(runner, sums.as_bytes())?.as_bytes())?;
    }
    let signed = matches!(input.signing, Signing::Keys { .. });
    let (files, bytes) = (out.files.len(), out.bytes);
    out.publish(&target)?;
    Ok(Written { path: target, digest: Digest::of(sums.as_bytes()), files, bytes, signed })
}

/// The lines of `SHA256SUMS`, as sha256sum writes and checks them, in the order of the paths' bytes.
fn sums(files: &BTreeMap<String, Digest>) -> String {
    files.iter().map(|(path, digest)| format!("{}  {path}\n", digest.hex())).collect()
}

fn check(input: &BundleInput<'_>) -> Result<(), WriteError> {
    let bad = |why: String| Err(WriteError::Facts(why));
    if input.turn.reason.outcome() != input.turn.outcome {
        return bad(format!("reason `{}` is of another outcome", input.turn.reason.as_str()));
    }
    if input.turn.tier == Some(Tier::Host) && matches!(input.signing, Signing::Keys { .. }) {
        // Whatever ran there could have changed what would be signed, and read the key.
        return bad(
            "a turn of the host tier is not signed; give the reason `host_tier` instead of keys".to_owned()
        );
    }
    let mut names = BTreeSet::new();
    for Room { facts, .. } in &input.rooms {
        if !is_room_name(&facts.name) || !names.insert(&facts.name) {
            return bad(format!("room name `{}` is not usable or stands twice", facts.name.escape_debug()));
        }
    }
    for (path, bytes) in [(RESULT, input.result), (CONFIG, input.config)] {
        if crate::strict::read_unique::<Value>(bytes).is_err() {
            return bad(format!("`{path}` is not JSON with unique keys"));
        }
    }
    Ok(())
}

fn header(input: &BundleInput<'_>) -> Header {
    let signing = match input.signing {
        Signing::Keys { runner, verifier } => Note::Signed {
            runner: Box::new(SignerName::of(runner)),
            verifier: Box::new(SignerName::of(verifier)),
        },
        Signing::Unsigned { reason, detail } => Note::Unsigned { reason, detail: detail.to_owned() },
    };
    Header {
        format: FORMAT.to_owned(),
        session: input.turn.session.clone(),
        turn: input.turn.turn,
        created_at: rfc3339(input.turn.ended_at),
        signing,
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, WriteError> {
    canonical_json(value).map_err(|e| WriteError::Facts(e.to_string()))
}

/// The directory in the making; removed when it is dropped before it was published.
struct Out {
    dir: PathBuf,
    files: BTreeMap<String, Digest>,
    bytes: u64,
    statement_bytes: u64,
    published: bool,
}

impl Out {
    fn new(parent: &Path, name: &str) -> Result<Self, WriteError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| WriteError::Facts(format!("no random bytes: {e}")))?;
        let dir = parent.join(format!(".{name}.{:016x}", u64::from_be_bytes(random)));
        // Not the parents: a parent that is missing is a mistake of the caller's.
        make_dir(&dir, false)?;
        Ok(Self { dir, files: BTreeMap::new(), bytes: 0, statement_bytes: 0, published: false })
    }

    fn bytes(&mut self, path: &str, bytes: &[u8]) -> Result<Digest, WriteError> {
        self.copy(path, &mut &*bytes, |_| Ok(()))
    }

    fn source(&mut self, path: &str, source: &dyn Source) -> Result<Digest, WriteError> {
        let mut reader = source.open().map_err(|why| WriteError::Input { path: path.to_owned(), why })?;
        self.copy(path, &mut reader, |_| Ok(()))
    }

    /// Copies a stream into a new file, to the disk, and says what it was.
    fn copy(
        &mut self,
        path: &str,
        reader: &mut dyn Read,
        mut see: impl FnMut(&[u8]) -> Result<(), WriteError>,
    ) -> Result<Digest, WriteError> {
        const CHUNK: usize = 256 * 1024;
        if self.files.len() >= MAX_FILES {
            return Err(WriteError::TooManyFiles);
        }
        let at = self.dir.join(path);
        let failed = |why| WriteError::Io { path: at.clone(), why };
        let limit = part(path, true).or_else(|| part(path, false)).map_or(0, |part| max_size(&part).as_u64());
        if let Some(parent) = at.parent().filter(|parent| !parent.is_dir()) {
            make_dir(parent, true)?;
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&at).map_err(failed)?;
        let (mut hasher, mut len) = (Hasher::new(), 0_u64);
        let mut buffer = vec![0; CHUNK];
        loop {
            let got = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(WriteError::Input { path: path.to_owned(), why }),
            };
            let chunk = &buffer[..got];
            len += got as u64;
            self.bytes += got as u64;
            if len > limit {
                return Err(WriteError::TooLarge { path: path.to_owned(), limit });
            }
            if self.bytes > MAX_BUNDLE.as_u64() {
                return Err(WriteError::TooLarge {
                    path: "the bundle".to_owned(),
                    limit: MAX_BUNDLE.as_u64(),
                });
            }
            see(chunk)?;
            hasher.update(chunk);
            file.write_all(chunk).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        let digest = hasher.finish();
        self.files.insert(path.to_owned(), digest);
        Ok(digest)
    }

    fn journal(&mut self, input: &BundleInput<'_>) -> Result<JournalHead, WriteError> {
        let mut reader =
            input.journal.open().map_err(|why| WriteError::Input { path: JOURNAL.to_owned(), why })?;
        let mut chain = Chain::new(&input.turn.session);
        self.copy(JOURNAL, &mut reader, |chunk| Ok(chain.feed(chunk)?))?;
        Ok(chain.finish()?)
    }

    fn pre_images(&mut self, tree: &TreeInput<'_>) -> Result<(), WriteError> {
        for change in tree.base.changes_to(tree.last) {
            let Some(before) = change.before else { continue };
            let path = format!("{PRE_IMAGES}{}", before.digest.hex());
            if self.files.contains_key(&path) {
                continue;
            }
            let input = |why| WriteError::Input { path: change.path.to_string(), why };
            let mut reader = tree.pre_images.open(&before.digest).map_err(input)?;
            if self.copy(&path, &mut reader, |_| Ok(()))? != before.digest {
                return Err(WriteError::PreImage(change.path.to_string()));
            }
        }
        Ok(())
    }

    fn statements(&mut self, input: &BundleInput<'_>, copied: &Copied) -> Result<(), WriteError> {
        let (runner, verifier) = match input.signing {
            Signing::Keys { runner, verifier } => (Some(runner), Some(verifier)),
            Signing::Unsigned { .. } => (None, None),
        };
        let mut written = BTreeMap::new();
        let provenance = statements::provenance(input, copied);
        self.statement(&StatementPart::Provenance, &provenance, runner, &mut written)?;
        for room in &input.rooms {
            let statement = statements::test_result(&input.turn, room)
                .map_err(|e| WriteError::Facts(format!("room `{}`: {e}", room.facts.name)))?;
            let part = StatementPart::TestResult(room.facts.name.clone());
            self.statement(&part, &statement, runner, &mut written)?;
        }
        self.statement(&StatementPart::Turn, &statements::turn(input, copied), runner, &mut written)?;
        let verdict = statements::verdict(input, copied, &written);
        self.statement(&StatementPart::Verdict, &verdict, verifier, &mut BTreeMap::new())
    }

    fn statement<P: Predicate>(
        &mut self,
        part: &StatementPart,
        statement: &Statement<P>,
        signer: Option<&dyn Signer>,
        written: &mut BTreeMap<String, Digest>,
    ) -> Result<(), WriteError> {
        let path = part.path(signer.is_some());
        let payload = json(statement)?;
        let bytes = match signer {
            Some(signer) => dsse::seal(signer, &payload)?,
            None => payload,
        };
        self.statement_bytes += bytes.len() as u64;
        if self.statement_bytes > MAX_STATEMENTS.as_u64() {
            return Err(WriteError::TooLarge {
                path: "statements".to_owned(),
                limit: MAX_STATEMENTS.as_u64(),
            });
        }
        let digest = self.bytes(&path, &bytes)?;
        written.insert(path, digest);
        Ok(())
    }

    /// Gives the directory its name, if nothing has that name.
    fn publish(mut self, target: &Path) -> Result<(), WriteError> {
        let parent =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut dirs: BTreeSet<&Path> =
            self.files.keys().filter_map(|path| Path::new(path).parent()).collect();
        dirs.insert(Path::new("tree"));
        for dir in dirs {
            let dir = self.dir.join(dir);
            if dir.is_dir() {
                sync_dir(&dir)?;
            }
        }
        sync_dir(&self.dir)?;
        let here = rustix::fs::CWD;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(here, &self.dir, here, target, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(WriteError::Exists(target.to_owned())),
            Err(why) => return Err(WriteError::Io { path: target.to_owned(), why: why.into() }),
        }
        self.published = true;
        sync_dir(parent)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn make_dir(at: &Path, parents: bool) -> Result<(), WriteError> {
    let made = fs::DirBuilder::new().recursive(parents).mode(0o700).create(at);
    made.map_err(|why| WriteError::Io { path: at.to_owned(), why })
}

fn sync_dir(at: &Path) -> Result<(), WriteError> {
    let synced = File::open(at).and_then(|dir| dir.sync_all());
    synced.map_err(|why| WriteError::Io { path: at.to_owned(), why })
}
