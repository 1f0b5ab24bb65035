//! Requests and replies of the guest: one JSON frame each, behind a 32-bit big-endian length. File descriptors that
//! belong to a request (segments to read from or write to) are passed with its first byte (`SCM_RIGHTS`).

pub use countersign_tree::Located;
use countersign_tree::{Delta, Entry, ScratchRules, TreePath};
use countersign_types::{Digest, Millis};
use serde::{Deserialize, Serialize};

/// Raised whenever a message changes its meaning; also part of the build's version check.
pub const GUEST_PROTOCOL: u32 = 6;

/// Where the verifier's own files lie in a room. The cell's root owns it: a job can read them and change nothing.
pub const VERIFIER_DIR: &str = "/run/countersign/verifier";

/// Below it, each run's reports have a directory of their own that did not exist before.
pub const REPORT_DIR: &str = "/run/countersign/report";

/// The most file descriptors that one request carries.
pub const MAX_FDS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "op", deny_unknown_fields)]
pub enum Request {
    /// The handshake: the guest answers its protocol and version.
    Hello,
    /// Resolves `rev` in the git directory mounted at `git_dir`, writes that commit's files into the workspace and,
    /// while hashing, all distinct contents to fd 0 from offset 0. git runs as the cell's root, config off, no lazy fetch.
    ImportGit { git_dir: String, rev: String, write_workspace: bool },
    /// Names the commit that `rev` means in the git directory mounted at `git_dir`, under the same conditions as
    /// `ImportGit`, and reads nothing else of it.
    ResolveGit { git_dir: String, rev: String },
    /// As `ImportGit`, then brings the workspace to the state of the work tree at `work_tree`: tracked files as they
    /// are on disk, and untracked ones that are not ignored.
    ImportDirty { git_dir: String, work_tree: String, rev: String, write_workspace: bool },
    /// Copies a plain directory mounted at `source`. The fixed scratch list is left out.
    ImportDir { source: String, write_workspace: bool },
    /// Creates the entries in the workspace, reading contents from the passed segments. The caller sends as many of
    /// these as it needs. With `clear` the workspace's tree part is emptied first (scratch too: a rewind has none).
    Materialise { entries: Vec<Entry>, located: Vec<Located>, clear: bool },
    /// Walks the tree raw and compares it with the manifest that this guest knows last (import, materialise or seal).
    /// New contents go to fd 0. `verdict`: every byte is read, no stat cache. `live`: a job lives while this runs, so
    /// nothing that is seen now may be believed by its stat later. The reply is the difference.
    Seal {
        verdict: bool,
        scratch: ScratchRules,
        #[serde(default)]
        live: bool,
    },
    /// Walks the directory mounted at `source` as a verdict seal walks the workspace: raw, every byte read, nothing
    /// believed. A mount inside it is no layer of ours and cannot be an entry. The reply is the difference to an empty
    /// tree.
    /// `modules`: entries of the base that are submodules; an empty directory at the path of one is that entry.
    SealDirectory {
        source: String,
        scratch: ScratchRules,
        #[serde(default)]
        modules: Vec<Entry>,
    },
    /// Applies the patch with this digest to the base with git, in an index without a work tree: all of it or nothing.
    /// New contents go to fd 0; segments follow from fd 1 on and are numbered from 0.
    ApplyPatch { base: PatchBase, patch: Digest, located: Vec<Located> },
    /// From now on, what touches an entry is told by the next verdict seal, also where it leaves no trace in the content.
    Watch,
    /// Makes the agent's private repository in `/workspace/.git`: the base commit and nothing else. `git_dir` is the
    /// mounted repository to take objects from; None makes a first commit from the files (a plain directory).
    InitPrivateGit { git_dir: Option<String>, commit: Option<String> },
    /// The binary patch between two states of the given paths, to fd 0; proves that applying it to the first gives
    /// exactly the second. Segments follow from fd 1 on and are numbered from 0.
    MakePatch { changes: Vec<PatchChange>, located: Vec<Located> },
    /// Parses changed files for the fence. Segments are numbered from 0.
    ScanFence { files: Vec<FenceFile>, located: Vec<Located> },
    /// Which other files some files of the base name, that a check runs. `goals` are words of the checks' commands.
    ReadCalled { files: Vec<CalledFile>, goals: Vec<String>, located: Vec<Located> },
    /// Reads what files of the base say of how the project is tested.
    ReadProject { files: Vec<ProjectFile>, located: Vec<Located> },
    /// Looks over changed files for what a reviewer wants to be told. Segments are numbered from 0.
    ScanHygiene { changes: Vec<PatchChange>, located: Vec<Located> },
    /// Writes the verifier's files below [`VERIFIER_DIR`], and makes [`REPORT_DIR`]`/NAME` for the job's user. What is
    /// there already is an error. `go_canary` adds to tests of Go packages that the tree holds.
    PlaceOverlay { files: Vec<OverlayFile>, report: String, go_canary: Option<GoCanary> },
    /// Reads a report that a runner wrote inside the room. One that is not there says nothing.
    ReadReport { path: String, format: ReportFormat },
    /// Reads a report that a runner wrote to its standard output, of which fd 0 holds all bytes from offset 0.
    ReadOutput { format: ReportFormat },
    /// One call of a file tool, arguments as the model sent them. `base` is what the guard holds an edit of that file
    /// against; without it, or when the call reaches another file (through a link), only the file on disk is known.
    Tool {
        call: ToolCall,
        bounds: ToolBounds,
        guard: WriteGuard,
        base: Option<BaseFile>,
        located: Vec<Located>,
    },
    /// The paths below HOME and the scratch paths that exist now: what a setup made. Each becomes a layer mount.
    ListSetupPaths { scratch: ScratchRules },
    /// Changes each of some sources a little, for a check to notice: at most `most` mutants, whose contents go to fd 0. Segments
    /// follow from fd 1 on and are numbered from 0.
    Mutate { files: Vec<MutateFile>, most: u32, located: Vec<Located> },
    /// What a reviewer is shown of a change, within bounds. Segments are numbered from 0.
    ReviewMaterial { changes: Vec<PatchChange>, located: Vec<Located> },
    /// Whether each quote stands in its content, byte for byte. Segments are numbered from 0.
    FindQuotes { quotes: Vec<Quote>, located: Vec<Located> },
    /// A digest over everything below absolute paths of the cell (names, modes, contents, link targets).
    HashPaths { paths: Vec<String> },
    /// What jobs can see besides the workspace and HOME and cannot change, and the layers at `layers`, by what `stat` says.
    SeeEnvironment { layers: Vec<String>, within: Millis },
}

