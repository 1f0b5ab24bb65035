//! What the controller and the launcher (`jail`) say to each other: one JSON frame per message, each behind a 32-bit
//! big-endian length, over a Unix stream socket that is the launcher's standard input.
//!
//! The first frame is a `CellLaunch` and carries one file descriptor (`SCM_RIGHTS`, with its first byte): the guest's
//! end of the guest channel. The answer is `Ready` or `Unavailable`; then `CellRequest`s are served side by side. The
//! launcher and everything in the cell end when the controller's end of the socket is closed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use serde::{Deserialize, Serialize};

use crate::{CellId, JobId, Millis, TierProperties, TierProperty};

/// Raised whenever a message changes its meaning. A launcher with another number is refused.
pub const CELL_PROTOCOL: u32 = 3;

/// The longest frame in bytes that either side accepts, here and on the guest's channel.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

/// The first frame from the controller: the cell to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellLaunch {
    pub protocol: u32,
    pub cell: CellId,
    /// A directory of the host, private to this cell. The launcher makes `workspace/` and `home/` in it, owned by the
    /// cell's job user, and mounts them at `/workspace` and `/home/agent`.
    pub state_dir: PathBuf,
    /// Mounted in this order, after the system layer.
    pub mounts: Vec<Mount>,
    /// False: a network namespace with only a loopback device. True: the host's network.
    pub host_network: bool,
    /// The guest binary on the host. It runs as the cell's mapped root with its channel as standard input.
    pub guest: PathBuf,
    /// Bytes that `/tmp` and `/dev/shm` may hold together, each.
    pub tmp_limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    pub kind: MountKind,
    /// A path of the host.
    pub source: PathBuf,
    /// An absolute path in the cell.
    pub target: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountKind {
    /// A read-only layer that any job may read: toolchains, dependency layers, declared caches. `nosuid`, `nodev`.
    ReadOnly,
    /// Read-only, and only the cell's mapped root may read it (`target`'s parent is 0700 for it): the user's git
    /// directory or source directory. Files that only their owner may read are readable for mapped root here.
    RootOnly,
}

/// One command, in a pid namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    pub job: JobId,
    /// The program is `argv[0]`, looked up in the job's own `PATH` when it holds no `/`.
    pub argv: Vec<String>,
    /// Absolute, in the cell.
    pub cwd: String,
    /// The whole environment. Nothing is inherited.
    pub env: BTreeMap<String, String>,
    pub run_as: RunAs,
    pub limits: JobLimits,
    /// The whole of standard input; the frame bounds it. Empty: at its end at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "base64_bytes")]
    pub stdin: Vec<u8>,
}

/// Which of the cell's two users a job runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunAs {
    /// Uid 1000 of the cell, without capabilities: everything that the agent or a check asks for.
    User,
    /// Uid 0 of the cell, never of the host: our own read-only work on files that only root of the cell may read.
    Root,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLimits {
    /// Wall time from start to the kill of the whole tree.
    pub wall: Millis,
    /// Bytes kept from the beginning of each stream.
    pub output_head: u64,
    /// Bytes kept from the end of each stream.
    pub output_tail: u64,
    /// Bytes that both streams may produce together before the job is killed as `limit: output`. None: no bound.
    pub output_total: Option<u64>,
    /// Best effort where the host gives us no cgroup; what held is in the receipt.
    pub memory: Option<u64>,
    pub processes: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum JobEnd {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    Limit {
        which: LimitHit,
    },
    Canceled,
    /// The program could not be started (`errno` of exec, chdir, …).
    NotStarted {
        errno: i32,
        what: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    Timeout,
    Oom,
    Pids,
    Output,
    Disk,
}

/// Head and tail of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    #[serde(with = "base64_bytes")]
    pub head: Vec<u8>,
    /// Empty when everything fitted into `head`.
    #[serde(with = "base64_bytes")]
    pub tail: Vec<u8>,
    /// Bytes between head and tail that were counted and not kept.
    pub omitted: u64,
    /// All bytes that the stream produced.
    pub total: u64,
}

/// Written after the last process of the job is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReceipt {
    pub job: JobId,
    #[serde(flatten)]
    pub end: JobEnd,
    pub stdout: Captured,
    pub stderr: Captured,
    pub wall: Millis,
    /// Processes that were still alive when the first one ended, and were killed.
    pub killed: u32,
}

/// What the canary inside a cell saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub properties: TierProperties,
    /// For each property: what was seen, or why it does not hold.
    pub notes: BTreeMap<TierProperty, String>,
    /// Landlock is an extra. None: not available.
    pub landlock_abi: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request", deny_unknown_fields)]
pub enum CellRequest {
    Run(JobSpec),
    Cancel {
        job: JobId,
    },
    /// Kill everything. With `delete`, also remove `state_dir`'s contents, as mapped root.
    End {
        delete: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "response")]
pub enum CellResponse {
    /// The cell stands, the guest runs and the canary has looked at everything but the limits of jobs.
    Ready {
        observation: Observation,
    },
    /// The canary has looked again as a job that joined its control groups: what `Ready` said, with the limits. Comes
    /// once, after `Ready` and in its own time (the kernel may take 20 ms to move a process into a group).
    Limits {
        observation: Observation,
    },
    /// The cell could not be made; nothing runs. `fix` is what a person can do, `missing` what the tier demands and
    /// was not seen.
    Unavailable {
        why: String,
        fix: String,
        missing: TierProperties,
    },
    Finished {
        receipt: JobReceipt,
    },
    /// The guest ended. How, and the end of what it wrote to standard error, control characters escaped.
    GuestDied {
        what: String,
    },
    /// `survivors` is the number of processes of the cell that could not be shown to be dead.
    Ended {
        survivors: u32,
    },
    /// A request that could not be understood or served.
    Failed {
        what: String,
    },
}

mod base64_bytes {
    use super::*;
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        base64::engine::general_purpose::STANDARD.decode(text).map_err(D::Error::custom)
    }
}