/// What a patch is applied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from", deny_unknown_fields)]
pub enum PatchBase {
    /// A commit of the repository whose git directory is mounted at `git_dir`, by its whole id.
    Commit { git_dir: String, commit: String },
    /// Files whose contents lie in the passed segments.
    Files { entries: Vec<Entry> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchChange {
    pub path: TreePath,
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

/// A changed file that needs a parser: see `countersign-gates` for who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceFile {
    pub path: TreePath,
    pub kind: FenceKind,
    pub before: Option<Digest>,
    pub after: Option<Digest>,
    /// For `package.json`: words of the checks' commands, of which any may be the name of a script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceKind {
    /// `#[test]`, `#[cfg(test)]` and doc-test items of a Rust source file are compared.
    RustItems,
    CargoToml,
    PyprojectToml,
    SetupCfg,
    ToxIni,
    PackageJson,
    /// `tsconfig.json` and its like: where imports lead.
    TsConfig,
    GoMod,
    GoWork,
    /// Declarations of a Go source that decide for the tests of its package.
    GoItems,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceFinding {
    pub path: TreePath,
    pub verdict: FenceVerdict,
    /// The rule's name, such as `rust.test_item_changed`; never text of the file.
    pub rule: String,
    /// Names of items or keys, control characters escaped, at most 200 bytes.
    pub detail: String,
}

/// A file of the base that a check runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledFile {
    pub path: TreePath,
    pub kind: CalledKind,
    pub digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalledKind {
    Script,
    Makefile,
    PackageJson,
    /// Which packages of the tree a manifest names, and whether only for tests.
    CargoToml,
    NodeDependencies,
    Requirements,
    GoMod,
}

/// A word of such a file that may be a file's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledName {
    pub by: TreePath,
    pub text: String,
    /// The text is a pattern of the contract's glob language.
    pub wild: bool,
    pub how: CallHow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallHow {
    /// Read by the same shell.
    Sourced,
    /// By make.
    Included,
    /// By make, where it is there.
    IncludedIfThere,
    /// Executed, or given to an interpreter.
    Run,
    /// Named in any other way.
    Word,
    /// The text is a directory from the root: a package that tests need.
    TestDependency,
    /// One that the product needs.
    Dependency,
    /// A pattern of directories from the root: packages that are products of their own.
    Member,
}

/// A file of the base that says how a project is tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFile {
    pub path: TreePath,
    pub digest: Digest,
}

/// What such a file says. Texts are the file's own: hostile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mark")]
pub enum ProjectMark {
    /// `scripts.test` of `package.json`, at most 500 bytes, not the placeholder of `npm init`.
    NpmTest { script: String },
    /// pytest is configured or required.
    Pytest,
    /// A makefile has the target `test` or `check`.
    MakeTarget { target: String },
}

/// Something about a change that a reviewer wants to be told. It stops nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HygieneFinding {
    pub kind: HygieneKind,
    pub path: TreePath,
    /// Of the changed file, from 1.
    pub line: Option<u64>,
    /// In our words; names of scripts are the only thing of the file's, and those are of a fixed list.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HygieneKind {
    /// A key, token or password. Its value is never told.
    Secret,
    Lockfile,
    /// A file that a CI service reads.
    Ci,
    /// A file that something starts by itself.
    SelfStarting,
    LargeBinary,
    /// A commit of another repository.
    Submodule,
    /// A character that changes the direction of reading.
    Bidi,
    /// A character that cannot be seen.
    Invisible,
    /// A symbolic link that leads out of the tree.
    LinkOutside,
    /// A text too large to be looked into.
    NotScanned,
}

impl HygieneKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Lockfile => "lockfile",
            Self::Ci => "ci",
            Self::SelfStarting => "self_starting",
            Self::LargeBinary => "large_binary",
            Self::Submodule => "submodule",
            Self::Bidi => "bidi",
            Self::Invisible => "invisible",
            Self::LinkOutside => "link_outside",
            Self::NotScanned => "not_scanned",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceVerdict {
    Tampered,
    Planted,
    Unverifiable,
    /// Worth telling, stops nothing.
    Note,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportFormat {
    /// The lines of our own reporters: one JSON object for each test id.
    Lines,
    JunitXml,
    /// A directory: what our scripts for `cargo test` and the harness of each test program leave there.
    CargoTest,
    /// A directory: what our script for `go test` leaves there.
    GoTest,
}

/// A file that the verifier brings into a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayFile {
    /// Below [`VERIFIER_DIR`]: plain names behind `/`.
    pub path: String,
    pub content: String,
    pub executable: bool,
}

/// What is put into a test file of each Go package, for `go test -overlay`: the tree stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoCanary {
    /// Behind the package clause, on its line.
    pub imports: String,
    /// At the end of the file. `NUMBER` is one that no other file has.
    pub tests: String,
    /// Where `go` finds what is in place of what: a file below [`VERIFIER_DIR`].
    pub map: String,
}

/// What a runner reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// There is a report, and its beginning is understood.
    pub begun: bool,
    /// It is understood, and not cut before its end.
    pub complete: bool,
    /// Each test once, with the worst of its results.
    pub cases: Vec<TestCase>,
    /// Tests of ours that must fail.
    pub canaries: Vec<TestCase>,
    /// Files or groups of tests that the runner could not read, in its words.
    pub broken: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCase {
    pub id: String,
    pub status: TestStatus,
}

/// From good to bad: a skip hides a pass, a failure hides both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    Passed,
    Skipped,
    Failed,
    /// It could not be run to its end.
    Error,
}

/// A changed source whose changed lines may be changed further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutateFile {
    pub path: TreePath,
    pub language: MutantLanguage,
    pub before: Option<Digest>,
    pub after: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutantLanguage {
    Python,
    Rust,
    /// TypeScript too.
    JavaScript,
    Go,
}

/// A source with one small fault more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutant {
    pub path: TreePath,
    /// From 1.
    pub line: u32,
    pub kind: MutantKind,
    pub content: Digest,
    pub size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutantKind {
    /// A comparison says the opposite, or holds at its border.
    Comparison,
    /// A number is one more, a truth value the other.
    Constant,
    /// A function gives nothing back.
    EarlyReturn,
    /// A statement is gone.
    RemovedLine,
}

impl MutantKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Constant => "constant",
            Self::EarlyReturn => "early_return",
            Self::RemovedLine => "removed_line",
        }
    }
}

/// A text that somebody says a content holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    pub content: Digest,
    pub text: String,
}

/// A change as a reviewer is shown it. Hostile text throughout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Material {
    /// A unified diff. Files that are no text are only named.
    pub diff: String,
    pub diff_cut: bool,
    pub files: Vec<MaterialFile>,
    /// Changed files that are not among them.
    pub left_out: u64,
    /// At most 50.
    pub signals: Vec<Signal>,
}

/// A changed file as it is after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaterialFile {
    pub path: TreePath,
    /// Empty for a binary; what is no UTF-8 is replaced.
    pub text: String,
    pub cut: bool,
    pub binary: bool,
    /// Of the whole file.
    pub bytes: u64,
}

/// Something about a change that makes a reviewer look twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    pub kind: SignalKind,
    pub path: TreePath,
    /// From 1: of the file after the change, and for what is gone of the file before it.
    pub line: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalKind {
    AddedSkip,
    RemovedAssertion,
}

/// The file tools. `run`, `check` and `finish` are the engine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "tool", content = "args", deny_unknown_fields)]
pub enum ToolCall {
    ListFiles { path: Option<String>, depth: Option<u32> },
    ReadFile { path: String, from: Option<u64>, to: Option<u64> },
    Search { pattern: String, path: Option<String>, glob: Option<String> },
    EditFile { path: String, old: String, new: String, count: Option<u32> },
    WriteFile { path: String, content: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolBounds {
    /// Bytes of text that a result may hold.
    pub result_bytes: u64,
    /// Lines that a `read_file` without a range shows.
    pub read_lines: u64,
    pub list_entries: u64,
    pub search_matches: u64,
    /// Bytes that one write may hold.
    pub write_bytes: u64,
}

impl ToolBounds {
    pub const DEFAULT: Self = Self {
        result_bytes: 48 * 1024,
        read_lines: 400,
        list_entries: 400,
        search_matches: 200,
        write_bytes: 1 << 20,
    };
}

/// What the edit tools may touch; checked on the resolved path inside the cell, before anything is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteGuard {
    /// Empty: everything that is not protected.
    pub scope: Vec<String>,
    /// The first rule that means a path decides about it.
    pub protect: Vec<GuardRule>,
    /// Test items and runner keys in files that may otherwise be edited must stay as they are.
    pub fence: Vec<FenceKindGuard>,
    /// Rules that the contract allows to be broken.
    #[serde(default)]
    pub allow: Vec<AllowedRule>,
}

/// Paths that one rule of the fence protects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardRule {
    /// The rule's name.
    pub rule: String,
    /// Ends the sentence "this path is refused because …".
    pub why: String,
    pub globs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedRule {
    pub rule: String,
    /// None: everywhere.
    pub glob: Option<String>,
}

impl AllowedRule {
    /// Whether a rule may be broken at a path.
    #[must_use]
    pub fn allows(&self, rule: &str, path: &[u8]) -> bool {
        // A glob that cannot be used allows nothing.
        let means = |glob: &String| countersign_tree::Glob::new(glob).is_ok_and(|glob| glob.matches(path));
        self.rule == rule && self.glob.as_ref().is_none_or(means)
    }
}

/// A file as the base has it. Its content lies in the passed segments, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFile {
    pub path: TreePath,
    /// None: the base has no such file.
    pub content: Option<Digest>,
}

/// A mixed file of the base whose test items or runner keys an edit must leave alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceKindGuard {
    pub glob: String,
    pub kind: FenceKind,
    /// As in [`FenceFile`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
pub enum Reply {
    Hello {
        protocol: u32,
        version: String,
    },
    Imported(Imported),
    Resolved {
        commit: String,
    },
    Done,
    Sealed(Sealed),
    /// `bytes` were written to fd 0; `digest` is theirs.
    Patch {
        bytes: u64,
        digest: Digest,
    },
    /// What applying a patch changes of the base.
    Applied {
        delta: Delta,
        located: Vec<Located>,
    },
    Fence {
        findings: Vec<FenceFinding>,
    },
    Called {
        names: Vec<CalledName>,
    },
    Report(Report),
    Project {
        marks: Vec<ProjectMark>,
    },
    /// At most 200 findings; `more` were found besides.
    Hygiene {
        findings: Vec<HygieneFinding>,
        more: u64,
    },
    Mutants {
        mutants: Vec<Mutant>,
        located: Vec<Located>,
    },
    Material(Material),
    /// In the order of the quotes.
    Quotes {
        found: Vec<bool>,
    },
    Tool(ToolReply),
    Paths {
        paths: Vec<String>,
    },
    Hashed {
        digest: Digest,
        files: u64,
        bytes: u64,
    },
    /// None: the time was over.
    Environment {
        seen: Option<EnvironmentSeen>,
    },
    Error(Fault),
}

/// What the files say that jobs can see and cannot change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentSeen {
    pub digest: Digest,
    /// When the latest of them was changed, since the epoch.
    pub newest: Millis,
    pub files: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The commit that `rev` named; None for a plain directory.
    pub commit: Option<String>,
    /// For `ImportDirty`: paths that differ from the commit.
    pub dirty: Vec<TreePath>,
    pub entries: Vec<Entry>,
    /// What was written to fd 0.
    pub located: Vec<Located>,
    /// Files that were left out, with the reason (a FIFO, an unreadable file, …); at most 100.
    pub skipped: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The digest of the whole manifest as the guest computed it; the host checks it against its own.
    pub tree: Digest,
    pub delta: Delta,
    pub located: Vec<Located>,
    /// Paths that cannot be entries: a nested `.git`, a FIFO, a socket, a device, a name that git cannot carry.
    pub unsealable: Vec<String>,
    /// Mode bits that were normalised, empty directories that were dropped; at most 100 lines.
    pub normalised: Vec<String>,
    /// After `Watch`, for a verdict seal: entries with the content that they had, and directories, that were touched.
    #[serde(default)]
    pub touched: Vec<TreePath>,
    /// Scratch that is not delivered: top paths and their bytes; at most 100.
    pub scratch: Vec<(String, u64)>,
}

/// What a file tool says to the model. `wrote` tells whether the tree may have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReply {
    pub ok: bool,
    pub text: String,
    pub wrote: bool,
    /// Refused by scope or protection: costs nothing.
    pub refused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The repository cannot be used: no such revision, missing objects, submodules, sha256, partial clone, …
    Repository,
    /// What the setup left behind cannot be mounted as layers.
    Environment,
    /// The work that is to be judged cannot be taken: its patch does not apply, or makes what no tree can hold.
    Candidate,
    /// The disk is full.
    DiskFull,
    /// The patch did not reproduce the final tree: a bug of ours.
    PatchMismatch,
    BadRequest,
    Io,
}
